"""Folds of examples: which are trained on, and which are left out to be predicted, or scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.learning.estimator import clone

#: Positions of the training examples, and of those that are left out.
Fold = tuple[I64, I64]


def make_folds(
    n_examples: int, n_folds: Any, groups: Any = None, random_state: int | None = None, labels: Any = None
) -> list[Fold]:
    """Return (training, test) positions of each fold.

    Parameters
    ----------
    n_examples : int
    n_folds : int, splitter of scikit-learn, or iterable of (training, test) positions
        A splitter (``GroupKFold(5)``, ``TimeSeriesSplit()``) is asked for its folds of all examples.
    groups : sequence, shape (n_examples,), optional
        Examples of one group (a writer, a document) are in one fold, so that none is predicted by a model that has seen
        its kin; groups are dealt out so that folds are of about one size.
    random_state : int, optional
        Shuffles the examples; by default a fold is a run of examples in the given order.
    labels : sequence, shape (n_examples,), optional
        What splitters that keep shares of classes look at.

    Raises
    ------
    OptionError
        There are fewer examples, or groups, than folds; groups are not shuffled; a splitter refuses the data.
    DataError
        Groups are not one for each example.
    """
    from sklearn.model_selection import GroupKFold, KFold

    if not isinstance(n_folds, str | bytes) and (hasattr(n_folds, "split") or hasattr(n_folds, "__iter__")):
        return _split(n_examples, n_folds, groups, random_state, labels)
    most, of_what = n_examples, "examples"
    if groups is not None:
        groups, most, of_what = _numbered(groups, n_examples), len(set(groups)), "groups"
        if random_state is not None:
            raise OptionError("groups are dealt out by their sizes, not shuffled; leave random_state out")
    whole = isinstance(n_folds, int | np.integer) and not isinstance(n_folds, bool)
    if not whole or not 2 <= n_folds <= most:
        other = "" if isinstance(n_folds, int) else " (or a splitter of scikit-learn)"
        raise OptionError(f"folds: an int from 2 to the number of {of_what}, {most}{other}, got {n_folds!r}")
    seeded = isinstance(random_state, int | np.integer) and 0 <= random_state < 2**32
    if random_state is not None and not seeded:
        raise OptionError(f"random_state must be None or an int from 0 to 2^32 - 1, got {random_state!r}")
    positions = np.arange(n_examples)
    if groups is not None:
        return list(GroupKFold(int(n_folds)).split(positions, groups=groups))
    return list(KFold(int(n_folds), shuffle=random_state is not None, random_state=random_state).split(positions))


def _split(n: int, cv: Any, groups: Any, random_state: int | None, labels: Any) -> list[Fold]:
    """Return the folds of a splitter of scikit-learn, or those that are listed.

    Raises
    ------
    OptionError
        The splitter refuses the data, a fold is no pair of positions, or has no example to train on or to predict.
    """
    if random_state is not None:
        raise OptionError("a splitter shuffles by its own random_state; leave out the one beside it")
    try:
        numbers = None if groups is None else _numbered(groups, n)
        split = cv.split(np.zeros((n, 1)), labels, groups=numbers) if hasattr(cv, "split") else cv
        pairs = [tuple(map(np.asarray, pair)) for pair in split]
    except (TypeError, ValueError) as err:
        if isinstance(err, DataError):
            raise
        hint = "; it keeps shares of single classes: give groups, or use KFold" if "Unknown label" in str(err) else ""
        raise OptionError(f"{cv!r} cannot split these examples: {err}{hint}") from err
    expected = f"(positions to train on, positions to predict) from 0 to {n - 1}"
    out: list[Fold] = []
    for k, pair in enumerate(pairs):
        fold = tuple(np.flatnonzero(one) if one.dtype == bool and one.shape == (n,) else one for one in pair)
        whole = len(fold) == 2 and all(one.ndim == 1 and one.dtype.kind in "iu" and len(one) for one in fold)
        if not whole or not all(one.min() >= 0 and one.max() < n for one in fold):
            raise OptionError(f"fold {k + 1} of {cv!r}: expected {expected}, some of each")
        out.append((fold[0].astype(np.int64), fold[1].astype(np.int64)))
    if not out:
        raise OptionError(f"{cv!r} gives no folds")
    return out


def _numbered(groups: Any, n_examples: int) -> list[int]:
    """Return the number of each example's group."""
    expected = f"a group for each of {n_examples} examples"
    if isinstance(groups, str) or not hasattr(groups, "__len__"):
        raise DataError("groups", expected=expected, found=repr(groups))
    named = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if len(named) != n_examples:
        raise DataError("groups", expected=expected, found=f"{len(named)}")
    numbers: dict[Any, int] = {}
    try:
        return [numbers.setdefault(one, len(numbers)) for one in named]
    except TypeError as err:
        raise DataError("groups", expected="names or numbers of groups", found=str(err)) from err


