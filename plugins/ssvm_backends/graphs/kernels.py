"""Kernels of :mod:`ssvm_backends.graphs.reduce`: propagation of forbidden states, tables of conditioned factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True)
def propagate(graph: Graph, pool: F64, ids: I64, alive: Bools, feasible: Bools) -> None:
    """Close states without support, in place; ``feasible[i]`` is False where a variable has none left.

    O(entries of tables that hold ``-inf``) for each sweep over an example.
    """
    g = borrow(graph)
    digit = np.zeros(64, np.int64)
    for i in range(len(ids)):
        lo, hi = g.factor_ptr[ids[i]], g.factor_ptr[ids[i] + 1]
        hard = np.zeros(hi - lo, np.bool_)  # tables without -inf support every state as long as one joint state is left
        for f in range(lo, hi):
            for c in range(g.table_ptr[f], g.table_ptr[f] + g.table_size[f]):
                if pool[c] == -np.inf:
                    hard[f - lo] = True
                    break
        dirty = hard.copy()
        again = True
        while again:
            again = False
            for f in range(lo, hi):
                if dirty[f - lo]:
                    dirty[f - lo] = False
                    for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                        if _close(g, pool, f, k, alive, digit):
                            again = True
                            v = g.scope[k]
                            for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
                                other = g.slot_factor[g.touch_slot[t]]
                                dirty[other - lo] = hard[other - lo]
        for v in range(g.var_ptr[ids[i]], g.var_ptr[ids[i] + 1]):
            some = False
            for s in range(g.state_ptr[v], g.state_ptr[v + 1]):
                some |= alive[s]
            feasible[i] &= some


@njit(cache=True, nogil=True)
def _close(g: Graph, pool: F64, f: int, slot: int, alive: Bools, digit: I64) -> bool:
    """Close the states of one slot that no allowed joint state of factor f supports; return whether there were any."""
    v, first = g.scope[slot], g.slot_ptr[f]
    arity = g.slot_ptr[f + 1] - first
    changed = False
    for s in range(g.card[v]):
        if not alive[g.state_ptr[v] + s]:
            continue
        for k in range(arity):
            digit[k] = 0
        digit[slot - first] = s
        at = g.table_ptr[f] + s * g.stride[slot]
        supported = False
        while True:
            good = pool[at] > -np.inf
            for k in range(arity):
                good = good and alive[g.state_ptr[g.scope[first + k]] + digit[k]]
            if good:
                supported = True
                break
            k = arity - 1
            while k >= 0:
                if k != slot - first:
                    digit[k] += 1
                    at += g.stride[first + k]
                    if digit[k] < g.card[g.scope[first + k]]:
                        break
                    at -= digit[k] * g.stride[first + k]
                    digit[k] = 0
                k -= 1
            if k < 0:
                break
        if not supported:
            alive[g.state_ptr[v] + s] = False
            changed = True
    return changed


class Conditioned(NamedTuple):
    """Which variables and states of a graph are left.

    Parameters
    ----------
    decided : ndarray of int64, shape (V,)
        The state of each variable of the graph that was taken out; of the others it is not read.
    new_var : ndarray of int64, shape (V,)
        The number of each variable in the reduced graph, -1 for those taken out.
    state_ptr : ndarray of int64, shape (V' + 1,)
        States of the variables of the reduced graph.
    state : ndarray of int32, shape (S',)
        For each state of the reduced graph the state (of its variable) that it was; increasing within a variable.
    """

    decided: I64
    new_var: I64
    state_ptr: I64
    state: I32


@njit(cache=True, nogil=True)
def fill_tables(
    graph: Graph, pool: F64, factors: I64, owner: I64, left: Conditioned, out: F64, node: F64, const: F64
) -> None:
    """Write the tables of conditioned factors to ``out``; those of one or no variable are added to node or const.

    With x the open variables of factor f and z the decided ones: ``out[x] = table_f(x, z = decided)``.

    Parameters
    ----------
    graph, pool : Graph, ndarray of float64
        The graph before the reduction, and its tables; read only.
    factors : ndarray of int64, shape (n,)
        Factors of ``graph`` to condition, those of one example after the other.
    owner : ndarray of int64, shape (n,)
        For each of them, which entry of ``const`` belongs to its example.
    left : Conditioned
        Read only.
    out : ndarray of float64
        Written: the tables of factors with two or more open variables, one after the other in C order.
    node : ndarray of float64, shape (S',)
        Unary scores of the reduced graph; tables with one open variable are added in place.
    const : ndarray of float64, shape (number of examples,)
        Constants; entries of tables without open variables are added in place.
    """
    g, (decided, new_var, new_state_ptr, state) = borrow(graph), left
    digit, open_slot = np.zeros(64, np.int64), np.zeros(64, np.int64)
    filled = 0
    for j in range(len(factors)):
        f = factors[j]
        at, n_open = g.table_ptr[f], 0
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            w = new_var[g.scope[k]]
            if w < 0:
                at += decided[g.scope[k]] * g.stride[k]
            else:
                open_slot[n_open] = k
                digit[n_open] = 0
                at += state[new_state_ptr[w]] * g.stride[k]
                n_open += 1
        if n_open == 0:
            const[owner[j]] += pool[at]
            continue
        # digit counts the states that are left; at, the entry in the old table, moves by the states they were
        while True:
            if n_open == 1:
                node[new_state_ptr[new_var[g.scope[open_slot[0]]]] + digit[0]] += pool[at]
            else:
                out[filled] = pool[at]
                filled += 1
            k = n_open - 1
            while k >= 0:
                slot = open_slot[k]
                w = new_var[g.scope[slot]]
                start = new_state_ptr[w]
                before = state[start + digit[k]]
                digit[k] += 1
                if start + digit[k] < new_state_ptr[w + 1]:
                    at += (state[start + digit[k]] - before) * g.stride[slot]
                    break
                at += (state[start] - before) * g.stride[slot]
                digit[k] = 0
                k -= 1
            if k < 0:
                break


# -- Scores of states while all other variables keep their labels ----------------------------------------------------


@njit(cache=True, nogil=True)
def given_others(graph: Graph, node: F64, pool: F64, ids: I64, labels: I32, out: F64) -> None:
    """Write the score of each state while all other variables keep their labels: unary, plus its factors'.

    Parameters
    ----------
    graph : Graph
        Read only.
    node, pool : ndarray of float64
        Scores.
    ids : ndarray of int64, shape (n,)
        The examples.
    labels : ndarray of int32, shape (V,)
        Of the whole batch.
    out : ndarray of float64, shape (S,)
        Written for the states of these examples.
    """
    g, node, pool, labels, out = borrow(graph), borrow(node), borrow(pool), borrow(labels), borrow(out)
    for i in ids:
        for s in range(g.state_ptr[g.var_ptr[i]], g.state_ptr[g.var_ptr[i + 1]]):
            out[s] = node[s]
        for f in range(g.factor_ptr[i], g.factor_ptr[i + 1]):
            at = g.table_ptr[f]
            for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                at += g.stride[k] * labels[g.scope[k]]
            for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                v = g.scope[k]
                start = at - g.stride[k] * labels[v]
                for s in range(g.card[v]):
                    out[g.state_ptr[v] + s] += pool[start + g.stride[k] * s]


# -- Random numbers inside kernels: SplitMix64 (Steele, Lea and Flood 2014), whose only state is a counter -----------

#: What successive states of the generator differ by.
STEP = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True, inline="always")
def random_bits(state: np.uint64) -> np.uint64:
    """Return the random number of a state."""
    x = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
