"""Split a program into parts that different backends may answer: connected components, by kind.

Components of one example do not influence each other: best labellings go side by side, scores, bounds and
log-partitions add up.  So a program is first seen as the program of its components, one example each; those of
one kind (chains, forests, graphs with cycles that are small enough for exact elimination, others) make a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.ir.analysis.topology import Topology, first_of_component
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import members, owners, pointers, runs
from ssvm_dsl.ir.theta import Theta

#: Components whose exact elimination needs tables of at most this many bits are a kind of their own.
SMALL_TABLE = 20.0

#: Tasks whose answers on components make the answer on the whole.
SEPARABLE = frozenset({Task.MAP, Task.MAP_CLAMPED, Task.MARGINALS})


@dataclass(frozen=True, eq=False)
class ComponentGroup:
    """Some components of a program.

    Parameters
    ----------
    program : Program
        The components, one example each, sorted by the example they are from.
    variables : ndarray of int64, shape (program.n_variables,)
        The variable of the whole program each variable is.
    example : ndarray of int64, shape (program.n_examples,)
        The example of the whole program each component is from.
    factors : tuple of ndarray
        For each group the factors of the whole program, in the order of the part.
    """

    program: Program
    variables: I64
    example: I64
    factors: tuple[I64, ...]

    def theta(self, whole: Theta, states: I64) -> Theta:
        """Return the scores of the part; tables are shared with the whole, constants stay there."""
        return Theta(whole.node[states], whole.pool, whole.tables, np.zeros(self.program.n_examples))


def component_roots(program: Program) -> I64:
    """Return for each variable the first variable of its component."""
    edges = [np.zeros((0, 2), np.int32)]
    for group in program.groups:
        scope = group.shapes.variables()
        edges.append(np.stack([np.repeat(scope[:, 0], scope.shape[1] - 1), scope[:, 1:].ravel()], axis=1))
    return first_of_component(program.n_variables, np.concatenate(edges))


def by_component(program: Program, root: I64) -> ComponentGroup:
    """Return all components of a program, with these :func:`component_roots`, as one part."""
    n, scopes = program.n_variables, [group.shapes.variables() for group in program.groups]
    first = np.flatnonzero(root == np.arange(n))  # components are numbered by their first variable
    component = np.searchsorted(first, root)
    variables = np.argsort(component, kind="stable").astype(np.int64)
    example = owners(program.var_ptr)[first]
    ptr = pointers(np.bincount(component, minlength=len(first)))
    return _part(program, variables, ptr, example, [component[one[:, 0]] for one in scopes])


def select_components(whole: ComponentGroup, ids: I64) -> ComponentGroup:
    """Return the part of a program that some of its components make."""
    program = whole.program
    inner = members(program.var_ptr, ids)
    made = _part(
        program,
        inner,
        pointers(program.var_ptr[1:][ids] - program.var_ptr[ids]),
        whole.example[ids],
        [_renumbered(owners(g.ptr), ids, program.n_examples) for g in program.groups],
    )
    factors = tuple(outer[mine] for outer, mine in zip(whole.factors, made.factors, strict=True))
    return ComponentGroup(made.program, whole.variables[inner], made.example, factors)


def _renumbered(owner: I64, ids: I64, n: int) -> I64:
    """Return for each factor the place of its component among ``ids``, -1 when it is not there."""
    place = np.full(n, -1, dtype=np.int64)
    place[ids] = np.arange(len(ids))
    return place[owner]


def _part(program: Program, variables: I64, ptr: I64, example: I64, owner: Sequence[I64]) -> ComponentGroup:
    """Return a part; ``owner`` gives for each factor of each group its component, -1 to leave it out."""
    place = np.full(program.n_variables, -1, dtype=np.int32)
    place[variables] = np.arange(len(variables), dtype=np.int32)
    groups, factors = [], []
    for group, component in zip(program.groups, owner, strict=True):
        kept = np.flatnonzero(component >= 0)
        kept = kept[np.argsort(component[kept], kind="stable")]
        counts = np.bincount(component[kept], minlength=len(ptr) - 1)
        scope = np.ascontiguousarray(place[group.shapes.variables()[kept]])
        groups.append(
            Group.of(
                group.name,
                group.cards,
                scope,
                pointers(counts),
                group.table_rows()[kept],
                group.n_tables,
                ptr,
                group.kind,
            )
        )
        factors.append(kept)
    states = runs(program.state_ptr[variables], program.card[variables])
    made = Program(
        ptr,
        np.ascontiguousarray(program.card[variables]),
        tuple(groups),
        allowed=None if program.allowed is None else program.allowed[states],
        role=None if program.role is None else program.role[variables],
    )
    return ComponentGroup(made, variables, example, tuple(factors))


def kinds_of(whole: ComponentGroup) -> I64:
    """Return the kind of each component: its topology, 3 for cycles too wide for exact elimination.

    Components of a single variable go with the largest kind there is: any backend answers them on the way.
    """
    from ssvm_dsl.requirements.treewidth import eliminations

    program = whole.program
    kind = program.topology.astype(np.int64)
    loopy = np.flatnonzero(kind == Topology.LOOPY)
    bits = np.array([one.log2_largest for one in eliminations(program, loopy)])
    kind[loopy[bits > SMALL_TABLE]] = 3
    kind[np.diff(program.var_ptr) == 1] = kind.max(initial=0)
    return kind


def one_kind(program: Program) -> bool:
    """Return whether all components are of one kind, judged by one example of each shape (without masks)."""
    if program.allowed is not None:
        return False
    few = program.representatives
    root = component_roots(few)
    if few.n_examples == 1 and not root.any():
        return True
    return len(np.unique(kinds_of(by_component(few, root)))) <= 1


def component_groups(program: Program) -> list[ComponentGroup]:
    """Return the parts of a program, simplest kind first; a single part when all components are of one kind."""
    whole = by_component(program, component_roots(program))
    kind = kinds_of(whole)
    return [select_components(whole, np.flatnonzero(kind == k)) for k in np.unique(kind)]
