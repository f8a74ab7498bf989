"""The driver of message passing: the work of all solvers besides their sweeps, in slices that a budget cuts short.

A solver's kernel asks :func:`drive` for its next sweep and does it, slice by slice (:func:`slice_above`)::

    while drive(task):        # everything up to the next sweep; False when the budget is spent or all is done
        ...                   # some of the sweep; at its end the stage that comes after it

The position of the work is ``task.state``, so that a call continues where the last one ended.  Examples come one after
the other, each through the same stages: messages are taken over and visits listed, sweeps alternate with decoding,
local search and looks at the bound, and in the end the best labelling is polished and the bound published.  Slices
depend on an example's sizes only, so that answers do not depend on what else is asked for, nor on the clock.

Messages never change the score of a labelling, so a sweep that the time limit interrupts counts: :func:`finish`
publishes the bound of the messages as they are, and decodes a labelling where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.dual.kernels import (
    MAX_ARITY,
    PHASE,
    VISIT,
    VISIT_COST,
    Site,
    SolverProgress,
    bound_terms,
    decode,
    end_phase,
    extent,
    fill_some,
    has_met,
    may_stick,
    n_messages,
    note_meeting,
    rounding_of,
    shift_of,
)  # fmt: skip
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_backends.local.search import local_search, score_of
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import assign, njit

#: Work of a slice, in table entries; 2 to 5 ms of message passing.
SLICE = 2e6

#: The same for local search.
SEARCH_SLICE = 200_000

#: Table entries that moves of two variables may look at, about 40 ms.
POLISH_BUDGET = 20_000_000

#: A budget that is never spent.
NO_END = 1e300

#: Work of the parts of :func:`finish`, and of putting an answer together, as multiples of the work of a sweep in one
#: direction (measured).
BOUND_SHARE, DECODE_SHARE, ANSWER_SHARE = 1.3, 0.9, 0.4

#: Seconds for a unit of work before anything was measured, and the work this counts for afterwards.
FIRST_PACE, FIRST_WORK = 3e-9, 1e7

#: Stages that the driver does itself: take over an example, list its visits, decode, take the labels into account,
#: local search, bound of the variables and of the factors, count an iteration, judge it, continue, last bound, leave.
BEGIN, FILL, DECODE, OFFER, SEARCH, POLISH, OF_VARIABLES, OF_FACTORS, END, JUDGE, NEXT, LAST, LEAVE = range(13)

#: Stages of the solvers: prepare for an example, sweep, and others that only they know.
PREPARE, SWEEP, SECOND, THIRD, FOURTH, FIFTH, SIXTH = range(16, 23)

#: The position of the work.  ``example``, ``message``, ``label``, ``node``, ``factor``: the example, and where its data
#: start in packed arrays; ``shift``: offset to ``message_ptr``; ``work``: the cost of visiting all its slots.
#: ``stage``, ``place``: the stage, and the variable or factor it has come to; ``after_labels``, ``after_search``,
#: ``after_bound``: what comes next.  ``left``: of the budget; ``search_left``: of that of a local search of pairs.
#: ``total``, ``magnitude``, ``moved``, ``longest``: of a bound, term by term.  ``bound``: that of the iteration.
STATE = np.dtype(
    [(name, np.int64) for name in ("example", "message", "label", "node", "factor", "shift", "stage", "place")]
    + [(name, np.int64) for name in ("after_labels", "after_search", "after_bound", "pairs", "search_left", "longest")]
    + [(name, np.int64) for name in ("fresh", "met", "softer", "number", "uncovered", "listed", "n_new")]
    + [(name, np.float64) for name in ("left", "work", "total", "magnitude", "moved", "bound", "soft", "decoded")]
    + [("polished", np.float64)]
)


class MessageTask(NamedTuple):
    """Message passing on some examples: input, results so far, and position.

    Parameters
    ----------
    instance : Instance
        Unary scores are finite; every state has a finite joint state in each factor.
    ids : ndarray of int64, shape (n,)
    messages : ndarray of float64
        Packed over ``ids``: where to start, and afterwards the messages that give ``progress.bound``.
    progress : SolverProgress
        Continued in place.  Examples that are done are left alone.
    most : int
        Iterations that an example may have had at the end.
    tol : float
        Least fall of the bound in a phase to continue for, relative to the sizes of its terms.
    smooth : bool
        Whether updates may be smoothed when plain ones have come to rest.
    by_factor : bool
        Whether visits are listed in the order of slots, else in that of ``touch_slot``.
    anytime : bool
        Whether labellings are polished after each phase, not only in the end.
    price : float
        How much longer a visit to a slot takes than in other solvers.
    slice : float
        Work of a slice.
    search_slice : int
        The same for local search, in table entries.
    labels, stale, visits, value
        Work space: a labelling, and which variables local search has yet to look at; the list of visits; numbers for
        the states of a factor.
    state : ndarray of STATE, shape (1,)
    """

    instance: Instance
    ids: I64
    messages: F64
    progress: SolverProgress
    most: int
    tol: float
    smooth: bool
    by_factor: bool
    anytime: bool
    price: float
    slice: float
    search_slice: int
    labels: I32
    stale: Bools
    visits: I64
    value: F64
    state: NDArray[np.void]

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.state[0]["example"] == len(self.ids))


class PassingRule(NamedTuple):
    """How a solver is driven, see :class:`MessageTask`."""

    most: int
    tol: float
    smooth: bool = False
    by_factor: bool = False
    anytime: bool = False
    price: float = 1.0


def message_task(
    instance: Instance, ids: I64, messages: F64, progress: SolverProgress, rule: PassingRule
) -> MessageTask:
    """Return the task of message passing on some examples, before its first iteration."""
    longest, widest, _, n_slots = extent(instance.graph, ids)
    most, tol, smooth, by_factor, anytime, price = rule
    return MessageTask(
        instance, ids, messages, progress, most, tol, smooth, by_factor, anytime, price, SLICE / price, SEARCH_SLICE,
        np.zeros(longest, np.int32), np.ones(2 * longest, np.bool_), np.empty(VISIT * n_slots, np.int64),
        np.empty(widest * MAX_ARITY), np.zeros(1, STATE),
    )  # fmt: skip


@njit(cache=True, nogil=True, inline="always")
def site_of(t: MessageTask) -> Site:
    """Return the example at hand, with the messages the solver is at."""
    d, instance = t.state[0], t.instance
    return Site(instance.graph, instance.node, instance.pool, t.progress.current, d.shift, t.ids[d.example])


@njit(cache=True, nogil=True, inline="always")
def slice_above(t: MessageTask, lo: int, last: int) -> int:
    """Return where a slice of the variables ``lo`` to ``last`` ends; its work is taken off the budget."""
    if t.state[0].work > t.slice:
        return _part_of_variables(t.instance.graph, t.state, t.slice, lo, last, np.int64(1))
    t.state[0].left -= t.state[0].work
    return last


@njit(cache=True, nogil=True, inline="always")
def slice_below(t: MessageTask, first: int, hi: int) -> int:
    """Return where a slice of the variables ``first`` to ``hi`` begins that ends at ``hi``, as :func:`slice_above`."""
    if t.state[0].work > t.slice:
        return _part_of_variables(t.instance.graph, t.state, t.slice, hi, first, np.int64(-1))
    t.state[0].left -= t.state[0].work
    return first


@njit(cache=True, nogil=True, inline="always")
def slice_of_factors(t: MessageTask, lo: int, last: int) -> int:
    """Return where a slice of the factors ``lo`` to ``last`` ends; its work is taken off the budget."""
    if t.state[0].work > t.slice:
        return _part_of_factors(t.instance.graph, t.state, t.slice, lo, last)
    t.state[0].left -= t.state[0].work
    return last


@njit(cache=True, nogil=True)
def _part_of_variables(g: Graph, state: NDArray[np.void], size: float, at: int, end: int, step: int) -> int:
    """Return how far from ``at`` towards ``end`` variables of so much work go."""
    work = 0.0
    while at != end and work < size:
        v = at if step > 0 else at - 1
        for k in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
            work += g.table_size[g.slot_factor[g.touch_slot[k]]] + VISIT_COST
        work += 1.0
        at += step
    state[0].left -= work
    return at


@njit(cache=True, nogil=True)
def _part_of_factors(g: Graph, state: NDArray[np.void], size: float, at: int, end: int) -> int:
    """Return how far from ``at`` towards ``end`` factors of so much work go."""
    work = 0.0
    while at < end and work < size:
        work += factor_work(g, at)
        at += 1
    state[0].left -= work
    return at


@njit(cache=True, nogil=True)
def factor_work(g: Graph, f: int) -> float:
    """Return the work of visiting the slots of a factor."""
    return (g.table_size[f] + VISIT_COST) * (g.slot_ptr[f + 1] - g.slot_ptr[f])


@njit(cache=True, nogil=True)
def drive(t: MessageTask) -> bool:
    """Go on to the next stage of the solver's own (True), or until the budget is spent or all is done (False)."""
    d, best = t.state[0], t.progress
    while d.example < len(t.ids) and d.left > 0.0:
        if d.stage >= PREPARE:
            return True
        if d.stage == BEGIN:
            _begin(t)
        elif d.stage == FILL:
            _fill(t)
        elif d.stage == DECODE:
            _decode(t)
        elif d.stage == OFFER:
            _offer(t)
        elif d.stage == SEARCH:
            _search(t)
        elif d.stage == POLISH:
            _polish(t)
        elif d.stage == OF_VARIABLES or d.stage == OF_FACTORS:
            _bound(t)
        elif d.stage == END:
            best.iterations[d.example] += 1
            d.met = 1 if has_met(best, d.example, d.bound) else 0
            if d.met > 0 or best.iterations[d.example] % PHASE == 0:
                publish_bound(t, JUDGE)
            else:
                d.stage = NEXT
        elif d.stage == JUDGE:
            _judge(t)
        elif d.stage == NEXT:
            if best.done[d.example] or best.iterations[d.example] >= t.most:
                d.stage, d.after_search = POLISH, LAST
            else:
                d.stage, d.fresh, d.bound = SWEEP, 0, np.inf
        elif d.stage == LAST:
            publish_bound(t, LEAVE)
        else:
            _leave(t)
    return False


