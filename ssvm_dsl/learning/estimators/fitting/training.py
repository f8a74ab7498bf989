"""One convex training problem: its objective, its oracle, and the run of a trainer on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, InseparableError, OutOfTime, TrainingError
from ssvm_dsl.inference.diagnosis.feasible_truth import require_feasible_truth, unknown_variables
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules.constraint_rules import with_rules
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.inference.unopened import UnplannedSession
from ssvm_dsl.ir.need import Guarantee, Need, Task
from ssvm_dsl.learning.driver.checkpoint import Checkpoint, fingerprint
from ssvm_dsl.learning.driver.compile_ahead import compiling_ahead
from ssvm_dsl.learning.driver.cost_estimate import CostEstimate, feature_seconds, fit_cost_estimate, require_fit_memory
from ssvm_dsl.learning.driver.fit import Callback, train
from ssvm_dsl.learning.driver.progress import Progress
from ssvm_dsl.learning.driver.trainer_choice import TrainerChoice
from ssvm_dsl.learning.driver.validation import Validation
from ssvm_dsl.learning.estimator import clone
from ssvm_dsl.learning.estimators.fitted import Fitted
from ssvm_dsl.learning.estimators.fitting.fit_warnings import refuse_excess
from ssvm_dsl.learning.estimators.fitting.request import FitRequest, TrainingTarget
from ssvm_dsl.learning.estimators.scoring import scorer_of
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.objective import (
    check_sample_weight,
    is_hard,
    l1_of,
    lam_of,
    regularized_risk,
    require_labels,
)
from ssvm_dsl.learning.risks.factored import check_factored
from ssvm_dsl.learning.risks.hinges.completing import CompletingProblem
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.learning.risks.kinds import Problem, check_convex, check_pairing, weakest_oracle
from ssvm_dsl.learning.shards.fit import ShardedData
from ssvm_dsl.learning.shards.problem import ShardedProblem
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.specs import TrainerSpec, named_options
from ssvm_dsl.plugin_api.training import StopRule
from ssvm_dsl.registry import registry
from ssvm_dsl.scores.parameter_map import ParameterMap

Kind = TypeVar("Kind", bound="StructuredEstimator")

#: With hard margins (``C = inf``), risks up to this share of the largest loss of an example count as 0.
NEGLIGIBLE = 1e-9

#: Labellings of a proof that no weights separate the data, as errors show them, and characters of each.
SHOWN, WIDTH = 6, 60


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A training run: how it went, its problem and objective, and the trainer."""

    progress: Progress
    problem: Problem
    target: TrainingTarget
    trainer: TrainerChoice


def labelled_problem(
    svm: StructuredEstimator, grounded: Grounded, request: FitRequest, spec: TrainerSpec, executor: Executor
) -> tuple[Problem, CostEstimate, TrainingTarget]:
    """Return the training problem of labelled data, its expected cost, and its objective."""
    target, n = request.target_of(grounded), grounded.n_examples
    asked = target, executor, spec, request.sample_weight, n, request.deadline
    problem, estimate = training_problem(svm, grounded, *asked)
    # a declared loss that the risk does not look at makes room: it is as large as the scores
    return problem, estimate, replace(target, loss=problem.loss)


