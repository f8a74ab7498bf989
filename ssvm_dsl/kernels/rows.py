"""Compiled products of feature rows, dense or in CSR form, with weights, and their adjoints."""

from __future__ import annotations

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.kernels.compiling.jit import njit


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
