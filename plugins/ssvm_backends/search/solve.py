"""The steps of ``combi``: eliminate, split into components, bound, fix states, and branch on the rest.

Many examples are easy: a few iterations of message passing on the whole find a labelling that meets the bound, in less
time than it takes to eliminate anything.

A *task* is an instance of one example with a score to beat (its *cutoff*).  It is solved by

1. bounded variable elimination (:mod:`ssvm_backends.search.eliminate`),
2. its connected components, one by one,
3. sequential reweighted message passing and local search: a bound and a labelling,
4. the problem in the reparametrised form of that bound, propagated with the labelling as cutoff: states that cannot be
   in a better labelling are closed, and if that takes away much, the smaller problem is a new task,
5. branch and bound (:mod:`ssvm_backends.search.search`).

Whoever starts a task listens to its labellings and bounds as they come (:class:`Listener`), so that stopping at any
moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.graph import Graph, Instance, make_graph
from ssvm_backends.graphs.reduce import condition
from ssvm_backends.local.search import LOOK_PART, improve_within, local_search, score_of
from ssvm_backends.search.core import C0, NODES, Core, State, make_core, make_state
from ssvm_backends.search.eliminate import eliminate, untouched
from ssvm_backends.search.propagate import load, propagate_root, rest_of_tables
from ssvm_backends.search.search import FOUND, Root, SearchTree, grow_tree, make_tree, root_of, search
from ssvm_backends.search.subproblem import FIRST, ROOT_PART, Listener, Setup, Subproblem, best_states, trivial_bound
from ssvm_dsl.ir import F64, I32, I64, Limits, pointers, runs
from ssvm_dsl.plugin_api import Clock

#: Seconds for each variable and factor that must be left for elimination to be tried (it takes a third of that).
ELIMINATION = 5e-5


def solve_whole(instance: Instance, setup: Setup, tell: Listener, start: I32 | None) -> None:
    """Solve an instance of one example; the last report is the optimum, or that there is no labelling.

    Raises
    ------
    TimeUp
    """
    n, finite = instance.graph.n_factors, min(instance.node.min(initial=0.0), instance.pool.min(initial=0.0)) > -np.inf
    if n and finite and setup.clock.left >= ELIMINATION * n:
        whole = Subproblem(instance, -np.inf, setup, tell, solve_task, start)
        if whole.easy():
            return
        start = whole.labels
    solve_task(instance, -np.inf, setup, tell, start)


def solve_task(instance: Instance, cutoff: float, setup: Setup, tell: Listener, start: I32 | None = None) -> None:
    """Solve an instance of one example; the last report is the optimum or that no labelling beats the cutoff.

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
    TimeUp, BudgetExceeded
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
        reduced = condition(left, FIRST, left.node > -np.inf)
        if not reduced.feasible[0]:
            tell(None, -np.inf)
            return
        smaller = reduced.instance.graph.n_variables < left.graph.n_variables
        left, tell = reduced.instance, _lifting(tell, reduced.lift)
        start = None if start is None else reduced.restrict(start)
        if smaller:
            solve_task(left, cutoff, setup, tell, start)
            return
    parts = split_components(left)
    if len(parts) == 1:
        solve_connected(Subproblem(left, cutoff, setup, tell, solve_task, start))
    else:
        _solve_parts(left, parts, cutoff, setup, tell, start)


def solve_connected(part: Subproblem) -> None:
    """Bound, fix states, branch."""
    messages = part.relax()
    if part.closed():
        return
    core = make_core(part.instance)
    state = make_state(part.instance.graph, core)
    part.set_upper_bound(state)
    load(core, state, messages)
    if not part.propagate(core, state):
        part.note_proof()
        return
    part.lower(float(part.instance.const[0] - state.real[C0]))
    if part.open_share(state) <= 0.8:
        part.restart(core, state, part.setup)
    else:
        Branch(part, core, state).solve()


def _lifting(tell: Listener, lift: Callable[[I32], I32]) -> Listener:
    """Return a listener that passes on labels lifted."""

    def listen(labels: I32 | None, bound: float) -> None:
        tell(None if labels is None else lift(labels), bound)

    return listen


def _solve_parts(
    left: Instance, parts: list[tuple[Instance, I64]], cutoff: float, setup: Setup, tell: Listener, start: I32 | None
) -> None:  # fmt: skip
    """Solve the components of an instance, small ones first."""
    full, there = _first_labelling(left, start, setup.clock)
    bounds = np.array([trivial_bound(part) for part, _ in parts])
    if there:
        tell(full.copy(), float(bounds.sum() + left.const[0]))
    solved = np.zeros(len(parts), dtype=bool)
    for number, (part, variables) in enumerate(parts):

        def listen(labels: I32 | None, bound: float, number: int = number, variables: I64 = variables) -> None:
            if labels is not None:
                full[variables] = labels
                solved[number] = True
            bounds[number] = min(bounds[number], bound)
            known = labels is not None and (there or bool(solved.all()))
            tell(full.copy() if known else None, float(bounds.sum() + left.const[0]))

        rest = bounds.sum() - bounds[number] + left.const[0]
        solve_task(part, cutoff - rest, setup, listen, full[variables] if there else None)
        if not solved[number]:
            return


