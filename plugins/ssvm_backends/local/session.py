"""Sessions of heuristics that look for good labellings of a batch and can promise nothing.

There is always an answer to start from: the best states by unary scores, or those of an earlier call where they are
allowed.  The search improves it example by example; what time or the user cut short keeps what it has.  Bounds are
``nan``, except where propagation of forbidden states proved that there is no labelling (``-inf``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_backends.graphs.by_example import pack_arrays
from ssvm_backends.graphs.graph import Instance, build_graph
from ssvm_backends.graphs.reduce import Reduced, reduce_problem
from ssvm_dsl.ir import I8, I32, I64, Program, Question, Solution, Stop, label_ptr, members, pointers
from ssvm_dsl.plugin_api import Clock

#: Table entries between two looks at the clock; some 10 to 40 ms.
BUDGET = 2_000_000


@dataclass(frozen=True, eq=False)
class Batch:
    """What a search works on.

    Parameters
    ----------
    instance : Instance
    ids : ndarray of int64, shape (n,)
        The examples, as numbered in the instance.
    numbers : ndarray of int64, shape (n,)
        As numbered in the program.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each start.
    labels : ndarray of int32
        The best labellings so far, to be improved in place.
    stop : ndarray of int8, shape (n,)
        Why the search ended; to be set where it is not for lack of time.
    """

    instance: Instance
    ids: I64
    numbers: I64
    label_ptr: I64
    labels: I32
    stop: I8

    def largest(self) -> tuple[int, int, int]:
        """Return the most (variables, states, numbers in messages) of an example."""
        g, first, last = self.instance.graph, self.ids, self.ids + 1
        lo, hi = g.var_ptr[first], g.var_ptr[last]
        slots = g.slot_ptr[g.factor_ptr]
        messages = g.message_ptr[slots[last]] - g.message_ptr[slots[first]]
        counts = hi - lo, g.state_ptr[hi] - g.state_ptr[lo], messages
        variables, states, numbers = (int(count.max(initial=1)) for count in counts)
        return variables, states, numbers


class HeuristicSession(ABC):
    """Improves labellings of the examples asked for.

    Parameters
    ----------
    program : Program
    options : mapping
        The backend's options.
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program, self.options = program, options
        self.graph = build_graph(program)

    @abstractmethod
    def search(self, batch: Batch, clock: Clock, iterations: int) -> None:
        """Improve ``batch.labels`` and set ``batch.stop``; ``iterations`` is the limit asked for (or very large)."""

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        ids, clock, limits = question.ids(self.program), Clock.start(question.limits), question.limits
        reduced = reduce_problem(self.program, self.graph, question)
        labels = start_labels(self.program, reduced, ids, question.warm)
        stop = np.full(len(ids), Stop.TIME, dtype=np.int8)
        batch = Batch(reduced.instance, reduced.ids, ids, reduced.label_ptr, labels, stop)
        try:
            self.search(batch, clock, np.iinfo(np.int32).max if limits.iterations is None else limits.iterations)
        except KeyboardInterrupt:
            stop[stop == Stop.TIME] = Stop.INTERRUPTED
        bound = np.full(len(ids), np.nan)
        solution = pack_arrays(self.program, question.theta, ids, reduced, labels, reduced.feasible.copy(), bound, stop)
        ptr = label_ptr(self.program, ids)
        solution.warm = {e: solution.labels[ptr[i] : ptr[i + 1]] for i, e in enumerate(ids.tolist())}
        return solution


def start_labels(program: Program, reduced: Reduced, ids: I64, warm: Any) -> I32:
    """Return labels of what is left: those of ``warm`` (by example) where they are open, else the best unary scores."""
    graph = reduced.instance.graph
    variables = members(graph.var_ptr, reduced.ids)
    card = graph.card[variables].astype(np.int64)
    first, ptr = graph.state_ptr[variables], pointers(card)
    node = reduced.instance.node[np.repeat(first - ptr[:-1], card) + np.arange(int(ptr[-1]))]
    # the first position of each variable's maximum
    top = np.repeat(np.maximum.reduceat(node, ptr[:-1]), card) if len(card) else node
    hits = np.flatnonzero(node == top)
    owner = np.repeat(np.arange(len(card)), card)[hits]
    labels = np.zeros(len(card), dtype=np.int32)
    labels[owner[::-1]] = (hits - ptr[owner])[::-1]
    if not isinstance(warm, dict) or not warm:
        return labels
    empty = [np.full(int(n), -1, np.int32) for n in np.diff(label_ptr(program, ids))]
    full = np.concatenate([warm.get(e, none) for e, none in zip(ids.tolist(), empty, strict=True)] or [labels])
    if reduced.kept is None:
        return np.where(full >= 0, full, labels).astype(np.int32)
    variable = np.repeat(np.arange(len(card)), card)
    same = np.flatnonzero(full[reduced.kept][variable] == reduced.state)
    labels[variable[same]] = same - ptr[variable[same]]
    return labels
