"""Plots; each draws on a given axis, or on a new one, and returns it.

They need matplotlib (``pip install ssvm-dsl[plots]``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.errors import OptionError
from ssvm_dsl.report.confusion import confusion_matrix
from ssvm_dsl.report.curves import (
    Curve,
    gap_curves,
    gap_limits,
    is_wide,
    objective_curves,
    objective_limits,
    score_curves,
)

if TYPE_CHECKING:
    from ssvm_dsl.learning.driver.certificate import FitReport
    from ssvm_dsl.learning.estimators.path import PathPoint
    from ssvm_dsl.learning.tuning.grid import GridScores

NO_MATPLOTLIB = "plots need matplotlib: pip install ssvm-dsl[plots]"

#: What can be drawn over, and how the axis is called.
OVER = {"seconds": "seconds", "n_passes": "passes over the data", "n_oracle_calls": "oracle calls"}

WHAT = {"objective": "objective", "gap": "relative gap", "validation": "score, held-out examples"}

#: How a curve is drawn, by its kind, and what the legend says of it.
STYLES: dict[str, dict[str, Any]] = {
    "value": {"linestyle": "-", "linewidth": 1.5},
    "bound": {"linestyle": "--", "linewidth": 1.2},
    "estimate": {"linestyle": ":", "linewidth": 1.3},
}
SAID = {"bound": "lower bound", "estimate": "estimate, not certified"}

#: Certificates are marked one by one where a fit has no more than this many.
FEW = 6

#: Legends with more entries than this get room above the curves; what a column and a line of them take, in points.
BESIDE, ENTRY, LINE = 4, 110.0, 12.5

#: Every how many rows a name is shown, and how wide a character is in units of the size of its font.
STEPS, CHARACTER = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), 0.6

#: Logarithmic axes that span less have a number at 2 and 5, too.
NARROW = 200.0


def plot_training(
    reports: FitReport | Mapping[str, FitReport], over: str = "seconds", what: str = "objective", ax: Any = None
) -> Any:
    """Draw the objective with its lower bound, the relative gap, or the validation score, of one or several fits.

    Trainers that seldom ask for a certificate, such as ``bcfw``, tell estimates meanwhile: thin dotted lines, as are
    the objectives of a heuristic backend.  An axis is logarithmic where what it shows spans more than a factor of ten.
    Far outliers are left out of the picture (``ax.set_ylim``, ``ax.set_xscale`` change that): bounds below 0,
    objectives far above what a fit has for most of its way.  A fit that stays above, or ends below, is a triangle at
    the edge.

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

    Raises
    ------
    OptionError
        There is nothing to draw, or no matplotlib.
    """
    if over not in OVER or what not in WHAT:
        known = f"over must be one of {', '.join(OVER)}, what one of {', '.join(WHAT)}"
        raise OptionError(f"{known}; got {over!r}, {what!r}")
    given = reports if isinstance(reports, Mapping) else {"": reports}
    wrong = [one for one in given.values() if not hasattr(one, "history")]
    if wrong:
        kind = type(wrong[0]).__name__
        hint = "; draw the report of a fitted estimator: svm.report_" if hasattr(wrong[0], "report_") else ""
        raise OptionError(f"reports: expected a FitReport, or a mapping of names to some, got {kind}{hint}")
    named = given if isinstance(reports, Mapping) else {reports.trainer: reports}
    fits = {name: _curves(name, report, over, what) for name, report in named.items()}
    ax = axes_for(ax)
    _set_limits(ax, list(fits.values()), what)
    for name, lines in fits.items():
        _draw(ax, name if lines else f"{name} (no gap is known)", lines)
    ax.set_xlabel(OVER[over])
    ax.set_ylabel(WHAT[what])
    _legend(ax)
    return ax


def _curves(name: str, report: FitReport, over: str, what: str) -> list[Curve]:
    """Return the curves of a fit."""
    if not report.history:
        raise OptionError(f"the report of '{name}' has no history to draw")
    lines = {"objective": objective_curves, "gap": gap_curves, "validation": score_curves}[what](report, over)
    if what == "validation" and not lines:
        raise OptionError(f"the fit of '{name}' had no validation examples: fit(..., validation=(X, Y))")
    return lines


def _draw(ax: Any, name: str, lines: Sequence[Curve]) -> None:
    """Draw the curves of a fit in one colour; those above or below the picture as a triangle at its edge."""
    (first,) = ax.plot([], [], label=name, **STYLES[lines[0].kind if lines else "value"])
    color, (bottom, top), framed = first.get_color(), ax.get_ylim(), not ax.get_autoscaley_on()
    for line in lines:
        shown, mark = line.y, {}
        if line.kind == "value":
            mark = {"marker": "o", "markersize": 4, "markevery": None if len(np.unique(line.y)) <= FEW else [-1]}
        if line.kind == "value" and framed and (line.y[-1] < bottom or line.y.min() > top):
            shown = np.clip(line.y, bottom, top)
            sign = "v" if line.y[-1] < bottom else "^"
            mark = {"marker": sign, "markersize": 7, "markevery": [-1], "clip_on": False}
        ax.plot(line.x, shown, color=color, gid=line.kind, **STYLES[line.kind], **mark)


def _set_limits(ax: Any, fits: Sequence[Sequence[Curve]], what: str) -> None:
    """Choose scales and limits; what an axis shows already stays in the picture."""
    drawn, before = ax.has_data(), ax.get_ylim()
    x = np.concatenate([line.x for lines in fits for line in lines] or [np.ones(1)])
    log_x = is_wide(x)
    if log_x:
        _logarithmic(ax, "x", float(x.max() / x.min()))
    if what == "validation":
        return
    lowest, highest, log_y = gap_limits(fits) if what == "gap" else objective_limits(fits, log_x)
    if log_y:
        _logarithmic(ax, "y", highest / lowest)
    if drawn:
        lowest, highest = min(lowest, before[0]), max(highest, before[1])
    _frame(ax, lowest, highest, 0.04)


def _frame(ax: Any, lowest: float, highest: float, above: float, below: float = 0.04) -> None:
    """Set the limits of y with margins, as shares of the axis, above and below."""
    if ax.get_yscale() == "log":
        space = (highest / lowest) ** (1.0 / (1.0 - above - below))
        ax.set_ylim(lowest / space**below, highest * space**above)
    else:
        space = ((highest - lowest) or 1.0) / (1.0 - above - below)
        ax.set_ylim(lowest - below * space, highest + above * space)


def _logarithmic(ax: Any, axis: str, span: float) -> None:
    """Make an axis of values that span this factor logarithmic, with plain numbers on it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(ax, f"set_{axis}scale")("log")
    ticks = getattr(ax, f"{axis}axis")
    ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if span < NARROW else (1.0,), numticks=15))
    ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ticks.set_minor_formatter(NullFormatter())


