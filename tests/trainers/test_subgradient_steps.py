"""Projection onto the ball that holds the optimum, and online Newton steps, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from test_every_trainer import TINY, check_certificate, fitted
from test_objective import in_blocks

import small
from combinations import crossed
from model_table import independent
from optima import objective_of_planes
from small import Case, Word
from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers.online import subgradient
from ssvm_trainers.online.subgradient import Subgradient

ORDERS = ("stochastic", "incremental", "batch")
SCHEDULES = ("1/(lam t)", "1/sqrt(t)", "1/t", "constant")
AVERAGES = ("weighted", "uniform", "none")


@crossed(2, order=ORDERS, schedule=SCHEDULES, averaging=AVERAGES)
def test_subgradient_brackets_the_optimum(order, schedule, averaging):
    options = {"order": order, "schedule": schedule, "averaging": averaging, "step_size": 0.2}
    for case in (Case(Word, n=6), Case(small.Ties, C=2.0, regularization={"agree": 0.5}, weighted=True)):
        data = case.make(4)
        best, _ = data.optimum()
        svm = fitted(data, trainer="subgradient", tol=0.0, max_passes=15, trainer_options=options)
        check_certificate(data, svm, best)
        assert svm.report_.dual > -np.inf


@pytest.mark.parametrize(
    ("case", "order"),
    [
        (Case(Word, n=6), "stochastic"),
        (Case(Word, n=6), "batch"),
        (Case(small.Ties), "incremental"),
        (Case(small.Loopy), "stochastic"),
        (Case(small.AllOrNothing), "incremental"),
    ],
    ids=str,
)
def test_subgradient_comes_close(case, order):
    data = case.make(1)
    best, _ = data.optimum()
    options = {"order": order, "averaging": "none" if order == "batch" else "weighted", "evaluate_every": 20}
    n_passes = 600 if order == "batch" else 200
    svm = fitted(data, trainer="subgradient", tol=0.0, max_passes=n_passes, trainer_options=options)
    check_certificate(data, svm, best)
    assert svm.report_.primal <= 1.03 * best
    assert svm.report_.dual >= 0.85 * best


def iterates(problem, n_passes, start, **options) -> list[np.ndarray]:
    """The weights after each of some passes."""
    steps = Subgradient(random_state=3, **options).steps(problem, StopRule(max_passes=1e9), start)
    if start is not None:
        first = next(steps)  # the start, evaluated
        np.testing.assert_array_equal(first.w, start)
    return [np.array(next(steps).w) for _ in range(n_passes)]


@crossed(
    2,
    case=[
        Case(Word, n=8),
        Case(Word, n=8, C=0.5, weighted=True, regularization={"emit": 2.0, "trans": 2.0}, tag="-scaled"),
        Case(small.Costs, n=6),
        Case(small.Plain, n=6),
        Case(small.Joint, n=6, ignore=9),
    ],
    schedule=SCHEDULES,
    averaging=AVERAGES,
)
def test_the_compiled_pass_takes_the_same_steps(case, schedule, averaging):
    data = case.make(0)
    problem, plain = data.problem(), data.problem()
    assert problem.compiled() is not None
    plain.compiled = lambda tables=False: None
    batch_call = problem.oracle

    def whole_batches_only(w, examples=None):
        assert examples is None
        return batch_call(w)

    problem.oracle = whole_batches_only
    start = np.random.default_rng(0).normal(size=problem.dim)
    options = {"schedule": schedule, "averaging": averaging, "step_size": 0.3, "evaluate_every": 100}
    for fast, slow in zip(iterates(problem, 4, start, **options), iterates(plain, 4, start, **options)):
        np.testing.assert_allclose(fast, slow, rtol=1e-8, atol=1e-8)
    assert problem.n_oracle_calls == plain.n_oracle_calls


@pytest.mark.parametrize("model", [Word, small.Bounded, small.Costs])
def test_the_first_steps_are_those_of_the_definition(model):
    """Incremental steps written out: shrink, add the difference of joint features, project, average."""
    data = Case(model, n=12).make(0)
    problem, lam = data.problem(), 1.0 / 12
    start = np.maximum(0.05 * np.random.default_rng(1).normal(size=problem.dim), problem.objective.lower)
    w, seen = start.copy(), []
    for t, (losses, psi) in enumerate(data.planes, 1):
        worst = int(np.argmax(losses - psi @ w))
        w = w - 0.5 / np.sqrt(t) * (lam * w - psi[worst])
        w = np.where(data.nonneg, np.maximum(w, 0.0), w)
        seen.append(w)
    assert data.nonneg.any() == any((v[data.nonneg] == 0).any() for v in seen)  # some steps end on a bound
    expected = {"none": w, "uniform": np.mean(seen, axis=0), "weighted": np.average(seen, axis=0, weights=range(1, 13))}
    for averaging, value in expected.items():
        options = {"order": "incremental", "schedule": "1/sqrt(t)", "step_size": 0.5, "averaging": averaging}
        np.testing.assert_allclose(iterates(data.problem(), 1, start, **options)[0], value, rtol=1e-10, atol=1e-10)


def test_batches_average_their_subgradients():
    data = Case(Word, n=4).make(0)
    problem, lam = data.problem(), 0.25
    start = np.random.default_rng(1).normal(size=problem.dim)
    w = start.copy()
    for t, pair in enumerate((data.planes[:2], data.planes[2:]), 1):
        psi = np.mean([psi[np.argmax(losses - psi @ w)] for losses, psi in pair], axis=0)
        w = w - 1.0 / t * (lam * w - psi)
    options = {"order": "incremental", "schedule": "1/t", "batch_size": 2, "averaging": "none"}
    np.testing.assert_allclose(iterates(problem, 1, start, **options)[0], w, rtol=1e-10, atol=1e-10)


def test_steps_stay_in_the_ball():
    data = Case(Word, n=6, C=50.0).make(0)
    for order in ORDERS:
        for w in iterates(data.problem(), 5, None, order=order, averaging="none", radius=0.7)[1:]:
            assert np.linalg.norm(w) <= 0.7 + 1e-12


def test_the_returned_iterate_is_the_best_or_the_last():
    data = Case(Word, n=6, C=20.0).make(0)
    options = {"order": "incremental", "schedule": "constant", "step_size": 2.0, "averaging": "none"}
    options["evaluate_every"] = 1
    settings = {"trainer": "subgradient", "tol": 0.0, "max_passes": 30}
    best = fitted(data, **settings, trainer_options=options)
    last = fitted(data, **settings, trainer_options={**options, "best_iterate": False})
    primals = [event.primal for event in last.report_.history]
    assert best.report_.primal == min(primals) < primals[-1] == last.report_.primal
    assert objective_of_planes(data.planes, data.flat(last.weights_), 20.0, data.s) == pytest.approx(primals[-1])


@pytest.mark.parametrize("model", [Word, small.Bounded, small.Loopy, small.AllOrNothing])
@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
def test_the_pegasos_ball_holds_the_optimum(model, C):
    case = Case(model, C=C, weighted=True, regularization={"emit": 0.5})
    data = case.make(2)
    _, w = data.optimum()
    at_zero = C * sum(weight * losses.max() for weight, (losses, _) in zip(data.weight, data.planes))
    radius = np.sqrt(at_zero / data.scale.min())
    assert np.linalg.norm(w) <= radius * (1 + 1e-6)
    options = {"radius": "pegasos", "averaging": "none", "evaluate_every": 1}
    problem = data.problem()
    for w in iterates(problem, 4, None, order="incremental", **{k: options[k] for k in ("radius", "averaging")}):
        assert np.linalg.norm(w) <= radius * (1 + 1e-12)


def test_the_pegasos_radius_is_one_over_sqrt_lam_for_the_zero_one_loss():
    data = Case(Word, n=6, C=50.0).make(0)
    options = {"order": "incremental", "averaging": "none", "step_size": 20.0}
    lam = data.problem().objective.lam
    by_name = iterates(data.problem(), 3, None, radius="pegasos", **options)
    risk = np.mean([losses.max() for losses, _ in data.planes])
    by_number = iterates(data.problem(), 3, None, radius=float(np.sqrt(risk / lam)), **options)
    for one, other in zip(by_name, by_number):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert any(np.linalg.norm(w) == pytest.approx(np.sqrt(risk / lam)) for w in by_name)  # some steps are cut short


@pytest.mark.parametrize("metric", ["newton", "newton-current"])
@pytest.mark.parametrize("model", [Word, small.Bounded])
def test_newton_steps_are_those_of_the_footnote(model, metric):
    """``w_(t+1) = w_t - a_t (H_t + eps I)^-1 g_t`` with ``H_(t+1) = t/(t+1) H_t + 1/(t+1) g_t g_t'``, ``H_1 = 0``."""
    data = Case(model, n=8).make(0)
    problem, lam, ridge = data.problem(), 1.0 / 8, 0.3
    start = np.maximum(0.1 * np.random.default_rng(1).normal(size=problem.dim), problem.objective.lower)
    w, moments = start.copy(), np.zeros((problem.dim, problem.dim))
    for t, (losses, psi) in enumerate(data.planes):
        grad = lam * w - psi[np.argmax(losses - psi @ w)]
        current = t / (t + 1) * moments + np.outer(grad, grad) / (t + 1)  # the mean of t + 1 outer products
        used = moments if metric == "newton" else current
        w = w - 0.5 / np.sqrt(t + 1) * np.linalg.inv(used + ridge * np.eye(len(w))) @ grad
        printed = (t + 1) / (t + 2) * moments + np.outer(grad, grad) / (t + 2)  # t counts from 1 in the paper
        moments = printed if metric == "newton" else current
        w = np.where(data.nonneg, np.maximum(w, 0.0), w)
    options = {"order": "incremental", "schedule": "1/sqrt(t)", "step_size": 0.5, "averaging": "none"}
    found = iterates(data.problem(), 1, start, metric=metric, ridge=ridge, **options)[0]
    np.testing.assert_allclose(found, in_blocks(data, w), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("metric", "ridge"), [("newton", 100.0), ("newton-current", 1e-3)])
