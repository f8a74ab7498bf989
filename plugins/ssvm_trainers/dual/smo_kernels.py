"""Compiled steps of ``smo``: pairs of labellings out of the marginals of an example, and moves between them.

The support of an example is what has positive marginals: states of variables, joint states of factors.  A labelling
all of whose parts are in it may give weight away, so the pair a step is taken on comes from dynamic programming over
the support (:func:`extremes`), which near the optimum is a few states for each variable.

Marginals are multiples of :data:`GRID` between 0 and 1, whose sums and differences doubles hold exactly: marginals of
factors and of variables agree to the last bit however many steps are taken, and what is given away entirely is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import (
    N_CONFIGS,
    NUMBER,
    POOL,
    SCOPE,
    FlatMaps,
    borrow,
    factor_add,
    factor_config,
    factor_dot,
    factors_of,
    njit,
    score_example,
)
from ssvm_trainers.dual.smo_pairs import (
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
from ssvm_trainers.shared.products import labels_score, worse

#: What marginals are multiples of.
GRID = 2.0**-50

#: Slopes this small are rounding.
NO_SLOPE = 1e-12


@njit(cache=True, nogil=True)
def list_support(maps: FlatMaps, fixed: Fixed, space: SMOWorkspace, mu: F64, i: int, w: F64) -> bool:
    """List the support of every variable of example i with its scores; return whether anything is undecided.

    Where a variable is decided its features are left out: they are in all labellings.
    """
    desc, ints, longs, features, values = borrow(maps)
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
        first, last = factors_of(desc, ints, longs, m, i)
        for f in range(first, last):
            v = ints[desc[m, SCOPE] + f]
            for k in range(v * wide, v * wide + n_open[v] if n_open[v] > 1 else 0):
                score[k] += factor_dot(desc, ints, longs, features, values, m, i, f, np.int64(states[k]), w)
    return True


@njit(cache=True, nogil=True)
def score_edge(
    maps: FlatMaps, trees: Rooted, fixed: Fixed, space: SMOWorkspace, mu: F64, i: int, v: int, lo: int, w: F64
) -> None:
    """Write marginals and scores of the joint states of a variable's and its parent's supports, the parent's innermost.

    Where one of the two is decided, marginals are those of the other one.

    Parameters
    ----------
    maps, trees, fixed, mu, w
        As for :func:`visit`; read only.
    space : SMOWorkspace
        ``weight`` and ``value`` are written; ``n_open``, ``states`` and ``mass`` are read.
    i, v, lo : int
        The example, the variable, which is no root, and the first variable of the example.
    """
    desc, ints, longs, features, values = borrow(maps)
    n_open, states, mass = borrow(space.n_open), borrow(space.states), borrow(space.mass)
    weight, value = borrow(space.weight), borrow(space.value)
    p, wide = trees.parent[v], len(states) // len(n_open)
    at, above, n, n_above = (v - lo) * wide, (p - lo) * wide, n_open[v - lo], n_open[p - lo]
    for a in range(n):
        for b in range(n_above):
            # right where a support has one state; elsewhere written anew from the factors
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
                    value[k] += factor_dot(desc, ints, longs, features, values, m, i, f, config, w)


@njit(cache=True, nogil=True)
def extremes(
    maps: FlatMaps, trees: Rooted, fixed: Fixed, space: SMOWorkspace, mu: F64, i: int, w: F64
) -> tuple[float, float]:
    """Write the best and the worst labelling of example i's support to ``space.pair``, by dynamic programming.

    Returns (how much their scores differ, how much that of the marginals is above the worst).

    Parameters
    ----------
    maps, trees, fixed, mu, i, w
        As for :func:`visit`; read only.
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
    if not list_support(maps, fixed, space, mu, i, w):
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
        score_edge(maps, trees, fixed, space, mu, i, v, lo, w)
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


@njit(cache=True, nogil=True)
def read_back(trees: Rooted, space: SMOWorkspace, lo: int, hi: int, pick: I32, out: int) -> None:
    """Write the labelling that the picks lead to from the roots down to ``space.pair``, from a place on."""
    place, states, wide = borrow(space.place), borrow(space.states), len(space.states) // len(space.n_open)
    for position in range(hi - 1, lo - 1, -1):
        v = trees.order[position] - lo
        p = trees.parent[v + lo]
        place[v] = pick[v * wide + (0 if p < 0 else place[p - lo])]
        space.pair[out + v] = states[v * wide + place[v]]


