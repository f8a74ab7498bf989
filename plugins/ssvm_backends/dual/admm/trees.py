"""Directed trees as factors of AD3: the nearest mixture of trees to a point, and their term of the dual bound.

By their rows, trees are flows, and steps that look at one row at a time take thousands to agree on one.  A tree as a
whole is easy to find, so a factor holds all literals of one constraint, and its polytope is that of the trees
themselves, which is smaller than that of the rows.  Its subproblem

    min  1/2 |z - c|^2     over  z = sum_t weight_t tree_t,  weights a distribution

is solved by active sets as for tables (:mod:`ssvm_backends.dual.admm.factor`; Martins et al. 2015, section 5.3).  The
optimum on a set of trees is a linear system whose matrix counts the arcs that two trees share.  A tree whose weight
would become negative leaves, otherwise the best tree at the slope ``c - z`` enters (Wolfe 1976).  It starts from the
last set.  To the dual bound a factor adds ``max -message . z``, which is the score of a best tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.admm.program_trees import FALSE, TRUE, TreeFactors, TreeSets
from ssvm_backends.structures.spanning_trees.chu_liu_edmonds import arc_matrix, best_arborescence
from ssvm_backends.structures.spanning_trees.projective import best_projective, tree_items
from ssvm_dsl.ir import F64, I32, Bools
from ssvm_dsl.kernels import njit

#: Steps of one solve, and of the first one, whose point is far from the final ones; more follow in the next iteration.
MAX_STEPS, FIRST_STEPS = 20, 4

#: A tree of smaller pivot is a combination of those in the set.
DEPENDENT = 1e-8


class TreeTask(NamedTuple):
    """The subproblem of one tree, and work space.

    Parameters
    ----------
    trees : TreeFactors
        Read only.
    sets : TreeSets
        The one of the tree is changed.
    t : int
        The tree.
    score : ndarray of float64, shape (literals,)
        The point of each literal.
    share : ndarray of float64, shape (literals,)
        z of each literal.
    gram : ndarray of float64, shape (trees, trees)
        The lower Cholesky factor of the matrix of a set.
    half, ones, weight : ndarray of float64, shape (trees,)
        Solutions with that factor for scores and for ones, and the weights that are best on the set.
    """

    trees: TreeFactors
    sets: TreeSets
    t: int
    score: F64
    share: F64
    gram: F64
    half: F64
    ones: F64
    weight: F64


@njit(cache=True, nogil=True)
def best_tree(trees: TreeFactors, t: int, gain: F64, chosen: I32) -> float:
    """Write the literals of the best tree; return its score without those that are decided, ``-inf`` where none is.

    Parameters
    ----------
    trees : TreeFactors
    t : int
    gain : ndarray of float64, shape (literals,)
        Of each literal that is an entry; changed.
    chosen : ndarray of int32, shape (at least n + 1,)
        Written from place 1 on.
    """
    first, stop, n = trees.ptr[t], trees.ptr[t + 1], trees.n[t]
    m = n + 1
    matrix, literal = np.empty(m * m), np.empty(m * m, dtype=np.int32)
    for l in range(first, stop):
        if trees.entry[l] == TRUE:
            gain[l - first] = np.inf
        elif trees.entry[l] == FALSE:
            gain[l - first] = -np.inf
    if not arc_matrix(n, trees.head[first:stop], trees.dependent[first:stop], gain, False, matrix, literal):
        return -np.inf
    if trees.projective[t]:
        has_tree = best_projective(n, trees.single[t], matrix, tree_items(n, False), chosen)
    else:
        has_tree = best_arborescence(n, trees.single[t], matrix, chosen)
    if not has_tree:
        return -np.inf
    total = 0.0
    for d in range(1, m):
        chosen[d] = literal[chosen[d] * m + d]
        total += gain[chosen[d]]
    return total


@njit(cache=True, nogil=True)
def trees_exist(trees: TreeFactors) -> Bools:
    """Return for each tree whether there is one with the literals that are decided."""
    out = np.empty(len(trees.n), dtype=np.bool_)
    for t in range(len(trees.n)):
        gain, chosen = np.zeros(trees.ptr[t + 1] - trees.ptr[t]), np.empty(trees.n[t] + 1, dtype=np.int32)
        out[t] = best_tree(trees, t, gain, chosen) > -np.inf
    return out


@njit(cache=True, nogil=True)
def decided(trees: TreeFactors, t: int) -> int:
    """Return how many literals of a tree are true whatever else is."""
    total = 0
    for l in range(trees.ptr[t], trees.ptr[t + 1]):
        total += trees.entry[l] == TRUE
    return total


@njit(cache=True, nogil=True)
def project_tree(task: TreeTask) -> None:
    """Write the nearest mixture of trees to ``task.score`` to ``task.share``, or one nearer than the last one."""
    trees, sets, t, share = task.trees, task.sets, task.t, task.share
    first, n, at, to = trees.ptr[t], trees.n[t], trees.set_ptr[t], trees.place_ptr[t]
    m, size, count = n + 1, trees.ptr[t + 1] - first, sets.size[t]
    gain, chosen, always = np.empty(size), np.empty(m, dtype=np.int32), decided(trees, t)
    steps = MAX_STEPS if count else FIRST_STEPS
    if count == 0:
        for l in range(size):
            gain[l] = task.score[l]
        best_tree(trees, t, gain, chosen)
        for d in range(1, m):
            sets.literal[to + d] = chosen[d]
        sets.weight[at], count = 1.0, 1
    factored = 0
    for _ in range(steps):
        level = optimum_on(task, factored, count)
        factored = count
        step, leaving = 1.0, -1  # as far towards the optimum on the set as weights stay positive
        for i in range(count):
            old = sets.weight[at + i]
            if task.weight[i] < 0.0 and old < step * (old - task.weight[i]):
                step, leaving = old / (old - task.weight[i]), i
        for i in range(count):
            old = sets.weight[at + i]
            sets.weight[at + i] = max(0.0, old + step * (task.weight[i] - old))
        if leaving >= 0:
            count, factored = leave(sets, at, to, m, count, leaving), leaving
            continue
        write_share(task, count)
        for l in range(size):
            gain[l] = task.score[l] - share[l]
        # trees of the set have the slope level at the optimum: a larger one would lower the distance
        value = best_tree(trees, t, gain, chosen) - always
        known = value <= level + 1e-10 * (1.0 + abs(level))
        for i in range(count):
            known |= shared_arcs(sets.literal, to + i * m, chosen, n) == n
        if known:
            break
        count, factored = enter(task, chosen, count)
    sets.size[t] = count
    write_share(task, count)


@njit(cache=True, nogil=True)
def shared_arcs(literal: I32, to: int, other: I32, n: int) -> float:
    """Return how many tokens have the same literal in a tree of a set and in another tree."""
    total = 0.0
    for d in range(1, n + 1):
        total += literal[to + d] == other[d]
    return total


@njit(cache=True, nogil=True)
def optimum_on(task: TreeTask, factored: int, count: int) -> float:
    """Write the weights that are best on a set, negative ones allowed; return the multiplier of their sum.

    Parameters
    ----------
    task : TreeTask
        ``gram``, ``half`` and ``ones`` are continued, ``weight`` is written.
    factored : int
        How many rows of the Cholesky factor are known.
    count : int
        How many trees the set has.
    """
    trees, literal, t, gram, half, ones = task.trees, task.sets.literal, task.t, task.gram, task.half, task.ones
    n, to, first = trees.n[t], trees.place_ptr[t], trees.ptr[t]
    m = n + 1
    for i in range(factored, count):
        mine = literal[to + i * m : to + (i + 1) * m]
        score, ones_sum = 0.0, 1.0
        for d in range(1, m):
            if trees.entry[first + mine[d]] >= 0:
                score += task.score[mine[d]]
        for j in range(i + 1):
            x = shared_arcs(literal, to + j * m, mine, n)
            for k in range(j):
                x -= gram[i, k] * gram[j, k]
            gram[i, j] = np.sqrt(max(x, 1e-12)) if i == j else x / gram[j, j]
        for k in range(i):
            score -= gram[i, k] * half[k]
            ones_sum -= gram[i, k] * ones[k]
        half[i], ones[i] = score / gram[i, i], ones_sum / gram[i, i]
    above, below = -1.0, 0.0
    for i in range(count):
        above += half[i] * ones[i]
        below += ones[i] * ones[i]
    level = above / below
    for i in range(count - 1, -1, -1):
        x = half[i] - level * ones[i]
        for k in range(i + 1, count):
            x -= gram[k, i] * task.weight[k]
        task.weight[i] = x / gram[i, i]
    if count == 1:
        task.weight[0] = 1.0  # whatever rounding made of it
    return level


@njit(cache=True, nogil=True)
def leave(sets: TreeSets, at: int, to: int, m: int, count: int, i: int) -> int:
    """Take the i-th tree out of a set; return how many are left.

    Parameters
    ----------
    sets : TreeSets
        Changed in place.
    at, to : int
        Where the weights of the set and the literals of its trees start.
    m : int
        Tokens of a tree, the root included.
    count : int
        How many trees there are.
    i : int
    """
    for k in range(i, count - 1):
        sets.weight[at + k] = sets.weight[at + k + 1]
        for d in range(m):
            sets.literal[to + k * m + d] = sets.literal[to + (k + 1) * m + d]
    return count - 1


@njit(cache=True, nogil=True)
def enter(task: TreeTask, chosen: I32, count: int) -> tuple[int, int]:
    """Let a tree enter a set, in exchange for another one where it depends on the set; return (count, rows factored).

    Parameters
    ----------
    task : TreeTask
        ``gram`` is that of the set.
    chosen : ndarray of int32, shape (n + 1,)
        The literals of the tree, which is not in the set.
    count : int
        How many trees the set has.
    """
    trees, sets, t, gram, part = task.trees, task.sets, task.t, task.gram, task.weight
    n, at, to, limit = trees.n[t], trees.set_ptr[t], trees.place_ptr[t], trees.set_ptr[t + 1] - trees.set_ptr[t]
    m, pivot = n + 1, float(n)
    for i in range(count):
        x = shared_arcs(sets.literal, to + i * m, chosen, n)
        for k in range(i):
            x -= gram[i, k] * part[k]
        part[i] = x / gram[i, i]
        pivot -= part[i] * part[i]
    place, weight, factored = count, 0.0, count
    if pivot <= DEPENDENT or count == limit:
        # weight moves to it from those that it is a combination of, which changes no share (in a full set, it may)
        weight, place = np.inf, -1
        for i in range(count - 1, -1, -1):
            for k in range(i + 1, count):
                part[i] -= gram[k, i] * part[k]
            part[i] /= gram[i, i]
            if part[i] > DEPENDENT and sets.weight[at + i] < weight * part[i]:
                weight, place = sets.weight[at + i] / part[i], i
        if place < 0:
            return count, count
        total = weight
        for i in range(count):
            sets.weight[at + i] = max(0.0, sets.weight[at + i] - weight * part[i]) if i != place else 0.0
            total += sets.weight[at + i]
        if not total > 0.0:  # rounding took all of it
            count, place, weight, total = 1, 0, 1.0, 1.0
        for i in range(count):
            sets.weight[at + i] /= total
        weight, factored = weight / total, place
    else:
        count += 1
    sets.weight[at + place] = weight
    for d in range(1, m):
        sets.literal[to + place * m + d] = chosen[d]
    return count, factored


@njit(cache=True, nogil=True)
def write_share(task: TreeTask, count: int) -> None:
    """Write z of each literal, ``sum_t weight_t tree_t``."""
    trees, sets, t, share = task.trees, task.sets, task.t, task.share
    n, at, to = trees.n[t], trees.set_ptr[t], trees.place_ptr[t]
    share[: trees.ptr[t + 1] - trees.ptr[t]] = 0.0
    for i in range(count):
        for d in range(1, n + 1):
            share[sets.literal[to + i * (n + 1) + d]] += sets.weight[at + i]


@njit(cache=True, nogil=True)
def solve_tree(r: int, coefficient: F64, trees: TreeFactors, sets: TreeSets, point: F64, copy: F64) -> None:
    """Write the nearest mixture of trees to the point of a row, see :func:`project_tree`.

    Parameters
    ----------
    r : int
        A row that is a tree.
    coefficient : ndarray of float64, shape (E,)
        1 for entries that are literals, -1 for their opposites.
    trees : TreeFactors
    sets : TreeSets
        The one of the tree is changed.
    point : ndarray of float64, shape (E,)
        Read only.
    copy : ndarray of float64, shape (E,)
        The entries of the row are written.
    """
    t = trees.of_row[r]
    first, size, most = trees.ptr[t], trees.ptr[t + 1] - trees.ptr[t], trees.set_ptr[t + 1] - trees.set_ptr[t]
    score, share = np.zeros(size), np.empty(size)
    for l in range(size):
        j = trees.entry[first + l]
        if j >= 0:
            score[l] = point[j] if coefficient[j] > 0.0 else 1.0 - point[j]
    project_tree(
        TreeTask(trees, sets, t, score, share, np.empty((most, most)), np.empty(most), np.empty(most), np.empty(most))
    )
    for l in range(size):
        j = trees.entry[first + l]
        if j >= 0:
            copy[j] = share[l] if coefficient[j] > 0.0 else 1.0 - share[l]


@njit(cache=True, nogil=True)
def tree_bound(r: int, coefficient: F64, trees: TreeFactors, message: F64) -> tuple[float, float]:
    """Return the most that ``-message . z`` is at a tree, and the sum of the sizes of its terms.

    Parameters
    ----------
    r, coefficient, trees
        As for :func:`solve_tree`.
    message : ndarray of float64, shape (E,)
    """
    t, total, terms = trees.of_row[r], 0.0, 0.0
    first, size = trees.ptr[t], trees.ptr[t + 1] - trees.ptr[t]
    gain, chosen = np.zeros(size), np.empty(trees.n[t] + 1, dtype=np.int32)
    for l in range(size):
        j = trees.entry[first + l]
        if j >= 0:
            gain[l] = -message[j] if coefficient[j] > 0.0 else message[j]
            total -= 0.0 if coefficient[j] > 0.0 else message[j]
            terms += abs(message[j])
    return total + best_tree(trees, t, gain, chosen), 2.0 * terms
