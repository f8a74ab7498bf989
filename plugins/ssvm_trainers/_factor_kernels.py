"""Compiled steps on the marginals of single factors: what ``bcfw`` does for the relaxed risk where blocks are factors.

The dual of the relaxed objective is, with marginals mu_i in the local polytope of example i,

    max_mu  D(v, b),    v = sum_i a_i/n (Phi(x_i, y_i) - Phi(x_i) mu_i),    b = sum_i a_i/n loss(y_i, mu_i)

and its only constraints across variables and factors say that the margins of a factor's table q are the marginals p of
its variables.  With multipliers (messages d) and a penalty for these, what is left is a product of simplices, and a
visit takes a step on each of them (Yen et al. 2016): first the factors,

    q <- argmax  (table - d) . q  -  s/2 |q - q_old|^2  -  penalty/2 sum_k |margin_k(q) - p_k|^2

by a few pairwise steps with exact line search, then the variables, whose problem is the projection onto a simplex, then

    d <- d + penalty (margin(q) - p) .

``s`` bounds how far the dual curves when these marginals change and the weights follow (which they do, once a visit).
Messages mean what they mean in message passing: for any of them the maxima of ``node + sum d`` and ``table - d`` add up
to an upper bound of the risk (Meshi et al. 2010, equation 8).

``forceinline``: calls pass the arrays of their tuples by value, which is much beside the arithmetic of a factor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ssvm_dsl.ir.borrow import borrow
from ssvm_dsl.ir.flat import FlatMaps
from ssvm_dsl.ir.kernels import score_example
from ssvm_trainers._fractional_kernels import Entries, Metric, move
from ssvm_trainers._pair_kernels import pair_run, update_messages
from ssvm_trainers._plane_arrays import F64, I32, I64

#: Of a type, for numba compiles anew what is called with a literal.
ZERO: Any = np.int64(0)


class Factors(NamedTuple):
    """The factors of all examples, in the order of their entries (:class:`Entries`).

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
        Factors of each example; F in all.
    group : ndarray of int64, shape (F,)
        The group of each.
    table, mu, message : ndarray of int64, shape (F,)
        Where its scores are in the pool, and its marginals and messages among all.
    own : ndarray of int64, shape (F,)
        Where its weights are that are its scores, and move with its marginals at once; -1 if there are none.
    slot : ndarray of int64, shape (F,)
        Where its variables are in ``variable``.
    variable : ndarray of int32
    degree : ndarray of float64, shape (V,)
        Slots of each variable.
    arity, n_configs, width : ndarray of int64, shape (G,)
        Of the factors of each group; the width is the number of states of all its variables.
    rate : ndarray of float64, shape (G,)
        ``1 / scale`` of such weights.
    place_at : ndarray of int64, shape (G,)
        Where the rows of a group start in ``place``.
    place : ndarray of int64
        For each joint state and each slot of it, the place of its state among those of all slots.
    """

    ptr: I64
    group: I64
    table: I64
    mu: I64
    message: I64
    own: I64
    slot: I64
    variable: I32
    degree: F64
    arity: I64
    n_configs: I64
    width: I64
    rate: F64
    place_at: I64
    place: I64


class Curvature(NamedTuple):
    """How far the dual of an example curves along marginals of each variable and factor, for ``lam`` and share 1."""

    node: F64
    factor: F64


class Space(NamedTuple):
    """Work space.  ``totals`` holds squared residuals: of margins, and of the change of p; and how many there are."""

    node: F64
    pool: F64
    delta: F64
    scores: F64
    ones: F64
    value: F64
    before: F64
    margin: F64
    belief: F64
    order: F64
    pull: F64
    totals: F64


class Dual(NamedTuple):
    """What changes: marginals, messages, weights, and weights without their lower bounds."""

    mu: F64
    messages: F64
    w: F64
    free: F64


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
def pull_on(factors: Factors, f: int, state_ptr: I64, dual: Dual, penalty: float, margin: F64, pull: F64) -> None:
    """Write ``message + penalty (margin - p)`` for each state of each slot of factor f."""
    x, mu, messages, message = 0, dual.mu, dual.messages, factors.message[f]
    for slot in range(factors.slot[f], factors.slot[f] + factors.arity[factors.group[f]]):
        v = factors.variable[slot]
        for s in range(state_ptr[v], state_ptr[v + 1]):
            pull[x] = messages[message + x] + penalty * (margin[x] - mu[s])
            x += 1


@njit(cache=True, nogil=True, forceinline=True)
def factor_step(
    factors: Factors, f: int, scores: F64, table: int, dual: Dual, penalty: float, curvature: float, n_steps: int,
    tol: float, space: Space, margin: F64,
) -> None:  # fmt: skip
    """Take pairwise steps on the marginals of factor f; ``margin`` follows, ``value`` begins with its gradient."""
    g, at = factors.group[f], factors.mu[f]
    n, arity, place = factors.n_configs[g], factors.arity[g], factors.place_at[g]
    mu, value, pull = dual.mu, space.value, space.pull
    for turn in range(n_steps):
        high, low = 0, -1
        for c in range(n):
            if value[c] > value[high]:
                high = c
            if mu[at + c] > 0.0 and (low < 0 or value[c] < value[low]):
                low = c
        slope = value[high] - value[low]
        if slope <= tol:
            return
        bend = 2.0 * curvature
        for k in range(arity):
            bend += 2.0 * penalty * (factors.place[place + high * arity + k] != factors.place[place + low * arity + k])
        step = mu[at + low] if bend * mu[at + low] <= slope else slope / bend
        mu[at + high] += step
        mu[at + low] = max(mu[at + low] - step, 0.0)
        for k in range(arity):
            up, down = factors.place[place + high * arity + k], factors.place[place + low * arity + k]
            margin[up] += step
            margin[down] -= step
            pull[up] += penalty * step
            pull[down] -= penalty * step
        if turn + 1 < n_steps:
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
    """Replace the beliefs of a variable by its new marginals; ``pull`` is the penalty times its number of slots."""
    bend = curvature + pull
    if bend <= 0.0:  # nothing but scores
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
    factors: Factors, f: int, state_ptr: I64, zero: int, dual: Dual, penalty: float, step: float,
    curvature: float, n_steps: int, tol: float, space: Space, entry: int, x_at: int,
) -> None:  # fmt: skip
    """Do what :func:`pair_run` does for factor f, which may have any number of variables."""
    g, at, own, mu, before = factors.group[f], factors.mu[f], factors.own[f], dual.mu, space.before
    n, margin = factors.n_configs[g], space.margin[x_at:]
    for c in range(n):
        before[c] = mu[at + c]
    scores, table = (space.pool, factors.table[f]) if own < 0 else (dual.w, own)
    add_margins(factors, f, mu, at, margin)
    pull_on(factors, f, state_ptr, dual, penalty, margin, space.pull)
    table_values(factors, f, scores, table, space.pull, space.value)
    factor_step(factors, f, scores, table, dual, penalty, curvature, n_steps, tol, space, margin)
    for c in range(n):
        change = step * (before[c] - mu[at + c])
        if own >= 0:
            dual.w[own + c] += factors.rate[g] * change
        else:
            space.delta[entry + c] = change
    x, messages = x_at, dual.messages
    for k in range(factors.arity[g]):
        v = factors.variable[factors.slot[f] + k]
        for s in range(state_ptr[v] - zero, state_ptr[v + 1] - zero):
            space.belief[s] += messages[factors.message[f] + x - x_at] + penalty * space.margin[x]
            x += 1


@njit(cache=True, nogil=True)
def visit(
    maps: FlatMaps, entries: Entries, fixed: Metric, factors: Factors, curvature: Curvature, space: Space, i: int,
    loss: F64, penalty: float, n_steps: int, tol: float, dual: Dual,
) -> None:  # fmt: skip
    """Take one step on each factor and variable of example i, update its messages and move the weights."""
    state_ptr, mu, delta = entries.state_ptr, dual.mu, space.delta
    lo, hi = entries.var_ptr[i], entries.var_ptr[i + 1]
    zero, n_states = state_ptr[lo], state_ptr[hi] - state_ptr[lo]
    score_example(maps, i, lo, hi, state_ptr, loss, dual.w, space.ones, space.scores, space.node, space.pool)
    for s in range(n_states):
        space.belief[s] = space.node[zero + s]
    step, entry, x_at = fixed.share[i] / fixed.lam, n_states, ZERO
    f, end = factors.ptr[i], factors.ptr[i + 1]
    while f < end:
        reached = pair_run(
            factors, f, end, state_ptr, zero, dual, penalty, step, curvature.factor, n_steps, tol, space, entry,
            x_at,
        )  # fmt: skip
        for k in range(f, reached):
            entry, x_at = entry + factors.n_configs[factors.group[k]], x_at + factors.width[factors.group[k]]
        f = reached
        if f < end:
            bend = step * curvature.factor[f]
            step_on(factors, f, state_ptr, zero, dual, penalty, step, bend, n_steps, tol, space, entry, x_at)
            entry, x_at = entry + factors.n_configs[factors.group[f]], x_at + factors.width[factors.group[f]]
            f += 1
    for v in range(lo, hi):
        at, card, pull = state_ptr[v] - zero, state_ptr[v + 1] - state_ptr[v], penalty * factors.degree[v]
        variable_step(space.belief, at, card, mu, zero + at, step * curvature.node[v], pull, space.order)
        for s in range(at, at + card):
            change = space.belief[s] - mu[zero + s]
            delta[s] = -step * change
            mu[zero + s] = space.belief[s]
            space.totals[1] += factors.degree[v] * change * change
    update_messages(factors, factors.ptr[i], end, state_ptr, dual, penalty, space)
    move(maps, entries, fixed.metric, fixed.bounded, fixed.lower, i, delta, dual.w, dual.free, np.bool_(False))


@njit(cache=True, nogil=True)
def sweep(
    maps: FlatMaps, entries: Entries, fixed: Metric, factors: Factors, curvature: Curvature, space: Space,
    examples: I64, loss: F64, penalty: float, n_steps: int, tol: float, dual: Dual,
) -> None:  # fmt: skip
    """Visit the listed examples."""
    maps, entries, factors, space, dual = borrow(maps), borrow(entries), borrow(factors), borrow(space), borrow(dual)
    fixed, curvature, loss = borrow(fixed), borrow(curvature), borrow(loss)
    for i in examples:
        if fixed.share[i] > 0.0:
            visit(maps, entries, fixed, factors, curvature, space, i, loss, penalty, n_steps, tol, dual)


@njit(cache=True, nogil=True)
def message_bounds(
    maps: FlatMaps, entries: Entries, factors: Factors, space: Space, loss: F64, truth: I32, messages: F64, w: F64,
    out: F64,
) -> None:  # fmt: skip
    """Write what the messages prove: an upper bound of the risk of each example at w, less the constant of its loss."""
    maps, entries, factors, space = borrow(maps), borrow(entries), borrow(factors), borrow(space)
    loss, messages, w, state_ptr, belief = borrow(loss), borrow(messages), borrow(w), entries.state_ptr, space.belief
    for i in range(len(out)):
        lo, hi = entries.var_ptr[i], entries.var_ptr[i + 1]
        zero, total = state_ptr[lo], 0.0
        score_example(maps, i, lo, hi, state_ptr, loss, w, space.ones, space.scores, space.node, space.pool)
        for s in range(state_ptr[lo], state_ptr[hi]):
            belief[s - zero] = space.node[s]
        for v in range(lo, hi):
            s = state_ptr[v] + truth[v]
            total -= space.node[s] - loss[s]
        for f in range(factors.ptr[i], factors.ptr[i + 1]):
            g, x, config = factors.group[f], 0, 0
            for k in range(factors.arity[g]):
                v = factors.variable[factors.slot[f] + k]
                config = config * (state_ptr[v + 1] - state_ptr[v]) + truth[v]
                for s in range(state_ptr[v] - zero, state_ptr[v + 1] - zero):
                    belief[s] += messages[factors.message[f] + x]
                    space.margin[x] = messages[factors.message[f] + x]
                    x += 1
            table_values(factors, f, space.pool, factors.table[f], space.margin, space.value)
            best = -np.inf
            for c in range(factors.n_configs[g]):
                best = max(best, space.value[c])
            total += best - space.pool[factors.table[f] + config]
        for v in range(lo, hi):
            best = -np.inf
            for s in range(state_ptr[v] - zero, state_ptr[v + 1] - zero):
                best = max(best, belief[s])
            total += best
        out[i] = total
