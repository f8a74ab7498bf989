"""The kinds of structural constraints: what they call broken, and their linear rows, against definitions."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.plugin_api import ConstraintSpec
from ssvm_dsl.plugin_api.hosting.rules import row_mistakes
from ssvm_dsl.registry import registry
from structures.trees_by_hand import is_projective, is_tree

RELATIONS = ["equivalence", "linear-order", "transitive", "acyclic"]
KINDS = ["matching", "transport", "runs", "arborescence", "projective-tree", "path", "circuit", *RELATIONS]


def agrees(kind, n, pairs, true):
    """Whether some clustering, order or relation of all items has these true and false pairs; by trying all."""
    if kind == "equivalence":
        return any(all((of[a] == of[b]) == holds for (a, b), holds in zip(pairs, true))
                   for of in itertools.product(range(max(n, 1)), repeat=n))  # fmt: skip
    if kind == "linear-order":
        return any(all((order[a] < order[b]) == holds for (a, b), holds in zip(pairs, true))
                   for order in itertools.permutations(range(n)))  # fmt: skip
    if kind == "acyclic":
        return any(all(order[a] < order[b] for (a, b), holds in zip(pairs, true) if holds)
                   for order in itertools.permutations(range(n)))  # fmt: skip
    closure = {pair for pair, holds in zip(pairs, true) if holds}
    while more := {(a, d) for a, b in closure for c, d in closure if b == c} - closure:
        closure |= more
    return all(pair not in closure for pair, holds in zip(pairs, true) if not holds)


def holds(kind, meta, places):
    """Whether the true literals, given by their places, satisfy a constraint; from the definitions."""
    if kind in RELATIONS:
        return agrees(kind, meta["n_items"], meta["every place"], meta["true"])
    if kind == "matching":
        counts = [[sum(place[side] == one for place in places) for one in range(meta[size])]
                  for side, size in ((0, "n_rows"), (1, "n_cols"))]  # fmt: skip
        bounds = [(meta["row_least"], meta["row_most"]), (meta["col_least"], meta["col_most"])]
        return all(least <= c <= most for part, (least, most) in zip(counts, bounds) for c in part)
    if kind == "transport":
        sides = [{}, {}]  # of each row and column with literals: how many there are, at least, at most
        for numbers, place in meta["places"]:
            sides[0][place[0]], sides[1][place[1]] = numbers[:2], numbers[2:]
        return all(least <= sum(place[side] == one for place in places) <= most
                   for side in (0, 1) for one, (least, most) in sides[side].items())  # fmt: skip
    if kind == "runs":
        stretches = {}
        for position, of, least, most in sorted(places, key=lambda place: (place[1], place[0])):
            known = stretches.setdefault(of, [])
            if not known or known[-1][1] != position:
                known.append([position, position, least, most])
            known[-1][1] = position + 1
        return all(end - start <= most and (end - start >= least or (meta["cut"] and (start == 0 or end == meta["n"])))
                   for known in stretches.values() for start, end, least, most in known)  # fmt: skip
    if kind in ("arborescence", "projective-tree"):
        if sorted(d for _, d in places) != list(range(1, meta["n"] + 1)):
            return False
        heads = (-1, *(h for h, _ in sorted(places, key=lambda place: place[1])))
        return is_tree(heads, meta["single_root"]) and (kind == "arborescence" or is_projective(heads))
    graph = networkx.MultiDiGraph()
    graph.add_edges_from(places)
    if kind == "path":
        source, target = meta["source"], meta["target"]
        if source == target:
            return not places
        nodes, v = [source], source
        while v != target and graph.has_node(v) and graph.out_degree(v) == 1 and len(nodes) <= len(places):
            v = next(iter(graph.successors(v)))
            nodes.append(v)
        return v == target and len(set(nodes)) == len(nodes) == len(places) + 1
    if meta["n_nodes"] == 0:
        return not places
    simple = len(places) > 1 and all(graph.in_degree(v) == graph.out_degree(v) == 1 for v in graph)
    return simple and networkx.is_weakly_connected(graph) and (not meta["all_nodes"] or len(graph) == meta["n_nodes"])


def feasible(rows, true):
    """Whether the rows have a solution with these literals."""
    n, m = len(true), rows.n_auxiliary
    if rows.n_rows == 0 or n + m == 0:
        return bool((rows.lower <= 0).all() and (rows.upper >= 0).all())
    matrix = csr_array((rows.coefficient, rows.column, rows.ptr), shape=(rows.n_rows, n + m))
    within = Bounds(np.append(true.astype(float), rows.least), np.append(true.astype(float), rows.most))
    whole = np.append(np.zeros(n), rows.whole)
    return milp(np.zeros(n + m), integrality=whole, bounds=within,
                constraints=LinearConstraint(matrix, rows.lower, rows.upper)).status == 0  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_broken_constraints_and_rows(kind):
    spec = registry().find(ConstraintSpec, kind)
    names, seen = spec.literal_parameters[: 2 if kind == "transport" else None], set()
    for seed in range(6):
        rng = np.random.default_rng(seed)
        program = with_rules(registry().load(spec)().problem(rng)[0], registry())
        (group,) = program.constraints
        for k in range(group.n_constraints):
            part = group.literals(k)
            one = group.only(np.array([k]))
            meta = {name: value[k].item() for name, value in group.meta.items()}
            places = list(zip(*(group.literal_meta[name][part].tolist() for name in names)))
            limits = zip(*(group.literal_meta[name][part].tolist() for name in spec.literal_parameters[2:]))
            meta["places"] = list(zip(limits, places))
            rows = one.rules.rows(one, 0)
            assert not row_mistakes(rows, len(places))
            for bits in itertools.product([False, True], repeat=len(places)):
                true = np.array(bits, dtype=bool)
                meta["every place"], meta["true"] = places, bits
                right = holds(kind, meta, [place for place, bit in zip(places, bits) if bit])
                assert one.rules.violated(one, true).tolist() == [not right]
                if rng.random() < (0.3 if right else 0.01):
                    assert feasible(rows, true) == right
                    seen.add(right)
    assert seen == {True, False}


@pytest.mark.parametrize("kind", KINDS)
def test_all_constraints_are_judged_at_once_as_one_by_one(kind):
    program = with_rules(registry().load(registry().find(ConstraintSpec, kind))().problem(np.random.default_rng(3))[0],
                         registry())  # fmt: skip
    (group,), rng = program.constraints, np.random.default_rng(0)
    for _ in range(30):
        true = rng.random(len(group.variable)) < rng.random()
        alone = [group.only(np.array([k])).rules.violated(group.only(np.array([k])), true[group.literals(k)])[0]
                 for k in range(group.n_constraints)]  # fmt: skip
        assert group.rules.violated(group, true).tolist() == alone
