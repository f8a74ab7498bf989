"""Streams of examples: stochastic descent continues from its latest coefficients and their inputs.

Plain steps need nothing else: a step shrinks all coefficients and adds one, by the number of the step alone.  Those of
meta-descent go on from the coefficients of the derivative, too, and from three numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.learning.counting.kernels import InputKernel
from ssvm_dsl.learning.counting.methods.descent import (
    MetaWindow,
    Window,
    automatic_delay,
    largest_curvature,
    meta_descent,
    stochastic,
)
from ssvm_dsl.learning.counting.objective import CountingRisk
from ssvm_dsl.learning.counting.report import CountingReport
from ssvm_dsl.learning.estimators.fitting.stream import Stream
from ssvm_dsl.learning.objective import convention, lam_of


def settings(predictor: Any) -> dict[str, Any]:
    """Return what has to stay the same while a stream lasts."""
    names = ["kernel", "gamma", "degree", "coef0", "step", "truncation"]
    names += ["step_rule", "meta_step"] if predictor.step_rule != "decay" else []
    values = {name: getattr(predictor, name) for name in names}
    if callable(values["kernel"]):
        values["kernel"] = f"the function {getattr(values['kernel'], '__qualname__', values['kernel'])}"
    return {"space": repr(predictor.space), **values}


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
    tau = predictor.truncation
    if isinstance(tau, float) and tau <= 1.0:
        text = f"truncation={tau:g} is a share of all examples, and the number of examples of a stream is unknown"
        raise OptionError(f"{text}; give a whole number, or None for all")
    if stream is not None:
        stream.check(settings(predictor))
    return None if tau is None else int(tau)


def stream_parts(step_rule: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a stream's arrays and of its numbers."""
    if step_rule == "smd":
        return ("coef", "inputs", "trace"), ("delay", "curvature", "factor", "square", "cross")
    return ("coef", "inputs"), ("delay",)


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
    adapts = predictor.step_rule == "smd"
    if stream is None:
        names, numbers = stream_parts(predictor.step_rule)
        arrays = {name: X[:0] if name == "inputs" else np.zeros((0, d)) for name in names}
        values = dict.fromkeys(numbers, 0.0) | ({"factor": float(predictor.step)} if adapts else {})
        stream = Stream.of("sgd", settings(predictor), 0, {**values, **arrays})
    seen, coef, earlier = stream.n_seen, stream.arrays["coef"], stream.arrays["inputs"]
    values, automatic = dict(stream.values), predictor.delay == "auto"
    lam = lam_of(predictor.C, predictor.lam, seen + n)
    values["delay"] = float(
        max(values["delay"], automatic_delay(kernel, X, risk, lam, predictor.step)) if automatic else predictor.delay
    )
    inputs, ids = np.concatenate([earlier, X]), np.arange(len(coef))
    rule: dict[str, Any] = {
        "delay": values["delay"], "tau": len(inputs) if tau is None else tau, "order": np.arange(n), "n_steps": n,
        "max_seconds": np.inf if predictor.max_seconds is None else predictor.max_seconds,
    }  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):  # steps that are too long are refused by what they led to
        if adapts:
            values["curvature"] = max(values["curvature"], largest_curvature(kernel, X, risk))
            window = MetaWindow(
                ids, coef, stream.arrays["trace"], seen, *(values[name] for name in ("factor", "square", "cross"))
            )
            longest = 1.0 / (lam + values["curvature"]) if automatic else np.inf
            meta = meta_descent(
                kernel, inputs, risk, lam, window, longest=longest, meta_step=predictor.meta_step, **rule
            )
            values |= {"factor": float(meta.factor), "square": float(meta.square), "cross": float(meta.cross)}
            arrays = {"coef": meta.coef, "inputs": inputs[meta.ids], "trace": meta.trace}
            return Stream(stream.fingerprint, meta.n_steps, values, arrays)
        found = stochastic(kernel, inputs, risk, lam, Window(ids, coef, seen), step=predictor.step, **rule)
    arrays = {"coef": found.coef, "inputs": inputs[found.ids]}
    return Stream(stream.fingerprint, found.n_steps, values, arrays)


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
