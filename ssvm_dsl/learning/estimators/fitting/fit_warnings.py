"""Warnings of fits that did not reach their goal, and of data that training cannot work with."""

from __future__ import annotations

import sys
from typing import NoReturn

import numpy as np

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.learning.driver.certificate import FitReport
from ssvm_dsl.learning.driver.progress import Progress
from ssvm_dsl.learning.risks.accuracy import Accuracy
from ssvm_dsl.learning.risks.kinds import Problem, Risk, minimisers, risks
from ssvm_dsl.plugin_api.specs import RiskForm, TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.units import seconds_text

#: So many weights are few: a pass with a plane for all examples is worth as much as one with a plane for each.
FEW = 1000

#: Features this large are what costs the digits; with smaller ones it is the tolerance that asks for too many.
LARGE = 1e6

#: What to do about large numbers, by whether they are dense.
SCALE = {
    True: "Standardized(x), as the features of the factor, brings an input x to mean 0 and variance 1",
    False: "divide them by their size",
}


def convergence_warning(
    report: FitReport, tol: float, spec: TrainerSpec, risk: Risk, problem: Problem, progress: Progress
) -> str:
    """Return the text of a warning after a fit; empty if there is none."""
    if report.reason == "interrupt":
        text = f"its relative gap is {report.relative_gap:.2g}"
        if not np.isfinite(report.relative_gap):
            text = "its gap is not known" if np.isnan(report.primal) else f"its objective is {report.primal:.6g}"
        return f"interrupted after {seconds_text(report.seconds)}: the best model so far is kept ({text})"
    if report.withdrawn:
        return f"no certificate: {report.withdrawn}{_scale_advice(problem)}"
    if report.reason == "rounding":
        found = f"stopped at relative gap {report.relative_gap:.2g} > tol={tol:g}: the rest of it is rounding"
        advice = _scale_advice(problem)
        return found + (advice or "; double precision cannot resolve a smaller gap, so set a larger tol")
    if progress.from_start:
        text = f"trainer '{spec.name}' met no weights as good as those it started from, which are returned:"
        return f"{text} its steps are too long, or too few; see its options, raise max_passes, or set another trainer"
    if report.reason == "bounds":
        text = f"stopped at relative gap {report.relative_gap:.2g} > tol={tol:g}"
        return text + (_loose_bounds(report, spec, risk, problem) or _bounds_left(report))
    if spec.certifies and report.reason in ("passes", "seconds"):  # else there is no gap to close
        return _limit(report, tol, spec, risk, problem)
    if spec.certifies and report.reason == "ended" and np.isfinite(report.relative_gap) and report.relative_gap > tol:
        return _early_end(report, tol, spec, risk, problem)
    if progress.unsettled:
        return f"{progress.unsettled}: completing latent variables and fitting again may lower the objective further"
    return ""


def uncomputed_warning(missing: int, n: int, warm: bool) -> str:
    """Return the warning for a fit that ran out of time before the features of some examples were computed."""
    weights = "the weights are those of the last fit, whose objective is not known" if warm else "the weights are 0"
    text = f"time was up before the features of {missing} of {n} examples were computed: {weights}"
    return f"{text}; raise max_seconds, or give it fewer examples or features that take less time"


class ConvergenceWarning(UserWarning):
    """A fit did not reach its goal: scikit-learn's warning of that name, where scikit-learn is not loaded."""


def warn_of(text: str) -> None:
    """Warn the caller of ``fit`` that it did not converge.

    The warning is scikit-learn's where that is loaded, so that filters of it apply.  Nobody has one where it is not,
    and to import it takes longer than many fits, and than the time within which a second Ctrl-C ends a loop of them.
    """
    loaded = sys.modules.get("sklearn.exceptions")
    warn_caller(text, getattr(loaded, "ConvergenceWarning", ConvergenceWarning))


