"""``MultiLabel``: a set of labels for a row of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from itertools import chain, combinations
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, OptionError, OutOfTime
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.lang.arrays import NotNumbers
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.frames import column_names, is_frame, is_gap, is_numbered, matched, with_index
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import cliques, complete
from ssvm_dsl.lang.symbols import show
from ssvm_dsl.learning.answers import PredictionRequest, labellings, probabilities
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.choosing import LOG
from ssvm_dsl.models.classes import in_form, input_of, n_rows
from ssvm_dsl.plugin_api.executors import THREADS

# -- pairs of labels -----------------------------------------------------------------------------------------------
#
# Which labels of a set depend on each other: the pairs that are worth weights, on a graph of small treewidth.
#
# The pairs are those of a tree of cliques that is grown as Prim grows a spanning tree.  It begins with the pair of the
# largest mutual information; then each further label joins the ``width`` labels of a clique with which the sum of its
# mutual information is largest.  With ``width=1`` that is the maximum spanning tree, which has the largest likelihood
# of all trees (Chow and Liu 1968); with more it is a greedy k-tree (Karger and Srebro 2001), in which exact inference
# takes a table of ``2 ** (width + 1)`` numbers for each label.

#: Entries of all tables of all examples up to which a wider graph is taken: some seconds of sums in a fit.
BUDGET = 400_000

#: The largest width that is worth it: wider graphs predicted no better on the data of ``make bench ARGS=ready``.
WIDEST = 3


def width_for(n_examples: int, n_labels: int) -> int:
    """Return the width at which exact inference is still cheap: 1 to :data:`WIDEST`, 0 for a single label."""
    fits = [w for w in range(1, WIDEST + 1) if n_examples * n_labels * 2 ** (w + 1) <= BUDGET]
    return min(n_labels - 1, max(fits, default=1))


def mutual_information(Y: I64) -> F64:
    """Return the mutual information of each two labels, ``shape (k, k)``, 0 where chance explains it.

    In nats, of shares to which half an example of each kind is added.  Chance explains less than ``log(n) / (2 n)``,
    the penalty of the Bayesian information criterion for the one number that two binary labels depend by.

    Parameters
    ----------
    Y : ndarray of int64, shape (n, k)
        0 or 1; other values are not known: such an example does not count for the pair.
    """
    is_one, is_zero = (Y == 1).astype(np.float64), (Y == 0).astype(np.float64)
    counts = np.array([[a.T @ b for b in (is_zero, is_one)] for a in (is_zero, is_one)]) + 0.5
    n = counts.sum(axis=(0, 1))
    share = counts / n
    alone = share.sum(axis=1, keepdims=True) * share.sum(axis=0, keepdims=True)
    found: F64 = (share * np.log(share / alone)).sum(axis=(0, 1))
    np.fill_diagonal(found, 0.0)
    return np.where(found > np.log(n) / (2 * n), found, 0.0)


def strongest_pairs(information: F64, width: int) -> list[tuple[int, int]]:
    """Return pairs of labels, sorted, whose graph has at most the given treewidth.

    Parameters
    ----------
    information : ndarray of float64, shape (k, k)
        Symmetric; pairs of 0 are left out.
    width : int
        Treewidth of the graph; ``k - 1`` or more takes all pairs.
    """
    k = len(information)
    if width >= k - 1:
        return [pair for pair in combinations(range(k), 2) if information[pair] > 0]
    found: list[tuple[int, int]] = []
    first = int(information.max(axis=1).argmax())
    cliques: list[tuple[int, ...]] = [(first,)]
    gain, joined = information[:, first].copy(), np.zeros(k, dtype=np.int64)
    left = np.ones(k, dtype=bool)
    left[first] = False
    while left.any():
        label = int(np.where(left, gain, -1.0).argmax())
        clique = cliques[joined[label]]
        found += [(min(label, other), max(label, other)) for other in clique if information[label, other] > 0]
        left[label] = False
        whole = (*clique, label)
        new = [whole] if len(whole) <= width else list(combinations(whole, width))
        for one in new:
            sums = information[:, one].sum(axis=1)
            better = sums > gain
            gain[better], joined[better] = sums[better], len(cliques)
            cliques.append(one)
    return sorted(found)


#: What files call the names of labels, among the columns of data frames.
LABELS = "labels"

#: What the report calls the choice between sets and labels one by one, and what it says of the latter.
PREDICTED, ALONE = "predictions", "labels one by one"

#: By how much F1 must be better for them, and on how many rows that is looked at.
GAIN, ROWS = 0.01, 1000

T = TypeVar("T")


class MultiLabel(ReadyModel):
    """Predicts sets of labels: each label from the features, and labels that depend on each other together.

    X is a matrix ``(n, n_features)``, a sparse one or a data frame.  Y is a matrix ``(n, n_labels)`` of 0 and 1; with
    ``names``, a list of sets (or lists) of names, and sets are predicted.

    Parameters
    ----------
    names : sequence of str, optional
        The names of the labels.
    together : bool or "auto"
        Which two labels have a table of weights.  ``"auto"``: those with the largest mutual information that chance
        does not explain, as many as leave exact inference cheap (:func:`strongest_pairs`); all pairs of
        few labels.  True: all pairs.  False: none, so that labels are independent.
    bias : bool
        Whether each label has a bias; as all weights, it is regularised.
    each : bool or "auto"
        Whether each label is predicted alone, where it is likelier than not, in place of the likeliest set.  The
        likeliest set is right most often as a whole; where all sets are improbable, labels alone may have a better F1.
        ``"auto"``: where they have by the probabilities of the fitted model, as :func:`expected_f1` says.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> MultiLabel(C=0.1).fit(X, Y).predict(X_test)
    >>> MultiLabel(names=["sea", "sun"]).fit(X, [{"sea", "sun"}, {"sea"}, set(), ...]).predict(X_test)
    """

    names: Sequence[str] | None = None
    together: bool | str = AUTO
    bias: bool = True
    each: bool | str = AUTO
    _weighs_classes = True

    def _read_examples(self, X: Any) -> Any:
        return self._encoded_rows(X)

    def _read_labels(self, Y: Any) -> Any:
        if is_frame(Y):
            return self._columns_of_labels(Y)
        if self.names is not None:
            return [self._encoded(one, i) for i, one in enumerate(Y)]
        i = next((i for i, one in enumerate(Y) if isinstance(one, Set)), None)
        if i is not None:
            hint = "say which names there are: MultiLabel(names=sorted(set().union(*Y)))"
            raise DataError("Y", example=i, expected="a row of 0 and 1", found=show(Y[i]), hint=hint)
        return Y

    #: The names of the labels, where these were columns of a data frame.
    _label_names = None

    def _follow(self, other: Self) -> None:
        super()._follow(other)
        self._label_names = other._label_names

    def _plain_frames(self) -> dict[str, dict[str, Any]]:
        names = {} if self._label_names is None else {LABELS: {"names": self._label_names}}
        return super()._plain_frames() | names

    def _take_frames(self, found: dict[str, dict[str, Any]]) -> None:
        if LABELS in found:
            self._label_names = check_names(found[LABELS]["names"])
            if len(self._label_names) != self.model.declaration.outputs[0].dims[0].size:
                raise ValueError("another number of labels")
        super()._take_frames({name: one for name, one in found.items() if name != LABELS})

    def _columns_of_labels(self, Y: Any) -> Any:
        """Return a data frame of labels as a matrix; its columns are matched by name."""
        if self._learns_frames:
            self._label_names = None if is_numbered(Y) else column_names(Y)
        if self._label_names is not None and not is_numbered(Y):
            try:
                Y = matched(Y, self._label_names)
            except NotNumbers as err:
                raise DataError("Y", expected=err.expected, found=err.found, hint=err.hint) from None
        return Y.to_numpy()

    def _encoded(self, one: Any, i: int) -> Any:
        """Return a set of names as an array of 0 and 1."""
        names = check_names(self.names)
        if one is None or isinstance(one, np.ndarray):
            return one
        expected = f"a set of names of {', '.join(names)}"
        if not isinstance(one, Set | list | tuple) or not set(map(type, one)) <= {str}:
            raise DataError("Y", example=i, expected=expected, found=show(one))
        if unknown := sorted(set(one) - set(names)):
            raise DataError("Y", example=i, expected=expected, found=show(unknown[0]))
        return np.array([name in one for name in names], dtype=np.int64)

    def _declaration(self, X: Any, Y: Any) -> type[Model]:
        width = next((len(one) for one in Y if hasattr(one, "__len__")), 0)
        if not width:
            raise DataError("Y", expected="a row of 0 and 1 for each example", found=show(Y[0]))

        pairs = self._pairs(Y, width)

        class LabelSet(Model):
            K = Dim(width)
            x = input_of(X)
            y = Label(K, 2)
            unary = Factor(y.is_(1), features=self._scaled(x, X), per=K)
            bias = Factor(y.is_(1), per=K) if self.bias else None
            pair = Factor(complete(y) if pairs is None else cliques(y, pairs), per="edge") if pairs != [] else None
            loss = Hamming(y, weights=self._prices([0, 1], Y))

        return LabelSet

    def _pairs(self, Y: Any, width: int) -> list[tuple[int, int]] | None:
        """Return the pairs of labels that have weights together, ``None`` for all."""
        if not (isinstance(self.together, bool | np.bool_) or self.together == AUTO):
            raise OptionError(f"together must be True, False or 'auto', got {self.together!r}")
        if width == 1 or self.together is False:
            return []
        if self.together != AUTO:
            return None
        known = np.array([_known(one, width) for one in Y])
        pairs = strongest_pairs(mutual_information(known), width_for(len(known), width))
        return None if len(pairs) == width * (width - 1) // 2 else pairs

    # -- sets, or labels one by one ------------------------------------------------------------------------

    def _fit_examples(self, X: Any, Y: Any, sample_weight: Any, validation: Any, deadline: Deadline) -> Self:
        if not (isinstance(self.each, bool | np.bool_) or self.each == AUTO):
            raise OptionError(f"each must be True, False or 'auto', got {self.each!r}")
        super()._fit_examples(X, Y, sample_weight, validation, deadline)
        here = self.executor == THREADS and not isinstance(X, PartitionedDataset)
        pairs = "pair" in {factor.name for factor in self.model_.declaration.factors}
        if self.each != AUTO or self.risk_ != LOG or deadline.over or not (here and pairs):
            return self
        step = -(-n_rows(X) // ROWS)
        some = X.iloc[::step] if is_frame(X) else X[::step]
        try:
            with within(deadline):
                sets = np.array(super()._labellings(some, PredictionRequest()))
                shares = np.array(self._answers(some, probabilities, PredictionRequest(Task.MARGINALS)).listed)[:, :, 1]
        except OutOfTime:
            return self
        together, alone = expected_f1(shares, sets), expected_f1(shares, shares > 0.5)
        if alone > together + GAIN:
            text = f"{ALONE}: the model expects an F1 of {alone:.3g} of them, and {together:.3g} of the likeliest sets"
            self.report_ = replace(self.report_, chosen={**self.report_.chosen, PREDICTED: text})
        return self

    @property
    def _predicts_each(self) -> bool:
        """Whether labels are predicted one by one."""
        if self.each != AUTO:
            return bool(self.each)
        report = self._last_report
        return report is not None and report.chosen.get(PREDICTED, "").startswith(ALONE)

    def _labellings(self, X: Any, request: PredictionRequest, return_bounds: bool = False) -> Any:
        if return_bounds or request.given is not None or not self._predicts_each:
            return super()._labellings(X, request, return_bounds)
        return list(chain.from_iterable(self._of_predictions(X, labellings, request)))

    def _of_predictions(
        self, X: Any, read: Callable[[Grounded, Solution], T], request: PredictionRequest
    ) -> list[T]:
        if not self._predicts_each:
            return super()._of_predictions(X, read, request)

        def of_each(grounded: Grounded, solution: Solution) -> T:
            likelier = solution.needed_marginals().node.reshape(-1, 2)[:, 1] > 0.5
            return read(grounded, replace(solution, labels=likelier.astype(np.int32)))

        return self._answers(X, of_each, replace(request, task=Task.MARGINALS)).parts

    def predict(self, X: Any, **options: Any) -> Any:
        """Return a matrix of 0 and 1, ``shape (n, n_labels)``, or a list of sets of names.

        With ``given`` or ``return_bounds`` they are the likeliest sets.  ``options`` are those of
        ``StructuredSVM.predict``.
        """
        predicted = super().predict(X, **options)
        if self.names is not None:
            return in_form(predicted, lambda labels: [None if one is None else self._named(one) for one in labels])
        whole = isinstance(predicted, list) and all(one is not None for one in predicted)
        return with_index(np.array(predicted), X, self.classes_) if whole else predicted

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the columns of ``predict_proba``: their names, or numbers."""
        self._check_fitted()
        if self.names is not None:
            return np.array(check_names(self.names))
        names = self._label_names
        return np.arange(self.model.declaration.outputs[0].dims[0].size or 0) if names is None else np.array(names)

    def _probabilities(self, X: Any, probabilities: list[Any]) -> Any:
        """Return the probability that each label is 1, ``shape (n, n_labels)``."""
        return np.array([np.full(len(self.classes_), np.nan) if one is None else one[:, 1] for one in probabilities])

    def _shown_labels(self, X: Any, Y: Any) -> tuple[list[Any], list[Any]]:
        """Return the labels of each example by name: ``sea`` or ``no sea``."""
        names = [str(name) for name in self.classes_.tolist()]

        def named(row: Any) -> list[Any]:
            pairs = zip(names, row, strict=True)
            return [None if is_gap(one) else name if one else f"no {name}" for name, one in pairs]

        return [named(row) for row in self._labels(Y)], [named(row) for row in super().predict(X)]

    def decision_function(self, X: Any, *, time_limit: float | None = None) -> F64:
        """Return how much the model prefers each label to be 1, ``shape (n, n_labels)``.

        The best score with the label, less that without it (the other labels at their best): positive where it is
        predicted.  It asks two questions for each label; ``time_limit``, in seconds, holds for each of them.  Where
        labels are predicted one by one it is the logarithm of the odds of each.
        """
        if self._predicts_each:
            shares = np.asarray(self.predict_proba(X, time_limit=time_limit))
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(shares) - np.log1p(-shares))
        n, k = n_rows(X), len(self.classes_)
        out = np.empty((n, k))
        for place in range(k):
            fixed = np.full((2, k), None, dtype=object)
            fixed[:, place] = 0, 1
            without, with_it = (self._best(X, [row] * n, time_limit) for row in fixed)
            out[:, place] = with_it - without
        return out

    def _named(self, row: Any) -> set[str]:
        """Return the names of the labels that are 1."""
        return {name for name, there in zip(check_names(self.names), row, strict=True) if there}


