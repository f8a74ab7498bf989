"""Marginals and log Z of the examples asked for, laid out for the whole program.

Elimination works on the program without its forbidden states.  Back in the program, a state that
was taken out has probability 0, the state of a decided variable 1, and the table of a factor that lost variables
is that of the variables it has left, at the states of the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.elimination.blocks import BUDGET, make_walk
from ssvm_backends.elimination.plan import Compiled, EliminationPlan
from ssvm_backends.elimination.plan_cache import PlanCache
from ssvm_backends.elimination.sum import MarginalTarget, SumSpace, make_scales, marginal_steps, sum_steps
from ssvm_backends.graphs.batch_session import summed_solution
from ssvm_backends.graphs.graph import Graph, Instance, factor_origin
from ssvm_backends.graphs.reduce import Reduced
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import F64, I64, Bools, Marginals, Program, Question, Solution, Stop, members, pointers, runs
from ssvm_dsl.kernels import borrow, njit
from ssvm_dsl.plugin_api import Clock

#: How often an entry of a table is looked at, upwards and downwards, with its parts.
PASSES = 20.0


class MarginalArrays(NamedTuple):
    """Marginals of the reduced examples, packed over the examples asked for.

    Parameters
    ----------
    node : ndarray of float64
    node_at : ndarray of int64, shape (n,)
        Where those of each example start.
    table : ndarray of float64
    factor_at : ndarray of int64, shape (n + 1,)
        The factors of each example.
    table_at : ndarray of int64
        Where the table of each of these factors starts.
    """

    node: F64
    node_at: I64
    table: F64
    factor_at: I64
    table_at: I64


class MarginalSources(NamedTuple):
    """Where the marginals of the W variables of the n examples asked for come from, one example after the other.

    Parameters
    ----------
    var_at : ndarray of int64, shape (n + 1,)
        Variables of each example asked for.
    state_at : ndarray of int64, shape (W + 1,)
        States of each of these variables.
    source : ndarray of int64, shape (state_at[-1],)
        For each state where its marginal is in ``MarginalArrays.node``, -1 where it was taken out, -2 where it is
        certain.
    n_left : ndarray of int64, shape (W,)
        How many states of a variable are left, 0 where the variable was taken out.
    start : ndarray of int64, shape (W,)
        Where the marginals of these states start in ``MarginalArrays.node``.
    """

    var_at: I64
    state_at: I64
    source: I64
    n_left: I64
    start: I64


def marginals(plans: PlanCache, wanted: bool, question: Question, reduced: Reduced, clock: Clock) -> Solution:
    """Answer the task ``marginals``; log Z alone unless marginals are ``wanted``."""
    ids = question.ids(plans.program)
    n = len(ids)
    log_z = np.full(n, -np.inf)
    space = _space(reduced, wanted)
    stop = np.where(reduced.feasible, Stop.TIME, Stop.FINISHED).astype(np.int8)
    try:
        for key, positions in plans.by_structure(reduced):
            left = positions[reduced.feasible[positions]]
            while len(left) and not clock.over:  # before anything is prepared for the examples
                compiled = plans.plan(key, wanted)
                n_small = int(BUDGET / (PASSES * max(compiled.operations, 1.0)))
                if n_small > 1:
                    some, left = left[:n_small], left[n_small:]
                    scales = make_scales(len(compiled.plan.variable))
                    own = SumSpace(np.empty(compiled.work), make_walk(compiled), scales)
                    sum_examples(compiled.plan, reduced.instance, reduced.ids, some, wanted, own, space, log_z)
                    stop[some] = Stop.FINISHED
                    continue
                place, left = int(left[0]), left[1:]
                value = _one(compiled, wanted, reduced, place, space, clock)
                if value is not None:
                    log_z[place], stop[place] = value, Stop.FINISHED
    except OutOfTime:  # while a graph was planned: those that are answered stay so
        pass
    except KeyboardInterrupt:
        stop[stop == Stop.TIME] = Stop.INTERRUPTED
    const = reduced.instance.const[reduced.ids]
    log_z += np.where(log_z > -np.inf, const, 0.0)
    there = (stop == Stop.FINISHED) & (log_z > -np.inf)
    lifted = _lifted(plans.program, plans.graph, ids, reduced, space, there, question.tables) if wanted else None
    return summed_solution(log_z, stop, lifted)


@njit(cache=True, nogil=True)
def sum_examples(
    plan: EliminationPlan, instance: Instance, ids: I64, some: I64, wanted: bool, own: SumSpace, space: MarginalArrays,
    log_z: F64,
) -> None:  # fmt: skip
    """Answer small examples of one structure, one after the other.

    Parameters
    ----------
    plan : EliminationPlan
        Read only.
    instance : Instance
        Read only.
    ids : ndarray of int64, shape (n,)
        The examples asked for.
    some : ndarray of int64
        Which of these are answered.
    wanted : bool
        Whether marginals are, besides log Z.
    own : SumSpace
        Work space; overwritten.
    space : MarginalArrays
        The marginals of these examples are written.
    log_z : ndarray of float64, shape (n,)
        Those of these examples are written, without their constants.
    """
    cursor, (span, shift, linear, plain, _, total) = np.zeros(2, dtype=np.int64), own.scales
    for k in range(len(some)):
        i = some[k]
        span[:], shift[:], linear[:], plain[:], total[0] = 0.0, 0.0, False, False, 0.0
        cursor[0], cursor[1] = 0, 0
        while cursor[0] < len(plan.variable):
            sum_steps(plan, instance, ids[i], own, cursor, BUDGET)
        log_z[i] = total[0]
        if not wanted or log_z[i] == -np.inf:
            continue
        tables = space.table_at[space.factor_at[i] : space.factor_at[i + 1]]
        out = MarginalTarget(space.node, space.node_at[i], space.table, tables)
        while cursor[0] > 0:
            marginal_steps(plan, instance, ids[i], own, out, cursor, BUDGET)


def _one(
    compiled: Compiled, wanted: bool, reduced: Reduced, position: int, space: MarginalArrays, clock: Clock
) -> float | None:
    """Write one example's marginals and return its log Z without the constant; ``None`` when time is up."""
    plan, instance, example = compiled.plan, reduced.instance, int(reduced.ids[position])
    own = SumSpace(np.empty(compiled.work), make_walk(compiled), make_scales(len(plan.variable)))
    cursor = np.zeros(2, dtype=np.int64)
    while cursor[0] < len(plan.variable):
        if clock.over:
            return None
        sum_steps(plan, instance, example, own, cursor, BUDGET)
    log_z = float(own.scales.total[0])
    if not wanted or log_z == -np.inf:
        return log_z
    tables = space.table_at[space.factor_at[position] : space.factor_at[position + 1]]
    out = MarginalTarget(space.node, int(space.node_at[position]), space.table, tables)
    while cursor[0] > 0:
        if clock.over:
            return None
        marginal_steps(plan, instance, example, own, out, cursor, BUDGET)
    return log_z


