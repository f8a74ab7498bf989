"""One convex training problem: its objective, its oracle, and the run of a trainer on it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import within
from ssvm_dsl.errors import DataError, InseparableError, OutOfTime, TrainingError
from ssvm_dsl.inference.diagnosis.true_labels import require_feasible_truth, unknown_variables
from ssvm_dsl.inference.planned import PlannedSession, UnplannedSession
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.ir.need import Guarantee, Need, Task
from ssvm_dsl.learning.driver.checkpoint import Checkpoint, fingerprint
from ssvm_dsl.learning.driver.compile_ahead import compiling_ahead
from ssvm_dsl.learning.driver.cost_estimate import CostEstimate, feature_seconds, fit_cost_estimate, require_fit_memory
from ssvm_dsl.learning.driver.fit import Validation, train
from ssvm_dsl.learning.driver.progress import Progress
from ssvm_dsl.learning.driver.trainer_choice import TrainerChoice
from ssvm_dsl.learning.estimator import clone
from ssvm_dsl.learning.estimators.fitted import FitRequest, Fitted
from ssvm_dsl.learning.estimators.fitting.fit_warnings import refuse_excess
from ssvm_dsl.learning.estimators.parameters import seed_of
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.metrics import scorer_of
from ssvm_dsl.learning.objective import (
    check_sample_weight,
    is_hard,
    l1_of,
    lam_of,
    regularized_risk,
    require_labels,
)
from ssvm_dsl.learning.risks.factored import check_factored
from ssvm_dsl.learning.risks.hinges.margin import CompletingProblem, MarginProblem
from ssvm_dsl.learning.risks.kinds import Problem, Risk, check_convex, check_pairing
from ssvm_dsl.learning.shards.fit import ShardedData
from ssvm_dsl.learning.shards.problem import ShardedProblem
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.specs import TrainerSpec, named_options
from ssvm_dsl.plugin_api.training import StopRule
from ssvm_dsl.registry import registry

Kind = TypeVar("Kind", bound="StructuredEstimator")

#: With hard margins (``C = inf``), risks up to this share of the largest loss of an example count as 0.
NEGLIGIBLE = 1e-9

#: Labellings of a proof that no weights separate the data, as errors show them, and characters of each.
SHOWN, WIDTH = 6, 60


@dataclass(eq=False)
class TrainingRun:
    """A trainer on a problem.

    Parameters
    ----------
    trainer : TrainerChoice
    problem : Problem
    risk : Risk
        What the problem minimises.
    estimate : CostEstimate
        What the run is expected to cost.
    facts : mapping
        Those of the :class:`TrainingTarget`.

    Attributes
    ----------
    progress : Progress
        How it went, once it has run.
    """

    trainer: TrainerChoice
    problem: Problem
    risk: Risk
    estimate: CostEstimate
    facts: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = field(init=False)

    def unit(self, svm: StructuredEstimator) -> float:
        """Return what turns values of the objective into the user's: 1, or C n where C was given."""
        return 1.0 if svm.lam is not None else 1.0 / self.problem.objective.lam


def planned_run(
    svm: StructuredEstimator, grounded: Grounded, request: FitRequest, trainer: TrainerChoice, executor: Executor, *,
    n: int | None = None, part: bool = False,
) -> TrainingRun:  # fmt: skip
    """Return the training problem of labelled data with its oracle, not run yet.

    Parameters
    ----------
    svm : StructuredEstimator
    grounded : Grounded
        The data.
    request : FitRequest
    trainer : TrainerChoice
    executor : Executor
        Shares the work of oracle calls.
    n : int, optional
        How many examples the strength of regularisation refers to, by default those there are.
    part : bool
        Whether these are a part of the data, which may have nothing to learn.
    """
    target, spec, program = request.target_of(grounded), trainer.spec, grounded.program
    if not part:
        require_labels(program.n_variables, program.n_examples)
    require_feasible_truth(grounded)
    risk, loss, needs, hard = target.risk, target.loss, spec.needs, is_hard(svm.C, svm.lam)
    check_pairing(spec, risk, svm.power, sparse=svm.l1 > 0.0, hard=hard)
    weight = check_sample_weight(request.sample_weight, program.n_examples, part)
    strength = svm.C, svm.lam, program.n_examples if n is None else n
    lam, l1 = lam_of(*strength), l1_of(*strength, svm.l1)
    objective = regularized_risk(grounded.parameters, lam, weight, svm.regularization, svm.power, l1)
    if hard:
        largest = float(loss.largest(program).max(initial=0.0))
        objective = replace(objective, hard=True, negligible=NEGLIGIBLE * (largest or 1.0))
    check_convex(spec, risk, objective)
    parameters = risk.asked_about(grounded.parameters, loss)
    completes = spec.completes and bool(grounded.declaration.latents) and not risk.relaxed
    estimates: list[CostEstimate] = []

    def check_plan(need: Need, chosen: Plan) -> None:
        """Refuse a fit that needs more memory than is free; note how long it is expected to take."""
        require_fit_memory(parameters, chosen, risk, spec, svm.model.declaration.name)
        asked = risk, loss, spec, svm.power, svm.max_passes, feature_seconds(parameters)
        estimates.append(fit_cost_estimate(need, chosen, *asked))

    session: PlannedSession
    try:
        with within(request.deadline):
            if risk.of_maxima and (needs.factored or needs.asks_marginals):
                check_factored(spec, risk, svm.power, grounded.parameters, loss)
            tasks, abilities, weakest, _ = risk.asks(loss, needs)
            tasks |= {Task.MAP_CLAMPED} if completes else frozenset()
            asked = Guarantee.BOUND if risk.relaxed else Guarantee(svm.guarantee)  # no relaxation has exact answers
            priced = risk.loss(loss).factors
            ask = Ask(tasks, svm.backend, svm.backend_options, asked, weakest, abilities, priced)
            kept = grounded.kept if parameters.program is program else None
            session = open_session(parameters.program, ask, parameters, kept, announce=check_plan, starts=False)
    except OutOfTime:
        session = UnplannedSession(parameters.program, None, None)
    if isinstance(session, UnplannedSession):
        estimates = [CostEstimate("this fit", session.plan.backend, program.n_examples, np.nan)]
    if needs.hulls:  # their trainers ask the kinds of constraints for rows
        parameters = replace(parameters, program=with_rules(parameters.program, registry()))
    problem = risk.problem(parameters, loss, objective, session, executor, needs)
    if completes and isinstance(problem, MarginProblem):  # as all problems of such trainers are
        problem = CompletingProblem(problem, unknown_variables(grounded))
    if problem.accuracy.overflows:
        refuse_excess(problem.accuracy)
    # a declared loss that the risk does not look at makes room: it is as large as the scores
    return TrainingRun(trainer, problem, risk, estimates[0], target.facts)