def training_problem(
    svm: StructuredEstimator, grounded: Grounded, target: TrainingTarget, executor: Executor, spec: TrainerSpec,
    sample_weight: Any, n: int, deadline: Deadline, part: bool = False,
) -> tuple[Problem, CostEstimate]:  # fmt: skip
    """Return the training problem with its oracle, and its expected cost.

    Parameters
    ----------
    svm : StructuredEstimator
    grounded : Grounded
        The data.
    target : TrainingTarget
    executor : Executor
        Shares the work of oracle calls.
    spec : TrainerSpec
    sample_weight : array_like or None
    n : int
        How many examples the strength of regularisation refers to.
    deadline : Deadline
    part : bool
        Whether these are a part of the data, which may have nothing to learn.
    """
    if not part:
        require_labels(grounded.program.n_variables, grounded.n_examples)
    require_feasible_truth(grounded)
    risk, needs, hard = target.risk, spec.needs, is_hard(svm.C, svm.lam)
    check_pairing(spec, risk, svm.power, sparse=svm.l1 > 0.0, hard=hard)
    weight = check_sample_weight(sample_weight, grounded.n_examples, part)
    lam, l1 = lam_of(svm.C, svm.lam, n), l1_of(svm.C, svm.lam, n, svm.l1)
    objective = regularized_risk(grounded.parameters, lam, weight, svm.regularization, svm.power, l1)
    if hard:
        largest = float(target.loss.largest(grounded.program).max(initial=0.0))
        objective = replace(objective, hard=True, negligible=NEGLIGIBLE * (largest or 1.0))
    check_convex(spec, risk, objective)
    parameters, marginals = risk.asked_about(grounded.parameters, target.loss), needs.asks_marginals
    completes = spec.completes and bool(grounded.declaration.latents) and not risk.relaxed
    session, estimate = _oracle_session(svm, grounded, parameters, target, spec, completes, deadline)
    if needs.hulls:  # their trainers ask the kinds of constraints for rows
        parameters = replace(parameters, program=with_rules(parameters.program, registry()))
    problem = risk.problem(parameters, target.loss, objective, session, executor, marginals, needs.messages)
    if completes and isinstance(problem, MarginProblem):  # as all problems of such trainers are
        problem = CompletingProblem(problem, unknown_variables(grounded))
    refuse_excess(problem.accuracy)
    return problem, estimate


def _oracle_session(
    svm: StructuredEstimator, grounded: Grounded, parameters: ParameterMap, target: TrainingTarget, spec: TrainerSpec,
    completes: bool, deadline: Deadline,
) -> tuple[PlannedSession, CostEstimate]:  # fmt: skip
    """Return the opened session of the planned backend, and the expected cost of the fit."""
    risk, loss, estimates = target.risk, target.loss, list[CostEstimate]()

    def note_plan(need: Need, chosen: Plan) -> None:
        require_fit_memory(parameters, chosen, risk, spec, svm.model.declaration.name)
        asked = risk, loss, spec, svm.power, svm.max_passes, feature_seconds(parameters)
        estimates.append(fit_cost_estimate(need, chosen, *asked))

    try:
        with within(deadline):
            check_factored(spec, risk, svm.power, grounded.parameters, loss)
            tasks, abilities = risk.asks(loss, spec.needs.messages, spec.needs.asks_marginals)
            tasks |= {Task.MAP_CLAMPED} if completes else frozenset()
            asked = risk.weakest(Guarantee(svm.guarantee))
            ask = Ask(
                tasks, svm.backend, svm.backend_options, asked, weakest_oracle(spec, risk, tasks)[0], abilities,
                risk.loss(loss).factors,
            )  # fmt: skip
            kept = grounded.kept if parameters.program is grounded.program else None
            session = open_session(parameters.program, ask, parameters, kept, note_plan, starts=False)
    except OutOfTime:
        session = UnplannedSession(parameters.program, None, None)
    if isinstance(session, UnplannedSession):
        return session, CostEstimate("this fit", session.plan.backend, grounded.n_examples, np.nan)
    return session, estimates[0]


def run_trainer(
    svm: StructuredEstimator, grounded: Grounded | ShardedData, problem: Problem, estimate: CostEstimate,
    target: TrainingTarget, trainer: TrainerChoice, request: FitRequest, start: F64 | None,
) -> Progress:  # fmt: skip
    """Train on one convex problem, from some weights or from 0."""
    spec, options = trainer.spec, trainer.options
    deadline, begun = request.deadline, request.deadline.spent
    if slow := estimate.warning(svm.max_seconds, svm.tol):
        warn_caller(slow)
    stop = StopRule(svm.tol, svm.max_passes, svm.max_seconds or np.inf)
    ahead = compiling_ahead(spec.name, target.risk.name, problem.session.plan.backend)
    with _listeners(svm, estimate) as listeners, ahead, _named_proof(grounded):
        progress = train(
            spec.load()(**options, random_state=svm._seed), problem, stop, spec=spec,
            keep_best=bool(options.get("best_iterate", spec.best_iterate)), unit=unit_of(svm, problem), start=start,
            callbacks=listeners, checkpoint=_checkpoint(svm, problem, target, spec, options, start),
            validation=_validation(svm, grounded, request), deadline=deadline,
            model_of=partial(with_weights, svm, grounded),
        )  # fmt: skip
    request.times.add(deadline.spent - begun, progress)
    return progress


