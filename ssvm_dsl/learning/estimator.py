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
from ssvm_dsl.learning.certificate import Certificate, FitReport
from ssvm_dsl.learning.check_parameters import check_parameters
from ssvm_dsl.learning.checkpoint import Checkpoint, fingerprint
from ssvm_dsl.learning.fit import Callback, train
from ssvm_dsl.learning.objective import check_sample_weight, lam_of, regularized_risk
from ssvm_dsl.learning.progress import Progress, relative
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
    checkpoint : str, optional
        A file that ``fit`` keeps its state in.  When it is there (the process was killed, or a limit was reached),
        the same fit goes on from it, bit for bit; it is removed once the tolerance is reached.
    checkpoint_seconds : float
        Least time between two writes of it.

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
        checkpoint: str | None = None,
        checkpoint_seconds: float = 60.0,
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
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds

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
        check_parameters(self)
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
                kept = self._checkpoint(problem, spec, options, start)
                progress = train(
                    made, problem, stop, unit=unit, start=start, callbacks=listeners, checkpoint=kept
                )
        self._keep(grounded, progress, problem, chosen)
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
        check_parameters(self)
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
        progress = Progress(w, primal, upper, n_passes=2.0, reason="stream")
        self._keep(grounded, progress, problem, chosen)
        self._stream = (made, state, seen)
        unit = 1.0 if self.lam is not None else 1.0 / problem.objective.lam
        self.report_ = self._report(progress, problem, unit, options)
        return self

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

    def _checkpoint(
        self, problem: Problem, spec: TrainerSpec, options: dict[str, Any], start: F64 | None
    ) -> Checkpoint | None:
        """Return where the fit keeps its state, if it is to."""
        if self.checkpoint is None:
            return None
        if not spec.resumable:
            able = [other.name for other in registry().specs(TrainerSpec) if other.resumable]
            raise TrainingError(f"trainer '{spec.name}' keeps no checkpoints; these do: {', '.join(able)}")
        begun = None if start is None else start.tolist()
        told = {"trainer": spec.name, "options": options, "seed": self.random_state, "risk": self.risk, "w": begun}
        return Checkpoint(Path(self.checkpoint), fingerprint(problem, told), self.checkpoint_seconds)

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

    def _keep(self, grounded: Grounded, progress: Progress, problem: Problem, chosen: Plan) -> None:
        self.coef_ = progress.w
        self._certificate = Certificate.of(progress, problem.objective)
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
        check_parameters(self)
        weight = check_sample_weight(sample_weight, len(X))
        lost_parts, largest = zip(*self._answers(X, losses, Y=Y), strict=True)
        lost, most = float(np.dot(weight, np.concatenate(lost_parts))), float(np.dot(weight, np.concatenate(largest)))
        return 1.0 - lost / most if most > 0 else 1.0

    def certified_gap(self, C: float) -> float:
        """Return the relative gap that the last fit certifies for its weights at another C; ``nan`` if it cannot.

        Weights and the bound of the optimum stay valid when C changes; how far they are apart follows without
        looking at the data again (Giesen, Jaggi and Laue 2012).
        """
        self._check_fitted()
        return self._certificate.relative_gap(C)

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


def _custom_loss(kind: str) -> Any:
    return registry().find(LossSpec, kind).load()
