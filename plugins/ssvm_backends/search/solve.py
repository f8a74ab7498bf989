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
from functools import cache
from itertools import combinations

import numpy as np

from ssvm_backends.graphs.graph import Instance, make_graph
from ssvm_backends.graphs.reduce import condition
from ssvm_backends.local.search import LOOK_PART, improve_within, local_search, score_of
from ssvm_backends.search.branch import Branch
from ssvm_backends.search.core import C0, make_core, make_state
from ssvm_backends.search.eliminate import eliminate, untouched
from ssvm_backends.search.propagate import load, propagate_root, rest_of_tables
from ssvm_backends.search.search import make_tree, root_of, search
from ssvm_backends.search.split import split
from ssvm_backends.search.subproblem import (
    FIRST,
    ROOT_PART,
    Listener,
    Setup,
    Subproblem,
    best_states,
    trivial_bound,
)
from ssvm_dsl.ir import I32, I64, Limits
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
    parts = split(left)
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
        part.proved()
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
