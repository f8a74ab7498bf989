"""Sum-product on plain chains in the linear domain: one exponential for each score, none in the inner loops.

With ``u_t = exp(node_t - max)`` and ``F = exp(table - max)``, the vectors

    a_t = (a_{t-1} F) * u_t / sum a_{t-1} ,        b_{t-1} = F (u_t * b_t) / sum (u_t * b_t)

are scaled by the sums of those before, which are there early; the logarithms of the sums of a add up to log Z.
Marginals are ``a_t * b_t`` and those of an edge ``a_{t-1} (u_t * b_t)' * F``, each divided by its sum; for a table that
all edges share, the outer products add up first.

Rows of states are as long as a multiple of four says, the rest zeros, so that each of their sums takes a few
instructions (:mod:`ssvm_dsl.kernels.vectors`).

Nothing may be lost to underflow.  Finite scores farther than ``RANGE`` below their maximum, and entries of a or b
below ``LEAST``, mark an example as one for the kernel that works with logarithms (``log_z`` is nan); without them no
product of positive numbers comes near the smallest double, and a zero is a state that ``-inf`` forbids.  Where all
entries of F are at least ``EVEN``, entries of a and b cannot be that small, and nobody looks.

Measured on one thread, chains of 26 states with shared transitions, of length 100 and of length 8: summed marginals
take 32 and 3.1 us a chain.  Loops over states, as the compiler makes them, took 59 and 4.3 us, and those were 3.8 and 5
times as fast as the compiled core of hmmlearn 0.3.3 (scaled forward and backward passes with summed transitions).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.trees.forest import Chains
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import add_outer, borrow, exp_all, multiply_rows, njit, padded, weigh_rows

#: Finite scores lie at most this far below the maximum of their row or table: exp(-200) = 1e-87.
RANGE = 200.0

#: Smallest entry of a scaled vector: 1e-130 * 1e-87 * 1e-87 is still a normal double.
LEAST = 1e-130

#: Entries of F that keep those of a and b above it: 1e-87 * 1e-40, divided by no more than 1000 states.
EVEN = 1e-40

#: The logarithm of a product of sums is taken when it leaves this range.
SMALL, LARGE = 1e-150, 1e150


class LinearTables(NamedTuple):
    """Exponentials of tables, for the linear domain.

    Parameters
    ----------
    factor, turned : ndarray of float64, shape (n_tables * c * padded(c),)
        ``exp(table - shift)`` row by row of padded length, and those of the transposed tables.
    shift : ndarray of float64, shape (n_tables,)
        The subtracted maxima; nan where entries are too far apart.
    even : bool
        Whether all entries are at least ``EVEN``, so that no vector is too uneven.
    """

    factor: F64
    turned: F64
    shift: F64
    even: bool

    @classmethod
    def from_tables(cls, tables: F64, rows: slice | I64, c: int) -> LinearTables:
        """Return the exponentials of some rows of ``tables``, of shape (n_tables, c * c)."""
        width = padded(c)
        chosen = tables[rows].reshape(-1, c, c)
        top = chosen.max(axis=(1, 2), initial=-np.inf)
        top = np.where(top > -np.inf, top, 0.0)[:, None, None]
        apart = ((chosen < top - RANGE) & (chosen > -np.inf)).any(axis=(1, 2))
        made = np.exp(chosen - top)
        factor, turned = np.zeros((2, len(tables), c, width))
        shift = np.zeros(len(tables))
        factor[rows, :, :c], turned[rows, :, :c] = made, made.transpose(0, 2, 1)
        shift[rows] = np.where(apart, np.nan, top[:, 0, 0])
        return cls(factor.reshape(-1), turned.reshape(-1), shift, bool(made.min(initial=1.0) >= EVEN and c <= 1000))


class ChainSums(NamedTuple):
    """Where summed marginals go.

    Parameters
    ----------
    node : ndarray of float64, shape (V * c,)
        Added to in place.
    tables : ndarray of float64
        Laid out as ``LinearTables.factor``; added to in place.  Where all edges share one table, the sums of outer
        products, which :func:`expect_chains` does not multiply by ``factor``.
    """

    node: F64
    tables: F64


class Vectors(NamedTuple):
    """Rows of the variables of one example, of padded length each; see the module.

    Parameters
    ----------
    unary, alpha, sent : ndarray of float64, shape (at least n * width,)
        Exponentials of scores, forward vectors, and ``unary * beta``.
    beta, share : ndarray of float64, shape (width,)
        Of one variable at a time: the backward vector, and the marginals.
    scale : ndarray of float64, shape (at least n,)
        What forward vectors were multiplied by.
    """

    unary: F64
    alpha: F64
    sent: F64
    beta: F64
    share: F64
    scale: F64


@njit(cache=True, nogil=True, borrowed=True)
def shift_row(node: F64, at: int, c: int, row: F64) -> float:
    """Write ``node[at + s] - max`` to a row, the rest of which is ``-inf``; return the maximum.

    It is ``inf`` where a finite score is more than ``RANGE`` below it.
    """
    high, low = -np.inf, np.inf
    for s in range(at, at + c):
        score = node[s]
        high = score if score > high else high
        finite = score if score > -np.inf else np.inf
        low = finite if finite < low else low
    shift = high if high > -np.inf else 0.0
    for s in range(c):
        row[s] = node[at + s] - shift
    for s in range(c, len(row)):
        row[s] = -np.inf
    return np.inf if low < shift - RANGE else high


@njit(cache=True, nogil=True, borrowed=True)
def too_small(row: F64, at: int, c: int, factor: float) -> bool:
    """Return whether a positive entry of a row, times ``factor``, is too small to continue with."""
    small = False
    for s in range(at, at + c):
        small |= (row[s] * factor < LEAST) & (row[s] > 0.0)
    return small


@njit(cache=True, nogil=True, borrowed=True)
def forward(chains: Chains, lo: int, hi: int, node: F64, tables: LinearTables, vectors: Vectors) -> float:
    """Fill ``unary``, ``alpha`` and ``scale`` of variables lo..hi-1; return log Z.

    With the module's ``F`` and ``u``::

        scale_t = 1 / sum alpha_{t-1}
        alpha_t = (alpha_{t-1} F) * u_t * scale_t
        log Z = sum_t log sum alpha_t + max node_t + shift of the edge before t

    Returns
    -------
    float
        ``-inf``: there is no labelling; ``nan``: a number is too small for this kernel.
    """
    c, link, unary, alpha = chains.c, chains.link, vectors.unary, vectors.alpha
    width = len(vectors.beta)
    total, product, last, wide = 0.0, 1.0, 1.0, False
    for v in range(lo, hi):
        at = (v - lo) * width
        top = shift_row(node, v * c, c, unary[at : at + width])
        if top == -np.inf:
            return top
        wide |= top == np.inf
        total += top
    if wide:
        return np.nan
    exp_all(unary, (hi - lo) * width)
    for v in range(lo, hi):
        at = (v - lo) * width
        if v > lo and link[v - 1] >= 0:
            number = link[v - 1] // (c * c)
            total += tables.shift[number]
            weigh_rows(alpha, at, width, alpha, at - width, c, tables.factor, number * c * width)
        else:
            last = 1.0
            for s in range(at, at + width):
                alpha[s] = 1.0
        vectors.scale[v - lo] = last
        summed = multiply_rows(alpha, at, width, alpha, at, unary, at, last)
        if summed == 0.0:
            return np.nan if np.isnan(total) else -np.inf
        if not tables.even:
            wide |= too_small(alpha, at, c, 1.0)
        last = 1.0 / summed
        product *= summed
        if product < SMALL or product > LARGE:
            total += np.log(product)
            product = 1.0
    return np.nan if wide else total + np.log(product)


@njit(cache=True, nogil=True)
def expect_chains(
    chains: Chains, node: F64, tables: LinearTables, examples: I64, coef: F64, shared: bool, sums: ChainSums, log_z: F64
) -> None:
    """Add ``coef_k`` times the marginals of each listed example; write log Z (without constant).

    Parameters
    ----------
    chains : Chains
    node : ndarray of float64, shape (V * c,)
        Unary scores; ``-inf`` is forbidden.
    tables : LinearTables
    examples : ndarray of int64, shape (n,)
        The examples.
    coef : ndarray of float64, shape (n,)
        Weight of each.
    shared : bool
        Whether all edges share one table.
    sums : ChainSums
    log_z : ndarray of float64, shape (n,)
        nan for examples that this kernel does not take, and leaves alone; -inf for those without a labelling.
    """
    longest, width = 1, len(tables.factor) // (len(tables.shift) * chains.c)
    for k in range(len(examples)):
        longest = max(longest, chains.var_ptr[examples[k] + 1] - chains.var_ptr[examples[k]])
    size = longest * width
    vectors = Vectors(
        np.empty(size), np.empty(size), np.empty(size), np.empty(width), np.empty(width), np.empty(longest)
    )
    for k in range(len(examples)):
        lo, hi = chains.var_ptr[examples[k]], chains.var_ptr[examples[k] + 1]
        # a kernel must not borrow what it made itself: the vectors are those of this one
        log_z[k] = expect_chain(chains, (lo, hi), node, tables, coef[k], shared, sums, vectors)


@njit(cache=True, nogil=True)
def expect_chain(
    chains: Chains, variables: tuple[int, int], node: F64, tables: LinearTables, coef: float, shared: bool,
    sums: ChainSums, vectors: Vectors,
) -> float:  # fmt: skip
    """Add the weighted marginals of an example; return log Z.

    Marginals are ``P_t = alpha_t * beta_t / total`` with ``total`` their sum, those of edges
    ``alpha_{t-1} F sent_t scale_t / total``, for ``total / scale_t`` is the sum of these products.

    Parameters
    ----------
    chains, node, tables, shared, sums
        As for :func:`expect_chains`.
    variables : tuple of int
        The first variable of the example, and the one after its last.
    coef : float
        The weight of the example.
    vectors : Vectors
        Overwritten.
    """
    chains, node, tables = borrow(chains), borrow(node), borrow(tables)
    sums, vectors = borrow(sums), borrow(vectors)
    lo, hi = variables
    log_z = forward(chains, lo, hi, node, tables, vectors)
    if not np.isfinite(log_z) or (not tables.even and not even_backward(chains, lo, hi, tables, vectors)):
        return log_z if not np.isfinite(log_z) else np.nan
    c, link, alpha, beta, sent, share = chains.c, chains.link, vectors.alpha, vectors.beta, vectors.sent, vectors.share
    width, last, edge = len(beta), 1.0, 0.0
    for v in range(hi - 1, lo - 1, -1):
        at = (v - lo) * width
        if link[v] < 0:
            last = 1.0
            for s in range(width):
                beta[s] = 1.0
        else:
            start = link[v] // (c * c) * c * width
            weigh_rows(beta, 0, width, sent, at + width, c, tables.turned, start)
            for s in range(at + width, at + 2 * width):  # nobody else reads them
                sent[s] *= edge
            if not shared:
                for s in range(c):
                    entry = start + s * width
                    for t in range(c):
                        sums.tables[entry + t] += alpha[at + s] * tables.factor[entry + t] * sent[at + width + t]
        total = multiply_rows(share, 0, width, alpha, at, beta, 0, 1.0)
        scale = coef / total
        for s in range(c):
            sums.node[v * c + s] += scale * share[s]
        edge = scale * vectors.scale[v - lo] / last
        last = 1.0 / multiply_rows(sent, at, width, vectors.unary, at, beta, 0, last)
    if shared:  # rows of variables after which a chain ends do not count
        first = lo
        for v in range(lo, hi):
            if link[v] < 0:
                add_outer(
                    sums.tables, 0, width, alpha, (first - lo) * width, c, sent, (first + 1 - lo) * width, v - first
                )
                first = v + 1
    return log_z


@njit(cache=True, nogil=True, borrowed=True)
def even_backward(chains: Chains, lo: int, hi: int, tables: LinearTables, vectors: Vectors) -> bool:
    """Return whether no entry of a backward vector of variables lo..hi-1 is too small, after :func:`forward`."""
    c, width, last = chains.c, len(vectors.beta), 1.0
    for v in range(hi - 1, lo - 1, -1):
        at = (v - lo) * width
        if chains.link[v] < 0:
            last = 1.0
            for s in range(width):
                vectors.beta[s] = 1.0
        else:
            start = chains.link[v] // (c * c) * c * width
            weigh_rows(vectors.beta, 0, width, vectors.sent, at + width, c, tables.turned, start)
            if too_small(vectors.beta, 0, c, last):
                return False
        last = 1.0 / multiply_rows(vectors.sent, at, width, vectors.unary, at, vectors.beta, 0, last)
    return True
