"""``StructuredRegressor``: values of examples as scores of their best labellings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import DataError
from ssvm_dsl.inference.planning.planner import AUTO
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, is_number, real_array
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.answers import PredictionRequest
from ssvm_dsl.learning.driver.fit import Callback
from ssvm_dsl.learning.estimators.fitted import FitRequest, TrainingTarget
from ssvm_dsl.learning.estimators.fitting.fit import fit, fit_more
from ssvm_dsl.learning.estimators.parameters import Seed, check_epsilon, check_flag, check_labels, without
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.metrics import Scoring
from ssvm_dsl.learning.objective import DEFAULT_C, check_sample_weight
from ssvm_dsl.learning.risks.kinds import Risk, regression_risk


class StructuredRegressor(StructuredEstimator):
    """Maximum margin structured regression: predicts a number, the score of the best labelling.

    The prediction for an example is ``max_y w . Phi(x, y)``.  Learnt from labellings y_i with values v_i, by minimising
    ``1/2 |w|^2 + C sum_i risk_i(w)`` (or, with ``lam``, ``lam/2 |w|^2 + 1/n sum_i risk_i(w)``) with

        risk_i(w) = max(0, max_y w . Phi(x_i, y) - v_i - epsilon) + max(0, v_i - w . Phi(x_i, y_i) - epsilon) ,

    which is convex (Ratliff, Bagnell and Zinkevich 2007, equation 13).  With one labelling for each example it is
    epsilon-insensitive support vector regression.

    Parameters
    ----------
    model : Model class
        The declaration; its loss, if it has one, is not used.
    epsilon : float or pair of float
        How far a prediction may be off for free; a pair: below and above the value.
    C, lam, power, l1 : float
        As for :class:`~ssvm_dsl.StructuredSVM`; ``power=2`` squares the risks.
    trainer : str
        A trainer for the risk ``regression``: ``"bundle"``, ``"subgradient"``, ``"adam"``; ``"auto"`` as for
        :class:`~ssvm_dsl.StructuredSVM`.
    backend, guarantee, tol, max_passes, max_seconds, random_state, n_threads, trainer_options, backend_options, \
