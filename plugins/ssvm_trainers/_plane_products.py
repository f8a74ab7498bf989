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
    BASIS_INDEX,
    BASIS_PTR,
    BASIS_STRIDE,
    CSR_INDICES,
    CSR_PTR,
    DENSE,
    FEATURE_STRIDE,
    KIND,
    N_CONFIGS,
    NO_FEATURES,
    POOL,
    PTR,
    SPARSE,
    TABLE,
    WIDTH,
    FlatMaps,
)
from ssvm_dsl.ir.kernels import factor_add, factor_config, factor_dot, feature_row, weight_start
from ssvm_trainers._plane_arrays import CACHE_LINE, F64, I8, I32, I64, Fixed


@njit(cache=True, nogil=True, inline="always")
def remembered(seen: I32, n_seen: int, config: int) -> int:
    """Return the position of a joint state among those seen, -1 when it is new."""
    for j in range(n_seen):
        if seen[j] == config:
            return j
    return -1


@njit(cache=True, nogil=True)
def plane_dots(
    maps: FlatMaps,
    truth_config: I32,
    config_start: I64,
    i: int,
    lo: int,
    labels: I32,
    at: int,
    size: int,
    n: int,
    w: F64,
    seen: I32,
    which: I32,
    product: F64,
    out: F64,
) -> int:
    """Write ``w . psi_k`` of n labellings of example i, one after the other from ``labels[at]``.

    Returns the number of multiply-adds.
    """
    desc, ints, longs, features, values = borrow(maps)
    truth_config, config_start, labels, w = borrow(truth_config), borrow(config_start), borrow(labels), borrow(w)
    seen, which, product, out = borrow(seen), borrow(which), borrow(product), borrow(out)
    operations = 0
    for k in range(n):
        out[k] = 0.0
    for m in range(len(desc)):
        for f in range(longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]):
            true, n_seen = np.int64(truth_config[config_start[m] + f]), 1
            seen[0] = true
            for k in range(n):
                config = factor_config(desc, ints, longs, m, f, lo, labels, at + k * size)
                which[k] = remembered(seen, n_seen, config)
                if which[k] < 0:
                    which[k], seen[n_seen] = n_seen, config
                    n_seen += 1
            if n_seen == 1:
                continue
            for j in range(n_seen):
                product[j] = factor_dot(desc, ints, longs, features, values, m, f, np.int64(seen[j]), w)
            for k in range(n):
                out[k] += product[0] - product[which[k]]
            operations += n_seen * factor_work(desc, ints, longs, m, f)
        operations += n
    return operations


@njit(cache=True, nogil=True, inline="always")
def factor_work(desc: I64, ints: I32, longs: I64, m: int, f: int) -> int:
    """Return the operations of one product of features and weights; a single weight costs a line of the cache."""
    if desc[m, KIND] != SPARSE:
        return int(desc[m, WIDTH])
    at = desc[m, CSR_PTR] + feature_row(desc, ints, m, f, 0)
    return int(CACHE_LINE * (longs[at + 1] - longs[at]))


@njit(cache=True, nogil=True)
def scored_dots(
    maps: FlatMaps, fixed: Fixed, i: int, labels: I32, at: int, n: int, node: F64, pool: F64, out: F64
) -> int:
    """Write what :func:`plane_dots` does for n labellings of example i, from the scores written for the oracle."""
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
def move_planes(
    maps: FlatMaps,
    truth_config: I32,
    config_start: I64,
    metric: F64,
    bounded: I8,
    lower: F64,
    i: int,
    lo: int,
    labels: I32,
    at: int,
    size: int,
    delta: F64,
    n: int,
    w: F64,
    free: F64,
    seen: I32,
    net: F64,
) -> None:
    """Add ``sum_k delta_k psi_k`` (times the metric of each map) to w; bounded weights move through ``free``."""
    desc, ints, longs, features, values = borrow(maps)
    truth_config, config_start, labels, w = borrow(truth_config), borrow(config_start), borrow(labels), borrow(w)
    metric, bounded, delta, free = borrow(metric), borrow(bounded), borrow(delta), borrow(free)
    seen, net = borrow(seen), borrow(net)
    for m in range(len(desc)):
        target = free if bounded[m] else w
        for f in range(longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]):
            true, n_seen, of_truth = np.int64(truth_config[config_start[m] + f]), 0, 0.0
            for k in range(n):
                if delta[k] == 0.0:
                    continue
                config = factor_config(desc, ints, longs, m, f, lo, labels, at + k * size)
                if config == true:
                    continue
                j = remembered(seen, n_seen, config)
                if j < 0:
                    j, n_seen = n_seen, n_seen + 1
                    seen[j], net[j] = config, 0.0
                net[j] -= delta[k]
                of_truth += delta[k]
            if n_seen == 0:
                continue
            seen[n_seen], net[n_seen] = true, of_truth
            for j in range(n_seen + 1):
                if net[j] != 0.0:
                    config = np.int64(seen[j])
                    factor_add(desc, ints, longs, features, values, m, f, config, net[j] * metric[m], target)
                    if bounded[m]:
                        copy_entries(maps, m, f, config, free, w, 1.0, lower[m])


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
        else:
            for k in range(longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]):
                p = at + ints[desc[m, CSR_INDICES] + k] * desc[m, FEATURE_STRIDE]
                target[p] = max(factor * source[p], lower)


@njit(cache=True, nogil=True)
def clear_plane(
    maps: FlatMaps, truth_config: I32, config_start: I64, i: int, lo: int, labels: I32, at: int, out: F64
) -> None:
    """Set every entry of ``out`` that a labelling's plane touches to exactly zero."""
    desc, ints, longs, _, _ = maps
    for m in range(len(desc)):
        for f in range(longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]):
            true = np.int64(truth_config[config_start[m] + f])
            config = factor_config(desc, ints, longs, m, f, lo, labels, at)
            if config != true:
                copy_entries(maps, m, f, true, out, out, 0.0, -np.inf)
                copy_entries(maps, m, f, config, out, out, 0.0, -np.inf)
