"""``ReadyModel``: a structured SVM that declares its model from the data it is fitted to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.labels.class_labels import class_array
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.lang.arrays import is_number, is_sparse
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.features.sources import Scaled, Standardized
from ssvm_dsl.lang.frames import as_frame, is_frame, is_row, is_series, matrix_of, with_index
from ssvm_dsl.lang.inputs import Attributes, Input, Source
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.symbols import show
from ssvm_dsl.learning.estimators.parameters import check_labels
from ssvm_dsl.learning.estimators.svm import StructuredSVM, either
from ssvm_dsl.learning.risks.kinds import find_risk
from ssvm_dsl.learning.shards.parts import PartitionedDataset, has_examples
from ssvm_dsl.models.choosing import ChoosingSVM
from ssvm_dsl.models.classes import n_rows
from ssvm_dsl.models.frame_columns import FrameColumns
from ssvm_dsl.plugin_api.executors import THREADS
from ssvm_dsl.plugin_api.specs import AddedLoss

# -- ``class_weight`` of ready models: how much the classes count, as numbers by class or ``"balanced"`` -----------

#: All classes count the same, however many labels they have: n / (number of classes * labels of the class).
BALANCED = "balanced"


def counts_of(classes: Sequence[Any], labels: Iterable[Any]) -> F64:
    """Return how many labels each class has in all examples, arrays or lists of them; what is no class is left out."""
    counted: Counter[Any] = Counter()
    for one in labels:
        counted.update(one if isinstance(one, list | tuple) else np.ravel(np.asarray(one)).tolist())
    return np.array([counted[name] for name in classes], dtype=np.float64)


def weights_of_classes(class_weight: Any, classes: Sequence[Any], counts: F64) -> F64:
    """Return the weight of each class.

    Parameters
    ----------
    class_weight : "balanced" or mapping
        Numbers by class; 1 for classes that are not mentioned.
    classes : sequence
    counts : ndarray, shape (n_classes,)
        Number of labels of each class.

    Raises
    ------
    OptionError
        It is something else, names what is no class, or a weight is negative or not finite.
    """
    if isinstance(class_weight, str) and class_weight == BALANCED:
        there = counts > 0
        return np.where(there, counts.sum() / (len(classes) * np.where(there, counts, 1.0)), 1.0)
    if not isinstance(class_weight, Mapping):
        raise OptionError(f"class_weight is None, 'balanced' or a dict of numbers by class, got {class_weight!r}")
    given = {key.item() if isinstance(key, np.generic) else key: value for key, value in class_weight.items()}
    unknown = [key for key in given if key not in classes]
    if unknown:
        raise OptionError(f"class_weight: {show(unknown[0])} is no class; these are: {', '.join(map(show, classes))}")
    for key, value in given.items():
        if not (is_number(value) and 0 <= value < np.inf):
            raise OptionError(f"class_weight: a non-negative number for {show(key)}, got {value!r}")
    return np.array([float(given.get(name, 1.0)) for name in classes])


# -- scaling -------------------------------------------------------------------------------------------------------
#
# Inputs of ready models brought to one scale: what their declarations have in place of a bare input.
#
# Regularisation treats all weights alike, so that a column of large numbers gets small weights for nothing, and a
# column of small ones is hardly used.  Dense inputs are standardised.  Sparse ones and attributes are divided by the
# largest absolute value of each column, which keeps zeros, where that is above 10 or below .1 in some column:
# frequencies of words are, names that are there or not are 1.

#: How many times as large, or as small, as 1 the largest number of a column may be: that is what a name counts.
APART = 10.0


def scaled(x: Input | Attributes, examples: Sequence[Any]) -> Source:
    """Return an input on one scale.

    Parameters
    ----------
    x : Input or Attributes
    examples : sequence
        What is given for the input in each example.
    """
    if isinstance(x, Input) and not x.sparse:
        return Standardized(x)
    return Scaled(x) if are_apart(examples) else x


def are_apart(examples: Any) -> bool:
    """Whether the largest absolute value of some column of sparse rows or named features is far from 1.

    Values are looked at before columns: most features are names, all of which count 1.
    """
    values = set[Any]()
    for rows in _rows_in(examples):
        try:
            values.update(_values(rows))
        except TypeError:  # a value that is refused later
            values.update(filter(_is_number, _values(rows)))
    sizes = [abs(float(one)) for one in values if _is_number(one)]
    most, least = max(sizes, default=0.0), min(filter(None, sizes), default=1.0)
    if most > APART or least * APART >= 1.0:
        return most > APART
    largest = dict[Any, float]()
    for rows in _rows_in(examples):
        for column, size in _columns(rows):
            largest[column] = max(largest.get(column, 0.0), size)
    return min(filter(None, largest.values()), default=1.0) * APART < 1.0


def _rows_in(examples: Any) -> Iterator[Any]:
    """Yield the sparse matrices, data frames and dicts of named features in examples, however they are nested."""
    if is_sparse(examples) or hasattr(examples, "select_dtypes") or isinstance(examples, Mapping):
        yield examples
    elif isinstance(examples, list | tuple):
        for part in examples:
            if not isinstance(part, str):
                yield from _rows_in(part)


def _values(rows: Any) -> Iterable[Any]:
    """Return numbers of some rows, the largest and the smallest among them."""
    if is_sparse(rows):
        there = np.abs(rows.data[rows.data != 0.0])
        return (float(there.max()), float(there.min())) if len(there) else ()
    if hasattr(rows, "select_dtypes"):
        listed: list[float] = rows.select_dtypes("number").to_numpy(dtype=np.float64).ravel().tolist()
        return listed
    found: Iterable[Any] = rows.values()
    return found


def _columns(rows: Any) -> Iterator[tuple[Any, float]]:
    """Yield columns with the largest absolute value in each."""
    if is_sparse(rows):
        rows = rows.tocsc()
        for column in np.flatnonzero(np.diff(rows.indptr)).tolist():
            yield column, float(np.abs(rows.data[rows.indptr[column] : rows.indptr[column + 1]]).max())
    elif hasattr(rows, "select_dtypes"):
        for name, column in rows.select_dtypes("number").items():
            yield name, float(np.nanmax(np.abs(column.to_numpy(dtype=np.float64)), initial=0.0))
    else:
        yield from ((name, abs(float(value))) for name, value in rows.items() if _is_number(value))


def _is_number(value: Any) -> bool:
    return (type(value) in (int, float) or isinstance(value, np.number)) and bool(np.isfinite(value))


#: Models that estimators in use have declared, by class and declaration.
_IN_USE: WeakValueDictionary[tuple[type, Declaration], type[Model]] = WeakValueDictionary()

#: How many examples show which risk suits a model whose examples are not all at hand.
SHOWN = 30

#: Defaults that differ from those of a structured SVM.
DEFAULTS: dict[str, Any] = {"C": AUTO, "risk": AUTO, "guarantee": AUTO, "tol": 0.01, "max_passes": 2000}

#: The parameters of a structured SVM, without the model, which is read from the data.
_OPTIONS = [
    one.replace(kind=Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name, one.default))
    for name, one in signature(StructuredSVM).parameters.items() if name != "model"
]  # fmt: skip


class Declare:
    """``declare(X, Y)``, of a class with its default parameters or of an estimator with its own."""

    def __get__(self, made: ReadyModel | None, kind: type[ReadyModel]) -> Callable[[Any, Any], type[Model]]:
        return (kind() if made is None else made)._declared


class ReadyModel(ChoosingSVM):
    """Base of the ready models: their parameters are class attributes and the options of ``StructuredSVM``.

    A subclass defines ``_declaration(X, Y)``, whose factors read inputs through ``_scaled``, and where users may write
    examples and labels in more ways than a declaration takes them, ``_read_examples`` and ``_read_labels``; what these
    return they leave as it is.

    Parameters
    ----------
    scale : bool
        Whether inputs are brought to one scale, which is learnt from the training data: dense ones are standardised,
        sparse ones and attributes divided by the largest absolute value of each column, where numbers are above 10.
    class_weight : dict or "balanced", optional
        How much the classes count, 1 by default: numbers by class, or as much as makes all classes equal.  They
        multiply the risks of a table's rows, as in scikit-learn; where an example has many labels, they are the prices
        of missing a label in the declared loss, which margins look at, and with ``risk="auto"`` the softmax-margin in
        place of the log-loss.
    C : float, "auto" or "cv"
        Weight of the risks.  ``"cv"`` chooses it by three folds of held-out examples; so does ``"auto"`` where that
        takes less than 10 s, by an estimate from the sizes.
    risk : str
        ``"auto"`` is the log-loss where sums over all labellings are exact, else the margin.
    guarantee : str
        ``"auto"`` is exact, or that of a heuristic where a margin fit would take a long search.  Predictions have the
        guarantee of the fit.
    tol : float
        Relative gap at which training stops, 1 % by default.

    Attributes
    ----------
    model_ : Model class
        The declaration for the data of ``fit``; print it, subclass it, pass it to :class:`~ssvm_dsl.StructuredSVM`.
    """

    if TYPE_CHECKING:  # each class makes its own

        def __init__(self, **options: Any) -> None: ...

    model_: type[Model]
    _frames: dict[str, FrameColumns]
    _learns_frames = False
    scale: bool = True
    class_weight: Any = None
    own: Mapping[str, Any] = {"scale": True, "class_weight": None}
    _weighs_classes = False  # whether the declaration has a price for each class
    declare = Declare()

    def __init_subclass__(cls, **named: Any) -> None:
        cls.own = {**cls.own, **{name: vars(cls)[name] for name in cls.__annotations__ if name in vars(cls)}}
        cls.__init__ = _constructor(cls.own)  # type: ignore[method-assign]
        super().__init_subclass__(**named)

    @property
    def model(self) -> type[Model]:  # type: ignore[override]
        """The declaration, known once the estimator is fitted."""
        return self.model_

    @classmethod
    def _of_model(cls, model: type[Model], parameters: Mapping[str, Any]) -> Self:
        made = cls(**parameters)
        made.model_ = model
        return made

    def _follow(self, other: Self) -> None:
        if "model_" in vars(other):
            self.model_ = other.model_
            self._frames = vars(other).get("_frames", {})

    # -- what subclasses define ------------------------------------------------------------------------

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        """Return the model for examples and labels as the declaration takes them."""
        raise NotImplementedError

    def _read_examples(self, X: Any) -> Any:
        """Return examples as the declaration takes them."""
        return X

    def _read_labels(self, Y: Any) -> Any:
        """Return labels as the declaration takes them."""
        return Y

    def _prices(self, classes: Sequence[Any], labels: Iterable[Any]) -> list[float] | None:
        """Return the price of missing each class, for a ``Hamming`` loss; ``None`` where all are 1.

        Raises
        ------
        OptionError
            The risk does not look at them.
        """
        if self.class_weight is None:
            return None
        if self.risk != AUTO and find_risk(self.risk).spec.loss is not AddedLoss.DECLARED:
            text = f"class_weight: risk '{self.risk}' of a whole labelling has no weights of single labels"
            raise OptionError(f"{text}; risk='auto' or 'softmax-margin' has them, as prices in the loss")
        if isinstance(self.class_weight, str) and self.class_weight == BALANCED and not self._all_labels:
            raise OptionError("class_weight='balanced' counts all labels, which a stream has not yet; give a dict")
        return list(map(float, weights_of_classes(self.class_weight, classes, counts_of(classes, labels))))

    def _has_prices(self, grounded: Grounded) -> bool:
        loss = grounded.declaration.loss
        return self.class_weight is not None and loss is not None and any(
            isinstance(term, Hamming) and term.weights for _, term in loss.terms
        )

    def _scaled(self, x: Input | Attributes, examples: Sequence[Any]) -> Source:
        """Return an input on one scale (:func:`scaled`), unless ``scale=False``."""
        return scaled(x, examples) if self.scale else x

    # -- data frames -----------------------------------------------------------------------------------

    def _of_frames(self, values: Sequence[Any], name: str = "x", what: str = "X") -> Sequence[Any]:
        """Return examples, or the values of one input of them, with matrices in place of data frames.

        The columns are learnt in ``fit``; a row of a frame becomes an array without axes.
        """
        rows = [k for k, one in enumerate(values) if is_row(one)]
        places = [k for k, one in enumerate(values) if is_frame(one)] + rows
        if not places:
            return values
        frames = [as_frame(one) if is_row(one) else one for one in (values[k] for k in sorted(places))]
        if self._learns_frames and name not in self._frames:
            self._frames[name] = FrameColumns.learn(frames, what)
        columns = vars(self).get("_frames", {}).get(name)
        # fitted to arrays, it knows no names
        encoded = [matrix_of(one) for one in frames] if columns is None else columns.encode(frames, what)
        out = list(values)
        for k, one in zip(sorted(places), encoded, strict=True):
            out[k] = one[0] if is_row(values[k]) and not is_sparse(one) else one
        return out

    @contextmanager
    def _learning_frames(self) -> Iterator[None]:
        """Let columns of data frames be learnt."""
        self._learns_frames = True
        try:
            yield
        finally:
            del self._learns_frames

    def _encoded_rows(self, X: Any) -> Any:
        """Return a data frame, or a list of its rows, as a matrix or a list of arrays."""
        if is_frame(X):
            return self._of_frames([X])[0]
        if isinstance(X, list) and any(is_row(one) or is_frame(one) for one in X):
            return [one[0] if np.ndim(one) == 2 and not is_sparse(one) else one for one in self._of_frames(X)]
        return X

    @property
    def columns_(self) -> FrameColumns:
        """The columns of the data frames that it was fitted to, and the features that they became; print it.

        Raises
        ------
        AttributeError
            It was fitted to arrays.
        """
        self._check_fitted()
        if not vars(self).get("_frames"):
            raise AttributeError("columns_: it was not fitted to data frames")
        return next(iter(self._frames.values()))

    def _plain_frames(self) -> dict[str, dict[str, Any]]:
        return {name: one.plain() for name, one in vars(self).get("_frames", {}).items()}

    def _take_frames(self, found: dict[str, dict[str, Any]]) -> None:
        self._frames = {name: FrameColumns.of_plain(one) for name, one in found.items()}
        inputs = {one.name: one for one in self.model.declaration.inputs if isinstance(one, Input)}
        for name, columns in self._frames.items():
            if name not in inputs or inputs[name].shape != (len(columns.features),):
                raise ValueError(f"columns for an input '{name}' of {len(columns.features)} features")

    def _feature_names(self) -> Any:
        named = [one for one in vars(self).get("_frames", {}).values() if one.named]
        return np.array(named[0].names, dtype=object) if len(named) == 1 else super()._feature_names()

    def _ground(self, X: Any, Y: Any = None, fitted: Any = None, part: bool = False, **options: Any) -> Grounded:
        grounded = super()._ground(X, Y, fitted, part, **options)
        if fitted is None:
            grounded.fitted.update(self._feature_columns())
        return grounded

    def _feature_columns(self) -> dict[str, dict[str, Any]]:
        """Return the names of the features that columns of data frames became, as fitted features are kept."""
        names = {one.name for one in self.model.declaration.inputs if isinstance(one, Input)}
        frames = vars(self).get("_frames", {})
        return {name: {"columns": one.features} for name, one in frames.items() if name in names and one.named}

    # -- what they are for -----------------------------------------------------------------------------

    def _declared(self, X: Any, Y: Any) -> type[Model]:
        """Return the model class for some data, not fitted."""
        fresh = copy(self)
        fresh._frames = {}
        with fresh._choosing():
            return fresh._declaration(*fresh._read(X, Y))

    def _read(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Return checked lists of examples and labels, at least one of each."""
        Y = check_labels(Y)
        X, Y = (list(one) if is_series(one) else one for one in (X, Y))
        for values, what in ((X, "X"), (Y, "Y")):
            listed = hasattr(values, "__len__") and hasattr(values, "__getitem__") and not isinstance(values, Mapping)
            if not listed or isinstance(values, str):
                raise DataError(what, expected="a list of examples", found=type(values).__name__)
        with self._learning_frames():
            X, Y = self._read_examples(X), self._labels(Y)
        n, n_labels = map(n_rows, (X, Y))
        if not n:
            raise DataError("X", expected="at least one example", found="an empty list")
        if n != n_labels:
            raise DataError("Y", expected=f"{n} examples, as in X", found=str(n_labels))
        return X, Y

    def fit(self, X: Any, Y: Any = None, sample_weight: Any = None, validation: Any = None, *, y: Any = None) -> Self:
        """Declare the model for the data and learn its weights; arguments as for ``StructuredSVM.fit``.

        With ``warm_start`` a second fit keeps the model of the first.
        """
        deadline = self._fit_deadline()
        if not (self.warm_start and hasattr(self, "coef_")):
            self._frames = {}
        return self._fit_examples(X, either(Y, y, "fit"), sample_weight, validation, deadline)

    def _fit_examples(self, X: Any, Y: Any, sample_weight: Any, validation: Any, deadline: Deadline) -> Self:
        """Declare the model for the data and learn its weights, data frames being known where they are read already."""
        if self.class_weight is not None and not self._weighs_classes:
            hint = "sample_weight= of fit weighs examples; StructuredSVM takes a model with any loss (declare)"
            raise OptionError(f"{type(self).__name__} has no class_weight: {hint}")
        with self._choosing():
            parts = isinstance(X, PartitionedDataset)
            X, Y = (X, Y) if parts else self._read(X, Y)
            shown, labels = self._shown_by(X) if parts else (X, Y)
            if not (self.warm_start and hasattr(self, "coef_")):
                self.model_ = self._shared(self._declaration(shown, labels))
            if parts or self.executor != THREADS:
                some = (shown if parts else X)[:SHOWN]
                self._choose_alone(self._ground(some, whole=True, part=True))
            super()._fit_examples(X, Y, sample_weight, validation, deadline)
            if self.executor != THREADS:  # shards that learn nothing name nothing
                learnt = {**self.fitted_.learnt, **self._feature_columns()}
                self.fitted_ = replace(self.fitted_, learnt=learnt)
        return self

    def _shared(self, declared: type[Model]) -> type[Model]:
        """Return the equal model of an estimator in use, which has met shapes already; else this one."""
        return _IN_USE.setdefault((type(self), declared.declaration), declared)

    def _shown_by(self, data: PartitionedDataset) -> tuple[Any, list[Any]]:
        """Return the examples of the first part, which show their form, and the labels of all parts, read one by one.

        Where parts are only to be trained on in shards, executors read them again.
        """
        first, labels = None, []
        for number in range(len(data)):
            X, Y, _ = data.part(number).read()
            if not has_examples(X) and not has_examples(Y):
                continue
            X, Y = self._read(X, Y)
            first = X if first is None else first
            labels += list(Y)
        if first is None:
            raise DataError("X", expected="at least one example", found=f"none in {len(data)} parts")
        return first, labels

    def partial_fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Learn from a batch of a stream; the model is declared from the first batch, which shows all classes."""
        if not hasattr(self, "coef_"):
            self._frames = {}
        X, Y = self._read(X, Y)
        with self._choosing():
            if not hasattr(self, "coef_"):
                self._all_labels = False
                self.model_ = self._declaration(X, Y)
            super().partial_fit(X, Y, sample_weight)
        return self

    def _examples(self, X: Any) -> Sequence[Any]:
        if "model_" not in vars(self):  # fit on shards asks before there are weights
            self._check_fitted()
        return super()._examples(self._read_examples(X))

    # -- classes and their probabilities ------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted: the order of the last axis of ``predict_proba``.

        Raises
        ------
        AttributeError
            Labels are positions, of heads and places, not classes.
        """
        self._check_fitted()
        label = self.model.declaration.outputs[0]
        if label.pointer:
            raise AttributeError(f"classes_: the labels of {type(self).__name__} are positions, not classes")
        return np.arange(label.n_states) if label.classes is None else class_array(label.classes).copy()

    def predict_proba(self, X: Any, **options: Any) -> Any:
        """Return the probability of each class at each position, of each example, in the order of ``classes_``.

        Arrays ``(*axes, n_classes)``; of data frames of pandas frames with the same index, and ``classes_`` as columns.
        They are those of the log-linear model with these weights (``predict_marginals``): calibrated for
        ``risk="log"``, not for margins.  ``options`` are those of ``predict_marginals``.

        Raises
        ------
        NoBackendError
            Sums over all labellings of this model are not known; says what is.
        """
        return self._probabilities(X, self.predict_marginals(X, **options))

    def _probabilities(self, X: Any, probabilities: list[Any]) -> Any:
        """Return probabilities in the form of the examples."""
        if self.model.declaration.outputs[0].pointer:
            return probabilities
        frames = [one["x"] if isinstance(one, Mapping) and "x" in one else one for one in X]
        pairs = zip(probabilities, frames, strict=True)
        return [with_index(one, frame, self.classes_) if np.ndim(one) == 2 else one for one, frame in pairs]

    def predict_log_proba(self, X: Any, **options: Any) -> Any:
        """Return the logarithms of ``predict_proba``."""
        found = self.predict_proba(X, **options)
        with np.errstate(divide="ignore"):
            return [one if one is None else np.log(one) for one in found] if isinstance(found, list) else np.log(found)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: examples are not rows of a matrix, and are checked here."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.no_validation = True
        tags.input_tags.two_d_array = False
        return tags

    def _single_label(self) -> Label | None:
        return super()._single_label() if "model_" in vars(self) else None

    def _labels(self, Y: Any) -> Any:
        if Y is None:
            return None
        listed = isinstance(Y, list) and any(map(is_series, Y))
        return self._read_labels([one.to_numpy() if is_series(one) else one for one in Y] if listed else Y)


def _constructor(own: Mapping[str, Any]) -> Callable[..., None]:
    """Return ``__init__`` of a ready model: own parameters with their defaults, and the options of an SVM."""
    first = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in own.items()]
    form = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *first, *_OPTIONS])

    def __init__(self: Any, **named: Any) -> None:
        bound = form.bind(self, **named)
        bound.apply_defaults()
        self._keep(bound.arguments)

    __init__.__signature__ = form  # type: ignore[attr-defined]
    return __init__
