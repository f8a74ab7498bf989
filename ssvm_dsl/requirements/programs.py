"""``program_need``: what a program asks of a backend, read from its sizes, its graph and its hard constraints."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from ssvm_dsl.ir.analysis.chunks import chunk_share
from ssvm_dsl.ir.analysis.segments import are_segmented
from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.need import Ability, Guarantee, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.requirements.treewidth import eliminations

#: The kind of hard bounds on the number of true literals.
COUNTED = "count"

#: What follows from programs alone, for as long as they are there.
_known: WeakKeyDictionary[Program, Need] = WeakKeyDictionary()


def program_need(
    program: Program,
    tasks: frozenset[Task] = frozenset({Task.MAP}),
    guarantee: Guarantee = Guarantee.EXACT,
    abilities: frozenset[Ability] = frozenset(),
    properties: frozenset[str] = frozenset(),
) -> Need:
    """Return the need of a program; what follows from the program alone is found once."""
    if program not in _known:
        _known[program] = _structure_need(program)
    return replace(_known[program], tasks=tasks, guarantee=guarantee, abilities=abilities, properties=properties)


def _structure_need(program: Program) -> Need:
    """Return the need of a program, whatever is asked about it."""
    few = program.representatives
    n_factors, n_slots, max_arity, max_table, of_spans = 0, 0, 1, 1, False
    for group in program.groups:
        n_factors += group.n_factors
        n_slots += group.n_factors * group.arity
        max_arity = max(max_arity, group.arity if group.n_factors else 1)
        max_table = max(max_table, group.n_configs)
        of_spans |= group.of_spans
    uses = np.zeros(few.n_variables, dtype=np.int64)  # in how many factors each variable is
    for group in few.graph_groups:
        uses += np.bincount(group.shapes.variables().ravel(), minlength=few.n_variables)
    max_card = int(program.card.max(initial=1))
    max_clique_table = 2.0 * float(np.log2(max_card))  # two variables of a tree
    if program.hardest_topology is Topology.LOOPY:
        max_clique_table = max((one.log2_largest for one in eliminations(program)), default=0.0)
    literals, constraints = np.zeros(program.n_variables, dtype=np.int64), np.zeros(program.n_examples, dtype=np.int64)
    kinds, max_count, without_rows, cyclic = set[str](), 0, False, False
    for rule in program.constraints:
        first = program.var_ptr[:-1][rule.example_of[rule.constraint_of]]
        if rule.n_constraints:
            kinds.add(rule.kind)
        literals += np.bincount(first + rule.variable, minlength=program.n_variables)
        constraints += rule.counts
        without_rows |= rule.without_rows
        cyclic = cyclic or _has_cycle(rule)
        if rule.kind == COUNTED:
            max_count = max(max_count, _furthest(rule))
    return Need(
        topology=program.hardest_topology,
        max_arity=max_arity,
        max_card=max_card,
        constraint_kinds=frozenset(kinds),
        max_constraints=int(constraints.max(initial=0)),
        max_count=max_count,
        shared_literals=bool((literals > 1).any()),
        segmented=bool(program.constraints) and are_segmented(program),
        free_variables=bool((literals == 0).any()),
        of_spans=of_spans,
        without_rows=without_rows,
        cyclic=cyclic,
        max_variables=int(np.diff(program.var_ptr).max(initial=0)),
        max_labellings=most_labellings(program),
        max_table=max_table,
        n_examples=program.n_examples,
        n_variables=program.n_variables,
        n_factors=n_factors,
        n_slots=n_slots,
        crowding=min(float(uses @ uses) / max(float(uses.sum()), 1.0), max_clique_table),
        n_shapes=few.n_examples,
        max_clique_table=max_clique_table,
        share=chunk_share(program),
        constraints=program.constraints,
    )


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
