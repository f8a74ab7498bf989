"""Directed trees of a batch of sentences: best ones, and sums over all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.arcs import arc_matrix, choose_arcs
from ssvm_backends.structures.literals import Literals, set_literals, spread_marginals, write_gains
from ssvm_backends.structures.packing import OF_LITERALS, begin_call, end_call, group_arrays, literals_in
from ssvm_backends.structures.spanning_trees.chu_liu_edmonds import best_arborescence
from ssvm_backends.structures.spanning_trees.matrix_tree import sum_arborescences
from ssvm_backends.structures.spanning_trees.projective import best_projective, sum_projective, tree_items
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import SIGNATURE, assign, borrow, cfunc, njit, packed_record


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
def choose_trees(
    projective: bool,
    literals: Literals,
    trees: Trees,
    node: F64,
    ids: I64,
    label_ptr: I64,
    labels: I32,
    feasible: Bools,
) -> None:
    """Write the labels of the best tree of every constraint of some examples.

    Parameters
    ----------
    projective : bool
        Whether trees have to be projective: a constant, so that the one algorithm is compiled.
    literals, trees
        Read only.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (n,)
        The examples.
    label_ptr : ndarray of int64, shape (at least n,)
        Where the labels of each start.
    labels : ndarray of int32
        Written.
    feasible : ndarray of bool, shape (n,)
        Set to false where there is no tree.
    """
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
                set_literals(literals, node, lo, k, chosen, labels[label_ptr[e] :])
            else:
                feasible[e] = False


@njit(cache=True, nogil=True)
def best_trees(
    literals: Literals, trees: Trees, node: F64, ids: I64, label_ptr: I64, labels: I32, feasible: Bools
) -> None:
    """Write the labels of the best trees of some examples.

    Parameters
    ----------
    literals, trees, node, ids, label_ptr, labels, feasible
        As for :func:`choose_trees`.
    """
    literals, trees, node, labels = borrow(literals), borrow(trees), borrow(node), borrow(labels)
    choose_trees(False, literals, trees, node, ids, label_ptr, labels, feasible)


@njit(cache=True, nogil=True)
def best_projective_trees(
    literals: Literals, trees: Trees, node: F64, ids: I64, label_ptr: I64, labels: I32, feasible: Bools
) -> None:
    """Write the labels of the best projective trees of some examples.

    Parameters
    ----------
    literals, trees, node, ids, label_ptr, labels, feasible
        As for :func:`choose_trees`.
    """
    literals, trees, node, labels = borrow(literals), borrow(trees), borrow(node), borrow(labels)
    choose_trees(True, literals, trees, node, ids, label_ptr, labels, feasible)


@njit(cache=True, nogil=True)
def sum_trees(
    literals: Literals, trees: Trees, projective: bool, node: F64, ids: I64, out_ptr: I64, out: F64, log_z: F64
) -> None:
    """Write the marginals of the variables in constraints of some examples; add their log partitions.

    Parameters
    ----------
    literals, trees, node, ids
        As for :func:`choose_trees`.
    projective : bool
        Whether to add up projective trees only.
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
        best_trees(literals, trees, call.node, call.ids, call.ptr, call.labels, call.feasible)
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
        best_projective_trees(literals, trees, call.node, call.ids, call.ptr, call.labels, call.feasible)
    return end_call(call)