@njit(cache=True, nogil=True)
def publish_bound(t: MessageTask, after: int) -> None:
    """Publish the bound of the current messages next, unless that has been done, and then go to a stage."""
    d = t.state[0]
    d.after_bound = after
    if d.fresh > 0:
        d.stage = after
        return
    d.stage, d.place = OF_VARIABLES, t.instance.graph.var_ptr[t.ids[d.example]]
    d.total, d.magnitude, d.moved, d.longest = 0.0, 0.0, 0.0, 1


@njit(cache=True, nogil=True)
def looks_after(t: MessageTask) -> bool:
    """Whether solvers that do not decode on the way look for a labelling after the iteration at hand.

    They do at the end of a phase, after the last iteration, and after every power of two.
    """
    n = t.progress.iterations[t.state[0].example] + 1
    return bool(n == t.most or n % PHASE == 0 or n & (n - 1) == 0)


@njit(cache=True, nogil=True)
def _begin(t: MessageTask) -> None:
    """Load the messages of the current example and estimate the work of an iteration."""
    d, g, best = t.state[0], t.instance.graph, t.progress
    i, e = d.example, t.ids[d.example]
    d.stage = LEAVE
    if best.done[i] or best.iterations[i] >= t.most:
        return
    d.shift, d.decoded, d.polished, d.fresh = shift_of(g, e, d.message), -np.inf, best.score[i], 0
    d.softer = 1 if t.smooth and may_stick(g, e) else 0
    if best.iterations[i] == 0:
        for m in range(d.message, d.message + n_messages(g, e)):
            best.current[m] = t.messages[m]
    d.work = 1.0 * (g.var_ptr[e + 1] - g.var_ptr[e])
    for f in range(g.factor_ptr[e], g.factor_ptr[e + 1]):
        d.work += factor_work(g, f)
    d.stage, d.place, d.bound = FILL, g.var_ptr[e], np.inf


