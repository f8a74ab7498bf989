"""The regularisation path: every C of the interval is covered by certified weights."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import small
from small import Case, Word

from ssvm_dsl import StructuredSVM, regularization_path
from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.learning.certificate import Certificate
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.path import CARRIERS
from ssvm_dsl.plugin_api import TrainerSpec
from ssvm_dsl.registry import registry

CASES = [Case(Word, n=8), Case(small.Tree, n=5), Case(small.Loopy)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_c_is_covered(case):
    epsilon, ends = 0.05, []
    svm = StructuredSVM(case.model, random_state=0, max_passes=5000, regularization=case.regularization)
    data = case.make(0)
    for point, fitted in regularization_path(svm, data.X, data.Y, 0.01, 10.0, epsilon):
        assert not ends or ends[-1] == point.C
        ends.append(point.C_end)
        assert point.C_end > point.C or point.C == 10.0
        for C in np.geomspace(point.C, point.C_end, 3):
            gap = fitted.certified_gap(C)
            assert gap <= epsilon + 1e-9
            best = StructuredSVM(case.model, C=C, tol=1e-4, max_passes=5000, regularization=case.regularization)
            best.fit(data.X, data.Y)
            reached = objective(fitted, C)
            assert best.report_.dual - 1e-9 <= reached
            assert reached * (1 - epsilon) <= best.report_.primal + 1e-9
    assert ends[-1] == 10.0


def objective(fitted, C):
    """The objective of the fitted weights for another C."""
    certificate = fitted._certificate
    return certificate.regularizer + C * certificate.n * certificate.risk


def test_fewer_points_for_a_larger_epsilon():
    data = Case(Word, n=8).make(0)
    counts = [
        len(list(regularization_path(StructuredSVM(Word, random_state=0), data.X, data.Y, 0.01, 1.0, epsilon)))
        for epsilon in (0.2, 0.05)
    ]
    assert counts[0] < counts[1]


def test_what_cannot_be_certified_is_refused():
    data = Case(Word, n=8).make(0)


    def path(C_min=0.01, C_max=1.0, epsilon=0.01, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            list(regularization_path(StructuredSVM(Word, **options), data.X, data.Y, C_min, C_max, epsilon))

    for options, message in (
        ({"trainer": "subgradient", "max_passes": 3}, "'subgradient' gives no .*; these do for risk 'margin': bcfw"),
        ({"trainer": "lbfgs", "risk": "log"}, "'lbfgs' gives no lower bound .*; these do for risk 'log': eg$"),
        ({"trainer": "one-slack", "risk": "slack"}, r"none does for risk 'slack' \(power 1\); fit each C for itself"),
        ({"backend": "icm", "max_passes": 3}, "backend 'icm' gives no bounds, .*: backend='auto' with guarantee="),
        ({"max_passes": 1}, "at C = 0.01 the fit certifies a relative gap of .*; raise max_passes or max_seconds"),
    ):
        with pytest.raises(TrainingError, match=message):
            path(**options)
    for options, message in (
        ({"C_min": 1.0, "C_max": 0.1}, "C_min is at most C_max, got C_min=1.0 and C_max=0.1"),
        ({"C_min": "a"}, "C_min is a positive number, got 'a'"),
        ({"C_max": np.inf}, "C_max is a positive number, got inf"),
        ({"epsilon": -1}, "epsilon is a number between 0 and 1, got -1"),
        ({"lam": 1.0}, "lam"),
    ):
        with pytest.raises(OptionError, match=message):
            path(**options)


def test_the_trainers_whose_bounds_carry_over():
    data, found = Case(Word, n=4).make(0), []
    for spec in registry().specs(TrainerSpec):
        risk = "margin" if "margin" in spec.needs.risks else min(spec.needs.risks & {"log", "relaxed"})
        svm = StructuredSVM(Word, trainer=spec.name, risk=risk, random_state=0, max_passes=20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = np.isfinite(svm.fit(data.X, data.Y).certified_gap(2.0))
        found += [spec.name] if known else []
    assert sorted(found) == sorted(CARRIERS)


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
