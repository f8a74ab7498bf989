"""Compiled steps of ``smo`` on graphs with cycles: the marginals are those of the cliques of a junction tree.

Steps are those of :mod:`ssvm_trainers.dual.smo_kernels`: weight moves between two labellings, from the worst one all of
whose cells have positive marginals to the best one known, and marginals are multiples of the same grid.  Marginals of
separators are sums of those of cells and are not stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import FlatMaps, borrow, njit, score_example
from ssvm_trainers.dual.junction_trees import JunctionTrees
from ssvm_trainers.dual.smo_kernels import GRID, NO_SLOPE
from ssvm_trainers.dual.smo_pairs import SMOWorkspace, add_difference, curvature, difference_product, list_differences
from ssvm_trainers.shared.arrays import Fixed, Work


class CliqueWorkspace(NamedTuple):
    """Work space for the junction trees of all examples.

    Parameters
    ----------
    node, pool : ndarray of float64
        Scores, as in :class:`~ssvm_dsl.ir.Theta`.
    bonus : ndarray of float64, shape (S,)
        Zeros.
    loss : ndarray of float64, shape (n_cells,)
        Loss of each cell, with what it scores without weights; read only.
    high, low : ndarray of float64, shape (n_cells,)
        The highest and the lowest score of what is below a cell of the support, the cell's included.
    row_high, row_low : ndarray of float64, shape (n_rows,)
        The same of the cells that have a row ...
    pick_high, pick_low : ndarray of int64, shape (n_rows,)
        ... and the cells that have it.
    toward, away : ndarray of int64, shape (n_cliques,)
        The cells of the pair: of the labelling that takes weight, and of the one that gives it.
    """

    node: F64
    pool: F64
    bonus: F64
    loss: F64
    high: F64
    low: F64
    row_high: F64
    row_low: F64
    pick_high: I64
    pick_low: I64
    toward: I64
    away: I64


@njit(cache=True, nogil=True)
def score_support(trees: JunctionTrees, cliques: CliqueWorkspace, mu: F64, i: int) -> tuple[float, bool]:
    """Write the scores of the support of an example; return (that of the marginals, whether anything is undecided).

    Cliques with one cell in their support are left out: all labellings have it.
    """
    t, s, mu, mean, undecided = borrow(trees), borrow(cliques), borrow(mu), 0.0, False
    n_node = len(s.node)
    for k in range(t.clique_ptr[i], t.clique_ptr[i + 1]):
        n = 0
        for c in range(t.cell_ptr[k], t.cell_ptr[k + 1]):
            n += mu[c] > 0.0
            s.high[c] = s.low[c] = 0.0
        if n < 2:
            continue
        undecided = True
        for c in range(t.cell_ptr[k], t.cell_ptr[k + 1]):
            if mu[c] > 0.0:
                score = s.loss[c]
                for e in range(t.score_ptr[c], t.score_ptr[c + 1]):
                    at = t.score[e]
                    score += s.node[at] if at < n_node else s.pool[at - n_node]
                s.high[c] = s.low[c] = score
                mean += mu[c] * score
    return mean, undecided


@njit(cache=True, nogil=True)
def extremes_of_cliques(trees: JunctionTrees, cliques: CliqueWorkspace, mu: F64, i: int) -> tuple[float, float]:
    """Write the cells of the best and the worst labelling of an example's support, by dynamic programming.

    Returns (how much their scores differ, how much that of the marginals is above the worst).

    Parameters
    ----------
    trees, mu
        As for :func:`clique_pass`; read only.
    cliques : CliqueWorkspace
        ``node`` and ``pool`` are read; ``toward`` and ``away`` hold the result.
    i : int
        The example.
    """
    mean, undecided = score_support(trees, cliques, mu, i)
    t, s, mu, top, bottom = borrow(trees), borrow(cliques), borrow(mu), 0.0, 0.0
    first, last = t.clique_ptr[i], t.clique_ptr[i + 1]
    for k in range(first, last):
        for r in range(t.row_ptr[k], t.row_ptr[k + 1]):
            s.row_high[r], s.row_low[r] = -np.inf, np.inf
        for c in range(t.cell_ptr[k], t.cell_ptr[k + 1]):
            if mu[c] > 0.0:
                r = t.up[c]
                if s.high[c] > s.row_high[r]:
                    s.row_high[r], s.pick_high[r] = s.high[c], c
                if s.low[c] < s.row_low[r]:
                    s.row_low[r], s.pick_low[r] = s.low[c], c
        p = t.parent[k]
        if p < 0:
            top, bottom = top + s.row_high[t.row_ptr[k]], bottom + s.row_low[t.row_ptr[k]]
            continue
        begin, at = t.cell_ptr[p], t.down_ptr[k]
        for c in range(begin, t.cell_ptr[p + 1]):
            if mu[c] > 0.0:  # cells of the support agree with some of the clique's: marginals do, to the last bit
                s.high[c] += s.row_high[t.down[at + c - begin]]
                s.low[c] += s.row_low[t.down[at + c - begin]]
    for k in range(last - 1, first - 1, -1):
        p = t.parent[k]
        if p < 0:
            s.toward[k], s.away[k] = s.pick_high[t.row_ptr[k]], s.pick_low[t.row_ptr[k]]
        else:
            at = t.down_ptr[k] - t.cell_ptr[p]
            s.toward[k] = s.pick_high[t.down[at + s.toward[p]]]
            s.away[k] = s.pick_low[t.down[at + s.away[p]]]
    return (top - bottom, mean - bottom) if undecided else (0.0, 0.0)


@njit(cache=True, nogil=True)
def write_labels(trees: JunctionTrees, fixed: Fixed, i: int, cells: I64, labels: I32, out: int) -> None:
    """Write the labelling of an example that has these cells to ``labels``, from ``out`` on."""
    t, cells, labels, lo = borrow(trees), borrow(cells), borrow(labels), fixed.var_ptr[i]
    for k in range(t.clique_ptr[i], t.clique_ptr[i + 1]):
        for e in range(t.member_ptr[k], t.member_ptr[k + 1]):
            v = t.member[e]
            card = fixed.state_ptr[v + 1] - fixed.state_ptr[v]
            labels[out + v - lo] = (cells[k] - t.cell_ptr[k]) // t.stride[e] % card


@njit(cache=True, nogil=True)
def clique_visit(
    maps: FlatMaps, trees: JunctionTrees, fixed: Fixed, cliques: CliqueWorkspace, space: SMOWorkspace, work: Work,
    mu: F64, i: int, labels: I32, begin: int, w: F64, free: F64,
) -> tuple[float, float]:  # fmt: skip
    """Take a step on a pair of example i; return (gain of the dual, gap of the example before), times its share.

    Parameters
    ----------
    maps, trees, fixed, cliques, space, work, mu, w, free
        As for :func:`clique_pass`.
    i : int
    labels : ndarray of int32
        From ``begin`` on a labelling that the pair takes if it beats the support; nothing where ``begin`` is negative.
    begin : int
    """
    t, s, lo = borrow(trees), borrow(cliques), fixed.var_ptr[i]
    size, share, step = fixed.var_ptr[i + 1] - lo, fixed.share[i], fixed.share[i] / fixed.lam
    score_example(
        maps, i, lo, lo + size, fixed.state_ptr, s.bonus, w, work.ones, work.scores, s.node, s.pool
    )  # fmt: skip
    slope, mean = extremes_of_cliques(trees, cliques, mu, i)
    first, last = t.clique_ptr[i], t.clique_ptr[i + 1]
    write_labels(trees, fixed, i, s.toward, space.pair, 0)
    write_labels(trees, fixed, i, s.away, space.pair, size)
    if begin >= 0:
        found = 0.0
        for v in range(size):
            space.place[v], space.pair[v] = space.pair[v], labels[begin + v]
        for k in range(first, last):
            c = t.cell_ptr[k]
            for e in range(t.member_ptr[k], t.member_ptr[k + 1]):
                c += labels[begin + t.member[e] - lo] * t.stride[e]
            s.pick_high[t.row_ptr[k]] = c  # free once the labellings are read back; each clique has a row
            found += s.loss[c] - s.loss[s.away[k]]
        found += difference_product(maps, space, list_differences(maps, fixed, space, i), w)
        for k in range(first, last if found > slope else first):
            s.toward[k] = s.pick_high[t.row_ptr[k]]
        for v in range(0 if found > slope else size):
            space.pair[v] = space.place[v]
        slope = max(slope, found)
    gap = slope - mean
    if slope <= NO_SLOPE:
        return 0.0, share * gap
    n, amount = list_differences(maps, fixed, space, i), 1.0
    bend = step * curvature(maps, fixed, space, work, n)
    for k in range(first, last):
        if s.toward[k] != s.away[k]:
            amount = min(amount, mu[s.away[k]])
    if slope < amount * bend:
        amount = np.floor(slope / bend / GRID) * GRID  # down: the gain stays positive, and marginals on the grid
    for k in range(first, last):
        if s.toward[k] != s.away[k]:
            mu[s.toward[k]] += amount
            mu[s.away[k]] -= amount
    add_difference(maps, fixed, fixed.bounded, space, n, -step * amount, w, free)
    return share * (amount * slope - 0.5 * amount * amount * bend), share * gap


@njit(cache=True, nogil=True)
def clique_pass(
    maps: FlatMaps, trees: JunctionTrees, fixed: Fixed, cliques: CliqueWorkspace, space: SMOWorkspace, work: Work,
    mu: F64, examples: I64, label_ptr: I64, labels: I32, w: F64, free: F64, gap: F64,
) -> float:  # fmt: skip
    """Visit the listed examples; return the gain of the dual, write their gaps.

    Parameters
    ----------
    maps : FlatMaps
        The features, without scores that no weight multiplies; read only.
    trees, fixed : JunctionTrees, Fixed
        Read only.
    cliques, space, work : CliqueWorkspace, SMOWorkspace, Work
        Work space.
    mu : ndarray of float64, shape (n_cells,)
        Marginals of cliques; changed in place for the listed examples.
    examples : ndarray of int64, shape (n_listed,)
    label_ptr, labels : ndarray of int64 and of int32
        What an oracle returned for a batch, packed by ``label_ptr``; with none, all is within the supports.
    w, free : ndarray of float64, shape (dim,)
        The weights, and, for maps with a lower bound, what they would be without it; changed in place.
    gap : ndarray of float64, shape (n,)
        Written for the listed examples.
    """
    maps, trees, fixed, space, work = borrow(maps), borrow(trees), borrow(fixed), borrow(space), borrow(work)
    cliques, mu, labels, w, free = borrow(cliques), borrow(mu), borrow(labels), borrow(w), borrow(free)
    total, candidate = 0.0, len(labels) > 0
    for j in range(len(examples)):
        i, begin = examples[j], label_ptr[j] if candidate else np.int64(-1)
        if fixed.share[i] == 0.0:
            gap[i] = 0.0
            continue
        gained, gap[i] = clique_visit(
            maps, trees, fixed, cliques, space, work, mu, i, labels, begin, w, free
        )  # fmt: skip
        total += gained
    return total