@njit(cache=True, nogil=True)
def pair_step(
    maps: FlatMaps,
    trees: Rooted,
    fixed: Fixed,
    space: SMOWorkspace,
    work: Work,
    mu: F64,
    i: int,
    slope: float,
    w: F64,
    free: F64,
) -> float:
    """Move weight from the second labelling of the pair to the first, as far as pays; return the gain over share.

    The amount is ``min(slope / bend, most to give)`` with ``bend = share / lam |Phi(x, y) - Phi(x, y')|^2``, the first
    rounded down to a multiple of :data:`GRID`; the gain is ``amount slope - amount^2 bend / 2``.

    Parameters
    ----------
    maps, trees, fixed, space, work, mu, i, w, free
        As for :func:`visit`; ``mu``, ``w`` and ``free`` are changed.
    slope : float
        How much the score of y, loss-augmented, is above that of y'; positive.
    """
    step, n = fixed.share[i] / fixed.lam, list_differences(maps, fixed, space, i)
    bend, amount = step * curvature(maps, fixed, space, work, n), most_to_give(maps, trees, fixed, space, mu, i, n)
    if slope < amount * bend:
        amount = np.floor(slope / bend / GRID) * GRID  # down: the gain stays positive, and marginals on the grid
    give(maps, trees, fixed, space, mu, i, n, amount)
    add_difference(maps, fixed, fixed.bounded, space, n, -step * amount, w, free)
    return amount * slope - 0.5 * amount * amount * bend


@njit(cache=True, nogil=True)
def candidate_slope(
    maps: FlatMaps, fixed: Fixed, space: SMOWorkspace, i: int, slope: float, labels: I32, w: F64
) -> float:
    """Return how much better a labelling is than the worst one, if it is best; else ``slope``.

    It joins the pair then; ``slope`` is that of the pair before, the best and the worst labelling of the support.

    Parameters
    ----------
    maps, fixed, i, w
        As for :func:`visit`; read only.
    space : SMOWorkspace
        The first labelling of ``pair`` is replaced, or left as it was.
    slope : float
    labels : ndarray of int32
        The labelling, from its first element on; read only.
    """
    lo, before, loss = fixed.var_ptr[i], space.place, 0.0  # ``place`` is free once the labellings are read back
    size = fixed.var_ptr[i + 1] - lo
    for v in range(size):
        before[v], space.pair[v] = space.pair[v], labels[v]
        states = fixed.state_ptr[lo + v]
        loss += fixed.node_loss[states + space.pair[v]] - fixed.node_loss[states + space.pair[size + v]]
    found = loss + difference_product(maps, space, list_differences(maps, fixed, space, i), w)
    if found > slope:
        return found
    for v in range(size):
        space.pair[v] = before[v]
    return slope


@njit(cache=True, nogil=True)
def visit(
    maps: FlatMaps, trees: Rooted, fixed: Fixed, space: SMOWorkspace, work: Work, mu: F64, i: int, candidate: bool,
    w: F64, free: F64,
) -> tuple[float, float]:  # fmt: skip
    """Take a step on a pair of example i; return (gain of the dual, gap of the example before), times its share.

    With ``candidate`` the pair takes the labelling in ``work.labels`` if it beats the support, and the gap is that to
    it; else all is within the support, the gap too.

    Parameters
    ----------
    maps, trees, fixed : FlatMaps, Rooted, Fixed
        The features, the graphs, and what stays the same while training; read only.
    space, work : SMOWorkspace, Work
        Work space.
    mu : ndarray of float64
        Marginals of all variables, state by state, then of the factors of each group; changed in place for example i.
    i : int
        The example.
    candidate : bool
    w, free : ndarray of float64, shape (dim,)
        The weights, and, for maps with a lower bound, what they would be without it; changed in place.
    """
    if fixed.share[i] == 0.0:
        return 0.0, 0.0
    slope, mean = extremes(maps, trees, fixed, space, mu, i, w)
    if candidate:
        slope = candidate_slope(maps, fixed, space, i, slope, work.labels, w)
    gain = pair_step(maps, trees, fixed, space, work, mu, i, slope, w, free) if slope > NO_SLOPE else 0.0
    return fixed.share[i] * gain, fixed.share[i] * (slope - mean)


