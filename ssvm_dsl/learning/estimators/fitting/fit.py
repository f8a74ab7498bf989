"""How weights are learnt: check, ground, choose a trainer, problem, train, certificate, warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.features.expansions import kernel_ranks
from ssvm_dsl.deadline import within
from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.learning.answers import call_threads
from ssvm_dsl.learning.driver.certificate import Certificate
from ssvm_dsl.learning.driver.interrupts import ends_the_caller, follows_an_interrupt
from ssvm_dsl.learning.driver.progress import Progress
from ssvm_dsl.learning.estimator import warn_unconverged
from ssvm_dsl.learning.estimators.fitted import FitRequest, Fitted, report_of
from ssvm_dsl.learning.estimators.fitting.fit_warnings import (
    convergence_warning,
    scale_warning,
    uncomputed_warning,
    warn_of_missed,
    warn_of_unknown,
)
from ssvm_dsl.learning.estimators.fitting.latent import begun, checked_stream, train_with_latents
from ssvm_dsl.learning.estimators.fitting.stream import Stream, check_weights
from ssvm_dsl.learning.estimators.fitting.training import (
    TrainingRun,
    planned_run,
    run_trainer,
)
from ssvm_dsl.learning.estimators.parameters import check_validation, seed_of
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.objective import convention
from ssvm_dsl.learning.shards.fit import ShardedData
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.specs import TrainerSpec, named_options
from ssvm_dsl.registry import registry
from ssvm_dsl.report.notices import announce_compiling


def fit(svm: StructuredEstimator, X: Any, Y: Any, request: FitRequest, labels: bool = True) -> None:
    """Learn the weights of an estimator, whose parameters are checked, from labelled examples.

    Parameters
    ----------
    svm : StructuredEstimator
    X, Y
        As for ``fit``.
    request : FitRequest
    labels : bool
        Whether labels are learnt, so that what the data do not tell about them is worth a warning.
    """
    announce_compiling()
    deadline, followed = request.deadline, follows_an_interrupt()
    check_validation(svm, request.held_out)
    svm._trainer()  # mistakes in names and options are found before any work
    last = svm.fitted_ if svm.warm_start and svm._is_fitted else None
    with within(deadline):
        grounded = svm._ground(X, Y, fitted=None if last is None else last.learnt, in_time=True)
    if last is not None and last.blocks != grounded.parameters.blocks:
        raise OptionError("warm_start: the last fit had other factors; set warm_start=False to start from zero")
    if labels:
        warn_of_unknown(grounded)
    missing, start = grounded.n_uncomputed, None if last is None else last.coef
    if missing:  # nothing is learnt from features that are not there
        deadline.end()
        start = None
    with call_threads(svm.n_threads) as executor:
        start = svm._choose(grounded, request, executor, start)
        trainer = svm._trainer(grounded)
        if uneven := scale_warning(grounded, trainer.spec):
            warn_caller(uneven)
        if grounded.declaration.latents:
            run, more = train_with_latents(svm, grounded, request, trainer, executor, start)
        else:
            run, more = planned_run(svm, grounded, request, trainer, executor), {}
            grounded = replace(grounded, loss=None)  # it is as large as the scores
            run_trainer(svm, grounded, run, request, start)
    text = record(svm, grounded, run, request, followed, more)
    if missing:
        text = f"{uncomputed_warning(missing, grounded.n_examples, last is not None)}; {text}"
        if last is not None:  # nothing is known of these weights on data without features
            svm.fitted_ = replace(svm.fitted_, coef=last.coef).of_unknown_objective()
    if text:
        warn_unconverged(text)
    if labels and not missing:
        warn_of_missed(svm, grounded, run.problem, run.risk, deadline)


def fit_more(svm: StructuredEstimator, X: Any, Y: Any, request: FitRequest) -> None:
    """Learn one pass over a batch of a stream of labelled examples; parameters are checked."""
    announce_compiling()
    trainer = svm._trainer(stream=True)
    spec, options, name = trainer.spec, trainer.options, trainer.spec.name
    if not spec.incremental:
        able = [other.name for other in registry().specs(TrainerSpec) if other.incremental]
        raise TrainingError(f"trainer '{name}' has no partial_fit; these have: {', '.join(able)}")
    last = svm.fitted_ if svm._is_fitted else None
    stream = None if last is None else last.stream
    grounded = svm._ground(X, Y, fitted=None if last is None or stream is None else last.learnt)
    svm._choose_alone(grounded)
    settings: dict[str, Any] = {"trainer": name, "trainer_options": named_options(options)}
    settings |= {"random_state": seed_of(svm.random_state), "risk": svm._risk().name, "power": float(svm.power)}
    if last is not None and stream is not None:
        stream.check(settings)
        if last.blocks != grounded.parameters.blocks:
            raise OptionError("partial_fit: the stream so far had other factors; take a new estimator (clone)")
    elif last is not None:
        text = "partial_fit starts a new stream at weights of 0 and discards the weights of the last fit"
        warn_caller(f"{text} (a loaded stream continues from its saved state)")
    seen = grounded.n_examples + (0 if stream is None else stream.n_seen)
    with call_threads(svm.n_threads) as executor:
        if grounded.declaration.latents:
            how = checked_stream(spec, svm.latent_options)
            grounded = begun(svm, grounded, how, executor, request.deadline, None if stream is None else svm.coef_)
        run = planned_run(svm, grounded, request, trainer, executor, n=seen)
        problem = run.problem
        with contained(f"trainer '{name}'"):
            method = spec.load()(**options, random_state=seed_of(svm.random_state))
            learnt = method.partial(problem, None if stream is None else stream.state())
        w, state = check_weights(learnt, problem.dim, name)
        n_passes = 1.0 + 1.0  # one to learn, one to look at the objective
        progress = run.progress = Progress(w, n_passes=n_passes, reason="stream")
        progress.keep(w, problem.evaluation(w), problem)
        progress.tightness = problem.tightness(w)
        progress.oracle_seconds = problem.oracle_seconds
        request.times.add(problem.oracle_seconds, progress)
        record(svm, grounded, run, request)
        svm.fitted_ = replace(svm.fitted_, stream=Stream.of(name, settings, seen, state))


def record(
    svm: StructuredEstimator, data: Grounded | ShardedData, run: TrainingRun, request: FitRequest,
    followed: bool | None = None, more: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """Give an estimator its weights, certificate and report; return the text of a warning.

    Parameters
    ----------
    svm : StructuredEstimator
    data : Grounded or ShardedData
    run : TrainingRun
    request : FitRequest
    followed : bool or None
        Whether the fit began right after one that Ctrl-C had ended: then Ctrl-C is to end the loop that calls it.
    more : mapping, optional
        Other fields of the report.
    """
    progress, problem = run.progress, run.problem
    chosen = {**kernel_ranks(data.fitted), **svm._chosen}
    words = convention(svm.C, svm.lam, l1=svm.l1)
    report = report_of(progress, problem, run.trainer, words, run.unit(svm), chosen)
    if more:
        report = replace(report, **{**more, "chosen": {**chosen, **more.get("chosen", {})}})
    report = request.times.with_times(report, request.deadline)
    certificate = Certificate.of(progress, problem.objective)
    svm.fitted_ = Fitted(progress.w, data.parameters.blocks, data.fitted, report, certificate)
    interrupted = progress.reason == "interrupt" and followed is not None
    if interrupted and (ends_the_caller(bool(followed)) or progress.interrupted_twice):
        raise KeyboardInterrupt
    return convergence_warning(report, svm.tol, run.trainer.spec, run.risk, problem, progress)
