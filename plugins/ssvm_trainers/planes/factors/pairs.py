"""Steps on the marginals of one factor of two variables, in closed form for two states each.

See :mod:`ssvm_trainers.planes.factors.factor_kernels` for the maximised function.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import njit
from ssvm_trainers.planes.factors.records import (
    Curvature,
    Dual,
    FactorRule,
    Factors,
    FactorSite,
    PairPlace,
    SweepWorkspace,
)

#: Unsigned offsets: numba checks the sign of every signed index.
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@njit(cache=True, nogil=True)
def pair_step(place: PairPlace, mu: F64, value: F64, rule: FactorRule, curvature: float, margin: F64) -> None:
    """Take pairwise steps on the marginals of one factor; a step changes the gradient in two rows and two columns.

    The steps are those of :func:`~ssvm_trainers.planes.factors.factor_kernels.factor_step`; but the gradient is updated
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
