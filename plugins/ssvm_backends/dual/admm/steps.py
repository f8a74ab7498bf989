"""AD3: alternating directions dual decomposition (Martins et al. 2015), for factors of any size.

Every factor has own marginals ``q`` for its variables, which must agree with the variable's ``p``.
One iteration

    q_f      = argmax over distributions of factor f:  (table - messages) . weight - penalty / 2 sum_k |q_k - p|^2
    p_v      = average of q over the slots of v
    messages = messages + penalty (q - p)

is the alternating direction method of multipliers on the LP relaxation over the local polytope; messages keep
``node[v] + sum of v's messages = 0``.  It converges to an optimum of the relaxation for any fixed penalty.  The
penalty is adapted, ever more rarely, so that primal (q - p) and dual (change of p) residuals shrink alike.  The
dual bound of the messages is valid at every iteration; unlike that of block-coordinate descent it may rise, so the
lowest is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.admm.factor import MAX_ACTIVE, FactorTask, solve_factor
from ssvm_backends.dual.driver import (
    FIFTH,
    FOURTH,
    NEXT,
    OFFER,
    POLISH,
    PREPARE,
    SECOND,
    SIXTH,
    SWEEP,
    THIRD,
    MessageTask,
    decode_next,
    drive,
    publish_bound,
    site_of,
    slice_above,
    slice_of_factors,
)
from ssvm_backends.dual.kernels import CLOSED, PHASE, Site, SolverProgress
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit

#: The penalty changes when one residual is this many times the other.
UNBALANCED = 5.0

#: First penalty, in units of the mean range of the tables.
START = 0.25

#: Work of scoring and packing a fractional solution, as :data:`~ssvm_backends.dual.driver.ANSWER_SHARE` (measured).
FRACTIONAL_SHARE = 4.0

#: Tables of a smaller range count as equal: one over the penalty is to be a number.
SMALLEST = 1e-290

#: The most that marginals of factors and of their variables may differ in a fractional solution that counts as found:
#: half of what solvers are granted when answers are checked.  Root mean squares hide single factors in large graphs.
AGREEMENT = 5e-6

#: Work between two looks at labels and bound on large examples, in table entries.
CHECK_COST = 1e8


class PrimalSide(NamedTuple):
    """The primal side of AD3 for some examples, packed.

    Parameters
    ----------
    p : ndarray of float64
        Marginals of the variables.
    q : ndarray of float64
        Marginals of the factors, for each state of each slot.
    active : ndarray of int64
        Joint states in the set of each factor, from the place of its first message.
    weight : ndarray of float64
        Their weights.
    n_active : ndarray of int64
        How many there are, for each factor.
    penalty : ndarray of float64, shape (n,)
    """

    p: F64
    q: F64
    active: I64
    weight: F64
    n_active: I64
    penalty: F64

    @classmethod
    def start(cls, n_examples: int, n_states: int, n_factors: int, n_messages: int) -> PrimalSide:
        """Return a primal side of zeros, with unit penalties."""
        return cls(
            np.zeros(n_states), np.zeros(n_messages), np.zeros(n_messages, np.int64), np.zeros(n_messages),
            np.zeros(n_factors, np.int64), np.ones(n_examples),
        )  # fmt: skip


class PrimalSite(NamedTuple):
    """One example, its messages, and where its primal side is.

    Parameters
    ----------
    site : Site
    i : int
        The example's place among those of ``split``.
    state, factor : int
        Where its states start in ``split.p``, and its factors in ``split.n_active``.
    split : PrimalSide
    """

    site: Site
    i: int
    state: int
    factor: int
    split: PrimalSide


class AdmmSpace(NamedTuple):
    """The primal side of some examples, and work space.

    Parameters
    ----------
    split : PrimalSide
    pull : ndarray of float64, laid out as the messages
        ``p - message / penalty``.
    chol, work : ndarray of float64
        See :class:`~ssvm_backends.dual.admm.factor.FactorTask`.
    residuals : ndarray of float64, shape (4,)
        Squares of q - p, squares of the changes of p, and the number of both; the largest abs(q - p).
    """

    split: PrimalSide
    pull: F64
    chol: F64
    work: F64
    residuals: F64

    @classmethod
    def start(cls, split: PrimalSide) -> AdmmSpace:
        """Return work space for ADMM on a given primal side, contents undefined."""
        chol, work = np.empty(MAX_ACTIVE * MAX_ACTIVE), np.empty(3 * MAX_ACTIVE)
        return cls(split, np.empty(len(split.q)), chol, work, np.empty(4))


@njit(cache=True, nogil=True)
def ad3(task: MessageTask, space: AdmmSpace, until_met: bool, budget: float) -> bool:
    """Solve relaxations until all is done (True) or the budget is spent (False).

    Parameters
    ----------
    task : MessageTask
        An example is done when bound and value of the fractional solution differ by less than ``tol`` times their
        size, and marginals of factors and variables by less than ``tol`` (root mean square).
    space : AdmmSpace
        Continued in place.
    until_met : bool
        Stop as well when the bound meets the score of a labelling; otherwise the fractional solution is the answer, and
        none of its marginals may differ by more than ``AGREEMENT``.
    budget : float
        About how much work to do, in table entries.
    """
    t, space, d = borrow(task), borrow(space), task.state[0]
    g, best, d.left = t.instance.graph, t.progress, budget
    while drive(t):
        e, i = t.ids[d.example], d.example
        at = PrimalSite(site_of(t), i, d.node, d.factor, space.split)
        if d.stage == PREPARE:
            d.stage = NEXT
            if best.iterations[i] == 0:
                publish_bound(t, FOURTH)
        elif d.stage == FOURTH:
            first_split(at)
            d.stage, d.fresh = NEXT, 0
            if t.anytime:  # the first iteration takes longest
                decode_next(t, NEXT)
        elif d.stage == SWEEP:
            d.place, d.stage = g.factor_ptr[e], SECOND
        elif d.stage == SECOND:
            end = slice_of_factors(t, d.place, g.factor_ptr[e + 1])
            solve_factors(at, space, d.place, end)
            d.place = end
            if end == g.factor_ptr[e + 1]:
                space.residuals[:] = 0.0
                d.place, d.stage = g.var_ptr[e], THIRD
        elif d.stage == THIRD:
            end = slice_above(t, d.place, g.var_ptr[e + 1])
            average_copies(at, space.residuals, d.place, end)
            d.place = end
            if end == g.var_ptr[e + 1]:
                best.iterations[i] += 1
                d.stage = NEXT
                if is_looked_at(t):
                    argmax_p(at, t.labels)
                    d.stage, d.after_labels = OFFER, FIFTH
        elif d.stage == FIFTH:
            publish_bound(t, SIXTH)
        else:
            primal, dual = root_means(space.residuals)
            state = ExampleState(value_of(at), d.magnitude, primal, dual, space.residuals[3])
            end_check(best, space.split, i, state, t.tol, until_met)
            d.stage = NEXT
            if t.anytime and best.iterations[i] % PHASE == 0:
                d.stage, d.after_search = POLISH, NEXT
    return d.example == len(t.ids)


@njit(cache=True, nogil=True)
def is_looked_at(t: MessageTask) -> bool:
    """Whether labels and bound are looked at after an iteration: after a phase, on large examples every few."""
    d, n, every = t.state[0], t.progress.iterations[t.state[0].example], PHASE
    if t.anytime:
        every = int(min(max(CHECK_COST / (t.price * d.work), 1.0), PHASE))
    return bool(n == t.most or n % every == 0 or n % PHASE == 0)


@njit(cache=True, nogil=True)
def first_split(at: PrimalSite) -> None:
    """Spread unary scores over the factors, start from uniform p, and take the mean range of tables as penalty.

    Parameters
    ----------
    at : PrimalSite
        Messages are changed so that ``node[v] + sum of v's messages = 0``; ``p`` and ``penalty`` of the example are
        written.
    """
    g, node, pool, messages, shift, example = at.site
    i, state, s = at.i, at.state, at.split
    origin = g.state_ptr[g.var_ptr[example]] - state
    for v in range(g.var_ptr[example], g.var_ptr[example + 1]):
        lo, hi = g.touch_ptr[v], g.touch_ptr[v + 1]
        best = g.state_ptr[v]
        for x in range(g.state_ptr[v], g.state_ptr[v + 1]):
            total = node[x]
            if node[x] > node[best]:
                best = x
            for t in range(lo, hi):
                total += messages[g.message_ptr[g.touch_slot[t]] + shift + x - g.state_ptr[v]]
            for t in range(lo, hi):
                messages[g.message_ptr[g.touch_slot[t]] + shift + x - g.state_ptr[v]] -= total / (hi - lo)
            s.p[x - origin] = 1.0 / g.card[v] if hi > lo else 0.0
        if hi == lo:
            s.p[best - origin] = 1.0
    total, n = 0.0, 0
    for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
        low, high = np.inf, -np.inf
        for c in range(g.table_ptr[f], g.table_ptr[f] + g.table_size[f]):
            if pool[c] > -np.inf:
                low, high = min(low, pool[c]), max(high, pool[c])
        total += high - low
        n += 1
    mean = START * total / max(n, 1)
    s.penalty[i] = mean if mean > SMALLEST else 1.0


@njit(cache=True, nogil=True)
def solve_factors(at: PrimalSite, space: AdmmSpace, lo: int, hi: int) -> None:
    """Solve the subproblems of the factors ``lo`` to ``hi`` of an example.

    Each is the quadratic program of the module divided by the penalty, with ``pull = p - message / penalty``.

    Parameters
    ----------
    at : PrimalSite
        ``q``, ``active``, ``weight`` and ``n_active`` of these factors are updated.
    space : AdmmSpace
    lo, hi : int
        First factor, and the one after the last.
    """
    g, _, pool, messages, shift, example = at.site
    i, s, pull = at.i, at.split, space.pull
    inverse = 1.0 / s.penalty[i]
    origin, first = g.state_ptr[g.var_ptr[example]] - at.state, g.factor_ptr[example]
    for f in range(lo, hi):
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            p_at, m_at = g.state_ptr[g.scope[k]] - origin, g.message_ptr[k] + shift
            for x in range(g.card[g.scope[k]]):
                pull[m_at + x] = s.p[p_at + x] - inverse * messages[m_at + x]
        j = at.factor + f - first
        factor_task = FactorTask(
            g, pool, f, inverse, pull, shift, g.message_ptr[g.slot_ptr[f]] + shift, s.active, s.weight, s.q, space.chol,
            space.work,
        )  # fmt: skip
        s.n_active[j] = solve_factor(factor_task, s.n_active[j])


@njit(cache=True, nogil=True)
def average_copies(at: PrimalSite, residuals: F64, lo: int, hi: int) -> None:
    """Average the marginals of the variables ``lo`` to ``hi`` and update their messages.

    Parameters
    ----------
    at : PrimalSite
        To the messages ``penalty (q - p)`` is added in place, with the new p; ``p`` of these variables is updated.
    residuals : ndarray of float64, shape (4,)
        Added to, see :class:`AdmmSpace`.
    lo, hi : int
        First variable, and the one after the last.
    """
    g, _, _, messages, shift, example = at.site
    i, state, s = at.i, at.state, at.split
    origin = g.state_ptr[g.var_ptr[example]] - state
    for v in range(lo, hi):
        start, stop = g.touch_ptr[v], g.touch_ptr[v + 1]
        if start == stop:  # no factor moves it: it stays at its best state
            continue
        for x in range(g.card[v]):
            p_at, mean = g.state_ptr[v] - origin + x, 0.0
            for t in range(start, stop):
                mean += s.q[g.message_ptr[g.touch_slot[t]] + shift + x]
            mean /= stop - start
            residuals[1] += (stop - start) * (mean - s.p[p_at]) ** 2
            s.p[p_at] = mean
            residuals[2] += stop - start
            for t in range(start, stop):
                m = g.message_ptr[g.touch_slot[t]] + shift + x
                messages[m] += s.penalty[i] * (s.q[m] - mean)
                residuals[0] += (s.q[m] - mean) ** 2
                residuals[3] = max(residuals[3], abs(s.q[m] - mean))


@njit(cache=True, nogil=True)
def root_means(residuals: F64) -> tuple[float, float]:
    """Return root mean squares of q - p and of the change of p."""
    n = max(residuals[2], 1.0)
    return np.sqrt(residuals[0] / n), np.sqrt(residuals[1] / n)


class ExampleState(NamedTuple):
    """The state of an example whose bound is published.

    Parameters
    ----------
    value : float
        Score of the fractional solution, see :func:`value_of`.
    size : float
        The sum of the sizes of the bound's terms.
    primal, dual : float
        Root mean squares of q - p and of the change of p.
    worst : float
        The largest abs(q - p).
    """

    value: float
    size: float
    primal: float
    dual: float
    worst: float


@njit(cache=True, nogil=True)
def end_check(best: SolverProgress, s: PrimalSide, i: int, state: ExampleState, tol: float, until_met: bool) -> None:
    """Decide whether an example is done, and adapt its penalty (see :func:`balance`).

    Parameters
    ----------
    best : SolverProgress
        ``done`` is set.
    s : PrimalSide
        ``penalty`` is adapted.
    i : int
        Place of the example in both.
    state : ExampleState
    tol, until_met
        As for :func:`ad3`.
    """
    value, size, primal, dual, worst = state
    best.done[i] = abs(best.bound[i] - value) <= tol * size and max(primal, dual) <= tol
    best.done[i] &= until_met or worst <= AGREEMENT
    if until_met and best.score[i] > -np.inf:
        best.done[i] |= best.bound[i] - best.score[i] <= 2.0 * CLOSED * abs(best.score[i])
    balance(s, i, best.iterations[i], primal, dual)


@njit(cache=True, nogil=True)
def balance(s: PrimalSide, i: int, iterations: int, primal: float, dual: float) -> None:
    """Adapt the penalty; after a phase at first, then at powers of two, so that it settles."""
    n_phases = iterations // PHASE
    if iterations % PHASE or (n_phases > 16 and n_phases & (n_phases - 1)):
        return
    if primal > UNBALANCED * dual:
        s.penalty[i] *= 2.0
    elif dual > UNBALANCED * primal:
        s.penalty[i] *= 0.5


@njit(cache=True, nogil=True)
def argmax_p(at: PrimalSite, labels: I32) -> None:
    """Write the most probable state of each variable."""
    g, example, state, s = at.site.graph, at.site.example, at.state, at.split
    first = g.var_ptr[example]
    origin = g.state_ptr[first] - state
    for v in range(first, g.var_ptr[example + 1]):
        best = 0
        for x in range(1, g.card[v]):
            if s.p[g.state_ptr[v] - origin + x] > s.p[g.state_ptr[v] - origin + best]:
                best = x
        labels[v - first] = best


@njit(cache=True, nogil=True)
def value_of(at: PrimalSite) -> float:
    """Return the score of the fractional solution, ``node . p + sum_f table . weight``."""
    g, node, pool, _, shift, example = at.site
    state, factor, s = at.state, at.factor, at.split
    origin, total = g.state_ptr[g.var_ptr[example]] - state, 0.0
    for x in range(g.state_ptr[g.var_ptr[example]], g.state_ptr[g.var_ptr[example + 1]]):
        total += node[x] * s.p[x - origin]
    for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
        first = g.message_ptr[g.slot_ptr[f]] + shift
        for j in range(s.n_active[factor + f - g.factor_ptr[example]]):
            total += pool[g.table_ptr[f] + s.active[first + j]] * s.weight[first + j]
    return total
