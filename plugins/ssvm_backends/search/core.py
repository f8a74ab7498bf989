"""The data of the branch and bound of ``combi``: costs as they were, and the state of one search node.

Inside the search costs are *minimised* (``cost = -score``; forbidden joint states cost ``inf``).  The problem is
kept in reparametrised form: for amounts ``m`` moved from factors to their variables,

    cost(y) = c0 + sum_v u_v(y_v) + sum_f [ table_f(y_f) - sum_k m_{f,k}(y_k) ],

with ``u >= 0`` and each bracket ``>= 0`` on the states that are left, so ``c0`` is a lower bound.  Each move
(:mod:`ssvm_backends.search.moves`) only changes entries of ``value = (m, u)`` and ``c0``; a trail of old entries
takes a branch back exactly.  Domains are sparse sets (Briggs & Torczon 1993): removing a state is a swap, taking
it back is the old size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I8, I32, I64

# Places in State.real
C0, UB, TAU, EPS = 0, 1, 2, 3
# Places in State.tally
TOP, DOMAIN_TOP, LEVEL, TRAILING, N_AC, N_DAC, N_EAC, CULPRIT, WORK, LAST, NODES, HIGH, ROUND, LIMIT = range(14)


class Core(NamedTuple):
    """The constant data: the graph of one example and its costs.

    Parameters
    ----------
    state_ptr, slot_ptr, scope, table_ptr, stride, touch_ptr, touch_slot, slot_factor, message_ptr : ndarray
        As in :class:`~ssvm_backends.graphs.graph.Graph`.
    cost : ndarray of float64
        Tables, to be minimised.
    node_cost : ndarray of float64, shape (S,)
    order : ndarray of int64, shape (V,)
        Directional moves go from late to early variables of this order.
    rank : ndarray of int64, shape (V,)
        Inverse of ``order``.
    n_variables, n_factors, n_states : int
    n_messages : int
        Place of the unary costs in ``State.value``.
    width : int
        Most states of a variable: length of a row of ``State.work``.
    half : int
        Length of a row of ``State.digit``.
    capacity : int
        Capacity of the trail, in entries.
    """

    state_ptr: I64
    slot_ptr: I64
    scope: I32
    table_ptr: I64
    stride: I64
    touch_ptr: I64
    touch_slot: I64
    slot_factor: I64
    message_ptr: I64
    cost: F64
    node_cost: F64
    order: I64
    rank: I64
    n_variables: int
    n_factors: int
    n_states: int
    n_messages: int
    width: int
    half: int
    capacity: int


class State(NamedTuple):
    """One node of the search, and how to backtrack to its ancestors.

    Parameters
    ----------
    value : ndarray of float64, shape (M + S,)
        Moved amounts by slot and state, then unary costs.
    domain, place : ndarray of int32, shape (S,)
        States of each variable, those that are left first; where each state is in ``domain``.
    size : ndarray of int32, shape (V,)
        How many are left.
    free : ndarray of int32, shape (F,)
        Variables of each factor with more than one state left.
    weight : ndarray of float64, shape (F,)
        Conflicts each factor caused, plus one (Boussemart et al. 2004).
    degree : ndarray of float64, shape (V,)
        Sum of the weights of a variable's factors that join it to another open variable.
    real, tally : ndarray
        Numbers, see the names above.
    trail_at, trail_old : ndarray
        Entries of ``value`` to restore.
    stamp : ndarray of int64, shape (M + S,)
        Level at which each entry was saved.
    domain_trail : ndarray of int32, shape (2 k,)
        Variables and their former sizes.
    in_ac, in_dac, in_eac : ndarray of int8, shape (V,)
        Membership of the queues; ``queue`` lists the first, ``changed`` the last.
    seen : ndarray of int64, shape (V,)
        Round in which a variable was last looked at.
    work : ndarray of float64
        Work space of the kernels.
    best : ndarray of int32, shape (V,)
        Best labelling so far.
    """

    value: F64
    domain: I32
    place: I32
    size: I32
    free: I32
    weight: F64
    degree: F64
    real: F64
    tally: I64
    trail_at: I64
    trail_old: F64
    stamp: I64
    domain_trail: I32
    in_ac: I8
    in_dac: I8
    in_eac: I8
    queue: I32
    changed: I32
    near: I32
    seen: I64
    work: F64
    digit: I64
    best: I32


def make_core(instance: Instance, order: I64 | None = None) -> Core:
    """Return the core of an instance of one example; the order is the variables' own by default."""
    g = instance.graph
    n, n_states = g.n_variables, int(g.state_ptr[-1])
    n_values = int(g.message_ptr[-1]) + n_states
    order = np.arange(n, dtype=np.int64) if order is None else order
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    cost = np.where(instance.pool == -np.inf, np.inf, -instance.pool)
    return Core(
        g.state_ptr, g.slot_ptr, g.scope, g.table_ptr, g.stride, g.touch_ptr, g.touch_slot, g.slot_factor,
        g.message_ptr, cost, -instance.node, order, rank, n, g.n_factors, n_states, int(g.message_ptr[-1]),
        int(g.card.max(initial=1)), g.max_arity + 1, n_values + min(63 * n_values, 1 << 23),
    )  # fmt: skip


def make_state(graph: Graph, core: Core) -> State:
    """Return a state with all states open and no labelling known; its values are yet to be loaded."""
    n_var, n_states = core.n_variables, core.n_states
    domain = (np.arange(n_states) - np.repeat(graph.state_ptr[:-1], graph.card)).astype(np.int32)
    arity = np.diff(graph.slot_ptr).astype(np.int32)
    return State(
        value=np.zeros(core.n_messages + n_states),
        domain=domain,
        place=domain.copy(),
        size=graph.card.copy(),
        free=arity,
        weight=np.ones(core.n_factors),
        degree=np.diff(graph.touch_ptr).astype(np.float64),
        real=np.array([0.0, np.inf, 1e-9, 1e-9]),
        tally=np.zeros(16, dtype=np.int64),
        trail_at=np.empty(core.capacity, dtype=np.int64),
        trail_old=np.empty(core.capacity),
        stamp=np.full(core.n_messages + n_states, -1, dtype=np.int64),
        domain_trail=np.empty(2 * (n_states + n_var + 1), dtype=np.int32),
        in_ac=np.zeros(n_var, dtype=np.int8),
        in_dac=np.zeros(n_var, dtype=np.int8),
        in_eac=np.zeros(n_var, dtype=np.int8),
        queue=np.empty(n_var + 1, dtype=np.int32),
        changed=np.empty(n_var + 1, dtype=np.int32),
        near=np.empty(n_var + 1, dtype=np.int32),
        seen=np.zeros(n_var, dtype=np.int64),
        work=np.zeros(3 * core.width),
        digit=np.zeros(2 * core.half, dtype=np.int64),
        best=np.zeros(n_var, dtype=np.int32),
    )
