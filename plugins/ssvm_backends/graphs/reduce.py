"""Reduces an instance: takes out forbidden states, and variables with one state left.

A state is *open* when its unary score is finite and each of its factors has a joint state with it that is not
``-inf`` and whose other states are open too (generalised arc consistency; Mackworth 1977).  States that are not
open are in no labelling of finite score.  Conditioning on the open states drops them: variables with a single open
state move into the constants, factors shrink to their other variables, and factors of one variable move into
the unary scores.  Solvers then meet finite unary scores only, and may take differences of messages freely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_backends.graphs.graph import Graph, Instance, instance_of, make_graph
from ssvm_dsl.ir import I32, I64, Bools, Program, Question, Theta, members, pointers, runs
from ssvm_dsl.plugin_api import pause

#: Seconds of the two kernels for an entry of a table: propagation reads each, conditioning copies the open ones.
PROPAGATING, CONDITIONING = 10e-9, 10e-9


@dataclass(frozen=True, eq=False)
class Reduced:
    """Some examples without decided states, and the map back from their labellings.

    Parameters
    ----------
    instance : Instance
        What is left.
    ids : ndarray of int64, shape (n,)
        The examples asked for, as numbered in ``instance``.
    feasible : ndarray of bool, shape (n,)
        False where propagation found that no labelling is possible.
    kept : ndarray of int64, optional
        For each variable of ``instance`` its place in the packed labels of the examples asked for;
        ``None`` when nothing was taken out and the instance is the whole program.
    decided : ndarray of int32
        Packed labels of the examples asked for, right for every variable that was taken out.
    state : ndarray of int32
        For each state of ``instance`` the state it was.
    slot : ndarray of int64
        For each slot of ``instance`` the slot it was.
    """

    instance: Instance
    ids: I64
    feasible: Bools
    kept: I64 | None
    decided: I32
    state: I32
    slot: I64

    @property
    def label_ptr(self) -> I64:
        """Where the labels of each example asked for start, in packed labels of ``instance``."""
        var_ptr = self.instance.graph.var_ptr
        return pointers(var_ptr[1:][self.ids] - var_ptr[self.ids])

    def lift(self, labels: I32) -> I32:
        """Return packed labels of the examples asked for, from packed labels of ``instance`` over ``ids``."""
        if self.kept is None:
            return labels
        full = self.decided.copy()
        full[self.kept] = self.state[self.instance.graph.state_ptr[:-1] + labels]
        return full

    def restrict(self, labels: I32) -> I32 | None:
        """Return labels of ``instance`` from packed labels of the examples asked for; ``None`` if one is not open."""
        if self.kept is None:
            return labels
        graph = self.instance.graph
        place = np.full(len(self.kept), -1, dtype=np.int32)
        variable = np.repeat(np.arange(graph.n_variables), graph.card)
        hit = labels[self.kept][variable] == self.state
        place[variable[hit]] = (np.flatnonzero(hit) - graph.state_ptr[variable[hit]]).astype(np.int32)
        return None if (place < 0).any() else place


def reduce_problem(program: Program, graph: Graph, question: Question, always: bool = False) -> Reduced:
    """Return the examples asked for, reduced by masks, clamps and forbidden scores.

    Parameters
    ----------
    program : Program
    graph : Graph
        ``build_graph(program)``.
    question : Question
    always : bool
        Make a compact instance of these examples even when nothing can be taken out.

    Raises
    ------
    OutOfTime
        The tables are too large for the time that the call at hand has left.
    """
    theta, ids, node = question.theta, question.ids(program), question.masked_node(program)
    instance = Instance(graph, node, theta.pool, theta.const)
    # fmin: scores of examples that are not asked for may be nan
    lowest = min(np.fmin.reduce(node, initial=0.0), np.fmin.reduce(theta.pool, initial=0.0))
    if not (always or lowest == -np.inf):
        return everything(graph, theta, ids)
    return condition(instance, ids, node > -np.inf)


def everything(graph: Graph, theta: Theta, ids: I64) -> Reduced:
    """Return examples from which nothing is taken out."""
    none = np.zeros(0, np.int32)
    return Reduced(instance_of(graph, theta), ids, np.ones(len(ids), bool), None, none, none, none.astype(np.int64))


def condition(instance: Instance, ids: I64, alive: Bools) -> Reduced:
    """Return examples reduced to some allowed states (these are propagated first).

    Parameters
    ----------
    instance : Instance
    ids : ndarray of int64, shape (n,)
    alive : ndarray of bool, shape (S,)
        States that may be taken; changed in place by propagation.

    Raises
    ------
    OutOfTime
        The tables are too large for the time that the call at hand has left.
    """
    from ssvm_backends.graphs.reduce_kernels import Conditioned, fill_tables, propagate

    graph = instance.graph
    pause(PROPAGATING * float(graph.table_size[members(graph.factor_ptr, ids)].sum()))
    feasible = np.ones(len(ids), dtype=bool)
    propagate(graph, instance.pool, ids, alive, feasible)
    variables = members(graph.var_ptr, ids)
    lengths = graph.var_ptr[1:][ids] - graph.var_ptr[ids]
    ok = np.repeat(feasible, lengths)
    ends = pointers(graph.card[variables])  # of the examples asked for, which may be few of many
    open_states = alive[runs(graph.state_ptr[variables], graph.card[variables])]
    before = pointers(open_states.astype(np.int8))
    count, first_alive = np.zeros((2, graph.n_variables), dtype=np.int64)
    count[variables] = before[ends[1:]] - before[ends[:-1]]
    rows = np.flatnonzero(open_states)[::-1]
    owner = np.repeat(np.arange(len(variables)), graph.card[variables])[rows]
    first_alive[variables[owner]] = rows - ends[owner]
    free = np.zeros(graph.n_variables, dtype=bool)
    free[variables[ok]] = count[variables[ok]] > 1
    kept = np.flatnonzero(free[variables])
    chosen = variables[kept]
    states = runs(graph.state_ptr[chosen], graph.card[chosen])
    states = states[alive[states]]
    card = count[chosen].astype(np.int32)
    state = (states - np.repeat(graph.state_ptr[chosen], card)).astype(np.int32)
    node, const = instance.node[states], instance.const[ids].copy()
    settled = variables[ok & ~free[variables]]
    position = np.repeat(np.arange(len(ids)), lengths)
    values = instance.node[graph.state_ptr[settled] + first_alive[settled]]
    const += np.bincount(position[ok & ~free[variables]], weights=values, minlength=len(ids))
    const[~feasible] = -np.inf
    new_var = np.full(graph.n_variables, -1, dtype=np.int64)
    new_var[chosen] = np.arange(len(chosen))
    factors, owner_of, open_slots = _open_slots(graph, ids[feasible], np.flatnonzero(feasible), free)
    arity = np.diff(open_slots[0])
    kept_factor = arity >= 2
    slots = runs(open_slots[0][:-1][kept_factor], arity[kept_factor])
    made = make_graph(
        pointers(np.bincount(position[kept], minlength=len(ids))),
        card,
        pointers(np.bincount(owner_of[kept_factor], minlength=len(ids))),
        pointers(arity[kept_factor]),
        new_var[graph.scope[open_slots[1][slots]]].astype(np.int32),
    )
    entries = int(made.table_size.sum())
    pause(CONDITIONING * entries)
    pool = np.empty(entries)
    what_is_left = Conditioned(first_alive, new_var, made.state_ptr, state)
    fill_tables(graph, instance.pool, factors, owner_of, what_is_left, pool, node, const)
    decided = first_alive[variables].astype(np.int32)
    left = Instance(made, node, pool, const)
    return Reduced(left, np.arange(len(ids), dtype=np.int64), feasible, kept, decided, state, open_slots[1][slots])


def _open_slots(graph: Graph, ids: I64, numbers: I64, free: Bools) -> tuple[I64, I64, tuple[I64, I64]]:
    """Return (factors of the examples, example number of each, (pointer, slots of free variables))."""
    factors = members(graph.factor_ptr, ids)
    owner = np.repeat(numbers, graph.factor_ptr[1:][ids] - graph.factor_ptr[ids])
    arity = graph.slot_ptr[1:][factors] - graph.slot_ptr[factors]
    slots = runs(graph.slot_ptr[factors], arity)
    is_open = free[graph.scope[slots]]
    of_factor = np.repeat(np.arange(len(factors)), arity)
    counts = np.bincount(of_factor[is_open], minlength=len(factors))
    return factors, owner, (pointers(counts), slots[is_open])
