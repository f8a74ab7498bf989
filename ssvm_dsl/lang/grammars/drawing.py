"""Trees as text and as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Protocol

#: Pixels of a letter, between neighbouring words, and of a level.
LETTER, GAP, LEVEL = 8.0, 14.0, 40.0


class DrawnTree(Protocol):
    """The :class:`~ssvm_dsl.ParseTree` to draw."""

    @property
    def label(self) -> str:
        """The symbol of the node."""

    @property
    def children(self) -> tuple[Any, ...]:
        """The children of the node, from left to right: trees and words."""

    @property
    def trees(self) -> tuple[DrawnTree, ...]:
        """The children that are trees."""

    @property
    def is_tag(self) -> bool:
        """Whether it stands above a word."""

    @property
    def depth(self) -> int:
        """Number of symbols above each other."""


def text_of(tree: DrawnTree) -> str:
    """Return a tree as lines: each symbol below its parent, words after their parts of speech."""
    return "\n".join(_lines(tree))


def _lines(tree: DrawnTree) -> Iterator[str]:
    if tree.is_tag:
        yield f"{tree.label} {tree.children[0]}"
        return
    yield tree.label
    *others, last = tree.trees
    for child in others:
        first, *rest = _lines(child)
        yield f"├─ {first}"
        yield from (f"│  {line}" for line in rest)
    first, *rest = _lines(last)
    yield f"└─ {first}"
    yield from (f"   {line}" for line in rest)


def svg_of(tree: DrawnTree) -> str:
    """Return a tree as an SVG document, a symbol in the middle above its children."""
    parts: list[str] = []
    _, right = _place(tree, 0.0, 0, parts)
    width, height = right, LEVEL * (tree.depth + 1)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
    style = 'font-family="sans-serif" font-size="13" text-anchor="middle"'
    return f'{head} height="{height:.0f}" {style}>{"".join(parts)}</svg>'


def _place(tree: DrawnTree, left: float, level: int, parts: list[str]) -> tuple[float, float]:
    """Draw a tree from ``left`` on; return the middle of its symbol and where it ends."""
    y = LEVEL * (level + 0.5)
    if tree.is_tag:
        word = str(tree.children[0])
        right = left + LETTER * max(len(word), len(tree.label)) + GAP
        middle = (left + right) / 2
        parts.append(_line(middle, y, middle, y + LEVEL) + _text(middle, y + LEVEL, word, ' font-style="italic"'))
    else:
        middles, right = [], left
        for child in tree.trees:
            middle, right = _place(child, right, level + 1, parts)
            middles.append(middle)
        right = max(right, left + LETTER * len(tree.label) + GAP)
        middle = (middles[0] + middles[-1]) / 2
        parts += [_line(middle, y, below, y + LEVEL) for below in middles]
    parts.append(_text(middle, y, tree.label, ""))
    return middle, right


def _line(x: float, y: float, x2: float, y2: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y + 6:.1f}" x2="{x2:.1f}" y2="{y2 - 14:.1f}" stroke="#888"/>'


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}>{escape(text)}</text>'
