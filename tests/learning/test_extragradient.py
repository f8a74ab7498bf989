"""The extragradient methods: projections against a quadratic program, steps by their definition, optima."""

from __future__ import annotations

from itertools import islice

import clarabel
import numpy as np
import pytest
import small
from scipy import sparse
from small import Case
from test_lp_dual_qp import Triples, noise
from test_optimum import check_certificate, check_optimal, fitted

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers import _projection, extragradient
from ssvm_trainers._polytope import polytope_of
from ssvm_trainers._projection import PolytopeProjection, SimplexProjection
from ssvm_trainers.extragradient import Extragradient

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
    n, rows = len(z), len(polytope.right)
    A = sparse.vstack([polytope.matrix, -sparse.eye_array(n)], format="csc")
    cones = [clarabel.ZeroConeT(rows), clarabel.NonnegativeConeT(n)]
    right = np.concatenate([polytope.right, np.zeros(n)])
    found = clarabel.DefaultSolver(sparse.eye_array(n, format="csc"), -z, A, right, cones, settings).solve()
    assert str(found.status) == "Solved"
    return np.array(found.x)


def projection_of(polytope):
    return PolytopeProjection(polytope.matrix, polytope.right, polytope.owner, polytope.row_owner)


def points_of(case, relaxed=True):
    problem = case.make(0).problem()
    problem.relaxed = relaxed
    return polytope_of(problem, "none")


@pytest.mark.parametrize("chunk", [1, 50_000])
@pytest.mark.parametrize("case", [*SOME, Case(small.Loopy)], ids=str)
def test_the_projection_is_the_closest_point(case, chunk, monkeypatch):
    monkeypatch.setattr(_projection, "CHUNK", chunk)
    polytope, rng = points_of(case), np.random.default_rng(0)
    assert (len(projection_of(polytope).chunks) == 1) == (chunk > 1)
    for scale in (0.1, 3.0, 300.0):
        projection, z = projection_of(polytope), scale * rng.normal(size=len(polytope.loss))
        for _ in range(3):  # warm from the second on
            x = projection.project(z)
            assert x.min() >= 0.0
            np.testing.assert_allclose(polytope.matrix @ x, polytope.right, atol=1e-9 * (1.0 + scale))
            np.testing.assert_allclose(x, closest(polytope, z), atol=1e-7 + 1e-9 * scale)
            z = z + 0.03 * scale * rng.normal(size=len(z))


def test_labellings_are_their_own_projections():
    for case in (Case(small.Word), Case(small.Loopy), Case(small.Ties)):
        polytope = points_of(case)
        np.testing.assert_allclose(projection_of(polytope).project(polytope.truth()), polytope.truth(), atol=1e-8)


def test_simplices_have_a_closed_form():
    rng, sizes = np.random.default_rng(0), np.array([3, 1, 4, 3, 4, 4, 2])
    matrix = sparse.csr_array(sparse.block_diag([np.ones((1, k)) for k in sizes]))
    owner, rows = np.repeat(np.arange(7), sizes), np.arange(7)
    for scale in (0.1, 1.0, 1e3):
        z = scale * rng.normal(size=sizes.sum())
        x = SimplexProjection(sizes).project(z)
        np.testing.assert_allclose(np.add.reduceat(x, np.cumsum(sizes) - sizes), 1.0, atol=1e-12)
        newton = PolytopeProjection(matrix, np.ones(7), owner, rows).project(z)
        np.testing.assert_allclose(x, newton, atol=1e-9 * (1 + scale))


def test_a_projection_that_comes_to_no_end_is_an_error(monkeypatch):
    monkeypatch.setattr(_projection, "MAX_STEPS", 1)
    polytope = points_of(Case(small.Loopy))
    with pytest.raises(TrainingError, match=r"'extragradient': a projection .* 1 steps of Newton's method; use"):
        projection_of(polytope).project(10.0 * np.cos(np.arange(len(polytope.loss))))


class Chains(Model):
    T = Dim()
    x = Input(T, 5)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


