"""Compiled steps on the marginals of single factors: ``bcfw`` for the relaxed risk with factors as blocks.

The dual of the relaxed objective is, with marginals mu_i in the local polytope of example i,

    max_mu  D(v, b),    v = sum_i a_i/n (Phi(x_i, y_i) - Phi(x_i) mu_i),    b = sum_i a_i/n loss(y_i, mu_i)

and its only constraints across variables and factors say that the margins of a factor's table q are the marginals p of
its variables.  With multipliers (messages d) and a penalty for these, a product of simplices remains, and a
visit takes a step on each of them (Yen et al. 2016): first the factors,

    q <- argmax  (table - d) . q  -  s/2 |q - q_old|^2  -  penalty/2 sum_k |margin_k(q) - p_k|^2

by a few pairwise steps with exact line search, then the variables, whose problem is the projection onto a simplex, then

    d <- d + penalty (margin(q) - p) .

``s`` bounds how far the dual curves when these marginals change and the weights follow (which they do, once a visit).
Messages are those of message passing: for any messages the maxima of ``node + sum d`` and ``table - d`` add up
to an upper bound of the risk (Meshi et al. 2010, equation 8).

``forceinline``: calls pass the arrays of their tuples by value, which takes long compared with the work on a factor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import ScoreSpace, StateScores, borrow, njit, score_example
from ssvm_trainers.planes.factor_records import (
    Curvature,
    Dual,
    FactorProblem,
    FactorRule,
    Factors,
    FactorSite,
    PairPlace,
    SweepWorkspace,
)
from ssvm_trainers.planes.fractional_kernels import MoveRule, move

#: Typed, since numba compiles a function again for each literal argument.
ZERO: Any = np.int64(0)


@njit(cache=True, nogil=True, forceinline=True)
def add_margins(factors: Factors, f: int, mu: F64, at: int, margin: F64) -> None:
    """Write the margins of the table ``mu[at:]`` of factor f, slot by slot."""
    g = factors.group[f]
    arity, place = factors.arity[g], factors.place_at[g]
    for x in range(factors.width[g]):
        margin[x] = 0.0
    for c in range(factors.n_configs[g]):
        if mu[at + c] != 0.0:
            for k in range(arity):
                margin[factors.place[place + c * arity + k]] += mu[at + c]


@njit(cache=True, nogil=True, forceinline=True)
def table_values(factors: Factors, f: int, scores: F64, table: int, pull: F64, out: F64) -> None:
    """Write ``table[c] - sum_k pull_k[c_k]`` of factor f; its table is at ``scores[table]``."""
    g = factors.group[f]
    arity, place = factors.arity[g], factors.place_at[g]
    if arity == 2:  # joint states run row by row
        rows, columns = factors.place[place + 1], factors.width[g] - factors.place[place + 1]
        for a in range(rows):
            for b in range(columns):
                out[a * columns + b] = scores[table + a * columns + b] - pull[a] - pull[rows + b]
        return
    for c in range(factors.n_configs[g]):
        out[c] = scores[table + c]
        for k in range(arity):
            out[c] -= pull[factors.place[place + c * arity + k]]


@njit(cache=True, nogil=True, forceinline=True)
def pull_on(
    factors: Factors, site: FactorSite, message: int, state_ptr: I64, dual: Dual, penalty: float, margin: F64, pull: F64
) -> None:
    """Write ``message + penalty (margin - p)`` for each state of each slot of the next factor.

    Parameters
    ----------
    factors : Factors
        Read only.
    site : FactorSite
    message : int
        Where its messages start among all.
    state_ptr : ndarray of int64, shape (V + 1,)
    dual : Dual
        ``mu`` and ``messages`` are read.
    penalty : float
    margin : ndarray of float64
        The margins of the factor's marginals, slot by slot; read only.
    pull : ndarray of float64
        Written, slot by slot.
    """
    x, mu, messages, f = 0, dual.mu, dual.messages, site.f
    for slot in range(factors.slot[f], factors.slot[f] + factors.arity[factors.group[f]]):
        v = site.first + factors.variable[slot]
        for s in range(state_ptr[v], state_ptr[v + 1]):
            pull[x] = messages[message + x] + penalty * (margin[x] - mu[s])
            x += 1


class FactorPlace(NamedTuple):
    """A factor, and where its marginals start in ``mu`` and its table in the scores."""

    f: int
    mu: int
    table: int


@njit(cache=True, nogil=True, forceinline=True)
def factor_step(
    factors: Factors, place: FactorPlace, scores: F64, mu: F64, rule: FactorRule, curvature: float,
    space: SweepWorkspace, margin: F64,
) -> None:  # fmt: skip
    """Take pairwise steps on the marginals q of factor f, each with exact line search.

    The gradient is ``table - pull - curvature (q - q_old)``, with ``pull`` as of :func:`pull_on`.  Weight moves from
    the joint state of least gradient that has any to that of the largest one, by the difference of the two over
    ``2 curvature + 2 penalty (slots in which they differ)``, or all that the first has.

    Parameters
    ----------
    factors : Factors
        Read only.
    place : FactorPlace
    scores : ndarray of float64
        Holds the factor's table; read only.
    mu : ndarray of float64
        Changed at the factor.
    rule : FactorRule
    curvature : float
        The s of the quadratic bound.
    space : SweepWorkspace
        ``before`` holds q_old; ``value`` begins with the gradient, ``pull`` with the pull, and both follow.
    margin : ndarray of float64
        The factor's margins, slot by slot, which follow, too.
    """
    f, at, table = place
    g, penalty = factors.group[f], rule.penalty
    n, arity, row = factors.n_configs[g], factors.arity[g], factors.place_at[g]
    value, pull = space.value, space.pull
    for number in range(rule.n_steps):
        high, low = 0, -1
        for c in range(n):
            if value[c] > value[high]:
                high = c
            if mu[at + c] > 0.0 and (low < 0 or value[c] < value[low]):
                low = c
        slope = value[high] - value[low]
        if slope <= rule.tol:
            return
        bend = 2.0 * curvature
        for k in range(arity):
            bend += 2.0 * penalty * (factors.place[row + high * arity + k] != factors.place[row + low * arity + k])
        step = mu[at + low] if bend * mu[at + low] <= slope else slope / bend
        mu[at + high] += step
        mu[at + low] = max(mu[at + low] - step, 0.0)
        for k in range(arity):
            up, down = factors.place[row + high * arity + k], factors.place[row + low * arity + k]
            margin[up] += step
            margin[down] -= step
            pull[up] += penalty * step
            pull[down] -= penalty * step
        if number + 1 < rule.n_steps:  # the gradient after the last step is not asked for
            table_values(factors, f, scores, table, pull, value)
            for c in range(n):
                value[c] -= curvature * (mu[at + c] - space.before[c])


@njit(cache=True, nogil=True, forceinline=True)
def project(belief: F64, at: int, card: int, order: F64) -> None:
    """Replace ``belief[at : at + card]`` by the closest distribution (Held et al. 1974)."""
    for k in range(card):  # insertion sort, descending
        x, j = belief[at + k], k
        while j > 0 and order[j - 1] < x:
            order[j] = order[j - 1]
            j -= 1
        order[j] = x
    total, level = 0.0, 0.0
    for k in range(card):
        total += order[k]
        if order[k] - (total - 1.0) / (k + 1) > 0.0:
            level = (total - 1.0) / (k + 1)
    for k in range(card):
        belief[at + k] = max(belief[at + k] - level, 0.0)


@njit(cache=True, nogil=True, forceinline=True)
def variable_step(
    belief: F64, at: int, card: int, mu: F64, first: int, curvature: float, pull: float, order: F64
) -> None:  # fmt: skip
    """Replace the beliefs of a variable by its new marginals: ``project((belief + s p_old) / (s + pull))``.

    They are the maximum of ``belief . p - s/2 |p - p_old|^2 - pull/2 |p|^2``; the belief has the rest of the penalty.

    Parameters
    ----------
    belief : ndarray of float64
        Changed at ``at : at + card``.
    at, card : int
        Where the variable's states are in it, and how many there are.
    mu : ndarray of float64
    first : int
        The old marginals p_old are ``mu[first : first + card]``; read only.
    curvature : float
        The s of the quadratic bound.
    pull : float
        The penalty times the number of slots of the variable.
    order : ndarray of float64
        Work space of :func:`project`.
    """
    bend = curvature + pull
    if bend <= 0.0:  # no features and no factors: the problem is linear
        best = at
        for s in range(at, at + card):
            if belief[s] > belief[best]:
                best = s
        for s in range(at, at + card):
            belief[s] = 1.0 if s == best else 0.0
        return
    for s in range(card):
        belief[at + s] = (belief[at + s] + curvature * mu[first + s]) / bend
    project(belief, at, card, order)


@njit(cache=True, nogil=True, forceinline=True)
def step_on(
    factors: Factors, curvature: Curvature, state_ptr: I64, dual: Dual, rule: FactorRule, space: SweepWorkspace,
    site: FactorSite,
) -> None:  # fmt: skip
    """Step on the next factor, of any number of variables, as :func:`pair_run` does on pairs.

    Parameters
    ----------
    factors, curvature, state_ptr, dual, rule, space, site
        As for :func:`pair_run`.
    """
    i, first, zero, step, f, _, entry, x_at = site
    g, own, mu, before = factors.group[f], factors.own[f], dual.mu, space.before
    at, message = factors.mu_at[i, g] + factors.mu[f], factors.message_at[i] + factors.message[f]
    n, margin, bend = factors.n_configs[g], space.margin[x_at:], step * curvature.factor[curvature.at[i] + f]
    for c in range(n):
        before[c] = mu[at + c]
    scores, table = (space.pool, factors.table_at[i, g] + factors.table[f]) if own < 0 else (dual.w, own)
    add_margins(factors, f, mu, at, margin)
    pull_on(factors, site, message, state_ptr, dual, rule.penalty, margin, space.pull)
    table_values(factors, f, scores, table, space.pull, space.value)
    factor_step(factors, FactorPlace(f, at, table), scores, mu, rule, bend, space, margin)
    for c in range(n):
        change = step * (before[c] - mu[at + c])
        if own >= 0:
            dual.w[own + c] += factors.rate[g] * change
        else:
            space.delta[entry + c] = change
    x, messages = x_at, dual.messages
    for k in range(factors.arity[g]):
        v = first + factors.variable[factors.slot[f] + k]
        for s in range(state_ptr[v] - zero, state_ptr[v + 1] - zero):
            space.belief[s] += messages[message + x - x_at] + rule.penalty * space.margin[x]
            x += 1


@njit(cache=True, nogil=True)
def visit(problem: FactorProblem, rule: FactorRule, space: SweepWorkspace, i: int, dual: Dual) -> None:
    """Take one step on each factor and variable of example i, update its messages and move the weights.

    Weights that are scores of one factor's table move with its marginals at once; all others at the end of the visit.
    Squared residuals are added to ``space.totals``.  The share of the example is positive.
    """
    maps, entries, fixed, factors, curvature, loss = problem
    state_ptr, mu, delta = entries.state_ptr, dual.mu, space.delta
    lo, hi = entries.var_ptr[i], entries.var_ptr[i + 1]
    zero, n_states = state_ptr[lo], state_ptr[hi] - state_ptr[lo]
    scores = ScoreSpace(space.node, space.pool, space.scores)
    score_example(maps, StateScores(entries.var_ptr, state_ptr, loss), i, dual.w, space.ones, scores)
    for s in range(n_states):
        space.belief[s] = space.node[zero + s]
    step, entry, x_at, penalty = fixed.share[i] / fixed.lam, n_states, ZERO, rule.penalty
    first, end = factors.start[factors.shape[i]], factors.start[factors.shape[i] + 1]
    f = first
    while f < end:
        site = FactorSite(i, lo, zero, step, f, end, entry, x_at)
        reached = pair_run(factors, curvature, state_ptr, dual, rule, space, site)
        for k in range(f, reached):
            entry, x_at = entry + factors.n_configs[factors.group[k]], x_at + factors.width[factors.group[k]]
        f = reached
        if f < end:
            site = FactorSite(i, lo, zero, step, f, end, entry, x_at)
            step_on(factors, curvature, state_ptr, dual, rule, space, site)
            entry, x_at = entry + factors.n_configs[factors.group[f]], x_at + factors.width[factors.group[f]]
            f += 1
    for v in range(lo, hi):
        at, card, pull = state_ptr[v] - zero, state_ptr[v + 1] - state_ptr[v], penalty * factors.degree[v]
        variable_step(space.belief, at, card, mu, zero + at, step * curvature.node[v], pull, space.order)
        for s in range(at, at + card):
            change = space.belief[s] - mu[zero + s]
            delta[s] = -step * change
            mu[zero + s] = space.belief[s]
            space.totals[1] += factors.degree[v] * change * change  # once for each slot, as residuals of margins
    whole = FactorSite(i, lo, zero, step, first, end, n_states, ZERO)
    update_messages(factors, state_ptr, dual, penalty, space, whole)
    how = MoveRule(fixed.metric, fixed.bounded, fixed.lower, fixed.threshold)
    move(maps, entries, how, i, delta, dual.w, dual.free, np.bool_(False))


@njit(cache=True, nogil=True)
def sweep(problem: FactorProblem, rule: FactorRule, space: SweepWorkspace, examples: I64, dual: Dual) -> None:
    """Visit the listed examples, but those of share 0; ``dual`` and ``space`` are changed."""
    problem, space, dual = borrow(problem), borrow(space), borrow(dual)
    for i in examples:
        if problem.fixed.share[i] > 0.0:
            visit(problem, rule, space, i, dual)


# -- Steps on the marginals of one factor of two variables, in closed form for two states each -----------------------

#: Unsigned offsets: numba checks the sign of every signed index.
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@njit(cache=True, nogil=True)
def pair_step(place: PairPlace, mu: F64, value: F64, rule: FactorRule, curvature: float, margin: F64) -> None:
    """Take pairwise steps on the marginals of one factor; a step changes the gradient in two rows and two columns.

    The steps are those of :func:`factor_step`; but the gradient is updated
    here, and not recomputed: ``value`` begins with it, ``margin`` with the margins, and both follow ``mu``.
    """
    rows, columns, at, x_at, penalty = place.rows, place.columns, place.mu, place.x, rule.penalty
    for _ in range(rule.n_steps):
        high, low, top, bottom = 0, -1, value[0], np.inf
        for c in range(rows * columns):
            if value[c] > top:
                high, top = c, value[c]
            if mu[at + c] > 0.0 and value[c] < bottom:
                low, bottom = c, value[c]
        if top - bottom <= rule.tol:
            return
        a, b = high // columns, low // columns
        i, j = high - a * columns, low - b * columns
        bend = 2.0 * (curvature + penalty * ((a != b) + (i != j)))
        step = mu[at + low] if bend * mu[at + low] <= top - bottom else (top - bottom) / bend
        mu[at + high] += step
        mu[at + low] = max(mu[at + low] - step, 0.0)
        value[high] -= curvature * step
        value[low] += curvature * step
        if a != b:
            margin[x_at + a] += step
            margin[x_at + b] -= step
            for k in range(columns):
                value[a * columns + k] -= penalty * step
                value[b * columns + k] += penalty * step
        if i != j:
            margin[x_at + rows + i] += step
            margin[x_at + rows + j] -= step
            for k in range(rows):
                value[k * columns + i] -= penalty * step
                value[k * columns + j] += penalty * step


@njit(cache=True, nogil=True, inline="always")
def binary_step(
    place: PairPlace, mu: F64, messages: F64, scores: F64, rule: FactorRule, curvature: float, margin: F64
) -> bool:
    """Write gradient and margins, and take the steps, for two variables of two states; return if anything changed.

    The four marginals stay in registers: no loops over states, and none of the work space.

    Parameters
    ----------
    place : PairPlace
        Its numbers are unsigned.
    mu, margin : ndarray of float64
        Changed at the factor.
    messages, scores : ndarray of float64
        Read only.
    rule : FactorRule
    curvature : float
        The s of the quadratic bound.
    """
    at, a, b, x_at, penalty = place.mu, place.a, place.b, place.x, rule.penalty
    first, message = place.table, place.message
    q0, q1, q2, q3 = mu[at], mu[at + ONE], mu[at + TWO], mu[at + THREE]
    up = messages[message] + penalty * (q0 + q1 - mu[a])
    down = messages[message + ONE] + penalty * (q2 + q3 - mu[a + ONE])
    left = messages[message + TWO] + penalty * (q0 + q2 - mu[b])
    right = messages[message + THREE] + penalty * (q1 + q3 - mu[b + ONE])
    v0, v1 = scores[first] - up - left, scores[first + ONE] - up - right
    v2, v3 = scores[first + TWO] - down - left, scores[first + THREE] - down - right
    changed = False
    for _ in range(rule.n_steps):
        high, top = 0, v0
        if v1 > top:
            high, top = 1, v1
        if v2 > top:
            high, top = 2, v2
        if v3 > top:
            high, top = 3, v3
        low, bottom, most = -1, np.inf, 0.0
        if q0 > 0.0:
            low, bottom, most = 0, v0, q0
        if q1 > 0.0 and v1 < bottom:
            low, bottom, most = 1, v1, q1
        if q2 > 0.0 and v2 < bottom:
            low, bottom, most = 2, v2, q2
        if q3 > 0.0 and v3 < bottom:
            low, bottom, most = 3, v3, q3
        if top - bottom <= rule.tol:
            break
        # indices are 2 (state of the first variable) + (state of the second)
        differ = high ^ low  # bit 1: another state of the first variable, bit 0: of the second
        bend = 2.0 * (curvature + penalty * ((differ >> 1) + (differ & 1)))
        step = min(most, (top - bottom) / bend)
        d0, d1 = step * ((high == 0) - (low == 0)), step * ((high == 1) - (low == 1))
        d2, d3 = step * ((high == 2) - (low == 2)), step * ((high == 3) - (low == 3))
        q0, q1, q2, q3 = q0 + d0, q1 + d1, q2 + d2, q3 + d3
        row, column = penalty * (d0 + d1), penalty * (d0 + d2)  # the other row and column get the negative of this
        v0, v1 = v0 - curvature * d0 - row - column, v1 - curvature * d1 - row + column
        v2, v3 = v2 - curvature * d2 + row - column, v3 - curvature * d3 + row + column
        changed = True
    if changed:
        mu[at], mu[at + ONE], mu[at + TWO], mu[at + THREE] = q0, q1, q2, q3
    margin[x_at], margin[x_at + ONE], margin[x_at + TWO], margin[x_at + THREE] = q0 + q1, q2 + q3, q0 + q2, q1 + q3
    return changed


@njit(cache=True, nogil=True, inline="always")
def table_step(
    place: PairPlace, dual: Dual, scores: F64, rule: FactorRule, curvature: float, space: SweepWorkspace
) -> None:
    """Do the same as :func:`binary_step` for any numbers of states; places are signed."""
    rows, columns, at, a, b, table, message, x_at = place
    mu, messages, margin, penalty = dual.mu, dual.messages, space.margin, rule.penalty
    pull, value = space.pull, space.value
    for k in range(rows):
        total = 0.0
        for j in range(columns):
            total += mu[at + k * columns + j]
        margin[x_at + k] = total
        pull[k] = messages[message + k] + penalty * (total - mu[a + k])
    for j in range(columns):
        total = 0.0
        for k in range(rows):
            total += mu[at + k * columns + j]
        margin[x_at + rows + j] = total
        pull[rows + j] = messages[message + rows + j] + penalty * (total - mu[b + j])
    for k in range(rows):
        for j in range(columns):
            value[k * columns + j] = scores[table + k * columns + j] - pull[k] - pull[rows + j]
    pair_step(place, mu, value, rule, curvature, margin)


@njit(cache=True, nogil=True)
def pair_run(
    factors: Factors, curvature: Curvature, state_ptr: I64, dual: Dual, rule: FactorRule, space: SweepWorkspace,
    site: FactorSite,
) -> int:  # fmt: skip
    """Take steps on the next factors of an example, up to the first that is not of two variables.

    All in one function, because passing the arrays takes longer than the steps.  Writes margins and beliefs; moves
    own weights of factors, and writes how others should move.

    Parameters
    ----------
    factors : Factors
        Read only.
    curvature : Curvature
        That of each factor for ``step`` 1.
    state_ptr : ndarray of int64, shape (V + 1,)
    dual : Dual
        ``mu`` is changed at the factors, ``w`` where they have own weights; ``messages`` are read.
    rule : FactorRule
    space : SweepWorkspace
        ``margin`` and ``delta`` are written; ``message + penalty margin`` is added to ``belief``.
    site : FactorSite

    Returns
    -------
    int
        The factor it stopped at.
    """
    mu, messages, margin, before = dual.mu, dual.messages, space.margin, space.before
    belief, delta, w, penalty = space.belief, space.delta, dual.w, rule.penalty
    i, lo, zero, step, first, end, entry, x_at = site
    message_at, bends = factors.message_at[i], curvature.at[i]
    for f in range(first, end):
        g = factors.group[f]
        if factors.arity[g] != 2:
            return f
        at, message = factors.mu_at[i, g] + factors.mu[f], message_at + factors.message[f]
        own, slot = factors.own[f], factors.slot[f]
        u, v = lo + factors.variable[slot], lo + factors.variable[slot + 1]
        a, b, n = state_ptr[u], state_ptr[v], factors.n_configs[g]
        rows, columns = state_ptr[u + 1] - a, state_ptr[v + 1] - b
        bend, rate = step * curvature.factor[bends + f], step * factors.rate[g]
        scores, table = (space.pool, factors.table_at[i, g] + factors.table[f]) if own < 0 else (w, own)
        if rows == 2 and columns == 2:
            q, m, t, x = np.uint64(at), np.uint64(message), np.uint64(table), np.uint64(x_at)
            pa, pb, ba, bb = np.uint64(a), np.uint64(b), np.uint64(a - zero), np.uint64(b - zero)
            q0, q1, q2, q3 = mu[q], mu[q + ONE], mu[q + TWO], mu[q + THREE]
            place = PairPlace(2, 2, q, pa, pb, t, m, x)
            changed = binary_step(place, mu, messages, scores, rule, bend, margin)
            if own < 0:
                e = np.uint64(entry)
                delta[e], delta[e + ONE] = step * (q0 - mu[q]), step * (q1 - mu[q + ONE])
                delta[e + TWO], delta[e + THREE] = step * (q2 - mu[q + TWO]), step * (q3 - mu[q + THREE])
            elif changed:
                w[t] += rate * (q0 - mu[q])
                w[t + ONE] += rate * (q1 - mu[q + ONE])
                w[t + TWO] += rate * (q2 - mu[q + TWO])
                w[t + THREE] += rate * (q3 - mu[q + THREE])
            # the linear part of the variables' problems, which are solved once all factors are done
            belief[ba] += messages[m] + penalty * margin[x]
            belief[ba + ONE] += messages[m + ONE] + penalty * margin[x + ONE]
            belief[bb] += messages[m + TWO] + penalty * margin[x + TWO]
            belief[bb + ONE] += messages[m + THREE] + penalty * margin[x + THREE]
            entry, x_at = entry + 4, x_at + 4
            continue
        for c in range(n):
            before[c] = mu[at + c]
        table_step(PairPlace(rows, columns, at, a, b, table, message, x_at), dual, scores, rule, bend, space)
        if own < 0:
            for c in range(n):
                delta[entry + c] = step * (before[c] - mu[at + c])
        else:
            for c in range(n):
                w[own + c] += rate * (before[c] - mu[at + c])
        for k in range(rows):
            belief[a - zero + k] += messages[message + k] + penalty * margin[x_at + k]
        for j in range(rows, rows + columns):
            belief[b - zero + j - rows] += messages[message + j] + penalty * margin[x_at + j]
        entry, x_at = entry + n, x_at + rows + columns
    return end


@njit(cache=True, nogil=True)
def update_messages(
    factors: Factors, state_ptr: I64, dual: Dual, penalty: float, space: SweepWorkspace, site: FactorSite
) -> None:
    """Add ``penalty (margin - p)`` to the messages of all factors of an example, which ``site`` is at the start of.

    The squared differences, and how many there are, are added to ``space.totals``.
    """
    i, lo, first, end = site.example, site.first, site.f, site.end
    x, total, mu, messages, margin = np.int64(0), 0.0, dual.mu, dual.messages, space.margin
    for f in range(first, end):
        g, message, slot = factors.group[f], factors.message_at[i] + factors.message[f], factors.slot[f]
        if factors.width[g] == 4 and factors.n_configs[g] == 4 and factors.arity[g] == 2:
            a, b = state_ptr[lo + factors.variable[slot]], state_ptr[lo + factors.variable[slot + 1]]
            pa, pb, m, k = np.uint64(a), np.uint64(b), np.uint64(message), np.uint64(x)
            up, down = margin[k] - mu[pa], margin[k + ONE] - mu[pa + ONE]
            left, right = margin[k + TWO] - mu[pb], margin[k + THREE] - mu[pb + ONE]
            messages[m] += penalty * up
            messages[m + ONE] += penalty * down
            messages[m + TWO] += penalty * left
            messages[m + THREE] += penalty * right
            total += (up * up + down * down) + (left * left + right * right)
            x += 4
            continue
        message -= x  # x counts through all factors; messages start at 0 for each
        for at in range(slot, slot + factors.arity[g]):
            v = lo + factors.variable[at]
            for s in range(state_ptr[v], state_ptr[v + 1]):
                off = margin[x] - mu[s]
                messages[message + x] += penalty * off
                total += off * off
                x += 1
    space.totals[0] += total
    space.totals[2] += x
