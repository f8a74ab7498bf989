"""Which states are open: masks, clamps and unary scores of ``-inf`` in one place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import Program

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]


def masked_node(program: Program, node: F64, clamp: I32 | None) -> F64:
    """Return unary scores with ``-inf`` at states that masks and clamps rule out (``node`` itself without them)."""
    allowed = program.allowed
    if allowed is None and clamp is None:
        return node
    keep = np.ones(len(node), dtype=bool) if allowed is None else allowed.copy()
    if clamp is not None:
        fixed = np.flatnonzero(clamp >= 0)
        rows = np.repeat(clamp >= 0, program.card)
        chosen = np.zeros(len(node), dtype=bool)
        chosen[program.state_ptr[fixed] + clamp[fixed]] = True
        keep &= ~rows | chosen
    return np.where(keep, node, -np.inf)
