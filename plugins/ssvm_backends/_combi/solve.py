"""The way ``combi`` takes a problem apart: eliminate, split, bound, fix states, and branch on what is left.

A *task* is an instance of one example with a score to beat (its *cutoff*).  It is solved by

1. bounded variable elimination (:mod:`ssvm_backends._combi.eliminate`),
2. its connected components, one by one,
3. sequential reweighted message passing and local search: a bound and a labelling,
4. the problem in the reparametrised form of that bound, propagated with the labelling as cutoff: states that cannot be
   in a better labelling are closed, and if that takes away much, the smaller problem is a new task,
5. branch and bound (:mod:`ssvm_backends._combi.search`).

Whoever starts a task listens to its labellings and bounds as they come (:class:`Listener`), so that stopping at any
moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations, pairwise
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ssvm_backends._combi.branch import Branch
from ssvm_backends._combi.core import C0, EPS, N_AC, N_DAC, N_EAC, TAU, UB, WORK, Core, State, make_core, make_state
from ssvm_backends._combi.eliminate import eliminate, untouched
from ssvm_backends._combi.propagate import load, propagate_root, rest_of_tables
from ssvm_backends._combi.search import make_tree, root_of, search
from ssvm_backends._combi.split import split
from ssvm_backends._dual.progress import Progress
from ssvm_backends._dual.sequential import SequentialPieces, trws
from ssvm_backends._graphs.by_example import Clock
from ssvm_backends._graphs.graph import F64, I32, I64, Instance, make_graph
from ssvm_backends._graphs.reduce import condition
from ssvm_backends._local.search import improve, score_of, settle
from ssvm_dsl.ir import Limits
from ssvm_dsl.ir.tolerance import RELATIVE, Terms, block_terms

#: Table entries that message passing looks at between two looks at the clock.
RELAX_PART = 10_000_000

#: Work of an iteration of message passing from which on the clock is looked at in between.
LARGE = 2_000_000

#: Table entries that local search looks at between two looks at the clock.
LOOK_PART = 1_000_000

#: Table entries that propagation of the root looks at between two looks at the clock, and for each entry in all.
ROOT_PART, ROOT_SWEEPS = 3_000_000, 200

#: Seconds for each variable and factor that must be left for elimination to be tried (it takes a third of that).
ELIMINATION = 5e-5

#: Seconds for each table entry that must be left for branch and bound to be begun.
BRANCHING = 1e-7

#: Slices of branch and bound in a brief attempt.
BRIEF_SLICES = 1

#: Iterations of message passing in a brief attempt.
BRIEF_ITERATIONS = 20

#: Hears of a better labelling (or none) and the bound of a task.
Listener = Callable[[I32 | None, float], None]

_ONE = np.zeros(1, dtype=np.int64)


#: Rounding of costs that are moved about by branch and bound, in units of that of a plain sum.
MOVES = 16.0


class TimeUp(Exception):
    """The clock has run out; what was found is with the listeners."""


class GaveUp(Exception):
    """A brief attempt has come to its end; what was found is with the listeners."""


@dataclass(frozen=True)
class Setup:
    """How to solve.

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
        Most slices of branch and bound; then :class:`GaveUp` is raised.
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


def slack_of(instance: Instance, whole: bool) -> float:
    """Return by how much a bound may exceed a score that counts as optimal, for an instance of one example."""
    return 0.5 if whole else accuracy(terms_of(instance))


def terms_of(instance: Instance) -> Terms:
    """Return what the scores of an instance of one example are sums of."""
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


def solve_task(instance: Instance, cutoff: float, setup: Setup, tell: Listener, start: I32 | None = None) -> None:
    """Solve an instance of one example; the last thing told is the optimum or that none beats the cutoff.

    Parameters
    ----------
    instance : Instance
    cutoff : float
        Labellings must score more.
    setup : Setup
    tell : callable
    start : ndarray of int32, optional
        A labelling to improve on (one that scores the cutoff, say).

    Raises
    ------
    TimeUp, GaveUp
    """
    size = instance.graph.n_variables + instance.graph.n_factors
    if setup.clock.left < ELIMINATION * size:
        taken = untouched(instance)
    else:
        taken = eliminate(instance, 0, setup.most_entries, setup.most_arity, lambda: setup.clock.over)
    left, tell = taken.instance, _lifting(tell, taken.lift)
    start = None if start is None else taken.restrict(start)
    if left.graph.n_variables == 0:
        tell(np.zeros(0, np.int32), float(left.const[0]))
        return
    if left.node.min() == -np.inf or left.pool.min(initial=0.0) == -np.inf:
        reduced = condition(left, _ONE, left.node > -np.inf)
        if not reduced.feasible[0]:
            tell(None, -np.inf)
            return
        smaller = reduced.instance.graph.n_variables < left.graph.n_variables
        left, tell = reduced.instance, _lifting(tell, reduced.lift)
        start = None if start is None else reduced.restrict(start)
        if smaller:
            solve_task(left, cutoff, setup, tell, start)
            return
    parts = split(left)
    if len(parts) == 1:
        Part(left, cutoff, setup, tell, start).solve()
    else:
        _solve_parts(left, parts, cutoff, setup, tell, start)


