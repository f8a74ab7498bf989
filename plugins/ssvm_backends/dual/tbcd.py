"""``tbcd``: tree block coordinate descent; see :mod:`ssvm_backends.dual.descent.tree_blocks`.

No maintained library for Python offers it.  ``make bench ARGS=loopy`` compares it with HiGHS and the other message
passing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ssvm_backends.dual.session import DualSession, ExampleRange, dual_bytes, sweep_cost
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import Ability, Need, Program
from ssvm_dsl.plugin_api import Verdict

if TYPE_CHECKING:
    from ssvm_backends.dual.pieces import Pieces


class TBCD:
    """Tree block coordinate descent."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 300 iterations, and more where messages are asked for.

        Training calls ``msd`` and ``mplp`` from within its own kernels, so that it gets them unless others are named.
        """
        sweeps = 3000.0 if Ability.MESSAGES in need.abilities else 300.0
        return Verdict(True, sweeps * sweep_cost(need), n_bytes=dual_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> TBCDSession:
        """Return a session."""
        return TBCDSession(program, options)


class TBCDSession(DualSession):
    """Descent by trees on the graphs of one program."""

    price = 3.0  # trees are drawn, and each factor of a tree is visited three times

    def iterate(self, instance: Instance, part: ExampleRange, n_iterations: int) -> None:
        """Run so many more iterations on each example of a part, in place."""
        from ssvm_backends.dual.descent.tree_blocks import descend_trees

        descend_trees(
            instance.graph, instance.node, instance.pool, part.ids, part.messages, n_iterations, *self._rule(),
            part.progress,
        )  # fmt: skip

    def pieces(self, instance: Instance, part: ExampleRange) -> Pieces:
        """Return what iterates on the single example of a part piece by piece."""
        from ssvm_backends.dual.descent.tree_blocks import TreePieces

        tol, redraw = self._rule()
        return TreePieces(instance, int(part.ids[0]), part.messages, part.progress, tol, redraw)

    def _rule(self) -> tuple[float, bool]:
        """Return the tolerance, and whether each iteration draws trees of its own."""
        return float(self.options["tol"]), self.options["trees"] == "random"
