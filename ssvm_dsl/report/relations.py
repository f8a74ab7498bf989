"""Predicted relations as people read them: clusters of positions, and positions in order."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import DataError


@checked_call
def clusters(same: ArrayLike, related: Any = 1) -> list[list[int]]:
    """Return the clusters that a relation of pairs describes.

    Parameters
    ----------
    same : array_like, shape (n, n)
        One prediction (or truth) of a label with ``Equivalence``; masked entries say nothing.
    related : class name
        The class of pairs that are together.

    Returns
    -------
    list of list of int
        The positions of each cluster in increasing order, the cluster of the smallest position first.

    Raises
    ------
    DataError
        It is no square array, or a pair is not together although other pairs join its positions.

    Examples
    --------
    >>> clusters(svm.predict([x])[0])
    [[0, 3], [1, 2, 5], [4]]
    """
    true, false = _pairs(same, related, "clusters")
    cluster, n = np.arange(len(true)), len(true)
    for i, j in np.argwhere(true).tolist():
        cluster[cluster == max(cluster[i], cluster[j])] = min(cluster[i], cluster[j])
    wrong = [(i, j) for i, j in np.argwhere(false).tolist() if cluster[i] == cluster[j] and i != j]
    if wrong:
        i, j = wrong[0]
        expected = "pairs within clusters together, others not"
        raise DataError("clusters", expected=expected, found=f"{i} and {j} apart, and pairs that join them")
    return [np.flatnonzero(cluster == c).tolist() for c in range(n) if cluster[c] == c]


@checked_call
def linear_order(before: ArrayLike, related: Any = 1) -> list[int]:
    """Return the positions in an order that a relation of pairs describes.

    Where pairs are masked, several orders may agree with the others; one of them is returned.

    Parameters
    ----------
    before : array_like, shape (n, n)
        One prediction (or truth) of a label with ``LinearOrder``; masked entries say nothing.
    related : class name
        The class of pairs whose first position comes first.

    Returns
    -------
    list of int

    Raises
    ------
    DataError
        It is no square array, or no order agrees with it.

    Examples
    --------
    >>> linear_order(svm.predict([x])[0])
    [4, 0, 2, 1, 3]
    """
    true, false = _pairs(before, related, "linear_order")
    behind = {k: set(np.flatnonzero(true[:, k] | false[k]).tolist()) - {k} for k in range(len(true))}
    try:
        return list(TopologicalSorter(behind).static_order())
    except CycleError as err:
        found = " before ".join(map(str, err.args[1]))
        raise DataError("linear_order", expected="pairs that some order agrees with", found=found) from err


def _pairs(relation: ArrayLike, related: Any, what: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which pairs are related, and which are not; masked ones are neither.

    Raises
    ------
    DataError
    """
    try:
        array = np.ma.masked_array(relation)
    except (TypeError, ValueError) as err:
        raise DataError(what, expected="a square array of pairs", found=f"{type(relation).__name__}") from err
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise DataError(what, expected="a square array of pairs", found=f"shape {array.shape}")
    there = ~np.ma.getmaskarray(array)
    equal = np.asarray(array.data == related)
    return there & equal, there & ~equal
