"""Fits of random small models: objective and bounds against optima over all labellings, found by general solvers."""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from random_models import draw

from optima import Reference
from small import Data
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import NoBackendError, OptionError, TrainingError
from ssvm_dsl.ir.loss import ADDITIVE
from ssvm_dsl.learning.driver.pairings import Pairing, pairings
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.registry import registry

UNIT, SHORT, LIMIT = "fits", 2, 90.0

#: Trainers that reach small gaps in the passes given here, whatever the problem.
SURE = ("bcfw", "n-slack", "one-slack", "bundle", "smo", "lp-dual-qp", "lbfgs")

#: What values of the objective may be off by, relative to the terms that they are sums of.
ROUNDING = 1e-9


@lru_cache(maxsize=1)
def table() -> list[Pairing]:
    """Return what goes together."""
    return [one for one in pairings() if one.works and one.risk != "regression"]


#: Risks of models of one label, which are sums over its wrong classes.
SUMS = ("weston-watkins", "smooth-hinge", "squared-weston-watkins")


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Fit a model with several trainers and backends and compare each with the optimum."""
    data = draw(rng)
    risks = [risk for risk in {one.risk: 0 for one in table()} if suits(data, risk)]
    risk, power = risks[rng.integers(len(risks))], float(rng.choice([1.0, 1.0, 1.0, 2.0, 1.5]))
    reference = Reference(data, risk, power)
    optimum = reference.optimum()
    able = [one for one in table() if one.risk == risk and (one.powers is None or power in one.powers)]
    picked = [able[k] for k in rng.permutation(len(able))[:4]]
    return sum(compare(reference, optimum, one, options_of(one, rng), rng) for one in picked)


def suits(data: Data, risk: str) -> bool:
    """Return whether a risk is for the model and its loss."""
    if risk in SUMS:
        return data.kind == "single" and data.grounded.loss.kind in (ADDITIVE, "zero-one")
    return risk not in ("relaxed", "softmax-margin") or data.grounded.loss.kind == ADDITIVE


def options_of(one: Pairing, rng: np.random.Generator) -> dict[str, Any]:
    """Return random options of a fit."""
    backend = "auto" if one.oracle == "exact" and rng.random() < 0.5 else str(rng.choice(one.backends))
    passes = int(rng.choice([1, 3, 400])) if one.trainer in SURE else int(rng.choice([1, 12, 40]))
    own = trainer_options(one.trainer, rng) if rng.random() < 0.4 else None
    out = {"trainer_options": own, "backend": backend, "max_passes": passes, "max_seconds": 5.0}
    out |= {"tol": float(rng.choice([1e-2, 1e-5]))}
    return out | {"random_state": int(rng.integers(100)), "n_threads": int(rng.choice([1, 1, 3]))}


def trainer_options(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return random options of a trainer: of each that has choices, or a least number, or neither."""
    out = {}
    for option in registry().find(TrainerSpec, name).options:
        if option.choices:
            out[option.name] = option.choices[rng.integers(len(option.choices))]
        elif option.least is not None and rng.random() < 0.5:
            out[option.name] = int(option.least + rng.choice([0, 1, 2, 5]))
    if "momentum" in out:  # a share, below 1, of plain steps
        plain = out.get("metric", "identity") == "identity" and out.get("schedule") != "distance"
        out["momentum"] = min(out["momentum"], 1) / 2 if plain else 0.0
    return out


def compare(
    reference: Reference, optimum: tuple[float, float, Any], one: Pairing, options: dict[str, Any], rng: Any
) -> int:
    """Fit, and compare with the optimum; return 1, or 0 where the pairing does not take the model."""
    data, (low, high, _) = reference.data, optimum
    made = StructuredSVM(
        data.model, risk=reference.risk, power=reference.power, trainer=one.trainer, **options, **data.settings
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.fit(data.X, data.Y, data.weight)
    except (NoBackendError, TrainingError, OptionError) as err:
        if not refused(str(err)):
            raise
        return 0
    check(reference, made, one, low, high)
    return 1


def refused(text: str) -> bool:
    """Return whether a refusal is one that models like these may meet."""
    known = ("works on marginals", "works on distributions", "no backend can answer", "is for models of one label",
             "more numbers than max_entries", "more coefficients than max_entries", "needs a margin",
             "steps are too long for these risks", "blocks='factors' is for the risk 'relaxed'",
             "parallel= is not for risk=", "geometry='entropic' is that of distributions")
    return any(word in text for word in (*known, "does not expose dual messages", "needs every factor regularised"))


def check(reference: Reference, made: StructuredSVM, one: Pairing, low: float, high: float) -> None:
    """Compare report and weights with the own objective and the enclosed optimum."""
    data, report, w = reference.data, made.report_, reference.data.flat(made.weights_)
    at = f"{data.kind} {one.trainer} {reference.risk}^{reference.power:g} {report.plan.backend} C={data.C}: {report}"
    own = reference.objective(w)[0]
    size = abs(own) + data.C * float(data.s.sum()) + abs(high)
    slack, loose = ROUNDING * size, max(high - low, 0.0)
    assert (w[data.nonneg] >= 0.0).all(), at
    exact = one.oracle == "exact" and (reference.risk != "slack" or report.tightness == 1.0)
    if exact or reference.risk in SUMS:
        assert abs(report.primal - own) <= slack, f"primal is not the objective {own!r} of the weights; {at}"
    assert not report.primal < own - slack, f"primal is below the objective {own!r}; {at}"
    assert not report.estimate > own + slack, f"an estimate above the objective {own!r}; {at}"
    assert report.dual <= high + slack, f"a false lower bound of the optimum {high!r}; {at}"
    assert not report.gap < 0.0, at
    if report.converged:
        assert own - low <= made.tol * abs(report.primal) + loose + slack, f"not optimal: {own!r} > {low!r}; {at}"
    for event in report.history:
        assert event.best_dual <= high + slack, (event, at)
        assert np.isnan(event.gap) or event.gap >= -slack, (event, at)
    sure = one.trainer in SURE and made.trainer_options is None and made.max_passes == 400 and report.seconds < 4.0
    if sure and exact and low > 1e-6 * size:
        assert report.converged, at
