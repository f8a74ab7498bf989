"""What a page shows, as plain data: weights, curves, confusion, and the examples that cost most."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.learning.estimators.weights import Weights
from ssvm_dsl.learning.pages.drawing import chart, runs, shortened
from ssvm_dsl.report.confusion import by_position, confusion_matrix
from ssvm_dsl.report.curves import gap_curves, objective_curves

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


def one_of(values: Any, i: int) -> Any:
    """Return an example of a list, an array or the rows of a data frame."""
    return values.iloc[i] if hasattr(values, "iloc") else values[i]


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