def _limit(report: FitReport, tol: float, spec: TrainerSpec, risk: Risk, problem: Problem) -> str:
    """Return the warning for a fit that a limit ended before the tolerance was reached."""
    limit = f"max_{report.reason}"
    backend = f"backend '{report.plan.title}'"
    if not report.bounded and problem.session.guarantee is Guarantee.HEURISTIC:
        return f"stopped at {limit}; {backend} is a heuristic and gives no bounds, so the gap is not known"
    if report.bounded and report.dual == -np.inf:
        text = f"stopped at {limit}; trainer '{spec.name}' gave no lower bound of the optimum"
        return f"{text}, so how far the weights are from it is not known"
    if not np.isfinite(report.relative_gap):
        done = f"after {report.n_oracle_calls} oracle calls on {report.n_examples} examples"
        return f"stopped at {limit} before the gap was known, {done}; raise {limit}"
    text = f"stopped at relative gap {report.relative_gap:.2g} > tol={tol:g}"
    if report.n_late:
        late = f"time was up before {report.n_late} of {report.n_examples} answers about the weights were complete"
        return f"{text}; {late}, and these count with an upper bound; raise {limit}"
    if loose := _loose_bounds(report, spec, risk, problem):
        return text + loose
    advice = _scale_advice(problem)
    if not advice and problem.dim <= FEW and not spec.aggregates and risk.spec.form is not RiskForm.SMOOTH:
        others = minimisers(risk, problem.objective.power, registry(), lambda other: _suits(other, problem))
        advice = f"; with so few weights try trainer={' or '.join(map(repr, others))}" if others else ""
    return f"{text}; raise {limit} or tol{advice}"


def _suits(spec: TrainerSpec, problem: Problem) -> bool:
    """Whether a trainer makes planes of all examples, and minimises the objective as it is regularised."""
    return spec.aggregates and (problem.objective.strongly_convex or not spec.needs.strongly_convex)


def _early_end(report: FitReport, tol: float, spec: TrainerSpec, risk: Risk, problem: Problem) -> str:
    """Return the warning for a trainer that ended before the tolerance was reached."""
    text = f"trainer '{spec.name}' ended at relative gap {report.relative_gap:.2g} > tol={tol:g}"
    loose = _loose_bounds(report, spec, risk, problem)
    return text + (loose or ": it found nothing left to improve; set a larger tol, or another trainer")


def _bounds_left(report: FitReport) -> str:
    """Return the warning where bounds are loose at the newest weights, while others are kept."""
    text = f": backend '{report.plan.title}' finds nothing more to learn from"
    return f"{text}; take a backend with tighter bounds, or an exact one"


def _loose_bounds(report: FitReport, spec: TrainerSpec, risk: Risk, problem: Problem) -> str:
    """Return the warning for a gap that is mostly due to inference, ``""`` for other gaps."""
    if not report.inference_gap > 0.5 * report.gap:
        return ""
    share = f"{report.inference_gap / report.gap:.0%}"
    text = f", {share} of which are bounds of backend '{report.plan.title}' above its answers"
    above = risks().get(risk.spec.upper_bound)
    other = ""
    if above is not None and spec.needs.covers(above.spec, problem.objective.power) and above.takes(problem.loss):
        other = f"risk='{above.name}', whose gap the same bounds close, "
    return f"{text}: more passes will not help; take {other}a backend with tighter bounds, or an exact one"


def _scale_advice(problem: Problem) -> str:
    """Return advice about large features, ``""`` if there are none."""
    most = problem.accuracy.largest()
    if most is None or abs(most.value) < LARGE:
        return ""
    text = f"; {most.source}, example {most.example}, holds {most.value:.3g}"
    return f"{text}: numbers this large cost scores their digits; {SCALE[most.dense]}"


def refuse_excess(accuracy: Accuracy) -> NoReturn:
    """Refuse features, or a regularisation, with which squares and sums overflow.

    Raises
    ------
    DataError
        Features are too large. It names the input, or the factor, and the example.
    OptionError
        Features are of usual size, and C is too large.
    """
    most = accuracy.largest()
    if most is None or abs(most.value) < LARGE:
        found = f"lam is {accuracy.objective.lam:.3g} (1 / (C n) where C is given)"
        raise OptionError(f"{found}, so small that the objective overflows: choose a smaller C, or a larger lam")
    expected, found = "numbers whose products and sums stay finite", f"{most.value:.6g}"
    raise DataError(most.source, example=most.example, expected=expected, found=found, hint=SCALE[most.dense])
