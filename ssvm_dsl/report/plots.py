"""Plots of what people would rather look at; each draws on an axis it is given, or on a new one, and returns it.

They need matplotlib (``pip install ssvm-dsl[plots]``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssvm_dsl.errors import OptionError

if TYPE_CHECKING:
    from ssvm_dsl.learning.certificate import FitReport
    from ssvm_dsl.learning.path import PathPoint

#: What can be drawn over, and how the axis is called.
OVER = {"seconds": "seconds", "n_passes": "passes over the data", "n_oracle_calls": "oracle calls"}

WHAT = {"objective": "objective (dashed: lower bound)", "gap": "relative gap", "validation": "score, held-out examples"}


def plot_training(
    reports: FitReport | Mapping[str, FitReport], over: str = "seconds", what: str = "objective", ax: Any = None
) -> Any:
    """Draw the objective with its lower bound, the relative gap, or the validation score, of one or several fits.

    Parameters
    ----------
    reports : FitReport, or mapping of name to FitReport
        ``svm.report_``; histories are not stored with saved models.
    over : {"seconds", "n_passes", "n_oracle_calls"}
    what : {"objective", "gap", "validation"}
        Best objective so far (line) and best lower bound (dashed), the relative gap on a logarithmic axis, or the
        score on the examples of ``validation``.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    if over not in OVER or what not in WHAT:
        raise OptionError(f"over is one of {', '.join(OVER)}, what one of {', '.join(WHAT)}; got {over!r}, {what!r}")
    ax = _axes(ax)
    named = reports if isinstance(reports, Mapping) else {reports.trainer: reports}
    for name, report in named.items():
        if not report.history:
            raise OptionError(f"the report of '{name}' has no history to draw")
        x = np.array([getattr(event, over) for event in report.history])
        if what == "gap":
            ax.plot(x, [event.relative_gap for event in report.history], label=name)
            continue
        if what == "validation":
            scores = report.validation_scores
            if not scores:
                raise OptionError(f"the fit of '{name}' had no validation examples: fit(..., validation=(X, Y))")
            ax.plot(x[list(scores)], list(scores.values()), label=name)
            continue
        (line,) = ax.plot(x, [event.best_primal for event in report.history], label=name)
        ax.plot(x, _finite(event.best_dual for event in report.history), "--", color=line.get_color())
    ax.set_xlabel(OVER[over])
    ax.set_ylabel(WHAT[what])
    if what == "gap":
        ax.set_yscale("log")
    ax.legend()
    return ax


def plot_weights(weights: Any, rows: Sequence[str] = (), columns: Sequence[str] = (), ax: Any = None) -> Any:
    """Draw a matrix of weights, e.g. ``svm.weights_[OCR.trans]``; red is positive, blue negative.

    Parameters
    ----------
    weights : array_like or sparse array, shape (m, k)
    rows, columns : sequence of str, optional
        Names, e.g. the classes of the label.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    from scipy.sparse import issparse

    matrix = np.asarray(weights.toarray() if issparse(weights) else weights, dtype=float)
    if matrix.ndim != 2:
        raise OptionError(f"weights to draw are a matrix, got shape {matrix.shape}")
    ax = _axes(ax)
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    ax.figure.colorbar(image, ax=ax)
    _names(ax, rows, columns)
    return ax


def confusion_matrix(truth: Iterable[Any], found: Iterable[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """Return how often each true class was taken for each class; ``shape (n_classes, n_classes)``.

    Parameters
    ----------
    truth, found : lists of labels
        As given to ``fit`` and returned by ``predict``, of a model with one label.
    classes : sequence
        The class names.
    """
    number = {name: k for k, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    for right, mine in zip(truth, found, strict=True):
        for a, b in zip(np.ravel(np.asarray(right)).tolist(), np.ravel(np.asarray(mine)).tolist(), strict=True):
            if a not in number or b not in number:
                raise OptionError(f"{a if a not in number else b!r} is not one of the classes")
            counts[number[a], number[b]] += 1
    return counts


def plot_confusion(truth: Iterable[Any], found: Iterable[Any], classes: Sequence[Any], ax: Any = None) -> Any:
    """Draw which classes are taken for which: shares of each true class (rows).

    Parameters
    ----------
    truth, found, classes
        As for :func:`confusion_matrix`.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    counts = confusion_matrix(truth, found, classes)
    ax = _axes(ax)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = ax.imshow(shares, cmap="Greys", vmin=0.0, vmax=1.0)
    ax.figure.colorbar(image, ax=ax)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    _names(ax, [str(c) for c in classes], [str(c) for c in classes])
    return ax


def plot_path(points: Iterable[PathPoint], values: ArrayLike, name: str = "score", ax: Any = None) -> Any:
    """Draw a number for each point of a regularisation path over the interval of C it covers.

    Parameters
    ----------
    points : iterable of PathPoint
    values : array_like
        One number for each point, e.g. the score on held-out data.
    name : str
        What the number is.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    listed, numbers = list(points), np.asarray(values, dtype=float)
    if len(listed) != len(numbers):
        raise OptionError(f"expected one number for each of the {len(listed)} points, got {len(numbers)}")
    ax = _axes(ax)
    ax.step([listed[0].C, *(point.C_end for point in listed)], [*numbers, numbers[-1]], where="post")
    ax.set_xscale("log")
    ax.set_xlabel("C")
    ax.set_ylabel(name)
    return ax


def _axes(ax: Any) -> Any:
    """Return the axes to draw on."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as err:
        raise OptionError("plots need matplotlib: pip install ssvm-dsl[plots]") from err
    return plt.subplots()[1]


def _names(ax: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    if rows:
        ax.set_yticks(range(len(rows)), rows)
    if columns:
        ax.set_xticks(range(len(columns)), columns)


def _finite(values: Iterable[float]) -> NDArray[np.float64]:
    """Return values with nan for what is not finite, which matplotlib leaves out."""
    array = np.array(list(values), dtype=float)
    return np.where(np.isfinite(array), array, np.nan)
