"""Coordinates of the drawings of a page; the template turns them into SVG, and escapes every text."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.report.curves import Curve, is_wide

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
