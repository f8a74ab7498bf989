"""A session whose parts are answered by backends of their own; see :mod:`ssvm_dsl.inference.planning.components`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import BackendFault
from ssvm_dsl.inference.checked import CheckedSession
from ssvm_dsl.inference.planned import PlannedSession, StartingSession
from ssvm_dsl.inference.planning.components import SEPARABLE, ComponentGroup, component_groups
from ssvm_dsl.inference.planning.plans import Plan, joined_plan
from ssvm_dsl.inference.verification.checks import check_witness
from ssvm_dsl.inference.verification.verify import round_outwards, slack
from ssvm_dsl.ir.need import Guarantee, Limits, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, runs
from ssvm_dsl.ir.solution import NO_STATE, Marginals, Primal, Solution, Stop
from ssvm_dsl.registry import Registry


class ComponentSession(PlannedSession):
    """Solves every part with its backend and puts the answers together.

    There are no abilities beyond that: counts, messages and compiled calls do not come apart.

    Parameters
    ----------
    plan : Plan
        With one plan for each part of the program.
    program : Program
    plugins : Registry
    outwards : bool
        Whether bounds (of the whole) are rounded outwards.
    """

    def __init__(self, plan: Plan, program: Program, plugins: Registry, outwards: bool = False) -> None:
        self._plan, self.program, self._plugins, self._outwards = plan, program, plugins, outwards
        self.groups = component_groups(program)
        self.sessions = [
            CheckedSession(inner, group.program, plugins)
            for inner, group in zip(plan.components, self.groups, strict=True)
        ]
        self._states = [runs(program.state_ptr[p.variables], program.card[p.variables]) for p in self.groups]

    @property
    def plan(self) -> Plan:
        """The plans of the parts, as they are now: one whose backend refused has gone on with the next."""
        plans = [session.plan for session in self.sessions]
        return joined_plan(self._plan.need, plans, [part.program.n_examples for part in self.groups])

    @property
    def replaced(self) -> bool:  # type: ignore[override]
        """Whether a backend of a part has refused."""
        return any(session.replaced for session in self.sessions)

    @property
    def guarantee(self) -> Guarantee:
        """What an answer is worth: the weakest of the parts."""
        guarantees = {session.guarantee for session in self.sessions}
        return next(one for one in (Guarantee.HEURISTIC, Guarantee.BOUND, Guarantee.EXACT) if one in guarantees)

    @property
    def tasks(self) -> frozenset[Task]:
        """The questions that every part answers and that come apart."""
        return SEPARABLE.intersection(*(session.tasks for session in self.sessions))

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a separable question; see :class:`~ssvm_dsl.plugin_api.Session`."""
        theta, limits, clamp = question.theta, question.limits, question.clamp
        if limits.time is not None:
            with within(Deadline(limits.time)):
                return self.solve(question.replace(limits=replace(limits, time=None)), known)
        joined = _Joined(self.program, question)
        warm_of = question.warm if isinstance(question.warm, dict) else {}
        kept = {}
        session: PlannedSession
        for number, (part, session) in enumerate(zip(self.groups, self.sessions, strict=True)):
            components = self._components(part, joined.ids)
            if not len(components):
                continue
            asked = question.replace(
                theta=part.theta(theta, self._states[number]),
                examples=components,
                clamp=None if clamp is None else clamp[part.variables],
                warm=warm_of.get(number),
                limits=replace(limits, progress=joined.progress(limits, last=part is self.groups[-1])),
            )
            if joined.interrupted:  # by Ctrl-C: nobody waits for the parts to come, but their labellings
                session = StartingSession(session.plan.backend, part.program, self._plugins)
            solution = session.solve(asked)
            joined.add(part, components, solution)
            kept[number] = solution.warm
        solution = joined.solution(kept if any(one is not None for one in kept.values()) else None)
        if known is not None:
            atol = sum(session.backend.spec.caps.score_atol for session in self.sessions)
            check_witness(solution, known, question.task, slack(self.program, question, atol), self._fault)
        return round_outwards(self.program, question, solution) if self._outwards else solution

    def _fault(self, text: str) -> BackendFault:
        return BackendFault(self.plan.backend, text)

    @staticmethod
    def _components(part: ComponentGroup, ids: I64) -> I64:
        """Return the components of the selected examples, example by example."""
        first = np.searchsorted(part.example, ids, side="left")
        return runs(first, np.searchsorted(part.example, ids, side="right") - first)


