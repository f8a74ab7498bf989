"""``maxflow``: exact maximisation of binary submodular models by the minimum cuts of PyMaxflow.

Boykov and Kolmogorov (PAMI 2004): near linear on the sparse graphs of images.  Scores become a network of whole numbers
in :mod:`ssvm_maxflow.network`, which says what rounding does to answers.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import Need, Primal, Program, Question, Solution, Stop
from ssvm_dsl.plugin_api import Verdict, loading
from ssvm_maxflow.network import Example, Network

I32 = NDArray[np.int32]

#: Seconds for each variable and factor that a cut may take: one that is begun cannot be cut short.
SECONDS = 2e-6


class MaxFlow:
    """Boykov-Kolmogorov maximum flow."""

    def check(self, need: Need) -> Verdict:
        """Accept binary submodular problems, as ``Caps`` say."""
        size = float(need.n_variables + need.n_factors)
        return Verdict(True, 60.0 * size + 1e4 * need.n_examples, n_bytes=200.0 * size / max(need.n_examples, 1))

    def open(self, program: Program, options: Mapping[str, Any]) -> Session:
        """Return a session."""
        with loading():
            importlib.import_module("maxflow")
        return Session(program)


class Session:
    """Answers example by example.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        ids, node, limits = question.ids(self.program), question.masked_node(self.program), question.limits
        end = np.inf if limits.time is None else perf_counter() + limits.time
        labels = [np.zeros(size, np.int32) for size in np.diff(question.label_ptr(self.program))]
        score, bound = np.full(len(ids), -np.inf), np.full(len(ids), np.nan)
        stop = np.full(len(ids), Stop.TIME, np.int8)
        for number, i in enumerate(ids.tolist()):
            example = Example.of(self.program, question.theta, node, i)
            if perf_counter() + SECONDS * (len(example.node) + len(example.scope)) >= end:
                break
            labels[number], score[number], bound[number] = best(example)
            stop[number] = Stop.FINISHED
        packed = np.concatenate([np.zeros(0, np.int32), *labels])
        return Solution(packed, score, bound, stop, Primal.codes(score, bound))


def best(example: Example) -> tuple[I32, float, float]:
    """Return the best labelling of an example, its score and an upper bound; ``-inf`` for both without any."""
    network = Network.of(example)
    if network is None:
        return np.zeros(len(example.node), dtype=np.int32), -np.inf, -np.inf
    cut, labels = minimum_cut(network)
    score = example.score(labels)
    return labels, score, network.peak - network.unit * cut if score > -np.inf else -np.inf


def minimum_cut(network: Network) -> tuple[int, I32]:
    """Return the cost of the best labelling, and the labelling: for each variable the side, 0 for the source's."""
    import maxflow

    n = len(network.source)
    if not n:
        return network.base, np.zeros(0, dtype=np.int32)
    graph = maxflow.Graph[int](n, len(network.scope))
    nodes = graph.add_grid_nodes(n)
    graph.add_grid_tedges(nodes, network.source, network.sink)
    if len(network.scope):
        first, second = np.ascontiguousarray(network.scope.T)
        graph.add_edges(first, second, network.forth, network.back)
    value = int(graph.maxflow())
    return network.base + value, graph.get_grid_segments(nodes).astype(np.int32)
