"""``cardinality``: bounds on numbers of true literals over variables without pairs, by sorting.

With the gains of :mod:`ssvm_backends.structures.literals` the best labelling makes the literals of largest gain true:
all of positive gain, or as many fewer or more as the bounds say.  O(l log l) for l literals, where counting by dynamic
programming takes O(l k) for a bound of k; and an example may have any number of constraints, over different variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends.structures.packing import CALL, structure_oracle
from ssvm_backends.structures.session import StructureSession, verdict
from ssvm_dsl.ir import F64, I32, I64, Bools, Need, Program
from ssvm_dsl.plugin_api import CompiledOracle, Verdict

#: Operations for each literal that is sorted.
SORTED = 64.0


class Cardinality:
    """Bounds on counts, each over separate variables: O(l log l) for l literals, by sorting."""

    def check(self, need: Need) -> Verdict:
        """Accept counts no two of which share a variable, on programs without pairs."""
        return verdict(need, 1e2 + 20.0 * need.max_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> CardinalitySession:
        """Open the backend on a program whose only structure are counts; the session answers by sorting."""
        return CardinalitySession(program)


class CardinalitySession(StructureSession):
    """Best labellings of one program."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.bounds = [
            (group.meta["lower"].astype(np.int64), group.meta["upper"].astype(np.int64)) for group in self.groups
        ]

    def choose(self, group: int, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best labels; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        from ssvm_backends.structures.counts.sorting import choose_counts

        lower, upper = self.bounds[group]
        choose_counts(self.literals[group], lower, upper, node, ids, ptr, labels, feasible)

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        from ssvm_backends.structures.counts.sorting import cardinality_oracle

        sizes = np.concatenate([np.zeros(0), *(np.diff(one.literal_ptr) for one in self.literals)])
        work = CALL + float((SORTED * sizes).sum()) / max(self.program.n_examples, 1)
        return structure_oracle(cardinality_oracle, self, self.bounds, work)
