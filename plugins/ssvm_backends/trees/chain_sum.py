"""Sum-product on plain chains in the linear domain: one exponential for each score, none in the inner loops.

With ``u_t = exp(node_t - max)`` and ``F = exp(table - max)``, the vectors

    a_t = (a_{t-1} F) * u_t ,        b_{t-1} = F (u_t * b_t)

are scaled to sum 1 and maximum 1 at each step; the logarithms of the scales of a add up to log Z.  Marginals of an
edge are ``a_{t-1} (u_t * b_t)' * F``; for a table that all edges share their sum is one matrix product, times F.

Nothing may be lost to underflow.  Finite scores farther than ``RANGE`` below their maximum, and entries of a or b
below ``LEAST``, mark an example as one for the kernel that works with logarithms (``log_z`` is nan); without them no
product of positive numbers comes near the smallest double, and a zero is a state that ``-inf`` forbids.

Measured beside the compiled core of hmmlearn 0.3.3 (scaled forward and backward passes with summed transitions), one
thread, chains of 26 states with shared transitions, of length 100 and of length 8: summed marginals take 98 and 12 us a
chain, those of hmmlearn 371 and 59.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import assign, borrow, njit

#: Finite scores lie at most this far below the maximum of their row or table: exp(-200) = 1e-87.
RANGE = 200.0

#: Smallest entry of a scaled vector: 1e-130 * 1e-87 * 1e-87 is still a normal double.
LEAST = 1e-130


def linear_tables(tables: F64, rows: slice | I64, shift: F64, factor: F64) -> None:
    """Write ``factor = exp(table - shift)`` for some tables; ``shift`` is nan where entries are too far apart.

    Parameters
    ----------
    tables, factor : ndarray of float64, shape (n_tables, c * c)
    rows : slice or ndarray of int64
    shift : ndarray of float64, shape (n_tables,)
    """
    chosen = tables[rows]
    top = chosen.max(axis=1, initial=-np.inf)
    top = np.where(top > -np.inf, top, 0.0)
    apart = ((chosen < top[:, None] - RANGE) & (chosen > -np.inf)).any(axis=1)
    shift[rows] = np.where(apart, np.nan, top)
    factor[rows] = np.exp(chosen - top[:, None])


@njit(cache=True, nogil=True, inline="always")
def scaled(values: F64, at: int, c: int, total: float) -> bool:
    """Divide ``values[at : at + c]`` by a positive total; return whether an entry is too small to go on with."""
    small, scale = False, 1.0 / total
    for s in range(at, at + c):
        values[s] *= scale
        small |= (values[s] < LEAST) & (values[s] > 0.0)
    return small


@njit(cache=True, nogil=True, inline="always")
def exponentials(node: F64, first: int, c: int, out: F64, at: int) -> tuple[float, bool]:
    """Write ``exp(node - max)`` of one variable; return (max, whether a finite score is too far below it)."""
    top, low = -np.inf, np.inf
    for s in range(first, first + c):
        top = max(top, node[s])
        if node[s] > -np.inf:
            low = min(low, node[s])
    if top == -np.inf:
        return top, False
    for s in range(c):
        out[at + s] = np.exp(node[first + s] - top)
    return top, low < top - RANGE


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def forward(
    link: I64, c: int, lo: int, hi: int, node: F64, factor: F64, shift: F64, unary: F64, alpha: F64, norm: F64
) -> float:
    """Fill ``unary``, ``alpha`` and its scales ``norm`` of variables lo..hi-1; return log Z.

    With the module's ``F`` and ``u``::

        norm_t = sum (alpha_{t-1} F) * u_t
        alpha_t = (alpha_{t-1} F) * u_t / norm_t
        log Z = sum_t log norm_t + max node_t + shift of the edge before t

    Parameters
    ----------
    link : ndarray of int64, shape (V,)
        Where the table between a variable and the next starts in ``factor``, -1 at the end of a chain.
    c : int
        Number of states of every variable.
    lo, hi : int
        First variable of the example, and the one after its last.
    node : ndarray of float64, shape (V * c,)
        Unary scores; ``-inf`` is forbidden.
    factor, shift : ndarray of float64
        Exponentials of the tables and what was taken off them, see :func:`linear_tables`.
    unary, alpha : ndarray of float64, shape (at least (hi - lo) * c,)
        Written: ``exp(node_t - max)``, and the forward vectors, scaled to sum 1.
    norm : ndarray of float64, shape (at least hi - lo,)
        Written: the sums that forward vectors were divided by.

    Returns
    -------
    float
        ``-inf``: there is no labelling; ``nan``: a number is too small for this kernel.
    """
    total, wide = 0.0, False
    for v in range(lo, hi):
        at = (v - lo) * c
        top, far = exponentials(node, v * c, c, unary, at)
        if top == -np.inf:
            return top
        wide |= far
        row, own = alpha[at : at + c], unary[at : at + c]
        if v > lo and link[v - 1] >= 0:
            base, before = link[v - 1], at - c
            total += shift[base // (c * c)]
            row[:] = 0.0
            for s in range(c):
                weight, table = alpha[before + s], factor[base + s * c : base + (s + 1) * c]
                for t in range(c):
                    row[t] += weight * table[t]
            for t in range(c):
                row[t] *= own[t]
        else:
            assign(row, own)
        summed = 0.0
        for t in range(c):
            summed += row[t]
        if summed == 0.0:
            return np.nan if wide or np.isnan(total) else -np.inf
        norm[v - lo] = summed
        wide |= scaled(alpha, at, c, summed)
        total += top + np.log(summed)
    return np.nan if wide else total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def backward(link: I64, c: int, lo: int, hi: int, factor: F64, unary: F64, beta: F64, sent: F64) -> bool:
    """Fill ``beta``, and ``sent = unary * beta``, of variables lo..hi-1; return whether a number is too small.

    ``beta_{t-1} = F (u_t * beta_t)``, scaled to maximum 1, and 1 at the end of a chain.  These scales are not kept:
    marginals are normalised anyway.

    Parameters
    ----------
    link, c, lo, hi, factor
        As for :func:`forward`.
    unary : ndarray of float64, shape (at least (hi - lo) * c,)
        What :func:`forward` wrote.
    beta, sent : ndarray of float64, shape (at least (hi - lo) * c,)
        Written.
    """
    wide = False
    for v in range(hi - 1, lo - 1, -1):
        at = (v - lo) * c
        row, out = beta[at : at + c], sent[at : at + c]
        if link[v] < 0:
            row[:] = 1.0
        else:
            after, top = sent[at + c : at + 2 * c], 0.0
            for s in range(c):
                table, summed = factor[link[v] + s * c : link[v] + (s + 1) * c], 0.0
                for t in range(c):
                    summed += table[t] * after[t]
                row[s] = summed
                top = max(top, summed)
            wide |= scaled(beta, at, c, top)
        for s in range(c):
            out[s] = unary[at + s] * row[s]
    return wide


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_edge(
    alpha: F64, before: int, scale: float, factor: F64, base: int, c: int, sent: F64, at: int, out: F64
) -> None:
    """Add the marginals of an edge, ``scale * alpha[before + s] * F[s, t] * sent[at + t]``, to its table in ``out``.

    Parameters
    ----------
    alpha : ndarray of float64
        Forward vectors; that of the edge's first variable starts at ``before``.
    before : int
        See ``alpha``.
    scale : float
        Weight of the example over what normalises the edge's marginal.
    factor : ndarray of float64
        Exponentials of tables; that of the edge starts at ``base``.
    base : int
        See ``factor``.
    c : int
        Number of states.
    sent : ndarray of float64
        ``unary * beta``; that of the edge's second variable starts at ``at``.
    at : int
        See ``sent``.
    out : ndarray of float64
        Laid out as ``factor``; added to in place.
    """
    after = sent[at : at + c]
    for s in range(c):
        weight, entry = scale * alpha[before + s], base + s * c
        row, table = out[entry : entry + c], factor[entry : entry + c]
        for t in range(c):
            row[t] += weight * table[t] * after[t]


@njit(cache=True, nogil=True)
def expect_chains(
    var_ptr: I64,
    link: I64,
    c: int,
    node: F64,
    factor: F64,
    shift: F64,
    examples: I64,
    coef: F64,
    shared: bool,
    out_node: F64,
    out_tables: F64,
    left: F64,
    right: F64,
    log_z: F64,
) -> int:
    """Add ``coef_k`` times the marginals of each listed example; write log Z (without constant).

    Marginals are ``P_t = alpha_t * beta_t / total`` with ``total`` their sum, those of edges
    ``alpha_{t-1} F sent_t / (norm_t total)``, for ``norm_t total`` is the sum of these products.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (B + 1,)
        Variables of each example.
    link : ndarray of int64, shape (V,)
        Where the table between a variable and the next starts, -1 at the end of a chain.
    c : int
        Number of states of every variable.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that masks rule out.
    factor, shift : ndarray of float64
        Exponentials of the tables and what was taken off them, see :func:`linear_tables`.
    examples : ndarray of int64, shape (n,)
        The examples.
    coef : ndarray of float64, shape (n,)
        Weight of each.
    shared : bool
        There is one table, and its marginals are ``left' right * factor``; otherwise they are added to ``out_tables``.
    out_node : ndarray of float64, shape (S,)
        Added to in place.
    out_tables : ndarray of float64
        Laid out as ``factor``; added to in place, unless ``shared``.
    left, right : ndarray of float64, shape (edges, c)
        Written row by row when ``shared``.
    log_z : ndarray of float64, shape (n,)
        nan for examples that this kernel does not take, and leaves alone; -inf for those without a labelling.

    Returns
    -------
    int
        Rows written.
    """
    longest, edges = 1, 0
    for k in range(len(examples)):
        longest = max(longest, var_ptr[examples[k] + 1] - var_ptr[examples[k]])
    unary, alpha, beta = np.empty(longest * c), np.empty(longest * c), np.empty(longest * c)
    sent, norm = np.empty(longest * c), np.empty(longest)
    unary, alpha, beta, sent, norm = borrow(unary), borrow(alpha), borrow(beta), borrow(sent), borrow(norm)
    link, node, factor, shift = borrow(link), borrow(node), borrow(factor), borrow(shift)
    out_node, out_tables, left, right = borrow(out_node), borrow(out_tables), borrow(left), borrow(right)
    for k in range(len(examples)):
        lo, hi = var_ptr[examples[k]], var_ptr[examples[k] + 1]
        log_z[k] = forward(link, c, lo, hi, node, factor, shift, unary, alpha, norm)
        if not np.isfinite(log_z[k]):
            continue
        if backward(link, c, lo, hi, factor, unary, beta, sent):
            log_z[k] = np.nan
            continue
        for v in range(lo, hi):
            at, total = (v - lo) * c, 0.0
            for s in range(at, at + c):  # in place: edges need alpha and sent only
                beta[s] *= alpha[s]
                total += beta[s]
            scale = coef[k] / total
            for s in range(c):
                out_node[v * c + s] += scale * beta[at + s]
            if v == lo or link[v - 1] < 0:
                continue
            scale /= norm[v - lo]  # the products of an edge sum up to norm * total
            if shared:
                for s in range(c):
                    left[edges, s] = scale * alpha[at - c + s]
                    right[edges, s] = sent[at + s]
                edges += 1
            else:
                add_edge(alpha, at - c, scale, factor, link[v - 1], c, sent, at, out_tables)
    return edges
