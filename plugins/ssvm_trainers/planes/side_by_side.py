"""Visits of groups of examples at the same time: ``bcfw`` with ``parallel=``, the same bits for any number of threads.

Each group is visited one example after the other from the same weights, in a copy of them, as it would be alone.
Groups meet the same mistakes, and their moves together go too far; so from P = 3 on each visits its examples as if the
dual were s = P / 2 times as curved, and its copy moves s times as far as counts (sigma' of CoCoA+, Ma et al. 2015; at
s = P moves always add up, at s = P / 2 nearly always, and a group goes further).  The moves are then joined.  With
shares t_p of the moves of groups p the dual rises by

    sum_p t_p a_p - 1/2 sum_pq t_p t_q C_pq ,     C_pq = lam d_p . S d_q ,  a_p = gain_p + s/2 C_pp ,

where d_p is the move of the weights, S the relative regularisation, gain_p what its visits gain where the dual is s
times as curved: a parabola, whose top in [0, 1]^P is found by searches along one t_p after the other.  Mostly it is at
1.  Else dual weights are mixed with those before.  With lower bounds on weights or an L1 penalty the dual is no
parabola, and the searches are those of :mod:`ssvm_trainers.planes.combination`.

Groups, and how far each goes, depend on the problem and on ``parallel`` alone.
"""

from __future__ import annotations

from operator import mul
from typing import Any

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.plugin_api import TrainProblem
from ssvm_trainers.planes.cache import LAST_ITERATION, DualPoint, Visits
from ssvm_trainers.planes.combination import combine
from ssvm_trainers.planes.store import DualState
from ssvm_trainers.shared.arrays import NO_FLOATS, Work, work_space
from ssvm_trainers.shared.lower_bound import is_plain
from ssvm_trainers.shared.oracle_call import OracleInputs

#: Fewer examples than this for each group are visited one after the other.
LEAST_EXAMPLES = 4

#: How much of the curvature of all groups' moves together a group takes for its own, so that they add up.
CAUTION = 0.5

#: Sweeps over the groups in the search for their shares.
SWEEPS = 50

#: They end when no share moves by more.
SETTLED = 1e-9


