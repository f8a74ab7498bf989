"""Sessions of calls whose time was up before there was a plan, or a backend was open."""

from __future__ import annotations

from typing import NoReturn

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.starting.fill_in import unanswered
from ssvm_dsl.inference.verification.verify import Verifier, round_outwards
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Caps, Guarantee, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.registry import Registry, registry


class StartingSession(PlannedSession):
    """Answers at once, with starting labellings and ``stop = TIME``; what it shows is verified.

    Parameters
    ----------
    backend : str
        What was asked for, for messages.
    program : Program
    plugins : Registry, optional
        The installed plug-ins by default.
    outwards : bool
        Whether bounds are rounded outwards.
    """

    def __init__(
        self, backend: str, program: Program, plugins: Registry | None = None, outwards: bool = False
    ) -> None:
        self._outwards = outwards
        self.program = with_rules(program, registry() if plugins is None else plugins)
        reason = "time was up before a backend was opened: the answers are the starting labellings of a search"
        self._plan = Plan(backend, "", reason)
        self._verify = Verifier(self.program, backend, Caps(tasks=self.tasks, guarantee=self.guarantee))

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer with starting labellings and bounds that always hold; with nothing where labellings are no answer."""
        nothing = unanswered(self.program, question)
        if question.task is Task.MARGINALS:
            return nothing
        solution = self._verify(question, nothing, known)
        return round_outwards(self.program, question, solution) if self._outwards else solution

    @property
    def plan(self) -> Plan:
        """The error that explains why there is no backend."""
        return self._plan

    @property
    def guarantee(self) -> Guarantee:
        """The weakest guarantee that an answer of the session underneath has."""
        return Guarantee.BOUND

    @property
    def tasks(self) -> frozenset[Task]:
        """The tasks that the session underneath answers."""
        return frozenset(Task) - {Task.RELAXED}


class UnplannedSession(PlannedSession):
    """Answers nothing: there is no backend, or it is elsewhere.

    Parameters
    ----------
    program : Program
    need : Need, optional
        What was asked, if that is known.
    plan : Plan, optional
        If there is one.
    guarantee : Guarantee
        Exact by default: there are no answers, and what bounds a risk without any is.  Of data that are elsewhere, what
        the answers there are worth.
    """

    def __init__(
        self, program: Program, need: Need | None, plan: Plan | None, guarantee: Guarantee = Guarantee.EXACT
    ) -> None:
        text = "time was up before a backend was chosen"
        self._guarantee = guarantee
        self.program, self._plan = program, plan or Plan("none", "" if need is None else str(need), text)

    @property
    def plan(self) -> Plan:
        """The plan, which names no backend: none could answer."""
        return self._plan

    @property
    def guarantee(self) -> Guarantee:
        """What answers would be worth."""
        return self._guarantee

    def solve(self, question: Question, known: F64 | None = None) -> NoReturn:
        """Raise: there is no backend.

        Raises
        ------
        OutOfTime
        """
        raise OutOfTime("the time limit came before a backend was open")

    def best_by_count(self, question: Question, tables: CountTables, known: F64 | None = None) -> NoReturn:
        """Raise, as :meth:`solve` does."""
        self.solve(question)
