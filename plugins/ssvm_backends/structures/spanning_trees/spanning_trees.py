"""Sessions of directed trees: best ones and marginals; ``arborescence`` and ``eisner`` share them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ssvm_backends.graphs.batch_session import BatchCall, SummedAnswers
from ssvm_backends.structures.literals import (
    Batch,
    Literals,
    add_free_marginals,
    set_literals,
    spread_marginals,
    write_gains,
)
from ssvm_backends.structures.packing import (
    CALL,
    OF_LITERALS,
    begin_call,
    end_call,
    group_arrays,
    literals_in,
    structure_oracle,
)
from ssvm_backends.structures.session import StructureSession, verdict
from ssvm_backends.structures.spanning_trees.chu_liu_edmonds import arc_matrix, best_arborescence, choose_arcs
from ssvm_backends.structures.spanning_trees.projective import best_projective, sum_projective, tree_items
from ssvm_dsl.ir import F64, I32, I64, Bools, Need, Program, Task
from ssvm_dsl.kernels import SIGNATURE, assign, borrow, cfunc, njit, packed_record
from ssvm_dsl.plugin_api import CompiledOracle, Verdict

#: Operations of the best arborescence for each arc.
ARC = 20.0

#: Seconds for each cube of a number of tokens, for its square with best arborescences: single calls of kernels.
BEST_PROJECTIVE, BEST_ARBORESCENCE, SUM_PROJECTIVE, SUM_ARBORESCENCES = 5e-10, 5e-8, 1.4e-8, 1.3e-9


class TreesSession(StructureSession):
    """Trees of one program.

    Parameters
    ----------
    program : Program
    projective : bool
        Which trees.
    """

    def __init__(self, program: Program, projective: bool) -> None:
        super().__init__(program)
        self.projective = projective
        self.trees = [
            Trees(
                group.literal_meta["head"].astype(np.int32), group.literal_meta["dependent"].astype(np.int32),
                group.meta["n"].astype(np.int64), group.meta["single_root"].astype(bool),
            )
            for group in self.groups
        ]  # fmt: skip

    def choose(self, group: int, batch: Batch, excess: F64) -> None:
        """Write the best trees; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        best = best_projective_trees if self.projective else best_trees
        best(self.literals[group], self.trees[group], batch)

    def seconds(self, ids: I64, task: Task) -> F64:
        """Return the expected seconds of each example's trees."""
        if task is Task.MARGINALS:
            return self._sizes(3, ids) * (SUM_PROJECTIVE if self.projective else SUM_ARBORESCENCES)
        return self._sizes(3, ids) * BEST_PROJECTIVE if self.projective else self._sizes(2, ids) * BEST_ARBORESCENCE

    def _sizes(self, power: int, ids: I64) -> F64:
        """Return the sum of a power of the numbers of tokens of each example's trees."""
        total = np.zeros(self.program.n_examples)
        for group, trees in zip(self.groups, self.trees, strict=True):
            np.add.at(total, group.example_of, trees.n.astype(np.float64) ** power)
        return total[ids]

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        n = np.concatenate([np.zeros(0), *(one.n for one in self.trees)]) + 1.0
        share = 1.0 / max(self.program.n_examples, 1)
        if self.projective:
            return structure_oracle(eisner_oracle, self, self.trees, CALL + float((n**3).sum()) * share)

        return structure_oracle(arborescence_oracle, self, self.trees, CALL + ARC * float((n**2).sum()) * share)

    def solve_sum(self, call: BatchCall, sums: SummedAnswers, lo: int, hi: int) -> int:
        """Sum over trees; see :class:`~ssvm_backends.graphs.batch_session.BatchSession`."""

        node, ids, start, out, log_z = call.node, call.ids[lo:hi], sums.start[lo:], sums.node, sums.log_z[lo:hi]
        add_free_marginals(self.places, self.free, node, ids, start, out, log_z)
        for literals, trees in zip(self.literals, self.trees, strict=True):
            sum_trees(literals, trees, self.projective, node, ids, start, out, log_z)
        return hi


# -- ``arborescence``: best directed trees in O(n^2), sums by the matrix-tree theorem in O(n^3) ----------------------
#
# The root has one dependent or several.  Best trees are those of
# :mod:`ssvm_backends.structures.spanning_trees.chu_liu_edmonds`.
#
# From scores to labels, the best trees of a batch take 0.43 (200 words) to 0.57 (5 to 50 words) of the time of bare
# calls of ``ufal.chu_liu_edmonds``, the C++ of TurboParser (``make bench ARGS=trees``).