def _space(reduced: Reduced, wanted: bool) -> MarginalArrays:
    """Return space for the marginals of the reduced examples (none unless wanted)."""
    graph, ids = reduced.instance.graph, reduced.ids
    first, last = graph.var_ptr[ids], graph.var_ptr[1:][ids]
    node_at = pointers(graph.state_ptr[last] - graph.state_ptr[first])
    factor_at = pointers(graph.factor_ptr[1:][ids] - graph.factor_ptr[ids])
    table_at = pointers(graph.table_size[members(graph.factor_ptr, ids)])
    sizes = (int(node_at[-1]), int(table_at[-1])) if wanted else (0, 0)
    return MarginalArrays(np.zeros(sizes[0]), node_at[:-1], np.zeros(sizes[1]), factor_at, table_at[:-1])


def _lifted(
    program: Program, graph: Graph, ids: I64, reduced: Reduced, space: MarginalArrays, there: Bools, with_tables: bool
) -> Marginals:
    """Return marginals of the program, zeros for examples that are not ``there``."""
    left = reduced.instance.graph
    variables = members(program.var_ptr, ids)
    lengths = program.var_ptr[1:][ids] - program.var_ptr[ids]
    state_at = pointers(program.card[variables])
    # for each state asked for: where its marginal is in space.node, -1 where it was taken out, -2 where it is certain
    source = np.full(int(state_at[-1]), -1, dtype=np.int64)
    chosen = members(left.var_ptr, reduced.ids)
    kept = np.arange(len(variables)) if reduced.kept is None else reduced.kept
    states = np.arange(int(left.card[chosen].sum()), dtype=np.int64)
    if reduced.kept is None:
        source[states] = states
    else:
        source[state_at[:-1] + reduced.decided] = -2
        source[runs(state_at[:-1][kept], program.card[variables][kept])] = -1
        source[np.repeat(state_at[:-1][kept], left.card[chosen]) + reduced.state] = states
    source[np.repeat(np.repeat(~there, lengths), program.card[variables])] = -1
    if not with_tables:
        node, known = (source == -2).astype(np.float64), source >= 0
        node[known] = space.node[source[known]]
        return Marginals(node, ())
    # for each variable asked for: how many states are left, and where in space.node they start
    count, start = np.zeros((2, len(variables)), dtype=np.int64)
    count[kept], start[kept] = left.card[chosen], pointers(left.card[chosen])[:-1]
    out_at, pool, tables = _rows(program, graph, ids)
    node = np.zeros(len(source))
    origin = MarginalSources(pointers(lengths), state_at, source, count, start)
    lift(graph, ids, origin, reduced.feasible, space, out_at, node, pool)
    return Marginals(node, tables)


