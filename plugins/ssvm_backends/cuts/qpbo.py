"""``qpbo``: roof duality for any binary pairwise problem: a certified bound and a partial labelling.

The bound is the optimum of the local polytope, from one flow on twice the variables (:mod:`ssvm_backends.cuts.roof`).
States that roof duality decides are kept.  When all are decided the labelling is optimal and the bound is its
score.  What is left open is filled in by the heuristic that the option ``rest`` names; with ``rest="none"`` there is
no labelling unless all is decided.  ``icm`` moves one variable at a time, ``pairs`` then moves two neighbours together
(better, but slow on dense graphs: on 500 variables that all interact, 7.4 s against 0.6 s).

The task ``relaxed`` gives the optimum of the local polytope itself: open variables are one half.

One kernel runs over the examples of a call (:mod:`ssvm_backends.cuts.roof_batch`) and comes back every few
milliseconds for a look at the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from time import thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.by_example import pack_arrays
from ssvm_backends.graphs.graph import Graph, build_graph, graph_bytes, instance_of
from ssvm_backends.graphs.reduce import Reduced, reduce_problem
from ssvm_dsl.ir import F64, I32, I64, Need, Program, Question, Solution, Stop, Task, Theta, Topology, members
from ssvm_dsl.plugin_api import Clock, Verdict

if TYPE_CHECKING:
    from ssvm_backends.cuts.half_integral import Halves

#: What becomes of variables that are left open, by the option ``rest``.
OPEN = {
    "none": "where variables are left open there is no answer (rest='none')",
    "icm": "variables that are left open are filled in by local search (rest='icm')",
    "pairs": "variables that are left open are filled in by local search, two at a time (rest='pairs')",
}

#: Arcs looked at between two looks at the clock: a few milliseconds.
BUDGET = 1_000_000


class QPBO:
    """One flow on a network of twice the size, and linear-time labelling."""

    def check(self, need: Need) -> Verdict:
        """Accept every binary pairwise problem; tell what becomes of variables that roof duality leaves open."""
        asks_labels = need.topology is Topology.LOOPY and need.tasks != {Task.RELAXED}
        notes = (OPEN[need.options.get("rest", "icm")],) if asks_labels else ()
        return Verdict(True, 250.0 * (need.n_variables + need.n_factors), notes, graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> RoofSession:
        """Return a session."""
        return RoofSession(program, options)


@dataclass(frozen=True, eq=False)
class Roof:
    """What roof duality says about some examples.

    Parameters
    ----------
    reduced : Reduced
        What was left of them.
    decided : ndarray of int32
        Packed over ``reduced.ids``: states that belong to an optimum, -1 for the others.
    bound : ndarray of float64, shape (n,)
        ``nan`` where there was no time for one.
    stop : ndarray of int8, shape (n,)
    seconds : float
        Processor time of the flows themselves.
    """

    reduced: Reduced
    decided: I32
    bound: F64
    stop: NDArray[np.int8]
    seconds: float

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Examples that were begun and may have a labelling."""
        return self.reduced.feasible & ~np.isnan(self.bound)

    @property
    def lifted(self) -> I32:
        """States of all variables of the examples, those that were taken out included; -1 where open."""
        kept = self.reduced.kept
        if kept is None:
            return self.decided
        full = self.reduced.lift(np.maximum(self.decided, 0))
        full[kept[self.decided < 0]] = -1
        return full


