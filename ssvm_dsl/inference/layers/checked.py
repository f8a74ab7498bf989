"""A session of one backend whose answers are verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from threading import RLock
from time import perf_counter
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import BackendFault, OutOfTime, TooLargeError
from ssvm_dsl.inference.blas_threads import one_blas_thread
from ssvm_dsl.inference.bridging.bridge_chains import bridge_chain_through
from ssvm_dsl.inference.bridging.choices import ABILITIES, TASKS
from ssvm_dsl.inference.layers.bridged import BridgedSession
from ssvm_dsl.inference.layers.chunked import open_session
from ssvm_dsl.inference.layers.foreign import ForeignSession, read_only
from ssvm_dsl.inference.planning.candidates import consider
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules.constraint_rules import with_rules
from ssvm_dsl.inference.starting.fill_in import LABELLED, unanswered
from ssvm_dsl.inference.verification.spot_checks import check_messages, check_oracle
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Ability, Guarantee, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Marginals, Solution
from ssvm_dsl.pausing import within
from ssvm_dsl.plugin_api.example_session import Clock
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.hosting.surroundings import kept_surroundings
from ssvm_dsl.plugin_api.kinds.compiled import CompiledMessages, CompiledOracle
from ssvm_dsl.plugin_api.protocols import missing_methods
from ssvm_dsl.plugin_api.specs import BackendSpec, BridgeSpec
from ssvm_dsl.registry import Registry


class CheckedSession:
    """A session whose answers are verified; opened by :func:`~ssvm_dsl.inference.session.open_plan`.

    Where ``auto`` chose the backend and it cannot be opened, or refuses for its memory when asked for labellings (also
    by counts), the next one in the plan's order answers, and ``plan`` says so.

    Parameters
    ----------
    plan : Plan
    program : Program
    plugins : Registry
    outwards : bool
        Whether bounds are rounded outwards.
    """

    def __init__(self, plan: Plan, program: Program, plugins: Registry, outwards: bool = False) -> None:
        self._given, self.program, self._plugins = program, with_rules(program, plugins), plugins
        self._outwards, self._moving = outwards, RLock()
        self._open(plan)

    def _open(self, plan: Plan) -> None:
        """Open the backend of a plan, or the next one that can be opened."""
        try:
            self._open_only(plan)
        except OutOfTime:
            raise
        except Exception as err:
            following = plan.following(err, self._plugins)
            if following is None:
                raise
            self._open(following)

    def _open_only(self, plan: Plan) -> None:
        """Open the backend of a plan."""
        program, plugins = self.program, self._plugins
        spec = plugins.find(BackendSpec, plan.backend)
        owner = plugins.owner(spec)
        way, asked = None, program
        if plan.bridges:
            way = bridge_chain_through(self._given, plan.bridges, plugins)
            asked = with_rules(way.program, plugins)
        owners = [owner, *(plugins.owner(plugins.find(BridgeSpec, name)) for name in plan.bridges)]
        origin = ", ".join(str(one) for one in dict.fromkeys(owners) if not one.bundled)
        self._foreign = not owner.bundled
        self._fault = partial(BackendFault, plan.title, origin=origin)
        self._contained = contained(plugins.describe_owner(spec), self._fault)
        self._call_lock = nullcontext() if spec.caps.thread_safe else plugins.call_lock(spec)
        with self._contained, self._call_lock, one_blas_thread():
            if owner.bundled:
                self._session: Any = open_session(plugins.load(spec)(), asked, plan.options)
            else:
                make, told = plugins.load(spec), set[str]()
                with kept_surroundings(plugins.describe_owner(spec), told, thorough=True):
                    opened = make().open(read_only(asked), dict(plan.options))
                if lacking := missing_methods(opened, spec.caps):
                    raise self._fault(lacking)
                self._session = ForeignSession(opened, asked, self._fault, plugins.describe_owner(spec), told)
        if way is not None:
            self._session = BridgedSession(self._session, way.lowerings)
        rounded = "none" not in plan.options.values()
        self._verify = Verifier(program, plan.title, spec.caps, foreign=origin, completes=rounded)
        self._tasks, self._abilities = spec.caps.tasks, spec.caps.abilities
        if asked.constraints:
            self._tasks, self._abilities = _answered(asked, spec, plan.options)
        if way is not None:
            self._tasks, self._abilities = self._tasks & TASKS, self._abilities & ABILITIES
        self.plan, self.spec = plan, spec

    def _move_on(self, refused: Plan, err: Exception, task: Task) -> bool:
        """Open the next backend for a task after one refused, unless that is done; return whether there is one."""
        with self._moving:
            if self.plan is not refused:
                return task in self.tasks
            following = refused.following(err, self._plugins, task)
            if following is not None:
                self._open(following)
            return following is not None

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question (see :class:`~ssvm_dsl.plugin_api.Session`) and verify the answer.

        Where time is up before the backend has a labelling, the answer is the one that every search begins with
        (:mod:`ssvm_dsl.inference.starting`).

        Raises
        ------
        BackendFault
            The backend crashed, or its answer breaks the contract.
        TooLargeError
            It needs more memory than it is allowed, and no other fits.
        """
        plan, begin = self.plan, perf_counter()
        try:
            solution = self._ask(question, begin)
        except OutOfTime:
            if question.task not in LABELLED:
                raise
            solution = unanswered(self.program, question)
        except (TooLargeError, MemoryError) as err:
            if not self._move_on(plan, err, question.task):
                raise
            return self.solve(_left(question.replace(warm=None), begin), known)
        solution = self._verify(question, solution, known)
        return round_outwards(self.program, question, solution) if self._outwards else solution

    def _ask(self, question: Question, begin: float) -> Any:
        """Return what the backend answers; waiting for its turn, since ``begin``, counts against the time limit."""
        with self._contained, self._call_lock, one_blas_thread():
            asked = question if self.spec.caps.thread_safe else _left(question, begin)
            if asked.limits.time is None:
                return self._session.solve(asked)
            with within(Clock.start(asked.limits)):
                return self._session.solve(asked)

    @property
    def guarantee(self) -> Guarantee:
        """What an answer is worth."""
        return self.spec.caps.guarantee

    @property
    def tasks(self) -> frozenset[Task]:
        """The questions the backend answers; under constraints, those it does not refuse for them."""
        return self._tasks

    @property
    def abilities(self) -> frozenset[Ability]:
        """What the backend announces, as far as it may be used; under constraints, what it does not refuse for them.

        Calls from within kernels of trainers cannot wait for their turn, so that a backend that is not thread safe is
        not called from there.
        """
        return self._abilities if self.spec.caps.thread_safe else self._abilities - {Ability.COMPILED}

    def best_by_count(self, question: Question, tables: CountTables, known: F64 | None = None) -> Solution:
        """Answer by counts (see :class:`~ssvm_dsl.plugin_api.CountingSession`) and verify the answer.

        Raises
        ------
        BackendFault
            The backend crashed, or its answer breaks the contract.
        TooLargeError
            It needs more memory than it is allowed, and no other fits.
        """
        plan, begin = self.plan, perf_counter()
        try:
            with self._contained, self._call_lock, one_blas_thread():
                solution: Solution = self._session.best_by_count(question, tables)
        except (TooLargeError, MemoryError) as err:
            if not self._move_on(plan, err, question.task):
                raise
            return self.best_by_count(_left(question.replace(warm=None), begin), tables, known)
        return self._verify.counted(question, solution, tables, known)

    def compiled(self) -> CompiledOracle | None:
        """Return the session's compiled oracle, where it has one (see :class:`~ssvm_dsl.plugin_api.CompiledOracle`)."""
        if Ability.COMPILED not in self.abilities:
            return None
        with self._contained:
            oracle: CompiledOracle | None = self._session.compiled()
            if oracle is not None and self._foreign and self.program.n_examples:
                check_oracle(oracle, self.program, self.solve, self._verify)
        return oracle

    def compiled_messages(self) -> CompiledMessages | None:
        """Return the session's compiled message passing (see :class:`~ssvm_dsl.plugin_api.CompiledMessages`).

        ``None`` where it offers none, takes one call at a time, or masks rule states out.
        """
        usable = Ability.MESSAGES in self.abilities and self.program.allowed is None and self.spec.caps.thread_safe
        if not usable:
            return None
        with self._contained:
            offer: CompiledMessages | None = self._session.compiled_messages()
            if offer is not None and self._foreign and self.program.n_examples:
                check_messages(offer, self.program, self.solve, self._fault)
        return offer

    def slope(self, question: Question) -> Marginals | None:
        """Return where the dual bound is attained (see :class:`~ssvm_dsl.plugin_api.MessageSession`), where known."""
        if Ability.MESSAGES not in self.abilities:
            return None
        with self._contained, self._call_lock, one_blas_thread():
            found: Marginals | None = self._session.slope(question)
            return found

    def expect(
        self, question: Question, coef: F64, node: F64, tables: Sequence[F64], known: F64 | None = None
    ) -> F64 | None:
        """Let the session add weighted marginals (see :class:`~ssvm_dsl.plugin_api.SumSession`), where it can.

        ``known`` are scores that labellings are known to have: no log partition is below.
        """
        if Ability.SUMMED_MARGINALS not in self.abilities:
            return None
        with self._contained, self._call_lock, one_blas_thread():
            log_z: F64 | None = self._session.expect(question, coef, node, tables)
        if log_z is not None and (log_z.shape != coef.shape or np.isnan(log_z).any() or (log_z == np.inf).any()):
            raise self._fault(f"expect returned log partitions of shape {log_z.shape}, nan or inf")
        if log_z is not None and known is not None:
            self._verify.log_partitions(question, log_z, known)
        return log_z


