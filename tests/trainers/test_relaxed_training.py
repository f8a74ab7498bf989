"""Training with relaxed and other inexact oracles: the relaxed optimum against one joint QP; honest certificates."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import islice

import numpy as np
import pytest

from combinations import ALL, crossed, some
from model_table import complete_labels, tagger
from optima import Reference
from small import plain
from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, grid, ground
from ssvm_dsl.errors import NoBackendError, OptionError, TrainingError
from ssvm_dsl.ir import Question
from ssvm_dsl.ir.need import Limits, Task
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api import StopRule, score_marginals
from ssvm_dsl.scores.marginals import with_margins
from ssvm_dsl.testing import open_session, solve, training_problem
from ssvm_trainers.planes.bcfw import BCFW

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


Binary = complete_labels(4, 2, 2)
Ternary = complete_labels(4, 2, 3)
Line = tagger(2, 2)


def noise(n_states, n=10, seed=1):
    """Labels that have nothing to do with the features: all constraints pull, and relaxations are loose."""
    rng = np.random.default_rng(seed)
    return list(rng.normal(size=(n, 2))), list(rng.integers(n_states, size=(n, 4)))


#: Weight of the risks: large enough that relaxations are loose.
C = 4.0

CASES = {"binary": (Binary, 2), "ternary": (Ternary, 3)}

#: Blocks of ``bcfw``: its oracle is asked, or not.
EXAMPLES, FACTORS = {"blocks": "examples"}, {"blocks": "factors"}


def reference(model, X, Y, C):
    """The optimum of ``1/2 |w|^2 + C sum_i relaxed risk_i`` as one QP over weights and messages (equation 9)."""
    return Reference(plain(model, X, Y, C), "relaxed").optimum()[1]


@cache
def case_of(name):
    """(model, X, Y, optimum of the relaxed objective)"""
    model, n_states = CASES[name]
    X, Y = noise(n_states)
    return model, X, Y, reference(model, X, Y, C)


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return case_of(request.param)


def fit(case, trainer="bcfw", backend="lp", risk="relaxed", **options):
    model, X, Y = case[:3]
    return StructuredSVM(model, C=C, risk=risk, trainer=trainer, backend=backend, random_state=0, **options).fit(X, Y)


#: (trainer, backend, options) that reach the optimum.
SURE = [
    ("bcfw", "lp", EXAMPLES),
    ("bcfw", "ad3", EXAMPLES),
    ("bcfw", "ad3", FACTORS),
    ("bundle", "lp", {}),
    ("n-slack", "lp", {}),
    ("n-slack", "ad3", {}),
    ("one-slack", "lp", {}),
    ("lp-dual-qp", "lp", {}),
    ("extragradient", "lp", {}),
]


#: All of them with two states; with three, which take twice as long, one for each kind of inner problem.
EACH = [*((one, "binary") for one in SURE), *((SURE[k], "ternary") for k in (range(9) if ALL else (0, 2, 7)))]


@pytest.mark.parametrize(("method", "name"), EACH, ids=str)
def test_relaxed_optimum_is_that_of_the_joint_qp(method, name):
    trainer, backend, options = method
    report = fit(case_of(name), trainer, backend, tol=2e-4, max_passes=1500, trainer_options=options).report_
    optimum = case_of(name)[3]
    assert report.converged
    assert report.certified
    assert report.dual - 1e-6 * optimum <= optimum <= report.primal + report.inference_gap + 1e-6 * optimum
    assert report.primal == pytest.approx(optimum, rel=3e-4)


def test_minimum_cuts_solve_the_relaxation_of_binary_models():
    case = (Binary, *noise(2))
    report = fit(case, backend="auto", tol=1e-5, max_passes=1000, trainer_options=EXAMPLES).report_
    assert report.plan.backend == "qpbo"
    assert report.primal == pytest.approx(reference(Binary, *noise(2), C), rel=2e-5)


#: (trainer, options) that have bounds from the first pass on.
EARLY = [
    ("bcfw", EXAMPLES),
    ("bcfw", FACTORS),
    ("bundle", {}),
    ("n-slack", {}),
    ("one-slack", {}),
    ("subgradient", {"evaluate_every": 1}),
]


@crossed(2, method=EARLY, name=CASES, passes=[1, 3, 8])
def test_certificates_are_true_bounds_wherever_training_ends(method, name, passes):
    case, (trainer, options) = case_of(name), method
    report = fit(case, trainer, tol=1e-9, max_passes=passes, trainer_options=options).report_
    assert report.dual <= case[3] * (1 + 1e-6)
    assert report.primal + max(report.inference_gap, 0.0) >= case[3] * (1 - 1e-6)
    assert report.gap >= report.primal - case[3] - 1e-6


def test_inaccurate_fractional_solutions_make_true_bounds(case):
    inaccurate = {"backend_options": {"max_iterations": 15}, "trainer_options": EXAMPLES}
    report = fit(case, "bcfw", "ad3", tol=1e-6, max_passes=15, **inaccurate).report_
    assert report.dual <= case[3] * (1 + 1e-9)
    assert report.primal + report.inference_gap >= case[3] * (1 - 1e-6)
    assert report.inference_gap > 0.0


@pytest.fixture(scope="module")
def exact(case):
    """The report of a fit with exact oracles."""
    return fit(case, backend="brute-force", risk="margin", tol=1e-3, max_passes=1000).report_


@pytest.fixture(scope="module")
def bounded(case):
    """The report of a fit with bounds in place of optima."""
    return fit(case, backend="trws", risk="margin", tol=1e-4, max_passes=40).report_


def test_the_relaxed_objective_is_above_the_exact_one(case, exact):
    assert exact.tightness == 1.0
    assert exact.primal < case[3] * (1 - 5e-3)  # these relaxations are loose
    relaxed = fit(case, tol=1e-3, max_passes=1000)
    assert relaxed.report_.primal >= exact.dual


def problem_of(model, X, Y, risk, backend):
    return training_problem(model, X, Y, risk=risk, backend=backend)


def test_tightness_is_the_share_of_relaxations_without_loss(case):
    model, n_states = case[0], 2 if case[0] is Binary else 3
    X, Y = noise(n_states, n=60)
    relaxed = problem_of(model, X, Y, "relaxed", "lp")
    exact = problem_of(model, X, Y, "margin", "brute-force")
    bounded = problem_of(model, X, Y, "margin", "trws")
    w = 2.0 * np.random.default_rng(1).normal(size=relaxed.dim)
    w[4 * n_states * 2 :] *= 0.1
    w[4 * n_states * 2 :] -= np.tile(np.eye(n_states).ravel(), 6)  # neighbours want to differ: frustrated
    risk = exact.oracle(w).value
    planes = relaxed.oracle(w)
    np.testing.assert_array_less(risk, planes.value + 1e-9)
    tight = planes.value - risk <= 1e-9
    assert 0.0 < tight.mean() < 1.0
    assert relaxed.tightness(w) == tight.mean()
    assert exact.tightness(w) == 1.0
    assert bounded.tightness(w) == pytest.approx(tight.mean(), abs=0.05)


def test_the_report_shows_tightness(case):
    report = fit(case, backend="trws", risk="margin", max_passes=3).report_
    assert f"{report.tightness:.1%} of the answers are proved best" in str(report)


@pytest.mark.parametrize("case", some(list(CASES), 1), indirect=True)
def test_cycle_clusters_certify_what_message_passing_leaves_open(case, bounded, exact):
    """Training by margins with bounds beyond the local polytope ends at the optimum, and proves more of it."""
    report = fit(case, backend="cycles", risk="margin", tol=1e-3, max_passes=100).report_
    assert report.dual <= exact.primal <= report.primal * (1 + 1e-9)
    assert report.estimate == pytest.approx(exact.primal, rel=2e-3)
    assert report.relative_gap < 0.2 * bounded.relative_gap


def test_certificates_of_tightened_bounds_hold_and_are_the_smallest(case, exact):
    """Against training by brute force; all bounds are those of the margin risk, at every early end."""
    gaps = {}
    for backend in ("cycles", "trws", "lp"):
        for passes in (2, 8):
            report = fit(case, backend=backend, risk="margin", tol=1e-3, max_passes=passes).report_
            assert report.dual <= exact.primal * (1 + 1e-9)
            assert report.primal >= exact.dual * (1 - 1e-9)
            assert report.eta <= 1.0
        gaps[backend] = report.inference_gap  # what no further pass closes
    assert gaps["cycles"] < 0.5 * min(gaps["trws"], gaps["lp"])  # .2 of it, at weights that differ from fit to fit


def test_eta_is_below_the_ratio_of_the_risks_found_to_the_true_ones(case, bounded, exact):
    """The definition of an eta-max, against the risks by brute force at the same weights."""
    svm = fit(case, backend="trws", risk="margin", max_passes=3)
    report, model = svm.report_, case[0]
    risk = problem_of(model, *case[1:3], "margin", "brute-force").oracle(svm.coef_).value.sum()
    found = (report.estimate - 0.5 * svm.coef_ @ svm.coef_) / svm.C
    assert 0.0 < report.eta < 1.0
    assert report.eta * risk <= found * (1 + 1e-9) <= risk * (1 + 2e-9)
    assert f"eta at least {report.eta:.4g}" in str(report)
    assert exact.eta == 1.0


class Associative(Model):
    H, W = Dim(2), Dim(3)
    x = Input(H, W, 2)
    y = Label(H, W, 3)
    unary = Factor(y, features=x)
    pair = Factor(grid(y), form=POTTS, nonneg=True)
    loss = Hamming(y)


@pytest.mark.parametrize("backend", ["alpha-expansion", "alpha-beta-swap"])
def test_moves_by_cuts_have_an_eta_where_a_bound_is_asked_for(backend):
    rng = np.random.default_rng(3)
    X, Y = [*rng.normal(size=(4, 2, 3, 2))], [*rng.integers(3, size=(4, 2, 3))]
    fits = {"trainer": "subgradient", "backend": backend, "guarantee": "heuristic", "max_passes": 4, "random_state": 0}
    fits |= {"trainer_options": {"best_iterate": False}}
    plain, bounded = (
        StructuredSVM(Associative, C=0.1, backend_options={"bound": bound}, **fits).fit(X, Y)
        for bound in ("none", "dual")
    )
    assert np.isnan(plain.report_.eta)
    report, w = bounded.report_, bounded.coef_
    assert w.any()
    assert w == pytest.approx(plain.coef_)
    assert report.certified
    assert 0.5 < report.eta <= 1.0
    risk = problem_of(Associative, X, Y, "margin", "brute-force").oracle(w).value.sum()
    assert report.eta * risk <= (report.estimate - 0.5 * w @ w) / 0.1 * (1 + 1e-9)
    assert report.primal >= 0.5 * w @ w + 0.1 * risk * (1 - 1e-9)


def test_nothing_is_lost_on_chains():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(t, 2)) for t in (2, 3, 5, 4, 3)]
    Y = [rng.integers(2, size=len(x)) for x in X]
    relaxed = fit((Line, X, Y), tol=1e-5, max_passes=1000).report_
    exact = fit((Line, X, Y), backend="chain", risk="margin", tol=1e-5, max_passes=1000).report_
    assert relaxed.primal == pytest.approx(exact.primal, rel=3e-5)
    assert relaxed.tightness == 1.0


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_a_heuristic_certifies_nothing(case, trainer):
    report = fit(case, trainer, "icm", "margin", tol=1e-3, max_passes=5).report_
    assert np.isnan(report.gap)
    assert np.isnan(report.tightness)
    assert np.isnan(report.eta)
    assert not report.certified
    assert not report.converged
    assert "heuristic" in str(report)


def test_the_report_tells_loose_inference_from_an_unfinished_trainer(case, bounded):
    assert not bounded.converged
    assert bounded.inference_gap > 0.9 * bounded.gap
    assert bounded.tightness < 1.0
    assert "inference is loose" in str(bounded)
    short = fit(case, "subgradient", "brute-force", "margin", tol=1e-4, max_passes=3).report_
    assert short.inference_gap == pytest.approx(0.0, abs=1e-9)
    assert "inference is loose" not in str(short)
    assert "not converged" in str(short)


def test_dual_losses_reach_the_relaxed_optimum(case):
    options = {"averaging": "weighted", "evaluate_every": 150}
    report = fit(case, "dlpw", "msd", tol=1e-3, max_passes=301, trainer_options=options).report_
    assert report.primal == pytest.approx(case[3], rel=0.05)


@pytest.mark.parametrize("backend", ["msd", "mplp", "tbcd", "trws"])
def test_dual_losses_certify_truly(case, backend):
    report = fit(case, "dlpw", backend, tol=1e-3, max_passes=12, trainer_options={"evaluate_every": 4}).report_
    assert report.certified
    assert report.dual <= case[3] <= report.primal * (1 + 1e-9)  # what is reported bounds the objective from above


def test_refusals(case):
    with pytest.raises(NoBackendError, match="does not answer relaxed"):
        fit(case, backend="brute-force")
    with pytest.raises(TrainingError, match=r"does not minimise risk 'relaxed'; these do: .*bcfw.*dlpw"):
        fit(case, "eg")

    class AllOrNothing(Binary):
        from ssvm_dsl import ZeroOne

        loss = ZeroOne(Binary.y)

    with pytest.raises(OptionError, match="adds up over variables"):
        fit((AllOrNothing, *case[1:2], *noise(2)[1:]))


def random_scores(program, seed):
    rng = np.random.default_rng(seed)
    theta = Theta.zeros(program)
    theta.node[:], theta.pool[:] = rng.normal(size=theta.node.shape), 2.0 * rng.normal(size=theta.pool.shape)
    return theta


def test_half_integral_solutions_are_optimal():
    program = ground(Binary, *noise(2, n=40)).program
    theta = random_scores(program, 5)
    theta.node[:] *= 3.0
    theta.pool[:] *= np.tile([-1.0, 1.0, 1.0, -1.0], theta.pool.size // 4) * np.sign(theta.pool)  # mostly frustrated
    cut, lp = (solve(program, theta, backend, Task.RELAXED) for backend in ("qpbo", "lp"))
    np.testing.assert_allclose(cut.bound, lp.bound, rtol=1e-7)
    np.testing.assert_allclose(score_marginals(program, theta, cut.marginals), lp.bound, rtol=1e-7)
    node, group = cut.marginals.node.reshape(-1, 2), program.groups[0]
    tables = cut.marginals.tables[0].reshape(-1, 2, 2)
    assert set(np.unique(node)) == {0.0, 0.5, 1.0}
    np.testing.assert_array_equal(tables.sum(axis=2), node[group.scope[:, 0]])
    np.testing.assert_array_equal(tables.sum(axis=1), node[group.scope[:, 1]])


@pytest.mark.parametrize("cards", [(2, 3), (3, 2, 4)])
def test_rounding_to_given_margins(cards):
    rng = np.random.default_rng(3)
    true = rng.dirichlet(np.full(int(np.prod(cards)), 0.3), size=50).reshape(50, *cards)
    axes = range(len(cards))
    margins = [true.sum(axis=tuple(a + 1 for a in axes if a != k)) for k in axes]
    given = true * (1.0 + 0.1 * rng.normal(size=true.shape))
    rounded = with_margins(given, margins)
    assert rounded.min() >= 0.0
    for k in axes:
        np.testing.assert_allclose(rounded.sum(axis=tuple(a + 1 for a in axes if a != k)), margins[k], atol=1e-15)
    off = np.abs(given - true).sum()
    assert np.abs(rounded - true).sum() <= 4.0 * len(cards) * off
    assert with_margins(true, margins) is not None
    np.testing.assert_allclose(with_margins(true, margins), true, atol=1e-15)


def test_no_warning_of_nan_or_overflow(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        fit(case, max_passes=3)


@pytest.mark.parametrize("trainer", ["bcfw", "one-slack", "smo"])
def test_heuristics_end_where_the_labellings_found_leave_nothing_to_learn(case, trainer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = fit(case, trainer, "icm", "margin", tol=1e-2, max_passes=300).report_
    assert (report.reason, report.converged, report.certified) == ("estimate", False, False)
    assert report.estimate - report.dual <= 1e-2 * report.estimate
    assert "better labellings may exist" in " ".join(str(report).split())


def test_reported_objectives_are_those_of_the_weights_where_only_some_have_bounds():
    """Free weights of maps without bounds follow their weights: averages and certificates are made of them."""

    Bounded = tagger(2, 2, nonneg=True)

    for seed, lam, tol in ((0, 0.3, 1e-4), (1, 0.1, 1e-2), (2, 0.02, 1e-2)):
        rng = np.random.default_rng(seed)
        X = [rng.normal(size=(n, 2)) for n in (1, 2, 3, 2, 3, 1, 2, 1, 3)]
        Y = [(x.sum(axis=1) + 0.7 * rng.normal(size=len(x)) > 0.0).astype(int) for x in X]
        problem = training_problem(Bounded, X, Y, trainer="bcfw", risk="relaxed", lam=lam)
        iterates = islice(BCFW(random_state=0).steps(problem, StopRule(tol, 60)), 30)
        evaluated = [(one.w.copy(), one.primal, one.upper) for one in iterates if np.isfinite(one.primal)]
        assert len(evaluated) >= 10
        for w, primal, upper in evaluated:
            np.testing.assert_allclose((primal, upper), problem.value(w), rtol=1e-9)


def test_bounds_of_a_relaxation_certify_the_exact_objective(exact, bounded):
    assert bounded.dual <= exact.primal * (1 + 1e-9)
    assert bounded.primal + bounded.inference_gap >= exact.dual


@pytest.mark.parametrize("backend", ["msd", "mplp", "tbcd", "trws"])
def test_the_slope_of_a_dual_bound(backend):
    program = ground(Ternary, *noise(3, n=7)).program
    session = open_session(program, backend)
    theta, ids = random_scores(program, 1), np.array([4, 1, 6])
    found = session.solve(Question(theta, examples=ids, limits=Limits(iterations=3)))
    slope = session.slope(Question(theta, ids, warm=found.warm))
    at_theta = score_marginals(program, theta, slope, ids)
    for seed in range(20):
        other = random_scores(program, 10 + seed)
        plane = found.bound + score_marginals(program, other, slope, ids) - at_theta
        bound = bounds_of(session, other, ids, found.warm)
        assert (bound >= plane - 1e-9).all()
        near = theta.copy()
        near.node[:] += 1e-9 * other.node
        near.pool[:] += 1e-9 * other.pool
        rise = (bounds_of(session, near, ids, found.warm) - bounds_of(session, theta, ids, found.warm)) / 1e-9
        assert (rise >= score_marginals(program, other, slope, ids) - 1e-4).all()
    np.testing.assert_allclose(bounds_of(session, theta, ids, found.warm), found.bound, rtol=1e-12)


def bounds_of(session, theta, ids, messages):
    """The dual bound of given messages for other scores, added up without the kernels."""
    graph, out = session.inner.graph, []
    for i, example in enumerate(ids):
        moved = messages.values[messages.ptr[i] : messages.ptr[i + 1]]
        first = graph.message_ptr[graph.slot_ptr[graph.factor_ptr[example]]]
        node, total = theta.node.copy(), 0.0
        for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
            table = theta.pool[graph.table_ptr[f] :][: graph.table_size[f]].reshape(3, 3).copy()
            for axis, k in enumerate(range(graph.slot_ptr[f], graph.slot_ptr[f + 1])):
                message = moved[graph.message_ptr[k] - first :][:3]
                node[graph.state_ptr[graph.scope[k]] :][:3] += message
                table -= message[:, None] if axis == 0 else message[None, :]
            total += table.max()
        states = graph.state_ptr[graph.var_ptr[example : example + 2]]
        out.append(total + node[states[0] : states[1]].reshape(-1, 3).max(axis=1).sum())
    return np.array(out)
