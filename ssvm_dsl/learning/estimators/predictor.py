"""``Predictor``: weights of a declared model at work - predictions, scores, and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import processors
from ssvm_dsl.array_types import F64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded, ground
from ssvm_dsl.compiler.durations import why_indivisible
from ssvm_dsl.compiler.features.attributes import require_names
from ssvm_dsl.compiler.features.encode import Fitted
from ssvm_dsl.compiler.inputs.validate import check_sequence
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, InfeasibleError, NoLabellingError, OptionError, TimeLimitWarning, memory_for
from ssvm_dsl.files.regular_file import as_path
from ssvm_dsl.inference.blas_threads import CallThreads
from ssvm_dsl.inference.diagnosis.missing_answers import MissingAnswers, without_answer
from ssvm_dsl.inference.diagnosis.rules_in_conflict import rules_in_conflict
from ssvm_dsl.io.model_file import read_model, write_model
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.answers import (
    CHUNK,
    BoundSummary,
    PredictionRequest,
    joined,
    label_lists,
    labellings,
    latent_states,
    probabilities,
    ranked_labellings,
    readable,
)
from ssvm_dsl.learning.estimator import Estimator, not_fitted
from ssvm_dsl.learning.estimators.check_parameters import check_choice, check_path
from ssvm_dsl.learning.estimators.distinct import distinct_labellings, distinct_ranked, outputs_ranked
from ssvm_dsl.learning.estimators.weights import Weights
from ssvm_dsl.learning.indexed import indexed
from ssvm_dsl.loading import loading
from ssvm_dsl.registry import loss_function
from ssvm_dsl.report.notices import announce_compiling

if TYPE_CHECKING:
    from ssvm_dsl.inference.planning.plans import Plan
    from ssvm_dsl.learning.errors_report import ErrorReport
    from ssvm_dsl.report.explanation import Explanation, WhyNot

T = TypeVar("T")

#: What becomes of examples without an answer.
ON_MISSING = ("raise", "none")


class Predictor(Estimator):
    """Base of fitted estimators; :class:`~ssvm_dsl.learning.estimators.base.Learner` adds fitting."""

    model: type[Model]
    backend: str
    backend_options: dict[str, Any] | None
    guarantee: str
    n_threads: int | None
    coef_: F64
    _fitted: Fitted
    _blocks: tuple[Block, ...]
    _guarantees: tuple[str, ...] = tuple(one.value for one in Guarantee)
    _deadline: Deadline | None = None  # of the fit that this one is a part of

    @property
    def weights_(self) -> Weights:
        """The weights by factor."""
        self._check_fitted()
        return Weights(self.coef_, self._blocks, self.model.declaration, self._fitted)

    def _labellings(
        self,
        X: Sequence[Any],
        time_limit: float | None,
        return_bounds: bool = False,
        given: Any = None,
        on_missing: str = "raise",
    ) -> Any:
        """Return the best labelling of each example, in the user's own class names; with bounds as ``predict`` says."""
        asked = {"time_limit": time_limit, "given": given, "on_missing": on_missing}
        labellings_of_parts, worth = self._answers_with_worth(X, labellings, **asked)
        labels = indexed(self.model.declaration, X, list(chain.from_iterable(labellings_of_parts)))
        return (labels, worth.score, worth.bound) if return_bounds else labels

    def _label_lists(self, X: Sequence[Any]) -> list[list[Any]]:
        """Return the best labels of sequences as lists of class names."""
        return list(chain.from_iterable(self._answers(X, label_lists)))

    def predict_kbest(
        self,
        X: Sequence[Any],
        k: int,
        *,
        time_limit: float | None = None,
        given: Sequence[Any] | None = None,
        on_missing: str = "raise",
    ) -> list[list[tuple[Any, float]]]:
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
        if self.model.declaration.latents:
            return self._distinct(X, int(k), time_limit, given, on_missing)
        asked: dict[str, Any] = {"time_limit": time_limit, "given": given, "on_missing": on_missing}
        parts = self._answers(X, ranked_labellings, Task.KBEST, int(k), **asked)
        return list(chain.from_iterable(parts))

    def _distinct(
        self, X: Any, k: int, time_limit: float | None, given: Any, on_missing: str
    ) -> list[list[tuple[Any, float]]]:
        """Return the k best labellings of each example, maximised over latent variables."""
        examples, deadline = self._examples(X), Deadline.of(time_limit)
        known = _as_many(given, "given", len(examples))

        def ask(which: list[int], joint: int) -> list[Any]:
            part = examples if len(which) == len(examples) else [examples[i] for i in which]
            fixed = None if known is None else [known[i] for i in which]
            left = None if time_limit is None else max(deadline.left, 1e-3)
            asked: dict[str, Any] = {"time_limit": left, "given": fixed, "on_missing": on_missing}
            return list(chain.from_iterable(self._answers(part, distinct_ranked, Task.KBEST, joint, **asked)))

        try:
            listed_of, more = distinct_labellings(ask, len(examples), k, lambda: deadline.over)
        except NoLabellingError as err:
            err.found = [one if one is None else one[0] for one in err.found]
            raise
        n_late = 0
        for place, i in enumerate(more):
            fixed = None if known is None else known[i]
            listed, late = self._outputs(examples[i], fixed, k, deadline.share(1.0 / (len(more) - place)), i)
            listed_of[i], n_late = max(listed_of[i] or [], listed, key=len), n_late + late
        if n_late:
            which = f"the {k} best labellings of {n_late} of {len(listed_of)} examples"
            text = f"time ended the search before {which} were found"
            warn_caller(f"{text}; raise time_limit, or ask for fewer", TimeLimitWarning)
        return listed_of  # type: ignore[return-value]

    @memory_for("prediction", "ask for fewer labellings, or set another backend")
    def _outputs(self, example: Any, given: Any, k: int, deadline: Deadline, number: int) -> tuple[Any, bool]:
        """Return the k best labellings of an example by a question for each, and whether time ended the search."""
        fixed = None if given is None else [given]
        grounded = self._ground([example], None, self._fitted, first=number, whole=True, given=fixed)
        guarantee, own = self._guarantee(), self.backend_options
        request = PredictionRequest(self.coef_, self.backend, own, Task.MAP, guarantee=guarantee, deadline=deadline)
        session = request.session(grounded, number, number + 1)
        return outputs_ranked(grounded, session, grounded.parameters.scores(self.coef_), k, deadline)

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
        asked: dict[str, Any] = {"time_limit": time_limit, "given": given, "on_missing": on_missing}
        parts = self._answers(X, probabilities, Task.MARGINALS, **asked)
        return list(chain.from_iterable(parts))

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
        asked: dict[str, Any] = {"time_limit": time_limit, "given": given, "on_missing": on_missing}
        return list(chain.from_iterable(self._answers(X, probabilities, Task.RELAXED, **asked)))

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
        parts = self._answers(X, latent_states, given=Y, time_limit=time_limit)
        return list(chain.from_iterable(parts))

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

        return self._answers([x], read, given=None if y is None else [y], time_limit=time_limit)[0]

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

    @memory_for("prediction_plan", "ask for fewer examples, or set another backend")
    def prediction_plan(self, X: Sequence[Any]) -> Plan:
        """Return how ``predict(X)`` finds its answers: which backend answers, and why.

        It is the plan of the first 1024 examples, which are answered together.  ``plan_`` is that of the last fit.

        Raises
        ------
        NoBackendError
            No backend can answer.
        """
        self._check_fitted()
        grounded = self._ground(self._examples(X)[:CHUNK], None, self._fitted, whole=True)
        self._check_blocks(grounded.parameters.blocks)
        guarantee = self._guarantee()
        request = PredictionRequest(self.coef_, self.backend, self.backend_options, guarantee=guarantee)
        return request.session(grounded, 0, grounded.n_examples).plan

    @memory_for("best_score", "ask for fewer examples at once, or set another backend")
    def best_score(self, X: Sequence[Any], Y: Sequence[Any] | None = None, *, time_limit: float | None = None) -> F64:
        """Return the score of given labellings, of the best ones by default; ``shape (n,)``.

        The score is ``w . Phi(x, y)`` plus the declared :class:`~ssvm_dsl.Given` scores.

        With ``time_limit``, seconds for the whole call, of the best ones found by then, as for ``predict``.
        """
        if Y is None or self.model.declaration.latents:  # of the best states of these
            return self._best(X, Y, time_limit)
        self._check_fitted()
        grounded = self._ground(self._examples(X), self._labels(Y), self._fitted)
        assert grounded.truth is not None
        total = grounded.parameters.dot(self.coef_, grounded.truth)
        constants = grounded.parameters.constants
        return total if constants is None else total + constants.value(grounded.program, grounded.truth)

    def _best(self, X: Any, given: Any, time_limit: float | None) -> F64:
        """Return the score of the best labelling of each example that agrees with the given labels."""
        parts = self._answers(X, lambda _, solution: solution.score, given=given, time_limit=time_limit)
        return np.concatenate(parts)

    def _answers(self, X: Any, read: Callable[[Grounded, Solution], T], *asked: Any, **more: Any) -> list[T]:
        """Return what ``read`` takes from (grounded chunk, its solution), for all examples."""
        return self._answers_with_worth(X, read, *asked, **more)[0]

    @memory_for("prediction", "ask for fewer examples at once, or set another backend")
    def _answers_with_worth(
        self,
        X: Any,
        read: Callable[[Grounded, Solution], T],
        task: Task = Task.MAP,
        k: int = 1,
        Y: Any = None,
        time_limit: float | None = None,
        given: Any = None,
        on_missing: str = "raise",
        unseen: bool = False,
    ) -> tuple[list[T], BoundSummary]:
        """Return the results of ``read(grounded chunk, its solution)`` for all examples, and a summary of their bounds.

        Examples without an answer are an error, which carries the others' answers, or ``None`` in lists.  Warns of
        answers that the time limit ended before they were proved best.  ``unseen`` says whether Y may have classes that
        training never saw.
        """
        deadline = Deadline.of(time_limit) if self._deadline is None else self._deadline
        check_choice(on_missing, ON_MISSING, "on_missing")
        self._check_fitted()
        announce_compiling()
        examples = self._examples(X)
        labels = None if Y is None else _as_many(self._labels(Y), "Y", len(examples))
        clamp = None if given is None else _as_many(self._labels(given), "given", len(examples))

        def grounder(lo: int, hi: int) -> Grounded:
            part = None if labels is None else labels[lo:hi]
            fixed = None if clamp is None else clamp[lo:hi]
            asked: dict[str, Any] = {"first": lo, "whole": True, "given": fixed, "in_time": True, "unseen": unseen}
            if deadline.limit == np.inf:
                grounded = self._ground(examples[lo:hi], part, self._fitted, **asked)
            else:
                with within(deadline):
                    grounded = self._ground(examples[lo:hi], part, self._fitted, **asked)
                if grounded.n_uncomputed:
                    deadline.end()
            self._check_blocks(grounded.parameters.blocks)
            return grounded

        worths: list[BoundSummary] = []
        missing = MissingAnswers(task)

        def noted(grounded: Grounded, solution: Solution) -> T:
            worths.append(BoundSummary.of(solution))
            if solution.complete:
                return read(grounded, solution)
            return readable(read, grounded, solution, without_answer(solution, task))

        guarantee, own = self._guarantee(), self.backend_options
        request = PredictionRequest(self.coef_, self.backend, own, task, k, guarantee, deadline, missing)
        with self._executor() as executor:
            parts = request.each(grounder, len(examples), executor, noted)
        worth = worths[0] if len(worths) == 1 else BoundSummary.joined(worths)
        if self._deadline is not None and (worth.open.any() or missing.without):
            self._deadline.check()  # a fit does not learn from what its end has cut short
        if on_missing == "raise" and missing.any:
            if missing.infeasible:
                first = missing.infeasible[0]
                missing.because(self._why_none(examples[first], None if clamp is None else clamp[first], deadline))
            missing.check(joined(parts))
        if late := worth.unproved():
            text = f"{late}; raise time_limit, or look at predict(..., return_bounds=True)"
            warn_caller(text, TimeLimitWarning)
        return parts, worth

    def _why_none(self, example: Any, given: Any, until: Deadline) -> str:
        """Return why an example has no labelling; empty where that is not known."""
        if given is None:
            one = self._ground([example], None, self._fitted, whole=True)
            if reason := why_indivisible(one.declaration, one.layout, 0):
                return reason

        def ground_alone(declaration: Declaration, some: Any, known: Any) -> Grounded:
            return ground(
                declaration, [some], fitted=self._fitted, whole=True, given=None if known is None else [known]
            )

        return rules_in_conflict(self.model.declaration, example, given, ground_alone, until)

    def _check_blocks(self, blocks: tuple[Block, ...]) -> None:
        """Refuse data whose weights are not the fitted ones."""
        if blocks is not self._blocks and blocks != self._blocks:
            raise OptionError("the weights are those of another model, or of other learnt features; fit again")

    def _examples(self, X: Any) -> Sequence[Any]:
        """Return X if it is a list of examples, or a sparse matrix with a row for each."""
        return check_sequence(X, "X", self.model.declaration)

    def _labels(self, Y: Any) -> Any:
        """Return labels as the model takes them."""
        return Y

    def _guarantee(self) -> Guarantee:
        """Return the weakest guarantee that ``auto`` accepts for predictions."""
        return Guarantee(self.guarantee)

    def _check_fitted(self) -> None:
        if not hasattr(self, "coef_"):
            raise not_fitted(f"this {type(self).__name__} is not fitted yet; call fit first")

    if not TYPE_CHECKING:  # attributes that there may be are declared above

        def __getattr__(self, name: str) -> Any:
            """Say why something that ``fit`` learns is not there."""
            attribute = getattr(type(self), name, None)
            if isinstance(attribute, property):  # which has raised this very moment
                return attribute.fget(self)
            text = f"'{type(self).__name__}' object has no attribute '{name}'"
            if name.startswith("_") or not name.endswith("_"):
                raise AttributeError(text)
            if "coef_" not in self.__dict__:
                raise not_fitted(f"{name}: this {type(self).__name__} is not fitted yet; call fit first")
            if name == "feature_names_in_":
                return self._feature_names()
            if name == "report_":
                raise AttributeError("report_: the weights were given (from_weights), so there is no report of a fit")
            if name == "plan_":
                text = "the weights were given (from_weights), so there is no plan of a fit"
                raise AttributeError(f"plan_: {text}; prediction_plan(X) returns how X is answered")
            raise AttributeError(text)

    def _feature_names(self) -> NDArray[Any]:
        """Return the names of the columns of the data frames that it was fitted to, as scikit-learn wants them."""
        named = [one["columns"] for one in self._fitted.values() if "columns" in one]
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

    def _executor(self) -> CallThreads:
        """Return the executor of a call."""
        return CallThreads(int(self.n_threads if self.n_threads is not None else processors.available()))

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

        self._check_fitted()
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
        from ssvm_dsl.learning.pages.page import examined, model_page, write_page

        self._check_fitted()
        place = check_path(path, "to_html")
        if (X is None) != (Y is None):
            raise OptionError(f"to_html: {'X' if X is None else 'Y'} is missing; give examples and labels, or neither")
        data = None if X is None else examined(self, X, Y, self._example_losses(X, Y))
        write_page(place, model_page(self.model, self.weights_, vars(self).get("report_"), data))

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
        from ssvm_dsl.learning.errors_report import error_report

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
    @memory_for("reading the model", "it does not fit this machine")
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


def _as_many(labels: Any, what: str, n: int) -> Sequence[Any] | None:
    """Return a list of labels; refuse one of another length."""
    if labels is None:
        return None
    examples = check_sequence(labels, what)
    if len(examples) != n:
        raise DataError(what, expected=f"{n} examples, as in X", found=f"{len(examples)}")
    return examples
