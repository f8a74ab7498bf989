"""Regularisation paths and certificates for other C: true of the optimum at every C, which is found by other means."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_optima import refused, suits, table
from random_models import draw

from optima import Reference
from small import Data
from ssvm_dsl import StructuredSVM, regularization_path
from ssvm_dsl.errors import NoBackendError, TrainingError

UNIT, SHORT, LIMIT = "gaps", 1, 120.0

#: Trainers of paths, and what they may take.
PATHS = ("bcfw", "n-slack", "one-slack", "bundle", "smo", "lp-dual-qp", "lbfgs")


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Follow a path, or fit once, and look at certified gaps at many C."""
    data = draw(rng)
    if data.regularization and 0.0 in data.regularization.values():
        data = replace(data, regularization=None)
    able = [one for one in table() if one.trainer in PATHS and one.oracle == "exact" and suits(data, one.risk)]
    one = able[rng.integers(len(able))]
    power = float(rng.choice([1.0, 2.0])) if one.powers is None or 2.0 in one.powers else 1.0
    settings = {"risk": one.risk, "power": power, "trainer": one.trainer, "random_state": 0, "n_threads": 1}
    made = StructuredSVM(data.model, **settings, regularization=data.regularization, max_passes=3000, max_seconds=20.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if rng.random() < 0.5:
                return followed(made, data, rng)
            made.set_params(C=data.C, tol=float(rng.choice([0.5, 0.01])), max_passes=int(rng.choice([1, 5, 100])))
            return certified(made.fit(data.X, data.Y, data.weight), data, [*strange(rng), data.C])
    except (NoBackendError, TrainingError) as err:
        if not (refused(str(err)) or stopped_early(str(err))):
            raise
        return 0


def stopped_early(text: str) -> bool:
    """Return whether a path could not go on, which it says."""
    known = "raise max_passes or max_seconds, or epsilon", "gives no lower bound that holds for other C"
    return any(words in text for words in known)


def strange(rng: np.random.Generator) -> list[float]:
    """Return values of C over a wide range."""
    return [1e-12, 1e12, *(float(10.0**e) for e in rng.uniform(-4, 4, size=3)), *(10.0 ** rng.uniform(-12, 12, size=2))]


def followed(made: StructuredSVM, data: Data, rng: np.random.Generator) -> int:
    """Follow a path: points cover the interval, and each is as good as it says."""
    first = float(10.0 ** rng.uniform(*((-4, 1) if rng.random() < 0.8 else (-12, 9))))
    last = first * float(10.0 ** rng.choice([0.0, 0.5, 2.0, 6.0]))
    epsilon, most = float(rng.choice([0.3, 0.1, 0.02])), int(rng.choice([1, 3, 12]))
    path = regularization_path(made, data.X, data.Y, first, last, epsilon, sample_weight=data.weight)
    at, tried = first, 0
    for point, fitted in islice(path, most):
        assert at == point.C, (point.C, at)
        assert point.C_end > point.C or point.C_end >= last, point
        assert 0.0 <= point.relative_gap <= epsilon, point
        inside = [point.C, point.C_end, float(np.exp(rng.uniform(np.log(point.C), np.log(point.C_end))))]
        tried += certified(fitted, data, inside, epsilon * (1.0 + 1e-9))
        tried += certified(fitted, data, strange(rng)[:4])
        at = point.C_end
    else:
        assert at == last or tried == 7 * most, (at, last)
    path.close()
    return tried


def certified(fitted: StructuredSVM, data: Data, at: list[float], most: float = np.inf) -> int:
    """Compare certified gaps with what the optimum allows: ``objective - optimum <= gap * objective``."""
    w = data.flat(fitted.weights_)
    for C in at:
        gap = fitted.certified_gap(C)
        assert np.isnan(gap) or gap >= 0.0, (C, gap)
        assert np.isnan(gap) or gap <= most, (C, gap, most)
        reference = Reference(data, fitted.risk, fitted.power, C=C)
        own, size = reference.objective(w)[0], C * float(data.s.sum())
        low, high = _enclosed(reference, w)
        text = f"C = {C!r} of {fitted.C!r}: gap {gap!r}, objective {own!r}, optimum at most {high!r}; {fitted.report_}"
        assert np.isnan(gap) or own - high <= gap * own + 1e-9 * (size + own), text
        assert low <= own + 1e-6 * (size + own), text
    return len(at)


def _enclosed(reference: Reference, w: Any) -> tuple[float, float]:
    """Return bounds of the optimum; of one that no solver reaches the upper one of some weights."""
    some = [reference.objective(scale * w)[0] for scale in (0.0, 0.5, 1.0, 2.0)]
    if not 1e-6 <= reference.C <= 1e6:
        return -np.inf, min(some)
    try:
        low, high, _ = reference.optimum()
    except AssertionError:  # of the reference: its solver did not finish
        return -np.inf, min(some)
    return low, min(high, *some)
