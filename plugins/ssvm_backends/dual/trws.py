"""``trws``: sequential reweighted message passing for factors of any size; :mod:`ssvm_backends.dual.sequential`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ssvm_backends.dual.session import DualSession, ExampleRange, dual_bytes, sweep_cost
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import Ability, Need, Program
from ssvm_dsl.plugin_api import Verdict

if TYPE_CHECKING:
    from ssvm_backends.dual.pieces import Pieces


class TRWS:
    """Sequential reweighted message passing (TRW-S, SRMP)."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 100 iterations, and more where messages are asked for.

        Training calls ``msd`` and ``mplp`` from within its own kernels, so that it gets them unless others are named.
        """
        sweeps = 1000.0 if Ability.MESSAGES in need.abilities else 100.0
        return Verdict(True, sweeps * sweep_cost(need), n_bytes=dual_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> TRWSSession:
        """Return a session."""
        return TRWSSession(program, options)


class TRWSSession(DualSession):
    """Message passing on the graphs of one program."""

    def iterate(self, instance: Instance, part: ExampleRange, n_iterations: int) -> None:
        """Run so many more iterations on each example of a part, in place."""
        from ssvm_backends.dual.sequential import trws

        tol, smooth = float(self.options["tol"]), bool(self.options["smooth"])
        trws(
            instance.graph, instance.node, instance.pool, part.ids, part.messages, n_iterations, tol, smooth,
            part.progress,
        )  # fmt: skip

    def pieces(self, instance: Instance, part: ExampleRange) -> Pieces:
        """Return what iterates on the single example of a part piece by piece."""
        from ssvm_backends.dual.sequential import SequentialPieces

        tol, smooth = float(self.options["tol"]), bool(self.options["smooth"])
        return SequentialPieces(instance, int(part.ids[0]), part.messages, part.progress, tol, smooth)
