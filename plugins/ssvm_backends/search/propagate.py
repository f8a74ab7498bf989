"""Propagation at a search node: moves until nothing raises the lower bound ``c0``.

Three queues, as in the existential directional arc consistency of de Givry et al. (2005): factors of variables
that lost states project to the others; variables whose unary cost grew pass it to earlier variables of the order,
last ones first; then each variable near a change looks whether moves from all its factors would give each of
its states a cost, and makes them if so.  Stopping anywhere is sound.

Moves below ``TAU`` are not made, so that it ends where the costs of labellings are bounded.  Where every labelling that
is left costs ``inf``, they are not: costs then go round cycles of factors and raise ``c0`` at each turn, without end.
So ``UB`` is never ``inf``, and all propagation has a limit of work, which is looked at between variables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import lower_builtin, type_callable

from ssvm_backends.search.core import (
    C0,
    DIRECT,
    EPS,
    HIGH,
    LIMIT,
    LOOK,
    N_AC,
    N_DAC,
    N_EAC,
    PROJECT,
    ROUND,
    TAU,
    TRAILING,
    UB,
    WORK,
    ZERO,
    Core,
    State,
    factor_least,
    move,
    note_removal,
    project_unary,
)  # fmt: skip
from ssvm_dsl.ir import F64
from ssvm_dsl.kernels import njit

# -- ``pointed``: a tuple of arrays as a tuple of bare pointers, for kernels made of many small functions ------------
#
# A numba function that is not inlined gets each array as seven numbers and counts references to it on the way in
# and out; with thirty arrays that costs a microsecond for each call, measured, against 50 ns of work.  Pointers are
# one number each and are not counted.  They index like one-dimensional arrays (``p[i]``, ``p[i] = x``) and know no
# length.  As with :func:`ssvm_dsl.kernels.intrinsics.borrow`, the caller of the kernel keeps the arrays alive.


def pointed(value: Any) -> Any:
    """Return a named tuple with its (contiguous) arrays replaced by pointers to their data; in Python, the tuple."""
    return value


@type_callable(pointed)
def _type(context: Any) -> Any:
    def kind(value: Any) -> Any:
        members = [types.CPointer(t.dtype) if isinstance(t, types.Array) else t for t in value.types]
        return types.NamedTuple(members, value.instance_class)

    return kind


@lower_builtin(pointed, types.BaseNamedTuple)
def _lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    parts = []
    for k, kind in enumerate(signature.args[0].types):
        part = builder.extract_value(args[0], k)
        if isinstance(kind, types.Array):
            part = context.make_array(kind)(context, builder, part).data
        parts.append(part)
    return context.make_tuple(builder, signature.return_type, parts)


#: Table entries that propagation at one node of the search looks at.
NODE_WORK = 3_000_000


@njit(cache=True, nogil=True)
def propagate_root(core: Core, st: State, fresh: bool, work: int) -> bool:
    """:func:`propagate` for callers outside of kernels, about ``work`` table entries long; nothing goes to the trail.

    With ``fresh`` all variables count as changed; without it the queues are those that the last call left.
    """
    c, s = pointed(core), pointed(st)
    s.tally[TRAILING] = 0
    if fresh:
        forget(c, s)
        for v in range(c.n_variables):
            note_removal(c, s, v)
    s.tally[LIMIT] = s.tally[WORK] + work
    return propagate(c, s)


@njit(cache=True, nogil=True)
def propagate_node(core: Core, st: State) -> bool:
    """:func:`propagate` at a node of the search; it ends after ``NODE_WORK`` table entries."""
    st.tally[LIMIT] = st.tally[WORK] + NODE_WORK
    ok = propagate(core, st)
    if waiting(st):
        forget(core, st)
    return ok


@njit(cache=True, nogil=True)
def waiting(st: State) -> bool:
    """Whether a queue holds a variable."""
    return st.tally[N_AC] + st.tally[N_DAC] + st.tally[N_EAC] > 0


@njit(cache=True, nogil=True)
def load(core: Core, st: State, messages: F64) -> None:
    """Restart from messages of a dual solver (scores moved to variables); the remaining minima go to ``c0``."""
    c, s = pointed(core), pointed(st)
    s.tally[TRAILING] = 0
    s.real[C0] = 0.0
    for v in range(c.n_variables):
        for i in range(c.state_ptr[v], c.state_ptr[v + 1]):
            s.value[c.n_messages + i] = c.node_cost[i]
    for f in range(c.n_factors):
        for k in range(c.slot_ptr[f], c.slot_ptr[f + 1]):
            first = c.state_ptr[c.scope[k]]
            for i in range(c.message_ptr[k], c.message_ptr[k + 1]):
                s.value[i] = -messages[i]
                s.value[c.n_messages + first + i - c.message_ptr[k]] -= messages[i]
    for f in range(c.n_factors):
        k = c.slot_ptr[f]
        least = factor_least(c, s, f)
        for i in range(c.message_ptr[k], c.message_ptr[k + 1]):
            s.value[i] += least
        s.real[C0] += least
    for v in range(c.n_variables):
        least = np.inf
        for i in range(c.state_ptr[v], c.state_ptr[v + 1]):
            least = min(least, s.value[c.n_messages + i])
        for i in range(c.state_ptr[v], c.state_ptr[v + 1]):
            s.value[c.n_messages + i] -= least
        s.real[C0] += least


@njit(cache=True, nogil=True)
def rest_of_tables(core: Core, value: F64, pool: F64) -> None:
    """Write the remaining costs of the factors, as scores."""
    digit = np.zeros(64, np.int64)
    for f in range(core.n_factors):
        lo, hi = core.slot_ptr[f], core.slot_ptr[f + 1]
        digit[: hi - lo] = 0
        at = core.table_ptr[f]
        while True:
            cost = core.cost[at]
            for k in range(lo, hi):
                cost -= value[core.message_ptr[k] + digit[k - lo]]
            pool[at] = -max(cost, 0.0)
            at += 1
            k = hi - 1
            while k >= lo:
                digit[k - lo] += 1
                if digit[k - lo] < core.message_ptr[k + 1] - core.message_ptr[k]:
                    break
                digit[k - lo] = 0
                k -= 1
            if k < lo:
                break


@njit(cache=True, nogil=True)
def propagate(core: Core, st: State) -> bool:
    """Return False when no labelling of this node is better than the best; the culprit is in ``tally``.

    Also returns, with the remaining work in the queues, when the work has reached ``LIMIT``.
    """
    checked, ok = st.real[C0], True
    while ok:
        if st.tally[WORK] >= st.tally[LIMIT]:
            return True
        while ok and st.tally[N_AC] > 0 and st.tally[WORK] < st.tally[LIMIT]:
            st.tally[N_AC] -= 1
            v = ZERO + st.queue[st.tally[N_AC]]
            st.in_ac[v] = 0
            ok = _revise(core, st, v)
        if not ok or st.tally[WORK] >= st.tally[LIMIT]:
            continue
        if st.tally[N_DAC] > 0:
            ok = _descend(core, st)
        elif st.tally[N_EAC] > 0:
            before = st.real[C0]
            ok = _gather(core, st)
            if ok and st.real[C0] <= before + st.real[TAU] and st.tally[N_AC] == 0:
                forget(core, st)
        if ok and not waiting(st):
            if st.real[C0] == checked:
                return True
            checked = st.real[C0]
            ok = check_states(core, st)
    forget(core, st)
    return False


@njit(cache=True, nogil=True)
def forget(core: Core, st: State) -> None:
    """Empty the queues."""
    st.tally[N_AC] = st.tally[N_DAC] = st.tally[N_EAC] = st.tally[HIGH] = 0
    for v in range(core.n_variables):
        st.in_ac[v] = st.in_dac[v] = st.in_eac[v] = 0


@njit(cache=True, nogil=True)
def check_states(core: Core, st: State) -> bool:
    """Remove every state whose cost with ``c0`` reaches the best labelling; return False on failure."""
    slack = st.real[UB] - st.real[EPS] - st.real[C0]
    st.tally[WORK] += 1 + core.n_variables // 4
    for v in range(core.n_variables):
        if st.size[v] > 1:
            first = core.state_ptr[v]
            for i in range(st.size[v]):
                if st.value[core.n_messages + first + st.domain[first + i]] >= slack:
                    if not project_unary(core, st, v):
                        return False
                    break
    return slack > 0.0


@njit(cache=True, nogil=True)
def _revise(core: Core, st: State, v: int) -> bool:
    """Project the factors of v to their other open variables."""
    for t in range(core.touch_ptr[v], core.touch_ptr[v + 1]):
        slot = core.touch_slot[t]
        f = core.slot_factor[slot]
        if st.free[f] == 0:
            if not move(core, st, f, slot, PROJECT):
                return False
            continue
        for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
            if k != slot and st.size[core.scope[k]] > 1 and not move(core, st, f, k, PROJECT):
                return False
    return project_unary(core, st, v)


@njit(cache=True, nogil=True)
def _descend(core: Core, st: State) -> bool:
    """One pass over the variables whose unary cost grew, from the last to the first of the order."""
    r = st.tally[HIGH] + 1
    st.tally[HIGH] = 0
    while r > 0 and st.tally[N_DAC] > 0:
        if st.tally[WORK] >= st.tally[LIMIT]:
            st.tally[HIGH] = max(st.tally[HIGH], r - 1)
            return True
        r -= 1
        v = core.order[r]
        if not st.in_dac[v]:
            continue
        st.in_dac[v] = 0
        st.tally[N_DAC] -= 1
        if st.size[v] == 1:
            continue
        for t in range(core.touch_ptr[v], core.touch_ptr[v + 1]):
            f = core.slot_factor[core.touch_slot[t]]
            if st.free[f] < 2:
                continue
            target, least = ZERO - 1, r
            for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
                w = core.scope[k]
                if st.size[w] > 1 and core.rank[w] < least:
                    target, least = k, core.rank[w]
            if target >= 0 and not move(core, st, f, target, DIRECT):
                return False
    return True


@njit(cache=True, nogil=True)
def _gather(core: Core, st: State) -> bool:
    """Let the neighbours of changed variables draw cost from all their factors where that raises ``c0``."""
    n = st.tally[N_EAC]
    st.tally[N_EAC] = 0
    st.tally[ROUND] += 1
    for i in range(n):
        st.near[i] = st.changed[i]
        st.in_eac[st.changed[i]] = 0
    for i in range(n):
        if st.tally[WORK] >= st.tally[LIMIT]:
            if not st.in_eac[st.near[i]]:
                st.in_eac[st.near[i]] = 1
                st.changed[st.tally[N_EAC]] = st.near[i]
                st.tally[N_EAC] += 1
            continue
        for t in range(core.touch_ptr[st.near[i]], core.touch_ptr[st.near[i] + 1]):
            f = core.slot_factor[core.touch_slot[t]]
            if st.free[f] < 2:
                continue
            for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
                v = core.scope[k]
                if st.size[v] > 1 and st.seen[v] != st.tally[ROUND]:
                    st.seen[v] = st.tally[ROUND]
                    if not draw(core, st, v):
                        return False
    return True


@njit(cache=True, nogil=True)
def draw(core: Core, st: State, v: int) -> bool:
    """Draw cost to v from all its factors if each of its states gets some."""
    first = core.state_ptr[v]
    for i in range(st.size[v]):
        s = st.domain[first + i]
        st.work[s] = st.value[core.n_messages + first + s]
    for t in range(core.touch_ptr[v], core.touch_ptr[v + 1]):
        slot = core.touch_slot[t]
        if st.free[core.slot_factor[slot]] >= 2:
            move(core, st, core.slot_factor[slot], slot, LOOK)
    least = np.inf
    for i in range(st.size[v]):
        least = min(least, st.work[st.domain[first + i]])
    if least <= st.real[TAU]:
        return True
    for t in range(core.touch_ptr[v], core.touch_ptr[v + 1]):
        slot = core.touch_slot[t]
        f = core.slot_factor[slot]
        if st.free[f] >= 2 and st.size[v] > 1 and not move(core, st, f, slot, DIRECT):
            return False
    return True
