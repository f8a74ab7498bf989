"""Streams of examples: stochastic descent continues from its latest coefficients and their inputs.

Nothing else is needed: a step shrinks all coefficients and adds one, by the number of the step alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.learning.counting.kernels import InputKernel
from ssvm_dsl.learning.counting.methods.stochastic import Window, automatic_delay, stochastic
from ssvm_dsl.learning.counting.objective import CountingRisk
from ssvm_dsl.learning.counting.report import CountingReport
from ssvm_dsl.learning.estimators.fitting.stream import Stream
from ssvm_dsl.learning.objective import convention, lam_of


def settings(predictor: Any) -> dict[str, Any]:
    """Return what has to stay the same while a stream lasts."""
    found = {name: getattr(predictor, name) for name in ("kernel", "gamma", "degree", "coef0", "step", "truncation")}
    if callable(found["kernel"]):
        found["kernel"] = f"the function {getattr(found['kernel'], '__qualname__', found['kernel'])}"
    return {"space": repr(predictor.space), **found}


def check_stream(predictor: Any, stream: Stream | None) -> int | None:
    """Return how many coefficients are kept, ``None`` for all.

    Raises
    ------
    TrainingError
        The solver goes over all examples again and again, or settings have changed since the stream began.
    OptionError
        The truncation is a share of the number of examples, which is unknown.
    """
    if predictor.solver != "sgd":
        text = f"solver='{predictor.solver}' needs all examples at once and has no partial_fit"
        raise TrainingError(f"{text}; set solver='sgd', or call fit")
    if predictor.step_rule != "decay":
        text = f"step_rule='{predictor.step_rule}' keeps more than a stream does and has no partial_fit"
        raise TrainingError(f"{text}; set step_rule='decay', or call fit")
    tau = predictor.truncation
    if isinstance(tau, float) and tau <= 1.0:
        text = f"truncation={tau:g} is a share of all examples, and the number of examples of a stream is unknown"
        raise OptionError(f"{text}; give a whole number, or None for all")
    if stream is not None:
        stream.check(settings(predictor))
    return None if tau is None else int(tau)


def longer_stream(
    predictor: Any, stream: Stream | None, kernel: InputKernel, X: F64, risk: CountingRisk, tau: int | None
) -> Stream:
    """Return the stream after one pass over a batch.

    Parameters
    ----------
    predictor : CountingPredictor
    stream : Stream, optional
        ``None``: it begins.
    kernel : InputKernel
    X : ndarray of float64, shape (n, p)
    risk : CountingRisk
        Of the batch.
    tau : int, optional
        How many coefficients are kept; ``None``: all.
    """
    n, d = risk.truth.shape
    if stream is None:
        stream = Stream(settings(predictor), 0, {"delay": 0.0}, {"coef": np.zeros((0, d)), "inputs": X[:0]})
    seen, coef, earlier = stream.n_seen, stream.arrays["coef"], stream.arrays["inputs"]
    lam, delay = lam_of(predictor.C, predictor.lam, seen + n), predictor.delay
    if delay == "auto":
        delay = max(stream.values["delay"], automatic_delay(kernel, X, risk, lam, predictor.step))
    inputs = np.concatenate([earlier, X])
    with np.errstate(over="ignore", invalid="ignore"):  # steps that are too long are refused by what they led to
        found = stochastic(
            kernel, inputs, risk, lam, Window(np.arange(len(coef)), coef, seen), step=predictor.step,
            delay=float(delay), tau=len(inputs) if tau is None else tau, order=np.arange(n), n_steps=n,
            max_seconds=np.inf if predictor.max_seconds is None else predictor.max_seconds,
        )  # fmt: skip
    arrays = {"coef": found.coef, "inputs": inputs[found.ids]}
    return Stream.of("sgd", stream.fingerprint, found.n_steps, {"delay": float(delay), **arrays})


def stream_report(
    predictor: Any, stream: Stream, n_support: int, seconds: float, processor_seconds: float
) -> CountingReport:
    """Return the report of a stream: its cost, with nothing known of the objective."""
    return CountingReport(
        objective=np.nan, lower_bound=np.nan, gap=np.nan, relative_gap=np.nan, gradient_norm=np.nan, certificate="none",
        solver="sgd", n_iterations=stream.n_seen, reason="stream", seconds=seconds,
        processor_seconds=processor_seconds, certificate_seconds=0.0, n_examples=stream.n_seen,
        n_features=predictor.space.n_features, n_support=n_support,
        convention=convention(predictor.C, predictor.lam, "h"),
    )  # fmt: skip
