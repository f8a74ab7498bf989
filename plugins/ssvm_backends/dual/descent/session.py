"""The session of ``mplp`` and ``msd``, which differ in what an update changes (the option ``update``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_backends.dual.session import DualSession, ExampleRange
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.plugin_api import CompiledMessages

if TYPE_CHECKING:
    from ssvm_backends.dual.pieces import Pieces


class DescentSession(DualSession):
    """Block-coordinate descent on the graphs of one program."""

    def iterate(self, instance: Instance, part: ExampleRange, n_iterations: int) -> None:
        """Run so many more iterations on each example of a part, in place."""
        from ssvm_backends.dual.descent.block_descent import descend

        descend(
            instance.graph, instance.node, instance.pool, part.ids, part.messages, n_iterations,
            float(self.options["tol"]), *self._rule(), part.progress,
        )  # fmt: skip

    def compiled_messages(self) -> CompiledMessages:
        """Return message passing for trainers that call it inside their own kernels."""
        from ssvm_backends.dual.descent.compiled import compiled_messages

        offer, self.graph = compiled_messages(self.graph, *self._rule())
        return offer

    def pieces(self, instance: Instance, part: ExampleRange) -> Pieces:
        """Return what iterates on the single example of a part piece by piece."""
        from ssvm_backends.dual.descent.block_descent import DescentPieces

        tol = float(self.options["tol"])
        return DescentPieces(instance, int(part.ids[0]), part.messages, part.progress, tol, *self._rule())

    def _rule(self) -> tuple[int, float]:
        """Return the number of the update, and the temperature of its maxima (0 where there is no such option)."""
        from ssvm_backends.dual.descent.block_descent import UPDATES

        return UPDATES[self.options["update"]], float(self.options.get("temperature", 0.0))
