"""What holds for every trainer: the rules of the kit, the optimum over all labellings by Clarabel, bounds on the way.

Files of a method hold what is its own: steps by definition, parts, refusals, published numbers.  The fuzzer ``optima``
asks the same of random models.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import small
from combinations import crossed
from small import CASES, Case, Data, Word
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.learning.risks.kinds import find_risk
from ssvm_dsl.plugin_api import StopRule, TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import check_trainer, make_trainer
from ssvm_dsl.testing.trainers import TRAINER_RULES
from toy_backends import Toys, registered

#: What a bound may be off by: the accuracy of the reference.
TINY = 1e-7


def fitted(data: Data, **options) -> StructuredSVM:
    """Fit on the data of a case, one thread, quietly."""
    case = data.case
    settings = {"C": case.C, "regularization": case.regularization, "random_state": 0, "n_threads": 1, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(case.model, **settings).fit(data.X, data.Y, data.weight)


def check_certificate(data: Data, svm: StructuredSVM, best: float, risk: str = "margin", power: int = 1) -> None:
    """The report holds the objective at the returned weights, and bounds that are true, at the end and on the way."""
    report, w = svm.report_, data.flat(svm.weights_)
    slack = TINY * max(1.0, abs(best))
    assert report.primal == pytest.approx(data.objective(w, risk, power), rel=1e-9, abs=1e-9)
    assert report.dual - slack <= best <= report.primal + slack
    assert report.gap == pytest.approx(report.primal - report.dual + report.rounding, rel=1e-14, abs=1e-12)
    assert report.rounding <= 1e-11 * max(1.0, abs(report.primal))
    assert (w[data.nonneg] >= 0).all()
    assert report.certified
    for event in report.history:
        assert event.best_dual <= best + slack
        assert np.isnan(event.best_primal) or event.best_primal >= best - slack


def check_optimal(
    data: Data, svm: StructuredSVM, best: float, w_best: np.ndarray, rel: float = 1e-6, risk: str = "margin",
    power: int = 1,
) -> None:  # fmt: skip
    """The fit has converged, within a share of the optimum."""
    check_certificate(data, svm, best, risk, power)
    assert svm.report_.converged
    assert svm.report_.primal <= best + rel * max(best, 0.1)
    # the objective is 1-strongly convex in the scaled weights, so near-optimal ones are near the optimum
    distance = np.sqrt(np.sum(data.scale * (data.flat(svm.weights_) - w_best) ** 2))
    assert distance <= 2 * np.sqrt(2 * (svm.report_.gap + 1e-8 * max(best, 1.0))) + 1e-5


# -- the kit -----------------------------------------------------------------------------------------------

#: All checks but the one that waits for the machine's clock; it is in ``ssvm plugins check``.
CHECKS = [rule.name for rule in TRAINER_RULES if rule.name != "limits"]

#: The first that a trainer minimises; ``make fuzz ARGS=conformance`` has the others.
RISKS = ["margin", "log", "relaxed"]

#: What options could break.
STEPS = ["iterates", "objective", "lower bounds", "same seed", "threads", "start", "resume", "one example"]

#: (trainer, options, risks) beside the defaults.
WAYS = [
    ("bcfw", {"sampling": "uniform", "averaging": True}, ["margin"]),
    ("bcfw", {"parallel": 2}, ["margin"]),
    ("bcfw", {"blocks": "factors"}, ["relaxed"]),
    ("bundle", {"method": "kelley"}, ["margin"]),
    ("bundle", {"method": "proximal"}, ["log"]),
    ("eg", {"order": "batch"}, ["log"]),
    ("extragradient", {"method": "dual"}, ["margin"]),
    ("subgradient", {"order": "batch"}, ["margin"]),
    ("subgradient", {"order": "incremental", "averaging": "none"}, ["hm"]),
]


#: Options that keep other things for a fit that goes on than the defaults do.
KEEPING = [
    ("subgradient", {"metric": "newton"}, ["margin"]),
    ("subgradient", {"radius": "pegasos"}, ["margin"]),
    ("one-slack", {"cache": 2}, ["margin"]),
    ("n-slack", {"keep": 1}, ["margin"]),
    ("bundle", {"stabilise": False}, ["margin"]),
    ("perceptron", {"update": "arow"}, ["margin"]),
    ("dlpw", {"batch_size": 5, "averaging": "weighted"}, ["relaxed"]),
    ("bcfw", {"blocks": "examples"}, ["relaxed"]),
    ("smo", {}, ["relaxed"]),
]


def bundled() -> list[str]:
    """The trainers of the product."""
    known = registry()
    return [spec.name for spec in known.specs(TrainerSpec) if known.owner(spec).bundled]


def risk_of(trainer: str) -> str:
    """The first risk that a trainer minimises."""
    needs = registry().find(TrainerSpec, trainer).needs
    return next(name for name in RISKS if needs.covers(find_risk(name).spec, 1.0))


@pytest.mark.parametrize("trainer", bundled())
def test_the_kit_finds_nothing_wrong(trainer):
    report = check_trainer(trainer, risks=[risk_of(trainer)], only=CHECKS)
    assert report.ok, str(report)


@pytest.mark.parametrize(("trainer", "options", "risks"), WAYS, ids=str)
def test_nor_with_other_options(trainer, options, risks):
    report = check_trainer(trainer, options=options, risks=risks, only=STEPS)
    assert report.ok, str(report)


@pytest.mark.parametrize(("trainer", "options", "risks"), KEEPING, ids=str)
def test_fits_go_on_with_other_options(trainer, options, risks):
    report = check_trainer(trainer, options=options, risks=risks, only=["resume"])
    assert report.ok, str(report)


# -- the optimum over all labellings -----------------------------------------------------------------------

#: What works on trees and forests with losses that add up alone.
FORESTS = [case for case in CASES if case.model not in (small.Loopy, *small.LOSS_OF_WHOLE)]

#: What works on distributions over labellings, or on points of polytopes.
ADDITIVE = [case for case in CASES if case.model not in small.LOSS_OF_WHOLE]

FEW = [Case(Word, n=7, C=3.0), Case(small.Ties), Case(small.Tree, ragged=(4,), n=4)]

#: (trainer, its options, other settings, cases); a tolerance of 1e-7 where settings have no other.
FITS = [
    ("bcfw", {}, {}, CASES),
    ("bcfw", {"sampling": "uniform", "max_cached_passes": 1}, {}, FEW),
    ("bcfw", {"max_cached_passes": 0, "keep": 0}, {}, FEW),
    ("bcfw", {"keep": 1000, "max_cached_passes": 100}, {}, FEW),
    ("bcfw", {"averaging": True, "sampling": "uniform", "max_cached_passes": 0, "keep": 1}, {}, FEW),
    ("bcfw", {"parallel": 2}, {}, [Case(Word, n=13, C=3.0), FEW[1]]),
    ("bcfw", {"parallel": 3, "sampling": "uniform", "keep": 0}, {}, [Case(Word, n=13, C=3.0), FEW[2]]),
    ("n-slack", {}, {}, CASES[::2]),
    ("n-slack", {}, {"power": 2}, CASES[1::4]),
    ("n-slack", {"keep": 1, "accuracy": 0.01}, {}, FEW),
    ("n-slack", {"accuracy": 0.9, "max_sweeps": 20}, {}, FEW[:1]),
    ("one-slack", {}, {}, CASES[1::2]),
    ("one-slack", {}, {"power": 2}, CASES[2::4]),
    ("one-slack", {"cache": 0}, {}, FEW[:2]),
    ("one-slack", {"cache": 1, "max_cached_cuts": 3}, {}, FEW[1:]),
    ("one-slack", {"keep": 2, "cache": 3}, {}, FEW[:1]),
    ("bundle", {}, {}, CASES[::2]),
    ("bundle", {}, {"power": 2}, CASES[3::4]),
    ("bundle", {"stabilise": False}, {}, FEW[:2]),
    ("bundle", {"keep": 2}, {}, FEW[:2]),
    ("bundle", {"method": "proximal"}, {"tol": 1e-6, "max_passes": 4000}, [*CASES[::4], Case(small.Bounded, C=3.0)]),
    ("bundle", {"method": "kelley"}, {"tol": 1e-3, "max_passes": 4000}, [Case(Word), Case(small.Bounded, C=3.0)]),
    *((name, {}, {"risk": risk, "power": power}, [case])
      for name, risk, power, case in [
          ("n-slack", "hm", 1, Case(Word)), ("n-slack", "slack", 2, Case(small.Loopy, C=3.0)),
          ("n-slack", "perceptron", 1, Case(small.Single, n=8)), ("one-slack", "hm", 2, Case(small.Loopy, C=3.0)),
          ("one-slack", "slack", 1, Case(Word)), ("one-slack", "perceptron", 1, Case(small.Tree, ragged=(1, 4), n=4)),
          ("bundle", "hm", 1, Case(small.Tree, ragged=(1, 4), n=4)), ("bundle", "slack", 2, Case(small.Single, n=8)),
          ("bundle", "perceptron", 2, Case(Word)),
      ]),
    ("smo", {}, {"tol": 1e-8}, FORESTS),
    ("eg", {}, {"tol": 1e-3, "max_passes": 3000}, [*ADDITIVE[:2], *ADDITIVE[3:8], Case(small.Costs)]),
    ("eg", {"order": "batch"}, {"tol": 3e-3, "max_passes": 20_000}, [FEW[1], Case(small.Loopy), Case(small.Costs)]),
    ("eg", {"step_size": 1e-4}, {"tol": 1e-3, "max_passes": 3000}, FEW[:1]),
    ("extragradient", {}, {"tol": 1e-6, "max_passes": 400}, [*FORESTS[:2], *FORESTS[3:7], Case(small.Joint, n=6)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("trainer", "options", "settings", "case"),
    [(name, options, settings, case) for name, options, settings, cases in FITS for case in cases],
    ids=str,
)
def test_the_optimum_is_that_of_the_quadratic_program(trainer, options, settings, case):
    data = case.make(0)
    risk, power = settings.get("risk", "margin"), settings.get("power", 1)
    best, w = data.optimum(risk, power)
    settings = {"tol": 1e-7, "max_passes": 2000, **settings}
    svm = fitted(data, trainer=trainer, trainer_options=options, **settings)
    check_optimal(data, svm, best, w, max(1e-6, 2.0 * settings["tol"]), risk, power)


@crossed(case=[Case(Word, n=7, C=30.0), Case(small.Bounded, C=3.0), Case(small.Ties)], trainer=bundled())
def test_bounds_of_unfinished_fits_are_true(case, trainer):
    """The last one, and those on the way; of trainers without bounds, the objective."""
    data = case.make(2)
    if risk_of(trainer) != "margin":
        pytest.skip("not for margins")
    best, _ = data.optimum()
    for max_passes in (1, 3, 8):
        svm = fitted(data, trainer=trainer, tol=0.0, max_passes=max_passes)
        if svm.report_.certified:
            check_certificate(data, svm, best)
        else:
            assert svm.report_.dual == -np.inf
            assert svm.report_.primal == pytest.approx(data.objective(data.flat(svm.weights_)), rel=1e-9)


@pytest.mark.parametrize("trainer", ["bcfw", "smo", "n-slack", "one-slack", "bundle"])
def test_a_second_fit_goes_on_from_the_first(trainer):
    data = Case(Word, n=6).make(3)
    svm = fitted(data, trainer=trainer, tol=1e-8, max_passes=3000, warm_start=True)
    cold, optimum = svm.report_, svm.coef_.copy()
    warm = svm.fit(data.X, data.Y).report_
    assert warm.history[0].primal == pytest.approx(data.optimum()[0], rel=1e-6)
    assert warm.n_passes < cold.n_passes
    problem = data.problem()
    first = next(make_trainer(trainer).steps(problem, StopRule(), optimum))
    np.testing.assert_array_equal(first.w, optimum)


@pytest.mark.parametrize("trainer", ["bcfw", "smo"])
@pytest.mark.parametrize("case", FEW, ids=str)
def test_the_optimum_without_a_compiled_oracle(trainer, case, monkeypatch):
    monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    data = case.make(1)
    best, w = data.optimum()
    check_optimal(data, fitted(data, trainer=trainer, tol=1e-7, max_passes=2000), best, w)


@pytest.mark.parametrize("trainer", ["bcfw", "smo", "n-slack", "one-slack", "bundle"])
def test_threads_change_nothing_and_seeds_do(trainer):
    data = Case(Word, n=40, ragged=(2, 4)).make(0)
    first, second, other = (
        fitted(data, trainer=trainer, n_threads=n, random_state=seed, max_passes=6, tol=1e-8).coef_
        for n, seed in ((1, 0), (2, 0), (1, 1))
    )
    np.testing.assert_array_equal(first, second)
    assert np.array_equal(first, other) != (trainer in ("bcfw", "smo"))


@pytest.mark.parametrize("trainer", ["bcfw", "smo", "n-slack", "one-slack", "bundle"])
def test_inexact_oracles_give_true_bounds_or_none(trainer):
    data = Case(Word, n=5).make(0)
    best, _ = data.optimum()
    settings = {"trainer": trainer, "tol": 1e-8, "max_passes": 30}
    with registered(Toys()):
        bounding = fitted(data, backend="toy-bounding", **settings).report_
        heuristic = fitted(data, backend="toy-heuristic", **settings).report_
    assert bounding.certified
    assert bounding.dual - TINY <= best <= bounding.dual + bounding.gap + TINY
    assert not heuristic.certified
    assert np.isnan(heuristic.gap)
    assert heuristic.dual <= best + TINY  # its planes are true ones


@pytest.mark.parametrize("trainer", bundled())
def test_what_a_trainer_cannot_do_is_refused_with_others_that_can(trainer):
    """Risks and powers are in the table of ``test_pairings``."""
    needs = registry().find(TrainerSpec, trainer).needs
    risk = risk_of(trainer)
    if needs.strongly_convex:
        with pytest.raises(TrainingError, match=rf"{trainer}.*every factor regularised.*; set .*: .*subgradient"):
            fitted(Case(Word).make(0), trainer=trainer, risk=risk, regularization={"emit": 0.0})
    if risk == "margin" and (needs.asks_marginals or needs.factored):
        with pytest.raises(TrainingError, match=rf"'{trainer}' .*adds up over variables, not ZeroOne"):
            fitted(Case(small.AllOrNothing).make(0), trainer=trainer, risk=risk)


def test_the_cases_use_every_exact_backend():
    used = {fitted(case.make(0), max_passes=1).plan_.backend for case in CASES}
    assert used == {"chain", "tree", "junction-tree", "brute-force"}
    assert any(case.make(0).problem().compiled() is not None for case in CASES)
