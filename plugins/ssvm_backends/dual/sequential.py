"""Sequential reweighted message passing: TRW-S (Kolmogorov 2006), and SRMP (Kolmogorov 2015) for larger factors.

A sweep visits the variables in order.  At variable v, factors that hold an earlier variable send it their
max-marginals (they are *incoming*), which moves all their score to v; then v hands its score out to the factors
that hold a later variable (*outgoing*), each taking the share ``1 / max(n_incoming, n_outgoing)``.  Neither step
raises the dual bound: after the first the maximum of an incoming factor is a constant, and the shares sum to at
most one.  The next sweep runs in the opposite order.  For pairs this is TRW-S with one monotonic chain for each
variable's share, for larger factors SRMP with messages to single variables.

At the end of a sweep no factor has changed since the last of its variables collected from it, so its
maximum is known, and the bound costs nothing.  Fixed points satisfy weak tree agreement; for binary pairs that is
the optimum of the LP relaxation, otherwise the bound may stay above it.

A bound that has come to rest above the optimum of the relaxation is lowered further with soft maxima, by smaller and
smaller temperatures (adaptive diminishing smoothing; Savchynskyy et al. 2012): see :mod:`ssvm_backends.dual.collect`.

Measured on a grid of 50 x 50 variables of 5 states (``make bench ARGS=loopy``): the bound is within 0.2 % of the
optimum of the relaxation after 0.147 s; HiGHS needs 97 times as long for that optimum.

Labels are decoded during the forward sweep: given the labels of earlier variables, and the messages of the backward
sweep for what comes later (Kolmogorov 2006, section 4.1).

For other solvers
-----------------
``pass_messages(instance, messages, progress, n_iterations, tol) -> (task, space)``
    A task for ``trws(task, space, budget)``: more iterations on a single example.  The messages of the lowest bound are
    left in ``messages``; what else is known is in ``progress``
    (``SolverProgress.start(n_examples, n_labels, n_messages)`` of :mod:`ssvm_backends.dual.kernels`).
``reparametrised(graph, node, pool, messages) -> (bound, node', slack)``
    For all examples.  ``bound[i] - slack[state_ptr[v] + s]`` is an upper bound on the score of every labelling of
    example i with state s at variable v.
Scores and bounds are without ``Instance.const``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.collect import collect
from ssvm_backends.dual.driver import (
    END,
    FOURTH,
    NEXT,
    OFFER,
    PREPARE,
    SECOND,
    SWEEP,
    THIRD,
    MessageTask,
    PassingRule,
    drive,
    message_task,
    site_of,
    slice_above,
    slice_below,
)
from ssvm_backends.dual.kernels import (
    LARGE,
    MAX_ARITY,
    NO_NAN,
    ROW,
    VISIT,
    Site,
    SolverProgress,
    add_conditional,
    dual_bound,
    extent,
    factor_maximum,
    next_temperature,
)
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit


class SweepSpace(NamedTuple):
    """Work space of sweeps.

    Parameters
    ----------
    value, decoded : ndarray of float64, shape (at least the most states of a variable,)
    outgoing : ndarray of int64, shape (at least the most slots of a variable,)
    """

    value: F64
    decoded: F64
    outgoing: I64


def sweep_space(instance: Instance, ids: I64) -> SweepSpace:
    """Return work space for some examples."""
    _, widest, deepest, _ = extent(instance.graph, ids)
    return SweepSpace(np.empty(widest), np.empty(widest), np.empty(deepest, np.int64))


@njit(cache=True, nogil=True)
def trws(task: MessageTask, space: SweepSpace, budget: float) -> bool:
    """Lower bounds and look for labellings until all is done (True) or the budget is spent (False).

    Parameters
    ----------
    task : MessageTask
        Visits in the order of ``touch_slot``.
    space : SweepSpace
    budget : float
        About how much work to do, in table entries.
    """
    t, space, d = borrow(task), borrow(space), task.state[0]
    g, d.left = t.instance.graph, budget
    yes, no = np.bool_(True), np.bool_(False)  # literals would compile all twice
    while drive(t):
        e = t.ids[d.example]
        lo, hi = g.var_ptr[e], g.var_ptr[e + 1]
        if d.stage == PREPARE:
            d.stage = NEXT
            continue
        if d.stage == SWEEP:
            d.soft, d.place, d.stage = next_temperature(t.progress, d.example), lo, SECOND
        while d.stage == SECOND and d.left > 0.0:
            end = slice_above(t, d.place, hi)
            sweep(site_of(t), t.visits, yes, d.soft, space, t.labels, d.place, end)
            d.place = end
            if end == hi:
                d.stage = OFFER if d.soft == 0.0 else THIRD
                d.after_labels = THIRD
        if d.stage == THIRD:
            d.bound, d.place, d.stage = 0.0, hi, FOURTH
        while d.stage == FOURTH and d.left > 0.0:
            begin = slice_below(t, lo, d.place)
            d.bound += sweep(site_of(t), t.visits, no, d.soft, space, t.labels, begin, d.place)
            d.place = begin
            if begin == lo:
                d.stage = END
                if d.soft > 0.0:
                    d.bound = np.inf
    return d.example == len(t.ids)


def pass_messages(
    instance: Instance, messages: F64, progress: SolverProgress, n_iterations: int, tol: float
) -> tuple[MessageTask, SweepSpace]:
    """Return a task of so many more iterations on the only example of an instance, and its work space."""
    ids, most = np.zeros(1, np.int64), int(progress.iterations[0]) + n_iterations
    task = message_task(instance, ids, messages, progress, PassingRule(most, tol))
    return task, sweep_space(instance, ids)


@njit(cache=True, nogil=True, fastmath=NO_NAN)
def sweep(
    site: Site, visits: I64, forward: bool, soft: float, space: SweepSpace, labels: I32, lo: int, hi: int
) -> float:
    """Visit the variables ``lo`` to ``hi`` in one direction; return their share of the (soft) bound.

    Of the n_in factors that hold an earlier variable, and n_out that hold a later one::

        message[k] = gamma[k] - max gamma[k]            for incoming slots
        theta = node[v] + sum of all messages of v
        message[k] = message[k] - theta / max(n_in, n_out)    for outgoing slots

    A forward sweep with plain maxima decodes labels as it goes.

    Parameters
    ----------
    site : Site
        Its messages are updated in place.
    visits : ndarray of int64
        Data for the visit to each slot, in the order of ``touch_slot``; see
        :func:`~ssvm_backends.dual.kernels.fill_visits`.
    forward : bool
        Direction: in the order of the variables' numbers, or against it.
    soft : float
        Temperature of soft maxima, 0 for plain ones.
    space : SweepSpace
    labels : ndarray of int32, shape (at least the example's variables,)
        Written by a forward sweep with plain maxima, from 0 for the example's first variable; else left alone.
    lo, hi : int
        First variable, and the one after the last.
    """
    g, node, pool, messages, shift = site.graph, site.node, site.pool, site.messages, site.shift
    theta, decoded, outgoing, first = space.value, space.decoded, space.outgoing, g.var_ptr[site.example]
    bound, decode = 0.0, forward and soft == 0.0
    v, step = (lo, 1) if forward else (hi - 1, -1)
    slots = g.touch_ptr[first]
    for _ in range(hi - lo):
        card, unary = g.card[v], g.state_ptr[v]
        for s in range(card):
            theta[s] = node[unary + s]
            decoded[s] = theta[s]
        n_in, n_out = 0, 0
        for at in range(VISIT * (g.touch_ptr[v] - slots), VISIT * (g.touch_ptr[v + 1] - slots), VISIT):
            mine, other, kind = visits[at], visits[at + 1], visits[at + 5]
            if kind != LARGE:
                u = visits[at + 4]
                is_in = (u < v) == forward
                is_out = not is_in
                if is_in and decode:
                    along = visits[at + 3] if kind == ROW else 1
                    entry = visits[at + 2] + labels[u - first] * (1 if kind == ROW else card)
                    for s in range(card):
                        decoded[s] += pool[entry + s * along]
            else:
                f = g.slot_factor[other]
                is_in, is_out = directions(g, f, v, forward)
                if is_in and decode:
                    add_conditional(site, f, other, labels, decoded)
            if is_in:
                top = collect(g, visits, at, pool, messages, shift, card, soft)
                for s in range(card):
                    messages[mine + s] -= top
                if not is_out:  # v is the last variable of the factor: its maximum is final
                    bound += top
            if is_out:
                outgoing[n_out] = mine
                n_out += 1
            if not is_in:
                for s in range(card):
                    decoded[s] += messages[mine + s]
            n_in += is_in
            for s in range(card):
                theta[s] += messages[mine + s]
        if decode:
            choice = 0
            for s in range(1, card):
                if decoded[s] > decoded[choice]:
                    choice = s
            labels[v - first] = choice
        if n_out < n_in or n_out == 0:  # the rest stays with v, and counts for the bound
            top = theta[0]
            for s in range(1, card):
                top = max(top, theta[s])
            top *= 1.0 - n_out / max(n_in, 1)
            bound += top
        weight = 1.0 / max(n_in, n_out, 1)
        for j in range(n_out):
            mine = outgoing[j]
            for s in range(card):
                messages[mine + s] -= weight * theta[s]
        v += step
    return bound


@njit(cache=True, nogil=True)
def directions(g: Graph, f: int, v: int, forward: bool) -> tuple[bool, bool]:
    """Return whether a factor holds a variable visited before v, and one visited after it."""
    before, after = False, False
    for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
        before |= g.scope[k] < v
        after |= g.scope[k] > v
    return (before, after) if forward else (after, before)


# -- Bounds of single states by dual messages: the reparametrised unary scores, and a bound for each state -----------
#
# Forcing state s at variable v costs a labelling, against the dual bound, at least
#
#     max_s' node'[v, s'] - node'[v, s]
#     + sum_{f with v} max_c table'[f, c] - max_{c: c_v = s} (table'[f, c] - sum_{u in f, u != v} slack[u, c_u] / n_vu)
#
# where ``slack[u, c_u] = max node'[u] - node'[u, c_u]`` and n_vu is the number of factors that hold both u and v, so
# that the loss at a neighbour is counted once.  That is the exact maximum over the star of factors around v (up to
# neighbours that share several factors with v), all others relaxed: it is what reduced-cost fixing (Swoboda et al.
# 2016, section 5) needs.


def reparametrised(graph: Graph, node: F64, pool: F64, messages: F64) -> tuple[F64, F64, F64]:
    """Return (bounds, reparametrised unary scores, slack of each state) of all examples.

    Parameters
    ----------
    graph : Graph
    node, pool : ndarray of float64
    messages : ndarray of float64, shape (graph.message_ptr[-1],)
        Any messages; good ones make the answer useful.

    Returns
    -------
    bound : ndarray of float64, shape (B,)
        Upper bound on the score of every labelling of each example, without the constant.
    moved : ndarray of float64, shape (S,)
        ``node'``: unary scores plus messages.
    slack : ndarray of float64, shape (S,)
        Not negative; ``bound[i] - slack[state_ptr[v] + s]`` is an upper bound on the score of every
        labelling of example i with state s at variable v (rounding is allowed for).
    """
    bound, moved, slack = np.zeros(graph.n_examples), node.copy(), np.zeros(len(node))
    _star_slacks(graph, node, pool, messages, bound, moved, slack)
    return bound, moved, slack


@njit(cache=True, nogil=True)
def _star_slacks(graph: Graph, node: F64, pool: F64, messages: F64, bound: F64, moved: F64, slack: F64) -> None:
    """Fill in the results of :func:`reparametrised`.

    Parameters
    ----------
    graph : Graph
        Structure; read only.
    node, pool, messages : ndarray of float64
        As for :func:`reparametrised`.
    bound : ndarray of float64, shape (B,)
        Written.
    moved : ndarray of float64, shape (S,)
        The unary scores on entry; messages are added in place.
    slack : ndarray of float64, shape (S,)
        Written.
    """
    g = borrow(graph)
    loss = np.empty(len(node))
    shared = np.zeros(len(g.card), np.int64)
    widest = 1
    for v in range(len(g.card)):
        widest = max(widest, g.card[v])
        for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
            at = g.message_ptr[g.touch_slot[t]]
            for s in range(g.card[v]):
                moved[g.state_ptr[v] + s] += messages[at + s]
        top = -np.inf
        for s in range(g.state_ptr[v], g.state_ptr[v + 1]):
            top = max(top, moved[s])
        for s in range(g.state_ptr[v], g.state_ptr[v + 1]):
            loss[s] = top - moved[s]
    out = np.empty(widest)
    for e in range(len(bound)):
        bound[e], rounding, _ = dual_bound(g, node, pool, messages, np.int64(0), e)
        for v in range(g.var_ptr[e], g.var_ptr[e + 1]):
            _count_shared(g, v, shared, np.int64(1))
            first = g.state_ptr[v]
            for s in range(g.card[v]):
                slack[first + s] = loss[first + s]
            for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
                k = g.touch_slot[t]
                f = g.slot_factor[k]
                top = factor_maximum(g, pool, messages, np.int64(0), f)
                _star_marginal(g, pool, messages, f, k, loss, shared, out)
                at = g.message_ptr[k]
                for s in range(g.card[v]):
                    slack[first + s] += top - out[s] + messages[at + s]
            for s in range(g.card[v]):
                # for the rounding of both maxima: of all states, and with state s fixed
                slack[first + s] = max(0.0, slack[first + s] - 2.0 * rounding)
            _count_shared(g, v, shared, np.int64(-1))


@njit(cache=True, nogil=True)
def _count_shared(g: Graph, v: int, shared: I64, step: int) -> None:
    """Add ``step`` to the count of every variable for each factor it shares with v."""
    for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
        f = g.slot_factor[g.touch_slot[t]]
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            shared[g.scope[k]] += step


@njit(cache=True, nogil=True)
def _star_marginal(g: Graph, pool: F64, messages: F64, f: int, slot: int, loss: F64, shared: I64, out: F64) -> None:
    """Write the max-marginals of a slot, with ``message + loss / shared`` subtracted for all other slots.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    pool : ndarray of float64
        Tables; ``-inf`` is forbidden.
    messages : ndarray of float64, shape (graph.message_ptr[-1],)
        Messages of all examples; read only.
    f : int
        The factor.
    slot : int
        One of its slots, of the variable at the centre of the star.
    loss : ndarray of float64, shape (S,)
        How far the reparametrised unary score of each state is below its variable's best.
    shared : ndarray of int64, shape (V,)
        How many factors each variable shares with the centre.
    out : ndarray of float64, shape (at least the states of the slot's variable,)
        Written.
    """
    lo, hi = g.slot_ptr[f], g.slot_ptr[f + 1]
    digit = np.zeros(MAX_ARITY, np.int64)
    for s in range(g.card[g.scope[slot]]):
        out[s] = -np.inf
    for at in range(g.table_ptr[f], g.table_ptr[f] + g.table_size[f]):
        value = pool[at]
        if value > -np.inf:
            for k in range(lo, hi):
                if k != slot:
                    u, s = g.scope[k], digit[k - lo]
                    value -= messages[g.message_ptr[k] + s] + loss[g.state_ptr[u] + s] / shared[u]
            s = digit[slot - lo]
            out[s] = max(out[s], value)
        k = hi - 1
        while k >= lo and digit[k - lo] + 1 == g.card[g.scope[k]]:
            digit[k - lo] = 0
            k -= 1
        if k >= lo:
            digit[k - lo] += 1
