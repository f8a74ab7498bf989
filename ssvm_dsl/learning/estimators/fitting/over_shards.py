"""``ShardedFit``: the part of an estimator that trains on shards of its data (:mod:`ssvm_dsl.learning.shards`)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_dsl.calls import checked_class
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.inputs.validate import arrays_of_frames
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.inference.blas_threads import one_blas_thread
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.learning.driver.cost_estimate import CostEstimate
from ssvm_dsl.learning.driver.interrupts import follows_an_interrupt
from ssvm_dsl.learning.driver.trainer_choice import TrainerChoice
from ssvm_dsl.learning.estimator import clone
from ssvm_dsl.learning.estimators.check_parameters import check_choice, check_validation
from ssvm_dsl.learning.estimators.fitting.fit_warnings import refuse_excess, warn_of
from ssvm_dsl.learning.estimators.fitting.fitted_report import without_objective
from ssvm_dsl.learning.estimators.fitting.training_target import FitRequest, TrainingTarget
from ssvm_dsl.learning.estimators.predictor import ON_MISSING
from ssvm_dsl.learning.objective import is_hard, require_weight
from ssvm_dsl.learning.risks.kinds import Problem, check_convex, check_pairing
from ssvm_dsl.learning.shards.answers import PartAnswer, Write, answers_of, ask_parts, labellings_of, losses_of
from ssvm_dsl.learning.shards.fit import (
    THREADS,
    ShardedData,
    Strength,
    check_shards,
    keeps_shards,
    open_executor,
    shard_problem,
)
from ssvm_dsl.learning.shards.parts import PartitionedDataset, parts_of
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.kinds.executors import ShardFunction
from ssvm_dsl.report.notices import announce_compiling, tell_workers

if TYPE_CHECKING:
    from ssvm_dsl.learning.estimators.base import Learner
    from ssvm_dsl.learning.estimators.fitting.infeasible import Trainable

    Base = Learner
else:
    Base = object

#: What workers do without: they call nobody, show nothing and write no file.
WORKER = {
    "executor": THREADS, "executor_options": None, "n_threads": 1, "callbacks": None, "verbose": False,
    "checkpoint": None, "scoring": None, "warm_start": False, "max_seconds": None,
}  # fmt: skip


@checked_class
class ShardedFit(Base):
    """Fits over shards; parameters are those of the estimator, and ``executor`` and ``executor_options``."""

    executor: str
    executor_options: dict[str, Any] | None
    risk: str
    verbose: bool

    if TYPE_CHECKING:

        def _trainable(self, X: Any, Y: Any, sample_weight: Any, part: bool = False) -> Trainable: ...

        def _target(self, grounded: Grounded) -> TrainingTarget: ...

    def _learn_over_shards(self, X: Any, Y: Any, sample_weight: Any, held_out: Any, deadline: Deadline) -> None:
        """Learn the weights from labelled examples that an executor has in shards."""
        announce_compiling()
        followed = follows_an_interrupt()
        check_validation(self, held_out)
        kept = keeps_shards(self.executor)
        trainer = self._trainer(shards=True, keeps_shards=kept)
        declaration, risk, spec = self.model.declaration, self._risk(), trainer.spec
        check_pairing(spec, risk, self.power, sparse=self.l1 > 0.0)
        if is_hard(self.C, self.lam):
            raise OptionError("hard margins (C = inf) are not found over shards; fit in one process, or use a large C")
        executor = open_executor(self.executor, self.executor_options)
        start = self.coef_ if self.warm_start and hasattr(self, "coef_") else None
        try:
            check_shards(declaration, spec, self.executor)
            parts = parts_of(X, Y, sample_weight, executor.n_shards)
            strength = Strength(self.C, self.lam, self.regularization, self.l1)
            with one_blas_thread():
                with contained(f"executor '{self.executor}'"):
                    problem, data = shard_problem(
                        executor, parts, self._worker(trainer), declaration, strength, deadline, kept
                    )
                if self.verbose:
                    tell_workers(problem.where.lines(problem.sizes.tolist()))
                check_convex(spec, risk, problem.objective)
                refuse_excess(problem.accuracy)
                shards = {"shards": [dict(one.fingerprint) for one in problem.facts]}
                target = TrainingTarget(risk, problem.loss, shards)
                fit = FitRequest(lambda _: target, trainer, None, held_out, deadline)
                estimate = CostEstimate("this fit", problem.session.plan.backend, problem.n, np.nan)
                last = None if start is None or problem.complete else (self.coef_, self._fitted, self._blocks)
                progress = self._fit_once(data, problem, estimate, target, fit, start if problem.complete else None)
                self._take(data, progress, problem, trainer)
        finally:
            executor.close()
        text = self._concluded(progress, problem, target, fit, followed)
        warn_of(text if problem.complete else self._unread(data, last))

    def _unread(self, data: ShardedData, last: tuple[Any, Any, Any] | None) -> str:
        """Complete the report of a fit that ran out of time before its data were read; return the text of a warning."""
        what, weights = f"{data.n_read} of {data.n_parts} parts", "the weights are 0"
        if data.n_read < data.n_parts:
            self.report_ = replace(self.report_, unread=f"{what} of the data were read: all numbers are of these alone")
            self._certificate = replace(self._certificate, risk=np.inf)
        if last is not None:  # nothing is known of these weights on data that were not read
            (self.coef_, self._fitted, self._blocks), weights = last, "the weights are those of the last fit"
            self._certificate = replace(self._certificate, risk=np.inf)
            self.report_ = without_objective(self.report_)
        known = "the certificate is of these parts alone" if data.n_read < data.n_parts else "their features came late"
        text = f"time was up when {what} of the data were read: {weights}, and {known}"
        return f"{text}; raise max_seconds, or cut the data into smaller parts and use more workers"

    def predict_parts(
        self, data: PartitionedDataset, write: Write | None = None, *, on_missing: str = "raise",
        time_limit: float | None = None,
    ) -> list[Any]:  # fmt: skip
        """Return the labellings of each part of the data, predicted where the executor has the part.

        Parameters
        ----------
        data : PartitionedDataset
            The labels in its parts are not looked at.
        write : callable, optional
            ``write(part, labellings)`` runs where the part is, to save what is too large to travel; what it returns
            stands in the place of the labellings.  In a module that workers can import.
        on_missing : str
            As for ``predict``; a part that time did not suffice to read counts as one without labellings, and has
            ``None`` in its place.
        time_limit : float, optional
            Seconds for the whole call.  What is read of a part in that time is predicted as well as time allows;
            reading is not interrupted.

        Raises
        ------
        NoLabellingError
            A part was not read in time, or an example has no labelling; ``answers`` holds the other parts.
        """
        check_choice(on_missing, ON_MISSING, "on_missing")
        if write is not None and not callable(write):
            raise OptionError(f"write must be a function (part, labellings), got {write!r}")
        answers = self._ask_parts("predict_parts", data, labellings_of, on_missing, write, time_limit=time_limit)
        return answers_of("predict_parts", answers, on_missing)

    def _predicted(self, data: PartitionedDataset, on_missing: str, time_limit: float | None) -> list[Any]:
        """Return the labellings of all parts, one after the other."""
        check_choice(on_missing, ON_MISSING, "on_missing")
        answers = self._ask_parts("predict", data, labellings_of, on_missing, None, time_limit=time_limit)
        unread = any(one is None for one in answers)  # nobody knows how many examples there are
        return list(chain.from_iterable(answers_of("predict", answers, "raise" if unread else on_missing)))

    def _scored(self, data: PartitionedDataset, time_limit: float | None) -> tuple[float, float]:
        """Return the sums of the losses and of the largest losses of the parts that are read in time."""
        answers = self._ask_parts("score", data, losses_of, time_limit=time_limit)
        none = all(one is None for one in answers)
        sums = [one for one in answers_of("score", answers, "raise" if none else "none") if one is not None]
        lost, most, weight = (math.fsum(one) for one in zip(*sums, strict=True))
        require_weight(weight > 0.0)
        return lost, most

    def _ask_parts(
        self, method: str, data: Any, function: ShardFunction, *given: Any, time_limit: float | None
    ) -> list[PartAnswer | None]:
        """Return the results of a function on each part of the data, in order."""
        deadline = Deadline.of(time_limit)
        self._check_fitted()
        if not isinstance(data, PartitionedDataset):
            raise OptionError(f"{method}: a PartitionedDataset, got {type(data).__name__}; use predict for a list")
        if self.executor == THREADS:
            text = f"{method} reads a PartitionedDataset part by part, in shards"
            raise OptionError(f"{text}: set_params(executor='stream') or 'processes'")
        executor = open_executor(self.executor, self.executor_options)
        try:
            with contained(f"executor '{self.executor}'"):
                return ask_parts(executor, data, self._fitted_worker(), function, *given, deadline=deadline)
        finally:
            executor.close()

    def _fitted_worker(self) -> Any:
        """Return the fitted estimator as workers have it."""
        made = self._worker()
        made.coef_, made._fitted, made._blocks = self.coef_, self._fitted, self._blocks
        return made

    def _worker(self, trainer: TrainerChoice | None = None) -> ShardedFit:
        """Return the estimator as workers have it; in a fit, with the trainer that was chosen for all of them."""
        made: ShardedFit = clone(self)
        return made.set_params(**WORKER, **({} if trainer is None else {"trainer": trainer.spec.name}))

    def _shard_data(
        self, X: Any, Y: Any, sample_weight: Any, fitted: Any, in_time: bool = False
    ) -> tuple[Grounded, Any] | None:
        """Return the model laid over examples, and their weights, or ``None`` where no example is left to learn from.

        ``in_time`` is that of ``ground``.
        """
        if isinstance(X, list) and arrays_of_frames(self.model.declaration, X)[1]:
            hint = "let its reader return arrays: X.to_numpy(), with the columns in one order"
            raise DataError("X", expected="arrays in a part of the data", found="data frames", hint=hint)
        data = self._trainable(X, Y, sample_weight, part=True)
        if len(data.examples) and not len(data.X):
            return None
        return self._ground(data.X, data.Y, fitted=fitted, part=True, in_time=in_time), data.sample_weight

    def _shard_problem(self, grounded: Grounded, sample_weight: Any, deadline: Deadline | None = None) -> Problem:
        """Return the training problem of examples, without a backend where time is up before there is one."""
        spec, target, n = self._trainer().spec, self._target(grounded), grounded.n_examples
        return self._problem(grounded, target, Threads(), spec, sample_weight, n, deadline or Deadline(), part=True)[0]
