"""Parts of a problem that have exact oracles: its tables, in forests or by hubs, and its constraints kind by kind.

Each part is a program over all variables of the batch with some of the factors or constraints, opened by the backend of
this distribution that solves it: dynamic programming, elimination, the oracle of a structure, or, where there is none,
an integer program of the linear rows of a group of constraints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from ssvm_backends.dual.descent.spanning_trees import representative
from ssvm_backends.elimination.junction_tree import JunctionTreeSession
from ssvm_backends.programs.ilp import ILPSession
from ssvm_backends.structures.counting import MOST_SUMS, CardinalitySession, WeightedSumSession, WholeSums
from ssvm_backends.structures.literals import Batch
from ssvm_backends.structures.matchings.assignment import AssignmentSession
from ssvm_backends.structures.relations.relations import RelationsSession
from ssvm_backends.structures.routes.circuit import CircuitSession
from ssvm_backends.structures.routes.shortest_path import ShortestPathSession
from ssvm_backends.structures.segmentations.semi_markov import SemiMarkovSession
from ssvm_backends.structures.session import StructureSession, constraint_scores
from ssvm_backends.structures.spanning_trees.spanning_trees import TreesSession
from ssvm_backends.trees.tree import ForestSession
from ssvm_dsl.ir import (
    F64,
    I32,
    I64,
    Bools,
    ConstraintGroup,
    Group,
    Program,
    Theta,
    Topology,
    pointers,
    runs,
    segment_links,
    segment_variables,
)
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import BestKind, Clock, Session, program_need


class KindSession(StructureSession):
    """Best labellings of a program whose constraints are over different variables (:class:`BestKind`)."""

    def choose(self, group: int, batch: Batch, excess: F64) -> None:
        """Write the best labels; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        program, mine = self.program, self.groups[group]
        node, ids, ptr, labels, feasible = batch
        kind = cast(BestKind, mine.rules)
        for place, example in enumerate(ids.tolist()):
            first, stop = program.var_ptr[example : example + 2].tolist()
            states = program.state_ptr[first : stop + 1]
            for k in range(int(mine.ptr[example]), int(mine.ptr[example + 1])):
                variables, scores = constraint_scores(mine, k, states - states[0], node[states[0] : states[-1]])
                best = kind.best_states(mine, k, scores) if _possible(scores.score, scores.ptr) else None
                if best is None:
                    feasible[place] = False
                else:
                    labels[ptr[place] + variables] = best


def _possible(score: F64, ptr: I64) -> bool:
    """Whether every variable has a state that is not ruled out."""
    return not len(score) or bool((np.maximum.reduceat(score, ptr[:-1]) > -np.inf).all())


#: Counts of several states of a variable.
BY_STATES = "count by states"

#: Constraints whose kind finds the best states itself (:class:`~ssvm_dsl.plugin_api.BestKind`).
BY_KIND = "the kind itself"

#: Constraints without an oracle, by their linear rows: all those of a group are one part.
BY_ROWS = "rows"

#: What opens a part whose constraints are all of one kind, over different variables (``BY_ROWS``: over any).
ORACLES: Mapping[str, Any] = {
    BY_STATES: ForestSession,
    BY_ROWS: lambda program: ILPSession(program, {"solver": "cp-sat", "num_workers": 1}),
    BY_KIND: KindSession,
    "count": CardinalitySession,
    "linear": WeightedSumSession,
    "matching": AssignmentSession,
    "transport": AssignmentSession,
    "arborescence": lambda program: TreesSession(program, projective=False),
    "projective-tree": lambda program: TreesSession(program, projective=True),
    "segmentation": SemiMarkovSession,
    "path": ShortestPathSession,
    "circuit": lambda program: CircuitSession(program, 1),
    **{
        relation: lambda program: RelationsSession(program, 1)
        for relation in ("equivalence", "linear-order", "transitive", "acyclic")
    },
}

#: Tables of a part may have this many entries while it is solved.
MEMORY = 2**26

#: The clock is checked after this many factors.
LOOK_EVERY = 1024

#: Pairs that make more forests than this are parted by hubs, with tables of so many entries at most.
MANY_FORESTS, HUB_ENTRIES = 4, 2**10


