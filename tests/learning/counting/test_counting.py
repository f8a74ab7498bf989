"""Training by counting against enumeration, finite differences and the solution of a linear system."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from ssvm_dsl import CountingPredictor, Dicycles, OutputSpace, Subsets
from ssvm_dsl.datasets import make_identity, make_tours
from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.learning.counting.kernels import Gram, InputKernel
from ssvm_dsl.learning.counting.methods.descent import MetaWindow, Window, meta_descent, stochastic
from ssvm_dsl.learning.counting.objective import CountingObjective, CountingRisk
from ssvm_dsl.testing import check_output_space

SEVERAL = {"subsets": (Subsets(3), (1, 2, 7)), "cycles": (Dicycles(4), (1, 3, 19))}


class Classes(OutputSpace):
    """One of k classes."""

    decoders: ClassVar = {"exact": 1.0}

    def __init__(self, k, size=None):
        self.n_features, self.claimed = k, k if size is None else size

    def __repr__(self):
        return f"Classes({self.n_features})"

    @property
    def size(self):
        return self.claimed

    @property
    def Phi(self):
        return np.ones(self.n_features)

    @property
    def C(self):
        return np.eye(self.n_features)

    def canonical(self, output):
        return int(output)

    def features(self, output):
        return np.eye(self.n_features)[output]

    def decode(self, scores, decoder="exact"):
        return scores.argmax(axis=1).tolist()

    def true_outputs(self, value):
        return list(value) if isinstance(value, list) else [value]

    def outputs(self):
        return iter(range(self.n_features))


@pytest.mark.parametrize("space", [*map(Subsets, range(1, 9)), *map(Dicycles, range(3, 7)), Classes(4)], ids=repr)
def test_closed_forms_equal_enumeration(space):
    check_output_space(space, n=3)


def test_the_kit_sees_wrong_spaces(monkeypatch):
    with pytest.raises(AssertionError, match="size is 5, 4 outputs"):
        check_output_space(Classes(4, size=5))
    monkeypatch.setattr(Classes, "decode", lambda self, scores, decoder: scores.argmin(axis=1).tolist())
    with pytest.raises(AssertionError, match=r"decoder exact: .* short of 100%"):
        check_output_space(Classes(4))
    monkeypatch.setattr(Dicycles, "C", 2.0 * Dicycles(5).C)
    with pytest.raises(AssertionError, match="C is off by up to"):
        check_output_space(Dicycles(5))


def test_huge_spaces_have_means():
    assert np.isclose(Subsets(3000).second_moment[0, 1], 0.25)
    space = Dicycles(30)
    assert np.isfinite(space.second_moment).all()
    assert 0 < space.second_moment[0, 0] < 2 / 29  # a cycle has 30 steps at most, and there are 435 pairs


def risk_of(space, truth, weight=None):
    features = np.array([space.features(z) for one in truth for z in one])
    weight = np.ones(len(truth)) if weight is None else weight
    return CountingRisk.of(space, features, np.cumsum([0, *map(len, truth)]), weight)


@pytest.mark.parametrize("case", SEVERAL)
def test_risks_are_means_over_pairs(case):
    """Of texp(score of a false output - score of a true one), for one, several and all but one true outputs."""
    space, counts = SEVERAL[case]
    outputs, rng = list(space.outputs()), np.random.default_rng(0)
    truth = [[outputs[k] for k in rng.choice(len(outputs), m, replace=False)] for m in counts]
    risk, policy = risk_of(space, truth), rng.normal(size=(3, space.n_features))
    for i, true in enumerate(truth):
        score = {z: float(space.features(z) @ policy[i]) for z in outputs}
        far = np.array([score[z] - score[y] for y in true for z in outputs if z not in true])
        assert np.isclose(risk.values(policy)[i], np.mean(1 + far + far**2 / 2))
        hessian = risk.hessians(0, 3)[i]
        assert np.allclose(hessian @ policy[i], risk.hessian_product(i, policy[i]))
        assert np.allclose(hessian @ policy[i] + risk.gradient(i, 0 * policy[i]), risk.gradient(i, policy[i]))
        assert np.isclose(np.trace(hessian), risk.curvatures()[i])
        assert np.allclose(risk.gradients(policy)[i], risk.gradient(i, policy[i]))


def test_the_papers_equation_with_coefficients_of_one():
    """Equation (3) for one true output, where the paper prints 2 Phi and 2 |Y|."""
    space, rng = Dicycles(4), np.random.default_rng(1)
    y, f = space.features((0, 2, 1)), rng.normal(size=6)
    paper = f @ space.C @ f / 2 + space.Phi @ f + space.size / 2 * (y @ f) ** 2 - space.size * (y @ f)
    paper -= (space.Phi @ f) * (y @ f)
    ours = risk_of(space, [[(0, 2, 1)]]).values(f[None])[0]
    assert np.isclose(ours * (space.size - 1), paper + space.size - 1)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
def test_gradients_are_finite_differences(kernel):
    rng, space = np.random.default_rng(2), Subsets(2)
    X, weight = rng.normal(size=(4, 3)), np.array([1.0, 0.0, 2.0, 0.5])
    risk = risk_of(space, [[(0, 1)], [(1, 1), (0, 0)], [(1, 0)], [(0, 0)]], weight)
    objective = CountingObjective(risk, Gram(InputKernel(kernel), X, keep=True), lam=0.3)
    alpha, step = rng.normal(size=(4, 2)), 1e-5
    found = objective.evaluate(alpha)
    for place in np.ndindex(4, 2):
        moved = np.zeros((4, 2))
        moved[place] = step
        slope = (objective.evaluate(alpha + moved).value - objective.evaluate(alpha - moved).value) / (2 * step)
        assert np.isclose(slope, found.gradient[place], rtol=1e-6, atol=1e-6)


def own_kernel(A, B):
    return (A @ B.T + 1.0) ** 2


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial", own_kernel])
def test_conjugate_gradient_reaches_the_closed_form(kernel):
    X, Y = make_identity(40, 3, random_state=1)
    several = [[y, 1 - y] if i % 7 == 0 else y for i, y in enumerate(Y)]
    weight = np.linspace(0.0, 2.0, 40)
    best = CountingPredictor(Subsets(3), kernel, solver="closed-form", C=0.5).fit(X, several, weight)
    assert best.report_.relative_gap < 1e-10
    assert best.report_.n_support <= 8
    found = CountingPredictor(Subsets(3), kernel, C=0.5, tol=1e-6).fit(X, several, weight)
    assert found.report_.reason == "tolerance"
    assert np.isclose(found.report_.objective, best.report_.objective, rtol=1e-6)
    assert np.allclose(found.decision_function(X), best.decision_function(X), atol=1e-2)
    other = CountingPredictor(Subsets(3), kernel, lam=1 / (0.5 * 40), tol=1e-6).fit(X, several, weight)
    assert np.isclose(40 * 0.5 * other.report_.objective, best.report_.objective, rtol=1e-6)


def test_bounds_hold():
    """The optimum lies between the objective and the bound, whichever of the certificates gives it."""
    X, Y, _ = make_tours(30, 4, 5)
    asked = CountingPredictor(Dicycles(5), "linear", lam=0.05, solver="closed-form")
    best = asked.fit(X, Y).report_.objective
    for solver, certificate in (("ncg", "gradient"), ("sgd", "gradient"), ("sgd", "auto")):
        asked.set_params(solver=solver, certificate=certificate, tol=0.05)
        report = asked.fit(X, Y).report_
        assert report.lower_bound <= best + 1e-12 <= report.objective + 2e-12
        assert report.gradient_norm > 0
    assert np.isclose(report.lower_bound, best)
    assert np.isnan(asked.set_params(certificate="none").fit(X, Y).report_.gap)


def test_stochastic_descent_approaches_the_optimum():
    X, Y = make_identity(400)
    asked = CountingPredictor(Subsets(5), lam=0.1, solver="sgd", step=4.0)
    gaps = [asked.set_params(truncation=tau).fit(X, Y).report_.relative_gap for tau in (0.05, 0.5, None)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[1] < 0.02
    assert gaps[2] < 0.01
    assert asked.report_.n_support == 400
    assert asked.set_params(truncation=100).fit(X, Y).report_.n_support == 100
    assert asked.score(X, Y) == 1.0
    passes = [asked.set_params(truncation=None, n_passes=k).fit(X, Y).report_.relative_gap for k in (1, 4)]
    assert passes[1] < passes[0]
    with pytest.raises(TrainingError, match="steps were too long"):
        asked.set_params(delay=0, lam=1e-9, step=1e6).fit(X[:50], Y[:50])


def meta_problem():
    """Weighted examples, some of several true outputs, and the schedule of a descent through them, twice."""
    X, Y = make_identity(30, 3, random_state=4)
    X = X + 0.1 * np.random.default_rng(4).normal(size=X.shape)
    truth = [[tuple(y), tuple(1 - y)] if i % 5 == 0 else [tuple(y)] for i, y in enumerate(Y)]
    risk = risk_of(Subsets(3), truth, np.linspace(0.5, 1.5, 30))
    order = np.random.default_rng(5).permutation(30)
    return X, risk, {"delay": 20.0, "tau": 30, "order": order, "n_steps": 60, "max_seconds": np.inf}


def test_meta_descent_is_the_papers():
    """With explicit matrices for h and v, and the linear kernel: every step, and every change of p."""
    X, risk, rule = meta_problem()
    lam, mu, fade, longest, p = 0.3, 2.0, 0.9, 0.4, 3.0
    h, v, path = np.zeros((3, 3)), np.zeros((3, 3)), []
    for t, i in enumerate(np.tile(rule["order"], 2)):
        x = X[i]
        g = lam * h + risk.weight[i] * np.outer(x, risk.gradient(i, h.T @ x))
        Hv = lam * v + risk.weight[i] * np.outer(x, risk.hessians(i, i + 1)[0] @ (v.T @ x))
        p *= np.clip(1.0 - mu * np.sum(g * v), 0.5, 2.0)
        eta = min(p / (lam * (t + 1 + rule["delay"])), longest)
        p = eta * lam * (t + 1 + rule["delay"])
        h, v = h - eta * g, fade * v - eta * (g + fade * Hv)
        path.append(p)
    assert np.diff(path).min() < -0.1 < 0.1 < np.diff(path).max()  # it is adapted, both ways
    kernel = InputKernel.of("linear", "scale", 3, 1.0, X)
    start = MetaWindow.begin(3, 3.0)
    found = meta_descent(kernel, X, risk, lam, start, longest=longest, meta_step=mu, fade=fade, **rule)
    assert np.allclose(X[found.ids].T @ found.coef, h)
    assert np.allclose(X[found.ids].T @ found.trace, v)
    assert found.factor == pytest.approx(p)


def test_the_trace_is_the_derivative_by_the_step():
    X, risk, rule = meta_problem()
    kernel, lam, small = InputKernel.of("rbf", "scale", 3, 1.0, X), 0.3, 1e-5
    rule["n_steps"] = 30
    start = MetaWindow.begin(3, 2.0)
    found = meta_descent(kernel, X, risk, lam, start, longest=np.inf, meta_step=0.0, fade=1.0, **rule)
    empty = Window(np.zeros(0, np.int64), np.zeros((0, 3)), 0)
    ends = [stochastic(kernel, X, risk, lam, empty, step=2.0 * np.exp(e), **rule).coef for e in (small, -small)]
    assert np.allclose(found.trace, (ends[0] - ends[1]) / (2 * small), atol=1e-6)


def test_meta_descent_finds_the_optimum_from_any_step():
    X, Y = make_identity(100, 3)
    best = CountingPredictor(Subsets(3), lam=0.1, solver="closed-form").fit(X, Y)
    asked = CountingPredictor(Subsets(3), lam=0.1, solver="sgd", n_passes=40, random_state=0)
    for step in (0.25, 16.0):
        plain, adapted = (clone(asked).set_params(step=step, step_rule=rule).fit(X, Y) for rule in ("decay", "smd"))
        assert adapted.report_.relative_gap < 1e-4
        assert adapted.report_.relative_gap < 0.1 * plain.report_.relative_gap
        assert adapted.report_.objective == pytest.approx(best.report_.objective, rel=1e-4)
        assert np.allclose(adapted.decision_function(X), best.decision_function(X), atol=0.02)


def test_limits_are_kept():
    X, Y = make_identity(50)
    for options, reason in (
        ({"solver": "ncg", "tol": 0.0, "max_iter": 1}, "iterations"),
        ({"solver": "ncg", "tol": 0.0, "max_seconds": 1e-9}, "seconds"),
        ({"solver": "sgd", "max_seconds": 1e-9}, "seconds"), ({"solver": "sgd"}, "passes"),
        ({"solver": "sgd", "step_rule": "smd", "max_seconds": 1e-9}, "seconds"),
    ):  # fmt: skip
        report = CountingPredictor(Subsets(5), lam=1e-3, **options).fit(X, Y).report_
        assert report.reason == reason
        assert report.lower_bound <= report.objective
        assert str(report).count("\n") == 6
        assert report.summary()["solver"] == options["solver"]


def test_one_step_is_the_papers():
    """A new coefficient -eta gradient, the old ones times 1 - lam eta, with eta = p / (lam t)."""
    X, Y = make_identity(3, 2, random_state=3)
    lam, risk = 2.0, risk_of(Subsets(2), [[tuple(y)] for y in Y])
    kernel = InputKernel.of("rbf", "scale", 3, 1.0, X)
    alpha = np.zeros((3, 2))
    for t in range(3):
        eta = 0.5 / (lam * (t + 1))
        gradient = risk.gradient(t, kernel(X[t : t + 1], X)[0] @ alpha)
        alpha *= 1 - lam * eta
        alpha[t] = -eta * gradient
    asked = CountingPredictor(Subsets(2), lam=lam, solver="sgd", step=0.5, delay=0).fit(X, Y)
    assert np.allclose(asked.dual_coef_, alpha)
    assert np.allclose(asked.set_params(truncation=2).fit(X, Y).dual_coef_[-1:], alpha[-1:], rtol=0.5)
    assert asked.support_.tolist() == [1, 2]


@pytest.mark.sensitive
def test_tours_are_learnt():
    X, Y, policies = make_tours(150, 4, 6)
    found = CountingPredictor(Dicycles(6), "linear", lam=1e-3).fit(X[:100], Y[:100])
    learnt = found.decision_function(X[100:])
    cosine = (learnt * policies[100:]).sum(1) / np.linalg.norm(learnt, axis=1) / np.linalg.norm(policies[100:], axis=1)
    assert cosine.mean() > 0.7
    near, best = (clone(found).set_params(decoder=name).fit(X, Y).predict(X[:9]) for name in Dicycles.decoders)
    space, scores = Dicycles(6), found.fit(X, Y).decision_function(X[:9])
    gains = [[float(space.features(z) @ f) for z, f in zip(one, scores, strict=True)] for one in (near, best)]
    assert all(0 <= a <= b + 1e-9 for a, b in zip(*gains, strict=True))


def test_it_is_a_scikit_learn_estimator():
    X, Y = make_identity(60, 3)
    found = GridSearchCV(CountingPredictor(Subsets(3)), {"C": [1e-4, 10.0]}, cv=2).fit(X, Y)
    assert found.best_params_ == {"C": 10.0}
    assert found.best_score_ == 1.0
    with pytest.raises(NotFittedError):
        CountingPredictor(Subsets(3)).predict(X)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"space": 5}, "Subsets"), ({"kernel": "sigmoid"}, "polynomial"), ({"gamma": 0}, "positive"),
        ({"solver": "adam"}, "'ncg', 'sgd'"), ({"decoder": "greedy"}, "exact"), ({"truncation": 0}, "positive"),
        ({"delay": -1}, "auto"), ({"certificate": "best"}, "gradient"), ({"lam": 1.0, "C": 2.0}, "same thing"),
        ({"kernel": lambda A, B: A}, "shape"), ({"kernel": lambda A, B: -A @ B.T}, "positive definite"),
        ({"kernel": lambda A, B: A @ B.T + A[:, :1]}, "symmetric"), ({"truncation": 1.5}, "share"),
        ({"step": True}, "step"), ({"tol": -1}, "tol"), ({"step_rule": "adam"}, "'smd'"),
        ({"meta_step": 0}, "positive"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(change, word):
    X, Y = make_identity(5, 3)
    with pytest.raises(OptionError, match=word):
        CountingPredictor(**({"space": Subsets(3)} | change)).fit(X, Y)


def test_bad_data_are_refused():
    X, Y = make_identity(5, 3)
    asked = CountingPredictor(Subsets(3))
    every = list(Subsets(3).outputs())
    for given, where in (
        ((X, Y[:4]), "Y: expected 5"), ((X, [*Y[:4], [1, 2, 3]]), "Y, example 4"),
        ((X, [[Y[0], Y[0]], *Y[1:]]), "twice"), ((X, [*Y[:4], 1]), "example 4: expected an output .* found 1"),
        ((X, [*Y[:4], []]), "example 4"),
        ((X, [*Y[:4], every]), "example 4.*at least one output that is false"),
        ((X[0], Y), "X: expected a table"), ((np.where(X > 5, X, np.nan), Y), "X, example 0"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=where):
            asked.fit(*given)
    with pytest.raises(DataError, match="3 columns"):
        asked.fit(X, Y).predict(X[:, :2])
    with pytest.raises(DataError, match=r"example 0.*two or more different nodes below 4"):
        CountingPredictor(Dicycles(4)).fit(X, [(0, 4), *[(0, 1)] * 4])
    with pytest.raises(OptionError, match="n_nodes"):
        Dicycles(2)


def test_a_norm_that_rounding_hides_is_told():
    X, Y = [[-6e3]], [(1, 3, 2)]
    made = CountingPredictor(Dicycles(4), kernel="polynomial", gamma=1.0, degree=2, lam=1e-4, solver="closed-form")
    with pytest.raises(TrainingError, match=r"lam = 0.0001 is lost in rounding next to kernels as large as .*scale"):
        made.fit(X, Y)
    report = made.set_params(solver="ncg", max_iter=3).fit(X, Y).report_
    assert report.certificate == "gradient"
    assert report.lower_bound <= report.objective


@pytest.mark.parametrize("kernel", ["linear", "polynomial"])
@pytest.mark.parametrize("size", [1e80, 1e200])
def test_kernels_too_large_for_numbers_are_refused(kernel, size):
    X, Y = np.full((3, 1), size), [[1, 0]] * 3
    with pytest.raises(DataError, match=f"X: expected inputs whose {kernel} kernel is at most"):
        CountingPredictor(Subsets(2), kernel=kernel, gamma=1.0).fit(X, Y)
