"""The joint quadratic program over weights and messages, and the points it maximises over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_every_trainer import check_optimal, fitted

import small
from combinations import crossed
from small import CASES, Case
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, cliques, complete
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers.dual.lp_dual_qp import LPDualQP
from ssvm_trainers.dual.points_of_problem import polytope_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: Problems with an optimum above 0 for which the local polytope holds combinations of labellings and no more.
FORESTS = [case for case in CASES if case.model not in (small.Loopy, small.Perceptron, *small.LOSS_OF_WHOLE)]


class Triples(Model):
    """Two factors for each two variables, and larger ones; the relaxation is loose."""

    K = Dim(4)
    x = Input(2)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    again = Factor(complete(y), per="edge", features=x)
    triple = Factor(cliques(y, [(0, 1, 2), (1, 2, 3)]), per="edge", features=x)
    loss = Hamming(y)


def noise(n=8):
    rng = np.random.default_rng(1)
    return list(rng.normal(size=(n, 2))), list(rng.integers(2, size=(n, 4)))


@crossed(case=FORESTS, power=[1, 2])
def test_it_is_the_optimum_over_all_labellings(case, power):
    data = case.make(power)
    best, w = data.optimum(power=power)
    svm = fitted(data, trainer="lp-dual-qp", tol=1e-7, power=power)
    if power == 1:
        check_optimal(data, svm, best, w)
    assert svm.report_.converged
    assert svm.report_.primal == pytest.approx(data.objective(data.flat(svm.weights_), power=power), rel=1e-9, abs=1e-9)
    assert svm.report_.dual - 1e-8 <= best <= svm.report_.primal + 1e-7 * max(best, 0.1)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_relaxed_optimum_of_any_graph(power):
    X, Y = noise()
    settings = {"C": 4.0, "risk": "relaxed", "backend": "lp", "power": power, "random_state": 0}
    joint = StructuredSVM(Triples, trainer="lp-dual-qp", tol=1e-7, **settings).fit(X, Y).report_
    planes = StructuredSVM(Triples, trainer="bundle", tol=1e-4, max_passes=2000, **settings).fit(X, Y).report_
    assert joint.converged
    assert planes.converged
    assert joint.tightness < 1.0
    assert planes.dual <= joint.primal * (1 + 1e-8)
    assert joint.dual <= planes.primal * (1 + 1e-8)


def test_factors_on_the_same_variables_are_loose_only_when_relaxed():
    data = Case(small.Ties, C=5.0).make(2)
    margin = fitted(data, trainer="lp-dual-qp", tol=1e-7).report_
    relaxed = fitted(data, trainer="lp-dual-qp", risk="relaxed", backend="lp", tol=1e-7).report_
    assert relaxed.converged
    assert relaxed.primal > 1.001 * margin.primal


def test_weights_without_a_regulariser():
    data = Case(small.Word, n=6, regularization={"trans": 0.0}).make(0)
    best, _ = data.optimum()
    svm = fitted(data, trainer="lp-dual-qp")
    assert svm.report_.primal == pytest.approx(best, rel=1e-7)
    assert svm.report_.dual == -np.inf


def test_examples_that_do_not_count():
    data = replace(Case(small.Word).make(0), weight=np.array([0.0, 0.0, 2.0, 0.0, 0.0]))
    for power in (1, 2):
        best, _ = data.optimum(power=power)
        assert fitted(data, trainer="lp-dual-qp", power=power).report_.primal == pytest.approx(best, rel=1e-4)


def test_an_unfinished_solve_is_certified_honestly():
    data = Case(small.Word, n=8).make(0)
    best, _ = data.optimum()
    for power in (1, 2):
        svm = fitted(data, trainer="lp-dual-qp", max_seconds=1e-9, power=power)
        assert svm.report_.dual <= data.optimum(power=power)[0] <= svm.report_.primal
    report = fitted(data, trainer="lp-dual-qp", max_seconds=1e-9).report_
    assert report.reason == "seconds"
    assert report.dual <= best <= report.primal
    assert report.certified  # by bounds that need no search
    assert not report.converged


@pytest.mark.parametrize(
    "case", [Case(small.Layers, ragged=(1, 2), n=4), Case(small.Ties), Case(small.Joint, ignore=9)]
)
def test_any_numbers_make_a_valid_plane(case):
    data = case.make(3)
    problem = data.problem()
    points, rng = polytope_of(problem, "none"), np.random.default_rng(0)
    for scale in (1e-3, 1.0):
        x = np.maximum(points.truth() + scale * rng.normal(size=len(points.loss)), 0.0)
        v, b = points.plane(x, problem.objective.weight)
        for _ in range(5):
            w = rng.normal(size=problem.dim)
            assert problem.objective.primal(w, problem.oracle(w).value) - problem.objective.regularizer(w) >= b - v @ w
    rows = points.equations
    np.testing.assert_allclose(rows.matrix @ points.rounded(x), rows.right, atol=1e-14)


def test_large_programs_are_refused_before_the_oracle_is_asked():
    problem = Case(small.Word).make(0).problem()
    with pytest.raises(
        TrainingError, match=r"87 inequalities with 120 features .* max_entries=200; use fewer examples"
    ):
        next(LPDualQP(max_entries=200).steps(problem, StopRule()))
    assert problem.n_oracle_calls == 0


@pytest.mark.parametrize("backend", ["lp", "ad3"])
def test_ties_at_the_optimum_are_no_looseness(backend):
    """The relaxation of a chain loses nothing, whatever mixture of the best labellings a solver ends at."""
    data = Case(small.Word, n=8, C=5.0).make(4)
    svm = StructuredSVM(small.Word, C=5.0, risk="relaxed", trainer="lp-dual-qp", backend=backend, tol=1e-6)
    report = svm.fit(data.X, data.Y).report_
    assert report.converged
    assert report.tightness == 1.0
    assert 0.0 <= report.inference_gap <= report.gap
    assert "inference" not in str(report)