def _rows(program: Program, graph: Graph, ids: I64) -> tuple[I64, F64, tuple[F64, ...]]:
    """Return (where each factor's table goes, zeros for all of them, views of these group by group)."""
    group, number = factor_origin(program)
    sizes = [len(members(g.ptr, ids)) * g.n_configs for g in program.groups]
    offset = pointers(np.array(sizes, dtype=np.int64))
    pool = np.zeros(int(offset[-1]))
    chosen = members(graph.factor_ptr, ids)
    out_at = np.zeros(len(chosen), dtype=np.int64)
    for k, one in enumerate(program.groups):
        mine = np.flatnonzero(group[chosen] == k)
        row = np.zeros(one.n_factors, dtype=np.int64)
        row[members(one.ptr, ids)] = np.arange(len(mine))
        out_at[mine] = offset[k] + row[number[chosen[mine]]] * one.n_configs
    views = zip(offset[:-1], offset[1:], program.groups, strict=True)
    return out_at, pool, tuple(pool[lo:hi].reshape(-1, one.n_configs) for lo, hi, one in views)


@njit(cache=True, nogil=True)
def lift(
    graph: Graph, ids: I64, origin: MarginalSources, feasible: Bools, space: MarginalArrays, out_at: I64, node: F64,
    out: F64,
) -> None:  # fmt: skip
    """Write the marginals of all variables to ``node`` and those of all factors to ``out``.

    Parameters
    ----------
    graph : Graph
        The program's graph.
    ids : ndarray of int64, shape (n,)
        The examples asked for.
    origin : MarginalSources
        Read only.
    feasible : ndarray of bool, shape (n,)
        Examples that propagation left a labelling; the others have no factors in ``space``.
    space : Space
        Marginals of the reduced examples; read only.
    out_at : ndarray of int64, shape (number of factors asked for,)
        Where the table of each factor goes in ``out``, in the order of the examples.
    node : ndarray of float64, shape (state_at[-1],)
        Written.
    out : ndarray of float64
        Written.
    """
    g, space, (var_at, state_at, source, count, start) = borrow(graph), borrow(space), origin
    for i in range(len(source)):
        node[i] = space.node[source[i]] if source[i] >= 0 else (1.0 if source[i] == -2 else 0.0)
    asked, left = 0, 0
    for i in range(len(ids)):
        shift = var_at[i] - g.var_ptr[ids[i]]
        for f in range(g.factor_ptr[ids[i]], g.factor_ptr[ids[i] + 1]):
            n_free, to, table = 0, out_at[asked], -1
            for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                n_free += count[g.scope[k] + shift] > 0
            if n_free > 1 and feasible[i]:
                table = space.table_at[left]
                left += 1
            asked += 1
            for c in range(g.table_size[f]):
                at, single, possible = 0, -1, True
                for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                    v = g.scope[k] + shift
                    here = source[state_at[v] + (c // g.stride[k]) % g.card[g.scope[k]]]
                    possible = possible and here != -1
                    if count[v] > 0:  # a reduced table has these variables only, with their open states
                        single = here
                        at = at * count[v] + here - start[v]
                if not possible:
                    out[to + c] = 0.0
                elif table >= 0:
                    out[to + c] = space.table[table + at]
                else:
                    out[to + c] = space.node[single] if n_free == 1 else 1.0
