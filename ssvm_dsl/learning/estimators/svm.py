"""``StructuredSVM``: a declared model as a scikit-learn estimator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.inputs import arrays_of_frames, check_sequence
from ssvm_dsl.compiler.labels.class_labels import class_array
from ssvm_dsl.compiler.labels.unknown_labels import warn_of_unseen
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, InfeasibleError, KeywordError, OptionError
from ssvm_dsl.inference.diagnosis.true_labels import infeasible_examples, nearest_truth, unknown_variables
from ssvm_dsl.inference.planning.planner import AUTO
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.learning.answers import ON_MISSING, PredictionRequest, call_threads, indexed, losses
from ssvm_dsl.learning.driver.fit import Callback
from ssvm_dsl.learning.estimators.fitted import FitRequest, Trainable, TrainingTarget
from ssvm_dsl.learning.estimators.fitting.fit import fit, fit_more
from ssvm_dsl.learning.estimators.fitting.latent import LatentOptions, begun
from ssvm_dsl.learning.estimators.fitting.over_shards import (
    ask_all,
    fit_over_shards,
    labellings_of_parts,
    losses_of_parts,
)
from ssvm_dsl.learning.estimators.fitting.training import planned_run
from ssvm_dsl.learning.estimators.parameters import (
    NEAREST,
    RAISE,
    Seed,
    check_choice,
    check_flag,
    check_labels,
    check_loss,
    without,
)
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.metrics import Scoring
from ssvm_dsl.learning.objective import DEFAULT_C, check_sample_weight
from ssvm_dsl.learning.online import OnlineLabels, labels_online
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.learning.risks.kinds import Problem, Risk, find_risk
from ssvm_dsl.learning.shards.answers import Write, answers_of, labellings_of
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.plugin_api.executors import THREADS

T = TypeVar("T")

#: So many examples are listed in a warning.
LISTED = 5


class StructuredSVM(StructuredEstimator):
    """Structural support vector machine of a declared model.

    Minimises ``1/2 |w|^2 + C sum_i risk_i(w)`` (or, with ``lam``, ``lam/2 |w|^2 + 1/n sum_i risk_i(w)``), by default
    with the margin-rescaled hinge ``risk_i(w) = max_y [loss(y_i, y) + w . Phi(x_i, y)] - w . Phi(x_i, y_i)``.

    Parameters
    ----------
    model : Model class
        The declaration.
    C : float
        Weight of the risks; leave it out when ``lam`` is given (giving both is refused).
    lam : float, optional
        Regularisation strength; ``lam = 1 / (C n)``.  With ``l1``, 0 leaves the L1 penalty alone.
    l1 : float
        Strength of an L1 penalty, ``+ l1 |w|_1`` in either objective: most weights become exactly 0.  For trainers
        that take it, as the default does (errors list them).  ``regularization`` multiplies it as it does the square.
    risk : str
        The risk to minimise: ``"margin"``, ``"slack"``, ``"hm"``, ``"perceptron"``, ``"log"``, ``"softmax-margin"``,
        ``"relaxed"``, ``"weston-watkins"``, ``"smooth-hinge"``, ``"squared-weston-watkins"``
        (:mod:`ssvm_dsl.learning.risks.kinds`).
    power : float
        Each risk is raised to this power, at least 1; 2 squares the slack of each example (of ``weston-watkins`` the
        sum of its slacks).
    trainer : str
        Name of a trainer (``ssvm plugins list``), or ``"auto"``: the one that certifies fastest for the risk, the
        penalty and the size of the problem, by measured rules; the report says which, and why.
    backend : str
        Name of an inference backend, with bridges as plans print them, or ``"auto"``.
    guarantee : {"exact", "bound", "heuristic"}
        The weakest guarantee that ``auto`` accepts: proved optima, answers with a certified upper bound
        (relaxations; training stays certified), or any answers.
    tol : float
        Relative duality gap at which training stops.
    max_passes : float
        Maximum number of passes over the data with the exact oracle.
    max_seconds : float, optional
        Time limit of ``fit`` in seconds, also inside oracle calls; compiling kernels is not counted.
    random_state : int, RandomState or Generator, optional
        Seed.  Results depend on the seed only, not on the number of threads.  Of a generator it is the next number; the
        generator is left as it was, so that another fit gives the same.
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
    callbacks : list of callables, optional
        Functions called after each iteration with a :class:`~ssvm_dsl.plugin_api.TrainingEvent`; a function that
        returns True stops the fit.
    patience : int
        For ``fit(..., validation=(X, Y))``: training stops after this many evaluations (one a pass) without a better
        score.
    scoring : callable or str, optional
        The score on the examples of ``validation`` (larger is better), as in scikit-learn: a function
        ``(estimator, X, Y) -> float``, or the name of a scorer that suits what ``predict`` returns; by default the
        method ``score``.
    checkpoint : str, optional
        A file for the state of ``fit``.  If it exists, the same fit resumes from it: bit for bit after the process was
        killed, and from the last iteration after a limit.  ``fit`` deletes it when the tolerance is reached.
    checkpoint_seconds : float
        Minimum time between two writes of the checkpoint.
    latent_options : dict, optional
        For models with latent variables: ``init`` ("k-means", "random", or states in the form that ``latents``
        returns), ``rounds`` (20) and ``restarts`` (1).
    infeasible : {"raise", "drop", "nearest"}
        What is done about labels that masks, rules or constraints of the model rule out: an error that counts them,
        their examples are left out, or the feasible labels that differ from them in fewest variables are learnt.
        The last two check all labels before training, and warn; ``max_seconds`` counts that, too.
    executor : str
        Where training runs: ``"threads"`` of this process, or on shards of the data in ``"processes"``, one shard after
        the other (``"stream"``), or where a plug-in says (``ssvm plugins list``).  Shards want a trainer that works on
        sums over all examples, ``"lbfgs"``, ``"bundle"``, ``"one-slack"``, ``"svrg"``, ``"adam"`` or
        ``"subgradient"``, or on shards that stay open, ``"bcfw"``; ``"auto"`` takes one of these.
    executor_options : dict, optional
        Options of the executor; ``ssvm plugins show NAME`` lists them.

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
    infeasible_ : ndarray of int64
        The examples whose labels were ruled out, where they were dropped or replaced (``infeasible``).

    Examples
    --------
    >>> svm = StructuredSVM(OCR, C=1.0).fit(X, Y)
    >>> svm.predict(X_test), svm.score(X_test, Y_test)
    >>> print(svm.report_)
    """

    risk: str
    infeasible: str
    _parameters = without("epsilon")

    def __init__(
        self,
        model: type[Model],
        C: float = DEFAULT_C,
        lam: float | None = None,
        risk: str = "margin",
        power: float = 1.0,
        l1: float = 0.0,
        trainer: str = AUTO,
        backend: str = AUTO,
        guarantee: str = "exact",
        tol: float = 1e-3,
        max_passes: float = 500,
        max_seconds: float | None = None,
        random_state: Seed = None,
        n_threads: int | None = None,
        trainer_options: dict[str, Any] | None = None,
        backend_options: dict[str, Any] | None = None,
        regularization: Mapping[Any, float] | None = None,
        warm_start: bool = False,
        verbose: bool = False,
        callbacks: Sequence[Callback] | None = None,
        patience: int = 5,
        scoring: Scoring = None,
        checkpoint: str | None = None,
        checkpoint_seconds: float = 60.0,
        latent_options: Mapping[str, Any] | None = None,
        infeasible: str = RAISE,
        executor: str = THREADS,
        executor_options: dict[str, Any] | None = None,
    ) -> None:
        self._keep(locals())

    # -- learning --------------------------------------------------------------------------------------

    def fit(
        self,
        X: Sequence[Any] | PartitionedDataset,
        Y: Sequence[Any] | None = None,
        sample_weight: Any = None,
        validation: tuple[Sequence[Any], Sequence[Any]] | None = None,
        *,
        y: Sequence[Any] | None = None,
    ) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : list of examples
            Each a dict of arrays by input name, a tuple of them in the order of the declaration, or the bare array when
            the model has one input.  With an executor that
            trains on shards, a :class:`~ssvm_dsl.PartitionedDataset`, too.
        Y : list of labels
            Each a dict by label name, or the bare labels when the model has one label; none for a
            ``PartitionedDataset``, whose parts hold them.
        sample_weight : array_like, shape (n,), optional
            Multiplies each example's risk.
        validation : tuple (X, Y), optional
            Held-out examples: training ends when ``patience`` looks in a row, at most one a pass, have not raised the
            score on them (``scoring``), and the weights with the best score are kept.
        y : list of labels, optional
            Another name of ``Y``, which scikit-learn uses.

        Raises
        ------
        DataError
            Bad data, named with input and example.
        OptionError, PluginError, NoBackendError, TrainingError
            Parameters, options or the combination of trainer, risk, loss and backend cannot be used.
        ModelError
            The model has nothing to score with, or nothing to predict.
        """
        return self._fit_examples(X, either(Y, y, "fit"), sample_weight, validation, self._fit_deadline())

    def _fit_examples(self, X: Any, Y: Any, sample_weight: Any, validation: Any, deadline: Deadline) -> Self:
        """Learn the weights within a deadline."""
        self._check()
        check_loss(self.model)
        if self.executor != THREADS or isinstance(X, PartitionedDataset):
            fit_over_shards(self, X, Y, FitRequest(self._target, sample_weight, validation, deadline))
            return self
        with within(deadline):
            data = self._trainable(X, check_labels(Y), sample_weight)
        fit(self, data.X, data.Y, FitRequest(self._target, data.sample_weight, validation, deadline))
        return self

    def partial_fit(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any = None) -> StructuredSVM:
        """Learn one pass over a batch of a stream of examples, continuing from earlier calls.

        Fitted features (vocabularies, means) are those of the first batch.  With ``C``, the regularisation is
        ``1 / (C n)`` for the n examples seen so far.

        Raises
        ------
        TrainingError
            The trainer cannot learn from a stream; names those that can.
        """
        self._check()
        check_loss(self.model)
        data = self._trainable(X, check_labels(Y), sample_weight)
        fit_more(self, data.X, data.Y, FitRequest(self._target, data.sample_weight, None, Deadline()))
        return self

    def _trainable(self, X: Any, Y: Any, sample_weight: Any, part: bool = False) -> Trainable:
        """Return the data without labels that the model rules out, and warn of them, if that is asked for.

        ``part`` of the data may lose all its examples.  Searches end with the current call (:mod:`ssvm_dsl.deadline`).
        """
        if self.infeasible == RAISE:
            return Trainable(X, Y, sample_weight, np.zeros(0, dtype=np.int64))
        grounded = self._ground(X, Y, part=part, whole=True)
        n, examples = grounded.n_examples, infeasible_examples(grounded)
        self.infeasible_ = examples
        if not len(examples):
            return Trainable(X, Y, sample_weight, examples)
        listed = ", ".join(map(str, examples[:LISTED].tolist())) + (", ..." if len(examples) > LISTED else "")
        some = f"Y: {len(examples)} of {n} examples have labels that the model rules out ({listed})"
        if self.infeasible == NEAREST:
            nearest = nearest_truth(grounded, examples)
            changed = f"{nearest.n_changed} label{'s' * (nearest.n_changed != 1)} changed"
            if nearest.n_unproved:
                changed += f"; time was up before those of {nearest.n_unproved} examples were proved nearest"
            warn_caller(f"{some}: the nearest feasible ones are learnt ({changed})")
            return Trainable(X, nearest.labels, sample_weight, examples)
        if len(examples) == n and not part:
            raise DataError("Y", expected="labels that the model does not rule out", found=f"none among {n} examples")
        warn_caller(f"{some}: these examples are left out")
        kept = np.setdiff1d(np.arange(n), examples)
        weight = None if sample_weight is None else check_sample_weight(sample_weight, n, part)[kept]
        whole, labels = check_sequence(X, "X", self.model.declaration), check_sequence(Y, "Y")
        return Trainable([whole[i] for i in kept], [labels[i] for i in kept], weight, examples)

    def _target(self, grounded: Grounded) -> TrainingTarget:
        """Return the risk by its name, with the declared loss."""
        assert grounded.loss is not None
        return TrainingTarget(self._risk(), grounded.loss)

    def _risk(self) -> Risk:
        return find_risk(self.risk)

    # -- what workers ask, which have a part of the data -------------------------------------------------

    def _shard_data(
        self, X: Any, Y: Any, sample_weight: Any, fitted: Any, in_time: bool = False
    ) -> tuple[Grounded, Any] | None:
        """Return the model laid over examples, and their weights, or ``None`` where no example is left to learn from.

        ``in_time`` is that of ``ground``.
        """
        if isinstance(X, list) and arrays_of_frames(self.model.declaration, X)[1]:
            hint = "let its reader return arrays: X.to_numpy(), with the columns in one order"
            raise DataError("X", expected="arrays in a part of the data", found="data frames", hint=hint)
        data = self._trainable(X, Y, sample_weight, part=True)
        if len(data.examples) and not len(data.X):
            return None
        return self._ground(data.X, data.Y, fitted=fitted, part=True, in_time=in_time), data.sample_weight

    def _shard_problem(self, grounded: Grounded, sample_weight: Any, deadline: Deadline | None = None) -> Problem:
        """Return the training problem of examples, without a backend where time is up before there is one."""
        request = FitRequest(self._target, sample_weight, None, deadline or Deadline())
        return planned_run(self, grounded, request, self._trainer(), Threads(), part=True).problem

    # -- prediction ------------------------------------------------------------------------------------

    def predict(
        self,
        X: Sequence[Any] | PartitionedDataset,
        *,
        time_limit: float | None = None,
        return_bounds: bool = False,
        given: Sequence[Any] | None = None,
        on_missing: str = "raise",
    ) -> Any:
        """Return the best labelling of each example, in the user's own class names.

        An array of class names for each example (a plain class for a label without axes, a dict for a model
        with several labels).

        Parameters
        ----------
        X : list of examples, or PartitionedDataset
            Parts are predicted where the executor has them, in their order; ``predict_parts`` keeps them apart.  One
            that is not read within ``time_limit`` is an error, as nobody knows how many examples are in it.
        time_limit : float, optional
            Seconds for the whole call, shared among the examples (compiling kernels is not counted): then the best
            labellings found so far are returned, with a ``TimeLimitWarning`` that reports how many are not proved best.
        return_bounds : bool
            Return ``(labellings, scores, bounds)``, where no labelling of example i scores more than ``bounds[i]``
            (``nan`` where the backend gives no bound).
        given : list of labels, optional
            Known labels, in the form of ``Y`` in ``fit``; unknown ones are ``None``, masked, or the value of
            ``Label(unknown=)``.  The result is the best labelling that agrees with the known labels.
        on_missing : str
            Treatment of examples without a labelling: ``"raise"`` raises an error whose ``found`` holds the other
            labellings; ``"none"`` returns ``None`` for them (with the score ``-inf``).

        Raises
        ------
        NoLabellingError
            An example has no labelling: its solution is fractional, or time is up where finding any takes a search.
        InfeasibleError
            No labelling of an example satisfies the given labels and the constraints of the model.
        """
        if return_bounds is not False:
            check_flag(return_bounds, "return_bounds")
        if isinstance(X, PartitionedDataset):
            if return_bounds or given is not None:
                raise OptionError("predict: of a PartitionedDataset, on_missing and time_limit are the only options")
            return labellings_of_parts(self, X, on_missing, time_limit)
        request = PredictionRequest(time_limit=time_limit, given=given, on_missing=on_missing)
        return self._labellings(X, request, return_bounds)

    def predict_parts(
        self, data: PartitionedDataset, write: Write | None = None, *, on_missing: str = "raise",
        time_limit: float | None = None,
    ) -> list[Any]:  # fmt: skip
        """Return the labellings of each part of the data, predicted where the executor has the part.

        Parameters
        ----------
        data : PartitionedDataset
            The labels in its parts are not looked at.
        write : callable, optional
            ``write(part, labellings)`` runs where the part is, to save what is too large to travel; what it returns
            stands in the place of the labellings.  In a module that workers can import.
        on_missing : str
            As for ``predict``; a part that time did not suffice to read counts as one without labellings, and has
            ``None`` in its place.
        time_limit : float, optional
            Seconds for the whole call.  What is read of a part in that time is predicted as well as time allows;
            reading is not interrupted.

        Raises
        ------
        NoLabellingError
            A part was not read in time, or an example has no labelling; ``answers`` holds the other parts.
        """
        check_choice(on_missing, ON_MISSING, "on_missing")
        if write is not None and not callable(write):
            raise OptionError(f"write must be a function (part, labellings), got {write!r}")
        answers = ask_all(self, "predict_parts", data, labellings_of, on_missing, write, time_limit=time_limit)
        return answers_of("predict_parts", answers, on_missing)

    def predict_online(self, rows: Iterable[Any], lag: int = 10, *, proba: bool = False) -> Iterator[Any]:
        """Yield the label of each row of a stream, once ``lag`` more rows have come; constant time for each.

        Of models whose factors look from one position to the ones right before it: chains and segments.  The label is
        that in the best labelling of all rows so far that agrees with the labels that are out; with a lag as long as
        the stream, the labels are those of ``predict``.

        Parameters
        ----------
        rows : iterable
            What the example has at each position of time: a row of its array, a dict of named features, or for models
            with several inputs a dict with a row of each (of inputs without the axis of time, the whole).
        lag : int
            Rows that are waited for.
        proba : bool
            Yield pairs of a label and the probabilities of all classes given the rows so far, as
            ``predict_marginals`` has them.

        Returns
        -------
        iterator
            Of classes; of segments, of pairs (class, whether a segment begins at this row).

        Raises
        ------
        OptionError
            The model looks further; says which factor or constraint does.

        Examples
        --------
        >>> for label in tagger.predict_online(sensor, lag=25): ...
        """
        return labels_online(self.online(lag, proba=proba), rows)

    def online(self, lag: int = 10, *, proba: bool = False) -> OnlineLabels:
        """Return an object that takes a stream row by row: ``push(row)`` and, at the end, ``finish()``.

        The arguments are those of :meth:`predict_online`.
        """
        self._check_fitted()
        check_flag(proba, "proba")
        return OnlineLabels(self.model.declaration.lowered, self._scored_alone, lag, proba)

    def _scored_alone(self, example: Any) -> tuple[Grounded, Any]:
        """Return one example as a program, with its scores."""
        grounded = self._ground_as_fitted(self._examples([example]))
        return grounded, grounded.parameters.scores(self.coef_)

    def complete(
        self, X: Sequence[Any], Y: Sequence[Any], *, time_limit: float | None = None, on_missing: str = "raise"
    ) -> Any:
        """Return the labels with the unknown ones predicted: ``predict(X, given=Y)``."""
        given = check_labels(Y, hint="call complete(X, Y)")
        return self._labellings(X, PredictionRequest(time_limit=time_limit, given=given, on_missing=on_missing))

    def score(
        self, X: Sequence[Any] | PartitionedDataset, Y: Sequence[Any] | None = None, sample_weight: Any = None, *,
        time_limit: float | None = None, y: Sequence[Any] | None = None,
    ) -> float:  # fmt: skip
        """Return ``1 - (sum of losses) / (sum of largest losses)``: 1 is perfect.

        For a Hamming loss without weights it is the share of right variables, for ZeroOne the share of right
        examples.  Labels of classes that training never saw count as wrong, with one warning that says how many.  With
        ``time_limit``, seconds, that of the labellings found by then, as for ``predict``.  Of a
        ``PartitionedDataset`` each part is scored where the executor has it, and sums travel; parts that time does not
        suffice to read are left out, with a warning.
        """
        self._check_fitted()
        self._check()
        check_loss(self.model)
        Y = either(Y, y, "score")
        if isinstance(X, PartitionedDataset):
            if Y is not None or sample_weight is not None:
                raise OptionError("score: a PartitionedDataset comes alone; its parts hold labels and weights")
            lost, most = losses_of_parts(self, X, time_limit)
        else:
            lost, most = self._losses(X, Y, sample_weight, time_limit)
        return 1.0 - lost / most if most > 0 else 1.0

    # -- parts of the objective ------------------------------------------------------------------------

    def joint_feature(self, x: Any, y: Any) -> F64:
        """Return the joint feature map ``Phi(x, y)`` of one example in the order of ``coef_``; ``shape (dim,)``.

        Unknown labels and latent variables have their best states.  Without :class:`~ssvm_dsl.Given` scores
        ``best_score([x], [y])`` is its product with ``coef_``.

        Parameters
        ----------
        x : example
            One element of ``X``.
        y : labels
            One element of ``Y``.
        """
        grounded = self._ground_as_fitted(self._examples([x]), self._labels([y]))
        states = grounded.truth
        if states is None or unknown_variables(grounded).any():
            states = self._answers([x], lambda _, solution: solution.labels, PredictionRequest(given=[y])).parts[0]
        return grounded.parameters.accumulate(states, np.ones(1), np.zeros(grounded.parameters.dim))

    def loss(self, x: Any, y: Any, other: Any) -> float:
        """Return the declared loss of other labels of one example where y is the truth.

        Parameters
        ----------
        x : example
            One element of ``X``, which gives the sizes of axes and what the loss reads.
        y, other : labels
            As one element of ``Y``; ``other`` has no unknown labels.

        Raises
        ------
        DataError
            Some of ``other`` is not known.
        """
        check_loss(self.model)
        learnt = self.fitted_.learnt if self._is_fitted else None
        grounded = self._ground(self._examples([x]), self._labels([y]), learnt, part=True, whole=True)
        states, unknown, *_ = grounded.layout.encode(self._labels([other]), "other")
        assert grounded.loss is not None
        if unknown is not None and (unknown & ~grounded.layout.latent).any():
            raise DataError("other", expected="a class for each variable", found="some that are not known")
        return float(grounded.loss.value(grounded.program, states)[0])

    def loss_augmented(self, x: Any, y: Any, *, return_risk: bool = False) -> Any:
        """Return the labels that attain the risk of one example: for margins those of most loss plus score.

        Parameters
        ----------
        x : example
            One element of ``X``.
        y : labels
            The true ones: one element of ``Y``.
        return_risk : bool
            Return ``(labels, risk)``: the summand of the objective, ``loss(x, y, labels)`` plus the score of the labels
            less that of y for margins.  It is at most the true risk, which it equals where the backend is exact.

        Raises
        ------
        OptionError
            The risk is no maximum over labellings.
        """
        self._check_fitted()
        check_loss(self.model)
        if not self._risk().of_maxima:
            text = f"loss_augmented: risk '{self.risk}' is no maximum over labellings"
            raise OptionError(f"{text}; risk='margin', 'slack', 'hm' and 'perceptron' are")
        grounded = self._ground_as_fitted(self._examples([x]), self._labels([y]), whole=False)
        request = FitRequest(self._target, None, None, Deadline())
        with call_threads(self.n_threads) as executor:
            if grounded.declaration.latents:
                grounded = begun(self, grounded, LatentOptions(), executor, request.deadline, self.coef_)
            problem = planned_run(self, grounded, request, self._trainer(grounded), executor).problem
            assert isinstance(problem, MarginProblem)
            planes = problem.oracle(self.coef_)
        labels = indexed(self.model.declaration, [x], grounded.layout.decode(planes.labels))[0]
        return (labels, float(planes.value[0])) if return_risk else labels

    # -- a single class, as scikit-learn knows it --------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the columns of ``decision_function`` (of models of a single class).

        Raises
        ------
        AttributeError
            The model has other outputs.
        """
        label = self._single_label()
        if label is None:
            raise AttributeError(self._no_classes("classes_"))
        self._check_fitted()
        return np.arange(label.n_states) if label.classes is None else class_array(label.classes).copy()

    def decision_function(self, X: Sequence[Any], *, time_limit: float | None = None) -> F64:
        """Return how much the model prefers each class: ``shape (n,)`` for two classes, ``(n, n_classes)`` for others.

        The score of a class is that of the best labelling with it (latent variables at their best), ``-inf`` where the
        model rules it out.  For two classes it is the difference of theirs, positive where the second one is predicted.

        Parameters
        ----------
        X : list of examples
        time_limit : float, optional
            Seconds for the whole call, as for ``predict``.

        Raises
        ------
        OptionError
            The output is not a single class; :meth:`best_score` is the score of the best labelling of any model.
        """
        label = self._single_label()
        if label is None:
            raise OptionError(self._no_classes("decision_function"))
        parts = self._answers(X, self._node_scores, PredictionRequest(time_limit=time_limit)).parts
        if all(part is not None for part in parts):
            scores = np.concatenate([np.zeros((0, label.n_states)), *parts])
        else:
            scores = np.stack([self._with_class(X, name, time_limit) for name in self.classes_.tolist()], axis=1)
        return np.asarray(scores[:, 1] - scores[:, 0]) if label.n_states == 2 else scores

    def _single_label(self) -> Label | None:
        """Return the only output of the model, if that is a single variable with classes."""
        outputs = self.model.declaration.outputs
        return outputs[0] if len(outputs) == 1 and not outputs[0].dims else None

    def _no_classes(self, what: str) -> str:
        declaration = self.model.declaration
        listed = ", ".join(f"{label.name} = {label!r}" for label in declaration.outputs)
        text = f"{what}: it is of models whose only output is a single class, such as y = Label(3)"
        cure = "best_score(X) is the score of the best labelling, predict_marginals(X) has probabilities"
        return f"{text}; the output of {declaration.name} is {listed}: {cure}"

    def _node_scores(self, grounded: Grounded, solution: Solution) -> F64 | None:
        """Return the scores of all classes where nothing else is decided; ``None`` where there are other variables."""
        program = grounded.program
        if program.groups or program.constraints or program.n_variables != program.n_examples:
            return None
        theta = grounded.parameters.scores(self.coef_)
        node = theta.node if program.allowed is None else np.where(program.allowed, theta.node, -np.inf)
        return np.asarray(node.reshape(program.n_examples, -1) + theta.const[:, None])

    def _with_class(self, X: Sequence[Any], name: Any, time_limit: float | None) -> F64:
        """Return the best score of each example with a class; ``-inf`` where the model rules it out."""
        examples = self._examples(X)
        try:
            return self._best(examples, [name] * len(examples), time_limit)
        except InfeasibleError:
            if len(examples) == 1:
                return np.array([-np.inf])
            alone = [self._with_class(examples[i : i + 1], name, time_limit) for i in range(len(examples))]
            return np.concatenate(alone)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: this is a classifier if the output is a single class."""
        tags = super().__sklearn_tags__()
        if self._single_label() is not None:
            from sklearn.utils import ClassifierTags

            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    # -- losses of predictions ---------------------------------------------------------------------------

    def _example_losses(self, X: Any, Y: Any) -> F64:
        request = PredictionRequest(truth=check_labels(Y, hint="call to_html(X, Y)"), unseen=True)
        lost = self._of_predictions(self._examples(X), lambda *chunk: losses(*chunk)[0], request)
        return np.concatenate(lost)

    def _of_predictions(
        self, X: Any, read: Callable[[Grounded, Solution], T], request: PredictionRequest
    ) -> list[T]:
        """Return what ``read`` takes from (grounded chunk, what is predicted for it)."""
        return self._answers(X, read, request).parts

    def _losses(
        self, X: Any, Y: Any, sample_weight: Any, time_limit: float | None = None, part: bool = False
    ) -> tuple[float, float]:
        """Return the weighted sums of the losses of the best labellings, and of the largest losses."""
        X = self._examples(X)
        weight = check_sample_weight(sample_weight, len(X), part)
        odd = Counter[Any]()

        def judged(grounded: Grounded, solution: Solution) -> tuple[F64, F64]:
            if grounded.unseen is not None:
                odd.update(grounded.unseen.counts)
            return losses(grounded, solution)

        request = PredictionRequest(time_limit=time_limit, truth=check_labels(Y, hint="call score(X, Y)"), unseen=True)
        parts = self._of_predictions(X, judged, request)
        warn_of_unseen(odd)
        lost_parts, largest = zip(*parts, strict=True)
        return float(np.dot(weight, np.concatenate(lost_parts))), float(np.dot(weight, np.concatenate(largest)))


def either(Y: Any, y: Any, method: str) -> Any:
    """Return the labels, by whichever name they were given."""
    if Y is not None and y is not None:
        raise KeywordError(f"{method}: the labels are given twice, as Y and as y")
    return Y if y is None else y
