"""Cutting planes (n-slack, one-slack, bundle): other risks and powers, refusals, their inner solvers."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC
from test_every_trainer import fitted as fit
from test_smooth import reference

import small
from combinations import crossed, some
from small import Case, Word
from ssvm_dsl import Factor, Hamming, Input, Label, Model, StructuredSVM
from ssvm_dsl.errors import FileFormatError, TrainingError
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.plugin_api import StopRule
from ssvm_dsl.testing import training_problem
from ssvm_trainers.cutting.aggregated_qp import AggregatedModel, maximise_on_simplex
from ssvm_trainers.cutting.bundle import Bundle

WHOLE = [{"method": "proximal"}, {"method": "kelley"}]
#: Kelley's method takes thousands of passes to a small gap.
GAPS = {"proximal": 1e-5, "kelley": 1e-2}


def fitted(data, **options):
    return fit(data, **{"tol": 1e-8, "max_passes": 500} | options)


@crossed(options=WHOLE, settings=[{"risk": "slack"}, {"power": 2}, {"risk": "log"}, {"l1": 0.3}])
def test_planes_of_the_whole_objective_of_other_risks(options, settings):
    data = Case(Word).make(2)
    best, tol = fitted(data, trainer="bundle", **settings).report_, GAPS[options["method"]]
    found = fitted(data, trainer="bundle", trainer_options=options, **settings | {"tol": tol, "max_passes": 3000})
    assert found.report_.converged
    assert found.report_.primal == pytest.approx(best.primal, rel=2.0 * tol)
    assert found.report_.dual <= best.primal * (1 + 1e-9)


def test_kelleys_points_jump_and_proximal_ones_do_not():
    """The first minimiser of affine pieces is at a corner of the box; the proximal point is close to the start."""
    problem = training_problem(Word, *_words(), lam=0.2)
    far, near = (
        [one.w.copy() for one in islice(Bundle(method=method).steps(problem, StopRule()), 2)][1]
        for method in ("kelley", "proximal")
    )
    radius = np.sqrt(2.0 * problem.value(np.zeros(problem.dim))[0] / problem.objective.lam)
    moved = far[np.flatnonzero(near)]
    np.testing.assert_allclose(np.abs(moved), radius)
    assert np.abs(near).max() < radius


@pytest.mark.parametrize("options", WHOLE)
def test_a_damaged_model_of_the_whole_objective_is_refused(options):
    problem, first = training_problem(Word, *_words(), lam=0.2), Bundle(**options)
    for _ in islice(first.steps(problem, StopRule()), 12):
        pass
    state = first.state()
    damaged = state | {"model._heights": state["model._heights"][:-1]}
    with pytest.raises(FileFormatError, match="_heights"):
        next(Bundle(**options).resume(problem, StopRule(), damaged))


def _words():
    data = Case(Word).make(3)
    return data.X, data.Y


# -- other risks and powers --------------------------------------------------------------------------------


@crossed(
    case=[Case(Word, C=0.5), Case(small.Bounded), Case(small.Loopy)], risk=["log", "softmax-margin"], power=[1, 1.5]
)
def test_bundle_minimises_smooth_risks(case, risk, power):
    data = case.make(1)
    best = reference(data, risk, power)
    report = fitted(data, trainer="bundle", risk=risk, power=power, tol=1e-6).report_
    assert report.converged
    assert report.dual - 1e-6 * best <= best <= report.primal + 1e-6 * best
    assert report.primal <= best * (1 + 2e-6)


@pytest.mark.parametrize("power", [1.5, 3.0])
@pytest.mark.parametrize("case", [Case(Word), Case(small.Ties)], ids=str)
def test_other_powers(case, power):
    data = case.make(1)
    reports = []
    for trainer in ("one-slack", "bundle"):
        svm = fitted(data, trainer=trainer, power=power, tol=1e-7, max_passes=2000)
        assert svm.report_.converged
        assert svm.report_.primal == pytest.approx(data.objective(data.flat(svm.weights_), power=power), rel=1e-9)
        reports.append(svm.report_)
    for one in reports:
        for other in reports:
            assert one.dual <= other.primal * (1 + 1e-12)
    with pytest.raises(TrainingError, match="n-slack"):
        fitted(data, trainer="n-slack", power=power)


@pytest.mark.parametrize(
    ("model", "risk", "other"), [(small.Loopy, "relaxed", "bcfw"), (small.Single, "smooth-hinge", "lbfgs")]
)
def test_bundle_agrees_with_other_trainers(model, risk, other):
    data = Case(model, n=8, C=2.0).make(1)
    both = [fitted(data, trainer=t, risk=risk, guarantee="bound", tol=1e-7).report_ for t in ("bundle", other)]
    assert both[0].converged
    assert both[0].primal == pytest.approx(both[1].primal, rel=1e-6)
    assert max(one.dual for one in both) <= min(one.primal for one in both) * (1 + 1e-9)


# -- parts -------------------------------------------------------------------------------------------------


def reference_on_simplex(hessian, linear):
    """The maximum by Clarabel."""
    import clarabel
    from scipy import sparse

    k = len(linear)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    A = sparse.csc_array(np.vstack([np.ones((1, k)), -np.eye(k)]))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(k)]
    b = np.append(1.0, np.zeros(k))
    found = clarabel.DefaultSolver(sparse.csc_array(np.triu(hessian)), -linear, A, b, cones, settings).solve()
    return -found.obj_val


@pytest.mark.parametrize("seed", some(range(25), 10))
def test_the_simplex_solver(seed):
    """Full and deficient rank, repeated columns, no curvature at all, warm and cold starts."""
    rng = np.random.default_rng(seed)
    k, rank = int(rng.integers(1, 25)), int(rng.integers(0, 12))
    columns = rng.normal(size=(rank, k)) * 10.0 ** rng.integers(-3, 4)
    linear = rng.normal(size=k)
    if k > 4:
        columns[:, 1], linear[1] = columns[:, 0], linear[0]
        columns[:, 2] = 0.5 * (columns[:, 0] + columns[:, 3])
    hessian = columns.T @ columns
    start = rng.dirichlet(np.ones(k)) if seed % 2 else np.eye(k)[int(rng.integers(k))]
    found = maximise_on_simplex(hessian, linear, start)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0, abs=1e-12)

    def value(a):
        return linear @ a - 0.5 * a @ hessian @ a

    assert value(found) >= value(start) - 1e-14 * abs(value(start)) - 1e-12
    slope = linear - hessian @ found
    size = np.abs(linear).max() + np.abs(hessian).max(initial=0.0)
    assert slope.max() - found @ slope <= 1e-11 * size  # the duality gap
    assert value(found) == pytest.approx(reference_on_simplex(hessian, linear), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("seed", some(range(20), 6))
def test_the_model_with_bounds_is_solved(seed):
    """Weights with lower bounds (zero and others): the dual value equals the primal of the model."""
    rng = np.random.default_rng(seed)
    dim, k = int(rng.integers(2, 12)), int(rng.integers(1, 20))
    lower = np.where(rng.random(dim) < 0.6, rng.choice([0.0, -0.3, 0.2], dim), -np.inf)
    objective = RegularizedRisk(0.1, 3, np.ones(3), rng.uniform(0.3, 3.0, dim), lower)
    model = AggregatedModel(objective, keep=100)
    for _ in range(k):
        model.add(rng.normal(size=dim), float(rng.normal() + 1.0))
        model.solve()
        assert (model.w >= lower).all()
        assert model.bound(model.w) - model.dual <= 1e-10 * (1.0 + abs(model.dual))


def test_few_weights_are_moved_together():
    """Sweeps over examples alone left a gap of 1 % after 100 passes; liblinear does not end at the optimum, either."""
    X, y = load_iris(return_X_y=True)

    class Iris(Model):
        x, y = Input(4), Label(3)
        score = Factor(y, features=x)
        loss = Hamming(y)

    svm = StructuredSVM(Iris, C=100.0, trainer="n-slack", tol=1e-3, max_passes=20, random_state=0).fit(X, y)
    assert svm.report_.certified
    theirs = LinearSVC(
        multi_class="crammer_singer", fit_intercept=False, C=100.0, tol=1e-8, max_iter=10**6, random_state=0
    ).fit(X, y)
    scores = X @ theirs.coef_.T
    worst = (scores + 1.0 - np.eye(3)[y]).max(axis=1) - scores[np.arange(len(y)), y]
    best = (theirs.coef_**2).sum() / 2 + 100.0 * worst.sum()
    assert svm.report_.primal <= best
    other = StructuredSVM(Iris, C=100.0, trainer="bcfw", tol=1e-4, random_state=0).fit(X, y)
    assert svm.report_.primal == pytest.approx(other.report_.primal, rel=1e-3)