def test_newton_is_faster_where_features_have_different_sizes(metric, ridge):
    """Ratliff et al. needed a third of the steps; here the sizes differ by a factor of 100.

    As printed a direction that no earlier subgradient has is divided by the ridge alone, which has to be large.
    """
    X, Y = make_chains(n=60, n_states=3, n_features=5, length=(3, 6), random_state=0)
    X = [x * [0.1, 0.3, 1.0, 3.0, 10.0] for x in X]

    Chains = independent(5, 3)

    def best(metric: str, step_size: float) -> float:
        options = {"order": "batch", "averaging": "none", "schedule": "1/sqrt(t)", "metric": metric}
        settings = {"trainer": "subgradient", "tol": 0.0, "max_passes": 150, "n_threads": 1, "lam": 0.01}
        svm = small_fit(Chains, X, Y, **settings, trainer_options={**options, "step_size": step_size, "ridge": ridge})
        return svm.report_.primal

    sizes = np.array([1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0])
    plain = min(best("identity", s) for s in sizes.tolist())
    assert min(best(metric, s) for s in (max(ridge, 1.0) * sizes).tolist()) < plain


def small_fit(model, X, Y, **options):
    import warnings

    from ssvm_dsl import StructuredSVM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(model, **options).fit(X, Y)


def test_certificates_stay_true_with_newton_steps():
    data = Case(Word, n=6).make(4)
    best, _ = data.optimum()
    for order in ("batch", "stochastic"):
        options = {"metric": "newton", "order": order, "schedule": "1/sqrt(t)", "step_size": 0.3}
        report = fitted(data, trainer="subgradient", tol=0.0, max_passes=60, trainer_options=options).report_
        assert report.dual - 1e-7 <= best <= report.primal + 1e-7
        assert report.primal <= 1.1 * best