regularization, warm_start, verbose, callbacks, patience, scoring, checkpoint, \
checkpoint_seconds, latent_options
        As for :class:`~ssvm_dsl.StructuredSVM`.

    Attributes
    ----------
    coef_, weights_, report_, plan_
        As for :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> reg = StructuredRegressor(Path, epsilon=0.1).fit(X, values, Y)
    >>> reg.predict(X_test), reg.score(X_test, values_test)
    >>> reg.predict_labels(X_test)
    """

    epsilon: float | tuple[float, float]
    _parameters = without("risk", "infeasible", "executor", "executor_options")

    def __init__(
        self,
        model: type[Model],
        epsilon: float | tuple[float, float] = 0.0,
        C: float = DEFAULT_C,
        lam: float | None = None,
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
    ) -> None:
        self._keep(locals())

    def fit(
        self,
        X: Sequence[Any],
        values: Any,
        Y: Sequence[Any] | None = None,
        sample_weight: Any = None,
        validation: tuple[Sequence[Any], Any] | None = None,
    ) -> StructuredRegressor:
        """Learn the weights.

        Parameters
        ----------
        X : list of examples
            Each a dict of arrays by input name, or the bare array when the model has one input.
        values : array_like, shape (n,)
            The number to predict for each example.
        Y : list of labels
            The labelling that has the value, for each example; no label may be ignored.  (Last of the three, and by
            name in ``GridSearchCV(...).fit(X, values, Y=Y)``, because scikit-learn wants targets second.)
        sample_weight : array_like, shape (n,), optional
            Multiplies each example's risk.
        validation : tuple (X, values), optional
            Held-out examples: training ends when ``patience`` looks in a row, at most one a pass, have not raised the
            score on them (``scoring``), and the weights with the best score are kept.

        Raises
        ------
        DataError
            Bad data, named with input and example; labellings that are missing.
        OptionError, PluginError, NoBackendError, TrainingError
            Parameters, options or the combination of trainer and backend cannot be used.
        ModelError
            The model has nothing to score with, or nothing to predict.
        """
        self._check()
        check_values(values, len(self._examples(X)))
        request = FitRequest(partial(self._target, values=values), sample_weight, validation, self._fit_deadline())
        fit(self, X, _labellings_given(Y), request, labels=False)
        return self

    def partial_fit(
        self, X: Sequence[Any], values: Any, Y: Sequence[Any] | None = None, sample_weight: Any = None
    ) -> StructuredRegressor:
        """Learn one pass over a batch of a stream of examples, continuing from earlier calls.

        See :meth:`~ssvm_dsl.StructuredSVM.partial_fit`; ``trainer="subgradient"`` can do it.
        """
        self._check()
        check_values(values, len(self._examples(X)))
        request = FitRequest(partial(self._target, values=values), sample_weight, None, Deadline())
        fit_more(self, X, _labellings_given(Y), request)
        return self

    def predict(self, X: Sequence[Any], *, time_limit: float | None = None) -> F64:
        """Return the score of the best labelling of each example; ``shape (n,)``.

        With ``time_limit``, seconds for the whole call, that of the best ones found by then; a ``TimeLimitWarning``
        reports how many are not proved best.
        """
        return self.best_score(X, time_limit=time_limit)

    def score(self, X: Sequence[Any], values: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions: 1 is perfect, 0 that of the mean value."""
        from sklearn.metrics import r2_score

        self._check_fitted()
        checked = check_values(values, len(self._examples(X)))
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(checked))
        return float(r2_score(checked, self.predict(X), sample_weight=weight))

    def predict_labels(self, X: Sequence[Any], *, time_limit: float | None = None, return_bounds: bool = False) -> Any:
        """Return the best labelling of each example, in the user's own class names.

        ``time_limit`` and ``return_bounds`` are those of ``StructuredSVM.predict``.
        """
        check_flag(return_bounds, "return_bounds")
        return self._labellings(X, PredictionRequest(time_limit=time_limit), return_bounds)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: this is a regressor."""
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags, tags.target_tags.required = "regressor", RegressorTags(), True
        return tags

    def _target(self, grounded: Grounded, values: Any) -> TrainingTarget:
        """Return the risk for the given values; the declared loss plays no part."""
        targets, epsilon = check_values(values, grounded.n_examples), check_epsilon(self.epsilon)
        if grounded.ignored is not None and grounded.ignored.any():
            i = int(np.searchsorted(grounded.program.var_ptr, np.argmax(grounded.ignored), side="right")) - 1
            raise DataError("Y", example=i, expected="a labelling of all variables", found="ignored ones")
        assert grounded.truth is not None
        program = grounded.program
        loss = LossTerm(grounded.truth, np.zeros(program.n_states), np.zeros(program.n_examples))
        return TrainingTarget(regression_risk(targets, epsilon), loss, {"values": targets, "epsilon": epsilon})

    def _risk(self) -> Risk:
        return regression_risk(np.zeros(0), (0.0, 0.0))


def check_values(values: Any, n: int) -> NDArray[np.float64]:
    """Return the values of n examples.

    Raises
    ------
    DataError
        They are not n finite numbers.
    """
    expected = f"{n} numbers, one for each example"
    if values is None:
        raise DataError("values", expected=expected, found="None")
    try:
        numbers = as_floats(real_array(values))
    except NotNumbers:
        listed = isinstance(values, list | tuple | np.ndarray)
        strange = next((i for i, value in enumerate(values) if not is_number(value)), None) if listed else None
        if strange is None:
            raise DataError("values", expected=expected, found=repr(values)) from None
        hint = "" if isinstance(values[strange], str) else "labellings come after the values: fit(X, values, Y)"
        came = repr(values[strange])
        raise DataError("values", example=strange, expected="a finite number", found=came, hint=hint) from None
    if numbers.shape != (n,):
        raise DataError("values", expected=expected, found=f"shape {numbers.shape}")
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        i = int(wrong[0])
        raise DataError("values", example=i, expected="a finite number", found=repr(numbers[i].item()))
    return numbers


def _labellings_given(Y: Sequence[Any] | None) -> Sequence[Any]:
    """Return the labellings; refuse to do without."""
    hint = "call fit(X, values, Y): without the labelling that has the value, the risk is not convex"
    return check_labels(Y, "a list with the labelling of each example", hint)
