"""Structural SMO on the factored dual: optimum, bounds, the pair of a step, marginals, what is refused."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from test_every_trainer import check_optimal, fitted

import small
from model_table import tagger
from small import Case, Word
from ssvm_dsl import StructuredSVM
from ssvm_dsl.datasets import load_letters
from ssvm_trainers.dual.smo import smo_kernels as kernels
from ssvm_trainers.dual.smo.smo_state import MarginalState


def smo(data, **options) -> StructuredSVM:
    return fitted(data, **{"trainer": "smo", "tol": 1e-8, "max_passes": 2000} | options)


# -- optimum and bounds ------------------------------------------------------------------------------------


def test_it_meets_bcfw_on_letters():
    X, Y, *_ = load_letters(fold=1)
    first, second = (letters(trainer).fit(X[:60], Y[:60]).report_ for trainer in ("smo", "bcfw"))
    assert first.converged
    assert first.primal == pytest.approx(second.primal, rel=2e-4)
    assert max(first.dual, second.dual) <= min(first.primal, second.primal)


Letters = tagger(128, "abcdefghijklmnopqrstuvwxyz")


def letters(trainer: str) -> StructuredSVM:
    return StructuredSVM(Letters, C=0.1, trainer=trainer, tol=1e-4, random_state=0, n_threads=1)


# -- the pair of a step ------------------------------------------------------------------------------------


def mixture(state: MarginalState, rng: np.random.Generator, n: int) -> None:
    """Give every example the marginals of a few random labellings, in multiples of the grid."""
    fixed, space, program = state.fixed, state.space, state.problem.program
    for i in range(program.n_examples):
        lo, hi = program.var_ptr[i : i + 2]
        for _ in range(n):
            new = rng.integers(program.card[lo:hi])
            slope = kernels.extremes(fixed, state.trees, space, state.mu, i, state.w)[0]
            assert slope >= 0.0
            space.pair[: hi - lo] = new
            differences = kernels.list_differences(fixed, space, i)
            most = kernels.most_to_give(fixed, state.trees, space, state.mu, i, differences)
            amount = np.floor(0.6 * rng.random() * most / kernels.GRID) * kernels.GRID
            kernels.give(fixed, state.trees, space, state.mu, i, differences, amount)


def by_group(state: MarginalState):
    """Views of the marginals: (group, table of each factor)."""
    program = state.problem.program
    for fmap, base in zip(state.problem.parameters.maps, state.trees.base):
        if base >= 0:
            group = program.groups[fmap.group]
            yield group, state.mu[base : base + group.n_factors * group.n_configs].reshape(-1, *group.cards)


def in_support(state: MarginalState, i: int):
    """Every labelling of example i all of whose parts have positive marginals."""
    program = state.problem.program
    lo, hi = program.var_ptr[i : i + 2]
    for labels in itertools.product(*map(range, program.card[lo:hi])):
        parts = [state.mu[program.state_ptr[lo + v] + s] for v, s in enumerate(labels)]
        for group, tables in by_group(state):
            for f in range(*group.ptr[i : i + 2]):
                parts.append(tables[f][tuple(labels[v - lo] for v in group.scope[f])])
        if min(parts) > 0.0:
            yield labels


def own_score(problem, w: np.ndarray, i: int, labels) -> float:
    """Loss-augmented score by the definition."""
    one, packed = np.array([i]), np.array(labels, np.int32)
    return float(problem.loss.value(problem.program, packed, one)[0] + problem.parameters.dot(w, packed, one)[0])


PAIRED = [Case(Word, n=4, ragged=(2, 4)), Case(small.Tree, ragged=(4, 5), n=6), Case(small.Layers, ragged=(1, 2), n=3)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", PAIRED, ids=str)
def test_the_pair_is_the_best_and_the_worst_labelling_of_the_support(case, seed):
    problem, rng = case.make(seed).problem(), np.random.default_rng(seed)
    state = MarginalState(problem)
    mixture(state, rng, 4)
    w = rng.normal(size=problem.dim)
    for i in range(problem.n):
        scores = {labels: own_score(problem, w, i, labels) for labels in in_support(state, i)}
        size = len(next(iter(scores)))
        slope, above = kernels.extremes(state.fixed, state.trees, state.space, state.mu, i, w)
        best, worst = tuple(state.space.pair[:size]), tuple(state.space.pair[size : 2 * size])
        assert scores[best] == pytest.approx(max(scores.values()), abs=1e-9)
        assert scores[worst] == pytest.approx(min(scores.values()), abs=1e-9)
        assert slope == pytest.approx(scores[best] - scores[worst], abs=1e-9)
        assert above == pytest.approx(score_of_marginals(state, w, i) - scores[worst], abs=1e-9)
    assert any(len(list(in_support(state, i))) > 3 for i in range(problem.n))


def score_of_marginals(state: MarginalState, w: np.ndarray, i: int) -> float:
    """Loss-augmented score of the marginals of an example, by the definition of Theta."""
    problem, program = state.problem, state.problem.program
    theta = problem.parameters.scores(w)
    states = slice(*program.state_ptr[program.var_ptr[i : i + 2]])
    total = (theta.node[states] + problem.loss.node[states]) @ state.mu[states]
    for (group, tables), scores in zip(by_group(state), theta.tables):
        for f in range(*group.ptr[i : i + 2]):
            total += tables[f].ravel() @ scores[group.table[f]]
    return float(total)


def assert_consistent(state: MarginalState) -> None:
    """Marginals are in the polytope, to the last bit."""
    mu, program = state.mu, state.problem.program
    assert mu.min() >= 0.0
    np.testing.assert_array_equal(mu / kernels.GRID, np.round(mu / kernels.GRID))
    node = [mu[lo:hi] for lo, hi in itertools.pairwise(program.state_ptr)]
    assert all(part.sum() == 1.0 for part in node)
    for group, tables in by_group(state):
        for scope, table in zip(group.scope, tables):
            np.testing.assert_array_equal(table.sum(axis=1), node[scope[0]])
            np.testing.assert_array_equal(table.sum(axis=0), node[scope[1]])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", PAIRED, ids=str)
def test_a_step_gains_what_it_says_and_no_other_length_gains_more(case, seed):
    problem, rng = case.make(seed).problem(), np.random.default_rng(seed)
    state = MarginalState(problem)
    mixture(state, rng, 4)
    gains = []
    for i in range(problem.n):
        before, _ = state.refresh()
        start = state.mu.copy()
        gain = state.visit_kept(np.array([i]))
        w = state.w.copy()
        after, _ = state.refresh()
        np.testing.assert_allclose(state.w, w, rtol=1e-9, atol=1e-9)
        assert after == pytest.approx(before + gain, abs=1e-12)
        move, done = state.mu - start, state.mu.copy()
        for length in (0.5, 0.9, 1.1, 2.0):
            state.mu[:] = start + length * move
            if state.mu.min() >= 0.0:
                assert state.refresh()[0] <= after + 1e-12
        state.mu[:] = done
        gains.append(gain)
    assert max(gains) > 0.0
    assert_consistent(state)


# -- control -----------------------------------------------------------------------------------------------


def test_examples_without_variables_or_weight_change_nothing():
    case = Case(Word, n=6, ragged=(0, 2, 3), weighted=True)
    data = case.make(0)
    assert (data.weight == 0.0).any()
    best, w = data.optimum()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_optimal(data, smo(data), best, w)
