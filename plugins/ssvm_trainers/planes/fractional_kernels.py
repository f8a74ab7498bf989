"""Compiled block-coordinate steps over cached fractional planes: ``bcfw`` for the relaxed risk.

As in :mod:`ssvm_trainers.planes.bcfw_kernels`, but a plane is a vector of marginals, one number for each score of its
example: first the states of its variables, then the joint states of its factors, group by group.  Such planes may be
mixed: when the cache of an example is full, its two planes of least dual weight become one, and nothing is lost.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64
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
from ssvm_trainers.planes.bcfw_kernels import pairwise_steps
from ssvm_trainers.planes.fractional_records import (
    Entries,
    FractionalWorkspace,
    LastVisits,
    Metric,
    MoveRule,
    NewPlanes,
    PlaneWeights,
    Store,
)
from ssvm_trainers.shared.products import Shrinkage, clear_entries, shrink_entries


@njit(cache=True, nogil=True)
def move(
    maps: FlatMaps, entries: Entries, fixed: Metric, rule: MoveRule, i: int, delta: F64, weights: PlaneWeights,
    clear: bool,
) -> None:  # fmt: skip
    """Add ``metric_m Phi' delta`` to w, map by map, or set all weights it touches to zero.

    Parameters
    ----------
    maps, entries, fixed : FlatMaps, Entries, Metric
        Read only.
    rule : MoveRule
        Read only.
    i : int
        The example.
    delta : ndarray of float64
        A number for each entry of the example, as in a plane; read only.  Where it is 0, nothing is touched.
    weights : PlaneWeights
        Changed in place.
    clear : bool
        Whether to set ``w = 0`` at the features of ``delta``, which must be those that were added.
    """
    maps = borrow(maps)
    desc, ints = maps.desc, maps.ints
    state_ptr, delta, w, free = borrow(entries.state_ptr), borrow(delta), borrow(weights.w), borrow(weights.free)
    metric, bounded = rule
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
                        shrink_entries(maps, m, i, f, c, free, w, Shrinkage(fixed.lower[m], fixed.threshold))


@njit(cache=True, nogil=True)
def products(
    maps: FlatMaps, entries: Entries, store: Store, space: FractionalWorkspace, i: int, n: int, w: F64, out: F64
) -> None:
    """Write ``w . psi_k`` of the first n planes of example i to ``out``: its scores at w, times each plane.

    Parameters
    ----------
    maps, entries, store : FlatMaps, Entries, Store
        Read only; one plane may be behind those counted in ``store.n_planes``.
    space : FractionalWorkspace
        ``flat`` and ``scores`` are written, ``counter`` grows.
    i, n : int
        The example, and how many planes.
    w : ndarray of float64, shape (dim,)
        Read only.
    out : ndarray of float64, shape (at least n,)
        Written.
    """
    lo, size = entries.ptr[i], entries.ptr[i + 1] - entries.ptr[i]
    states = StateScores(entries.var_ptr, entries.state_ptr, space.nothing)
    score_example(maps, states, i, w, space.ones, ScoreSpace(space.node, space.pool, space.scores))
    flat, where, values = borrow(space.flat), borrow(entries.where), borrow(store.values)
    of_truth = 0.0
    for t in range(entries.truth_ptr[i], entries.truth_ptr[i + 1]):
        of_truth += flat[where[lo + entries.truth[t]]]
    at = store.alpha.shape[1] * lo
    for k in range(n):
        total = 0.0
        for e in range(size):
            total += values[at + e] * flat[where[lo + e]]
        out[k] = of_truth - total
        at += size
    space.counter[0] += size * (n + 2)


@njit(cache=True, nogil=True)
def add_plane(entries: Entries, store: Store, i: int, k: int, coef: float, delta: F64) -> None:
    """Add ``coef (truth - plane k)`` of example i to ``delta``."""
    lo, size = entries.ptr[i], entries.ptr[i + 1] - entries.ptr[i]
    at = store.alpha.shape[1] * lo + k * size
    for e in range(size):
        delta[e] -= coef * store.values[at + e]
    for t in range(entries.truth_ptr[i], entries.truth_ptr[i + 1]):
        delta[entries.truth[t]] += coef


@njit(cache=True, nogil=True)
def mix(entries: Entries, store: Store, i: int, a: int, b: int) -> None:
    """Replace plane a of example i by its mixture with plane b, by dual weight, and plane b by the last one."""
    count, alpha, loss, gram, values = store
    size, last = entries.ptr[i + 1] - entries.ptr[i], count[i] - 1
    at, total = alpha.shape[1] * entries.ptr[i], alpha[i, a] + alpha[i, b]
    u = alpha[i, a] / total if total > 0.0 else 1.0
    v = 1.0 - u
    for e in range(size):
        values[at + a * size + e] = u * values[at + a * size + e] + v * values[at + b * size + e]
        values[at + b * size + e] = values[at + last * size + e]  # after the mixture, as a may be the last one
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


@njit(cache=True, nogil=True)
def remove_oldest(entries: Entries, store: Store, i: int) -> None:
    """Bring a full example to one plane less: the two planes of least dual weight become one."""
    a, b = 0, 1
    if store.alpha[i, b] > store.alpha[i, a]:
        a, b = b, a
    for k in range(2, store.n_planes[i]):  # b has the least, a the least of the others
        if store.alpha[i, k] < store.alpha[i, b]:
            a, b = b, k
        elif store.alpha[i, k] < store.alpha[i, a]:
            a = k
    mix(entries, store, i, a, b)


@njit(cache=True, nogil=True)
def insert(
    maps: FlatMaps, entries: Entries, fixed: Metric, store: Store, space: FractionalWorkspace, i: int, loss: float
) -> None:
    """Make the plane behind those of example i one of them: its Gram row, no dual weight yet.

    Parameters
    ----------
    maps, entries, fixed : FlatMaps, Entries, Metric
        Read only.
    store : Store
        ``n_planes[i]`` grows by one; all data of the new plane are written except its values, which are already there.
    space : FractionalWorkspace
        Work space.
    i : int
        The example.
    loss : float
        Of the plane.
    """
    k, size = store.n_planes[i], entries.ptr[i + 1] - entries.ptr[i]
    store.n_planes[i] = k + 1
    store.alpha[i, k], store.loss[i, k] = 0.0, loss
    space.delta[:size] = 0.0
    add_plane(entries, store, i, k, 1.0, space.delta)
    direction, rule = PlaneWeights(space.direction, space.direction), MoveRule(fixed.metric, space.unbounded)
    move(maps, entries, fixed, rule, i, space.delta, direction, np.bool_(False))
    products(maps, entries, store, space, i, k + 1, space.direction, store.gram[i, k])
    for j in range(k):
        store.gram[i, j, k] = store.gram[i, k, j]
    move(maps, entries, fixed, rule, i, space.delta, direction, np.bool_(True))


@njit(cache=True, nogil=True)
def visit(
    maps: FlatMaps, entries: Entries, fixed: Metric, store: Store, space: FractionalWorkspace, i: int, loss: float,
    weights: PlaneWeights,
) -> tuple[float, float]:  # fmt: skip
    """Visit example i: slopes at w, pairwise steps, move w; return (gain of the dual, gap of the example before).

    The plane behind its planes is a candidate where its ``loss`` is given; it is kept if it beats all others at w.  The
    gap is less the share of the example.

    Parameters
    ----------
    maps, entries, fixed : FlatMaps, Entries, Metric
        The features, where entries belong, and the regulariser; read only.
    store : Store
        Changed: the planes of example i, their dual weights and Gram matrix.
    space : FractionalWorkspace
        Work space.
    i : int
        The example.
    loss : float
        Of the candidate; ``nan`` without one.
    weights : PlaneWeights
        Changed in place.
    """
    count, slope, before, candidate = store.n_planes[i], space.slope, space.before, not np.isnan(loss)
    products(maps, entries, store, space, i, count + candidate, weights.w, slope)
    best, mean = 0.0, 0.0
    for k in range(count):
        slope[k] = store.loss[i, k] - slope[k]
        best = max(best, slope[k])
        mean += store.alpha[i, k] * slope[k]
    new = 0.0
    if candidate:
        slope[count] = loss - slope[count]
        new = slope[count]
        if new > best + 1e-10 * (1.0 + best):
            insert(maps, entries, fixed, store, space, i, loss)
            count += 1
    for k in range(count):
        before[k] = store.alpha[i, k]
    step = fixed.share[i] / fixed.lam
    gain = pairwise_steps(store.alpha[i], store.gram[i], slope, count, step, 4 * (count + 1))
    changed = False
    space.delta[: entries.ptr[i + 1] - entries.ptr[i]] = 0.0
    for k in range(count):
        change = store.alpha[i, k] - before[k]
        if change != 0.0:
            add_plane(entries, store, i, k, step * change, space.delta)
            changed = True
    if changed:
        rule = MoveRule(fixed.metric, fixed.bounded)
        move(maps, entries, fixed, rule, i, space.delta, weights, np.bool_(False))
    return fixed.share[i] * gain, max(best, new) - mean


@njit(cache=True, nogil=True)
def plane_pass(
    maps: FlatMaps, entries: Entries, fixed: Metric, store: Store, space: FractionalWorkspace, new: NewPlanes,
    weights: PlaneWeights, visits: LastVisits,
) -> float:  # fmt: skip
    """Visit the listed examples with a new plane each; return the gain of the dual.

    Parameters
    ----------
    maps, entries, fixed, store, space, weights
        As for :func:`visit`; ``store`` and ``weights`` are changed.
    new : NewPlanes
        Read only.
    visits : LastVisits
        Changed.
    """
    examples, ptr, values, losses = new
    total, capacity = 0.0, store.alpha.shape[1]
    for j in range(len(examples)):
        i = examples[j]
        size = ptr[j + 1] - ptr[j]
        if store.n_planes[i] == capacity - 1:  # deliberately before it is known whether the candidate will be kept
            remove_oldest(entries, store, i)
        at = capacity * entries.ptr[i] + store.n_planes[i] * size
        for e in range(size):
            store.values[at + e] = values[ptr[j] + e]
        visits.gain[i], visits.gap[i] = visit(maps, entries, fixed, store, space, i, losses[j], weights)
        total += visits.gain[i]
    return total


@njit(cache=True, nogil=True)
def cached_pass(
    maps: FlatMaps, entries: Entries, fixed: Metric, store: Store, space: FractionalWorkspace, examples: I64,
    weights: PlaneWeights, last_gain: F64,
) -> float:  # fmt: skip
    """Visit the listed examples without the oracle; return the gain of the dual.

    Parameters
    ----------
    maps, entries, fixed, store, space, weights
        As for :func:`visit`; ``store`` and ``weights`` are changed.
    examples : ndarray of int64, shape (n_listed,)
    last_gain : ndarray of float64, shape (n,)
        Gain of each example's last visit; changed.
    """
    total = 0.0
    for i in examples:
        if store.n_planes[i] > 0:
            last_gain[i], _ = visit(maps, entries, fixed, store, space, i, np.nan, weights)
            total += last_gain[i]
    return total


@njit(cache=True, nogil=True)
def aggregate(
    maps: FlatMaps, entries: Entries, fixed: Metric, store: Store, space: FractionalWorkspace, v: F64
) -> None:
    """Add ``sum_i share_i sum_k alpha_k psi_k`` to v."""
    for i in range(len(store.n_planes)):
        space.delta[: entries.ptr[i + 1] - entries.ptr[i]] = 0.0
        for k in range(store.n_planes[i]):
            add_plane(entries, store, i, k, fixed.share[i] * store.alpha[i, k], space.delta)
        rule = MoveRule(space.ones, space.unbounded)
        move(maps, entries, fixed, rule, i, space.delta, PlaneWeights(v, v), np.bool_(False))


@njit(cache=True, nogil=True)
def fractional_rows(
    maps: FlatMaps, entries: Entries, fixed: Metric, store: Store, space: FractionalWorkspace, out: F64
) -> None:
    """Add ``psi_ik`` of every kept fractional labelling, example by example, to the rows of ``out``."""
    row = 0
    for i in range(len(store.n_planes)):
        for k in range(store.n_planes[i]):
            space.counter[0] += entries.ptr[i + 1] - entries.ptr[i]
            space.delta[: entries.ptr[i + 1] - entries.ptr[i]] = 0.0
            add_plane(entries, store, i, k, np.float64(1.0), space.delta)
            psi, rule = PlaneWeights(out[row], out[row]), MoveRule(space.ones, space.unbounded)
            move(maps, entries, fixed, rule, i, space.delta, psi, np.bool_(False))
            row += 1


def pack(entries: Entries, examples: I64, ptr: I64, group_sizes: list[I64], node: F64, tables: list[F64]) -> F64:
    """Return marginals packed by kind as marginals packed by example; ``group_sizes`` are numbers of entries."""
    from ssvm_dsl.ir import runs

    out = np.empty(int(ptr[-1]))
    states = entries.state_ptr[entries.var_ptr]
    sizes, at = states[examples + 1] - states[examples], ptr[:-1].copy()
    for size, values in zip([sizes, *(sizes_of[examples] for sizes_of in group_sizes)], [node, *tables], strict=True):
        out[runs(at, size)] = values.ravel()
        at += size
    return out
