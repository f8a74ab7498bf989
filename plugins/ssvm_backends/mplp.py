"""``mplp``: block-coordinate descent factor by factor, MPLP++ or GMPLP (:mod:`ssvm_backends._dual.block_descent`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ssvm_backends._dual.session import DualSession, Part, dual_bytes, sweep_cost
from ssvm_backends._graphs.graph import Instance
from ssvm_dsl.ir import Need, Program
from ssvm_dsl.plugin_api import CompiledMessages, Verdict

if TYPE_CHECKING:
    from ssvm_backends._dual.pieces import Pieces


class MPLP:
    """Message passing that optimises over all messages of a factor at once."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 300 iterations, and more where messages are asked for.

        Their bound has many subgradients, most of them of no use to training; diffusion leaves few.
        """
        return Verdict(True, (3000.0 if need.messages else 300.0) * sweep_cost(need), n_bytes=dual_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> MPLPSession:
        """Return a session."""
        return MPLPSession(program, options)


class MPLPSession(DualSession):
    """Factor updates on the graphs of one program."""

    def iterate(self, instance: Instance, part: Part, n_iterations: int) -> None:
        """Run so many more iterations on each example of a part, in place."""
        from ssvm_backends._dual.block_descent import descend

        descend(
            instance.graph, instance.node, instance.pool, part.ids, part.messages, n_iterations,
            float(self.options["tol"]), self._update(), 0.0, part.progress,
        )  # fmt: skip

    def compiled_messages(self) -> CompiledMessages:
        """Return message passing for trainers that call it inside their own kernels."""
        from ssvm_backends._dual.compiled import compiled_messages

        offer, self.graph = compiled_messages(self.graph, self._update(), 0.0)
        return offer

    def pieces(self, instance: Instance, part: Part) -> Pieces:
        """Return what iterates on the single example of a part piece by piece."""
        from ssvm_backends._dual.block_descent import DescentPieces

        return DescentPieces(
            instance, int(part.ids[0]), part.messages, part.progress, float(self.options["tol"]), self._update(), 0.0
        )

    def _update(self) -> int:
        from ssvm_backends._dual.block_descent import CLIQUE, HANDSHAKE

        return {"handshake": HANDSHAKE, "clique": CLIQUE}[self.options["update"]]
