"""The k best labellings from repeated maximisation (Lawler 1972).

The labellings other than the best one y fall into parts: those that agree with y on the first j variables and
differ at the next.  Each part is a problem of the same graph with fewer states, so its best labelling comes from
the same plan.  The best of all parts is the next labelling; its part is split in the same way.

No maintained library for Python was found that offers it for graphs with cycles.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from ssvm_backends.elimination.max import maximise
from ssvm_backends.elimination.plan import Compiled
from ssvm_backends.elimination.plan_cache import PlanCache
from ssvm_backends.graphs.by_example import check_lists, pack_ranked
from ssvm_backends.graphs.graph import Instance
from ssvm_backends.graphs.reduce import Reduced
from ssvm_dsl.ir import I32, I64, Solution, Stop, Theta
from ssvm_dsl.plugin_api import Clock


@dataclass(frozen=True, eq=False)
class _Subset:
    """Labellings that agree with ``labels`` on variables ``:first`` and avoid ``shut`` at variable ``first``."""

    labels: I32
    first: int
    shut: frozenset[int]


class _Splitter:
    """Lists the labellings of one example, best first."""

    def __init__(self, compiled: Compiled, instance: Instance, example: int, clock: Clock) -> None:
        self.compiled, self.example, self.clock = compiled, example, clock
        self.instance = replace(instance, node=instance.node.copy())
        graph = instance.graph
        lo, hi = graph.var_ptr[example], graph.var_ptr[example + 1]
        self.ptr = graph.state_ptr[lo : hi + 1]
        self.mine = slice(int(self.ptr[0]), int(self.ptr[-1]))
        self.clean = instance.node[self.mine].copy()
        self.n = int(hi - lo)
        self.number = count()  # ties go to the part found first

    def best(self, k: int) -> tuple[list[I32], bool]:
        """Return up to k labellings and whether the list is complete."""
        found: list[I32] = []
        heap: list[tuple[float, int, _Subset]] = []
        late = not self._push(heap, np.zeros(self.n, np.int32), 0, frozenset())
        while heap and not late and len(found) < k:
            part = heapq.heappop(heap)[2]
            found.append(part.labels)
            if len(found) == k:
                break
            for j in range(part.first, self.n):
                shut = (part.shut if j == part.first else frozenset()) | {int(part.labels[j])}
                late = late or not self._push(heap, part.labels, j, shut)
        return found, not late

    def _push(self, heap: list[tuple[float, int, _Subset]], labels: I32, first: int, shut: frozenset[int]) -> bool:
        """Maximise over a part and put it on the heap unless it is empty; return False when time is up."""
        if self.n and len(shut) == self.ptr[first + 1] - self.ptr[first]:
            return True
        node = self.clean.copy()
        for v in range(first):
            keep = self.ptr[v] - self.ptr[0] + labels[v]
            value = node[keep]
            node[self.ptr[v] - self.ptr[0] : self.ptr[v + 1] - self.ptr[0]] = -np.inf
            node[keep] = value
        for s in shut:
            node[self.ptr[first] - self.ptr[0] + s] = -np.inf
        self.instance.node[self.mine] = node
        out, score, zero = np.zeros(self.n, np.int32), np.zeros(1), np.zeros(1, np.int64)
        ids = np.array([self.example], dtype=np.int64)
        if not maximise(self.compiled, self.instance, ids, zero, out, score, zero, self.clock):
            return False
        if score[0] > -np.inf:
            heapq.heappush(heap, (-float(score[0]), next(self.number), _Subset(out, first, shut)))
        return True


def k_best(plans: PlanCache, theta: Theta, ids: I64, reduced: Reduced, clock: Clock, k: int) -> Solution:
    """Answer the task ``kbest``; examples that time or the user cut short have no labelling at all."""
    program, n = plans.program, len(ids)
    check_lists(np.diff(reduced.label_ptr), k)
    listed: list[list[I32]] = [[] for _ in range(n)]
    stop = np.where(reduced.feasible, Stop.TIME, Stop.FINISHED).astype(np.int8)
    try:
        for key, positions in plans.by_structure(reduced):
            for i in positions[reduced.feasible[positions]].tolist():
                if clock.over:  # before anything is prepared for the example
                    break
                compiled = plans.plan(key, False)
                found, complete = _Splitter(compiled, reduced.instance, int(reduced.ids[i]), clock).best(k)
                if complete:
                    stop[i], listed[i] = Stop.FINISHED, found
    except KeyboardInterrupt:
        stop[stop == Stop.TIME] = Stop.INTERRUPTED
    return pack_ranked(program, theta, ids, reduced.label_ptr, reduced.lift, listed, stop, k)