def _left(question: Question, begin: float) -> Question:
    """Return a question with the time that is left of its limit, which began to run at ``begin``."""
    limits = question.limits
    if limits.time is None:
        return question
    return question.replace(limits=replace(limits, time=max(0.0, limits.time - (perf_counter() - begin))))


def _answered(
    program: Program, spec: BackendSpec, options: Mapping[str, Any]
) -> tuple[frozenset[Task], frozenset[Ability]]:
    """Return the tasks that a backend answers for a program with constraints, and the abilities that it has."""
    need, given = Need.of(program, guarantee=Guarantee.HEURISTIC), dict(options)
    tasks = frozenset(task for task in spec.caps.tasks if consider(need.asking(task), spec, given)[0].ok)
    able = [
        one
        for one in spec.caps.constrained_abilities
        if consider(replace(need, abilities=frozenset({one})), spec, given)[0].ok
    ]
    return tasks, frozenset(able)


def round_outwards(program: Program, question: Question, solution: Solution) -> Solution:
    """Return the solution with bounds that rounding cannot have left below the best score.

    They then hold for exact arithmetic on the scores given (:mod:`ssvm_dsl.ir.analysis.tolerance`).
    """
    task = question.task
    if task is not Task.MARGINALS:
        score = solution.best if task is not Task.RELAXED else np.full_like(solution.bound, -np.inf)
        solution.terms = Terms.of(program, question.theta, question.examples)
        solution.bound = solution.terms.outwards(solution.bound, score, labelled=task is not Task.RELAXED)
    return solution
