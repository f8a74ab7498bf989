"""Compiled joint-feature kernels: ``w . Phi(x, y)``, ``w += c Phi(x, y)``, scores of one example, sparse rows.

They read the feature maps in their flat form (:class:`~ssvm_dsl.ir.flat.FlatMaps`).  This module and the
backends' kernels are the only ones that need numba; import it where a kernel is called.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ssvm_dsl.ir.borrow import borrow
from ssvm_dsl.ir.flat import (
    ARITY,
    BASIS_INDEX,
    BASIS_PTR,
    BASIS_STRIDE,
    BASIS_VALUE,
    CSR_INDICES,
    CSR_PTR,
    DENSE,
    FEATURE_STRIDE,
    FEATURES,
    IDENTITY,
    JOINT,
    KIND,
    N_BASIS,
    N_CONFIGS,
    N_UNITS,
    NO_FEATURES,
    POOL,
    PTR,
    ROW,
    SCOPE,
    SPARSE,
    STRIDES,
    TABLE,
    UNIT,
    UNIT_STRIDE,
    WEIGHTS,
    WIDTH,
    FlatMaps,
)
from ssvm_dsl.ir.observed_kernels import observed_add, observed_dot, observed_scores

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot(x: F64, x_at: int, w: F64, w_at: int, n: int) -> float:
    """Return ``x[x_at : x_at + n] . w[w_at : w_at + n]``."""
    left, right = x[x_at : x_at + n], w[w_at : w_at + n]
    total = 0.0
    for p in range(n):
        total += left[p] * right[p]
    return total


@njit(cache=True, nogil=True, inline="always")
def add_scaled(x: F64, x_at: int, coef: float, out: F64, out_at: int, n: int) -> None:
    """Add ``coef * x[x_at : x_at + n]`` to ``out[out_at : out_at + n]``."""
    source, target = x[x_at : x_at + n], out[out_at : out_at + n]
    for p in range(n):
        target[p] += coef * source[p]


@njit(cache=True, nogil=True, inline="always")
def factor_config(desc: I64, ints: I32, longs: I64, m: int, f: int, first: int, labels: I32, at: int) -> int:
    """Return the joint state of factor f of map m; ``labels[at + v - first]`` is the state of variable v."""
    arity, scope = desc[m, ARITY], desc[m, SCOPE]
    if arity == 1:
        return int(labels[at + ints[scope + f] - first])
    config = 0
    for k in range(arity):
        config += labels[at + ints[scope + f * arity + k] - first] * longs[desc[m, STRIDES] + k]
    return config


@njit(cache=True, nogil=True, inline="always")
def feature_row(desc: I64, ints: I32, m: int, f: int, config: int) -> int:
    """Return the feature row of a factor (in a joint state, for features that depend on it)."""
    row = f if desc[m, ROW] < 0 else int(ints[desc[m, ROW] + f])
    return int(row * desc[m, N_CONFIGS] + config) if desc[m, JOINT] else row


@njit(cache=True, nogil=True, inline="always")
def weight_start(desc: I64, ints: I32, m: int, f: int) -> int:
    """Return where the weights of a factor's unit start."""
    unit = 0 if desc[m, UNIT] < 0 else ints[desc[m, UNIT] + f]
    return desc[m, WEIGHTS] + unit * desc[m, UNIT_STRIDE]


@njit(cache=True, nogil=True, inline="always")
def factor_dot(
    desc: I64, ints: I32, longs: I64, features: F64, values: F64, m: int, f: int, config: int, w: F64
) -> float:
    """Return the score of factor f of map m in one joint state: ``sum_q basis[q] w[u, q] . x``."""
    start, kind, total = weight_start(desc, ints, m, f), desc[m, KIND], 0.0
    row = feature_row(desc, ints, m, f, config)
    first = desc[m, BASIS_PTR] + config
    for entry in range(ints[first], ints[first + 1]):
        at = start + ints[desc[m, BASIS_INDEX] + entry] * desc[m, BASIS_STRIDE]
        value = values[desc[m, BASIS_VALUE] + entry]
        if kind == NO_FEATURES:
            total += value * w[at]
        elif kind == DENSE:
            width = desc[m, WIDTH]
            total += value * dot(features, desc[m, FEATURES] + row * width, w, at, width)
        elif kind == SPARSE:
            lo, hi = longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]
            for k in range(lo, hi):
                column = ints[desc[m, CSR_INDICES] + k]
                total += value * features[desc[m, FEATURES] + k] * w[at + column * desc[m, FEATURE_STRIDE]]
        else:
            total += observed_dot(desc, ints, longs, features, m, row, config, at, w)
    return total


