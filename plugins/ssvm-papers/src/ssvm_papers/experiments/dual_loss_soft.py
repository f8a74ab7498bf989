"""Meshi et al. (2010), appendix A: with soft maxima DLPW converges to the joint optimum of weights and messages.

The claim has no numbers: for any K of equation 13 (here T = 1/K), and any number R of coordinate descent passes in a
step, weights and messages go to the global optimum.  The distance to it is the certified relative gap of the soft
objective, so that nobody else's optimum is needed: its lower bound is of marginals that agree, with their entropies.

What soft maxima cost: the soft objective is above the relaxed one by at most T times the logarithms of the numbers of
states, of every variable and of every factor, and approaches it for large K.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete
from ssvm_dsl.ir import F64
from ssvm_papers.experiments.dual_losses import PAPER
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Between, Statement

#: Temperatures, and passes of message passing in a step.
TEMPERATURES, PASSES = (0.5, 0.05, 0.005), (1, 2, 10, 100)

#: Temperatures at which the optimum is reached, passes over the data, and how often the objective is looked at.
JUDGED, DATA_PASSES, LOOKS = (0.5, 0.05), 3000, 30

#: Examples, labels, states, features; the weight of the regulariser.
N, LABELS, STATES, WIDTH, LAM = 5, 4, 3, 2, 0.25


class ThreeStates(Model):
    """Labels of three states, each two of them a pair with weights of its own."""

    K = Dim(LABELS)
    x = Input(WIDTH)
    y = Label(K, STATES)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


STATEMENTS = (
    Statement("converged", f"relative gap to the joint optimum, R = 1 to 100, T = 0.5 and 0.05, {DATA_PASSES} passes: "
              "the largest", "converges", Between(0, 1e-6), "{:.1e}"),
    Statement("bound", "soft optimum less relaxed one, over T times the logarithms of the states: T = 0.5, 0.05, 0.005",
              "at most 1", Between(0, 1), "{:.2f}"),
    Statement("tight", "soft optimum over relaxed one, T = 0.005: tight for large K", "1", Between(1, 1.05), "{:.3f}"),
    Statement("plain", "plain maxima, more than two states: objective over the relaxed optimum",
              "no loss in practice", Between(1 - 1e-6, 1.01), "{:.4f}"),
    Statement("slow", "relative gap at T = 0.005: the largest", form="{:.1e}"),
)  # fmt: skip


def made() -> tuple[list[F64], list[Any]]:
    """Return the examples."""
    rng = np.random.default_rng(0)
    return list(rng.normal(size=(N, WIDTH))), list(rng.integers(STATES, size=(N, LABELS)))


def fitted(temperature: float, passes: int, n_passes: int) -> Any:
    """Return the report of DLPW at a temperature, with R passes in each step."""
    svm = StructuredSVM(
        ThreeStates, lam=LAM, risk="relaxed", trainer="dlpw", backend="msd", guarantee="bound", tol=0.0,
        backend_options={"temperature": temperature}, max_passes=n_passes, random_state=0,
        trainer_options={"passes": passes, "evaluate_every": max(n_passes // LOOKS, 1)},
    )  # fmt: skip
    return svm.fit(*made()).report_


def relaxed_optimum() -> float:
    """Return the optimum of equation 7, by our own trainer and linear programs."""
    svm = StructuredSVM(
        ThreeStates, lam=LAM, risk="relaxed", trainer="smo", backend="lp", guarantee="bound", tol=1e-7, max_passes=2000
    )
    return float(svm.fit(*made()).report_.primal)


def run(quick: bool, progress: Progress) -> Findings:
    """Run DLPW at each temperature with each R; quick: few passes, two values of R."""
    n_passes, values = (100, (1, 10)) if quick else (DATA_PASSES, PASSES)
    steps, reports = Steps(progress, 2 + len(TEMPERATURES) * len(values)), {}
    with threadpool_limits(1, user_api="blas"):
        steps("the relaxed optimum")
        hard = relaxed_optimum()
        for T in TEMPERATURES:
            for R in values:
                steps(f"T = {T:g}, R = {R}")
                reports[T, R] = fitted(T, R, n_passes)
        steps("plain maxima")
        plain = fitted(0.0, 10, n_passes)
    answers, last = Answers(STATEMENTS), values[-1]
    gaps = {key: one.relative_gap for key, one in reports.items()}
    if not quick:
        answers.numbers("converged", max(gaps[T, R] for T in JUDGED for R in values))
    above = [(reports[T, last].dual - hard) / reports[T, last].smoothing for T in TEMPERATURES]
    answers.numbers("bound", *(max(one, 0.0) for one in above))
    answers.numbers("tight", reports[TEMPERATURES[-1], last].primal / hard)
    answers.numbers("plain", plain.primal / hard)
    answers.draws("slow", max(gaps[TEMPERATURES[-1], R] for R in values))
    rows = [
        (f"{T:g}", str(R), f"{one.primal:.6g}", f"{gaps[T, R]:.1e}", f"{one.smoothing:.3g}", f"{one.primal - hard:.3g}")
        for (T, R), one in reports.items()
    ]
    columns = ("T = 1/K", "R", "soft objective", "relative gap", "T log of the states", "above the relaxed optimum")
    arrays = {f"{T:g}/{R}": _curve(one) for (T, R), one in reports.items()}
    notes = (NOTE.format(hard=hard, plain=plain.primal),)
    return Findings(answers.rows, notes, (Table("DLPW with soft maxima, by T and R", columns, rows),), arrays)


def _curve(report: Any) -> F64:
    """Return (passes over the data, objective less the best lower bound of the run) of the looks at the objective."""
    seen = [(event.n_passes, event.primal - report.dual) for event in report.history if np.isfinite(event.primal)]
    return np.array(seen, dtype=np.float64).reshape(-1, 2)


NOTE = (
    f"{N} examples of {LABELS} labels with {STATES} states, all pairs joined, lam = {LAM:g}; newest weights. The "
    "relaxed optimum is {hard:.6g}; DLPW with plain maxima ends at {plain:.6g}. The smaller T, the worse the objective "
    "is conditioned: at T = 0.005 the gap falls, but is not yet small after as many passes."
)


def draw(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw distances to the optimum over passes over the data, a panel for each temperature."""
    axes = figure.subplots(1, len(TEMPERATURES), sharey=True)
    for axis, T in zip(axes, TEMPERATURES, strict=True):
        for R in PASSES:
            points = arrays.get(f"{T:g}/{R}")
            if points is not None:
                axis.loglog(points[:, 0], np.maximum(points[:, 1], 1e-9), label=f"R = {R}")
        axis.set(xlabel="passes over the data", title=f"T = {T:g}")
    axes[0].set(ylabel="above the joint optimum")
    axes[0].legend(fontsize="small")


EXPERIMENTS = (
    Experiment(
        "dual-losses-soft", "dual-losses", PAPER, "appendix A", "DLPW with soft maxima: the joint optimum, for any R",
        run, STATEMENTS, draw, (10.0, 3.5), substitutes=("made examples: the appendix has none",),
    ),
)  # fmt: skip
