"""Write a fitted model as one self-contained page: no script, no font, nothing read from elsewhere.

Names of classes, features and files come from data: jinja2 escapes every text (autoescape), in drawings, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OptionError, SsvmError
from ssvm_dsl.io.atomic import write_atomically
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.learning.estimators.weights import Weights
from ssvm_dsl.learning.score_report import one_of
from ssvm_dsl.report.confusion import by_position, confusion_matrix
from ssvm_dsl.report.curves import Curve, gap_curves, is_wide, objective_curves
from ssvm_dsl.version import __version__

#: Size of a chart, and the space for the numbers beside it, in pixels.
WIDTH, HEIGHT, LEFT, BELOW = 420, 220, 62, 30

#: Height of a box of the model, and the distance between the middles of two.
BOX, STEP = 34, 52

#: Left edges of the columns of the model (inputs, factors, labels), and their width.
COLUMNS, BOX_WIDTH = (10, 300, 590), 230

#: Letters of a box.
SHORT = 34


def shortened(text: str, n: int = SHORT) -> str:
    """Return a text of at most n letters."""
    return text if len(text) <= n else text[: n - 1] + "…"


def runs(levels: NDArray[Any]) -> dict[int, str]:
    """Return the path of an SVG for each level of a matrix: equal neighbours of a row are one rectangle."""
    paths: defaultdict[int, list[str]] = defaultdict(list)
    for i, row in enumerate(levels.tolist()):
        start = 0
        for j in range(1, len(row) + 1):
            if j == len(row) or row[j] != row[start]:
                paths[row[start]].append(f"M{start} {i}h{j - start}v1H{start}z")
                start = j
    return {level: "".join(parts) for level, parts in sorted(paths.items())}


def chart(title: str, lines: Sequence[tuple[str, Curve]], log_y: bool) -> dict[str, Any]:
    """Return a chart over passes: polylines by name, and the numbers at the axes."""
    x = np.concatenate([line.x for _, line in lines])
    log_x = bool(x.min() > 0.0) and is_wide(x)
    y = np.concatenate([line.y for _, line in lines])
    log_y = log_y and bool((y > 0.0).any())
    if log_y:
        y = y[y > 0.0]
    across, up = _Scale(x, log_x, LEFT, WIDTH - 8), _Scale(y, log_y, HEIGHT - BELOW, 8)
    drawn = []
    for name, line in lines:
        there = (line.y > 0.0) | (not log_y)
        points = [f"{across(a):.1f},{up(b):.1f}" for a, b in zip(line.x[there], line.y[there], strict=True)]
        drawn.append({"name": name, "kind": line.kind, "points": points})
    scales = " (logarithmic)" if log_y else ""
    return {
        "title": title + scales, "lines": drawn,
        "legend": list(dict.fromkeys((one["kind"], one["name"]) for one in drawn)),
        "x_ticks": across.ticks(), "y_ticks": up.ticks(),
        "x_name": "passes over the data" + (" (logarithmic)" if log_x else ""),
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": HEIGHT - BELOW,
    }  # fmt: skip


class _Scale:
    """Numbers to pixels."""

    def __init__(self, values: NDArray[Any], log: bool, first: float, last: float) -> None:
        self.log, self.first, self.last = log, first, last
        low, high = self._of(float(values.min())), self._of(float(values.max()))
        space = 0.05 * (high - low) or 0.5
        self.low, self.high = low - space, high + space

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)

    def ticks(self) -> list[tuple[float, str]]:
        """Return (pixel, number) of the marks: round numbers, three to six of them where there are so many."""
        low, high = (10.0**self.low, 10.0**self.high) if self.log else (self.low, self.high)
        return [(round(self(value), 1), f"{value:.6g}") for value in round_numbers(low, high, self.log)]


#: Marks of an axis, at most.
MOST_TICKS = 6


def round_numbers(low: float, high: float, log: bool) -> list[float]:
    """Return round numbers from ``low`` to ``high``, at most six: 1, 2 or 5 times powers of ten.

    On a linear axis they are multiples of such a number; on a logarithmic one powers of ten, with their 2 and 5 times
    where the axis spans less than two powers; where it has none of them, as on a linear one.
    """
    if not log:
        power = 10.0 ** math.floor(math.log10((high - low) / MOST_TICKS))
        step = next(s * power for s in (1, 2, 5, 10) if (high - low) / (s * power) < MOST_TICKS)
        return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors, every in (((1, 2, 5), 1), *(((1,), every) for every in range(1, last - first + 1))):
        numbers = [s * 10.0**k for k in range(first, last + 1) if k % every == 0 for s in factors]
        inside = [value for value in numbers if low <= value <= high]
        if len(inside) <= MOST_TICKS:
            break
    return inside if len(inside) > 1 else round_numbers(low, high, False)


def model_boxes(declaration: Declaration) -> dict[str, Any]:
    """Return boxes of inputs, factors and labels with their notes, and the lines between them."""
    labels = list(declaration.own_labels)
    used: list[str] = []
    needs = {}
    for factor in declaration.factors:
        text = "" if factor.features is None else str(getattr(factor.features, "name", "") or "features")
        needs[factor.name] = text
        if text and text not in used:
            used.append(text)
    boxes, place = [], {}
    columns = [
        [(f"in {name}", name, "features", "input") for name in used],
        [(f"f {one.name}", one.name, shortened(one.short), "factor") for one in declaration.factors],
        [(f"y {one.name}", _axes(one), f"{one.n_states} states", "label") for one in labels],
    ]
    most = max((len(column) for column in columns), default=1)
    for left, column in zip(COLUMNS, columns, strict=True):
        for k, (key, name, note, kind) in enumerate(column):
            y = 12 + STEP * (k + (most - len(column)) / 2)
            place[key] = left, y + BOX / 2
            boxes.append({"x": left, "y": y, "name": shortened(name), "note": shortened(note), "kind": kind})
    lines = []
    for factor in declaration.factors:
        at = place[f"f {factor.name}"]
        if needs[factor.name]:
            start = place[f"in {needs[factor.name]}"]
            lines.append((start[0] + BOX_WIDTH, start[1], *at))
        for label in dict.fromkeys(one.name for one in factor.target.labels):
            if f"y {label}" in place:
                lines.append((at[0] + BOX_WIDTH, at[1], *place[f"y {label}"]))
    size = {"width": COLUMNS[-1] + BOX_WIDTH + 10, "height": STEP * most + 12, "box": BOX, "box_width": BOX_WIDTH}
    return {"boxes": boxes, "lines": lines, **size}


def _axes(label: Any) -> str:
    dims = ", ".join(dim.name for dim in label.dims)
    return f"{label.name}[{dims}]" if dims else str(label.name)


#: Rows and columns of a heat map; of larger arrays those with the largest weights are drawn.
MOST_ROWS, MOST_COLUMNS = 64, 160

#: Names beside a heat map, of at most so many letters.
NAMED, LETTERS = 48, 14

#: Shades of each sign.
SHADES = 4

#: Largest weights listed, factors drawn, examples shown, changes listed for each, labels of an example.
TOP, FACTORS, EXAMPLES, CHANGES, SHOWN = 8, 24, 5, 5, 120

#: Sides of label maps that are drawn.
MOST_PIXELS = 128

NAMES = {"value": "primal", "bound": "dual (lower bound)", "estimate": "estimate, not certified"}


def curves(report: Any) -> list[dict[str, Any]]:
    """Return charts of the objective with its lower bound, and of the relative gap."""
    charts = []
    shown = (("objective", objective_curves, False), ("relative gap", gap_curves, True))
    for title, lines_of, log in shown:
        lines = [(NAMES[one.kind] if title == "objective" else _gap_name(one.kind), one)
                 for one in lines_of(report, "n_passes")]  # fmt: skip
        if any(len(one.x) for _, one in lines):
            charts.append(chart(title, [line for line in lines if len(line[1].x)], log))
    return charts


def _gap_name(kind: str) -> str:
    return NAMES["estimate"] if kind == "estimate" else "relative gap"


def weight_maps(weights: Weights) -> list[dict[str, Any]]:
    """Return for each factor its largest weights, and its heat map where it has one."""
    return [_weight_map(weights, str(name)) for name in list(weights)[:FACTORS]]


def _weight_map(weights: Weights, name: str) -> dict[str, Any]:
    values = weights[name]
    top = [
        (f"{one.weight:+.4g}", ", ".join(map(str, [*one.unit, *one.states])), one.feature or "")
        for one in weights.top(name, TOP)
    ]
    section = {"name": name, "shape": " x ".join(map(str, values.shape)) or "1", "top": top, "map": None, "note": ""}
    if not isinstance(values, np.ndarray):
        section["note"] = "Weights for observed pairs only: no heat map."
    elif values.ndim and values.size:
        section |= _heat_map(values, weights.names(name))
    return section


def _heat_map(values: F64, names: Sequence[Sequence[Any]]) -> dict[str, Any]:
    *outer, columns = [[_text(one) for one in axis] for axis in names]
    rows = [", ".join(one) for one in product(*outer)]
    matrix = np.reshape(values, (-1, values.shape[-1]))
    note = ""
    if matrix.shape[0] > MOST_ROWS or matrix.shape[1] > MOST_COLUMNS:
        i, j = _largest(matrix, 1, MOST_ROWS), _largest(matrix, 0, MOST_COLUMNS)
        part = f"{len(i)} of {matrix.shape[0]} rows and {len(j)} of {matrix.shape[1]} columns"
        note = f"The {part} with the largest weights."
        matrix = matrix[np.ix_(i, j)]
        rows, columns = [rows[k] for k in i], [columns[k] for k in j]
    largest = float(np.abs(matrix).max()) or 1.0
    levels = np.round(matrix / largest * SHADES).astype(int)
    paths = {level: path for level, path in runs(levels).items() if level}
    drawn = {
        "paths": paths, "n_rows": matrix.shape[0], "n_columns": matrix.shape[1], "largest": f"{largest:.3g}",
        "row_letters": max(map(len, rows), default=0), "column_letters": max(map(len, columns), default=0),
        "rows": rows if len(rows) <= NAMED else [], "columns": columns if len(columns) <= NAMED else [],
    }  # fmt: skip
    return {"map": drawn, "note": note}


def _text(name: Any) -> str:
    return shortened(", ".join(map(str, name)) if isinstance(name, tuple) else str(name), LETTERS)


def _largest(matrix: F64, axis: int, n: int) -> list[int]:
    """Return the numbers of the rows (axis 1) or columns (axis 0) with the largest weights, in order."""
    size = np.abs(matrix).max(axis=axis)
    places: list[int] = np.sort(np.argsort(-size, kind="stable")[:n]).tolist()
    return places


# -- data ------------------------------------------------------------------------------------------------------


def confusion(model: Any, truth: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
    """Return how often each class was taken for each, or why there is no such table."""
    outputs = model.declaration.outputs
    if len(outputs) != 1 or outputs[0].pointer:
        return {"missing": "The table is drawn for models with one label of classes; this model has other outputs."}
    label = outputs[0]
    classes = list(range(label.n_states) if label.classes is None else label.classes)
    if len(classes) > NAMED:
        return {"missing": f"The table is drawn for at most {NAMED} classes; this label has {len(classes)}."}
    try:
        counts = confusion_matrix(truth, predicted, classes)
    except (SsvmError, ValueError, TypeError) as err:  # labels that are no arrays of classes: segments, trees, unknown
        return {"missing": f"These labels cannot be counted class by class: {err}"}
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = [
        (str(name), [(int(n), float(share)) for n, share in zip(line, part, strict=True)])
        for name, line, part in zip(classes, counts, shares, strict=True)
    ]
    right, total = int(np.trace(counts)), int(counts.sum())
    return {"classes": list(map(str, classes)), "rows": rows, "right": right, "total": total}


def costly(svm: Any, X: Sequence[Any], Y: Sequence[Any], predicted: Sequence[Any], lost: F64) -> list[dict[str, Any]]:
    """Return the examples of largest loss: truth, prediction, and what decided between them."""
    order = np.argsort(-lost, kind="stable")[:EXAMPLES].tolist()
    wrong = [i for i in order if lost[i] > 0.0]
    return [_example(svm, i, one_of(X, i), one_of(Y, i), one_of(predicted, i), float(lost[i])) for i in wrong]


def _example(svm: Any, i: int, x: Any, truth: Any, predicted: Any, lost: float) -> dict[str, Any]:
    labels = _labels(by_position(truth), by_position(predicted))
    shown = {"number": i, "loss": f"{lost:.4g}", "words": [], "labels": labels, "maps": _maps(truth, predicted)}
    try:
        why = svm.why_not(x, truth)
    except SsvmError as err:
        return shown | {"why": f"Why is not known: {err}", "changes": []}
    changes = [
        (f"{one.change:+.4g}", one.factor, ", ".join(one.places), _states(one.predicted), _states(one.asked))
        for one in why.changes(CHANGES)
    ]
    text = f"The prediction scores {why.margin:.4g} more than the truth." if why.asked else str(why)
    return shown | {"why": text, "changes": changes}


def _states(states: Sequence[Any]) -> str:
    return ", ".join(map(str, states))


def _labels(truth: Any, predicted: Any) -> list[tuple[str, str, bool]]:
    """Return (truth, prediction, whether they differ) of the positions of a sequence, or of the whole."""
    if np.ndim(truth) == 2 and isinstance(truth, np.ndarray):
        return []
    flat = isinstance(truth, list | tuple | str | np.ndarray) and isinstance(predicted, list | tuple | str | np.ndarray)
    if flat and len(truth) == len(predicted):
        pairs = zip(list(truth)[:SHOWN], list(predicted)[:SHOWN], strict=True)
        return [(shortened(str(a)), shortened(str(b)), str(a) != str(b)) for a, b in pairs]
    return [(shortened(str(truth), 400), shortened(str(predicted), 400), True)]


def _maps(truth: Any, predicted: Any) -> list[tuple[str, dict[int, str], int, int]]:
    """Return (title, paths by colour, height, width) of truth, prediction and mistakes of a label map."""
    if not isinstance(truth, np.ndarray) or truth.ndim != 2:
        return []
    mine: NDArray[Any] = np.asarray(predicted)
    step = -(-max(truth.shape) // MOST_PIXELS)
    right, mine = truth[::step, ::step], mine[::step, ::step]
    classes, place = np.unique(np.concatenate([right.ravel(), mine.ravel()]), return_inverse=True)
    numbers = place.reshape(2, *right.shape) % 8
    every = f", every {step}th pixel" if step > 1 else ""
    parts = (("truth", numbers[0]), ("prediction", numbers[1]), ("mistakes", np.where(right != mine, 9, 10)))
    return [(f"{title} ({len(classes)} classes{every})", runs(one), *right.shape) for title, one in parts]


#: Bytes of a page.
MOST_BYTES = 2_000_000

NO_DATA = "No data were given: pass examples and labels, svm.to_html(path, X, Y)."
NO_HISTORY = (
    "The history of training is not known: model files do not hold it. Write the page after fit, in the same process."
)
NO_REPORT = "The weights were given, not learnt: there is no report of a fit."


def model_page(model: Any, weights: Weights, report: Any, data: dict[str, Any] | None = None) -> str:
    """Return the page of a model.

    Parameters
    ----------
    model : Model class
    weights : Weights
    report : FitReport or None
        ``None`` where the weights were given.
    data : dict, optional
        What :func:`examined` returns.

    Raises
    ------
    OptionError
        The page would be larger than 2 MB.
    """
    from jinja2 import Environment, StrictUndefined

    declaration = model.declaration
    facts = {
        "name": declaration.name,
        "version": __version__,
        "symbols": [(one.name, one.short, one.note) for one in declaration.symbols],
        "boxes": model_boxes(declaration),
        "plan": None if report is None else _plan(report.plan),
        "certificate": None if report is None else report.rows(),
        "certified": report is not None and report.certified,
        "curves": [] if report is None or not report.history else curves(report),
        "weights": weight_maps(weights),
        "left_out": max(len(weights) - FACTORS, 0),
        "data": data,
        "no_data": NO_DATA,
        "no_history": NO_HISTORY if report is not None else NO_REPORT,
        "no_report": NO_REPORT,
    }
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = made.from_string(files(__package__).joinpath("page.html").read_text("utf-8")).render(facts)
    if len(text.encode()) > MOST_BYTES:
        raise OptionError(
            f"the page would have {len(text.encode())} bytes, more than {MOST_BYTES}; pass fewer or smaller examples"
        )
    return text


def _plan(plan: Any) -> dict[str, Any]:
    candidates = [(one.title, "fits" if one.ok else "no", "; ".join(one.reasons)) for one in plan.candidates]
    return {"backend": plan.title, "reason": plan.reason, "need": plan.need, "candidates": candidates}


def examined(
    svm: Any, X: Sequence[Any], Y: Sequence[Any], lost: F64, time_limit: float | None = None
) -> dict[str, Any]:
    """Return what a page says of data: the confusion of classes, and the examples that cost most."""
    predicted = svm.predict(X, time_limit=time_limit)
    return {
        "n": len(lost),
        "mean": f"{float(lost.mean()):.4g}" if len(lost) else "0",
        "wrong": int((lost > 0.0).sum()),
        "confusion": confusion(svm.model, Y, predicted),
        "costly": costly(svm, X, Y, predicted, lost),
    }


def write_page(path: Path, text: str) -> None:
    """Write a page: the old file stays until the new one is complete.

    Raises
    ------
    OptionError
        No file can be written there.
    """
    try:
        write_atomically(path, lambda file: _write(file, text))
    except OSError as err:
        raise OptionError(f"to_html: cannot write {path}: {err.strerror or err}") from err


def _write(file: Any, text: str) -> None:
    file.write(text.encode("utf-8", "replace"))
