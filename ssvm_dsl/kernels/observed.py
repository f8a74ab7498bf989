"""Compiled products of features of kind ``OBSERVED``, which have weights for some joint states only.

In the flat maps each feature has the place of its first weight and a bit for each joint state with a weight: a weight
is found by counting the bits before its own.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import CSR_INDICES, CSR_PTR, FEATURES, N_CONFIGS, PAIRS, WORD, FlatMaps
from ssvm_dsl.kernels.intrinsics import count_bits, first_bit, prefetch
from ssvm_dsl.kernels.vectors import BLOCK, gather_rows, scatter_row


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