def expected_f1(shares: F64, predicted: NDArray[Any]) -> float:
    """Return the F1 of predicted labels that probabilities lead to expect, averaged over labels.

    With the probability p_i of a label in example i, and d_i 1 where it is predicted, it is that of expected counts,
    ``2 sum_i p_i d_i / (sum_i p_i + sum_i d_i)``.

    Parameters
    ----------
    shares : ndarray of float64, shape (n, k)
        Probabilities.
    predicted : ndarray of 0 and 1, shape (n, k)
    """
    both, counts = (shares * predicted).sum(axis=0), shares.sum(axis=0) + predicted.sum(axis=0)
    return float(np.mean(2.0 * both / np.maximum(counts, 1e-300)))


def _known(one: Any, width: int) -> NDArray[np.int64]:
    """Return the labels of an example, -1 where they are not known or (which is refused later) are no labels."""
    masked = np.ma.getmaskarray(one) if isinstance(one, np.ma.MaskedArray) else None
    try:
        row = np.array([-1 if value not in (0, 1) else int(value) for value in np.ma.getdata(one).tolist()])
    except TypeError:
        row = np.zeros(0)
    if row.shape != (width,):
        return np.full(width, -1)
    return row if masked is None else np.where(masked, -1, row)


def check_names(names: Any) -> list[str]:
    """Return the names of labels.

    Raises
    ------
    OptionError
        They are no different strings.
    """
    listed = list(names) if isinstance(names, list | tuple | np.ndarray) else []
    if not listed or not all(isinstance(name, str) for name in listed) or len(set(listed)) < len(listed):
        raise OptionError(f"names must be a list of different strings, got {names!r}")
    return [str(name) for name in listed]
