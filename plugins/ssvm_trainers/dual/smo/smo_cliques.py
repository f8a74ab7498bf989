"""Compiled steps of ``smo`` on graphs with cycles: the marginals are those of the cliques of a junction tree.

Steps are those of :mod:`ssvm_trainers.dual.smo.smo_kernels`: weight moves between two labellings, from the worst one
all of whose cells have positive marginals to the best one known, and marginals are multiples of the same grid.
Marginals of separators are sums of those of cells and are not stored.

The cells of the support are listed, and lists follow the steps: a visit reads and scores the listed cells,
however many cells a clique has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import N_CONFIGS, POOL, SCOPE, TABLE, TABLE_BASE, ScoreSpace, borrow, factor_dot, factors_of, njit
from ssvm_trainers.dual.junction_trees import JunctionTrees
from ssvm_trainers.dual.smo.smo_kernels import GRID, NO_SLOPE, GivenLabels, MarginalPoint
from ssvm_trainers.dual.smo.smo_pairs import (
    SMOWorkspace,
    add_difference,
    curvature,
    difference_product,
    list_differences,
)
from ssvm_trainers.shared.arrays import Fixed, Work


class CliqueWorkspace(NamedTuple):
    """Work space for the junction trees of all examples.

    Parameters
    ----------
    scores : ScoreSpace
    marked : ndarray of bool, shape (S + n_pool,)
        The scores that are needed, between two passes over the cells; False elsewhere.
    listed : ndarray of int64, shape (n_cells,)
        The cells of positive marginals of each clique, ascending, from where its cells begin ...
    n_listed : ndarray of int64, shape (n_cliques,)
        ... and how many there are.
    loss : ndarray of float64, shape (n_cells,)
        Loss of each cell plus its score without weights; read only.
    high, low : ndarray of float64, shape (n_cells,)
        The highest and the lowest score of the subtree below a cell of the support, the cell's included.
    row_high, row_low : ndarray of float64, shape (n_rows,)
        The same of the cells that have a row ...
    pick_high, pick_low : ndarray of int64, shape (n_rows,)
        ... and the cells that have it.
    toward, away : ndarray of int64, shape (n_cliques,)
        The cells of the pair: of the labelling that takes weight, and of the one that gives it.
    """

    scores: ScoreSpace
    marked: Bools
    listed: I64
    n_listed: I64
    loss: F64
    high: F64
    low: F64
    row_high: F64
    row_low: F64
    pick_high: I64
    pick_low: I64
    toward: I64
    away: I64


@njit(cache=True, nogil=True, borrowed=True)
def list_cells(trees: JunctionTrees, cliques: CliqueWorkspace, mu: F64) -> None:
    """List the cells of positive marginals of all cliques."""
    t, listed, n_listed, mu = borrow(trees), borrow(cliques.listed), borrow(cliques.n_listed), borrow(mu)
    for k in range(len(n_listed)):
        first, n = t.cell_ptr[k], 0
        for c in range(first, t.cell_ptr[k + 1]):
            if mu[c] > 0.0:
                listed[first + n] = c
                n += 1
        n_listed[k] = n


@njit(cache=True, nogil=True, borrowed=True)
def change_cell(cliques: CliqueWorkspace, mu: F64, first: int, k: int, c: int, amount: float) -> None:
    """Add to the marginal of a cell of clique k, whose cells begin at ``first``; its list stays ascending."""
    listed, n = borrow(cliques.listed), cliques.n_listed[k]
    before, mu[c] = mu[c], mu[c] + amount
    if (before > 0.0) == (mu[c] > 0.0):
        return
    e = first
    while e < first + n and listed[e] < c:
        e += 1
    if before > 0.0:
        for at in range(e, first + n - 1):
            listed[at] = listed[at + 1]
        cliques.n_listed[k] = n - 1
    else:
        for at in range(first + n, e, -1):
            listed[at] = listed[at - 1]
        listed[e], cliques.n_listed[k] = c, n + 1


@njit(cache=True, nogil=True, borrowed=True)
def score_marked(fixed: Fixed, scores: ScoreSpace, marked: Bools, i: int, w: F64) -> None:
    """Write the scores of an example that are marked; of tables without features all."""
    maps, marked, node, pool = borrow(fixed.maps), borrow(marked), scores.node, scores.pool
    desc, ints, longs, w = maps.desc, maps.ints, maps.longs, borrow(w)
    lo, hi, n_node = fixed.var_ptr[i], fixed.var_ptr[i + 1], len(node)
    for s in range(fixed.state_ptr[lo], fixed.state_ptr[hi]):
        node[s] = 0.0
    for m in range(len(desc)):
        n, in_pool = desc[m, N_CONFIGS], desc[m, POOL] >= 0
        first, last = factors_of(maps, m, i)
        for f in range(first, last):
            at = fixed.state_ptr[lo + ints[desc[m, SCOPE] + f]] if not in_pool else np.int64(0)
            if in_pool:
                at = desc[m, POOL] + (longs[desc[m, TABLE_BASE] + i] + ints[desc[m, TABLE] + f]) * n
            for c in range(n):
                if in_pool:
                    if marked[n_node + at + c]:
                        pool[at + c] = factor_dot(maps, m, i, f, c, w)
                elif marked[at + c]:
                    node[at + c] += factor_dot(maps, m, i, f, c, w)


@njit(cache=True, nogil=True, borrowed=True)
def score_support(
    fixed: Fixed, trees: JunctionTrees, cliques: CliqueWorkspace, mu: F64, i: int, w: F64
) -> tuple[float, bool]:
    """Write the scores of the support of an example; return (that of the marginals, whether anything is undecided).

    Cliques with one cell in their support are left out: all labellings have it.
    """
    t, s, mu, mean, undecided = borrow(trees), borrow(cliques), borrow(mu), 0.0, False
    listed, n_listed, marked = borrow(cliques.listed), borrow(cliques.n_listed), borrow(cliques.marked)
    n_node = len(s.scores.node)
    first, last = t.clique_ptr[i], t.clique_ptr[i + 1]
    for k in range(first, last):
        begin = t.cell_ptr[k]
        for c in listed[begin : begin + n_listed[k]]:
            s.high[c] = s.low[c] = 0.0
            for e in range(t.score_ptr[c], t.score_ptr[c + 1] if n_listed[k] > 1 else t.score_ptr[c]):
                marked[t.score[e]] = True
        undecided |= n_listed[k] > 1
    if not undecided:
        return 0.0, False
    score_marked(fixed, s.scores, s.marked, i, w)
    for k in range(first, last):
        begin = t.cell_ptr[k]
        for c in listed[begin : begin + (n_listed[k] if n_listed[k] > 1 else 0)]:
            score = s.loss[c]
            for e in range(t.score_ptr[c], t.score_ptr[c + 1]):
                at = t.score[e]
                score += s.scores.node[at] if at < n_node else s.scores.pool[at - n_node]
                marked[at] = False
            s.high[c] = s.low[c] = score
            mean += mu[c] * score
    return mean, undecided


@njit(cache=True, nogil=True, borrowed=True)
def extremes_of_cliques(
    fixed: Fixed, trees: JunctionTrees, cliques: CliqueWorkspace, mu: F64, i: int, w: F64
) -> tuple[float, float]:
    """Write the cells of the best and the worst labelling of an example's support, by dynamic programming.

    Returns (how much their scores differ, how much that of the marginals is above the worst).

    Parameters
    ----------
    fixed, trees, mu, w
        As for :func:`clique_pass`, and of its point; read only.
    cliques : CliqueWorkspace
        ``toward`` and ``away`` hold the result.
    i : int
        The example.
    """
    mean, undecided = score_support(fixed, trees, cliques, mu, i, w)
    t, s, top, bottom = borrow(trees), borrow(cliques), 0.0, 0.0
    listed, n_listed = borrow(cliques.listed), borrow(cliques.n_listed)
    first, last = t.clique_ptr[i], t.clique_ptr[i + 1]
    for k in range(first, last):
        begin = t.cell_ptr[k]
        support = listed[begin : begin + n_listed[k]]
        for c in support:
            s.row_high[t.up[c]], s.row_low[t.up[c]] = -np.inf, np.inf
        for c in support:
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
        for c in listed[begin : begin + n_listed[p]]:  # they agree with some of the clique's: marginals do, exactly
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


@njit(cache=True, nogil=True, borrowed=True)
def write_labels(trees: JunctionTrees, fixed: Fixed, i: int, cells: I64, labels: I32, out: int) -> None:
    """Write the labelling of an example that has these cells to ``labels``, from ``out`` on."""
    t, cells, labels, lo = borrow(trees), borrow(cells), borrow(labels), fixed.var_ptr[i]
    for k in range(t.clique_ptr[i], t.clique_ptr[i + 1]):
        for e in range(t.member_ptr[k], t.member_ptr[k + 1]):
            v = t.member[e]
            card = fixed.state_ptr[v + 1] - fixed.state_ptr[v]
            labels[out + v - lo] = (cells[k] - t.cell_ptr[k]) // t.stride[e] % card


@njit(cache=True, nogil=True, borrowed=True)
def clique_visit(
    fixed: Fixed, trees: JunctionTrees, cliques: CliqueWorkspace, space: SMOWorkspace, work: Work,
    point: MarginalPoint, i: int, labels: I32,
) -> float:  # fmt: skip
    """Take a step on a pair of example i, write its gap before; return the gain of the dual.

    Parameters
    ----------
    fixed, trees, cliques, space, work, point
        As for :func:`clique_pass`.
    i : int
    labels : ndarray of int32
        A labelling that the pair takes if it beats the support, or nothing.
    """
    t, s, lo, mu = borrow(trees), borrow(cliques), fixed.var_ptr[i], borrow(point.mu)
    size, share, step = fixed.var_ptr[i + 1] - lo, fixed.share[i], fixed.share[i] / fixed.lam
    slope, mean = extremes_of_cliques(fixed, trees, cliques, mu, i, point.w)
    first, last = t.clique_ptr[i], t.clique_ptr[i + 1]
    write_labels(trees, fixed, i, s.toward, space.pair, 0)
    write_labels(trees, fixed, i, s.away, space.pair, size)
    if len(labels):
        difference = 0.0
        for v in range(size):
            space.place[v], space.pair[v] = space.pair[v], labels[v]
        for k in range(first, last):
            c = t.cell_ptr[k]
            for e in range(t.member_ptr[k], t.member_ptr[k + 1]):
                c += labels[t.member[e] - lo] * t.stride[e]
            s.pick_high[t.row_ptr[k]] = c  # free once the labellings are read back; each clique has a row
            difference += s.loss[c] - s.loss[s.away[k]]
        difference += difference_product(fixed, space, list_differences(fixed, space, i), point.w)
        for k in range(first, last if difference > slope else first):
            s.toward[k] = s.pick_high[t.row_ptr[k]]
        for v in range(0 if difference > slope else size):
            space.pair[v] = space.place[v]
        slope = max(slope, difference)
    point.gap[i] = share * (slope - mean)
    if slope <= NO_SLOPE:
        return 0.0
    n, amount = list_differences(fixed, space, i), 1.0
    bend = step * curvature(fixed, space, work, n)
    for k in range(first, last):
        if s.toward[k] != s.away[k]:
            amount = min(amount, mu[s.away[k]])
    if slope < amount * bend:
        amount = np.floor(slope / bend / GRID) * GRID  # down: the gain stays positive, and marginals on the grid
    for k in range(first, last):
        if s.toward[k] != s.away[k]:
            change_cell(cliques, mu, t.cell_ptr[k], k, s.toward[k], amount)
            change_cell(cliques, mu, t.cell_ptr[k], k, s.away[k], -amount)
    add_difference(fixed, fixed.bounded, space, n, -step * amount, point.w, point.free)
    return share * (amount * slope - 0.5 * amount * amount * bend)


@njit(cache=True, nogil=True, borrowed=True)
def clique_pass(
    fixed: Fixed, trees: JunctionTrees, cliques: CliqueWorkspace, space: SMOWorkspace, work: Work,
    point: MarginalPoint, examples: I64, given: GivenLabels,
) -> float:  # fmt: skip
    """Visit the listed examples, with given labellings or within the supports; return the gain of the dual.

    Parameters
    ----------
    fixed : Fixed
        Its features are without scores that no weight multiplies; read only.
    trees : JunctionTrees
        Read only.
    cliques, space, work : CliqueWorkspace, SMOWorkspace, Work
        Work space.
    point : MarginalPoint
        Changed; its marginals are those of cliques.
    examples : ndarray of int64, shape (n_listed,)
    given : GivenLabels
        Those of the listed examples, or none.
    """
    trees, fixed, space, work, cliques = borrow(trees), borrow(fixed), borrow(space), borrow(work), borrow(cliques)
    point, given, total, candidate = borrow(point), borrow(given), 0.0, len(given.labels) > 0
    for j in range(len(examples)):
        i = examples[j]
        if fixed.share[i] == 0.0:
            point.gap[i] = 0.0
            continue
        lo, hi = (given.ptr[j], given.ptr[j + 1]) if candidate else (np.int64(0), np.int64(0))
        total += clique_visit(fixed, trees, cliques, space, work, point, i, given.labels[lo:hi])
    return total
