"""Literals of structural constraints, and the gain of making one true.

A literal says that a variable has a state, or that it has not.  Where every variable is in one literal at most and
there are no factors, an example's best labelling is found constraint by constraint: with ``on`` and ``off`` for the
best scores of a variable's states that make its literal true and false::

    max_y score(y) = sum_v off_v + max over allowed sets A of literals of sum_{l in A} gain_l,    gain_l = on_l - off_l

``-inf`` as a gain rules a literal out, ``+inf`` says that it has to be true (masks and clamps do that), ``nan`` that
its variable has no state at all.  For log partitions ``on`` and ``off`` are sums of exponentials instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit


class Literals(NamedTuple):
    """The constraints of one group, and where its variables are.

    Parameters
    ----------
    var_ptr, state_ptr : ndarray of int64
        As of :class:`~ssvm_dsl.ir.Program`.
    ptr, literal_ptr : ndarray of int64
        As of :class:`~ssvm_dsl.ir.ConstraintGroup`.
    variable, state : ndarray of int32
        Likewise; variables are counted from the example's first one.
    negated : ndarray of bool
        Likewise.
    """

    var_ptr: I64
    state_ptr: I64
    ptr: I64
    literal_ptr: I64
    variable: I32
    state: I32
    negated: Bools


class Batch(NamedTuple):
    """Some examples, and where kernels write their best labels.

    Parameters
    ----------
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (n,)
        The examples.
    ptr : ndarray of int64, shape (at least n,)
        Where the labels of each start.
    labels : ndarray of int32
        Written.
    feasible : ndarray of bool, shape (n,)
        Set to false where nothing satisfies a constraint, or a variable has no state.
    """

    node: F64
    ids: I64
    ptr: I64
    labels: I32
    feasible: Bools


@njit(cache=True, nogil=True)
def best_of(node: F64, first: int, stop: int, skipped: int) -> int:
    """Return the best of the states ``first:stop`` other than ``skipped``, -1 where all scores are ``-inf``."""
    best, score = -1, -np.inf
    for s in range(first, stop):
        if s != skipped and node[s] > score:
            best, score = s, node[s]
    return best


@njit(cache=True, nogil=True)
def log_sum_of(node: F64, first: int, stop: int, skipped: int) -> float:
    """Return ``log sum exp`` of the scores of the states ``first:stop`` other than ``skipped``."""
    best = best_of(node, first, stop, skipped)
    if best < 0:
        return -np.inf
    total = 0.0
    for s in range(first, stop):
        if s != skipped:
            total += np.exp(node[s] - node[best])
    return node[best] + np.log(total)


@njit(cache=True, nogil=True)
def other_states(node: F64, first: int, stop: int, skipped: int, soft: bool) -> float:
    """Return the best score of the states ``first:stop`` other than ``skipped``, or their log sum if ``soft``."""
    if soft:
        return log_sum_of(node, first, stop, skipped)
    best = best_of(node, first, stop, skipped)
    return node[best] if best >= 0 else -np.inf


@njit(cache=True, nogil=True, inline="always")
def on_and_off(literals: Literals, node: F64, lo: int, l: int, soft: bool) -> tuple[float, float]:
    """Return the best scores of the variable of literal l that make it true and false (or their log sums).

    Parameters
    ----------
    literals : Literals
        Read only.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    lo : int
        The first variable of the example.
    l : int
        The literal.
    soft : bool
        Whether to sum exponentials instead of taking the best.
    """
    v = lo + literals.variable[l]
    first, stop = literals.state_ptr[v], literals.state_ptr[v + 1]
    named = first + literals.state[l]
    # two states are the usual case: worth not to call for
    other = node[2 * first + 1 - named] if stop - first == 2 else other_states(node, first, stop, named, soft)
    return (other, node[named]) if literals.negated[l] else (node[named], other)


@njit(cache=True, nogil=True)
def write_gains(literals: Literals, node: F64, lo: int, k: int, soft: bool, gain: F64) -> float:
    """Write the gain of each literal of constraint k; return the score of its variables when no literal holds.

    For required literals the returned score includes ``on``, as they hold in any case.

    Parameters
    ----------
    literals, node, lo, soft
        As for :func:`on_and_off`.
    k : int
        The constraint.
    gain : ndarray of float64, shape (at least its number of literals,)
        Written.
    """
    start, total = literals.literal_ptr[k], 0.0
    for l in range(start, literals.literal_ptr[k + 1]):
        on, off = on_and_off(literals, node, lo, l, soft)
        gain[l - start] = on - off  # nan where both are -inf
        total += off if off > -np.inf else on
    return total


@njit(cache=True, nogil=True)
def set_literals(literals: Literals, node: F64, lo: int, k: int, chosen: Bools, labels: I32) -> None:
    """Write the best states of the variables of constraint k, given which of its literals are true.

    Parameters
    ----------
    literals, node, lo, k
        As for :func:`write_gains`.
    chosen : ndarray of bool, shape (at least its number of literals,)
    labels : ndarray of int32
        The labels of the example; written where a literal says something.
    """
    start = literals.literal_ptr[k]
    for l in range(start, literals.literal_ptr[k + 1]):
        v = literals.variable[l]
        first, stop = literals.state_ptr[lo + v], literals.state_ptr[lo + v + 1]
        if chosen[l - start] != literals.negated[l]:
            labels[v] = literals.state[l]
        elif stop - first == 2:
            labels[v] = 1 - literals.state[l]
        else:
            labels[v] = best_of(node, first, stop, first + literals.state[l]) - first


@njit(cache=True, nogil=True)
def best_states(program: Literals, free: Bools, batch: Batch) -> None:
    """Write the best state of every variable that is in no constraint, 0 where it has none; and ``feasible``.

    Parameters
    ----------
    program, free
        As for :func:`add_free_marginals`.
    batch : Batch
    """
    program = borrow(program)
    node, ids, ptr, labels, feasible = borrow(batch)
    for i in range(len(ids)):
        lo, feasible[i] = program.var_ptr[ids[i]], True
        for j in range(program.var_ptr[ids[i] + 1] - lo):
            if free[lo + j]:
                first = program.state_ptr[lo + j]
                best = best_of(node, first, program.state_ptr[lo + j + 1], -1)
                labels[ptr[i] + j] = max(best - first, 0)
                if best < 0:
                    feasible[i] = False


@njit(cache=True, nogil=True)
def add_free_marginals(program: Literals, free: Bools, node: F64, ids: I64, out_ptr: I64, out: F64, log_z: F64) -> None:
    """Write the marginals of variables that are in no constraint; add their log partitions.

    Parameters
    ----------
    program : Literals
        Only ``var_ptr`` and ``state_ptr`` are read.
    free : ndarray of bool, shape (V,)
        Whether a variable is in no literal.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (n,)
        The examples.
    out_ptr : ndarray of int64, shape (at least n,)
        Where the marginals of each start.
    out : ndarray of float64
        Written, one number for each state.
    log_z : ndarray of float64, shape (n,)
        Added to.
    """
    program, node = borrow(program), borrow(node)
    for i in range(len(ids)):
        lo, hi = program.var_ptr[ids[i]], program.var_ptr[ids[i] + 1]
        shift = out_ptr[i] - program.state_ptr[lo]
        for v in range(lo, hi):
            if free[v]:
                first, stop = program.state_ptr[v], program.state_ptr[v + 1]
                total = log_sum_of(node, first, stop, -1)
                log_z[i] += total
                for s in range(first, stop):
                    out[shift + s] = np.exp(node[s] - total) if total > -np.inf else 0.0


@njit(cache=True, nogil=True)
def spread_marginals(literals: Literals, node: F64, lo: int, k: int, probability: F64, out: F64) -> None:
    """Write the marginals of the variables of constraint k, given how likely each of its literals is true.

    Parameters
    ----------
    literals, node, lo, k
        As for :func:`write_gains`.
    probability : ndarray of float64, shape (at least its number of literals,)
    out : ndarray of float64
        Marginals of the states of the example; written.
    """
    start, base = literals.literal_ptr[k], literals.state_ptr[lo]
    for l in range(start, literals.literal_ptr[k + 1]):
        v = lo + literals.variable[l]
        first, stop = literals.state_ptr[v], literals.state_ptr[v + 1]
        named, p = first + literals.state[l], probability[l - start]
        if literals.negated[l]:
            p = 1.0 - p
        others = log_sum_of(node, first, stop, named)
        for s in range(first, stop):
            share = 0.0
            if s == named:
                share = p
            elif others > -np.inf:
                share = (1.0 - p) * np.exp(node[s] - others)
            out[s - base] = share
