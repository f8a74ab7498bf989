"""Log partition functions and marginals by variable elimination (Dechter 1999; Shafer and Shenoy 1990).

Upwards, messages are sums over the states of the eliminated variable.  A table is kept as probabilities, scaled to
maximum 1, with the logarithm of the scale beside it.  Before a step multiplies its parts, the spans between the
largest and the smallest positive entry (in logarithms) are added up: below ``SAFE`` no product can
underflow, and plain products and sums are exact to rounding.  Otherwise the step works with logarithms
(log-sum-exp).  So nothing is ever lost, whatever the scores, and exponentials are rare.

Downwards, marginals are the derivatives of log Z: the distribution over the parts of a step is that of its
separator, ``P(x_S)``, times the conditional ``P(a | x_S)`` that the same parts give, and each part gathers what
belongs to it.  Marginals of the separators replace the messages in place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ssvm_backends._elimination.blocks import NO, YES, ZERO, Walk, fill, gather, go_on, go_to, load_table, prepare
from ssvm_backends._elimination.plan import F64, FACTOR, I64, MESSAGE, NODE, Plan
from ssvm_backends._graphs.graph import Graph
from ssvm_dsl.ir.borrow import borrow

Bools = NDArray[np.bool_]

#: The largest span of a product of probabilities (natural logarithm; doubles reach down to -708).
SAFE = 600.0


class Scales(NamedTuple):
    """What is known of the messages and steps of one example.

    Parameters
    ----------
    span : ndarray of float64, shape (n,)
        Logarithm of largest over smallest positive entry of each message.
    shift : ndarray of float64, shape (n,)
        Logarithm of each message's scale.
    linear : ndarray of bool, shape (n,)
        Whether a message holds probabilities (else logarithms).
    plain : ndarray of bool, shape (n,)
        Whether a step multiplies probabilities (else adds logarithms).
    extremes : ndarray of float64, shape (2,)
        Largest and smallest entry of the message at hand, so far.
    total : ndarray of float64, shape (1,)
        log Z, so far.
    """

    span: F64
    shift: F64
    linear: Bools
    plain: Bools
    extremes: F64
    total: F64


def make_scales(n: int) -> Scales:
    """Return the state of an elimination of n steps before it starts."""
    flags = np.zeros((2, n), dtype=bool)
    return Scales(np.zeros(n), np.zeros(n), flags[0], flags[1], np.zeros(2), np.zeros(1))


@njit(cache=True, nogil=True)
def sum_steps(
    plan: Plan, graph: Graph, node: F64, pool: F64, example: int, work: F64, walk: Walk, scales: Scales,
    cursor: I64, budget: int,
) -> None:  # fmt: skip
    """Go on with one example from where ``cursor`` (step, outer state) says; done at step n.

    ``scales.total`` is log Z without the constant in the end, ``-inf`` where there is no labelling.
    """
    p, g, w, z = borrow(plan), borrow(graph), borrow(walk), borrow(scales)
    node, pool, work = borrow(node), borrow(pool), borrow(work)
    n = len(p.variable)
    while cursor[0] < n and budget > 0:
        t, outer = cursor[0], cursor[1]
        if outer == 0 and not _begin(p, g, t, example, node, pool, work, z):
            z.total[0], cursor[0] = -np.inf, n
            return
        plain = z.plain[t]
        prepare(p, t, work, w, 1.0 if plain else 0.0, plain)
        go_to(p, t, outer, w)
        cost = p.card[t] * p.block[t] * (2 + p.part_ptr[t + 1] - p.part_ptr[t] - p.n_flat[t] - p.n_inner[t])
        cost *= 1 if plain else 8
        end = min(p.n_outer[t], outer + budget // cost + 1)
        for k in range(outer, end):
            _sum_block(p, t, k, work, w, plain, z.extremes)
            go_on(p, t, w)
        budget -= (end - outer) * cost
        cursor[1] = end
        if end == p.n_outer[t]:
            if not _end(p, t, work, z):
                z.total[0], cursor[0] = -np.inf, n
                return
            cursor[0], cursor[1] = t + 1, 0


@njit(cache=True, nogil=True)
def _load(p: Plan, g: Graph, q: int, example: int, node: F64, pool: F64, work: F64) -> tuple[float, float]:
    """Copy scores of a part into the work space, maximum 0; return (maximum, span)."""
    if p.kind[q] == NODE:
        load_table(p, q, node, g.state_ptr[g.var_ptr[example] + p.ref[q]], work, p.at[q], NO)
    else:
        load_table(p, q, pool, g.table_ptr[g.factor_ptr[example] + p.ref[q]], work, p.at[q], NO)
    high, low = -np.inf, np.inf
    for i in range(p.at[q], p.at[q] + p.total[q]):
        high = max(high, work[i])
        low = min(low, work[i]) if work[i] > -np.inf else low
    if high > -np.inf:
        for i in range(p.at[q], p.at[q] + p.total[q]):
            work[i] -= high
    return high, high - low


@njit(cache=True, nogil=True)
def _begin(p: Plan, g: Graph, t: int, example: int, node: F64, pool: F64, work: F64, z: Scales) -> bool:
    """Load the parts of a step and choose between products and logarithms; return False when all is forbidden."""
    span, shift, plain = 0.0, 0.0, True
    for q in range(p.part_ptr[t], p.part_ptr[t + 1]):
        if p.kind[q] == MESSAGE:
            span += z.span[p.ref[q]]
            shift += z.shift[p.ref[q]]
            plain = plain and z.linear[p.ref[q]]
        else:
            high, width = _load(p, g, q, example, node, pool, work)
            if high == -np.inf:
                return False
            span += width
            shift += high
    z.plain[t] = plain and span < SAFE
    z.shift[t] = shift
    z.extremes[0], z.extremes[1] = -np.inf, np.inf
    for q in range(p.part_ptr[t], p.part_ptr[t + 1]):
        lo, hi = p.at[q], p.at[q] + p.total[q]
        if z.plain[t] and p.kind[q] != MESSAGE:
            for i in range(lo, hi):
                work[i] = np.exp(work[i])
        elif not z.plain[t] and p.kind[q] == MESSAGE and z.linear[p.ref[q]]:
            z.linear[p.ref[q]] = False
            for i in range(lo, hi):
                work[i] = np.log(work[i]) if work[i] > 0.0 else -np.inf
    return True


@njit(cache=True, nogil=True)
def _sum_block(p: Plan, t: int, outer: int, work: F64, w: Walk, plain: bool, extremes: F64) -> None:
    """Write one block of a message: probabilities, or logarithms."""
    n, c = p.block[t], p.card[t]
    to = p.out[t] + outer * n
    high, low = extremes[0], extremes[1]
    if plain:
        fill(p, t, ZERO, work, w, ZERO, YES)
        for i in range(n):
            work[to + i] = w.values[i]
        for a in range(1, c):
            fill(p, t, a, work, w, n, YES)
            for i in range(n):
                work[to + i] += w.values[n + i]
        for i in range(n):
            x = work[to + i]
            high = x if x > high else high
            low = x if (x < low and x > 0.0) else low
    else:
        for a in range(c):
            fill(p, t, a, work, w, a * n, NO)
        for i in range(n):
            top = w.values[i]
            for a in range(1, c):
                top = max(top, w.values[a * n + i])
            if top == -np.inf:
                work[to + i] = top
                continue
            x = 0.0
            for a in range(c):
                x += np.exp(w.values[a * n + i] - top)
            x = top + np.log(x)
            work[to + i] = x
            high, low = max(high, x), min(low, x)
    extremes[0], extremes[1] = high, low


@njit(cache=True, nogil=True)
def _end(p: Plan, t: int, work: F64, z: Scales) -> bool:
    """Scale the message of a step; return False when it forbids everything."""
    high, low = z.extremes[0], z.extremes[1]
    if high == -np.inf or (z.plain[t] and high <= 0.0):
        return False
    lo, hi = p.out[t], p.out[t] + p.size[t]
    if z.plain[t]:
        z.span[t] = np.log(high) - np.log(low)
        z.shift[t] += np.log(high)
        factor = 1.0 / high
        for i in range(lo, hi):
            work[i] *= factor
        z.linear[t] = True
    else:
        z.span[t] = high - low
        z.shift[t] += high
        z.linear[t] = z.span[t] < SAFE
        for i in range(lo, hi):
            work[i] = np.exp(work[i] - high) if z.linear[t] else work[i] - high
    if p.axis_ptr[t] == p.axis_ptr[t + 1]:
        z.total[0] += z.shift[t]
    return True


@njit(cache=True, nogil=True)
def marginal_steps(
    plan: Plan, graph: Graph, node: F64, pool: F64, example: int, work: F64, walk: Walk, scales: Scales,
    out_node: F64, node_at: int, out_table: F64, table_at: I64, cursor: I64, budget: int,
) -> None:  # fmt: skip
    """Go on downwards from where ``cursor`` (steps left, outer state) says; done at 0 steps left.

    Parameters
    ----------
    out_node : ndarray of float64
        Marginals of the states of the example's variables go to ``out_node[node_at:]``.
    out_table : ndarray of float64
        Those of the joint states of its factor f go to ``out_table[table_at[f]:]``.
    """
    p, g, w, z = borrow(plan), borrow(graph), borrow(walk), borrow(scales)
    node, pool, work, out_table = borrow(node), borrow(pool), borrow(work), borrow(out_table)
    first_state = g.state_ptr[g.var_ptr[example]]
    while cursor[0] > 0 and budget > 0:
        t, outer = cursor[0] - 1, cursor[1]
        plain = z.plain[t]
        first, last = p.part_ptr[t], p.part_ptr[t + 1]
        if outer == 0:
            if p.axis_ptr[t] == p.axis_ptr[t + 1]:
                work[p.out[t]] = 1.0
            for q in range(first, last):
                work[p.gather[q] : p.gather[q] + p.total[q]] = 0.0
                if p.kind[q] != MESSAGE:
                    _load(p, g, q, example, node, pool, work)
                    if plain:
                        for i in range(p.at[q], p.at[q] + p.total[q]):
                            work[i] = np.exp(work[i])
        prepare(p, t, work, w, 1.0 if plain else 0.0, plain)
        go_to(p, t, outer, w)
        cost = p.card[t] * p.block[t] * (8 + last - first)
        end = min(p.n_outer[t], outer + budget // cost + 1)
        for k in range(outer, end):
            _share(p, t, p.out[t] + k * p.block[t], work, w, plain)
            _hand_out(p, t, work, w)
            go_on(p, t, w)
        budget -= (end - outer) * cost
        cursor[1] = end
        if end < p.n_outer[t]:
            return
        for q in range(first, last):
            if p.kind[q] == FACTOR:
                load_table(p, q, out_table, table_at[p.ref[q]], work, p.gather[q], YES)
            else:
                to, at = work, p.at[q]
                if p.kind[q] == NODE:
                    to = out_node
                    at = node_at + g.state_ptr[g.var_ptr[example] + p.ref[q]] - first_state
                for i in range(p.total[q]):
                    to[at + i] = work[p.gather[q] + i]
        cursor[0], cursor[1] = t, 0


@njit(cache=True, nogil=True)
def _share(p: Plan, t: int, at: int, work: F64, w: Walk, plain: bool) -> None:
    """Write ``P(x_S) P(a | x_S)`` for one block to ``values``; ``P(x_S)`` is at ``at``."""
    n, c = p.block[t], p.card[t]
    for a in range(c):
        fill(p, t, a, work, w, a * n, plain)
    for i in range(n):
        total = 0.0
        if plain:
            for a in range(c):
                total += w.values[a * n + i]
        else:
            top = w.values[i]
            for a in range(1, c):
                top = max(top, w.values[a * n + i])
            for a in range(c):
                x = np.exp(w.values[a * n + i] - top) if top > -np.inf else 0.0
                w.values[a * n + i] = x
                total += x
        factor = work[at + i] / total if total > 0.0 else 0.0
        for a in range(c):
            w.values[a * n + i] *= factor


@njit(cache=True, nogil=True)
def _hand_out(p: Plan, t: int, work: F64, w: Walk) -> None:
    """Add what ``values`` hold to the marginals of all parts of a step."""
    n, first = p.block[t], p.part_ptr[t]
    for a in range(p.card[t]):
        total = 0.0
        for i in range(n):
            total += w.values[a * n + i]
        for q in range(first, p.part_ptr[t + 1]):
            at = p.gather[q] + w.position[q - first] + a * p.step[q]
            if q < first + p.n_flat[t]:
                work[at] += total
            else:
                gather(w.values, a * n, work, at, p.run_size, p.run_stride, p.run_ptr[q], p.run_ptr[q + 1])
