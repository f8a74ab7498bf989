"""Reduces an instance: takes out forbidden states, and variables with one state left.

A state is *open* when its unary score is finite and each of its factors has a joint state with it that is not
``-inf`` and whose other states are open too (generalised arc consistency; Mackworth 1977).  States that are not
open are in no labelling of finite score.  Conditioning on the open states drops them: variables with a single open
state move into the constants, factors shrink to their other variables, and factors of one variable move into
the unary scores.  Solvers then meet finite unary scores only, and may take differences of messages freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ssvm_backends.graphs.graph import Graph, Instance, make_graph
from ssvm_dsl.ir import I32, I64, Bools, BoundedCache, Program, Question, Theta, members, pointers, runs
from ssvm_dsl.plugin_api import pause, structure_keys

if TYPE_CHECKING:
    from ssvm_backends.graphs.kernels import Conditioned

#: Seconds of the two kernels for an entry of a table: propagation reads each, conditioning copies the open ones.
PROPAGATING, CONDITIONING = 10e-9, 10e-9

NO_STATES, NO_SLOTS = np.zeros(0, np.int32), np.zeros(0, np.int64)

#: What is kept of earlier questions of a session, in bytes; and the most scores of a program for which it is.
KEPT_BYTES, MOST_SCORES = 2**22, 2**16


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
    remainder : Remainder, optional
        The same without scores; ``None`` when nothing was taken out.
    """

    instance: Instance
    ids: I64
    feasible: Bools
    kept: I64 | None
    decided: I32
    state: I32
    slot: I64
    remainder: Remainder | None = None

    @property
    def label_ptr(self) -> I64:
        """Where the labels of each example asked for start, in packed labels of ``instance``."""
        var_ptr = self.instance.graph.var_ptr
        if self.remainder is not None or len(var_ptr) == 2 == len(self.ids) + 1:  # all examples, in order
            return var_ptr
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


@dataclass(frozen=True, eq=False)
class Remainder:
    """What is left of some examples, without scores: it follows from which scores are ``-inf``.

    Parameters
    ----------
    graph : Graph
        Of what is left; its examples are those asked for.
    feasible, kept, decided, state, slot
        As of :class:`Reduced`.
    examples : ndarray of int64, shape (n,)
        The numbers that the examples had.
    states : ndarray of int64
        For each state of ``graph`` its place among all states before.
    settled, settled_of : ndarray of int64
        States (places before) of the variables that were taken out, and the example of each.
    factors, factor_of : ndarray of int64
        Factors before, and the example of each.
    left : Conditioned
        What the kernel reads that conditions tables.
    """

    graph: Graph
    feasible: Bools
    kept: I64
    decided: I32
    state: I32
    slot: I64
    examples: I64
    states: I64
    settled: I64
    settled_of: I64
    factors: I64
    factor_of: I64
    left: Conditioned

    def reduced(self, before: Instance) -> Reduced:
        """Return what is left of the examples with their scores."""
        from ssvm_backends.graphs.kernels import fill_tables

        pause(CONDITIONING * self.entries)
        node, const, pool = before.node[self.states], before.const[self.examples], np.empty(self.entries)
        const += np.bincount(self.settled_of, weights=before.node[self.settled], minlength=len(const))
        const[~self.feasible] = -np.inf
        fill_tables(before.graph, before.pool, self.factors, self.factor_of, self.left, pool, node, const)
        left = Instance(self.graph, node, pool, const)
        return Reduced(left, self.ids, self.feasible, self.kept, self.decided, self.state, self.slot, self)

    @cached_property
    def entries(self) -> int:
        """Numbers in all tables."""
        return int(self.graph.table_size.sum())

    @cached_property
    def ids(self) -> I64:
        """The examples as ``graph`` numbers them."""
        return np.arange(len(self.examples), dtype=np.int64)

    @cached_property
    def alike(self) -> list[tuple[bytes, I64]]:
        """The examples with identical graphs: (key of the structure, their numbers)."""
        graph = self.graph
        keys = structure_keys(graph.var_ptr, graph.card, graph.factor_ptr, graph.slot_ptr, graph.scope)
        return alike(keys, self.ids)

    @property
    def n_bytes(self) -> int:
        """Memory that its arrays take."""
        arrays = (*self.graph, *self.left, *vars(self).values())
        return sum(one.nbytes for one in arrays if isinstance(one, np.ndarray))


