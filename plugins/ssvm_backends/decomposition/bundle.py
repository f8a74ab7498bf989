r"""The dual of a decomposition, lowered by a proximal bundle method with block coordinates.

A problem is a sum of parts that have oracles, ``score(y) = sum_k f_k(y)``.  For any prices ``lam_k``, one number for
each state, that sum to zero over the parts that have the variable::

    L(lam) = sum_k max_y [ f_k(y) + <lam_k, x(y)> ]   >=   max_y score(y),        x(y) the indicators of the states

because the maximum of a sum is at most the sum of the maxima.  Its least value over lam is the best score over the
intersection of the convex hulls of the parts' labellings.  Each part keeps some labellings that its oracle returned
(planes of L); the method minimises L of these planes plus ``|lam - center|^2 / (2 step)``.  Its dual is a
quadratic program over convex combinations of each part's planes, with ``nu_k`` for the combination of the indicators
and ``mean`` for their average over the parts that have a variable::

    lam_k = center_k - step (nu_k - mean)

It is solved part by part by pairwise Frank-Wolfe steps, from the worst plane in use to the best one, with exact line
searches.  Then all oracles are called at lam; where L falls by a tenth of the fall that planes predict, lam becomes the
center.

Sources: Swoboda and Kolmogorov, MAP inference via block-coordinate Frank-Wolfe algorithm (CVPR 2019): the dual, the
block coordinates; Lemarechal, Nemirovskii and Nesterov (1995): centers; Lacoste-Julien and Jaggi (2015): pairwise
steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import assign, borrow, njit

#: Passes over the parts between two calls of the oracles, and the share of the first pass's gain at which they end.
PASSES, SMALL = 10, 1e-2

#: Planes without weight for so many choices of prices in a row are forgotten.
MOST_IDLE = 4


class PriceBundle(NamedTuple):
    """The state of the method for B examples with V variables and S states in all, K parts and P planes of each.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (B + 1,)
    state_ptr : ndarray of int64, shape (V + 1,)
    member : ndarray of bool, shape (K, V)
        Which variables are in a part.
    n_members : ndarray of int64, shape (V,)
        How many parts have a variable; one at least.
    center, trial : ndarray of float64, shape (K, S)
        Prices with the lowest bound so far, and where the oracles are asked next; 0 where a part lacks the variable.
    nu : ndarray of float64, shape (K, S)
        Convex combination of the indicators of each part's planes.
    mean : ndarray of float64, shape (S,)
        Its average over the parts that have the variable.
    labels : ndarray of int32, shape (K, P, V)
        Planes: labellings of a part.
    height : ndarray of float64, shape (K, P, B)
        Their scores without prices.
    weight : ndarray of float64, shape (K, P, B)
        Of each plane in the combination; they sum to one.
    idle : ndarray of int64, shape (K, P, B)
        For how many choices of prices in a row it had no weight.
    size : ndarray of int64, shape (K, B)
        Number of planes.
    """

    var_ptr: I64
    state_ptr: I64
    member: Bools
    n_members: I64
    center: F64
    trial: F64
    nu: F64
    mean: F64
    labels: I32
    height: F64
    weight: F64
    idle: I64
    size: I64


def new_bundle(var_ptr: I64, state_ptr: I64, member: Bools, n_planes: int) -> PriceBundle:
    """Return a bundle without planes, with room for so many of each part, all prices zero."""
    n_parts, n_examples, n_states = len(member), len(var_ptr) - 1, int(state_ptr[-1])
    planes = (n_parts, n_planes, n_examples)
    return PriceBundle(
        var_ptr, state_ptr, member, member.sum(axis=0), np.zeros((n_parts, n_states)), np.zeros((n_parts, n_states)),
        np.zeros((n_parts, n_states)), np.zeros(n_states), np.zeros((n_parts, n_planes, member.shape[1]), np.int32),
        np.zeros(planes), np.zeros(planes), np.zeros(planes, dtype=np.int64),
        np.zeros((n_parts, n_examples), dtype=np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def clear(bundle: PriceBundle, ids: I64) -> None:
    """Forget the planes of some examples; prices stay, and the center is where the oracles are asked next."""
    b = borrow(bundle)
    for i in ids:
        first, stop = b.state_ptr[b.var_ptr[i]], b.state_ptr[b.var_ptr[i + 1]]
        b.mean[first:stop] = 0.0
        for k in range(len(b.member)):
            b.size[k, i] = 0
            b.nu[k, first:stop] = 0.0
            assign(b.trial[k, first:stop], b.center[k, first:])


@njit(cache=True, nogil=True)
def write_scores(bundle: PriceBundle, k: int, node: F64, ids: I64, scores: F64, size: F64) -> None:
    """Write the unary scores of part k at the trial prices: a share of the variable's own, and the price.

    Parameters
    ----------
    bundle : Bundle
        Read only.
    k : int
        The part.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (n,)
        The examples.
    scores : ndarray of float64, shape (S,)
        Written; zero where the part lacks the variable.
    size : ndarray of float64, shape (n,)
        The largest absolute scores of the variables are added to it.
    """
    b = borrow(bundle)
    for e in range(len(ids)):
        for v in range(b.var_ptr[ids[e]], b.var_ptr[ids[e] + 1]):
            largest = 0.0
            for s in range(b.state_ptr[v], b.state_ptr[v + 1]):
                scores[s] = node[s] / b.n_members[v] + b.trial[k, s] if b.member[k, v] else 0.0
                if scores[s] > -np.inf:
                    largest = max(largest, abs(scores[s]))
            size[e] += largest


@njit(cache=True, nogil=True)
def price_of(bundle: PriceBundle, k: int, i: int, labels: I32, prices: F64) -> float:
    """Return the price of a labelling for part k of example i.

    Parameters
    ----------
    bundle : Bundle
    k, i : int
    labels : ndarray of int32
        Of the example's variables.
    prices : ndarray of float64, shape (S,)
    """
    total, lo = 0.0, bundle.var_ptr[i]
    for v in range(lo, bundle.var_ptr[i + 1]):
        if bundle.member[k, v]:
            total += prices[bundle.state_ptr[v] + labels[v - lo]]
    return total


@njit(cache=True, nogil=True)
def place_for(bundle: PriceBundle, k: int, i: int, labels: I32) -> int:
    """Return where a plane goes: where it is, an empty place, or that of the plane of least weight."""
    lo, least = bundle.var_ptr[i], 0
    for p in range(bundle.size[k, i]):
        same = True
        for v in range(lo, bundle.var_ptr[i + 1]):
            if bundle.member[k, v] and bundle.labels[k, p, v] != labels[v - lo]:
                same = False
                break
        if same:
            return p
        if bundle.weight[k, p, i] < bundle.weight[k, least, i]:
            least = p
    if bundle.size[k, i] < bundle.labels.shape[1]:
        bundle.size[k, i] += 1
        bundle.weight[k, bundle.size[k, i] - 1, i] = 0.0
        return bundle.size[k, i] - 1
    return least


@njit(cache=True, nogil=True)
def shift_weight(bundle: PriceBundle, k: int, i: int, old: I32, new: I32, amount: float) -> None:
    """Move weight in the combination from one labelling of part k to another."""
    lo = bundle.var_ptr[i]
    for v in range(lo, bundle.var_ptr[i + 1]):
        if bundle.member[k, v] and old[v - lo] != new[v - lo]:
            first = bundle.state_ptr[v]
            bundle.nu[k, first + old[v - lo]] -= amount
            bundle.nu[k, first + new[v - lo]] += amount
            bundle.mean[first + old[v - lo]] -= amount / bundle.n_members[v]
            bundle.mean[first + new[v - lo]] += amount / bundle.n_members[v]


@njit(cache=True, nogil=True)
def add_planes(bundle: PriceBundle, k: int, ids: I64, label_ptr: I64, labels: I32, score: F64) -> None:
    """Take the labellings that the oracle of part k returned at the trial prices in as planes.

    The first plane of an example gets all weight.  One that takes the place of another in use gets its weight.

    Parameters
    ----------
    bundle : Bundle
        Planes, combination and mean are written.
    k : int
        The part.
    ids : ndarray of int64, shape (n,)
        The examples.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each start.
    labels : ndarray of int32
    score : ndarray of float64, shape (n,)
        With prices.
    """
    b = borrow(bundle)
    for e in range(len(ids)):
        i, mine = ids[e], labels[label_ptr[e] : label_ptr[e + 1]]
        lo, hi = b.var_ptr[i], b.var_ptr[i + 1]
        first = b.size[k, i] == 0
        p = place_for(b, k, i, mine)
        if first:
            b.weight[k, p, i] = 1.0
            for v in range(lo, hi):
                if b.member[k, v]:
                    b.nu[k, b.state_ptr[v] + mine[v - lo]] = 1.0
                    b.mean[b.state_ptr[v] + mine[v - lo]] += 1.0 / b.n_members[v]
        elif b.weight[k, p, i] > 0.0:
            shift_weight(b, k, i, b.labels[k, p, lo:hi], mine, b.weight[k, p, i])
        b.labels[k, p, lo:hi], b.idle[k, p, i] = mine, 0
        b.height[k, p, i] = score[e] - price_of(b, k, i, mine, b.trial[k])


@njit(cache=True, nogil=True)
def pairwise_step(bundle: PriceBundle, k: int, i: int, step: float, prices: F64, value: F64) -> float:
    """Move weight from the worst plane in use to the best one of part k; return by how much that is better.

    Parameters
    ----------
    bundle : Bundle
    k, i : int
        Subproblem and example.
    step : float
    prices : ndarray of float64, shape (S,)
        Work space.
    value : ndarray of float64, shape (P,)
        Work space.
    """
    b, lo, hi = bundle, bundle.var_ptr[i], bundle.var_ptr[i + 1]
    for s in range(b.state_ptr[lo], b.state_ptr[hi]):
        prices[s] = b.center[k, s] - step * (b.nu[k, s] - b.mean[s])
    best, worst = 0, -1
    for p in range(b.size[k, i]):
        value[p] = b.height[k, p, i] + price_of(b, k, i, b.labels[k, p, lo:hi], prices)
        if value[p] > value[best]:
            best = p
        if b.weight[k, p, i] > 0.0 and (worst < 0 or value[p] < value[worst]):
            worst = p
    gain = value[best] - value[worst]
    if gain <= 0.0:
        return 0.0
    old, new, curvature = b.labels[k, worst, lo:hi], b.labels[k, best, lo:hi], 0.0
    for v in range(lo, hi):
        if b.member[k, v] and old[v - lo] != new[v - lo]:
            curvature += 2.0 * step * (1.0 - 1.0 / b.n_members[v])
    amount = b.weight[k, worst, i]
    if curvature * amount > gain:
        amount = gain / curvature
        b.weight[k, worst, i] -= amount
    else:
        b.weight[k, worst, i] = 0.0  # deliberately not by subtraction: it is out of use
    b.weight[k, best, i] += amount
    shift_weight(b, k, i, old, new, amount)
    return amount * gain


@njit(cache=True, nogil=True)
def forget_idle(bundle: PriceBundle, k: int, i: int) -> None:
    """Take the planes of part k that have long been without weight out; the last ones take their places."""
    lo, hi = bundle.var_ptr[i], bundle.var_ptr[i + 1]
    for p in range(bundle.size[k, i] - 1, -1, -1):
        bundle.idle[k, p, i] = 0 if bundle.weight[k, p, i] > 0.0 else bundle.idle[k, p, i] + 1
        if bundle.idle[k, p, i] > MOST_IDLE:
            last = bundle.size[k, i] - 1
            assign(bundle.labels[k, p, lo:hi], bundle.labels[k, last, lo:])
            bundle.height[k, p, i], bundle.weight[k, p, i] = bundle.height[k, last, i], bundle.weight[k, last, i]
            bundle.idle[k, p, i] = bundle.idle[k, last, i]
            bundle.size[k, i] = last


@njit(cache=True, nogil=True)
def choose_prices(bundle: PriceBundle, ids: I64, step: F64, model: F64, apart: F64) -> None:
    """Write the trial prices: the minimum of the planes of each example and the proximal term.

    Parameters
    ----------
    bundle : Bundle
        Combination, mean and trial prices are written.
    ids : ndarray of int64, shape (n,)
        The examples; all their parts have planes.
    step : ndarray of float64, shape (n,)
        Of the proximal terms.
    model : ndarray of float64, shape (n,)
        Written: the value of the combination of planes at the trial prices, below which the bound cannot fall there.
    apart : ndarray of float64, shape (n,)
        Written: ``sum_k |nu_k - mean|^2``, 0 where the parts agree.
    """
    b = borrow(bundle)
    prices, value = np.empty(len(b.mean)), np.empty(b.labels.shape[1])
    for e in range(len(ids)):
        i, most = ids[e], 0.0
        for _ in range(PASSES):
            gained = 0.0
            for k in range(len(b.member)):
                gained += pairwise_step(b, k, i, step[e], prices, value)
            most = max(most, gained)
            if gained <= SMALL * most:
                break
        model[e], apart[e] = 0.0, 0.0
        for k in range(len(b.member)):
            forget_idle(b, k, i)
            for p in range(b.size[k, i]):
                model[e] += b.weight[k, p, i] * b.height[k, p, i]
        for v in range(b.var_ptr[i], b.var_ptr[i + 1]):
            for s in range(b.state_ptr[v], b.state_ptr[v + 1]):
                total = 0.0
                for k in range(len(b.member)):
                    if b.member[k, v]:
                        b.trial[k, s] = b.center[k, s] - step[e] * (b.nu[k, s] - b.mean[s])
                        apart[e] += (b.nu[k, s] - b.mean[s]) ** 2
                        total += b.trial[k, s]
                for k in range(len(b.member)):
                    if b.member[k, v]:  # so that rounding does not add up from step to step
                        b.trial[k, s] -= total / b.n_members[v]
                        model[e] += b.trial[k, s] * b.nu[k, s]


@njit(cache=True, nogil=True)
def move_center(bundle: PriceBundle, ids: I64) -> None:
    """Make the trial prices of some examples their centers."""
    b = borrow(bundle)
    for i in ids:
        first, stop = b.state_ptr[b.var_ptr[i]], b.state_ptr[b.var_ptr[i + 1]]
        for k in range(len(b.member)):
            assign(b.center[k, first:stop], b.trial[k, first:])