@dataclass(frozen=True, eq=False)
class DualSubproblem:
    """One part.

    Parameters
    ----------
    session : Session
        Of the program that the part is.
    member : ndarray of bool, shape (V,)
        The variables that it says something about.
    constrained : bool
        Whether it holds constraints, or variables that nothing else has.
    groups : tuple of int, optional
        The groups of factors that its program has, all by default.
    factors : sequence of ndarray of bool, optional
        Which factors of each group it has; by default all of its ``groups``.
    """

    session: Session
    member: Bools
    constrained: bool
    groups: tuple[int, ...] | None = None
    factors: Sequence[Bools] | None = None

    def theta(self, whole: Theta, node: F64) -> Theta:
        """Return the scores of the part, given those of its variables."""
        const = np.zeros(len(whole.const))
        if self.groups is None:
            return Theta(node, whole.pool, whole.tables, const)
        return _theta(node, [whole.tables[g] for g in self.groups], const)

    def bare_theta(self, whole: Theta, node: F64) -> Theta:
        """Return scores of the part's variables alone: what tables do not forbid is zero."""
        groups = range(len(whole.tables)) if self.groups is None else self.groups
        tables = [np.where(whole.tables[g] == -np.inf, -np.inf, 0.0) for g in groups]
        return _theta(node, tables, np.zeros(len(whole.const)))


def _theta(node: F64, tables: list[F64], const: F64) -> Theta:
    """Return scores with some tables, which are copied."""
    pool = np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])
    ends = pointers(np.array([table.size for table in tables], dtype=np.int64))
    views = (pool[lo:hi].reshape(table.shape) for lo, hi, table in zip(ends[:-1], ends[1:], tables, strict=True))
    return Theta(node, pool, tuple(views), const)


def split_constraints(program: Program, clock: Clock) -> tuple[list[DualSubproblem], Program]:
    """Return the parts of a program that hold constraints, and the program with the factors that are in none of them.

    Raises
    ------
    OutOfTime
    """
    layers = _layered(program, clock)
    linked = _linked(program, layers)
    rest = tuple(
        _some_factors(group, np.full(group.n_factors, g not in linked), program.var_ptr)
        for g, group in enumerate(program.groups)
    )
    return list(_constraint_parts(program, layers, linked, clock)), replace(program, groups=rest)


def split_tables(
    rest: Program, constrained: list[DualSubproblem], max_entries: int, clock: Clock
) -> list[DualSubproblem]:
    """Return all parts of a program, those with constraints first; every variable is in one of them at least.

    Parameters
    ----------
    rest, constrained
        What :func:`split_constraints` returns.
    max_entries : int
        Where elimination needs no larger tables, all factors are one part; else they are forests, or, where these
        would be many and tables may be as large, the pairs that have one of a few variables.
    clock : Clock

    Raises
    ------
    OutOfTime
    """
    parts = [*constrained, *_table_parts(rest, max_entries, clock)]
    covered = np.logical_or.reduce([part.member for part in parts]) if parts else np.zeros(rest.n_variables, bool)
    if covered.all() and parts:
        return parts
    bare = _bare(rest)
    return [*parts, DualSubproblem(CardinalitySession(bare), ~covered, True, ())]


def owners_of(program: Program, parts: Sequence[DualSubproblem]) -> list[I64]:
    """Return for each group the part that each of its factors is in."""
    out = [np.full(group.n_factors, -1, dtype=np.int64) for group in program.groups]
    for k, part in enumerate(parts):
        if part.factors is None:
            for g in part.groups or ():
                out[g][:] = k
            continue
        for mine, chosen in zip(out, part.factors, strict=True):
            if len(chosen) == len(mine):  # else all of the group are in a part with constraints
                mine[chosen] = k
    return out


def constraint_parts(program: Program, clock: Clock) -> list[DualSubproblem]:
    """Return the parts of a program that hold its constraints, without any of its factors.

    Raises
    ------
    OutOfTime
    """
    return list(_constraint_parts(program, _layered(program, clock), {}, clock))


def joint_part(program: Program, theta: Theta) -> DualSubproblem:
    """Return all constraints of a program, and the factors that forbid joint states, as one part by rows."""
    groups = tuple(g for g, tables in enumerate(theta.tables) if (tables == -np.inf).any())
    part = replace(program, groups=tuple(program.groups[g] for g in groups), allowed=None)
    return DualSubproblem(ORACLES[BY_ROWS](part), np.ones(program.n_variables, dtype=bool), True, groups)


@dataclass(eq=False)
class Layer:
    """Constraints for one oracle, and the variables that they have."""

    oracle: str
    member: Bools
    groups: list[ConstraintGroup]


