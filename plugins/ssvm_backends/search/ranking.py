"""The k best labellings of any graph: parts split off by Lawler (1972), of which few are ever solved.

The labellings other than the best one y fall into parts: those that agree with y on the first j variables and differ at
the next.  Every part has a bound before anything is solved, from the dual messages of the whole problem: the highest
bound of a state that its variable may still take (:mod:`ssvm_backends.dual.answers.state_bounds`), and a labelling, y
with that one variable changed.  Parts are looked at in the order of their bounds; one whose bound is not above the
labellings that are there already is not solved.  The others first get a few more iterations of message passing, which
settle most of them, and are solved with these labellings as what has to be beaten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np

from ssvm_backends.dual.answers.state_bounds import reparametrised
from ssvm_backends.dual.progress import SolverProgress
from ssvm_backends.dual.sequential import trws
from ssvm_backends.graphs.by_example import check_lists, pack_ranked
from ssvm_backends.graphs.graph import Graph, Instance, make_graph
from ssvm_backends.graphs.neighbours import given_others
from ssvm_backends.graphs.reduce import Reduced, condition, reduce_problem
from ssvm_backends.local.search import score_of
from ssvm_backends.search.solve import solve_task
from ssvm_backends.search.split import single
from ssvm_backends.search.subproblem import FIRST, MOVES, Listener, Setup, Subproblem, TimeUp, slack_of, terms_of
from ssvm_dsl.ir import F64, I32, Bools, Limits, Program, Question, Solution, Stop, runs
from ssvm_dsl.plugin_api import Clock, answer_each

#: Message passing on a part: rounds of so many iterations, as long as one takes this share of what is left.
ROUNDS, ITERATIONS, ENOUGH = 10, 4, 0.05


@dataclass(frozen=True, eq=False)
class Subspace:
    """Labellings that agree with one on the variables ``:first`` and avoid some states at the next.

    Parameters
    ----------
    agreed : ndarray of int32
        The labelling that they agree with.
    first : int
    shut : frozenset of int
        States that the variable ``first`` may not take.
    bound : float
        No labelling of the part scores more.
    labels : ndarray of int32, optional
        The best labelling known of the part.
    score : float
        Its score.
    solved : bool
        Whether no labelling of the part is better than ``labels``.
    """

    agreed: I32
    first: int
    shut: frozenset[int]
    bound: float
    labels: I32 | None
    score: float
    solved: bool = False


@dataclass(frozen=True)
class Ranked:
    """The best labellings of one example, best first, and why there are no more."""

    labels: list[I32]
    stop: Stop


class Ranking:
    """Lists the labellings of an instance of one example, which has variables and finite unary scores.

    Parameters
    ----------
    instance : Instance
    setup : Setup
    """

    def __init__(self, instance: Instance, setup: Setup) -> None:
        self.instance, self.setup = instance, setup
        self.ptr = instance.graph.state_ptr
        self.n = instance.graph.n_variables
        self.numbers = count()  # of equal bounds the part that was found first
        self.heap: list[tuple[float, int, Subspace]] = []
        self.most, self.messages = np.zeros(0), np.zeros(0)
        self.slack = slack_of(instance, setup.whole)
        self.found: list[I32] = []

    def best(self, k: int) -> Ranked:
        """Return up to k labellings."""
        try:
            first = self._whole()
            if first is not None:
                self._push(first)
            while self.heap and len(self.found) < k:
                part = heappop(self.heap)[2]
                if not part.solved:
                    self._solve_subspace(part, k - len(self.found))
                    continue
                assert part.labels is not None
                self.found.append(part.labels)
                if len(self.found) < k:
                    self._split(part)
        except TimeUp:
            return Ranked(self.found, Stop.TIME)
        except KeyboardInterrupt:
            return Ranked(self.found, Stop.INTERRUPTED)
        return Ranked(self.found, Stop.FINISHED)

    def _score(self, labels: I32) -> float:
        one = self.instance
        return float(score_of(one.graph, one.node, one.pool, 0, labels) + one.const[0])

    def _whole(self) -> Subspace | None:
        """Solve the whole problem, and bound every state of it."""
        whole = Subproblem(self.instance, -np.inf, self.setup, lambda labels, bound: None, solve_task)
        self.messages = whole.relax()
        bound, _, slack = reparametrised(self.instance.graph, self.instance.node, self.instance.pool, self.messages)
        self.most = bound[0] + self.instance.const[0] - slack
        part = Subspace(np.zeros(self.n, np.int32), 0, frozenset(), np.inf, whole.labels, whole.best, whole.closed())
        return part if part.solved else self._solved(part, whole.best, np.ones(len(self.most), dtype=bool))

    def _push(self, part: Subspace) -> None:
        """Put a part on the heap: by its score when it is solved, else by its bound."""
        heappush(self.heap, (-(part.score if part.solved else part.bound), next(self.numbers), part))

    def _solve_subspace(self, part: Subspace, wanted: int) -> None:
        """Solve a part as far as it can be among the best ones that are still wanted, and put it back."""
        scores = [part.score, *(other.score for _, _, other in self.heap)]
        floor = float(np.partition(scores, len(scores) - wanted)[-wanted]) if len(scores) >= wanted else -np.inf
        cutoff = max(part.score, floor)
        solved: Subspace | None
        solved = Subspace(part.agreed, part.first, part.shut, part.bound, part.labels, part.score, True)
        if part.bound > cutoff:
            solved = self._solved(part, cutoff, self._open(part))
        elif part.score < floor:
            return  # there are as many labellings as are wanted that score as much
        if solved is not None:
            self._push(solved)

    def _solved(self, part: Subspace, cutoff: float, open_: Bools) -> Subspace | None:
        """Solve a part; ``None`` where nothing beats the cutoff, nor attains it by the labelling that is known."""
        reduced = condition(self.instance, FIRST, open_)
        best, score = part.labels, part.score
        if reduced.feasible[0]:

            def listen(labels: I32 | None, bound: float) -> None:
                nonlocal best, score
                if labels is not None:
                    full = reduced.lift(labels)
                    if (value := self._score(full)) > score:
                        best, score = full, value

            if self._relaxed(reduced, cutoff, listen) > max(cutoff, score) + self.slack:
                start = None if best is None else reduced.restrict(best)
                solve_task(reduced.instance, max(cutoff, score), self.setup, listen, start)
        if best is None or score < cutoff:
            return None
        return Subspace(part.agreed, part.first, part.shut, part.bound, best, score, True)

    def _relaxed(self, reduced: Reduced, cutoff: float, tell: Listener) -> float:
        """Return a bound on a part from a few more iterations on the messages of the whole problem."""
        one, messages = reduced.instance, self._messages_of(reduced)
        if one.graph.n_variables == 0:
            tell(np.zeros(0, np.int32), float(one.const[0]))
            return float(one.const[0])
        progress, bound = SolverProgress.start(1, one.graph.n_variables, len(messages)), np.inf
        for _ in range(ROUNDS):
            trws(one.graph, one.node, one.pool, FIRST, messages, ITERATIONS, 1e-7, False, progress)
            before, bound = bound, float(progress.bound[0] + one.const[0])
            tell(progress.labels, bound)
            if self.setup.clock.over:
                raise TimeUp
            if bound <= cutoff or before - bound < ENOUGH * (bound - cutoff):
                break
        return bound

    def _messages_of(self, reduced: Reduced) -> F64:
        """Return the messages of the whole problem between the variables and states that are left."""
        left, whole = reduced.instance.graph, self.instance.graph
        if reduced.kept is None:
            return self.messages.copy()
        states = runs(left.state_ptr[left.scope], left.card[left.scope])
        return self.messages[np.repeat(whole.message_ptr[reduced.slot], left.card[left.scope]) + reduced.state[states]]

    def _open(self, part: Subspace) -> Bools:
        """Return the states that labellings of a part may take."""
        open_ = np.ones(len(self.most), dtype=bool)
        open_[: self.ptr[part.first]] = False
        open_[self.ptr[: part.first] + part.agreed[: part.first]] = True
        open_[[self.ptr[part.first] + s for s in part.shut]] = False
        return open_

    def _split(self, part: Subspace) -> None:
        """Put the parts of the other labellings of a solved part on the heap."""
        assert part.labels is not None
        one, labels = self.instance, part.labels
        beside: F64 = np.zeros(len(self.most))
        given_others(one.graph, one.node, one.pool, FIRST, labels, beside)
        for v in range(part.first, self.n):
            shut = (part.shut if v == part.first else frozenset()) | {int(labels[v])}
            states = [s for s in range(self.ptr[v + 1] - self.ptr[v]) if s not in shut]
            if not states:
                continue
            bound = min(part.score, max(float(self.most[self.ptr[v] + s]) for s in states))
            changed = labels.copy()
            changed[v] = max(states, key=lambda s: beside[self.ptr[v] + s])
            score = self._score(changed)
            known = changed if score > -np.inf else None
            self._push(Subspace(labels, v, shut, max(bound, score), known, score))


@cache
def prepare() -> None:
    """Compile (or load) the kernels that best labellings alone do not need, so that no time limit counts it."""
    graph = make_graph(
        np.array([0, 2]), np.full(2, 2, np.int32), np.array([0, 1]), np.array([0, 2]), np.arange(2, dtype=np.int32)
    )
    instance = Instance(graph, np.arange(4.0), np.zeros(4), np.zeros(1))
    Ranking(instance, Setup(Clock.start(Limits()), 1, 1, {})).best(2)


def k_best(program: Program, graph: Graph, question: Question, options: Mapping[str, Any]) -> Solution:
    """Answer the task ``kbest`` example by example.

    Parameters
    ----------
    program : Program
    graph : Graph
    question : Question
    options : mapping
        Of ``combi``.

    Raises
    ------
    TooLargeError
        The lists of an example do not fit into what is allowed.
    """
    prepare()
    ids, clock = question.ids(program), Clock.start(question.limits)
    reduced = reduce_problem(program, graph, question)
    check_lists(np.diff(reduced.label_ptr), question.k)

    def one(place: int, example: int, mine: Clock) -> Ranked:
        here, left = int(reduced.ids[place]), reduced.instance.graph
        if not reduced.feasible[place]:
            return Ranked([], Stop.FINISHED)
        if left.var_ptr[here] == left.var_ptr[here + 1]:
            return Ranked([np.zeros(0, np.int32)], Stop.FINISHED)
        alone = single(reduced.instance, here)
        terms = terms_of(alone)
        whole = bool(terms.whole[0]) and MOVES * terms.rounding[0] < 0.25
        setup = Setup(mine, int(options["max_entries"]), int(options["max_arity"]), {}, whole)
        return Ranking(alone, setup).best(question.k)

    answers = answer_each(ids, clock, one, lambda why: Ranked([], why))
    stop = np.array([answer.stop for answer in answers], dtype=np.int8).reshape(len(ids))
    found = [answer.labels for answer in answers]
    return pack_ranked(program, question.theta, ids, reduced.label_ptr, reduced.lift, found, stop, question.k)
