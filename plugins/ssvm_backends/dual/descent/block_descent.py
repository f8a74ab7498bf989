"""Block-coordinate descent on the dual bound: max-sum diffusion and MPLP, factors of any size.

Four updates, each an exact or partial minimisation of the bound over a few messages, so that none raises it.  With
``other[k, s]`` for what variable v of slot k has without that slot's message (its unary score and all other
messages), and ``gamma[k, s]`` for the max-marginal of slot k's factor less the messages of its other slots:

* **edge** (Werner 2007; Meshi et al. 2010, equation 10), one slot after the other::

      message[k] = (gamma[k] - other[k]) / 2

* **star** (Meshi et al. 2010, equation 11), all d slots of a variable at once: the limit of edge updates there::

      message[k] = gamma[k] - (node[v] + sum_j gamma[j]) / (1 + d)

* **clique** (GMPLP; Globerson and Jaakkola 2008), all r slots of a factor at once; first ``message[j] = -other[j]``
  for all of them, which moves everything into the factor, and with gamma computed from these::

      message[k] = -other[k] + (gamma[k] + other[k]) / r

* **handshake** (MPLP++; Tourani et al. 2018): begins like clique, then the slots in turn take their share of what the
  factor has left, ``1 / r``, ``1 / (r - 1)``, ..., all, and then in reverse order all that has become free.
  Nothing of the factor is left unused.  On dense graphs it beats TRW-S (their section 6), on sparse ones it does not.

Edge and star updates also come with soft maxima at a fixed temperature (equation 13), which have no fixed points
other than the minimum of the smoothed bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.collect import collect, collect_soft
from ssvm_backends.dual.driver import (
    END,
    NEXT,
    PREPARE,
    SECOND,
    SWEEP,
    MessageTask,
    decode_next,
    drive,
    looks_after,
    site_of,
    slice_above,
    slice_of_factors,
)
from ssvm_backends.dual.kernels import COLUMN, LARGE, MAX_ARITY, NO_NAN, ROW, VISIT, Site, extent
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import borrow, njit

EDGE, STAR, CLIQUE, HANDSHAKE = 0, 1, 2, 3

#: The updates by the names that options have.
UPDATES = {"edge": EDGE, "star": STAR, "clique": CLIQUE, "handshake": HANDSHAKE}


class DescentRule(NamedTuple):
    """Which messages an update changes, and its work space.

    Parameters
    ----------
    update : int
        ``EDGE``, ``STAR``, ``CLIQUE`` or ``HANDSHAKE``.
    temperature : float
        Of soft maxima in edge and star updates; 0 for plain ones.
    belief : ndarray of float64, shape (at least the example's states,)
        Unary scores plus messages, from 0 for the example's first state; kept up to date in place.  Not used by stars.
    value : ndarray of float64, shape (at least MAX_ARITY times the most states of a variable,)
        Work space.
    """

    update: int
    temperature: float
    belief: F64
    value: F64

    @classmethod
    def start(cls, instance: Instance, ids: I64, update: int, temperature: float) -> DescentRule:
        """Return a rule with work space for some examples."""
        longest, widest, _, _ = extent(instance.graph, ids)
        return cls(update, temperature, np.empty(widest * longest), np.empty(widest * MAX_ARITY))


@njit(cache=True, nogil=True)
def descend(task: MessageTask, rule: DescentRule, budget: float) -> bool:
    """Lower bounds and look for labellings until all is done (True) or the budget is spent (False).

    Parameters
    ----------
    task : MessageTask
        Visits in the order of slots, of stars in that of ``touch_slot``.
    rule : DescentRule
    budget : float
        About how much work to do, in table entries.
    """
    t, rule, d = borrow(task), borrow(rule), task.state[0]
    g, d.left = t.instance.graph, budget
    by_variable = rule.update == STAR
    while drive(t):
        e = t.ids[d.example]
        lo, hi = (g.var_ptr[e], g.var_ptr[e + 1]) if by_variable else (g.factor_ptr[e], g.factor_ptr[e + 1])
        if d.stage == PREPARE:
            if not by_variable:
                add_up(g, t.instance.node, t.progress.current, d.shift, e, rule.belief)
            d.stage = NEXT
            continue
        if d.stage == SWEEP:
            d.place, d.stage = lo, SECOND
        while d.stage == SECOND and d.left > 0.0:
            end = slice_above(t, d.place, hi) if by_variable else slice_of_factors(t, d.place, hi)
            sweep(site_of(t), t.visits, rule, d.place, end)
            d.place = end
            if end == hi:
                d.stage = END
                if looks_after(t):
                    decode_next(t, END)
    return d.example == len(t.ids)


@njit(cache=True, nogil=True)
def sweep(site: Site, visits: I64, rule: DescentRule, lo: int, hi: int) -> None:
    """Update the messages of the variables (star) or factors ``lo`` to ``hi``.

    Parameters
    ----------
    site : Site
        Its messages are updated in place.
    visits : ndarray of int64
        Data for the visit to each slot, see :func:`~ssvm_backends.dual.kernels.fill_visits`: in the order of
        ``touch_slot`` for stars, else in that of slots.
    rule : DescentRule
        ``belief`` is kept up to date in place.
    lo, hi : int
        First variable (star) or factor, and the one after the last.
    """
    if rule.update == STAR:
        star_sweep(site, visits, rule, lo, hi)
    elif rule.update == EDGE:
        edge_sweep(site, visits, rule, lo, hi)
    elif rule.update == CLIQUE:
        clique_sweep(site, visits, rule, lo, hi)
    else:
        handshake_sweep(site, visits, rule, lo, hi)


@njit(cache=True, nogil=True)
def add_up(g: Graph, node: F64, messages: F64, shift: int, example: int, belief: F64) -> None:
    """Write unary scores plus messages of an example, from 0 for its first state."""
    origin = g.state_ptr[g.var_ptr[example]]
    for v in range(g.var_ptr[example], g.var_ptr[example + 1]):
        for s in range(g.state_ptr[v], g.state_ptr[v + 1]):
            belief[s - origin] = node[s]
        for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
            mine = g.message_ptr[g.touch_slot[t]] + shift - g.state_ptr[v]
            for s in range(g.state_ptr[v], g.state_ptr[v + 1]):
                belief[s - origin] += messages[mine + s]


@njit(cache=True, nogil=True)
def star_sweep(site: Site, visits: I64, rule: DescentRule, lo: int, hi: int) -> None:
    """Update all messages of each variable in turn (equation 11); the arguments are those of :func:`sweep`.

    Messages become ``gamma``, and their sum with the unary scores is shared out: no belief needs to be kept.
    """
    g, pool, messages, shift = site.graph, site.pool, site.messages, site.shift
    node, value, temperature, slots = site.node, rule.value, rule.temperature, g.touch_ptr[g.var_ptr[site.example]]
    for v in range(lo, hi):
        card, first, share = g.card[v], g.state_ptr[v], 1.0 / (1 + g.touch_ptr[v + 1] - g.touch_ptr[v])
        begin_at, end_at = VISIT * (g.touch_ptr[v] - slots), VISIT * (g.touch_ptr[v + 1] - slots)
        if card == 2 and temperature == 0.0:
            star_binary(site, visits, node[first], node[first + 1], share, begin_at, end_at)
            continue
        for s in range(card):
            value[s] = node[first + s]
        for at in range(begin_at, end_at, VISIT):
            if temperature == 0.0 and visits[at + 5] != LARGE:
                add_pair(visits, at, pool, messages, card, value)
                continue
            if temperature > 0.0:
                collect_soft(g, visits, at, pool, messages, shift, card, temperature)
            else:
                collect(g, visits, at, pool, messages, shift, card, 0.0)
            for s in range(card):
                value[s] += messages[visits[at] + s]
        for s in range(card):
            value[s] *= share
        for at in range(begin_at, end_at, VISIT):
            mine = visits[at]
            for s in range(card):
                messages[mine + s] -= value[s]


@njit(cache=True, nogil=True, fastmath=NO_NAN)
def star_binary(site: Site, visits: I64, value0: float, value1: float, share: float, lo: int, hi: int) -> None:
    """Update the messages of one binary variable with these unary scores, its visits ``lo`` to ``hi``.

    Its two sums stay in registers: loops over two states take longer than the arithmetic in them.

    Parameters
    ----------
    site, visits
        As for :func:`sweep`; ``visits`` in the order of ``touch_slot``.
    value0, value1 : float
        Unary scores of the two states.
    share : float
        ``1 / (1 + d)`` for a variable of d slots.
    lo, hi : int
        Range of the variable's numbers in ``visits``, a multiple of ``VISIT`` long.
    """
    g, pool, messages, shift = site.graph, site.pool, site.messages, site.shift
    for at in range(lo, hi, VISIT):
        mine, other, table, kind = visits[at], visits[at + 1], visits[at + 2], visits[at + 5]
        if kind != LARGE and visits[at + 3] == 2:
            a, b = messages[other], messages[other + 1]
            q, r = pool[table + 1], pool[table + 2]
            if kind == COLUMN:
                q, r = r, q
            messages[mine], messages[mine + 1] = max(pool[table] - a, q - b), max(r - a, pool[table + 3] - b)
        else:
            collect(g, visits, at, pool, messages, shift, 2, 0.0)
        value0 += messages[mine]
        value1 += messages[mine + 1]
    value0, value1 = value0 * share, value1 * share
    for at in range(lo, hi, VISIT):
        mine = visits[at]
        messages[mine] -= value0
        messages[mine + 1] -= value1


@njit(cache=True, nogil=True, fastmath=NO_NAN, inline="always")
def add_pair(visits: I64, at: int, pool: F64, messages: F64, card: int, value: F64) -> None:
    """Set the message of a pair's slot to its max-marginal, and add it to ``value``."""
    mine, other, table, n_other = visits[at], visits[at + 1], visits[at + 2], visits[at + 3]
    along, across = (1, n_other) if visits[at + 5] == ROW else (card, 1)
    for t in range(card):
        start = table + t * across
        best = pool[start] - messages[other]
        for s in range(1, n_other):
            best = max(best, pool[start + s * along] - messages[other + s])
        messages[mine + t] = best
        value[t] += best


@njit(cache=True, nogil=True)
def edge_sweep(site: Site, visits: I64, rule: DescentRule, lo: int, hi: int) -> None:
    """Update the message of each slot of the factors in turn (equation 10); the arguments are those of :func:`sweep`.

    ``other = belief - message``, ``message = (gamma - other) / 2``, ``belief = other + message``.
    """
    g, pool, messages, shift = site.graph, site.pool, site.messages, site.shift
    example, value, belief = site.example, rule.value, rule.belief
    temperature = rule.temperature
    origin, slots = g.state_ptr[g.var_ptr[example]], g.slot_ptr[g.factor_ptr[example]]
    for k in range(g.slot_ptr[lo], g.slot_ptr[hi]):
        v, at = g.scope[k], VISIT * (k - slots)
        card, mine, sums = g.card[v], visits[at], g.state_ptr[v] - origin
        for s in range(card):
            value[s] = belief[sums + s] - messages[mine + s]
        if temperature > 0.0:
            collect_soft(g, visits, at, pool, messages, shift, card, temperature)
        else:
            collect(g, visits, at, pool, messages, shift, card, 0.0)
        for s in range(card):
            messages[mine + s] = 0.5 * (messages[mine + s] - value[s])
            belief[sums + s] = value[s] + messages[mine + s]


@njit(cache=True, nogil=True)
def move_into_factor(g: Graph, messages: F64, shift: int, f: int, origin: int, belief: F64) -> None:
    """Move all score of a factor's variables into the factor; their beliefs become those without it."""
    for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
        mine, sums = g.message_ptr[k] + shift, g.state_ptr[g.scope[k]] - origin
        for s in range(g.card[g.scope[k]]):
            belief[sums + s] -= messages[mine + s]
            messages[mine + s] = -belief[sums + s]


@njit(cache=True, nogil=True)
def push(g: Graph, messages: F64, shift: int, f: int, origin: int, belief: F64) -> None:
    """Add the messages of a factor to the beliefs of its variables again."""
    for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
        mine, sums = g.message_ptr[k] + shift, g.state_ptr[g.scope[k]] - origin
        for s in range(g.card[g.scope[k]]):
            belief[sums + s] += messages[mine + s]


@njit(cache=True, nogil=True)
def clique_sweep(site: Site, visits: I64, rule: DescentRule, lo: int, hi: int) -> None:
    """Update all messages of each factor at once, factor by factor (GMPLP); the arguments are those of :func:`sweep`.

    New messages wait in ``value`` until all of the factor are known.
    """
    g, pool, messages, shift = site.graph, site.pool, site.messages, site.shift
    example, value, belief = site.example, rule.value, rule.belief
    origin, slots = g.state_ptr[g.var_ptr[example]], g.slot_ptr[g.factor_ptr[example]]
    for f in range(lo, hi):
        begin_at, end_at = g.slot_ptr[f], g.slot_ptr[f + 1]
        first = g.message_ptr[begin_at]
        move_into_factor(g, messages, shift, f, origin, belief)
        for k in range(begin_at, end_at):
            at, card = VISIT * (k - slots), g.card[g.scope[k]]
            mine, kept = visits[at], g.message_ptr[k] - first
            for s in range(card):
                value[kept + s] = messages[mine + s]
            collect(g, visits, at, pool, messages, shift, card, 0.0)
            for s in range(card):  # the other slots still need this one's message as it was
                gamma, messages[mine + s] = messages[mine + s], value[kept + s]
                value[kept + s] += (gamma - value[kept + s]) / (end_at - begin_at)
        for j in range(g.message_ptr[end_at] - first):
            messages[first + shift + j] = value[j]
        push(g, messages, shift, f, origin, belief)


@njit(cache=True, nogil=True)
def handshake_sweep(site: Site, visits: I64, rule: DescentRule, lo: int, hi: int) -> None:
    """Update the messages of each factor in turn until nothing of it is left unused (MPLP++).

    With ``message = -other`` for all slots at first, slot number j of r takes ``(gamma + other) / (r - j)``; in reverse
    order each slot but the last then takes all of ``gamma - message`` again.  The arguments are those of :func:`sweep`.
    """
    g, pool, messages, shift = site.graph, site.pool, site.messages, site.shift
    example, value, belief = site.example, rule.value, rule.belief
    origin, slots = g.state_ptr[g.var_ptr[example]], g.slot_ptr[g.factor_ptr[example]]
    for f in range(lo, hi):
        slot, arity = g.slot_ptr[f], g.slot_ptr[f + 1] - g.slot_ptr[f]
        if arity == 2 and g.card[g.scope[slot]] == 2 and g.card[g.scope[slot + 1]] == 2:
            u, v = g.state_ptr[g.scope[slot]] - origin, g.state_ptr[g.scope[slot + 1]] - origin
            at = VISIT * (slot - slots)
            shake_binary(pool, visits[at + 2], messages, visits[at], visits[at + 1], belief, u, v)
            continue
        move_into_factor(g, messages, shift, f, origin, belief)
        for j in range(2 * arity - 1):
            back = j >= arity
            k = slot + (2 * (arity - 1) - j if back else j)
            share = 1.0 if back else 1.0 / (arity - j)
            at, card = VISIT * (k - slots), g.card[g.scope[k]]
            mine = visits[at]
            for s in range(card):
                value[s] = messages[mine + s]
            collect(g, visits, at, pool, messages, shift, card, 0.0)
            for s in range(card):
                messages[mine + s] = value[s] + share * (messages[mine + s] - value[s])
        push(g, messages, shift, f, origin, belief)


@njit(cache=True, nogil=True)
def shake_binary(pool: F64, table: int, messages: F64, m: int, n: int, belief: F64, u: int, v: int) -> None:
    """Do the handshake for a pair of binary variables, on differences between their two states.

    With a and b the differences that both have without the factor, its table plus these is a 2 x 2 table.  The first
    variable takes half the difference of its max-marginals, the second one all of its own, the first one the rest.
    Messages of state 0 become 0: a constant for all states of a variable does not change the bound.

    Parameters
    ----------
    pool : ndarray of float64
        Tables.
    table : int
        Place of the table.
    messages : ndarray of float64
        Packed messages, updated in place.
    m, n : int
        Places of the messages of its first and second variable.
    belief : ndarray of float64
        Unary scores plus messages, kept up to date in place.
    u, v : int
        Places of their beliefs.
    """
    a = belief[u + 1] - messages[m + 1] - belief[u] + messages[m]
    b = belief[v + 1] - messages[n + 1] - belief[v] + messages[n]
    t00, t01, t10, t11 = pool[table], pool[table + 1] + b, pool[table + 2] + a, pool[table + 3] + a + b
    half = 0.5 * (max(t10, t11) - max(t00, t01))
    t10, t11 = t10 - half, t11 - half
    second = max(t01, t11) - max(t00, t10)
    t01, t11 = t01 - second, t11 - second
    first = half + max(t10, t11) - max(t00, t01)
    belief[u] -= messages[m]
    belief[v] -= messages[n]
    messages[m], messages[m + 1] = 0.0, first - a
    messages[n], messages[n + 1] = 0.0, second - b
    belief[u + 1], belief[v + 1] = belief[u] + first, belief[v] + second
