"""``icm``: iterated conditional modes (Besag 1986) with restarts and moves of pairs; a heuristic for any graph.

The first run starts from the best unary scores (or from the labels of an earlier call), the others from labellings
drawn at random; the best end point is the answer.  The draws depend on the seed, the example and the run alone,
so answers do not depend on which examples are asked for together.

No maintained library for Python offers it for factors of any size: OpenGM and libDAI are not on PyPI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends.graphs.graph import graph_bytes
from ssvm_backends.graphs.session import GraphCall
from ssvm_backends.local.session import BUDGET, HeuristicSession, SearchBatch
from ssvm_dsl.ir import Need, Program, Stop
from ssvm_dsl.plugin_api import Verdict


class ICM:
    """Iterated conditional modes (Besag 1986), a heuristic: O(factors x states) for each sweep over the variables."""

    def check(self, need: Need) -> Verdict:
        """Accept every need: any graph, no guarantee."""
        sweeps = 20.0
        cost = sweeps * (need.n_variables + need.n_factors * need.max_arity * float(need.max_card))
        return Verdict(True, cost, n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> ICMSession:
        """Open the backend on a program; the session improves one variable after the other."""
        return ICMSession(program, options)


class ICMSession(HeuristicSession):
    """Local search from several starting points."""

    def improve(self, batch: SearchBatch, call: GraphCall, iterations: int) -> None:
        """Improve the labels; ``iterations`` limits the runs from other starting points."""
        from ssvm_backends.local.icm_kernel import RUN_STATE, LocalRuns, icm_steps

        most = 1 + min(int(self.options["restarts"]), iterations)
        stopped = Stop.ITERATIONS if most <= int(self.options["restarts"]) else Stop.FINISHED
        widest, state = batch.largest()[0], np.zeros(1, RUN_STATE)
        runs = LocalRuns(
            most, int(self.options["seed"]), bool(self.options["pairs"]), np.zeros(widest, dtype=np.int32),
            np.zeros(2 * widest, dtype=bool), state,
        )  # fmt: skip
        while state[0]["example"] < len(batch.ids) and not call.clock.over:
            icm_steps(batch, runs, BUDGET)
            batch.stop[: state[0]["example"]] = stopped