def _legend(ax: Any) -> None:
    """Name the fits, and explain dashes and dots if there are any; many entries are placed above the curves."""
    from matplotlib.lines import Line2D

    handles, _ = ax.get_legend_handles_labels()
    there = {line.get_gid() for line in ax.get_lines()}
    said = [(kind, text) for kind, text in SAID.items() if kind in there]
    handles += [Line2D([], [], color="grey", label=text, **STYLES[kind]) for kind, text in said]
    if len(handles) <= BESIDE:
        ax.legend(handles=handles, fontsize="small")
        return
    width, height = _points(ax)
    columns = int(np.clip(width // ENTRY, 1, 3))
    space = min((-(-len(handles) // columns) + 1) * LINE / height, 0.5)
    bottom, top = ax.get_ylim()
    _frame(ax, bottom, top, space, 0.0)
    ax.legend(handles=handles, fontsize="small", ncols=columns, loc="upper right")


def _points(ax: Any) -> tuple[float, float]:
    """Return (width, height) of an axis in points, 72 to the inch."""
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    return 72.0 * box.width / dpi, 72.0 * box.height / dpi


def plot_weights(weights: Any, rows: Sequence[Any] = (), columns: Sequence[Any] = (), ax: Any = None) -> Any:
    """Draw a matrix of weights, e.g. ``svm.weights_[OCR.trans]``; red is positive, blue negative.

    Parameters
    ----------
    weights : array_like or sparse array, shape (m, k)
    rows, columns : sequence, optional
        Names, e.g. the classes of the label: ``svm.weights_.names(OCR.trans)`` are both.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    from scipy.sparse import issparse

    matrix = np.asarray(weights.toarray() if issparse(weights) else weights, dtype=float)
    if matrix.ndim != 2:
        raise OptionError(f"weights to draw must be a matrix, got shape {matrix.shape}")
    for what, names, size in (("rows", rows, matrix.shape[0]), ("columns", columns, matrix.shape[1])):
        if len(names) not in (0, size):
            raise OptionError(f"{what}: expected a name for each of {size}, got {len(names)}")
    ax = axes_for(ax)
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    ax.figure.colorbar(image, ax=ax)
    name_rows_and_columns(ax, [str(name) for name in rows], [str(name) for name in columns])
    return ax


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
    ax = axes_for(ax)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = ax.imshow(shares, cmap="Greys", vmin=0.0, vmax=1.0)
    ax.figure.colorbar(image, ax=ax)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    name_rows_and_columns(ax, [str(c) for c in classes], [str(c) for c in classes])
    return ax


def plot_path(points: Iterable[PathPoint], values: ArrayLike, name: str = "score", ax: Any = None) -> Any:
    """Draw a number for each point of a regularisation path over the interval of C it covers.

    Parameters
    ----------
    points : iterable of PathPoint
    values : array_like
        One number for each point, e.g. the score on held-out data.
    name : str
        The name of the number.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    listed, numbers = list(points), np.asarray(values, dtype=float)
    if len(listed) != len(numbers):
        raise OptionError(f"expected one number for each of the {len(listed)} points, got {len(numbers)}")
    ax = axes_for(ax)
    ax.step([listed[0].C, *(point.C_end for point in listed)], [*numbers, numbers[-1]], where="post")
    ax.set_xscale("log")
    ax.set_xlabel("C")
    ax.set_ylabel(name)
    return ax


def plot_grid(found: GridScores, ax: Any = None) -> Any:
    """Draw mean scores and standard deviations of a grid over the parameter that is a number and has most values.

    A line for each combination of the other parameters; dots of entries that are not known on all folds are left out.

    Parameters
    ----------
    found : GridScores
        What :func:`~ssvm_dsl.grid_scores` returns.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    OptionError
        There is no matplotlib.
    """
    values = {name: list(dict.fromkeys(repr(one[name]) for one in found.grid)) for name in found.grid[0]}
    numeric = [name for name in values if all(type(one[name]) in (int, float) for one in found.grid)]
    over = max(numeric, key=lambda name: len(values[name]), default=None)
    lines: dict[str, list[int]] = {}
    for i, one in enumerate(found.grid):
        others = [f"{name}={one[name]}" for name in values if name != over and len(values[name]) > 1]
        lines.setdefault(", ".join(others) if over is not None else "", []).append(i)
    ax = axes_for(ax)
    for name, entries in lines.items():
        if over is not None:
            x = np.array([float(found.grid[i][over]) for i in entries])
            entries = [entries[k] for k in np.argsort(x, kind="stable")]
            x = np.sort(x)
        else:
            x = np.arange(len(entries), dtype=float)
        ax.errorbar(x, found.means[entries], found.deviations[entries], marker="o", capsize=3, label=name or None)
        if over is not None and x[0] > 0 and is_wide(x):
            ax.set_xscale("log")
    if over is None:
        name_rows_and_columns(ax, [], [", ".join(map(str, one.values())) for one in found.grid])
    ax.set_xlabel(over or ", ".join(values))
    ax.set_ylabel("score, mean and deviation over folds")
    if len(lines) > 1:
        ax.legend(fontsize="small")
    return ax


#: Width in inches of a figure with one picture, where its height is given.
WIDTH = 6.4


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of a size in inches, which no window shows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise OptionError(NO_MATPLOTLIB) from err
    return Figure(figsize=(width, height))


def axes_for(ax: Any, height: float | None = None) -> Any:
    """Return the axes to draw on: those given, or new ones, of a height in inches if it is given."""
    if ax is not None:
        return ax
    return new_subplots(1, height)[0]


def new_subplots(n: int, height: float | None = None) -> list[Any]:
    """Return n new axes side by side, in a figure with room for legends beside them."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as err:
        raise OptionError(NO_MATPLOTLIB) from err
    size = (3.0 * n, height or 3.0) if n > 1 else None if height is None else (WIDTH, height)
    figure = plt.figure(figsize=size, layout="constrained")
    return [figure.add_subplot(1, n, k + 1) for k in range(n)]


def save_for_script(plot: Callable[..., Any], *args: Any, **named: Any) -> None:
    """Write the picture of a plot function to the files named on the command line of the script that calls this.

    No file, no picture.  Without matplotlib a warning says so, and the script goes on.

    Parameters
    ----------
    plot : callable
        For example :func:`plot_confusion`.
    *args, **named
        The quantity to draw.
    """
    paths = sys.argv[1:]
    if not paths:
        return
    if find_spec("matplotlib") is None:
        warn_caller(f"no picture is written: {NO_MATPLOTLIB}")
        return
    drawn = plot(*args, **named)
    for path in paths:
        (drawn[0] if isinstance(drawn, list | np.ndarray) else drawn).figure.savefig(path, bbox_inches="tight", dpi=100)


def name_rows_and_columns(ax: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Name rows and columns: as many as fit, evenly; column names are vertical if all fit that way."""
    from matplotlib.font_manager import FontProperties

    width, height = _points(ax)
    size = FontProperties(size=ax.xaxis.get_major_ticks(1)[0].label1.get_fontsize()).get_size_in_points()
    if rows:
        step = _step(len(rows), height / size)
        ax.set_yticks(range(0, len(rows), step), rows[::step])
    if columns:
        widest = max(CHARACTER * max(map(len, columns)) + 0.5, 1.0)
        step = _step(len(columns), width / size / widest)
        upright = step > 1 and _step(len(columns), width / size) == 1
        step = 1 if upright else step
        ax.set_xticks(range(0, len(columns), step), columns[::step], rotation=90 if upright else 0)


def _step(n: int, space: float) -> int:
    """Return which of n names to show, every k-th, if a given number of lines fits."""
    return next((step for step in STEPS if n <= step * space), max(-(-n // max(int(space), 1)), 1))
