"""The data of the branch and bound of ``combi``: costs as they were, and the state of one search node.

Inside the search costs are *minimised* (``cost = -score``; forbidden joint states cost ``inf``).  The problem is
kept in reparametrised form: for amounts ``m`` moved from factors to their variables,

    cost(y) = c0 + sum_v u_v(y_v) + sum_f [ table_f(y_f) - sum_k m_{f,k}(y_k) ],

with ``u >= 0`` and each bracket ``>= 0`` on the states that are left, so ``c0`` is a lower bound.  Each move
only changes entries of ``value = (m, u)`` and ``c0``; a trail of old entries
takes a branch back exactly.  Domains are sparse sets (Briggs & Torczon 1993): removing a state is a swap, taking
it back is the old size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I8, I32, I64
from ssvm_dsl.kernels import njit

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


# -- Moves of cost between factors, variables and the lower bound: they change no labelling's cost -------------------
#
# *Projection* moves the smallest cost of a factor over its other variables to the states of one variable. *Extension*
# moves unary cost back into a factor.  A *directional* move extends the unary costs of all other variables of a factor
# as far as the projection to one variable needs them (full directional arc consistency; Cooper & Schiex 2004; larger
# factors as in Lee & Leung 2012).  States whose cost with ``c0`` reaches the best labelling are removed (node
# consistency; Larrosa & Schiex 2004).

#: Numbers of one type.  Numba compiles a function again for each literal argument, and for each size of
#: integers; sums with ``ZERO`` make all alike, which saves a third of the time to compile.
ZERO: Any = np.int64(0)
ONE: Any = np.int64(1)
NO, YES = np.bool_(False), np.bool_(True)

#: The modes of :func:`move`.
PROJECT, DIRECT, LOOK = ZERO, ONE, ONE + ONE

#: What :func:`_plane` computes: gains, or needs, of each state of its second variable.
GAINS, EACH = -ONE - ONE, -ONE


@njit(cache=True, nogil=True)
def put(st: State, at: int, new: float) -> None:
    """Change an entry of ``value``; its old content goes to the trail once for each level."""
    if st.tally[TRAILING] and st.stamp[at] != st.tally[LEVEL]:
        st.stamp[at] = st.tally[LEVEL]
        top = st.tally[TOP]
        st.trail_at[top] = at
        st.trail_old[top] = st.value[at]
        st.tally[TOP] = top + 1
    st.value[at] = new


@njit(cache=True, nogil=True)
def resize(core: Core, st: State, v: int, size: int) -> None:
    """Change how many states of a variable are left; keep the counts of its factors."""
    if st.tally[TRAILING]:
        top = st.tally[DOMAIN_TOP]
        st.domain_trail[2 * top] = v
        st.domain_trail[2 * top + 1] = st.size[v]
        st.tally[DOMAIN_TOP] = top + 1
    st.size[v] = size
    if size == 1:
        for t in range(core.touch_ptr[v], core.touch_ptr[v + 1]):
            f = core.slot_factor[core.touch_slot[t]]
            st.free[f] -= 1
            if st.free[f] == 1:
                st.degree[other_open(core, st, f, v)] -= st.weight[f]


@njit(cache=True, nogil=True)
def other_open(core: Core, st: State, f: int, v: int) -> int:
    """Return the first variable of a factor other than v that has several states left."""
    for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
        w = core.scope[k]
        if w != v and st.size[w] > 1:
            return w
    return v


@njit(cache=True, nogil=True)
def undo(core: Core, st: State, top: int, domain_top: int) -> None:
    """Take everything back that came after the given places of the trails."""
    while st.tally[TOP] > top:
        st.tally[TOP] -= 1
        st.value[st.trail_at[st.tally[TOP]]] = st.trail_old[st.tally[TOP]]
    while st.tally[DOMAIN_TOP] > domain_top:
        st.tally[DOMAIN_TOP] -= 1
        top2 = 2 * st.tally[DOMAIN_TOP]
        v, old = ZERO + st.domain_trail[top2], st.domain_trail[top2 + 1]
        if st.size[v] == 1 and old > 1:
            for t in range(core.touch_ptr[v], core.touch_ptr[v + 1]):
                f = core.slot_factor[core.touch_slot[t]]
                if st.free[f] == 1:
                    st.degree[other_open(core, st, f, v)] += st.weight[f]
                st.free[f] += 1
        st.size[v] = old


@njit(cache=True, nogil=True)
def shift(core: Core, st: State, v: int, s: int, place: int) -> None:
    """Swap a state of v to a place of its domain."""
    first = core.state_ptr[v]
    here = st.place[first + s]
    other = st.domain[first + place]
    st.domain[first + here], st.domain[first + place] = other, s
    st.place[first + other], st.place[first + s] = here, place


@njit(cache=True, nogil=True)
def note_removal(core: Core, st: State, v: int) -> None:
    """Note that states of v were removed."""
    if not st.in_ac[v]:
        st.in_ac[v] = 1
        st.queue[st.tally[N_AC]] = v
        st.tally[N_AC] += 1
    note_growth(core, st, v)


@njit(cache=True, nogil=True)
def note_growth(core: Core, st: State, v: int) -> None:
    """Note that unary costs of v have grown."""
    if not st.in_dac[v]:
        st.in_dac[v] = 1
        st.tally[N_DAC] += 1
        st.tally[HIGH] = max(st.tally[HIGH], core.rank[v])
    if not st.in_eac[v]:
        st.in_eac[v] = 1
        st.changed[st.tally[N_EAC]] = v
        st.tally[N_EAC] += 1


@njit(cache=True, nogil=True)
def remove(core: Core, st: State, v: int, s: int) -> bool:
    """Remove a state; return False when none is left."""
    if st.size[v] == 1:
        return False
    shift(core, st, v, s, st.size[v] - 1)
    resize(core, st, v, st.size[v] - 1)
    note_removal(core, st, v)
    return True


@njit(cache=True, nogil=True)
def assign(core: Core, st: State, v: int, s: int) -> None:
    """Leave v one state."""
    shift(core, st, v, s, ZERO)
    resize(core, st, v, ONE)
    note_removal(core, st, v)


@njit(cache=True, nogil=True)
def project_unary(core: Core, st: State, v: int) -> bool:
    """Move the smallest unary cost of v to ``c0``, remove states that cost too much; return False on failure."""
    first = core.state_ptr[v]
    base = core.n_messages + first
    least = np.inf
    for i in range(st.size[v]):
        least = min(least, st.value[base + st.domain[first + i]])
    if least == np.inf:
        return False
    if least > 0.0:
        for i in range(st.size[v]):
            at = base + st.domain[first + i]
            put(st, at, st.value[at] - least)
        st.real[C0] += least
    slack = st.real[UB] - st.real[EPS] - st.real[C0]
    if slack <= 0.0:
        return False
    i = st.size[v] - 1
    while i >= 0:
        s = ZERO + st.domain[first + i]
        if st.value[base + s] >= slack and not remove(core, st, v, s):
            return False
        i -= 1
    return True


@njit(cache=True, nogil=True)
def move(core: Core, st: State, f: int, slot: int, what: int) -> bool:
    """Move cost of factor f to the variable of a slot; return False when that ends the branch.

    ``PROJECT`` takes the factor's own cost, ``DIRECT`` the unary costs of its other variables too, and ``LOOK``
    adds what ``DIRECT`` would move to ``work[:card]`` and changes nothing.
    """
    target = ZERO + core.scope[slot]
    first = core.state_ptr[target]
    gain = core.width
    n_open = _open_slots(core, st, f, slot)
    for i in range(st.size[target]):
        st.work[gain + st.domain[first + i]] = np.inf
    _scan(core, st, f, slot, n_open, ZERO, 1.0 if what != PROJECT else 0.0, NO)
    some = False
    for i in range(st.size[target]):
        s = st.domain[first + i]
        if what == LOOK:
            st.work[s] += st.work[gain + s]
        some = some or st.work[gain + s] > st.real[TAU]
    if what == LOOK or not some:
        return True
    if what == DIRECT:
        _extend(core, st, f, slot, n_open)
    st.tally[CULPRIT] = f
    changed, closed = False, 0
    for i in range(st.size[target]):
        s = st.domain[first + i]
        amount = st.work[gain + s]
        at = core.n_messages + first + s
        if amount == np.inf:
            put(st, at, np.inf)
            closed += 1
        elif amount > 0.0:
            put(st, core.message_ptr[slot] + s, st.value[core.message_ptr[slot] + s] + amount)
            put(st, at, st.value[at] + amount)
            changed = True
    if closed == st.size[target]:
        return False
    if changed:
        note_growth(core, st, target)
    return project_unary(core, st, target)


@njit(cache=True, nogil=True)
def factor_least(core: Core, st: State, f: int) -> float:
    """Return the least remaining cost of a factor."""
    slot = core.slot_ptr[f]
    n_open, v = _open_slots(core, st, f, slot), core.scope[slot]
    first, least = core.state_ptr[v], np.inf
    for i in range(st.size[v]):
        st.work[core.width + st.domain[first + i]] = np.inf
    _scan(core, st, f, slot, n_open, ZERO, 0.0, NO)
    for i in range(st.size[v]):
        least = min(least, st.work[core.width + st.domain[first + i]])
    return least


@njit(cache=True, nogil=True)
def _open_slots(core: Core, st: State, f: int, slot: int) -> int:
    """List the factor's slots other than the given one in ``digit``, those of open variables first; count these."""
    n_open = 0
    for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
        if k != slot and st.size[core.scope[k]] > 1:
            st.digit[n_open] = k
            n_open += 1
    return n_open


