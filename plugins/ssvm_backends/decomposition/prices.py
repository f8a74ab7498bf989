"""Prices as they are kept from one question about an example to the next one, in training.

Weights change little from call to call, and so do the best prices and the lengths of steps.  Of an example these are
its step, then the prices of those parts that have variables of it, part by part.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64, Bools, Messages, Prices, Program, pointers

#: Steps that were kept are taken to be within this factor of the usual ones.
FURTHEST = 1e3


class PriceStore:
    """Reads and writes the prices of a program's examples.

    Parameters
    ----------
    program : Program
    member : ndarray of bool, shape (K, V)
        Which variables are in a part.
    """

    def __init__(self, program: Program, member: Bools) -> None:
        self.program, self.member = program, member

    def places(self, i: int) -> tuple[slice, I64, Bools]:
        """Return the states of an example, the parts that it has, and which states these have."""
        variables = slice(*self.program.var_ptr[i : i + 2].tolist())
        states = slice(*self.program.state_ptr[self.program.var_ptr[i : i + 2]].tolist())
        mine = self.member[:, variables]
        parts = np.flatnonzero(mine.any(axis=1))
        return states, parts, np.repeat(mine[parts], self.program.card[variables], axis=1)

    def read(self, prices: Messages, center: F64, step: F64) -> None:
        """Write prices and steps of the examples that there are any of; those of other parts than today's are left out.

        Parameters
        ----------
        prices : Messages
        center : ndarray of float64, shape (K, S)
            Written; the prices of a state sum to zero over the parts that have it.
        step : ndarray of float64, shape (B,)
            Written.
        """
        for k, i in enumerate(prices.ids.tolist()):
            values = prices.values[prices.ptr[k] : prices.ptr[k + 1]]
            states, parts, there = self.places(i)
            if len(values) != 1 + there.size or not np.isfinite(values).all():
                continue
            mine = np.where(there, values[1:].reshape(there.shape), 0.0)
            mine -= there * (mine.sum(axis=0) / np.maximum(there.sum(axis=0), 1))
            center[parts, states] = mine
            step[i] = np.clip(values[0], step[i] / FURTHEST, step[i] * FURTHEST)

    def written(self, ids: I64, center: F64, step: F64) -> Prices:
        """Return the prices and steps of some examples."""
        rows = []
        for i in ids.tolist():
            states, parts, _ = self.places(i)
            rows.append(np.concatenate([step[i : i + 1], center[parts, states].ravel()]))
        ptr = pointers(np.array([len(one) for one in rows], dtype=np.int64))
        return Prices(ids.copy(), ptr, np.concatenate([np.zeros(0), *rows]))
