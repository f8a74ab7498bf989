"""``StructuredEstimator``: an estimator of a declared model - parameters, weights, what they answer, and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded, ground
from ssvm_dsl.compiler.durations import why_indivisible
from ssvm_dsl.compiler.features.attributes import require_names
from ssvm_dsl.compiler.inputs import check_sequence
from ssvm_dsl.deadline import Deadline, pause, within
from ssvm_dsl.errors import DataError, InfeasibleError, OptionError, TimeLimitWarning
from ssvm_dsl.files.opening import as_path, check_path
from ssvm_dsl.inference.batch import solve_batch
from ssvm_dsl.inference.diagnosis.missing_answers import MissingAnswers, without_answer
from ssvm_dsl.inference.diagnosis.rules_in_conflict import rules_in_conflict
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.io.model_file import read_model, write_model
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.answers import (
    BEST,
    CHUNK,
    ON_MISSING,
    START_SECONDS,
    AnswerParts,
    KnownScores,
    Listed,
    PredictionRequest,
    call_threads,
    distinct_labellings,
    distinct_ranked,
    indexed,
    joined,
    labellings,
    latent_states,
    most_labellings,
    of_unknown_worth,
    open_answers,
    outputs_ranked,
    probabilities,
    ranked_labellings,
    readable,
    scores_and_bounds,
    unproved,
)
from ssvm_dsl.learning.driver.certificate import FitReport
from ssvm_dsl.learning.driver.cost_estimate import LONG, predict_cost_estimate
from ssvm_dsl.learning.driver.fit import Callback
from ssvm_dsl.learning.driver.trainer_choice import FitFacts, TrainerChoice, choose
from ssvm_dsl.learning.estimator import Estimator, not_fitted
from ssvm_dsl.learning.estimators.fitted import FitRequest, Fitted
from ssvm_dsl.learning.estimators.parameters import EstimatorParameter, Seed, check_choice, check_parameters
from ssvm_dsl.learning.estimators.weights import Weights, lay_weights
from ssvm_dsl.learning.metrics import Scoring
from ssvm_dsl.learning.objective import is_hard
from ssvm_dsl.learning.risks.kinds import Risk
from ssvm_dsl.loading import loading
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.registry import loss_function
from ssvm_dsl.report.notices import announce_compiling

if TYPE_CHECKING:
    from ssvm_dsl.learning.score_report import ErrorReport
    from ssvm_dsl.report.explanation import Explanation, WhyNot

T = TypeVar("T")

#: Of calls without a time limit.
NO_LIMIT = Deadline()


class StructuredEstimator(Estimator):
    """Base of :class:`~ssvm_dsl.StructuredSVM` and :class:`~ssvm_dsl.StructuredRegressor`, which define the risk.

    They list the parameters, which ``StructuredSVM`` documents, each with its default, in the signature of
    ``__init__``, as scikit-learn wants it; :mod:`ssvm_dsl.learning.estimators.parameters` is the table of them.

    Attributes
    ----------
    fitted_ : Fitted
        Weights, and what is known of them.
    """

    model: type[Model]
    C: float
    lam: float | None
    l1: float
    power: float
    trainer: str
    backend: str
    guarantee: str
    tol: float
    max_passes: float
    max_seconds: float | None
    random_state: Seed
    n_threads: int | None
    trainer_options: dict[str, Any] | None
    backend_options: dict[str, Any] | None
    regularization: Mapping[Any, float] | None
    warm_start: bool
    verbose: bool
    callbacks: Sequence[Callback] | None
    patience: int
    scoring: Scoring
    checkpoint: str | None
    checkpoint_seconds: float
    latent_options: Mapping[str, Any] | None
    executor: str
    executor_options: dict[str, Any] | None
    fitted_: Fitted
    _parameters: ClassVar[Mapping[str, EstimatorParameter]]
    _chosen: Mapping[str, str] = {}  # what the fit at hand chose by the data, and why

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes of a pickle; those written before 0.1.0 have no :class:`Fitted`."""
        state = {name: value for name, value in state.items() if name != "_structures"}
        if "coef_" in state:
            state["fitted_"] = Fitted.of_attributes(state)
        vars(self).update(state)

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Keep the parameters that ``__init__`` was given: all its local variables are parameters."""
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

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
        learnt = None if fitted_on is None else made._ground(fitted_on).fitted
        coef, blocks = lay_weights(model.declaration, weights, learnt)
        made.fitted_ = Fitted(coef, blocks, learnt or {})
        return made

    # -- what a fit leaves ----------------------------------------------------------------------------

    @property
    def coef_(self) -> F64:
        """All weights, ``shape (dim,)``."""
        return self._of_fit("coef_").coef

    @coef_.setter
    def coef_(self, w: F64) -> None:
        """Put other weights in their place."""
        self.fitted_ = replace(self._of_fit("coef_"), coef=w)

    @property
    def weights_(self) -> Weights:
        """The weights by factor."""
        fitted = self._of_fit("weights_")
        return Weights(fitted.coef, fitted.blocks, self.model.declaration, fitted.learnt)

    @property
    def report_(self) -> FitReport:
        """Certificate, plan and cost of the last fit; print it."""
        report = self._of_fit("report_").report
        if report is None:
            raise AttributeError("report_: the weights were given (from_weights), so there is no report of a fit")
        report.link(self)
        return report

    @report_.setter
    def report_(self, report: FitReport) -> None:
        """Put another report in its place."""
        self.fitted_ = replace(self._of_fit("report_"), report=report)

    @property
    def plan_(self) -> Plan:
        """The backend used in training."""
        report = self._of_fit("plan_").report
        if report is None:
            text = "the weights were given (from_weights), so there is no plan of a fit"
            raise AttributeError(f"plan_: {text}; prediction_plan(X) returns how X is answered")
        return report.plan

    @property
    def _is_fitted(self) -> bool:
        """Whether there are weights."""
        return "fitted_" in vars(self)

    @property
    def _last_report(self) -> FitReport | None:
        """The report of the last fit, if there is one."""
        return self.fitted_.report if self._is_fitted else None

    def _check_fitted(self) -> None:
        """Refuse what wants weights where there are none."""
        self._of_fit("fitted_")

    def _of_fit(self, name: str) -> Fitted:
        """Return what an attribute is read from."""
        if "fitted_" not in vars(self):
            what = "" if name == "fitted_" else f"{name}: "
            raise not_fitted(f"{what}this {type(self).__name__} is not fitted yet; call fit first")
        return self.fitted_

    if not TYPE_CHECKING:  # attributes that there may be are declared above

        def __getattr__(self, name: str) -> Any:
            """Say why something that ``fit`` learns is not there."""
            attribute = getattr(type(self), name, None)
            if isinstance(attribute, property):  # which has raised this very moment
                return attribute.fget(self)
            if not name.startswith("_") and name.endswith("_"):
                self._of_fit(name)
            if name == "feature_names_in_":
                return self._feature_names()
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def certified_gap(self, C: float) -> float:
        """Return the relative gap that the last fit certifies for its weights at another C; ``nan`` if it cannot.

        Weights and the bound of the optimum stay valid when C changes; how far they are apart follows without
        looking at the data again (Giesen, Jaggi and Laue 2012).

        Raises
        ------
        OptionError
            C is not a positive number.
        """
        certificate = self.fitted_.certificate
        if not (is_number(C) and 0 < C < np.inf):
            raise OptionError(f"C must be a positive number, got {C!r}")
        if certificate is None:
            raise OptionError("the weights were given (from_weights): nothing is known of the optimum; call fit")
        return certificate.relative_gap(C)

    # -- answers --------------------------------------------------------------------------------------

    def _answers(
        self, X: Any, read: Callable[[Grounded, Solution], T], request: PredictionRequest = BEST
    ) -> AnswerParts[T]:
        """Return ``read(grounded chunk, its solution)`` for all examples, chunk by chunk, and what is known of scores.

        Warns of answers that the time limit ended before they were proved best, and of calls that take long.

        Raises
        ------
        MissingAnswerError
            Examples have no answer, and ``on_missing`` is ``"raise"``; the error carries the others' answers.
        OutOfTime
            The end of a call that this one is a part of has cut answers short: a fit does not learn from such.
        """
        deadline = NO_LIMIT if request.time_limit is None else Deadline.of(request.time_limit)
        check_choice(request.on_missing, ON_MISSING, "on_missing")
        fitted = self.fitted_  # before a fit, __getattr__ raises the error for it
        announce_compiling()
        X, request = self._as_asked(X, request)
        examples = self._examples(X)
        n, task, size = len(examples), request.task, max(1, CHUNK // request.k)
        truth = None if request.truth is None else self._as_many(request.truth, "Y", n)
        given = None if request.given is None else self._as_many(request.given, "given", n)
        parts, known, late = list[T](), list[KnownScores](), False
        missing, limited = MissingAnswers(task), deadline.limit < np.inf
        with call_threads(self.n_threads) as executor:
            for lo in range(0, n, size):
                hi = min(lo + size, n)
                with within(deadline) if limited else nullcontext():
                    grounded = self._ground_as_fitted(
                        examples[lo:hi], None if truth is None else truth[lo:hi], first=lo,
                        given=None if given is None else given[lo:hi], in_time=True, unseen=request.unseen,
                    )  # fmt: skip
                    parameters, program = grounded.parameters, grounded.program
                    ask = self._ask(task, lo)
                    session = open_session(program, ask, parameters, grounded.kept)
                if grounded.n_uncomputed:
                    pause()  # a call around this one may be what ends
                    deadline.end()
                if lo == 0 and session.plan.seconds * n > min(deadline.limit, LONG) * hi:
                    expected = predict_cost_estimate(ask.need(parameters, program), session.plan, n)
                    if slow := expected.warning(deadline.limit):
                        warn_caller(slow)
                mine = deadline.share((hi - lo) / (n - lo)) if limited and hi - lo < n else deadline
                if limited and program.constraints:  # a labelling of every example, should all time go
                    mine = mine.share(1.0)
                    mine.reserve = min(mine.left / 4.0, START_SECONDS * (hi - lo))
                k = 1 if request.k == 1 else min(request.k, most_labellings(program))
                asked = (parameters, session, executor, fitted.coef, task, k, lo, mine, missing)
                solution = solve_batch(*asked)
                if grounded.n_uncomputed and task is not Task.MARGINALS:
                    solution = of_unknown_worth(solution, hi - lo - grounded.n_uncomputed)
                if solution.complete:
                    known.append(KnownScores(solution.score, solution.bound))
                    parts.append(read(grounded, solution))
                else:
                    known.append(KnownScores(solution.score, solution.bound, open_answers(solution)))
                    late = late or bool(known[-1].open.any())
                    parts.append(readable(read, grounded, solution, without_answer(solution, task)))
                del grounded, parameters, program, session, asked, solution  # before the next one is laid out
        if late or missing.without:
            pause()  # the call around would learn from answers that its end has cut short
        if request.on_missing == "raise" and (missing.infeasible or missing.without):
            if missing.infeasible:
                first = missing.infeasible[0]
                missing.because(self._why_none(examples[first], None if given is None else given[first], deadline))
            missing.check(joined(parts))
        if late:
            text = f"{unproved(known)}; raise time_limit, or look at predict(..., return_bounds=True)"
            warn_caller(text, TimeLimitWarning)
        return AnswerParts(parts, known)

    def _ask(self, task: Task, first: int = 0) -> Ask:
        """Return what is asked of a backend for predictions; the first example of a chunk has this number."""
        return Ask(frozenset({task}), self.backend, self.backend_options, self._guarantee(), first=first)

    def _as_many(self, labels: Any, what: str, n: int) -> Sequence[Any]:
        """Return a list of labels as the model takes them; refuse one of another length."""
        checked = check_sequence(self._labels(labels), what)
        if len(checked) != n:
            raise DataError(what, expected=f"{n} examples, as in X", found=f"{len(checked)}")
        return checked

    def _why_none(self, example: Any, given: Any, until: Deadline) -> str:
        """Return why an example has no labelling; empty where that is not known."""
        learnt = self.fitted_.learnt
        if given is None:
            one = self._ground([example], None, learnt, whole=True)
            if reason := why_indivisible(one.declaration, one.layout, 0):
                return reason

        def ground_alone(declaration: Declaration, some: Any, known: Any) -> Grounded:
            return ground(declaration, [some], fitted=learnt, whole=True, given=None if known is None else [known])

        return rules_in_conflict(self.model.declaration, example, given, ground_alone, until)

    def _labellings(self, X: Any, request: PredictionRequest, return_bounds: bool = False) -> Any:
        """Return the best labelling of each example, in the user's own class names; with bounds as ``predict`` says."""
        answers = self._answers(X, labellings, request)
        labels = indexed(self.model.declaration, X, answers.listed)
        return (labels, *scores_and_bounds(answers.known)) if return_bounds else labels

    def predict_kbest(
        self,
        X: Sequence[Any],
        k: int,
        *,
        time_limit: float | None = None,
        given: Sequence[Any] | None = None,
        on_missing: str = "raise",
    ) -> list[Any]:
        """Return for each example its k best labellings with their scores, best first (fewer if there are fewer).

        With ``time_limit``, seconds for the whole call, those found by then, as for ``predict``; with ``given``, those
        that agree with what is known; with ``on_missing="none"``, ``None`` for an example without any.  All are
        different; with latent variables the score is that with the best states of these.

        Raises
        ------
        TooLargeError
            So many do not fit.
        """
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise OptionError(f"k must be a positive int, got {k!r}")
        request = PredictionRequest(Task.KBEST, int(k), time_limit, given, on_missing)
        if self.model.declaration.latents:
            return self._distinct(X, request)
        return self._answers(X, ranked_labellings, request).listed

    def _distinct(self, X: Any, request: PredictionRequest) -> list[Any]:
        """Return the k best labellings of each example, maximised over latent variables."""
        examples = self._examples(X)
        given = None if request.given is None else self._as_many(request.given, "given", len(examples))

        def ask(some: Sequence[Any], asked: PredictionRequest) -> list[Any]:
            return self._answers(some, distinct_ranked, asked).listed

        def by_outputs(i: int, deadline: Deadline) -> tuple[Listed, bool]:
            known = None if given is None else [given[i]]
            grounded = self._ground([examples[i]], None, self.fitted_.learnt, first=i, whole=True, given=known)
            with within(deadline):
                session = open_session(
                    grounded.program, self._ask(Task.MAP, i), grounded.parameters, grounded.kept
                )
            return outputs_ranked(grounded, session, grounded.parameters.scores(self.coef_), request.k, deadline)

        return distinct_labellings(examples, given, request, ask, by_outputs)

    def predict_marginals(
        self,
        X: Sequence[Any],
        *,
        time_limit: float | None = None,
        given: Sequence[Any] | None = None,
        on_missing: str = "raise",
    ) -> list[Any]:
        """Return for each example the probability of each state of each variable, ``shape (*axes, n_states)``.

        Probabilities are those of the log-linear model ``p(y | x) ~ exp(w . Phi(x, y))``, with ``given`` under the
        condition of what is known (as for ``predict``); a model trained by margins is not calibrated.  With
        ``on_missing="none"``, ``None`` for an example without marginals.

        Raises
        ------
        NoLabellingError
            An example has none when ``time_limit``, seconds for the whole call, is over.
        """
        request = PredictionRequest(Task.MARGINALS, 1, time_limit, given, on_missing)
        return self._answers(X, probabilities, request).listed

    def predict_relaxed(
        self,
        X: Sequence[Any],
        *,
        time_limit: float | None = None,
        given: Sequence[Any] | None = None,
        on_missing: str = "raise",
    ) -> list[Any]:
        """Return for each example the share of states in the best fractional labelling, ``shape (*axes, n_states)``.

        A fractional labelling gives each variable a distribution over its states, and each factor one that agrees with
        those of its variables: the linear relaxation of prediction, whose best score is at least that of ``predict``.
        Where it is not fractional it is a best labelling.  Backends that answer are ``"lp"``, ``"ad3"`` and ``"qpbo"``
        (``backend=``, or ``guarantee="bound"``).

        Raises
        ------
        NoBackendError
            The backend has no relaxation.
        NoLabellingError
            An example has none when ``time_limit``, seconds for the whole call, is over.
        """
        request = PredictionRequest(Task.RELAXED, 1, time_limit, given, on_missing)
        return self._answers(X, probabilities, request).listed

    def latents(
        self, X: Sequence[Any], Y: Sequence[Any] | None = None, *, time_limit: float | None = None
    ) -> list[Any]:
        """Return the best states of the latent variables of each example, given the best labels or those in ``Y``.

        A dict for each example where there are several latent labels.

        Raises
        ------
        OptionError
            The model has none.
        """
        if not self.model.declaration.latents:
            raise OptionError(f"model {self.model.declaration.name} has no Latent")
        return self._answers(X, latent_states, PredictionRequest(time_limit=time_limit, given=Y)).listed

    def explain(self, x: Any, y: Any = None, *, time_limit: float | None = None) -> Explanation:
        """Return the terms that the score of the predicted labelling of one example consists of.

        Parameters
        ----------
        x : example
            One element of ``X``.
        y : labels, optional
            Known labels, in the form of one element of ``given`` in ``predict``: the best labelling that has them is
            explained.
        time_limit : float, optional
            Seconds, as for ``predict``.

        Raises
        ------
        InfeasibleError
            No labelling has these labels.
        """
        from ssvm_dsl.report.explanation import explanation

        def read(grounded: Grounded, solution: Solution) -> Explanation:
            score, bound = float(solution.score[0]), float(solution.bound[0])
            return explanation(grounded, solution.labels, self.coef_, score, bound)

        request = PredictionRequest(time_limit=time_limit, given=None if y is None else [y])
        return self._answers([x], read, request).parts[0]

    def why_not(self, x: Any, y: Any, *, time_limit: float | None = None) -> WhyNot:
        """Return why one example is not predicted to have these labels: the margin, and the factors that decide.

        Parameters
        ----------
        x : example
            One element of ``X``.
        y : labels
            All of them, or some: unknown ones are ``None``, as for ``given`` in ``predict``.
        time_limit : float, optional
            Seconds for each of two questions, as for ``predict``.

        Raises
        ------
        OptionError
            y is ``None``: no labels are asked about.
        """
        from ssvm_dsl.report.explanation import WhyNot

        if y is None:
            raise OptionError("why_not: y is None, which asks about no labels; give all of them, or a list with some")
        best = self.explain(x, time_limit=time_limit)
        try:
            return WhyNot(best, self.explain(x, y, time_limit=time_limit))
        except InfeasibleError as err:
            return WhyNot(best, None, str(err))

    def prediction_plan(self, X: Sequence[Any]) -> Plan:
        """Return how ``predict(X)`` finds its answers: which backend answers, and why.

        It is the plan of the first 1024 examples, which are answered together.  ``plan_`` is that of the last fit.

        Raises
        ------
        NoBackendError
            No backend can answer.
        """
        grounded = self._ground_as_fitted(self._examples(X)[:CHUNK])
        return open_session(grounded.program, self._ask(Task.MAP), grounded.parameters, grounded.kept).plan

    def best_score(self, X: Sequence[Any], Y: Sequence[Any] | None = None, *, time_limit: float | None = None) -> F64:
        """Return the score of given labellings, of the best ones by default; ``shape (n,)``.

        The score is ``w . Phi(x, y)`` plus the declared :class:`~ssvm_dsl.Given` scores.

        With ``time_limit``, seconds for the whole call, of the best ones found by then, as for ``predict``.
        """
        if Y is None or self.model.declaration.latents:  # of the best states of these
            return self._best(X, Y, time_limit)
        grounded = self._ground(self._examples(X), self._labels(Y), self.fitted_.learnt)
        assert grounded.truth is not None
        total = grounded.parameters.dot(self.coef_, grounded.truth)
        constants = grounded.parameters.constants
        return total if constants is None else total + constants.value(grounded.program, grounded.truth)

    def _best(self, X: Any, given: Any, time_limit: float | None) -> F64:
        """Return the score of the best labelling of each example that agrees with the given labels."""
        request = PredictionRequest(time_limit=time_limit, given=given)
        return np.concatenate(self._answers(X, lambda _, solution: solution.score, request).parts)

    # -- what subclasses may change -------------------------------------------------------------------

    def _check(self) -> None:
        """Refuse parameters that make no sense."""
        check_parameters(self, self.C)

    def _fit_deadline(self) -> Deadline:
        """Return the deadline of a fit that begins now; a limit that is no number is refused with other parameters."""
        seconds = self.max_seconds
        return Deadline(np.inf if seconds is None or not is_number(seconds) else float(seconds))

    def _risk(self) -> Risk:
        """Return the risk that is minimised, without its data."""
        raise NotImplementedError

    def _choose(self, grounded: Grounded, request: FitRequest, executor: Executor, start: F64 | None) -> F64 | None:
        """Choose what parameters leave open, now that the data are known; return the weights to start from."""
        return start

    def _choose_alone(self, grounded: Grounded) -> None:
        """Choose what parameters leave open by some of the data alone: those of a stream, or of a shard."""

    def _as_asked(self, X: Any, request: PredictionRequest) -> tuple[Any, PredictionRequest]:
        """Return examples, and what is asked of them, where users may write both in more ways."""
        return X, request

    def _examples(self, X: Any) -> Sequence[Any]:
        """Return X if it is a list of examples, or a sparse matrix with a row for each."""
        return check_sequence(X, "X", self.model.declaration)

    def _labels(self, Y: Any) -> Any:
        """Return labels as the model takes them."""
        return Y

    def _guarantee(self) -> Guarantee:
        """Return the weakest guarantee that ``auto`` accepts for predictions."""
        return Guarantee(self.guarantee)

    def _feature_names(self) -> NDArray[Any]:
        """Return the names of the columns of the data frames that it was fitted to, as scikit-learn wants them."""
        named = [one["columns"] for one in self.fitted_.learnt.values() if "columns" in one]
        if len(named) != 1:
            of = "it was fitted to arrays" if not named else "several inputs were data frames; see weights_.names"
            raise AttributeError(f"feature_names_in_: {of}")
        return np.array(named[0], dtype=object)

    def _plain_frames(self) -> dict[str, dict[str, Any]]:
        """Return what files hold of data frames beside the names of columns."""
        return {}

    def _take_frames(self, names: dict[str, dict[str, Any]]) -> None:
        """Take what a file holds of data frames.

        Raises
        ------
        ValueError
            It does not fit the model.
        """
        if names:
            raise ValueError(f"{type(self).__name__} keeps none")

    def _ground_as_fitted(self, examples: Any, labels: Any = None, whole: bool = True, **options: Any) -> Grounded:
        """Return the model grounded on examples, for the weights that were learnt; options of :func:`ground`.

        Raises
        ------
        OptionError
            The examples have other weights.
        """
        grounded = self._ground(examples, labels, self.fitted_.learnt, whole=whole, **options)
        if grounded.parameters.blocks != self.fitted_.blocks:
            raise OptionError("the weights are those of another model, or of other learnt features; fit again")
        return grounded

    def _trainer(
        self, grounded: Grounded | None = None, *, shards: bool = False, keeps_shards: bool = True,
        stream: bool = False,
    ) -> TrainerChoice:  # fmt: skip
        """Return the trainer, by its name or, for ``"auto"``, by what the fit is (:class:`FitFacts`)."""
        n, dim, single = None, None, False
        if grounded is not None:
            n, dim = grounded.n_examples, grounded.parameters.dim
            single = grounded.program.n_variables == n
        free = self.regularization and any(is_number(one) and one == 0 for one in self.regularization.values())
        facts = FitFacts(
            self._risk(), float(self.power), self.l1 > 0.0, bool(self.lam != 0 and not free), n, dim, single, shards,
            keeps_shards, stream, is_hard(self.C, self.lam),
        )  # fmt: skip
        return choose(self.trainer, self.trainer_options, facts)

    # -- files and pages ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model, fitted or with given weights, to a file (JSON and arrays; no pickle, no code).

        Raises
        ------
        OptionError
            No file can be written there.
        ModelError
            The model calls a function that has no import path, such as a lambda; says how to save it all the same.
        """
        from ssvm_dsl.learning.estimators.saved import to_saved

        write_model(check_path(path, "save"), to_saved(self))

    def to_html(self, path: str | Path, X: Any = None, Y: Any = None) -> None:
        """Write a page about the model: its declaration, certificate, weights and errors.

        Parameters
        ----------
        path : str or Path
            One file of HTML, which needs no other.
        X, Y : lists of examples and of their labels, optional
            The page shows confusions, and explains the examples of highest loss.

        Raises
        ------
        OptionError
            No file can be written there, or X comes without Y.
        """
        from ssvm_dsl.learning.page import examined, model_page, write_page

        place, weights = check_path(path, "to_html"), self.weights_
        if (X is None) != (Y is None):
            raise OptionError(f"to_html: {'X' if X is None else 'Y'} is missing; give examples and labels, or neither")
        data = None if X is None else examined(self, X, Y, self._example_losses(X, Y))
        write_page(place, model_page(self.model, weights, self._last_report, data))

    def errors(self, X: Sequence[Any], Y: Sequence[Any], *, most: int = 10) -> ErrorReport:
        """Return what goes wrong on some examples; print it, or write it as a page with its ``to_html(path)``.

        Classes that are taken for others, with the places and the features that pulled; precision and recall of each
        class; the examples of largest loss, and those of least certainty.

        Parameters
        ----------
        X, Y : lists of examples and of their labels
        most : int
            How many confusions and uncertain examples to list.

        Raises
        ------
        OptionError
            ``most`` is no positive int, or the outputs have no classes.
        """
        from ssvm_dsl.learning.score_report import error_report

        self._check_fitted()
        if not isinstance(most, int | np.integer) or isinstance(most, bool) or most < 1:
            raise OptionError(f"most must be a positive int, got {most!r}")
        outputs = self.model.declaration.outputs
        if len(outputs) != 1 or outputs[0].pointer:
            text = "errors: it is of models with one label of classes"
            raise OptionError(f"{text}; to_html(path, X, Y) explains the worst examples of any model")
        return error_report(self, X, Y, self._example_losses(X, Y), int(most))

    def _shown_labels(self, X: Any, Y: Any) -> tuple[list[Any], list[Any]]:
        """Return the true and the predicted labels of each example, as classes."""
        return list(self._labels(Y)), list(self.predict(X))  # type: ignore[attr-defined]

    def _example_losses(self, X: Any, Y: Any) -> F64:
        """Return the loss of the prediction of each example."""
        raise OptionError(f"to_html: X and Y are for estimators that predict labels, not {type(self).__name__}")

    @classmethod
    def load(cls, path: str | Path, *, trusted: bool | Iterable[str] = False) -> Self:
        """Return the model of a file, as it was when it was saved.

        Parameters
        ----------
        path : str or Path
        trusted : bool or iterable of str
            Import paths of user functions the model may call; ``True`` for all.

        Raises
        ------
        FileFormatError
            The file is not a saved model.
        OptionError
            It calls a function that is not trusted.
        """
        from ssvm_dsl.learning.estimators.saved import from_saved

        return from_saved(cls, read_model(as_path(path, "load")), path, trusted)

    def _ground(self, X: Any, Y: Any = None, fitted: Any = None, part: bool = False, **options: Any) -> Grounded:
        """Return the model laid over examples; a ``part`` of the data may have no names for features to learn."""
        if self.model.declaration.reads_sparse:
            _load_sparse()
        grounded = ground(self.model, X, Y, fitted=fitted, custom_losses=loss_function, **options)
        if fitted is None and not part:
            require_names(grounded.fitted)
        return grounded


@cache
def _load_sparse() -> None:
    """Load scipy.sparse, which holds sparse features; time limits do not include that."""
    with loading():
        import scipy.sparse  # noqa: F401