def test_projections_end_where_many_marginals_are_all_but_zero():
    X, Y = make_chains(5, noise=1.5, random_state=3)  # undamped steps stand still at 2e-9
    svm = StructuredSVM(Chains, C=0.5, trainer="extragradient", tol=1e-2, max_passes=40).fit(X, Y)
    best = StructuredSVM(Chains, C=0.5, tol=1e-4, random_state=0).fit(X, Y).report_
    assert svm.report_.converged
    assert best.dual <= svm.report_.primal <= 1.011 * best.primal


@pytest.mark.parametrize("method", ["extragradient", "dual"])
def test_features_that_hardly_matter_leave_steps_of_a_length_that_projections_can_take(method):
    X, Y = make_chains(3, random_state=0)
    tiny = [1e-8 * x for x in X]
    svm = StructuredSVM(Chains, trainer="extragradient", trainer_options={"method": method}, max_passes=10)
    svm.set_params(regularization={"trans": 1e16}).fit(tiny, Y)
    n_wrong = sum(len(y) for y in Y)  # nothing can be learnt: every label may be wrong
    assert svm.report_.converged
    assert svm.report_.dual <= n_wrong * (1 + 1e-9)
    assert svm.report_.primal == pytest.approx(n_wrong, rel=1e-3)


@pytest.mark.parametrize("case", SOME, ids=str)
def test_it_reaches_the_optimum(case):
    data = case.make(0)
    best, w = data.optimum()
    check_optimal(data, fitted(data, trainer="extragradient", tol=1e-6, max_passes=400), best, w)


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


def test_certificates_of_unfinished_fits_are_true_bounds():
    data = Case(small.Word, n=6, C=5.0).make(2)
    best, _ = data.optimum()
    for method in ("extragradient", "dual"):
        for max_passes in (1, 3):
            options = {"method": method, "evaluate_every": 1}
            svm = fitted(data, trainer="extragradient", trainer_options=options, tol=0.0, max_passes=max_passes)
            check_certificate(data, svm, best)


def test_the_first_steps_are_those_of_the_definition(monkeypatch):
    monkeypatch.setattr(extragradient, "SHORT", 0.0)  # steps do not become longer
    problem = Case(small.Word).make(0).problem()
    polytope, objective = polytope_of(problem, "none"), problem.objective
    made = Extragradient(evaluate_every=1)
    points = []
    for _ in islice(made.steps(problem, StopRule()), 3):
        points.append((made._run.w, made._run.x, made._run.step))
    share = (objective.weight / problem.n)[polytope.owner]

    def gradients(w, x):
        truth = polytope.truth_features(objective.weight / problem.n)
        return objective.lam * w - truth + polytope.features(share * x), -(polytope.loss + polytope.scores(w))

    def moved(w, x, of, step):
        dw, dx = gradients(*of)
        return w - step / objective.lam * dw, closest(polytope, x - step / made._run.beta * dx)

    w, x = np.zeros(problem.dim), polytope.truth()
    for at_w, at_x, step in points:
        ahead = moved(w, x, (w, x), step)
        w, x = moved(w, x, ahead, step)
        np.testing.assert_allclose(at_w, w, atol=1e-7)
        np.testing.assert_allclose(at_x, x, atol=1e-7)
        w, x = at_w, at_x


def test_it_starts_from_weights_it_is_given():
    data = Case(small.Word, n=6).make(3)
    optimum = fitted(data, trainer="extragradient", tol=1e-8).coef_
    run = Extragradient().begin(data.problem(), optimum)
    np.testing.assert_array_equal(run.w, optimum)
    warm = next(Extragradient(evaluate_every=5).steps(data.problem(), StopRule(), optimum))
    cold = next(Extragradient(evaluate_every=5).steps(data.problem(), StopRule()))
    assert warm.primal - warm.dual < cold.primal - cold.dual


@pytest.mark.parametrize("method", ["extragradient", "dual"])
def test_going_on_from_a_state_is_bit_for_bit(method):
    data, options = Case(small.Tree, ragged=(4, 5), n=4).make(0), {"method": method, "evaluate_every": 3}
    whole = [one.w for one in islice(Extragradient(**options).steps(data.problem(), StopRule()), 6)]
    begun = Extragradient(**options)
    assert len(list(islice(begun.steps(data.problem(), StopRule()), 3))) == 3
    rest = list(islice(Extragradient(**options).resume(data.problem(), StopRule(), begun.state()), 3))
    np.testing.assert_array_equal([one.w for one in rest], whole[3:])
