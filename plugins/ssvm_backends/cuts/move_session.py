"""The session of ``alpha-expansion`` and ``alpha-beta-swap``: example by example, move by move."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ssvm_backends.cuts.score_errors import lacking
from ssvm_backends.graphs.by_example import pack
from ssvm_backends.graphs.graph import Graph, Instance, build_graph
from ssvm_backends.graphs.reduce import Reduced, reduce_problem
from ssvm_dsl.ir import (
    AUXILIARY,
    I32,
    I64,
    Bools,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    label_ptr,
    members,
)
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, answer_each

if TYPE_CHECKING:
    from ssvm_backends.cuts.graph import CutGraph

#: Arcs looked at between two looks at the clock: a few milliseconds.
BUDGET = 1_000_000

_HINT = "use 'trws' or 'combi', or keep the weights of such factors non-negative (form=POTTS, nonneg=True)"


class MoveSession:
    """Local search by moves that are cuts.

    Parameters
    ----------
    backend : str
        Its name, for errors.
    wanted : str
        What tables must satisfy, for errors.
    program : Program
    moves : ndarray of int32, shape (m, 2)
        Labels (alpha, beta), beta -1 for expansions.
    """

    def __init__(self, backend: str, wanted: str, program: Program, moves: I32) -> None:
        self.backend, self.wanted, self.program, self.moves = backend, wanted, program, moves
        self.graph = build_graph(program)
        none = np.zeros(program.n_variables, dtype=bool)
        self._auxiliary = none if program.role is None else (program.role == AUXILIARY) & (program.card > 2)
        self._n_labels = int(program.card.max(initial=1))

    @cached_property
    def _cut(self) -> CutGraph:
        from ssvm_backends.cuts.graph import build_cut_graph

        return build_cut_graph(self.graph, self._auxiliary)

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`.

        Raises
        ------
        ScoreError
            A table lacks what a move relies on, or holds ``-inf`` where masks do not rule it out.
        """
        from ssvm_backends.cuts.graph import build_cut_graph

        ids, clock = question.ids(self.program), Clock.start(question.limits)
        reduced = reduce_problem(self.program, self.graph, question)
        auxiliary = self._auxiliary if reduced.kept is None else self._kept_auxiliary(reduced, ids)
        cut = self._cut if reduced.kept is None else build_cut_graph(reduced.instance.graph, auxiliary)
        starts = question.warm if isinstance(question.warm, dict) else {}

        def one(place: int, example: int, mine: Clock) -> ExampleAnswer:
            return self._one(reduced, cut, auxiliary, place, ids, mine, starts.get(example))

        answers = answer_each(ids, clock, one, lambda why: ExampleAnswer(stop=why))
        solution = pack(self.program, question.theta, ids, reduced, answers)
        ptr = question.label_ptr(self.program)
        there = np.flatnonzero(solution.primal == Primal.FEASIBLE)
        solution.warm = {int(ids[i]): solution.labels[ptr[i] : ptr[i + 1]].copy() for i in there}
        return solution

    def _kept_auxiliary(self, reduced: Reduced, ids: I64) -> Bools:
        """Return which variables that are left are auxiliary: those that still have a choice of three."""
        assert reduced.kept is not None
        asked = self._auxiliary[members(self.program.var_ptr, ids)]
        return np.asarray(asked[reduced.kept] & (reduced.instance.graph.card > 2))

    def _one(
        self, reduced: Reduced, cut: CutGraph, auxiliary: Bools, number: int, ids: I64, clock: Clock, warm: I32 | None
    ) -> ExampleAnswer:
        """Return the answer for one example."""
        from ssvm_backends.cuts.graph import whole_scale
        from ssvm_backends.cuts.maxflow import CONTROL_SIZE, workspace
        from ssvm_backends.cuts.move_kernels import (
            STATE_SIZE,
            forbidding,
            improve_by_moves,
            settle_auxiliary,
            whole_score,
        )

        if not reduced.feasible[number]:
            return ExampleAnswer(bound=-np.inf)
        instance, here = reduced.instance, int(reduced.ids[number])
        graph, node, pool = instance.graph, instance.node, instance.pool
        bad = forbidding(graph, pool, here)
        if bad >= 0:
            raise self._error(reduced, ids, bad)
        place = places(reduced, number, self._n_labels)
        if warm is not None and reduced.kept is not None:
            left = slice(*reduced.label_ptr[number : number + 2])
            warm = warm[reduced.kept[left] - label_ptr(self.program, ids)[number]]
        labels, free = first_states(instance, here, place, warm), free_states(graph, here, auxiliary)
        settle_auxiliary(graph, node, pool, here, free, labels)
        scale = whole_scale(graph, node, pool, here)
        work = workspace(*cut.extent(reduced.ids[number : number + 1]))
        control, state = np.zeros(CONTROL_SIZE, np.int64), np.zeros(STATE_SIZE, np.int64)
        state[3], state[5] = whole_score(graph, node, pool, here, labels, scale), -1
        rounds = clock.limits.iterations
        most = 1 << 62 if rounds is None else rounds * len(self.moves)
        offered = labels.copy(), labels.copy(), labels.copy()
        reported, stop = int(state[3]) - 1, Stop.FINISHED
        try:
            while not improve_by_moves(
                graph, cut, node, pool, here, scale, place, free, self.moves, labels, *offered, *work, control, state,
                most, BUDGET,
            ):  # fmt: skip
                if state[5] >= 0:
                    raise self._error(reduced, ids, int(state[5]))
                if state[3] > reported:
                    reported = int(state[3])
                    clock.tell(reported / scale + float(instance.const[here]), np.inf)
                if clock.over or (state[4] >= most and not state[0]):
                    stop = Stop.TIME if clock.over else Stop.ITERATIONS
                    break
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        return ExampleAnswer(labels, stop=stop, stats={"moves": int(state[4])})

    def _error(self, reduced: Reduced, ids: I64, factor: int) -> Exception:
        return lacking(self.backend, self.wanted, _HINT, self.program, ids, reduced, factor)


