"""A layer on another program that answers questions about the original one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssvm_dsl.array_types import F64
from ssvm_dsl.inference.bridging.lowering import Lowering
from ssvm_dsl.inference.bridging.merging import Merging
from ssvm_dsl.inference.layers.base import SessionLayer
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution


class BridgedSession(SessionLayer):
    """Answers through bridges, or merged factors, the last of which leads to the program of the backend's session.

    Parameters
    ----------
    inner : Session
        On that program.
    lowerings : sequence of Lowering or Merging
        From the original program on.
    """

    def __init__(self, inner: Any, lowerings: Sequence[Lowering | Merging]) -> None:
        self.inner, self._lowerings = inner, tuple(lowerings)

    def pass_on(self, ability: str, *given: Any) -> Any:
        """Return ``None``: scores, messages and sums of the lowered program are not those of the original one."""
        return None

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question about the original program."""
        asked = [question]
        for one in self._lowerings:
            asked.append(one.question(asked[-1]))
        return self._lifted(asked, self.inner.solve(asked[-1]))

    def best_by_count(self, question: Question, tables: CountTables, known: F64 | None = None) -> Solution:
        """Answer by counts; auxiliary states count nothing."""
        asked = [question]
        for one in self._lowerings:
            assert isinstance(one, Lowering), "factors are merged for bounds, which no counts are asked for"
            asked.append(one.question(asked[-1]))
            tables = one.counts(tables)
        return self._lifted(asked, self.inner.best_by_count(asked[-1], tables))

    def _lifted(self, asked: list[Question], solution: Solution) -> Solution:
        for one, question in zip(reversed(self._lowerings), reversed(asked[:-1]), strict=True):
            solution = one.lift(question, solution)
        return solution
