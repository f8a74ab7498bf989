"""Compiled steps of ``smo``: pairs of labellings out of the marginals of an example, and moves between them.

The support of an example is what has positive marginals: states of variables, joint states of factors.  A labelling
all of whose parts are in it may give weight away, so the pair a step is taken on comes from dynamic programming over
the support (:func:`extremes`), which near the optimum is a few states for each variable.

Marginals are multiples of :data:`GRID` between 0 and 1, whose sums and differences doubles hold exactly: marginals of
factors and of variables agree to the last bit however many steps are taken, and what is given away entirely is zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ssvm_dsl.ir.borrow import borrow
from ssvm_dsl.ir.flat import N_CONFIGS, POOL, PTR, SCOPE, FlatMaps
from ssvm_dsl.ir.kernels import factor_add, factor_config, factor_dot, score_example
from ssvm_trainers._plane_arrays import F64, I8, I32, I64, Fixed, Work
from ssvm_trainers._plane_products import copy_entries, labels_score

#: What marginals are multiples of.
GRID = 2.0**-50

#: Slopes this small are rounding.
NO_SLOPE = 1e-12


class Trees(NamedTuple):
    """The graphs of all examples, rooted, and where their marginals are.

    Parameters
    ----------
    order : ndarray of int32, shape (V,)
        Elimination order, as in :class:`~ssvm_dsl.ir.Program`.
    parent : ndarray of int32, shape (V,)
        Parent of each variable, -1 at the roots.
    entry_ptr : ndarray of int64, shape (V + 1,)
        Factors on the edge from a variable to its parent.
    entry_map, entry_factor : ndarray of int64
        The feature map of each, and its number in it.
    entry_flip : ndarray of int64
        1 where its first variable is the parent.
    base : ndarray of int64, shape (M,)
        Where the marginals of each map's factors start; -1 for maps of single variables, whose marginals come first,
        state by state.
    """

    order: I32
    parent: I32
    entry_ptr: I64
    entry_map: I64
    entry_factor: I64
    entry_flip: I64
    base: I64


class Room(NamedTuple):
    """Work space for one example of L variables with at most c states in their supports.

    Parameters
    ----------
    n_open : ndarray of int32, shape (L,)
        States in the support of each variable.
    states : ndarray of int32, shape (L * c,)
        These states, from ``c * (v - lo)``; so are the next five.
    mass, score, high, low : ndarray of float64, shape (L * c,)
        Marginal and score of each, the highest and the lowest score of a labelling of its subtree.
    weight, value : ndarray of float64, shape (c * c,)
        Marginals and scores of joint states on one edge.
    pick_high, pick_low : ndarray of int32, shape (L * c,)
        Where that has the variable itself, for each state of its parent (at roots: in the first place).
    place : ndarray of int32, shape (L,)
        Which of its states each variable has, on the way down.
    pair : ndarray of int32, shape (2 * L,)
        The labellings y that takes and y' that gives.
    which, factor, toward, away : ndarray of int32
        Where they differ: feature map, factor, joint states in y and y'.
    """

    n_open: I32
    states: I32
    mass: F64
    score: F64
    high: F64
    low: F64
    weight: F64
    value: F64
    pick_high: I32
    pick_low: I32
    place: I32
    pair: I32
    which: I32
    factor: I32
    toward: I32
    away: I32


@njit(cache=True, nogil=True)
def list_support(maps: FlatMaps, fixed: Fixed, room: Room, mu: F64, i: int, w: F64) -> bool:
    """List the support of every variable of example i with its scores; return whether anything is undecided.

    Where a variable is decided its features are left out: they are in all labellings.
    """
    desc, ints, longs, features, values = borrow(maps)
    n_open, states, mass, score = borrow(room.n_open), borrow(room.states), borrow(room.mass), borrow(room.score)
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
        for f in range(longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]):
            v = ints[desc[m, SCOPE] + f] - lo
            for k in range(v * wide, v * wide + n_open[v] if n_open[v] > 1 else 0):
                score[k] += factor_dot(desc, ints, longs, features, values, m, f, np.int64(states[k]), w)
    return True


@njit(cache=True, nogil=True)
def score_edge(maps: FlatMaps, trees: Trees, fixed: Fixed, room: Room, mu: F64, v: int, lo: int, w: F64) -> None:
    """Write marginals and scores of the joint states of a variable's and its parent's supports, the parent's innermost.

    Where one of the two is decided, marginals are those of the other one.
    """
    desc, ints, longs, features, values = borrow(maps)
    n_open, states, mass = borrow(room.n_open), borrow(room.states), borrow(room.mass)
    weight, value = borrow(room.weight), borrow(room.value)
    p, wide = trees.parent[v], len(states) // len(n_open)
    at, above, n, n_above = (v - lo) * wide, (p - lo) * wide, n_open[v - lo], n_open[p - lo]
    for a in range(n):
        for b in range(n_above):
            weight[a * n_above + b] = mass[at + a] if n_above == 1 else mass[above + b]
            value[a * n_above + b] = 0.0
    if n == 1 and n_above == 1:
        return
    rows, columns = fixed.state_ptr[v + 1] - fixed.state_ptr[v], fixed.state_ptr[p + 1] - fixed.state_ptr[p]
    for e in range(trees.entry_ptr[v], trees.entry_ptr[v + 1]):
        m, f, flip = trees.entry_map[e], trees.entry_factor[e], trees.entry_flip[e]
        start = trees.base[m] + f * desc[m, N_CONFIGS]
        for a in range(n):
            for b in range(n_above):
                s, t, k = np.int64(states[at + a]), np.int64(states[above + b]), a * n_above + b
                config = t * rows + s if flip else s * columns + t
                if n > 1 and n_above > 1:
                    weight[k] = mu[start + config]
                if weight[k] > 0.0:
                    value[k] += factor_dot(desc, ints, longs, features, values, m, f, config, w)


@njit(cache=True, nogil=True)
def extremes(maps: FlatMaps, trees: Trees, fixed: Fixed, room: Room, mu: F64, i: int, w: F64) -> tuple[float, float]:
    """Write the best and the worst labelling of example i's support to ``room.pair``.

    Returns (how much their scores differ, how much that of the marginals is above the worst).
    """
    n_open, states, pair, parent = borrow(room.n_open), borrow(room.states), borrow(room.pair), borrow(trees.parent)
    high, low, pick_high, pick_low = borrow(room.high), borrow(room.low), borrow(room.pick_high), borrow(room.pick_low)
    mass, score, weight, value = borrow(room.mass), borrow(room.score), borrow(room.weight), borrow(room.value)
    lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
    size, wide = hi - lo, len(states) // max(len(n_open), 1)
    if not list_support(maps, fixed, room, mu, i, w):
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
        score_edge(maps, trees, fixed, room, mu, v, lo, w)
        above, n_above = (p - lo) * wide, n_open[p - lo]
        for b in range(n_above):
            best_score, worst_score = -np.inf, np.inf
            pick_high[at + b], pick_low[at + b] = 0, 0  # where rounding left no partner
            for a in range(n):
                k = a * n_above + b
                if weight[k] <= 0.0:
                    continue
                mean += weight[k] * value[k]
                if high[at + a] + value[k] > best_score:
                    best_score, pick_high[at + b] = high[at + a] + value[k], a
                if low[at + a] + value[k] < worst_score:
                    worst_score, pick_low[at + b] = low[at + a] + value[k], a
            high[above + b] += best_score
            low[above + b] += worst_score
    read_back(trees, room, lo, hi, pick_high, np.int64(0))
    read_back(trees, room, lo, hi, pick_low, size)
    return top - bottom, mean - bottom


@njit(cache=True, nogil=True)
def read_back(trees: Trees, room: Room, lo: int, hi: int, pick: I32, out: int) -> None:
    """Write the labelling that the picks lead to from the roots down to ``room.pair``, from a place on."""
    place, states, wide = borrow(room.place), borrow(room.states), len(room.states) // len(room.n_open)
    for position in range(hi - 1, lo - 1, -1):
        v = trees.order[position] - lo
        p = trees.parent[v + lo]
        place[v] = pick[v * wide + (0 if p < 0 else place[p - lo])]
        room.pair[out + v] = states[v * wide + place[v]]


@njit(cache=True, nogil=True)
def list_differences(maps: FlatMaps, fixed: Fixed, room: Room, i: int) -> int:
    """List the factors in whose joint states the labellings of the pair differ; return how many there are."""
    desc, ints, longs, _, _ = borrow(maps)
    pair, which, factor, toward, away = (
        borrow(room.pair), borrow(room.which), borrow(room.factor), borrow(room.toward), borrow(room.away)
    )  # fmt: skip
    lo, n = fixed.var_ptr[i], 0
    size = fixed.var_ptr[i + 1] - lo
    for m in range(len(desc)):
        for f in range(longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]):
            y = factor_config(desc, ints, longs, m, f, lo, pair, 0)
            z = factor_config(desc, ints, longs, m, f, lo, pair, size)
            if y != z:
                which[n], factor[n], toward[n], away[n] = m, f, y, z
                n += 1
    return n


@njit(cache=True, nogil=True)
def most_to_give(maps: FlatMaps, trees: Trees, fixed: Fixed, room: Room, mu: F64, i: int, n: int) -> float:
    """Return how much weight may move between the pair: the least marginal of what only the giving labelling has."""
    desc, pair, mu, lo = borrow(maps.desc), borrow(room.pair), borrow(mu), fixed.var_ptr[i]
    size, least = fixed.var_ptr[i + 1] - lo, 1.0
    for v in range(size):
        if pair[v] != pair[size + v]:
            least = min(least, mu[fixed.state_ptr[lo + v] + pair[size + v]])
    for d in range(n):
        m = room.which[d]
        if desc[m, POOL] >= 0:
            least = min(least, mu[trees.base[m] + room.factor[d] * desc[m, N_CONFIGS] + room.away[d]])
    return least


@njit(cache=True, nogil=True)
def give(maps: FlatMaps, trees: Trees, fixed: Fixed, room: Room, mu: F64, i: int, n: int, amount: float) -> None:
    """Move weight from the second labelling of the pair to the first."""
    desc, pair, mu, lo = borrow(maps.desc), borrow(room.pair), borrow(mu), fixed.var_ptr[i]
    size = fixed.var_ptr[i + 1] - lo
    for v in range(size):
        if pair[v] != pair[size + v]:
            mu[fixed.state_ptr[lo + v] + pair[v]] += amount
            mu[fixed.state_ptr[lo + v] + pair[size + v]] -= amount
    for d in range(n):
        m = room.which[d]
        if desc[m, POOL] >= 0:
            at = trees.base[m] + room.factor[d] * desc[m, N_CONFIGS]
            mu[at + room.toward[d]] += amount
            mu[at + room.away[d]] -= amount


@njit(cache=True, nogil=True)
def difference_product(maps: FlatMaps, room: Room, n: int, w: F64) -> float:
    """Return ``w . (Phi(x, y) - Phi(x, y'))`` of the pair y, y' whose n differences are listed."""
    desc, ints, longs, features, values = borrow(maps)
    w, total = borrow(w), 0.0
    for d in range(n):
        m, f = np.int64(room.which[d]), np.int64(room.factor[d])
        total += factor_dot(desc, ints, longs, features, values, m, f, np.int64(room.toward[d]), w)
        total -= factor_dot(desc, ints, longs, features, values, m, f, np.int64(room.away[d]), w)
    return total


@njit(cache=True, nogil=True)
def add_difference(
    maps: FlatMaps, fixed: Fixed, bounded: I8, room: Room, n: int, coef: float, w: F64, free: F64
) -> None:  # fmt: skip
    """Add ``coef (Phi(x, y) - Phi(x, y'))`` (times the metric of each map) to w; bounded weights through ``free``."""
    desc, ints, longs, features, values = borrow(maps)
    w, free = borrow(w), borrow(free)
    for d in range(n):
        m, f = np.int64(room.which[d]), np.int64(room.factor[d])
        target, factor = free if bounded[m] else w, coef * fixed.metric[m]
        for config, signed in ((np.int64(room.toward[d]), factor), (np.int64(room.away[d]), -factor)):
            factor_add(desc, ints, longs, features, values, m, f, config, signed, target)
            if bounded[m]:
                copy_entries(maps, m, f, config, free, w, 1.0, fixed.lower[m])


@njit(cache=True, nogil=True)
def curvature(maps: FlatMaps, fixed: Fixed, room: Room, work: Work, n: int) -> float:
    """Return ``|Phi(x, y) - Phi(x, y')|^2`` of the pair in the metric of the regulariser."""
    direction = work.direction
    add_difference(maps, fixed, work.unbounded, room, n, 1.0, direction, direction)
    total = difference_product(maps, room, n, direction)
    for d in range(n):
        m, f = np.int64(room.which[d]), np.int64(room.factor[d])
        copy_entries(maps, m, f, np.int64(room.toward[d]), direction, direction, 0.0, -np.inf)
        copy_entries(maps, m, f, np.int64(room.away[d]), direction, direction, 0.0, -np.inf)
    return total


@njit(cache=True, nogil=True)
def pair_step(
    maps: FlatMaps, trees: Trees, fixed: Fixed, room: Room, work: Work, mu: F64, i: int, slope: float, w: F64, free: F64
) -> float:
    """Move weight from the second labelling of the pair to the first, as far as pays; return the gain over share."""
    step, n = fixed.share[i] / fixed.lam, list_differences(maps, fixed, room, i)
    bend, amount = step * curvature(maps, fixed, room, work, n), most_to_give(maps, trees, fixed, room, mu, i, n)
    if slope < amount * bend:
        amount = np.floor(slope / bend / GRID) * GRID
    give(maps, trees, fixed, room, mu, i, n, amount)
    add_difference(maps, fixed, fixed.bounded, room, n, -step * amount, w, free)
    return amount * slope - 0.5 * amount * amount * bend


@njit(cache=True, nogil=True)
def candidate_slope(maps: FlatMaps, fixed: Fixed, room: Room, i: int, slope: float, labels: I32, w: F64) -> float:
    """Return how much better a labelling is than the worst one, if it is best; else ``slope``.

    It joins the pair then; ``slope`` is that of the pair before, the best and the worst labelling of the support.
    """
    lo, before, loss = fixed.var_ptr[i], room.place, 0.0
    size = fixed.var_ptr[i + 1] - lo
    for v in range(size):
        before[v], room.pair[v] = room.pair[v], labels[v]
        states = fixed.state_ptr[lo + v]
        loss += fixed.node_loss[states + room.pair[v]] - fixed.node_loss[states + room.pair[size + v]]
    found = loss + difference_product(maps, room, list_differences(maps, fixed, room, i), w)
    if found > slope:
        return found
    for v in range(size):
        room.pair[v] = before[v]
    return slope


@njit(cache=True, nogil=True)
def visit(
    maps: FlatMaps, trees: Trees, fixed: Fixed, room: Room, work: Work, mu: F64, i: int, candidate: bool, w: F64,
    free: F64,
) -> tuple[float, float]:  # fmt: skip
    """Take a step on a pair of example i; return (gain of the dual, gap of the example before), times its share.

    With ``candidate`` the pair takes the labelling in ``work.labels`` if it beats the support, and the gap is that to
    it; else all is within the support, the gap too.
    """
    if fixed.share[i] == 0.0:
        return 0.0, 0.0
    slope, mean = extremes(maps, trees, fixed, room, mu, i, w)
    if candidate:
        slope = candidate_slope(maps, fixed, room, i, slope, work.labels, w)
    gain = pair_step(maps, trees, fixed, room, work, mu, i, slope, w, free) if slope > NO_SLOPE else 0.0
    return fixed.share[i] * gain, fixed.share[i] * (slope - mean)


@njit(cache=True, nogil=True)
def plain_pass(
    maps: FlatMaps, trees: Trees, fixed: Fixed, room: Room, work: Work, mu: F64, examples: I64, label_ptr: I64,
    labels: I32, w: F64, free: F64, gap: F64,
) -> float:  # fmt: skip
    """Visit the listed examples; return the gain of the dual, write their gaps.

    ``labels`` are those an oracle returned for a batch, packed by ``label_ptr``; with none, all is within the supports.
    """
    maps, trees, fixed, room, work = borrow(maps), borrow(trees), borrow(fixed), borrow(room), borrow(work)
    total, candidate = 0.0, len(labels) > 0
    for j in range(len(examples)):
        if candidate:
            for t in range(label_ptr[j + 1] - label_ptr[j]):
                work.labels[t] = labels[label_ptr[j] + t]
        gained, gap[examples[j]] = visit(maps, trees, fixed, room, work, mu, examples[j], candidate, w, free)
        total += gained
    return total


@njit(cache=True, nogil=True)
def exact_pass(
    oracle: Any, ints: I32, longs: I64, oracle_work: F64, node: F64, pool: F64, maps: FlatMaps, trees: Trees,
    fixed: Fixed, room: Room, work: Work, mu: F64, examples: I64, w: F64, free: F64, gap: F64,
) -> tuple[float, float]:  # fmt: skip
    """Call a compiled oracle for each listed example at the newest w and take its labelling.

    Returns (gain of the dual, largest relative difference between a score the oracle reported and that of its
    labelling), and writes the gaps.
    """
    maps, trees, fixed, room, work = borrow(maps), borrow(trees), borrow(fixed), borrow(room), borrow(work)
    ints, longs, oracle_work, node, pool = borrow(ints), borrow(longs), borrow(oracle_work), borrow(node), borrow(pool)
    total, off, candidate = 0.0, 0.0, np.bool_(True)
    for i in examples:
        lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
        score_example(maps, i, lo, hi, fixed.state_ptr, fixed.bonus, w, work.ones, work.scores, node, pool)
        score = oracle(ints, longs, i, pool, node, work.labels, oracle_work)
        own = labels_score(maps, i, fixed.state_ptr, work.labels, lo, hi, node, pool)
        off = max(off, abs(score - own) / (1.0 + abs(own)))
        gained, gap[i] = visit(maps, trees, fixed, room, work, mu, i, candidate, w, free)
        total += gained
    return total, off


@njit(cache=True, nogil=True)
def aggregate(maps: FlatMaps, trees: Trees, fixed: Fixed, mu: F64, v: F64) -> None:
    """Add ``sum_i share_i (Phi(x_i, y_i) - Phi(x_i) mu_i)`` to v."""
    desc, ints, longs, features, values = borrow(maps)
    truth, mu, v = borrow(fixed.truth_config), borrow(mu), borrow(v)
    for m in range(len(desc)):
        n, scope = desc[m, N_CONFIGS], desc[m, SCOPE]
        for i in range(len(fixed.share)):
            for f in range(longs[desc[m, PTR] + i], longs[desc[m, PTR] + i + 1]):
                at = fixed.state_ptr[ints[scope + f]] if desc[m, POOL] < 0 else trees.base[m] + f * n
                for c in range(n):
                    moved = fixed.share[i] * ((c == truth[fixed.config_start[m] + f]) - mu[at + c])
                    if moved != 0.0:
                        factor_add(desc, ints, longs, features, values, m, f, c, moved, v)
