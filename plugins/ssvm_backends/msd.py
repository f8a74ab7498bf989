"""``msd``: max-sum diffusion by edges or stars, plain or soft; see :mod:`ssvm_backends._dual.block_descent`.

With ``temperature`` T above 0 maxima are soft: ``T log sum exp(. / T)``, that is K = 1/T in equation 13 of
Meshi et al. (2010).  The reported bound is the plain one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ssvm_backends._dual.session import DualSession, Part, dual_bytes, sweep_cost
from ssvm_backends._graphs.graph import Instance
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir import Need, Program
from ssvm_dsl.plugin_api import CompiledMessages, Verdict

if TYPE_CHECKING:
    from ssvm_backends._dual.pieces import Pieces


class MSD:
    """Max-sum diffusion."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 500 iterations."""
        return Verdict(True, 500.0 * sweep_cost(need), n_bytes=dual_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> MSDSession:
        """Return a session."""
        return MSDSession(program, options)


class MSDSession(DualSession):
    """Diffusion on the graphs of one program."""

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program, options)
        if not options["temperature"] >= 0:
            raise OptionError(f"option 'temperature' is at least 0, got {options['temperature']!r}")

    def iterate(self, instance: Instance, part: Part, n_iterations: int) -> None:
        """Run so many more iterations on each example of a part, in place."""
        from ssvm_backends._dual.block_descent import descend

        descend(
            instance.graph, instance.node, instance.pool, part.ids, part.messages, n_iterations,
            float(self.options["tol"]), self._update(), float(self.options["temperature"]), part.progress,
        )  # fmt: skip

    def compiled_messages(self) -> CompiledMessages:
        """Return message passing for trainers that call it inside their own kernels."""
        from ssvm_backends._dual.compiled import compiled_messages

        offer, self.graph = compiled_messages(self.graph, self._update(), float(self.options["temperature"]))
        return offer

    def pieces(self, instance: Instance, part: Part) -> Pieces:
        """Return what iterates on the single example of a part piece by piece."""
        from ssvm_backends._dual.block_descent import DescentPieces

        return DescentPieces(
            instance, int(part.ids[0]), part.messages, part.progress, float(self.options["tol"]), self._update(),
            float(self.options["temperature"]),
        )  # fmt: skip

    def _update(self) -> int:
        from ssvm_backends._dual.block_descent import EDGE, STAR

        return {"edge": EDGE, "star": STAR}[self.options["update"]]
