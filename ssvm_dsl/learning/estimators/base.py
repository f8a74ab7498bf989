"""``Learner``: how an estimator's weights are learnt - planning, training, checkpoints, certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.features.kernel_features import kernel_ranks
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import OptionError, OutOfTime, TrainingError, memory_for
from ssvm_dsl.inference.diagnosis.feasible_truth import require_feasible_truth, unknown_variables
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules.constraint_rules import with_rules
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.inference.unopened import UnplannedSession
from ssvm_dsl.ir.need import Guarantee, Need, Task
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.driver.certificate import Certificate
from ssvm_dsl.learning.driver.checkpoint import Checkpoint, fingerprint
from ssvm_dsl.learning.driver.compile_ahead import compiling_ahead
from ssvm_dsl.learning.driver.cost_estimate import CostEstimate, feature_seconds, fit_cost_estimate, require_fit_memory
from ssvm_dsl.learning.driver.fit import Callback, train
from ssvm_dsl.learning.driver.interrupts import ends_the_caller, follows_an_interrupt
from ssvm_dsl.learning.driver.progress import Progress
from ssvm_dsl.learning.driver.times import Times
from ssvm_dsl.learning.driver.trainer_choice import FitFacts, TrainerChoice, choose
from ssvm_dsl.learning.estimator import clone
from ssvm_dsl.learning.estimators.check_parameters import check_parameters, check_validation
from ssvm_dsl.learning.estimators.fitting.column_scales import scale_warning
from ssvm_dsl.learning.estimators.fitting.fit_warnings import (
    convergence_warning,
    refuse_excess,
    uncomputed_warning,
    warn_of,
)
from ssvm_dsl.learning.estimators.fitting.fitted_report import report_of, without_objective
from ssvm_dsl.learning.estimators.fitting.given_weights import lay_weights
from ssvm_dsl.learning.estimators.fitting.hard_margins import NEGLIGIBLE, named_proof
from ssvm_dsl.learning.estimators.fitting.held_out import validation_of
from ssvm_dsl.learning.estimators.fitting.latent import (
    MOST_STARTS,
    SAME,
    LatentOptions,
    LatentRun,
    beginning,
    begins_at_random,
    check_latent,
    checked_stream,
    clamped,
    complete,
    completed,
    objective_in_time,
)
from ssvm_dsl.learning.estimators.fitting.stream import Stream, check_weights
from ssvm_dsl.learning.estimators.fitting.training_target import FitRequest, TargetOf, TrainingTarget
from ssvm_dsl.learning.estimators.linked_report import LinkedReport
from ssvm_dsl.learning.estimators.predictor import Predictor
from ssvm_dsl.learning.estimators.scoring import Scoring
from ssvm_dsl.learning.objective import (
    check_sample_weight,
    convention,
    is_hard,
    l1_of,
    lam_of,
    regularized_risk,
    require_labels,
)
from ssvm_dsl.learning.risks.factored import check_factored
from ssvm_dsl.learning.risks.hinges.completing import CompletingProblem
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.learning.risks.kinds import Problem, Risk, check_convex, check_pairing, weakest_oracle
from ssvm_dsl.learning.seeds import Seed, seed_of
from ssvm_dsl.learning.shards.fit import ShardedData
from ssvm_dsl.learning.shards.problem import ShardedProblem
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.options import named_options
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.plugin_api.training import StopRule
from ssvm_dsl.registry import registry
from ssvm_dsl.report.notices import announce_compiling
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.units import number_text


class Learner(Predictor):
    """An estimator whose weights are learnt by a trainer; subclasses define the risk.

    They list its parameters, which :class:`~ssvm_dsl.StructuredSVM` documents, beside those of their risks, each with
    its default, in the signature of ``__init__``, as scikit-learn wants it.
    """

    C: float
    lam: float | None
    l1: float = 0.0
    power: float
    trainer: str
    tol: float
    max_passes: float
    max_seconds: float | None
    random_state: Seed
    trainer_options: dict[str, Any] | None
    regularization: Mapping[Any, float] | None
    warm_start: bool
    verbose: bool
    callbacks: Sequence[Callback] | None
    patience: int
    scoring: Scoring
    checkpoint: str | None
    checkpoint_seconds: float
    latent_options: Mapping[str, Any] | None
    report_ = LinkedReport()
    _certificate: Certificate

    @classmethod
    def from_weights(
        cls, model: type[Model], weights: Mapping[Any, Any], *, fitted_on: Any = None, **parameters: Any
    ) -> Self:
        """Return an estimator that predicts with given weights; a fit with ``warm_start=True`` starts from them.

        Parameters
        ----------
        model : Model class
        weights : mapping of Factor (or its name) to array
            In the shapes that ``print(model)`` shows; where there is one weight, a number or an array of one.
        fitted_on : list of examples, optional
            The examples on which features of the model are fitted (``PLiF`` with ``Quantiles``, ``Whitened`` ...).
        **parameters
            Of the estimator.

        Raises
        ------
        OptionError
            Weights are missing, or of another shape.

        Examples
        --------
        >>> StructuredSVM.from_weights(OCR, {OCR.emit: emit, OCR.trans: trans}).predict(X)
        """
        made = cls._of_model(model, parameters)
        made._check()
        fitted = None if fitted_on is None else made._ground(fitted_on).fitted
        made.coef_, made._blocks = lay_weights(model.declaration, weights, fitted)
        made._fitted = fitted or {}
        return made

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Keep the parameters that ``__init__`` was given: all its local variables are parameters."""
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

    @property
    def _strength(self) -> float:
        """``C``, which tells whether it was given."""
        return self.C

    def _check(self) -> None:
        """Refuse parameters that make no sense."""
        check_parameters(self)

    def _choose(
        self, grounded: Grounded, target_of: TargetOf, sample_weight: Any, executor: Executor, deadline: Deadline,
        start: F64 | None,
    ) -> F64 | None:  # fmt: skip
        """Choose what parameters leave open, now that the data are known; return the weights to start from."""
        return start

    def _choose_alone(self, grounded: Grounded) -> None:
        """Choose what parameters leave open by some of the data alone: those of a stream, or of a shard."""

    def _remark(self, grounded: Grounded) -> None:
        """Warn of labels that carry no information, if the estimator learns labels."""

    def _remark_learnt(self, X: Any, Y: Any, grounded: Grounded) -> None:
        """Warn of what the fitted model does not do on the training data, if the estimator learns labels."""

    @memory_for("fit", "give it fewer examples, or a model with fewer states, factors or features")
    def _learn(
        self, X: Any, Y: Any, target_of: TargetOf, sample_weight: Any = None, held_out: Any = None,
        deadline: Deadline | None = None,
    ) -> None:  # fmt: skip
        """Learn the weights from labelled examples.

        ``target_of`` returns the objective on them; the time of ``deadline`` began with the call.
        """
        self._check()
        announce_compiling()
        deadline, followed = deadline or Deadline(self.max_seconds or np.inf), follows_an_interrupt()
        check_validation(self, held_out)
        self._trainer()  # mistakes in names and options are found before any work
        start = self.coef_ if self.warm_start and hasattr(self, "coef_") else None
        with within(deadline):
            grounded = self._ground(X, Y, fitted=None if start is None else self._fitted, in_time=True)
        if start is not None and self._blocks != grounded.parameters.blocks:
            raise OptionError("warm_start: the last fit had other factors; set warm_start=False to start from zero")
        self._remark(grounded)
        missing, last = grounded.n_uncomputed, start
        if missing:  # nothing is learnt from features that are not there
            deadline.end()
            start = None
        with self._executor() as executor:
            start = self._choose(grounded, target_of, sample_weight, executor, deadline, start)
            trainer = self._trainer_of(grounded)
            fit = FitRequest(target_of, trainer, sample_weight, held_out, deadline)
            if uneven := scale_warning(grounded, trainer.spec):
                warn_caller(uneven)
            if grounded.declaration.latents and trainer.spec.completes:
                progress, problem, target = self._learn_latent_online(grounded, fit, executor, start)
            elif grounded.declaration.latents:
                progress, problem, target = self._learn_latent(grounded, fit, executor, start)
            else:
                problem, estimate, target = self._asked(grounded, fit, executor)
                grounded = replace(grounded, loss=None)
                progress = self._fit_once(grounded, problem, estimate, target, fit, start)
                self._take(grounded, progress, problem, trainer)
        text = self._concluded(progress, problem, target, fit, followed)
        if missing:
            text = f"{uncomputed_warning(missing, grounded.n_examples, last is not None)}; {text}"
            if last is not None:  # nothing is known of these weights on data without features
                self.coef_, self._certificate = last, replace(self._certificate, risk=np.inf)
                self.report_ = without_objective(self.report_)
        warn_of(text)
        if not missing:
            self._remark_learnt(X, Y, grounded)

    def _concluded(
        self, progress: Progress, problem: Problem, target: TrainingTarget, fit: FitRequest, followed: bool
    ) -> str:
        """Complete the report of a fit; raise if Ctrl-C is to end the caller's loop; return the text of a warning."""
        self._stream: Stream | None = None
        self.report_ = fit.times.with_times(self.report_, fit.deadline)
        if progress.reason == "interrupt" and (ends_the_caller(followed) or progress.interrupted_twice):
            raise KeyboardInterrupt
        return convergence_warning(self.report_, self.tol, fit.trainer.spec, target.risk, problem, progress)

    def _asked(
        self, grounded: Grounded, fit: FitRequest, executor: Executor
    ) -> tuple[Problem, CostEstimate, TrainingTarget]:
        """Return the training problem of labelled data, its expected cost, and its objective."""
        target, n = fit.target_of(grounded), grounded.n_examples
        spec, weight = fit.trainer.spec, fit.sample_weight
        problem, estimate = self._problem(grounded, target, executor, spec, weight, n, fit.deadline)
        # a declared loss that the risk does not look at makes room: it is as large as the scores
        return problem, estimate, replace(target, loss=problem.loss)

    def _fit_once(
        self, grounded: Grounded | ShardedData, problem: Problem, estimate: CostEstimate, target: TrainingTarget,
        fit: FitRequest, start: F64 | None,
    ) -> Progress:  # fmt: skip
        """Train on one convex problem."""
        spec, options = fit.trainer.spec, fit.trainer.options
        deadline, begun = fit.deadline, fit.deadline.spent
        if slow := estimate.warning(self.max_seconds, self.tol):
            warn_caller(slow)
        stop = StopRule(self.tol, self.max_passes, self.max_seconds or np.inf)
        ahead = compiling_ahead(spec.name, target.risk.name, problem.session.plan.backend)
        with self._listeners(estimate) as listeners, ahead, named_proof(grounded):
            trainer = spec.load()(**options, random_state=self._seed)
            progress = train(
                trainer, problem, stop, spec=spec, keep_best=bool(options.get("best_iterate", spec.best_iterate)),
                unit=self._unit(problem), start=start, callbacks=listeners,
                checkpoint=self._checkpoint(problem, target, spec, options, start),
                validation=validation_of(self, grounded, fit.held_out, self.patience, deadline), deadline=deadline,
                model_of=partial(self._with_weights, grounded),
            )  # fmt: skip
        fit.times.add(deadline.spent - begun, progress)
        return progress

    def _learn_latent(
        self, grounded: Grounded, fit: FitRequest, executor: Executor, start: F64 | None
    ) -> tuple[Progress, Problem, TrainingTarget]:
        """Complete latent variables and fit in turn, from several beginnings; take the best run."""
        options, target = LatentOptions.of(self.latent_options), fit.target_of(grounded)
        check_latent(target.risk, target.loss, self.checkpoint)
        best: LatentRun | None = None
        repeats = options.restarts is None and start is None and begins_at_random(grounded, options)
        ends: list[float] = []
        for restart in range(MOST_STARTS if repeats else options.restarts or 1):
            run = self._latent_run(grounded, fit, executor, start if restart == 0 else None, options, restart)
            best = run if best is None or run.objectives[-1] < best.objectives[-1] else best
            ends.append(run.objectives[-1])
            if run.progress.reason in ("interrupt", "callback") or fit.deadline.over:
                break
            if repeats and np.sum(np.array(ends) <= min(ends) + SAME * abs(min(ends))) > 1:
                break
        assert best is not None
        self._take(grounded, best.progress, best.problem, fit.trainer)
        unit = self._unit(best.problem)
        chosen = dict(self.report_.chosen)
        if repeats:
            lowest, highest = (number_text(unit * value, ".4g") for value in (min(ends), max(ends)))
            chosen["restarts"] = f"{len(ends)} starts from random weights end at objectives from {lowest} to {highest}"
        objectives = tuple(unit * value for value in best.objectives)
        self.report_ = replace(self.report_, latent_objectives=objectives, chosen=chosen)
        return best.progress, best.problem, target

    def _learn_latent_online(
        self, grounded: Grounded, fit: FitRequest, executor: Executor, start: F64 | None
    ) -> tuple[Progress, Problem, TrainingTarget]:
        """Train once, with latent variables completed at each visit of an example."""
        options, target = LatentOptions.of(self.latent_options), fit.target_of(grounded)
        check_latent(target.risk, target.loss, self.checkpoint)
        options.require_one_start(fit.trainer.spec)
        data = self._begun(grounded, options, executor, fit.deadline, start)
        problem, estimate, target = self._asked(data, fit, executor)
        progress = self._fit_once(data, problem, estimate, target, fit, start)
        self._take(grounded, progress, problem, fit.trainer)
        return progress, problem, target

    def _latent_run(
        self, grounded: Grounded, fit: FitRequest, executor: Executor, start: F64 | None, how: LatentOptions, seed: int
    ) -> LatentRun:
        """Complete latent variables and fit in turn until neither changes much, or time is up."""
        complete_at = self._completer(grounded, executor, fit.deadline)
        w, states = start, beginning(grounded, how, seed + (self._seed or 0), start, complete_at)
        run: LatentRun | None = None
        for _ in range(how.rounds):
            if run is not None and fit.deadline.over:
                run.progress.unsettled = "stopped at max_seconds"
                break
            data = completed(grounded, states)
            problem, estimate, target = self._asked(data, fit, executor)
            before = np.inf if w is None else objective_in_time(problem, w, fit.deadline)
            if run is not None:
                run.objectives.append(min(before, run.objectives[-1]))
                if run.objectives[-2] - before <= self.tol * abs(before):
                    break
            progress = self._fit_once(data, problem, estimate, target, fit, w)
            if run is not None and progress.comparable > before:  # less than a tolerance was left to gain
                break
            objectives = [] if run is None else run.objectives
            run = LatentRun(progress, problem, [*objectives, progress.comparable])
            if progress.reason in ("interrupt", "callback"):
                break
            w, old = progress.w, states
            found = None if fit.deadline.over else complete_at(w)
            if found is None:
                progress.unsettled = "stopped at max_seconds"
                break
            if (found == old).all():
                break
            states = found
        else:
            assert run is not None
            run.progress.unsettled = f"stopped after rounds={how.rounds} (latent_options)"
        assert run is not None
        return run

    def _begun(
        self, grounded: Grounded, options: LatentOptions, executor: Executor, deadline: Deadline, start: F64 | None
    ) -> Grounded:
        """Return the data in which the states that latent variables begin with are true."""
        complete_at = self._completer(grounded, executor, deadline)
        return completed(grounded, beginning(grounded, options, self._seed or 0, start, complete_at))

    def _completer(self, grounded: Grounded, executor: Executor, deadline: Deadline) -> Callable[[F64], I32 | None]:
        """Return what finds the best states of latent variables at weights, ``None`` where time is up before."""
        parameters = clamped(grounded)
        backend = self.backend, self.backend_options, Guarantee(self.guarantee)
        return lambda w: complete(grounded, parameters, w, executor, *backend, deadline)

    @memory_for("partial_fit", "give it smaller batches")
    def _learn_more(self, X: Any, Y: Any, target_of: TargetOf, sample_weight: Any = None) -> None:
        """Learn one pass over a batch of a stream of labelled examples."""
        self._check()
        announce_compiling()
        trainer_choice = self._trainer(stream=True)
        spec, options = trainer_choice.spec, trainer_choice.options
        if not spec.incremental:
            able = [other.name for other in registry().specs(TrainerSpec) if other.incremental]
            raise TrainingError(f"trainer '{spec.name}' has no partial_fit; these have: {', '.join(able)}")
        stream: Stream | None = getattr(self, "_stream", None)
        grounded = self._ground(X, Y, fitted=None if stream is None else self._fitted)
        self._choose_alone(grounded)
        target, name = target_of(grounded), spec.name
        fingerprint: dict[str, Any] = {"trainer": name, "trainer_options": named_options(options)}
        fingerprint |= {"random_state": self._seed, "risk": target.risk.name, "power": float(self.power)}
        if stream is not None:
            stream.check(fingerprint)
            if self._blocks != grounded.parameters.blocks:
                raise OptionError("partial_fit: the stream so far had other factors; take a new estimator (clone)")
        elif hasattr(self, "coef_"):
            text = "partial_fit starts a new stream at weights of 0 and discards the weights of the last fit"
            warn_caller(f"{text} (a loaded stream continues from its saved state)")
        seen = grounded.n_examples + (0 if stream is None else stream.n_seen)
        with self._executor() as executor:
            deadline = Deadline()
            if grounded.declaration.latents:
                latent, old = checked_stream(spec, self.latent_options), None if stream is None else self.coef_
                grounded = self._begun(grounded, latent, executor, deadline, old)
                target = target_of(grounded)
            problem, _ = self._problem(grounded, target, executor, spec, sample_weight, seen, deadline)
            with contained(f"trainer '{name}'"):
                trainer = spec.load()(**options, random_state=self._seed)
                learnt = trainer.partial(problem, None if stream is None else stream.state())
            w, state = check_weights(learnt, problem.dim, name)
            stream = Stream.of(name, fingerprint, seen, state)
            progress = Progress(w, n_passes=1.0 + 1.0, reason="stream")  # one to learn, one to look at the objective
            progress.value(problem.evaluation(w), problem)
            progress.tightness = problem.tightness(w)
            progress.oracle_seconds = problem.oracle_seconds
            self._take(grounded, progress, problem, trainer_choice)
            times = Times()
            times.add(problem.oracle_seconds, progress)
            self.report_ = times.with_times(self.report_, deadline)
            self._stream = stream

    @property
    def _seed(self) -> int | None:
        """``random_state`` as a number of Python, which files can hold."""
        return seed_of(self.random_state)

    def _risk(self) -> Risk:
        """Return the risk that is minimised, without its data."""
        raise NotImplementedError

    def _trainer_of(self, grounded: Grounded) -> TrainerChoice:
        """Return the trainer of a fit on these data."""
        single = grounded.program.n_variables == grounded.n_examples
        return self._trainer(grounded.n_examples, grounded.parameters.dim, single=single)

    def _trainer(
        self, n_examples: int | None = None, n_weights: int | None = None, *, single: bool = False,
        shards: bool = False, keeps_shards: bool = True, stream: bool = False,
    ) -> TrainerChoice:  # fmt: skip
        """Return the trainer, by its name or, for ``"auto"``, by what the fit is (:class:`FitFacts`)."""
        free = [value for value in (self.regularization or {}).values() if is_number(value) and value == 0]
        facts = FitFacts(
            self._risk(), float(self.power), self.l1 > 0.0, self.lam != 0 and not free, n_examples, n_weights, single,
            shards, keeps_shards, stream, is_hard(self.C, self.lam),
        )  # fmt: skip
        return choose(self.trainer, self.trainer_options, facts)

    def _problem(
        self, grounded: Grounded, target: TrainingTarget, executor: Executor, spec: TrainerSpec, sample_weight: Any,
        n: int, deadline: Deadline, part: bool = False,
    ) -> tuple[Problem, CostEstimate]:  # fmt: skip
        """Return the training problem with its oracle, and its expected cost; a ``part`` may have nothing to learn."""
        if not part:
            require_labels(grounded.program.n_variables, grounded.n_examples)
        require_feasible_truth(grounded)
        risk, needs = target.risk, spec.needs
        hard = is_hard(self.C, self.lam)
        check_pairing(spec, risk, self.power, sparse=self.l1 > 0.0, hard=hard)
        weight = check_sample_weight(sample_weight, grounded.n_examples, part)
        lam = lam_of(self.C, self.lam, n)
        l1 = l1_of(self.C, self.lam, n, self.l1)
        objective = regularized_risk(grounded.parameters, lam, weight, self.regularization, self.power, l1)
        if hard:
            largest = float(target.loss.largest(grounded.program).max(initial=0.0))
            objective = replace(objective, hard=True, negligible=NEGLIGIBLE * (largest or 1.0))
        check_convex(spec, risk, objective)
        parameters, marginals = risk.asked_about(grounded.parameters, target.loss), needs.asks_marginals
        completes = spec.completes and bool(grounded.declaration.latents) and not risk.relaxed
        session, estimate = self._opened(grounded, parameters, target, spec, completes, deadline)
        if needs.hulls:  # their trainers ask the kinds of constraints for rows
            parameters = replace(parameters, program=with_rules(parameters.program, registry()))
        problem = risk.problem(parameters, target.loss, objective, session, executor, marginals, needs.messages)
        if completes and isinstance(problem, MarginProblem):  # as all problems of such trainers are
            problem = CompletingProblem(problem, unknown_variables(grounded))
        refuse_excess(problem.accuracy)
        return problem, estimate

    def _opened(
        self, grounded: Grounded, parameters: ParameterMap, target: TrainingTarget, spec: TrainerSpec, completes: bool,
        deadline: Deadline,
    ) -> tuple[PlannedSession, CostEstimate]:  # fmt: skip
        """Return the opened session of the planned backend, and the expected cost of the fit."""
        risk, loss, estimates = target.risk, target.loss, list[CostEstimate]()

        def note_plan(need: Need, chosen: Plan) -> None:
            require_fit_memory(parameters, chosen, risk, spec, self.model.declaration.name)
            asked = risk, loss, spec, self.power, self.max_passes, feature_seconds(parameters)
            estimates.append(fit_cost_estimate(need, chosen, *asked))

        try:
            with within(deadline):
                check_factored(spec, risk, self.power, grounded.parameters, loss)
                tasks, abilities = risk.asks(loss, spec.needs.messages, spec.needs.asks_marginals)
                tasks |= {Task.MAP_CLAMPED} if completes else frozenset()
                asked = risk.weakest(Guarantee(self.guarantee))
                ask = Ask(
                    tasks, self.backend, self.backend_options, asked, weakest_oracle(spec, risk, tasks)[0], abilities,
                    risk.loss(loss).factors,
                )  # fmt: skip
                kept = grounded.kept if parameters.program is grounded.program else None
                opened = open_session(parameters.program, ask, parameters, kept, note_plan, starts=False)
                session = opened.session
        except OutOfTime:
            session = UnplannedSession(parameters.program, None, None)
        if isinstance(session, UnplannedSession):
            return session, CostEstimate("this fit", session.plan.backend, grounded.n_examples, np.nan)
        return session, estimates[0]

    def _checkpoint(
        self, problem: Problem, target: TrainingTarget, spec: TrainerSpec, options: dict[str, Any], start: F64 | None
    ) -> Checkpoint | None:
        """Return where the fit keeps its state, if it is to."""
        if self.checkpoint is None or (isinstance(problem, ShardedProblem) and not problem.complete):
            return None
        if not spec.resumable:
            able = [other.name for other in registry().specs(TrainerSpec) if other.resumable]
            raise TrainingError(f"trainer '{spec.name}' keeps no checkpoints; these do: {', '.join(able)}")
        facts: dict[str, Any] = {"trainer": spec.name, "trainer_options": named_options(options)}
        chosen = problem.session.plan
        facts |= {"random_state": self._seed, "risk": target.risk.name}
        facts |= {"backend": chosen.backend, "backend_options": dict(chosen.options)}
        facts |= {"C": float(self.C)} if self.lam is None else {"lam": float(self.lam)}
        facts |= {} if start is None else {"weights to start from": start}
        facts |= target.facts
        return Checkpoint(Path(self.checkpoint), fingerprint(problem, facts), self.checkpoint_seconds)

    @contextmanager
    def _listeners(self, estimate: CostEstimate) -> Iterator[list[Callback]]:
        """Give the callbacks of this fit: the user's, the plug-ins', and the progress display."""
        listeners: list[Callback] = [*(self.callbacks or ()), *registry().listeners()]
        if not self.verbose:
            yield listeners
            return
        from ssvm_dsl.report.progress import FitProgress

        expected = str(estimate) if estimate.pass_seconds >= 1.0 else ""
        with FitProgress(self.tol, self.max_passes, expected=expected) as shown:
            yield [*listeners, shown.update]

    def _with_weights(self, grounded: Grounded | ShardedData, w: F64) -> Self:
        """Return a copy with these weights, of which nothing else is known."""
        made: Self = clone(self)
        made.coef_, made._fitted, made._blocks = w, grounded.fitted, grounded.parameters.blocks
        return made

    def _unit(self, problem: Problem) -> float:
        """Return what turns values of the objective in lam convention into the user's: 1, or C n where C was given."""
        return 1.0 if self.lam is not None else 1.0 / problem.objective.lam

    def _take(
        self, grounded: Grounded | ShardedData, progress: Progress, problem: Problem, trainer: TrainerChoice
    ) -> None:
        """Store the result of a fit: weights, features, certificate, plan and report."""
        self.coef_ = progress.w
        self._certificate = Certificate.of(progress, problem.objective)
        self.plan_ = problem.session.plan
        self._fitted = grounded.fitted
        self._blocks = grounded.parameters.blocks
        convention_text = convention(self.C, self.lam, l1=self.l1)
        report = report_of(progress, problem, trainer, convention_text, self._unit(problem))
        self.report_ = replace(report, chosen=kernel_ranks(grounded.fitted))

    def certified_gap(self, C: float) -> float:
        """Return the relative gap that the last fit certifies for its weights at another C; ``nan`` if it cannot.

        Weights and the bound of the optimum stay valid when C changes; how far they are apart follows without
        looking at the data again (Giesen, Jaggi and Laue 2012).

        Raises
        ------
        OptionError
            C is not a positive number.
        """
        self._check_fitted()
        if not (is_number(C) and 0 < C < np.inf):
            raise OptionError(f"C must be a positive number, got {C!r}")
        if not hasattr(self, "_certificate"):
            raise OptionError("the weights were given (from_weights): nothing is known of the optimum; call fit")
        return self._certificate.relative_gap(C)
