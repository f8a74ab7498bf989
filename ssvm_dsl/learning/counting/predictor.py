"""``CountingPredictor``: structured outputs learnt without searching for the best ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.files.opening import as_path, check_path
from ssvm_dsl.inference.threads import one_blas_thread
from ssvm_dsl.learning.counting.checks import check_predictor, inputs_of
from ssvm_dsl.learning.counting.kernels import Gram, InputKernel, KernelFunction, expansion
from ssvm_dsl.learning.counting.methods.batch import Trained, closed_form, conjugate_gradient
from ssvm_dsl.learning.counting.methods.descent import (
    MetaWindow,
    Window,
    automatic_delay,
    largest_curvature,
    meta_descent,
    stochastic,
)
from ssvm_dsl.learning.counting.methods.streams import check_stream, longer_stream, stream_report
from ssvm_dsl.learning.counting.objective import CountingObjective, CountingRisk
from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace, chosen_decoder
from ssvm_dsl.learning.counting.report import CountingReport
from ssvm_dsl.learning.estimator import Estimator, warn_unconverged
from ssvm_dsl.learning.estimators.fitting.stream import Stream
from ssvm_dsl.learning.objective import DEFAULT_C, check_sample_weight, convention, lam_of

#: Unknowns of a closed form that is computed for a certificate without being asked for.
SMALL_SYSTEM = 1000

#: What to do about steps that are too long.
SHORTER = "set delay='auto', a smaller step, or a larger lam"


class CountingPredictor(Estimator):
    """Structured prediction trained by counting outputs (Gaertner and Vembu 2009): no best output is ever sought.

    Scores ``phi(z) . f(x)`` of outputs z are to be higher for true outputs than for false ones.  The policy f is a
    combination of kernels between inputs, and minimises ``1/2 |h|^2 + C sum_i risk_i`` (or, with ``lam``,
    ``lam/2 |h|^2 + 1/n sum_i risk_i``), where risk_i is the mean over all pairs of a true and a false output of
    ``texp(score of the false one - score of the true one)``, ``texp(a) = 1 + a + a^2 / 2``.  That is a quadratic
    function whose sums over exponentially many outputs are known in closed form.

    Parameters
    ----------
    space : OutputSpace
        :class:`Subsets`, :class:`Dicycles`, or a user-defined one.
    kernel : str or function
        Between inputs: ``"rbf"``, ``"linear"``, ``"polynomial"``, or a function of arrays of shapes (m, p) and (n, p)
        that returns the Gram matrix (m, n).
    gamma : float or "scale"
        Of the kernels rbf and polynomial; ``"scale"``: 1 / (p times the variance of X).
    degree, coef0 : float
        Of the polynomial kernel.
    C, lam : float
        Weight of the risks against the norm; lam = 1 / (C n).  The paper's lambda, with risks that are sums over the
        pairs of one true output, is ``lam n (|Y| - 1) / 2``.
    solver : {"ncg", "sgd", "closed-form"}
        Non-linear conjugate gradient on all coefficients, O(n^2 d) an iteration; stochastic gradient descent, O(tau) a
        step; or one linear system of rank(K) d unknowns.
    tol : float
        Relative gap at which ``ncg`` ends.
    max_iter : int
        Most iterations of ``ncg``.
    n_passes : int
        Passes of ``sgd`` over the examples.
    step : float
        p in the step size ``p / (lam (t + delay))`` of ``sgd``.  A coefficient shrinks as ``(t / n)^p``: with a
        truncation take p so large that ``(1 - tau / n)^p``, what is left of one that is dropped, is small.
    delay : float or "auto"
        0 is the paper's rule; ``"auto"`` the least delay with which no step is too long.
    step_rule : {"decay", "smd"}
        Of ``sgd``: p is as given, or stochastic meta-descent adapts it from step to step.
    meta_step : float
        How fast it does: the step size for the logarithm of p, times objective.
    truncation : int, float or None
        tau: how many of the latest coefficients ``sgd`` keeps; a float below or equal to 1 is a share of n; ``None``:
        all.
    max_seconds : float or None
        Time limit of ``ncg`` and ``sgd``.
    certificate : {"auto", "gradient", "closed-form", "none"}
        How the gap in ``report_`` is found: from the norm of the gradient, O(n^2); from the optimum in closed form; by
        default from the latter where it is small (1000 unknowns), else from the former.
    decoder : str or None
        One of ``space.decoders``, which gives the guarantee of each; ``None``: the first.
    random_state : int or None
        Shuffles the examples for ``sgd``; ``None`` keeps their order.

    Attributes
    ----------
    support_ : ndarray of int64, shape (n_support,)
        The examples with coefficients that are not zero.
    dual_coef_ : ndarray, shape (n_support, d)
        Their coefficients.
    report_ : CountingReport
        Objective, norm of the gradient, gap, iterations, time.

    Examples
    --------
    >>> reg = CountingPredictor(Subsets(5), kernel="rbf", C=10.0).fit(X, Y)
    >>> reg.predict(X_test); reg.decision_function(X_test); print(reg.report_)
    """

    def __init__(
        self,
        space: OutputSpace,
        kernel: str | KernelFunction = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 1.0,
        C: float = DEFAULT_C,
        lam: float | None = None,
        solver: str = "ncg",
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_passes: int = 1,
        step: float = 1.0,
        delay: float | str = "auto",
        truncation: float | None = None,
        max_seconds: float | None = None,
        certificate: str = "auto",
        decoder: str | None = None,
        random_state: int | None = None,
        step_rule: str = "decay",
        meta_step: float = 1.0,
    ) -> None:
        self.space = space
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.lam = C, lam
        self.solver, self.tol, self.max_iter = solver, tol, max_iter
        self.n_passes, self.step, self.delay, self.truncation = n_passes, step, delay, truncation
        self.max_seconds, self.certificate, self.decoder, self.random_state = (
            max_seconds, certificate, decoder, random_state,
        )  # fmt: skip
        self.step_rule, self.meta_step = step_rule, meta_step

    def fit(self, X: Any, Y: Sequence[Any], sample_weight: Any = None) -> CountingPredictor:
        """Learn the coefficients.

        Parameters
        ----------
        X : array_like, shape (n, p)
        Y : sequence of n outputs
            The true output of each example, or a list of several.
        sample_weight : array_like, shape (n,), optional
            Multiplies each example's risk.

        Raises
        ------
        DataError
            Bad data, named with input and example.
        OptionError
            Parameters that make no sense.
        TooLargeError
            The solver would need more memory than there is.
        TrainingError
            Stochastic steps were so long that coefficients overflowed.
        """
        check_predictor(self)
        inputs = inputs_of(X)
        risk = self._risk(Y, sample_weight, len(inputs))
        lam = lam_of(self.C, self.lam, len(inputs))
        kernel = InputKernel.of(self.kernel, self.gamma, self.degree, self.coef0, inputs)
        with one_blas_thread():  # the same result on any number of processors
            start = perf_counter(), process_time()
            trained, objective = self._train(kernel, inputs, risk, lam)
            spent = perf_counter() - start[0], process_time() - start[1]
            report = self._report(trained, objective, *spent)
        self.kernel_, self.report_ = kernel, report
        self.support_: I64 = np.flatnonzero(trained.alpha.any(axis=1))
        self.dual_coef_: F64 = trained.alpha[self.support_]
        self.X_fit_, self.n_features_in_ = inputs[self.support_], inputs.shape[1]
        self._stream: Stream | None = None
        if text := report.convergence_warning(self.tol):
            warn_unconverged(text)
        return self

    def partial_fit(self, X: Any, Y: Sequence[Any], sample_weight: Any = None) -> CountingPredictor:
        """Learn one pass over a batch of a stream of examples, continuing from earlier calls.

        It is the descent of ``solver="sgd"``, in the order given, whose last ``truncation`` examples are kept (all of
        them without): with ``lam``, a ``gamma`` and a ``delay`` that are numbers, batches have the coefficients that
        one pass of ``fit`` over all of them has.  ``gamma="scale"`` is that of the first batch; ``delay="auto"`` grows
        where a batch needs a longer one.  ``step_rule="smd"`` goes on from the p that it has come to.  With ``C``, lam
        is ``1 / (C n)`` for the n examples seen so far.  ``support_`` counts examples from the beginning of the stream.
        The examples are gone, so that ``report_`` has no objective.

        Raises
        ------
        TrainingError
            Another solver, other settings than the stream began with, or steps so long that coefficients overflowed.
        OptionError, DataError
            As for ``fit``; nothing is learnt of the batch then.
        """
        check_predictor(self)
        stream: Stream | None = getattr(self, "_stream", None)
        tau = check_stream(self, stream)
        inputs = inputs_of(X)
        if stream is not None:
            self._require_columns(inputs)
        kernel = InputKernel.of(self.kernel, self.gamma, self.degree, self.coef0, inputs)
        kernel = kernel if stream is None else self.kernel_
        risk = self._risk(Y, sample_weight, len(inputs))
        if stream is None and hasattr(self, "dual_coef_"):
            text = "partial_fit starts a new stream and discards the result of the last fit"
            warn_caller(f"{text} (a loaded stream continues from its saved state)")
        start = perf_counter(), process_time()
        with one_blas_thread():
            stream = longer_stream(self, stream, kernel, inputs, risk, tau)
        spent = perf_counter() - start[0], process_time() - start[1]
        coef, learnt = stream.arrays["coef"], stream.n_seen
        self._require_finite(coef, np.array(list(stream.values.values())))
        used: I64 = np.flatnonzero(coef.any(axis=1))
        report = stream_report(self, stream, len(used), *spent)
        self.kernel_, self.report_, self._stream = kernel, report, stream
        self.support_, self.dual_coef_ = learnt - len(coef) + used, coef[used]
        self.X_fit_, self.n_features_in_ = stream.arrays["inputs"][used], inputs.shape[1]
        return self

    def save(self, path: str | Path) -> None:
        """Write what was learnt to a file (JSON and arrays; no pickle, no code).

        Raises
        ------
        OptionError
            No file can be written there, or the kernel is a function, which files do not hold.
        """
        from ssvm_dsl.learning.counting.saved import write_predictor

        self._check_fitted()
        write_predictor(check_path(path, "save"), self)

    @classmethod
    def load(cls, path: str | Path, *, space: OutputSpace | None = None) -> CountingPredictor:
        """Return the content of a file.

        Parameters
        ----------
        path : str or Path
        space : OutputSpace, optional
            The space it was saved with, if that is user-defined: files do not hold these.

        Raises
        ------
        FileFormatError
            The file is not a saved predictor.
        OptionError
            It was saved with a user-defined space, and ``space`` is missing or another one.
        """
        from ssvm_dsl.learning.counting.saved import read_predictor

        return read_predictor(cls, as_path(path, "load"), space)

    def decision_function(self, X: Any) -> F64:
        """Return the policy of each input; ``shape (n, d)``.  The score of an output z is its product with phi(z)."""
        self._check_fitted()
        inputs = inputs_of(X)
        self._require_columns(inputs)
        with one_blas_thread():
            return expansion(self.kernel_, inputs, self.X_fit_, self.dual_coef_)

    def predict(self, X: Any) -> Any:
        """Return an output of high score for each input; ``space.decoders`` gives the guarantee of each decoder."""
        decoder = chosen_decoder(self.space, self.decoder)
        return self.space.decode(self.decision_function(X), decoder)

    def score(self, X: Any, Y: Sequence[Any]) -> float:
        """Return the share of examples whose predicted output is a true one."""
        predicted = self.predict(X)
        truth = self._true_outputs(Y, len(predicted))
        return float(np.mean([self.space.canonical(z) in one for z, one in zip(predicted, truth, strict=True)]))

    def risks(self, X: Any, Y: Sequence[Any]) -> F64:
        """Return the risk of each example, as in training: its misordered pairs, bounded from above; ``shape (n,)``.

        Parameters
        ----------
        X, Y
            As for :meth:`fit`.
        """
        policies = self.decision_function(X)
        return self._risk(Y, None, len(policies)).values(policies)

    def _train(self, kernel: InputKernel, X: F64, risk: CountingRisk, lam: float) -> tuple[Trained, CountingObjective]:
        """Run the solver."""
        end = np.inf if self.max_seconds is None else self.max_seconds
        if self.solver == "ncg":
            objective = CountingObjective(risk, Gram(kernel, X, keep=True), lam)
            return conjugate_gradient(objective, self.tol, self.max_iter, end), objective
        objective = CountingObjective(risk, Gram(kernel, X, keep=False), lam)
        if self.solver == "closed-form":
            best = closed_form(kernel, X, risk, lam)
            if best is None:
                text = f"lam = {lam:.3g} is lost in rounding next to kernels as large as {kernel.diagonal(X).max():.3g}"
                raise TrainingError(f"{text}; scale the inputs, raise lam (lower C), or set solver='ncg' or 'sgd'")
            return Trained(best.alpha, 1, "solved", best.bound), objective
        n, order = len(X), np.arange(len(X))
        if self.random_state is not None:
            order = np.random.default_rng(self.random_state).permutation(n)
        automatic, n_steps = self.delay == "auto", n * self.n_passes
        delay = automatic_delay(kernel, X, risk, lam, self.step) if automatic else float(self.delay)
        rule: dict[str, Any] = {
            "delay": delay, "tau": self._tau(n), "order": order, "n_steps": n_steps, "max_seconds": end,
        }  # fmt: skip
        window: Window | MetaWindow
        with np.errstate(over="ignore", invalid="ignore"):  # steps that are too long are refused by what they led to
            if self.step_rule == "smd":
                longest = 1.0 / (lam + largest_curvature(kernel, X, risk)) if automatic else np.inf
                empty = MetaWindow.begin(risk.truth.shape[1], self.step)
                window = meta_descent(kernel, X, risk, lam, empty, longest=longest, meta_step=self.meta_step, **rule)
            else:
                start = Window(np.zeros(0, dtype=np.int64), np.zeros((0, risk.truth.shape[1])), 0)
                window = stochastic(kernel, X, risk, lam, start, step=self.step, **rule)
        alpha = np.zeros(risk.truth.shape)
        alpha[window.ids] = window.coef
        return Trained(alpha, window.n_steps, "passes" if window.n_steps == n_steps else "seconds"), objective

    def _tau(self, n: int) -> int:
        """Return how many coefficients are kept, from 1 to n."""
        if self.truncation is None:
            return n
        share = isinstance(self.truncation, float) and self.truncation <= 1.0
        return int(np.clip(round(self.truncation * n if share else self.truncation), 1, n))

    def _report(
        self, trained: Trained, objective: CountingObjective, seconds: float, processor_seconds: float
    ) -> CountingReport:
        """Evaluate the objective, and bound it from below."""
        start, gram, lam, risk = perf_counter(), objective.gram, objective.lam, objective.risk
        n_products = gram.n_products
        self._require_finite(trained.alpha)
        unit = 1.0 if self.lam is not None else 1.0 / lam
        bound, norm, certificate = np.nan, np.nan, self.certificate
        if certificate == "none":
            value = objective.value(trained.alpha, gram.dot(trained.alpha))
        else:
            values = objective.evaluate(trained.alpha)
            value, norm, bound = values.value, values.norm, max(values.bound, trained.bound)
            if certificate == "auto" or certificate == "closed-form":
                most = SMALL_SYSTEM if certificate == "auto" else np.inf
                best = None if self.solver == "closed-form" else closed_form(gram.kernel, gram.X, risk, lam, most)
                bound = bound if best is None else max(bound, best.bound)
                certificate = "gradient" if best is None and self.solver != "closed-form" else "closed-form"
        gap = max(value - bound, 0.0) if np.isfinite(bound) else np.nan
        return CountingReport(
            objective=unit * value, lower_bound=unit * bound, gap=unit * gap, relative_gap=gap / abs(value),
            processor_seconds=processor_seconds,
            gradient_norm=unit * norm, certificate=certificate, solver=self.solver,
            n_iterations=trained.n_iterations, reason=trained.reason, seconds=seconds,
            certificate_seconds=perf_counter() - start, n_examples=risk.n, n_features=self.space.n_features,
            n_support=int(trained.alpha.any(axis=1).sum()), convention=convention(self.C, self.lam, "h"),
            n_products=n_products,
        )  # fmt: skip

    def _true_outputs(self, Y: Any, n: int) -> list[list[Any]]:
        """Return the true outputs of each of n examples, in canonical form."""
        if not hasattr(Y, "__len__") or len(Y) != n:
            found = f"{len(Y)}" if hasattr(Y, "__len__") else type(Y).__name__
            raise DataError("Y", expected=f"{n} outputs, as many as rows of X", found=found)
        truth = []
        for i, value in enumerate(Y):
            try:
                outputs = [self.space.canonical(one) for one in self.space.true_outputs(value)]
            except TypeError as err:
                raise DataError("Y", example=i, expected=f"an output of {self.space!r}", found=repr(value)) from err
            except ValueError as err:
                raise DataError("Y", example=i, expected=f"an output of {self.space!r}", found=f"none: {err}") from err
            if not outputs or len(set(outputs)) < len(outputs):
                text = "an output that is given twice" if outputs else "none"
                raise DataError("Y", example=i, expected="one or more different outputs", found=text)
            truth.append(outputs)
        return truth

    def _true_features(self, Y: Any, n: int) -> tuple[F64, I64]:
        """Return the features of all true outputs, example by example, and where those of each start."""
        truth = self._true_outputs(Y, n)
        features = [np.asarray(self.space.features(one)) for outputs in truth for one in outputs]
        wrong = next((one for one in features if one.shape != (self.space.n_features,)), None)
        if wrong is not None:
            text = f"features of {self.space!r}: expected shape {(self.space.n_features,)}, found {wrong.shape}"
            raise OptionError(f"{text}; ssvm_dsl.testing.check_output_space looks for such mistakes")
        shape = len(features), self.space.n_features
        return np.array(features, dtype=np.float64).reshape(shape), np.cumsum([0, *map(len, truth)])

    def _risk(self, Y: Any, sample_weight: Any, n: int) -> CountingRisk:
        """Return the risks of n examples."""
        features, ptr = self._true_features(Y, n)
        return CountingRisk.of(self.space, features, ptr, check_sample_weight(sample_weight, n))

    def _require_columns(self, inputs: F64) -> None:
        if inputs.shape[1] != self.n_features_in_:
            raise DataError("X", expected=f"{self.n_features_in_} columns, as in fit", found=f"{inputs.shape[1]}")

    def _require_finite(self, *found: F64) -> None:
        if not all(np.isfinite(one).all() for one in found):
            raise TrainingError(f"steps were too long (step={self.step:g}, delay={self.delay!r}); {SHORTER}")

    def _check_fitted(self) -> None:
        if not hasattr(self, "dual_coef_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this CountingPredictor is not fitted yet; call fit first")
