"""The layer that the rest of the package asks: it verifies every answer, and goes on with the next backend."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from time import perf_counter
from typing import Any

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.inference.layers.base import ABILITY_OF, PlannedSession
from ssvm_dsl.inference.layers.opened import OpenedBackend, left_of
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules.constraint_rules import with_rules
from ssvm_dsl.inference.starting.fill_in import LABELLED, unanswered
from ssvm_dsl.inference.verification.outwards import round_outwards
from ssvm_dsl.inference.verification.spot_checks import check_messages, check_oracle
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Ability, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.plugin_api.protocols import CompiledMessages, CompiledOracle
from ssvm_dsl.registry import Registry

#: What nobody else can take over in the middle: it adds to arrays, or starts from messages of the backend's own.
BEGUN = frozenset({"expect", "slope", "dual_bound"})

#: What callers cannot go without where the first backend offered it: elsewhere ``None`` is an answer.
INDISPENSABLE = frozenset({"solve", "best_by_count"})


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
    """

    backend: OpenedBackend

    def __init__(self, plan: Plan, program: Program, plugins: Registry, outwards: bool = False) -> None:
        self._given, self.program, self._plugins = program, with_rules(program, plugins), plugins
        self._outwards, self._moving = outwards, RLock()
        self._open(plan)

    def _open(self, plan: Plan) -> None:
        """Open the backend of a plan, or the next one that can be opened."""
        try:
            self.backend = OpenedBackend.of(plan, self._given, self.program, self._plugins)
        except OutOfTime:
            raise
        except Exception as err:
            following = plan.following(err, self._plugins)
            if following is None:
                raise
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
                self._open(following)
            return following is not None

    def pass_on(self, ability: str, *given: Any) -> Any:
        """Ask the backend; one that lacks memory is followed by the next that fits."""
        return self._ask(ability, given)[1]

    def _ask(self, ability: str, given: Sequence[Any]) -> tuple[OpenedBackend, Any]:
        """Return (who answered, the answer).

        Raises
        ------
        BackendFault
            The backend crashed.
        TooLargeError
            It needs more memory than it is allowed, and no other fits.
        """
        backend, begin = self.backend, perf_counter()
        try:
            return backend, backend.ask(ability, given)
        except TooLargeError as err:
            question: Question | None = given[0] if given else None
            if not self._move_on(backend.plan, err, ability, None if question is None else question.task):
                raise
        if ability in BEGUN:
            return self.backend, None
        again = () if question is None else (left_of(question.replace(warm=None), begin), *given[1:])
        return self._ask(ability, again)

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question and verify the answer.

        Where time is up before the backend has a labelling, the answer is the one that every search begins with
        (:mod:`ssvm_dsl.inference.starting`).

        Raises
        ------
        BackendFault
            The backend crashed, or its answer breaks the contract.
        TooLargeError
            It needs more memory than it is allowed, and no other fits.
        """
        try:
            backend, solution = self._ask("solve", (question,))
        except OutOfTime:
            if question.task not in LABELLED:
                raise
            backend, solution = self.backend, unanswered(self.program, question)
        solution = backend.verify(question, solution, known)
        return round_outwards(self.program, question, solution) if self._outwards else solution

    @property
    def plan(self) -> Plan:
        """The backend that answers now, and how it was chosen."""
        return self.backend.plan

    def answers_by(self, plan: Plan) -> bool:
        """Whether it answers as planned."""
        return self.backend.plan is plan

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
        backend, solution = self._ask("best_by_count", (question, tables))
        return None if solution is None else backend.verify.counted(question, solution, tables, known)

    def expect(
        self, question: Question, coef: F64, node: F64, tables: Sequence[F64], known: F64 | None = None
    ) -> F64 | None:
        """Let the session add weighted marginals, and check the log partitions."""
        backend, log_z = self._ask("expect", (question, coef, node, tables))
        return None if log_z is None else backend.verify.log_partitions(question, log_z, coef, known)

    def compiled(self) -> CompiledOracle | None:
        """Return the session's compiled oracle, if it has one; that of a foreign backend has passed a spot check."""
        oracle: CompiledOracle | None
        backend, oracle = self._ask("compiled", ())
        if oracle is not None and backend.verify.foreign and self.program.n_examples:
            with backend.guard:
                check_oracle(oracle, self.program, self.solve, backend.verify)
        return oracle

    def compiled_messages(self) -> CompiledMessages | None:
        """Return the session's compiled message passing; that of a foreign backend has passed a spot check.

        ``None`` where it offers none, takes one call at a time, or masks rule states out.
        """
        if self.program.allowed is not None or not self.backend.spec.caps.thread_safe:
            return None
        offer: CompiledMessages | None
        backend, offer = self._ask("compiled_messages", ())
        if offer is not None and backend.verify.foreign and self.program.n_examples:
            with backend.guard:
                check_messages(offer, self.program, self.solve, backend.verify.fault)
        return offer
