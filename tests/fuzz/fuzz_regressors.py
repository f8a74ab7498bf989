"""Structured regression: objective, optimum, predictions and errors for values of any size, in reach or not."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_optima import SURE
from random_models import draw

import naive
from optima import Reference
from small import Data
from ssvm_dsl import StructuredRegressor
from ssvm_dsl.errors import DataError, NoBackendError, OptionError
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir import Guarantee
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry

UNIT, SHORT, LIMIT = "fits", 1, 90.0

#: Backends, all of them for any graph or refusing.
BACKENDS = ("auto", "auto", "auto", "lp", "trws", "ilp", "brute-force", "combi", "icm")


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Fit values of labellings; compare objective, optimum and predictions with sums over all labellings."""
    data = draw(rng)
    if data.regularization and 0.0 in data.regularization.values():
        return 0
    values = values_of(data, rng)
    epsilon: Any = (0.0, 0.1, (0.5, 0.01), 1e3)[rng.integers(4)]
    power, trainer = float(rng.choice([1.0, 2.0])), str(rng.choice(["bundle", "bundle", "subgradient", "adam"]))
    settings = {"trainer": trainer, "backend": str(rng.choice(BACKENDS)), "random_state": 0, "power": power}
    settings |= {"max_passes": int(rng.choice([1, 5, 400])), "tol": float(rng.choice([1e-2, 1e-5])), **data.settings}
    made = StructuredRegressor(data.model, epsilon, **settings, max_seconds=5.0, guarantee="heuristic")
    refuses_nonsense(made, data, values)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.fit(data.X, values, data.Y, data.weight)
    except NoBackendError:
        return 0
    pair = epsilon if isinstance(epsilon, tuple) else (epsilon, epsilon)
    check(Reference(data, "regression", power, values, pair), made, values)
    predicts(made, data)
    return 1


def values_of(data: Data, rng: np.random.Generator) -> np.ndarray:
    """Return values of every size: scores of true weights, or nothing that a score could be."""
    n, w = len(data.X), rng.normal(size=len(data.scale))
    kind = rng.integers(6)
    if kind == 0:
        return np.full(n, float(rng.choice([0.0, 1.0, -3.0])))
    scores = np.array([float(np.max(-psi @ w)) for _, psi in data.planes])
    size = (1.0, 1.0, 1e6, 1e-6, 1e12)[kind - 1]
    return size * (scores + float(rng.choice([0.0, -5.0])))


def check(reference: Reference, made: StructuredRegressor, values: np.ndarray) -> None:
    """Compare report and weights with the own objective and the optimum."""
    data, report, w = reference.data, made.report_, reference.data.flat(made.weights_)
    at = f"{data.kind} {made.trainer}^{reference.power:g} {report.plan.backend} eps={made.epsilon} {values}: {report}"
    own = reference.objective(w)[0]
    guesses = [0.0 * w, w, 0.5 * w]
    low = -np.inf
    if np.abs(values).max() < 1e4:
        low, _, best = reference.optimum()
        guesses.append(best)
    high = min(reference.objective(guess)[0] for guess in guesses)
    risks = data.C * float(data.s @ np.abs(values) ** reference.power)
    slack = 1e-9 * (abs(own) + data.C * float(data.s.sum()) + risks)
    assert (w[data.nonneg] >= 0.0).all(), at
    assert report.dual <= high + slack, f"a false lower bound of {high!r}; {at}"
    assert not report.primal < own - slack, f"primal is below the objective {own!r}; {at}"
    exact = made.backend == "auto" and is_exact(report.plan)  # ``auto`` may take heuristics here
    if exact:
        assert abs(report.primal - own) <= slack, f"primal is not the objective {own!r} of the weights; {at}"
    if report.converged:
        assert own - high <= made.tol * abs(report.primal) + slack, f"not optimal: {own!r} > {high!r}; {at}"
        assert low <= own + 1e-6 * (own + slack), at
    if made.trainer in SURE and made.max_passes == 400 and exact and high > 1e-3 * risks > 0.0:
        assert report.converged or report.seconds > 4.0, at


def is_exact(plan: Plan) -> bool:
    """Whether all backends of a plan find best labellings."""
    specs = [registry().find(BackendSpec, one.backend) for one in plan.components or (plan,)]
    return all(one.caps.guarantee is Guarantee.EXACT for one in specs)


def predicts(made: StructuredRegressor, data: Data) -> None:
    """A prediction is the score of the best labelling, that of the labelling that is given with it."""
    w, found = data.flat(made.weights_), made.predict(data.X)
    labels = made.predict_labels(data.X)
    given = made.best_score(data.X, labels)
    assert found.shape == (len(data.X),)
    for i, (_, psi) in enumerate(data.planes):
        declaration, fitted = data.model.declaration, data.grounded.fitted
        truth = naive.joint_features(declaration, data.inputs[i], data.labels[i], fitted, data.shapes)
        scores = (truth - psi) @ w
        slack = 1e-9 * (1e-300 + float(np.abs(truth - psi).max(axis=0) @ np.abs(w)))
        exact = made.backend != "auto" or is_exact(made.plan_)
        if made.backend != "icm" and exact:
            assert abs(found[i] - scores.max()) <= slack or (made.backend in ("lp", "trws") and found[i] < scores.max())
        assert abs(found[i] - given[i]) <= slack, (found[i], given[i])
    if len(data.X) > 1:
        assert made.score(data.X, found) == 1.0


def refuses_nonsense(made: StructuredRegressor, data: Data, values: np.ndarray) -> None:
    """What is no value for each example is refused, and named."""
    n, broken = len(values), values.copy()
    broken[-1] = np.nan
    infinite = values.copy()
    infinite[0] = np.inf
    wrong = [broken, infinite, values[:-1], values[:, None], np.append(values, 1.0), values.astype(complex) + 1j,
             ["x"] * n, None, 3.0, dict(enumerate(values))]  # fmt: skip
    for one in wrong:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made.fit(data.X, one, data.Y)
        except (DataError, OptionError) as err:
            if "values" not in str(err):
                raise
        else:
            raise AssertionError(f"fit took {one!r} as {n} values")
    assert not hasattr(made, "coef_")