@njit(cache=True, nogil=True, inline="always")
def factor_add(
    desc: I64, ints: I32, longs: I64, features: F64, values: F64, m: int, f: int, config: int, coef: float, out: F64
) -> None:
    """Add ``coef`` times the features of factor f of map m in one joint state to ``out``."""
    start, kind = weight_start(desc, ints, m, f), desc[m, KIND]
    row = feature_row(desc, ints, m, f, config)
    first = desc[m, BASIS_PTR] + config
    for entry in range(ints[first], ints[first + 1]):
        at = start + ints[desc[m, BASIS_INDEX] + entry] * desc[m, BASIS_STRIDE]
        value = coef * values[desc[m, BASIS_VALUE] + entry]
        if kind == NO_FEATURES:
            out[at] += value
        elif kind == DENSE:
            width = desc[m, WIDTH]
            add_scaled(features, desc[m, FEATURES] + row * width, value, out, at, width)
        elif kind == SPARSE:
            lo, hi = longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]
            for k in range(lo, hi):
                column = ints[desc[m, CSR_INDICES] + k]
                out[at + column * desc[m, FEATURE_STRIDE]] += value * features[desc[m, FEATURES] + k]
        else:
            observed_add(desc, ints, longs, features, m, row, config, value, at, out)


@njit(cache=True, nogil=True)
def dot_joint_features(
    maps: FlatMaps, var_ptr: I64, examples: I64, label_ptr: I64, labels: I32, w: F64, out: F64
) -> None:
    """Write ``w . Phi(x_i, y_i)`` of each listed example to ``out``; ``labels`` packed by ``label_ptr``."""
    desc, ints, longs, features, values = borrow(maps)
    labels, out = borrow(labels), borrow(out)
    for k in range(len(examples)):
        i, total = examples[k], 0.0
        for m in range(len(desc)):
            at = desc[m, PTR] + i
            for f in range(longs[at], longs[at + 1]):
                config = factor_config(desc, ints, longs, m, f, var_ptr[i], labels, label_ptr[k])
                total += factor_dot(desc, ints, longs, features, values, m, f, config, w)
        out[k] = total


@njit(cache=True, nogil=True)
def add_joint_features(
    maps: FlatMaps, var_ptr: I64, examples: I64, label_ptr: I64, labels: I32, coef: F64, out: F64
) -> None:
    """Add ``sum_k coef_k Phi(x_k, y_k)`` over the listed examples to ``out``."""
    desc, ints, longs, features, values = borrow(maps)
    labels, out = borrow(labels), borrow(out)
    for k in range(len(examples)):
        i = examples[k]
        if coef[k] == 0.0:
            continue
        for m in range(len(desc)):
            at = desc[m, PTR] + i
            for f in range(longs[at], longs[at + 1]):
                config = factor_config(desc, ints, longs, m, f, var_ptr[i], labels, label_ptr[k])
                factor_add(desc, ints, longs, features, values, m, f, config, coef[k], out)


@njit(cache=True, nogil=True)
def sparse_rows_times(data: F64, indices: I32, ptr: I64, rows: I64, weights: F64, out: F64) -> None:
    """Add ``X[rows] @ weights`` to ``out``; X in CSR form, weights (P, q), out (len(rows), q)."""
    n = weights.shape[1]
    for k in range(len(rows)):
        for e in range(ptr[rows[k]], ptr[rows[k] + 1]):
            column, value = indices[e], data[e]
            for q in range(n):
                out[k, q] += value * weights[column, q]


@njit(cache=True, nogil=True)
def add_sparse_outer(data: F64, indices: I32, ptr: I64, rows: I64, values: F64, out: F64) -> None:
    """Add ``X[rows].T @ values`` to ``out`` (P, q)."""
    n = values.shape[1]
    for k in range(len(rows)):
        for e in range(ptr[rows[k]], ptr[rows[k] + 1]):
            column, value = indices[e], data[e]
            for q in range(n):
                out[column, q] += value * values[k, q]


@njit(cache=True, nogil=True)
def add_node_scores(
    node: F64, state_ptr: I64, var_ptr: I64, examples: I64, label_ptr: I64, labels: I32, out: F64
) -> None:
    """Add the unary scores of a labelling of each listed example to ``out``."""
    for k in range(len(examples)):
        first, total = var_ptr[examples[k]], 0.0
        for j in range(label_ptr[k + 1] - label_ptr[k]):
            total += node[state_ptr[first + j] + labels[label_ptr[k] + j]]
        out[k] += total


