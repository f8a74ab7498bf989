"""Plots of labellings: what a model predicts, beside the truth, how sure it is, and why.

Each function draws on the axes it is given (``ax=``), or on new ones, and returns them.  They need matplotlib
(``pip install ssvm-dsl[plots]``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssvm_dsl.errors import OptionError
from ssvm_dsl.report.plots import axes_for, name_rows_and_columns, new_subplots

#: Colours of what is right, wrong, and missing.
RIGHT, WRONG, MISSING = "#2a6f4e", "#c0392b", "#b9b9b9"

#: Height of an arc over the distance of the words that it joins, and of the highest arc over the width of the sentence.
RISE = 0.35


def plot_marginals(marginals: ArrayLike, classes: Sequence[Any], words: Sequence[Any] = (), ax: Any = None) -> Any:
    """Draw the probability of each class (row) at each position (column) of a sequence.

    Parameters
    ----------
    marginals : array_like, shape (n_positions, n_classes)
        The marginals of one sequence, for example ``svm.predict_marginals([x])[0]``.
    classes : sequence
        The class names, in the order of the label.
    words : sequence, optional
        A name for each position.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    OptionError
        The shape does not fit the names, or there is no matplotlib.
    """
    shares = np.asarray(marginals, dtype=float)
    if shares.ndim != 2 or shares.shape[1] != len(classes) or not shares.size:
        raise OptionError(f"marginals: expected shape (n_positions, {len(classes)}), no empty axis, got {shares.shape}")
    _expect_names("words", words, len(shares))
    ax = axes_for(ax)
    image = ax.imshow(shares.T, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="probability")
    name_rows_and_columns(ax, [str(name) for name in classes], [str(word) for word in words])
    return ax


def plot_segments(
    sequences: Mapping[str, Sequence[Any]], words: Sequence[Any] = (), outside: Any = None, ax: Any = None
) -> Any:
    """Draw segmentations of one sequence as rows of coloured bars, one colour a class.

    Parameters
    ----------
    sequences : mapping from names to labellings
        For example ``{"true": y, "predicted": svm.predict([x])[0]}``.  A labelling is a list of segments
        ``(start, end, class)`` or a class for each position; equal neighbours are drawn as one bar.
    words : sequence, optional
        A name for each position.
    outside : class, optional
        The class that is not drawn, for example ``"O"``.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    rows = {name: _segments(labelling) for name, labelling in sequences.items()}
    if not rows:
        raise OptionError("sequences: expected at least one labelling, got none")
    length = max((end for segments in rows.values() for _, end, _ in segments), default=0)
    _expect_names("words", words, length)
    classes = dict.fromkeys(kind for segments in rows.values() for _, _, kind in segments if kind != outside)
    ax = axes_for(ax, height=0.8 + 0.6 * len(rows))
    colours = {kind: f"C{k % 10}" for k, kind in enumerate(classes)}
    for row, segments in enumerate(rows.values()):
        for start, end, kind in segments:
            if kind != outside:
                ax.barh(row, end - start - 0.1, left=start - 0.45, height=0.6, color=colours[kind])
    handles = [ax.barh(0, 0, left=-0.45, color=colours[kind], label=str(kind)) for kind in classes]
    if handles:
        ax.legend(handles=handles, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.set_xlim(-0.6, max(length, 1) - 0.4)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    name_rows_and_columns(ax, list(rows), [str(word) for word in words])
    return ax


def plot_heads(words: Sequence[Any], heads: Sequence[Any], truth: Sequence[Any] | None = None, ax: Any = None) -> Any:
    """Draw a dependency tree as arcs over the words, from each head to its dependent.

    Parameters
    ----------
    words : sequence of length n
    heads : sequence of length n
        The position of each word's head; ``None`` or a negative number for the root.
    truth : sequence of length n, optional
        The true heads: wrong arcs are red, and true arcs that were not found are grey and dashed.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    shown, right = _heads(heads, len(words), "heads"), None
    if truth is not None:
        right = _heads(truth, len(words), "truth")
    ax = axes_for(ax, height=2.4)
    for dependent, head in enumerate(shown):
        is_right = right is None or right[dependent] == head
        _draw_arc(ax, head, dependent, RIGHT if is_right else WRONG, "-")
        if right is not None and not is_right:
            _draw_arc(ax, right[dependent], dependent, MISSING, "--")
    for position, word in enumerate(words):
        ax.text(position, -0.12, str(word), ha="center", va="top", rotation=30 if len(words) > 12 else 0)
    ax.set_xlim(-0.7, len(words) - 0.3)
    ax.set_ylim(-0.9, RISE * max(len(words), 2) + 0.3)
    ax.axis("off")
    return ax


def plot_links(
    rows: Sequence[Any],
    columns: Sequence[Any],
    links: Iterable[tuple[int, int]],
    truth: Iterable[tuple[int, int]] | None = None,
    ax: Any = None,
) -> Any:
    """Draw a matching or an alignment: two lines of names with a line for each link.

    Parameters
    ----------
    rows, columns : sequences
        The names of both sides; ``rows`` stand above.
    links : iterable of (row, column)
        The links, for example ``numpy.argwhere(svm.predict([x])[0])``.
    truth : iterable of (row, column), optional
        The true links: wrong ones are red, and true links that were not found are grey and dashed.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    shown = _links(links, len(rows), len(columns), "links")
    right = shown if truth is None else _links(truth, len(rows), len(columns), "truth")
    ax = axes_for(ax, height=2.4)
    for row, column in sorted(shown | right):
        missing = (row, column) not in shown
        colour = MISSING if missing else RIGHT if (row, column) in right else WRONG
        ax.plot([row, column], [1.0, 0.0], color=colour, linestyle="--" if missing else "-", linewidth=1.5)
    for names, height, side in ((rows, 1.04, "bottom"), (columns, -0.04, "top")):
        for position, name in enumerate(names):
            ax.text(position, height, str(name), ha="center", va=side)
    ax.set_xlim(-0.6, max(len(rows), len(columns)) - 0.4)
    ax.set_ylim(-0.25, 1.25)
    ax.axis("off")
    return ax


def plot_label_maps(images: Mapping[str, ArrayLike], axes: Sequence[Any] | None = None) -> NDArray[Any]:
    """Draw images and maps of labels side by side, with their names above.

    Parameters
    ----------
    images : mapping from names to arrays
        An image has shape (height, width, 3) and values from 0 to 1; a map of labels has shape (height, width).
        All maps are drawn with the same colours.
    axes : sequence of matplotlib axes, optional
        One for each image.

    Returns
    -------
    ndarray of matplotlib axes, as of ``plt.subplots``
    """
    arrays = {name: np.asarray(image) for name, image in images.items()}
    for name, array in arrays.items():
        if not array.size or (array.ndim != 2 and (array.ndim != 3 or array.shape[2] not in (3, 4))):
            sizes = "(height, width) or (height, width, 3)"
            raise OptionError(f"{name}: expected shape {sizes}, no empty axis, got {array.shape}")
    drawn = list(axes) if axes is not None else new_subplots(len(arrays))
    if len(drawn) != len(arrays):
        raise OptionError(f"axes: expected one for each of {len(arrays)} images, got {len(drawn)}")
    maps = [array for array in arrays.values() if array.ndim == 2]
    lowest, highest = min((a.min() for a in maps), default=0), max((a.max() for a in maps), default=1)
    for ax, (name, array) in zip(drawn, arrays.items(), strict=True):
        ax.imshow(array, cmap="viridis", vmin=lowest, vmax=highest, interpolation="nearest")
        ax.set_title(name)
        ax.set_xticks([])
        ax.set_yticks([])
    out = np.empty(len(drawn), dtype=object)
    out[:] = drawn
    return out


def plot_transitions(weights: ArrayLike, classes: Sequence[Any], n_edges: int = 12, ax: Any = None) -> Any:
    """Draw the largest weights between successive classes as a directed graph on a circle.

    Parameters
    ----------
    weights : array_like, shape (n_classes, n_classes)
        The weight of class j after class i, for example ``svm.weights_[OCR.trans]``.
    classes : sequence
        The class names.
    n_edges : int
        The number of positive and negative weights drawn, the largest first; red is positive, blue negative.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    matrix = np.asarray(weights, dtype=float)
    if matrix.shape != (len(classes), len(classes)):
        raise OptionError(f"weights: expected shape {(len(classes), len(classes))}, got {matrix.shape}")
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(classes)) / max(len(classes), 1)
    place = np.c_[np.cos(angle), np.sin(angle)]
    order = np.argsort(-np.abs(matrix), axis=None, kind="stable")[: max(n_edges, 0)]
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    ax = axes_for(ax)
    for i, j in zip(*np.unravel_index(order, matrix.shape), strict=True):
        if matrix[i, j]:
            _draw_transition(ax, place[i], place[j], matrix[i, j] / largest)
    for name, (x, y) in zip(classes, place, strict=True):
        ax.text(x, y, str(name), ha="center", va="center", bbox={"boxstyle": "circle", "fc": "white", "ec": "black"})
    ax.set_xlim(-1.5, 1.5)
    ax.set_ylim(-1.5, 1.5)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def _expect_names(name: str, names: Sequence[Any], size: int) -> None:
    if len(names) not in (0, size):
        raise OptionError(f"{name}: expected one for each of {size} positions, got {len(names)}")


def _segments(labelling: Sequence[Any]) -> list[tuple[int, int, Any]]:
    """Return (start, end, class) of a list of segments, or of the runs of a class for each position."""
    if len(labelling) and isinstance(labelling[0], tuple):
        return [(int(start), int(end), kind) for start, end, kind in labelling]
    segments: list[tuple[int, int, Any]] = []
    for position, kind in enumerate(labelling):
        if segments and segments[-1][2] == kind:
            segments[-1] = (segments[-1][0], position + 1, kind)
        else:
            segments.append((position, position + 1, kind))
    return segments


def _heads(heads: Sequence[Any], n: int, name: str) -> list[int]:
    """Return heads as numbers, -1 for the root."""
    numbers = [-1 if head is None or head < 0 else int(head) for head in heads]
    if len(numbers) != n or any(head >= n for head in numbers):
        raise OptionError(f"{name}: expected a position below {n} for each of {n} words, got {list(heads)!r}")
    return numbers


def _links(links: Iterable[tuple[int, int]], n_rows: int, n_columns: int, name: str) -> set[tuple[int, int]]:
    pairs = {(int(row), int(column)) for row, column in links}
    beyond = [pair for pair in pairs if not (0 <= pair[0] < n_rows and 0 <= pair[1] < n_columns)]
    if beyond:
        raise OptionError(f"{name}: {min(beyond)} is not a pair of a row below {n_rows} and a column below {n_columns}")
    return pairs


def _draw_arc(ax: Any, head: int, dependent: int, colour: str, style: str) -> None:
    """Draw an arc from a head to its dependent, or an arrow from above to the root."""
    from matplotlib.patches import FancyArrowPatch

    start = (dependent, 1.0) if head < 0 else (head, 0.0)
    bend = 0.0 if head < 0 else RISE * 2 * (1 if head > dependent else -1)
    ax.add_patch(
        FancyArrowPatch(
            start,
            (dependent, 0.0),
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=10,
            color=colour,
            linestyle=style,
        )
    )


def _draw_transition(ax: Any, start: NDArray[Any], end: NDArray[Any], share: float) -> None:
    """Draw an arrow whose width shows a weight relative to the largest; a loop where both ends are one class."""
    from matplotlib.patches import Circle, FancyArrowPatch

    style: dict[str, Any] = {
        "color": WRONG if share > 0 else "#2c5f9e",
        "linewidth": 0.5 + 2.5 * abs(share),
        "alpha": 0.8,
    }
    if np.array_equal(start, end):
        ax.add_patch(Circle((1.2 * float(start[0]), 1.2 * float(start[1])), 0.17, fill=False, **style))
        return
    ax.add_patch(
        FancyArrowPatch(
            tuple(start), tuple(end), connectionstyle="arc3,rad=0.15", arrowstyle="-|>", mutation_scale=12,
            shrinkA=14, shrinkB=14, **style,
        )
    )  # fmt: skip


def plot_contributions(sums: Mapping[str, float], k: int = 15, ax: Any = None) -> Any:
    """Draw parts of a score as bars, the largest on top; green ones raise it, red ones lower it.

    Parameters
    ----------
    sums : mapping of names to numbers
        For example ``svm.explain(x).by("feature")``, or ``svm.why_not(x, y).by("feature")``.
    k : int
        The number of bars; all further parts are added up in one more.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    ranked = sorted(sums.items(), key=lambda item: -abs(item[1]))
    shown, rest = ranked[:k], ranked[k:]
    if rest:
        shown.append((f"{len(rest)} more", sum(value for _, value in rest)))
    names, values = [name for name, _ in shown], [value for _, value in shown]
    ax = axes_for(ax)
    ax.barh(range(len(values)), values, color=[RIGHT if value > 0 else WRONG for value in values])
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.axvline(0.0, color="grey", linewidth=0.8)
    ax.set_xlabel("part of the score")
    return ax