def places(reduced: Reduced, number: int, n_labels: int) -> I32:
    """Return for each variable of an example and each label the state that stands for it, -1 without one."""
    graph, here = reduced.instance.graph, int(reduced.ids[number])
    lo, hi = int(graph.var_ptr[here]), int(graph.var_ptr[here + 1])
    if reduced.kept is None:
        every = np.arange(n_labels, dtype=np.int32)
        return np.where(every < graph.card[lo:hi, None], every, np.int32(-1))
    place = np.full((hi - lo, n_labels), -1, dtype=np.int32)
    states = np.arange(graph.state_ptr[lo], graph.state_ptr[hi])
    variable = np.repeat(np.arange(hi - lo), graph.card[lo:hi])
    place[variable, reduced.state[states]] = states - graph.state_ptr[lo + variable]
    return place


def free_states(graph: Graph, here: int, auxiliary: Bools) -> I32:
    """Return the free state of each auxiliary variable of an example, the last one; -1 for other variables."""
    mine = slice(int(graph.var_ptr[here]), int(graph.var_ptr[here + 1]))
    return np.where(auxiliary[mine], graph.card[mine] - 1, -1).astype(np.int32)


def first_states(instance: Instance, here: int, place: I32, warm: I32 | None) -> I32:
    """Return the states to start from: the labels of an earlier answer where they are open, else the best alone."""
    graph, rows = instance.graph, np.arange(len(place))
    variable, label = np.nonzero(place >= 0)
    scores = np.full(place.shape, -np.inf)
    first = graph.state_ptr[graph.var_ptr[here] + variable]
    scores[variable, label] = instance.node[first + place[variable, label]]
    labels = scores.argmax(axis=1) if len(place) else rows
    if warm is not None:
        labels = np.where(place[rows, warm] >= 0, warm, labels)
    return place[rows, labels]
