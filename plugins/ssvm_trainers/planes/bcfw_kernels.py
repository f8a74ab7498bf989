"""Compiled block-coordinate steps over cached planes.

The dual restricted to one example's planes is a small quadratic over a simplex,

    max_alpha  sum_k alpha_k g_k - share/(2 lam) |sum_k (alpha_k - alpha_k^old) psi_k|^2 ,

with slopes ``g_k = loss_k - w . psi_k``.  A visit computes the slopes at the current w, takes pairwise steps
with exact line search using the Gram matrix only, and moves w once at the end.  Products of features and
weights go factor by factor over all planes at once, so that planes that agree on a factor share them.  With
lower bounds on weights the quadratic is a lower bound of the dual, so steps still ascend.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import (
    ROW_BASE,
    SIGNATURE,
    FlatMaps,
    borrow,
    cfunc,
    fill_tables,
    njit,
    prefetch,
    score_example,
    tables_score,
)
from ssvm_trainers.planes.cache import Cache
from ssvm_trainers.shared.arrays import Fixed, Parts, Work
from ssvm_trainers.shared.products import (
    clear_parts,
    collect_parts,
    labels_score,
    move_parts,
    part_dots,
    scored_dots,
    worse,
)

#: Multiply-adds that take as long as what a visit does besides its parts.
VISIT_WORK = 2048

#: How many visits ahead the memory of an example is asked for.
AHEAD = 2

#: Labels (or scopes) in a cache line.
LINE = 16

#: Where the new planes of visits come from: an oracle, the caller; or there are none; or planes are added up only.
ASKED, GIVEN, KEPT, SUMMED = range(4)


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
    n_planes, alpha, loss, gram, age, labels = cache
    k, count = 0, np.int64(n_planes[i])
    while k < count:
        if alpha[i, k] > 0.0 or age[i, k] >= oldest:
            k += 1
            continue
        count -= 1
        if k != count:
            for t in range(size):
                labels[at + k * size + t] = labels[at + count * size + t]
            alpha[i, k], loss[i, k], age[i, k] = alpha[i, count], loss[i, count], age[i, count]
            for j in range(count + 1):
                gram[i, k, j] = gram[i, count, j]
            for j in range(count + 1):
                gram[i, j, k] = gram[i, j, count]
            gram[i, k, k] = gram[i, count, count]
        alpha[i, count] = 0.0
    n_planes[i] = count


@njit(cache=True, nogil=True, borrowed=True)
def take_steps(
    source: int,
    maps: FlatMaps,
    fixed: Fixed,
    cache: Cache,
    work: Work,
    parts: Parts,
    i: int,
    node: F64,
    pool: F64,
    w: F64,
    now: int,
    keep: int,
) -> tuple[float, float, bool, bool, np.int64, int, int]:
    """Take pairwise steps on the dual weights of example i; ``work.delta`` says what they do to the weights.

    Parameters
    ----------
    source, maps, fixed, cache, work, parts, i, node, pool, w, now, keep
        As in :func:`visit`; ``w`` is read only.

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
    n, n_factors, n_parts : int
        Planes that ``work.delta`` has, and how many factors and parts of them were collected; ``n_factors`` is -1 where
        they were not.
    """
    candidate, scored = source != KEPT, source == ASKED
    lo, size = fixed.var_ptr[i], fixed.var_ptr[i + 1] - fixed.var_ptr[i]
    capacity = cache.alpha.shape[1]
    at = (capacity + 1) * lo
    if candidate:
        drop_stale(cache, i, at, size, now - keep)
        if cache.n_planes[i] == capacity:  # all without dual weight go, however young
            drop_stale(cache, i, at, size, now + 1)
        start = at + cache.n_planes[i] * size
        for t in range(size):
            cache.labels[start + t] = work.labels[t]
    count = np.int64(cache.n_planes[i])
    n = count + candidate
    slope, delta = work.slope, work.delta
    n_factors, n_parts = -1, 0
    work.counter[0] += VISIT_WORK
    if scored:
        work.counter[0] += scored_dots(maps, fixed, i, cache.labels, at, n, node, pool, slope)
    else:
        n_factors, n_parts = collect_parts(maps, fixed, i, cache.labels, at, n, parts)
        work.counter[0] += part_dots(maps, parts, n_factors, n_parts, n, w, slope)
    best, mean = 0.0, 0.0
    for k in range(count):
        slope[k] = cache.loss[i, k] - slope[k]
        delta[k] = -cache.alpha[i, k]  # to which the new weight is added after the steps
        best = max(best, slope[k])
        mean += cache.alpha[i, k] * slope[k]
    new, fits = 0.0, True
    if candidate:
        new = work.loss[0] - slope[count]
        slope[count], delta[count] = new, 0.0
        if new > best + 1e-10 * (1.0 + best):
            fits = count < capacity
            if fits:
                if n_factors < 0:
                    n_factors, n_parts = collect_parts(maps, fixed, i, cache.labels, at, n, parts)
                insert_plane(maps, fixed, cache, work, parts, i, n_factors, n_parts, now)
                count += 1
    gap = max(best, new) - mean
    step = fixed.share[i] / fixed.lam
    gain = pairwise_steps(cache.alpha[i], cache.gram[i], slope, count, step, 4 * (count + 1))
    changed = False
    for k in range(count):
        delta[k] = step * (delta[k] + cache.alpha[i, k])
        changed |= delta[k] != 0.0
        if cache.alpha[i, k] > 0.0:
            cache.age[i, k] = now
    if n_factors < 0:  # the candidate, if there was one, was not inserted: it has no part in the move
        n = count
    return fixed.share[i] * gain, gap, fits, changed, n, n_factors, n_parts


@njit(cache=True, nogil=True, borrowed=True)
def visit(
    source: int,
    maps: FlatMaps,
    fixed: Fixed,
    cache: Cache,
    work: Work,
    parts: Parts,
    i: int,
    node: F64,
    pool: F64,
    w: F64,
    free: F64,
    now: int,
    keep: int,
) -> tuple[float, float, bool]:
    """Visit example i: slopes at w, pairwise steps, move w; or add up its planes.

    With ``ASKED``, ``node`` and ``pool`` hold the loss-augmented scores of the example at w (else they are not read).
    With ``ASKED`` and ``GIVEN``, the labelling in ``work.labels`` (loss in ``work.loss[0]``) is a new plane; it is kept
    if it beats all others at w.  With ``SUMMED``, no step is taken: ``share_i sum_k alpha_ik psi_ik`` is added to w.

    Parameters
    ----------
    source : int
        ``ASKED``, ``GIVEN``, ``KEPT`` or ``SUMMED``.
    maps, fixed : FlatMaps, Fixed
        The features, and what stays the same while training; read only.
    cache : Cache
        Changed: the planes of example i, their dual weights and Gram matrix.
    work, parts : Work, Parts
        Work space; ``work.counter`` counts what was done.
    i : int
        The example.
    node : ndarray of float64, shape (S,)
    pool : ndarray of float64
        Scores as in :class:`~ssvm_dsl.ir.Theta`; read only.
    w, free : ndarray of float64, shape (dim,)
        Changed: the weights, and, for maps with a lower bound, what they would be without it.
    now, keep : int
        Number of the iteration; planes without dual weight for more than ``keep`` iterations are dropped.

    Returns
    -------
    gain, gap, fits
        As :func:`take_steps` returns them.
    """
    n = np.int64(cache.n_planes[i])
    gain, gap, fits, changed, n_factors, n_parts = 0.0, 0.0, True, n > 0, -1, 0
    metric, bounded = fixed.metric, fixed.bounded
    if source == SUMMED:
        metric, bounded = work.ones, work.unbounded
        for k in range(n):
            work.delta[k] = fixed.share[i] * cache.alpha[i, k]
    else:
        gain, gap, fits, changed, n, n_factors, n_parts = take_steps(
            source, maps, fixed, cache, work, parts, i, node, pool, w, now, keep
        )
    if changed:
        if n_factors < 0:
            at = (cache.alpha.shape[1] + 1) * fixed.var_ptr[i]
            n_factors, n_parts = collect_parts(maps, fixed, i, cache.labels, at, n, parts)
        move_parts(maps, fixed, parts, n_factors, n_parts, n, metric, bounded, work.delta, w, free)
    return gain, gap, fits


@njit(cache=True, nogil=True, borrowed=True)
def insert_plane(
    maps: FlatMaps,
    fixed: Fixed,
    cache: Cache,
    work: Work,
    parts: Parts,
    i: int,
    n_factors: int,
    n_parts: int,
    now: int,
) -> None:
    """Make the labelling behind example i's planes one of them: its Gram row, no dual weight yet.

    Parameters
    ----------
    maps, fixed : FlatMaps, Fixed
        Read only.
    cache : Cache
        Changed: ``n_planes[i]`` grows by one, and the new plane's row and column of ``gram[i]`` are written.
    work : Work
        ``loss[0]`` is the loss of the labelling; the rest is work space.
    parts : Parts
        The parts of the planes and of the labelling, as :func:`collect_parts` wrote them.
    i : int
        The example.
    n_factors, n_parts : int
        How many factors and parts were collected.
    now : int
        Number of the iteration: the plane's age.
    """
    k = np.int64(cache.n_planes[i])
    n = k + 1
    cache.n_planes[i] = n
    cache.alpha[i, k], cache.loss[i, k], cache.age[i, k] = 0.0, work.loss[0], now
    work.unit[k] = 1.0
    move_parts(
        maps, fixed, parts, n_factors, n_parts, n, fixed.metric, work.unbounded, work.unit,
        work.direction, work.direction,
    )  # fmt: skip
    work.unit[k] = 0.0
    row = cache.gram[i, k]
    work.counter[0] += part_dots(maps, parts, n_factors, n_parts, n, work.direction, row)
    for j in range(k):
        cache.gram[i, j, k] = row[j]
    clear_parts(maps, parts, n_factors, n, k, work.direction)


@njit(cache=True, nogil=True, borrowed=True)
def fetch_example(maps: FlatMaps, fixed: Fixed, cache: Cache, i: int) -> None:
    """Ask for the memory that a visit to example i begins with."""
    desc, longs = maps.desc, maps.longs
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


@cfunc(SIGNATURE)
def no_oracle(ints: I32, longs: I64, example: int, pool: F64, node: F64, labels: I32, work: F64) -> float:
    """Stand in for a compiled oracle where planes are given: it is passed to the kernel and never called.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        Those of :data:`ssvm_dsl.kernels.oracles.signatures.SIGNATURE`; not used.

    Returns
    -------
    float
        ``nan``.
    """
    return np.nan


@njit(cache=True, nogil=True, borrowed=True)
def visit_examples(
    source: int,
    oracle: Any,
    ints: I32,
    longs: I64,
    oracle_work: F64,
    node: F64,
    pool: F64,
    maps: FlatMaps,
    fixed: Fixed,
    cache: Cache,
    work: Work,
    parts: Parts,
    examples: I64,
    given: I32,
    losses: F64,
    threshold: float,
    w: F64,
    free: F64,
    now: int,
    keep: int,
    gap: F64,
    last_gain: F64,
) -> tuple[float, bool, float]:
    """Visit each listed example, one after the other, at the newest w: with a new plane, or with those that are kept.

    New planes are labellings that a compiled oracle finds, or labellings that are given.  Instead of being visited,
    planes may be added up, ``sum_i share_i sum_k alpha_ik psi_ik``.  One kernel does all, because compiling a visit is
    most of what the first fit on a machine waits for.

    Parameters
    ----------
    source : int
        ``ASKED``: the oracle is called for new planes; ``GIVEN``: they are given; ``KEPT``: none, and examples
        whose last visit gained too little are skipped; ``SUMMED``: nothing is changed but ``w``, to which planes are
        added.
    oracle : compiled function
        Of the signature :data:`ssvm_dsl.kernels.oracles.signatures.SIGNATURE`; called with ``ASKED`` only.
    ints, longs : ndarray of int32 and of int64
        What the oracle reads besides scores.
    oracle_work : ndarray of float64
        Its work space.
    node : ndarray of float64, shape (S,)
    pool : ndarray of float64
        Work space for the scores that the oracle reads; of any length without it.
    maps, fixed, cache, work, parts, w, free, now, keep
        As in :func:`visit`; ``cache``, ``w`` and ``free`` are changed.
    examples : ndarray of int64, shape (n_listed,)
    given : ndarray of int32
        The labellings of the listed examples one after the other; read with ``GIVEN`` only.
    losses : ndarray of float64, shape (n_listed,)
        Their losses; read with ``GIVEN`` only.
    threshold : float
        With ``KEPT``, examples whose last visit gained less are skipped.
    gap, last_gain : ndarray of float64, shape (n,)
        Changed: duality gap before each example's last visit with a new plane, and gain of its last visit; neither
        read nor changed with ``SUMMED``.

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
    maps, fixed, cache, work, parts = borrow(maps), borrow(fixed), borrow(cache), borrow(work), borrow(parts)
    ints, longs, oracle_work, node, pool = borrow(ints), borrow(longs), borrow(oracle_work), borrow(node), borrow(pool)
    total, full, off, at, asked, kept, tables = 0.0, False, 0.0, 0, source == ASKED, source == KEPT, fixed.tables
    for j in range(len(examples)):
        i = examples[j]
        lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
        if j + AHEAD < len(examples) and (asked or (kept and last_gain[examples[j + AHEAD]] >= threshold)):
            fetch_example(maps, fixed, cache, examples[j + AHEAD])
        if kept:
            if not (last_gain[i] >= threshold and cache.n_planes[i] > 0):
                continue
        elif asked:
            score_example(maps, i, lo, hi, fixed.state_ptr, fixed.bonus, w, work.ones, work.scores, node, pool)
            fill_tables(tables, i, pool)
            score = oracle(ints, longs, i, pool, node, work.labels, oracle_work)
            first, second, last = tables.ptr[2 * i], tables.ptr[2 * i + 1], tables.ptr[2 * i + 2]
            priced = tables_score(tables, first, second, work.labels)
            own = priced + labels_score(maps, i, fixed.state_ptr, work.labels, lo, hi, node, pool)
            off = worse(off, score, own)
            if np.isnan(off):
                break
            work.loss[0] = priced + tables_score(tables, second, last, work.labels) - tables.truth[i]
            for v in range(lo, hi):
                work.loss[0] += fixed.node_loss[fixed.state_ptr[v] + work.labels[v - lo]]
        elif source == GIVEN:
            for t in range(hi - lo):
                work.labels[t] = given[at + t]
            at += hi - lo
            work.loss[0] = losses[j]
        gain, before, fits = visit(source, maps, fixed, cache, work, parts, i, node, pool, w, free, now, keep)
        if source != SUMMED:
            last_gain[i] = gain
            if not kept:
                gap[i] = before
        full |= not fits
        total += gain
    return total, full, off
