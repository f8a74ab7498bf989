"""``cross_val_predict``: the prediction of each example by a model that was fitted without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.learning.estimator import clone
from ssvm_dsl.learning.tuning.folds import make_folds, part_of, size_of


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
