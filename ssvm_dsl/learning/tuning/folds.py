"""Folds of examples: which are trained on, and which are left out to be predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.errors import DataError, OptionError

#: Positions of the training examples, and of those that are left out.
Fold = tuple[I64, I64]


def make_folds(n_examples: int, n_folds: int, groups: Any = None, random_state: int | None = None) -> list[Fold]:
    """Return (training, test) positions of each fold.

    Parameters
    ----------
    n_examples, n_folds : int
    groups : sequence, shape (n_examples,), optional
        Examples of one group (a writer, a document) are in one fold, so that none is predicted by a model that has seen
        its kin; groups are dealt out so that folds are of about one size.
    random_state : int, optional
        Shuffles the examples; by default a fold is a run of examples in the given order.

    Raises
    ------
    OptionError
        There are fewer examples, or groups, than folds; groups are not shuffled.
    DataError
        Groups are not one for each example.
    """
    from sklearn.model_selection import GroupKFold, KFold

    most, of_what = n_examples, "examples"
    if groups is not None:
        groups, most, of_what = _numbered(groups, n_examples), len(set(groups)), "groups"
        if random_state is not None:
            raise OptionError("groups are dealt out by their sizes, not shuffled; leave random_state out")
    whole = isinstance(n_folds, int | np.integer) and not isinstance(n_folds, bool)
    if not whole or not 2 <= n_folds <= most:
        raise OptionError(f"folds: an int from 2 to the number of {of_what}, {most}, got {n_folds!r}")
    seeded = isinstance(random_state, int | np.integer) and 0 <= random_state < 2**32
    if random_state is not None and not seeded:
        raise OptionError(f"random_state must be None or an int from 0 to 2^32 - 1, got {random_state!r}")
    positions = np.arange(n_examples)
    if groups is not None:
        return list(GroupKFold(int(n_folds)).split(positions, groups=groups))
    return list(KFold(int(n_folds), shuffle=random_state is not None, random_state=random_state).split(positions))


def _numbered(groups: Any, n_examples: int) -> list[int]:
    """Return the number of each example's group."""
    expected = f"a group for each of {n_examples} examples"
    if isinstance(groups, str) or not hasattr(groups, "__len__"):
        raise DataError("groups", expected=expected, found=repr(groups))
    named = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if len(named) != n_examples:
        raise DataError("groups", expected=expected, found=f"{len(named)}")
    numbers: dict[Any, int] = {}
    try:
        return [numbers.setdefault(one, len(numbers)) for one in named]
    except TypeError as err:
        raise DataError("groups", expected="names or numbers of groups", found=str(err)) from err


def size_of(values: Sequence[Any]) -> int:
    """Return the number of examples of a list, an array or a sparse matrix."""
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def part_of(values: Any, positions: I64) -> Any:
    """Return some examples of a list, an array or a sparse matrix."""
    if hasattr(values, "shape"):
        return (values.tocsr() if hasattr(values, "tocsr") else values)[positions]
    return [values[i] for i in positions.tolist()]
