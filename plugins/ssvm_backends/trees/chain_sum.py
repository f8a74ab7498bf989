"""Sum-product on plain chains in the linear domain: one exponential for each score, none in the inner loops.

With ``u_t = exp(node_t - max)`` and ``F = exp(table - max)``, the vectors

    a_t = (a_{t-1} F) * u_t ,        b_{t-1} = F (u_t * b_t)

are scaled to sum 1 and maximum 1 at each step; the logarithms of the scales of a add up to log Z.  Marginals of an
edge are ``a_{t-1} (u_t * b_t)' * F``; for a table that all edges share their sum is one matrix product, times F.

Nothing may be lost to underflow.  Finite scores farther than ``RANGE`` below their maximum, and entries of a or b
below ``LEAST``, mark an example as one for the kernel that works with logarithms (``log_z`` is nan); without them no
product of positive numbers comes near the smallest double, and a zero is a state that ``-inf`` forbids.

Measured against the compiled core of hmmlearn 0.3.3 (scaled forward and backward passes with summed transitions), one
thread, chains of 26 states with shared transitions, of length 100 and of length 8: summed marginals take 98 and 12 us a
chain, those of hmmlearn 371 and 59.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.trees.forest import Chains
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import assign, borrow, njit

#: Finite scores lie at most this far below the maximum of their row or table: exp(-200) = 1e-87.
RANGE = 200.0

#: Smallest entry of a scaled vector: 1e-130 * 1e-87 * 1e-87 is still a normal double.
LEAST = 1e-130


class ChainScores(NamedTuple):
    """Scores of chains for the linear domain.

    Parameters
    ----------
    unary : ndarray of float64, shape (variables listed * c,)
        ``exp(node_t - top_t)`` of the variables of the listed examples, one after the other.
    top : ndarray of float64, shape (variables listed,)
        The subtracted maxima, see :func:`shift_scores`.
    factor, shift : ndarray of float64
        Exponentials of the tables and their subtracted maxima, see :func:`linear_tables`.
    """

    unary: F64
    top: F64
    factor: F64
    shift: F64


class ChainSums(NamedTuple):
    """Where summed marginals go.

    Parameters
    ----------
    node : ndarray of float64, shape (V * c,)
        Added to in place.
    tables : ndarray of float64
        Laid out as the factors; added to in place, unless all edges share one table.
    left, right : ndarray of float64, shape (edges, c)
        Written row by row when they do: the marginals of the table are ``left' right * factor``.
    """

    node: F64
    tables: F64
    left: F64
    right: F64


class Vectors(NamedTuple):
    """Vectors of the variables of one example, c numbers each; see the module.

    Parameters
    ----------
    alpha, beta : ndarray of float64, shape (at least n * c,)
        The scaled forward and backward vectors.
    sent : ndarray of float64, shape (at least n * c,)
        ``unary * beta``.
    norm : ndarray of float64, shape (at least n,)
        The sums that forward vectors were divided by.
    """

    alpha: F64
    beta: F64
    sent: F64
    norm: F64


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
    """Divide ``values[at : at + c]`` by a positive total; return whether an entry is too small to continue with."""
    small, scale = False, 1.0 / total
    for s in range(at, at + c):
        values[s] *= scale
        small |= (values[s] < LEAST) & (values[s] > 0.0)
    return small


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def shift_scores(chains: Chains, node: F64, examples: I64, shifted: F64, top: F64) -> None:
    """Write ``node_t - max`` of the variables of each listed example, one after the other; exponentials come next.

    Parameters
    ----------
    chains : Chains
    node : ndarray of float64, shape (V * c,)
        Unary scores; ``-inf`` is forbidden.
    examples : ndarray of int64, shape (n,)
    shifted : ndarray of float64, shape (variables listed * c,)
        Written.
    top : ndarray of float64, shape (variables listed,)
        Written: the maximum of each variable; ``inf`` where a finite score is too far below it.
    """
    k, c = 0, chains.c
    for example in examples:
        for v in range(chains.var_ptr[example], chains.var_ptr[example + 1]):
            row, out = node[v * c : (v + 1) * c], shifted[k * c : (k + 1) * c]
            high, low = -np.inf, np.inf
            for s in range(c):
                high = row[s] if row[s] > high else high
                finite = row[s] if row[s] > -np.inf else np.inf
                low = finite if finite < low else low
            shift = high if high > -np.inf else 0.0
            for s in range(c):
                out[s] = row[s] - shift
            top[k] = np.inf if low < shift - RANGE else high
            k += 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def forward(chains: Chains, lo: int, hi: int, first: int, scores: ChainScores, vectors: Vectors) -> float:
    """Fill ``alpha`` and ``norm`` of variables lo..hi-1; return log Z.

    The scores of these begin with variable ``first``.
    With the module's ``F`` and ``u``::

        norm_t = sum (alpha_{t-1} F) * u_t
        alpha_t = (alpha_{t-1} F) * u_t / norm_t
        log Z = sum_t log norm_t + max node_t + shift of the edge before t

    Returns
    -------
    float
        ``-inf``: there is no labelling; ``nan``: a number is too small for this kernel.
    """
    c, link, factor, alpha = chains.c, chains.link, scores.factor, vectors.alpha
    total, wide = 0.0, False
    for v in range(lo, hi):
        at = (v - lo) * c
        k = first + v - lo
        top = scores.top[k]
        if top == -np.inf:
            return top
        wide |= top == np.inf
        row, own = alpha[at : at + c], scores.unary[k * c : (k + 1) * c]
        if v > lo and link[v - 1] >= 0:
            base, before = link[v - 1], at - c
            total += scores.shift[base // (c * c)]
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
        vectors.norm[v - lo] = summed
        wide |= scaled(alpha, at, c, summed)
        total += top + np.log(summed)
    return np.nan if wide else total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def backward(chains: Chains, lo: int, hi: int, first: int, scores: ChainScores, vectors: Vectors) -> bool:
    """Fill ``beta`` and ``sent`` of variables lo..hi-1, after :func:`forward`; return whether a number is too small.

    ``beta_{t-1} = F (u_t * beta_t)``, scaled to maximum 1, and 1 at the end of a chain.  These scales are not kept:
    marginals are normalised anyway.
    """
    c, link, beta, sent, wide = chains.c, chains.link, vectors.beta, vectors.sent, False
    factor = scores.factor
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
        own = scores.unary[(first + v - lo) * c : (first + v - lo + 1) * c]
        for s in range(c):
            out[s] = own[s] * row[s]
    return wide


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_edge(vectors: Vectors, at: int, c: int, scale: float, factor: F64, base: int, out: F64) -> None:
    """Add the marginals of an edge, ``scale * alpha[at - c + s] * F[s, t] * sent[at + t]``, to its table in ``out``.

    Parameters
    ----------
    vectors : Vectors
        That of the edge's second variable starts at ``at``.
    at : int
        See ``vectors``.
    c : int
        Number of states.
    scale : float
        Weight of the example over what normalises the edge's marginal.
    factor : ndarray of float64
        Exponentials of tables; that of the edge starts at ``base``.
    base : int
        See ``factor``.
    out : ndarray of float64
        Laid out as ``factor``; added to in place.
    """
    after = vectors.sent[at : at + c]
    for s in range(c):
        weight, entry = scale * vectors.alpha[at - c + s], base + s * c
        row, table = out[entry : entry + c], factor[entry : entry + c]
        for t in range(c):
            row[t] += weight * table[t] * after[t]


@njit(cache=True, nogil=True)
def expect_chains(
    chains: Chains, scores: ChainScores, examples: I64, coef: F64, shared: bool, sums: ChainSums, log_z: F64
) -> int:
    """Add ``coef_k`` times the marginals of each listed example; write log Z (without constant).

    Parameters
    ----------
    chains : Chains
    scores : ChainScores
    examples : ndarray of int64, shape (n,)
        The examples.
    coef : ndarray of float64, shape (n,)
        Weight of each.
    shared : bool
        Whether all edges share one table.
    sums : ChainSums
    log_z : ndarray of float64, shape (n,)
        nan for examples that this kernel does not take, and leaves alone; -inf for those without a labelling.

    Returns
    -------
    int
        Rows written to ``left`` and ``right``.
    """
    longest, edges = 1, 0
    for k in range(len(examples)):
        longest = max(longest, chains.var_ptr[examples[k] + 1] - chains.var_ptr[examples[k]])
    size = longest * chains.c
    vectors, first = Vectors(np.empty(size), np.empty(size), np.empty(size), np.empty(longest)), 0
    for k in range(len(examples)):
        lo, hi = chains.var_ptr[examples[k]], chains.var_ptr[examples[k] + 1]
        # a kernel must not borrow what it made itself: the vectors are those of this one
        log_z[k] = chain_vectors(chains, lo, hi, first, scores, vectors)
        if np.isfinite(log_z[k]):
            edges = add_chain(chains, (lo, hi), coef[k], shared, scores.factor, sums, vectors, edges)
        first += hi - lo
    return edges


@njit(cache=True, nogil=True)
def chain_vectors(chains: Chains, lo: int, hi: int, first: int, scores: ChainScores, vectors: Vectors) -> float:
    """Fill the vectors of variables lo..hi-1; return log Z, ``nan`` where a number is too small.

    The scores of these begin with variable ``first``.
    """
    chains, scores, vectors = borrow(chains), borrow(scores), borrow(vectors)
    log_z = forward(chains, lo, hi, first, scores, vectors)
    if np.isfinite(log_z) and backward(chains, lo, hi, first, scores, vectors):
        return np.nan
    return log_z


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_chain(
    chains: Chains, variables: tuple[int, int], coef: float, shared: bool, factor: F64, sums: ChainSums,
    vectors: Vectors, edges: int,
) -> int:  # fmt: skip
    """Add the weighted marginals of one example; return how many rows are written to ``left`` and ``right``.

    Marginals are ``P_t = alpha_t * beta_t / total`` with ``total`` their sum, those of edges
    ``alpha_{t-1} F sent_t / (norm_t total)``, for ``norm_t total`` is the sum of these products.

    Parameters
    ----------
    chains, coef, shared, sums
        As for :func:`expect_chains`.
    variables : tuple of int
        The first variable of the example, and the one after its last.
    factor : ndarray of float64
        Exponentials of tables.
    vectors : Vectors
        Of the example; ``beta`` is overwritten.
    edges : int
        Rows written so far.
    """
    chains, factor, sums, vectors = borrow(chains), borrow(factor), borrow(sums), borrow(vectors)
    lo, hi = variables
    c = chains.c
    for v in range(lo, hi):
        at = (v - lo) * c
        alpha, beta, node = vectors.alpha[at : at + c], vectors.beta[at : at + c], sums.node[v * c : (v + 1) * c]
        total = 0.0
        for s in range(c):  # in place: edges need alpha and sent only
            beta[s] *= alpha[s]
            total += beta[s]
        scale = coef / total
        for s in range(c):
            node[s] += scale * beta[s]
        if v == lo or chains.link[v - 1] < 0:
            continue
        scale /= vectors.norm[v - lo]  # the products of an edge sum up to norm * total
        if shared:
            before, after = vectors.alpha[at - c : at], vectors.sent[at : at + c]
            left, right = sums.left[edges], sums.right[edges]
            for s in range(c):
                left[s] = scale * before[s]
                right[s] = after[s]
            edges += 1
        else:
            add_edge(vectors, at, c, scale, factor, chains.link[v - 1], sums.tables)
    return edges