@njit(cache=True, nogil=True)
def _extend(core: Core, st: State, f: int, slot: int, n_open: int) -> None:
    """Move into the factor the unary costs that its projection takes from it, one variable after the other.

    The variable of open slot j gives ``need(b) = max_a gain(a) - least cost(a, b)``, but never more than it has; slots
    before j count with what they have given, those after j with all their unary costs.  :func:`_scan` has put the gains
    into ``st.work``, and puts the needs behind them.
    """
    need = 2 * core.width
    for j in range(n_open):
        k = st.digit[j]
        v = core.scope[k]
        first = core.state_ptr[v]
        for i in range(st.size[v]):
            st.work[need + st.domain[first + i]] = 0.0
        _scan(core, st, f, slot, n_open, j + 1, 1.0, YES)
        for i in range(st.size[v]):
            s = st.domain[first + i]
            amount = min(st.work[need + s], st.value[core.n_messages + first + s])
            if amount > 0.0:
                at = core.n_messages + first + s
                put(st, at, st.value[at] - amount)
                put(st, core.message_ptr[k] + s, st.value[core.message_ptr[k] + s] - amount)


@njit(cache=True, nogil=True)
def _scan(core: Core, st: State, f: int, slot: int, n_open: int, sources: int, unary: float, lack: bool) -> None:
    """Go through the factor's joint states that are left.

    With ``lack`` False, ``gain(a)`` becomes the least cost for each state a of the slot's variable, where the open
    slots from number ``sources`` on count with their unary costs (times ``unary``).  With ``lack`` True, ``need(b)``
    becomes the most by which ``gain(a)`` exceeds the cost, for each state b of open slot number ``sources - 1``.
    Gains are in ``st.work`` from ``core.width`` on, needs from twice that on.  Those that are written must hold ``inf``
    (gains) or 0 (needs) beforehand.

    Parameters
    ----------
    core, st : Core, State
        The problem, and the node of the search; only ``st.work`` and ``st.digit`` are written.
    f : int
        The factor.
    slot : int
        One of its slots.
    n_open : int
        How many of its other slots are open; :func:`_open_slots` listed them in ``st.digit``.
    sources : int
        Open slots from this number on count with their unary costs.
    unary : float
        1 to count unary costs, 0 not to.
    lack : bool
        The quantity to compute, see above.
    """
    base, fixed = core.table_ptr[f], 0.0
    for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
        v = core.scope[k]
        if k != slot and st.size[v] == 1:
            s = st.domain[core.state_ptr[v]]
            base += s * core.stride[k]
            fixed += st.value[core.message_ptr[k] + s]
    inner = n_open - 1
    if inner < 0:
        _line(core, st, slot, base, fixed)
        return
    inner_unary = unary if inner >= sources else 0.0
    if inner == 0:
        _plane(core, st, slot, st.digit[0], base, fixed, inner_unary, EACH if lack else GAINS)
        return
    for j in range(inner):
        st.digit[core.half + j] = 0
    while True:
        at, less = base, fixed
        for j in range(inner):
            k = st.digit[j]
            v = core.scope[k]
            s = st.domain[core.state_ptr[v] + st.digit[core.half + j]]
            at += s * core.stride[k]
            less += st.value[core.message_ptr[k] + s]
            if j >= sources:
                less -= unary * st.value[core.n_messages + core.state_ptr[v] + s]
        marked = EACH if lack else GAINS
        if lack and sources - 1 < inner:
            k = st.digit[sources - 1]
            marked = st.domain[core.state_ptr[core.scope[k]] + st.digit[core.half + sources - 1]]
        _plane(core, st, slot, st.digit[inner], at, less, inner_unary, marked)
        j = inner - 1
        while j >= 0:
            st.digit[core.half + j] += 1
            if st.digit[core.half + j] < st.size[core.scope[st.digit[j]]]:
                break
            st.digit[core.half + j] = 0
            j -= 1
        if j < 0:
            break