def _layered(program: Program, clock: Clock) -> list[Layer]:
    """Return the constraints in layers: in each those of an example have different variables, or are taken by rows."""
    layers: dict[str, list[Layer]] = {}
    for group in (one for one in program.constraints if one.n_constraints):
        variables = _variables(program, group)
        for oracle, constraints in _oracles(program, group).items():
            mine = [] if oracle == BY_ROWS else layers.setdefault(oracle, [])
            if oracle == BY_ROWS:
                layers[f"{oracle} {len(layers)}"] = mine
                where = np.zeros(len(constraints), dtype=np.int64)
            else:
                taken = [layer.member for layer in mine]
                where = _first_fit(program, group, constraints, oracle == BY_STATES, taken, clock)
            for number in range(int(where.max(initial=-1)) + 1):
                chosen = constraints[where == number]
                if number == len(mine):
                    mine.append(Layer(oracle, np.zeros(program.n_variables, dtype=bool), []))
                mine[number].member[variables[np.isin(group.constraint_of, chosen)]] = True
                mine[number].groups.append(group.only(chosen))
    return [layer for oracle in sorted(layers) for layer in layers[oracle]]


def _oracles(program: Program, group: ConstraintGroup) -> dict[str, I64]:
    """Return which constraints of a group go to which oracle."""
    special = np.zeros(group.n_constraints, dtype=bool)
    native, other = group.kind, BY_ROWS
    if group.kind == "count":
        special, other = _repeats(group), BY_STATES
    elif group.kind == "linear":
        special = WholeSums.from_group(program, group).sizes > MOST_SUMS
    elif isinstance(group.rules, BestKind) and group.kind not in ORACLES:
        native = BY_KIND
    elif group.kind not in ORACLES:
        special[:] = True
    elif group.kind == "segmentation":
        special[:] = segment_variables(program, group) is None
    elif group.kind == "path" and program_need(_bare(program, group)).cyclic:
        special[:] = True
    else:
        special = _repeats(group)
    constraints_of = {native: np.flatnonzero(~special), other: np.flatnonzero(special)}
    return {oracle: constraints for oracle, constraints in constraints_of.items() if len(constraints)}


def _bare(program: Program, *constraints: ConstraintGroup) -> Program:
    """Return a program with the variables of another one, without its factors and masks."""
    return replace(program, groups=(), constraints=constraints, allowed=None)


def _linked(program: Program, layers: list[Layer]) -> dict[int, int]:
    """Return the groups of factors that the oracle of segmentations takes, and the layer each of them belongs to.

    Where segmentations of different layers have variables in common, no oracle takes all of a group.
    """
    places = [number for number, layer in enumerate(layers) if layer.oracle == "segmentation"]
    if len(places) != 1:
        return {}
    linked = [(group, segment_variables(program, group)) for group in layers[places[0]].groups]
    known = [(group, at) for group, at in linked if at is not None]
    return {
        g: places[0]
        for g, group in enumerate(program.groups)
        if group.n_factors and segment_links(replace(program, groups=(group,)), known) is not None
    }


def _constraint_parts(
    program: Program, layers: list[Layer], linked: Mapping[int, int], clock: Clock
) -> Iterator[DualSubproblem]:
    """Yield the parts that hold constraints, with the groups of factors that their oracles take."""
    for number, layer in enumerate(layers):
        clock.afford(0.0)
        mine = tuple(g for g, place in linked.items() if place == number)
        part = replace(_bare(program, *layer.groups), groups=tuple(program.groups[g] for g in mine))
        yield DualSubproblem(ORACLES[layer.oracle](part), layer.member, True, mine)


def _variables(program: Program, group: ConstraintGroup) -> I64:
    """Return the variable of each literal, counted in the batch."""
    first = program.var_ptr[:-1][group.example_of[group.constraint_of]]
    return np.asarray(first + group.variable, dtype=np.int64)


def _repeats(group: ConstraintGroup) -> Bools:
    """Return which constraints have several literals of one variable."""
    order = np.lexsort((group.variable, group.constraint_of))
    variable, owner = group.variable[order], group.constraint_of[order]
    again = (variable[1:] == variable[:-1]) & (owner[1:] == owner[:-1])
    return np.bincount(owner[1:][again], minlength=group.n_constraints) > 0


def _first_fit(
    program: Program, group: ConstraintGroup, constraints: I64, alone: bool, members: list[Bools], clock: Clock
) -> I64:
    """Return the layer of some constraints of a group: the first that has none of their variables.

    ``alone``: a layer takes one constraint of each example.
    """
    variables, where = _variables(program, group), np.zeros(len(constraints), dtype=np.int64)
    taken = [member.copy() for member in members]
    for place, k in enumerate(constraints):
        if place % LOOK_EVERY == 0:
            clock.afford(0.0)
        mine: Any = variables[group.literals(k)]
        if alone:
            mine = slice(*program.var_ptr[group.example_of[k] :][:2].tolist())
        layer = next((n for n, member in enumerate(taken) if not member[mine].any()), len(taken))
        if layer == len(taken):
            taken.append(np.zeros(program.n_variables, dtype=bool))
        taken[layer][mine] = True
        where[place] = layer
    return where


