"""A batch of factor graphs with scores, as flat arrays that kernels read: the input of solvers for any graph.

A :class:`Graph` is the structure of a :class:`~ssvm_dsl.ir.Program` with the factors of all groups in one list,
sorted by example.  A *slot* is one variable of one factor; ``scope`` lists the variable of every slot.  Messages
between a factor and its variables have their place by slot: those of slot k are
``message_ptr[k] : message_ptr[k + 1]``.

An :class:`Instance` adds scores.  Solvers never meet a forbidden state or a variable without a choice: those
are taken out first (:mod:`ssvm_backends.graphs.reduce`).  Forbidden joint states remain ``-inf`` in the tables, but
every state that is left has, in each of its factors, a joint state that is allowed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Need, Program, Theta, first_largest, owners, pointers, runs
from ssvm_dsl.plugin_api import pause


class Graph(NamedTuple):
    """Variables and factors of B examples.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (B + 1,)
        Variables of each example.
    state_ptr : ndarray of int64, shape (V + 1,)
        States of each variable.
    card : ndarray of int32, shape (V,)
    factor_ptr : ndarray of int64, shape (B + 1,)
        Factors of each example.
    slot_ptr : ndarray of int64, shape (F + 1,)
        Slots of each factor (two or more).
    scope : ndarray of int32, shape (K,)
        The variable of each slot.
    table_ptr : ndarray of int64, shape (F,)
        Where each factor's table starts in the pool (C order over its slots; tables may be shared).
    table_size : ndarray of int64, shape (F,)
    stride : ndarray of int64, shape (K,)
        Step in the table when the state of this slot's variable grows by one.
    touch_ptr : ndarray of int64, shape (V + 1,)
        Slots of each variable: ``touch_slot[touch_ptr[v]:touch_ptr[v + 1]]``, in the order of their factors.
    touch_slot : ndarray of int64, shape (K,)
    slot_factor : ndarray of int64, shape (K,)
        The factor of each slot.
    message_ptr : ndarray of int64, shape (K + 1,)
        Place of the messages of each slot, one number for each state of its variable.
    """

    var_ptr: I64
    state_ptr: I64
    card: I32
    factor_ptr: I64
    slot_ptr: I64
    scope: I32
    table_ptr: I64
    table_size: I64
    stride: I64
    touch_ptr: I64
    touch_slot: I64
    slot_factor: I64
    message_ptr: I64

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.var_ptr) - 1

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.card)

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self.table_ptr)

    @property
    def max_arity(self) -> int:
        """Largest number of variables in a factor (1 without factors)."""
        return int(np.diff(self.slot_ptr).max(initial=1))


class Instance(NamedTuple):
    """A graph with scores: ``const + sum_v node[v, y_v] + sum_f pool[table_ptr[f] + config(y, f)]``.

    Parameters
    ----------
    graph : Graph
    node : ndarray of float64, shape (S,)
    pool : ndarray of float64
    const : ndarray of float64, shape (B,)
    """

    graph: Graph
    node: F64
    pool: F64
    const: F64

    @classmethod
    def of(cls, graph: Graph, theta: Theta) -> Instance:
        """Return the instance of a program's graph and scores, nothing copied."""
        return cls(graph, theta.node, theta.pool, theta.const)


def make_graph(
    var_ptr: I64, card: I32, factor_ptr: I64, slot_ptr: I64, scope: I32, table_ptr: I64 | None = None
) -> Graph:
    """Return the graph of some factors; without ``table_ptr`` their tables lie one after the other."""
    n_factors = len(slot_ptr) - 1
    slot_card = card[scope].astype(np.int64)
    stride, table_size = _strides(slot_ptr, slot_card)
    pause()
    touch_slot = np.argsort(scope, kind="stable").astype(np.int64)
    return Graph(
        var_ptr=var_ptr,
        state_ptr=pointers(card),
        card=card,
        factor_ptr=factor_ptr,
        slot_ptr=slot_ptr,
        scope=scope,
        table_ptr=pointers(table_size)[:-1] if table_ptr is None else table_ptr,
        table_size=table_size,
        stride=stride,
        touch_ptr=pointers(np.bincount(scope, minlength=len(card))),
        touch_slot=touch_slot,
        slot_factor=np.repeat(np.arange(n_factors, dtype=np.int64), np.diff(slot_ptr)),
        message_ptr=pointers(slot_card),
    )


def _strides(slot_ptr: I64, slot_card: I64) -> tuple[I64, I64]:
    """Return (stride of each slot, size of each table), arity by arity."""
    arity = np.diff(slot_ptr)
    stride, size = np.ones(len(slot_card), dtype=np.int64), np.ones(len(arity), dtype=np.int64)
    for r in np.unique(arity):
        factors = np.flatnonzero(arity == r)
        slots = slot_ptr[factors][:, None] + np.arange(r)
        pause()
        products = np.cumprod(slot_card[slots][:, ::-1], axis=1)[:, ::-1]
        pause()
        stride[slots[:, :-1]] = products[:, 1:]
        size[factors] = products[:, 0]
    return stride, size


def build_graph(program: Program) -> Graph:
    """Return the graph of a program; its tables lie in ``Theta.pool``."""
    # of each factor, group by group; the empty arrays are for programs without groups
    owner, arity, table = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    flat, offset = [np.zeros(0, np.int32)], 0
    for group in program.groups:
        owner.append(owners(group.ptr))
        arity.append(np.full(group.n_factors, group.arity))
        table.append(offset + group.table_rows().astype(np.int64) * group.n_configs)
        flat.append(group.shapes.variables().ravel())
        offset += group.n_tables * group.n_configs
        pause()
    owner_of, arity_of = np.concatenate(owner), np.concatenate(arity)
    by_example = np.argsort(owner_of, kind="stable")
    slots = runs(pointers(arity_of)[:-1][by_example], arity_of[by_example])
    return make_graph(
        program.var_ptr,
        program.card,
        pointers(np.bincount(owner_of, minlength=program.n_examples)),
        pointers(arity_of[by_example]),
        np.ascontiguousarray(np.concatenate(flat)[slots], dtype=np.int32),
        np.concatenate(table)[by_example],
    )


def degree(need: Need) -> float:
    """Return the mean number of factors of a variable, which makes graphs of one size hard or easy to search."""
    return need.n_slots / max(need.n_variables, 1)


def graph_bytes(need: Need) -> float:
    """Return the memory that :func:`build_graph` takes at its peak for the problems of a need."""
    return 62.0 * need.n_slots + 60.0 * need.n_factors + 30.0 * need.n_variables


def factor_origin(program: Program) -> tuple[I64, I64]:
    """Return for each factor of :func:`build_graph` the group it comes from and its number there."""
    groups = program.groups
    owner = np.concatenate([owners(g.ptr) for g in groups]) if groups else np.zeros(0, np.int64)
    group = np.repeat(np.arange(len(groups), dtype=np.int64), [g.n_factors for g in groups])
    number = np.concatenate([np.arange(g.n_factors, dtype=np.int64) for g in groups]) if groups else group
    by_example = np.argsort(owner, kind="stable")
    return group[by_example], number[by_example]


# -- The best state of each variable by itself -----------------------------------------------------------------------


def top_states(worth: F64, card: I32 | I64) -> I32:
    """Return the state of largest worth of each variable, the first among equals.

    Parameters
    ----------
    worth : ndarray of float64
        Of the states of each variable, one after the other.
    card : ndarray of int, shape (n,)
        Their numbers.
    """
    return first_largest(worth, pointers(card)).astype(np.int32)
