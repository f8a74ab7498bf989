"""The subproblem of one factor in AD3: a quadratic program over its joint states, by active sets.

With ``q_k(s) = sum_{c: c_k = s} weight_c`` the marginals of a distribution over joint states, the subproblem

    max  sum_c score_c weight_c - 1/2 sum_k |q_k - p_k|^2     over distributions ``weight``

has a solution on few joint states: at most one more than the dimension of the marginals (Martins et al. 2015,
proposition 9).  On a set of joint states with independent marginals the optimum under ``sum weight = 1`` is a linear
system, whose matrix counts the states that two joint states share.  The set changes by one at a time: a joint state
whose weight would become negative leaves; otherwise the joint state of largest reduced score enters.  If its
marginals depend on those of the set, it takes the place of another one without changing q.  The objective rises in each
step, so the method ends; it starts from the last set, which is mostly the right one.

Two variables of two states each have a closed form (:func:`solve_two_by_two`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import njit

#: Steps of one solve; further steps follow at the next visit of the factor.
MAX_STEPS = 20

#: Steps of the first solve, whose scores are far from the final ones.
FIRST_STEPS = 4

#: Most joint states in a set.
MAX_ACTIVE = 256

#: A joint state of smaller pivot depends on the others (pivots of independent ones are rational with small terms).
DEPENDENT = 1e-8


class FactorTask(NamedTuple):
    """The subproblem of one factor, its solution so far, and work space.

    Parameters
    ----------
    graph : Graph
        Structure; read only.
    pool : ndarray of float64
        Tables; ``-inf`` is forbidden.
    f : int
        The factor.
    inverse : float
        One over the penalty; the score of a joint state is ``inverse * table[c]`` plus its ``pull``.
    pull : ndarray of float64
        For each state of each slot, ``p - inverse * message``, at ``message_ptr + shift``.
    shift : int
        Offset to add to ``message_ptr`` for this example.
    first : int
        Where the factor's joint states start in ``active``: the place of its first message.
    active, weight : ndarray
        Joint states in the set, and their weights.
    q : ndarray of float64
        The marginals, at ``message_ptr + shift``.
    chol : ndarray of float64, shape (MAX_ACTIVE ** 2,)
        Work space: a lower Cholesky factor, rows ``MAX_ACTIVE`` apart.
    work : ndarray of float64, shape (3 * MAX_ACTIVE,)
        Work space.
    """

    graph: Graph
    pool: F64
    f: int
    inverse: float
    pull: F64
    shift: int
    first: int
    active: I64
    weight: F64
    q: F64
    chol: F64
    work: F64


@njit(cache=True, nogil=True)
def solve_factor(task: FactorTask, count: int) -> int:
    """Solve the subproblem of a factor in place; return the number of joint states in its set.

    Parameters
    ----------
    task : FactorTask
        ``active``, ``weight`` and ``q`` are written.
    count : int
        How many joint states there are (0 to start from the best joint state).
    """
    g, f, shift, q, work = task.graph, task.f, task.shift, task.q, task.work
    active, weight = task.active, task.weight
    lo, hi = g.slot_ptr[f], g.slot_ptr[f + 1]
    if hi - lo == 2 and g.card[g.scope[lo]] == 2 and g.card[g.scope[lo + 1]] == 2:
        at = g.table_ptr[f]
        if task.pool[at] + task.pool[at + 1] + task.pool[at + 2] + task.pool[at + 3] > -np.inf:
            return solve_two_by_two(task)
    first, stop = g.message_ptr[lo] + shift, g.message_ptr[hi] + shift
    most = MAX_STEPS if count else FIRST_STEPS
    limit = min(stop - first - (hi - lo) + 1, MAX_ACTIVE)
    if count == 0:
        for m in range(first, stop):
            q[m] = 0.0
        active[first], _ = best_joint(task)
        weight[first], count = 1.0, 1
    for _ in range(most):
        level = optimum_on(task, count)
        if count == 1:
            work[0] = 1.0  # whatever rounding made of it
        step, leaving = 1.0, -1  # as far towards the optimum on the set as weights stay positive
        for i in range(count):
            if work[i] < 0.0:
                t = weight[first + i] / (weight[first + i] - work[i])
                if t < step:
                    step, leaving = t, i
        for i in range(count):
            weight[first + i] = max(0.0, weight[first + i] + step * (work[i] - weight[first + i]))
        if leaving >= 0:
            count = remove(active, weight, first, count, leaving)
            continue
        marginals_of(task, count)
        joint, value = best_joint(task)
        # at the optimum on the set, each of its joint states has reduced score level: a larger one would raise the
        # objective, and one of the set is found again by rounding only
        known = value <= level + 1e-10 * (1.0 + abs(level))
        for i in range(count):
            known |= active[first + i] == joint
        if known:
            return count
        count = enter(task, joint, count, limit)
    marginals_of(task, count)
    return count


@njit(cache=True, nogil=True)
def solve_two_by_two(task: FactorTask) -> int:
    """Solve the subproblem of two variables of two states in closed form; return the number of joint states of weight.

    In the marginals a and b of the second states, and m of both together, the objective is, but for a constant,
    ``-(a - c)^2 - (b - d)^2 + 2 e m``.  Where ``e >= 0``, ``m = min(a, b)``, and (Martins et al. 2015, section 5.2)

        c > d + e:  a = [c], b = [d + e]        d > c + e:  a = [c + e], b = [d]        else:  a = b = [(c + d + e) / 2]

    with [.] the nearest number of the interval from 0 to 1.  Where ``e < 0`` the states of b change places.

    Parameters
    ----------
    task : FactorTask
        No entry of the table is ``-inf``; ``active``, ``weight`` and ``q`` are written.
    """
    g, q, weight = task.graph, task.q, task.weight
    k, at, first = g.slot_ptr[task.f], g.table_ptr[task.f], task.first
    one, other = g.message_ptr[k] + task.shift, g.message_ptr[k + 1] + task.shift
    half = 0.5 * task.inverse
    low, right, down, both = task.pool[at], task.pool[at + 1], task.pool[at + 2], task.pool[at + 3]
    c = 0.5 * (task.pull[one + 1] + 1.0 - task.pull[one]) + half * (down - low)
    d = 0.5 * (task.pull[other + 1] + 1.0 - task.pull[other]) + half * (right - low)
    e = half * ((both - right) - (down - low))
    turned = e < 0.0
    if turned:
        c, d, e = c + e, 1.0 - d, -e
    if c > d + e:
        d += e
    elif d > c + e:
        c += e
    else:
        c = d = 0.5 * (c + d + e)
    a, b = min(max(c, 0.0), 1.0), min(max(d, 0.0), 1.0)
    q[one], q[one + 1] = 1.0 - a, a
    q[other], q[other + 1] = (b, 1.0 - b) if turned else (1.0 - b, b)
    count = 0
    for joint in range(4):
        x, y = joint // 2, joint % 2
        if turned:
            y = 1 - y
        share = min(a, b) if x + y == 2 else 1.0 - max(a, b)
        if x + y == 1:
            share = max(a - b, 0.0) if x == 1 else max(b - a, 0.0)
        if share > 0.0:
            task.active[first + count], weight[first + count] = joint, share
            count += 1
    return count


@njit(cache=True, nogil=True)
def remove(active: I64, weight: F64, first: int, count: int, i: int) -> int:
    """Take the i-th joint state out of a set; return how many are left."""
    last = first + count - 1
    active[first + i], weight[first + i] = active[last], weight[last]
    return count - 1


@njit(cache=True, nogil=True)
def shared_states(g: Graph, f: int, one: int, other: int) -> float:
    """Return how many slots have the same state in two joint states."""
    total = 0.0
    for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
        card, stride = g.card[g.scope[k]], g.stride[k]
        total += (one // stride) % card == (other // stride) % card
    return total


@njit(cache=True, nogil=True)
def optimum_on(task: FactorTask, count: int) -> float:
    """Write the weights that are best on a set, negative ones allowed, to ``work``; return the multiplier of their sum.

    Solves ``gram @ weight + level = score`` with ``sum weight = 1``, where gram counts the states that two joint states
    share and ``score = inverse * table + sum_k pull``; leaves the Cholesky factor of gram in ``chol``, the weights in
    ``work`` from 0, and solutions for a right-hand side of ones from ``MAX_ACTIVE``.

    Parameters
    ----------
    task : FactorTask
        The set is read only.
    count : int
        How many joint states it has, at most ``MAX_ACTIVE``.
    """
    g, pool, f, inverse, pull, shift = task.graph, task.pool, task.f, task.inverse, task.pull, task.shift
    first, active, chol, work = task.first, task.active, task.chol, task.work
    n = count
    for i in range(n):
        joint = active[first + i]
        score = inverse * pool[g.table_ptr[f] + joint]
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            score += pull[g.message_ptr[k] + shift + (joint // g.stride[k]) % g.card[g.scope[k]]]
        ones = 1.0  # right-hand sides are substituted forwards row by row, while the factorisation continues
        for j in range(i + 1):
            x = shared_states(g, f, joint, active[first + j])
            for k in range(j):
                x -= chol[i * MAX_ACTIVE + k] * chol[j * MAX_ACTIVE + k]
            chol[i * MAX_ACTIVE + j] = np.sqrt(max(x, 1e-12)) if i == j else x / chol[j * MAX_ACTIVE + j]
        for k in range(i):
            score -= chol[i * MAX_ACTIVE + k] * work[k]
            ones -= chol[i * MAX_ACTIVE + k] * work[MAX_ACTIVE + k]
        work[i] = score / chol[i * MAX_ACTIVE + i]
        work[MAX_ACTIVE + i] = ones / chol[i * MAX_ACTIVE + i]
    above, below = -1.0, 0.0
    for i in range(n):  # sums of gram^-1 applied to scores and ones, from the half-solved systems
        above += work[i] * work[MAX_ACTIVE + i]
        below += work[MAX_ACTIVE + i] * work[MAX_ACTIVE + i]
    level = above / below
    for i in range(n):
        work[i] -= level * work[MAX_ACTIVE + i]
    back_substitute(chol, work, np.int64(0), n)
    return level


@njit(cache=True, nogil=True)
def back_substitute(chol: F64, work: F64, start: int, n: int) -> None:
    """Solve with the transposed Cholesky factor in place, from ``work[start]``."""
    for i in range(n - 1, -1, -1):
        x = work[start + i]
        for k in range(i + 1, n):
            x -= chol[k * MAX_ACTIVE + i] * work[start + k]
        work[start + i] = x / chol[i * MAX_ACTIVE + i]


@njit(cache=True, nogil=True)
def enter(task: FactorTask, joint: int, count: int, limit: int) -> int:
    """Let a joint state enter a set, in exchange for another one where it depends on the set; return the new count.

    Its marginals depend on those of the set when the pivot that it would add to the Cholesky factor vanishes.  Then
    they are a combination of those, with coefficients that sum to one; weight moves from these to it as far as all stay
    positive, which changes no marginal (in a set of ``MAX_ACTIVE``, which cannot grow, it may).

    Parameters
    ----------
    task : FactorTask
        The set is changed in place; ``chol`` is as :func:`optimum_on` left it.
    joint : int
        The joint state, which is not in the set.
    count : int
        How many joint states the set has.
    limit : int
        Most joint states that a set may have.
    """
    g, f, first, active, weight = task.graph, task.f, task.first, task.active, task.weight
    chol, work = task.chol, task.work
    at, pivot = 2 * MAX_ACTIVE, float(g.slot_ptr[f + 1] - g.slot_ptr[f])
    for i in range(count):
        x = shared_states(g, f, joint, active[first + i])
        for k in range(i):
            x -= chol[i * MAX_ACTIVE + k] * work[at + k]
        work[at + i] = x / chol[i * MAX_ACTIVE + i]
        pivot -= work[at + i] * work[at + i]
    if pivot > DEPENDENT and count < limit:
        active[first + count], weight[first + count] = joint, 0.0
        return count + 1
    back_substitute(chol, work, at, count)
    step, leaving = np.inf, 0
    for i in range(count):
        if work[at + i] > DEPENDENT and weight[first + i] / work[at + i] < step:
            step, leaving = weight[first + i] / work[at + i], i
    if step == np.inf:
        return count
    total = step
    for i in range(count):
        weight[first + i] = max(0.0, weight[first + i] - step * work[at + i])
        total += 0.0 if i == leaving else weight[first + i]
    if not total > 0.0:  # rounding of large scores took all of it: restart
        active[first], weight[first] = joint, 1.0
        return 1
    active[first + leaving], weight[first + leaving] = joint, step
    for i in range(count):
        weight[first + i] /= total
    return count


@njit(cache=True, nogil=True)
def marginals_of(task: FactorTask, count: int) -> None:
    """Write the marginals of a distribution over joint states, ``q_k(s) = sum_{c: c_k = s} weight_c``."""
    g, f, shift, first, q = task.graph, task.f, task.shift, task.first, task.q
    active, weight = task.active, task.weight
    for m in range(first, g.message_ptr[g.slot_ptr[f + 1]] + shift):
        q[m] = 0.0
    for i in range(count):
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            s = (active[first + i] // g.stride[k]) % g.card[g.scope[k]]
            q[g.message_ptr[k] + shift + s] += weight[first + i]


@njit(cache=True, nogil=True)
def best_joint(task: FactorTask) -> tuple[int, float]:
    """Return the joint state of largest ``inverse * table[c] + sum_k (pull - q)[k, c_k]``, and that value."""
    g, pool, f, inverse, pull, q, shift = (
        task.graph, task.pool, task.f, task.inverse, task.pull, task.q, task.shift
    )  # fmt: skip
    lo, last = g.slot_ptr[f], g.slot_ptr[f + 1] - 1
    at, size, n_last = g.table_ptr[f], g.table_size[f], g.card[g.scope[last]]
    tail, best, best_state = g.message_ptr[last] + shift, -np.inf, 0
    for start in range(0, size, n_last):
        base = 0.0
        for k in range(lo, last):
            m = g.message_ptr[k] + shift + (start // g.stride[k]) % g.card[g.scope[k]]
            base += pull[m] - q[m]
        for s in range(n_last):
            value = inverse * pool[at + start + s] + base + pull[tail + s] - q[tail + s]
            if value > best:
                best, best_state = value, start + s
    return best_state, best
