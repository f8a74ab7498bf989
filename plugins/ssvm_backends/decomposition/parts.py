"""Parts of a problem that have exact oracles: forests of its tables, and its constraints kind by kind.

Each part is a program over all variables of the batch with some of the factors or constraints, opened by the backend of
this distribution that solves it: dynamic programming, elimination, or the oracle of a structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ssvm_backends.elimination.junction_tree import JunctionTreeSession
from ssvm_backends.structures.counts.cardinality import CardinalitySession
from ssvm_backends.structures.matchings.assignment import AssignmentSession
from ssvm_backends.structures.routes.circuit import CircuitSession
from ssvm_backends.structures.routes.shortest_path import ShortestPathSession
from ssvm_backends.structures.spanning_trees.trees_session import TreesSession
from ssvm_backends.trees.session import ForestSession
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir import F64, I64, Bools, ConstraintGroup, Group, Need, Program, Theta, Topology, pointers
from ssvm_dsl.plugin_api import Session

#: Counts of several states of a variable.
BY_STATES = "count by states"

#: What opens a part whose constraints are all of one kind, over different variables.
ORACLES: Mapping[str, Any] = {
    BY_STATES: ForestSession,
    "count": CardinalitySession,
    "matching": AssignmentSession,
    "arborescence": lambda program: TreesSession(program, projective=False),
    "projective-tree": lambda program: TreesSession(program, projective=True),
    "path": ShortestPathSession,
    "circuit": lambda program: CircuitSession(program, 1),
}

#: Tables of a part may have this many entries while it is solved.
MEMORY = 2**26


@dataclass(frozen=True, eq=False)
class Part:
    """One part.

    Parameters
    ----------
    session : Session
        Of the program that the part is.
    member : ndarray of bool, shape (V,)
        The variables that it says something about.
    constrained : bool
        Whether it holds constraints, and no tables; else tables and no constraint, or one count.
    """

    session: Session
    member: Bools
    constrained: bool

    def theta(self, whole: Theta, node: F64) -> Theta:
        """Return the scores of the part, given those of its variables."""
        const = np.zeros(len(whole.const))
        return Theta(node, np.zeros(0), (), const) if self.constrained else Theta(node, whole.pool, whole.tables, const)


def split(program: Program, max_entries: int) -> list[Part]:
    """Return the parts of a program, those with constraints first; every variable is in one of them at least.

    Parameters
    ----------
    program : Program
    max_entries : int
        Where elimination needs no larger tables, all factors are one part; else they are forests.

    Raises
    ------
    TooLargeError
        A constraint has several literals of one variable.
    """
    parts = [*_constraint_parts(program), *_table_parts(program, max_entries)]
    covered = np.logical_or.reduce([part.member for part in parts]) if parts else np.zeros(program.n_variables, bool)
    if covered.all() and parts:
        return parts
    bare = replace(program, groups=(), constraints=(), allowed=None)
    return [*parts, Part(CardinalitySession(bare), ~covered, True)]


def _constraint_parts(program: Program) -> Iterator[Part]:
    """Yield parts that hold constraints of one kind: in each the constraints of an example have different variables."""
    layers: dict[str, list[tuple[Bools, list[ConstraintGroup]]]] = {}
    for group in (one for one in program.constraints if one.n_constraints):
        variables, repeated = _variables(program, group), _repeats(group)
        if repeated.any() and group.kind != "count":
            text = f"constraint '{group.name}' has several literals of one variable, which its oracle does not take"
            raise TooLargeError(f"{text}; backend='ilp' does")
        for kind, constraints in ((group.kind, np.flatnonzero(~repeated)), (BY_STATES, np.flatnonzero(repeated))):
            mine = layers.setdefault(kind, [])
            where = _first_fit(program, group, constraints, kind == BY_STATES, [member for member, _ in mine])
            for layer in range(int(where.max(initial=-1)) + 1):
                chosen = constraints[where == layer]
                if layer == len(mine):
                    mine.append((np.zeros(program.n_variables, dtype=bool), []))
                mine[layer][0][variables[np.isin(group.constraint_of, chosen)]] = True
                mine[layer][1].append(group.only(chosen))
    for kind, mine in sorted(layers.items()):
        for member, groups in mine:
            part = replace(program, groups=(), constraints=tuple(groups), allowed=None)
            yield Part(ORACLES[kind](part), member, True)


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


def _first_fit(program: Program, group: ConstraintGroup, constraints: I64, alone: bool, members: list[Bools]) -> I64:
    """Return the layer of some constraints of a group: the first that has none of their variables.

    ``alone``: a layer takes one constraint of each example.
    """
    variables, where = _variables(program, group), np.zeros(len(constraints), dtype=np.int64)
    taken = [member.copy() for member in members]
    for place, k in enumerate(constraints):
        mine: Any = variables[group.literals(k)]
        if alone:
            mine = slice(*program.var_ptr[group.example_of[k] :][:2].tolist())
        layer = next((n for n, member in enumerate(taken) if not member[mine].any()), len(taken))
        if layer == len(taken):
            taken.append(np.zeros(program.n_variables, dtype=bool))
        taken[layer][mine] = True
        where[place] = layer
    return where


def _table_parts(program: Program, max_entries: int) -> Iterator[Part]:
    """Yield parts that hold the factors."""
    if not any(group.n_factors for group in program.groups):
        return
    bare = replace(program, constraints=(), allowed=None)
    if 2.0 ** Need.of(bare).max_clique_table <= max_entries:
        yield Part(_opened(bare), _scoped(bare), False)
        return
    layer_of = _layers(program)
    for layer in range(1 + max(int(one.max(initial=-1)) for one in layer_of)):
        groups = tuple(
            _some_factors(group, one == layer, program.var_ptr)
            for group, one in zip(program.groups, layer_of, strict=True)
        )
        part = replace(bare, groups=groups)
        yield Part(_opened(part), _scoped(part), False)


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
    of = np.repeat(np.arange(len(var_ptr) - 1), group.shapes.counts)[chosen]
    ptr = pointers(np.bincount(of, minlength=len(var_ptr) - 1))
    scope, table = group.shapes.variables()[chosen], group.table_rows()[chosen]
    return Group.of(group.name, group.cards, scope, ptr, table, group.n_tables, var_ptr, group.kind)


def _layers(program: Program) -> list[I64]:
    """Return for each group the layer of each of its factors: in each layer the factors of an example form a forest."""
    first_of = np.unique(program.shape, return_index=True)[1]
    found = [_forests([group.shapes.scope[group.shapes.factors(i)] for group in program.groups]) for i in first_of]
    return [
        np.concatenate([np.zeros(0, np.int64), *(found[shape][g] for shape in program.shape)])
        for g in range(len(program.groups))
    ]


def _forests(scopes: list[Any]) -> list[I64]:
    """Return the layer of each factor of one example: the first in which it closes no cycle.

    Factors are taken in their own order, or by the sum of their variables, which parts a complete graph of n variables
    into n / 2 paths (Walecki); whichever needs fewer layers.
    """
    counts = pointers(np.array([len(one) for one in scopes], dtype=np.int64))
    flat = [tuple(sorted(scope.tolist())) for one in scopes for scope in one]
    n = 1 + max((scope[-1] for scope in flat), default=0)
    by_sum = sorted(range(len(flat)), key=lambda f: sum(flat[f]) % n)
    tried = [_first_layers(flat, order, n) for order in (range(len(flat)), by_sum)]
    best = min(tried, key=lambda layer: int(layer.max(initial=0)))
    return [best[lo:hi] for lo, hi in pairwise(counts.tolist())]


def _first_layers(flat: list[tuple[int, ...]], order: Any, n: int) -> I64:
    """Return the layer of each factor when they are taken in an order."""
    layer, roots, known = np.zeros(len(flat), dtype=np.int64), list[list[int]](), list[set[tuple[int, ...]]]()
    for f in order:
        scope = flat[f]
        for number in range(len(roots) + 1):
            if number == len(roots):
                roots.append(list(range(n)))
                known.append(set())
            tops = [_root(roots[number], v) for v in scope]
            if scope in known[number] or len(set(tops)) == len(tops):
                for top in tops[1:]:
                    roots[number][_root(roots[number], top)] = _root(roots[number], tops[0])
                known[number].add(scope)
                layer[f] = number
                break
    return layer


def _root(parent: list[int], v: int) -> int:
    """Return the root of a variable; paths are halved on the way."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v