@njit(cache=True, nogil=True)
def plain_pass(
    maps: FlatMaps, trees: Rooted, fixed: Fixed, space: SMOWorkspace, work: Work, mu: F64, examples: I64,
    label_ptr: I64, labels: I32, w: F64, free: F64, gap: F64,
) -> float:  # fmt: skip
    """Visit the listed examples; return the gain of the dual, write their gaps.

    Parameters
    ----------
    maps, trees, fixed, space, work, mu, w, free
        As for :func:`visit`; ``mu``, ``w`` and ``free`` are changed.
    examples : ndarray of int64, shape (n_listed,)
    label_ptr, labels : ndarray of int64 and of int32
        What an oracle returned for a batch, packed by ``label_ptr``; with none, all is within the supports.
    gap : ndarray of float64, shape (n,)
        Written for the listed examples.
    """
    maps, trees, fixed, space, work = borrow(maps), borrow(trees), borrow(fixed), borrow(space), borrow(work)
    total, candidate = 0.0, len(labels) > 0
    for j in range(len(examples)):
        if candidate:
            for t in range(label_ptr[j + 1] - label_ptr[j]):
                work.labels[t] = labels[label_ptr[j] + t]
        gained, gap[examples[j]] = visit(maps, trees, fixed, space, work, mu, examples[j], candidate, w, free)
        total += gained
    return total


@njit(cache=True, nogil=True)
def exact_pass(
    oracle: Any, ints: I32, longs: I64, oracle_work: F64, node: F64, pool: F64, maps: FlatMaps, trees: Rooted,
    fixed: Fixed, space: SMOWorkspace, work: Work, mu: F64, examples: I64, w: F64, free: F64, gap: F64,
) -> tuple[float, float]:  # fmt: skip
    """Call a compiled oracle for each listed example at the newest w and take its labelling.

    Returns (gain of the dual, largest relative difference between a score the oracle reported and that of its
    labelling).

    Parameters
    ----------
    oracle, ints, longs, oracle_work, node, pool
        As for :func:`ssvm_trainers.planes.bcfw_kernels.visit_examples`.
    maps, trees, fixed, space, work, mu, examples, w, free, gap
        As for :func:`plain_pass`.
    """
    maps, trees, fixed, space, work = borrow(maps), borrow(trees), borrow(fixed), borrow(space), borrow(work)
    ints, longs, oracle_work, node, pool = borrow(ints), borrow(longs), borrow(oracle_work), borrow(node), borrow(pool)
    total, off, candidate = 0.0, 0.0, np.bool_(True)
    for i in examples:
        lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
        score_example(maps, i, lo, hi, fixed.state_ptr, fixed.bonus, w, work.ones, work.scores, node, pool)
        score = oracle(ints, longs, i, pool, node, work.labels, oracle_work)
        own = labels_score(maps, i, fixed.state_ptr, work.labels, lo, hi, node, pool)
        off = worse(off, score, own)
        if np.isnan(off):
            break
        gained, gap[i] = visit(maps, trees, fixed, space, work, mu, i, candidate, w, free)
        total += gained
    return total, off


@njit(cache=True, nogil=True)
def aggregate(maps: FlatMaps, trees: Rooted, fixed: Fixed, mu: F64, v: F64) -> None:
    """Add ``sum_i share_i (Phi(x_i, y_i) - Phi(x_i) mu_i)`` to v."""
    desc, ints, longs, features, values = borrow(maps)
    truth, mu, v = borrow(fixed.truth), borrow(mu), borrow(v)
    for m in range(len(desc)):
        n, scope = desc[m, N_CONFIGS], desc[m, SCOPE]
        for i in range(len(fixed.share)):
            lo, (first, last) = fixed.var_ptr[i], factors_of(desc, ints, longs, m, i)
            for f in range(first, last):
                true = factor_config(desc, ints, longs, m, f, truth, lo)
                at = trees.base[m] + (longs[desc[m, NUMBER] + i] + f) * n
                if desc[m, POOL] < 0:
                    at = fixed.state_ptr[lo + ints[scope + f]]
                for c in range(n):
                    moved = fixed.share[i] * ((c == true) - mu[at + c])
                    if moved != 0.0:
                        factor_add(desc, ints, longs, features, values, m, i, f, c, moved, v)
