"""``Classifier``: one class for a row of numbers, by the rules of scikit-learn's classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.lang.arrays import describe, is_sparse
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.frames import is_frame, is_gap, with_index
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.learning.estimator import join_scikit_learn
from ssvm_dsl.learning.estimators.svm import either
from ssvm_dsl.learning.objective import check_sample_weight
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.learning.tuning.folds import part_of
from ssvm_dsl.loading import loading
from ssvm_dsl.models.base import ReadyModel, weights_of_classes
from ssvm_dsl.models.classes import classes_of, in_form, input_of, n_rows


class Classifier(ReadyModel):
    """Linear classifier: a vector of weights and a bias for each class.

    It obeys all rules that scikit-learn checks (``check_estimator``), takes matrices, sparse ones and data frames, and
    loads scikit-learn for it.

    Parameters
    ----------
    bias : bool
        Whether each class has a bias; as all weights, it is regularised.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.  ``risk="log"`` makes it a multinomial logistic regression.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the features have names.

    Examples
    --------
    >>> Classifier(C=10).fit(X, y).score(X_test, y_test)
    """

    bias: bool = True
    n_features_in_: int
    _weighs_classes = True

    def _declaration(self, X: Any, Y: Any) -> type[Model]:
        class ClassOfRow(Model):
            x = input_of(X)
            y = Label(classes_of([Y]))
            score = Factor(y, features=self._scaled(x, X))
            bias = Factor(y) if self.bias else None
            loss = Hamming(y)

        return ClassOfRow

    def _checked(self, X: Any) -> Any:
        """Return the rows of a matrix or data frame of the features that ``fit`` has seen; parts are read elsewhere."""
        if isinstance(X, PartitionedDataset):
            return X
        from sklearn.utils.validation import validate_data

        self._check_fitted()
        if "n_features_in_" not in vars(self):  # read from a file
            self._note_features(_width(self.model))
        columns = vars(self).get("_frames", {}).get("x")
        if columns is not None and is_frame(X):
            return self._encoded_rows(X)
        if columns is not None and columns.features != columns.names:
            expected = f"a data frame with the columns {', '.join(columns.names)}, as in fit"
            raise DataError("X", expected=expected, found=describe(X))
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _note_features(self, width: int) -> None:
        """Note how many features there are, and their names in data frames, as scikit-learn wants it."""
        columns = vars(self).get("_frames", {}).get("x")
        self.n_features_in_ = width if columns is None else len(columns.names)
        if columns is not None and columns.named:
            self.feature_names_in_ = np.array(columns.names, dtype=object)

    def _read_examples(self, X: Any) -> Any:
        return self._encoded_rows(X)

    def fit(self, X: Any, Y: Any = None, sample_weight: Any = None, validation: Any = None, *, y: Any = None) -> Self:
        """Learn from rows and their classes: strings, whole numbers, or booleans.

        A :class:`~ssvm_dsl.PartitionedDataset` has both in its parts; equal rows are not joined there.
        """
        if isinstance(X, PartitionedDataset):
            if self.class_weight is not None:
                raise OptionError("class_weight: of a PartitionedDataset, give the parts weights of their examples")
            super().fit(X, either(Y, y, "fit"), sample_weight, validation)
            self._kind, self.n_features_in_ = _kind_of(np.asarray(super().classes_)), _width(self.model)
            return self
        with loading():
            from sklearn.utils.multiclass import check_classification_targets
            from sklearn.utils.validation import validate_data

            join_scikit_learn()
        deadline = self._fit_deadline()
        Y = either(Y, y, "fit")
        if not (self.warm_start and hasattr(self, "coef_")):
            self._frames = {}
        if is_frame(X):
            with self._learning_frames():
                X = self._encoded_rows(X)
        X, Y, sample_weight = _known(X, Y, sample_weight)
        X, Y = validate_data(self, X, Y, accept_sparse="csr", dtype=np.float64)
        self._note_features(X.shape[1])
        check_classification_targets(Y)
        self._kind = _kind_of(Y)
        sample_weight = self._weighed(Y, sample_weight)
        weight = check_sample_weight(sample_weight, len(Y))
        one_each = distinct(X, Y, weight)
        if len(one_each.first) < len(Y):
            X, Y, weight = X[one_each.first], Y[one_each.first], one_each.weight(self.lam)
            return self._fit_examples(X, Y, weight, validation, deadline)
        return self._fit_examples(X, Y, sample_weight, validation, deadline)

    @property
    def partial_fit(self) -> Any:
        """Learn from a batch of a stream (of trainers that can): ``partial_fit(X, y, classes)``."""
        spec = self._trainer(stream=True).spec
        if not spec.incremental:
            raise AttributeError(f"trainer '{spec.name}' has no partial_fit")
        return self._partial_fit

    def _partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch; ``classes`` lists all classes there will be, by default those of the first batch."""
        from sklearn.utils.validation import validate_data

        new = not hasattr(self, "coef_")
        if new:
            self._frames = {}
        if is_frame(X):
            with self._learning_frames():
                X = self._encoded_rows(X)
        X, y, sample_weight = _known(X, y, sample_weight)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=new)
        self._note_features(X.shape[1])
        if new:
            named = np.asarray(y if classes is None else classes)
            self._kind, self.model_ = _kind_of(named), self._declaration(X, np.unique(named))
        if isinstance(self.class_weight, str):
            raise OptionError("class_weight='balanced' counts all rows, which a stream has not yet; give a dict")
        ReadyModel.partial_fit(self, X, y, self._weighed(y, sample_weight))
        return self

    def _weighed(self, Y: NDArray[Any], sample_weight: Any) -> Any:
        """Return the weights of rows, multiplied by those of their classes."""
        if self.class_weight is None:
            return sample_weight
        classes, place = np.unique(Y, return_inverse=True)
        known = self.classes_ if hasattr(self, "coef_") else classes
        weight = check_sample_weight(sample_weight, len(Y))
        counts: F64 = np.bincount(
            np.searchsorted(known, classes)[place], weights=weight, minlength=len(known)
        ).astype(np.float64)
        of_classes = weights_of_classes(self.class_weight, known.tolist(), counts)
        return np.asarray(weight * of_classes[np.searchsorted(known, Y)], dtype=np.float64)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted."""
        classes = super().classes_
        kind = getattr(self, "_kind", classes.dtype)
        return classes if kind.kind == "U" else classes.astype(kind)

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the class of each row; ``options`` as for ``StructuredSVM.predict``."""
        labels = super().predict(self._checked(X), **options)
        return in_form(labels, lambda some: with_index(self._named(some), X))

    def _named(self, labels: list[Any]) -> NDArray[Any]:
        """Return labels in an array of the type that ``fit`` was given."""
        classes = self.classes_
        return np.array(labels, dtype=object if None in labels else classes.dtype)

    def predict_proba(self, X: Any, **options: Any) -> F64:
        """Return the probability of each class, ``shape (n, n_classes)``, in the order of ``classes_``.

        Those of the log-linear model with these weights: calibrated for ``risk="log"``, not for margins.  ``options``
        are those of ``predict_marginals``.
        """
        return np.asarray(self.predict_marginals(self._checked(X), **options))

    def decision_function(self, X: Any, *, time_limit: float | None = None) -> F64:
        """Return the score of each class, as ``StructuredSVM.decision_function`` does."""
        return super().decision_function(self._checked(X), time_limit=time_limit)

    def score(
        self, X: Any, Y: Any = None, sample_weight: Any = None, *, time_limit: float | None = None, y: Any = None
    ) -> float:
        """Return the share of right classes."""
        return super().score(self._checked(X), Y, sample_weight, time_limit=time_limit, y=y)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.no_validation, tags.input_tags.two_d_array, tags.input_tags.sparse = False, True, True
        return tags