def _first_labelling(instance: Instance, start: I32 | None, clock: Clock) -> tuple[I32, bool]:
    """Return a labelling after local search (from the best states by unary scores), and whether its score is finite."""
    labels = best_states(instance.node, instance.graph.state_ptr) if start is None else start.copy()
    improve_within(instance.graph, instance.node, instance.pool, 0, labels, clock)
    return labels, bool(score_of(instance.graph, instance.node, instance.pool, 0, labels) > -np.inf)


def quick_labelling(instance: Instance, example: int = 0) -> I32:
    """Return a labelling of an example after a little local search, for when there is no time for more."""
    g = instance.graph
    labels = best_states(instance.node, g.state_ptr[g.var_ptr[example] : g.var_ptr[example + 1] + 1])
    stale = np.ones(2 * len(labels), dtype=bool)
    local_search(g, instance.node, instance.pool, example, labels, stale, False, LOOK_PART)
    return labels


@cache
def prepare() -> None:
    """Compile (or load) all kernels on a tiny problem, so that time limits do not include this."""
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
    part = Subproblem(instance, -np.inf, Setup(Clock.start(Limits()), 1, 1, {}), lambda labels, bound: None, solve_task)
    part.improve(np.zeros(5, dtype=np.int32))
    part.relax()
    propagate_root(core, state, True, ROOT_PART)
    search(core, state, make_tree(15, 5), root_of(state), 1000)
    condition(instance, FIRST, np.ones(15, dtype=bool))


# -- Branch and bound on a component, slice by slice, with neighbourhood search and larger tables --------------------
#
# Between slices of the search, *neighbourhoods* of the best labelling are solved: some variables near each other are
# set
# free, all others stay (large neighbourhood search; Ouali et al. 2017), and local search starts from random labellings:
# on dense graphs that finds optima that no neighbourhood of a few variables reaches.  When the gap hardly closes,
# the problem is taken through elimination again with larger tables, whose dual bound is tighter.

#: Table entries looked at in a slice.
WORK_PART = 3_000_000

#: Slices before neighbourhoods are searched, and before larger tables are tried.
WARM_UP, FIRST_CHECK = 8, 24

#: Searches in vain after which there is one slice more between two searches, and the most slices between them.
PATIENCE, RAREST_LOOK = 16, 4

#: Entries of tables beyond which they do not grow.
LARGEST_TABLE = 1 << 12


