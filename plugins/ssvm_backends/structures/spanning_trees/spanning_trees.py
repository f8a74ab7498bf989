"""Sessions of directed trees: best ones and marginals; ``arborescence`` and ``eisner`` share them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends.graphs.batch_session import BatchCall, SummedAnswers
from ssvm_backends.structures.packing import CALL, structure_oracle
from ssvm_backends.structures.session import StructureSession, verdict
from ssvm_backends.structures.spanning_trees.tree_batches import Trees
from ssvm_dsl.ir import F64, I32, I64, Bools, Need, Program, Task
from ssvm_dsl.plugin_api import CompiledOracle, Verdict

#: Operations of the best arborescence for each arc.
ARC = 20.0

#: Seconds for each cube of a number of tokens, for its square with best arborescences: single calls of kernels.
BEST_PROJECTIVE, BEST_ARBORESCENCE, SUM_PROJECTIVE, SUM_ARBORESCENCES = 5e-10, 5e-8, 1.4e-8, 1.3e-9


class TreesSession(StructureSession):
    """Trees of one program.

    Parameters
    ----------
    program : Program
    projective : bool
        Which trees.
    """

    def __init__(self, program: Program, projective: bool) -> None:
        super().__init__(program)
        self.projective = projective
        self.trees = [
            Trees(
                group.literal_meta["head"].astype(np.int32), group.literal_meta["dependent"].astype(np.int32),
                group.meta["n"].astype(np.int64), group.meta["single_root"].astype(bool),
            )
            for group in self.groups
        ]  # fmt: skip

    def choose(self, group: int, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best trees; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        from ssvm_backends.structures.spanning_trees.tree_batches import best_projective_trees, best_trees

        best = best_projective_trees if self.projective else best_trees
        best(self.literals[group], self.trees[group], node, ids, ptr, labels, feasible)

    def seconds(self, ids: I64, task: Task) -> F64:
        """Return the expected seconds of each example's trees."""
        if task is Task.MARGINALS:
            return self._sizes(3, ids) * (SUM_PROJECTIVE if self.projective else SUM_ARBORESCENCES)
        return self._sizes(3, ids) * BEST_PROJECTIVE if self.projective else self._sizes(2, ids) * BEST_ARBORESCENCE

    def _sizes(self, power: int, ids: I64) -> F64:
        """Return the sum of a power of the numbers of tokens of each example's trees."""
        total = np.zeros(self.program.n_examples)
        for group, trees in zip(self.groups, self.trees, strict=True):
            np.add.at(total, group.example_of, trees.n.astype(np.float64) ** power)
        return total[ids]

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        n = np.concatenate([np.zeros(0), *(one.n for one in self.trees)]) + 1.0
        share = 1.0 / max(self.program.n_examples, 1)
        if self.projective:
            from ssvm_backends.structures.spanning_trees.tree_batches import eisner_oracle

            return structure_oracle(eisner_oracle, self, self.trees, CALL + float((n**3).sum()) * share)
        from ssvm_backends.structures.spanning_trees.tree_batches import arborescence_oracle

        return structure_oracle(arborescence_oracle, self, self.trees, CALL + ARC * float((n**2).sum()) * share)

    def solve_sum(self, call: BatchCall, sums: SummedAnswers, lo: int, hi: int) -> int:
        """Sum over trees; see :class:`~ssvm_backends.graphs.batch_session.BatchSession`."""
        from ssvm_backends.structures.literals import add_free_marginals
        from ssvm_backends.structures.spanning_trees.tree_batches import sum_trees

        node, ids, start, out, log_z = call.node, call.ids[lo:hi], sums.start[lo:], sums.node, sums.log_z[lo:hi]
        add_free_marginals(self.places, self.free, node, ids, start, out, log_z)
        for literals, trees in zip(self.literals, self.trees, strict=True):
            sum_trees(literals, trees, self.projective, node, ids, start, out, log_z)
        return hi


# -- ``arborescence``: best directed trees in O(n^2), sums by the matrix-tree theorem in O(n^3) ----------------------
#
# The root has one dependent or several.  The algorithms:
# :mod:`ssvm_backends.structures.spanning_trees.chu_liu_edmonds`,
# :mod:`ssvm_backends.structures.spanning_trees.matrix_tree`.
#
# From scores to labels, the best trees of a batch take 0.43 (200 words) to 0.57 (5 to 50 words) of the time of bare
# calls
# of ``ufal.chu_liu_edmonds``, the C++ of TurboParser (``make bench ARGS=trees``).


class ArborescenceBackend:
    """Directed trees over the tokens of sentences: O(n^2) for the best one, O(n^3) for marginals and log Z."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables."""
        return verdict(need, 1e3 + 20.0 * need.max_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> TreesSession:
        """Return a session."""
        return TreesSession(program, projective=False)


# -- ``eisner``: best projective trees and sums over all of them by dynamic programming over spans in O(n^3) ---------
#
# The root has one dependent or several.  The algorithm: :mod:`ssvm_backends.structures.spanning_trees.projective`.


class Eisner:
    """Projective trees over the tokens of sentences (Eisner 1996): O(n^3) for n tokens."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables."""
        return verdict(need, 1e3 + 4.0 * float(need.max_variables) ** 1.5)

    def open(self, program: Program, options: Mapping[str, Any]) -> TreesSession:
        """Return a session."""
        return TreesSession(program, projective=True)
