"""The kernel of ``icm``: local search from one start after the other, example after example."""

from __future__ import annotations

import numpy as np

from ssvm_backends.graphs.graph import Graph
from ssvm_backends.graphs.random_numbers import STEP, mixed
from ssvm_backends.local.search import local_search, score_of
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import assign, njit


@njit(cache=True, nogil=True)
def icm_steps(
    graph: Graph, node: F64, pool: F64, ids: I64, numbers: I64, label_ptr: I64, labels: I32, score: F64, runs: int,
    seed: int, pairs: bool, now: I32, stale: Bools, cursor: I64, budget: int,
) -> None:  # fmt: skip
    """Go on from where ``cursor`` says until all examples are done or about the budget is spent.

    Parameters
    ----------
    graph : Graph
        Structure; read only.
    node, pool : ndarray of float64
        Unary scores and tables of all examples; ``-inf`` is forbidden.
    ids : ndarray of int64, shape (n,)
        The examples.
    numbers : ndarray of int64, shape (n,)
        What random labellings of each are drawn by, besides ``seed`` and the run: its number in the program.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each start.
    labels, score : ndarray
        The best labellings and their scores so far; each example's first run starts from its labels.
    runs : int
        Runs of the local search for each example: one from its labels, the others from random ones.
    seed : int
        Seed of the random labellings.
    pairs : bool
        Whether to try moves of two variables.
    now, stale : ndarray
        Work space: the labelling of the run at hand, and which variables it has yet to look at (two flags for each).
    cursor : ndarray of int64, shape (3,)
        (example, run, whether the run has begun); zeros at first, (n, 0, 0) when done.
    budget : int
        About how many table entries to look at.
    """
    left = budget
    while cursor[0] < len(ids) and left > 0:
        i, run = cursor[0], cursor[1]
        lo, hi = graph.var_ptr[ids[i]], graph.var_ptr[ids[i] + 1]
        best = labels[label_ptr[i] : label_ptr[i + 1]]
        mine = best if run == 0 else now[: hi - lo]  # the first run works in place: there is always its result so far
        if cursor[2] == 0:
            stale[: 2 * (hi - lo)] = True
            if run > 0:
                draw(graph, lo, seed, numbers[i], run, mine)
            cursor[2] = 1
        # always the same budget: where a long run is interrupted must not depend on the examples before it
        if not local_search(graph, node, pool, ids[i], mine, stale[: 2 * (hi - lo)], pairs, budget):
            return
        reached = score_of(graph, node, pool, ids[i], mine)
        if run == 0 or reached > score[i]:
            score[i] = reached
            assign(best, mine)
        cursor[1], cursor[2] = run + 1, 0
        if cursor[1] == runs:
            cursor[0], cursor[1] = i + 1, 0
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
