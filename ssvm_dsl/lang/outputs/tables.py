"""Tables of scores of the factors of a target: whether there can be one, and where its joint states are in it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.outputs.labels import MAX_ARITY, Target


def table_mistakes(target: Target) -> Iterator[str]:
    """Yield why there is no table of scores over the variables of a factor."""
    if target.arity > MAX_ARITY:
        text = f"{target!r}: a set has at most {MAX_ARITY} positions, got one of {target.arity}"
        yield f"{text} (any number with form=POTTS, nonneg=True)"
    elif prod(target.cards) > MOST:
        yield f"{target!r}: a factor has more than {MOST} joint states; no table can hold them"


def table_states(target: Target) -> range:
    """Return which joint states of ``target.table_cards`` those of ``target.cards`` are; others score nothing."""
    n = prod(target.cards)
    if target.kind == "spans":
        return range(1, n + 1)
    return range(1, 2 * n, 2) if target.where_segments_begin else range(n)


def of_tables(target: Target) -> bool:
    """Return whether factors of a target have tables, and not scores of states."""
    return len(target.table_cards) > 1 or target.kind == "span"


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
