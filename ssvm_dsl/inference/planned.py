"""``PlannedSession``: an opened plan with verified answers, the interface of inference for the rest of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ssvm_dsl.array_types import F64
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Ability, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import DualBound, Marginals, Solution
from ssvm_dsl.plugin_api.protocols import CompiledMessages, CompiledOracle

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