def _table_parts(program: Program, max_entries: int, clock: Clock) -> Iterator[DualSubproblem]:
    """Yield parts that hold the factors."""
    if not any(group.n_factors for group in program.groups):
        return
    bare = replace(program, constraints=(), allowed=None)
    if 2.0 ** program_need(bare).max_clique_table <= max_entries:
        every = [np.ones(group.n_factors, dtype=bool) for group in bare.groups]
        yield DualSubproblem(_opened(bare), _scoped(bare), False, factors=every)
        return
    layer_of = _layers(program, max_entries, clock)
    for layer in range(1 + max(int(layers.max(initial=-1)) for layers in layer_of)):
        clock.afford(0.0)
        groups = tuple(
            _some_factors(group, layers == layer, program.var_ptr)
            for group, layers in zip(program.groups, layer_of, strict=True)
        )
        part = replace(bare, groups=groups)
        yield DualSubproblem(_opened(part), _scoped(part), False, factors=[layers == layer for layers in layer_of])


def _opened(program: Program) -> Session:
    """Return a session of exact inference on a part of the tables."""
    if program.max_arity <= 2 and program.hardest_topology <= Topology.FOREST:
        return ForestSession(program)
    return JunctionTreeSession(program, MEMORY, True)


def _scoped(program: Program) -> Bools:
    """Return which variables are in a factor."""
    member = np.zeros(program.n_variables, dtype=bool)
    for group in program.groups:
        member[group.shapes.variables()] = True
    return member


def _some_factors(group: Group, chosen: Bools, var_ptr: I64) -> Group:
    """Return the group with some of its factors; the tables stay."""
    example = np.repeat(np.arange(len(var_ptr) - 1), group.shapes.counts)[chosen]
    ptr = pointers(np.bincount(example, minlength=len(var_ptr) - 1))
    scope, table = group.shapes.variables()[chosen], group.table_rows()[chosen]
    return Group.of(group.name, group.cards, scope, ptr, table, group.n_tables, var_ptr, group.kind)


def _layers(program: Program, max_entries: int, clock: Clock) -> list[I64]:
    """Return for each group the layer of each of its factors: in each an example has a forest, or pairs with hubs."""
    first_of = np.unique(program.shape, return_index=True)[1]
    layers_of_shape = [
        _of_example(
            [group.shapes.scope[group.shapes.factors(i)] for group in program.groups],
            program.card[slice(*program.var_ptr[i : i + 2].tolist())], max_entries, clock,
        )
        for i in first_of
    ]
    return [
        np.concatenate([np.zeros(0, np.int64), *(layers_of_shape[shape][g] for shape in program.shape)])
        for g in range(len(program.groups))
    ]


def _of_example(scopes: list[Any], card: I32, max_entries: int, clock: Clock) -> list[I64]:
    """Return the layer of each factor of one example, where they are forests: the first in which it closes no cycle.

    Factors are taken in their own order, or by the sum of their variables, which parts a complete graph of n variables
    into n / 2 paths (Walecki); whichever needs fewer layers.  Where that are many, pairs are parted by hubs.
    """
    counts = pointers(np.array([len(one) for one in scopes], dtype=np.int64))
    if not counts[-1]:
        return [np.zeros(0, dtype=np.int64) for _ in scopes]
    arity = np.concatenate([np.full(len(one), one.shape[1], dtype=np.int64) for one in scopes])
    ptr, scope = pointers(arity), np.concatenate([np.sort(one, axis=1).ravel() for one in scopes]).astype(np.int64)
    same, n = _scope_numbers(ptr, scope), len(card)
    total = np.add.reduceat(scope, ptr[:-1])
    orders = (np.arange(len(arity)), np.argsort(total % (1 + scope.max()), kind="stable"))
    tried = [first_layers(ptr, scope, same, order, n, clock) for order in orders]
    best = min(tried, key=lambda layer: int(layer.max(initial=0)))
    most = min(max_entries, HUB_ENTRIES)
    if best.max(initial=0) >= MANY_FORESTS and (arity == 2).all() and most >= int(card.max()) ** 3:
        best = _by_hubs(scope.reshape(-1, 2), card, most, clock)
    return [best[lo:hi] for lo, hi in pairwise(counts.tolist())]


