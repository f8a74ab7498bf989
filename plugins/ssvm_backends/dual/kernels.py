"""Shared by dual solvers: max-marginals of factors, the dual bound, decoding, and local search.

A message is a number for each state of each slot.  It moves score from a factor to a variable::

    node'[v, s]  = node[v, s] + sum_{k in slots of v} message[k, s]
    table'[f, c] = table[f, c] - sum_{k in slots of f} message[k, c_k]

which changes no labelling's score, so that for *any* messages

    bound = sum_v max_s node'[v, s] + sum_f max_c table'[f, c]

is at least the best score (Werner 2007; Meshi et al. 2010, equation 8).  Solvers differ in how they lower it.

Messages are packed over the examples a kernel is asked for: those of slot k lie at ``message_ptr[k] + shift``, with
one ``shift`` for each example.  Tables may hold ``-inf``; messages are finite
(see :mod:`ssvm_backends.graphs.reduce`), so differences are never ``nan`` and kernels may say so to the compiler.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import njit

# -- ``SolverProgress``: the results of dual solvers on a batch of examples so far -----------------------------------

#: The fixed cost of a visit to a slot, in table entries.
VISIT_COST = 8.0


class SolverProgress(NamedTuple):
    """How far a solver has come on n examples; kernels continue from it and write to it.

    Parameters
    ----------
    labels : ndarray of int32
        Best labelling of each example, packed.
    score : ndarray of float64, shape (n,)
        Its score without the constant; ``-inf`` while there is none.
    bound : ndarray of float64, shape (n,)
        Lowest bound so far, without the constant.
    reference : ndarray of float64, shape (n,)
        The bound at the end of the last phase.
    iterations : ndarray of int64, shape (n,)
    done : ndarray of bool, shape (n,)
        Whether bound and labelling have met or the bound falls no more.
    current : ndarray of float64
        Messages the solver is at, packed; those that gave ``bound`` are kept apart.
    temperature : ndarray of float64, shape (n,)
        Temperature of smoothed updates, 0 for plain ones.
    """

    labels: I32
    score: F64
    bound: F64
    reference: F64
    iterations: I64
    done: Bools
    current: F64
    temperature: F64

    @classmethod
    def start(cls, n_examples: int, n_labels: int, n_messages: int) -> SolverProgress:
        """Return the progress of examples that have neither a labelling nor a bound yet."""
        n = n_examples
        return cls(
            np.zeros(n_labels, np.int32), np.full(n, -np.inf), np.full(n, np.inf), np.full(n, np.inf),
            np.zeros(n, np.int64), np.zeros(n, np.bool_), np.zeros(n_messages), np.zeros(n),
        )  # fmt: skip

    def part(self, examples: slice, labels: slice, messages: slice) -> SolverProgress:
        """Return views of a range of the examples."""
        return SolverProgress(
            self.labels[labels], self.score[examples], self.bound[examples], self.reference[examples],
            self.iterations[examples], self.done[examples], self.current[messages], self.temperature[examples],
        )  # fmt: skip


#: Flags for kernels whose numbers may be infinite but never nan.
NO_NAN = {"nnan", "nsz"}

#: Relative gap at which bound and labelling have met.
CLOSED = 1e-9

#: Iterations between two looks at how much the bound fell.
PHASE = 10

#: Plain updates have come to rest when a phase lowers the bound by less than this, relative to its size.
SLOW = 3e-3

#: Smoothing begins at a temperature for which it may raise the bound by the gap, but at most by this share of its size.
HOTTEST = 0.05

#: Factor of the temperature after each phase.
COOLING = 0.85

#: Numbers for each slot of an example, and the kinds of slots; see :func:`fill_visits`.
VISIT = 6
ROW, COLUMN, LARGE = 0, 1, 2

#: Largest arity of a factor that kernels have work space for.
MAX_ARITY = 64


class Site(NamedTuple):
    """One example, and the messages a solver is at.

    Parameters
    ----------
    graph : Graph
        Structure; read only.
    node, pool : ndarray of float64
        Unary scores and tables of all examples; read only.
    messages : ndarray of float64
        Packed messages.
    shift : int
        Offset to add to ``message_ptr`` for this example, see :func:`shift_of`.
    example : int
        The example.
    """

    graph: Graph
    node: F64
    pool: F64
    messages: F64
    shift: int
    example: int


@njit(cache=True, nogil=True, fastmath=NO_NAN)
def max_marginal(g: Graph, pool: F64, messages: F64, shift: int, f: int, slot: int, out: F64) -> float:
    """Write ``out[s] = max_{c: c_slot = s} table[f, c] - sum_{j != slot} message[j, c_j]``; return the maximum.

    With ``slot = -1`` nothing is written and all messages are subtracted: the maximum of the factor.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    pool : ndarray of float64
        Tables of all factors, see :class:`~ssvm_backends.graphs.graph.Graph`; ``-inf`` is forbidden.
    messages : ndarray of float64
        Packed messages, finite; read only.
    shift : int
        Offset to add to ``message_ptr`` for this example, see :func:`shift_of`.
    f : int
        The factor.
    slot : int
        One of its slots (numbered as in the graph), or -1.
    out : ndarray of float64, shape (at least the states of the slot's variable,)
        Written.  May be the slot's own place in ``messages``, which is not read.
    """
    lo, last = g.slot_ptr[f], g.slot_ptr[f + 1] - 1
    digit = np.zeros(MAX_ARITY, np.int64)
    n_last, at, base = g.card[g.scope[last]], g.table_ptr[f], 0.0
    tail = g.message_ptr[last] + shift
    if slot >= 0:
        for s in range(g.card[g.scope[slot]]):
            out[s] = -np.inf
    for k in range(lo, last):
        if k != slot:
            base += messages[g.message_ptr[k] + shift]
    top = -np.inf
    while True:
        if slot == last:
            for s in range(n_last):
                out[s] = max(out[s], pool[at + s] - base)
        else:
            best = -np.inf
            for s in range(n_last):
                best = max(best, pool[at + s] - messages[tail + s])
            best -= base
            top = max(top, best)
            if slot >= 0:
                out[digit[slot - lo]] = max(out[digit[slot - lo]], best)
        at += n_last
        k = last - 1
        while k >= lo and digit[k - lo] + 1 == g.card[g.scope[k]]:
            digit[k - lo] = 0
            k -= 1
        if k < lo:
            break
        digit[k - lo] += 1
        base = 0.0  # recomputed, so that rounding does not add up
        for k in range(lo, last):
            if k != slot:
                base += messages[g.message_ptr[k] + shift + digit[k - lo]]
    if slot == last:
        for s in range(n_last):
            top = max(top, out[s])
    return top


@njit(cache=True, nogil=True, fastmath=NO_NAN)
def factor_maximum(g: Graph, pool: F64, messages: F64, shift: int, f: int) -> float:
    """Return ``max_c table[f, c] - sum_k message[k, c_k]``."""
    lo = g.slot_ptr[f]
    if g.slot_ptr[f + 1] - lo > 2:
        return max_marginal(g, pool, messages, shift, f, np.int64(-1), messages)
    first, second = g.message_ptr[lo] + shift, g.message_ptr[lo + 1] + shift
    at, n_second, top = g.table_ptr[f], g.card[g.scope[lo + 1]], -np.inf
    for _ in range(g.card[g.scope[lo]]):
        best = -np.inf
        for s in range(n_second):
            best = max(best, pool[at + s] - messages[second + s])
        top = max(top, best - messages[first])
        first += 1
        at += n_second
    return top


@njit(cache=True, nogil=True)
def fill_visits(g: Graph, example: int, shift: int, by_factor: bool, visits: I64) -> None:
    """Write the data for the visit to each slot of an example, in the order of factors or of ``touch_slot``.

    Kernels spend most of their time on slots of small pairs, where looking all this up in the graph would take longer
    than the arithmetic.  For each slot ``VISIT`` numbers: place of its messages, place of the messages of the
    other slot (of larger factors: the slot), place of the table, number of states of the other variable,
    the other variable, and its kind (``ROW``, ``COLUMN`` or ``LARGE``).
    """
    first, stop = g.touch_ptr[g.var_ptr[example]], g.touch_ptr[g.var_ptr[example + 1]]
    fill_some(g, shift, by_factor, visits, first, first, stop)


@njit(cache=True, nogil=True)
def fill_some(g: Graph, shift: int, by_factor: bool, visits: I64, first: int, lo: int, hi: int) -> None:
    """Write the entries ``lo`` to ``hi`` of the list of visits of an example whose entries begin with ``first``.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    shift : int
        Offset to add to ``message_ptr`` for this example.
    by_factor : bool
        Whether the list is in the order of slots (factor by factor), else in that of ``touch_slot``.
    visits : ndarray of int64, shape (VISIT times the example's slots,)
        Written, see :func:`fill_visits`; of larger factors the numbers about the other variable are left as they are.
    first, lo, hi : int
        The example's first entry, and the range to write, all in the numbering of the graph.
    """
    for t in range(lo, hi):
        k, at = t if by_factor else g.touch_slot[t], VISIT * (t - first)
        f = g.slot_factor[k]
        start = g.slot_ptr[f]
        visits[at], visits[at + 2] = g.message_ptr[k] + shift, g.table_ptr[f]
        if g.slot_ptr[f + 1] - start == 2:
            other = 2 * start + 1 - k
            visits[at + 1], visits[at + 4] = g.message_ptr[other] + shift, g.scope[other]
            visits[at + 3], visits[at + 5] = g.card[g.scope[other]], ROW if k == start else COLUMN
        else:
            visits[at + 1], visits[at + 5] = k, LARGE


@njit(cache=True, nogil=True)
def shift_of(g: Graph, example: int, packed: int) -> int:
    """Return the offset to add to ``message_ptr`` when the messages of an example start at ``packed``."""
    return packed - g.message_ptr[g.slot_ptr[g.factor_ptr[example]]]


@njit(cache=True, nogil=True)
def n_messages(g: Graph, example: int) -> int:
    """Return the number of messages of an example."""
    first, stop = g.slot_ptr[g.factor_ptr[example]], g.slot_ptr[g.factor_ptr[example + 1]]
    return g.message_ptr[stop] - g.message_ptr[first]


@njit(cache=True, nogil=True)
def dual_bound(g: Graph, node: F64, pool: F64, messages: F64, shift: int, example: int) -> tuple[float, float, float]:
    """Return the dual bound of an example with an allowance for rounding, that allowance, and the sum of terms' sizes.

    A sum of n numbers is off by at most n eps times the sum of their sizes, and the largest of several sums by
    the largest of their errors.  O(all tables).
    """
    v_lo, v_hi = g.var_ptr[example], g.var_ptr[example + 1]
    f_lo, f_hi = g.factor_ptr[example], g.factor_ptr[example + 1]
    site = Site(g, node, pool, messages, shift, example)
    total, size, moved, longest = bound_terms(site, v_lo, v_hi, f_lo, f_hi)
    rounding = rounding_of(g, example, size + moved, longest)
    return total + rounding, rounding, size


@njit(cache=True, nogil=True)
def rounding_of(g: Graph, example: int, size: float, longest: int) -> float:
    """Return the largest error of a dual bound whose terms and messages have this size in all."""
    n_variables = g.var_ptr[example + 1] - g.var_ptr[example]
    n_factors = g.factor_ptr[example + 1] - g.factor_ptr[example]
    return (n_variables + n_factors + longest + MAX_ARITY) * 2.3e-16 * size


@njit(cache=True, nogil=True)
def bound_terms(site: Site, v_lo: int, v_hi: int, f_lo: int, f_hi: int) -> tuple[float, float, float, int]:
    """Return what some variables and factors add to a dual bound.

    The equation is that of the module, summed over these variables and factors.

    Parameters
    ----------
    site : Site
        Read only.
    v_lo, v_hi : int
        First variable, and the one after the last.
    f_lo, f_hi : int
        First factor, and the one after the last.

    Returns
    -------
    total : float
        The sum of their terms.
    size : float
        The sum of the terms' sizes.
    moved : float
        By how much messages add to the numbers that are rounded.
    longest : int
        The most messages in a sum.
    """
    g, node, pool, messages, shift = site.graph, site.node, site.pool, site.messages, site.shift
    total, size, moved, longest = 0.0, 0.0, 0.0, 1
    for v in range(v_lo, v_hi):
        best, degree = -np.inf, g.touch_ptr[v + 1] - g.touch_ptr[v]
        longest = max(longest, degree)
        for s in range(g.card[v]):
            value = node[g.state_ptr[v] + s]
            for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
                value += messages[g.message_ptr[g.touch_slot[t]] + shift + s]
            best = max(best, value)
        total += best
        size += abs(best)
    for f in range(f_lo, f_hi):
        best = factor_maximum(g, pool, messages, shift, f)
        total += best
        size += abs(best)
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            largest = 0.0
            for m in range(g.message_ptr[k], g.message_ptr[k + 1]):
                largest = max(largest, abs(messages[m + shift]))
            moved += 4.0 * largest  # it enters two sums, and what it is added to may be as large
    return total, size, moved, longest


@njit(cache=True, nogil=True)
def extent(g: Graph, ids: I64) -> tuple[int, int, int, int]:
    """Return the most variables, states of a variable, slots of a variable and slots of the listed examples."""
    longest, widest, deepest, slots = 1, 1, 1, 1
    for e in ids:
        longest = max(longest, g.var_ptr[e + 1] - g.var_ptr[e])
        slots = max(slots, g.touch_ptr[g.var_ptr[e + 1]] - g.touch_ptr[g.var_ptr[e]])
        for v in range(g.var_ptr[e], g.var_ptr[e + 1]):
            widest = max(widest, g.card[v])
            deepest = max(deepest, g.touch_ptr[v + 1] - g.touch_ptr[v])
    return longest, widest, deepest, slots


@njit(cache=True, nogil=True)
def may_stick(g: Graph, example: int) -> bool:
    """Whether fixed points of plain updates may miss the least bound: not for pairs of binary variables."""
    for v in range(g.var_ptr[example], g.var_ptr[example + 1]):
        if g.card[v] > 2:
            return True
    large = False
    for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
        large |= g.slot_ptr[f + 1] - g.slot_ptr[f] > 2
    return large


@njit(cache=True, nogil=True)
def begin(g: Graph, example: int, i: int, at: int, messages: F64, best: SolverProgress) -> None:
    """Take over the messages to start from, before the first iteration on example i."""
    if best.iterations[i] == 0:
        for m in range(at, at + n_messages(g, example)):
            best.current[m] = messages[m]


@njit(cache=True, nogil=True)
def next_temperature(best: SolverProgress, i: int) -> float:
    """Return the temperature of the coming iteration: the last one of a phase is plain, so that its bound counts."""
    return 0.0 if (best.iterations[i] + 1) % PHASE == 0 else best.temperature[i]


@njit(cache=True, nogil=True)
def has_met(best: SolverProgress, i: int, bound: float) -> bool:
    """Whether a bound, known up to rounding, meets the best labelling."""
    return best.score[i] > -np.inf and bound - best.score[i] <= CLOSED * abs(best.score[i])


@njit(cache=True, nogil=True)
def note_meeting(best: SolverProgress, i: int, smooth: bool) -> None:
    """Decide whether example i is done after its bound has met its labelling, up to rounding."""
    best.done[i] = best.bound[i] - best.score[i] <= 2.0 * CLOSED * abs(best.score[i])
    best.done[i] |= not smooth


@njit(cache=True, nogil=True)
def end_phase(g: Graph, example: int, i: int, best: SolverProgress, size: float, tol: float, smooth: bool) -> None:
    """Choose the temperature of the next phase, or decide that the example is done.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    example : int
        The example, as the graph numbers it.
    i : int
        Its place in ``best``.
    best : Progress
        ``reference``, ``temperature`` and ``done`` of the example are set.
    size : float
        The sum of the sizes of the bound's terms.
    tol : float
        Least fall of the bound in a phase to continue for, relative to the sizes of its terms.
    smooth : bool
        Whether updates may be smoothed when plain ones have come to rest.
    """
    fell = best.reference[i] - best.bound[i]
    best.reference[i] = best.bound[i]
    terms = g.var_ptr[example + 1] - g.var_ptr[example] + g.factor_ptr[example + 1] - g.factor_ptr[example]
    if best.temperature[i] > 0.0:  # once smooth, always smooth: plain updates have come to rest
        best.temperature[i] *= COOLING
    elif not smooth:
        best.done[i] = fell <= tol * size
    elif fell <= max(tol, SLOW) * size:
        gap = best.bound[i] - best.score[i]
        best.temperature[i] = min(gap, HOTTEST * size) / terms
    if best.temperature[i] > 0.0:  # smoothing costs about the temperature for each term
        best.done[i] = best.temperature[i] * terms <= tol * size


# -- Labellings from messages: each variable in turn, given the labels of earlier ones -------------------------------


@njit(cache=True, nogil=True)
def add_conditional(site: Site, f: int, slot: int, labels: I32, out: F64) -> None:
    """Add to ``out[s]`` the best of a factor with state s here, earlier variables as labelled, later ones free.

    Messages of later variables are subtracted: ``max_{later} table[f, c] - sum_{later} message[j, c_j]``.

    Parameters
    ----------
    site : Site
        Read only.
    f : int
        The factor.
    slot : int
        The slot of the variable to be labelled; earlier variables have smaller numbers.
    labels : ndarray of int32
        Labels of earlier variables, from 0 for the example's first one; the others are not read.
    out : ndarray of float64, shape (at least the states of the slot's variable,)
        Added to in place.
    """
    g, pool, messages, shift = site.graph, site.pool, site.messages, site.shift
    place = -g.var_ptr[site.example]
    lo, hi, v = g.slot_ptr[f], g.slot_ptr[f + 1], g.scope[slot]
    digit, free = np.zeros(MAX_ARITY, np.int64), np.zeros(MAX_ARITY, np.int64)
    n_free, at, base = 0, g.table_ptr[f], 0.0
    for k in range(lo, hi):
        if g.scope[k] < v:
            at += labels[place + g.scope[k]] * g.stride[k]
        elif k != slot:
            free[n_free] = k
            n_free += 1
            base += messages[g.message_ptr[k] + shift]
    card = g.card[v]
    best = np.full(card, -np.inf)
    while True:
        for s in range(card):
            best[s] = max(best[s], pool[at + s * g.stride[slot]] - base)
        j = n_free - 1
        while j >= 0:
            k = free[j]
            message = g.message_ptr[k] + shift + digit[j]
            digit[j] += 1
            if digit[j] < g.card[g.scope[k]]:
                at += g.stride[k]
                base += messages[message + 1] - messages[message]
                break
            digit[j] -= 1
            at -= digit[j] * g.stride[k]
            base += messages[message - digit[j]] - messages[message]
            digit[j] = 0
            j -= 1
        if j < 0:
            break
    for s in range(card):
        out[s] += best[s]


@njit(cache=True, nogil=True)
def decode(site: Site, labels: I32, value: F64, lo: int, hi: int) -> None:
    """Label the variables ``lo`` to ``hi`` in order, given earlier labels and messages of factors of later variables.

    Parameters
    ----------
    site : Site
        Read only.
    labels : ndarray of int32
        Labels from 0 for the example's first variable: those before ``lo`` are read, those of ``lo`` to ``hi`` written.
    value : ndarray of float64, shape (at least the most states of a variable,)
        Work space.
    lo, hi : int
        First variable, and the one after the last.
    """
    g, first = site.graph, site.graph.var_ptr[site.example]
    for v in range(lo, hi):
        score_states(site, v, labels, value)
        best = 0
        for s in range(1, g.card[v]):
            if value[s] > value[best]:
                best = s
        labels[v - first] = best


@njit(cache=True, nogil=True)
def score_states(site: Site, v: int, labels: I32, value: F64) -> None:
    """Write the scores of the states of variable v, given earlier labels and messages of factors of later variables.

    Parameters
    ----------
    site : Site
        Read only.
    v : int
        The variable.
    labels : ndarray of int32
        Labels of the variables before v, from 0 for the example's first one; read only.
    value : ndarray of float64, shape (at least the states of v,)
        Written.
    """
    g, node, pool, messages, shift = site.graph, site.node, site.pool, site.messages, site.shift
    first = g.var_ptr[site.example]
    for s in range(g.card[v]):
        value[s] = node[g.state_ptr[v] + s]
    for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
        slot = g.touch_slot[t]
        f, given = g.slot_factor[slot], False
        begin, end = g.slot_ptr[f], g.slot_ptr[f + 1]
        for k in range(begin, end):
            given |= g.scope[k] < v
        if given and end - begin == 2:
            other = 2 * begin + 1 - slot
            at = g.table_ptr[f] + labels[g.scope[other] - first] * g.stride[other]
            for s in range(g.card[v]):
                value[s] += pool[at + s * g.stride[slot]]
        elif given:
            add_conditional(site, f, slot, labels, value)
        else:
            for s in range(g.card[v]):
                value[s] += messages[g.message_ptr[slot] + shift + s]
