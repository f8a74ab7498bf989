"""Compiled visits of ``eg``: distributions over labellings as those of the cells of junction trees.

Where a distribution is ``exp(t Delta(y) + u . Phi(x, y))``, a step adds multiples of a vector to the logarithms of
cells.  These logarithms are kept in place of u and t.  A visit therefore scores its example once, at the current
weights, for all step lengths that it tries, and a trial updates v only by the cells that changed.  Let q' - q be the
change of all cells, g their scores and losses, and H the entropy (of the log-loss).  A step gains at least

    a_i/n ( g . (q' - q) + H(q') - H(q) - a_i/(2 lam n) |Phi (q' - q)|^2 )

which is exact where weights have no lower bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import (
    N_CONFIGS,
    POOL,
    SCOPE,
    TABLE,
    TABLE_BASE,
    ScoreSpace,
    borrow,
    factor_add,
    factor_dot,
    factors_of,
    njit,
)
from ssvm_trainers.dual.junction_trees import JunctionTrees, from_conditionals, to_conditionals
from ssvm_trainers.dual.smo.smo_cliques import score_marked
from ssvm_trainers.shared.arrays import Fixed, Work
from ssvm_trainers.shared.products import Shrinkage, clear_entries, shrink_entries

#: Gains of at most this share of the dual value count as no gain.
ROUNDING = 1e-14

#: Steps tried in one visit.
MAX_TRIALS = 20


class Mixtures(NamedTuple):
    """The distributions of all examples, and their weights.

    Parameters
    ----------
    logs : ndarray of float64, shape (n_cells,)
        Log-probability of each cell given its row; ``-inf`` where it is ruled out.
    mu : ndarray of float64, shape (n_cells,)
        Marginals.
    w, free : ndarray of float64, shape (dim,)
        Weights, and what they would be without lower bounds: one array where there are none.
    step : ndarray of float64, shape (n,)
        The next step of each example.
    """

    logs: F64
    mu: F64
    w: F64
    free: F64
    step: F64


class MixtureSpace(NamedTuple):
    """Work space of visits.

    Parameters
    ----------
    scores : ScoreSpace
    everything : ndarray of bool, shape (S + n_pool,)
        True.
    loss : ndarray of float64, shape (n_cells,)
        Loss of each cell, with what it scores without weights; read only.
    score, trial, fresh : ndarray of float64, shape (n_cells,)
        Scores and losses of cells; logarithms and marginals after a step.
    largest, total : ndarray of float64, shape (n_rows,)
    entries : ndarray of float64, shape (S + n_pool,)
        Change of the marginal of each score; zeros between visits.
    which, factor, config : ndarray of int32, shape (most,)
        Map, factor and joint state of each score that changed ...
    amount : ndarray of float64, shape (most,)
        ... and by how much its marginal did.
    """

    scores: ScoreSpace
    everything: Bools
    loss: F64
    score: F64
    trial: F64
    fresh: F64
    largest: F64
    total: F64
    entries: F64
    which: I32
    factor: I32
    config: I32
    amount: F64


class MixtureStepRule(NamedTuple):
    """How steps are taken.

    Parameters
    ----------
    smooth : bool
        Whether the dual has the entropy.
    longer, longest : float
        What a success does to a step, and the longest one.
    value : float
        The dual value before the pass: gains far below it are rounding.
    """

    smooth: bool
    longer: float
    longest: float
    value: float


@njit(cache=True, nogil=True, borrowed=True)
def list_changes(fixed: Fixed, trees: JunctionTrees, space: MixtureSpace, i: int, point: Mixtures) -> int:
    """List the scores of an example whose marginals in ``space.fresh`` are others; return how many."""
    maps, t, s, mu, n = borrow(fixed.maps), borrow(trees), borrow(space), borrow(point.mu), 0
    desc, ints, longs, n_node = maps.desc, maps.ints, maps.longs, len(s.scores.node)
    lo, first, last = fixed.var_ptr[i], t.cell_ptr[t.clique_ptr[i]], t.cell_ptr[t.clique_ptr[i + 1]]
    for c in range(first, last):
        for e in range(t.score_ptr[c], t.score_ptr[c + 1]):
            s.entries[t.score[e]] += s.fresh[c] - mu[c]
    for m in range(len(desc)):
        size, in_pool = desc[m, N_CONFIGS], desc[m, POOL] >= 0
        begin, end = factors_of(maps, m, i)
        for f in range(begin, end):
            at = fixed.state_ptr[lo + ints[desc[m, SCOPE] + f]] if not in_pool else np.int64(0)
            if in_pool:
                at = n_node + desc[m, POOL] + (longs[desc[m, TABLE_BASE] + i] + ints[desc[m, TABLE] + f]) * size
            for c in range(size):
                if s.entries[at + c] != 0.0:
                    s.which[n], s.factor[n], s.config[n], s.amount[n] = m, f, c, s.entries[at + c]
                    n += 1
                    if in_pool:  # factors with one table have one score
                        s.entries[at + c] = 0.0
    for c in range(first, last):
        for e in range(t.score_ptr[c], t.score_ptr[c + 1]):
            s.entries[t.score[e]] = 0.0
    return n


@njit(cache=True, nogil=True, borrowed=True)
def changed_length(fixed: Fixed, space: MixtureSpace, work: Work, i: int, n: int) -> float:
    """Return ``|Phi (q' - q)|^2`` of the n changes listed, in the metric of the regulariser."""
    maps, s, direction, total = borrow(fixed.maps), borrow(space), borrow(work.direction), 0.0
    for d in range(n):
        m, f, c = np.int64(s.which[d]), np.int64(s.factor[d]), np.int64(s.config[d])
        factor_add(maps, m, i, f, c, s.amount[d] * fixed.metric[m], direction)
    for d in range(n):
        m, f, c = np.int64(s.which[d]), np.int64(s.factor[d]), np.int64(s.config[d])
        total += s.amount[d] * factor_dot(maps, m, i, f, c, direction)
    for d in range(n):
        clear_entries(maps, np.int64(s.which[d]), i, np.int64(s.factor[d]), np.int64(s.config[d]), direction)
    return total


@njit(cache=True, nogil=True, borrowed=True)
def add_changes(fixed: Fixed, space: MixtureSpace, i: int, n: int, coef: float, point: Mixtures) -> None:
    """Add ``coef metric Phi (q' - q)`` of the n changes listed to the weights."""
    maps, s, w, free = borrow(fixed.maps), borrow(space), borrow(point.w), borrow(point.free)
    for d in range(n):
        m, f, c = np.int64(s.which[d]), np.int64(s.factor[d]), np.int64(s.config[d])
        target = free if fixed.bounded[m] else w
        factor_add(maps, m, i, f, c, coef * s.amount[d] * fixed.metric[m], target)
    for d in range(n):
        m, f, c = np.int64(s.which[d]), np.int64(s.factor[d]), np.int64(s.config[d])
        if fixed.bounded[m]:
            shrink_entries(maps, m, i, f, c, free, w, Shrinkage(fixed.lower[m], fixed.threshold))


@njit(cache=True, nogil=True, borrowed=True)
def score_cells(fixed: Fixed, trees: JunctionTrees, space: MixtureSpace, i: int, w: F64) -> None:
    """Write the scores and losses of an example's cells."""
    t, s, n_node = borrow(trees), borrow(space), len(space.scores.node)
    score_marked(fixed, s.scores, s.everything, i, w)
    for c in range(t.cell_ptr[t.clique_ptr[i]], t.cell_ptr[t.clique_ptr[i + 1]]):
        s.score[c] = s.loss[c]
        for e in range(t.score_ptr[c], t.score_ptr[c + 1]):
            at = t.score[e]
            s.score[c] += s.scores.node[at] if at < n_node else s.scores.pool[at - n_node]


@njit(cache=True, nogil=True, borrowed=True)
def try_step(trees: JunctionTrees, space: MixtureSpace, point: Mixtures, i: int, step: float, smooth: bool) -> float:
    """Write logarithms and marginals of an example after a step; return how much its scores, and entropy, gain."""
    t, s, logs, mu, gain = borrow(trees), borrow(space), borrow(point.logs), borrow(point.mu), 0.0
    k, l = t.clique_ptr[i], t.clique_ptr[i + 1]
    first, last = t.cell_ptr[k], t.cell_ptr[l]
    for c in range(first, last):
        s.trial[c] = logs[c]
        if logs[c] > -np.inf:
            s.trial[c] += step * (s.score[c] - (logs[c] if smooth else 0.0))
    to_conditionals(trees, s.trial, s.largest, s.total, k, l)
    for c in range(first, last):
        s.fresh[c] = np.exp(s.trial[c])
    from_conditionals(trees, s.fresh, s.fresh, k, l)
    for c in range(first, last):
        gain += s.score[c] * (s.fresh[c] - mu[c])
        if smooth and logs[c] > -np.inf:
            gain += mu[c] * logs[c] - s.fresh[c] * s.trial[c]
    return gain


@njit(cache=True, nogil=True, borrowed=True)
def mixture_pass(
    fixed: Fixed, trees: JunctionTrees, space: MixtureSpace, work: Work, point: Mixtures, rule: MixtureStepRule,
    ids: I64,
) -> int:  # fmt: skip
    """Move the distributions of some examples, one after the other; return how many steps were tried.

    Parameters
    ----------
    fixed : Fixed
        Its features are without scores that no weight multiplies; read only.
    trees : JunctionTrees
        Read only.
    space, work : MixtureSpace, Work
        Work space.
    point : Mixtures
        Changed.
    rule : MixtureStepRule
    ids : ndarray of int64, shape (n_listed,)
    """
    trees, fixed, space, work, point = borrow(trees), borrow(fixed), borrow(space), borrow(work), borrow(point)
    tried, rounding = 0, ROUNDING * abs(rule.value)
    for i in ids:
        share, step = fixed.share[i], point.step[i]
        if share == 0.0:
            continue
        score_cells(fixed, trees, space, i, point.w)
        for _ in range(MAX_TRIALS):
            tried += 1
            better = try_step(trees, space, point, i, step, rule.smooth)
            n = list_changes(fixed, trees, space, i, point)
            bend = share / fixed.lam * changed_length(fixed, space, work, i, n)
            gain = share * (better - 0.5 * bend)
            if gain >= 0.0:
                add_changes(fixed, space, i, n, -share / fixed.lam, point)
                for c in range(trees.cell_ptr[trees.clique_ptr[i]], trees.cell_ptr[trees.clique_ptr[i + 1]]):
                    point.logs[c], point.mu[c] = space.trial[c], space.fresh[c]
            if gain > rounding:
                step = min(step * rule.longer, rule.longest)
                break
            if gain >= -rounding:
                break
            step *= 0.5
        point.step[i] = step
    return tried


@njit(cache=True, nogil=True, borrowed=True)
def first_steps(
    fixed: Fixed, trees: JunctionTrees, space: MixtureSpace, work: Work, point: Mixtures, truth: F64, size: float
) -> None:
    """Write first steps: ``size`` times the inverse curvature of the dual towards each example's plane.

    Parameters
    ----------
    fixed, trees, space, work, point
        As for :func:`mixture_pass`; ``point.step`` is written.
    truth : ndarray of float64, shape (n_cells,)
        Marginals of the true labellings; read only.
    size : float
    """
    trees, fixed, space, work, point = borrow(trees), borrow(fixed), borrow(space), borrow(work), borrow(point)
    for i in range(len(point.step)):
        for c in range(trees.cell_ptr[trees.clique_ptr[i]], trees.cell_ptr[trees.clique_ptr[i + 1]]):
            space.fresh[c] = truth[c]
        n = list_changes(fixed, trees, space, i, point)
        bend = fixed.share[i] / fixed.lam * changed_length(fixed, space, work, i, n)
        point.step[i] = size / bend if bend > 0.0 else size
