"""The kernel of ``icm``: local search from one start after the other, example after example."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.graph import Graph
from ssvm_backends.graphs.random_numbers import STEP, mixed
from ssvm_backends.local.search import local_search, score_of
from ssvm_backends.local.session import SearchBatch
from ssvm_dsl.ir import I32, Bools
from ssvm_dsl.kernels import assign, njit

#: The state of a search: the example, the run, whether the run has begun.
RUN_STATE = np.dtype([("example", np.int64), ("run", np.int64), ("begun", np.int64)])


class LocalRuns(NamedTuple):
    """Runs of the local search for each example: one from its labels, the others from random ones.

    Parameters
    ----------
    most : int
        How many for each example.
    seed : int
        Seed of the random labellings.
    pairs : bool
        Whether to try moves of two variables.
    now, stale : ndarray
        Work space: the labelling of the run at hand, and which variables it has yet to look at (two flags for each).
    state : ndarray of RUN_STATE, shape (1,)
        The state of the search, in and out; zeros at first.
    """

    most: int
    seed: int
    pairs: bool
    now: I32
    stale: Bools
    state: NDArray[np.void]


@njit(cache=True, nogil=True)
def icm_steps(batch: SearchBatch, runs: LocalRuns, budget: int) -> None:
    """Continue from ``runs.state`` until all examples are done or about the budget is spent.

    Parameters
    ----------
    batch : SearchBatch
        ``labels`` and ``score`` are improved in place; each example's first run starts from its labels.
    runs : LocalRuns
        Continued in place.
    budget : int
        About how many table entries to look at.
    """
    instance, at, left = batch.instance, runs.state[0], budget
    graph, label_ptr = instance.graph, batch.label_ptr
    while at.example < len(batch.ids) and left > 0:
        i, run = at.example, at.run
        e = batch.ids[i]
        lo, hi = graph.var_ptr[e], graph.var_ptr[e + 1]
        best, stale = batch.labels[label_ptr[i] : label_ptr[i + 1]], runs.stale[: 2 * (hi - lo)]
        # the first run works in place: there is always its result so far
        mine = best if run == 0 else runs.now[: hi - lo]
        if at.begun == 0:
            stale[:] = True
            if run > 0:
                draw(graph, lo, runs.seed, batch.numbers[i], run, mine)
            at.begun = 1
        # always the same budget: where a long run is interrupted must not depend on the examples before it
        if not local_search(graph, instance.node, instance.pool, e, mine, stale, runs.pairs, budget):
            return
        reached = score_of(graph, instance.node, instance.pool, e, mine)
        if run == 0 or reached > batch.score[i]:
            batch.score[i] = reached
            assign(best, mine)
        at.run, at.begun = run + 1, 0
        if at.run == runs.most:
            at.example, at.run = i + 1, 0
        slots = graph.touch_ptr[hi] - graph.touch_ptr[lo]
        left -= 8 * (graph.state_ptr[hi] - graph.state_ptr[lo]) * (1 + slots // max(hi - lo, 1))


@njit(cache=True, nogil=True)
def draw(graph: Graph, lo: int, seed: int, number: int, run: int, labels: I32) -> None:
    """Write a random labelling (a SplitMix64 generator started from seed, example and run)."""
    state = np.uint64(seed) * STEP + np.uint64(number) * np.uint64(0xD1B54A32D192ED03)
    state += np.uint64(run) * np.uint64(0x8CB92BA72F3D8DD7)
    for v in range(len(labels)):
        state += STEP
        labels[v] = np.int32(mixed(state) % np.uint64(graph.card[lo + v]))