class Branch:
    """Branch and bound.

    Parameters
    ----------
    part : Part
        Hears of labellings and bounds.
    core : Core
    state : State
        Propagated root.
    """

    def __init__(self, part: Subproblem, core: Core, state: State) -> None:
        self.part, self.core, self.state = part, core, state
        self.tree: SearchTree = make_tree(core.n_states, core.n_variables)
        self.root: Root = root_of(state)
        self.possible = True
        self.next_improvement, self.in_vain = WARM_UP, 0
        self.neighbourhoods = Neighbourhoods(part.instance.graph)

    def solve(self) -> None:
        """Search until all is closed or time is up."""
        part = self.part
        slices, check, gap = 0, FIRST_CHECK, part.bound - part.best
        while True:
            status = self._slice()
            slices += 1
            if status == 0 or not self.possible:
                part.note_proof()
                return
            part.lower(float(part.instance.const[0] - self.tree.heap_bound[0]))
            part.pause(slices)
            if status == 2:
                self.tree = grow_tree(self.tree)
            if part.setup.brief:
                continue
            if slices >= self.next_improvement:
                self._improve_best()
                self.next_improvement = slices + 1 + min(self.in_vain // PATIENCE, RAREST_LOOK)
            if slices == check:
                if part.bound - part.best > 0.75 * gap and self._with_larger_tables():
                    return
                check, gap = 2 * check, part.bound - part.best

    def _slice(self) -> int:
        """Search a little; return the status of :func:`~ssvm_backends.search.search.search`."""
        before = int(self.state.tally[NODES])
        status = search(self.core, self.state, self.tree, self.root, WORK_PART)
        stats = self.part.setup.stats
        stats["nodes"] = stats.get("nodes", 0) + int(self.state.tally[NODES]) - before
        if self.tree.tally[FOUND]:
            self.tree.tally[FOUND] = 0
            self.part.offer(self.state.best)
            self.part.improve(self.state.best)
            self._restart_from_root()
        return status

    def _restart_from_root(self) -> None:
        """Propagate the root again with the new upper bound."""
        self.part.set_upper_bound(self.state)
        self.root.restore(self.state)
        self.possible = self.part.propagate(self.core, self.state)
        self.root = root_of(self.state)

    def _improve_best(self) -> None:
        """Look for a better labelling: in a neighbourhood of the best, then from a random one."""
        before = self.part.best
        settled = self.part.search_neighbourhood(self.neighbourhoods.draw())
        if self.part.best == before:
            self.neighbourhoods.resize(settled)
            self.part.improve(self.neighbourhoods.random_labels())
        self.in_vain = 0 if self.part.best > before else self.in_vain + 1
        if self.part.best > before:
            self._restart_from_root()

    def _with_larger_tables(self) -> bool:
        """Start again with larger tables if that makes the problem smaller; return whether it did."""
        setup = self.part.setup
        if setup.most_entries >= LARGEST_TABLE:
            return False
        self.root.restore(self.state)
        larger = replace(setup, most_entries=8 * setup.most_entries, most_arity=setup.most_arity + 3)
        return self.part.restart(self.core, self.state, larger, 0.9)


class Neighbourhoods:
    """Random sets of variables near each other, and random labellings.

    Parameters
    ----------
    graph : Graph
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.random = np.random.default_rng(0)
        self.size = 10.0

    def draw(self) -> NDArray[np.bool_]:
        """Return the members of a connected set that grows from a random variable."""
        g, n = self.graph, self.graph.n_variables
        inside = np.zeros(n, dtype=bool)
        fringe = [int(self.random.integers(n))]
        known = set(fringe)
        for _ in range(min(n, int(self.size))):
            if not fringe:
                break
            at = int(self.random.integers(min(len(fringe), 6)))
            v = fringe.pop(at)
            inside[v] = True
            for slot in g.touch_slot[g.touch_ptr[v] : g.touch_ptr[v + 1]]:
                f = g.slot_factor[slot]
                scope = g.scope[g.slot_ptr[f] : g.slot_ptr[f + 1]].tolist()
                fresh = [w for w in scope if w not in known]
                known.update(fresh)
                fringe.extend(fresh)
        return inside

    def random_labels(self) -> I32:
        """Return a labelling drawn uniformly; local search from many finds optima outside of neighbourhoods."""
        return self.random.integers(0, self.graph.card).astype(np.int32)

    def resize(self, settled: bool) -> None:
        """Draw larger sets after one that was settled without a better labelling, smaller ones otherwise."""
        factor = 1.1 if settled else 0.8
        self.size = float(np.clip(self.size * factor, 3.0, max(3.0, float(self.graph.n_variables))))


# -- Connected components of an instance of one example --------------------------------------------------------------

#: Entries from which on a table is copied as a whole.
LARGE_TABLES = 64


def split_components(instance: Instance) -> list[tuple[Instance, I64]]:
    """Return the components with the variables of each, small ones first; their constants are zero."""
    label = components(instance.graph)
    n_parts = int(label.max()) + 1
    if n_parts == 1:
        return [(instance, np.arange(len(label), dtype=np.int64))]
    parts = [_take(instance, label, part) for part in range(n_parts)]
    return sorted(parts, key=lambda part: len(part[0].node))


def components(graph: Graph) -> I64:
    """Return the number of the component of each variable."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n, first = graph.n_variables, graph.scope[graph.slot_ptr[:-1]]
    rows = np.repeat(first, np.diff(graph.slot_ptr))
    matrix = coo_array((np.ones(len(rows), np.int8), (rows, graph.scope)), shape=(n, n))
    return np.asarray(connected_components(matrix, directed=False)[1], dtype=np.int64)


def _take(instance: Instance, label: I64, part: int) -> tuple[Instance, I64]:
    g = instance.graph
    variables = np.flatnonzero(label == part)
    factors = np.flatnonzero(label[g.scope[g.slot_ptr[:-1]]] == part)
    new = np.zeros(g.n_variables, dtype=np.int32)
    new[variables] = np.arange(len(variables))
    arity = np.diff(g.slot_ptr)[factors]
    graph = make_graph(
        np.array([0, len(variables)], dtype=np.int64),
        g.card[variables],
        np.array([0, len(factors)], dtype=np.int64),
        pointers(arity),
        new[g.scope[runs(g.slot_ptr[factors], arity)]],
    )
    pool = _tables(instance.pool, g.table_ptr[factors], g.table_size[factors])
    node = instance.node[runs(g.state_ptr[variables], g.card[variables])]
    return Instance(graph, node, pool, np.zeros(1)), variables


def _tables(pool: F64, start: I64, size: I64) -> F64:
    """Return tables one after the other; large ones are copied as they are, without a list of their entries."""
    if size.sum() <= LARGE_TABLES * len(size):
        return pool[runs(start, size)]
    return np.concatenate([pool[a : a + n] for a, n in zip(start.tolist(), size.tolist(), strict=True)])


def single(instance: Instance, example: int) -> Instance:
    """Return one example of an instance by itself, its tables in the order of its factors.

    That is the instance itself when it is the only one and has its tables in that order.
    """
    g = instance.graph
    if g.n_examples == 1 and np.array_equal(np.diff(g.table_ptr, append=len(instance.pool)), g.table_size):
        return instance
    label = np.repeat(np.arange(g.n_examples), np.diff(g.var_ptr))
    alone, _ = _take(instance, label, example)
    return Instance(alone.graph, alone.node, alone.pool, instance.const[example : example + 1])
