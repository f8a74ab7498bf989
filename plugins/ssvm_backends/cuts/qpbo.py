"""``qpbo``: roof duality for any binary pairwise problem: a certified bound and a partial labelling.

The bound is the optimum of the local polytope, from one flow on twice the variables
(:mod:`ssvm_backends.cuts.roof_duality`).
States that roof duality decides are kept.  When all are decided the labelling is optimal and the bound is its
score.  Open variables are filled in by the heuristic that the option ``rest`` names; with ``rest="none"`` there is
no labelling unless all is decided.  ``icm`` moves one variable at a time, ``pairs`` then moves two neighbours together
(better, but slow on dense graphs: on 500 variables that all interact, 7.4 s against 0.6 s).

The task ``relaxed`` gives the optimum of the local polytope itself: open variables are one half.

One kernel runs over the examples of a call (:mod:`ssvm_backends.cuts.roof_duality`) and comes back every few
milliseconds for a check of the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from time import thread_time
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.graphs.graph import Graph, graph_bytes
from ssvm_backends.graphs.reduce import everything
from ssvm_backends.graphs.session import GraphCall, GraphSession
from ssvm_dsl.ir import Need, Program, Question, Solution, Stop, Task, Topology, members
from ssvm_dsl.plugin_api import Clock, Verdict

if TYPE_CHECKING:
    from ssvm_backends.cuts.roof_duality import Halves

#: The treatment of open variables, by the option ``rest``.
OPEN = {
    "none": "where variables are left open there is no answer (rest='none')",
    "icm": "variables that are left open are filled in by local search (rest='icm')",
    "pairs": "variables that are left open are filled in by local search, two at a time (rest='pairs')",
}

#: Arcs visited between two checks of the clock: a few milliseconds.
BUDGET = 1_000_000


class QPBO:
    """Roof duality (Hammer, Hansen and Simeone 1984): one flow on a network of twice the size of the graph."""

    def check(self, need: Need) -> Verdict:
        """Accept every binary pairwise problem; report the treatment of variables that roof duality leaves open."""
        asks_labels = need.topology is Topology.LOOPY and need.tasks != {Task.RELAXED}
        notes = (OPEN[need.options.get("rest", "icm")],) if asks_labels else ()
        return Verdict(True, 250.0 * (need.n_variables + need.n_factors), notes, graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> RoofSession:
        """Open the backend on a program of two states; the session answers ``map`` with bounds, and ``relaxed``."""
        return RoofSession(program, options)


class RoofSession(GraphSession):
    """Roof duality on the examples of a program; the labels of a call are the decided states, -1 where open.

    Parameters
    ----------
    program : Program
    options : mapping
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program, options)
        self.compact = bool((program.card < 2).any())

    @cached_property
    def _halves(self) -> Halves:
        from ssvm_backends.cuts.roof_duality import Halves

        return Halves(self.program, self.graph)

    @cached_property
    def _extent(self) -> tuple[int, int]:
        return extent(self.graph)

    def solve(self, question: Question) -> Solution:
        """Answer ``map``, ``map_clamped`` or ``relaxed``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        call = self.searched(question)
        call.there = call.reduced.feasible & ~np.isnan(call.bound)
        return self._fractions(call) if question.task is Task.RELAXED else self._labelling(call)

    def begin(self, question: Question) -> GraphCall:
        """Return the call of a question; without masks or clamps, forbidden states are found during the flows."""
        if self.program.allowed is not None or question.clamp is not None or self.compact:
            return super().begin(question)
        clock, whole = Clock.start(question.limits), everything(self.graph, question.theta, question.ids(self.program))
        return GraphCall.start(self.program, question, whole, clock)

    def search(self, call: GraphCall) -> None:
        """Run the flows; if states are forbidden, take them out and restart."""
        if not self._flows(call, whole=call.reduced.kept is None):
            call.retake(self.remainders.reduce(call.question, always=self.compact))
            self._flows(call, whole=False)

    def _flows(self, call: GraphCall, whole: bool) -> bool:
        """Run the flows; return False if ``whole`` states that nothing is forbidden, and something is."""
        from ssvm_backends.cuts import roof_duality as kernels
        from ssvm_backends.cuts.maxflow import workspace

        n, m = self._extent if whole else extent(call.instance.graph)
        flow, stack = workspace(2 * n, 4 * m), np.empty(2 * n, np.int64)
        call.labels[:], state = -1, np.zeros(1, kernels.ROOF_STATE)
        reduced = call.reduced
        batch = kernels.RoofBatch(
            call.instance, reduced.ids, reduced.feasible, call.label_ptr, call.labels, call.bound
        )  # fmt: skip
        begin = thread_time()
        try:
            call.run(lambda: kernels.roof_batch(batch, whole, flow, stack, state, BUDGET) or state[0]["forbidden"] > 0)
        finally:
            call.stop[: int(state[0]["finished"])] = Stop.FINISHED
            call.stats["solver_seconds"] = thread_time() - begin
        return not state[0]["forbidden"]

    def _fractions(self, call: GraphCall) -> Solution:
        """Return the optima of the local polytopes of some examples."""
        decided, kept = call.labels, call.reduced.kept
        if kept is not None:
            decided = call.reduced.lift(np.maximum(call.labels, 0))
            decided[kept[call.labels < 0]] = -1
        theta, there = call.question.theta, call.there
        marginals, score, primal = self._halves.solution(theta, call.ids, decided, there, call.bound)
        return Solution(np.zeros(0, np.int32), score, call.bound, call.stop, primal, marginals, stats=call.stats)

    def _labelling(self, call: GraphCall) -> Solution:
        """Return labellings with the decided states; none where states stay open and ``rest`` is ``"none"``."""
        from ssvm_backends.local.search import improve_within

        reduced, instance, ptr, decided = call.reduced, call.instance, call.label_ptr, call.labels
        is_open = decided < 0
        n_open = np.bincount(np.repeat(np.arange(call.n_examples), np.diff(ptr)), is_open, call.n_examples)
        first = instance.graph.state_ptr[members(instance.graph.var_ptr, reduced.ids)]
        alone = instance.node[first + 1] > instance.node[first]
        call.labels = labels = np.where(is_open, alone, decided).astype(np.int32)
        if self.options["rest"] == "none":
            call.there &= n_open == 0
        improved, why, pairs = 0, Stop.TIME, self.options["rest"] == "pairs"
        with_open = np.flatnonzero(call.there & (n_open > 0))
        try:
            for i in with_open.tolist():
                if improved > 0 and call.clock.over:
                    break
                mine, here = slice(ptr[i], ptr[i + 1]), int(reduced.ids[i])
                if not improve_within(
                    instance.graph, instance.node, instance.pool, here, labels[mine], call.clock, pairs
                ):
                    break
                improved += 1
        except KeyboardInterrupt:
            why = Stop.INTERRUPTED
        call.stop[with_open[improved:]] = why
        labels[~is_open] = decided[~is_open]
        call.stats |= {"decided": int((~is_open).sum()), "variables": len(is_open)}
        return call.solution()


def extent(graph: Graph) -> tuple[int, int]:
    """Return the most variables, and the most factors, of an example."""
    return int(np.diff(graph.var_ptr).max(initial=0)), int(np.diff(graph.factor_ptr).max(initial=0))
