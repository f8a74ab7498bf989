"""The objective in one place: values over all labellings, the dual of an aggregated plane, the two conventions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import naive
import small
from combinations import crossed
from optima import least_over_planes
from small import CASES, Case, Word
from ssvm_dsl import StructuredSVM
from ssvm_dsl.learning.objective import RegularizedRisk, lam_of

each_case = pytest.mark.parametrize("case", CASES, ids=str)


def as_shown(data, w: np.ndarray) -> np.ndarray:
    """The vector trainers use in the order users see, zero where a pair has no weight."""
    return np.concatenate([np.ravel(block) for block in naive.whole_blocks(data.grounded, w).values()])


def in_blocks(data, flat: np.ndarray) -> np.ndarray:
    """Weights in the order users see as the vector trainers use."""
    dim = data.grounded.parameters.dim
    number = as_shown(data, np.arange(1.0, dim + 1)).astype(int)
    w = np.empty(dim)
    w[number[number > 0] - 1] = flat[number > 0]
    return w


@crossed(case=CASES, seed=range(2))
def test_the_objective_is_that_of_all_labellings(case, seed):
    data = case.make(seed)
    problem, rng = data.problem(), np.random.default_rng(seed)
    for size in (0.0, 0.3, 3.0):
        w = size * rng.normal(size=problem.dim)
        flat = as_shown(data, w)
        primal, upper, planes = problem.evaluate(w)
        expected = data.objective(flat)
        assert primal / problem.objective.lam == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert upper / problem.objective.lam == pytest.approx(expected, rel=1e-9, abs=1e-9)
        for value, (losses, psi) in zip(planes.value, data.planes):
            assert value == pytest.approx(np.max(losses - psi @ flat), rel=1e-9, abs=1e-9)


@each_case
def test_planes_are_the_ones_they_claim_to_be(case):
    """``loss - w . psi`` of the returned labelling is its value; its psi is that of ``accumulate``."""
    data = case.make(3)
    problem = data.problem()
    w = np.random.default_rng(0).normal(size=problem.dim)
    ids = np.array([2, 0, 3], dtype=np.int64)
    planes = problem.oracle(w, ids)
    np.testing.assert_array_equal(planes.examples, ids)
    for k in range(3):
        psi = problem.accumulate(planes, np.eye(3)[k], np.zeros(problem.dim))
        assert planes.loss[k] - w @ psi == pytest.approx(planes.value[k], rel=1e-9, abs=1e-9)
        losses, every = data.planes[ids[k]]
        at = np.argmin(np.abs(in_blocks_rows(data, every) - psi).sum(axis=1) + np.abs(losses - planes.loss[k]))
        np.testing.assert_allclose(in_blocks(data, every[at]), psi, atol=1e-9)
        assert losses[at] == pytest.approx(planes.loss[k])


def in_blocks_rows(data, rows: np.ndarray) -> np.ndarray:
    return np.stack([in_blocks(data, row) for row in rows])


BOUNDS = st.sampled_from([-np.inf, 0.0, -0.5, 0.7])
NUMBERS = st.floats(-3, 3).filter(lambda x: x == 0 or abs(x) > 1e-3)


@settings(max_examples=60)
@given(st.lists(st.tuples(NUMBERS, st.sampled_from([0.0, 0.2, 1.0, 5.0]), BOUNDS), min_size=1, max_size=5), NUMBERS)
def test_the_dual_is_the_least_value_of_the_plane(coordinates, b):
    v, scale, lower = (np.array(values) for values in zip(*coordinates))
    lam = 0.3
    objective = RegularizedRisk(lam, 1, np.ones(1), scale, lower)
    expected = b + sum(least(lam * s, g, low) for g, s, low in zip(v, scale, lower))
    assert objective.dual(v, b) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    w = objective.weights(v)
    assert (w >= lower).all()
    if np.isfinite(expected):
        assert objective.regularizer(w) + b - v @ w == pytest.approx(expected, rel=1e-6, abs=1e-6)


def least(curvature: float, slope: float, low: float) -> float:
    """``min_{w >= low} curvature/2 w^2 - slope w`` by bounded search; ``-inf`` where it runs away."""
    if curvature == 0 and (slope > 0 or (slope < 0 and low == -np.inf)):
        return -np.inf
    span = (max(low, -100.0), 100.0)
    found = minimize_scalar(lambda w: 0.5 * curvature * w * w - slope * w, bounds=span, options={"xatol": 1e-9})
    return min(found.fun, 0.5 * curvature * span[0] ** 2 - slope * span[0])


@crossed(case=[Case(Word), Case(small.Ties, weighted=True, regularization={"agree": 0.3})], seed=range(5))
def test_any_mixture_of_planes_bounds_the_optimum(case, seed):
    data = case.make(seed)
    best, _ = data.optimum()
    problem, rng = data.problem(), np.random.default_rng(seed)
    v, b = np.zeros(problem.dim), 0.0
    for weight, (losses, psi) in zip(problem.objective.weight, data.planes):
        share = rng.dirichlet(np.full(len(losses), 0.1)) * weight / problem.n
        v += in_blocks(data, share @ psi)
        b += share @ losses
    assert problem.objective.dual(v, b) / problem.objective.lam <= best + 1e-7


def quietly(model, data, **options) -> StructuredSVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(model, random_state=0, n_threads=1, **options).fit(data.X, data.Y, data.weight)


@crossed(trainer=["bcfw", "subgradient"], C=[0.05, 4.0])
def test_C_and_lam_are_two_words_for_one_problem(trainer, C):
    data = Case(Word, n=8, C=C).make(0)
    with_C = quietly(Word, data, trainer=trainer, C=C, max_passes=20)
    with_lam = quietly(Word, data, trainer=trainer, lam=1.0 / (C * 8), max_passes=20)
    np.testing.assert_array_equal(with_C.coef_, with_lam.coef_)
    for name in ("primal", "dual", "gap"):
        assert getattr(with_C.report_, name) == pytest.approx(8 * C * getattr(with_lam.report_, name))
    assert with_C.report_.relative_gap == pytest.approx(with_lam.report_.relative_gap)
    assert with_C.report_.primal == pytest.approx(data.objective(data.flat(with_C.weights_)), rel=1e-9)
    events = zip(with_C.report_.history, with_lam.report_.history, strict=True)
    for one, other in events:
        assert one.best_dual == pytest.approx(8 * C * other.best_dual)
    assert f"C = {C:g}" in with_C.report_.convention
    assert "lam/2 |w|^2 + 1/n sum_i risk_i" in with_lam.report_.convention
    assert lam_of(C, None, 8) == pytest.approx(1 / (8 * C))
    assert lam_of(C, 0.7, 8) == 0.7


def test_factors_that_are_not_regularised_cost_nothing():
    case = Case(small.Single, n=10, C=0.5, regularization={"bias": 0.0, "score": 2.0})
    data = case.make(0)
    options = {"C": 0.5, "regularization": case.regularization, "trainer": "subgradient", "max_passes": 200, "tol": 0.0}
    options["trainer_options"] = {"schedule": "1/sqrt(t)", "step_size": 0.5}
    svm = quietly(case.model, data, **options)
    w = data.flat(svm.weights_)
    assert svm.report_.primal == pytest.approx(data.objective(w), rel=1e-9)
    # scale 1e-6 instead of 0 changes the optimum by next to nothing and has a dual
    best, w_best = least_over_planes(data.planes, 0.5, scale=np.maximum(data.scale, 1e-6))
    assert best - 1e-3 <= svm.report_.primal <= 1.05 * best
    assert np.abs(w_best[-4:]).max() > 0.1  # the bias is used
    assert svm.report_.dual <= best + 1e-6
    keyed = quietly(case.model, data, **{**options, "regularization": {small.Single.bias: 0, small.Single.score: 2}})
    np.testing.assert_array_equal(keyed.coef_, svm.coef_)