@njit(cache=True, nogil=True)
def add_table_scores(
    scope: I32,
    strides: I64,
    ptr: I64,
    table_row: I32,
    tables: F64,
    var_ptr: I64,
    examples: I64,
    label_ptr: I64,
    labels: I32,
    out: F64,
) -> None:
    """Add the scores of one group's factors for a labelling of each listed example to ``out``."""
    for k in range(len(examples)):
        i, total = examples[k], 0.0
        shift = label_ptr[k] - var_ptr[i]
        for f in range(ptr[i], ptr[i + 1]):
            config = 0
            for r in range(scope.shape[1]):
                config += labels[scope[f, r] + shift] * strides[r]
            total += tables[table_row[f], config]
        out[k] += total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dense_rows(
    features: F64, x_at: int, width: int, w: F64, w_at: int, n: int, scale: float, out: F64, out_at: int
) -> None:
    """Add ``scale * w[q] . x`` for q < n to ``out``; the rows of w lie one after the other from ``w_at``."""
    x, target = features[x_at : x_at + width], out[out_at : out_at + n]
    rows = w[w_at : w_at + n * width]
    q = 0
    while q + 3 < n:
        at = q * width
        w0, w1 = rows[at : at + width], rows[at + width : at + 2 * width]
        w2, w3 = rows[at + 2 * width : at + 3 * width], rows[at + 3 * width : at + 4 * width]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for p in range(width):
            s0 += x[p] * w0[p]
            s1 += x[p] * w1[p]
            s2 += x[p] * w2[p]
            s3 += x[p] * w3[p]
        target[q] += scale * s0
        target[q + 1] += scale * s1
        target[q + 2] += scale * s2
        target[q + 3] += scale * s3
        q += 4
    while q < n:
        target[q] += scale * dot(features, x_at, w, w_at + q * width, width)
        q += 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sparse_scores(
    columns: I32, x: F64, lo: int, hi: int, w: F64, w_at: int, n: int, scale: float, out: F64, out_at: int
) -> None:
    """Add ``scale sum_k x[k] w[columns[k]]`` for ``lo <= k < hi`` to ``out``; the n weights of a column lie together.

    Four columns at a time: their weights, which lie anywhere in memory, are waited for together.
    """
    target, k = out[out_at : out_at + n], lo
    while k + 3 < hi:
        at0, at1 = w_at + columns[k] * n, w_at + columns[k + 1] * n
        at2, at3 = w_at + columns[k + 2] * n, w_at + columns[k + 3] * n
        x0, x1, x2, x3 = scale * x[k], scale * x[k + 1], scale * x[k + 2], scale * x[k + 3]
        w0, w1, w2, w3 = w[at0 : at0 + n], w[at1 : at1 + n], w[at2 : at2 + n], w[at3 : at3 + n]
        for q in range(n):
            target[q] += (x0 * w0[q] + x1 * w1[q]) + (x2 * w2[q] + x3 * w3[q])
        k += 4
    while k < hi:
        add_scaled(w, w_at + columns[k] * n, scale * x[k], out, out_at, n)
        k += 1


@njit(cache=True, nogil=True)
def basis_scores(
    desc: I64,
    ints: I32,
    longs: I64,
    features: F64,
    m: int,
    row: int,
    start: int,
    w: F64,
    scale: float,
    out: F64,
    out_at: int,
) -> None:
    """Add ``scale sum_p w[u, q, p] x[p]`` for every basis function q to ``out``."""
    n, kind = desc[m, N_BASIS], desc[m, KIND]
    if kind == NO_FEATURES:
        add_scaled(w, start, scale, out, out_at, n)
    elif kind == DENSE:
        width = desc[m, WIDTH]
        dense_rows(features, desc[m, FEATURES] + row * width, width, w, start, n, scale, out, out_at)
    elif kind == SPARSE:
        lo, hi = longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]
        columns, values = ints[desc[m, CSR_INDICES] :], features[desc[m, FEATURES] :]
        sparse_scores(columns, values, lo, hi, w, start, n, scale, out, out_at)
    else:
        observed_scores(desc, ints, longs, features, m, row, start, w, scale, out, out_at)