class ArborescenceBackend:
    """Directed trees over the tokens of sentences: O(n^2) for the best one, O(n^3) for marginals and log Z."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables."""
        return verdict(need, 1e3 + 20.0 * need.max_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> TreesSession:
        """Return a session."""
        return TreesSession(program, projective=False)


# -- ``eisner``: best projective trees and sums over all of them by dynamic programming over spans in O(n^3) ---------
#
# The root has one dependent or several.  The algorithm: :mod:`ssvm_backends.structures.spanning_trees.projective`.


class Eisner:
    """Projective trees over the tokens of sentences (Eisner 1996): O(n^3) for n tokens."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables."""
        return verdict(need, 1e3 + 4.0 * float(need.max_variables) ** 1.5)

    def open(self, program: Program, options: Mapping[str, Any]) -> TreesSession:
        """Return a session."""
        return TreesSession(program, projective=True)


# -- Directed trees of a batch of sentences: best ones, and sums over all of them ------------------------------------


class Trees(NamedTuple):
    """A group of constraints of the kind ``arborescence`` or ``projective-tree``.

    Parameters
    ----------
    head, dependent : ndarray of int32, shape (l,)
        The arc of each literal.
    n : ndarray of int64, shape (m,)
        Number of tokens.
    single_root : ndarray of bool, shape (m,)
        Whether the root has a single dependent.
    """

    head: I32
    dependent: I32
    n: I64
    single_root: Bools


#: How kernels of others read the packed arrays of a :class:`Trees`, and how many there are.
trees_in, N_ARRAYS = packed_record(Trees), len(Trees._fields)


@njit(cache=True, nogil=True)
def largest(literals: Literals, n: I64, ids: I64) -> tuple[int, int]:
    """Return the most tokens, and the most literals, of a constraint of the examples."""
    tokens, most = 0, 0
    for i in ids:
        for k in range(literals.ptr[i], literals.ptr[i + 1]):
            tokens, most = max(tokens, n[k]), max(most, literals.literal_ptr[k + 1] - literals.literal_ptr[k])
    return tokens, most


@njit(cache=True, nogil=True, inline="always")
def choose_trees(projective: bool, literals: Literals, trees: Trees, batch: Batch) -> None:
    """Write the labels of the best tree of every constraint of some examples.

    Parameters
    ----------
    projective : bool
        Whether trees have to be projective: a constant, so that the one algorithm is compiled.
    literals, trees
        Read only.
    batch : Batch
        An example is not feasible where there is no tree.
    """
    literals, trees = borrow(literals), borrow(trees)
    node, ids, ptr, labels, feasible = borrow(batch)
    tokens, most = largest(literals, trees.n, ids)
    gain, chosen, heads = np.empty(most), np.empty(most, dtype=np.bool_), np.empty(tokens + 1, dtype=np.int32)
    matrix, literal = np.empty((tokens + 1) ** 2), np.empty((tokens + 1) ** 2, dtype=np.int32)
    items = tree_items(tokens if projective else 0, False)
    for e in range(len(ids)):
        lo = literals.var_ptr[ids[e]]
        for k in range(literals.ptr[ids[e]], literals.ptr[ids[e] + 1]):
            first, stop, n = literals.literal_ptr[k], literals.literal_ptr[k + 1], trees.n[k]
            write_gains(literals, node, lo, k, False, gain)
            has_tree = arc_matrix(n, trees.head[first:stop], trees.dependent[first:stop], gain, False, matrix, literal)
            if projective:
                has_tree = has_tree and best_projective(n, trees.single_root[k], matrix, items, heads)
            else:
                has_tree = has_tree and best_arborescence(n, trees.single_root[k], matrix, heads)
            if has_tree:
                choose_arcs(n, heads, literal, chosen[: stop - first])
                set_literals(literals, node, lo, k, chosen, labels[ptr[e] :])
            else:
                feasible[e] = False


@njit(cache=True, nogil=True)
def best_trees(literals: Literals, trees: Trees, batch: Batch) -> None:
    """Write the labels of the best trees of some examples; see :func:`choose_trees`."""
    choose_trees(False, literals, trees, batch)


@njit(cache=True, nogil=True)
def best_projective_trees(literals: Literals, trees: Trees, batch: Batch) -> None:
    """Write the labels of the best projective trees of some examples; see :func:`choose_trees`."""
    choose_trees(True, literals, trees, batch)


@njit(cache=True, nogil=True)
def sum_trees(
    literals: Literals, trees: Trees, projective: bool, node: F64, ids: I64, out_ptr: I64, out: F64, log_z: F64
) -> None:
    """Write the marginals of the variables in constraints of some examples; add their log partitions.

    Parameters
    ----------
    literals, trees
        As for :func:`choose_trees`.
    projective : bool
        Whether to add up projective trees only.
    node, ids
        As of :class:`~ssvm_backends.structures.literals.Batch`.
    out_ptr : ndarray of int64, shape (at least n,)
        Where the marginals of each example start.
    out : ndarray of float64
        Written, one number for each state.
    log_z : ndarray of float64, shape (n,)
        Added to; ``-inf`` where there is no tree.
    """
    literals, trees, node, out = borrow(literals), borrow(trees), borrow(node), borrow(out)
    tokens, most = largest(literals, trees.n, ids)
    gain, share = np.empty(most), np.empty(most)
    matrix, literal = np.empty((tokens + 1) ** 2), np.empty((tokens + 1) ** 2, dtype=np.int32)
    items, probability = tree_items(tokens if projective else 0, True), np.empty((tokens + 1) ** 2)
    for e in range(len(ids)):
        lo = literals.var_ptr[ids[e]]
        for k in range(literals.ptr[ids[e]], literals.ptr[ids[e] + 1]):
            first, stop, n = literals.literal_ptr[k], literals.literal_ptr[k + 1], trees.n[k]
            base, total = write_gains(literals, node, lo, k, True, gain), -np.inf
            head, dependent = trees.head[first:stop], trees.dependent[first:stop]
            if arc_matrix(n, head, dependent, gain, True, matrix, literal):
                if projective:
                    total = sum_projective(n, trees.single_root[k], matrix, items)
                    assign(probability[: (n + 1) ** 2], items.outer[(n + 1) ** 2 : 2 * (n + 1) ** 2])
                else:
                    total = sum_arborescences(n, trees.single_root[k], matrix, probability)
            log_z[e] += base + total
            if total == -np.inf:
                continue
            for l in range(stop - first):
                share[l] = 0.0
                if gain[l] > -np.inf:  # literals for one arc share its probability
                    at = head[l] * (n + 1) + dependent[l]
                    share[l] = probability[at] * np.exp(gain[l] - matrix[at])
            spread_marginals(literals, node, lo, k, share, out[out_ptr[e] :])


@cfunc(SIGNATURE)
def arborescence_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    for first in group_arrays(longs, N_ARRAYS):
        trees = trees_in(call.ints, call.longs, first + OF_LITERALS)
        literals = literals_in(call.ints, call.longs, first)
        best_trees(literals, trees, call.batch)
    return end_call(call)


@cfunc(SIGNATURE)
def eisner_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    for first in group_arrays(longs, N_ARRAYS):
        trees = trees_in(call.ints, call.longs, first + OF_LITERALS)
        literals = literals_in(call.ints, call.longs, first)
        best_projective_trees(literals, trees, call.batch)
    return end_call(call)


# --------------------------------------------------------------------------------------------------------------------
# Sums over spanning arborescences by the matrix-tree theorem (Tutte 1984; Koo, Globerson, Carreras and Collins 2007).
#
# With ``A[h, d] = exp(w[h, d])`` between tokens and ``rho[d] = exp(w[0, d])`` from the root, the Laplacian is ``L[d, d]
# = sum_h A[h, d]``, ``L[h, d] = -A[h, d]``.  The sum Z of all trees is the determinant of
#
#     L + diag(rho)                                 several dependents of the root
#     L with its first row replaced by rho          a single one
#
# and with its inverse X the probability of an arc is, in the second case (Koo et al., section 3.2; 1 is the first
# token)::
#
#     p(0 -> d) = rho[d] X[d, 1]
#     p(h -> d) = [d != 1] A[h, d] X[d, d] - [h != 1] A[h, d] X[d, h]
#
# and ``p(0 -> d) = rho[d] X[d, d]``, ``p(h -> d) = A[h, d] (X[d, d] - X[d, h])`` in the first one.  Columns are scaled
# so that their largest entry is 1, which changes neither X A nor, but for a known factor, Z.
#
# These differences lose digits where trees with a cycle for a root would score much more: what is known of the inverse
# is ``cond(L) eps``.  Sentences where ``cond(L) > MAX_CONDITION`` are solved otherwise, in logarithms, with sums of
# positive numbers only.  The trees with h -> d are the forests rooted at 0 and d in which h is in the tree of 0.  The
# weight of all such forests is the product of the pivots of Gaussian elimination without subtractions (Grassmann,
# Taksar and Heyman 1985); the share of those in which h hangs below 0 is the probability that a random walk from h to
# heads meets 0 before d, by substitution backwards.  This takes O(n^3) for each d.  A single dependent of the root is
# enforced by taking ``shift`` off the scores of the root's arcs.  Trees with more of them then weigh less than
# ``exp(-40)`` of those with one: with any head for each token all choices together weigh ``exp(U)``, ``U = sum_d log
# sum_h A[h, d]``, the best single-rooted tree weighs ``exp(S)``, and ``shift = U - S + 40``.

#: Condition number up to which the inverse is used: probabilities are right to about 1e-16 times as much.
MAX_CONDITION = 1e5

#: Trees that a shift rules out weigh less than ``exp(-NEGLIGIBLE)`` of the others.
NEGLIGIBLE = 40.0


@njit(cache=True, nogil=True)
def sum_arborescences(n: int, single: bool, w: F64, probability: F64) -> float:
    """Write the probability of each arc among arborescences; return the log partition (``-inf``: no tree).

    Parameters
    ----------
    n : int
        Number of tokens.
    single : bool
        Whether the root has a single dependent.
    w : ndarray of float64, shape (at least (n + 1)^2,)
        Scores of arcs, row by head, ``-inf`` where there is none.
    probability : ndarray of float64, shape (at least (n + 1)^2,)
        Written, row by head.
    """
    m = n + 1
    probability[: m * m] = 0.0
    if n == 0:
        return 0.0
    copy, heads, best = np.empty(m * m), np.empty(m, dtype=np.int32), 0.0
    assign(copy, w)
    if not best_arborescence(n, single, copy, heads):
        return -np.inf
    for d in range(1, m):
        best += w[heads[d] * m + d]
    top, any_head = np.empty(m), 0.0
    for d in range(1, m):
        top[d] = w[d]
        for h in range(m):
            if h != d:
                top[d] = max(top[d], w[h * m + d])
        total = 0.0
        for h in range(m):
            if h != d:
                total += np.exp(w[h * m + d] - top[d])
        any_head += top[d] + np.log(total)
    log_z = by_inverse(n, single, w, top, probability)
    if np.isnan(log_z):
        shift = max(any_head - best, 0.0) + NEGLIGIBLE if single else 0.0
        log_z = by_forests(n, w, shift, probability) + shift
    return log_z


@njit(cache=True, nogil=True)
def by_inverse(n: int, single: bool, w: F64, top: F64, probability: F64) -> float:
    """Write probabilities by the inverse of the Laplacian; return the log partition, ``nan`` where it is no use.

    Parameters
    ----------
    n, single, w, probability
        As for :func:`sum_arborescences`.
    top : ndarray of float64, shape (n + 1,)
        The best score of an arc to each token.
    """
    m = n + 1
    a, laplacian = np.zeros((m, m)), np.zeros((n, n))
    for d in range(1, m):
        for h in range(m):
            if h != d:
                a[h, d] = np.exp(w[h * m + d] - top[d])
    for d in range(1, m):
        for h in range(1, m):
            if h != d:
                laplacian[h - 1, d - 1] = -a[h, d]
                laplacian[d - 1, d - 1] += a[h, d]
        if not single:
            laplacian[d - 1, d - 1] += a[0, d]
    if single:
        for d in range(1, m):
            laplacian[0, d - 1] = a[0, d]
    norm, x = row_norm(laplacian), np.eye(n)
    log_det = invert(laplacian, x)
    if not norm * row_norm(x) <= MAX_CONDITION:  # true for nan as well
        return np.nan
    for d in range(1, m):
        log_det += top[d]
        for h in range(1, m):
            if h == d:
                continue
            p = 0.0
            if not single or d != 1:
                p += x[d - 1, d - 1]
            if not single or h != 1:
                p -= x[d - 1, h - 1]
            probability[h * m + d] = min(max(a[h, d] * p, 0.0), 1.0)
        p = a[0, d] * x[d - 1, 0 if single else d - 1]
        probability[d] = min(max(p, 0.0), 1.0)
    return log_det


@njit(cache=True, nogil=True)
def row_norm(matrix: F64) -> float:
    """Return the largest sum of absolute values in a row."""
    best = 0.0
    for row in matrix:
        best = max(best, np.abs(row).sum())
    return best


@njit(cache=True, nogil=True)
def invert(matrix: F64, inverse: F64) -> float:
    """Turn ``inverse``, given as the identity, into the inverse of a matrix; return ``log |det|``, ``nan`` if singular.

    Gauss-Jordan elimination with pivots by column; the matrix is destroyed.
    """
    n, log_det = len(matrix), 0.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[pivot, k]):
                pivot = i
        value = matrix[pivot, k]
        if value == 0.0:
            inverse[0, 0] = np.inf
            return np.nan
        log_det += np.log(abs(value))
        for j in range(n):
            if pivot != k:
                matrix[k, j], matrix[pivot, j] = matrix[pivot, j], matrix[k, j]
                inverse[k, j], inverse[pivot, j] = inverse[pivot, j], inverse[k, j]
            matrix[k, j] /= value
            inverse[k, j] /= value
        for i in range(n):
            factor = matrix[i, k]
            if i != k and factor != 0.0:
                for j in range(k, n):
                    matrix[i, j] -= factor * matrix[k, j]
                for j in range(n):
                    inverse[i, j] -= factor * inverse[k, j]
    return log_det