def with_weights(svm: Kind, data: Grounded | ShardedData, w: F64) -> Kind:
    """Return a copy of an estimator with these weights, of which nothing else is known."""
    made: Kind = clone(svm)
    made.fitted_ = Fitted(w, data.parameters.blocks, data.fitted)
    return made


def unit_of(svm: StructuredEstimator, problem: Problem) -> float:
    """Return what turns values of the objective in lam convention into the user's: 1, or C n where C was given."""
    return 1.0 if svm.lam is not None else 1.0 / problem.objective.lam


def _checkpoint(
    svm: StructuredEstimator, problem: Problem, target: TrainingTarget, spec: TrainerSpec, options: dict[str, Any],
    start: F64 | None,
) -> Checkpoint | None:  # fmt: skip
    """Return where the fit keeps its state, if it is to."""
    if svm.checkpoint is None or (isinstance(problem, ShardedProblem) and not problem.complete):
        return None
    if not spec.resumable:
        able = [other.name for other in registry().specs(TrainerSpec) if other.resumable]
        raise TrainingError(f"trainer '{spec.name}' keeps no checkpoints; these do: {', '.join(able)}")
    facts: dict[str, Any] = {"trainer": spec.name, "trainer_options": named_options(options)}
    chosen = problem.session.plan
    facts |= {"random_state": svm._seed, "risk": target.risk.name}
    facts |= {"backend": chosen.backend, "backend_options": dict(chosen.options)}
    facts |= {"C": float(svm.C)} if svm.lam is None else {"lam": float(svm.lam)}
    facts |= {} if start is None else {"weights to start from": start}
    facts |= target.facts
    return Checkpoint(Path(svm.checkpoint), fingerprint(problem, facts), svm.checkpoint_seconds)


def _validation(
    svm: StructuredEstimator, data: Grounded | ShardedData, request: FitRequest
) -> Validation | None:
    """Return what watches the score on held-out examples, if there are any.

    Raises
    ------
    DataError
        Bad held-out data.
    """
    if request.held_out is None:
        return None
    probe = with_weights(svm, data, np.zeros(data.parameters.dim))
    scorer = scorer_of(probe)

    def score(w: F64) -> float:
        probe.coef_ = w
        return scorer(probe, *request.held_out)

    probe._deadline = request.deadline
    try:
        score(np.zeros(data.parameters.dim))  # bad validation data are refused before training
    except DataError as err:
        raise err.of("validation") from err.__cause__
    except OutOfTime:
        pass  # the fit ends before it asks for a score
    return Validation(score, svm.patience)


@contextmanager
def _listeners(svm: StructuredEstimator, estimate: CostEstimate) -> Iterator[list[Callback]]:
    """Give the callbacks of this fit: the user's, the plug-ins', and the progress display."""
    listeners: list[Callback] = [*(svm.callbacks or ()), *registry().listeners()]
    if not svm.verbose:
        yield listeners
        return
    from ssvm_dsl.report.progress import FitProgress

    expected = str(estimate) if estimate.pass_seconds >= 1.0 else ""
    with FitProgress(svm.tol, svm.max_passes, expected=expected) as shown:
        yield [*listeners, shown.update]


@contextmanager
def _named_proof(grounded: Grounded | ShardedData) -> Iterator[None]:
    """Add to the error of inseparable data the labellings that prove it, with the names of the user's classes."""
    try:
        yield
    except InseparableError as err:
        if not isinstance(grounded, Grounded) or not err.proof:
            raise
        raise InseparableError(f"{err}\n{proof_lines(grounded, err)}", err.proof) from None


def proof_lines(grounded: Grounded, err: InseparableError) -> str:
    """Return a line for each of some labellings of a proof, those of the largest shares first, then by example."""
    assert grounded.truth is not None
    ordered = sorted(err.proof, key=lambda one: (-round(one[3], 6), one[0]))  # equal shares differ by rounding
    first, lines = grounded.program.var_ptr, []
    for example, states, loss, share in ordered[:SHOWN]:
        labels = grounded.truth.copy()
        labels[first[example] : first[example + 1]] = states
        named = str(grounded.layout.decode(labels)[example]).replace("\n", "")
        named = named if len(named) <= WIDTH else named[: WIDTH - 3] + "..."
        lines.append(f"  example {example}, labelled {named}: loss {loss:g}, share {share:.3g}")
    if len(ordered) > SHOWN:
        lines.append(f"  and {len(ordered) - SHOWN} more (all are in the error's 'proof')")
    return "\n".join(lines)
