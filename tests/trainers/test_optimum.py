"""Trainers against the optimum of the quadratic program over all labellings, solved by Clarabel."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize

import naive
import small
from combinations import crossed, some
from small import CASES, Case, Data, Word
from ssvm_dsl import (
    ANTISYMMETRIC,
    FULL,
    POTTS,
    SYMMETRIC,
    Cost,
    Hamming,
    ModelBuilder,
    NoLoss,
    StructuredSVM,
    ZeroOne,
    chain,
)
from ssvm_dsl.errors import OptionError
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers.online.subgradient import Subgradient
from ssvm_trainers.planes import state as _planes
from ssvm_trainers.planes.bcfw import BCFW
from ssvm_trainers.planes.side_by_side import SideBySide, best_shares

#: What a bound may be off by: the accuracy of the reference.
TINY = 1e-7

each_case = pytest.mark.parametrize("case", CASES, ids=str)


def fitted(data: Data, **options) -> StructuredSVM:
    case = data.case
    settings = {"C": case.C, "regularization": case.regularization, "random_state": 0, "n_threads": 1, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(case.model, **settings).fit(data.X, data.Y, data.weight)


def check_certificate(data: Data, svm: StructuredSVM, best: float) -> None:
    """The report holds the objective at the returned weights, and bounds that are true."""
    report, w = svm.report_, data.flat(svm.weights_)
    slack = TINY * max(1.0, abs(best))
    assert report.primal == pytest.approx(data.objective(w), rel=1e-9, abs=1e-9)
    assert report.dual - slack <= best <= report.primal + slack
    assert report.gap == pytest.approx(report.primal - report.dual + report.rounding, rel=1e-14, abs=1e-12)
    assert report.rounding <= 1e-11 * max(1.0, abs(report.primal))
    assert (w[data.nonneg] >= 0).all()
    assert report.certified


def check_optimal(data: Data, svm: StructuredSVM, best: float, w_best: np.ndarray) -> None:
    check_certificate(data, svm, best)
    assert svm.report_.converged
    assert svm.report_.primal <= best + 1e-6 * max(best, 0.1)
    # the objective is 1-strongly convex in the scaled weights, so near-optimal ones are near the optimum
    distance = np.sqrt(np.sum(data.scale * (data.flat(svm.weights_) - w_best) ** 2))
    assert distance <= 2 * np.sqrt(2 * (svm.report_.gap + 1e-8 * max(best, 1.0))) + 1e-5


@each_case
def test_bcfw_reaches_the_optimum(case):
    data = case.make(0)
    best, w = data.optimum()
    check_optimal(data, fitted(data, tol=1e-7, max_passes=2000), best, w)


@pytest.mark.parametrize("case", some(CASES, 11), ids=str)
def test_bcfw_without_a_compiled_oracle_reaches_the_optimum(case, monkeypatch):
    monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    data = case.make(1)
    best, w = data.optimum()
    check_optimal(data, fitted(data, tol=1e-7, max_passes=2000), best, w)


@each_case
def test_certificates_of_unfinished_fits_are_true_bounds(case):
    data = case.make(2)
    best, _ = data.optimum()
    slack = TINY * max(1.0, best)
    for max_passes in (1, 3, 8):
        svm = fitted(data, tol=0.0, max_passes=max_passes)
        check_certificate(data, svm, best)
        for event in svm.report_.history:
            assert event.best_dual <= best + slack
            assert np.isnan(event.best_primal) or event.best_primal >= best - slack


def test_the_cases_use_every_exact_backend():
    used = {fitted(case.make(0), max_passes=1).plan_.backend for case in CASES}
    assert used == {"chain", "tree", "junction-tree", "brute-force"}
    assert any(case.make(0).problem().compiled() is not None for case in CASES)


VARIANTS = [
    {"sampling": "uniform"},
    {"max_cached_passes": 0},
    {"max_cached_passes": 1, "sampling": "uniform"},
    {"keep": 0},
    {"keep": 1000, "max_cached_passes": 100},
    {"averaging": True},
    {"averaging": True, "sampling": "uniform", "max_cached_passes": 0, "keep": 1},
]

#: They need some examples for each group.
PARALLEL = [{"parallel": 2}, {"parallel": 3, "sampling": "uniform", "keep": 0}]

MANY = Case(Word, n=13, C=3.0)


@crossed(options=VARIANTS, case=[MANY, Case(small.Ties), Case(small.Tree, ragged=(4,), n=4)])
def test_bcfw_variants_agree(options, case):
    check_variant(options, case)


@pytest.mark.parametrize("options", PARALLEL, ids=str)
def test_bcfw_in_groups_agrees(options):
    for case in (MANY, Case(small.Ties), Case(small.Tree, ragged=(4,), n=4)):
        check_variant(options, case)


def check_variant(options, case):
    data = case.make(5)
    best, w = data.optimum()
    check_optimal(data, fitted(data, tol=1e-7, max_passes=4000, trainer_options=options), best, w)


@pytest.mark.parametrize("compiled", [True, False])
def test_parallel_visits_do_not_depend_on_the_number_of_threads(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    data = Case(Word, n=16, C=3.0).make(5)
    joined = []
    visit = SideBySide.visit
    monkeypatch.setattr(SideBySide, "visit", lambda *given: joined.append(given[2]) or visit(*given))
    found = [fitted(data, tol=1e-3, n_threads=n, trainer_options={"parallel": 3}) for n in (1, 3)]
    assert joined
    for one in found:
        assert one.report_.certified
        assert np.array_equal(one.coef_, found[0].coef_)
    sparse, other = (fitted(data, l1=0.01, tol=1e-4, trainer_options={"parallel": n}).report_ for n in (1, 3))
    assert other.primal == pytest.approx(sparse.primal, rel=2e-4)
    with pytest.raises(OptionError, match="parallel= is not for risk='relaxed'"):
        fitted(data, risk="relaxed", trainer_options={"parallel": 2})


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_groups_go_as_far_as_the_parabola_rises(seed, n):
    random = np.random.default_rng(seed)
    moves = random.normal(size=(n, 3))
    curve, gains = moves @ moves.T, random.uniform(size=n)
    slope = gains + 0.5 * np.diag(curve)

    def value(share):
        return slope @ share - 0.5 * share @ curve @ share

    found = best_shares(slope, curve)
    bound = optimize.minimize(lambda t: -value(t), found, jac=lambda t: curve @ t - slope, bounds=[(0.0, 1.0)] * n)
    assert value(found) >= -bound.fun - 1e-5
    assert value(found) >= gains.max() - 1e-12


@pytest.mark.parametrize("compiled", [True, False])
def test_the_plane_cache_grows_when_an_example_needs_it(compiled, monkeypatch):
    monkeypatch.setattr(_planes, "FIRST_CAPACITY", 1)
    grown = []
    grow = _planes.DualState.grow
    monkeypatch.setattr(_planes.DualState, "grow", lambda self: grown.append(self.capacity) or grow(self))
    if not compiled:
        monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    data = Case(Word, n=3, ragged=(2, 4), C=2.0).make(0)
    best, w = data.optimum()
    check_optimal(data, fitted(data, tol=1e-7, max_passes=2000), best, w)
    assert grown[:2] == [1, 2]


def test_bcfw_starts_from_weights_it_is_given():
    data = Case(Word, n=6).make(3)
    best, _ = data.optimum()
    optimum = fitted(data, tol=1e-9, max_passes=3000).coef_
    first = next(BCFW(random_state=0).steps(data.problem(), StopRule(), start=optimum))
    cold = next(BCFW(random_state=0).steps(data.problem(), StopRule(max_passes=1)))
    assert len(data.X) * first.primal == pytest.approx(best, rel=1e-6)
    np.testing.assert_array_equal(first.w, optimum)
    assert cold.dual < first.dual <= first.primal


# -- hypothesis: random chains ---------------------------------------------------------------------------------

FORMS = {"full": FULL, "potts": POTTS, "symmetric": SYMMETRIC, "antisymmetric": ANTISYMMETRIC}


@st.composite
def chain_cases(draw) -> Data:
    """Data for a random chain model: states, features, form, bounds, loss, lengths (0 included)."""
    n_states, width = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    m = ModelBuilder("Random")
    T = m.dim("T")
    x, y = m.input("x", T, width), m.label("y", T, n_states)
    m.factor("emit", y, features=x, nonneg=draw(st.booleans()))
    form = FORMS[draw(st.sampled_from(sorted(FORMS) if n_states > 1 else ["full", "potts", "symmetric"]))]
    m.factor("trans", chain(y), form=form, features=x if draw(st.booleans()) else None, nonneg=draw(st.booleans()))
    prices = 1.0 - np.eye(n_states)
    losses = [Hamming(y), Hamming(y, normalize=True), Cost(y, prices * 3), ZeroOne(y), NoLoss()]
    m.loss(draw(st.sampled_from([*losses, Hamming(y) + 0.5 * Cost(y, prices, normalize=True)])))
    scales = st.sampled_from([0.3, 1.0, 4.0])
    case = Case(
        m.build(),
        n=draw(st.integers(1, 5)),
        C=draw(st.sampled_from([0.01, 0.3, 1.0, 30.0])),
        ragged=tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))),
        regularization={"emit": draw(scales), "trans": draw(scales)},
        weighted=draw(st.booleans()),
    )
    data = case.make(draw(st.integers(0, 10**6)))
    assume(any(len(y) for y in data.Y))  # empty examples only are refused
    return data


@settings(max_examples=15)
@given(chain_cases(), st.booleans())
def test_bcfw_on_random_chains(data, hide):
    best, w = data.optimum()
    with pytest.MonkeyPatch.context() as patch:
        if hide:
            patch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
        check_optimal(data, fitted(data, tol=1e-7, max_passes=5000), best, w)


# -- subgradient -------------------------------------------------------------------------------------------

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


def test_subgradient_stops_at_the_tolerance():
    data = Case(Word, n=6).make(1)
    best, _ = data.optimum()
    svm = fitted(data, trainer="subgradient", tol=0.05, max_passes=5000)
    assert svm.report_.converged
    assert svm.report_.primal <= best / 0.95 + TINY


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
    assert naive.naive_objective(data.planes, data.flat(last.weights_), 20.0) == pytest.approx(primals[-1])
