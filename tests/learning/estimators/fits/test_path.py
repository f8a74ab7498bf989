"""The regularisation path: every C is covered by certified weights, whatever the risk and the trainer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_regression import EPSILON, values_of

import small
from combinations import some
from optima import Reference
from small import Case, Word
from ssvm_dsl import StructuredRegressor, StructuredSVM, regularization_path
from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.learning.driver.certificate import Certificate
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.plugin_api import RiskSpec, TrainerSpec
from ssvm_dsl.registry import registry

WORDS = Case(Word, n=8, weighted=True, regularization={"trans": 0.3})
BOUNDED = Case(small.Bounded, n=6, weighted=True)
TIES = Case(small.Ties, regularization={"agree": 0.2, "step": 2.0}, weighted=True)
TREES = Case(small.Tree, n=5)
PAIRS = Case(small.Loopy, n=6)
SINGLES = Case(small.Single, n=10, weighted=True)
COUNTED = Case(small.WordF1, n=6)


@dataclass(frozen=True)
class Setting:
    """What a path is made of."""

    case: Case
    trainer: str
    risk: str = "margin"
    power: float = 1.0

    def __str__(self) -> str:
        return f"{self.case}-{self.trainer}-{self.risk}-{self.power:g}"

    def path(self, data, *args, **options):
        """The path over the data, as users call it."""
        case = self.case
        settings = {"trainer": self.trainer, "power": self.power, "regularization": case.regularization}
        settings |= {"random_state": 0, "max_passes": 5000, "n_threads": 1}
        if self.risk == "regression":
            made, options = StructuredRegressor(case.model, EPSILON, **settings), {"values": values_of(data), **options}
        else:
            made = StructuredSVM(case.model, risk=self.risk, **settings)
        return regularization_path(made, data.X, data.Y, *args, sample_weight=data.weight, **options)

    def reference(self, data, C):
        """The objective by all labellings; the relaxation of trees is tight."""
        values = (values_of(data), EPSILON) if self.risk == "regression" else ()
        return Reference(data, "margin" if self.risk == "relaxed" else self.risk, self.power, *values, C=C)

    def objective(self, data, w, C):
        return self.reference(data, C).objective(w)[0]

    def optimum(self, data, C):
        return self.reference(data, C).optimum()[1]


SETTINGS = [
    Setting(WORDS, "bcfw"),
    Setting(BOUNDED, "smo"),
    Setting(TIES, "lp-dual-qp", power=2.0),
    Setting(COUNTED, "one-slack"),
    Setting(WORDS, "n-slack", "slack"),
    Setting(PAIRS, "n-slack", power=2.0),
    Setting(WORDS, "n-slack", "hm", power=2.0),
    Setting(WORDS, "one-slack", "slack", power=2.0),
    Setting(TIES, "one-slack", "hm"),
    Setting(TREES, "one-slack", "relaxed", power=2.0),
    Setting(TREES, "dlpw", "relaxed"),
    Setting(TREES, "bundle", power=2.0),
    Setting(TIES, "bundle", "slack", power=2.0),
    Setting(SINGLES, "bundle", "weston-watkins"),
    Setting(SINGLES, "bundle", "smooth-hinge"),
    Setting(WORDS, "eg", "log"),
    Setting(BOUNDED, "lbfgs", "log"),
    Setting(TREES, "lbfgs", "softmax-margin", power=1.5),
    Setting(TIES, "lbfgs", "log", power=2.0),
    Setting(SINGLES, "lbfgs", "smooth-hinge"),
    Setting(WORDS, "svrg", "log"),
    Setting(WORDS, "bundle", "regression"),
    Setting(BOUNDED, "bundle", "regression", power=2.0),
]


@pytest.mark.parametrize("setting", some(SETTINGS, 12), ids=str)
def test_the_guarantee_holds_between_the_points(setting):
    epsilon, low, high = 0.15, 0.03, 3.0
    data, ends = setting.case.make(0), [low]
    asked = np.exp(np.random.default_rng(0).uniform(np.log(low), np.log(high), 4))
    best = {C: setting.optimum(data, C) for C in asked}
    for point, fitted in setting.path(data, low, high, epsilon):
        assert point.C == ends[-1] < point.C_end
        assert point.relative_gap <= 0.5 * epsilon
        ends.append(point.C_end)
        np.testing.assert_array_equal(point.coef, fitted.coef_)
        w = data.flat(fitted.weights_)
        for C in asked:  # what is certified is true at every C ...
            gap, reached = fitted.certified_gap(C), setting.objective(data, w, C)
            assert reached * (1.0 - gap) <= best[C] * (1.0 + 1e-7)
            if point.C <= C <= point.C_end:  # ... and enough on the way to the next point
                assert gap <= epsilon + 1e-9
                assert reached * (1.0 - epsilon) <= best[C] * (1.0 + 1e-7)
    assert ends[-1] == high
    assert len(ends) > 3  # the points are needed: one fit does not do


def test_fewer_points_for_a_larger_epsilon():
    data = Case(Word, n=8).make(0)
    counts = [
        len(list(regularization_path(StructuredSVM(Word, random_state=0), data.X, data.Y, 0.01, 1.0, epsilon)))
        for epsilon in (0.2, 0.05)
    ]
    assert counts[0] < counts[1]


def test_examples_of_weight_two_count_twice():
    data, setting = WORDS.make(0), Setting(Case(Word), "lp-dual-qp")  # no iterations: the optimum
    weight = np.array([1.0, 2.0, 1.0, 0.0, 1.0, 1.0, 3.0, 1.0])
    rows = np.repeat(np.arange(8), weight.astype(int))
    many = replace(data, X=[data.X[i] for i in rows], Y=[data.Y[i] for i in rows], weight=None,
                   inputs=[data.inputs[i] for i in rows], labels=[data.labels[i] for i in rows],
                   ignored=[data.ignored[i] for i in rows])  # fmt: skip
    once = [point for point, _ in setting.path(replace(data, weight=weight), 0.03, 3.0, 0.1)]
    twice = [point for point, _ in setting.path(many, 0.03, 3.0, 0.1)]
    assert len(once) == len(twice)
    for a, b in zip(once, twice):
        assert a.C_end == pytest.approx(b.C_end, rel=1e-4)
        np.testing.assert_allclose(a.coef, b.coef, atol=1e-5)


def test_points_are_told_their_score_on_held_out_examples():
    data, other = WORDS.make(0), WORDS.make(1)
    for setting, held_out in (
        (Setting(WORDS, "lbfgs", "log"), (other.X, other.Y)),
        (Setting(WORDS, "bundle", "regression"), (other.X, values_of(other))),
    ):
        for point, fitted in setting.path(data, 0.03, 3.0, 0.2, validation=held_out):
            assert point.validation_score == fitted.score(*held_out)
        assert all(np.isnan(point.validation_score) for point, _ in setting.path(data, 0.03, 3.0, 0.2))

    def errors(estimator, X, Y):
        return -float(sum((np.asarray(a) != b).sum() for a, b in zip(estimator.predict(X), Y)))

    svm = StructuredSVM(Word, trainer="lbfgs", risk="log", scoring=errors)
    held_out = (other.X, other.Y)
    for point, fitted in regularization_path(svm, data.X, data.Y, 0.03, 3.0, 0.2, validation=held_out):
        assert point.validation_score == errors(fitted, *held_out)
        assert fitted.scoring is errors
    with pytest.raises(DataError, match="validation"):
        next(regularization_path(StructuredSVM(Word), data.X, data.Y, 0.03, 3.0, validation=(other.X, other.Y[:3])))
    with pytest.raises(OptionError, match="validation must be a pair, what score takes"):
        regularization_path(svm, data.X, data.Y, 0.03, 3.0, validation=other.X)
    with pytest.raises(OptionError, match=r"scoring=.* is for .*validation"):
        regularization_path(svm, data.X, data.Y, 0.03, 3.0)


def test_later_fits_of_smooth_risks_start_where_the_last_one_ended():
    data = Case(Word, n=8).make(0)
    svm = StructuredSVM(Word, trainer="lbfgs", risk="log", tol=0.0025)
    points = [point for point, _ in regularization_path(svm, data.X, data.Y, 0.1, 10.0, 0.01)]
    cold = [svm.set_params(C=point.C).fit(data.X, data.Y).report_.n_passes for point in points]
    assert sum(point.n_passes for point in points) < 0.7 * sum(cold)


@pytest.mark.parametrize(("limit", "value"), [("max_passes", 1), ("max_seconds", 1e-9)])
def test_a_limit_ends_a_path_with_the_point_that_it_cut_short(limit, value):
    data = Case(Word, n=8).make(0)
    svm = StructuredSVM(Word, random_state=0, **{limit: value})
    text = f"the path ends at C = 0.01: .*{limit} ended the fit.*; raise {limit} or epsilon"
    with pytest.warns(UserWarning, match=text):
        ((point, fitted),) = regularization_path(svm, data.X, data.Y, 0.01, 1.0, 1e-4)
    assert point.C == point.C_end == 0.01
    assert 1e-4 < point.relative_gap == fitted.certified_gap(0.01) <= 1.0
    assert fitted.report_.dual <= fitted.report_.primal < np.inf


def test_points_before_a_limit_are_kept():
    data = Case(Word, n=8).make(0)
    whole = [point for point, _ in regularization_path(StructuredSVM(Word), data.X, data.Y, 0.001, 10.0, 0.05)]
    most = whole[0].n_passes + 0.5
    assert most < max(point.n_passes for point in whole)
    path = regularization_path(StructuredSVM(Word, max_passes=most), data.X, data.Y, 0.001, 10.0, 0.05)
    with pytest.warns(UserWarning, match="the path ends at C = .*max_passes ended the fit"):
        cut = [point for point, _ in path]
    assert len(cut) > 1
    assert all(point.relative_gap <= 0.05 for point in cut[:-1])
    assert cut[-1].relative_gap > 0.025
    assert cut[-1].C_end < 10.0


def test_what_cannot_be_certified_is_refused():
    data = Case(Word, n=8).make(0)

    def path(C_min=0.01, C_max=1.0, epsilon=0.01, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            list(regularization_path(StructuredSVM(Word, **options), data.X, data.Y, C_min, C_max, epsilon))

    able = "'perceptron' gives no lower bound .*; these do for risk 'hm': bcfw, n-slack, one-slack, bundle, adam, subgr"
    for options, message in (
        ({"trainer": "perceptron", "risk": "hm"}, able),
        ({"trainer": "lbfgs", "risk": "log", "regularization": {"trans": 0}}, "a path needs every factor regularised"),
        ({"backend": "icm", "max_passes": 3}, "backend 'icm' gives no bounds, .*: backend='auto' with guarantee="),
    ):
        with pytest.raises(TrainingError, match=message):
            path(**options)
    for options, message in (
        ({"C_min": 1.0, "C_max": 0.1}, "C_min is at most C_max, got C_min=1.0 and C_max=0.1"),
        ({"C_min": "a"}, "C_min must be a positive number, got 'a'"),
        ({"C_max": np.inf}, "C_max must be a positive number, got inf"),
        ({"epsilon": -1}, "epsilon must be a number between 0 and 1, got -1"),
        ({"lam": 1.0}, "lam"),
        ({"checkpoint": "fit.ckpt"}, "a path keeps no checkpoints"),
    ):
        with pytest.raises(OptionError, match=message):
            path(**options)


def test_what_is_no_path_is_refused_at_once():
    data, interval = WORDS.make(0), (0.1, 1.0)
    with pytest.raises(OptionError, match=r"regressor needs the numbers to predict: call .*values=values"):
        regularization_path(StructuredRegressor(Word), data.X, data.Y, *interval)
    with pytest.raises(OptionError, match="values are for a StructuredRegressor, got a StructuredSVM"):
        regularization_path(StructuredSVM(Word), data.X, data.Y, *interval, values=values_of(data))
    with pytest.raises(OptionError, match="expected a StructuredSVM or a StructuredRegressor, got"):
        regularization_path(Word, data.X, data.Y, *interval)
    with pytest.raises(DataError, match="sample_weight"):
        next(regularization_path(StructuredSVM(Word), data.X, data.Y, *interval, sample_weight=[1.0]))


def test_trainers_that_certify_do_so_for_every_c():
    data = Case(Word, n=4).make(0)
    for spec in registry().specs(TrainerSpec):
        risks = (registry().find(RiskSpec, name) for name in ("margin", "log", "relaxed"))
        risk = next(one.name for one in risks if spec.needs.minimises(one))
        svm = StructuredSVM(Word, trainer=spec.name, risk=risk, random_state=0, max_passes=20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            svm.fit(data.X, data.Y)
        assert np.isfinite(svm.report_.dual) == spec.certifies
        assert np.isfinite(svm.certified_gap(2.0)) == spec.certifies
        if spec.certifies:
            assert svm.certified_gap(1.0) == pytest.approx(svm.report_.relative_gap)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_dual_value_for_another_c_needs_no_plane(bounded):
    rng = np.random.default_rng(0)
    lower = np.where(rng.random(8) < 0.5, 0.0, -np.inf) if bounded else np.full(8, -np.inf)
    objective = RegularizedRisk(0.5, 4, np.ones(4), rng.uniform(0.5, 2.0, size=8), lower)
    v, b = rng.normal(size=8), 1.0
    certificate = Certificate(objective.lam, objective.n, 2.0, 3.0, objective.dual(v, b), b)
    for C in (0.1, 0.5, 10.0):
        other = replace(objective, lam=1.0 / (C * 4))
        primal = 2.0 * other.lam + 3.0
        assert certificate.relative_gap(C) == pytest.approx((primal - other.dual(v, b)) / primal, rel=1e-12)