@njit(cache=True, nogil=True)
def add(total: float, term: float) -> float:
    """Return ``log(exp(total) + exp(term))``."""
    if term == -np.inf:
        return total
    return np.logaddexp(total, term)


@njit(cache=True, nogil=True)
def by_forests(n: int, w: F64, shift: float, probability: F64) -> float:
    """Write probabilities by elimination in logarithms for each token; return the log partition.

    Parameters
    ----------
    n, w, probability
        As for :func:`sum_arborescences`.
    shift : float
        Subtracted from the scores of arcs from the root.
    """
    m, log_z = n + 1, -np.inf
    walk, pivots = np.empty(m), np.empty(m)
    for d in range(1, m):
        a = np.full((m, m), -np.inf)
        for v in range(1, m):
            for h in range(m):
                if h != v:
                    a[h, v] = w[h * m + v] - (shift if h == 0 else 0.0)
        forests = eliminate(a, d, pivots)
        walk[:] = -np.inf
        walk[0] = 0.0
        for v in range(m - 1, 0, -1):  # eliminated last, substituted first
            if v != d:
                for u in range(m):
                    if u == 0 or u > v or u == d:
                        walk[v] = add(walk[v], a[u, v] - pivots[v] + walk[u])
        log_z = -np.inf
        for h in range(m):
            log_z = add(log_z, a[h, d] + forests + walk[h])
        whole = 0.0
        for h in range(m):
            probability[h * m + d] = np.exp(a[h, d] + forests + walk[h] - log_z)
            whole += probability[h * m + d]
        for h in range(m):  # large scores absorb the logarithm of a number of trees
            probability[h * m + d] /= whole
    return log_z


@njit(cache=True, nogil=True)
def eliminate(a: F64, d: int, pivots: F64) -> float:
    """Eliminate all tokens but d, in order, from log weights; return the log weight of forests rooted at 0 and d.

    Parameters
    ----------
    a : ndarray of float64, shape (n + 1, n + 1)
        Log weights of arcs, row by head; changed, but for arcs to d.
    d : int
        The token that is a root.
    pivots : ndarray of float64, shape (n + 1,)
        Written: log weight of all arcs to each token when it is eliminated.
    """
    m, total = len(a), 0.0
    for e in range(1, m):
        if e == d:
            continue
        pivots[e] = -np.inf
        for u in range(m):
            if u == 0 or u > e or u == d:
                pivots[e] = add(pivots[e], a[u, e])
        total += pivots[e]
        if pivots[e] == -np.inf:
            return -np.inf
        for v in range(e + 1, m):
            if v != d and a[e, v] > -np.inf:
                for u in range(m):
                    if u != v and (u == 0 or u > e or u == d):
                        a[u, v] = add(a[u, v], a[u, e] + a[e, v] - pivots[e])
    return total
