"""``graph-cut``: exact maximisation for binary submodular models by minimum cuts.

Factors join two variables, or three (one more node each), or any number that like to agree (their auxiliary variables
are two more nodes; Kohli, Kumar and Torr, CVPR 2007); the construction is in :mod:`ssvm_backends.cuts.graph`,
the flow in :mod:`ssvm_backends.cuts.maxflow`.  Structure is laid out once for a program; a call prices capacities and
runs the flow example by example in one kernel, and looks at the clock every few milliseconds.

Whether scores are submodular shows at solve time only (it depends on weights): a table that is not raises
:class:`~ssvm_dsl.errors.ScoreError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.cuts.score_errors import lacking
from ssvm_backends.graphs.by_example import pack_arrays
from ssvm_backends.graphs.graph import build_graph, graph_bytes
from ssvm_backends.graphs.reduce import Reduced, reduce_problem
from ssvm_dsl.ir import F64, I32, I64, Need, Program, Question, Solution, Stop
from ssvm_dsl.kernels import pack
from ssvm_dsl.plugin_api import Clock, CompiledOracle, Verdict

if TYPE_CHECKING:
    from ssvm_backends.cuts.graph import CutGraph

#: Arcs looked at between two looks at the clock: a few milliseconds.
BUDGET = 1_000_000

#: Operations of a call that has next to nothing to do, and for each variable and factor.
CALL, LINKED = 2048.0, 200.0

_WANTED = "t(0, 0) + t(1, 1) >= t(0, 1) + t(1, 0) in every table (of three variables: whatever the third)"
_HINT = "keep the weights of such factors non-negative (form=POTTS, nonneg=True), or use 'qpbo', 'trws' or 'combi'"


class GraphCut:
    """Boykov-Kolmogorov maximum flow; near linear on the sparse graphs of images, O(V^2 E C) at worst."""

    def check(self, need: Need) -> Verdict:
        """Accept binary problems; whether they are submodular shows when scores are there."""
        return Verdict(True, 60.0 * (need.n_variables + need.n_factors), n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> GraphCutSession:
        """Return a session."""
        return GraphCutSession(program)


class GraphCutSession:
    """Minimum cuts on the examples of a program.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph = build_graph(program)
        self._single = bool((program.card < 2).any())

    @cached_property
    def _cut(self) -> CutGraph:
        from ssvm_backends.cuts.graph import build_cut_graph

        return build_cut_graph(self.graph)

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`.

        Raises
        ------
        ScoreError
            A table is not submodular.
        """
        ids, clock = question.ids(self.program), Clock.start(question.limits)
        reduced = reduce_problem(self.program, self.graph, question, always=self._single)
        lost = np.zeros(len(ids))
        labels, reached, stop = self._labels(reduced, ids, clock, lost)
        there = (np.arange(len(ids)) < reached) & reduced.feasible
        bound = np.where(there, -np.inf, np.nan)  # lifted to the score of the labelling
        stops = np.where(np.arange(len(ids)) < reached, Stop.FINISHED, stop).astype(np.int8)
        solution = pack_arrays(self.program, question.theta, ids, reduced, labels, there, bound, stops)
        solution.bound += lost
        return solution

    def compiled(self) -> CompiledOracle | None:
        """Return the oracle for trainers that call it inside their own kernels.

        ``None`` where masks or variables of one state have to be taken out first.
        """
        if self._single or self.program.allowed is not None:
            return None
        from ssvm_backends.cuts.cut_oracle import OF_GRAPH, cut_oracle

        arrays = [getattr(self.graph, name) for name in OF_GRAPH]
        size = self.graph.n_variables + self.graph.n_factors
        work = CALL + LINKED * size / max(self.program.n_examples, 1)
        return CompiledOracle(cut_oracle, *pack(*arrays, *self._cut), 0, work, finite=True)

    def _labels(self, reduced: Reduced, ids: I64, clock: Clock, lost: F64) -> tuple[I32, int, Stop]:
        """Return (packed labels of the reduced instance, examples that are finished, why not more).

        How far the best scores may be above those of the labels goes to ``lost``.
        """
        from ssvm_backends.cuts.graph import build_cut_graph
        from ssvm_backends.cuts.kernels import STATE_SIZE, cut_batch
        from ssvm_backends.cuts.maxflow import CONTROL_SIZE, workspace

        instance, ptr = reduced.instance, reduced.label_ptr
        cut = self._cut if reduced.kept is None else build_cut_graph(instance.graph)
        node, arc = workspace(*cut.extent(reduced.ids))
        labels = np.zeros(int(ptr[-1]), dtype=np.int32)
        control, state = np.zeros(CONTROL_SIZE, np.int64), np.zeros(STATE_SIZE, np.int64)
        state[2] = -1
        try:
            while not clock.over:
                if cut_batch(
                    instance.graph, cut, instance.node, instance.pool, reduced.ids, ptr, labels, lost, node, arc,
                    control, state, BUDGET,
                ):  # fmt: skip
                    return labels, len(ids), Stop.FINISHED
                if state[2] >= 0:
                    raise lacking("graph-cut", _WANTED, _HINT, self.program, ids, reduced, int(state[2]))
        except KeyboardInterrupt:
            return labels, int(state[0]), Stop.INTERRUPTED
        return labels, int(state[0]), Stop.TIME
