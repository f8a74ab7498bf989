"""``graph-cut``: exact maximisation for binary submodular models by minimum cuts.

Factors join two variables, or three (one more node each), or any number in P^n Potts factors (their auxiliary variables
are two more nodes; Kohli, Kumar and Torr, CVPR 2007); the construction is in :mod:`ssvm_backends.cuts.graph`,
the flow in :mod:`ssvm_backends.cuts.maxflow`.  Structure is laid out once for a program; a call prices capacities and
runs the flow example by example in one kernel, and checks the clock every few milliseconds.

Submodularity depends on the weights, so it is checked at solve time only: a table that is not submodular raises
:class:`~ssvm_dsl.errors.ScoreError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.graphs.graph import graph_bytes
from ssvm_backends.graphs.reduce import Reduced
from ssvm_backends.graphs.session import GraphCall, GraphSession
from ssvm_dsl.errors import ScoreError
from ssvm_dsl.ir import I64, Need, Program, Stop, label_ptr
from ssvm_dsl.kernels import pack
from ssvm_dsl.plugin_api import CompiledOracle, Verdict

if TYPE_CHECKING:
    from ssvm_backends.cuts.graph import CutGraph

#: Arcs visited between two checks of the clock: a few milliseconds.
BUDGET = 1_000_000

#: Operations of a call with almost no work, and for each variable and factor.
CALL, LINKED = 2048.0, 200.0

_WANTED = "t(0, 0) + t(1, 1) >= t(0, 1) + t(1, 0) in every table (of three variables: whatever the third)"
_HINT = "keep the weights of such factors non-negative (form=POTTS, nonneg=True), or use 'qpbo', 'trws' or 'combi'"


class GraphCut:
    """Exact maximisation by one minimum cut (Boykov and Kolmogorov 2004) for each example.

    Nearly linear on the sparse graphs of images; O(V^2 E C) at worst for V nodes, E arcs and a cut of capacity C.
    """

    def check(self, need: Need) -> Verdict:
        """Accept binary problems; submodularity is checked at solve time."""
        return Verdict(True, 60.0 * (need.n_variables + need.n_factors), n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> GraphCutSession:
        """Open the backend on a program of two states; the session answers ``map`` by one minimum cut an example."""
        return GraphCutSession(program, options)


class GraphCutSession(GraphSession):
    """Minimum cuts on the examples of a program.

    Raises
    ------
    ScoreError
        When a question is asked: a table is not submodular.
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program, options)
        self.compact = bool((program.card < 2).any())

    @cached_property
    def _cut(self) -> CutGraph:
        from ssvm_backends.cuts.graph import build_cut_graph

        return build_cut_graph(self.graph)

    def search(self, call: GraphCall) -> None:
        """Compute the maximum flow of each example and write the labels of its minimum cut."""
        from ssvm_backends.cuts.graph import CutBatch, build_cut_graph, cut_batch, cut_state
        from ssvm_backends.cuts.maxflow import workspace

        instance, ids = call.instance, call.reduced.ids
        cut = self._cut if call.reduced.kept is None else build_cut_graph(instance.graph)
        flow = workspace(*cut.extent(ids))
        batch = CutBatch(instance, cut, ids, call.label_ptr, call.labels, call.excess)
        state = cut_state()
        try:
            call.run(lambda: cut_batch(batch, flow, state, BUDGET) or state[0]["refused"] >= 0)
        finally:
            done = slice(int(state[0]["finished"]))
            call.there[done], call.stop[done] = True, Stop.FINISHED
            call.bound[done] = -np.inf  # lifted to the score of the labelling
        if state[0]["refused"] >= 0:
            raise lacking("graph-cut", _WANTED, _HINT, self.program, call.ids, call.reduced, int(state[0]["refused"]))

    def compiled(self) -> CompiledOracle | None:
        """Return the oracle for trainers that call it inside their own kernels.

        ``None`` where masks or variables of one state have to be taken out first.
        """
        if self.compact or self.program.allowed is not None:
            return None
        from ssvm_backends.cuts.graph import OF_GRAPH, cut_oracle

        arrays = [getattr(self.graph, name) for name in OF_GRAPH]
        size = self.graph.n_variables + self.graph.n_factors
        work = CALL + LINKED * size / max(self.program.n_examples, 1)
        return CompiledOracle(cut_oracle, *pack(*arrays, *self._cut), 0, work, finite=True)


# -- The error for tables that violate the conditions of cuts: names the factor, the example and the entries ---------

#: Tables with more entries are not written out.
_LARGEST_SHOWN = 16


def lacking(
    backend: str, wanted: str, hint: str, program: Program, ids: I64, reduced: Reduced, factor: int
) -> ScoreError:
    """Return the error for one factor.

    Parameters
    ----------
    backend : str
        The backend.
    wanted : str
        The condition on the entries of a table, in words.
    hint : str
        Backends without this condition.
    program : Program
    ids : ndarray of int64
        The examples asked for.
    reduced : Reduced
        The reduced examples.
    factor : int
        The factor, as numbered in the reduced instance.
    """
    graph = reduced.instance.graph
    example = int(np.searchsorted(graph.factor_ptr, factor, side="right")) - 1
    slots = slice(int(graph.slot_ptr[factor]), int(graph.slot_ptr[factor + 1]))
    variables = graph.scope[slots].astype(np.int64)
    if reduced.kept is not None:
        starts = program.var_ptr[ids] - label_ptr(program, ids)[:-1]
        variables = reduced.kept[variables] + starts[example]
        example = int(ids[example])
    local = variables - program.var_ptr[example]
    start, size = int(graph.table_ptr[factor]), int(graph.table_size[factor])
    table = reduced.instance.pool[start : start + size].reshape(graph.card[graph.scope[slots]])
    entries = np.array2string(table, separator=", ").replace("\n", "") if size <= _LARGEST_SHOWN else f"{size} entries"
    return ScoreError(
        f"'{backend}' needs {wanted}; group '{_group_of(program, variables)}' of example {example} has a factor over "
        f"variables {local.tolist()} with scores {entries}\n  hint: {hint}"
    )


def _group_of(program: Program, variables: I64) -> str:
    """Return the name of the first group with a factor over (at least) these variables."""
    for group in program.groups:
        scope = group.shapes.variables()
        if len(scope) and np.isin(variables, scope).all():
            hit = np.ones(len(scope), dtype=bool)
            for v in variables:
                hit &= (scope == v).any(axis=1)
            if hit.any():
                return group.name
    return "?"
