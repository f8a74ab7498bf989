"""Cuts: exact on submodular problems, roof duality equal to its linear program, moves that cannot be improved."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lp_problems import complete, grid_edges, pairwise
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from combinations import some
from naive import proved
from ssvm_backends.cuts import graph_cut
from ssvm_backends.cuts.graph_cut import GraphCut
from ssvm_backends.cuts.move_making import AlphaBetaSwap, AlphaExpansion
from ssvm_backends.cuts.qpbo import QPBO
from ssvm_backends.trees.chain import Chain
from ssvm_dsl.errors import ScoreError
from ssvm_dsl.ir import (
    Group,
    Limits,
    Primal,
    Program,
    Question,
    Stop,
    Task,
    Theta,
    energy_origins,
    energy_ratio,
    expansion_factor,
)
from ssvm_dsl.plugin_api import score_labels
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Problem, Recipe, Scores, seeded

MOVES = [AlphaExpansion, AlphaBetaSwap]
INF = np.inf


def best(problem, **question):
    return BruteForce().open(problem.program, {}).solve(Question(problem.theta, **question)).score


def solve(backend, problem, options=(), **question):
    return backend().open(problem.program, dict(options)).solve(Question(problem.theta, **question))


def qpbo(problem, rest="icm", **question):
    return solve(QPBO, problem, {"rest": rest}, **question)


def repaired(problem, seed):
    """The problem with binary tables changed just enough to be submodular, at a corner drawn at random."""
    rng, theta = np.random.default_rng(seed), problem.theta.copy()
    for group, tables in zip(problem.program.groups, theta.tables):
        for row in tables:
            t = row.reshape(group.cards)
            for i, j in itertools.combinations(range(t.ndim), 2):
                if t.shape[i] == t.shape[j] == 2:
                    two = np.moveaxis(t, (i, j), (0, 1))
                    lack = np.max(two[0, 1] + two[1, 0] - two[0, 0] - two[1, 1])
                    lack = lack if lack > 0 else 0.0
                    two[(0, 0) if rng.random() < 0.5 else (1, 1)] += lack * (1 if t.ndim == 2 else 2)
    return Problem(f"repaired({problem.name}, {seed})", problem.program, theta)


def potts(n, card, edges, rng, strength=1.0):
    weight = strength * np.abs(rng.normal(size=len(edges)))
    return pairwise(n, card, edges, rng, tables=-np.outer(weight, 1.0 - np.eye(card).ravel()))


def potts_grid(h, w, card, seed=0, strength=1.0):
    return potts(h * w, card, grid_edges(h, w), np.random.default_rng(seed), strength)


# -- graph-cut -----------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.sampled_from(list(Scores)), st.booleans(), st.booleans())
@settings(max_examples=120)
def test_graph_cut_is_exact_on_submodular_problems(seed, arity, scores, tied, masks):
    recipe = Recipe(max_arity=arity, max_card=2, max_variables=8, scores=scores, tied=tied, masks=masks, same_card=True)
    problem = repaired(seeded(recipe, seed), seed)
    if arity == 2:
        assert "submodular" in table_properties(problem.program, problem.theta)
    elif "submodular" not in table_properties(problem.program, problem.theta):
        with pytest.raises(ScoreError):
            solve(GraphCut, replace(problem, program=replace(problem.program, allowed=None)))
        return
    solution, optimum = solve(GraphCut, problem), best(problem)
    np.testing.assert_allclose(solution.score, optimum, rtol=1e-11, atol=1e-9)
    assert (solution.bound >= solution.score).all()  # above where a table misses submodularity by rounding
    if scores is not Scores.MIXED:  # constants of 1e6 hide tables of 1e-6
        assert proved(problem, solution).all()


def supermodular_triples(n, n_triples, rng):
    """Random sums of the extreme rays of submodular tables of three binary variables, of either kind."""
    x = np.indices((2, 2, 2)).reshape(3, 8)
    pairs = [(x[i] == x[j]).astype(float) for i, j in itertools.combinations(range(3), 2)]
    rays = np.array([x.prod(axis=0), (1 - x).prod(axis=0), *pairs])
    tables = rng.exponential(size=(n_triples, 5)) * (rng.random((n_triples, 5)) < 0.6) @ rays
    tables += rng.normal(size=(n_triples, 3)) @ x
    scope = np.array([rng.permutation(n)[:3] for _ in range(n_triples)], np.int32)
    rows = np.arange(n_triples, dtype=np.int32)
    group = Group.of("t", (2, 2, 2), scope, np.array([0, n_triples]), rows, n_triples, np.array([0, n]))
    program = Program(np.array([0, n]), np.full(n, 2, np.int32), (group,)).validate()
    return Problem("triples", program, Theta.of(program, rng.normal(size=2 * n), [tables]))


@pytest.mark.parametrize("seed", some(range(40), 12))
def test_graph_cut_is_exact_on_tables_of_three_variables(seed):
    problem = supermodular_triples(8, 6, np.random.default_rng(seed))
    assert "submodular" in table_properties(problem.program, problem.theta)
    np.testing.assert_allclose(solve(GraphCut, problem).score, best(problem), rtol=1e-12)


@pytest.mark.parametrize(
    "table", [[[0, -INF], [-INF, 1]], [[0, -INF], [2, 1]], [[0, 2], [-INF, 1]], [[-INF, -INF], [1, 0]]]
)
def test_forbidden_pairs_are_never_cut(table):
    rng = np.random.default_rng(3)
    soft = -np.abs(rng.normal(size=(4, 1))) * [[0, 1, 1, 0]]
    tables = np.concatenate([np.tile(np.ravel(table), (4, 1)), soft])
    edges = [(0, 1), (1, 2), (4, 3), (5, 4), (0, 5), (2, 3), (1, 4), (6, 0)]
    problem = pairwise(7, 2, edges, rng, node=5 * rng.normal(size=14), tables=tables)
    np.testing.assert_allclose(solve(GraphCut, problem).score, best(problem), rtol=1e-13)


def test_rounding_is_forgiven_and_more_is_refused():
    rng = np.random.default_rng(0)
    for slip, fine in [(1e-15, True), (1e-12, False)]:
        problem = pairwise(3, 2, [(0, 1), (1, 2)], rng, tables=np.array([[0.1, 0.3, 0.0, 0.2 - slip], [1, 0, 0, 1.0]]))
        assert ("submodular" in table_properties(problem.program, problem.theta)) == fine
        if fine:
            np.testing.assert_allclose(solve(GraphCut, problem).score, best(problem), rtol=1e-12)
            continue
        with pytest.raises(ScoreError, match=r"'graph-cut' needs .* group 'e' of example 0 .* variables \[0, 1\]"):
            solve(GraphCut, problem)


def test_the_refused_factor_is_named_as_the_user_numbers_it():
    problem = seeded(Recipe(max_card=2, same_card=True, max_variables=3, n_examples=1), 0)
    card = np.full(6, 2, np.int32)
    scope = np.array([[0, 1], [3, 5]], np.int32)
    group = Group.of("g", (2, 2), scope, np.array([0, 1, 2]), np.arange(2, dtype=np.int32), 2, np.array([0, 3, 6]))
    allowed = np.array([1] * 8 + [1, 0] + [1, 1], bool)
    program = Program(np.array([0, 3, 6]), card, (group,), allowed=allowed).validate()
    theta = Theta.of(program, np.zeros(12), [[[0, 0, 0, 0], [0, 7, 0, 0]]])
    problem = replace(problem, program=program, theta=theta)
    for examples in (None, np.array([1])):
        with pytest.raises(ScoreError, match=r"group 'g' of example 1 .* variables \[0, 2\]"):
            solve(GraphCut, problem, examples=examples)


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 90), st.integers(1, 200))
@settings(max_examples=40)
def test_cuts_are_the_maximum_flow_of_scipy_however_often_they_are_interrupted(seed, n, m, budget):
    """The score lost at the best labelling is the flow from state 1 to state 0, of networks beyond enumeration."""
    rng = np.random.default_rng(seed)
    tail = rng.integers(0, n, m)
    head = (tail + rng.integers(1, n, m)) % n
    there, back, excess = rng.integers(0, 9, m), rng.integers(0, 9, m), rng.integers(-20, 21, n)
    rows, columns = [*tail, *head, *[n] * n, *range(n)], [*head, *tail, *range(n), *[n + 1] * n]
    capacity = np.array([*there, *back, *np.maximum(excess, 0), *np.maximum(-excess, 0)], np.int32)
    flow = maximum_flow(csr_array((capacity, (rows, columns)), shape=(n + 2, n + 2)), n, n + 1).flow_value
    lost = np.zeros((m, 2, 2))
    lost[:, 1, 0], lost[:, 0, 1] = there, back
    node = -np.stack([np.maximum(excess, 0), np.maximum(-excess, 0)], axis=1).astype(float)
    problem = pairwise(n, 2, list(zip(tail.tolist(), head.tolist())), None, node.ravel(), -lost.reshape(m, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_cut, "BUDGET", budget)
        found = solve(GraphCut, problem)
    assert found.score.tolist() == [-flow]
    np.testing.assert_allclose(score_labels(problem.program, problem.theta, found.labels), -flow)


# -- qpbo ----------------------------------------------------------------------------------------------------


def decided_states(problem):
    """The persistent part of each variable of a one-example problem, read where the backend makes it."""
    seen = {}
    session = QPBO().open(problem.program, {"rest": "icm"})
    flows = session._flows

    def spy(call, whole):
        finished = flows(call, whole)
        seen["decided"] = call.labels.copy()
        return finished

    session._flows = spy
    return session.solve(Question(problem.theta)), seen["decided"]


@pytest.mark.parametrize("seed", some(range(60), 20))
def test_decided_states_belong_to_an_optimum(seed):
    rng = np.random.default_rng(seed)
    edges = list(itertools.combinations(range(7), 2))
    kept = [edge for edge in edges if rng.random() < 0.35] or edges[:1]
    tables = rng.integers(-2, 3, size=(len(kept), 4)) if seed % 2 else rng.normal(size=(len(kept), 4))
    node = rng.integers(-2, 3, 14) if seed % 2 else rng.normal(size=14)
    problem = pairwise(7, 2, kept, rng, node=node, tables=tables.astype(float))
    solution, decided = decided_states(problem)
    clamp = decided.astype(np.int32)
    assert best(problem, task=Task.MAP_CLAMPED, clamp=clamp) == pytest.approx(best(problem), abs=1e-9)
    assert solution.stats["decided"] == (decided >= 0).sum()
    if (decided >= 0).all():
        np.testing.assert_allclose(solution.bound, best(problem), atol=1e-9)
        np.testing.assert_allclose(solution.score, best(problem), atol=1e-9)
    elif qpbo(problem, "none").primal[0] != Primal.NONE:
        raise AssertionError("an open state was filled in without being asked for")


def test_overwriting_with_decided_states_never_hurts():
    n_decided = 0
    for seed in range(20):
        problem = complete(9, 2, seed)
        _, decided = decided_states(problem)
        labellings = np.array(list(itertools.product([0, 1], repeat=9)), np.int32)
        for labels in labellings[:: 1 + seed]:
            before = score_labels(problem.program, problem.theta, labels)
            overwritten = np.where(decided >= 0, decided, labels).astype(np.int32)
            after = score_labels(problem.program, problem.theta, overwritten)
            assert after[0] >= before[0] - 1e-9
        n_decided += int((decided >= 0).sum()) * int((decided < 0).any())
    assert n_decided > 10  # partial labellings were met


def test_qpbo_decides_everything_in_submodular_problems_ties_included():
    for seed in range(10):
        problem = potts_grid(6, 7, 2, seed)
        if seed % 2:
            problem.theta.node[:] = np.round(problem.theta.node)
            problem.theta.pool[:] = np.round(problem.theta.pool)
        solution = qpbo(problem, "none")
        assert solution.primal.tolist() == [Primal.FEASIBLE]
        np.testing.assert_allclose(solution.score, solve(GraphCut, problem).score, rtol=1e-12)
        np.testing.assert_allclose(solution.bound, solution.score, rtol=1e-12)


# -- moves ---------------------------------------------------------------------------------------------------


def expansions(labels, card):
    """All labellings one expansion away."""
    for alpha in range(card):
        yield from itertools.product(*({int(l), alpha} for l in labels))


def swaps(labels, card):
    """All labellings one swap away."""
    for a, b in itertools.combinations(range(card), 2):
        yield from itertools.product(*((a, b) if l in (a, b) else (int(l),) for l in labels))


def truncated_linear(n, card, edges, rng):
    gap = np.minimum(np.abs(np.subtract.outer(np.arange(card), np.arange(card))), 2).ravel()
    return pairwise(n, card, edges, rng, tables=-np.outer(np.abs(rng.normal(size=len(edges))), gap))


def semimetric(n, card, edges, rng):
    """Quadratic distances, not symmetric: no triangle inequality."""
    gap = np.square(np.subtract.outer(np.arange(card), np.arange(card))) + rng.random((card, card)) * (1 - np.eye(card))
    return pairwise(n, card, edges, rng, tables=-np.outer(np.abs(rng.normal(size=len(edges))), gap.ravel()))


@pytest.mark.parametrize(
    ("backend", "make", "neighbours"),
    [(AlphaExpansion, potts, expansions), (AlphaExpansion, truncated_linear, expansions),
     (AlphaBetaSwap, truncated_linear, swaps), (AlphaBetaSwap, semimetric, swaps)],
)  # fmt: skip
@pytest.mark.parametrize("seed", some(range(12), 4))
def test_no_move_improves_the_answer(backend, make, neighbours, seed):
    edges = [*grid_edges(2, 4), (0, 7), (3, 4)]
    problem = make(8, 4, edges, np.random.default_rng(seed))
    solution = solve(backend, problem)
    assert np.isnan(solution.bound).all()
    for other in neighbours(solution.labels, 4):
        assert score_labels(problem.program, problem.theta, np.array(other, np.int32))[0] <= solution.score[0] + 1e-9


@pytest.mark.parametrize("seed", some(range(30), 10))
def test_expansion_is_within_a_factor_of_two_on_potts(seed):
    problem = potts(7, 3, list(itertools.combinations(range(7), 2)), np.random.default_rng(seed))
    problem.theta.node[:] -= problem.theta.node.max()
    assert solve(AlphaExpansion, problem).score[0] >= 2 * best(problem)[0] - 1e-9


def own_diagonal(n, card, edges, rng):
    """Potts tables whose diagonals are not zero: half of them belongs to either variable."""
    problem = potts(n, card, edges, rng)
    for table in problem.theta.tables[0]:
        side = rng.normal(size=card)
        table += np.add.outer(side, side).ravel()
    return problem


@pytest.mark.parametrize("make", [potts, truncated_linear, own_diagonal])
@pytest.mark.parametrize(("backend", "bound"), [(AlphaExpansion, "factor"), *((one, "dual") for one in MOVES)])
def test_energies_are_within_eta_of_the_least_one(backend, bound, make):
    found = []
    for seed in range(12):
        problem = make(9, 4, grid_edges(3, 3), np.random.default_rng(seed))
        program, question = problem.program, Question(problem.theta)
        if seed % 3 == 0:  # some labels are known
            clamp = np.full(9, -1, np.int32)
            clamp[[0, 4]] = 1, 2
            question = question.replace(task=Task.MAP_CLAMPED, clamp=clamp)
        exact = BruteForce().open(program, {}).solve(question)
        solution = backend().open(program, {"bound": bound}).solve(question)
        assert solution.bound[0] >= exact.score[0] - 1e-9
        origin, eta = energy_origins(program, question)[0], energy_ratio(program, question, solution)[0]
        assert origin - solution.score[0] <= eta * (origin - exact.score[0]) + 1e-9
        assert origin - exact.score[0] >= -1e-9
        if bound == "factor":
            least = 4.0 if make is truncated_linear else 2.0  # 2 max / min: distances are 1 and 2, or all alike
            assert expansion_factor(program, problem.theta)[0] == pytest.approx(least)
            assert eta == pytest.approx(least)
        found.append(eta)
    if bound == "dual":  # most of these relaxations have an optimal labelling
        assert np.median(found) < 1.01


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_energies_of_huge_and_forbidden_scores_are_unknown_without_warnings():
    rng, known = np.random.default_rng(0), []
    for _ in range(20):
        problem = potts(4, 2, grid_edges(2, 2), rng)
        for scores in (problem.theta.node, *problem.theta.tables):
            scores[:] = rng.choice([-np.inf, -1.7e308, -1e308, 0.0, 1e308], scores.shape, p=[0.1, 0.1, 0.1, 0.6, 0.1])
        question = Question(problem.theta)
        with np.errstate(over="ignore", invalid="ignore"):
            solution = BruteForce().open(problem.program, {}).solve(question)
        known += [*expansion_factor(problem.program, problem.theta), *energy_ratio(problem.program, question, solution)]
    assert all(np.isnan(eta) or eta >= 1.0 for eta in known)


def test_swaps_have_no_factor():
    """Three variables in a row: no swap leaves an energy of K, where 4 is the least; 2 max / min is 4 for any K."""
    K = 1000.0
    gap = np.array([[0, K / 2, K], [K / 2, 0, K / 2], [K, K / 2, 0]])
    node = -np.array([0.0, K, 2, K, 0, 2, K, K, 0])
    problem = pairwise(3, 3, [(0, 1), (1, 2)], None, node=node, tables=-np.tile(gap.ravel(), (2, 1)))
    swap, expansion = AlphaBetaSwap(), AlphaExpansion()
    assert solve(AlphaBetaSwap, problem).labels.tolist() == [0, 1, 2]  # where it starts: each variable's own best
    found = swap.open(problem.program, {"bound": "dual"}).solve(Question(problem.theta))
    assert (found.score[0], best(problem)[0]) == (-K, -4.0)
    assert energy_ratio(problem.program, Question(problem.theta), found)[0] == pytest.approx(K / 4, rel=1e-3)
    assert expansion_factor(problem.program, problem.theta)[0] == 4.0
    wide = expansion.open(problem.program, {"bound": "factor"}).solve(Question(problem.theta))
    assert -4.0 <= wide.bound[0] <= wide.score[0] / 4 + 1e-9


def test_factors_that_are_not_known():
    rng = np.random.default_rng(0)
    problem, gap = potts(3, 3, [(0, 1), (1, 2)], rng), 1.0 - np.eye(3)
    gap[0, 1] = gap[1, 0] = 0.0  # two states that are no distance apart
    problem.theta.tables[0][1] = -gap.ravel()
    assert expansion_factor(problem.program, problem.theta).tolist() == [INF]
    problem.theta.tables[0][0] = 0.0  # a table without differences has no say
    problem.theta.tables[0][1] = -3.0 * (1.0 - np.eye(3)).ravel()
    assert expansion_factor(problem.program, problem.theta).tolist() == [2.0]
    problem.theta.tables[0][1, 1] = 1.0
    question = Question(problem.theta)
    assert np.isnan(expansion_factor(problem.program, problem.theta)[0])
    assert np.isnan(energy_origins(problem.program, question)[0])


@pytest.mark.parametrize("backend", MOVES)
def test_moves_with_masks_and_different_numbers_of_states(backend):
    found = []
    for seed in range(30):
        problem = seeded(Recipe(max_card=4, max_variables=6, n_examples=3, masks=True, regular=True), seed)
        solution, optimum = solve(backend, problem), best(problem)
        assert (solution.score <= optimum + 1e-9).all()
        found += ((solution.score >= optimum - 1e-9) | (optimum == -INF)).tolist()
    assert np.mean(found) > 0.9  # small problems: nearly always the optimum


@pytest.mark.parametrize("backend", MOVES)
def test_sweeps_of_moves_only_rise_and_can_be_counted(backend):
    problem, told = potts_grid(30, 30, 5, strength=0.8), []
    full = solve(backend, problem, limits=Limits(progress=lambda score, bound: told.append((score, bound))))
    scores = [score for score, _ in told]
    assert scores == sorted(scores)
    assert all(bound == INF for _, bound in told)
    np.testing.assert_array_less(scores, full.score[0] + 1e-6)
    one = solve(backend, problem, limits=Limits(iterations=1))
    assert one.stop.tolist() == [Stop.ITERATIONS]
    assert one.score[0] < full.score[0]


@pytest.mark.parametrize("backend", MOVES)
def test_warm_starts_from_labels_never_lose(backend):
    problem = potts_grid(12, 12, 4)
    session = backend().open(problem.program, {})
    first = session.solve(Question(problem.theta))
    again = session.solve(Question(problem.theta, warm=first.warm))
    assert again.score[0] == first.score[0]
    assert again.stats["moves"] <= first.stats["moves"]
    clamp = np.full(144, -1, np.int32)
    clamp[:20] = first.labels[:20]
    clamped = session.solve(Question(problem.theta, task=Task.MAP_CLAMPED, clamp=clamp, warm=first.warm))
    assert clamped.score[0] >= first.score[0] - 1e-9


def test_scores_that_are_no_metric_are_refused():
    rng = np.random.default_rng(0)
    convex = -np.square(np.subtract.outer(np.arange(4), np.arange(4))).ravel().astype(float)
    problem = pairwise(9, 4, grid_edges(3, 3), rng, node=20 * rng.normal(size=36), tables=np.tile(convex, (12, 1)))
    assert table_properties(problem.program, problem.theta) == {"submodular", "semimetric"}
    with pytest.raises(ScoreError, match=r"'alpha-expansion' needs .* \(a metric\)"):
        solve(AlphaExpansion, problem)
    solve(AlphaBetaSwap, problem)
    repulsive = pairwise(9, 4, grid_edges(3, 3), rng, tables=np.tile(-convex, (12, 1)))
    for backend in MOVES:
        with pytest.raises(ScoreError):
            solve(backend, repulsive)
        hard = pairwise(9, 4, grid_edges(3, 3), rng, tables=np.tile(np.where(np.eye(4) > 0, 0, -INF).ravel(), (12, 1)))
        with pytest.raises(ScoreError, match="finite"):
            solve(backend, hard)


# -- a real image --------------------------------------------------------------------------------------------


def stereo(folder, n_labels=12, strength=12.0):
    """Potts stereo: absolute colour difference, truncated, of left pixels and right pixels shifted by the label."""
    with np.load(folder / "stereo" / "motorcycle_div6.npz") as data:
        left, right, truth = (data[key].astype(float) for key in ("left", "right", "disp"))
    h, w = truth.shape
    cost = np.full((h, w, n_labels), 40.0)
    for d in range(n_labels):
        difference = np.abs(left[:, d:] - right[:, : w - d]).mean(axis=2)
        cost[:, d:, d] = np.minimum(difference, 40.0)
    edges = grid_edges(h, w)
    table = -strength * (1.0 - np.eye(n_labels).ravel())
    problem = pairwise(h * w, n_labels, edges, None, node=-cost.ravel(), tables=np.tile(table, (len(edges), 1)))
    return problem, truth, (h, w)


def decomposition_bound(problem, shape, steps=80):
    """A certified bound from rows and columns: exact chains with half the unary scores each, and multipliers."""
    (h, w), card = shape, int(problem.program.card[0])
    n_rows, table = h * (w - 1), problem.theta.tables[0]
    half, total = 0.5 * problem.theta.node, INF
    sessions, tables = [], []
    for lo, hi in ((0, n_rows), (n_rows, len(table))):
        scope = problem.program.groups[0].scope[lo:hi]
        rows = np.arange(hi - lo, dtype=np.int32)
        group = Group.of("c", (card, card), scope, np.array([0, hi - lo]), rows, hi - lo, np.array([0, h * w]))
        program = Program(np.array([0, h * w]), problem.program.card, (group,)).validate()
        sessions.append((program, Chain().open(program, {})))
        tables.append(table[lo:hi])
    multiplier, step = np.zeros(h * w * card), 8.0
    at = np.arange(h * w) * card
    for k in range(steps):
        answers = [
            session.solve(Question(Theta.of(program, half + sign * multiplier, [rows])))
            for (program, session), sign, rows in zip(sessions, (1, -1), tables)
        ]
        total = min(total, sum(float(answer.score[0]) for answer in answers))
        np.subtract.at(multiplier, at + answers[0].labels, step / (1 + 0.2 * k))
        np.add.at(multiplier, at + answers[1].labels, step / (1 + 0.2 * k))
    return total


@pytest.mark.data
def test_expansion_on_a_stereo_pair(data_dir):
    problem, truth, shape = stereo(data_dir)
    bound = decomposition_bound(problem, shape)
    start_labels = problem.theta.node.reshape(-1, 12).argmax(axis=1).astype(np.int32)
    alone = score_labels(problem.program, problem.theta, start_labels)[0]
    expansion, swap = (solve(backend, problem) for backend in MOVES)
    assert alone < swap.score[0] <= expansion.score[0] <= bound
    assert bound - expansion.score[0] < 0.02 * abs(bound)
    known = np.isfinite(truth) & (truth > 0) & (truth < 12)
    wrong = [np.mean(np.abs(l.reshape(shape) - truth)[known] > 1.0) for l in (start_labels, expansion.labels)]
    assert wrong[1] < 0.6 * wrong[0]
