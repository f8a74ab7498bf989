"""``combi``: exact MAP of any graph, by elimination, dual bounds, state fixing and branch and bound; anytime.

Measured on the instances of the 2014 UAI competition against toulbar2, 60 s and one thread each (``make bench
ARGS=map``): every optimum that is proved is found, too; on the grids that stay open the best labelling is 0.2 to 0.4 %
behind that of toulbar2.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from time import perf_counter
from typing import Any

import numpy as np

from ssvm_backends.graphs.deadline import TimeUp
from ssvm_backends.graphs.graph import Instance, graph_bytes
from ssvm_backends.graphs.session import ExampleGraphSession, GraphCall
from ssvm_dsl.ir import I32, Need, Program, Question, Solution, Stop, Task, pointers, reduced, runs
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, Verdict

#: Seconds for each number of an example that must be left for its search to begin.
LAYING_OUT = 8e-8

#: Operations for each example, for each variable or factor, and for each entry of a table.
CALL, VARIABLE, ENTRY = 1e5, 1.5e4, 50.0

#: Graphs with random weights whose factors are more crowded than this are searched, each time so many more for twice as
#: long: complete graphs of 10 to 50 binary variables, with and without budgets.
DENSE, DOUBLING = 25.0, 2.5

#: Share of a time limit in which every example gets a first labelling.
FIRST_SHARE = 0.1

#: How many times as long the second best labelling takes as the best, as a rule.
RANKING = 10.0


class Combi:
    """Exact search on any graph: elimination, dual bounds, state fixing and branch and bound.

    It is exponential in the worst case and anytime: stopped early, it returns a labelling and a bound.  The steps and
    their sources are in :mod:`ssvm_backends.search.solve`.
    """

    def check(self, need: Need) -> Verdict:
        """Accept every graph; the cost is that of random graphs of this size and density, a rough guess."""
        cost = VARIABLE * need.n_variables + need.n_factors * (VARIABLE + ENTRY * float(need.max_table))
        cost = CALL * need.n_examples + cost * 2.0 ** (max(0.0, need.crowding - DENSE) / DOUBLING)
        cost *= RANKING if Task.KBEST in need.tasks else 1.0
        return Verdict(True, cost, n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> CombiSession:
        """Return a session; compiles the kernels if this machine has not done so before."""
        from ssvm_backends.search.solve import prepare

        prepare()
        return CombiSession(program, options)


class CombiSession(ExampleGraphSession):
    """Solves example by example; see :mod:`ssvm_backends.search.solve`."""

    def solve(self, question: Question) -> Solution:
        """Answer a question; see :class:`~ssvm_dsl.plugin_api.Session`."""
        if question.task is Task.KBEST:
            from ssvm_backends.search.ranking import k_best

            return k_best(self.program, self.graph, question, self.options)
        return super().solve(question)

    def first_labels(self, call: GraphCall) -> list[I32]:
        """Return a labelling of each of the first examples, as many as a part of the time allows; none without limit.

        So each has a labelling even if the search of earlier examples takes longer than its share.
        """
        from ssvm_backends.search.solve import quick_labelling

        found: list[I32] = []
        reduced, clock = call.reduced, call.clock
        end = clock.end if clock.end == np.inf else perf_counter() + FIRST_SHARE * clock.left
        for place, here in enumerate(reduced.ids.tolist() if end < np.inf else ()):
            if perf_counter() >= end:
                break
            found.append(quick_labelling(call.instance, here) if reduced.feasible[place] else np.zeros(0, np.int32))
        return found

    def solve_one(self, call: GraphCall, place: int, clock: Clock, start: I32 | None) -> ExampleAnswer:
        """Return the optimum, or the best labelling and bound at the time limit."""
        from ssvm_backends.search.solve import quick_labelling, single, solve_whole
        from ssvm_backends.search.subproblem import MOVES, Setup, accuracy, terms_of, trivial_bound

        instance, example = call.instance, int(call.reduced.ids[place])
        if clock.left < LAYING_OUT * n_entries(instance, example):
            return quick_answer(instance, example, start)
        alone = single(instance, example)
        terms = terms_of(alone)
        watch = Incumbent(alone, clock, trivial_bound(alone) + float(terms.rounding[0]))
        whole = bool(terms.whole[0]) and MOVES * terms.rounding[0] < 0.25
        setup = Setup(clock, int(self.options["max_entries"]), int(self.options["max_arity"]), {}, whole)
        stop = Stop.FINISHED
        if start is not None:
            watch(start, watch.bound)
        try:
            solve_whole(alone, setup, watch, start)
        except TimeUp:
            stop = Stop.TIME
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        if stop is Stop.FINISHED:
            watch.bound = watch.score + (0.0 if whole else 2.0 * accuracy(terms))
        elif watch.labels is None:
            watch(quick_labelling(alone), watch.bound)
        return ExampleAnswer(watch.labels, bound=watch.bound, stop=stop, stats=setup.stats)


def n_entries(instance: Instance, example: int) -> int:
    """Return how many numbers the scores of an example are, each factor's table counted for itself."""
    g = instance.graph
    states = g.state_ptr[g.var_ptr[example + 1]] - g.state_ptr[g.var_ptr[example]]
    return int(states + g.table_size[g.factor_ptr[example] : g.factor_ptr[example + 1]].sum())


def quick_answer(instance: Instance, example: int, start: I32 | None) -> ExampleAnswer:
    """Return a quick answer: the first labelling, or the best states, and the sum of all largest scores.

    The latter is a bound; tables that factors share are looked at once.
    """
    from ssvm_backends.search.subproblem import best_states

    g = instance.graph
    ptr = g.state_ptr[g.var_ptr[example] : g.var_ptr[example + 1] + 1]
    factors = slice(g.factor_ptr[example], g.factor_ptr[example + 1])
    begin, first, table = np.unique(g.table_ptr[factors], return_index=True, return_inverse=True)
    size = g.table_size[factors][first]
    largest = reduced(np.maximum, instance.pool[runs(begin, size)], pointers(size)[:-1])[table]
    alone = reduced(np.maximum, instance.node[ptr[0] : ptr[-1]], ptr[:-1] - ptr[0])
    total = fsum([float(instance.const[example]), *alone.tolist(), *largest.tolist()])
    rounding = 2.0**-50 * float(np.abs(largest[largest > -np.inf]).sum())
    labels = best_states(instance.node, ptr) if start is None else start
    return ExampleAnswer(labels, bound=total + rounding, stop=Stop.TIME)


class Incumbent:
    """The best labelling and the lowest bound so far; a listener of the whole task.

    Parameters
    ----------
    instance : Instance
        One example.
    clock : Clock
        Progress reports.
    bound : float
        A bound to start from.
    """

    def __init__(self, instance: Instance, clock: Clock, bound: float) -> None:
        self.instance, self.clock = instance, clock
        self.labels: I32 | None = None
        self.score, self.bound = -np.inf, bound

    def __call__(self, labels: I32 | None, bound: float) -> None:
        """Receive a labelling and a bound; report improvements."""
        from ssvm_backends.local.search import score_of

        before = (self.score, self.bound)
        if labels is not None:
            instance = self.instance
            score = float(score_of(instance.graph, instance.node, instance.pool, 0, labels) + instance.const[0])
            if score > self.score:
                self.labels, self.score = labels, score
        self.bound = min(self.bound, max(bound, self.score))
        if (self.score, self.bound) != before:
            self.clock.tell(self.score, self.bound)
