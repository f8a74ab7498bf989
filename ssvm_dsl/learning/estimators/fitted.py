"""What a fit is asked for (``FitRequest``, ``TrainingTarget``), learns from (``Trainable``) and leaves (``Fitted``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.features.encode import LearntFeatures
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.learning.driver.certificate import Certificate, FitReport, Times, eta_of, scores_of
from ssvm_dsl.learning.driver.progress import Progress, relative
from ssvm_dsl.learning.driver.trainer_choice import TrainerChoice
from ssvm_dsl.learning.estimators.fitting.stream import Stream
from ssvm_dsl.learning.risks.factored import whose_marginals
from ssvm_dsl.learning.risks.hinges.dual_loss import DualLossProblem
from ssvm_dsl.learning.risks.kinds import Problem, Risk


@dataclass(frozen=True, eq=False)
class Trainable:
    """Data that can be learnt from.

    Parameters
    ----------
    X, Y, sample_weight
        As for ``fit``; Y may be encoded already.
    examples : ndarray of int64
        The examples whose labels were ruled out, by their numbers in the user's data.
    """

    X: Any
    Y: Any
    sample_weight: Any
    examples: I64


@dataclass(frozen=True, eq=False)
class TrainingTarget:
    """The objective on a grounded data set.

    Parameters
    ----------
    risk : Risk
    loss : LossTerm
        The loss, with the truth.
    facts : mapping
        What else the risk depends on, as plain data and arrays: a checkpoint is continued with the same only.
    """

    risk: Risk
    loss: LossTerm
    facts: Mapping[str, Any] = field(default_factory=dict)


#: Returns what is to be minimised on a grounded data set.
TargetOf = Callable[[Grounded], TrainingTarget]


@dataclass(frozen=True, eq=False)
class FitRequest:
    """What one call of ``fit`` was given.

    Parameters
    ----------
    target_of : callable
    sample_weight : array_like or None
    held_out : pair or None
        Examples for ``validation``.
    deadline : Deadline
        Its time began with the call.
    times : Times
    """

    target_of: TargetOf
    sample_weight: Any
    held_out: Any
    deadline: Deadline
    times: Times = field(default_factory=Times)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights, and what is known of them.

    Parameters
    ----------
    coef : ndarray of float64, shape (dim,)
        All weights.
    blocks : tuple of Block
        Their layout.
    learnt : dict
        What features learnt from the training data, by feature.
    report, certificate : optional
        Of the fit; none where the weights were given.
    stream : Stream, optional
        Where ``partial_fit`` continues.
    """

    coef: F64
    blocks: tuple[Block, ...]
    learnt: LearntFeatures
    report: FitReport | None = None
    certificate: Certificate | None = None
    stream: Stream | None = None

    @classmethod
    def of_attributes(cls, state: dict[str, Any]) -> Fitted:
        """Return the record of an estimator that was pickled when these were attributes, which are taken away."""
        state.pop("plan_", None)
        coef, blocks, learnt = (state.pop(name) for name in ("coef_", "_blocks", "_fitted"))
        return cls(coef, blocks, learnt, *(state.pop(name, None) for name in ("report_", "_certificate", "_stream")))

    def of_unknown_objective(self) -> Fitted:
        """Return the record of weights whose objective is not known: any number is a possible value."""
        assert self.report is not None
        assert self.certificate is not None
        report = replace(
            self.report, primal=np.inf, gap=np.inf, relative_gap=np.inf, estimate=np.nan, certified=False
        )  # fmt: skip
        return replace(self, report=report, certificate=replace(self.certificate, risk=np.inf))


def report_of(
    progress: Progress, problem: Problem, trainer: TrainerChoice, convention: str, unit: float,
    chosen: Mapping[str, str],
) -> FitReport:  # fmt: skip
    """Return the report of a fit.

    Parameters
    ----------
    progress : Progress
    problem : Problem
    trainer : TrainerChoice
    convention : str
        The user's convention, in words.
    unit : float
        What turns values of the objective into it.
    chosen : mapping of str to str
        What was chosen by the data, and why.
    """
    gap, needs = unit * progress.gap, trainer.spec.needs
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
        convention=convention,
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
        marginals=whose_marginals(trainer.spec, problem.relaxed, problem.parameters) if needs.factored else "",
        chosen=chosen,
        history=tuple(progress.history),
    )
