"""Scores of joint states that no weight multiplies, in compiled kernels: :class:`~ssvm_dsl.kernels.flat.FixedTables`.

A trainer that calls a compiled oracle writes the tables of an example into the pool before the call, and adds them to
the score and to the loss of the labelling that it found.
"""

from __future__ import annotations

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import MEMBERS, OFFSET, PLACE, SIZE, SLOT, FixedTables
from ssvm_dsl.kernels.scoring import span_state


@njit(cache=True, nogil=True, borrowed=True)
def fill_tables(tables: FixedTables, i: int, pool: F64) -> None:
    """Write the tables of example i to ``pool``."""
    factors, scale, values = tables.factors, tables.scale, tables.values
    for f in range(tables.ptr[2 * i], tables.ptr[2 * i + 1]):
        to, at = factors[f, PLACE], factors[f, OFFSET]
        for c in range(factors[f, SIZE]):
            pool[to + c] = scale[f] * values[at + c]


@njit(cache=True, nogil=True, borrowed=True)
def tables_score(tables: FixedTables, first: int, last: int, labels: I32) -> float:
    """Return the score of factors ``first:last`` under the ``labels`` of their example."""
    factors, slots, total = tables.factors, tables.slots, 0.0
    for f in range(first, last):
        at = factors[f, OFFSET]
        if factors[f, MEMBERS] < 0:
            k = factors[f, SLOT]
            state = span_state(slots[k, 0], slots[k + 1, 0], slots[k + 2, 0], slots[k + 3, 0], labels, 0)
            total += tables.scale[f] * tables.values[at + state] if state >= 0 else 0.0
            continue
        for k in range(factors[f, SLOT], factors[f, SLOT] + factors[f, MEMBERS]):
            at += labels[slots[k, 0]] * slots[k, 1]
        total += tables.scale[f] * tables.values[at]
    return total