@njit(cache=True, nogil=True)
def _fill(t: MessageTask) -> None:
    """List the visits of factors by variable, for one slice of variables."""
    d, g, e = t.state[0], t.instance.graph, t.ids[t.state[0].example]
    first, last = g.touch_ptr[g.var_ptr[e]], g.var_ptr[e + 1]
    hi = slice_above(t, d.place, last)
    fill_some(g, d.shift, t.by_factor, t.visits, first, g.touch_ptr[d.place], g.touch_ptr[hi])
    d.place = hi
    if hi == last:
        d.stage = PREPARE


@njit(cache=True, nogil=True)
def decode_next(t: MessageTask, after: int) -> None:
    """Decode the current messages next, take the labels into account, and then go to a stage."""
    d = t.state[0]
    d.stage, d.place, d.after_labels = DECODE, t.instance.graph.var_ptr[t.ids[d.example]], after


@njit(cache=True, nogil=True)
def _decode(t: MessageTask) -> None:
    """Decode the current messages into labels, for one slice of variables."""
    d, last = t.state[0], t.instance.graph.var_ptr[t.ids[t.state[0].example] + 1]
    hi = slice_above(t, d.place, last)
    decode(site_of(t), t.labels, t.value, d.place, hi)
    d.place = hi
    if hi == last:
        d.stage = OFFER


