"""Compiled products with planes: ``w . psi`` of labellings, and moves of weights along them.

``psi = Phi(x_i, y_i) - Phi(x_i, labelling)`` is never formed.  Products go factor by factor over
all labellings at once, so that labellings that agree on a factor share its product; where the scores of all states are
written for an oracle, products are sums of these scores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I8, I32
from ssvm_dsl.kernels import (
    ARITY,
    BASIS_INDEX,
    BASIS_PTR,
    BASIS_STRIDE,
    CSR_INDICES,
    CSR_PTR,
    DENSE,
    FEATURE_STRIDE,
    FEATURES,
    KIND,
    N_CONFIGS,
    NO_FEATURES,
    POOL,
    SCOPE,
    SPANS,
    SPARSE,
    STRIDES,
    TABLE,
    TABLE_BASE,
    WIDTH,
    FlatMaps,
    ScoreSpace,
    factor_add,
    factor_config,
    factor_dot,
    factors_of,
    feature_row,
    njit,
    prefetch,
    tables_score,
    weight_of,
    weight_start,
)
from ssvm_trainers.shared.arrays import CACHE_LINE, Collected, Fixed, Parts

#: The cost of looking up a part, in multiply-adds.
PART_WORK = 320

#: Features of a factor that are prefetched.
MOST_FETCHED = 128


@njit(cache=True, nogil=True, borrowed=True)
def fetch_row(maps: FlatMaps, m: int, i: int, f: int) -> None:
    """Ask for the dense features of factor f of map m: the first ones, from which processors foresee the rest."""
    desc = maps.desc
    start = desc[m, FEATURES] + feature_row(maps, m, i, f, 0) * desc[m, WIDTH]
    for p in range(start, start + min(desc[m, WIDTH], MOST_FETCHED), CACHE_LINE):
        prefetch(maps.features, p)


@njit(cache=True, nogil=True, borrowed=True)
def collect_parts(fixed: Fixed, i: int, labels: I32, at: int, n: int, parts: Parts) -> Collected:
    """Write the parts of n labellings of example i, one after the other from ``labels[at]``.

    A factor on which all labellings agree with the truth has no part: its features cancel in every ``psi``.

    Parameters
    ----------
    fixed : Fixed
        Constant arrays of training; read only.
    i : int
        The example.
    labels : ndarray of int32
        Read only.
    at, n : int
        Where the first labelling starts, and how many there are, each as long as the example has variables.
    parts : Parts
        All but ``number`` is written.
    """
    maps = fixed.maps
    desc, ints, longs = maps.desc, maps.ints, maps.longs
    truth = fixed.truth
    of_map, factor, config, _, first, which, joint, example = parts
    lo, size = fixed.var_ptr[i], fixed.var_ptr[i + 1] - fixed.var_ptr[i]
    n_factors, n_parts, example[0] = 0, 0, i
    for m in range(len(desc)):
        arity, scope, strides, dense = desc[m, ARITY], desc[m, SCOPE], desc[m, STRIDES], desc[m, KIND] == DENSE
        begin, end = factors_of(maps, m, i)
        for f in range(begin, end):
            differs = False
            if arity == 1 and not desc[m, SPANS]:
                true, v = np.int64(truth[lo + ints[scope + f]]), at + ints[scope + f]
                for k in range(n):
                    joint[k] = labels[v + k * size]
                    differs |= joint[k] != true
            elif arity == 2 and not desc[m, SPANS]:
                v, u, stride = ints[scope + 2 * f], ints[scope + 2 * f + 1], longs[strides]
                true, v, u = truth[lo + v] * stride + truth[lo + u], at + v, at + u
                for k in range(n):
                    joint[k] = labels[v + k * size] * stride + labels[u + k * size]
                    differs |= joint[k] != true
            else:
                true = factor_config(maps, m, f, truth, lo)
                for k in range(n):
                    joint[k] = factor_config(maps, m, f, labels, at + k * size)
                    differs |= joint[k] != true
            if not differs:
                continue
            if dense:
                fetch_row(maps, m, i, f)
            start = n_parts  # the truth's part, then one for each other joint state that some labelling has
            of_map[start], factor[start], config[start] = m, f, true
            first[n_factors], n_parts = start, start + 1
            for k in range(n):
                part = start
                while part < n_parts and config[part] != joint[k]:
                    part += 1
                if part == n_parts:
                    of_map[part], factor[part], config[part] = m, f, joint[k]
                    n_parts += 1
                which[n_factors * n + k] = part
            n_factors += 1
    return Collected(n_factors, n_parts, n)


@njit(cache=True, nogil=True, borrowed=True)
def part_dots(maps: FlatMaps, parts: Parts, collected: Collected, w: F64, out: F64) -> int:
    """Write ``w . psi_k`` of the labellings whose parts were collected.

    Each part, a factor in one joint state, is multiplied with w once, however many labellings have it.

    Parameters
    ----------
    maps : FlatMaps
        Read only.
    parts, collected : Parts, Collected
        As :func:`collect_parts` wrote and returned them; ``number`` is written.
    w : ndarray of float64, shape (dim,)
        Read only.
    out : ndarray of float64, shape (at least n,)
        Written.

    Returns
    -------
    int
        The cost, in multiply-adds.
    """
    n_factors, n_parts, n = collected
    of_map, factor, config, number, first, which, _, example = parts
    work, i = 0, example[0]
    for part in range(n_parts):
        m, f = np.int64(of_map[part]), np.int64(factor[part])
        number[part] = factor_dot(maps, m, i, f, np.int64(config[part]), w)
        work += PART_WORK + factor_work(maps, m, i, f)
    for k in range(n):
        out[k] = 0.0
    for j in range(n_factors):
        true = number[first[j]]
        for k in range(n):
            out[k] += true - number[which[j * n + k]]
    return work


@njit(cache=True, nogil=True, borrowed=True)
def move_parts(
    fixed: Fixed, parts: Parts, collected: Collected, metric: F64, bounded: I8, delta: F64, w: F64, free: F64
) -> None:
    """Add ``metric_m sum_k delta_k psi_k`` to w, map by map; weights of bounded maps move through ``free``.

    Coefficients are added up over labellings first, so that each part's features are touched once.

    Parameters
    ----------
    fixed : Fixed
        Read only: the features, and the lower bounds.
    parts, collected : Parts, Collected
        As :func:`collect_parts` wrote and returned them; ``number`` is written.
    metric : ndarray of float64, shape (M,)
        The factor of each map's entries.
    bounded : ndarray of int8, shape (M,)
        Maps that move ``free``, and have ``w = shrunk(free)``; zeros where w is no weights.
    delta : ndarray of float64, shape (at least n,)
        Coefficient of each labelling; read only.
    w, free : ndarray of float64, shape (dim,)
        Changed in place, at the entries of parts only; may be one array where no map is bounded.
    """
    maps, (n_factors, n_parts, n) = fixed.maps, collected
    of_map, factor, config, number, first, which, _, example = parts
    i = example[0]
    for part in range(n_parts):
        number[part] = 0.0
    for j in range(n_factors):
        for k in range(n):
            part = which[j * n + k]
            if part != first[j]:  # psi_k: the truth's part minus that of labelling k
                number[first[j]] += delta[k]
                number[part] -= delta[k]
    for part in range(n_parts):
        if number[part] == 0.0:
            continue
        m, f, c = np.int64(of_map[part]), np.int64(factor[part]), np.int64(config[part])
        target = free if bounded[m] else w
        factor_add(maps, m, i, f, c, number[part] * metric[m], target)
        if bounded[m]:  # entries of two parts are set twice: the last time is correct
            shrink_entries(maps, m, i, f, c, free, w, Shrinkage(fixed.lower[m], fixed.threshold))


@njit(cache=True, nogil=True, borrowed=True)
def clear_parts(maps: FlatMaps, parts: Parts, collected: Collected, k: int, out: F64) -> None:
    """Set every entry of ``out`` that the plane of labelling k touches to exactly zero."""
    i = parts.example[0]
    for j in range(collected.n_factors):
        true, own = parts.first[j], parts.which[j * collected.n + k]
        if own != true:
            m, f = np.int64(parts.map[own]), np.int64(parts.factor[own])
            clear_entries(maps, m, i, f, np.int64(parts.config[true]), out)
            clear_entries(maps, m, i, f, np.int64(parts.config[own]), out)


@njit(cache=True, nogil=True, borrowed=True)
def factor_work(maps: FlatMaps, m: int, i: int, f: int) -> int:
    """Return the operations of one product of features and weights; a single weight costs a line of the cache."""
    desc = maps.desc
    if desc[m, KIND] < SPARSE:
        return int(desc[m, WIDTH])
    at = desc[m, CSR_PTR] + feature_row(maps, m, i, f, 0)
    return int(CACHE_LINE * (maps.longs[at + 1] - maps.longs[at]))


@njit(cache=True, nogil=True, borrowed=True)
def scored_dots(fixed: Fixed, scores: ScoreSpace, i: int, labels: I32, at: int, n: int, out: F64) -> int:
    """Write what :func:`part_dots` does for n labellings of example i, from the scores written for the oracle.

    Parameters
    ----------
    fixed, i, labels, at, n
        As for :func:`collect_parts`; read only.
    scores : ScoreSpace
        The loss-augmented scores of the example; read only.
    out : ndarray of float64, shape (at least n,)
        Written.

    Returns
    -------
    int
        The cost, in multiply-adds.
            """
    lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
    truth = own_score(fixed, scores, i, fixed.truth[lo:hi])
    for k in range(n):
        first = at + k * (hi - lo)
        out[k] = truth - own_score(fixed, scores, i, labels[first : first + hi - lo])
    return int((n + 1) * (hi - lo))


@njit(cache=True, nogil=True, borrowed=True)
def own_score(fixed: Fixed, scores: ScoreSpace, i: int, labels: I32) -> float:
    """Return ``w . Phi`` of one labelling of example i from loss-augmented scores: the loss is taken off again.

    So is what tables of maps hold besides their weights.
    """
    tables, lo = fixed.tables, fixed.var_ptr[i]
    total = labels_score(fixed, scores, i, labels)
    total -= tables_score(tables, tables.ptr[2 * i + 1], tables.ptr[2 * i + 2], labels)
    for v in range(len(labels)):
        total -= fixed.node_loss[fixed.state_ptr[lo + v] + labels[v]]
    return total


@njit(cache=True, nogil=True, borrowed=True)
def labels_score(fixed: Fixed, scores: ScoreSpace, i: int, labels: I32) -> float:
    """Return the score of a labelling of example i, its variables' states, from the scores written for the oracle."""
    maps, lo, total = fixed.maps, fixed.var_ptr[i], 0.0
    desc, ints, longs = maps.desc, maps.ints, maps.longs
    for v in range(fixed.var_ptr[i + 1] - lo):
        total += scores.node[fixed.state_ptr[lo + v] + labels[v]]
    for m in range(len(desc)):
        if desc[m, POOL] >= 0:
            begin, end = factors_of(maps, m, i)
            base = longs[desc[m, TABLE_BASE] + i]
            for f in range(begin, end):
                config = factor_config(maps, m, f, labels, 0)
                if config < 0:
                    continue
                total += scores.pool[desc[m, POOL] + (base + ints[desc[m, TABLE] + f]) * desc[m, N_CONFIGS] + config]
    return total


