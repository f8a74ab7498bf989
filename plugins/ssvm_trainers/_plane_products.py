"""Compiled products with planes: ``w . psi`` of labellings, and moves of weights along them.

``psi = Phi(x_i, y_i) - Phi(x_i, labelling)`` is never formed.  Products go factor by factor over
all labellings at once, so that those that agree on a factor share them; where the scores of all states have been
written for an oracle, they are sums of those.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ssvm_dsl.ir.borrow import borrow
from ssvm_dsl.ir.flat import (
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
    PTR,
    SCOPE,
    SPARSE,
    STRIDES,
    TABLE,
    WIDTH,
    FlatMaps,
)
from ssvm_dsl.ir.kernels import factor_add, factor_config, factor_dot, feature_row, weight_start
from ssvm_dsl.ir.observed_kernels import weight_of
from ssvm_dsl.ir.prefetch import prefetch
from ssvm_trainers._plane_arrays import CACHE_LINE, F64, I8, I32, I64, Fixed, Parts

#: Multiply-adds that take as long as finding out what a part is.
PART_WORK = 320

#: Features of a factor that are asked for ahead.
MOST_FETCHED = 128


@njit(cache=True, nogil=True, inline="always")
def fetch_row(desc: I64, ints: I32, features: F64, m: int, f: int) -> None:
    """Ask for the dense features of factor f of map m: the first ones, from which processors foresee the rest."""
    start = desc[m, FEATURES] + feature_row(desc, ints, m, f, 0) * desc[m, WIDTH]
    for p in range(start, start + min(desc[m, WIDTH], MOST_FETCHED), CACHE_LINE):
        prefetch(features, p)


@njit(cache=True, nogil=True, forceinline=True)
def collect_parts(
    maps: FlatMaps, fixed: Fixed, i: int, labels: I32, at: int, n: int, parts: Parts
) -> tuple[int, int]:
    """Write the parts of n labellings of example i, one after the other from ``labels[at]``.

    Returns (factors on which some labelling differs from the truth, parts).
    """
    desc, ints, longs, features = borrow(maps.desc), borrow(maps.ints), borrow(maps.longs), borrow(maps.features)
    truth_config, config_start, labels = borrow(fixed.truth_config), borrow(fixed.config_start), borrow(labels)
    of_map, factor, config, _, first, which, joint = borrow(parts)
    lo, size = fixed.var_ptr[i], fixed.var_ptr[i + 1] - fixed.var_ptr[i]
    n_factors, n_parts = 0, 0
    for m in range(len(desc)):
        arity, scope, strides, dense = desc[m, ARITY], desc[m, SCOPE], desc[m, STRIDES], desc[m, KIND] == DENSE
        for f in range(longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]):
            true, differs = truth_config[config_start[m] + f], False
            if arity == 1:
                v = at + ints[scope + f] - lo
                for k in range(n):
                    joint[k] = labels[v + k * size]
                    differs |= joint[k] != true
            elif arity == 2:
                v, u, stride = at + ints[scope + 2 * f] - lo, at + ints[scope + 2 * f + 1] - lo, longs[strides]
                for k in range(n):
                    joint[k] = labels[v + k * size] * stride + labels[u + k * size]
                    differs |= joint[k] != true
            else:
                for k in range(n):
                    joint[k] = factor_config(desc, ints, longs, m, f, lo, labels, at + k * size)
                    differs |= joint[k] != true
            if not differs:
                continue
            if dense:
                fetch_row(desc, ints, features, m, f)
            start = n_parts
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


@njit(cache=True, nogil=True, forceinline=True)
def part_dots(maps: FlatMaps, parts: Parts, n_factors: int, n_parts: int, n: int, w: F64, out: F64) -> int:
    """Write ``w . psi_k`` of the n labellings whose parts were collected.

    Returns what it took, in multiply-adds or what takes as long.
    """
    desc, ints, longs, features, values = borrow(maps)
    of_map, factor, config, number, first, which, _ = borrow(parts)
    w, out = borrow(w), borrow(out)
    work = 0
    for part in range(n_parts):
        m, f = np.int64(of_map[part]), np.int64(factor[part])
        number[part] = factor_dot(desc, ints, longs, features, values, m, f, np.int64(config[part]), w)
        work += PART_WORK + factor_work(desc, ints, longs, m, f)
    for k in range(n):
        out[k] = 0.0
    for j in range(n_factors):
        true = number[first[j]]
        for k in range(n):
            out[k] += true - number[which[j * n + k]]
    return work


@njit(cache=True, nogil=True, forceinline=True)
def move_parts(
    maps: FlatMaps, fixed: Fixed, parts: Parts, n_factors: int, n_parts: int, n: int, metric: F64, bounded: I8,
    delta: F64, w: F64, free: F64,
) -> None:  # fmt: skip
    """Add ``sum_k delta_k psi_k`` (times the metric of each map) to w; bounded weights move through ``free``."""
    desc, ints, longs, features, values = borrow(maps)
    of_map, factor, config, number, first, which, _ = borrow(parts)
    metric, bounded, delta, w, free = borrow(metric), borrow(bounded), borrow(delta), borrow(w), borrow(free)
    for part in range(n_parts):
        number[part] = 0.0
    for j in range(n_factors):
        for k in range(n):
            part = which[j * n + k]
            if part != first[j]:
                number[first[j]] += delta[k]
                number[part] -= delta[k]
    for part in range(n_parts):
        if number[part] == 0.0:
            continue
        m, f, c = np.int64(of_map[part]), np.int64(factor[part]), np.int64(config[part])
        target = free if bounded[m] else w
        factor_add(desc, ints, longs, features, values, m, f, c, number[part] * metric[m], target)
        if bounded[m]:
            copy_entries(maps, m, f, c, free, w, 1.0, fixed.lower[m])


@njit(cache=True, nogil=True)
def clear_parts(maps: FlatMaps, parts: Parts, n_factors: int, n: int, k: int, out: F64) -> None:
    """Set every entry of ``out`` that the plane of labelling k touches to exactly zero."""
    for j in range(n_factors):
        true, own = parts.first[j], parts.which[j * n + k]
        if own != true:
            m, f = np.int64(parts.map[own]), np.int64(parts.factor[own])
            copy_entries(maps, m, f, np.int64(parts.config[true]), out, out, 0.0, -np.inf)
            copy_entries(maps, m, f, np.int64(parts.config[own]), out, out, 0.0, -np.inf)


@njit(cache=True, nogil=True, inline="always")
def factor_work(desc: I64, ints: I32, longs: I64, m: int, f: int) -> int:
    """Return the operations of one product of features and weights; a single weight costs a line of the cache."""
    if desc[m, KIND] < SPARSE:
        return int(desc[m, WIDTH])
    at = desc[m, CSR_PTR] + feature_row(desc, ints, m, f, 0)
    return int(CACHE_LINE * (longs[at + 1] - longs[at]))


@njit(cache=True, nogil=True)
def scored_dots(
    maps: FlatMaps, fixed: Fixed, i: int, labels: I32, at: int, n: int, node: F64, pool: F64, out: F64
) -> int:
    """Write what :func:`part_dots` does for n labellings of example i, from the scores written for the oracle."""
    lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
    truth = own_score(maps, fixed, i, lo, hi, fixed.truth, lo, node, pool)
    for k in range(n):
        out[k] = truth - own_score(maps, fixed, i, lo, hi, labels, at + k * (hi - lo), node, pool)
    return int((n + 1) * (hi - lo))


@njit(cache=True, nogil=True)
def own_score(
    maps: FlatMaps, fixed: Fixed, i: int, lo: int, hi: int, labels: I32, at: int, node: F64, pool: F64
) -> float:
    """Return ``w . Phi`` of one labelling of example i from loss-augmented scores."""
    total = labels_score(maps, i, fixed.state_ptr, labels[at : at + hi - lo], lo, hi, node, pool)
    for v in range(lo, hi):
        total -= fixed.node_loss[fixed.state_ptr[v] + labels[at + v - lo]]
    return total


@njit(cache=True, nogil=True)
def labels_score(maps: FlatMaps, i: int, state_ptr: I64, labels: I32, lo: int, hi: int, node: F64, pool: F64) -> float:
    """Return the score of a labelling of example i from the scores written for the oracle."""
    desc, ints, longs, _, _ = maps
    total = 0.0
    for v in range(lo, hi):
        total += node[state_ptr[v] + labels[v - lo]]
    for m in range(len(desc)):
        if desc[m, POOL] >= 0:
            for f in range(longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]):
                config = factor_config(desc, ints, longs, m, f, lo, labels, 0)
                total += pool[desc[m, POOL] + ints[desc[m, TABLE] + f] * desc[m, N_CONFIGS] + config]
    return total


@njit(cache=True, nogil=True)
def copy_entries(
    maps: FlatMaps, m: int, f: int, config: int, source: F64, target: F64, factor: float, lower: float
) -> None:
    """Set ``target = max(factor * source, lower)`` on the weights of one factor in one joint state."""
    desc, ints, longs, _, _ = maps
    start, row = weight_start(desc, ints, m, f), feature_row(desc, ints, m, f, config)
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
