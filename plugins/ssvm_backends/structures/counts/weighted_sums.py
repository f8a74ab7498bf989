"""Best labellings under bounds on weighted sums of literals, by :mod:`ssvm_backends.structures.counts.knapsack`."""

from __future__ import annotations

from ssvm_backends.structures.counts.whole_sums import WholeSums
from ssvm_backends.structures.session import StructureSession
from ssvm_dsl.ir import F64, I32, I64, Bools, Program


class WeightedSumSession(StructureSession):
    """Best labellings of a program whose constraints are all of the kind ``linear``, over different variables."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.sums = [WholeSums.of(program, group) for group in self.groups]

    def choose(self, group: int, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best labels; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        from ssvm_backends.structures.counts.knapsack import choose_sums

        choose_sums(self.sums[group], self.program.var_ptr, node, ids, ptr, labels, feasible)
