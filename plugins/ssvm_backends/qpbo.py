"""``qpbo``: roof duality for any binary pairwise problem: a certified bound and a partial labelling.

The bound is the optimum of the local polytope, from one flow on twice the variables (:mod:`ssvm_backends._cuts.roof`).
States that roof duality decides are kept.  When all are decided the labelling is optimal and the bound is its
score.  What is left open is filled in by the heuristic that the option ``rest`` names; with ``rest="none"`` there is
no labelling unless all is decided.  ``icm`` moves one variable at a time, ``pairs`` then moves two neighbours together
(better, but slow on dense graphs: on 500 variables that all interact, 7.4 s against 0.6 s).

The task ``relaxed`` gives the optimum of the local polytope itself: open variables are one half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends._graphs.by_example import NO_LIMITS, Answer, Clock, ExampleSession
from ssvm_backends._graphs.graph import F64, I32, I64, Instance
from ssvm_backends._graphs.reduce import reduce_problem
from ssvm_dsl.ir import Limits, Need, Primal, Program, Solution, Stop, Task, Theta
from ssvm_dsl.ir.solution import score_marginals, select
from ssvm_dsl.plugin_api import Verdict

#: Arcs looked at between two looks at the clock: a few milliseconds.
BUDGET = 1_000_000


class QPBO:
    """One flow on a network of twice the size, and linear-time labelling."""

    def check(self, need: Need) -> Verdict:
        """Accept every binary pairwise problem."""
        return Verdict(True, 250.0 * (need.n_variables + need.n_factors))

    def open(self, program: Program, options: Mapping[str, Any]) -> RoofSession:
        """Return a session."""
        return RoofSession(program, options)


class RoofSession(ExampleSession):
    """Roof duality, example by example."""

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program, options)
        self.compact = bool((program.card < 2).any())

    def solve(
        self,
        theta: Theta,
        *,
        examples: I64 | None = None,
        task: Task = Task.MAP,
        clamp: I32 | None = None,
        warm: Any = None,
        limits: Limits = NO_LIMITS,
        k: int = 1,
    ) -> Solution:
        """Answer a question; see :class:`~ssvm_dsl.plugin_api.Session`."""
        if task is Task.RELAXED:
            return self._relaxed(theta, select(self.program, examples), Clock.start(limits))
        return super().solve(theta, examples=examples, task=task, clamp=clamp, warm=warm, limits=limits, k=k)

    def _relaxed(self, theta: Theta, ids: I64, clock: Clock) -> Solution:
        """Return the optima of the local polytopes of some examples."""
        from ssvm_backends._cuts.half_integral import half_integral

        reduced, n = reduce_problem(self.program, self.graph, theta, ids, None, always=self.compact), len(ids)
        ptr, here = reduced.label_ptr, reduced.instance.graph.var_ptr
        decided, bound = np.full(int(ptr[-1]), -1, dtype=np.int32), np.full(n, np.nan)
        stop, reached = np.full(n, Stop.TIME, dtype=np.int8), np.zeros(n, dtype=bool)
        for i, example in enumerate(reduced.ids.tolist()):
            if clock.over:
                break
            reached[i] = reduced.feasible[i]
            if not reduced.feasible[i] or here[example] == here[example + 1]:
                bound[i] = reduced.instance.const[example] if reduced.feasible[i] else -np.inf
                stop[i] = Stop.FINISHED
                continue
            decided[ptr[i] : ptr[i + 1]], bound[i], stop[i] = self._roof(reduced.instance, example, clock)
            if stop[i] == Stop.INTERRUPTED:
                stop[i:] = Stop.INTERRUPTED
                break
        low, high = (reduced.lift(np.where(decided < 0, one, decided).astype(np.int32)) for one in (0, 1))
        marginals = half_integral(self.program, theta, ids, low, high)
        score = np.where(reached, score_marginals(self.program, theta, marginals, ids), -np.inf)
        primal = np.where(reached, Primal.FRACTIONAL, np.where(bound == -np.inf, Primal.INFEASIBLE, Primal.NONE))
        bound = np.where(bound < score, score, bound)
        return Solution(np.zeros(0, np.int32), score, bound, stop, primal.astype(np.int8), marginals)

    def solve_one(self, instance: Instance, example: int, clock: Clock, warm: Any) -> Answer:
        """Return bound and labelling of one example."""
        decided, bound, stop = self._roof(instance, example, clock)
        labels = self._filled(instance, example, decided, clock)
        return Answer(labels, bound, stop, stats={"decided": int((decided >= 0).sum()), "variables": len(decided)})

    def _roof(self, instance: Instance, example: int, clock: Clock) -> tuple[I32, float, Stop]:
        """Return (states decided by roof duality or -1, bound, why it ended) of one example."""
        from ssvm_backends._cuts.graph import whole_scale
        from ssvm_backends._cuts.maxflow import CONTROL_SIZE, advance, linked, start
        from ssvm_backends._cuts.roof import roof_labels, roof_links, roof_price

        graph, score, pool = instance.graph, instance.node, instance.pool
        n = int(graph.var_ptr[example + 1] - graph.var_ptr[example])
        m = int(graph.factor_ptr[example + 1] - graph.factor_ptr[example])
        scale = whole_scale(graph, score, pool, example)
        turned, tail, head = np.empty(m, np.bool_), np.empty(2 * m, np.int32), np.empty(2 * m, np.int32)
        roof_links(graph, pool, example, scale, turned, tail, head)
        node, arc, number = linked(2 * n, tail, head)
        const, total = roof_price(graph, score, pool, example, scale, turned, number, node, arc)
        control, stop = np.zeros(CONTROL_SIZE, np.int64), Stop.FINISHED
        start(node, 2 * n, control)
        try:
            while not advance(node, arc, control, BUDGET):
                if clock.over:
                    stop = Stop.TIME
                    break
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        excess = node["excess"][: 2 * n]
        rest = int(np.maximum(excess, 0).sum())
        # rounding: half a unit for each score added up, and 53 binary digits for the sum itself
        bound = (2 * const + total + rest) / (2 * scale) + (n + m + 64) / scale + float(instance.const[example])
        bound += 2 * float(np.spacing(abs(bound)))
        decided = roof_labels(n, number, node, arc) if stop is Stop.FINISHED else np.full(n, -1, np.int32)
        return decided, bound, stop

    def _filled(self, instance: Instance, example: int, decided: I32, clock: Clock) -> I32 | None:
        """Return a labelling with the decided states, ``None`` when some are open and nobody is to fill them in."""
        if (decided >= 0).all():
            return decided
        if self.options["rest"] == "none":
            return None
        return local_search(instance, example, decided, clock, self.options["rest"] == "pairs")


def local_search(instance: Instance, example: int, decided: I32, clock: Clock, pairs: bool) -> I32:
    """Return decided states, and for the others what local search from the best states alone finds."""
    from ssvm_backends._local.search import settle

    graph = instance.graph
    lo, hi = int(graph.var_ptr[example]), int(graph.var_ptr[example + 1])
    alone: F64 = instance.node[graph.state_ptr[lo] : graph.state_ptr[hi]].reshape(-1, 2)
    labels = np.where(decided >= 0, decided, alone.argmax(axis=1)).astype(np.int32)
    stale = np.ones(2 * (hi - lo), np.bool_)
    while not settle(graph, instance.node, instance.pool, example, labels, stale, pairs, BUDGET):
        if clock.over:
            break
    return np.where(decided >= 0, decided, labels).astype(np.int32)