def _lifting(tell: Listener, lift: Callable[[I32], I32]) -> Listener:
    """Return a listener that passes on labels lifted."""

    def listen(labels: I32 | None, bound: float) -> None:
        tell(None if labels is None else lift(labels), bound)

    return listen


def _solve_parts(
    left: Instance, parts: list[tuple[Instance, I64]], cutoff: float, setup: Setup, tell: Listener, start: I32 | None
) -> None:  # fmt: skip
    """Solve the components of an instance, small ones first."""
    full, there = _first_labelling(left, start)
    bounds = np.array([trivial_bound(part) for part, _ in parts])
    if there:
        tell(full.copy(), float(bounds.sum() + left.const[0]))
    found = np.zeros(len(parts), dtype=bool)
    for number, (part, variables) in enumerate(parts):

        def listen(labels: I32 | None, bound: float, number: int = number, variables: I64 = variables) -> None:
            if labels is not None:
                full[variables] = labels
                found[number] = True
            bounds[number] = min(bounds[number], bound)
            known = labels is not None and (there or bool(found.all()))
            tell(full.copy() if known else None, float(bounds.sum() + left.const[0]))

        rest = bounds.sum() - bounds[number] + left.const[0]
        solve_task(part, cutoff - rest, setup, listen, full[variables] if there else None)
        if not found[number]:
            return


def _first_labelling(instance: Instance, start: I32 | None) -> tuple[I32, bool]:
    """Return a labelling after local search (from the best states by unary scores), and whether its score is finite."""
    labels = best_states(instance.node, instance.graph.state_ptr) if start is None else start.copy()
    score = improve(instance.graph, instance.node, instance.pool, _ONE, labels)
    return labels, bool(score[0] > -np.inf)


def quick_labelling(instance: Instance) -> I32:
    """Return a labelling after a little local search, for when there is no time for more."""
    labels = best_states(instance.node, instance.graph.state_ptr)
    stale = np.ones(2 * len(labels), dtype=bool)
    settle(instance.graph, instance.node, instance.pool, 0, labels, stale, False, LOOK_PART)
    return labels


def best_states(node: F64, state_ptr: I64) -> I32:
    """Return the state of best unary score of each variable between ``state_ptr[0]`` and ``state_ptr[-1]``."""
    return np.fromiter((node[a:b].argmax() for a, b in pairwise(state_ptr)), np.int32, len(state_ptr) - 1)


def trivial_bound(instance: Instance) -> float:
    """Return the sum of the largest scores of an instance of one example."""
    g = instance.graph
    total = float(instance.const[0] + np.maximum.reduceat(instance.node, g.state_ptr[:-1]).sum())
    if g.n_factors:
        total += float(np.maximum.reduceat(instance.pool, g.table_ptr).sum())
    return total