def test_a_dense_matrix_of_many_weights_is_refused(monkeypatch):
    monkeypatch.setattr(subgradient, "MAX_DIM", 10)
    with pytest.raises(TrainingError, match=r"15 x 15 weights.*at most 10 weights.*metric='identity'"):
        fitted(Case(Word).make(0), trainer="subgradient", trainer_options={"metric": "newton"})


@pytest.mark.parametrize("options", [{"radius": "big"}, {"radius": -1.0}, {"ridge": 0.0}], ids=str)
def test_senseless_numbers_are_refused(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        fitted(Case(Word).make(0), trainer="subgradient", trainer_options=options)


def test_pegasos_needs_every_factor_regularised():
    data = Case(Word, regularization={"trans": 0.0}).make(0)
    with pytest.raises(TrainingError, match="every factor regularised"):
        fitted(data, trainer="subgradient", trainer_options={"radius": "pegasos"})


class Unbounded(Model):
    """``small.Bounded`` without its bounds."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y), features=x, form=POTTS)
    loss = Hamming(y)


def non_negative(weights):
    """Project onto the set that ``nonneg=True`` declares."""
    np.maximum(weights["trans"], 0.0, out=weights["trans"])


def halved(weights):
    weights["trans"] *= 0.5


def shifted(weights):
    weights["trans"][...] = np.maximum(weights["trans"], 0.1)


def unchanged(weights):
    """Project onto the set of all weights."""


@pytest.mark.parametrize("order", ["batch", "incremental"])
def test_weights_in_a_convex_set_are_the_best_ones_there(order):
    """Against the quadratic program with the same set as bounds."""
    data = Case(small.Bounded, n=6, C=1.0).make(3)
    best, w = data.optimum()
    assert (w[data.nonneg] <= 1e-9).any()  # the set matters
    options = {"project": non_negative, "order": order, "batch_size": 3, "evaluate_every": 20}
    svm = StructuredSVM(
        Unbounded, C=1.0, trainer="subgradient", trainer_options=options, random_state=0, tol=1e-9, max_passes=600,
        n_threads=1, regularization=data.case.regularization,
    )  # fmt: skip
    svm.fit(data.X, data.Y)
    assert svm.weights_["trans"].min() >= 0.0
    assert svm.report_.dual <= best <= svm.report_.primal + 1e-9
    assert svm.report_.primal == pytest.approx(best, rel=3e-3)


@pytest.mark.parametrize(
    ("function", "text"),
    [(halved, "second call"), (lambda _: 3, "it returned int"), (shifted, "starts from .* are not in the set")],
)
def test_what_is_no_projection_is_refused(function, text):
    options = {"project": function}
    with pytest.raises(TrainingError, match=text):
        fitted(Case(Word, n=6).make(0), trainer="subgradient", trainer_options=options, max_passes=2)
    with pytest.raises(OptionError, match="leave out radius and metric"):
        fitted(Case(Word, n=6).make(0), trainer="subgradient", trainer_options=options | {"radius": 1.0})


def test_a_model_with_a_projection_is_saved_without_it(tmp_path):
    svm = fitted(Case(Word, n=6).make(0), trainer="subgradient", trainer_options={"project": unchanged}, max_passes=2)
    svm.save(tmp_path / "model")
    again = StructuredSVM.load(tmp_path / "model")
    assert again.trainer_options == {}
    np.testing.assert_array_equal(again.coef_, svm.coef_)


# -- steps with all examples -----------------------------------------------------------------------------------

BATCH = {"order": "batch", "schedule": "constant", "step_size": 0.05, "averaging": "none", "best_iterate": False}


def batch_svm(**options):
    options = BATCH | options
    return StructuredSVM(Word, trainer="subgradient", lam=0.3, tol=0.0, random_state=0, trainer_options=options)


def same(one, other):
    """Compare weights whose gradients were added up in different orders."""
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_a_stream_takes_one_step_for_each_batch():
    """``order="batch"`` steps with all examples of a call, whatever ``batch_size`` says."""
    data = Case(Word, n=6).make(0)
    all_at_once = batch_svm(order="incremental", batch_size=6).partial_fit(data.X, data.Y).coef_
    same(batch_svm().partial_fit(data.X, data.Y).coef_, all_at_once)
    assert not np.allclose(batch_svm(order="incremental").partial_fit(data.X, data.Y).coef_, all_at_once)
    twice = batch_svm().partial_fit(data.X[:3], data.Y[:3]).partial_fit(data.X[3:], data.Y[3:]).coef_
    by_three = batch_svm(order="incremental", batch_size=3)
    by_three = by_three.partial_fit(data.X[:3], data.Y[:3]).partial_fit(data.X[3:], data.Y[3:])
    same(twice, by_three.coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_passes", [1, 2, 3])
def test_the_last_step_with_all_examples_counts(max_passes):
    """The weights after the last step are returned with their objective, as where examples come one by one."""
    data = Case(Word, n=6).make(0)
    svm = batch_svm().set_params(max_passes=max_passes).fit(data.X, data.Y)
    steps = batch_svm(order="incremental", batch_size=6).set_params(max_passes=max_passes).fit(data.X, data.Y)
    assert svm.coef_.any()
    same(svm.coef_, steps.coef_)
    assert svm.report_.primal == pytest.approx(steps.report_.primal, rel=1e-12)
    assert svm.report_.n_passes == max(max_passes, 2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_better_of_the_last_two_is_returned():
    data = Case(Word, n=6).make(0)
    long = {"step_size": 5.0, "best_iterate": True}
    objectives = [batch_svm(**long).set_params(max_passes=k).fit(data.X, data.Y).report_.primal for k in (1, 2, 3, 4)]
    assert objectives == sorted(objectives, reverse=True)


def test_averages_of_steps_with_all_examples_reach_the_tolerance():
    data = Case(Word, n=6).make(1)
    options = {"order": "batch", "averaging": "weighted"}
    report = fitted(data, trainer="subgradient", tol=0.2, max_passes=2000, trainer_options=options).report_
    assert report.converged
    assert report.n_passes < 2000


def test_subgradient_stops_at_the_tolerance():
    data = Case(Word, n=6).make(1)
    best, _ = data.optimum()
    svm = fitted(data, trainer="subgradient", tol=0.05, max_passes=5000)
    assert svm.report_.converged
    assert svm.report_.primal <= best / 0.95 + TINY
