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
from ssvm_trainers.planes.factors.pairs import pair_run, update_messages
from ssvm_trainers.planes.factors.records import (
    Curvature,
    Dual,
    FactorProblem,
    FactorRule,
    Factors,
    FactorSite,
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
        As for :func:`~ssvm_trainers.planes.factors.pairs.pair_run`.
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
