"""``lp``: the best score over the local polytope, by GLOP, PDLP or HiGHS.

Answers claim only results that a relaxation proves.  The bound is not the solver's objective but the value its duals
prove (:mod:`ssvm_backends.programs.local_polytope`).  Where the solution is whole it is a labelling and, if the bound
meets its score, an optimal one.  Where it is fractional a labelling is made of it, by the rule that the option
``rounding`` names (:mod:`ssvm_backends.programs.rounding`); it comes with its own score and the bound of the
relaxation.  With ``rounding="none"``, and where no rule finds a labelling that nothing forbids, the answer is
``Primal.FRACTIONAL``: marginals without labels.  The task ``relaxed`` asks for the fractional solution itself, which
is never rounded.

Scores go to the solver as losses against the best of their block, divided by the largest loss: neither huge nor tiny
scores meet its absolute tolerances unprepared.  Fractional solutions are feasible up to these tolerances; what leaves
this module has been clipped at zero and normalised block by block.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_backends.programs.local_polytope import Priced
from ssvm_backends.programs.lp_solvers import Highs, LPOutcome, Solver
from ssvm_backends.programs.math_opt import import_math_opt, math_opt
from ssvm_backends.programs.rounding import rounded
from ssvm_backends.programs.rounds import Rounds, proposed
from ssvm_backends.programs.session import COLUMN_BYTES, PolytopeSession, ProgramAnswer, columns_of, pack_marginals
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import F64, I32, I64, Need, Primal, Program, Question, Solution, Stop, Task, Topology
from ssvm_dsl.plugin_api import Clock, Verdict, loading

#: How far from 0 and 1 numbers may be to count as whole.
WHOLE_ATOL = 1e-6

#: Rows of constraints that are added in rounds are violated by at least this.
VIOLATED = 1e-5

#: Columns from which on ``auto`` takes PDLP (a simplex basis then costs more than many gradient steps).
MANY_COLUMNS = 100_000

#: What becomes of fractional solutions, by the option ``rounding``.
ROUNDED = {
    "none": "fractional solutions are no answers (rounding='none')",
    "argmax": "fractional solutions are rounded: each variable takes its most likely state (rounding='argmax')",
    "by-class": "fractional solutions are rounded: class after class by one threshold (rounding='by-class')",
    "threshold": "fractional solutions are rounded: the best of many thresholds (rounding='threshold')",
    "conditional": "fractional solutions are rounded: one variable after the other takes the state of the highest "
    "expected score (rounding='conditional')",
}

#: Joint states of the largest factor that is turned into columns.
MAX_TABLE = 1 << 20


class LP:
    """Linear programming over the local polytope, by GLOP, PDLP or HiGHS.

    Maximise ``theta . mu`` subject to ``A mu = b`` and ``mu >= 0``; its value bounds the score of every labelling.
    """

    def check(self, need: Need) -> Verdict:
        """Accept everything but factors with too large tables; tell what becomes of fractional solutions."""
        if need.max_table > MAX_TABLE:
            return Verdict(False, reasons=(f"a factor has {need.max_table} joint states; it handles {MAX_TABLE}",))
        asks_labels = need.topology is Topology.LOOPY or bool(need.constraint_kinds)
        asks_labels = asks_labels and need.tasks != {Task.RELAXED}
        notes = (ROUNDED[need.options.get("rounding", "conditional")],) if asks_labels else ()
        columns = columns_of(need)
        return Verdict(True, need.n_examples * (2e6 + 150 * columns**1.5), notes, COLUMN_BYTES * columns)

    def open(self, program: Program, options: Mapping[str, Any]) -> LPSession:
        """Open the backend on a program; the session solves the linear relaxation of each example."""
        if options["solver"] == "highs":
            with loading():
                importlib.import_module("scipy.optimize")
        else:
            import_math_opt(options["solver"])
        return LPSession(program, options)


class LPSession(PolytopeSession):
    """Linear programs of one program's examples."""

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program, options, redundant=False)
        self._solvers: dict[str, Solver] = {}
        wanted = ("glop", "pdlp") if options["solver"] == "auto" else (options["solver"],)
        for name in wanted:
            self._solvers[name] = Highs() if name == "highs" else math_opt(name)

    def answer(self, priced: Priced, clock: Clock, warm: Any, task: Task) -> ProgramAnswer:
        """Solve the relaxation of one example, in rounds where it has constraints whose rows are too many to list."""
        if not priced.polytope.side.separable:
            outcome, mu, bound = self._relaxed(priced, clock, warm)
            if outcome.infeasible:
                return ProgramAnswer(bound=-np.inf)
            return self._labelled(priced, outcome, mu, bound, task)
        rounds, bound = Rounds(priced, clock), priced.bound()
        mu, iterations, seconds = None, 0, 0.0
        while True:
            try:
                outcome, point, proved = self._relaxed(rounds.now, clock, None)
            except OutOfTime:
                outcome, point, proved = LPOutcome(stop=Stop.TIME), None, bound
            if outcome.infeasible:
                return ProgramAnswer(bound=-np.inf)
            bound = min(bound, proved)
            iterations, seconds = iterations + outcome.iterations, seconds + outcome.seconds
            mu = mu if point is None else point
            if point is None or outcome.stop is not Stop.FINISHED:
                break
            if not rounds.add_violated(point[: priced.polytope.state_ptr[-1]], VIOLATED):
                break
            if clock.over:
                outcome = replace(outcome, stop=Stop.TIME)
                break
        outcome = replace(outcome, iterations=iterations, seconds=seconds, warm=None)
        return self._labelled(priced, outcome, mu, bound, task)

    def _relaxed(self, priced: Priced, clock: Clock, warm: Any) -> tuple[LPOutcome, F64 | None, float]:
        """Return a solver's outcome, its solution as probabilities, and the bound that its duals prove."""
        losses = priced.losses()
        closed = losses == np.inf
        largest = float(np.max(losses, where=~closed, initial=0.0)) or 1.0
        score = np.where(closed, 0.0, -losses / largest)
        outcome = self._solver(priced)(priced.polytope, score, closed, clock, warm)
        if outcome.stop is Stop.TIME and clock.limits.iterations is not None and not clock.over:
            outcome = replace(outcome, stop=Stop.ITERATIONS)  # GLOP does not say which of the limits it was
        bound = priced.bound(None if outcome.duals is None else outcome.duals * largest)
        mu = None if outcome.mu is None else normalised(outcome.mu, closed, priced.polytope.block_ptr)
        return outcome, mu, bound

    def _proposals(self, priced: Priced, mu: F64, labels: I32) -> Iterator[tuple[float, I32]]:
        """Yield labels, and what kinds of constraints start from for them: by scores and by the fractional solution."""
        n_states = int(priced.polytope.state_ptr[-1])
        yield priced.score_of(labels), labels
        score = priced.score[:n_states]
        for states in (score, np.where(score > -np.inf, mu[:n_states], -np.inf)):
            proposal = proposed(priced, labels, states)
            yield priced.score_of(proposal), proposal

    def _solver(self, priced: Priced) -> Solver:
        if len(self._solvers) == 1:
            return next(iter(self._solvers.values()))
        return self._solvers["pdlp" if priced.polytope.n_columns >= MANY_COLUMNS else "glop"]

    def packed(self, question: Question, answers: list[ProgramAnswer]) -> Solution:
        """Return the solution; the task ``relaxed`` has no labels, and the scores are those of the marginals."""
        solution = super().packed(question, answers)
        solution.marginals = pack_marginals(self.program, question.ids(self.program), [one.mu for one in answers])
        if question.task is Task.RELAXED:
            solution.labels = np.zeros(0, np.int32)
        else:
            solution.score[solution.primal != Primal.FEASIBLE] = -np.inf
        return solution

    def _labelled(self, priced: Priced, outcome: LPOutcome, mu: F64 | None, bound: float, task: Task) -> ProgramAnswer:
        stats = {"lp_iterations": outcome.iterations, "solver_seconds": outcome.seconds}
        if mu is None:
            return ProgramAnswer(bound=bound, stop=outcome.stop, warm=outcome.warm, stats=stats)
        rule, likely = self.options["rounding"], priced.polytope.labels_of(mu)
        rule = "none" if task is Task.RELAXED else rule
        labels: I32 | None = likely
        if mu[priced.polytope.chosen(likely)].min() < 1.0 - WHOLE_ATOL:
            labels = None if rule == "none" else rounded(priced, mu, rule)
        score = -np.inf if labels is None else priced.score_of(labels)
        if rule != "none" and priced.polytope.side.separable:
            proposals = self._proposals(priced, mu, likely if labels is None else labels)
            score, labels = max(proposals, key=lambda one: one[0])
        if score == -np.inf:
            return ProgramAnswer(None, priced.value(mu), bound, outcome.stop, outcome.warm, stats, mu)
        return ProgramAnswer(labels, score, max(bound, score), outcome.stop, outcome.warm, stats, mu)


def normalised(mu: F64, closed: Any, block_ptr: I64) -> F64 | None:
    """Return a solver's solution as probabilities: not negative, zero where closed, summing to one in each block."""
    clean = np.where(closed, 0.0, np.maximum(mu, 0.0))
    total = np.add.reduceat(clean, block_ptr[:-1])
    if not (total > 0.5).all():
        return None
    return clean / np.repeat(total, np.diff(block_ptr))