@njit(cache=True, nogil=True)
def _line(core: Core, st: State, slot: int, at: int, less: float) -> None:
    """Write the costs of the states of one slot's variable, all others fixed."""
    v = core.scope[slot]
    first, stride, message = core.state_ptr[v], core.stride[slot], core.message_ptr[slot]
    for i in range(st.size[v]):
        a = st.domain[first + i]
        st.work[core.width + a] = core.cost[at + a * stride] - less - st.value[message + a]
    st.tally[WORK] += st.size[v]


@njit(cache=True, nogil=True)
def _plane(core: Core, st: State, slot: int, other: int, at: int, less: float, unary: float, marked: int) -> None:
    """Go through the states of two slots' variables, all others fixed: the inner loops of :func:`_scan`.

    The cost of states a and b is ``table[a, b] - message[slot, a] - message[other, b] - less + unary u[b]``.

    Parameters
    ----------
    core, st : Core, State
        The problem, and the node of the search; only ``st.work`` is written.
    slot, other : int
        The two slots; ``other`` is open.
    at : int
        Place in ``core.cost`` of the joint state in which both have state 0.
    less : float
        The messages (less unary costs) of the fixed slots, which are subtracted from the table.
    unary : float
        1 to count the unary costs of ``other``, 0 not to.
    marked : int
        ``GAINS``: lower the gains, the least costs of each a.  Else raise the needs ``max_a gain(a) - cost(a, b)``:
        with ``EACH`` that of each state b of ``other``, or that of the state ``marked`` of a fixed slot.
    """
    target, v = core.scope[slot], core.scope[other]
    first, stride, message = core.state_ptr[target], core.stride[slot], core.message_ptr[slot]
    v_first, v_stride, v_message = core.state_ptr[v], core.stride[other], core.message_ptr[other]
    v_unary, size = core.n_messages + core.state_ptr[v], st.size[target]
    gain, need = core.width, 2 * core.width
    for j in range(st.size[v]):
        b = st.domain[v_first + j]
        row = at + b * v_stride
        out = less + st.value[v_message + b]
        if unary != 0.0:
            out -= unary * st.value[v_unary + b]
        if marked == GAINS:
            for i in range(size):
                a = st.domain[first + i]
                st.work[gain + a] = min(st.work[gain + a], core.cost[row + a * stride] - out - st.value[message + a])
            continue
        most = 0.0
        for i in range(size):
            a = st.domain[first + i]
            if st.work[gain + a] < np.inf:
                most = max(most, st.work[gain + a] - (core.cost[row + a * stride] - out - st.value[message + a]))
        place = need + (b if marked < 0 else marked)
        st.work[place] = max(st.work[place], most)
    st.tally[WORK] += size * st.size[v]
