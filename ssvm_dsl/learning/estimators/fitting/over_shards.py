"""Fits, predictions and scores over shards of the data (:mod:`ssvm_dsl.learning.shards`)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ssvm_dsl.compiler.inputs import arrays_of_frames
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.inference.threads import one_blas_thread
from ssvm_dsl.learning.answers import ON_MISSING
from ssvm_dsl.learning.driver.cost_estimate import CostEstimate
from ssvm_dsl.learning.driver.interrupts import follows_an_interrupt
from ssvm_dsl.learning.driver.trainer_choice import TrainerChoice
from ssvm_dsl.learning.estimator import clone, warn_unconverged
from ssvm_dsl.learning.estimators.fitted import FitRequest, Fitted
from ssvm_dsl.learning.estimators.fitting.fit import record
from ssvm_dsl.learning.estimators.fitting.fit_warnings import refuse_excess
from ssvm_dsl.learning.estimators.fitting.training import TrainingRun, run_trainer
from ssvm_dsl.learning.estimators.parameters import check_choice, check_labels, check_validation
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.objective import check_sample_weight, is_hard, require_weight
from ssvm_dsl.learning.risks.kinds import check_convex, check_pairing
from ssvm_dsl.learning.shards.answers import PartAnswer, answers_of, ask_parts, labellings_of, losses_of
from ssvm_dsl.learning.shards.fit import (
    ShardedData,
    Strength,
    check_shards,
    keeps_shards,
    open_executor,
    shard_problem,
)
from ssvm_dsl.learning.shards.parts import PartitionedDataset, parts_of
from ssvm_dsl.plugin_api.executors import THREADS, ShardFunction
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.report.notices import announce_compiling, tell_workers

#: What workers do without: they call nobody, show nothing and write no file.
WORKER = {
    "executor": THREADS, "executor_options": None, "n_threads": 1, "callbacks": None, "verbose": False,
    "checkpoint": None, "scoring": None, "warm_start": False, "max_seconds": None,
}  # fmt: skip


def worker_of(svm: StructuredEstimator, trainer: TrainerChoice | None = None) -> Any:
    """Return an estimator as workers have it; in a fit, with the trainer that was chosen for all of them."""
    return clone(svm).set_params(**WORKER, **({} if trainer is None else {"trainer": trainer.spec.name}))


def fit_over_shards(svm: StructuredEstimator, X: Any, Y: Any, request: FitRequest) -> None:
    """Learn the weights of an estimator, whose parameters are checked, from examples that an executor has in shards."""
    sample_weight, named = request.sample_weight, dict[str, list[str]]()
    if not isinstance(X, PartitionedDataset):
        X, Y = svm._examples(X), check_labels(Y)
        X, named = arrays_of_frames(svm.model.declaration, X)
        if named and request.held_out is not None and len(request.held_out) == 2:
            held_out = arrays_of_frames(svm.model.declaration, svm._examples(request.held_out[0]), named)[0]
            request = replace(request, held_out=(held_out, request.held_out[1]))
        if len(X) != len(Y):
            raise DataError("Y", expected=f"{len(X)} examples, as in X", found=str(len(Y)))
        sample_weight = None if sample_weight is None else check_sample_weight(sample_weight, len(X))
    elif svm.executor == THREADS:
        raise OptionError("a PartitionedDataset is trained on in shards: set executor='stream' or 'processes'")
    announce_compiling()
    followed = follows_an_interrupt()
    check_validation(svm, request.held_out)
    kept = keeps_shards(svm.executor)
    trainer = svm._trainer(shards=True, keeps_shards=kept)
    declaration, risk, spec = svm.model.declaration, svm._risk(), trainer.spec
    check_pairing(spec, risk, svm.power, sparse=svm.l1 > 0.0)
    if is_hard(svm.C, svm.lam):
        raise OptionError("hard margins (C = inf) are not found over shards; fit in one process, or use a large C")
    executor = open_executor(svm.executor, svm.executor_options)
    last = svm.fitted_ if svm.warm_start and svm._is_fitted else None
    try:
        check_shards(declaration, spec, svm.executor)
        parts = parts_of(X, Y, sample_weight, executor.n_shards)
        strength = Strength(svm.C, svm.lam, svm.regularization, svm.l1)
        with one_blas_thread():
            with contained(f"executor '{svm.executor}'"):
                problem, data = shard_problem(
                    executor, parts, worker_of(svm, trainer), declaration, strength, request.deadline, kept
                )
            if svm.verbose:
                tell_workers(problem.where.lines(problem.sizes.tolist()))
            check_convex(spec, risk, problem.objective)
            if problem.accuracy.overflows:
                refuse_excess(problem.accuracy)
            shards = {"shards": [dict(one.fingerprint) for one in problem.facts]}
            estimate = CostEstimate("this fit", problem.session.plan.backend, problem.n, np.nan)
            start = last.coef if last is not None and problem.complete else None
            run = run_trainer(svm, data, TrainingRun(trainer, problem, risk, estimate, shards), request, start)
    finally:
        executor.close()
    text = record(svm, data, run, request, followed)
    if not problem.complete:
        text = _take_unread(svm, data, last)
    if text:
        warn_unconverged(text)
    if named:
        columns = {name: {"columns": names} for name, names in named.items()}
        svm.fitted_ = replace(svm.fitted_, learnt={**svm.fitted_.learnt, **columns})


def _take_unread(svm: StructuredEstimator, data: ShardedData, last: Fitted | None) -> str:
    """Complete the report of a fit that ran out of time before its data were read; return the text of a warning."""
    fitted = svm.fitted_
    assert fitted.report is not None
    assert fitted.certificate is not None
    what, weights = f"{data.n_read} of {data.n_parts} parts", "the weights are 0"
    if data.n_read < data.n_parts:
        report = replace(fitted.report, unread=f"{what} of the data were read: all numbers are of these alone")
        fitted = replace(fitted, report=report, certificate=replace(fitted.certificate, risk=np.inf))
    if last is not None:  # nothing is known of these weights on data that were not read
        fitted = replace(fitted, coef=last.coef, learnt=last.learnt, blocks=last.blocks).of_unknown_objective()
        weights = "the weights are those of the last fit"
    svm.fitted_ = fitted
    known = "the certificate is of these parts alone" if data.n_read < data.n_parts else "their features came late"
    text = f"time was up when {what} of the data were read: {weights}, and {known}"
    return f"{text}; raise max_seconds, or cut the data into smaller parts and use more workers"


def labellings_of_parts(
    svm: StructuredEstimator, data: PartitionedDataset, on_missing: str, time_limit: float | None
) -> list[Any]:
    """Return the labellings of all parts, one after the other."""
    check_choice(on_missing, ON_MISSING, "on_missing")
    answers = ask_all(svm, "predict", data, labellings_of, on_missing, None, time_limit=time_limit)
    unread = any(one is None for one in answers)  # nobody knows how many examples there are
    return list(chain.from_iterable(answers_of("predict", answers, "raise" if unread else on_missing)))


def losses_of_parts(
    svm: StructuredEstimator, data: PartitionedDataset, time_limit: float | None
) -> tuple[float, float]:
    """Return the sums of the losses and of the largest losses of the parts that are read in time."""
    answers = ask_all(svm, "score", data, losses_of, time_limit=time_limit)
    none = all(one is None for one in answers)
    sums = [one for one in answers_of("score", answers, "raise" if none else "none") if one is not None]
    lost, most, weight = (math.fsum(one) for one in zip(*sums, strict=True))
    require_weight(weight > 0.0)
    return lost, most


def ask_all(
    svm: StructuredEstimator, method: str, data: Any, function: ShardFunction, *given: Any, time_limit: float | None
) -> list[PartAnswer | None]:
    """Return the results of a function on each part of the data, in order."""
    deadline, fitted = Deadline.of(time_limit), svm.fitted_
    if not isinstance(data, PartitionedDataset):
        raise OptionError(f"{method}: a PartitionedDataset, got {type(data).__name__}; use predict for a list")
    if svm.executor == THREADS:
        text = f"{method} reads a PartitionedDataset part by part, in shards"
        raise OptionError(f"{text}: set_params(executor='stream') or 'processes'")
    executor, worker = open_executor(svm.executor, svm.executor_options), worker_of(svm)
    worker.fitted_ = Fitted(fitted.coef, fitted.blocks, fitted.learnt)
    try:
        with contained(f"executor '{svm.executor}'"):
            return ask_parts(executor, data, worker, function, *given, deadline=deadline)
    finally:
        executor.close()
