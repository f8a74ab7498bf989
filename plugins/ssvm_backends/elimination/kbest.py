"""The k best labellings of a graph of small width; see :mod:`ssvm_dsl.plugin_api.lawler`.

A subspace is the same graph with fewer states, so that one plan serves them all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_backends.elimination.max import maximise
from ssvm_backends.elimination.plan import Compiled
from ssvm_backends.elimination.plan_cache import PlanCache
from ssvm_backends.graphs.deadline import TimeUp
from ssvm_backends.graphs.graph import Instance
from ssvm_backends.graphs.ranked_lists import check_lists, pack_ranked
from ssvm_backends.graphs.reduce import Reduced
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import I64, Solution, Stop, Theta
from ssvm_dsl.plugin_api import Clock, Ranked, Subspace, SubspaceSolver, k_best_of


class _Elimination(SubspaceSolver):
    """Maximises over subspaces of the labellings of one example by elimination."""

    def __init__(self, compiled: Compiled, instance: Instance, example: int, clock: Clock) -> None:
        graph = instance.graph
        first, last = graph.var_ptr[example], graph.var_ptr[example + 1]
        ends = graph.state_ptr[first : last + 1]
        super().__init__(ends - ends[0])
        self.compiled, self.clock, self.ids = compiled, clock, np.array([example], dtype=np.int64)
        self.mine, self.n = slice(int(ends[0]), int(ends[-1])), int(last - first)
        self.clean = instance.node[self.mine].copy()
        self.instance = instance._replace(node=instance.node.copy())

    def whole(self) -> Subspace:
        """Return the set of all labellings."""
        return Subspace.of_all(np.ones(len(self.clean), dtype=bool), self.n)

    def solve(self, space: Subspace, floor: Callable[[], float]) -> Subspace | None:
        """Return a subspace with its best labelling, ``None`` where all have a forbidden joint state."""
        self.instance.node[self.mine] = np.where(space.states(self.ptr), self.clean, -np.inf)
        labels, score, zero = np.zeros(self.n, np.int32), np.zeros(1), np.zeros(1, np.int64)
        if not maximise(self.compiled, self.instance, self.ids, zero, labels, score, zero, self.clock):
            raise TimeUp
        return space.with_best(labels, float(score[0])) if score[0] > -np.inf else None


def k_best(plans: PlanCache, theta: Theta, ids: I64, reduced: Reduced, clock: Clock, k: int) -> Solution:
    """Answer the task ``kbest``; the list of an example that time or the user cut short may lack some."""
    check_lists(np.diff(reduced.label_ptr), k)
    late = Ranked([], Stop.TIME)
    answers = [late if feasible else Ranked([], Stop.FINISHED) for feasible in reduced.feasible.tolist()]
    for key, places in plans.by_structure(reduced):
        for i in places[reduced.feasible[places]].tolist():
            if clock.over or late.stop is Stop.INTERRUPTED:  # before anything is prepared for the example
                answers[i] = late
                continue
            try:
                compiled = plans.plan(key, False)
            except OutOfTime:  # while the graph was planned
                answers[i] = late
                continue
            solver = _Elimination(compiled, reduced.instance, int(reduced.ids[i]), clock)
            answers[i] = k_best_of(solver, solver.whole, k)
            if answers[i].stop is Stop.INTERRUPTED:
                late = Ranked([], Stop.INTERRUPTED)
    return pack_ranked(plans.program, theta, ids, reduced.label_ptr, reduced.lift, answers, k)
