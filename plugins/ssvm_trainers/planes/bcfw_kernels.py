"""Compiled block-coordinate steps over cached planes.

The dual restricted to one example's planes is a small quadratic over a simplex,

    max_alpha  sum_k alpha_k g_k - share/(2 lam) |sum_k (alpha_k - alpha_k^old) psi_k|^2 ,

with slopes ``g_k = loss_k - w . psi_k``.  A visit computes the slopes at the current w, takes pairwise steps
with exact line search using the Gram matrix only, and moves w once at the end.  Products of features and
weights go factor by factor over all planes at once, so that planes that agree on a factor share them.  With
lower bounds on weights, or an L1 penalty, the quadratic is a lower bound of the dual, so steps still ascend: weights
move by no more than the free ones, ``v / (lam scale)``, of which they are soft thresholds.

Where there are few weights, planes are kept as vectors (:class:`~ssvm_trainers.planes.cache.DensePlanes`): a visit then
costs some products of short vectors, however many factors an example has.

Planes are labellings, or vectors of marginals for the risk ``relaxed``.  For these kernels have a record
``fractional``, which is ``None`` for labellings, so that what is for marginals is not compiled for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.ir import F64, I32
from ssvm_dsl.kernels import ROW_BASE, ScoreSpace, borrow, njit, prefetch
from ssvm_trainers.planes.cache import (
    ASKED,
    GIVEN,
    KEPT,
    LAST_ITERATION,
    SUMMED,
    Cache,
    DensePlanes,
    DualPoint,
    Fractional,
    Visits,
)
from ssvm_trainers.planes.fractional_kernels import (
    MoveRule,
    add_fractional,
    clear_delta,
    fractional_dots,
    move,
    place_fractional,
)
from ssvm_trainers.shared.arrays import Collected, Fixed, Work
from ssvm_trainers.shared.oracle_call import OracleInputs, ask, labelling_loss
from ssvm_trainers.shared.products import (
    PART_WORK,
    clear_parts,
    collect_parts,
    move_parts,
    part_dots,
    scored_dots,
    shrunk,
)

#: The fixed cost of a visit, besides its parts, in multiply-adds.
VISIT_WORK = 2048

#: How many visits ahead the memory of an example is asked for.
AHEAD = 2

#: Labels (or scopes) in a cache line.
LINE = 16

#: Zero parts; typed, since numba compiles a function again for each literal argument.
NONE: Any = np.int64(-1)


@njit(cache=True, nogil=True, borrowed=True)
def pairwise_steps(alpha: F64, gram: F64, slope: F64, count: int, step: float, n_steps: int) -> float:
    """Take pairwise steps over one example's planes (and the truth, plane -1); return the gain over share.

    A step moves weight from the plane of least slope that has any (``down``) to that of the largest (``up``), by

        min( (g_up - g_down) / (step |psi_up - psi_down|^2),  alpha_down )

    and the slopes follow: ``g_k -= length step (psi_up - psi_down) . psi_k``.  The truth has slope 0 and no features.

    Parameters
    ----------
    alpha : ndarray of float64, shape (K,)
        Dual weights, at most 1 together: the truth has the rest.  Changed in place.
    gram : ndarray of float64, shape (K, K)
        ``psi_k . psi_l`` in the metric of the regulariser; read only.
    slope : ndarray of float64, shape (K + 1,)
        ``loss_k - w . psi_k``; changed in place.
    count : int
        Planes there are; the rest of the arrays is not read.
    step : float
        ``share / lam``.
    n_steps : int
        Steps at most.
    """
    gain, first_spread, rest = 0.0, 0.0, 1.0
    for k in range(count):
        rest -= alpha[k]
    if rest < 1e-12:  # rounding: as weight of the truth it would come back, and set first_spread, at every visit
        rest = 0.0
    for number in range(n_steps):
        up, down, top, bottom = -1, -1, 0.0, np.inf
        if rest > 0.0:
            bottom = 0.0
        for k in range(count):
            if slope[k] > top:
                up, top = k, slope[k]
            if alpha[k] > 0.0 and slope[k] < bottom:
                down, bottom = k, slope[k]
        spread = top - bottom
        if number == 0:
            first_spread = spread
        if spread <= 1e-12 or spread < 1e-3 * first_spread:
            break
        curvature = gram[up, up] if up >= 0 else 0.0
        if down >= 0:
            curvature += gram[down, down]
            if up >= 0:
                curvature -= 2.0 * gram[up, down]
        curvature *= step
        limit = alpha[down] if down >= 0 else rest
        full = not (curvature > 0.0 and spread < limit * curvature)
        length = limit if full else spread / curvature
        if up >= 0:
            alpha[up] += length
        else:
            rest += length
        if down >= 0:
            alpha[down] = 0.0 if full else alpha[down] - length  # exactly 0: drop_stale goes by that
        else:
            rest = 0.0 if full else rest - length
        gain += length * spread - 0.5 * length * length * curvature
        for k in range(count):
            if up >= 0:
                slope[k] -= length * step * gram[up, k]
            if down >= 0:
                slope[k] += length * step * gram[down, k]
    return gain


@njit(cache=True, nogil=True, borrowed=True)
def drop_stale(cache: Cache, i: int, at: int, size: int, oldest: int) -> None:
    """Drop planes of example i without dual weight since before iteration ``oldest``."""
    n_planes, alpha, loss, gram, age, labels, _, dense = cache
    k, count = 0, np.int64(n_planes[i])
    while k < count:
        if alpha[i, k] > 0.0 or age[i, k] >= oldest:
            k += 1
            continue
        count -= 1
        if k != count:
            for t in range(size):
                labels[at + k * size + t] = labels[at + count * size + t]
            for j in range(dense.psi.shape[2]):
                dense.psi[i, k, j] = dense.psi[i, count, j]
            alpha[i, k], loss[i, k], age[i, k] = alpha[i, count], loss[i, count], age[i, count]
            for j in range(count + 1):
                gram[i, k, j] = gram[i, count, j]
            for j in range(count + 1):
                gram[i, j, k] = gram[i, j, count]
            gram[i, k, k] = gram[i, count, count]
        alpha[i, count] = 0.0
    n_planes[i] = count


@njit(cache=True, nogil=True, borrowed=True)
def make_room(fixed: Fixed, cache: Cache, oldest: int) -> None:
    """Drop planes of all examples without dual weight since before iteration ``oldest``; all such of full ones."""
    fixed, cache = borrow(fixed), borrow(cache)
    for i in range(len(cache.n_planes)):
        size, at = fixed.var_ptr[i + 1] - fixed.var_ptr[i], (cache.alpha.shape[1] + 1) * fixed.var_ptr[i]
        drop_stale(cache, i, at, size, oldest)
        if cache.n_planes[i] == cache.alpha.shape[1]:
            drop_stale(cache, i, at, size, LAST_ITERATION)


@njit(cache=True, nogil=True, borrowed=True)
def take_steps(
    visits: Visits, scores: ScoreSpace, fixed: Fixed, cache: Cache, fractional: Fractional | None, work: Work, i: int,
    w: F64,
) -> tuple[float, float, bool, bool, Collected]:  # fmt: skip
    """Take pairwise steps on the dual weights of example i; ``work.delta`` has the changes.

    Parameters
    ----------
    visits, scores, fixed, cache, fractional, work, i
        As for :func:`visit`.
    w : ndarray of float64, shape (dim,)
        Read only.

    Returns
    -------
    gain : float
        Of the dual.
    gap : float
        Duality gap of the example before the steps.
    fits : bool
        False where the candidate is worth keeping and the cache of the example is full.
    changed : bool
        Whether any dual weight is another one.
    collected : Collected
        Number of planes in ``work.delta``, and their collected parts.
    """
    candidate, dense = visits.source != KEPT, cache.dense.psi.shape[2] > 0
    lo, size = fixed.var_ptr[i], fixed.var_ptr[i + 1] - fixed.var_ptr[i]
    capacity = cache.alpha.shape[1]
    at = (capacity + 1) * lo
    if candidate:
        if fractional is None:
            drop_stale(cache, i, at, size, visits.now - visits.keep)
            if cache.n_planes[i] == capacity:  # all without dual weight go, however young
                drop_stale(cache, i, at, size, visits.now + 1)
            start = at + cache.n_planes[i] * size
            for t in range(size):
                cache.labels[start + t] = work.labels[t]
            if dense:
                plane_vector(fixed, work, i, cache.labels, start, cache.dense.psi[i, np.int64(cache.n_planes[i])])
        else:
            place_fractional(fixed, cache, fractional, work, i)
    count: Any = np.int64(cache.n_planes[i])
    n = count + candidate
    slope, delta, collected = work.slope, work.delta, Collected(NONE, NONE, n)
    if dense:
        work.counter[0] += vector_dots(cache.dense.psi[i], n, w, slope)
    if fractional is None:
        work.counter[0] += VISIT_WORK
        if not dense and visits.source == ASKED:
            work.counter[0] += scored_dots(fixed, scores, i, cache.labels, at, n, slope)
        elif not dense:
            collected = collect_parts(fixed, i, cache.labels, at, n, work.parts)
            work.counter[0] += part_dots(fixed.maps, work.parts, collected, w, slope)
    elif not dense:
        work.counter[0] += fractional_dots(fixed, cache, fractional, work, i, n, w, slope)
    best, mean = 0.0, 0.0
    for k in range(count):
        slope[k] = cache.loss[i, k] - slope[k]
        delta[k] = -cache.alpha[i, k]  # to which the new weight is added after the steps
        best = max(best, slope[k])
        mean += cache.alpha[i, k] * slope[k]
    new, fits, inserted = 0.0, True, False
    if candidate:
        new = work.loss[0] - slope[count]
        slope[count], delta[count] = new, 0.0
        if new > best + 1e-10 * (1.0 + best):
            fits = count < capacity
            if fits:
                collected = insert_plane(fixed, cache, fractional, work, i, collected, visits.now)
                count, inserted = count + 1, True
    gap = max(best, new) - mean
    step = fixed.share[i] / fixed.lam
    gain = pairwise_steps(cache.alpha[i], cache.gram[i], slope, count, step, 4 * (count + 1))
    changed = False
    for k in range(count):
        delta[k] = step * (delta[k] + cache.alpha[i, k])
        changed |= delta[k] != 0.0
        if cache.alpha[i, k] > 0.0:
            cache.age[i, k] = visits.now
    if collected.n_factors < 0 and not inserted:  # the candidate has no part in the move
        collected = Collected(NONE, NONE, count)
    return fixed.share[i] * gain, gap, fits, changed, collected


@njit(cache=True, nogil=True, borrowed=True)
def visit(
    visits: Visits, scores: ScoreSpace, fixed: Fixed, cache: Cache, fractional: Fractional | None, work: Work, i: int,
    point: DualPoint,
) -> tuple[float, float, bool]:  # fmt: skip
    """Visit example i: slopes at w, pairwise steps, move w; or add up its planes.

    With ``ASKED`` and ``GIVEN``, the labelling in ``work.labels`` (or the marginals in ``fractional.given``) is a new
    plane of the loss ``work.loss[0]``; it is kept if it beats all others at w.  With ``SUMMED``, no step is taken:
    ``share_i sum_k alpha_ik psi_ik`` is added to w.

    Parameters
    ----------
    visits : Visits
        Its rule is read.
    scores : ScoreSpace
        With ``ASKED``, the loss-augmented scores of the example at w; else not read.
    fixed : Fixed
        The features, and other constant arrays of training; read only.
    cache : Cache
        Changed: the planes of example i, their dual weights and Gram matrix.
    fractional : Fractional or None
        Where the numbers of planes belong that are marginals, and work space.
    work : Work
        Work space; ``work.counter`` counts operations.
    i : int
        The example.
    point : DualPoint
        Its weights are changed.

    Returns
    -------
    gain, gap, fits
        As :func:`take_steps` returns them.
    """
    n: Any = np.int64(cache.n_planes[i])
    gain, gap, fits, changed, collected = 0.0, 0.0, True, n > 0, Collected(NONE, NONE, n)
    metric, bounded, w, free = fixed.metric, fixed.bounded, point.w, point.free
    if visits.source == SUMMED:
        metric, bounded = work.ones, work.unbounded
        for k in range(n):
            work.delta[k] = fixed.share[i] * cache.alpha[i, k]
    else:
        gain, gap, fits, changed, collected = take_steps(visits, scores, fixed, cache, fractional, work, i, w)
    if changed and visits.source != SUMMED and cache.dense.psi.shape[2] > 0:
        move_vectors(cache.dense, i, collected.n, work.delta, fixed.threshold, w, free)
    elif changed:
        if fractional is None:
            if collected.n_factors < 0:
                at = (cache.alpha.shape[1] + 1) * fixed.var_ptr[i]
                collected = collect_parts(fixed, i, cache.labels, at, collected.n, work.parts)
            move_parts(fixed, work.parts, collected, metric, bounded, work.delta, w, free)
        else:
            entries, size = fractional.entries, fractional.entries.ptr[i + 1] - fractional.entries.ptr[i]
            at = (cache.alpha.shape[1] + 1) * entries.ptr[i]
            clear_delta(fractional, i)
            for k in range(collected.n):
                if work.delta[k] != 0.0:
                    add_fractional(fractional, cache.values, at + k * size, i, work.delta[k])
            how = MoveRule(metric, bounded, fixed.lower, fixed.threshold)
            move(fixed.maps, entries, how, i, fractional.delta, w, free, np.bool_(False))
    return gain, gap, fits


@njit(cache=True, nogil=True, borrowed=True)
def insert_plane(
    fixed: Fixed, cache: Cache, fractional: Fractional | None, work: Work, i: int, collected: Collected, now: int
) -> Collected:
    """Make the plane behind those of example i one of them: its Gram row, no dual weight yet.

    Parameters
    ----------
    fixed, cache, fractional, work, i
        As for :func:`visit`; the loss of the plane is in ``work.loss``.
    collected : Collected
        The parts of all labellings, if they are collected already.
    now : int
        Number of the iteration.

    Returns
    -------
    Collected
        The parts of all labellings, unless planes are vectors or marginals.
    """
    k, row = np.int64(cache.n_planes[i]), cache.gram[i, np.int64(cache.n_planes[i])]
    capacity = cache.alpha.shape[1]
    cache.n_planes[i] = k + 1
    cache.alpha[i, k], cache.loss[i, k], cache.age[i, k] = 0.0, work.loss[0], now
    direction, dense = work.direction, cache.dense
    if dense.psi.shape[2] > 0:
        for j in range(len(direction)):
            direction[j] = dense.metric[j] * dense.psi[i, k, j]
        work.counter[0] += vector_dots(dense.psi[i], k + 1, direction, row)
        direction[:] = 0.0
    elif fractional is None:
        if collected.n_factors < 0:
            at = (capacity + 1) * fixed.var_ptr[i]
            collected = collect_parts(fixed, i, cache.labels, at, k + 1, work.parts)
        work.unit[k] = 1.0
        move_parts(fixed, work.parts, collected, fixed.metric, work.unbounded, work.unit, direction, direction)
        work.unit[k] = 0.0
        work.counter[0] += part_dots(fixed.maps, work.parts, collected, direction, row)
        clear_parts(fixed.maps, work.parts, collected, k, direction)
    else:
        entries, maps, delta = fractional.entries, fixed.maps, fractional.delta
        size, how = entries.ptr[i + 1] - entries.ptr[i], MoveRule(fixed.metric, work.unbounded, fixed.lower, 0.0)
        clear_delta(fractional, i)
        add_fractional(fractional, cache.values, (capacity + 1) * entries.ptr[i] + k * size, i, 1.0)
        move(maps, entries, how, i, delta, direction, direction, np.bool_(False))
        work.counter[0] += fractional_dots(fixed, cache, fractional, work, i, k + 1, direction, row)
        move(maps, entries, how, i, delta, direction, direction, np.bool_(True))
    for j in range(k):
        cache.gram[i, j, k] = row[j]
    return collected


@njit(cache=True, nogil=True, borrowed=True)
def plane_vector(fixed: Fixed, work: Work, i: int, labels: I32, at: int, out: F64) -> None:
    """Write ``psi`` of the labelling of example i that starts at ``labels[at]`` to ``out``."""
    out[:] = 0.0
    collected = collect_parts(fixed, i, labels, at, np.int64(1), work.parts)
    work.unit[0] = 1.0
    move_parts(fixed, work.parts, collected, work.ones, work.unbounded, work.unit, out, out)
    work.unit[0] = 0.0
    work.counter[0] += collected.n_parts * PART_WORK


@njit(cache=True, nogil=True, borrowed=True)
def fill_vectors(fixed: Fixed, cache: Cache, work: Work) -> None:
    """Write ``psi`` of all cached planes to ``cache.dense``."""
    fixed, cache, work = borrow(fixed), borrow(cache), borrow(work)
    for i in range(len(cache.n_planes)):
        size = fixed.var_ptr[i + 1] - fixed.var_ptr[i]
        at = (cache.alpha.shape[1] + 1) * fixed.var_ptr[i]
        for k in range(cache.n_planes[i]):
            plane_vector(fixed, work, i, cache.labels, at + k * size, cache.dense.psi[i, k])


@njit(cache=True, nogil=True, borrowed=True)
def vector_dots(psi: F64, n: int, w: F64, out: F64) -> int:
    """Write ``w . psi_k`` of the first n rows; return the multiply-adds."""
    for k in range(n):
        total = 0.0
        for j in range(len(w)):
            total += psi[k, j] * w[j]
        out[k] = total
    return n * len(w)


@njit(cache=True, nogil=True, borrowed=True)
def move_vectors(dense: DensePlanes, i: int, n: int, delta: F64, threshold: float, w: F64, free: F64) -> None:
    """Add ``metric sum_k delta_k psi_k`` of example i to the free weights, and shrink them.

    Parameters
    ----------
    dense : DensePlanes
        Read only.
    i : int
        The example.
    n : int
        Number of planes.
    delta : ndarray of float64, shape (n or more,)
        The change of the dual weight of each plane.
    threshold : float
        Of the L1 penalty.
    w, free : ndarray of float64, shape (dim,)
        The weights and the free weights; changed in place.
    """
    for k in range(n):
        if delta[k] != 0.0:
            for j in range(len(w)):
                free[j] += delta[k] * dense.metric[j] * dense.psi[i, k, j]
    for j in range(len(w)):
        w[j] = shrunk(free[j], dense.lower[j], threshold)


@njit(cache=True, nogil=True, borrowed=True)
def fetch_example(fixed: Fixed, cache: Cache, i: int) -> None:
    """Ask for the memory that a visit to example i begins with."""
    desc, longs = fixed.maps.desc, fixed.maps.longs
    n, capacity = np.int64(cache.n_planes[i]), cache.alpha.shape[1]
    prefetch(cache.alpha, i * capacity)
    prefetch(cache.loss, i * capacity)
    prefetch(cache.age, i * capacity)
    for k in range(n):
        prefetch(cache.gram, (i * capacity + k) * capacity)
    lo, size = fixed.var_ptr[i], fixed.var_ptr[i + 1] - fixed.var_ptr[i]
    for at in range(0, n * size, LINE):
        prefetch(cache.labels, (capacity + 1) * lo + at)
    for at in range(0, size, LINE):
        prefetch(fixed.truth, lo + at)
    for m in range(len(desc)):
        prefetch(longs, desc[m, ROW_BASE] + i)


@njit(cache=True, nogil=True, borrowed=True)
def visit_examples(
    visits: Visits, oracle: Any, inputs: OracleInputs, fixed: Fixed, cache: Cache, fractional: Fractional | None,
    work: Work, point: DualPoint,
) -> tuple[float, bool, float]:  # fmt: skip
    """Visit each listed example, one after the other, at the newest w: with a new plane, or with those that are kept.

    New planes are labellings that a compiled oracle finds, or planes that are given.  Instead of being visited,
    planes may be added up, ``sum_i share_i sum_k alpha_ik psi_ik``.  One kernel does all, because compiling a visit is
    most of the compile time of the first fit on a machine.

    Parameters
    ----------
    visits : Visits
    oracle : compiled function
        Of the signature :data:`ssvm_dsl.kernels.SIGNATURE`; called with ``ASKED`` only.
    inputs : OracleInputs
        The input of the oracle, and space for scores.
    fixed, cache, fractional, work
        As for :func:`visit`; ``cache`` is changed.
    point : DualPoint
        Changed; with ``SUMMED`` only its weights.

    Returns
    -------
    gain : float
        Of the dual.
    full : bool
        Whether the cache of some example was too small for its plane.
    off : float
        Largest relative difference between a score that the oracle reported and the score of its labelling; ``nan``
        where it has no answer, which ends the visits.
    """
    fixed, cache, work = borrow(fixed), borrow(cache), borrow(work)
    inputs, point, visits = borrow(inputs), borrow(point), borrow(visits)
    examples = visits.examples
    total, full, off, at, asked, kept = 0.0, False, 0.0, 0, visits.source == ASKED, visits.source == KEPT
    for j in range(len(examples)):
        i = examples[j]
        ahead = examples[min(j + AHEAD, len(examples) - 1)]
        if fractional is None and ahead != i and (asked or (kept and point.gain[ahead] >= visits.threshold)):
            fetch_example(fixed, cache, ahead)
        if kept:
            if not (point.gain[i] >= visits.threshold and cache.n_planes[i] > 0):
                continue
        elif visits.source == GIVEN:
            work.loss[0] = visits.losses[j]
            if fractional is None:
                size = fixed.var_ptr[i + 1] - fixed.var_ptr[i]
                for t in range(size):
                    work.labels[t] = visits.planes[at + t]
            else:
                size = fractional.entries.ptr[i + 1] - fractional.entries.ptr[i]
                for t in range(size):
                    fractional.given[t] = visits.planes[at + t]
            at += size
        elif asked and fractional is None:
            _, off = ask(oracle, inputs, fixed, work, i, point.w, work.ones, off)
            if np.isnan(off):
                break
            work.loss[0] = labelling_loss(fixed, i, work.labels)
        gain, before, fits = visit(visits, inputs.scores, fixed, cache, fractional, work, i, point)
        if visits.source != SUMMED:
            point.gain[i] = gain
            if not kept:
                point.gap[i] = before
        full |= not fits
        total += gain
    return total, full, off
