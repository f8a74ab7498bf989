"""What the rest of the package asks questions of: an opened plan, whose answers are verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ssvm_dsl.array_types import F64
from ssvm_dsl.inference.layers.by_component import ComponentSession
from ssvm_dsl.inference.layers.checked import CheckedSession
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Ability, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Marginals, Solution
from ssvm_dsl.plugin_api.kinds.compiled import CompiledMessages, CompiledOracle
from ssvm_dsl.registry import Registry, registry


class PlannedSession(Protocol):
    """What the rest of the package asks questions of."""

    program: Program

    @property
    def plan(self) -> Plan:
        """The backend that answers, and how it was chosen."""

    @property
    def guarantee(self) -> Guarantee:
        """What an answer is worth."""

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question; the answer is verified.

        ``known`` are scores that labellings are known to have, such as the truth in training (``-inf``: none).
        """

    @property
    def tasks(self) -> frozenset[Task]:
        """The questions that may be asked."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What may be asked beyond ``solve``."""

    def best_by_count(self, question: Question, tables: CountTables, known: F64 | None = None) -> Solution | None:
        """Return the labelling that is worth most by its counts, or ``None`` where that is not offered.

        The answer is verified; ``known`` is what labellings are known to be worth.
        """

    def compiled(self) -> CompiledOracle | None:
        """Return a compiled oracle, ``None`` without one; foreign ones have passed a spot check."""

    def compiled_messages(self) -> CompiledMessages | None:
        """Return compiled message passing, ``None`` where that is not offered."""

    def slope(self, question: Question) -> Marginals | None:
        """Return a subgradient of the dual bound, or ``None`` where that is not offered."""

    def expect(
        self, question: Question, coef: F64, node: F64, tables: Sequence[F64], known: F64 | None = None
    ) -> F64 | None:
        """Add weighted marginals and return log partitions, or ``None`` where that is not offered."""


def open_plan(plan: Plan, program: Program, plugins: Registry | None = None, outwards: bool = True) -> PlannedSession:
    """Open the planned backend (or one for each part) on a program.

    Parameters
    ----------
    plan : Plan
    program : Program
    plugins : Registry, optional
        The installed plug-ins by default.
    outwards : bool
        Whether bounds are rounded outwards, so that they hold in exact arithmetic.  It costs a look at all scores;
        training and prediction, which do not depend on the last digits, go without.
    """
    known = registry() if plugins is None else plugins
    kind = ComponentSession if plan.components else CheckedSession
    return kind(plan, program, known, outwards)
