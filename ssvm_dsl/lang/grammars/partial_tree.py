"""``PartialTree``: what is known of the tree of a sentence, its other parts being free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.calls import checked_class
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.grammars.grammar import Chain
from ssvm_dsl.lang.grammars.parse_tree import plain_label

#: First word, end, and symbol of a phrase; any symbol where it is ``None``.
Known = tuple[int, int, str | None]


@checked_class
@dataclass(frozen=True, init=False)
class PartialTree:
    """Known tags and phrases of a sentence, for ``given=`` of predictions.

    Parameters
    ----------
    tags : sequence of str or None, optional
        The tag of each word, ``None`` where it is not known.
    brackets : iterable of (start, end, symbol)
        Phrases that the tree has, over the words ``start:end``; ``None`` as symbol for any.  A phrase of one word
        stands above its tag.

    Examples
    --------
    >>> svm.predict([x], given=[PartialTree(tags=["D", None, "V"], brackets=[(0, 2, "NP")])])
    """

    tags: tuple[str | None, ...] | None
    brackets: tuple[Known, ...]

    def __init__(self, tags: Sequence[str | None] | None = None, brackets: Iterable[Any] = ()) -> None:
        try:
            names = None if tags is None else tuple(None if one is None else str(one) for one in tags)
            found = tuple(
                (int(start), int(end), None if symbol is None else str(symbol)) for start, end, symbol in brackets
            )
        except (TypeError, ValueError) as err:
            expected = "tags as a list of str or None, brackets as (start, end, symbol)"
            raise DataError("PartialTree", expected=expected, found=str(err)) from err
        wrong = [one for one in found if not 0 <= one[0] < one[1]]
        if wrong:
            raise DataError("PartialTree", expected="brackets with 0 <= start < end", found=describe(wrong[0]))
        if both := crossing(found):
            expected = "brackets that lie side by side or inside each other"
            text = " and ".join(str(one) for one in both)
            raise DataError("PartialTree", expected=expected, found=f"{text}, which cross")
        object.__setattr__(self, "tags", names)
        object.__setattr__(self, "brackets", found)

    def tags_of(self, known: Sequence[str], n: int) -> list[tuple[int, int]]:
        """Return (word, number of its tag) of the words of n whose tag is known.

        Raises
        ------
        DataError
            There are not n tags, or one is not among those of the grammar.
        """
        if self.tags is None:
            return []
        if len(self.tags) != n:
            raise DataError("PartialTree", expected=f"{n} tags, one for each word", found=f"{len(self.tags)}")
        lacking = [one for one in self.tags if one is not None and one not in known]
        if lacking:
            raise DataError("PartialTree", expected="tags of the grammar", found=repr(lacking[0]))
        return [(t, list(known).index(one)) for t, one in enumerate(self.tags) if one is not None]

    def chains_of(self, known: Sequence[Chain], n: int) -> list[tuple[int, int, list[int]]]:
        """Return (first word, last word, numbers of the chains that have the symbol) of each bracket.

        Raises
        ------
        DataError
            A bracket is longer than the sentence, or its symbol in no chain of the grammar.
        """
        out, names = [], [{*chain, *map(plain_label, chain)} for chain in known] if self.brackets else []
        for start, end, symbol in self.brackets:
            if end > n:
                raise DataError("PartialTree", expected=f"brackets inside {n} words", found=f"({start}, {end})")
            chains = [c for c, mine in enumerate(names) if symbol is None or symbol in mine]
            if not chains:
                raise DataError("PartialTree", expected="symbols of phrases of the grammar", found=repr(symbol))
            out.append((start, end - 1, chains))
        return out


def crossing(brackets: Iterable[Known]) -> tuple[Known, Known] | None:
    """Return two brackets that cross, which no tree has; ``None`` where there are none."""
    around: list[Known] = []
    for one in sorted(brackets, key=lambda known: (known[0], -known[1])):
        while around and around[-1][1] <= one[0]:
            around.pop()
        if around and around[-1][1] < one[1]:
            return around[-1], one
        around.append(one)
    return None
