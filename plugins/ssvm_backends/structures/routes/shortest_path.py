"""``shortest-path``: best paths from a source to a target, by the order of nodes in O(arcs) on acyclic graphs.

Graphs with cycles are refused: a best path that meets no node twice is a hard problem there (``ilp`` takes it), unless
no cycle scores more than 0.  With ``cycles="improve"`` they are taken, and solved by the rounds of Bellman and Ford,
O(nodes arcs); an example whose scores have a cycle of positive score is refused when it is met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends.structures.packing import CALL, structure_oracle
from ssvm_backends.structures.routes.route_kernels import FORCED_ON_CYCLES, POSITIVE_CYCLE, SOLVED, Paths
from ssvm_backends.structures.session import StructureSession, verdict
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir import F64, I32, I64, Bools, Need, Program, pointers
from ssvm_dsl.plugin_api import CompiledOracle, Verdict

#: Operations for each arc.
ARC = 64.0

#: Why an example is refused.
REASONS = {
    POSITIVE_CYCLE: "a cycle of positive score can be reached from the source",
    FORCED_ON_CYCLES: "arcs have to be on the path, and the graph has cycles",
}


class ShortestPath:
    """Best paths from a source to a target: O(arcs) on acyclic graphs, O(nodes arcs) on others (Bellman 1958)."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables, on acyclic graphs unless cycles are allowed."""
        if need.cyclic and need.options["cycles"] == "refuse":
            text = "takes graphs without cycles; with cycles=improve, those that have no cycle of positive score"
            return Verdict(False, reasons=(text,))
        return verdict(need, 1e3 + 20.0 * need.max_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> ShortestPathSession:
        """Return a session."""
        return ShortestPathSession(program)


class ShortestPathSession(StructureSession):
    """Paths of one program."""

    def __init__(self, program: Program) -> None:
        from ssvm_backends.structures.routes.route_kernels import all_ranks

        super().__init__(program)
        self.paths = []
        for group, literals in zip(self.groups, self.literals, strict=True):
            tail, head = (group.literal_meta[name].astype(np.int32) for name in ("tail", "head"))
            n_nodes, source, target = (group.meta[name].astype(np.int64) for name in ("n_nodes", "source", "target"))
            first = pointers(n_nodes)
            rank = np.full(int(first[-1]), -1, dtype=np.int32)
            self.paths.append(Paths(tail, head, n_nodes, source, target, rank, first))
            all_ranks(literals, self.paths[-1])

    def choose(self, group: int, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best paths; see :class:`~ssvm_backends.structures.session.StructureSession`.

        Raises
        ------
        OptionError
            An example has a cycle of positive score.
        """
        from ssvm_backends.structures.routes.route_kernels import best_paths

        state = np.zeros(len(ids), dtype=np.int64)
        best_paths(self.literals[group], self.paths[group], node, ids, ptr, labels, state)
        refused = np.flatnonzero(state >= POSITIVE_CYCLE)
        if len(refused):
            why, example = REASONS[int(state[refused[0]])], int(ids[refused[0]])
            raise OptionError(f"shortest-path: example {example}: {why}; backend='ilp' takes such graphs")
        feasible &= state == SOLVED

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        from ssvm_backends.structures.routes.route_kernels import path_oracle

        arcs = sum(float(len(literals.variable)) for literals in self.literals)
        return structure_oracle(path_oracle, self, self.paths, CALL + ARC * arcs / max(self.program.n_examples, 1))