@njit(cache=True, nogil=True)
def take(t: MessageTask) -> float:
    """Return the score of ``labels``; keep them if they are the best."""
    d, g, best, e = t.state[0], t.instance.graph, t.progress, t.ids[t.state[0].example]
    n = g.var_ptr[e + 1] - g.var_ptr[e]
    score = score_of(g, t.instance.node, t.instance.pool, e, t.labels)
    if score > best.score[d.example]:
        best.score[d.example] = score
        assign(best.labels[d.label : d.label + n], t.labels)
    return score


@njit(cache=True, nogil=True)
def _offer(t: MessageTask) -> None:
    """Take a decoded labelling into account; local search is next where it beats earlier decoded ones."""
    d = t.state[0]
    score = take(t)
    d.stage = d.after_labels
    if score > d.decoded or t.progress.score[d.example] == -np.inf:
        d.decoded = max(score, d.decoded)
        d.pairs, d.stage, d.after_search = 0, SEARCH, d.after_labels
        t.stale[:] = True


@njit(cache=True, nogil=True)
def _polish(t: MessageTask) -> None:
    """Search for moves of two variables next, where the best labelling is new or forbidden."""
    d, g, best, e = t.state[0], t.instance.graph, t.progress, t.ids[t.state[0].example]
    score = best.score[d.example]
    d.stage = d.after_search
    if score > d.polished or score == -np.inf:
        assign(t.labels[: g.var_ptr[e + 1] - g.var_ptr[e]], best.labels[d.label :])
        d.pairs, d.search_left, d.stage = 1, POLISH_BUDGET, SEARCH
        t.stale[:] = True


@njit(cache=True, nogil=True)
def _search(t: MessageTask) -> None:
    """Improve the labelling by local search, for as many operations as a slice has."""
    d, g, e = t.state[0], t.instance.graph, t.ids[t.state[0].example]
    n = g.var_ptr[e + 1] - g.var_ptr[e]
    stale, pairs, budget = t.stale[: 2 * n], d.pairs > 0, np.int64(t.search_slice)
    ended = local_search(g, t.instance.node, t.instance.pool, e, t.labels[:n], stale, pairs, budget)
    d.left -= min(1.0 * t.search_slice, d.work)
    d.search_left -= t.search_slice
    if ended or (pairs and d.search_left <= 0):
        take(t)
        d.stage = d.after_search
        if pairs:
            d.polished = t.progress.score[d.example]