def run_trainer(
    svm: StructuredEstimator, data: Grounded | ShardedData, run: TrainingRun, request: FitRequest, start: F64 | None
) -> TrainingRun:
    """Train on one convex problem, from some weights or from 0; return the run."""
    spec, options, problem = run.trainer.spec, run.trainer.options, run.problem
    deadline, begun = request.deadline, request.deadline.spent
    if slow := run.estimate.warning(svm.max_seconds, svm.tol):
        warn_caller(slow)
    shown: Any = nullcontext()
    if svm.verbose:
        from ssvm_dsl.report.progress import FitProgress

        expected = str(run.estimate) if run.estimate.pass_seconds >= 1.0 else ""
        shown = FitProgress(svm.tol, svm.max_passes, expected=expected)
    checkpoint = None if svm.checkpoint is None else _checkpoint(svm, run, start)
    validation = None if request.held_out is None else _validation(svm, data, request)
    ahead = compiling_ahead(spec.name, run.risk.name, problem.session.plan.backend)
    try:
        with shown as display, ahead:
            run.progress = train(
                spec.load()(**options, random_state=seed_of(svm.random_state)), problem,
                StopRule(svm.tol, svm.max_passes, svm.max_seconds or np.inf), spec=spec,
                keep_best=bool(options.get("best_iterate", spec.best_iterate)), unit=run.unit(svm), start=start,
                callbacks=[*(svm.callbacks or ()), *registry().listeners(), *([display.update] if display else ())],
                checkpoint=checkpoint, validation=validation, deadline=deadline,
                model_of=partial(with_weights, svm, data),
            )  # fmt: skip
    except InseparableError as err:  # shown with the names of the user's classes
        if not isinstance(data, Grounded) or not err.proof:
            raise
        raise InseparableError(f"{err}\n{proof_lines(data, err)}", err.proof) from None
    request.times.add(deadline.spent - begun, run.progress)
    return run


def with_weights(svm: Kind, data: Grounded | ShardedData, w: F64) -> Kind:
    """Return a copy of an estimator with these weights, of which nothing else is known."""
    made: Kind = clone(svm)
    made.fitted_ = Fitted(w, data.parameters.blocks, data.fitted)
    return made


def _checkpoint(svm: StructuredEstimator, run: TrainingRun, start: F64 | None) -> Checkpoint | None:
    """Return where the fit keeps its state; ``None`` on shards that are not all there."""
    spec, problem = run.trainer.spec, run.problem
    if isinstance(problem, ShardedProblem) and not problem.complete:
        return None
    if not spec.resumable:
        able = [other.name for other in registry().specs(TrainerSpec) if other.resumable]
        raise TrainingError(f"trainer '{spec.name}' keeps no checkpoints; these do: {', '.join(able)}")
    facts: dict[str, Any] = {"trainer": spec.name, "trainer_options": named_options(run.trainer.options)}
    chosen = problem.session.plan
    facts |= {"random_state": seed_of(svm.random_state), "risk": run.risk.name}
    facts |= {"backend": chosen.backend, "backend_options": dict(chosen.options)}
    facts |= {"C": float(svm.C)} if svm.lam is None else {"lam": float(svm.lam)}
    facts |= {} if start is None else {"weights to start from": start}
    facts |= run.facts
    assert svm.checkpoint is not None
    return Checkpoint(Path(svm.checkpoint), fingerprint(problem, facts), svm.checkpoint_seconds)


def _validation(svm: StructuredEstimator, data: Grounded | ShardedData, request: FitRequest) -> Validation:
    """Return what watches the score on held-out examples.

    Raises
    ------
    DataError
        Bad held-out data.
    """
    probe = with_weights(svm, data, np.zeros(data.parameters.dim))
    scorer = scorer_of(probe)

    def score(w: F64) -> float:
        probe.coef_ = w
        with within(request.deadline):
            return scorer(probe, *request.held_out)

    try:
        score(np.zeros(data.parameters.dim))  # bad validation data are refused before training
    except DataError as err:
        raise err.of("validation") from err.__cause__
    except OutOfTime:
        pass  # the fit ends before it asks for a score
    return Validation(score, svm.patience)


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
