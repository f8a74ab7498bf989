"""A session for a call whose time was up before there was a plan, or a backend was open: it answers nothing."""

from __future__ import annotations

from typing import NoReturn

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.layers.base import PlannedSession
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Guarantee, Need
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question


class UnplannedSession(PlannedSession):
    """A session without tasks and abilities: there is no backend, or it is elsewhere.

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
