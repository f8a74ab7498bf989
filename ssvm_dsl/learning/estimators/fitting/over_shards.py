"""``ShardedFit``: the part of an estimator that trains on shards of its data (:mod:`ssvm_dsl.learning.shards`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_dsl.calls import checked_class
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.blas_threads import one_blas_thread
from ssvm_dsl.inference.deadline import Deadline
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.learning.driver.cost_estimate import CostEstimate
from ssvm_dsl.learning.driver.interrupts import follows_an_interrupt
from ssvm_dsl.learning.estimator import clone
from ssvm_dsl.learning.estimators.check_parameters import check_choice, check_validation, is_default
from ssvm_dsl.learning.estimators.fitting.fit_warnings import refuse_excess, warn_of
from ssvm_dsl.learning.estimators.fitting.training_target import FitRequest, TrainingTarget
from ssvm_dsl.learning.estimators.predictor import ON_MISSING
from ssvm_dsl.learning.risks.kinds import Problem, check_convex, check_pairing, find_risk
from ssvm_dsl.learning.shards.answers import Write, ask_parts, labellings_of
from ssvm_dsl.learning.shards.fit import THREADS, Strength, check_shards, open_executor, shard_problem
from ssvm_dsl.learning.shards.parts import PartitionedDataset, parts_of
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.kinds.executors import ShardFunction
from ssvm_dsl.report.compiling import announce_compiling

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

    if TYPE_CHECKING:

        def _trainable(self, X: Any, Y: Any, sample_weight: Any) -> Trainable: ...

        def _target(self, grounded: Grounded) -> TrainingTarget: ...

    def _learn_over_shards(self, X: Any, Y: Any, sample_weight: Any, held_out: Any, deadline: Deadline) -> None:
        """Learn the weights from labelled examples that an executor has in shards."""
        announce_compiling()
        followed = follows_an_interrupt()
        check_validation(self, held_out)
        spec, options = self._trainer_spec()
        declaration, risk = self.model.declaration, find_risk(self.risk)
        check_pairing(spec, risk, self.power, is_default(self, "trainer"), sparse=self.l1 > 0.0)
        executor = open_executor(self.executor, self.executor_options)
        start = self.coef_ if self.warm_start and hasattr(self, "coef_") else None
        try:
            check_shards(declaration, spec, self.executor)
            parts = parts_of(X, Y, sample_weight, executor.n_shards)
            strength = Strength(self.C, self.lam, self.regularization, self.l1)
            with one_blas_thread():
                with contained(f"executor '{self.executor}'"):
                    problem, data = shard_problem(executor, parts, self._worker(), declaration, strength)
                check_convex(spec, risk, problem.objective)
                refuse_excess(problem.accuracy)
                shards = {"shards": [dict(one.fingerprint) for one in problem.facts]}
                target = TrainingTarget(risk, problem.loss, shards)
                fit = FitRequest(lambda _: target, spec, options, None, held_out, deadline)
                estimate = CostEstimate("this fit", problem.session.plan.backend, problem.n, np.nan)
                progress = self._fit_once(data, problem, estimate, target, fit, start)
                self._take(data, progress, problem, options)
        finally:
            executor.close()
        warn_of(self._concluded(progress, problem, target, fit, followed))

    def predict_parts(
        self, data: PartitionedDataset, write: Write | None = None, *, on_missing: str = "raise"
    ) -> list[Any]:
        """Return the labellings of each part of the data, predicted where the executor has the part.

        Parameters
        ----------
        data : PartitionedDataset
            The labels in its parts are not looked at.
        write : callable, optional
            ``write(part, labellings)`` runs where the part is, to save what is too large to travel; what it returns
            stands in the place of the labellings.  In a module that workers can import.
        on_missing : str
            As for ``predict``.
        """
        check_choice(on_missing, ON_MISSING, "on_missing")
        if write is not None and not callable(write):
            raise OptionError(f"write is a function (part, labellings), got {write!r}")
        return self._ask_parts("predict_parts", data, labellings_of, on_missing, write)

    def _ask_parts(self, method: str, data: Any, function: ShardFunction, *given: Any) -> list[Any]:
        """Return what a function finds on each part of the data, in order."""
        self._check_fitted()
        if not isinstance(data, PartitionedDataset):
            raise OptionError(f"{method}: a PartitionedDataset, got {type(data).__name__}; use predict for a list")
        if self.executor == THREADS:
            text = f"{method} reads a PartitionedDataset part by part, in shards"
            raise OptionError(f"{text}: set_params(executor='stream') or 'processes'")
        executor = open_executor(self.executor, self.executor_options)
        try:
            with contained(f"executor '{self.executor}'"):
                return ask_parts(executor, data, self._fitted_worker(), function, *given)
        finally:
            executor.close()

    def _fitted_worker(self) -> Any:
        """Return the fitted estimator as workers have it."""
        made = self._worker()
        made.coef_, made._fitted, made._blocks = self.coef_, self._fitted, self._blocks
        return made

    def _worker(self) -> ShardedFit:
        """Return the estimator as workers have it."""
        made: ShardedFit = clone(self)
        return made.set_params(**WORKER)

    def _shard_data(self, X: Any, Y: Any, sample_weight: Any, fitted: Any) -> tuple[Grounded, Any]:
        """Return the model laid over examples, and their weights."""
        data = self._trainable(X, Y, sample_weight)
        return self._ground(data.X, data.Y, fitted=fitted), data.sample_weight

    def _shard_problem(self, grounded: Grounded, sample_weight: Any) -> Problem:
        """Return the training problem of examples."""
        spec, _ = self._trainer_spec()
        target, n = self._target(grounded), grounded.n_examples
        return self._problem(grounded, target, Threads(), spec, sample_weight, n, Deadline())[0]
