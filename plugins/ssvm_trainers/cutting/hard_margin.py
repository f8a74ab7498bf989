"""Hard margins by cutting planes: ``C = inf`` of ``n-slack``.

    min_w  1/2 sum_j scale_j w_j^2     subject to    w . psi >= loss   for all labellings of all examples,   w >= lower

(Altun, Tsochantaridis and Hofmann 2003; Tsochantaridis et al. 2005, equation 4).  The oracle separates: it finds the
labellings whose margins are violated most, and the problem over those found so far is one of least distance,
``min |u|`` subject to ``G u >= h``.  By Lawson and Hanson (1974, chapter 23) it is solved by the non-negative least
squares

    min_{a >= 0}  | (G'; h') a - (0; 1) |         whose residual is  r = (r_1; -q),        u = r_1 / q ,

and whose residual of zero proves that there is no u: ``G' a = 0`` and ``h . a = 1``.  These a are the proof that no
weights separate the data (Farkas).  Where ``q > 0``, the multipliers a / q make the plane that bounds the optimum from
below.

The weights that are looked at are lengthened until all margins that are known hold, so that an objective above the
optimum is known as soon as the oracle finds no other; weights with a lower bound below 0 stay at it.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from scipy.linalg import qr
from scipy.optimize import nnls

from ssvm_dsl.errors import InseparableError
from ssvm_dsl.ir import F64, I32, members, pointers
from ssvm_dsl.plugin_api import Iterate, Planes, StopRule, TrainProblem
from ssvm_trainers.cutting.kept_planes import KeptPlanes
from ssvm_trainers.shared.resumable import Run
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, PART, StateRule

#: Margins are met with so much to spare, relative to them: rounding breaks none.
SPARE = 1e-10

#: A sum of planes is zero where it is below this share of the sum of their lengths.
CANCELLED = 1e-10


class HardMarginRun(Run):
    """The labellings found, their multipliers, and the weights."""

    kept: Annotated[KeptPlanes, PART]  #: their planes
    labels: Annotated[I32, StateRule(least=0, shape=("labels",), dtype="int32")]  #: the labellings, one after the other
    share: Annotated[F64, StateRule(least=0, shape=("weighted",))]  #: multiplier of each plane
    w: Annotated[F64, NUMBERS]  #: weights to look at
    length: Annotated[float, StateRule(least=0)]  #: of the last solution; it is the unit of the next
    passes: Annotated[float, COUNTS]

    def __init__(self, problem: TrainProblem, start: F64 | None) -> None:
        self.problem, self.kept = problem, KeptPlanes(problem)
        self.labels, self.share = np.zeros(0, np.int32), np.zeros(0)
        objective = problem.objective
        self.root = np.sqrt(objective.scale)
        self.w = objective.weights(np.zeros(problem.dim)) if start is None else start
        self.length, self.passes = 1.0, 0.0

    def iterate(self, stop: StopRule) -> Iterate:
        """Look for violated margins, and find the least weights that meet those known."""
        w = self.w.copy()
        primal, upper, planes = self.problem.evaluate(w)
        self.passes += 1.0
        v = self.kept.rows.T @ self.share
        b = float(self.share @ self.kept.loss)
        fresh = self.kept.add(planes)
        idle = self.problem.objective.weight[planes.examples[fresh]] == 0.0  # nothing is asked of these examples
        idle |= np.array([self._of_truth(planes, k) for k in fresh.tolist()], dtype=bool)  # zero but for rounding
        self.kept.drop(len(self.kept) - len(fresh) + np.flatnonzero(idle))
        self.labels = np.concatenate([self.labels, planes.labels[members(planes.ptr, fresh[~idle])]])
        self._solve()
        extra = {"planes": float(len(self.kept))}
        return Iterate(w, self.passes, primal, upper, self.problem.objective.dual(v, b), extra=extra, plane=(v, b))

    def _of_truth(self, planes: Planes, k: int) -> bool:
        """Whether a plane is the truth's."""
        if planes.marginals is not None:
            return bool(planes.loss[k] <= 0.0)
        first, last = self.problem.parameters.program.var_ptr[planes.examples[k] : planes.examples[k] + 2]
        labels = planes.labels[planes.ptr[k] : planes.ptr[k + 1]]
        return bool((labels == self.problem.loss.truth[first:last]).all())

    def _solve(self) -> None:
        """Set the multipliers, and the weights to look at.

        Raises
        ------
        InseparableError
            No weights meet the margins that are known.
        """
        objective, n = self.problem.objective, len(self.kept)
        bounded = np.flatnonzero(objective.lower > -np.inf)
        columns = np.union1d(self.kept.rows.indices, bounded)  # the other weights are 0
        limits = (columns == bounded[:, None]).astype(np.float64)
        known = np.concatenate([self.kept.rows[:, columns].toarray() / self.root[columns], limits])
        least = np.concatenate([self.kept.loss, objective.lower[bounded] * self.root[bounded]]) / self.length
        sizes = np.sqrt(np.square(known).sum(axis=1))
        alive = np.flatnonzero((sizes > 0.0) | (least > 0.0))
        self.problem.pause()
        matrix, right = np.concatenate([known[alive].T, least[None, alive]]), np.zeros(len(columns) + 1)
        right[-1] = 1.0
        if len(alive) < len(right):  # the same problem in the space of the columns
            basis, matrix = qr(matrix, mode="economic")
            right = basis.T @ right
        found = np.zeros(len(known))
        found[alive] = nnls(matrix, right, maxiter=100 * max(matrix.shape))[0]
        self.problem.pause()
        total, worth = found @ known, float(found @ least)
        if worth > 0.0 and np.abs(total).max(initial=0.0) <= CANCELLED * float(found @ sizes):
            raise self._inseparable(found[:n])
        rest = 1.0 - worth
        u = total * self.length / rest
        self.share = found[:n] * self.length / rest * objective.lam
        w = np.zeros(self.problem.dim)
        w[columns] = u / self.root[columns]
        w = np.maximum(w, objective.lower)
        self.length = max(float(np.linalg.norm(u)), 1e-300)
        margins = self.kept.rows @ w
        asked = np.flatnonzero(self.kept.loss > 0.0)
        if (margins[asked] > 0.0).all():
            longer = float((self.kept.loss[asked] / margins[asked]).max(initial=1.0))
            w = np.maximum(max(longer, 1.0) * (1.0 + SPARE) * w, objective.lower)
        self.w = w

    def _inseparable(self, share: F64) -> InseparableError:
        """Return the error that shows the labellings of the proof."""
        which = np.flatnonzero(share > CANCELLED * share.max(initial=0.0))
        parts, owner, loss = share[which] / share.sum(), self.kept.owner[which], self.kept.loss[which]
        ptr = pointers(np.diff(self.problem.parameters.program.var_ptr)[self.kept.owner])
        states = [tuple(self.labels[ptr[k] : ptr[k + 1]].tolist()) for k in which.tolist()]
        proof = tuple(zip(owner.tolist(), states, loss.tolist(), parts.tolist(), strict=True))
        free = (self.problem.objective.lower == -np.inf).all()
        sums_to = "0" if free else "0, or less where weights have a lower bound"
        text = "no weights give every truth its margin (C = inf): by the shares below, the features of truth less "
        text += f"labelling add up to {sums_to}, the losses to {float(parts @ loss):.3g}; use a finite C"
        return InseparableError(text, proof)
