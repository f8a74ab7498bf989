"""The pair of labellings of a step of ``smo``: their differences, the weight that may move between them, and the moves.

See :mod:`ssvm_trainers.dual.smo.smo_kernels` for how the pair is found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I8, I32, I64
from ssvm_dsl.kernels import N_CONFIGS, NUMBER, POOL, borrow, factor_add, factor_config, factor_dot, factors_of, njit
from ssvm_trainers.shared.arrays import Fixed, Work
from ssvm_trainers.shared.products import Shrinkage, clear_entries, shrink_entries


class Rooted(NamedTuple):
    """The graphs of all examples, rooted, and where their marginals are.

    Parameters
    ----------
    order : ndarray of int32, shape (V,)
        Elimination order, as in :class:`~ssvm_dsl.ir.Program`.
    parent : ndarray of int32, shape (V,)
        Parent of each variable, -1 at the roots.
    entry_ptr : ndarray of int64, shape (V + 1,)
        Factors on the edge from a variable to its parent.
    entry_map, entry_factor : ndarray of int64
        The feature map of each, and its number among the factors of the map's shapes.
    entry_flip : ndarray of int64
        1 where its first variable is the parent.
    base : ndarray of int64, shape (M,)
        Where the marginals of each map's factors start; -1 for maps of single variables, whose marginals come first,
        state by state.
    """

    order: I32
    parent: I32
    entry_ptr: I64
    entry_map: I64
    entry_factor: I64
    entry_flip: I64
    base: I64


class SMOWorkspace(NamedTuple):
    """Work space for one example of L variables with at most c states in their supports.

    Parameters
    ----------
    n_open : ndarray of int32, shape (L,)
        States in the support of each variable.
    states : ndarray of int32, shape (L * c,)
        These states, from ``c * (v - lo)``; so are the next five.
    mass, score, high, low : ndarray of float64, shape (L * c,)
        Marginal and score of each, the highest and the lowest score of a labelling of its subtree.
    weight, value : ndarray of float64, shape (c * c,)
        Marginals and scores of joint states on one edge.
    pick_high, pick_low : ndarray of int32, shape (L * c,)
        Where that has the variable itself, for each state of its parent (at roots: in the first place).
    place : ndarray of int32, shape (L,)
        Which of its states each variable has, on the way down.
    pair : ndarray of int32, shape (2 * L,)
        The labellings y that takes and y' that gives.
    which, factor, toward, away : ndarray of int32
        Where they differ: feature map, factor of the example's shape, joint states in y and y'.
    example : ndarray of int64, shape (1,)
        Whose these are.
    """

    n_open: I32
    states: I32
    mass: F64
    score: F64
    high: F64
    low: F64
    weight: F64
    value: F64
    pick_high: I32
    pick_low: I32
    place: I32
    pair: I32
    which: I32
    factor: I32
    toward: I32
    away: I32
    example: I64


@njit(cache=True, nogil=True, borrowed=True)
def list_differences(fixed: Fixed, space: SMOWorkspace, i: int) -> int:
    """List the factors in whose joint states the labellings of the pair differ; return how many there are."""
    maps = borrow(fixed.maps)
    pair, which, factor, toward, away = (
        borrow(space.pair), borrow(space.which), borrow(space.factor), borrow(space.toward), borrow(space.away)
    )  # fmt: skip
    lo, n = fixed.var_ptr[i], 0
    size, space.example[0] = fixed.var_ptr[i + 1] - lo, i
    for m in range(len(maps.desc)):
        first, last = factors_of(maps, m, i)
        for f in range(first, last):
            y = factor_config(maps, m, f, pair, 0)
            z = factor_config(maps, m, f, pair, size)
            if y != z:
                which[n], factor[n], toward[n], away[n] = m, f, y, z
                n += 1
    return n


@njit(cache=True, nogil=True, borrowed=True)
def most_to_give(fixed: Fixed, trees: Rooted, space: SMOWorkspace, mu: F64, i: int, n: int) -> float:
    """Return how much weight may move between the pair: the least marginal that only the giving labelling has.

    Parameters
    ----------
    fixed, trees, mu, i
        As for :func:`~ssvm_trainers.dual.smo.smo_kernels.visit`; read only.
    space : SMOWorkspace
        The pair, and the n differences that :func:`list_differences` found; read only.
    n : int
    """
    desc, longs, pair = borrow(fixed.maps.desc), borrow(fixed.maps.longs), borrow(space.pair)
    mu, lo = borrow(mu), fixed.var_ptr[i]
    size, least = fixed.var_ptr[i + 1] - lo, 1.0
    for v in range(size):
        if pair[v] != pair[size + v]:
            least = min(least, mu[fixed.state_ptr[lo + v] + pair[size + v]])
    for d in range(n):
        m = space.which[d]
        if desc[m, POOL] >= 0:
            f = longs[desc[m, NUMBER] + i] + space.factor[d]
            least = min(least, mu[trees.base[m] + f * desc[m, N_CONFIGS] + space.away[d]])
    return least


@njit(cache=True, nogil=True, borrowed=True)
def give(fixed: Fixed, trees: Rooted, space: SMOWorkspace, mu: F64, i: int, n: int, amount: float) -> None:
    """Move weight from the second labelling of the pair to the first.

    Parameters
    ----------
    fixed, trees, space, i, n
        As for :func:`most_to_give`; read only.
    mu : ndarray of float64
        Changed in place: states that only the first has gain the amount, those that only the second has lose it.
    amount : float
        A multiple of :data:`~ssvm_trainers.dual.smo.smo_kernels.GRID`, at most what :func:`most_to_give` returns.
    """
    desc, longs, pair = borrow(fixed.maps.desc), borrow(fixed.maps.longs), borrow(space.pair)
    mu, lo = borrow(mu), fixed.var_ptr[i]
    size = fixed.var_ptr[i + 1] - lo
    for v in range(size):
        if pair[v] != pair[size + v]:
            mu[fixed.state_ptr[lo + v] + pair[v]] += amount
            mu[fixed.state_ptr[lo + v] + pair[size + v]] -= amount
    for d in range(n):
        m = space.which[d]
        if desc[m, POOL] >= 0:
            at = trees.base[m] + (longs[desc[m, NUMBER] + i] + space.factor[d]) * desc[m, N_CONFIGS]
            mu[at + space.toward[d]] += amount
            mu[at + space.away[d]] -= amount


@njit(cache=True, nogil=True, borrowed=True)
def difference_product(fixed: Fixed, space: SMOWorkspace, n: int, w: F64) -> float:
    """Return ``w . (Phi(x, y) - Phi(x, y'))`` of the pair y, y' whose n differences are listed."""
    maps = borrow(fixed.maps)
    w, total, i = borrow(w), 0.0, space.example[0]
    for d in range(n):
        m, f = np.int64(space.which[d]), np.int64(space.factor[d])
        total += factor_dot(maps, m, i, f, np.int64(space.toward[d]), w)
        total -= factor_dot(maps, m, i, f, np.int64(space.away[d]), w)
    return total


@njit(cache=True, nogil=True, borrowed=True)
def add_difference(
    fixed: Fixed, bounded: I8, space: SMOWorkspace, n: int, coef: float, w: F64, free: F64
) -> None:  # fmt: skip
    """Add ``coef metric_m (Phi(x, y) - Phi(x, y'))`` to w; weights of ``bounded`` maps through ``free``.

    Parameters
    ----------
    fixed, space, n
        As for :func:`most_to_give`; read only.
    bounded : ndarray of int8, shape (M,)
        Maps whose weights have a lower bound; zeros where the target is no weights.
    coef : float
    w, free : ndarray of float64, shape (dim,)
        Changed in place; may be one array where no map is bounded.
    """
    maps = borrow(fixed.maps)
    w, free, i = borrow(w), borrow(free), space.example[0]
    for d in range(n):
        m, f = np.int64(space.which[d]), np.int64(space.factor[d])
        target, factor = free if bounded[m] else w, coef * fixed.metric[m]
        for config, signed in ((np.int64(space.toward[d]), factor), (np.int64(space.away[d]), -factor)):
            factor_add(maps, m, i, f, config, signed, target)
            if bounded[m]:
                shrink_entries(maps, m, i, f, config, free, w, Shrinkage(fixed.lower[m], fixed.threshold))


@njit(cache=True, nogil=True, borrowed=True)
def curvature(fixed: Fixed, space: SMOWorkspace, work: Work, n: int) -> float:
    """Return ``|Phi(x, y) - Phi(x, y')|^2`` of the pair in the metric of the regulariser."""
    direction, maps = work.direction, borrow(fixed.maps)
    add_difference(fixed, work.unbounded, space, n, 1.0, direction, direction)
    total = difference_product(fixed, space, n, direction)
    i = space.example[0]
    for d in range(n):
        m, f = np.int64(space.which[d]), np.int64(space.factor[d])
        clear_entries(maps, m, i, f, np.int64(space.toward[d]), direction)
        clear_entries(maps, m, i, f, np.int64(space.away[d]), direction)
    return total
