"""The extragradient methods: projections against a quadratic program, steps by their definition, optima."""

from __future__ import annotations

from itertools import islice

import clarabel
import numpy as np
import pytest
from scipy import sparse
from test_every_trainer import check_certificate, fitted
from test_lp_dual_qp import Triples, noise

import small
from model_table import tagger
from small import Case
from ssvm_dsl import StructuredSVM
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers.dual import extragradient
from ssvm_trainers.dual.extragradient import Extragradient
from ssvm_trainers.dual.points_of_problem import polytope_of
from ssvm_trainers.dual.polytope import score_columns
from ssvm_trainers.dual.projection import polytopes as projection
from ssvm_trainers.dual.projection.polytopes import PolytopeProjection

SOME = [
    Case(small.Word),
    Case(small.Word, C=0.05, weighted=True, tag="-weighted"),
    Case(small.Tree, ragged=(1, 4, 5), n=4),
    Case(small.Single, n=8),
    Case(small.Layers, ragged=(1, 2), n=4),
    Case(small.Ties),
    Case(small.Ties, C=5.0, regularization={"agree": 0.2, "step": 2.0}, weighted=True, tag="-scaled"),
    Case(small.Joint, ignore=9, n=6),
]


def closest(polytope, z):
    """The projection by Clarabel."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    rows, n = polytope.equations, len(z)
    A = sparse.vstack([rows.matrix, -sparse.eye_array(n)], format="csc")
    cones = [clarabel.ZeroConeT(len(rows.right)), clarabel.NonnegativeConeT(n)]
    right = np.concatenate([rows.right, np.zeros(n)])
    found = clarabel.DefaultSolver(sparse.eye_array(n, format="csc"), -z, A, right, cones, settings).solve()
    assert str(found.status) == "Solved"
    return np.array(found.x)


def projection_of(polytope):
    """The projection, of columns."""
    share = polytope.problem.objective.weight
    return PolytopeProjection(polytope.layout(), n_scores(polytope.problem.parameters.program), share, polytope.used)


def n_scores(program):
    return program.n_states + sum(group.n_tables * group.n_configs for group in program.groups)


def projected(projection, polytope, z):
    x, mass, moved = projection.step(polytope.full(z), np.zeros(projection.n_scores), 0.0)
    share = polytope.problem.objective.weight[polytope.owner]
    found = x[polytope.kept]
    np.testing.assert_allclose(mass, polytope.mass(polytope.full(share * found)), atol=1e-12)
    assert moved == pytest.approx(np.sum(share * (found - z) ** 2), rel=1e-9)
    assert not np.delete(x, polytope.kept).any()
    return found


def points_of(case, relaxed=True):
    problem = case.make(0).problem()
    problem.relaxed = relaxed
    return polytope_of(problem, "none")


ANY = Case(small.Loopy)


@pytest.mark.parametrize("case", [*SOME, ANY], ids=str)
def test_the_projection_is_the_closest_point(case):
    polytope, rng = points_of(case), np.random.default_rng(0)
    rows = polytope.equations
    for scale in (0.1, 3.0, 300.0):
        projection, z = projection_of(polytope), scale * rng.normal(size=len(polytope.loss))
        for _ in range(3):  # warm from the second on
            x = projected(projection, polytope, z)
            assert x.min() >= 0.0
            np.testing.assert_allclose(rows.matrix @ x, rows.right, atol=1e-9 * (1.0 + scale))
            np.testing.assert_allclose(x, closest(polytope, z), atol=1e-7 + 1e-9 * scale)
            z = z + 0.03 * scale * rng.normal(size=len(z))


def test_labellings_are_their_own_projections():
    for case in (Case(small.Word), ANY, Case(small.Ties)):
        polytope = points_of(case)
        found = projected(projection_of(polytope), polytope, polytope.truth())
        np.testing.assert_allclose(found, polytope.truth(), atol=1e-8)


def test_a_projection_that_comes_to_no_end_is_an_error(monkeypatch):
    monkeypatch.setattr(projection, "ACCURACY", 0.0)
    polytope = points_of(ANY)
    with pytest.raises(TrainingError, match=r"'extragradient': a projection .* 500 steps of Newton's method; use"):
        projected(projection_of(polytope), polytope, 10.0 * np.cos(np.arange(len(polytope.loss))))


Chains = tagger(5, 3)


def test_projections_end_where_many_marginals_are_all_but_zero():
    X, Y = make_chains(5, noise=1.5, random_state=3)  # undamped steps stand still at 2e-9
    svm = StructuredSVM(Chains, C=0.5, trainer="extragradient", tol=1e-2, max_passes=40).fit(X, Y)
    best = StructuredSVM(Chains, C=0.5, tol=1e-4, random_state=0).fit(X, Y).report_
    assert svm.report_.converged
    assert best.dual <= svm.report_.primal <= 1.011 * best.primal


@pytest.mark.parametrize(("method", "gap"), [("extragradient", 1e-3), ("dual", 0.05)])
def test_features_that_hardly_matter_leave_steps_of_a_length_that_projections_can_take(method, gap):
    X, Y = make_chains(3, random_state=0)
    tiny = [1e-8 * x for x in X]
    svm = StructuredSVM(Chains, trainer="extragradient", trainer_options={"method": method}, max_passes=10)
    svm.set_params(regularization={"trans": 1e16}).fit(tiny, Y)
    n_wrong = sum(len(y) for y in Y)  # nothing can be learnt: every label may be wrong
    assert svm.report_.gap <= gap * n_wrong
    assert svm.report_.dual <= n_wrong * (1 + 1e-9)
    assert svm.report_.primal == pytest.approx(n_wrong, rel=1e-3)


def test_it_reaches_the_relaxed_optimum_of_any_graph():
    X, Y = noise()
    settings = {"C": 0.5, "risk": "relaxed", "backend": "lp", "random_state": 0}
    joint = StructuredSVM(Triples, trainer="lp-dual-qp", tol=1e-7, **settings).fit(X, Y).report_
    report = StructuredSVM(Triples, trainer="extragradient", tol=1e-5, **settings).fit(X, Y).report_
    assert report.converged
    assert report.primal == pytest.approx(joint.primal, rel=1e-5)
    assert report.dual <= joint.primal * (1 + 1e-8)


@pytest.mark.parametrize("case", [Case(small.Word), Case(small.Bounded, C=3.0), Case(small.Single, n=8)], ids=str)
def test_averages_of_the_dual_method_come_close(case):
    data = case.make(0)
    best, _ = data.optimum()
    gaps = []
    for max_passes in (2, 8):
        options = {"method": "dual"}
        svm = fitted(data, trainer="extragradient", trainer_options=options, tol=0.0, max_passes=max_passes)
        check_certificate(data, svm, best)
        gaps.append(svm.report_.gap)
    assert gaps[1] < 0.5 * gaps[0]
    assert gaps[1] < 0.2 * best


def test_the_first_steps_are_those_of_the_definition(monkeypatch):
    monkeypatch.setattr(extragradient, "SHORT", 0.0)  # steps do not become longer
    problem = Case(small.Word).make(0).problem()
    polytope, objective = polytope_of(problem, "none"), problem.objective
    made = Extragradient(evaluate_every=1)
    points = []
    for _ in islice(made.steps(problem, StopRule()), 3):
        points.append((made._run.w, made._run.x, made._run.step))
    share = (objective.weight / problem.n)[polytope.owner]
    columns = score_columns(polytope).toarray()
    assert made._run.beta == pytest.approx(polytope.loss.max() / 0.3)
    P = objective.lam * np.eye(problem.dim) + columns.T @ (share[:, None] * columns) / made._run.beta

    def gradients(w, x):
        truth = polytope.truth_features(objective.weight / problem.n)
        return objective.lam * w - truth + polytope.features(share * x), -(polytope.loss + columns @ w)

    def moved(w, x, of, step):
        dw, dx = gradients(*of)
        return w - step * np.linalg.solve(P, dw), closest(polytope, x - step / made._run.beta * dx)

    w, x = np.zeros(problem.dim), polytope.truth()
    for at_w, at_x, step in points:
        ahead = moved(w, x, (w, x), step)
        w, x = moved(w, x, ahead, step)
        np.testing.assert_allclose(at_w, w, atol=1e-7)
        np.testing.assert_allclose(at_x, x, atol=1e-7)
        w, x = at_w, at_x


@pytest.mark.parametrize("method", ["extragradient", "dual"])
def test_examples_of_a_single_variable_have_no_factors_that_join_any(method):
    X, Y = [np.ones((1, 2)), np.zeros((1, 2))], ["a", "b"]
    svm = StructuredSVM(small.Word, trainer="extragradient", trainer_options={"method": method}, tol=1e-2)
    report = svm.fit(X, Y).report_
    assert report.dual <= report.primal
    assert report.primal == pytest.approx(StructuredSVM(small.Word, tol=1e-4).fit(X, Y).report_.primal, rel=0.05)
