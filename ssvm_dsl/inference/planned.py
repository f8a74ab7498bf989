"""``PlannedSession``: an opened plan with verified answers, the interface of inference for the rest of the package.

Two of them need no backend: sessions of calls whose time was up before there was a plan, or a backend was open.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.starting.labelling import unanswered
from ssvm_dsl.inference.verification.verify import Verifier, round_outwards
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Ability, Caps, Guarantee, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import DualBound, Marginals, Solution
from ssvm_dsl.plugin_api.protocols import CompiledMessages, CompiledOracle
from ssvm_dsl.registry import Registry, registry

#: What a session may be asked, and what its backend must have announced for it.
ABILITY_OF: dict[str, Ability | None] = {
    "solve": None,
    "best_by_count": Ability.COUNTS,
    "expect": Ability.SUMMED_MARGINALS,
    "slope": Ability.MESSAGES,
    "dual_bound": Ability.MESSAGES,
    "compiled": Ability.COMPILED,
    "compiled_messages": Ability.MESSAGES,
}


class PlannedSession(ABC):
    """What answers questions about a program; beyond ``solve`` nothing is offered unless a session says so.

    The methods are those of the protocols in :mod:`ssvm_dsl.plugin_api.protocols`.  Answers come before the end of the
    call at hand (:mod:`ssvm_dsl.deadline`), and within the time among the limits of the question.  ``known`` is what
    labellings are known to be worth, such as the truth in training (``-inf``: none); the verification of answers looks
    at it, and backends are not told.

    Attributes
    ----------
    program : Program
    replaced : bool
        Whether a backend that was planned has refused, so that another took its place.
    """

    program: Program
    replaced: bool = False

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """The backend that answers, and how it was chosen."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The weakest guarantee that an answer of this session has."""

    @property
    def tasks(self) -> frozenset[Task]:
        """The tasks that the session answers."""
        return frozenset()

    @property
    def abilities(self) -> frozenset[Ability]:
        """What may be asked beyond ``solve``."""
        return frozenset()

    @abstractmethod
    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question (see :class:`~ssvm_dsl.plugin_api.Session`); the answer is verified."""

    def best_by_count(self, question: Question, tables: CountTables, known: F64 | None = None) -> Solution | None:
        """Answer by counts (see :class:`~ssvm_dsl.plugin_api.CountingSession`); ``None`` where that is not offered."""
        return None

    def expect(
        self, question: Question, coef: F64, node: F64, tables: Sequence[F64], known: F64 | None = None
    ) -> F64 | None:
        """Add weighted marginals and return log partitions (see :class:`~ssvm_dsl.plugin_api.SumSession`).

        ``None`` where that is not offered, or no longer, since another backend has taken over; what was added to the
        arrays counts for nothing then.
        """
        return None

    def slope(self, question: Question) -> Marginals | None:
        """Return a subgradient of the dual bound (see :class:`~ssvm_dsl.plugin_api.MessageSession`).

        ``None`` where that is not offered, or where another backend has taken over, which knows no such messages.
        """
        return None

    def dual_bound(self, question: Question) -> DualBound | None:
        """Return dual bounds and their slopes (see :class:`~ssvm_dsl.plugin_api.DualBoundSession`).

        ``None`` where that is not offered, or where another backend has taken over, which knows no such messages.
        """
        return None

    def compiled(self) -> CompiledOracle | None:
        """Return a compiled oracle (see :class:`~ssvm_dsl.plugin_api.CompiledOracle`), ``None`` without one."""
        return None

    def compiled_messages(self) -> CompiledMessages | None:
        """Return compiled message passing (see :class:`~ssvm_dsl.plugin_api.CompiledMessages`), ``None`` without it."""
        return None


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
        """What stands for a plan, with the reason why there is none."""
        return self._plan

    @property
    def guarantee(self) -> Guarantee:
        """Bounds: they hold, however far above the labellings they are."""
        return Guarantee.BOUND

    @property
    def tasks(self) -> frozenset[Task]:
        """All but relaxed labellings."""
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