def _scope_numbers(ptr: I64, scope: I64) -> I64:
    """Return a number for each factor, the same for those of one scope."""
    arity, numbers = np.diff(ptr), np.zeros(len(ptr) - 1, dtype=np.int64)
    known = 0
    for r in np.unique(arity):
        mine = np.flatnonzero(arity == r)
        rows = scope[runs(ptr[mine], arity[mine])].reshape(-1, r)
        order = np.lexsort(rows.T[::-1])
        fresh = np.ones(len(mine), dtype=bool)
        fresh[1:] = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
        numbers[mine[order]] = known + np.cumsum(fresh) - 1
        known = int(numbers[mine].max()) + 1
    return numbers


def _by_hubs(pairs: I64, card: I32, max_entries: int, clock: Clock) -> I64:
    """Return the layer of each pair of one example: in each all pairs left that have one of a few hubs.

    Elimination takes the variables that are no hubs first, each with hubs alone for neighbours, so that no table has
    more entries than the hubs and one more variable.  Such parts hold many cycles, where forests hold none, and
    are few: their bound is tighter, and found in fewer calls.
    """
    layer, left = np.full(len(pairs), -1, dtype=np.int64), np.arange(len(pairs))
    while len(left):
        clock.afford(0.0)
        degree = np.bincount(pairs[left].ravel(), minlength=len(card))
        hub, entries = np.zeros(len(card), dtype=bool), int(card.max())
        for v in np.argsort(-degree, kind="stable").tolist():
            if degree[v] == 0 or (hub.any() and entries * int(card[v]) > max_entries):
                break
            entries *= int(card[v])
            hub[v] = True
        mine = hub[pairs[left]].any(axis=1)
        layer[left[mine]] = layer.max(initial=-1) + 1
        left = left[~mine]
    return layer


# -- Factors parted into forests: each goes to the first layer in which it closes no cycle ---------------------------

#: Factors between two checks of the clock, and layers that there is room for at first.
LAID_AT_ONCE, FIRST_LAYERS = 16384, 4


def first_layers(ptr: I64, scope: I64, same: I64, order: I64, n: int, clock: Clock) -> I64:
    """Return the layer of each factor when they are taken in an order.

    Parameters
    ----------
    ptr : ndarray of int64, shape (F + 1,)
        Where the variables of each factor start.
    scope : ndarray of int64
        Its variables, ascending.
    same : ndarray of int64, shape (F,)
        A number of each scope: factors of one scope are in one layer.
    order : ndarray of int64, shape (F,)
    n : int
        Number of variables.
    clock : Clock

    Raises
    ------
    OutOfTime
    """
    layer, layer_of = np.zeros(len(order), dtype=np.int64), np.full(len(order), -1, dtype=np.int64)
    parent = np.tile(np.arange(n, dtype=np.int64), (FIRST_LAYERS, 1))
    done = 0
    while done < len(order):
        clock.afford(0.0)
        until = min(done + LAID_AT_ONCE, len(order))
        done = take_factors(ptr, scope, same, order[:until], done, parent, layer_of, layer)
        if done < until:
            parent = np.concatenate([parent, np.tile(np.arange(n, dtype=np.int64), (len(parent), 1))])
    return layer


@njit(cache=True, nogil=True)
def take_factors(
    ptr: I64, scope: I64, same: I64, order: I64, begin: int, parent: I64, layer_of: I64, layer: I64
) -> int:
    """Find the layers of some factors; return how many of ``order`` have one.

    Parameters
    ----------
    ptr, scope, same, order
        As for :func:`first_layers`; read only.
    begin : int
        The first of ``order``.
    parent : ndarray of int64, shape (n_layers, n)
        The trees of each layer: above each variable, another one of its component, itself at the top.  In place.
    layer_of : ndarray of int64, shape (F,)
        The layer of each scope by its number, -1 where there is none yet.  In place.
    layer : ndarray of int64, shape (F,)
        The layer of each factor.  In place.

    Returns
    -------
    int
        Less than all where there are too few layers for the next one.
    """
    for place in range(begin, len(order)):
        f = order[place]
        lo, hi = ptr[f], ptr[f + 1]
        target = layer_of[same[f]]
        number = 0
        while target < 0 and number < len(parent):
            apart = True
            for a in range(lo, hi):
                top = representative(parent[number], scope[a])
                for b in range(lo, a):
                    if representative(parent[number], scope[b]) == top:
                        apart = False
                        break
                if not apart:
                    break
            if apart:
                target = number
            number += 1
        if target < 0:
            return place
        if layer_of[same[f]] < 0:
            layer_of[same[f]] = target
            for a in range(lo + 1, hi):
                parent[target, representative(parent[target], scope[a])] = representative(parent[target], scope[lo])
        layer[f] = target
    return len(order)