class Part:
    """A connected instance on its way to an optimum.

    Parameters
    ----------
    instance : Instance
    cutoff : float
        Labellings must score more.
    setup : Setup
    tell : callable
    labels : ndarray of int32, optional
        A labelling to improve on.
    """

    def __init__(
        self, instance: Instance, cutoff: float, setup: Setup, tell: Listener, labels: I32 | None = None
    ) -> None:
        self.instance, self.setup, self.tell, self.labels = instance, setup, tell, labels
        self.best, self.bound = cutoff, np.inf
        self.slack = slack_of(instance, setup.whole)

    def solve(self) -> None:
        """Bound, fix states, branch."""
        messages = self.relax()
        if self._closed():
            return
        core = make_core(self.instance)
        state = make_state(self.instance.graph, core)
        self.arm(state)
        load(core, state, messages)
        if not self.propagate(core, state):
            self.proved()
            return
        self.lower(float(self.instance.const[0] - state.real[C0]))
        if self.open_share(state) <= 0.8:
            self.again(core, state, self.setup)
        else:
            Branch(self, core, state).solve()

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
        """Hear of a labelling."""
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

    def _closed(self) -> bool:
        if self.bound <= self.best + self.slack:
            self.proved()
            return True
        return False

    def proved(self) -> None:
        """Hear that nothing scores more than the best."""
        self.lower(self.best)

    def arm(self, state: State) -> None:
        """Tell the search state what there is to beat."""
        known = self.best > -np.inf
        state.real[UB] = self.instance.const[0] - self.best if known else self.dearest
        state.real[EPS] = self.slack
        gap = self.bound - self.best
        state.real[TAU] = max(1e-12, 1e-3 * gap) if np.isfinite(gap) else 1e-6

    def relax(self) -> F64:
        """Lower the bound by messages as long as that pays; decode and improve labellings."""
        g, clock = self.instance.graph, self.setup.clock
        messages = np.zeros(int(g.message_ptr[-1]))
        progress = Progress.start(1, g.n_variables, len(messages))
        pace = max(1, RELAX_PART // max(1, int((g.table_size * np.diff(g.slot_ptr)).sum())))
        most = BRIEF_ITERATIONS if self.setup.brief else np.inf
        part, start, share = min(5, pace), perf_counter(), clock.left / 5
        while not progress.done[0] and not self._closed() and progress.iterations[0] < most:
            before = float(progress.bound[0])
            self._iterate(messages, progress, part)
            self.offer(progress.labels)
            bound = float(progress.bound[0] + self.instance.const[0])
            self.lower(bound)
            self.pause()
            self.look(progress.labels)
            self.pause()
            gain = before - progress.bound[0]
            enough = gain < 0.006 * min(part, 5) * (bound - self.best)
            if (enough or perf_counter() - start > share) and clock.left > BRANCHING * len(self.instance.pool):
                break
            part = min(2 * part, pace)
        return messages

    def _iterate(self, messages: F64, progress: Progress, n: int) -> None:
        """Do so many more iterations of message passing; time may end those of a large instance."""
        g, clock = self.instance.graph, self.setup.clock
        if int((g.table_size * np.diff(g.slot_ptr)).sum()) < LARGE:
            trws(g, self.instance.node, self.instance.pool, _ONE, messages, n, 1e-7, False, progress)
            return
        pieces = SequentialPieces(self.instance, 0, messages, progress, 1e-7, False)
        for _ in pieces.run(int(progress.iterations[0]) + n):
            if perf_counter() + pieces.reserve() >= clock.end:
                pieces.finish()
                return

    def look(self, labels: I32) -> None:
        """Improve a labelling by local search, as far as time allows, and offer it."""
        g, node, pool = self.instance.graph, self.instance.node, self.instance.pool
        labels, stale = labels.copy(), np.ones(2 * len(labels), dtype=bool)
        while not settle(g, node, pool, 0, labels, stale, True, LOOK_PART) and not self.setup.clock.over:
            pass
        self.offer(labels)

    def pause(self, slices: int = 0) -> None:
        """Raise TimeUp when time is up, GaveUp when an attempt was brief enough."""
        if self.setup.clock.over:
            raise TimeUp
        if slices >= self.setup.slices:
            raise GaveUp

    def again(self, core: Core, state: State, setup: Setup, smaller: float = np.inf) -> bool:
        """Solve what is left of the reparametrised problem as a new task.

        Returns False, and does nothing, when elimination by the setup's limits leaves more than a share ``smaller`` of
        the variables.
        """
        g = self.instance.graph
        pool = np.empty_like(self.instance.pool)
        rest_of_tables(core, state.value, pool)
        rest = Instance(g, -state.value[core.n_messages :], pool, self.instance.const - state.real[C0])
        reduced = condition(rest, _ONE, state.place < np.repeat(state.size, g.card))
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
            solve_task(reduced.instance, self.best, setup, listen, start)
        self.proved()
        return True

    def around(self, free: NDArray[np.bool_]) -> bool:
        """Look briefly for a better labelling that differs at some variables only; return whether that was settled."""
        if self.labels is None:
            return True
        g = self.instance.graph
        alive = np.repeat(free, g.card)
        alive[g.state_ptr[:-1] + self.labels] = True
        reduced = condition(self.instance, _ONE, alive)

        def listen(labels: I32 | None, bound: float) -> None:
            if labels is not None:
                self.offer(reduced.lift(labels))

        try:
            solve_task(reduced.instance, self.best, replace(self.setup, slices=BRIEF_SLICES), listen)
        except GaveUp:
            return False
        return True


@cache
def prepare() -> None:
    """Compile (or load) all kernels on a tiny problem, so that none of that counts against a time limit."""
    pairs = np.array(list(combinations(range(5), 2)), dtype=np.int32)
    scores = np.sin(np.arange(9.0 * len(pairs)) ** 2)
    graph = make_graph(
        np.array([0, 5], dtype=np.int64),
        np.full(5, 3, dtype=np.int32),
        np.array([0, len(pairs)], dtype=np.int64),
        2 * np.arange(len(pairs) + 1, dtype=np.int64),
        pairs.ravel(),
    )
    instance = Instance(graph, np.zeros(15), scores, np.zeros(1))
    core = make_core(instance)
    state = make_state(graph, core)
    load(core, state, np.zeros(int(graph.message_ptr[-1])))
    rest_of_tables(core, state.value, np.empty_like(scores))
    part = Part(instance, -np.inf, Setup(Clock.start(Limits()), 1, 1, {}), lambda labels, bound: None)
    part.look(np.zeros(5, dtype=np.int32))
    part.relax()
    propagate_root(core, state, True, ROOT_PART)
    search(core, state, make_tree(15, 5), root_of(state), 1000)
    condition(instance, _ONE, np.ones(15, dtype=bool))
