"""Log partition functions and marginals by variable elimination (Dechter 1999; Shafer and Shenoy 1990).

Upwards, messages are sums over the states of the eliminated variable.  A table is kept as probabilities, scaled to
maximum 1, together with the logarithm of the scale.  Before a step multiplies its parts, the spans between the
largest and the smallest positive entry (in logarithms) are added up: below ``SAFE`` no product can
underflow, and plain products and sums are exact to rounding.  Otherwise the step works with logarithms
(log-sum-exp).  So no digits are lost, whatever the scores, and exponentials are rare.

Downwards, marginals are the derivatives of log Z: the distribution over the parts of a step is that of its
separator, ``P(x_S)``, times the conditional ``P(a | x_S)`` that the same parts give, and each part gathers what
belongs to it.  Marginals of the separators replace the messages in place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.elimination.blocks import (
    NO,
    YES,
    ZERO,
    BlockRuns,
    Walk,
    fill,
    gather,
    go_on,
    go_to,
    load_table,
    prepare,
)
from ssvm_backends.elimination.plan import FACTOR, MESSAGE, NODE, EliminationPlan
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I64, Bools
from ssvm_dsl.kernels import borrow, njit

#: The largest span of a product of probabilities (natural logarithm; doubles reach down to -708).
SAFE = 600.0


class Scales(NamedTuple):
    """The state of the messages and steps of one example.

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


class SumSpace(NamedTuple):
    """What the elimination of one example works with.

    Parameters
    ----------
    work : ndarray of float64
        Holds the messages; on the way down marginals of the separators replace them.
    walk : Walk
        Work space of a step.
    scales : Scales
    """

    work: F64
    walk: Walk
    scales: Scales


class MarginalTarget(NamedTuple):
    """Where the marginals of one example go.

    Parameters
    ----------
    node : ndarray of float64
        Those of the states of its variables, from ``node_at`` on.
    node_at : int
    table : ndarray of float64
        Those of the joint states of its factor f, from ``table_at[f]`` on.
    table_at : ndarray of int64
        Factors are numbered from 0 in the example.
    """

    node: F64
    node_at: int
    table: F64
    table_at: I64


def make_scales(n: int) -> Scales:
    """Return the state of an elimination of n steps before it starts."""
    flags = np.zeros((2, n), dtype=bool)
    return Scales(np.zeros(n), np.zeros(n), flags[0], flags[1], np.zeros(2), np.zeros(1))


@njit(cache=True, nogil=True)
def sum_steps(
    plan: EliminationPlan, instance: Instance, example: int, space: SumSpace, cursor: I64, budget: int
) -> None:
    """Go on with one example from where ``cursor`` says, until done or the budget is spent.

    Parameters
    ----------
    plan : Plan
        The elimination; read only.  When marginals are to follow, one that keeps messages.
    instance : Instance
        Read only.
    example : int
        The example.
    space : SumSpace
        In the end ``scales.total`` is log Z without the constant, ``-inf`` where there is no labelling.
    cursor : ndarray of int64, shape (2,)
        (step, outer state); zeros at first, at step n when done.
    budget : int
        About how many table entries to look at.
    """
    p, g, w, z = borrow(plan), borrow(instance.graph), borrow(space.walk), borrow(space.scales)
    node, pool, work = borrow(instance.node), borrow(instance.pool), borrow(space.work)
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
        cost *= 1 if plain else 8  # exponentials
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
def _load(p: EliminationPlan, g: Graph, q: int, example: int, node: F64, pool: F64, work: F64) -> tuple[float, float]:
    """Copy scores of a part into the work space, maximum 0; return (maximum, span).

    Parameters
    ----------
    p : Plan
        The elimination; read only.
    g : Graph
        Structure; read only.
    q : int
        The part: unary scores or a factor.
    example : int
        The example.
    node, pool : ndarray of float64
        Unary scores and tables of all examples.
    work : ndarray of float64
        Written at ``p.at[q]``; all ``-inf`` where everything is forbidden.
    """
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
def _begin(p: EliminationPlan, g: Graph, t: int, example: int, node: F64, pool: F64, work: F64, z: Scales) -> bool:
    """Load the parts of a step and choose between products and logarithms; return False when all is forbidden.

    The spans of the parts add up to that of their product.

    Parameters
    ----------
    p, g, example, node, pool
        As for :func:`_load`.
    t : int
        The step.
    work : ndarray of float64
        The step's parts are written; messages that hold probabilities become logarithms where the step needs these.
    z : Scales
        ``plain``, ``shift`` and ``extremes`` of the step are set; ``linear`` of messages that were changed.
    """
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
def _sum_block(p: EliminationPlan, t: int, outer: int, work: F64, w: Walk, plain: bool, extremes: F64) -> None:
    """Write one block of a message, ``sum_a`` of the product of all parts: probabilities, or logarithms.

    Parameters
    ----------
    p : Plan
        The elimination; read only.
    t : int
        The step.
    outer : int
        Number of the outer state, at which the walk is.
    work : ndarray of float64
        Holds the parts; the block is written.
    w : Walk
        Its ``values`` are overwritten.
    plain : bool
        Whether the parts are probabilities, else logarithms.
    extremes : ndarray of float64, shape (2,)
        Largest and smallest (positive or finite) entry of the message so far, in and out.
    """
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
def _end(p: EliminationPlan, t: int, work: F64, z: Scales) -> bool:
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
    plan: EliminationPlan, instance: Instance, example: int, space: SumSpace, out: MarginalTarget, cursor: I64,
    budget: int,
) -> None:  # fmt: skip
    """Go on downwards with one example from where ``cursor`` says, until done or the budget is spent.

    For step t with separator S, and the product of all its parts at (a, x_S)::

        P(a, x_S) = P(x_S) product(a, x_S) / sum_a product(a, x_S)

    The marginal of a part is the sum of this over the variables that the part does not depend on.

    Parameters
    ----------
    plan, instance, example, space
        As for :func:`sum_steps`, after it.
    out : MarginalTarget
        Written.
    cursor : ndarray of int64, shape (2,)
        (steps left, outer state); (n, 0) at first, at 0 steps left when done.
    budget : int
        About how many table entries to look at.
    """
    p, g, w, z = borrow(plan), borrow(instance.graph), borrow(space.walk), borrow(space.scales)
    node, pool, work, out = borrow(instance.node), borrow(instance.pool), borrow(space.work), borrow(out)
    first_state = g.state_ptr[g.var_ptr[example]]
    while cursor[0] > 0 and budget > 0:
        t, outer = cursor[0] - 1, cursor[1]
        plain = z.plain[t]
        first, last = p.part_ptr[t], p.part_ptr[t + 1]
        if outer == 0:
            if p.axis_ptr[t] == p.axis_ptr[t + 1]:  # the last step of a component: its separator is empty
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
                load_table(p, q, out.table, out.table_at[p.ref[q]], work, p.gather[q], YES)
            else:
                to, at = work, p.at[q]
                if p.kind[q] == NODE:
                    to = out.node
                    at = out.node_at + g.state_ptr[g.var_ptr[example] + p.ref[q]] - first_state
                for i in range(p.total[q]):
                    to[at + i] = work[p.gather[q] + i]
        cursor[0], cursor[1] = t, 0


@njit(cache=True, nogil=True)
def _share(p: EliminationPlan, t: int, at: int, work: F64, w: Walk, plain: bool) -> None:
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
def _hand_out(p: EliminationPlan, t: int, work: F64, w: Walk) -> None:
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
                gather(w.values, a * n, work, at, BlockRuns(p.run_size, p.run_stride, p.run_ptr[q], p.run_ptr[q + 1]))