class _Joined:
    """The answer on the whole, put together from parts."""

    def __init__(self, program: Program, question: Question) -> None:
        self.program, self.task, theta = program, question.task, question.theta
        self.ids = question.ids(program)
        ptr, n = question.label_ptr(program), len(self.ids)
        self.place = np.full(program.n_examples, -1, dtype=np.int64)
        self.place[self.ids] = np.arange(n)
        self.labels = np.zeros(int(ptr[-1]), dtype=np.int32)
        self.score, self.bound = theta.const[self.ids].copy(), theta.const[self.ids].copy()
        self.stop, self.primal = np.zeros(n, np.int8), np.full(n, Primal.FEASIBLE, np.int8)
        self.shift = np.zeros(program.n_examples, dtype=np.int64)
        self.shift[self.ids] = ptr[:-1] - program.var_ptr[self.ids]
        self.log_z, self.node, self.tables = None, np.zeros(0), tuple[F64, ...]()
        if self.task is Task.MARGINALS:
            self.log_z = theta.const[self.ids].copy()
            states = program.state_ptr[program.var_ptr]
            self.node = np.zeros(int((states[self.ids + 1] - states[self.ids]).sum()))
            groups = program.groups if question.tables else ()
            self.tables = tuple(np.zeros((g.shapes.count(self.ids), g.n_configs)) for g in groups)

    def progress(self, limits: Limits, last: bool) -> Any:
        """Return what the last part tells its progress to: the finished parts are added."""
        tell = limits.progress
        if tell is None or not last or len(self.ids) != 1:
            return None
        score, bound = float(self.score[0]), float(self.bound[0])
        return lambda more, above: tell(score + more, bound + above)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended a part."""
        return bool((self.stop == Stop.INTERRUPTED).any())

    def add(self, part: ComponentGroup, components: I64, solution: Solution) -> None:
        """Add the answer on some components of a part."""
        owner = self.place[part.example[components]]
        np.maximum.at(self.stop, owner, solution.stop)
        np.maximum.at(self.primal, owner, solution.primal)  # feasible < fractional < none < infeasible
        if self.task is Task.MARGINALS:
            if solution.marginals is not None:  # which an answer that was cut short need not have
                self._add_marginals(part, components, owner, solution.marginals, solution.log_partition)
            return
        variables = part.variables[members(part.program.var_ptr, components)]
        of_example = np.repeat(part.example[components], np.diff(part.program.var_ptr)[components])
        self.labels[variables + self.shift[of_example]] = solution.labels
        np.add.at(self.score, owner, solution.score)
        np.add.at(self.bound, owner, solution.bound)

    def _add_marginals(
        self, part: ComponentGroup, components: I64, owner: I64, marginals: Marginals, log_z: F64 | None
    ) -> None:
        assert log_z is not None
        assert self.log_z is not None
        np.add.at(self.log_z, owner, log_z)
        program, inner = self.program, part.program
        of_example = np.repeat(part.example[components], np.diff(inner.var_ptr)[components])
        variables = part.variables[members(inner.var_ptr, components)]
        starts = program.state_ptr[program.var_ptr]
        packed = np.zeros(program.n_examples, dtype=np.int64)
        lengths = starts[self.ids + 1] - starts[self.ids]
        packed[self.ids] = np.cumsum(lengths) - lengths
        first = program.state_ptr[variables] - starts[of_example] + packed[of_example]
        self.node[runs(first, program.card[variables])] = marginals.node
        for g, group in enumerate(program.groups[: len(self.tables)]):
            counts = group.shapes.counts[self.ids]
            shift = np.zeros(program.n_examples, dtype=np.int64)
            shift[self.ids] = np.cumsum(counts) - counts - group.ptr[self.ids]
            mine = members(inner.groups[g].ptr, components)
            owners_of = np.repeat(part.example[components], np.diff(inner.groups[g].ptr)[components])
            self.tables[g][part.factors[g][mine] + shift[owners_of]] = marginals.tables[g]

    def solution(self, warm: Any) -> Solution:
        """Return the answer on all components as one answer of the whole program."""
        primal, bound = self.primal, self.bound
        bound = np.where(primal == Primal.INFEASIBLE, -np.inf, bound)
        if self.task is Task.MARGINALS:
            assert self.log_z is not None
            nothing, none = np.zeros(0, np.int32), np.full(len(self.ids), np.nan)
            marginals = Marginals(self.node, self.tables)
            unknown = np.where(self.stop == Stop.FINISHED, self.log_z, np.nan)
            return Solution(nothing, none, none.copy(), self.stop, primal, marginals, unknown)
        score = np.where(primal == Primal.FEASIBLE, self.score, -np.inf)
        there = np.repeat(primal == Primal.FEASIBLE, np.diff(self.program.var_ptr)[self.ids])
        labels = np.where(there, self.labels, np.int32(NO_STATE))
        return Solution(labels, score, bound, self.stop, primal, warm=warm)
