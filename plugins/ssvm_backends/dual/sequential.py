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
``trws(graph, node, pool, ids, messages, max_iterations, tol, smooth, progress)``
    Runs at most ``max_iterations`` more iterations on each example and leaves the messages of the lowest bound in
    ``messages``; what else it knows is in ``progress``
    (``SolverProgress.start(n_examples, n_labels, n_messages)`` of :mod:`ssvm_backends.dual.progress`).  Both are
    packed over ``ids``; with all examples in order, ``messages`` has the layout of ``graph.message_ptr``; zeros to
    begin with.
``reparametrised(graph, node, pool, messages) -> (bound, node', slack)``
    For all examples.  ``bound[i] - slack[state_ptr[v] + s]`` is an upper bound on the score of every labelling of
    example i with state s at variable v; see :mod:`ssvm_backends.dual.answers.state_bounds`.
Scores and bounds are without ``Instance.const``.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.answers.decode import add_conditional, offer, polish
from ssvm_backends.dual.answers.state_bounds import reparametrised as reparametrised
from ssvm_backends.dual.collect import collect
from ssvm_backends.dual.kernels import (
    LARGE,
    NO_NAN,
    ROW,
    VISIT,
    begin,
    end_iteration,
    extent,
    fill_visits,
    may_stick,
    n_messages,
    next_temperature,
    publish,
    shift_of,
)  # fmt: skip
from ssvm_backends.dual.pieces import Pieces, Steps
from ssvm_backends.dual.progress import SolverProgress
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True)
def trws(
    graph: Graph, node: F64, pool: F64, ids: I64, messages: F64, max_iterations: int, tol: float, smooth: bool,
    progress: SolverProgress,
) -> None:  # fmt: skip
    """Lower the bound and look for labellings, example by example.

    Parameters
    ----------
    graph, node, pool, ids, messages, tol, progress
        As for :func:`~ssvm_backends.dual.descent.block_descent.descend`.
    max_iterations : int
        Iterations (a forward and a backward sweep) for each example in this call.
    smooth : bool
        Go on with soft maxima when plain ones have come to rest (not for pairs of binary variables).
    """
    g, best = borrow(graph), borrow(progress)
    node, pool, messages = borrow(node), borrow(pool), borrow(messages)
    longest, widest, deepest, n_slots = extent(g, ids)
    theta, decoded, outgoing = np.empty(widest), np.empty(widest), np.empty(deepest, np.int64)
    labels, visits = np.zeros(longest, np.int32), np.empty(VISIT * n_slots, np.int64)
    at, place, no, yes = np.int64(0), np.int64(0), np.bool_(False), np.bool_(True)  # literals would compile all twice
    for i in range(len(ids)):
        e = ids[i]
        shift, best_decoded, softer = shift_of(g, e, at), -np.inf, smooth and may_stick(g, e)
        if not best.done[i] and max_iterations > 0:
            before = best.score[i]
            begin(g, e, i, at, messages, best)
            fill_visits(g, e, shift, no, visits)
            for _ in range(max_iterations):
                soft = next_temperature(best, i)
                lo, hi = g.var_ptr[e], g.var_ptr[e + 1]
                sweep(
                    g, visits, node, pool, best.current, shift, e, yes, soft, theta, decoded, outgoing, labels, lo, hi
                )
                if soft == 0.0:
                    best_decoded = offer(g, node, pool, e, i, labels, best, place, best_decoded)
                bound = sweep(
                    g, visits, node, pool, best.current, shift, e, no, soft, theta, decoded, outgoing, labels, lo, hi
                )
                if soft > 0.0:
                    bound = np.inf
                if end_iteration(g, node, pool, e, i, at, messages, best, bound, tol, softer):
                    break
            if best.score[i] > before or before == -np.inf:
                polish(g, node, pool, e, i, best, place)
            publish(g, node, pool, e, i, at, messages, best)
        at += n_messages(g, e)
        place += g.var_ptr[e + 1] - g.var_ptr[e]


@njit(cache=True, nogil=True, fastmath=NO_NAN)
def sweep(
    g: Graph, visits: I64, node: F64, pool: F64, messages: F64, shift: int, example: int, forward: bool, soft: float,
    theta: F64, decoded: F64, outgoing: I64, labels: I32, lo: int, hi: int,
) -> float:  # fmt: skip
    """Visit the variables ``lo`` to ``hi`` in one direction; return their share of the (soft) bound.

    Of the n_in factors that hold an earlier variable, and n_out that hold a later one::

        message[k] = gamma[k] - max gamma[k]            for incoming slots
        theta = node[v] + sum of all messages of v
        message[k] = message[k] - theta / max(n_in, n_out)    for outgoing slots

    A forward sweep with plain maxima decodes labels as it goes.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    visits : ndarray of int64
        What a visit to each slot needs, in the order of ``touch_slot``; see
        :func:`~ssvm_backends.dual.kernels.fill_visits`.
    node, pool : ndarray of float64
        Unary scores and tables of all examples.
    messages : ndarray of float64
        Packed messages, updated in place.
    shift : int
        What to add to ``message_ptr`` for this example.
    example : int
        The example.
    forward : bool
        Direction: in the order of the variables' numbers, or against it.
    soft : float
        Temperature of soft maxima, 0 for plain ones.
    theta, decoded : ndarray of float64, shape (at least the most states of a variable,)
        Work space.
    outgoing : ndarray of int64, shape (at least the most slots of a variable,)
        Work space.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written by a forward sweep with plain maxima, from 0 for the example's first variable; else left alone.
    lo, hi : int
        First variable, and the one after the last.
    """
    first = g.var_ptr[example]
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
                    add_conditional(g, pool, messages, shift, f, other, labels, -first, decoded)
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
        if n_out < n_in or n_out == 0:  # what is not handed out stays with v, and counts for the bound
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


class SequentialPieces(Pieces):
    """The same on one large example, piece by piece.

    Parameters
    ----------
    instance, example, messages, progress, tol
        See :class:`~ssvm_backends.dual.pieces.Pieces`.
    smooth : bool
    """

    def __init__(
        self, instance: Instance, example: int, messages: F64, progress: SolverProgress, tol: float, smooth: bool
    ) -> None:
        super().__init__(instance, example, messages, progress, tol)
        self.smooth = smooth and bool(may_stick(self.g, example))
        self.decoded, self.outgoing = np.empty(self.widest), np.empty(self.deepest, np.int64)

    def iteration(self, most: int) -> Steps:
        """Sweep forwards and backwards."""
        soft = float(next_temperature(self.best, 0))
        for lo, hi, work in self.variables:
            self._sweep(True, soft, lo, hi)
            yield work
        if soft == 0.0:
            yield from self.offer()
        bound = 0.0
        for lo, hi, work in reversed(self.variables):
            bound += self._sweep(False, soft, lo, hi)
            yield work
        yield from self.end_iteration(np.inf if soft > 0.0 else bound, self.smooth)

    def _sweep(self, forward: bool, soft: float, lo: int, hi: int) -> float:
        return sweep(
            self.g, self.visits, self.node, self.pool, self.best.current, self.shift, self.example, forward, soft,
            self.value, self.decoded, self.outgoing, self.labels, lo, hi,
        )  # fmt: skip