def alike(keys: Sequence[bytes], ids: I64) -> list[tuple[bytes, I64]]:
    """Return (key, positions in ``ids``) of the examples with equal keys."""
    positions_of: dict[bytes, list[int]] = {}
    for position, here in enumerate(ids.tolist()):
        positions_of.setdefault(keys[here], []).append(position)
    return [(key, np.array(positions, dtype=np.int64)) for key, positions in positions_of.items()]


class Remainders:
    """What was left of earlier questions about a program: masks and hard tables are the same in most of them.

    Parameters
    ----------
    program : Program
    graph : Graph
        ``build_graph(program)``.
    """

    def __init__(self, program: Program, graph: Graph) -> None:
        self.program, self.graph = program, graph
        self._kept: BoundedCache[tuple[bytes, bytes, bytes], Remainder] = BoundedCache(KEPT_BYTES)

    def __len__(self) -> int:
        return len(self._kept)

    def reduce(self, question: Question, always: bool = False) -> Reduced:
        """Return what is left of the examples asked for under masks, clamps and forbidden scores.

        Parameters
        ----------
        question : Question
        always : bool
            Make a compact instance of these examples even when nothing can be taken out.

        Raises
        ------
        OutOfTime
            The tables are too large for the time that the call at hand has left.
        """
        theta, ids, node = question.theta, question.ids(self.program), question.masked_node(self.program)
        # fmin: scores of examples that are not asked for may be nan
        lowest = min(np.fmin.reduce(node, initial=0.0), np.fmin.reduce(theta.pool, initial=0.0))
        if not (always or lowest == -np.inf):
            return everything(self.graph, theta, ids)
        instance, alive = Instance(self.graph, node, theta.pool, theta.const), node > -np.inf
        if len(node) + len(theta.pool) > MOST_SCORES:
            return condition(instance, ids, alive)
        key = ids.tobytes(), alive.tobytes(), (theta.pool > -np.inf).tobytes()
        rest = self._kept.get(key)
        if rest is None:
            rest = remainder(instance, ids, alive)
            self._kept.put(key, rest, rest.n_bytes + sum(map(len, key)))
        return rest.reduced(instance)


def reduce_problem(program: Program, graph: Graph, question: Question, always: bool = False) -> Reduced:
    """Return what is left of the examples of one question; see :meth:`Remainders.reduce`."""
    return Remainders(program, graph).reduce(question, always)


def everything(graph: Graph, theta: Theta, ids: I64) -> Reduced:
    """Return examples from which nothing is taken out."""
    return Reduced(Instance.of(graph, theta), ids, np.ones(len(ids), bool), None, NO_STATES, NO_STATES, NO_SLOTS)


def condition(instance: Instance, ids: I64, alive: Bools) -> Reduced:
    """Return what is left of examples when only some states may be taken; the arguments are those of `remainder`."""
    return remainder(instance, ids, alive).reduced(instance)


def remainder(instance: Instance, ids: I64, alive: Bools) -> Remainder:
    """Return what is left of examples when only some states may be taken (they are propagated first).

    Parameters
    ----------
    instance : Instance
        Of the scores it is read which ones are ``-inf``.
    ids : ndarray of int64, shape (n,)
    alive : ndarray of bool, shape (S,)
        States that may be taken; changed in place by propagation.

    Raises
    ------
    OutOfTime
        The tables are too large for the time that the call at hand has left.
    """
    from ssvm_backends.graphs.kernels import Conditioned, propagate

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
    settled = variables[ok & ~free[variables]]
    position = np.repeat(np.arange(len(ids)), lengths)
    new_var = np.full(graph.n_variables, -1, dtype=np.int64)
    new_var[chosen] = np.arange(len(chosen))
    factors, factor_of, open_slots = _open_slots(graph, ids[feasible], np.flatnonzero(feasible), free)
    arity = np.diff(open_slots[0])
    kept_factor = arity >= 2
    slots = open_slots[1][runs(open_slots[0][:-1][kept_factor], arity[kept_factor])]
    made = make_graph(
        pointers(np.bincount(position[kept], minlength=len(ids))),
        card,
        pointers(np.bincount(factor_of[kept_factor], minlength=len(ids))),
        pointers(arity[kept_factor]),
        new_var[graph.scope[slots]].astype(np.int32),
    )
    return Remainder(
        made, feasible, kept, first_alive[variables].astype(np.int32), state, slots, ids, states,
        graph.state_ptr[settled] + first_alive[settled], position[ok & ~free[variables]], factors, factor_of,
        Conditioned(first_alive, new_var, made.state_ptr, state),
    )  # fmt: skip


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
