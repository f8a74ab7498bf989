"""Marginals and log Z of the examples asked for, laid out for the whole program.

Elimination works on the program without its forbidden states.  Back in the program, a state that
was taken out has probability 0, the state of a decided variable 1, and the table of a factor that lost variables
is that of the variables it has left, at the states of the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.elimination.blocks import (
    BUDGET,
    NO,
    YES,
    ZERO,
    BlockRuns,
    Walk,
    fill,
    gather,
    go_on,
    go_to,
    load_table,
    make_walk,
    prepare,
)
from ssvm_backends.elimination.plan import FACTOR, MESSAGE, NODE, Compiled, EliminationPlan
from ssvm_backends.elimination.plan_cache import PlanCache
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


# -- Log partition functions and marginals by variable elimination (Dechter 1999; Shafer and Shenoy 1990) ------------
#
# Upwards, messages are sums over the states of the eliminated variable.  A table is kept as probabilities, scaled to
# maximum 1, together with the logarithm of the scale.  Before a step multiplies its parts, the spans between the
# largest and the smallest positive entry (in logarithms) are added up: below ``SAFE`` no product can underflow, and
# plain products and sums are exact to rounding.  Otherwise the step works with logarithms (log-sum-exp).  So no digits
# are lost, whatever the scores, and exponentials are rare.
#
# Downwards, marginals are the derivatives of log Z: the distribution over the parts of a step is that of its separator,
# ``P(x_S)``, times the conditional ``P(a | x_S)`` that the same parts give, and each part gathers what belongs to it.
# Marginals of the separators replace the messages in place.

#: The largest span of a product of probabilities (natural logarithm; doubles reach down to -708).
SAFE = 600.0


class Scales(NamedTuple):
    """The state of the messages and steps of one example.

    Parameters
    ----------
    span : ndarray of float64, shape (n,)
        Logarithm of largest over smallest positive entry of each message.
    shift : ndarray of float64, shape (n,)
        Logarithm of each message's scale.
    linear : ndarray of bool, shape (n,)
        Whether a message holds probabilities (else logarithms).
    plain : ndarray of bool, shape (n,)
        Whether a step multiplies probabilities (else adds logarithms).
    extremes : ndarray of float64, shape (2,)
        Largest and smallest entry of the message at hand, so far.
    total : ndarray of float64, shape (1,)
        log Z, so far.
    """

    span: F64
    shift: F64
    linear: Bools
    plain: Bools
    extremes: F64
    total: F64


class SumSpace(NamedTuple):
    """What the elimination of one example works with.

    Parameters
    ----------
    work : ndarray of float64
        Holds the messages; on the way down marginals of the separators replace them.
    walk : Walk
        Work space of a step.
    scales : Scales
    """

    work: F64
    walk: Walk
    scales: Scales


class MarginalTarget(NamedTuple):
    """Where the marginals of one example go.

    Parameters
    ----------
    node : ndarray of float64
        Those of the states of its variables, from ``node_at`` on.
    node_at : int
    table : ndarray of float64
        Those of the joint states of its factor f, from ``table_at[f]`` on.
    table_at : ndarray of int64
        Factors are numbered from 0 in the example.
    """

    node: F64
    node_at: int
    table: F64
    table_at: I64


def make_scales(n: int) -> Scales:
    """Return the state of an elimination of n steps before it starts."""
    flags = np.zeros((2, n), dtype=bool)
    return Scales(np.zeros(n), np.zeros(n), flags[0], flags[1], np.zeros(2), np.zeros(1))


@njit(cache=True, nogil=True)
def sum_steps(
    plan: EliminationPlan, instance: Instance, example: int, space: SumSpace, cursor: I64, budget: int
) -> None:
    """Go on with one example from where ``cursor`` says, until done or the budget is spent.

    Parameters
    ----------
    plan : Plan
        The elimination; read only.  When marginals are to follow, one that keeps messages.
    instance : Instance
        Read only.
    example : int
        The example.
    space : SumSpace
        In the end ``scales.total`` is log Z without the constant, ``-inf`` where there is no labelling.
    cursor : ndarray of int64, shape (2,)
        (step, outer state); zeros at first, at step n when done.
    budget : int
        About how many table entries to look at.
    """
    p, g, w, z = borrow(plan), borrow(instance.graph), borrow(space.walk), borrow(space.scales)
    node, pool, work = borrow(instance.node), borrow(instance.pool), borrow(space.work)
    n = len(p.variable)
    while cursor[0] < n and budget > 0:
        t, outer = cursor[0], cursor[1]
        if outer == 0 and not _begin(p, g, t, example, node, pool, work, z):
            z.total[0], cursor[0] = -np.inf, n
            return
        plain = z.plain[t]
        prepare(p, t, work, w, 1.0 if plain else 0.0, plain)
        go_to(p, t, outer, w)
        cost = p.card[t] * p.block[t] * (2 + p.part_ptr[t + 1] - p.part_ptr[t] - p.n_flat[t] - p.n_inner[t])
        cost *= 1 if plain else 8  # exponentials
        end = min(p.n_outer[t], outer + budget // cost + 1)
        for k in range(outer, end):
            _sum_block(p, t, k, work, w, plain, z.extremes)
            go_on(p, t, w)
        budget -= (end - outer) * cost
        cursor[1] = end
        if end == p.n_outer[t]:
            if not _end(p, t, work, z):
                z.total[0], cursor[0] = -np.inf, n
                return
            cursor[0], cursor[1] = t + 1, 0


@njit(cache=True, nogil=True)
def _load(p: EliminationPlan, g: Graph, q: int, example: int, node: F64, pool: F64, work: F64) -> tuple[float, float]:
    """Copy scores of a part into the work space, maximum 0; return (maximum, span).

    Parameters
    ----------
    p : Plan
        The elimination; read only.
    g : Graph
        Structure; read only.
    q : int
        The part: unary scores or a factor.
    example : int
        The example.
    node, pool : ndarray of float64
        Unary scores and tables of all examples.
    work : ndarray of float64
        Written at ``p.at[q]``; all ``-inf`` where everything is forbidden.
    """
    if p.kind[q] == NODE:
        load_table(p, q, node, g.state_ptr[g.var_ptr[example] + p.ref[q]], work, p.at[q], NO)
    else:
        load_table(p, q, pool, g.table_ptr[g.factor_ptr[example] + p.ref[q]], work, p.at[q], NO)
    high, low = -np.inf, np.inf
    for i in range(p.at[q], p.at[q] + p.total[q]):
        high = max(high, work[i])
        low = min(low, work[i]) if work[i] > -np.inf else low
    if high > -np.inf:
        for i in range(p.at[q], p.at[q] + p.total[q]):
            work[i] -= high
    return high, high - low


@njit(cache=True, nogil=True)
def _begin(p: EliminationPlan, g: Graph, t: int, example: int, node: F64, pool: F64, work: F64, z: Scales) -> bool:
    """Load the parts of a step and choose between products and logarithms; return False when all is forbidden.

    The spans of the parts add up to that of their product.

    Parameters
    ----------
    p, g, example, node, pool
        As for :func:`_load`.
    t : int
        The step.
    work : ndarray of float64
        The step's parts are written; messages that hold probabilities become logarithms where the step needs these.
    z : Scales
        ``plain``, ``shift`` and ``extremes`` of the step are set; ``linear`` of messages that were changed.
    """
    span, shift, plain = 0.0, 0.0, True
    for q in range(p.part_ptr[t], p.part_ptr[t + 1]):
        if p.kind[q] == MESSAGE:
            span += z.span[p.ref[q]]
            shift += z.shift[p.ref[q]]
            plain = plain and z.linear[p.ref[q]]
        else:
            high, width = _load(p, g, q, example, node, pool, work)
            if high == -np.inf:
                return False
            span += width
            shift += high
    z.plain[t] = plain and span < SAFE
    z.shift[t] = shift
    z.extremes[0], z.extremes[1] = -np.inf, np.inf
    for q in range(p.part_ptr[t], p.part_ptr[t + 1]):
        lo, hi = p.at[q], p.at[q] + p.total[q]
        if z.plain[t] and p.kind[q] != MESSAGE:
            for i in range(lo, hi):
                work[i] = np.exp(work[i])
        elif not z.plain[t] and p.kind[q] == MESSAGE and z.linear[p.ref[q]]:
            z.linear[p.ref[q]] = False
            for i in range(lo, hi):
                work[i] = np.log(work[i]) if work[i] > 0.0 else -np.inf
    return True


@njit(cache=True, nogil=True)
def _sum_block(p: EliminationPlan, t: int, outer: int, work: F64, w: Walk, plain: bool, extremes: F64) -> None:
    """Write one block of a message, ``sum_a`` of the product of all parts: probabilities, or logarithms.

    Parameters
    ----------
    p : Plan
        The elimination; read only.
    t : int
        The step.
    outer : int
        Number of the outer state, at which the walk is.
    work : ndarray of float64
        Holds the parts; the block is written.
    w : Walk
        Its ``values`` are overwritten.
    plain : bool
        Whether the parts are probabilities, else logarithms.
    extremes : ndarray of float64, shape (2,)
        Largest and smallest (positive or finite) entry of the message so far, in and out.
    """
    n, c = p.block[t], p.card[t]
    to = p.out[t] + outer * n
    high, low = extremes[0], extremes[1]
    if plain:
        fill(p, t, ZERO, work, w, ZERO, YES)
        for i in range(n):
            work[to + i] = w.values[i]
        for a in range(1, c):
            fill(p, t, a, work, w, n, YES)
            for i in range(n):
                work[to + i] += w.values[n + i]
        for i in range(n):
            x = work[to + i]
            high = x if x > high else high
            low = x if (x < low and x > 0.0) else low
    else:
        for a in range(c):
            fill(p, t, a, work, w, a * n, NO)
        for i in range(n):
            top = w.values[i]
            for a in range(1, c):
                top = max(top, w.values[a * n + i])
            if top == -np.inf:
                work[to + i] = top
                continue
            x = 0.0
            for a in range(c):
                x += np.exp(w.values[a * n + i] - top)
            x = top + np.log(x)
            work[to + i] = x
            high, low = max(high, x), min(low, x)
    extremes[0], extremes[1] = high, low


@njit(cache=True, nogil=True)
def _end(p: EliminationPlan, t: int, work: F64, z: Scales) -> bool:
    """Scale the message of a step; return False when it forbids everything."""
    high, low = z.extremes[0], z.extremes[1]
    if high == -np.inf or (z.plain[t] and high <= 0.0):
        return False
    lo, hi = p.out[t], p.out[t] + p.size[t]
    if z.plain[t]:
        z.span[t] = np.log(high) - np.log(low)
        z.shift[t] += np.log(high)
        factor = 1.0 / high
        for i in range(lo, hi):
            work[i] *= factor
        z.linear[t] = True
    else:
        z.span[t] = high - low
        z.shift[t] += high
        z.linear[t] = z.span[t] < SAFE
        for i in range(lo, hi):
            work[i] = np.exp(work[i] - high) if z.linear[t] else work[i] - high
    if p.axis_ptr[t] == p.axis_ptr[t + 1]:
        z.total[0] += z.shift[t]
    return True


@njit(cache=True, nogil=True)
def marginal_steps(
    plan: EliminationPlan, instance: Instance, example: int, space: SumSpace, out: MarginalTarget, cursor: I64,
    budget: int,
) -> None:  # fmt: skip
    """Go on downwards with one example from where ``cursor`` says, until done or the budget is spent.

    For step t with separator S, and the product of all its parts at (a, x_S)::

        P(a, x_S) = P(x_S) product(a, x_S) / sum_a product(a, x_S)

    The marginal of a part is the sum of this over the variables that the part does not depend on.

    Parameters
    ----------
    plan, instance, example, space
        As for :func:`sum_steps`, after it.
    out : MarginalTarget
        Written.
    cursor : ndarray of int64, shape (2,)
        (steps left, outer state); (n, 0) at first, at 0 steps left when done.
    budget : int
        About how many table entries to look at.
    """
    p, g, w, z = borrow(plan), borrow(instance.graph), borrow(space.walk), borrow(space.scales)
    node, pool, work, out = borrow(instance.node), borrow(instance.pool), borrow(space.work), borrow(out)
    first_state = g.state_ptr[g.var_ptr[example]]
    while cursor[0] > 0 and budget > 0:
        t, outer = cursor[0] - 1, cursor[1]
        plain = z.plain[t]
        first, last = p.part_ptr[t], p.part_ptr[t + 1]
        if outer == 0:
            if p.axis_ptr[t] == p.axis_ptr[t + 1]:  # the last step of a component: its separator is empty
                work[p.out[t]] = 1.0
            for q in range(first, last):
                work[p.gather[q] : p.gather[q] + p.total[q]] = 0.0
                if p.kind[q] != MESSAGE:
                    _load(p, g, q, example, node, pool, work)
                    if plain:
                        for i in range(p.at[q], p.at[q] + p.total[q]):
                            work[i] = np.exp(work[i])
        prepare(p, t, work, w, 1.0 if plain else 0.0, plain)
        go_to(p, t, outer, w)
        cost = p.card[t] * p.block[t] * (8 + last - first)
        end = min(p.n_outer[t], outer + budget // cost + 1)
        for k in range(outer, end):
            _share(p, t, p.out[t] + k * p.block[t], work, w, plain)
            _hand_out(p, t, work, w)
            go_on(p, t, w)
        budget -= (end - outer) * cost
        cursor[1] = end
        if end < p.n_outer[t]:
            return
        for q in range(first, last):
            if p.kind[q] == FACTOR:
                load_table(p, q, out.table, out.table_at[p.ref[q]], work, p.gather[q], YES)
            else:
                to, at = work, p.at[q]
                if p.kind[q] == NODE:
                    to = out.node
                    at = out.node_at + g.state_ptr[g.var_ptr[example] + p.ref[q]] - first_state
                for i in range(p.total[q]):
                    to[at + i] = work[p.gather[q] + i]
        cursor[0], cursor[1] = t, 0


@njit(cache=True, nogil=True)
def _share(p: EliminationPlan, t: int, at: int, work: F64, w: Walk, plain: bool) -> None:
    """Write ``P(x_S) P(a | x_S)`` for one block to ``values``; ``P(x_S)`` is at ``at``."""
    n, c = p.block[t], p.card[t]
    for a in range(c):
        fill(p, t, a, work, w, a * n, plain)
    for i in range(n):
        total = 0.0
        if plain:
            for a in range(c):
                total += w.values[a * n + i]
        else:
            top = w.values[i]
            for a in range(1, c):
                top = max(top, w.values[a * n + i])
            for a in range(c):
                x = np.exp(w.values[a * n + i] - top) if top > -np.inf else 0.0
                w.values[a * n + i] = x
                total += x
        factor = work[at + i] / total if total > 0.0 else 0.0
        for a in range(c):
            w.values[a * n + i] *= factor


@njit(cache=True, nogil=True)
def _hand_out(p: EliminationPlan, t: int, work: F64, w: Walk) -> None:
    """Add what ``values`` hold to the marginals of all parts of a step."""
    n, first = p.block[t], p.part_ptr[t]
    for a in range(p.card[t]):
        total = 0.0
        for i in range(n):
            total += w.values[a * n + i]
        for q in range(first, p.part_ptr[t + 1]):
            at = p.gather[q] + w.position[q - first] + a * p.step[q]
            if q < first + p.n_flat[t]:
                work[at] += total
            else:
                gather(w.values, a * n, work, at, BlockRuns(p.run_size, p.run_stride, p.run_ptr[q], p.run_ptr[q + 1]))
