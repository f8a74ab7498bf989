"""The k best labellings of any graph, most subspaces of which are never solved.

Every subspace of Lawler's method (:mod:`ssvm_dsl.plugin_api.lawler`) has a bound before anything is solved, from the
dual messages of the whole problem: the highest bound of a state that its variable may still take
(:mod:`ssvm_backends.dual.sequential`).  It also has a labelling: the one it was split off, with that one
variable changed.  A subspace whose bound is not above the labellings that are known is not solved.  The others first
get a few more iterations of message passing, which decide most of them, and are then solved with the scores of these
labellings as cutoff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ssvm_backends.dual.driver import NO_END
from ssvm_backends.dual.kernels import SolverProgress
from ssvm_backends.dual.sequential import pass_messages, reparametrised, trws
from ssvm_backends.graphs.deadline import TimeUp
from ssvm_backends.graphs.graph import Graph, Instance, make_graph
from ssvm_backends.graphs.kernels import given_others
from ssvm_backends.graphs.reduce import Reduced, condition, reduce_problem
from ssvm_backends.graphs.session import check_lists, pack_ranked
from ssvm_backends.local.search import score_of
from ssvm_backends.search.solve import single, solve_task
from ssvm_backends.search.subproblem import FIRST, MOVES, Listener, Setup, Subproblem, slack_of, terms_of
from ssvm_dsl.ir import F64, I32, I64, Bools, Limits, Program, Question, Solution, Stop, runs
from ssvm_dsl.plugin_api import Clock, Ranked, Subspace, SubspaceSolver, answer_each, k_best_of

#: Message passing on a subspace: iterations of a round; rounds continue while one closes this share of the gap.
ROUNDS, ITERATIONS, ENOUGH = 10, 4, 0.05


class Ranking(SubspaceSolver):
    """Lists the labellings of an instance of one example, which has variables and finite unary scores.

    Parameters
    ----------
    instance : Instance
    setup : Setup
    """

    def __init__(self, instance: Instance, setup: Setup) -> None:
        super().__init__(instance.graph.state_ptr)
        self.instance, self.setup = instance, setup
        self.most, self.messages = np.zeros(0), np.zeros(0)
        self.slack = slack_of(instance, setup.whole)

    def best(self, k: int) -> Ranked:
        """Return up to k labellings."""
        return k_best_of(self, self._whole, k)

    def _score(self, labels: I32) -> float:
        instance = self.instance
        return float(score_of(instance.graph, instance.node, instance.pool, 0, labels) + instance.const[0])

    def _whole(self) -> Subspace | None:
        """Solve the whole problem, and bound every state of it."""
        whole = Subproblem(self.instance, -np.inf, self.setup, lambda labels, bound: None, solve_task)
        self.messages = whole.relax()
        bound, _, slack = reparametrised(self.instance.graph, self.instance.node, self.instance.pool, self.messages)
        self.most = bound[0] + self.instance.const[0] - slack
        everything = Subspace.of_all(np.ones(len(self.most), dtype=bool), self.instance.graph.n_variables)
        if whole.closed():
            return None if whole.labels is None else everything.with_best(whole.labels, whole.best)
        return self._solved(replace(everything, labels=whole.labels, score=whole.best), whole.best)

    def solve(self, space: Subspace, floor: Callable[[], float]) -> Subspace | None:
        """Solve a subspace as far as its best labelling can be among those that are still wanted."""
        least = floor()
        cutoff = max(space.score, least)
        if space.bound > cutoff:
            return self._solved(space, cutoff)
        # otherwise the labelling that is known is the best one; or as many as are wanted score as much
        return replace(space, solved=True) if space.score >= least and space.labels is not None else None

    def _solved(self, space: Subspace, cutoff: float) -> Subspace | None:
        """Solve a subspace; ``None`` where nothing beats the cutoff, nor attains it by the labelling that is known."""
        reduced = condition(self.instance, FIRST, space.states(self.ptr))
        best, score = space.labels, space.score
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
        return space.with_best(best, score)

    def _relaxed(self, reduced: Reduced, cutoff: float, tell: Listener) -> float:
        """Return a bound on a subspace from a few more iterations on the messages of the whole problem."""
        instance, messages = reduced.instance, self._messages_of(reduced)
        if instance.graph.n_variables == 0:
            tell(np.zeros(0, np.int32), float(instance.const[0]))
            return float(instance.const[0])
        progress, bound = SolverProgress.start(1, instance.graph.n_variables, len(messages)), np.inf
        for _ in range(ROUNDS):
            trws(*pass_messages(instance, messages, progress, ITERATIONS, 1e-7), NO_END)
            before, bound = bound, float(progress.bound[0] + instance.const[0])
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

    def split(self, space: Subspace, within: Bools, order: I64) -> Iterator[Subspace]:
        """Yield the other subspaces with bounds from the messages, and the labelling that changes one variable."""
        assert space.labels is not None
        instance, labels = self.instance, space.labels
        beside: F64 = np.zeros(len(self.most))
        given_others(instance.graph, instance.node, instance.pool, FIRST, labels, beside)
        for other in super().split(space, within, order):
            v = other.variable
            states = self.ptr[v] + np.flatnonzero(within[self.ptr[v] : self.ptr[v + 1]])
            states = states[states != self.ptr[v] + labels[v]]
            changed = labels.copy()
            changed[v] = states[np.argmax(beside[states])] - self.ptr[v]
            score = self._score(changed)
            known = changed if score > -np.inf else None
            bound = max(min(space.score, float(self.most[states].max())), score)
            yield replace(other, bound=bound, labels=known, score=score)


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
        The lists of an example exceed the allowed memory.
    """
    prepare()
    ids, clock = question.ids(program), Clock.start(question.limits)
    reduced = reduce_problem(program, graph, question)
    check_lists(np.diff(reduced.label_ptr), question.k)

    def rank_one(place: int, example: int, mine: Clock) -> Ranked:
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

    answers = answer_each(ids, clock, rank_one, lambda why: Ranked([], why))
    return pack_ranked(program, question.theta, ids, reduced.label_ptr, reduced.lift, answers, question.k)
