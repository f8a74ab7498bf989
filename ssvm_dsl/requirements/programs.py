"""``program_need``: what a program asks of a backend, read from its sizes, its graph and its hard constraints."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.ir.analysis.chunks import chunk_share
from ssvm_dsl.ir.analysis.segments import KINDS, are_segmented
from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.need import Ability, Guarantee, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.requirements.treewidth import largest_table

#: The kind of hard bounds on the number of true literals.
COUNTED = "count"


def program_need(
    program: Program,
    tasks: frozenset[Task] = frozenset({Task.MAP}),
    guarantee: Guarantee = Guarantee.EXACT,
    abilities: frozenset[Ability] = frozenset(),
    properties: frozenset[str] = frozenset(),
) -> Need:
    """Return the need of a program."""
    longest = int(np.diff(program.var_ptr).max(initial=0))
    uses, clique = _literal_uses(program), _clique_table(program)
    return Need(
        tasks=tasks,
        topology=program.hardest_topology,
        max_arity=program.max_arity,
        max_card=int(program.card.max(initial=1)),
        constraint_kinds=frozenset(one.kind for one in program.constraints if one.n_constraints),
        max_constraints=_most_constraints(program),
        max_count=max((_furthest(group) for group in program.constraints if group.kind == COUNTED), default=0),
        shared_literals=bool((uses > 1).any()),
        segmented=any(one.kind in KINDS for one in program.constraints) and are_segmented(program),
        free_variables=bool((uses == 0).any()),
        of_spans=any(group.of_spans for group in program.groups),
        without_rows=any(one.without_rows for one in program.constraints),
        cyclic=any(_has_cycle(group) for group in program.constraints),
        abilities=abilities,
        guarantee=guarantee,
        max_variables=longest,
        max_labellings=most_labellings(program),
        max_table=max((group.n_configs for group in program.groups), default=1),
        n_examples=program.n_examples,
        n_variables=program.n_variables,
        n_factors=sum(group.n_factors for group in program.groups),
        n_slots=sum(group.n_factors * group.arity for group in program.groups),
        crowding=min(_crowding(program), clique),
        n_shapes=program.representatives.n_examples,
        max_clique_table=clique,
        properties=properties,
        share=chunk_share(program),
        constraints=program.constraints,
    )


def _crowding(program: Program) -> float:
    """Return how many factors the variables of a factor are in, on average over one example of each shape."""
    few = program.representatives
    uses = np.zeros(few.n_variables, dtype=np.int64)
    for group in few.graph_groups:
        uses += np.bincount(group.shapes.variables().ravel(), minlength=few.n_variables)
    return float(uses @ uses) / max(float(uses.sum()), 1.0)


def _clique_table(program: Program) -> float:
    """Return the largest table of exact elimination in bits; two variables of a tree make one."""
    if program.hardest_topology < Topology.LOOPY:
        return 2.0 * float(np.log2(program.card.max(initial=1)))
    return largest_table(program)


def _has_cycle(group: ConstraintGroup) -> bool:
    """Return whether the arcs of a constraint's literals, loops aside, can form a cycle."""
    if not {"tail", "head"} <= set(group.literal_meta) or not len(group.variable):
        return False
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    tail, head = (group.literal_meta[name].astype(np.int64) for name in ("tail", "head"))
    width = int(max(tail.max(), head.max())) + 1
    n = group.n_constraints * width
    base = group.constraint_of * width
    graph = coo_array((np.ones(len(tail), dtype=np.int8), (base + tail, base + head)), shape=(n, n))
    return bool(connected_components(graph, connection="strong", return_labels=False) < n)


def _literal_uses(program: Program) -> I64:
    """Return in how many literals of hard constraints each variable is; ``ndarray of int64, shape (V,)``."""
    uses = np.zeros(program.n_variables, dtype=np.int64)
    for group in program.constraints:
        first = program.var_ptr[:-1][group.example_of[group.constraint_of]]
        uses += np.bincount(first + group.variable, minlength=program.n_variables)
    return uses


def _most_constraints(program: Program) -> int:
    """Return how many hard constraints the example with most of them has."""
    counts = np.zeros(program.n_examples, dtype=np.int64)
    for group in program.constraints:
        counts += group.counts
    return int(counts.max(initial=0))


def _furthest(group: ConstraintGroup) -> int:
    """Return how far bounds on counts make one count: true literals, or false ones where those are fewer."""
    literals = np.diff(group.literal_ptr)
    lower = np.minimum(np.maximum(group.meta["lower"].astype(np.int64), 0), literals)
    upper = np.minimum(np.maximum(group.meta["upper"].astype(np.int64), 0), literals)
    free = (lower == 0) & (upper == literals)
    return int(np.where(free, 0, np.minimum(upper, literals - lower)).max(initial=0))


def most_labellings(program: Program) -> float:
    """Return the number of labellings of the example that has most (``inf`` when it overflows a float)."""
    with np.errstate(over="ignore"):
        if program.uniform_card:
            longest = int(np.diff(program.var_ptr).max(initial=0))
            return float(np.power(float(program.uniform_card), longest))
        log_card = np.concatenate([[0.0], np.cumsum(np.log(program.card))])
        logs = log_card[program.var_ptr[1:]] - log_card[program.var_ptr[:-1]]
        return float(np.exp(logs.max(initial=0.0)))
