"""The number of trees of a sentence, in whole numbers of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.grammars.parse_tree import is_part
from ssvm_dsl.lang.grammars.reading import Chain

#: How many trees the words of a span have below each symbol.
Counts = dict[str, int]


class Derivation(Protocol):
    """What derives trees: a :class:`~ssvm_dsl.Grammar`."""

    @property
    def start(self) -> tuple[str, ...]:
        """The symbols of whole sentences."""

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chains of symbols over the same words."""

    @property
    def binary(self) -> tuple[tuple[str, str, str], ...]:
        """The rules of two children."""

    @property
    def chains_above_tags(self) -> tuple[tuple[Chain, str], ...]:
        """Which chains may stand above which tags."""

    def allowed_tags(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the tags that each word may have."""


def count_parses(grammar: Derivation, words: Sequence[str], tags: Sequence[str] | None = None) -> int:
    """Return how many trees a sentence has; see :meth:`Grammar.n_parses`."""
    chart = chart_of(grammar, words, tags)
    whole = chart.get((0, len(words)), {})
    return sum(whole.get(one, 0) for one in grammar.start)


def chart_of(
    grammar: Derivation, words: Sequence[str], tags: Sequence[str] | None = None
) -> dict[tuple[int, int], Counts]:
    """Return for each span how many trees it has below each symbol (CKY, O(T^3 rules)).

    Raises
    ------
    DataError
        Tags and words are not equally many.
    """
    if tags is not None and len(tags) != len(words):
        raise DataError("tags", expected=f"one for each of {len(words)} words", found=f"{len(tags)}")
    by_first: dict[str, list[tuple[str, str]]] = {}
    for left, first, second in grammar.binary:
        by_first.setdefault(first, []).append((second, left))
    lifts, above = _lifts(grammar), _above_tags(grammar)
    chart: dict[tuple[int, int], Counts] = {}
    for t, allowed in enumerate(grammar.allowed_tags(words)):
        cell = {tag: 1 for tag in allowed if tags is None or tags[t] == tag}
        chart[t, t + 1] = cell | _lifted(cell, above, keep=True)
    for length in range(2, len(words) + 1):
        for start in range(len(words) - length + 1):
            cell = _divided(chart, by_first, start, start + length)
            chart[start, start + length] = _lifted(cell, lifts, keep=False)
    return chart


def _divided(
    chart: dict[tuple[int, int], Counts], by_first: dict[str, list[tuple[str, str]]], start: int, end: int
) -> Counts:
    """Return how many trees a span has below each symbol that divides it."""
    out: Counts = {}
    for middle in range(start + 1, end):
        right = chart[middle, end]
        for first, n in chart[start, middle].items() if right else ():
            for second, left in by_first.get(first, ()):
                if second in right:
                    out[left] = out.get(left, 0) + n * right[second]
    return out


def _lifts(grammar: Derivation) -> dict[str, list[str]]:
    """Return for each bottom of a chain the tops."""
    out: dict[str, list[str]] = {}
    divided = {left for left, _, _ in grammar.binary}
    for chain in grammar.chains:
        if chain[-1] in divided:
            out.setdefault(chain[-1], []).append(chain[0])
    return out


def _above_tags(grammar: Derivation) -> dict[str, list[str]]:
    """Return for each tag the tops of the chains above it."""
    out: dict[str, list[str]] = {}
    for chain, tag in grammar.chains_above_tags:
        out.setdefault(tag, []).append(chain[0])
    return out


def _lifted(cell: Counts, lifts: dict[str, list[str]], keep: bool) -> Counts:
    """Return the counts at the tops of chains; parts of phrases, or all symbols if ``keep``, are tops themselves."""
    out = {one: n for one, n in cell.items() if keep or is_part(one)}
    for bottom, n in cell.items():
        for top in lifts.get(bottom, ()):
            out[top] = out.get(top, 0) + n
    return out
