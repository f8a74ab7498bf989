"""One base for all sessions of the host: what may be asked, with one default for all of it.

A layer stands in front of another session.  It passes on what it does not change, so that its file says only what it
is there for.  One that overrides :meth:`SessionLayer.pass_on` changes how every ability is called (guarded, shown
read-only arrays); one that overrides a method changes this ability alone.

How many there are: a question passes the session that an estimator holds (:class:`PlannedSession`), then at most two
layers that adapt it to the backend's own session: bridges and merged factors, or the components of a graph; and chunks,
or the gate to a foreign backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ssvm_dsl.array_types import F64
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.messages import DualBound
from ssvm_dsl.ir.need import Ability, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Marginals, Solution
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


class SessionLayer:
    """A session that passes every call on to the one behind it; with nobody there nothing is offered.

    The methods are those of the protocols in :mod:`ssvm_dsl.plugin_api.protocols`.  ``known`` is what labellings are
    known to be worth, such as the truth in training (``-inf``: none); the layer that verifies answers looks at it, and
    backends are not told.

    Attributes
    ----------
    inner : object
        The session behind this one, a layer or the backend's own; ``None`` without one.
    """

    inner: Any = None

    def pass_on(self, ability: str, *given: Any) -> Any:
        """Call a method of the session behind; every method ends here unless a layer overrides it.

        Parameters
        ----------
        ability : str
            One of ``ABILITY_OF``.
        """
        method = getattr(self.inner, ability, None)  # some methods are optional
        return None if method is None else method(*given)

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question (see :class:`~ssvm_dsl.plugin_api.Session`)."""
        solution: Solution = self.pass_on("solve", question)
        return solution

    def best_by_count(self, question: Question, tables: CountTables, known: F64 | None = None) -> Solution | None:
        """Answer by counts (see :class:`~ssvm_dsl.plugin_api.CountingSession`); ``None`` where that is not offered."""
        solution: Solution | None = self.pass_on("best_by_count", question, tables)
        return solution

    def expect(
        self, question: Question, coef: F64, node: F64, tables: Sequence[F64], known: F64 | None = None
    ) -> F64 | None:
        """Add weighted marginals and return log partitions (see :class:`~ssvm_dsl.plugin_api.SumSession`).

        ``None`` where that is not offered, or no longer, since another backend has taken over; what was added to the
        arrays counts for nothing then.
        """
        log_z: F64 | None = self.pass_on("expect", question, coef, node, tables)
        return log_z

    def slope(self, question: Question) -> Marginals | None:
        """Return a subgradient of the dual bound (see :class:`~ssvm_dsl.plugin_api.MessageSession`).

        ``None`` where that is not offered, or where another backend has taken over, which knows no such messages.
        """
        marginals: Marginals | None = self.pass_on("slope", question)
        return marginals

    def dual_bound(self, question: Question) -> DualBound | None:
        """Return dual bounds and their slopes (see :class:`~ssvm_dsl.plugin_api.DualBoundSession`).

        ``None`` where that is not offered, or where another backend has taken over, which knows no such messages.
        """
        found: DualBound | None = self.pass_on("dual_bound", question)
        return found

    def compiled(self) -> CompiledOracle | None:
        """Return a compiled oracle (see :class:`~ssvm_dsl.plugin_api.CompiledOracle`), ``None`` without one."""
        oracle: CompiledOracle | None = self.pass_on("compiled")
        return oracle

    def compiled_messages(self) -> CompiledMessages | None:
        """Return compiled message passing (see :class:`~ssvm_dsl.plugin_api.CompiledMessages`), ``None`` without it."""
        offer: CompiledMessages | None = self.pass_on("compiled_messages")
        return offer


class PlannedSession(SessionLayer, ABC):
    """An opened plan with verified answers, the interface of inference for the rest of the package.

    Attributes
    ----------
    program : Program
    """

    program: Program

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

    def answers_by(self, plan: Plan) -> bool:
        """Whether it answers as planned: no backend has refused, so that another took its place."""
        return self.plan is plan

    @abstractmethod
    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question; the answer is verified."""
