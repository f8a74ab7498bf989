"""``tbcd``: trees span and cover, one update is an exact minimisation over a tree, variables get equal shares."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from lp_problems import complete, grid, pairwise

from ssvm_backends import ssvm_backends
from ssvm_backends.dual.descent.block_descent import add_up
from ssvm_backends.dual.descent.spanning_trees import begin_round, draw_trees, no_trees
from ssvm_backends.dual.descent.tree_blocks import collect_up, hand_down
from ssvm_backends.dual.kernels import VISIT, Site, bound_terms, factor_maximum, fill_visits
from ssvm_backends.graphs.graph import Instance, build_graph
from ssvm_dsl.ir import Limits, Question
from ssvm_dsl.testing.problems import Recipe, seeded

SPECS = {spec.name: spec for spec in ssvm_backends()}


def opened(name, program, **options):
    return SPECS[name].load()().open(program, SPECS[name].resolve(options))


def incidence(graph, factors):
    """The factor graph of some factors, and of the variables of example 0."""
    found = networkx.Graph()
    found.add_nodes_from(("v", v) for v in range(graph.var_ptr[1]))
    found.add_edges_from(
        (("f", f), ("v", int(v))) for f in factors for v in graph.scope[graph.slot_ptr[f] : graph.slot_ptr[f + 1]]
    )
    return found


def one_example(arity, seed):
    recipe = Recipe(max_arity=arity, n_examples=1, max_variables=7, max_card=3, density=1.0)
    return seeded(recipe, seed)


PROBLEMS = [one_example(arity, seed) for arity in (2, 3, 4) for seed in range(4)] + [grid(4, 5, 3), complete(7, 2)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_rounds_of_maximal_trees_have_every_factor(problem):
    graph, ids = build_graph(problem.program), np.array([0])
    for number in (0, 7 << 32):
        trees, seen = no_trees(graph, ids), set()
        left = begin_round(graph, 0, number, trees)
        assert left == graph.n_factors
        while left > 0:
            size, new = draw_trees(graph, 0, number, trees)
            factors = set(trees.factor[:size].tolist())
            assert len(factors) == size
            assert len(factors - seen) == new > 0
            tree = incidence(graph, factors)
            assert networkx.is_forest(tree)
            for f in set(range(graph.n_factors)) - factors:  # nothing could be added
                assert not networkx.is_forest(incidence(graph, factors | {f}))
            parts = list(networkx.connected_components(tree))
            assert (trees.weight[: graph.var_ptr[1]] == 1.0).all()
            order = {f: k for k, f in enumerate(trees.factor[:size].tolist())}
            for part in parts:  # all but the first factors of a component hang on one that comes before them
                reached, mine = None, sorted((order[f], f) for kind, f in part if kind == "f")
                for k, f in mine:
                    scope = set(graph.scope[graph.slot_ptr[f] : graph.slot_ptr[f + 1]].tolist())
                    top = int(graph.scope[trees.parent[k]])
                    assert top in scope
                    assert reached is None or top in reached
                    reached = (reached or set()) | scope
            seen |= factors
            left -= new
            number += 1
        assert seen == set(range(graph.n_factors))


@pytest.mark.parametrize("problem", PROBLEMS[:-2], ids=str)
def test_an_update_is_an_exact_minimisation_over_its_tree(problem):
    """Afterwards the tree's part of the bound is the best score on the tree; all variables have the same share."""
    graph, ids = build_graph(problem.program), np.array([0])
    instance, trees, zero = Instance.of(graph, problem.theta), no_trees(graph, ids), np.int64(0)
    node, pool = instance.node, instance.pool
    messages = np.random.default_rng(0).normal(size=graph.message_ptr[-1])
    visits, belief = np.empty(VISIT * len(graph.scope), np.int64), np.empty(len(node))
    fill_visits(graph, 0, zero, np.bool_(True), visits)
    begin_round(graph, 0, 3, trees)
    for number in range(3):
        size, _ = draw_trees(graph, 0, number, trees)
        factors = trees.factor[:size].tolist()
        inside = np.isin(graph.slot_factor, factors)
        without = np.where(np.repeat(inside, np.diff(graph.message_ptr)), 0.0, messages)
        base = np.empty(len(node))
        add_up(graph, node, without, zero, 0, base)
        best = -np.inf
        for labels in itertools.product(*map(range, graph.card)):
            score = sum(base[graph.state_ptr[v] + s] for v, s in enumerate(labels))
            for f in factors:
                slots = range(graph.slot_ptr[f], graph.slot_ptr[f + 1])
                score += pool[graph.table_ptr[f] + sum(graph.stride[k] * labels[graph.scope[k]] for k in slots)]
            best = max(best, score)
        others = [f for f in range(graph.n_factors) if f not in set(factors)]
        outside = sum(factor_maximum(graph, pool, messages, zero, f) for f in others)
        add_up(graph, node, messages, zero, 0, belief)
        site = Site(graph, node, pool, messages, zero, 0)
        collect_up(site, visits, belief, trees, zero, size)
        hand_down(site, visits, belief, trees, zero, size)
        bound = bound_terms(site, 0, graph.n_variables, 0, graph.n_factors)[0]
        assert bound == pytest.approx(best + outside, abs=1e-9)
        kept = np.empty(len(node))
        add_up(graph, node, messages, zero, 0, kept)
        assert kept == pytest.approx(belief, abs=1e-9)
        shares = np.maximum.reduceat(kept, graph.state_ptr[:-1])
        for part in networkx.connected_components(incidence(graph, factors)):
            mine = [shares[v] for kind, v in part if kind == "v"]
            assert mine == pytest.approx([mine[0]] * len(mine), abs=1e-9)


@pytest.mark.parametrize("trees", ["random", "cover"])
def test_a_tree_takes_one_iteration_however_it_is_numbered(trees):
    rng = np.random.default_rng(1)
    name = rng.permutation(60)
    problem = pairwise(60, 4, [(name[v], name[rng.integers(v)]) for v in range(1, 60)], rng)
    exact = opened("tree", problem.program).solve(Question(problem.theta)).score
    once = Question(problem.theta, limits=Limits(iterations=1))
    assert opened("tbcd", problem.program, trees=trees).solve(once).bound == pytest.approx(exact, rel=1e-12)
    assert opened("trws", problem.program).solve(once).bound[0] > exact[0] * 1.001


def test_it_comes_near_the_optimum_of_the_relaxation_with_many_states():
    """Plain updates need not reach it, as those of ``mplp``; a bound below it would be wrong."""
    problem = grid(10, 10, 4)
    optimum = opened("lp", problem.program, solver="highs").solve(Question(problem.theta)).bound[0]
    bound = opened("tbcd", problem.program).solve(Question(problem.theta)).bound[0]
    assert optimum * (1 - 1e-7) <= bound <= optimum * 1.001