class SideBySide:
    """Groups of examples, with work space for each.

    Parameters
    ----------
    problem : TrainProblem
    inputs : OracleInputs
        The input of the oracle; all groups but the first have their own copies of the arrays that it writes.
    n_groups : int
    """

    def __init__(self, problem: TrainProblem, inputs: OracleInputs, n_groups: int) -> None:
        self.problem, self.n_groups = problem, n_groups
        self.inputs = [inputs, *(_own(inputs) for _ in range(n_groups - 1))]
        self.w = self.free = np.zeros((n_groups, problem.dim))
        if not is_plain(problem.objective):
            self.free = np.zeros((n_groups, problem.dim))
        self.work: list[Work] = []
        self.caution = max(CAUTION * n_groups, 1.0)
        self.strength = problem.objective.lam * problem.objective.scale

    def suits(self, examples: I64) -> bool:
        """Return whether there are enough examples to share among the groups."""
        return len(examples) >= LEAST_EXAMPLES * self.n_groups

    def visit(self, planes: DualState, visits: Visits, oracle: Any) -> tuple[float, float]:
        """Visit distinct examples in groups, no plane being dropped meanwhile; return (gain, largest error of scores).

        ``planes`` is changed: dual weights, weights, and the count of operations.
        """
        if not self.work or len(self.work[0].delta) != len(planes.work.delta):
            self.work = [work_space(self.problem, planes.capacity) for _ in range(self.n_groups)]
        n, some = self.n_groups, visits.examples
        groups = [some[len(some) * p // n : len(some) * (p + 1) // n] for p in range(n)]
        alpha, loss, fixed = planes.cache.alpha, planes.cache.loss, planes.fixed
        before: list[F64] = [NO_FLOATS] * n
        planes.fixed = fixed._replace(lam=fixed.lam / self.caution)

        def visit_group(p: int) -> tuple[float, float]:
            before[p] = alpha.take(groups[p], axis=0)
            self.w[p], self.free[p] = planes.w, planes.free
            point = DualPoint(self.w[p], self.free[p], planes.gap, planes.gain)
            mine = visits._replace(examples=groups[p], keep=LAST_ITERATION)
            gains = planes.visit(mine, oracle, self.inputs[p], point, self.work[p])
            self.free[p] -= planes.free
            return gains

        try:
            gains = self.problem.side_by_side(visit_group, range(n))
        finally:
            planes.fixed = fixed
        for work in self.work:
            planes.work.counter[0] += work.counter[0]
            work.counter[0] = 0
        if self.free is self.w:
            share, gain = self._join(planes, np.array([gain for gain, _ in gains]))
        else:
            rises = np.zeros(n)
            for p, group in enumerate(groups):
                rises[p] = fixed.share[group] @ ((alpha[group] - before[p]) * loss[group]).sum(axis=1)
            share, gain = self._join_bounded(planes, rises)
        for group, old, far in zip(groups, before, share, strict=True):
            if far < 1.0:
                alpha[group] = (1.0 - far) * old + far * alpha.take(group, axis=0)
        return gain, float(np.max([off for _, off in gains]))

    def _join(self, planes: DualState, gains: F64) -> tuple[list[float], float]:
        """Move the weights as far as the parabola rises; return (how far each group goes, gain)."""
        moves = self.free if self.caution == 1.0 else self.free / self.caution
        curve = (self.strength * moves) @ moves.T
        slope = gains + 0.5 * self.caution * curve.diagonal()
        share = best_shares(slope, curve)
        planes.w += share @ moves
        return share.tolist(), float(share @ (slope - 0.5 * (curve @ share)))

    def _join_bounded(self, planes: DualState, rises: F64) -> tuple[list[float], float]:
        """Do the same where weights are bounded; ``rises`` are the changes of the plane's offset by each group."""
        objective = self.problem.objective
        strength = objective.lam * objective.scale
        v = strength * planes.free
        moves = np.zeros((self.n_groups + 1, 2, len(v) + 1))  # the last row is the state before
        moves[:-1, 1, :-1], moves[:-1, 1, -1] = strength / self.caution * self.free, rises
        moves[-1, :, :-1] = v
        weight = np.tile([1.0, 0.0], (self.n_groups + 1, 1))
        combine(objective, moves, weight)
        share = weight[:-1, 1]
        after = v + share @ moves[:-1, 1, :-1]
        gain = objective.dual(after, float(share @ rises)) - objective.dual(v, 0.0)
        planes.w[:], planes.free[:] = objective.weights(after), after / strength
        return share.tolist(), gain


def best_shares(slope: F64, curve: F64) -> F64:
    """Return the t in ``[0, 1]^P`` that maximises ``slope . t - 1/2 t . curve t``, by ascent along one t at a time.

    Parameters
    ----------
    slope : ndarray of float64, shape (P,)
    curve : ndarray of float64, shape (P, P)
    """
    if (slope >= curve.sum(axis=1)).all():
        return np.ones(len(slope))
    rows, rise = curve.tolist(), slope.tolist()  # numbers of Python: an array of two or four costs more than its sum
    share = [0.0] * len(rise)
    for _ in range(SWEEPS):
        moved = 0.0
        for p, row in enumerate(rows):
            if row[p] > 0.0:
                step = (rise[p] - sum(map(mul, row, share))) / row[p]
                now = min(max(share[p] + step, 0.0), 1.0)
                moved, share[p] = max(moved, abs(now - share[p])), now
        if moved <= SETTLED:
            break
    return np.array(share)


def _own(inputs: OracleInputs) -> OracleInputs:
    """Return inputs with copies of the arrays that visits write, except the scores of states."""
    scores = inputs.scores._replace(pool=inputs.scores.pool.copy(), work=inputs.scores.work.copy())
    return inputs._replace(work=inputs.work.copy(), scores=scores)
