"""Compiled products of feature rows, dense or in CSR form, with weights, and their adjoints."""

from __future__ import annotations

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.kernels.compiling.jit import njit


@njit(cache=True, nogil=True, borrowed=True, fastmath={"reassoc", "contract"})
def dot(x: F64, x_at: int, w: F64, w_at: int, n: int) -> float:
    """Return ``x[x_at : x_at + n] . w[w_at : w_at + n]``."""
    left, right = x[x_at : x_at + n], w[w_at : w_at + n]
    total = 0.0
    for p in range(n):
        total += left[p] * right[p]
    return total


@njit(cache=True, nogil=True, borrowed=True)
def add_scaled(x: F64, x_at: int, coef: float, out: F64, out_at: int, n: int) -> None:
    """Add ``coef * x[x_at : x_at + n]`` to ``out[out_at : out_at + n]``."""
    source, target = x[x_at : x_at + n], out[out_at : out_at + n]
    for p in range(n):
        target[p] += coef * source[p]


@njit(cache=True, nogil=True, borrowed=True, fastmath={"reassoc", "contract"})
def dense_rows(
    features: F64, x_at: int, width: int, w: F64, w_at: int, n: int, scale: float, out: F64, out_at: int
) -> None:
    """Add ``scale * w[q] . x`` for q < n to ``out``, four rows of w at a time: x is loaded once for them.

    Parameters
    ----------
    features : ndarray of float64
    x_at, width : int
        The features x are ``features[x_at : x_at + width]``.
    w : ndarray of float64
    w_at, n : int
        The n rows of w lie one after the other from ``w_at``.
    scale : float
    out : ndarray of float64
    out_at : int
        Changed in place at ``out_at : out_at + n``.
    """
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


@njit(cache=True, nogil=True, borrowed=True, fastmath={"reassoc", "contract"})
def sparse_scores(
    columns: I32, x: F64, lo: int, hi: int, w: F64, w_at: int, n: int, scale: float, out: F64, out_at: int
) -> None:
    """Add ``scale sum_k x[k] w[columns[k]]`` for ``lo <= k < hi`` to ``out``; the n weights of a column lie together.

    Four columns at a time: their weights, which lie anywhere in memory, are waited for together.

    Parameters
    ----------
    columns : ndarray of int32
    x : ndarray of float64
    lo, hi : int
        The row, in CSR form, is entries ``lo..hi-1`` of these.
    w, w_at, n, scale, out, out_at
        As for :func:`dense_rows`, but column p has the weights ``w[w_at + p n : w_at + p n + n]``.
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
