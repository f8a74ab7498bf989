"""Compiled products with planes that are vectors of marginals: values at weights, and moves of weights along them.

Such a plane has a number for each score of its example: first the states of its variables, then the joint states of its
factors, group by group (:class:`~ssvm_trainers.planes.cache.Fractional`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I8
from ssvm_dsl.kernels import (
    N_CONFIGS,
    SCOPE,
    FlatMaps,
    ScoreSpace,
    StateScores,
    borrow,
    factor_add,
    factors_of,
    njit,
    score_example,
)
from ssvm_trainers.planes.cache import Cache, Entries, Fractional
from ssvm_trainers.shared.arrays import Fixed, Work
from ssvm_trainers.shared.products import Shrinkage, clear_entries, shrink_entries


class MoveRule(NamedTuple):
    """How weights move along features.

    Parameters
    ----------
    metric : ndarray of float64, shape (M,)
        The factor of each map's entries.
    bounded : ndarray of int8, shape (M,)
        Maps that move free weights, and have ``w = shrunk(free)``; zeros where w is no weights.
    lower : ndarray of float64, shape (M,)
        Lower bound of each map's weights.
    threshold : float
        ``l1 / lam``.
    """

    metric: F64
    bounded: I8
    lower: F64
    threshold: float


@njit(cache=True, nogil=True)
def move(maps: FlatMaps, entries: Entries, rule: MoveRule, i: int, delta: F64, w: F64, free: F64, clear: bool) -> None:
    """Add ``metric_m Phi' delta`` to w, map by map, or set all weights it touches to zero.

    Parameters
    ----------
    maps, entries, rule : FlatMaps, Entries, MoveRule
        Read only.
    i : int
        The example.
    delta : ndarray of float64
        A number for each entry of the example, as in a plane; read only.  Where it is 0, nothing is touched.
    w, free : ndarray of float64, shape (dim,)
        Changed in place; may be one array where no map is bounded.
    clear : bool
        Whether to set ``w = 0`` at the features of ``delta``, which must be those that were added.
    """
    maps = borrow(maps)
    desc, ints = maps.desc, maps.ints
    state_ptr, delta, w, free = borrow(entries.state_ptr), borrow(delta), borrow(w), borrow(free)
    metric, bounded, lower, threshold = rule
    zero = state_ptr[entries.var_ptr[i]]
    for m in range(len(desc)):
        n, start = desc[m, N_CONFIGS], entries.first[m, i]
        lo, hi = factors_of(maps, m, i)
        target = free if bounded[m] else w
        for f in range(lo, hi):
            at = state_ptr[entries.var_ptr[i] + ints[desc[m, SCOPE] + f]] - zero if start < 0 else start + (f - lo) * n
            for c in range(n):
                if delta[at + c] == 0.0:
                    continue
                if clear:
                    clear_entries(maps, m, i, f, c, w)
                else:
                    factor_add(maps, m, i, f, c, delta[at + c] * metric[m], target)
                    if bounded[m]:
                        shrink_entries(maps, m, i, f, c, free, w, Shrinkage(lower[m], threshold))


@njit(cache=True, nogil=True, borrowed=True)
def fractional_dots(
    fixed: Fixed, cache: Cache, fractional: Fractional, work: Work, i: int, n: int, w: F64, out: F64
) -> int:
    """Write ``w . psi_k`` of the first n planes of example i: its scores at w, times each plane.

    Parameters
    ----------
    fixed, cache : Fixed, Cache
        Read only; one plane may be behind those counted in ``cache.n_planes``.
    fractional : Fractional
        Its scores are written.
    work : Work
        Read only.
    i, n : int
        The example, and how many planes.
    w : ndarray of float64, shape (dim,)
        Read only.
    out : ndarray of float64, shape (at least n,)
        Written.

    Returns
    -------
    int
        The cost, in multiply-adds.
    """
    entries, flat, values = fractional.entries, fractional.flat, cache.values
    states = StateScores(entries.var_ptr, entries.state_ptr, fractional.nothing)
    space = ScoreSpace(fractional.node, fractional.pool, fractional.scores)
    score_example(fixed.maps, states, i, w, work.ones, space)
    lo, size = entries.ptr[i], entries.ptr[i + 1] - entries.ptr[i]
    where, of_truth = entries.where, 0.0
    for t in range(entries.truth_ptr[i], entries.truth_ptr[i + 1]):
        of_truth += flat[where[lo + entries.truth[t]]]
    at = (cache.alpha.shape[1] + 1) * lo
    for k in range(n):
        total = 0.0
        for e in range(size):
            total += values[at + e] * flat[where[lo + e]]
        out[k] = of_truth - total
        at += size
    return int(size * (n + 2))


@njit(cache=True, nogil=True, borrowed=True)
def add_fractional(fractional: Fractional, values: F64, at: int, i: int, coef: float) -> None:
    """Add ``coef (truth - plane)`` of example i to ``fractional.delta``; the plane starts at ``values[at]``."""
    entries, delta = fractional.entries, fractional.delta
    for e in range(entries.ptr[i + 1] - entries.ptr[i]):
        delta[e] -= coef * values[at + e]
    for t in range(entries.truth_ptr[i], entries.truth_ptr[i + 1]):
        delta[entries.truth[t]] += coef


@njit(cache=True, nogil=True, borrowed=True)
def clear_delta(fractional: Fractional, i: int) -> None:
    """Set the numbers of example i in ``fractional.delta`` to zero."""
    for e in range(fractional.entries.ptr[i + 1] - fractional.entries.ptr[i]):
        fractional.delta[e] = 0.0


@njit(cache=True, nogil=True, borrowed=True)
def place_fractional(fixed: Fixed, cache: Cache, fractional: Fractional, work: Work, i: int) -> None:
    """Write ``fractional.given`` behind the planes of example i; two of them become one where there is no room."""
    if cache.n_planes[i] == cache.alpha.shape[1]:  # deliberately before it is known whether the new one will be kept
        mix_least(cache, fractional.entries, i)
    k, given = np.int64(cache.n_planes[i]), fractional.given
    if cache.dense.psi.shape[2] > 0:
        clear_delta(fractional, i)
        add_fractional(fractional, given, 0, i, 1.0)
        psi = cache.dense.psi[i, k]
        for j in range(len(psi)):
            psi[j] = 0.0
        rule = MoveRule(work.ones, work.unbounded, fixed.lower, fixed.threshold)
        move(fixed.maps, fractional.entries, rule, i, fractional.delta, psi, psi, np.bool_(False))
        return
    size = fractional.entries.ptr[i + 1] - fractional.entries.ptr[i]
    at = (cache.alpha.shape[1] + 1) * fractional.entries.ptr[i] + k * size
    for e in range(size):
        cache.values[at + e] = given[e]


@njit(cache=True, nogil=True, borrowed=True)
def mix_least(cache: Cache, entries: Entries, i: int) -> None:
    """Make the two planes of least dual weight of example i one; nothing is lost, as planes may be mixed."""
    alpha, a, b = cache.alpha, 0, 1
    if alpha[i, b] > alpha[i, a]:
        a, b = b, a
    for k in range(2, cache.n_planes[i]):  # b has the least, a the least of the others
        if alpha[i, k] < alpha[i, b]:
            a, b = b, k
        elif alpha[i, k] < alpha[i, a]:
            a = k
    mix(cache, entries, i, a, b)


@njit(cache=True, nogil=True, borrowed=True)
def mix(cache: Cache, entries: Entries, i: int, a: int, b: int) -> None:
    """Replace plane a of example i by its mixture with plane b, by dual weight, and plane b by the last one."""
    count, alpha, loss, gram, values, psi = (
        cache.n_planes, cache.alpha, cache.loss, cache.gram, cache.values, cache.dense.psi,
    )  # fmt: skip
    size, last = entries.ptr[i + 1] - entries.ptr[i], count[i] - 1
    at, total = (alpha.shape[1] + 1) * entries.ptr[i], alpha[i, a] + alpha[i, b]
    u = alpha[i, a] / total if total > 0.0 else 1.0
    v = 1.0 - u
    for j in range(psi.shape[2]):
        psi[i, a, j] = u * psi[i, a, j] + v * psi[i, b, j]
        psi[i, b, j] = psi[i, last, j]  # after the mixture, as a may be the last one
    if len(values) > 0:
        for e in range(size):
            values[at + a * size + e] = u * values[at + a * size + e] + v * values[at + b * size + e]
            values[at + b * size + e] = values[at + last * size + e]
    loss[i, a] = u * loss[i, a] + v * loss[i, b]
    own = u * u * gram[i, a, a] + 2.0 * u * v * gram[i, a, b] + v * v * gram[i, b, b]
    for k in range(count[i]):
        gram[i, a, k] = u * gram[i, a, k] + v * gram[i, b, k]
        gram[i, k, a] = gram[i, a, k]
    gram[i, a, a] = own  # the loop has overwritten its terms
    alpha[i, a] = total
    loss[i, b], alpha[i, b] = loss[i, last], alpha[i, last]
    for k in range(count[i]):
        gram[i, b, k] = gram[i, last, k]
    for k in range(count[i]):
        gram[i, k, b] = gram[i, k, last]
    alpha[i, last] = 0.0
    count[i] = last
