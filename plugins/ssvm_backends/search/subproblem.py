"""A component of a task of ``combi``: bounds of its optimum so far, and steps towards it.

It passes labellings and bounds to its listener.  Smaller tasks made of it are solved by a function that it
is given, so that this module does not depend on the one that puts the steps together
(:mod:`ssvm_backends.search.solve`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from ssvm_backends.dual.driver import ANSWER_SHARE, SLICE, finish, paced
from ssvm_backends.dual.kernels import SolverProgress
from ssvm_backends.dual.sequential import pass_messages, trws
from ssvm_backends.graphs.deadline import TimeUp
from ssvm_backends.graphs.graph import Instance, top_states
from ssvm_backends.graphs.reduce import condition
from ssvm_backends.local.search import improve_within, score_of
from ssvm_backends.search.core import C0, EPS, N_AC, N_DAC, N_EAC, TAU, UB, WORK, Core, State
from ssvm_backends.search.eliminate import eliminate
from ssvm_backends.search.propagate import propagate_root, rest_of_tables
from ssvm_dsl.ir import F64, I32, I64, RELATIVE, Bools, Terms, block_terms
from ssvm_dsl.plugin_api import Clock

#: Table entries that message passing looks at between two checks of the clock.
RELAX_PART = 10_000_000

#: Table entries that propagation of the root looks at between two checks of the clock, and for each entry in all.
ROOT_PART, ROOT_SWEEPS = 3_000_000, 200

#: Seconds for each table entry that must be left for branch and bound to be begun.
BRANCHING = 1e-7

#: Slices of branch and bound in a brief attempt.
BRIEF_SLICES = 1

#: Iterations of message passing in a brief attempt.
BRIEF_ITERATIONS = 20

#: Iterations of message passing after which an easy example is proved, and which share of the gap to the sum of all
#: largest scores may be left before more of them.
EASY_ITERATIONS, PROMISING = (5, 15), 0.1

#: Receives a better labelling (or none) and the bound of a task.
Listener = Callable[[I32 | None, float], None]

#: The one example of an instance.
FIRST = np.zeros(1, dtype=np.int64)

#: Rounding of costs that are moved about by branch and bound, in units of that of a plain sum.
MOVES = 16.0


class BudgetExceeded(Exception):
    """A brief attempt has come to its end; the listeners have its results."""


@dataclass(frozen=True, eq=False)
class Setup:
    """The settings of a task.

    Parameters
    ----------
    clock : Clock
    most_entries, most_arity : int
        Size of tables that elimination may make.
    stats : dict
        Counters.
    whole : bool
        Whether all scores are integers that double precision adds up exactly: then 1/2 more is no better.
    slices : float
        Most slices of branch and bound; then :class:`BudgetExceeded` is raised.
    """

    clock: Clock
    most_entries: int
    most_arity: int
    stats: dict[str, float]
    whole: bool = False
    slices: float = np.inf

    @property
    def brief(self) -> bool:
        """Whether only a quick attempt is asked for."""
        return self.slices < np.inf


#: Solves an instance of one example: (instance, cutoff, setup, listener, labelling to improve on).
Solve = Callable[[Instance, float, Setup, Listener, I32 | None], None]


def slack_of(instance: Instance, whole: bool) -> float:
    """Return by how much a bound may exceed a score that counts as optimal, for an instance of one example."""
    return 0.5 if whole else accuracy(terms_of(instance))


def terms_of(instance: Instance) -> Terms:
    """Return the terms of the scores of an instance of one example."""
    g = instance.graph
    node, pool = block_terms(instance.node, g.state_ptr[:-1]), block_terms(instance.pool, g.table_ptr)
    size, spread = (node[k].sum() + pool[k].sum() for k in (0, 1))
    const = instance.const
    integers = node[2].all() and pool[2].all() and const[0] == np.rint(const[0])
    count = np.array([g.n_variables + g.n_factors])
    return Terms(count, size + np.abs(const), np.array([spread]), np.array([integers]))


def accuracy(terms: Terms) -> float:
    """Return how far from the best a labelling may be that counts as optimal: a tenth of the tolerance, or rounding."""
    return float(max(0.1 * RELATIVE * terms.spread[0], MOVES * terms.rounding[0]))


def best_states(node: F64, state_ptr: I64) -> I32:
    """Return the state of best unary score of each variable between ``state_ptr[0]`` and ``state_ptr[-1]``."""
    return top_states(node[state_ptr[0] : state_ptr[-1]], np.diff(state_ptr))


def trivial_bound(instance: Instance) -> float:
    """Return the sum of the largest scores of an instance of one example."""
    g = instance.graph
    total = float(instance.const[0] + np.maximum.reduceat(instance.node, g.state_ptr[:-1]).sum())
    if g.n_factors:
        total += float(np.maximum.reduceat(instance.pool, g.table_ptr).sum())
    return total


class Subproblem:
    """A connected instance on its way to an optimum.

    Parameters
    ----------
    instance : Instance
    cutoff : float
        Labellings must score more.
    setup : Setup
    tell : callable
    solve : callable
        Solves smaller tasks.
    labels : ndarray of int32, optional
        A labelling to improve on.
    """

    def __init__(
        self, instance: Instance, cutoff: float, setup: Setup, tell: Listener, solve: Solve, labels: I32 | None = None
    ) -> None:
        self.instance, self.setup, self.tell, self.solve, self.labels = instance, setup, tell, solve, labels
        self.best, self.bound = cutoff, np.inf
        self.slack = slack_of(instance, setup.whole)

    def propagate(self, core: Core, state: State) -> bool:
        """Propagate the root, looking at the clock in between; return False when nothing beats the best."""
        most = state.tally[WORK] + ROOT_PART + ROOT_SWEEPS * len(core.cost)
        ok = propagate_root(core, state, True, ROOT_PART)
        while ok and state.tally[[N_AC, N_DAC, N_EAC]].any() and state.tally[WORK] < most:
            self.pause()
            ok = propagate_root(core, state, False, ROOT_PART)
        return bool(ok)

    def open_share(self, state: State) -> float:
        """Return the share of states besides one for each variable that is still open."""
        n = self.instance.graph.n_variables
        return float((state.size.sum() - n) / (len(self.instance.node) - n))

    @cached_property
    def dearest(self) -> float:
        """More than any labelling of finite score costs, without the constant."""
        g, total, size = self.instance.graph, 0.0, 0.0
        for scores, starts in ((self.instance.node, g.state_ptr[:-1]), (self.instance.pool, g.table_ptr)):
            if len(scores):
                finite = np.where(scores > -np.inf, scores, np.inf)
                least = np.minimum.reduceat(finite, starts)
                least = least[least < np.inf]
                total, size = total - float(least.sum()), size + float(np.abs(least).sum())
        return total + 1.0 + 1e-6 * size

    def offer(self, labels: I32) -> None:
        """Keep a labelling of the whole problem where it is better than the best one known."""
        g = self.instance.graph
        score = float(score_of(g, self.instance.node, self.instance.pool, 0, labels) + self.instance.const[0])
        if score > self.best:
            self.best, self.labels = score, labels.copy()
            self.tell(labels.copy(), max(self.bound, score))

    def lower(self, bound: float) -> None:
        """Hear of a bound on what beats the cutoff."""
        if bound < self.bound:
            self.bound = bound
            self.tell(None, max(bound, self.best))

    def closed(self) -> bool:
        """Whether the bound has met the best labelling; the listener knows then."""
        if self.bound <= self.best + self.slack:
            self.note_proof()
            return True
        return False

    def note_proof(self) -> None:
        """Hear that nothing scores more than the best."""
        self.lower(self.best)

    def set_upper_bound(self, state: State) -> None:
        """Give the search state the cost that labellings must stay below."""
        known = self.best > -np.inf
        state.real[UB] = self.instance.const[0] - self.best if known else self.dearest
        state.real[EPS] = self.slack
        gap = self.bound - self.best
        state.real[TAU] = max(1e-12, 1e-3 * gap) if np.isfinite(gap) else 1e-6

    def easy(self) -> bool:
        """Whether a few iterations of message passing prove a labelling best; they end where they promise nothing."""
        g = self.instance.graph
        messages, far = np.zeros(int(g.message_ptr[-1])), trivial_bound(self.instance)
        progress = SolverProgress.start(1, g.n_variables, len(messages))
        for n in EASY_ITERATIONS:
            bound = self._step(messages, progress, n)
            if self.closed():
                return True
            if progress.done[0] or bound - self.best > PROMISING * (far - self.best):
                break
        return False

    def relax(self) -> F64:
        """Lower the bound by messages as long as that pays; decode and improve labellings."""
        g, clock = self.instance.graph, self.setup.clock
        messages = np.zeros(int(g.message_ptr[-1]))
        progress = SolverProgress.start(1, g.n_variables, len(messages))
        pace = max(1, RELAX_PART // max(1, int((g.table_size * np.diff(g.slot_ptr)).sum())))
        most = BRIEF_ITERATIONS if self.setup.brief else np.inf
        part, start, share = min(5, pace), perf_counter(), clock.left / 5
        while not progress.done[0] and not self.closed() and progress.iterations[0] < most:
            before = float(progress.bound[0])
            bound = self._step(messages, progress, part)
            gain = before - progress.bound[0]
            enough = gain < 0.006 * min(part, 5) * (bound - self.best)
            if (enough or perf_counter() - start > share) and clock.left > BRANCHING * len(self.instance.pool):
                break
            part = min(2 * part, pace)
        return messages

    def _step(self, messages: F64, progress: SolverProgress, n: int) -> float:
        """Do so many more iterations of message passing, decode and improve a labelling; return the bound."""
        self._iterate(messages, progress, n)
        self.offer(progress.labels)
        bound = float(progress.bound[0] + self.instance.const[0])
        self.lower(bound)
        self.pause()
        self.improve(progress.labels)
        self.pause()
        return bound

    def _iterate(self, messages: F64, progress: SolverProgress, n: int) -> None:
        """Do so many more iterations of message passing; time may end those of a large instance."""
        clock = self.setup.clock
        task, space = pass_messages(self.instance, messages, progress, n, 1e-7)
        for finished in paced(task, lambda budget: trws(task, space, budget), SLICE, lambda: ANSWER_SHARE):
            if finished >= clock.end:
                finish(task)
                return

    def improve(self, labels: I32) -> None:
        """Improve a labelling by local search, as far as time allows, and offer it."""
        g, node, pool = self.instance.graph, self.instance.node, self.instance.pool
        labels = labels.copy()
        improve_within(g, node, pool, 0, labels, self.setup.clock)
        self.offer(labels)

    def pause(self, slices: int = 0) -> None:
        """Raise TimeUp when time is up, BudgetExceeded when an attempt was brief enough."""
        if self.setup.clock.over:
            raise TimeUp
        if slices >= self.setup.slices:
            raise BudgetExceeded

    def restart(self, core: Core, state: State, setup: Setup, smaller: float = np.inf) -> bool:
        """Solve the rest of the reparametrised problem as a new task.

        Returns False, and does nothing, when elimination by the setup's limits leaves more than a share ``smaller`` of
        the variables.
        """
        g = self.instance.graph
        pool = np.empty_like(self.instance.pool)
        rest_of_tables(core, state.value, pool)
        rest = Instance(g, -state.value[core.n_messages :], pool, self.instance.const - state.real[C0])
        reduced = condition(rest, FIRST, state.place < np.repeat(state.size, g.card))
        if reduced.feasible[0]:
            if smaller < np.inf:
                left = eliminate(reduced.instance, 0, setup.most_entries, setup.most_arity, lambda: setup.clock.over)
                if left.instance.graph.n_variables > smaller * g.n_variables:
                    return False

            def listen(labels: I32 | None, bound: float) -> None:
                if labels is not None:
                    self.offer(reduced.lift(labels))
                self.lower(max(bound, self.best))

            start = None if self.labels is None else reduced.restrict(self.labels)
            self.solve(reduced.instance, self.best, setup, listen, start)
        self.note_proof()
        return True

    def search_neighbourhood(self, free: Bools) -> bool:
        """Look briefly for a better labelling that differs at some variables only; return whether that was settled."""
        if self.labels is None:
            return True
        g = self.instance.graph
        alive = np.repeat(free, g.card)
        alive[g.state_ptr[:-1] + self.labels] = True
        reduced = condition(self.instance, FIRST, alive)

        def listen(labels: I32 | None, bound: float) -> None:
            if labels is not None:
                self.offer(reduced.lift(labels))

        try:
            self.solve(reduced.instance, self.best, replace(self.setup, slices=BRIEF_SLICES), listen, None)
        except BudgetExceeded:
            return False
        return True