@njit(cache=True, nogil=True)
def _bound(t: MessageTask) -> None:
    """Add the terms of a slice to the bound; keep the messages when it is the lowest so far."""
    d, g, best, e = t.state[0], t.instance.graph, t.progress, t.ids[t.state[0].example]
    at, i, none = d.place, d.example, np.int64(0)  # a literal would compile all twice
    if d.stage == OF_VARIABLES:
        last = g.var_ptr[e + 1]
        d.place = slice_above(t, at, last)
        total, size, moved, longest = bound_terms(site_of(t), at, d.place, none, none)
    else:
        last = g.factor_ptr[e + 1]
        d.place = slice_of_factors(t, at, last)
        total, size, moved, longest = bound_terms(site_of(t), none, none, at, d.place)
    d.total, d.magnitude = d.total + total, d.magnitude + size
    d.moved, d.longest = d.moved + moved, max(d.longest, longest)
    if d.place < last:
        return
    if d.stage == OF_VARIABLES:
        d.stage, d.place = OF_FACTORS, g.factor_ptr[e]
        return
    d.total += rounding_of(g, e, d.magnitude + d.moved, d.longest)
    d.fresh, d.stage = 1, d.after_bound
    if d.total < best.bound[i]:
        best.bound[i] = d.total
        for m in range(d.message, d.message + n_messages(g, e)):
            t.messages[m] = best.current[m]


@njit(cache=True, nogil=True)
def _judge(t: MessageTask) -> None:
    """Decide whether an example is done, and at the end of a phase choose the temperature."""
    d, best, i = t.state[0], t.progress, t.state[0].example
    d.stage = NEXT
    if d.met > 0:
        note_meeting(best, i, d.softer > 0)
    if not best.done[i] and best.iterations[i] % PHASE == 0:
        end_phase(t.instance.graph, t.ids[i], i, best, d.magnitude, t.tol, d.softer > 0)
        if t.anytime:
            d.stage, d.after_search = POLISH, NEXT


@njit(cache=True, nogil=True)
def _leave(t: MessageTask) -> None:
    """Go to the next example."""
    d, g, e = t.state[0], t.instance.graph, t.ids[t.state[0].example]
    d.message += n_messages(g, e)
    d.label += g.var_ptr[e + 1] - g.var_ptr[e]
    d.node += g.state_ptr[g.var_ptr[e + 1]] - g.state_ptr[g.var_ptr[e]]
    d.factor += g.factor_ptr[e + 1] - g.factor_ptr[e]
    d.example += 1
    d.stage = BEGIN


@njit(cache=True, nogil=True)
def finish(t: MessageTask) -> None:
    """Record the results of the current example when it cannot be completed."""
    d, g = t.state[0], t.instance.graph
    if d.example < len(t.ids) and d.stage == BEGIN:
        _begin(t)
    if d.example == len(t.ids) or d.stage == LEAVE:
        return
    e = t.ids[d.example]
    if d.stage == SEARCH:
        take(t)
    if t.progress.score[d.example] == -np.inf:
        decode(site_of(t), t.labels, t.value, g.var_ptr[e], g.var_ptr[e + 1])
        take(t)
    publish_bound(t, LEAVE)
    while d.stage != LEAVE:
        _bound(t)


def paced(
    task: MessageTask, go_on: Callable[[float], bool], budget: float, answer_share: Callable[[], float]
) -> Iterator[float]:
    """Go on with a task until it is done; yield after each budget when it would be finished if it were ended there.

    Parameters
    ----------
    task : MessageTask
    go_on : callable
        Runs the solver until a budget is spent; returns whether the task is done.
    budget : float
    answer_share : callable
        Returns the work of putting the answer together, as a multiple of that of a sweep in one direction.
    """
    seconds, units, state, best = FIRST_PACE * FIRST_WORK, FIRST_WORK, task.state[0], task.progress
    while True:
        begin = perf_counter()
        if go_on(budget):
            return
        now = perf_counter()
        seconds, units = seconds + now - begin, units + budget - float(state["left"])
        known = best.score[int(state["example"])] > -np.inf
        share = BOUND_SHARE + answer_share() + (0.0 if known else DECODE_SHARE)
        yield now + seconds / units * share * task.price * float(state["work"])
