"""Sessions of heuristics that look for good labellings of a batch and can promise nothing.

There is always an answer to start from: the best states by unary scores, or those of an earlier call where they are
allowed.  The search improves it example by example; what time or the user cut short keeps what it has.  Bounds are
``nan``, except where propagation of forbidden states proved that there is no labelling (``-inf``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.graph import Instance, top_states
from ssvm_backends.graphs.reduce import Reduced
from ssvm_backends.graphs.session import GraphCall, GraphSession, labels_by_example
from ssvm_dsl.ir import F64, I8, I32, I64, Program, Question, Solution, label_ptr, members, pointers

#: Table entries between two checks of the clock; some 10 to 40 ms.
BUDGET = 2_000_000


class SearchBatch(NamedTuple):
    """The input and output of a search.

    Parameters
    ----------
    instance : Instance
        Unary scores are finite; tables may hold ``-inf`` but allow every state.
    ids : ndarray of int64, shape (n,)
        The examples, as numbered in the instance.
    numbers : ndarray of int64, shape (n,)
        As numbered in the program.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each start.
    labels : ndarray of int32
        The best labellings so far, to be improved in place.
    score : ndarray of float64, shape (n,)
        Written: their scores without the constants.
    stop : ndarray of int8, shape (n,)
        Why the search ended; to be set where it is not for lack of time.
    """

    instance: Instance
    ids: I64
    numbers: I64
    label_ptr: I64
    labels: I32
    score: F64
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


class HeuristicSession(GraphSession):
    """Improves labellings of the examples asked for."""

    @abstractmethod
    def improve(self, batch: SearchBatch, call: GraphCall, iterations: int) -> None:
        """Improve ``batch.labels`` and set ``batch.stop``; ``iterations`` is the limit asked for (or very large)."""

    def search(self, call: GraphCall) -> None:
        """Improve the labellings that the call starts from, until no move helps or time is up."""
        limit, reduced = call.clock.limits.iterations, call.reduced
        call.labels[:] = start_labels(self.program, reduced, call.ids, call.starts)
        call.there[:] = True
        score = np.full(call.n_examples, -np.inf)
        batch = SearchBatch(call.instance, reduced.ids, call.ids, call.label_ptr, call.labels, score, call.stop)
        self.improve(batch, call, np.iinfo(np.int32).max if limit is None else limit)

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        solution = super().solve(question)
        everywhere = np.ones(len(solution.stop), np.bool_)
        solution.warm = labels_by_example(self.program, question.ids(self.program), solution.labels, everywhere)
        return solution


def start_labels(program: Program, reduced: Reduced, ids: I64, warm: Mapping[int, I32]) -> I32:
    """Return labels of reduced examples: those of ``warm`` (by example) where open, else the best unary scores."""
    graph = reduced.instance.graph
    variables = members(graph.var_ptr, reduced.ids)
    card = graph.card[variables].astype(np.int64)
    first, ptr = graph.state_ptr[variables], pointers(card)
    node = reduced.instance.node[np.repeat(first - ptr[:-1], card) + np.arange(int(ptr[-1]))]
    labels = top_states(node, card)
    if not warm:
        return labels
    empty = [np.full(int(n), -1, np.int32) for n in np.diff(label_ptr(program, ids))]
    full = np.concatenate([warm.get(e, none) for e, none in zip(ids.tolist(), empty, strict=True)] or [labels])
    if reduced.kept is None:
        return np.where(full >= 0, full, labels).astype(np.int32)
    variable = np.repeat(np.arange(len(card)), card)
    same = np.flatnonzero(full[reduced.kept][variable] == reduced.state)
    labels[variable[same]] = same - ptr[variable[same]]
    return labels
