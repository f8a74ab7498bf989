"""``icm``: iterated conditional modes (Besag 1986) with restarts and moves of pairs; a heuristic for any graph.

The first run starts from the best unary scores (or from the labels of an earlier call), the others from labellings
drawn at random; the best end point is the answer.  The draws depend on the seed, the example and the run alone,
so answers do not depend on which examples are asked for together.

No maintained library for Python offers it for factors of any size: OpenGM and libDAI are not on PyPI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.graph import Graph, graph_bytes
from ssvm_backends.graphs.kernels import STEP, random_bits
from ssvm_backends.graphs.session import GraphCall
from ssvm_backends.local.search import local_search, score_of
from ssvm_backends.local.session import BUDGET, HeuristicSession, SearchBatch
from ssvm_dsl.ir import I32, Bools, Need, Program, Stop
from ssvm_dsl.kernels import assign, njit
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


# -- The kernel of ``icm``: local search from one start after the other, example after example -----------------------

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
        labels[v] = np.int32(random_bits(state) % np.uint64(graph.card[lo + v]))
