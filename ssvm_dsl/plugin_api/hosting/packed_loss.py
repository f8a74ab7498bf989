"""Losses of plug-ins are written for one example; the host asks for many at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.errors import PluginError
from ssvm_dsl.plugin_api.specs import LossSpec


class PackedLoss(Protocol):
    """A loss of many examples: (true states, number of states, first variable of each example, options) -> prices."""

    def __call__(self, truth: I32, n_states: int, ptr: I64, **options: Any) -> Any:
        """Return the price of each state of each variable, ``shape (ptr[-1], n_states)``."""


def packed_loss(spec: LossSpec, function: Callable[..., Any]) -> PackedLoss:
    """Return the function of a loss for many examples; one that is written for one example is called for each.

    Parameters
    ----------
    spec : LossSpec
    function : callable
        What its factory names.
    """
    if spec.packed:
        return function

    def prices(truth: I32, n_states: int, ptr: I64, **options: Any) -> Any:
        out = np.zeros((len(truth), n_states))
        for i, (lo, hi) in enumerate(pairwise(ptr.tolist())):
            found = function(truth[lo:hi], n_states, **options)
            array = np.asarray(found)
            if array.shape != (hi - lo, n_states) or array.dtype.kind not in "biuf":
                what = f"loss '{spec.name}' of {hi - lo} variables (example {i}): expected an array of real numbers"
                got = f"{array.dtype} of shape {array.shape}" if array.dtype.kind != "O" else type(found).__name__
                raise PluginError(f"{what}, shape {(hi - lo, n_states)}, got {got}")
            out[lo:hi] = array
        return out

    return prices
