"""AD3: alternating directions dual decomposition (Martins et al. 2015), for factors of any size.

Every factor has marginals ``q`` of its own for its variables, which must agree with the variable's ``p``.
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

from ssvm_backends.dual.admm.factor import MAX_ACTIVE, solve_factor
from ssvm_backends.dual.answers.decode import offer, polish
from ssvm_backends.dual.kernels import CLOSED, PHASE, begin, extent, n_messages, publish, shift_of
from ssvm_backends.dual.pieces import Pieces, Steps
from ssvm_backends.dual.progress import SolverProgress
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit

#: The penalty changes when one residual is this many times the other.
UNBALANCED = 5.0

#: First penalty, in units of the mean range of the tables.
START = 0.25

#: Work of scoring and packing a fractional solution, as :data:`~ssvm_backends.dual.pieces.ANSWER_SHARE` (measured).
FRACTIONAL_SHARE = 4.0

#: Tables of a smaller range count as equal: one over the penalty is to be a number.
SMALLEST = 1e-290

#: The most that marginals of factors and of their variables may differ in a fractional solution that counts as found:
#: half of what solvers are granted when answers are checked.  Root mean squares hide single factors in large graphs.
AGREEMENT = 5e-6

#: Work between two looks at labels and bound on large examples, in table entries.
LOOK = 1e8


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


@njit(cache=True, nogil=True)
def ad3(
    graph: Graph, node: F64, pool: F64, ids: I64, messages: F64, max_iterations: int, tol: float, until_met: bool,
    progress: SolverProgress, split: PrimalSide,
) -> None:  # fmt: skip
    """Solve the relaxation, example by example.

    Parameters
    ----------
    graph, node, pool, ids, messages
        As for :func:`~ssvm_backends.dual.descent.block_descent.descend`.
    max_iterations : int
        Iterations for each example in this call.
    tol : float
        An example is done when bound and value of the fractional solution differ by less than ``tol`` times their
        size, and marginals of factors and variables by less than ``tol`` (root mean square).
    until_met : bool
        Stop as well when the bound meets the score of a labelling; otherwise the fractional solution is the answer, and
        none of its marginals may differ by more than ``AGREEMENT``.
    progress, split
        Continued in place.  Examples that are done are left alone.
    """
    g, best, s = borrow(graph), borrow(progress), borrow(split)
    node, pool, messages = borrow(node), borrow(pool), borrow(messages)
    longest, _, _, _ = extent(g, ids)
    labels = np.zeros(longest, np.int32)
    chol, work, pull = np.empty(MAX_ACTIVE * MAX_ACTIVE), np.empty(3 * MAX_ACTIVE), np.empty(len(s.q))
    residuals = np.empty(4)
    at = np.int64(0)  # a literal would compile all that takes it twice
    place, state, factor = at, at, at
    for i in range(len(ids)):
        e = ids[i]
        shift, best_decoded = shift_of(g, e, at), -np.inf
        if not best.done[i] and max_iterations > 0:
            if best.iterations[i] == 0:
                begin(g, e, i, at, messages, best)
                publish(g, node, pool, e, i, at, messages, best)
                first_split(g, node, pool, best.current, shift, e, i, state, s)
            for j in range(max_iterations):
                f_lo, f_hi, v_lo, v_hi = g.factor_ptr[e], g.factor_ptr[e + 1], g.var_ptr[e], g.var_ptr[e + 1]
                solve_factors(g, pool, best.current, shift, e, i, state, factor, s, chol, work, pull, f_lo, f_hi)
                residuals[:] = 0.0
                agree(g, best.current, shift, e, i, state, s, residuals, v_lo, v_hi)
                primal, dual = root_means(residuals)
                best.iterations[i] += 1
                if j + 1 == max_iterations or best.iterations[i] % PHASE == 0:
                    argmax_p(g, e, state, s, labels)
                    best_decoded = offer(g, node, pool, e, i, labels, best, place, best_decoded)
                    size = publish(g, node, pool, e, i, at, messages, best)
                    value = value_of(g, node, pool, shift, e, state, factor, s)
                    end_look(best, i, value, size, primal, dual, residuals[3], tol, until_met, s)
                if best.done[i]:
                    break
            polish(g, node, pool, e, i, best, place)
        at += n_messages(g, e)
        place += g.var_ptr[e + 1] - g.var_ptr[e]
        state += g.state_ptr[g.var_ptr[e + 1]] - g.state_ptr[g.var_ptr[e]]
        factor += g.factor_ptr[e + 1] - g.factor_ptr[e]


@njit(cache=True, nogil=True)
def first_split(
    g: Graph, node: F64, pool: F64, messages: F64, shift: int, example: int, i: int, state: int, s: PrimalSide
) -> None:
    """Spread unary scores over the factors, start from uniform p, and take the mean range of tables as penalty.

    Parameters
    ----------
    g, node, pool, shift
        As for :func:`~ssvm_backends.dual.kernels.bound_terms`.
    messages : ndarray of float64
        Packed messages, changed in place so that ``node[v] + sum of v's messages = 0``.
    example : int
        The example, as the graph numbers it.
    i : int
        Its place among the examples of ``s``.
    state : int
        Where its states start in ``s.p``.
    s : Split
        ``p`` and ``penalty`` of the example are written.
    """
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
def solve_factors(
    g: Graph, pool: F64, messages: F64, shift: int, example: int, i: int, state: int, factor: int, s: PrimalSide,
    chol: F64, work: F64, pull: F64, lo: int, hi: int,
) -> None:  # fmt: skip
    """Solve the subproblems of the factors ``lo`` to ``hi`` of an example.

    Each is the quadratic program of the module divided by the penalty, with ``pull = p - message / penalty``.

    Parameters
    ----------
    g, pool, shift, example, i, state
        As for :func:`first_split`.
    messages : ndarray of float64
        Packed messages; read only.
    factor : int
        Where the example's factors start in ``s.n_active``.
    s : Split
        ``q``, ``active``, ``weight`` and ``n_active`` of these factors are updated.
    chol, work : ndarray of float64
        Work space, see :func:`~ssvm_backends.dual.admm.factor.solve_factor`.
    pull : ndarray of float64, laid out as the messages
        Work space.
    lo, hi : int
        First factor, and the one after the last.
    """
    inverse = 1.0 / s.penalty[i]
    origin, first = g.state_ptr[g.var_ptr[example]] - state, g.factor_ptr[example]
    for f in range(lo, hi):
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            p_at, m_at = g.state_ptr[g.scope[k]] - origin, g.message_ptr[k] + shift
            for x in range(g.card[g.scope[k]]):
                pull[m_at + x] = s.p[p_at + x] - inverse * messages[m_at + x]
        j = factor + f - first
        s.n_active[j] = solve_factor(
            g, pool, f, inverse, pull, shift, s.active, s.weight, s.n_active[j], s.q, chol, work
        )


@njit(cache=True, nogil=True)
def agree(
    g: Graph,
    messages: F64,
    shift: int,
    example: int,
    i: int,
    state: int,
    s: PrimalSide,
    residuals: F64,
    lo: int,
    hi: int,
) -> None:
    """Average the marginals of the variables ``lo`` to ``hi`` and update their messages.

    Parameters
    ----------
    g, shift, example, i, state
        As for :func:`first_split`.
    messages : ndarray of float64
        Packed messages: ``penalty (q - p)`` is added in place, with the new p.
    s : Split
        ``p`` of these variables is updated.
    residuals : ndarray of float64, shape (4,)
        Squares of q - p, squares of the changes of p, and the number of both are added; the last is the largest
        abs(q - p) so far.
    lo, hi : int
        First variable, and the one after the last.
    """
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


@njit(cache=True, nogil=True)
def end_look(
    best: SolverProgress,
    i: int,
    value: float,
    size: float,
    primal: float,
    dual: float,
    worst: float,
    tol: float,
    until_met: bool,
    s: PrimalSide,
) -> None:
    """Decide whether an example is done, whose bound is published and whose fractional solution has this value.

    Parameters
    ----------
    best : Progress
        ``done`` is set.
    i : int
        Place of the example in ``best`` and ``s``.
    value : float
        Score of the fractional solution, see :func:`value_of`.
    size : float
        The sum of the sizes of the bound's terms.
    primal, dual : float
        Root mean squares of q - p and of the change of p.
    worst : float
        The largest abs(q - p).
    tol, until_met
        As for :func:`ad3`.
    s : Split
        ``penalty`` is adapted, see :func:`balance`.
    """
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
def argmax_p(g: Graph, example: int, state: int, s: PrimalSide, labels: I32) -> None:
    """Write the most probable state of each variable."""
    first = g.var_ptr[example]
    origin = g.state_ptr[first] - state
    for v in range(first, g.var_ptr[example + 1]):
        best = 0
        for x in range(1, g.card[v]):
            if s.p[g.state_ptr[v] - origin + x] > s.p[g.state_ptr[v] - origin + best]:
                best = x
        labels[v - first] = best


@njit(cache=True, nogil=True)
def value_of(g: Graph, node: F64, pool: F64, shift: int, example: int, state: int, factor: int, s: PrimalSide) -> float:
    """Return the score of the fractional solution, ``node . p + sum_f table . weight``.

    Parameters
    ----------
    g, node, pool, shift, example, state, factor
        As for :func:`first_split` and :func:`solve_factors`.
    s : Split
        Read only.
    """
    origin, total = g.state_ptr[g.var_ptr[example]] - state, 0.0
    for x in range(g.state_ptr[g.var_ptr[example]], g.state_ptr[g.var_ptr[example + 1]]):
        total += node[x] * s.p[x - origin]
    for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
        at = g.message_ptr[g.slot_ptr[f]] + shift
        for j in range(s.n_active[factor + f - g.factor_ptr[example]]):
            total += pool[g.table_ptr[f] + s.active[at + j]] * s.weight[at + j]
    return total


class DirectionsPieces(Pieces):
    """The same on one large example, piece by piece; labels and bound are looked at every few iterations.

    Parameters
    ----------
    instance, example, messages, progress, tol
        See :class:`~ssvm_backends.dual.pieces.Pieces`.
    until_met, split
        See :func:`ad3`.
    price : float
        How much longer a subproblem takes than a message.
    """

    def __init__(
        self, instance: Instance, example: int, messages: F64, progress: SolverProgress, tol: float, until_met: bool,
        split: PrimalSide, price: float,
    ) -> None:  # fmt: skip
        super().__init__(instance, example, messages, progress, tol, price)
        self.until_met, self.split = until_met, split
        self.every = int(min(max(LOOK / (price * self.work), 1.0), PHASE))
        self.chol, self.workspace = np.empty(MAX_ACTIVE * MAX_ACTIVE), np.empty(3 * MAX_ACTIVE)
        self.pull, self.residuals = np.empty(len(split.q)), np.empty(4)

    def start(self) -> Steps:
        """Find a first bound and labelling, for the first iteration takes longest."""
        begin(self.g, self.example, 0, 0, self.messages, self.best)
        yield from self.publish()
        first_split(self.g, self.node, self.pool, self.best.current, self.shift, self.example, 0, 0, self.split)
        yield from self.decode()
        yield from self.offer()

    def reserve(self) -> float:
        """Return about how many seconds it takes to finish, with the fractional solution where that is asked for."""
        share = 0.0 if self.until_met or self.best.iterations[0] == 0 else FRACTIONAL_SHARE
        return super().reserve() + self.seconds / self.units * share * self.work

    def iteration(self, most: int) -> Steps:
        """Solve the subproblems of all factors and let them agree."""
        g, e, split = self.g, self.example, self.split
        for lo, hi, _ in self.factors:
            solve_factors(
                g, self.pool, self.best.current, self.shift, e, 0, 0, 0, split, self.chol, self.workspace, self.pull,
                lo, hi,
            )  # fmt: skip
            yield 0.0
        self.residuals[:] = 0.0
        for lo, hi, _ in self.variables:
            agree(g, self.best.current, self.shift, e, 0, 0, split, self.residuals, lo, hi)
            yield 0.0
        self.best.iterations[0] += 1
        n = int(self.best.iterations[0])
        if n == most or n % self.every == 0 or n % PHASE == 0:
            argmax_p(g, e, 0, split, self.labels)
            yield from self.offer()
            size = yield from self.publish()
            value = value_of(g, self.node, self.pool, self.shift, e, 0, 0, split)
            primal, dual = root_means(self.residuals)
            worst = float(self.residuals[3])
            end_look(self.best, 0, value, size, primal, dual, worst, self.tol, self.until_met, split)
        if n % PHASE == 0:
            yield from self.polish()
