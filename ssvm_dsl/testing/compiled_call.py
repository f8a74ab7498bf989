"""Calls a compiled oracle the way trainers do; the only module of this package that needs numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ssvm_dsl.ir import Program, Theta
from ssvm_dsl.plugin_api import CompiledOracle

I32 = NDArray[np.int32]


def call_oracle(oracle: CompiledOracle, program: Program, theta: Theta, example: int) -> tuple[I32, float]:
    """Return the labels a compiled oracle writes for an example, and the score it returns (constant added)."""
    node = theta.node if program.allowed is None else np.where(program.allowed, theta.node, -np.inf)
    labels = np.full(int(np.diff(program.var_ptr)[example]), -1, dtype=np.int32)
    work = np.full(oracle.work_size, np.nan)
    score = _call(oracle.function, oracle.ints, oracle.longs, example, theta.pool, node, labels, work)
    return labels, float(score) + float(theta.const[example])


@njit
def _call(function: Any, ints: Any, longs: Any, example: int, pool: Any, node: Any, labels: Any, work: Any) -> Any:
    return function(ints, longs, example, pool, node, labels, work)
