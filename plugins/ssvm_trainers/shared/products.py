"""Compiled products with planes: ``w . psi`` of labellings, and moves of weights along them.

``psi = Phi(x_i, y_i) - Phi(x_i, labelling)`` is never formed.  Products go factor by factor over
all labellings at once, so that those that agree on a factor share them; where the scores of all states have been
written for an oracle, they are sums of those.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I8, I32, I64
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
    SPARSE,
    STRIDES,
    TABLE,
    TABLE_BASE,
    WIDTH,
    FlatMaps,
    borrow,
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
from ssvm_trainers.shared.arrays import CACHE_LINE, Fixed, Parts

#: Multiply-adds that take as long as finding out what a part is.
PART_WORK = 320

#: Features of a factor that are asked for ahead.
MOST_FETCHED = 128


@njit(cache=True, nogil=True, borrowed=True)
def fetch_row(desc: I64, ints: I32, longs: I64, features: F64, m: int, i: int, f: int) -> None:
    """Ask for the dense features of factor f of map m: the first ones, from which processors foresee the rest.

    Parameters
    ----------
    desc, ints, longs, features
        As in :class:`~ssvm_dsl.kernels.flat.FlatMaps`; read only.
    m, i, f : int
        The map, the example, and the factor's number among those of the map's shapes.
    """
    start = desc[m, FEATURES] + feature_row(desc, ints, longs, m, i, f, 0) * desc[m, WIDTH]
    for p in range(start, start + min(desc[m, WIDTH], MOST_FETCHED), CACHE_LINE):
        prefetch(features, p)


@njit(cache=True, nogil=True, borrowed=True)
def collect_parts(maps: FlatMaps, fixed: Fixed, i: int, labels: I32, at: int, n: int, parts: Parts) -> tuple[int, int]:
    """Write the parts of n labellings of example i, one after the other from ``labels[at]``.

    A factor on which all labellings agree with the truth has no part: its features cancel in every ``psi``.

    Parameters
    ----------
    maps, fixed : FlatMaps, Fixed
        The features, and what stays the same while training; read only.
    i : int
        The example.
    labels : ndarray of int32
        Read only.
    at, n : int
        Where the first labelling starts, and how many there are, each as long as the example has variables.
    parts : Parts
        All but ``number`` is written.

    Returns
    -------
    n_factors, n_parts : int
        Factors on which some labelling differs from the truth, and parts.
    """
    desc, ints, longs, features = borrow(maps.desc), borrow(maps.ints), borrow(maps.longs), borrow(maps.features)
    truth, labels = borrow(fixed.truth), borrow(labels)
    of_map, factor, config, _, first, which, joint, example = borrow(parts)
    lo, size = fixed.var_ptr[i], fixed.var_ptr[i + 1] - fixed.var_ptr[i]
    n_factors, n_parts, example[0] = 0, 0, i
    for m in range(len(desc)):
        arity, scope, strides, dense = desc[m, ARITY], desc[m, SCOPE], desc[m, STRIDES], desc[m, KIND] == DENSE
        begin, end = factors_of(desc, ints, longs, m, i)
        for f in range(begin, end):
            differs = False
            if arity == 1:
                true, v = np.int64(truth[lo + ints[scope + f]]), at + ints[scope + f]
                for k in range(n):
                    joint[k] = labels[v + k * size]
                    differs |= joint[k] != true
            elif arity == 2:
                v, u, stride = ints[scope + 2 * f], ints[scope + 2 * f + 1], longs[strides]
                true, v, u = truth[lo + v] * stride + truth[lo + u], at + v, at + u
                for k in range(n):
                    joint[k] = labels[v + k * size] * stride + labels[u + k * size]
                    differs |= joint[k] != true
            else:
                true = factor_config(desc, ints, longs, m, f, truth, lo)
                for k in range(n):
                    joint[k] = factor_config(desc, ints, longs, m, f, labels, at + k * size)
                    differs |= joint[k] != true
            if not differs:
                continue
            if dense:
                fetch_row(desc, ints, longs, features, m, i, f)
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
    return n_factors, n_parts


@njit(cache=True, nogil=True, borrowed=True)
def part_dots(maps: FlatMaps, parts: Parts, n_factors: int, n_parts: int, n: int, w: F64, out: F64) -> int:
    """Write ``w . psi_k`` of the n labellings whose parts were collected.

    Each part, a factor in one joint state, is multiplied with w once, however many labellings have it.

    Parameters
    ----------
    maps : FlatMaps
        Read only.
    parts : Parts
        As :func:`collect_parts` wrote them; ``number`` is written.
    n_factors, n_parts, n : int
        What :func:`collect_parts` returned, and the number of labellings it was given.
    w : ndarray of float64, shape (dim,)
        Read only.
    out : ndarray of float64, shape (at least n,)
        Written.

    Returns
    -------
    int
        What it took, in multiply-adds or what takes as long.
    """
    desc, ints, longs, features, values = borrow(maps)
    of_map, factor, config, number, first, which, _, example = borrow(parts)
    w, out = borrow(w), borrow(out)
    work, i = 0, example[0]
    for part in range(n_parts):
        m, f = np.int64(of_map[part]), np.int64(factor[part])
        number[part] = factor_dot(desc, ints, longs, features, values, m, i, f, np.int64(config[part]), w)
        work += PART_WORK + factor_work(desc, ints, longs, m, i, f)
    for k in range(n):
        out[k] = 0.0
    for j in range(n_factors):
        true = number[first[j]]
        for k in range(n):
            out[k] += true - number[which[j * n + k]]
    return work


@njit(cache=True, nogil=True, borrowed=True)
def move_parts(
    maps: FlatMaps, fixed: Fixed, parts: Parts, n_factors: int, n_parts: int, n: int, metric: F64, bounded: I8,
    delta: F64, w: F64, free: F64,
) -> None:  # fmt: skip
    """Add ``metric_m sum_k delta_k psi_k`` to w, map by map; weights of bounded maps move through ``free``.

    Coefficients are added up over labellings first, so that each part's features are touched once.

    Parameters
    ----------
    maps, fixed : FlatMaps, Fixed
        Read only; of ``fixed``, the lower bounds.
    parts : Parts
        As :func:`collect_parts` wrote them; ``number`` is written.
    n_factors, n_parts, n : int
        As for :func:`part_dots`.
    metric : ndarray of float64, shape (M,)
        What each map's entries are multiplied by.
    bounded : ndarray of int8, shape (M,)
        Maps that move ``free``, and have ``w = max(free, lower)``; zeros where w is no weights.
    delta : ndarray of float64, shape (at least n,)
        Coefficient of each labelling; read only.
    w, free : ndarray of float64, shape (dim,)
        Changed in place, at the entries of parts only; may be one array where no map is bounded.
    """
    desc, ints, longs, features, values = borrow(maps)
    of_map, factor, config, number, first, which, _, example = borrow(parts)
    i = example[0]
    metric, bounded, delta, w, free = borrow(metric), borrow(bounded), borrow(delta), borrow(w), borrow(free)
    for part in range(n_parts):
        number[part] = 0.0
    for j in range(n_factors):
        for k in range(n):
            part = which[j * n + k]
            if part != first[j]:  # psi_k has the truth's part less its own
                number[first[j]] += delta[k]
                number[part] -= delta[k]
    for part in range(n_parts):
        if number[part] == 0.0:
            continue
        m, f, c = np.int64(of_map[part]), np.int64(factor[part]), np.int64(config[part])
        target = free if bounded[m] else w
        factor_add(desc, ints, longs, features, values, m, i, f, c, number[part] * metric[m], target)
        if bounded[m]:  # entries of two parts are set twice: the last time is right
            copy_entries(maps, m, i, f, c, free, w, 1.0, fixed.lower[m])


@njit(cache=True, nogil=True, borrowed=True)
def clear_parts(maps: FlatMaps, parts: Parts, n_factors: int, n: int, k: int, out: F64) -> None:
    """Set every entry of ``out`` that the plane of labelling k touches to exactly zero."""
    i = parts.example[0]
    for j in range(n_factors):
        true, own = parts.first[j], parts.which[j * n + k]
        if own != true:
            m, f = np.int64(parts.map[own]), np.int64(parts.factor[own])
            copy_entries(maps, m, i, f, np.int64(parts.config[true]), out, out, 0.0, -np.inf)
            copy_entries(maps, m, i, f, np.int64(parts.config[own]), out, out, 0.0, -np.inf)


@njit(cache=True, nogil=True, borrowed=True)
def factor_work(desc: I64, ints: I32, longs: I64, m: int, i: int, f: int) -> int:
    """Return the operations of one product of features and weights; a single weight costs a line of the cache."""
    if desc[m, KIND] < SPARSE:
        return int(desc[m, WIDTH])
    at = desc[m, CSR_PTR] + feature_row(desc, ints, longs, m, i, f, 0)
    return int(CACHE_LINE * (longs[at + 1] - longs[at]))


@njit(cache=True, nogil=True, borrowed=True)
def scored_dots(
    maps: FlatMaps, fixed: Fixed, i: int, labels: I32, at: int, n: int, node: F64, pool: F64, out: F64
) -> int:
    """Write what :func:`part_dots` does for n labellings of example i, from the scores written for the oracle.

    Parameters
    ----------
    maps, fixed, i, labels, at, n
        As for :func:`collect_parts`; read only.
    node, pool
        As for :func:`labels_score`, loss-augmented.
    out : ndarray of float64, shape (at least n,)
        Written.

    Returns
    -------
    int
        What it took, in multiply-adds.
    """
    lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
    truth = own_score(maps, fixed, i, lo, hi, fixed.truth, lo, node, pool)
    for k in range(n):
        out[k] = truth - own_score(maps, fixed, i, lo, hi, labels, at + k * (hi - lo), node, pool)
    return int((n + 1) * (hi - lo))


@njit(cache=True, nogil=True, borrowed=True)
def own_score(
    maps: FlatMaps, fixed: Fixed, i: int, lo: int, hi: int, labels: I32, at: int, node: F64, pool: F64
) -> float:
    """Return ``w . Phi`` of one labelling of example i from loss-augmented scores: the loss is taken off again.

    So is what tables of maps hold beside their weights.

    Parameters
    ----------
    maps, fixed, i, labels, at
        As for :func:`collect_parts`; read only.
    lo, hi : int
        The variables of the example are ``lo..hi-1``.
    node, pool
        As for :func:`labels_score`, loss-augmented.
    """
    tables, mine = fixed.tables, labels[at : at + hi - lo]
    total = labels_score(maps, i, fixed.state_ptr, mine, lo, hi, node, pool)
    total -= tables_score(tables, tables.ptr[2 * i + 1], tables.ptr[2 * i + 2], mine)
    for v in range(lo, hi):
        total -= fixed.node_loss[fixed.state_ptr[v] + labels[at + v - lo]]
    return total


@njit(cache=True, nogil=True, borrowed=True)
def labels_score(maps: FlatMaps, i: int, state_ptr: I64, labels: I32, lo: int, hi: int, node: F64, pool: F64) -> float:
    """Return the score of a labelling of example i from the scores written for the oracle.

    Parameters
    ----------
    maps : FlatMaps
        Read only.
    i : int
        The example.
    state_ptr : ndarray of int64, shape (V + 1,)
        Where the states of each variable start in ``node``.
    labels : ndarray of int32
        The state of variable v is ``labels[v - lo]``; read only.
    lo, hi : int
        The variables of the example are ``lo..hi-1``.
    node : ndarray of float64, shape (S,)
    pool : ndarray of float64
        Scores of states and of tables, as in :class:`~ssvm_dsl.ir.Theta`; read only.
    """
    desc, ints, longs, _, _ = maps
    total = 0.0
    for v in range(lo, hi):
        total += node[state_ptr[v] + labels[v - lo]]
    for m in range(len(desc)):
        if desc[m, POOL] >= 0:
            begin, end = factors_of(desc, ints, longs, m, i)
            base = longs[desc[m, TABLE_BASE] + i]
            for f in range(begin, end):
                config = factor_config(desc, ints, longs, m, f, labels, 0)
                total += pool[desc[m, POOL] + (base + ints[desc[m, TABLE] + f]) * desc[m, N_CONFIGS] + config]
    return total


@njit(cache=True, nogil=True, borrowed=True)
def copy_entries(
    maps: FlatMaps, m: int, i: int, f: int, config: int, source: F64, target: F64, factor: float, lower: float
) -> None:
    """Set ``target = max(factor * source, lower)`` on the weights of one factor in one joint state.

    Parameters
    ----------
    maps : FlatMaps
        Read only.
    m, i, f, config : int
        The map, the example, the factor's number among those of the map's shapes, and its joint state.
    source : ndarray of float64, shape (dim,)
        Read only, unless it is the target.
    target : ndarray of float64, shape (dim,)
        Changed in place, where the features of the factor are.
    factor, lower : float
        (1, the bound of the map) for weights that have one; (0, -inf) to set exact zeros.
    """
    desc, ints, longs, _, _ = maps
    start, row = weight_start(desc, ints, m, f), feature_row(desc, ints, longs, m, i, f, config)
    first = desc[m, BASIS_PTR] + config
    for entry in range(ints[first], ints[first + 1]):
        at = start + ints[desc[m, BASIS_INDEX] + entry] * desc[m, BASIS_STRIDE]
        if desc[m, KIND] == NO_FEATURES:
            target[at] = max(factor * source[at], lower)
        elif desc[m, KIND] == DENSE:
            for p in range(at, at + desc[m, WIDTH]):
                target[p] = max(factor * source[p], lower)
        elif desc[m, KIND] == SPARSE:
            for k in range(longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]):
                p = at + ints[desc[m, CSR_INDICES] + k] * desc[m, FEATURE_STRIDE]
                target[p] = max(factor * source[p], lower)
        else:
            for k in range(longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]):
                p = weight_of(desc, longs, m, at, ints[desc[m, CSR_INDICES] + k], config)
                if p >= 0:
                    target[p] = max(factor * source[p], lower)


@njit(cache=True, nogil=True, borrowed=True)
def worse(off: float, score: float, own: float) -> float:
    """Return the larger relative error: that of the scores so far, or of one that an oracle has reported.

    ``nan`` where the oracle has no answer, or the scores are no numbers.
    """
    error = abs(score - own) / (1.0 + abs(own))
    return error if np.isnan(error) or error > off else off
