"""``cycles``: bounds hold at every step, clusters take off what they promise, loose relaxations become tight."""

from __future__ import annotations

import numpy as np
import pytest
from lp_problems import complete, pairwise

from kit import keeps_its_promises
from ssvm_backends import ssvm_backends
from ssvm_backends.dual.cluster_kernels import cycle_gains, update_cluster
from ssvm_backends.dual.cycles import Dual
from ssvm_dsl.ir import Limits, Question
from ssvm_dsl.plugin_api import PlainExample
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Recipe, seeded

SPECS = {spec.name: spec for spec in ssvm_backends()}
RECIPES = [
    Recipe(max_variables=6, max_card=3, density=1.0, max_arity=2),
    Recipe(max_variables=6, max_card=3, density=1.0, max_arity=2, forbidden=True, masks=True),
]


def opened(program, name="cycles", **options):
    return SPECS[name].load()().open(program, SPECS[name].resolve(options))


def best_of(problem):
    return BruteForce().open(problem.program, {}).solve(Question(problem.theta)).score


def frustrated_square():
    """Four variables in a ring that want to agree with their neighbours, but for one pair that wants to differ."""
    agree = np.eye(2)
    tables = np.array([agree, agree, agree, 1.0 - agree]).reshape(4, 4)
    return pairwise(4, 2, [(0, 1), (1, 2), (2, 3), (0, 3)], None, np.full(8, 0.25), tables)


def test_keeps_every_promise():
    keeps_its_promises("cycles")


@pytest.mark.parametrize("recipe", RECIPES, ids=["plain", "forbidden"])
def test_bounds_hold_at_every_step_and_never_rise(recipe):
    for seed in range(4):
        problem = seeded(recipe, seed)
        best = best_of(problem)
        last, room = np.full(len(best), np.inf), np.where(best > -np.inf, 1e-9 * np.abs(best), 0.0)
        session = opened(problem.program, tol=0.0, clusters=1)
        for n in (1, 10, 20, 30, 50, 100):
            solution = session.solve(Question(problem.theta, limits=Limits(iterations=n)))
            assert (solution.bound >= best - room).all()
            assert (solution.bound <= last + room).all()
            last = solution.bound


@pytest.mark.parametrize(("card", "seed"), [(3, 3), (2, 4), (2, 6), (3, 11)])
def test_loose_relaxations_become_tight(card, seed):
    """Complete graphs of six variables whose local polytope has a fractional optimum; triangles are enough here."""
    problem = complete(6, card, seed=seed)
    best, lp = best_of(problem)[0], opened(problem.program, "lp").solve(Question(problem.theta)).bound[0]
    solution = opened(problem.program).solve(Question(problem.theta))
    plain = opened(problem.program, max_clusters=0).solve(Question(problem.theta))
    assert lp > best + 0.05
    assert plain.bound[0] == pytest.approx(lp, abs=1e-4)
    assert plain.stats["clusters"] == 0
    assert solution.bound[0] == pytest.approx(best, abs=1e-5)
    assert solution.score[0] == pytest.approx(best)


def test_a_ring_without_a_chord_gets_one():
    problem = frustrated_square()
    assert opened(problem.program, "lp").solve(Question(problem.theta)).bound[0] == pytest.approx(5.0)
    solution = opened(problem.program).solve(Question(problem.theta))
    assert solution.score[0] == pytest.approx(4.0)
    assert solution.bound[0] == pytest.approx(4.0, abs=1e-5)
    assert solution.stats["clusters"] == 2


def test_a_cluster_takes_off_what_its_cycle_promises():
    """The criterion by which clusters are chosen is the fall of the bound by one update."""
    problem = complete(6, 2, seed=4)
    question = Question(problem.theta)
    dual = Dual.of(PlainExample.of(problem.program, question, question.open_node(problem.program), 0))
    dual.sweep(500)
    before, cycles = dual.bound(), dual._cycles()
    gains = cycle_gains(cycles, dual.card, dual.edge_at, dual.rep_edge, dual.work)
    assert gains.max() > 1e-3
    assert gains.min() >= 0.0
    assert dual.add(1, 0.0)
    assert dual.bound() == pytest.approx(before)
    update_cluster(
        dual.ends, dual.card, dual.edge_at, dual.rep_edge, dual.cl_edges[0], dual.cl_at[0], dual.cl, dual.work
    )
    assert before - dual.bound() == pytest.approx(gains.max())