class RoofSession:
    """Roof duality on the examples of a program.

    Parameters
    ----------
    program : Program
    options : mapping
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program, self.options = program, options
        self.graph = build_graph(program)
        self._single = bool((program.card < 2).any())

    @cached_property
    def _halves(self) -> Halves:
        from ssvm_backends.cuts.half_integral import Halves

        return Halves(self.program, self.graph)

    @cached_property
    def _extent(self) -> tuple[int, int]:
        return extent(self.graph)

    def solve(self, question: Question) -> Solution:
        """Answer ``map``, ``map_clamped`` or ``relaxed``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        clock = Clock.start(question.limits)
        roof = self._roof(question, clock)
        ids = question.ids(self.program)
        if question.task is Task.RELAXED:
            return self._fractions(question.theta, ids, roof)
        return self._labelling(question.theta, ids, roof, clock)

    def _fractions(self, theta: Theta, ids: I64, roof: Roof) -> Solution:
        """Return the optima of the local polytopes of some examples."""
        marginals, score, primal = self._halves.solution(theta, ids, roof.lifted, roof.reached, roof.bound)
        stats = {"solver_seconds": roof.seconds}
        return Solution(np.zeros(0, np.int32), score, roof.bound, roof.stop, primal, marginals, stats=stats)

    def _labelling(self, theta: Theta, ids: I64, roof: Roof, clock: Clock) -> Solution:
        """Return labellings with the decided states, none where some are open and nobody is to fill them in."""
        from ssvm_backends.local.search import improve_within

        reduced, instance, is_open = roof.reduced, roof.reduced.instance, roof.decided < 0
        ptr, there = reduced.label_ptr, roof.reached
        n_open = np.bincount(np.repeat(np.arange(len(ids)), np.diff(ptr)), is_open, len(ids))
        first = instance.graph.state_ptr[members(instance.graph.var_ptr, reduced.ids)]
        alone = instance.node[first + 1] > instance.node[first]
        labels: I32 = np.where(is_open, alone, roof.decided).astype(np.int32)
        if self.options["rest"] == "none":
            there &= n_open == 0
        for k, i in enumerate(np.flatnonzero(there & (n_open > 0)).tolist()):
            if k > 0 and clock.over:
                break
            part, pairs = slice(ptr[i], ptr[i + 1]), self.options["rest"] == "pairs"
            here = int(reduced.ids[i])
            improve_within(instance.graph, instance.node, instance.pool, here, labels[part], clock, pairs)
        labels[~is_open] = roof.decided[~is_open]
        solution = pack_arrays(self.program, theta, ids, reduced, labels, there, roof.bound, roof.stop)
        solution.stats = {"decided": int((~is_open).sum()), "variables": len(is_open), "solver_seconds": roof.seconds}
        return solution

    def _roof(self, question: Question, clock: Clock) -> Roof:
        """Return what roof duality says."""
        if self.program.allowed is None and question.clamp is None and not self._single:
            ids = question.ids(self.program)
            none, instance = np.zeros(0, np.int32), instance_of(self.graph, question.theta)
            all_open = Reduced(instance, ids, np.ones(len(ids), bool), None, none, none, none.astype(np.int64))
            found = self._flows(all_open, clock, whole=True)
            if found is not None:
                return found
        reduced = reduce_problem(self.program, self.graph, question, always=self._single)
        found = self._flows(reduced, clock, whole=False)
        assert found is not None
        return found

    def _flows(self, reduced: Reduced, clock: Clock, whole: bool) -> Roof | None:
        """Run the flows; ``None`` where nothing is said to be forbidden (``whole``) and something is."""
        from ssvm_backends.cuts import roof_batch as kernels
        from ssvm_backends.cuts.maxflow import CONTROL_SIZE, workspace

        instance, graph, ids, ptr = reduced.instance, reduced.instance.graph, reduced.ids, reduced.label_ptr
        n, m = self._extent if whole else extent(graph)
        node, arc = workspace(2 * n, 4 * m)
        decided, bound = np.full(int(ptr[-1]), -1, dtype=np.int32), np.full(len(ids), np.nan)
        state, control, scale = np.zeros(kernels.STATE_SIZE, np.int64), np.zeros(CONTROL_SIZE, np.int64), np.ones(1)
        stack, done, why = np.empty(2 * n, np.int64), False, Stop.TIME
        begin = thread_time()
        try:
            while not (done or clock.over):
                done = kernels.roof_batch(
                    graph, instance.node, instance.pool, instance.const, ids, reduced.feasible, whole, ptr, decided,
                    bound, node, arc, stack, control, state, scale, BUDGET,
                )  # fmt: skip
                if state[kernels.FORBIDDEN]:
                    return None
        except KeyboardInterrupt:
            why = Stop.INTERRUPTED
        stop = np.full(len(ids), why, np.int8)
        stop[: state[kernels.FINISHED]] = Stop.FINISHED
        return Roof(reduced, decided, bound, stop, thread_time() - begin)


def extent(graph: Graph) -> tuple[int, int]:
    """Return the most variables, and the most factors, of an example."""
    return int(np.diff(graph.var_ptr).max(initial=0)), int(np.diff(graph.factor_ptr).max(initial=0))
