"""The fractional solution of AD3, from the reduced examples back to the layout of their program."""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.admm.steps import PrimalSide
from ssvm_backends.dual.session import ExampleRange, message_pointers
from ssvm_backends.graphs.graph import Graph, factor_origin
from ssvm_backends.graphs.kernels import Conditioned
from ssvm_backends.graphs.reduce import Reduced
from ssvm_dsl.ir import F64, I64, Marginals, Program, members, pointers, runs
from ssvm_dsl.kernels import njit


def lift_split(program: Program, graph: Graph, ids: I64, reduced: Reduced, parts: list[ExampleRange]) -> Marginals:
    """Return marginals of all variables and factors of the examples asked for; zeros where there is no solution.

    Parameters
    ----------
    program : Program
    graph : Graph
        ``build_graph(program)``.
    ids : ndarray of int64, shape (n,)
    reduced : Reduced
        The reduced examples.
    parts : list of Part
        With a :class:`~ssvm_backends.dual.admm.steps.PrimalSide` as state, where the solver has begun.
    """
    left, split = reduced.instance.graph, _join(reduced, parts)
    if reduced.kept is None:
        return _whole(program, graph, ids, split)
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
    conditioned = Conditioned(label, new_var, left.state_ptr, reduced.state)
    offset, start = _places(program, ids)
    flat = np.zeros(int(offset[-1]))
    factors = members(graph.factor_ptr, ids[reduced.feasible])
    _lift_factors(graph, left, factors, start[factors], conditioned, split, flat)
    return Marginals(node, _by_group(program, offset, flat))


def _whole(program: Program, graph: Graph, ids: I64, split: PrimalSide) -> Marginals:
    """Return the marginals where nothing was taken out of the program."""
    factors = members(graph.factor_ptr, ids)
    first = pointers(graph.message_ptr[graph.slot_ptr[factors + 1]] - graph.message_ptr[graph.slot_ptr[factors]])[:-1]
    offset, start = _places(program, ids)
    active, flat = runs(first, split.n_active), np.zeros(int(offset[-1]))
    flat[np.repeat(start[factors], split.n_active) + split.active[active]] = split.weight[active]
    return Marginals(split.p, _by_group(program, offset, flat))


def _by_group(program: Program, offset: I64, flat: F64) -> tuple[F64, ...]:
    """Return the distributions of the factors of each group."""
    ranges = zip(offset[:-1], offset[1:], program.groups, strict=True)
    return tuple(flat[lo:hi].reshape(-1, group.n_configs) for lo, hi, group in ranges)


def _join(reduced: Reduced, parts: list[ExampleRange]) -> PrimalSide:
    """Return the primal side of all examples; zeros where the solver has not begun."""
    graph, ids = reduced.instance.graph, reduced.ids
    if len(parts) == 1 and parts[0].state is not None and parts[0].hi - parts[0].lo == len(ids):
        return parts[0].state
    first_message = message_pointers(graph, ids)
    states = graph.state_ptr[graph.var_ptr]
    first_state, first_factor = (pointers(p[ids + 1] - p[ids]) for p in (states, graph.factor_ptr))
    whole = PrimalSide.start(len(ids), int(first_state[-1]), int(first_factor[-1]), int(first_message[-1]))
    for part in parts:
        if part.state is None:  # no example of it is feasible
            continue
        whole.p[first_state[part.lo] : first_state[part.hi]] = part.state.p
        whole.n_active[first_factor[part.lo] : first_factor[part.hi]] = part.state.n_active
        messages = slice(first_message[part.lo], first_message[part.hi])
        whole.active[messages], whole.weight[messages] = part.state.active, part.state.weight
    return whole


def _places(program: Program, ids: I64) -> tuple[I64, I64]:
    """Return where the tables of each group start among those asked for, and of each factor of the program's graph."""
    group, number = factor_origin(program)
    start = np.zeros(len(group), dtype=np.int64)
    chosen = [members(one.ptr, ids) for one in program.groups]
    sizes = [len(mine) * one.n_configs for mine, one in zip(chosen, program.groups, strict=True)]
    offset = pointers(np.array(sizes, dtype=np.int64))
    for k, one in enumerate(program.groups):
        row = np.zeros(one.n_factors, dtype=np.int64)
        row[chosen[k]] = offset[k] + np.arange(len(chosen[k])) * one.n_configs
        start[group == k] = row[number[group == k]]
    return offset, start


@njit(cache=True, nogil=True)
def _lift_factors(
    graph: Graph, left: Graph, factors: I64, start: I64, conditioned: Conditioned, split: PrimalSide, out: F64
) -> None:
    """Write the distributions of factors over their joint states, as they were before the reduction.

    Parameters
    ----------
    graph, left : Graph
        The graph before and after the reduction.
    factors : ndarray of int64, shape (n,)
        Factors of ``graph`` that belong to feasible examples, in the order of the reduction.
    start : ndarray of int64, shape (n,)
        Where the table of each goes in ``out``.
    conditioned : Conditioned
        Which variables and states are left; read only.
    split : Split
        The solution on ``left``: p for factors of one variable left, active joint states for larger ones; read only.
    out : ndarray of float64
        Zeros on entry; written.
    """
    new, (label, new_var, _, state) = 0, conditioned
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
