"""Latent variables: their states are completed and weights fitted to them in turn (CCCP).

With latent variables h the objective is not convex:

    J(w) = lam/2 |w|^2 + 1/n sum_i [ max_(y, h) (loss(y_i, y) + s_w(y, h)) - max_h s_w(y_i, h) ] .

The concave part is replaced by its tangent: each round completes the labels, ``h_i = argmax_h s_w(y_i, h)``, and then
fits the convex problem in which these are true, from the weights at hand (Yuille and Rangarajan, Neural Computation
2003; Yu and Joachims, ICML 2009).  Neither step raises J; rounds end when a completion changes nothing, or gains less
than the tolerance.  The certificate holds for the last convex problem, not for the whole.

Online trainers (``TrainerSpec.completes``) complete an example whenever they visit it, without rounds: with the risk
``perceptron`` that is the latent structured perceptron (:mod:`ssvm_dsl.learning.risks.hinges.margin`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, NoLabellingError, OptionError, OutOfTime, TrainingError
from ssvm_dsl.inference.batch import solve_batch
from ssvm_dsl.inference.diagnosis.true_labels import nearest_states, unknown_variables
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.ir.features import FeatureMap
from ssvm_dsl.ir.loss import ADDITIVE, JOINT, LossTerm
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.lang.outputs.labels import Latent
from ssvm_dsl.learning.driver.trainer_choice import TrainerChoice
from ssvm_dsl.learning.estimators.fitted import FitRequest
from ssvm_dsl.learning.estimators.fitting.training import TrainingRun, planned_run, run_trainer
from ssvm_dsl.learning.estimators.parameters import seed_of
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.risks.kinds import Problem, Risk
from ssvm_dsl.loading import loading
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.units import number_text

#: How latent states begin, by name.
K_MEANS, RANDOM = "k-means", "random"

#: Starts from random weights at most, where no number is given, and the share of an objective that counts as the same.
MOST_STARTS, SAME = 8, 0.01


@dataclass(frozen=True)
class LatentOptions:
    """How latent variables are learnt.

    Parameters
    ----------
    init : {"k-means", "random"} or list
        What they begin with: clusters of the features that a factor of a latent label has, else of the known labels
        that factors join its variables with; the best states under random weights, which is also what there is
        without either; or given ones, in the form that ``latents`` returns.  Clusters that a rule, a mask or a
        constraint rules out give way to the nearest allowed states; given ones are refused.
    rounds : int
        Completions at most.
    restarts : int, optional
        Runs from different beginnings; that of the lowest objective is kept.  By default one, and from random weights
        up to :data:`MOST_STARTS`, until two of them end at the same lowest objective.
    """

    init: Any = K_MEANS
    rounds: int = 20
    restarts: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> LatentOptions:
        """Return checked options.

        Raises
        ------
        OptionError
            Names the option, the expected value and the given one.
        """
        options = {} if given is None else given
        if not isinstance(options, Mapping) or set(options) - set(cls.__dataclass_fields__):
            known = ", ".join(cls.__dataclass_fields__)
            raise OptionError(f"latent_options must be None or a dict with some of {known}, got {given!r}")
        made = cls(**options)
        for name in ("rounds", "restarts"):
            value = getattr(made, name)
            if name == "restarts" and value is None:
                continue
            if not (isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1):
                raise OptionError(f"latent_options: {name} must be a positive int, got {value!r}")
        if isinstance(made.init, str) and made.init not in (K_MEANS, RANDOM):
            raise OptionError(f"latent_options: init is 'k-means', 'random' or a list of states, got {made.init!r}")
        return made

    def require_one_start(self, spec: TrainerSpec) -> None:
        """Refuse restarts of a trainer that completes as it goes.

        Raises
        ------
        OptionError
            There are some.
        """
        if self.restarts is not None and self.restarts > 1:
            text = f"trainer '{spec.name}' minimises no objective to compare restarts by"
            cure = "fit with several random_state and keep the best score on other examples, or use a trainer of convex"
            raise OptionError(f"latent_options: {text}; leave them out: {cure} problems")


def train_with_latents(
    svm: StructuredEstimator, grounded: Grounded, request: FitRequest, trainer: TrainerChoice, executor: Executor,
    start: F64 | None,
) -> tuple[TrainingRun, dict[str, Any]]:  # fmt: skip
    """Return the best run of completing latent variables and fitting in turn, and what its report says besides.

    Trainers that complete an example at each visit run once.
    """
    options, target = LatentOptions.of(svm.latent_options), request.target_of(grounded)
    check_latent(target.risk, target.loss, svm.checkpoint)
    if trainer.spec.completes:
        options.require_one_start(trainer.spec)
        data = begun(svm, grounded, options, executor, request.deadline, start)
        return run_trainer(svm, data, planned_run(svm, data, request, trainer, executor), request, start), {}
    best: tuple[TrainingRun, list[float]] | None = None
    repeats = options.restarts is None and start is None and begins_at_random(grounded, options)
    ends: list[float] = []
    for restart in range(MOST_STARTS if repeats else options.restarts or 1):
        first = start if restart == 0 else None
        run, objectives = _rounds(svm, grounded, request, trainer, executor, first, options, restart)
        best = (run, objectives) if best is None or objectives[-1] < min(ends) else best
        ends.append(objectives[-1])
        if run.progress.reason in ("interrupt", "callback") or request.deadline.over:
            break
        if repeats and np.sum(np.array(ends) <= min(ends) + SAME * abs(min(ends))) > 1:
            break
    assert best is not None
    run, objectives = best
    unit = run.unit(svm)
    more: dict[str, Any] = {"latent_objectives": tuple(unit * value for value in objectives)}
    if repeats:
        lowest, highest = (number_text(unit * value, ".4g") for value in (min(ends), max(ends)))
        text = f"{len(ends)} starts from random weights end at objectives from {lowest} to {highest}"
        more["chosen"] = {"restarts": text}
    return run, more


def _rounds(
    svm: StructuredEstimator, grounded: Grounded, request: FitRequest, trainer: TrainerChoice, executor: Executor,
    start: F64 | None, how: LatentOptions, seed: int,
) -> tuple[TrainingRun, list[float]]:  # fmt: skip
    """Complete latent variables and fit in turn until neither changes much, or time is up.

    Returns
    -------
    run : TrainingRun
        The last fit.
    objectives : list of float
        J after each fit and each completion; it never rises.
    """
    deadline, complete_at = request.deadline, _completer(svm, grounded, executor, request.deadline)
    w, states = start, beginning(grounded, how, seed + (seed_of(svm.random_state) or 0), start, complete_at)
    kept: TrainingRun | None = None
    objectives: list[float] = []
    for _ in range(how.rounds):
        if kept is not None and deadline.over:
            kept.progress.unsettled = "stopped at max_seconds"
            break
        data = completed(grounded, states)
        run = planned_run(svm, data, request, trainer, executor)
        before = np.inf if w is None else objective_in_time(run.problem, w, deadline)
        if kept is not None:
            objectives.append(min(before, objectives[-1]))
            if objectives[-2] - before <= svm.tol * abs(before):
                break
        progress = run_trainer(svm, data, run, request, w).progress
        if kept is not None and progress.comparable > before:  # less than a tolerance was left to gain
            break
        kept = run
        objectives.append(progress.comparable)
        if progress.reason in ("interrupt", "callback"):
            break
        w, old = progress.w, states
        found = None if deadline.over else complete_at(w)
        if found is None:
            progress.unsettled = "stopped at max_seconds"
            break
        if (found == old).all():
            break
        states = found
    else:
        assert kept is not None
        kept.progress.unsettled = f"stopped after rounds={how.rounds} (latent_options)"
    assert kept is not None
    return kept, objectives


def begun(
    svm: StructuredEstimator, grounded: Grounded, how: LatentOptions, executor: Executor, deadline: Deadline,
    start: F64 | None,
) -> Grounded:  # fmt: skip
    """Return the data in which the states that latent variables begin with are true."""
    complete_at = _completer(svm, grounded, executor, deadline)
    return completed(grounded, beginning(grounded, how, seed_of(svm.random_state) or 0, start, complete_at))


def _completer(
    svm: StructuredEstimator, grounded: Grounded, executor: Executor, deadline: Deadline
) -> Callable[[F64], I32 | None]:
    """Return what finds the best states of latent variables at weights, ``None`` where time is up before."""
    parameters = clamped(grounded)
    backend = svm.backend, svm.backend_options, Guarantee(svm.guarantee)
    return lambda w: complete(grounded, parameters, w, executor, *backend, deadline)


def beginning(
    grounded: Grounded, options: LatentOptions, seed: int, start: F64 | None, complete_at: Callable[[F64], I32 | None]
) -> I32:
    """Return the states that latent variables begin with: best at the weights so far, drawn, clustered or given.

    Where time is up before the best ones are found, they are drawn.

    Parameters
    ----------
    grounded : Grounded
    options : LatentOptions
    seed : int
    start : ndarray of float64, shape (dim,), optional
        Weights to continue from.
    complete_at : callable
        Returns the best states at weights.
    """
    assert grounded.truth is not None
    if start is None and not begins_at_random(grounded, options):
        given = "" if isinstance(options.init, str) else "latent_options['init']"
        return nearest_states(grounded, first_states(grounded, options, seed), given)
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal(grounded.parameters.dim)
    completed = complete_at(np.maximum(drawn, grounded.parameters.lower_bound) if start is None else start)
    if completed is not None:
        return completed
    states, latent = grounded.truth.copy(), grounded.layout.latent
    states[latent] = rng.integers(grounded.program.card[latent])
    return nearest_states(grounded, states)


def first_states(grounded: Grounded, options: LatentOptions, seed: int) -> I32:
    """Return the states of all variables, those of latent ones clustered or given.

    Raises
    ------
    DataError
        Given states do not fit.
    """
    assert grounded.truth is not None
    layout, states, rng = grounded.layout, grounded.truth.copy(), np.random.default_rng(seed)
    latents = grounded.declaration.latents
    if not isinstance(options.init, str):
        given, unknown, *_ = layout.encode(options.init, "latent_options['init']", labels=latents)
        if unknown is not None and (unknown & layout.latent).any():
            raise DataError("latent_options['init']", expected="a state of each latent variable", found="some missing")
        states[layout.latent] = given[layout.latent]
        return states
    for label in latents:
        variables = layout.variables(label)
        n = len(states[variables])
        rows = _rows(grounded, label)
        if rows is None or n == 0:
            states[variables] = rng.integers(label.n_states, size=n)
        else:
            states[variables] = _clusters(rows, label.n_states, seed)
    return states


def begins_at_random(grounded: Grounded, options: LatentOptions) -> bool:
    """Whether latent variables begin with what is best at random weights: that is asked for, or nothing is known."""
    if isinstance(options.init, str) and options.init == K_MEANS:
        return all(_rows(grounded, label) is None for label in grounded.declaration.latents)
    return isinstance(options.init, str)


def _rows(grounded: Grounded, label: Latent) -> F64 | None:
    """Return what the variables of a latent label are clustered by, ``None`` where nothing is known of them."""
    features = _features(grounded, label)
    return _labels_around(grounded, label) if features is None else features


def _labels_around(grounded: Grounded, label: Latent) -> F64 | None:
    """Return the shares of the known labels that factors join each variable with, ``None`` where they join none.

    One block of columns for each group of factors and each place that known labels have in them.
    """
    assert grounded.truth is not None
    program, truth, unknown = grounded.program, grounded.truth, unknown_variables(grounded)
    variables = np.flatnonzero(np.isin(np.arange(program.n_variables), _variables_of(grounded, label)))
    place = np.full(program.n_variables, -1)
    place[variables] = np.arange(len(variables))
    blocks: list[F64] = []
    for group in program.groups:
        scope = group.shapes.variables(None)
        for mine in range(scope.shape[1]):
            for other in range(scope.shape[1]):
                there = (place[scope[:, mine]] >= 0) & ~unknown[scope[:, other]]
                if mine == other or not there.any():
                    continue
                counts = np.zeros((len(variables), group.cards[other]))
                np.add.at(counts, (place[scope[there, mine]], truth[scope[there, other]]), 1.0)
                blocks.append(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))
    varies = [block for block in blocks if (block != block[0]).any()]
    return np.hstack(varies) if varies else None


def _variables_of(grounded: Grounded, label: Latent) -> I64:
    """Return the numbers of the variables of a label."""
    return np.arange(grounded.program.n_variables)[grounded.layout.variables(label)]


def _features(grounded: Grounded, label: Latent) -> F64 | None:
    """Return the features of each variable of a latent label, ``None`` where no factor has any."""
    maps: dict[str, FeatureMap] = {one.name: one for one in grounded.parameters.maps}
    n = len(grounded.layout.card[grounded.layout.variables(label)])
    for factor in grounded.declaration.factors:
        fmap = maps[factor.name]
        own = factor.target.covers and factor.target.label is label and fmap.n_factors == n
        if own and isinstance(fmap.features, np.ndarray) and not factor.joint:
            return fmap.features[fmap.rows_of(None)]
    return None


def _clusters(rows: F64, k: int, seed: int) -> I32:
    """Return the number of the cluster of each row.

    One thread: several add their sums in any order, so that ties would fall now this way, now that, and they would
    not be there in a process forked later, which waits for them.
    """
    with loading():
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

    distinct = len(np.unique(rows, axis=0))
    with threadpool_limits(1, user_api="openmp"):
        cluster = KMeans(n_clusters=min(k, distinct), n_init=3, random_state=seed).fit_predict(rows)
    return np.asarray(cluster, dtype=np.int32)


def completed(grounded: Grounded, states: I32) -> Grounded:
    """Return the grounded data with these states as the truth."""
    assert grounded.loss is not None
    return replace(grounded, truth=states, loss=replace(grounded.loss, truth=states))


def clamped(grounded: Grounded) -> ParameterMap:
    """Return the parameters of the program in which variables whose labels are known have no other state."""
    program, fixed = grounded.program, ~unknown_variables(grounded)
    assert grounded.truth is not None
    allowed = np.ones(program.n_states, dtype=bool) if program.allowed is None else program.allowed.copy()
    only = np.zeros(program.n_states, dtype=bool)
    only[program.state_ptr[:-1] + grounded.truth] = True
    allowed &= only | ~np.repeat(fixed, program.card)
    return replace(grounded.parameters, program=replace(program, allowed=allowed))


def complete(
    grounded: Grounded,
    parameters: ParameterMap,
    w: F64,
    executor: Executor,
    backend: str,
    options: dict[str, Any] | None,
    guarantee: Guarantee,
    deadline: Deadline,
) -> I32 | None:
    """Return the best states of latent variables under w, given the known labels; ``shape (V,)``.

    ``None`` where time is up before there is a labelling of each example.

    Parameters
    ----------
    grounded : Grounded
        With labels.
    parameters : ParameterMap
        What :func:`clamped` returned for them.
    w, executor, backend, options, guarantee, deadline
        As in a prediction.
    """
    assert grounded.truth is not None
    kept = None if grounded.kept is None else grounded.kept.masked(parameters)
    if kept is not None:  # the rounds of a fit, and of the next one with these labels, share a session
        parameters = replace(parameters, program=kept.parameters.program)
    ask = Ask(frozenset({Task.MAP}), backend, options, guarantee)
    try:
        with within(deadline):
            session = open_session(parameters.program, ask, parameters, kept, starts=False)
        solution = solve_batch(parameters, session, executor, w, deadline=deadline)
    except OutOfTime:
        return None
    except NoLabellingError:
        if deadline.limit == np.inf:
            raise
        return None
    return np.where(grounded.layout.latent, solution.labels, grounded.truth).astype(np.int32)


def objective_in_time(problem: Problem, w: F64, deadline: Deadline) -> float:
    """Return the objective at weights with the labellings found, its bound where time cuts these short; or infinity."""
    try:
        with within(deadline):
            value, upper = problem.value(w)
    except OutOfTime:
        return np.inf
    return upper if problem.cut_short and np.isfinite(upper) else value


def check_latent(risk: Risk, declared: LossTerm, checkpoint: str | None) -> None:
    """Refuse risks, losses and options that do not support latent variables.

    Raises
    ------
    TrainingError
        The loss compares whole labellings, or the risk does; the risk is relaxed; a checkpoint is asked for.
    """
    reason = "the states of latent variables are not part of the truth"
    if risk.loss(declared).kind not in (ADDITIVE, JOINT):
        if declared.kind not in (ADDITIVE, JOINT):
            text = f"latent variables need a loss that adds up over variables, not {declared.called}"
            raise TrainingError(f"{text}: {reason}; use Hamming or Cost")
        text = f"risk '{risk.name}' compares whole labellings, which models with latent variables do not allow"
        raise TrainingError(f"{text}: {reason}; risk='margin' takes them")
    if risk.relaxed:
        raise TrainingError("risk 'relaxed' is not for models with latent variables; risk='margin' takes them")
    if checkpoint is not None:
        raise TrainingError("checkpoint= is not available for models with latent variables: each round is a new fit")


def checked_stream(spec: TrainerSpec, options: Mapping[str, Any] | None) -> LatentOptions:
    """Return the options of a stream with latent variables.

    Raises
    ------
    TrainingError
        The trainer keeps planes, which a completion would make wrong.
    """
    if not spec.completes:
        text = f"partial_fit: trainer '{spec.name}' cannot complete latent variables as it goes"
        raise TrainingError(f"{text}; trainer='perceptron' can, and fit with any trainer")
    return LatentOptions.of(options)
