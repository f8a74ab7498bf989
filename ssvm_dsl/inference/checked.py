"""``CheckedSession``: one backend on a program.  It verifies every answer, and goes on with the next backend."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.deadline import Deadline, time_left, within
from ssvm_dsl.errors import OutOfTime, PluginError, TooLargeError
from ssvm_dsl.inference.bridging.bridges import ABILITIES, TASKS, BridgedSession, bridge_chain_through
from ssvm_dsl.inference.bridging.lowering import Lowering
from ssvm_dsl.inference.bridging.merging import Merging, merged_factors
from ssvm_dsl.inference.chunked import ChunkedSession
from ssvm_dsl.inference.planned import ABILITY_OF, PlannedSession
from ssvm_dsl.inference.planning.plans import Plan, consider
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.starting.labelling import LABELLED, unanswered
from ssvm_dsl.inference.threads import one_blas_thread
from ssvm_dsl.inference.verification.verify import Verifier, round_outwards
from ssvm_dsl.ir.analysis.chunks import chunk_share
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Ability, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import TIME, DualBound, Marginals, Solution, Stop
from ssvm_dsl.loading import loading_time
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.hosting.sessions import check_messages, check_oracle, open_foreign
from ssvm_dsl.plugin_api.protocols import CompiledMessages, CompiledOracle
from ssvm_dsl.plugin_api.specs import BackendSpec, BridgeSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.requirements.programs import program_need

#: What nobody else can take over in the middle: it adds to arrays, or starts from messages of the backend's own.
BEGUN = frozenset({"expect", "slope", "dual_bound"})

#: What callers cannot go without where the first backend offered it: elsewhere ``None`` is an answer.
INDISPENSABLE = frozenset({"solve", "best_by_count"})


@dataclass(frozen=True, eq=False)
class OpenedBackend:
    """A backend's session, behind what adapts questions to it.

    Parameters
    ----------
    plan : Plan
    spec : BackendSpec
    session : Session
    verify : Verifier
    asked : Program
        What it was opened on: with bridges, the program behind them; of relaxations, one whose factors are merged.
    guard : contained
        Makes whatever it raises an error that names it.
    call_lock : context manager
        Held by each call to one that takes one call at a time.
    """

    plan: Plan
    spec: BackendSpec
    session: Any
    verify: Verifier
    asked: Program
    guard: contained
    call_lock: Any

    @classmethod
    def of(cls, plan: Plan, program: Program, program_with_rules: Program, plugins: Registry) -> OpenedBackend:
        """Open the backend of a plan.

        Parameters
        ----------
        plan : Plan
            For a program without components.
        program, program_with_rules : Program
            Without and with the rules of its constraints.
        plugins : Registry
        """
        spec, lowerings = plugins.find(BackendSpec, plan.backend), list[Lowering | Merging]()
        asked = program_with_rules
        owner, owner_name = plugins.owner(spec), plugins.describe_owner(spec)
        if plan.bridges:
            chain = bridge_chain_through(program, plan.bridges, plugins)
            lowerings += chain.lowerings
            asked = with_rules(chain.program, plugins)
        bounds = spec.caps.guarantee is Guarantee.BOUND and not spec.caps.abilities
        if bounds and not plan.relaxed and (merging := merged_factors(asked)):
            lowerings.append(merging)
            asked = merging.program
        if any(group.of_spans for group in asked.groups) and not spec.caps.of_spans:
            raise PluginError(f"backend '{spec.name}' takes scores of variables only, these are of whole segments")
        owners = [owner, *(plugins.owner(plugins.find(BridgeSpec, name)) for name in plan.bridges)]
        origin = ", ".join(str(one) for one in dict.fromkeys(owners) if not one.bundled)
        rounded = "none" not in plan.options.values()
        verify = Verifier(program_with_rules, plan.title, spec.caps, foreign=origin, completes=rounded)
        guard = contained(owner_name, verify.fault)
        call_lock = nullcontext() if spec.caps.thread_safe else plugins.call_lock(spec)
        session: Any
        with guard, call_lock, one_blas_thread():
            make = plugins.load(spec)
            if not owner.bundled:
                session = open_foreign(make, asked, spec.caps, plan.options, verify.fault, owner_name)
            elif chunk_share(asked) == 1.0:
                session = make().open(asked, plan.options)
            else:  # a large batch of few shapes
                session = ChunkedSession(make(), asked, plan.options)
        if lowerings:
            session = BridgedSession(session, lowerings)
        return cls(plan, spec, session, verify, asked, guard, call_lock)

    @property
    def tasks(self) -> frozenset[Task]:
        """The questions it answers."""
        return self._offered[0]

    @property
    def abilities(self) -> frozenset[Ability]:
        """What it announces, as far as it may be used."""
        return self._offered[1]

    @cached_property
    def _offered(self) -> tuple[frozenset[Task], frozenset[Ability]]:
        """The tasks that it answers for the program, and the abilities that it has there.

        What a plan did not ask for is no promise of its ``Caps`` alone: ``check`` may refuse it for this program.
        Properties of tables that it relies on were looked at when it was planned.
        """
        caps, options = self.spec.caps, dict(self.plan.options)
        need = program_need(self.asked, guarantee=Guarantee.HEURISTIC, properties=caps.requires)
        announced = caps.constrained_abilities if self.asked.constraints else caps.abilities
        tasks = frozenset(one for one in caps.tasks if consider(need.asking(one), self.spec, options)[0].ok)
        able = frozenset(
            one for one in announced if consider(replace(need, abilities=frozenset({one})), self.spec, options)[0].ok
        )
        if self.plan.bridges:
            tasks, able = tasks & TASKS, able & ABILITIES
        if not caps.thread_safe:  # calls from within kernels of trainers cannot wait for their turn
            able -= {Ability.COMPILED}
        return tasks, able


class CheckedSession(PlannedSession):
    """A session whose answers are verified; opened by :func:`~ssvm_dsl.inference.session.open_plan`.

    Where ``auto`` chose the backend and it cannot be opened, or refuses for its memory, whatever it is asked, the next
    one in the plan's order answers, and ``plan`` says so.

    Parameters
    ----------
    plan : Plan
    program : Program
    plugins : Registry
    outwards : bool
        Whether bounds are rounded outwards.

    Attributes
    ----------
    backend : OpenedBackend
        Who answers now.
    inner : Session
        Its session.
    """

    backend: OpenedBackend
    inner: Any

    def __init__(self, plan: Plan, program: Program, plugins: Registry, outwards: bool = False) -> None:
        self._given, self.program, self._plugins = program, with_rules(program, plugins), plugins
        self._outwards, self._moving = outwards, RLock()
        self._open(plan)

    def _open(self, plan: Plan) -> None:
        """Open the backend of a plan, or the next one that can be opened."""
        try:
            self.backend = OpenedBackend.of(plan, self._given, self.program, self._plugins)
        except Exception as err:
            following = None if isinstance(err, OutOfTime) else plan.following(err, self._plugins)
            if following is None:
                raise
            self.replaced = True
            self._open(following)
        self.inner = self.backend.session

    def _move_on(self, refused: Plan, err: Exception, asked: str, task: Task | None) -> bool:
        """Open the next backend after one refused what was asked, unless that is done; return whether there is one."""
        needed = ABILITY_OF[asked] if asked in INDISPENSABLE else None
        with self._moving:
            if self.plan is not refused:
                return task in (None, *self.tasks) and needed in (None, *self.abilities)
            following = refused.following(err, self._plugins, task, needed)
            if following is not None:
                self.replaced = True
                self._open(following)
            return following is not None

    def _call(self, method: str, question: Question | None = None, *given: Any) -> tuple[OpenedBackend, Any]:
        """Call a method of the backend's session; return (who answered, the answer), ``None`` if it has no such method.

        Waiting for its turn counts against a time limit.

        Parameters
        ----------
        method : str
            The name of a method of :class:`~ssvm_dsl.plugin_api.Session`, or of one that sessions may have: a key of
            ``ABILITY_OF``.
        question, given
            What goes with it; nothing for compiled calls.

        Raises
        ------
        BackendFault
            The backend crashed.
        TooLargeError
            It needs more memory than it is allowed, and no other fits.
        """
        backend, needed = self.backend, ABILITY_OF[method]
        deadline = None if question is None or question.limits.time is None else Deadline(question.limits.time)
        if needed is not None and needed not in backend.abilities:
            return backend, None
        try:
            with one_blas_thread():
                answer = getattr(backend.session, method, None)
                if answer is None:  # an optional one
                    return backend, None
                if question is None:
                    return backend, answer()
                if deadline is None and time_left() == np.inf and backend.spec.caps.thread_safe:
                    return backend, answer(question, *given)
                with nullcontext() if deadline is None else within(deadline), backend.call_lock:
                    timed = method == "solve" or deadline is not None
                    return backend, answer(_timed(question) if timed else question, *given)
        except BaseException as err:
            translated = backend.guard.translate(err)
            task = None if question is None else question.task
            if not isinstance(translated, TooLargeError) or not self._move_on(backend.plan, translated, method, task):
                raise translated  # noqa: B904 -- it has its cause
        if method in BEGUN:
            return self.backend, None
        if question is None:
            return self._call(method)
        limits = question.limits if deadline is None else replace(question.limits, time=deadline.left)
        return self._call(method, question.replace(warm=None, limits=limits), *given)

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question and verify the answer.

        Where time is up before the backend has a labelling, the answer is the one that every search begins with
        (:mod:`ssvm_dsl.inference.starting`).  Backends keep their own time on the wall, so that loading inside a call
        can end it early: they are asked again then, and the better of both answers is kept.

        Raises
        ------
        BackendFault
            The backend crashed, or its answer breaks the contract.
        TooLargeError
            It needs more memory than it is allowed, and no other fits.
        """
        best: Solution | None = None
        while True:
            loaded = None if time_left() == np.inf else loading_time().seconds
            try:
                backend, solution = self._call("solve", question)
            except OutOfTime:
                if question.task not in LABELLED:
                    raise
                backend, solution = self.backend, unanswered(self.program, question)
            solution = backend.verify(question, solution, known)
            if self._outwards:
                solution = round_outwards(self.program, question, solution)
            best = solution if best is None else better_of(self.program, question, best, solution)
            early = loaded is not None and bool((solution.stop == TIME).any())
            if not early or loading_time().seconds == loaded or time_left() <= 0.0:
                return best

    @property
    def plan(self) -> Plan:
        """The backend that answers now, and how it was chosen."""
        return self.backend.plan

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of an answer."""
        return self.backend.spec.caps.guarantee

    @property
    def tasks(self) -> frozenset[Task]:
        """The questions the backend answers; under constraints, those it does not refuse for them."""
        return self.backend.tasks

    @property
    def abilities(self) -> frozenset[Ability]:
        """The announced abilities of the backend that may be used."""
        return self.backend.abilities

    def best_by_count(self, question: Question, tables: CountTables, known: F64 | None = None) -> Solution | None:
        """Answer by counts and verify the answer; ``None`` where that is not offered."""
        backend, solution = self._call("best_by_count", question, tables)
        return None if solution is None else backend.verify.counted(question, solution, tables, known)

    def expect(
        self, question: Question, coef: F64, node: F64, tables: Sequence[F64], known: F64 | None = None
    ) -> F64 | None:
        """Let the session add weighted marginals, and check the log partitions."""
        backend, log_z = self._call("expect", question, coef, node, tables)
        return None if log_z is None else backend.verify.log_partitions(question, log_z, coef, known)

    def slope(self, question: Question) -> Marginals | None:
        """Return the session's subgradient of the dual bound."""
        marginals: Marginals | None = self._call("slope", question)[1]
        return marginals

    def dual_bound(self, question: Question) -> DualBound | None:
        """Return the session's dual bounds and their slopes."""
        found: DualBound | None = self._call("dual_bound", question)[1]
        return found

    def compiled(self) -> CompiledOracle | None:
        """Return the session's compiled oracle, if it has one; that of a foreign backend has passed a spot check."""
        oracle: CompiledOracle | None
        backend, oracle = self._call("compiled")
        if oracle is not None and backend.verify.foreign and self.program.n_examples:
            with backend.guard:
                check_oracle(oracle, self.program, self.solve, backend.verify.compiled)
        return oracle

    def compiled_messages(self) -> CompiledMessages | None:
        """Return the session's compiled message passing; that of a foreign backend has passed a spot check.

        ``None`` where it offers none, takes one call at a time, or masks rule states out.
        """
        if self.program.allowed is not None or not self.backend.spec.caps.thread_safe:
            return None
        offer: CompiledMessages | None
        backend, offer = self._call("compiled_messages")
        if offer is not None and backend.verify.foreign and self.program.n_examples:
            with backend.guard:
                check_messages(offer, self.program, self.solve, backend.verify.fault)
        return offer


def _timed(question: Question) -> Question:
    """Return the question with the time that the call at hand has left."""
    left = time_left()
    return question if left == np.inf else question.replace(limits=replace(question.limits, time=left))


def better_of(program: Program, question: Question, first: Solution, second: Solution) -> Solution:
    """Return the better of two answers to a question: for each example, where it asks for best labellings.

    Parameters
    ----------
    program : Program
    question : Question
    first, second : Solution
        Both verified; where they are equally good, and for all that is said besides, the second counts.
    """
    worse = second.best < first.best
    if question.task not in (Task.MAP, Task.MAP_CLAMPED):
        return first if worse.any() and not (second.best > first.best).any() else second
    there = np.repeat(worse, np.diff(question.label_ptr(program)))
    bound = np.fmin(first.bound, second.bound)  # both hold
    score = np.where(worse, first.score, second.score)
    return replace(
        second,
        labels=np.where(there, first.labels, second.labels),
        score=score,
        bound=np.maximum(bound, score),  # apart by no more than the rounding of sums
        stop=np.where(worse & (first.stop != Stop.TIME), first.stop, second.stop),
        primal=np.where(worse, first.primal, second.primal),
        complete=False,
    )
