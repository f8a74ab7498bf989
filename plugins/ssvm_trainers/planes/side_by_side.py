"""Visits of groups of examples at the same time: ``bcfw`` with ``parallel=``, the same bits for any number of threads.

Each group is visited one example after the other from the same weights, in a copy of them, as it would be alone; the
moves of all groups are then joined.  With shares t_p of the moves of groups p the dual rises by

    sum_p t_p a_p - 1/2 sum_pq t_p t_q C_pq ,     C_pq = lam d_p . S d_q ,  a_p = gain_p + 1/2 C_pp ,

where d_p is the move of the weights, S the relative regularisation, gain_p the gain of p alone: a parabola, whose
top in [0, 1]^P is found by searches along one t_p after the other.  Mostly it is at 1.  Else dual weights are mixed
with those before.  With lower bounds on weights or an L1 penalty the dual is no parabola, and the searches are those
of :mod:`ssvm_trainers.planes.combination`.

Groups, and how far each goes, depend on the problem and on ``parallel`` alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.plugin_api import TrainProblem
from ssvm_trainers.planes.combination import combine
from ssvm_trainers.planes.state import DualState
from ssvm_trainers.shared.arrays import Work
from ssvm_trainers.shared.lower_bound import is_plain
from ssvm_trainers.shared.oracle_call import OracleInputs
from ssvm_trainers.shared.spaces import work_space

#: Fewer examples than this for each group are visited one after the other.
LEAST_EXAMPLES = 4

#: Sweeps over the groups in the search for their shares.
SWEEPS = 50

#: Visits some examples from given weights (and free ones), which move; returns (gain, largest error of scores).
Visit = Callable[[I64, OracleInputs, Work, F64, F64], tuple[float, float]]


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

    def suits(self, examples: I64) -> bool:
        """Return whether there are enough examples to share among the groups."""
        return len(examples) >= LEAST_EXAMPLES * self.n_groups

    def visit(self, planes: DualState, examples: I64, visit: Visit) -> tuple[float, float]:
        """Visit distinct examples in groups, no plane being dropped meanwhile; return (gain, largest error of scores).

        ``planes`` is changed: dual weights, weights, and the count of operations.
        """
        if not self.work or len(self.work[0].delta) != len(planes.work.delta):
            self.work = [work_space(self.problem, planes.capacity) for _ in range(self.n_groups)]
        groups = np.array_split(examples, self.n_groups)
        before = [planes.cache.alpha[group] for group in groups]

        def one(p: int) -> tuple[float, float]:
            self.w[p], self.free[p] = planes.w, planes.free
            return visit(groups[p], self.inputs[p], self.work[p], self.w[p], self.free[p])

        found = np.array(self.problem.side_by_side(one, range(self.n_groups)))
        for work in self.work:
            planes.work.counter[0] += work.counter[0]
            work.counter[0] = 0
        alpha, loss = planes.cache.alpha, planes.cache.loss
        if self.free is self.w:
            share, gain = self._join(planes, found[:, 0])
        else:
            rises = np.zeros(self.n_groups)
            for p, group in enumerate(groups):
                rises[p] = planes.fixed.share[group] @ ((alpha[group] - before[p]) * loss[group]).sum(axis=1)
            share, gain = self._join_bounded(planes, rises)
        for p in np.flatnonzero(share < 1.0).tolist():
            alpha[groups[p]] = (1.0 - share[p]) * before[p] + share[p] * alpha[groups[p]]
        return gain, float(np.max(found[:, 1]))

    def _join(self, planes: DualState, gains: F64) -> tuple[F64, float]:
        """Move the weights as far as the parabola rises; return (how far each group goes, gain)."""
        objective = self.problem.objective
        self.w -= planes.w
        curve = (objective.lam * objective.scale * self.w) @ self.w.T
        slope = gains + 0.5 * np.diag(curve)
        share = best_shares(slope, curve)
        planes.w += share @ self.w
        return share, float(share @ slope - 0.5 * share @ curve @ share)

    def _join_bounded(self, planes: DualState, rises: F64) -> tuple[F64, float]:
        """Do the same where weights are bounded; ``rises`` are the changes of the plane's offset by each group."""
        objective = self.problem.objective
        strength = objective.lam * objective.scale
        v = strength * planes.free
        moves = np.zeros((self.n_groups + 1, 2, len(v) + 1))  # the last row is the state before
        moves[:-1, 1, :-1], moves[:-1, 1, -1] = strength * (self.free - planes.free), rises
        moves[-1, :, :-1] = v
        weight = np.tile([1.0, 0.0], (self.n_groups + 1, 1))
        combine(objective, moves, weight)
        share = weight[:-1, 1]
        after = v + share @ moves[:-1, 1, :-1]
        gain = objective.dual(after, float(share @ rises)) - objective.dual(v, 0.0)
        planes.w[:], planes.free[:] = objective.weights(after), after / strength
        return share, gain


def best_shares(slope: F64, curve: F64) -> F64:
    """Return the t in ``[0, 1]^P`` that maximises ``slope . t - 1/2 t . curve t``, by ascent along one t at a time.

    Parameters
    ----------
    slope : ndarray of float64, shape (P,)
    curve : ndarray of float64, shape (P, P)
    """
    share = np.ones(len(slope))
    if (slope >= curve.sum(axis=1)).all():
        return share
    share[:] = 0.0
    for _ in range(SWEEPS):
        for p in range(len(slope)):
            if curve[p, p] > 0.0:
                share[p] = np.clip(share[p] + (slope[p] - curve[p] @ share) / curve[p, p], 0.0, 1.0)
    return share


def _own(inputs: OracleInputs) -> OracleInputs:
    """Return inputs with copies of the arrays that visits write, except the scores of states."""
    scores = inputs.scores._replace(pool=inputs.scores.pool.copy(), work=inputs.scores.work.copy())
    return inputs._replace(work=inputs.work.copy(), scores=scores)
