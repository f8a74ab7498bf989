"""``StructuredSVM``: a declared model as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ssvm_dsl.compiler import Grounded
from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.inference.planner import AUTO, Plan, accepted_guarantee, need_of, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.certificate import Certificate, FitReport
from ssvm_dsl.learning.check_parameters import check_parameters
from ssvm_dsl.learning.checkpoint import Checkpoint, fingerprint
from ssvm_dsl.learning.fit import Callback, train
from ssvm_dsl.learning.objective import check_sample_weight, lam_of, regularized_risk
from ssvm_dsl.learning.predictor import Predictor
from ssvm_dsl.learning.problem import MarginProblem
from ssvm_dsl.learning.progress import Progress, relative
from ssvm_dsl.learning.risks import Problem, check_pairing, find_risk
from ssvm_dsl.learning.validation import Validation
from ssvm_dsl.plugin_api.protocols import Executor, StopRule
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.registry import registry

F64 = NDArray[np.float64]


class StructuredSVM(Predictor):
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
        What is minimised: ``"margin"``, ``"slack"``, ``"hm"``, ``"perceptron"``, ``"log"``, ``"softmax-margin"``,
        ``"relaxed"``, ``"weston-watkins"``, ``"smooth-hinge"`` (:mod:`ssvm_dsl.learning.risks`).
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
    patience : int
        For ``fit(..., validation=(X, Y))``: passes without a better score that end training.
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
        patience: int = 5,
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
        self.patience = patience
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds

    # -- learning --------------------------------------------------------------------------------------

    def fit(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        sample_weight: Any = None,
        validation: tuple[Sequence[Any], Sequence[Any]] | None = None,
    ) -> StructuredSVM:
        """Learn the weights.

        Parameters
        ----------
        X : list of examples
            Each a dict of arrays by input name, or the bare array when the model has one input.
        Y : list of labels
            Each a dict by label name, or the bare labels when the model has one label.
        sample_weight : array_like, shape (n,), optional
            Multiplies each example's risk.
        validation : tuple (X, Y), optional
            Held-out examples: training ends when ``patience`` passes in a row have not raised the score on them, and
            the weights with the best score are kept.

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
                    made, problem, stop, unit=unit, start=start, callbacks=listeners, checkpoint=kept,
                    validation=self._validation(grounded, validation),
                )  # fmt: skip
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
        tasks, kinds = risk.asks(grounded.loss, spec.needs.messages)
        asked = risk.weakest(Guarantee(self.guarantee))
        guarantee = accepted_guarantee(self.backend, asked, spec.needs.guarantee)
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

    def _validation(self, grounded: Grounded, held_out: Any) -> Validation | None:
        """Return what watches the score on held-out examples, if there are any."""
        if held_out is None:
            return None
        if self.checkpoint is not None:
            raise OptionError("a fit with validation examples keeps no checkpoints; leave one of them out")
        probe: StructuredSVM = clone(self)
        probe._fitted, probe._blocks = grounded.fitted, grounded.parameters.blocks

        def score(w: F64) -> float:
            probe.coef_ = w
            return probe.score(*held_out)

        score(np.zeros(grounded.parameters.dim))  # bad validation data are refused before training
        return Validation(score, self.patience)

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
            tightness=problem.tightness(progress.w) if isinstance(problem, MarginProblem) else np.nan,
            history=tuple(progress.history),
        )

    def certified_gap(self, C: float) -> float:
        """Return the relative gap that the last fit certifies for its weights at another C; ``nan`` if it cannot.

        Weights and the bound of the optimum stay valid when C changes; how far they are apart follows without
        looking at the data again (Giesen, Jaggi and Laue 2012).
        """
        self._check_fitted()
        return self._certificate.relative_gap(C)
