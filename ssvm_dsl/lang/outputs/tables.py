"""Where the joint states that a target scores are in the tables of its factors: most are those tables, some a part."""

from __future__ import annotations

from math import prod

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.lang.outputs.labels import Target


def table_states(target: Target) -> range:
    """Return which joint states of ``target.table_cards`` those of ``target.cards`` are; others score nothing."""
    n = prod(target.cards)
    if target.kind == "spans":
        return range(1, n + 1)
    return range(1, 2 * n, 2) if target.where_segments_begin else range(n)


def in_tables(target: Target, values: F64) -> F64:
    """Return rows of numbers of joint states as rows of tables, 0 where they score nothing.

    Parameters
    ----------
    target : Target
    values : ndarray of float64, shape (n, prod(target.cards))

    Returns
    -------
    ndarray of float64, shape (n, prod(target.table_cards))
    """
    out = np.zeros((len(values), prod(target.table_cards)))
    out[:, table_states(target)] = values
    return out
