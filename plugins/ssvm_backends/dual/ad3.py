"""``ad3``: alternating directions dual decomposition, exact on the LP relaxation.

The method is in :mod:`ssvm_backends.dual.admm.steps`.  Hard constraints of any kind join it by their linear rows
(:mod:`ssvm_backends.dual.admm.constrained_steps`), which makes the relaxation that of ``lp``.  Directed trees join it
as a whole (:mod:`ssvm_backends.dual.admm.trees`), which makes it tighter.  Labellings then come from the oracles of the
constraints (:mod:`ssvm_backends.dual.constrained`) and keep all of them.

Labels are the most probable states improved by local search; the task ``relaxed`` returns the fractional solution
itself, marked as fractional and without labels.

Measured in processor time, in turn: a bound within 0.2 % of the relaxation of a 50 x 50 grid of 5 states takes 0.41 s
(100 iterations); the package ad3 2.2.1, which has to be built by hand for Python 3.11, takes 0.98 s (150).
``make bench ARGS=loopy`` compares it with ours where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.dual.admm.program_trees import PROJECTIVE
from ssvm_backends.dual.driver import MessageTask, PassingRule, message_task
from ssvm_backends.dual.session import DualSession, ExampleRange, dual_bytes, sweep_cost
from ssvm_backends.graphs.graph import Instance
from ssvm_backends.graphs.session import GraphCall
from ssvm_dsl.ir import Need, Primal, Program, Question, Solution, Task
from ssvm_dsl.plugin_api import Verdict, score_marginals

if TYPE_CHECKING:
    from ssvm_backends.dual.constrained import ConstrainedSession

#: How many times as long it takes under constraints, and where some are trees (``make bench ARGS=beside``).
CONSTRAINED, WITH_TREES = 2.0, 5.0

#: Bytes for each message under constraints, of the iterations that are combined.
KEPT = 8.0 * 13


class AD3:
    """Alternating directions dual decomposition (Martins et al. 2015); see :mod:`ssvm_backends.dual.admm.steps`."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 200 iterations, of more under constraints."""
        iterations = CONSTRAINED if need.constraint_kinds else 1.0
        if need.constraint_kinds & PROJECTIVE.keys():
            iterations = WITH_TREES
        kept = KEPT * need.n_slots * need.max_card if need.constraint_kinds else 0.0
        return Verdict(True, 2000.0 * iterations * sweep_cost(need), n_bytes=dual_bytes(need) + kept)

    def open(self, program: Program, options: Mapping[str, Any]) -> AD3Session | ConstrainedSession:
        """Open the backend on a program; the session runs ADMM on the relaxation, also under hard constraints."""
        if not any(group.n_constraints for group in program.constraints):
            return AD3Session(program, options)
        from ssvm_backends.dual.constrained import ConstrainedSession

        return ConstrainedSession(program, options)


class AD3Session(DualSession):
    """Relaxations of one program's examples."""

    price = 8.0  # in the first iterations still more

    def solver(
        self, instance: Instance, part: ExampleRange, rule: PassingRule
    ) -> tuple[MessageTask, Callable[[float], bool]]:
        """Return a task, and the function that continues it."""
        from ssvm_backends.dual.admm.steps import AdmmSpace, PrimalSide, ad3

        graph, ids, until_met = instance.graph, part.ids, part.task is not Task.RELAXED
        states = graph.state_ptr[graph.var_ptr]
        sizes = [p[ids + 1] - p[ids] for p in (states, graph.factor_ptr)]
        part.state = PrimalSide.start(len(ids), int(sizes[0].sum()), int(sizes[1].sum()), len(part.messages))
        task = message_task(instance, ids, part.messages, part.progress, rule)
        space = AdmmSpace.start(part.state)
        return task, lambda budget: ad3(task, space, until_met, budget)

    def answer_share(self, part: ExampleRange) -> float:
        """Return the work of an answer: where the fractional solution is asked for, it is scored and packed."""
        from ssvm_backends.dual.admm.steps import FRACTIONAL_SHARE

        fractional = part.task is Task.RELAXED and part.progress.iterations[0] > 0
        return super().answer_share(part) + (FRACTIONAL_SHARE if fractional else 0.0)

    def solve(self, question: Question) -> Solution:
        """Answer ``map``, ``map_clamped`` or ``relaxed``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        call = self.searched(question)
        solution = call.solution()
        if question.task is Task.RELAXED:
            self._relax(solution, call)
        return solution

    def _relax(self, solution: Solution, call: GraphCall) -> None:
        """Replace the labels of a solution by the fractional solution of its relaxation."""
        from ssvm_backends.dual.admm.marginals import lift_split

        reduced, ids, parts = call.reduced, call.ids, call.state
        solution.marginals = lift_split(self.program, self.graph, ids, reduced, parts)
        reached = np.zeros(len(ids), dtype=bool)
        for part in parts:
            reached[part.lo : part.hi] = reduced.feasible[part.lo : part.hi] & (part.progress.iterations > 0)
        solution.labels = np.zeros(0, np.int32)
        solution.score = np.full(len(ids), -np.inf)
        if reached.any():
            theta = call.question.theta
            solution.score[reached] = score_marginals(self.program, theta, solution.marginals, ids)[reached]
        solution.primal[reached] = Primal.FRACTIONAL
        solution.primal[~reached & reduced.feasible] = Primal.NONE
