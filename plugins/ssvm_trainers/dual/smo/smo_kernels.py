"""Compiled steps of ``smo``: pairs of labellings out of the marginals of an example, and moves between them.

The support of an example are the states of variables and joint states of factors with positive marginals.  A labelling
all of whose parts are in it may give weight away, so the pair a step is taken on comes from dynamic programming over
the support (:func:`extremes`), which near the optimum is a few states for each variable.

Marginals are multiples of :data:`GRID` between 0 and 1, whose sums and differences doubles hold exactly: marginals of
factors and of variables agree to the last bit after any number of steps, and marginals given away entirely are zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import (
    N_CONFIGS,
    NUMBER,
    POOL,
    SCOPE,
    borrow,
    factor_add,
    factor_config,
    factor_dot,
    factors_of,
    njit,
)
from ssvm_trainers.dual.smo.smo_pairs import (
    Rooted,
    SMOWorkspace,
    add_difference,
    curvature,
    difference_product,
    give,
    list_differences,
    most_to_give,
)
from ssvm_trainers.shared.arrays import Fixed, Work
from ssvm_trainers.shared.oracle_call import OracleInputs, ask

#: The unit of marginals: all are multiples of it.
GRID = 2.0**-50

#: Slopes this small are rounding.
NO_SLOPE = 1e-12


class MarginalPoint(NamedTuple):
    """The current iterate; changed in place.

    Parameters
    ----------
    mu : ndarray of float64
        Marginals of all variables, state by state, then of the factors of each group; or those of all cliques.
    w, free : ndarray of float64, shape (dim,)
        The weights, and, for maps with a lower bound, what they would be without it.
    gap : ndarray of float64, shape (n,)
        Gap of each example, times its share, as its last visit found it.
    """

    mu: F64
    w: F64
    free: F64
    gap: F64


class GivenLabels(NamedTuple):
    """The labellings that an oracle returned for a batch, packed by ``ptr``; none for passes within the supports.

    Parameters
    ----------
    ptr, labels : ndarray of int64 and of int32
    """

    ptr: I64
    labels: I32


@njit(cache=True, nogil=True, borrowed=True)
def list_support(fixed: Fixed, space: SMOWorkspace, mu: F64, i: int, w: F64) -> bool:
    """List the support of every variable of example i with its scores; return whether anything is undecided.

    Where a variable is decided its features are left out: they are in all labellings.
    """
    maps = borrow(fixed.maps)
    desc, ints = maps.desc, maps.ints
    n_open, states, mass, score = borrow(space.n_open), borrow(space.states), borrow(space.mass), borrow(space.score)
    state_ptr, node_loss, mu, w = borrow(fixed.state_ptr), borrow(fixed.node_loss), borrow(mu), borrow(w)
    lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
    wide, undecided = len(states) // max(len(n_open), 1), False
    for v in range(lo, hi):
        at, n = (v - lo) * wide, 0
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if mu[s] > 0.0:
                states[at + n], mass[at + n], score[at + n] = s - state_ptr[v], mu[s], node_loss[s]
                n += 1
        n_open[v - lo] = n
        undecided |= n > 1
    if not undecided:
        return False
    for m in range(len(desc)):
        if desc[m, POOL] >= 0:
            continue
        first, last = factors_of(maps, m, i)
        for f in range(first, last):
            v = ints[desc[m, SCOPE] + f]
            for k in range(v * wide, v * wide + n_open[v] if n_open[v] > 1 else 0):
                score[k] += factor_dot(maps, m, i, f, np.int64(states[k]), w)
    return True


@njit(cache=True, nogil=True, borrowed=True)
def score_edge(fixed: Fixed, trees: Rooted, space: SMOWorkspace, mu: F64, i: int, v: int, w: F64) -> None:
    """Write marginals and scores of the joint states of a variable's and its parent's supports, the parent's innermost.

    Where one of the two is decided, marginals are those of the other one.

    Parameters
    ----------
    fixed, trees, mu, w
        As for :func:`extremes`; read only.
    space : SMOWorkspace
        ``weight`` and ``value`` are written; ``n_open``, ``states`` and ``mass`` are read.
    i, v : int
        The example, and the variable, which is no root.
    """
    maps = borrow(fixed.maps)
    desc, longs = maps.desc, maps.longs
    n_open, states, mass = borrow(space.n_open), borrow(space.states), borrow(space.mass)
    weight, value = borrow(space.weight), borrow(space.value)
    p, wide, lo = trees.parent[v], len(states) // len(n_open), fixed.var_ptr[i]
    at, above, n, n_above = (v - lo) * wide, (p - lo) * wide, n_open[v - lo], n_open[p - lo]
    for a in range(n):
        for b in range(n_above):
            # correct where a support has one state; elsewhere rewritten from the factors
            weight[a * n_above + b] = mass[at + a] if n_above == 1 else mass[above + b]
            value[a * n_above + b] = 0.0
    if n == 1 and n_above == 1:
        return
    rows, columns = fixed.state_ptr[v + 1] - fixed.state_ptr[v], fixed.state_ptr[p + 1] - fixed.state_ptr[p]
    for e in range(trees.entry_ptr[v], trees.entry_ptr[v + 1]):
        m, f, flip = trees.entry_map[e], trees.entry_factor[e], trees.entry_flip[e]
        start = trees.base[m] + (longs[desc[m, NUMBER] + i] + f) * desc[m, N_CONFIGS]
        for a in range(n):
            for b in range(n_above):
                s, t, k = np.int64(states[at + a]), np.int64(states[above + b]), a * n_above + b
                config = t * rows + s if flip else s * columns + t
                if n > 1 and n_above > 1:
                    weight[k] = mu[start + config]
                if weight[k] > 0.0:
                    value[k] += factor_dot(maps, m, i, f, config, w)


@njit(cache=True, nogil=True, borrowed=True)
def extremes(fixed: Fixed, trees: Rooted, space: SMOWorkspace, mu: F64, i: int, w: F64) -> tuple[float, float]:
    """Write the best and the worst labelling of example i's support to ``space.pair``, by dynamic programming.

    Returns (how much their scores differ, how much that of the marginals is above the worst).

    Parameters
    ----------
    fixed, trees, i
        As for :func:`visit`; read only.
    mu, w
        As in :class:`MarginalPoint`; read only.
    space : SMOWorkspace
        ``pair`` holds the result; all else but the differences is written on the way.
    """
    n_open, states, pair, parent = borrow(space.n_open), borrow(space.states), borrow(space.pair), borrow(trees.parent)
    high, low, pick_high, pick_low = (
        borrow(space.high),
        borrow(space.low),
        borrow(space.pick_high),
        borrow(space.pick_low),
    )
    mass, score, weight, value = borrow(space.mass), borrow(space.score), borrow(space.weight), borrow(space.value)
    lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
    size, wide = hi - lo, len(states) // max(len(n_open), 1)
    if not list_support(fixed, space, mu, i, w):
        for v in range(size):
            pair[v] = pair[size + v] = states[v * wide]
        return 0.0, 0.0
    mean, top, bottom = 0.0, 0.0, 0.0
    for v in range(size):
        for k in range(v * wide, v * wide + n_open[v]):
            high[k] = low[k] = score[k]
            mean += mass[k] * score[k]
    for position in range(lo, hi):
        v = trees.order[position]
        p, at, n = parent[v], (v - lo) * wide, n_open[v - lo]
        if p < 0:
            best, worst = at, at
            for k in range(at + 1, at + n):
                best = k if high[k] > high[best] else best
                worst = k if low[k] < low[worst] else worst
            pick_high[at], pick_low[at] = best - at, worst - at
            top, bottom = top + high[best], bottom + low[worst]
            continue
        score_edge(fixed, trees, space, mu, i, v, w)
        above, n_above = (p - lo) * wide, n_open[p - lo]
        for b in range(n_above):
            best_score, worst_score = -np.inf, np.inf
            pick_high[at + b], pick_low[at + b] = 0, 0  # where rounding left no partner
            for a in range(n):
                k = a * n_above + b
                if weight[k] <= 0.0:  # not in the support: no labelling may have it
                    continue
                mean += weight[k] * value[k]
                if high[at + a] + value[k] > best_score:
                    best_score, pick_high[at + b] = high[at + a] + value[k], a
                if low[at + a] + value[k] < worst_score:
                    worst_score, pick_low[at + b] = low[at + a] + value[k], a
            high[above + b] += best_score
            low[above + b] += worst_score
    read_back(trees, space, lo, hi, pick_high, np.int64(0))
    read_back(trees, space, lo, hi, pick_low, size)
    return top - bottom, mean - bottom


@njit(cache=True, nogil=True, borrowed=True)
def read_back(trees: Rooted, space: SMOWorkspace, lo: int, hi: int, pick: I32, out: int) -> None:
    """Write the labelling that the picks lead to from the roots down to ``space.pair``, from a place on."""
    place, states, wide = borrow(space.place), borrow(space.states), len(space.states) // len(space.n_open)
    for position in range(hi - 1, lo - 1, -1):
        v = trees.order[position] - lo
        p = trees.parent[v + lo]
        place[v] = pick[v * wide + (0 if p < 0 else place[p - lo])]
        space.pair[out + v] = states[v * wide + place[v]]


@njit(cache=True, nogil=True, borrowed=True)
def pair_step(
    fixed: Fixed, trees: Rooted, space: SMOWorkspace, work: Work, point: MarginalPoint, i: int, slope: float
) -> float:
    """Move weight from the second labelling of the pair to the first, as far as pays; return the gain over share.

    The amount is ``min(slope / bend, most to give)`` with ``bend = share / lam |Phi(x, y) - Phi(x, y')|^2``, the first
    rounded down to a multiple of :data:`GRID`; the gain is ``amount slope - amount^2 bend / 2``.

    Parameters
    ----------
    fixed, trees, space, work, point, i
        As for :func:`visit`; ``point`` is changed.
    slope : float
        How much the score of y, loss-augmented, is above that of y'; positive.
    """
    step, n = fixed.share[i] / fixed.lam, list_differences(fixed, space, i)
    bend, amount = step * curvature(fixed, space, work, n), most_to_give(fixed, trees, space, point.mu, i, n)
    if slope < amount * bend:
        amount = np.floor(slope / bend / GRID) * GRID  # down: the gain stays positive, and marginals on the grid
    give(fixed, trees, space, point.mu, i, n, amount)
    add_difference(fixed, fixed.bounded, space, n, -step * amount, point.w, point.free)
    return amount * slope - 0.5 * amount * amount * bend


@njit(cache=True, nogil=True, borrowed=True)
def candidate_slope(fixed: Fixed, space: SMOWorkspace, i: int, slope: float, labels: I32, w: F64) -> float:
    """Return how much better a labelling is than the worst one, if it is best; else ``slope``.

    It joins the pair then, whose first labelling it replaces; ``slope`` is that of the pair before, the best and the
    worst labelling of the support.  The labelling stands from the first element of ``labels`` on.
    """
    lo, before, loss = fixed.var_ptr[i], space.place, 0.0  # ``place`` is free once the labellings are read back
    size = fixed.var_ptr[i + 1] - lo
    for v in range(size):
        before[v], space.pair[v] = space.pair[v], labels[v]
        states = fixed.state_ptr[lo + v]
        loss += fixed.node_loss[states + space.pair[v]] - fixed.node_loss[states + space.pair[size + v]]
    own_slope = loss + difference_product(fixed, space, list_differences(fixed, space, i), w)
    if own_slope > slope:
        return own_slope
    for v in range(size):
        space.pair[v] = before[v]
    return slope


@njit(cache=True, nogil=True, borrowed=True)
def visit(
    fixed: Fixed, trees: Rooted, space: SMOWorkspace, work: Work, point: MarginalPoint, i: int, candidate: bool
) -> float:
    """Take a step on a pair of example i, write its gap before; return the gain of the dual.

    With ``candidate`` the pair takes the labelling in ``work.labels`` if it beats the support, and the gap is that to
    it; else all is within the support, the gap too.

    Parameters
    ----------
    fixed, trees : Fixed, Rooted
        Constant arrays of training, and the graphs; read only.
    space, work : SMOWorkspace, Work
        Work space.
    point : MarginalPoint
        Changed for example i, and at the weights of its features.
    i : int
        The example.
    candidate : bool
    """
    point.gap[i] = 0.0
    if fixed.share[i] == 0.0:
        return 0.0
    slope, mean = extremes(fixed, trees, space, point.mu, i, point.w)
    if candidate:
        slope = candidate_slope(fixed, space, i, slope, work.labels, point.w)
    gain = pair_step(fixed, trees, space, work, point, i, slope) if slope > NO_SLOPE else 0.0
    point.gap[i] = fixed.share[i] * (slope - mean)
    return fixed.share[i] * gain


@njit(cache=True, nogil=True, borrowed=True)
def plain_pass(
    fixed: Fixed, trees: Rooted, space: SMOWorkspace, work: Work, point: MarginalPoint, examples: I64,
    given: GivenLabels,
) -> float:  # fmt: skip
    """Visit the listed examples, with given labellings or within the supports; return the gain of the dual.

    Parameters
    ----------
    fixed, trees, space, work, point
        As for :func:`visit`.
    examples : ndarray of int64, shape (n_listed,)
    given : GivenLabels
        Those of the listed examples, or none.
    """
    fixed, trees, space, work, point = borrow(fixed), borrow(trees), borrow(space), borrow(work), borrow(point)
    total, candidate = 0.0, len(given.labels) > 0
    for j in range(len(examples)):
        if candidate:
            for t in range(given.ptr[j + 1] - given.ptr[j]):
                work.labels[t] = given.labels[given.ptr[j] + t]
        total += visit(fixed, trees, space, work, point, examples[j], candidate)
    return total


@njit(cache=True, nogil=True, borrowed=True)
def exact_pass(
    oracle: Any, inputs: OracleInputs, fixed: Fixed, trees: Rooted, space: SMOWorkspace, work: Work,
    point: MarginalPoint, examples: I64,
) -> tuple[float, float]:  # fmt: skip
    """Call a compiled oracle for each listed example at the newest w and take its labelling.

    Returns (gain of the dual, largest relative difference between a score the oracle reported and that of its
    labelling).

    Parameters
    ----------
    oracle : compiled function
        Of the signature :data:`ssvm_dsl.kernels.SIGNATURE`.
    inputs : OracleInputs
    fixed, trees, space, work, point, examples
        As for :func:`plain_pass`.
    """
    fixed, trees, space, work, point = borrow(fixed), borrow(trees), borrow(space), borrow(work), borrow(point)
    inputs, total, off, candidate = borrow(inputs), 0.0, 0.0, np.bool_(True)
    for i in examples:
        _, off = ask(oracle, inputs, fixed, work, i, point.w, work.ones, off)
        if np.isnan(off):
            break
        total += visit(fixed, trees, space, work, point, i, candidate)
    return total, off


@njit(cache=True, nogil=True, borrowed=True)
def aggregate(fixed: Fixed, trees: Rooted, mu: F64, v: F64) -> None:
    """Add ``sum_i share_i (Phi(x_i, y_i) - Phi(x_i) mu_i)`` to v."""
    maps = borrow(fixed.maps)
    desc, ints, longs = maps.desc, maps.ints, maps.longs
    truth, mu, v = borrow(fixed.truth), borrow(mu), borrow(v)
    for m in range(len(desc)):
        n, scope = desc[m, N_CONFIGS], desc[m, SCOPE]
        for i in range(len(fixed.share)):
            lo, (first, last) = fixed.var_ptr[i], factors_of(maps, m, i)
            for f in range(first, last):
                true = factor_config(maps, m, f, truth, lo)
                at = trees.base[m] + (longs[desc[m, NUMBER] + i] + f) * n
                if desc[m, POOL] < 0:
                    at = fixed.state_ptr[lo + ints[scope + f]]
                for c in range(n):
                    moved = fixed.share[i] * ((c == true) - mu[at + c])
                    if moved != 0.0:
                        factor_add(maps, m, i, f, c, moved, v)
