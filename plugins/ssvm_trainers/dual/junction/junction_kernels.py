"""Compiled passes over junction trees: up for sums, down for marginals.

The trees are those of :mod:`ssvm_trainers.dual.junction.junction_trees`.

A distribution over the labellings of an example is the product, over its cliques, of the conditional probability of
each clique's cell given the row it shares with the parent's.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64
from ssvm_dsl.kernels import borrow, njit
from ssvm_trainers.dual.junction.junction_trees import JunctionTrees


@njit(cache=True, nogil=True)
def to_conditionals(trees: JunctionTrees, scores: F64, largest: F64, total: F64, begin: int, end: int) -> None:
    """Replace scores of cells by log-probabilities given the row, of ``q(y) ~ exp(sum of the scores of its cells)``.

    With ``m(r) = log sum_{c in r} exp(s_c)``, from the cliques at the bottom up: ``s_c <- s_c - m(row of c)``, and the
    parent's cells that agree with r gain m(r).

    Parameters
    ----------
    trees : JunctionTrees
        Read only.
    scores : ndarray of float64, shape (n_cells,)
        Changed in place; ``-inf`` where a cell is ruled out.
    largest, total : ndarray of float64, shape (n_rows,)
        Work space; overwritten.
    begin, end : int
        The first clique of some examples, and the one after their last.
    """
    t, scores, largest, total = borrow(trees), borrow(scores), borrow(largest), borrow(total)
    for k in range(begin, end):
        lo, hi = t.cell_ptr[k], t.cell_ptr[k + 1]
        for r in range(t.row_ptr[k], t.row_ptr[k + 1]):
            largest[r], total[r] = -np.inf, 0.0
        for c in range(lo, hi):
            largest[t.up[c]] = max(largest[t.up[c]], scores[c])
        for c in range(lo, hi):
            if scores[c] > -np.inf:
                total[t.up[c]] += np.exp(scores[c] - largest[t.up[c]])
        for r in range(t.row_ptr[k], t.row_ptr[k + 1]):
            if total[r] > 0.0:
                largest[r] += np.log(total[r])
        for c in range(lo, hi):
            if scores[c] > -np.inf:
                scores[c] -= largest[t.up[c]]
        p = t.parent[k]
        if p >= 0:
            first, at = t.cell_ptr[p], t.down_ptr[k]
            for c in range(first, t.cell_ptr[p + 1]):
                scores[c] += largest[t.down[at + c - first]]


@njit(cache=True, nogil=True)
def from_conditionals(trees: JunctionTrees, conditional: F64, out: F64, begin: int, end: int) -> None:
    """Write the marginals of all cells, from the roots down: the row's, times the probability given the row.

    Parameters
    ----------
    trees : JunctionTrees
        Read only.
    conditional : ndarray of float64, shape (n_cells,)
        They add up to 1 for each row that cells with a positive marginal have; read only.
    out : ndarray of float64, shape (n_cells,)
        Overwritten; may be the same array.
    begin, end : int
        As for :func:`to_conditionals`.
    """
    t, conditional, out = borrow(trees), borrow(conditional), borrow(out)
    shift = t.row_ptr[begin]
    of_row = np.zeros(t.row_ptr[end] - shift)
    for k in range(end - 1, begin - 1, -1):
        p = t.parent[k]
        if p < 0:
            of_row[t.row_ptr[k] - shift] = 1.0
        else:
            first, at = t.cell_ptr[p], t.down_ptr[k]
            for c in range(first, t.cell_ptr[p + 1]):
                of_row[t.down[at + c - first] - shift] += out[c]
        for c in range(t.cell_ptr[k], t.cell_ptr[k + 1]):
            out[c] = of_row[t.up[c] - shift] * conditional[c]