@njit(cache=True, nogil=True)
def factor_scores(
    maps: FlatMaps, m: int, row: int, start: int, w: F64, scale: float, work: F64, out: F64, out_at: int
) -> None:
    """Add ``scale`` times the scores of all joint states of one factor with a form or with joint features to ``out``.

    ``work`` holds at least n_basis numbers.
    """
    desc, ints, longs, features, values = maps
    if desc[m, JOINT]:
        width = desc[m, WIDTH]
        for config in range(desc[m, N_CONFIGS]):
            at = desc[m, FEATURES] + (row + config) * width
            out[out_at + config] += scale * dot(features, at, w, start, width)
        return
    work[: desc[m, N_BASIS]] = 0.0
    basis_scores(desc, ints, longs, features, m, row, start, w, scale, work, np.int64(0))
    for config in range(desc[m, N_CONFIGS]):
        first = desc[m, BASIS_PTR] + config
        for entry in range(ints[first], ints[first + 1]):
            q = ints[desc[m, BASIS_INDEX] + entry]
            out[out_at + config] += values[desc[m, BASIS_VALUE] + entry] * work[q]


@njit(cache=True, nogil=True)
def rows_of_factors(maps: FlatMaps, m: int, factors: I64, w: F64, work: F64, out: F64) -> None:
    """Add the scores of all joint states of some factors of map m to ``out``, one factor after the other."""
    desc, ints, longs, features, _ = borrow(maps)
    w, work, out = borrow(w), borrow(work), borrow(out)
    for k in range(len(factors)):
        start, row = weight_start(desc, ints, m, factors[k]), feature_row(desc, ints, m, factors[k], 0)
        if desc[m, IDENTITY]:
            basis_scores(desc, ints, longs, features, m, row, start, w, 1.0, out, k * desc[m, N_CONFIGS])
        else:
            factor_scores(maps, m, row, start, w, 1.0, work, out, k * desc[m, N_CONFIGS])


@njit(cache=True, nogil=True)
def add_rows_of_factors(maps: FlatMaps, m: int, factors: I64, coef: F64, out: F64) -> None:
    """Add ``coef`` times the features of all joint states of some factors of map m to ``out``: the adjoint."""
    desc, ints, longs, features, values = borrow(maps)
    coef, out = borrow(coef), borrow(out)
    for k in range(len(factors)):
        for config in range(desc[m, N_CONFIGS]):
            share = coef[k * desc[m, N_CONFIGS] + config]
            if share != 0.0:
                factor_add(desc, ints, longs, features, values, m, factors[k], config, share, out)


@njit(cache=True, nogil=True)
def score_example(
    maps: FlatMaps,
    i: int,
    lo: int,
    hi: int,
    state_ptr: I64,
    bonus: F64,
    w: F64,
    scales: F64,
    work: F64,
    node: F64,
    pool: F64,
) -> None:
    """Write ``bonus + Phi w`` of example i (variables ``lo..hi-1``) to ``node`` and ``pool``.

    The weights of map m are ``scales[m]`` times those in w.  Tables that examples share are written too: they
    follow w.
    """
    desc, ints, longs, features, _ = borrow(maps)
    state_ptr, bonus, w, work = borrow(state_ptr), borrow(bonus), borrow(w), borrow(work)
    scales, node, pool = borrow(scales), borrow(node), borrow(pool)
    for s in range(state_ptr[lo], state_ptr[hi]):
        node[s] = bonus[s]
    for m in range(len(desc)):
        n, in_pool, plain = desc[m, N_CONFIGS], desc[m, POOL] >= 0, desc[m, IDENTITY]
        target = pool if in_pool else node
        shared = in_pool and desc[m, KIND] == NO_FEATURES
        first, last = longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]
        for f in range(0 if shared else first, desc[m, N_UNITS] if shared else last):
            if shared:
                at, start, row = desc[m, POOL] + f * n, desc[m, WEIGHTS] + f * desc[m, UNIT_STRIDE], 0
            else:
                start, row = weight_start(desc, ints, m, f), feature_row(desc, ints, m, f, 0)
                at = state_ptr[ints[desc[m, SCOPE] + f]]
                if in_pool:
                    at = desc[m, POOL] + ints[desc[m, TABLE] + f] * n
            if in_pool:
                target[at : at + n] = 0.0
            if plain:
                basis_scores(desc, ints, longs, features, m, row, start, w, scales[m], target, at)
            else:
                factor_scores(maps, m, row, start, w, scales[m], work, target, at)
