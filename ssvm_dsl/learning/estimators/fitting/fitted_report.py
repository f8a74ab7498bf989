"""The report of a fit, from what training made of its problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.learning.driver.certificate import FitReport, eta_of
from ssvm_dsl.learning.driver.progress import Progress, relative
from ssvm_dsl.learning.driver.trainer_choice import TrainerChoice
from ssvm_dsl.learning.driver.validation import scores_of
from ssvm_dsl.learning.risks.factored import whose_marginals
from ssvm_dsl.learning.risks.hinges.dual_loss import DualLossProblem
from ssvm_dsl.learning.risks.kinds import Problem


def report_of(
    progress: Progress, problem: Problem, trainer: TrainerChoice, convention_text: str, unit: float
) -> FitReport:
    """Return the report of a fit.

    Parameters
    ----------
    progress : Progress
    problem : Problem
    spec : TrainerSpec
    trainer : TrainerChoice
    convention_text : str
        The user's convention, in words.
    unit : float
        What turns values of the objective into it.
    """
    gap = unit * progress.gap
    soft = (problem.temperature, problem.mean_smoothing) if isinstance(problem, DualLossProblem) else (0.0, 0.0)
    return FitReport(
        primal=unit * progress.primal,
        dual=unit * progress.dual,
        gap=gap,
        relative_gap=relative(gap, unit * progress.primal),
        certified=bool(np.isfinite(gap)),
        converged=progress.reason == "tolerance",
        reason=progress.reason,
        n_passes=progress.n_passes,
        n_oracle_calls=problem.n_oracle_calls,
        seconds=progress.seconds,
        oracle_seconds=progress.oracle_seconds,
        n_late=progress.n_late,
        plan=problem.session.plan,
        trainer=trainer.spec.name,
        trainer_reason=trainer.reason,
        options=trainer.options,
        convention=convention_text,
        n_examples=problem.n,
        n_weights=problem.dim,
        n_nonzero=int(np.count_nonzero(progress.w)),
        tightness=progress.tightness,
        eta=eta_of(progress.estimate, progress.primal, problem.objective.regularizer(progress.w)),
        validation_score=max(scores_of(progress.history).values(), default=np.nan),
        estimate=unit * progress.estimate,
        rounding=unit * progress.rounding,
        temperature=soft[0],
        smoothing=unit * soft[1],
        withdrawn=progress.withdrawn,
        marginals=whose_marginals(trainer.spec, problem.relaxed, problem.parameters),
        history=tuple(progress.history),
    )


def without_objective(report: FitReport) -> FitReport:
    """Return the report of weights whose objective is not known: any number is a possible value."""
    return replace(report, primal=np.inf, gap=np.inf, relative_gap=np.inf, estimate=np.nan, certified=False)
