"""The fractional solution of AD3, from what was left of the examples back to the layout of their program."""

from __future__ import annotations

import numpy as np
from numba import njit

from ssvm_backends._dual.directions import Split
from ssvm_backends._dual.session import Part
from ssvm_backends._graphs.graph import F64, I32, I64, Graph, factor_origin
from ssvm_backends._graphs.reduce import Reduced
from ssvm_dsl.ir import Marginals, Program, Theta
from ssvm_dsl.ir.ragged import members, pointers, runs


def lift_split(program: Program, graph: Graph, ids: I64, reduced: Reduced, parts: list[Part]) -> Marginals:
    """Return marginals of all variables and factors of the examples asked for; zeros where there is no solution.

    Parameters
    ----------
    program : Program
    graph : Graph
        ``build_graph(program)``.
    ids : ndarray of int64, shape (n,)
    reduced : Reduced
        A compact instance of these examples.
    parts : list of Part
        With a :class:`~ssvm_backends._dual.directions.Split` as state, where the solver has begun.
    """
    assert reduced.kept is not None
    left, split = reduced.instance.graph, _join(reduced, parts)
    variables = members(graph.var_ptr, ids)
    node_ptr = pointers(graph.card[variables])
    node = np.zeros(int(node_ptr[-1]))
    settled = np.repeat(reduced.feasible, graph.var_ptr[1:][ids] - graph.var_ptr[ids])
    settled[reduced.kept] = False
    node[node_ptr[:-1][settled] + reduced.decided[settled]] = 1.0
    node[np.repeat(node_ptr[:-1][reduced.kept], left.card) + reduced.state] = split.p
    label, new_var = np.zeros(graph.n_variables, np.int64), np.full(graph.n_variables, -1, np.int64)
    label[variables] = reduced.decided
    new_var[variables[reduced.kept]] = np.arange(len(reduced.kept))
    sizes = [len(members(group.ptr, ids)) * group.n_configs for group in program.groups]
    offset = pointers(np.array(sizes, dtype=np.int64))
    flat = np.zeros(int(offset[-1]))
    factors = members(graph.factor_ptr, ids[reduced.feasible])
    _lift_factors(graph, left, factors, _places(program, ids)[factors], label, new_var, reduced.state, split, flat)
    ranges = zip(offset[:-1], offset[1:], program.groups, strict=True)
    return Marginals(node, tuple(flat[lo:hi].reshape(-1, group.n_configs) for lo, hi, group in ranges))


def value_of_marginals(program: Program, theta: Theta, ids: I64, marginals: Marginals) -> F64:
    """Return the score of fractional solutions of the examples asked for; ``shape (n,)``."""
    variables = members(program.var_ptr, ids)
    states = runs(program.state_ptr[variables], program.card[variables])
    first = program.state_ptr[program.var_ptr]
    owner = np.repeat(np.arange(len(ids)), first[ids + 1] - first[ids])
    total = theta.const[ids] + np.bincount(owner, _weighed(marginals.node, theta.node[states]), len(ids))
    for group, table, given in zip(program.groups, theta.tables, marginals.tables, strict=True):
        rows = _weighed(given, table[group.table[members(group.ptr, ids)]]).sum(axis=1)
        total += np.bincount(np.repeat(np.arange(len(ids)), np.diff(group.ptr)[ids]), rows, len(ids))
    return total


def _weighed(weight: F64, score: F64) -> F64:
    """Return the products, 0 where the weight is (the score may be ``-inf`` there)."""
    return np.multiply(weight, score, where=weight > 0.0, out=np.zeros_like(weight))


def _join(reduced: Reduced, parts: list[Part]) -> Split:
    """Return the primal side of all examples; zeros where the solver has not begun."""
    graph = reduced.instance.graph
    whole = Split.start(graph.n_examples, int(graph.state_ptr[-1]), graph.n_factors, int(graph.message_ptr[-1]))
    first_state, first_factor = graph.state_ptr[graph.var_ptr], graph.factor_ptr
    first_message = graph.message_ptr[graph.slot_ptr[first_factor]]
    for part in parts:
        if part.state is None:  # no example of it is feasible
            continue
        whole.p[first_state[part.lo] : first_state[part.hi]] = part.state.p
        whole.n_active[first_factor[part.lo] : first_factor[part.hi]] = part.state.n_active
        messages = slice(first_message[part.lo], first_message[part.hi])
        whole.active[messages], whole.weight[messages] = part.state.active, part.state.weight
    return whole


def _places(program: Program, ids: I64) -> I64:
    """Return for each factor of the program's graph where its table starts among those asked for."""
    group, number = factor_origin(program)
    start = np.zeros(len(group), dtype=np.int64)
    offset = 0
    for k, one in enumerate(program.groups):
        chosen = members(one.ptr, ids)
        row = np.zeros(one.n_factors, dtype=np.int64)
        row[chosen] = offset + np.arange(len(chosen)) * one.n_configs
        start[group == k] = row[number[group == k]]
        offset += len(chosen) * one.n_configs
    return start


@njit(cache=True, nogil=True)
def _lift_factors(
    graph: Graph, left: Graph, factors: I64, start: I64, label: I64, new_var: I64, state: I32, split: Split, out: F64
) -> None:
    """Write the distributions of factors over their joint states, as they were before the reduction."""
    new = 0
    for j in range(len(factors)):
        f = factors[j]
        base, n_open, single = start[j], 0, 0
        for k in range(graph.slot_ptr[f], graph.slot_ptr[f + 1]):
            if new_var[graph.scope[k]] < 0:
                base += label[graph.scope[k]] * graph.stride[k]
            else:
                n_open += 1
                single = k
        if n_open == 0:
            out[base] = 1.0
        elif n_open == 1:
            w = new_var[graph.scope[single]]
            for s in range(left.state_ptr[w], left.state_ptr[w + 1]):
                out[base + state[s] * graph.stride[single]] = split.p[s]
        else:
            first = left.message_ptr[left.slot_ptr[new]]
            for i in range(split.n_active[new]):
                at, slot = base, left.slot_ptr[new]
                for k in range(graph.slot_ptr[f], graph.slot_ptr[f + 1]):
                    w = new_var[graph.scope[k]]
                    if w >= 0:
                        s = (split.active[first + i] // left.stride[slot]) % left.card[w]
                        at += state[left.state_ptr[w] + s] * graph.stride[k]
                        slot += 1
                out[at] += split.weight[first + i]
            new += 1