def size_of(values: Sequence[Any]) -> int:
    """Return the number of examples of a list, an array, a sparse matrix or a data frame."""
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def part_of(values: Any, positions: I64) -> Any:
    """Return some examples of a list, an array, a sparse matrix or a data frame."""
    if hasattr(values, "iloc"):
        return values.iloc[positions]
    if hasattr(values, "shape"):
        return (values.tocsr() if hasattr(values, "tocsr") else values)[positions]
    return [values[i] for i in positions.tolist()]


@checked_call
def cross_val_predict(
    estimator: Any, X: Any, Y: Any, *, cv: Any = 5, groups: Any = None, random_state: int | None = None,
    method: str = "predict",
) -> list[Any]:  # fmt: skip
    """Return the prediction of each example by a model that was fitted without it.

    As scikit-learn's function of this name, which puts predictions into one array, and so takes none of different
    lengths.

    Parameters
    ----------
    estimator : StructuredSVM
        It is not fitted here; copies are.  Ready models are such estimators, too.
    X, Y : list of examples, list of labels
        As for ``fit``.
    cv : int, splitter of scikit-learn, or iterable of (training, test) positions
        Number of folds, or what makes them: ``GroupKFold(5)``, ``TimeSeriesSplit()``.
    groups : sequence, shape (n,), optional
        Examples of one group are in one fold.
    random_state : int, optional
        Shuffles the examples; by default a fold is a run of examples in the given order.
    method : str
        Method of the fitted models to call: ``"predict"``, ``"predict_marginals"``, ``"best_score"`` or another method
        that returns something for each example.

    Returns
    -------
    list
        In the order of X.

    Raises
    ------
    OptionError, DataError
        There is no such method; fewer examples than folds; X and Y are of different lengths; folds leave out examples,
        or have some twice.

    Examples
    --------
    >>> from ssvm_dsl import cross_val_predict, span_f1
    >>> span_f1(Y, cross_val_predict(ChainTagger(), X, Y, cv=5))
    """
    ask: Callable[..., Any] | None = getattr(type(estimator), method, None) if isinstance(method, str) else None
    if not callable(ask):
        raise OptionError(f"method: the name of a method of {type(estimator).__name__}, got {method!r}")
    for values, what in ((X, "X"), (Y, "Y")):
        if not hasattr(values, "__len__") or isinstance(values, str):
            raise DataError(what, expected="a list with an entry for each example", found=type(values).__name__)
    n = size_of(X)
    if size_of(Y) != n:
        raise DataError("Y", expected=f"{n} examples, as in X", found=str(size_of(Y)))
    folds = make_folds(n, cv, groups, random_state, Y)
    times = np.bincount(np.concatenate([test for _, test in folds]), minlength=n)
    if (times != 1).any():
        i = int(np.flatnonzero(times != 1)[0])
        raise OptionError(f"cv={cv!r}: each example is to be in one test fold; example {i} is in {times[i]}")
    out: list[Any] = [None] * n
    for train, test in folds:
        fitted = clone(estimator).fit(part_of(X, train), part_of(Y, train))
        found = ask(fitted, part_of(X, test))
        for i, one in zip(test.tolist(), found, strict=True):
            out[i] = one
    return out
