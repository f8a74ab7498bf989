"""Compiled products of feature rows, dense, in CSR form or of observed pairs, with weights, and their adjoints."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import CSR_INDICES, CSR_PTR, FEATURES, N_CONFIGS, PAIRS, WORD, FlatMaps
from ssvm_dsl.kernels.intrinsics import count_bits, first_bit, prefetch
from ssvm_dsl.kernels.vectors import BLOCK, gather_rows, scatter_row


@njit(cache=True, nogil=True, borrowed=True, fastmath={"reassoc", "contract"})
def dot(x: F64, w: F64) -> float:
    """Return ``x . w``."""
    total = 0.0
    for p in range(len(x)):
        total += x[p] * w[p]
    return total


@njit(cache=True, nogil=True, borrowed=True)
def add_scaled(x: F64, coef: float, out: F64) -> None:
    """Add ``coef * x`` to ``out``."""
    for p in range(len(x)):
        out[p] += coef * x[p]


@njit(cache=True, nogil=True, borrowed=True, fastmath={"reassoc", "contract"})
def dense_rows(x: F64, rows: F64, scale: float, out: F64) -> None:
    """Add ``scale * rows[q] . x`` for every q to ``out``, four rows at a time: x is loaded once for them.

    Parameters
    ----------
    x : ndarray of float64, shape (width,)
        The features of one row.
    rows : ndarray of float64
        From its first element on: weights of one q after the other, ``width`` each.
    scale : float
    out : ndarray of float64, shape (n,)
        Changed in place.
    """
    width, n = len(x), len(out)
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
        out[q] += scale * s0
        out[q + 1] += scale * s1
        out[q + 2] += scale * s2
        out[q + 3] += scale * s3
        q += 4
    while q < n:
        out[q] += scale * dot(x, rows[q * width : (q + 1) * width])
        q += 1


@njit(cache=True, nogil=True, borrowed=True, fastmath={"reassoc", "contract"})
def sparse_scores(columns: I32, x: F64, weights: F64, scale: float, out: F64) -> None:
    """Add ``scale sum_k x[k] w[columns[k]]`` to ``out``; the weights of a column lie together.

    Four columns at a time: their weights, which lie anywhere in memory, are waited for together.

    Parameters
    ----------
    columns : ndarray of int32, shape (nnz,)
    x : ndarray of float64, shape (nnz,)
        One row in CSR form.
    weights : ndarray of float64
        Column p has the weights ``weights[p n : p n + n]``.
    scale : float
    out : ndarray of float64, shape (n,)
        Changed in place.
    """
    n, k, end = len(out), 0, len(x)
    while k + 3 < end:
        at0, at1 = columns[k] * n, columns[k + 1] * n
        at2, at3 = columns[k + 2] * n, columns[k + 3] * n
        x0, x1, x2, x3 = scale * x[k], scale * x[k + 1], scale * x[k + 2], scale * x[k + 3]
        w0, w1, w2, w3 = weights[at0 : at0 + n], weights[at1 : at1 + n], weights[at2 : at2 + n], weights[at3 : at3 + n]
        for q in range(n):
            out[q] += (x0 * w0[q] + x1 * w1[q]) + (x2 * w2[q] + x3 * w3[q])
        k += 4
    while k < end:
        add_scaled(weights[columns[k] * n : (columns[k] + 1) * n], scale * x[k], out)
        k += 1


@njit(cache=True, nogil=True, borrowed=True)
def sparse_rows_times(data: F64, indices: I32, ptr: I64, rows: I64, weights: F64, out: F64) -> None:
    """Add ``X[rows] @ weights`` to ``out``; X in CSR form, weights (P, q), out (len(rows), q)."""
    n = weights.shape[1]
    for k in range(len(rows)):
        for e in range(ptr[rows[k]], ptr[rows[k] + 1]):
            column, value = indices[e], data[e]
            for q in range(n):
                out[k, q] += value * weights[column, q]


@njit(cache=True, nogil=True, borrowed=True)
def add_sparse_outer(data: F64, indices: I32, ptr: I64, rows: I64, values: F64, out: F64) -> None:
    """Add ``X[rows].T @ values`` to ``out`` (P, q)."""
    n = values.shape[1]
    for k in range(len(rows)):
        for e in range(ptr[rows[k]], ptr[rows[k] + 1]):
            column, value = indices[e], data[e]
            for q in range(n):
                out[column, q] += value * values[k, q]


@njit(cache=True, nogil=True, borrowed=True)
def add_sparse_scores(data: F64, indices: I32, ptr: I64, rows: I64, weights: F64, start: I64, out: F64) -> None:
    """Add ``X[rows[k]] @ weights`` to the entries of ``out`` from ``start[k]`` on.

    Parameters
    ----------
    data, indices, ptr : ndarray
        X in CSR form, P columns.
    rows, start : ndarray of int64, shape (n,)
    weights : ndarray of float64, shape (P, q)
    out : ndarray of float64
        Changed in place.
    """
    n, flat = weights.shape[1], weights.reshape(-1)
    for k in range(len(rows)):
        lo, hi = ptr[rows[k]], ptr[rows[k] + 1]
        if hi > lo:
            sparse_scores(indices[lo:hi], data[lo:hi], flat, 1.0, out[start[k] : start[k] + n])


@njit(cache=True, nogil=True, borrowed=True)
def add_sparse_adjoint(data: F64, indices: I32, ptr: I64, rows: I64, values: F64, start: I64, out: F64) -> None:
    """Add ``sum_k X[rows[k]]' v_k`` to ``out``, for the entries v_k of ``values`` from ``start[k]`` on.

    Parameters
    ----------
    data, indices, ptr : ndarray
        X in CSR form, P columns.
    rows, start : ndarray of int64, shape (n,)
    values : ndarray of float64
    out : ndarray of float64, shape (P, q)
        Changed in place.
    """
    n = out.shape[1]
    for k in range(len(rows)):
        first = start[k]
        for e in range(ptr[rows[k]], ptr[rows[k] + 1]):
            column, value = indices[e], data[e]
            for q in range(n):
                out[column, q] += value * values[first + q]


@njit(cache=True, nogil=True, borrowed=True)
def tidy_rows(columns: I32, values: F64, ptr: I64) -> int:
    """Sort each row by columns, leave out those below 0 and zeros, and add up what is there twice, in place.

    Parameters
    ----------
    columns : ndarray of int32, shape (n,)
    values : ndarray of float64, shape (n,)
    ptr : ndarray of int64, shape (R + 1,)
        Where the rows are, before and after.

    Returns
    -------
    int
        How many entries are left, at the front of both arrays.
    """
    n, lo = 0, ptr[0]
    for r in range(len(ptr) - 1):
        hi, first = ptr[r + 1], n
        for k in range(lo, hi):
            if columns[k] >= 0 and values[k] != 0.0:
                columns[n], values[n] = columns[k], values[k]
                n += 1
        gap = (n - first) // 2
        while gap > 0:  # Shell's sort: rows are short
            for k in range(first + gap, n):
                column, value, place = columns[k], values[k], k
                while place - gap >= first and columns[place - gap] > column:
                    columns[place], values[place] = columns[place - gap], values[place - gap]
                    place -= gap
                columns[place], values[place] = column, value
            gap //= 2
        end = first
        for k in range(first, n):
            if k > first and columns[k] == columns[end - 1]:
                values[end - 1] += values[k]
            else:
                columns[end], values[end] = columns[k], values[k]
                end += 1
        n, lo = end, hi
        ptr[r + 1] = n
    return n


# -- observed pairs ------------------------------------------------------------------------------------------------
#
# Features of kind ``OBSERVED`` have weights for some joint states only.  In the flat maps each feature has the place of
# its first weight and a bit for each joint state with a weight: a weight is found by counting the bits before its own.


@njit(cache=True, nogil=True, borrowed=True)
def n_words(desc: I64, m: int) -> int:
    """Return how many words the bits of all joint states of map m take."""
    return int((desc[m, N_CONFIGS] + WORD - 1) // WORD)


@njit(cache=True, nogil=True, borrowed=True)
def weight_of(maps: FlatMaps, m: int, start: int, feature: int, config: int) -> int:
    """Return where the weight of a feature (of kind ``OBSERVED``) and a joint state is, -1 when there is none."""
    desc, longs = maps.desc, maps.longs
    at = desc[m, PAIRS] + feature * (1 + n_words(desc, m))
    place, bit = start + longs[at], np.int64(1) << (config % WORD)
    for word in range(at + 1, at + 1 + config // WORD):
        place += count_bits(longs[word])
    own = longs[at + 1 + config // WORD]
    return int(place + count_bits(own & (bit - 1))) if own & bit else -1


@njit(cache=True, nogil=True, borrowed=True)
def observed_dot(maps: FlatMaps, m: int, row: int, config: int, start: int, w: F64) -> float:
    """Return the product of a row of features of kind ``OBSERVED`` and the weights it has in one joint state.

    Parameters
    ----------
    maps : FlatMaps
    m, row, config : int
        The map, the feature row, and the joint state.
    start : int
        Where the weights of the map begin.
    w : ndarray of float64, shape (dim,)
        Read only.
    """
    desc, ints, longs, features, _ = maps
    total = 0.0
    for k in range(longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]):
        at = weight_of(maps, m, start, ints[desc[m, CSR_INDICES] + k], config)
        if at >= 0:
            total += features[desc[m, FEATURES] + k] * w[at]
    return total


@njit(cache=True, nogil=True, borrowed=True)
def observed_add(maps: FlatMaps, m: int, row: int, config: int, coef: float, start: int, out: F64) -> None:
    """Add ``coef`` times a row of features of kind ``OBSERVED`` to the weights it has in one joint state.

    Parameters
    ----------
    maps, m, row, config, start
        As for :func:`observed_dot`.
    coef : float
    out : ndarray of float64, shape (dim,)
        Changed in place.
    """
    desc, ints, longs, features, _ = maps
    for k in range(longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]):
        at = weight_of(maps, m, start, ints[desc[m, CSR_INDICES] + k], config)
        if at >= 0:
            out[at] += coef * features[desc[m, FEATURES] + k]


@njit(cache=True, nogil=True, borrowed=True)
def observed_scores(maps: FlatMaps, m: int, row: int, start: int, w: F64, scale: float, out: F64) -> None:
    """Add ``scale`` times the scores of all joint states of a row of features of kind ``OBSERVED`` to ``out``.

    Parameters
    ----------
    maps : FlatMaps
    m, row, start : int
        The map, the feature row, and where the weights of the map begin.
    w : ndarray of float64, shape (dim,)
        Read only.
    scale : float
    out : ndarray of float64, shape (n_configs,)
        Changed in place.
    """
    desc, ints, longs, features, _ = maps
    stride = 1 + n_words(desc, m)
    lo, hi = longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]
    for k in range(lo, hi):  # weights of features lie anywhere in memory: they are waited for together
        prefetch(w, start + longs[desc[m, PAIRS] + ints[desc[m, CSR_INDICES] + k] * stride])
    for k in range(lo, hi):
        at, value = desc[m, PAIRS] + ints[desc[m, CSR_INDICES] + k] * stride, scale * features[desc[m, FEATURES] + k]
        place = start + longs[at]
        for number in range(stride - 1):
            word, first = longs[at + 1 + number], number * WORD
            while word != 0:
                out[first + first_bit(word)] += value * w[place]
                place += 1
                word &= word - 1  # clears the lowest bit


@njit(cache=True, nogil=True, borrowed=True)
def fetch_pairs(indices: I32, lo: int, hi: int, pair_ptr: I64, pair_state: I32, weights: F64) -> None:
    """Ask for the memory of the pairs of features ``indices[lo:hi]`` and of their weights."""
    for e in range(lo, hi):
        at = pair_ptr[indices[e]]
        prefetch(pair_state, at)
        prefetch(weights, at)


@njit(cache=True, nogil=True, borrowed=True)
def own_row(
    common: I32, data: F64, indices: I32, lo: int, hi: int, columns: I32, values: F64, rare: I32
) -> tuple[int, int]:
    """Write the rows of a table that entries lo..hi-1 have with their values, and the numbers of the others.

    Parameters
    ----------
    common : ndarray of int32, shape (P,)
        The row of each feature, -1 for those without.
    data, indices : ndarray of float64 and of int32
        Entries in CSR form.
    lo, hi : int
    columns, values, rare : ndarray of int32, of float64 and of int32, shape (at least hi - lo,)
        Written.

    Returns
    -------
    tuple of int
        How many have a row, and how many have none.
    """
    n = m = 0
    for e in range(lo, hi):
        row = common[indices[e]]
        columns[n], values[n], rare[m] = row, data[e], e - lo
        n += row >= 0
        m += row < 0
    return n, m


@njit(cache=True, nogil=True)
def spread_rows_times(
    csr: tuple[F64, I32, I64], rows: I64, pairs: tuple[I64, I32], common: I32, weights: F64, table: F64, out: F64
) -> None:
    """Add the scores of rows like :func:`observed_rows_times`, with the weights of most features in a table.

    Parameters
    ----------
    csr : tuple
        ``data``, ``indices`` and ``ptr`` of all rows of features.
    rows : ndarray of int64, shape (n,)
        The rows asked for.
    pairs : tuple
        ``ptr`` and ``state`` of the pairs.
    common : ndarray of int32, shape (P,) or (0,)
        The row of each feature in the table, -1 for those without; empty where each has its own.
    weights : ndarray of float64, shape (n_pairs,)
        Read only.
    table : ndarray of float64
        Weights of the features that have a row, one row after the other.
    out : ndarray of float64, shape (n, n_configs)
        Changed in place.
    """
    data, indices, ptr = csr
    c, longest = out.shape[1], 1
    width = (c + BLOCK - 1) // BLOCK * BLOCK
    for k in range(len(rows)):
        longest = max(longest, ptr[rows[k] + 1] - ptr[rows[k]])
    row, values = np.empty(width), np.empty(longest)
    columns, rare = np.empty(longest, np.int32), np.empty(longest, np.int32)
    for k in range(len(rows)):
        lo, hi = ptr[rows[k]], ptr[rows[k] + 1]
        if len(common) == 0:
            gather_rows(row, 0, width, data, indices, lo, hi, table)
        else:
            n, m = own_row(common, data, indices, lo, hi, columns, values, rare)
            gather_rows(row, 0, width, values, columns, 0, n, table)
            for e in rare[:m]:
                feature = indices[lo + e]
                for j in range(pairs[0][feature], pairs[0][feature + 1]):
                    row[pairs[1][j]] += data[lo + e] * weights[j]
        for s in range(c):
            out[k, s] += row[s]


@njit(cache=True, nogil=True)
def add_spread_outer(
    csr: tuple[F64, I32, I64], rows: I64, pairs: tuple[I64, I32], common: I32, values: F64, table: F64, out: F64
) -> None:
    """Add the adjoint of :func:`spread_rows_times` to ``table`` for features with a row, and to ``out`` for others.

    Parameters
    ----------
    csr, rows, pairs, common
        As for :func:`spread_rows_times`.
    values : ndarray of float64, shape (n, n_configs)
        A number for each joint state of each row; read only.
    table : ndarray of float64
        Changed in place.
    out : ndarray of float64, shape (n_pairs,)
        Changed in place.
    """
    data, indices, ptr = csr
    c, longest = values.shape[1], 1
    width = (c + BLOCK - 1) // BLOCK * BLOCK
    for k in range(len(rows)):
        longest = max(longest, ptr[rows[k] + 1] - ptr[rows[k]])
    row, own = np.zeros(width), np.empty(longest)
    columns, rare = np.empty(longest, np.int32), np.empty(longest, np.int32)
    for k in range(len(rows)):
        lo, hi = ptr[rows[k]], ptr[rows[k] + 1]
        for s in range(c):
            row[s] = values[k, s]
        if len(common) == 0:
            scatter_row(table, width, data, indices, lo, hi, row, 0)
            continue
        n, m = own_row(common, data, indices, lo, hi, columns, own, rare)
        scatter_row(table, width, own, columns, 0, n, row, 0)
        for e in rare[:m]:
            feature = indices[lo + e]
            for j in range(pairs[0][feature], pairs[0][feature + 1]):
                out[j] += data[lo + e] * row[pairs[1][j]]


@njit(cache=True, nogil=True, borrowed=True)
def observed_rows_times(
    data: F64, indices: I32, ptr: I64, rows: I64, pair_ptr: I64, pair_state: I32, weights: F64, out: F64
) -> None:
    """Add the scores of rows in CSR form: ``out[k, s] += sum_p x[k, p] weight(p, s)`` over the pairs there are.

    Parameters
    ----------
    data, indices : ndarray of float64 and of int32, shape (nnz,)
    ptr : ndarray of int64, shape (R + 1,)
        All rows of features, in CSR form; read only.
    rows : ndarray of int64, shape (n,)
        The rows asked for.
    pair_ptr, pair_state : ndarray of int64 and of int32
        Pairs of each feature, and the joint state of each pair (:class:`~ssvm_dsl.ir.features.ObservedPairs`).
    weights : ndarray of float64, shape (n_pairs,)
        Read only.
    out : ndarray of float64, shape (n, n_configs)
        Changed in place.
    """
    for k in range(len(rows)):
        lo, hi = ptr[rows[k]], ptr[rows[k] + 1]
        fetch_pairs(indices, lo, hi, pair_ptr, pair_state, weights)
        for e in range(lo, hi):
            for j in range(pair_ptr[indices[e]], pair_ptr[indices[e] + 1]):
                out[k, pair_state[j]] += data[e] * weights[j]


@njit(cache=True, nogil=True, borrowed=True)
def add_observed_outer(
    data: F64, indices: I32, ptr: I64, rows: I64, pair_ptr: I64, pair_state: I32, values: F64, out: F64
) -> None:
    """Add the adjoint of :func:`observed_rows_times` to ``out``.

    Parameters
    ----------
    data, indices, ptr, rows, pair_ptr, pair_state
        As for :func:`observed_rows_times`.
    values : ndarray of float64, shape (n, n_configs)
        A number for each joint state of each row; read only.
    out : ndarray of float64, shape (n_pairs,)
        Changed in place.
    """
    for k in range(len(rows)):
        lo, hi = ptr[rows[k]], ptr[rows[k] + 1]
        fetch_pairs(indices, lo, hi, pair_ptr, pair_state, out)
        for e in range(lo, hi):
            for j in range(pair_ptr[indices[e]], pair_ptr[indices[e] + 1]):
                out[j] += data[e] * values[k, pair_state[j]]
