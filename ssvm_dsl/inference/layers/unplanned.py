"""A session for a call whose time was up before there was a plan, or a backend was open: it answers nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Ability, Guarantee, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question


@dataclass(eq=False)
class UnplannedSession:
    """A :class:`~ssvm_dsl.inference.session.PlannedSession` without tasks and abilities.

    Parameters
    ----------
    program : Program
    plan : Plan
        What there is of it.
    guarantee : Guarantee
        There are no answers, and what bounds a risk without any is exact.
    """

    program: Program
    plan: Plan
    guarantee: Guarantee = Guarantee.EXACT
    tasks: frozenset[Task] = frozenset()
    abilities: frozenset[Ability] = frozenset()

    @classmethod
    def of(cls, program: Program, need: Need | None, plan: Plan | None) -> UnplannedSession:
        """Return a session for what was asked, and for the plan if there is one."""
        text = "time was up before a backend was chosen"
        return cls(program, plan or Plan("none", "" if need is None else str(need), text))

    def solve(self, question: Question, known: F64 | None = None) -> NoReturn:
        """Raise: there is nobody to ask.

        Raises
        ------
        OutOfTime
        """
        raise OutOfTime("the time limit came before a backend was open")

    def best_by_count(self, question: Question, tables: CountTables, known: F64 | None = None) -> NoReturn:
        """Raise, as :meth:`solve` does."""
        self.solve(question)

    def compiled(self) -> None:
        """Return nothing."""

    def compiled_messages(self) -> None:
        """Return nothing."""

    def slope(self, question: Question) -> None:
        """Return nothing."""

    def expect(
        self, question: Question, coef: F64, node: F64, tables: Sequence[F64], known: F64 | None = None
    ) -> None:
        """Return nothing."""
