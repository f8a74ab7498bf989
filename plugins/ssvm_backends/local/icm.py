"""``icm``: iterated conditional modes (Besag 1986) with restarts and moves of pairs; a heuristic for any graph.

The first run starts from the best unary scores (or from the labels of an earlier call), the others from labellings
drawn at random; the best end point is the answer.  What is drawn depends on the seed, the example and the run alone,
so answers do not depend on which examples are asked for together.

No maintained library for Python offers it for factors of any size: OpenGM and libDAI are not on PyPI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends.graphs.graph import graph_bytes
from ssvm_backends.local.session import BUDGET, Batch, HeuristicSession
from ssvm_dsl.ir import Need, Program, Stop
from ssvm_dsl.plugin_api import Clock, Verdict


class ICM:
    """Local search: O(factors x states) for each sweep over the variables."""

    def check(self, need: Need) -> Verdict:
        """Accept everything."""
        sweeps = 20.0
        cost = sweeps * (need.n_variables + need.n_factors * need.max_arity * float(need.max_card))
        return Verdict(True, cost, n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> ICMSession:
        """Return a session."""
        return ICMSession(program, options)


class ICMSession(HeuristicSession):
    """Local search from several starting points."""

    def search(self, batch: Batch, clock: Clock, iterations: int) -> None:
        """Improve the labels; ``iterations`` limits the runs from other starting points."""
        from ssvm_backends.local.icm_kernel import icm_steps

        runs, instance, n = 1 + min(int(self.options["restarts"]), iterations), batch.instance, len(batch.ids)
        score, cursor = np.full(n, -np.inf), np.zeros(3, dtype=np.int64)
        widest = batch.largest()[0]
        now, stale = np.zeros(widest, dtype=np.int32), np.zeros(2 * widest, dtype=bool)
        stopped = Stop.ITERATIONS if runs <= int(self.options["restarts"]) else Stop.FINISHED
        while cursor[0] < n and not clock.over:
            icm_steps(
                instance.graph, instance.node, instance.pool, batch.ids, batch.numbers, batch.label_ptr, batch.labels,
                score, runs, int(self.options["seed"]), bool(self.options["pairs"]), now, stale, cursor, BUDGET,
            )  # fmt: skip
            batch.stop[: cursor[0]] = stopped
