"""A picture of a parse tree."""

from __future__ import annotations

from typing import Any

from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.grammars.parse_tree import ParseTree
from ssvm_dsl.report.labellings import RIGHT, WRONG
from ssvm_dsl.report.plots import axes_for


def plot_tree(tree: ParseTree, truth: ParseTree | None = None, ax: Any = None) -> Any:
    """Draw a parse tree over its words.

    Parameters
    ----------
    tree : ParseTree
        For example ``svm.predict([x])[0]``.
    truth : ParseTree, optional
        The true tree over the same words: symbols that it does not have over the same words are red.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    OptionError
        A tree is none, or the true one has another number of words.
    """
    for name, one in (("tree", tree), ("truth", tree if truth is None else truth)):
        if not isinstance(one, ParseTree):
            raise OptionError(f"{name}: expected a ParseTree, got {type(one).__name__}; ParseTree.of reads others")
    right = None if truth is None else _spans(truth)
    if truth is not None and len(truth.words) != len(tree.words):
        raise OptionError(f"truth: expected {len(tree.words)} words, as tree has, got {len(truth.words)}")
    ax = axes_for(ax)
    _draw(ax, tree, 0, right)
    ax.set_xlim(-0.7, len(tree.words) - 0.3)
    ax.set_ylim(-0.6, tree.depth + 0.5)
    ax.axis("off")
    return ax


def _spans(tree: ParseTree, start: int = 0) -> set[tuple[str, int, int]]:
    """Return (symbol, first word, number of words) of all nodes."""
    spans = {(tree.label, start, len(tree.words))}
    for child in () if tree.is_tag else tree.trees:
        spans |= _spans(child, start)
        start += len(child.words)
    return spans


def _draw(ax: Any, tree: ParseTree, start: int, right: set[tuple[str, int, int]] | None) -> tuple[float, float]:
    """Draw a tree whose first word has this number; return where its symbol stands."""
    below = start
    places = []
    if tree.is_tag:
        places.append((float(start), 0.0))
        ax.text(start, 0.0, str(tree.children[0]), ha="center", va="center", style="italic")
    for child in () if tree.is_tag else tree.trees:
        places.append(_draw(ax, child, below, right))
        below += len(child.words)
    x, y = (places[0][0] + places[-1][0]) / 2, float(max(height for _, height in places) + 1)
    for across, up in places:
        ax.plot([x, across], [y - 0.2, up + 0.2], color="grey", linewidth=1.0)
    known = right is None or (tree.label, start, len(tree.words)) in right
    ax.text(x, y, tree.label, ha="center", va="center", color=WRONG if not known else RIGHT if right else None)
    return x, y