class Shrinkage(NamedTuple):
    """The map from free weights to weights.

    Parameters
    ----------
    lower : float
        The bound of the map; nan to set exact zeros.
    threshold : float
        Of the L1 penalty.
    """

    lower: float
    threshold: float


@njit(cache=True, nogil=True, borrowed=True)
def shrunk(free: float, lower: float, threshold: float) -> float:
    """Return the weight of a free one: moved towards 0 by the L1 penalty, and raised to its bound."""
    return max(free - min(max(free, -threshold), threshold), lower)


@njit(cache=True, nogil=True, borrowed=True)
def shrink_entries(
    maps: FlatMaps, m: int, i: int, f: int, config: int, source: F64, target: F64, shrinkage: Shrinkage
) -> None:
    """Set ``target = shrunk(source)`` on the weights of one factor in one joint state, or 0 where lower is nan.

    Parameters
    ----------
    maps, m, i, f, config
        As for :func:`ssvm_dsl.kernels.scoring.factor_add`: the map, the example, the factor, and its joint state.
    source : ndarray of float64, shape (dim,)
        Read only, unless it is the target.
    target : ndarray of float64, shape (dim,)
        Changed in place, where the features of the factor are.
    shrinkage : Shrinkage
    """
    if config < 0:
        return
    lower, threshold = shrinkage.lower, shrinkage.threshold
    desc, ints, longs, _, _ = maps
    start, row, clear = weight_start(maps, m, f), feature_row(maps, m, i, f, config), np.isnan(lower)
    first = desc[m, BASIS_PTR] + config
    for entry in range(ints[first], ints[first + 1]):
        at = start + ints[desc[m, BASIS_INDEX] + entry] * desc[m, BASIS_STRIDE]
        if desc[m, KIND] == NO_FEATURES:
            target[at] = 0.0 if clear else shrunk(source[at], lower, threshold)
        elif desc[m, KIND] == DENSE:
            for p in range(at, at + desc[m, WIDTH]):
                target[p] = 0.0 if clear else shrunk(source[p], lower, threshold)
        else:
            for k in range(longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]):
                feature = ints[desc[m, CSR_INDICES] + k]
                if desc[m, KIND] == SPARSE:
                    p = at + feature * desc[m, FEATURE_STRIDE]
                else:
                    p = weight_of(maps, m, at, feature, config)
                if p >= 0:
                    target[p] = 0.0 if clear else shrunk(source[p], lower, threshold)


@njit(cache=True, nogil=True, borrowed=True)
def clear_entries(maps: FlatMaps, m: int, i: int, f: int, config: int, out: F64) -> None:
    """Set the entries of one factor in one joint state to exactly zero."""
    shrink_entries(maps, m, i, f, config, out, out, Shrinkage(np.nan, 0.0))


@njit(cache=True, nogil=True, borrowed=True)
def larger_error(off: float, score: float, own: float) -> float:
    """Return the larger relative error: that of the scores so far, or of one that an oracle has reported.

    ``nan`` where the oracle has no answer, or the scores are no numbers.
    """
    error = abs(score - own) / (1.0 + abs(own))
    return error if np.isnan(error) or error > off else off