def _known(X: Any, Y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return the rows whose classes are known, unless that is none of them."""
    known = [not is_gap(one) for one in Y] if hasattr(Y, "__len__") and np.ndim(Y) == 1 else []
    if all(known) or not any(known) or len(known) != n_rows(X):
        return X, Y, sample_weight
    there = np.flatnonzero(known)
    labels = [Y.iloc[i] if hasattr(Y, "iloc") else Y[i] for i in there.tolist()]
    numbers = all(isinstance(one, float) and one.is_integer() for one in labels)
    named = np.array([int(one) for one in labels] if numbers else labels)
    weight = None if sample_weight is None else np.asarray(sample_weight)[there]
    return part_of(X, there), named, weight


def _width(model: type[Model]) -> int:
    """Return the number of features of a declaration that was made here."""
    rows = model.declaration.inputs[0]
    assert isinstance(rows, Input)
    return rows.width


def _kind_of(labels: NDArray[Any]) -> np.dtype[Any]:
    """Return the type of the array of classes for the labels of a fit."""
    return np.dtype(np.str_ if labels.dtype.kind in "UO" else labels.dtype)


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Examples of which there may be several equal ones: one of each, ordered by content.

    Parameters
    ----------
    first : ndarray of int64, shape (m,)
        The first example of each kind; those of weight 0 are left out.
    total : ndarray of float64, shape (m,)
        The sum of the weights of all like it.
    n : int
        Number of examples.
    """

    first: I64
    total: F64
    n: int

    def weight(self, lam: float | None) -> F64:
        """Return weights that give the same objective; with ``lam`` it is divided by the number of examples."""
        return self.total if lam is None else self.total * (len(self.first) / self.n)


def distinct(X: Any, Y: NDArray[Any], weight: F64) -> DistinctRows:
    """Return one of each kind of examples: a weight is the same as so many repetitions, and cheaper."""
    counted = np.flatnonzero(weight > 0)
    _, state = np.unique(Y, return_inverse=True)
    rows = _row_numbers(X)
    order = counted[np.lexsort((state[counted], rows[counted]))]
    new = np.append(True, (np.diff(rows[order]) != 0) | (np.diff(state[order]) != 0))
    starts = np.flatnonzero(new[: len(order)])
    total = np.add.reduceat(weight[order], starts) if len(starts) else np.zeros(0)
    return DistinctRows(order[starts], total, len(Y))


def _row_numbers(X: Any) -> I64:
    """Return a number for each row, the same for equal rows; they are in the order of the rows' bytes."""
    if is_sparse(X):
        X.sum_duplicates()
        ends = X.indptr.tolist()
        rows = [X.indices[lo:hi].tobytes() + X.data[lo:hi].tobytes() for lo, hi in pairwise(ends)]
        place = {row: k for k, row in enumerate(sorted(set(rows)))}
        return np.array([place[row] for row in rows], dtype=np.int64)
    dense: F64 = np.ascontiguousarray(X, dtype=np.float64)
    whole = dense.view(np.dtype((np.void, dense.itemsize * dense.shape[1]))).ravel()
    order = np.argsort(whole, kind="stable")
    bits = dense.view(np.int64)[order]
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(np.append(False, (bits[1:] != bits[:-1]).any(axis=1))[: len(order)])
    return number
