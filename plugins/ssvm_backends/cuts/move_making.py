"""The session of ``alpha-expansion`` and ``alpha-beta-swap``: example by example, move by move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.cuts.graph_cut import lacking
from ssvm_backends.graphs.graph import Graph, Instance, graph_bytes
from ssvm_backends.graphs.reduce import Reduced
from ssvm_backends.graphs.session import ExampleGraphSession, GraphCall, labels_by_example
from ssvm_dsl.ir import (
    AUXILIARY,
    F64,
    I32,
    Bools,
    Need,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    energy_origins,
    expansion_factor,
    label_ptr,
    members,
)
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, Verdict

if TYPE_CHECKING:
    from ssvm_backends.cuts.graph import CutGraph
    from ssvm_backends.dual.trws import TRWSSession


# -- ``alpha-expansion``: a heuristic for pairwise models of many labels whose tables are metrics --------------------
#
# Each move lets any set of variables take label alpha, and finds the best such set by a minimum cut, until no label
# helps (Boykov, Veksler and Zabih, PAMI 2001; moves in :mod:`ssvm_backends.cuts.move_kernels`).  The result is
# within a known factor of the least energy, 2 for Potts tables (:mod:`ssvm_dsl.ir.analysis.energies`); with
# ``bound="factor"`` that is a certified bound, with ``"dual"`` one by message passing, by default there is none.
#
# P^n Potts factors, which auxiliary variables stand for, take part with the same moves, each the best of all under
# these factors (Kohli, Kumar and Torr, CVPR 2007); there is no claim about the distance of the result from the
# optimum.

_METRIC = "t(a, b) + t(c, c) >= t(a, c) + t(c, b) for all states a, b, c of finite pairwise tables (a metric)"


class AlphaExpansion:
    """Local search by expansions (Boykov, Veksler and Zabih 2001): a few rounds of one minimum cut for each label."""

    def check(self, need: Need) -> Verdict:
        """Accept pairwise problems; whether tables are metrics is checked at solve time."""
        cost = 200.0 * need.max_card * (need.n_variables + need.n_factors)
        return Verdict(True, cost, n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> MoveSession:
        """Open the backend on a program; the session answers ``map`` by expansion moves, each a minimum cut."""
        labels = np.arange(program.card.max(initial=1), dtype=np.int32)
        moves = np.stack([labels, np.full_like(labels, -1)], axis=1)
        return MoveSession("alpha-expansion", _METRIC, program, options, moves)


# -- ``alpha-beta-swap``: a heuristic for pairwise models of many labels whose tables are semimetrics ----------------
#
# Each move lets all variables that have label alpha or beta choose again between the two, by a minimum cut, until no
# pair of labels helps (Boykov, Veksler and Zabih, PAMI 2001; moves in
# :mod:`ssvm_backends.cuts.move_kernels`).  It asks less of the tables than expansion (no triangle inequality) and
# finds weaker optima, most of all with P^n Potts factors: a move gains from these only where all of their
# variables had one of the two labels.  No a-priori factor bounds the distance of the result from the optimum
# (:mod:`ssvm_dsl.ir.analysis.energies`); ``bound="dual"`` computes a bound.

_SEMIMETRIC = "t(a, a) + t(b, b) >= t(a, b) + t(b, a) for all states a, b of finite pairwise tables (a semimetric)"


class AlphaBetaSwap:
    """Local search by swaps (Boykov, Veksler and Zabih 2001): a few rounds of one cut for each pair of labels."""

    def check(self, need: Need) -> Verdict:
        """Accept pairwise problems; whether tables are semimetrics is checked at solve time."""
        cost = 100.0 * need.max_card**2 * (need.n_variables + need.n_factors)
        return Verdict(True, cost, n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> MoveSession:
        """Open the backend on a program; the session answers ``map`` by swap moves, each a minimum cut."""
        pairs = np.triu_indices(int(program.card.max(initial=1)), 1)
        return MoveSession("alpha-beta-swap", _SEMIMETRIC, program, options, np.stack(pairs, axis=1).astype(np.int32))


#: Arcs visited between two checks of the clock: a few milliseconds.
BUDGET = 1_000_000

#: Most iterations of the message passing that bounds scores.
MOST_SWEEPS = 300

_HINT = "use 'trws' or 'combi', or keep the weights of such factors non-negative (form=POTTS, nonneg=True)"


class MoveSession(ExampleGraphSession):
    """Local search by moves that are cuts.

    Parameters
    ----------
    backend : str
        Its name, for errors.
    wanted : str
        The condition on tables, for errors.
    program : Program
    options : mapping
    moves : ndarray of int32, shape (m, 2)
        Labels (alpha, beta), beta -1 for expansions.

    Raises
    ------
    ScoreError
        When a question is asked: a table violates the condition of moves, or holds ``-inf`` outside of masks.
    """

    def __init__(self, backend: str, wanted: str, program: Program, options: Mapping[str, Any], moves: I32) -> None:
        super().__init__(program, options)
        self.backend, self.wanted, self.moves = backend, wanted, moves
        none = np.zeros(program.n_variables, dtype=bool)
        self._auxiliary = none if program.role is None else (program.role == AUXILIARY) & (program.card > 2)
        self._n_labels = int(program.card.max(initial=1))
        self._messages: TRWSSession | None = None

    @cached_property
    def _cut(self) -> CutGraph:
        from ssvm_backends.cuts.graph import build_cut_graph

        return build_cut_graph(self.graph, self._auxiliary)

    def begin(self, question: Question) -> GraphCall:
        """Return the call of a question, with the networks of its reduced examples."""
        from ssvm_backends.cuts.graph import build_cut_graph

        call = super().begin(question)
        auxiliary, cut, kept = self._auxiliary, None, call.reduced.kept
        if kept is not None:  # auxiliary are those that still have a choice of three
            asked = auxiliary[members(self.program.var_ptr, call.ids)]
            auxiliary = np.asarray(asked[kept] & (call.instance.graph.card > 2))
            cut = build_cut_graph(call.instance.graph, auxiliary)
        call.state = self._cut if cut is None else cut, auxiliary
        return call

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        wanted, clock = self.options.get("bound", "none"), Clock.start(question.limits)
        solution = super().solve(question)
        there, known = solution.primal == Primal.FEASIBLE, np.full(len(solution.stop), np.nan)
        if wanted == "factor":
            known = self._by_factor(question, solution)
        elif wanted == "dual" and (solution.stop == Stop.INTERRUPTED).any():
            solution.stop[solution.stop == Stop.FINISHED] = Stop.INTERRUPTED
        elif wanted == "dual":
            relaxed = self._by_messages(question, clock)
            known, cut_short = relaxed.bound, np.isin(relaxed.stop, (Stop.TIME, Stop.INTERRUPTED))
            solution.stop = np.where(cut_short, relaxed.stop, solution.stop)
        solution.bound = np.fmin(solution.bound, np.maximum(known, solution.score))
        solution.warm = labels_by_example(self.program, question.ids(self.program), solution.labels, there)
        return solution

    def _by_factor(self, question: Question, solution: Solution) -> F64:
        """Return the bounds by the a-priori factor of expansions; ``nan`` where it is not known.

        Only finished searches without auxiliary variables have one.
        """
        ids, program = question.ids(self.program), self.program
        origin, factor = energy_origins(program, question), expansion_factor(program, question.theta)[ids]
        ended = (solution.stop == Stop.FINISHED) & ~_owning(program, self._auxiliary)[ids]
        with np.errstate(invalid="ignore"):
            return np.where(ended, origin - (origin - solution.score) / factor, np.nan)

    def _by_messages(self, question: Question, clock: Clock) -> Solution:
        """Return the bounds by message passing (TRW-S), in the remaining time, and why it ended."""
        from ssvm_backends.dual.trws import TRWSSession

        if self._messages is None:
            self._messages = TRWSSession(self.program, {"tol": 1e-6, "smooth": True, "max_iterations": MOST_SWEEPS})
        limits = replace(
            question.limits, time=None if clock.end == np.inf else clock.left, iterations=None, progress=None
        )
        return self._messages.solve(question.replace(warm=None, limits=limits))

    def solve_one(self, call: GraphCall, place: int, clock: Clock, start: I32 | None) -> ExampleAnswer:
        """Return the answer for one example."""
        from ssvm_backends.cuts.graph import whole_scale
        from ssvm_backends.cuts.maxflow import workspace
        from ssvm_backends.cuts.move_kernels import (
            MOVE_STATE,
            Move,
            MoveProblem,
            forbidding,
            improve_by_moves,
            settle_auxiliary,
            whole_score,
        )

        instance, here, (cut, auxiliary) = call.instance, int(call.reduced.ids[place]), call.state
        graph, node, pool = instance.graph, instance.node, instance.pool
        bad = forbidding(graph, pool, here)
        if bad >= 0:
            raise self._error(call, bad)
        states = places(call.reduced, place, self._n_labels)
        free = free_states(graph, here, auxiliary)
        labels = first_states(instance, here, states, self._start(call, place))
        settle_auxiliary(graph, node, pool, here, free, labels)
        scale = whole_scale(graph, node, pool, here)
        problem = MoveProblem(instance, cut, here, scale, states, free, self.moves)
        flow, move = workspace(*cut.extent(call.reduced.ids[place : place + 1])), Move(*np.tile(labels, (3, 1)))
        state = np.zeros(1, MOVE_STATE)
        state["score"], state["refused"] = whole_score(graph, node, pool, here, labels, scale), -1
        at, rounds, stop = state[0], clock.limits.iterations, Stop.FINISHED
        most = 1 << 62 if rounds is None else rounds * len(self.moves)
        reported = int(at["score"]) - 1
        try:
            while not improve_by_moves(problem, labels, move, flow, state, most, BUDGET):
                if at["refused"] >= 0:
                    raise self._error(call, int(at["refused"]))
                if at["score"] > reported:
                    reported = int(at["score"])
                    clock.tell(reported / scale + float(instance.const[here]), np.inf)
                if clock.over or (at["tried"] >= most and not at["under_way"]):
                    stop = Stop.TIME if clock.over else Stop.ITERATIONS
                    break
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        return ExampleAnswer(labels, stop=stop, stats={"moves": int(at["tried"])})

    def _start(self, call: GraphCall, place: int) -> I32 | None:
        """Return the labels of an earlier answer for a reduced example."""
        labels, kept = call.starts.get(int(call.ids[place])), call.reduced.kept
        if labels is None or kept is None:
            return labels
        mine = slice(*call.label_ptr[place : place + 2])
        return np.asarray(labels[kept[mine] - label_ptr(self.program, call.ids)[place]])

    def _error(self, call: GraphCall, factor: int) -> Exception:
        return lacking(self.backend, self.wanted, _HINT, self.program, call.ids, call.reduced, factor)


def _owning(program: Program, variables: Bools) -> Bools:
    """Return which examples have one of some variables."""
    before = np.concatenate([[0], np.cumsum(variables)])
    return np.asarray(before[program.var_ptr[1:]] > before[program.var_ptr[:-1]])


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
