"""Training by counting: objectives against sums over all pairs of outputs, bounds of all solvers, decoders."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import mutations
import numpy as np

import archives
from ssvm_dsl import CountingPredictor, Dicycles, OutputSpace, Subsets
from ssvm_dsl.errors import DataError, FileFormatError, OptionError, TrainingError

UNIT, SHORT, LIMIT = "fits", 2, 60.0

SOLVERS: tuple[dict[str, Any], ...] = (
    {"solver": "closed-form"},
    {"solver": "ncg", "max_iter": 300},
    {"solver": "ncg", "max_iter": 3, "certificate": "gradient"},
    {"solver": "sgd", "step": 2.0},
    {"solver": "sgd", "truncation": 0.5, "n_passes": 3, "random_state": 0, "certificate": "gradient"},
    {"solver": "sgd", "delay": 0, "step": 0.5},
    {"solver": "sgd", "step_rule": "smd", "step": 0.5, "truncation": 0.5, "n_passes": 2},
)


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Fit one data set by every solver; no objective is below the bound of any of them."""
    space: OutputSpace = (Subsets, Dicycles)[rng.integers(2)](int(rng.integers(3, 5)))
    outputs, n = list(space.outputs()), int(rng.integers(1, 12))
    X = rng.normal(size=(n, int(rng.integers(1, 4)))) * 10.0 ** rng.integers(-5, 5)
    X = X[rng.integers(n, size=n)] if rng.random() < 0.3 else X
    truth = [draw_outputs(outputs, rng) for _ in range(n)]
    weight = rng.choice([0.0, 1.0, 2.5], size=n) + (0.0 if rng.random() < 0.5 else 1e-3)
    weight[0] += 1.0
    settings = {"kernel": str(rng.choice(["linear", "rbf", "polynomial"])), "degree": 2}
    settings["lam"] = float(10.0 ** rng.integers(-4, 3))
    found = []
    for options in SOLVERS:
        made = CountingPredictor(space, **settings, **options)
        try:
            made.fit(X, truth, weight)
        except TrainingError as err:
            if "lost in rounding" in str(err):
                return 0
            if options.get("delay") != 0:
                raise
            continue
        report, value = made.report_, objective(made, X, truth, weight, outputs)
        assert np.isclose(report.objective, value, rtol=1e-6), f"{options}: {report.objective}, {value} by enumeration"
        found.append((report.lower_bound, report.objective))
        decodes(made, X, outputs)
        is_kept(made, X, rng, scratch / "model")
    bounds, values = np.array(found).T
    rounding = 1e-6 * (1.0 + abs(values.min()))
    assert bounds.max() <= values.min() + rounding, f"{settings}: a bound of {bounds.max()}, a value of {values.min()}"
    assert values[0] - bounds[0] <= rounding, f"{settings}: closed form {values[0]}, bound {bounds[0]}"
    return len(found)


def is_kept(made: CountingPredictor, X: Any, rng: np.random.Generator, path: Path) -> None:
    """Save and load; a file with other JSON or bytes is refused, or is a predictor that works."""
    made.save(path)
    whole = path.read_bytes()
    policy = made.decision_function(X)
    assert (CountingPredictor.load(path).decision_function(X) == policy).all()
    content, arrays = archives.parts(whole)
    for data in (mutations.changed_bytes(rng, whole), archives.packed(mutations.changed_json(rng, content), arrays)):
        path.write_bytes(data)
        try:
            read = CountingPredictor.load(path)
        except FileFormatError:
            continue
        except OptionError as err:
            if str(err).startswith("load: the space '"):
                continue
            raise
        with suppress(DataError):  # another gamma, with which kernels overflow
            assert read.decision_function(X).shape == policy.shape
        assert str(read.report_)


def draw_outputs(outputs: list[Any], rng: np.random.Generator) -> Any:
    """Return a true output, or a list of several, with a false one left."""
    if rng.random() < 0.7:
        return outputs[rng.integers(len(outputs))]
    several = int(rng.integers(1, len(outputs)))
    return [outputs[k] for k in rng.choice(len(outputs), several, replace=False)]


def objective(
    made: CountingPredictor, X: np.ndarray, truth: list[Any], weight: np.ndarray, outputs: list[Any]
) -> float:
    """Return the objective by summing over all pairs."""
    features = np.array([made.space.features(z) for z in outputs])
    risks = []
    for true, scores in zip(truth, made.decision_function(X) @ features.T, strict=True):
        chosen = {made.space.canonical(z) for z in made.space.true_outputs(true)}
        good = np.array([z in chosen for z in outputs])
        far = scores[~good][:, None] - scores[good][None, :]
        risks.append(np.mean(1.0 + far + far**2 / 2.0))
    gram = made.kernel_(made.X_fit_, made.X_fit_) if len(made.X_fit_) else np.zeros((0, 0))
    norm = float(np.sum(made.dual_coef_ * (gram @ made.dual_coef_)))
    return 0.5 * made.lam * norm + float(weight @ risks) / len(X)


def decodes(made: CountingPredictor, X: np.ndarray, outputs: list[Any]) -> None:
    """Compare the outputs of the default decoder with what it guarantees."""
    space, policies = made.space, made.decision_function(X)
    every = policies @ np.array([space.features(z) for z in outputs]).T
    gain = [float(space.features(space.canonical(z)) @ f) for z, f in zip(made.predict(X), policies, strict=True)]
    share = next(iter(space.decoders.values()))
    least = every.min(axis=1) + share * (every.max(axis=1) - every.min(axis=1))
    assert (np.array(gain) >= least - 1e-9 * (1.0 + np.abs(every).max())).all(), f"{space!r} decodes badly"
