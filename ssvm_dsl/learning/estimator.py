"""``StructuredSVM``: a declared model as a scikit-learn estimator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import ThreadpoolController

from ssvm_dsl.compiler import Grounded, ground
from ssvm_dsl.compiler.validate import check_sequence
from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.inference.planner import AUTO, Plan, accepted_guarantee, need_of, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.io.model_file import read_model, write_model
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.answers import Question, labellings, losses, probabilities, ranked_labellings
from ssvm_dsl.learning.certificate import FitReport
from ssvm_dsl.learning.fit import Callback, Progress, relative, train
from ssvm_dsl.learning.objective import check_sample_weight, lam_of, regularized_risk
from ssvm_dsl.learning.risks import Problem, check_pairing, find_risk
from ssvm_dsl.learning.weights import Weights
from ssvm_dsl.plugin_api.protocols import Executor, StopRule
from ssvm_dsl.plugin_api.specs import ExecutorSpec, LossSpec, TrainerSpec
from ssvm_dsl.registry import registry

F64 = NDArray[np.float64]
T = TypeVar("T")


class StructuredSVM(BaseEstimator):  # type: ignore[misc]
    """Structural support vector machine of a declared model.

    Minimises ``1/2 |w|^2 + C sum_i risk_i(w)`` (or, with ``lam``, ``lam/2 |w|^2 + 1/n sum_i risk_i(w)``), by default
    with the margin-rescaled hinge ``risk_i(w) = max_y [loss(y_i, y) + w . Phi(x_i, y)] - w . Phi(x_i, y_i)``.

    Parameters
    ----------
    model : Model class
        The declaration.
    C : float
        Weight of the risks; not used when ``lam`` is given.
    lam : float, optional
        Regularisation strength; ``lam = 1 / (C n)``.
    risk : str
        What is minimised: ``"margin"``, ``"hm"``, ``"perceptron"``, ``"log"``, ``"softmax-margin"``
        (:mod:`ssvm_dsl.learning.risks`).
    power : float
        Each risk is raised to this power, at least 1; 2 squares the slacks.
    trainer : str
        Name of a trainer (``ssvm plugins list``).
    backend : str
        Name of an inference backend, or ``"auto"``.
    guarantee : {"exact", "bound", "heuristic"}
        The weakest answers ``auto`` may settle for: proved best ones, ones with a certified upper bound
        (relaxations; training stays certified), or any.
    tol : float
        Relative duality gap at which training stops.
    max_passes : float
        Passes over the data with the exact oracle at most.
    max_seconds : float, optional
        Time limit, looked at between passes.
    random_state : int, optional
        Seed; results depend on it and on nothing else (not on the number of threads).
    n_threads : int, optional
        Threads for batch oracle calls and prediction; by default the processors this process may use.
    trainer_options, backend_options : dict, optional
        Options of the trainer and of the (named) backend; ``ssvm plugins show NAME`` lists them.
    regularization : dict, optional
        Relative regularisation of factors (keys: factors or names; default 1), e.g. ``{OCR.trans: 0.1}``; 0 leaves
        a factor unregularised, for trainers that allow it.
    warm_start : bool
        Start from the weights of the last fit.
    verbose : bool
        Show progress while fitting.
    callbacks : sequence of callables, optional
        Each is told about every iteration (:class:`~ssvm_dsl.plugin_api.TrainingEvent`); returning True stops.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (dim,)
        All weights.
    weights_ : Weights
        The weights by factor: ``svm.weights_[OCR.trans]``.
    report_ : FitReport
        Certificate, plan and cost; print it.
    plan_ : Plan
        The backend used in training.

    Examples
    --------
    >>> svm = StructuredSVM(OCR, C=1.0).fit(X, Y)
    >>> svm.predict(X_test), svm.score(X_test, Y_test)
    >>> print(svm.report_)
    """

    def __init__(
        self,
        model: type[Model],
        C: float = 1.0,
        lam: float | None = None,
        risk: str = "margin",
        power: float = 1.0,
        trainer: str = "bcfw",
        backend: str = AUTO,
        guarantee: str = "exact",
        tol: float = 1e-3,
        max_passes: float = 500,
        max_seconds: float | None = None,
        random_state: int | None = None,
        n_threads: int | None = None,
        trainer_options: dict[str, Any] | None = None,
        backend_options: dict[str, Any] | None = None,
        regularization: Mapping[Any, float] | None = None,
        warm_start: bool = False,
        verbose: bool = False,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        self.model = model
        self.C = C
        self.lam = lam
        self.risk = risk
        self.power = power
        self.trainer = trainer
        self.backend = backend
        self.guarantee = guarantee
        self.tol = tol
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_threads = n_threads
        self.trainer_options = trainer_options
        self.backend_options = backend_options
        self.regularization = regularization
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any = None) -> StructuredSVM:
        """Learn the weights.

        Parameters
        ----------
        X : list of examples
            Each a dict of arrays by input name, or the bare array when the model has one input.
        Y : list of labels
            Each a dict by label name, or the bare labels when the model has one label.
        sample_weight : array_like, shape (n,), optional
            Multiplies each example's risk.

        Raises
        ------
        DataError
            Bad data, named with input and example.
        OptionError, PluginError, NoBackendError
            Parameters, options or the combination of trainer and backend cannot be used.
        """
        self._check_parameters()
        spec, options = self._trainer_spec()
        start = self.coef_ if self.warm_start and hasattr(self, "coef_") else None
        keep = self._fitted if start is not None else None
        grounded = self._ground(X, Y, fitted=keep)
        if start is not None and self._blocks != grounded.parameters.blocks:
            raise OptionError("warm_start: the last fit had other factors; set warm_start=False to start anew")
        with self._executor() as executor:
            problem, chosen = self._problem(grounded, executor, spec, sample_weight, grounded.n_examples)
            stop = StopRule(self.tol, self.max_passes, self.max_seconds or np.inf)
            unit = 1.0 if self.lam is not None else 1.0 / problem.objective.lam
            with self._listeners(unit) as listeners:
                made = spec.load()(**options, random_state=self.random_state)
                progress = train(made, problem, stop, unit=unit, start=start, callbacks=listeners)
        self._keep(grounded, progress.w, chosen)
        self._stream: tuple[Any, Any, int] | None = None
        self.report_ = self._report(progress, problem, unit, options)
        if progress.reason in ("passes", "seconds") and spec.needs.strongly_convex:
            gap, limits = self.report_.relative_gap, "max_passes, max_seconds or tol"
            text = f"stopped at relative gap {gap:.2g} > tol={self.tol:g}; raise {limits}"
            if np.isnan(gap):
                text = "stopped at a limit; the backend gives no bounds, so the gap is not known"
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        return self

    def partial_fit(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any = None) -> StructuredSVM:
        """Learn one pass over a batch of a stream of examples, going on from earlier calls.

        Fitted features (vocabularies, means) are those of the first batch.  With ``C``, the regularisation is
        ``1 / (C n)`` for the n examples seen so far.

        Raises
        ------
        TrainingError
            The trainer cannot learn from a stream; names those that can.
        """
        self._check_parameters()
        spec, options = self._trainer_spec()
        if not spec.incremental:
            able = [other.name for other in registry().specs(TrainerSpec) if other.incremental]
            raise TrainingError(f"trainer '{spec.name}' has no partial_fit; these have: {', '.join(able)}")
        stream = getattr(self, "_stream", None)
        grounded = self._ground(X, Y, fitted=None if stream is None else self._fitted)
        seen = grounded.n_examples + (0 if stream is None else stream[2])
        with self._executor() as executor:
            problem, chosen = self._problem(grounded, executor, spec, sample_weight, seen)
            made = spec.load()(**options, random_state=self.random_state) if stream is None else stream[0]
            w, state = made.partial(problem, None if stream is None else stream[1])
            primal, upper = problem.value(w)
        self._keep(grounded, w, chosen)
        self._stream = (made, state, seen)
        unit = 1.0 if self.lam is not None else 1.0 / problem.objective.lam
        progress = Progress(w, primal, upper, n_passes=2.0, reason="stream")
        self.report_ = self._report(progress, problem, unit, options)
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense before anything is computed."""
        if not (isinstance(self.model, type) and issubclass(self.model, Model)):
            raise OptionError(f"model is a Model class, got {self.model!r}")
        strength, name = (self.C, "C") if self.lam is None else (self.lam, "lam")
        if not (_is_number(strength) and 0 < strength < np.inf):
            raise OptionError(f"{name} is a positive number, got {strength!r}")
        for name in ("max_passes", "max_seconds"):
            value = getattr(self, name)
            if not (_is_number(value) and value > 0) and not (name == "max_seconds" and value is None):
                raise OptionError(f"{name} is a positive number, got {value!r}")
        for name, least in (("n_threads", 1), ("random_state", 0)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | np.integer) and value >= least):
                raise OptionError(f"{name} is None or an int of at least {least}, got {value!r}")
        if not (_is_number(self.power) and 1 <= self.power < np.inf):
            raise OptionError(f"power is a number of at least 1, got {self.power!r}")
        if self.guarantee not in [one.value for one in Guarantee]:
            known = ", ".join(one.value for one in Guarantee)
            raise OptionError(f"guarantee is one of {known}, got {self.guarantee!r}")
        if not (_is_number(self.tol) and self.tol >= 0):
            raise OptionError(f"tol is a non-negative number, got {self.tol!r}")
        if self.model.declaration.loss is None:
            raise TrainingError(f"model {self.model.__name__} declares no loss; add e.g. loss = Hamming(y)")

    def _trainer_spec(self) -> tuple[TrainerSpec, dict[str, Any]]:
        spec = registry().find(TrainerSpec, self.trainer)
        return spec, spec.resolve(self.trainer_options)

    def _ground(self, X: Any, Y: Any = None, fitted: Any = None, **options: Any) -> Grounded:
        return ground(self.model, X, Y, fitted=fitted, custom_losses=_custom_loss, **options)

    def _problem(
        self, grounded: Grounded, executor: Executor, spec: TrainerSpec, sample_weight: Any, n: int
    ) -> tuple[Problem, Plan]:
        """Return the training problem and the plan for its oracle."""
        assert grounded.loss is not None
        weight = check_sample_weight(sample_weight, grounded.n_examples)
        lam = lam_of(self.C, self.lam, n)
        objective = regularized_risk(grounded.parameters, lam, weight, self.regularization, self.power)
        risk = find_risk(self.risk)
        check_pairing(spec, risk, self.power)
        if spec.needs.strongly_convex and not objective.strongly_convex:
            raise TrainingError(f"trainer '{spec.name}' needs every factor regularised; use trainer='subgradient'")
        tasks, kinds = risk.asks(grounded.loss)
        guarantee = accepted_guarantee(self.backend, Guarantee(self.guarantee), spec.needs.guarantee)
        need = need_of(grounded.parameters, tasks, guarantee, kinds)
        chosen = plan_program(grounded.program, need, self.backend, self.backend_options)
        session = open_plan(chosen, grounded.program)
        return risk.problem(grounded.parameters, grounded.loss, objective, session, executor), chosen

    @contextmanager
    def _listeners(self, unit: float) -> Iterator[list[Callback]]:
        """Give the callbacks of this fit: the user's, the plug-ins', and the progress display."""
        known = registry()
        listeners: list[Callback] = list(self.callbacks or ())
        if known.listens:
            listeners.append(known.training_event)
        if not self.verbose:
            yield listeners
            return
        from ssvm_dsl.report.progress import FitProgress

        with FitProgress(self.tol, self.max_passes, unit) as shown:
            yield [*listeners, shown.update]

    def _keep(self, grounded: Grounded, w: F64, chosen: Plan) -> None:
        self.coef_ = w
        self.plan_ = chosen
        self._fitted = grounded.fitted
        self._blocks = grounded.parameters.blocks

    def _report(self, progress: Progress, problem: Problem, unit: float, options: dict[str, Any]) -> FitReport:
        gap = unit * progress.gap
        if self.lam is not None:
            convention = f"lam/2 |w|^2 + 1/n sum_i risk_i, lam = {self.lam:g}"
        else:
            convention = f"1/2 |w|^2 + C sum_i risk_i, C = {self.C:g}"
        return FitReport(
            primal=unit * progress.primal,
            dual=unit * progress.dual,
            gap=gap,
            relative_gap=relative(gap, unit * progress.primal),
            certified=bool(np.isfinite(progress.upper)),
            converged=progress.reason == "tolerance",
            reason=progress.reason,
            n_passes=progress.n_passes,
            n_oracle_calls=problem.n_oracle_calls,
            seconds=progress.seconds,
            oracle_seconds=problem.oracle_seconds,
            plan=self.plan_,
            trainer=self.trainer,
            options=options,
            convention=convention,
            n_examples=problem.n,
            n_weights=problem.dim,
            history=tuple(progress.history),
        )

    # -- answering -------------------------------------------------------------------------------------

    @property
    def weights_(self) -> Weights:
        """The weights by factor."""
        self._check_fitted()
        ties = {f.name: f.tie.name for f in self.model.declaration.factors if f.tie is not None}
        return Weights(self.coef_, self._blocks, ties)

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """Return the best labelling of each example, in the user's own class names.

        An array of class names for each example (a plain class for a label without axes, a dict for a model
        with several labels).
        """
        return list(chain.from_iterable(self._answers(X, labellings)))

    def predict_kbest(self, X: Sequence[Any], k: int) -> list[list[tuple[Any, float]]]:
        """Return for each example its k best labellings with their scores, best first (fewer if there are fewer)."""
        if not isinstance(k, int | np.integer) or k < 1:
            raise OptionError(f"k is a positive int, got {k!r}")
        return list(chain.from_iterable(self._answers(X, ranked_labellings, Task.KBEST, int(k))))

    def predict_marginals(self, X: Sequence[Any]) -> list[Any]:
        """Return for each example the probability of each state of each variable, ``shape (*axes, n_states)``.

        Probabilities are those of the log-linear model ``p(y | x) ~ exp(w . Phi(x, y))``; a model trained by
        margins is not calibrated.
        """
        return list(chain.from_iterable(self._answers(X, probabilities, Task.MARGINALS)))

    def decision_function(self, X: Sequence[Any], Y: Sequence[Any] | None = None) -> F64:
        """Return ``w . Phi(x, y)`` of given labellings, of the best ones by default; ``shape (n,)``."""
        if Y is None:
            return np.concatenate(self._answers(X, lambda _, solution: solution.score))
        self._check_fitted()
        grounded = self._ground(X, Y, self._fitted)
        assert grounded.truth is not None
        return grounded.parameters.dot(self.coef_, grounded.truth)

    def score(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any = None) -> float:
        """Return ``1 - (sum of losses) / (sum of largest losses)``: 1 is perfect.

        For a Hamming loss without weights it is the share of right variables, for ZeroOne the share of right
        examples.
        """
        self._check_fitted()
        self._check_parameters()
        weight = check_sample_weight(sample_weight, len(X))
        lost_parts, largest = zip(*self._answers(X, losses, Y=Y), strict=True)
        lost, most = float(np.dot(weight, np.concatenate(lost_parts))), float(np.dot(weight, np.concatenate(largest)))
        return 1.0 - lost / most if most > 0 else 1.0

    def _answers(
        self, X: Any, read: Callable[[Grounded, Solution], T], task: Task = Task.MAP, k: int = 1, Y: Any = None
    ) -> list[T]:
        """Return what ``read`` takes from (grounded chunk, its solution), for all examples."""
        self._check_fitted()
        examples = check_sequence(X, "X")
        labels = None if Y is None else check_sequence(Y, "Y")
        if labels is not None and len(labels) != len(examples):
            raise DataError("Y", expected=f"{len(examples)} examples, as in X", found=f"{len(labels)}")

        def grounder(lo: int, hi: int) -> Grounded:
            part = None if labels is None else labels[lo:hi]
            grounded = self._ground(examples[lo:hi], part, self._fitted, first=lo, whole=True)
            if grounded.parameters.blocks != self._blocks:
                raise OptionError("the weights are those of another model, or of other learnt features; fit again")
            return grounded

        guarantee = Guarantee(self.guarantee)
        question = Question(self.coef_, self.backend, self.backend_options, task, k, guarantee)
        with self._executor() as executor:
            return question.each(grounder, len(examples), executor, read)

    def _check_fitted(self) -> None:
        if not hasattr(self, "coef_"):
            raise NotFittedError("this StructuredSVM is not fitted yet; call fit first")

    @contextmanager
    def _executor(self) -> Iterator[Executor]:
        """Give an executor for this call; BLAS keeps to one thread, parallelism is over examples."""
        n = self.n_threads if self.n_threads is not None else len(os.sched_getaffinity(0))
        executor: Executor = registry().find(ExecutorSpec, "threads").load()(int(n))
        try:
            with _thread_pools().limit(limits=1, user_api="blas"):
                yield executor
        finally:
            executor.close()

    # -- files -----------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file (JSON and arrays; no pickle, no code)."""
        from ssvm_dsl.learning.saved import to_saved

        self._check_fitted()
        write_model(Path(path), to_saved(self))

    @classmethod
    def load(cls, path: str | Path, *, trusted: bool | Iterable[str] = False) -> StructuredSVM:
        """Return the fitted model of a file.

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
        from ssvm_dsl.learning.saved import from_saved

        return from_saved(cls, read_model(Path(path)), path, trusted)


@lru_cache(maxsize=1)
def _thread_pools() -> ThreadpoolController:
    """Return the controller of the BLAS libraries in this process (finding them takes milliseconds)."""
    return ThreadpoolController()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def _custom_loss(kind: str) -> Any:
    return registry().find(LossSpec, kind).load()
