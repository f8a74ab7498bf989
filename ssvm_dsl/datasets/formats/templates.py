"""Feature templates of CRF++: named features of a token from the columns around it.

    U01:%x[-1,0]            column 0 of the token before
    U02:%x[0,0]/%x[0,1]     columns 0 and 1 together
    B                       a weight for every two labels in succession

Beyond the ends of a sentence stand ``_B-1``, ``_B-2`` ... and ``_B+1`` ..., as in CRF++.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from ssvm_dsl.datasets.formats.lines import bad_line, lines_of, shortened
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.files.text_lines import BLANKS

#: One reference to a column.
_MACRO = re.compile(r"%x\[(-?\d{1,4}),(\d{1,4})\]")


@dataclass(frozen=True)
class UnigramTemplate:
    """A line of a template: texts, and between each two of them a column of a token.

    Parameters
    ----------
    texts : tuple of str
        One more than places.
    places : tuple of (offset, column)
    """

    texts: tuple[str, ...]
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class AttributeTemplate:
    """A feature template.

    Parameters
    ----------
    unigrams : tuple of UnigramTemplate
    transitions : bool
        Whether it has the line ``B``.
    """

    unigrams: tuple[UnigramTemplate, ...]
    transitions: bool

    @classmethod
    def of_lines(cls, lines: Iterable[tuple[int, str]], source: str) -> AttributeTemplate:
        """Return the template of numbered lines.

        Raises
        ------
        FileFormatError
            A line is not understood, or there is no unigram.
        """
        unigrams, transitions = [], False
        for number, line in lines:
            text = line.strip(BLANKS)
            if not text or text.startswith("#"):
                continue
            if text.startswith("B") and _MACRO.search(text):
                hint = "leave it out, or declare Factor(chain(y), features=x) in a model of your own (FILE.py:Model)"
                raise bad_line(source, number, "B alone", f"{shortened(text)}, features of transitions", hint)
            pieces = _MACRO.split(text)
            if text[0] not in "UB" or any("%" in piece for piece in pieces[::3]):
                raise bad_line(source, number, "U...:%x[row,column] or B", shortened(text))
            if text[0] == "B":
                transitions = True
                continue
            places = zip(map(int, pieces[1::3]), map(int, pieces[2::3]), strict=True)
            unigrams.append(UnigramTemplate(tuple(pieces[::3]), tuple(places)))
        if not unigrams:
            raise FileFormatError(f"{source}: expected a template with a line such as U00:%x[0,0], found none")
        return cls(tuple(unigrams), transitions)

    @property
    def n_columns(self) -> int:
        """How many columns it reads at least."""
        return 1 + max((column for one in self.unigrams for _, column in one.places), default=-1)

    def attributes(self, columns: Sequence[list[str]]) -> list[list[str]]:
        """Return the names of features of each token.

        Parameters
        ----------
        columns : sequence of lists of str
            The columns of a sentence, without the labels.
        """
        n, shifted = len(columns[0]), dict[tuple[int, int], list[str]]()
        named = []
        for one in self.unigrams:
            parts: list[Iterable[str]] = [repeat(one.texts[0], n)]
            for place, text in zip(one.places, one.texts[1:], strict=True):
                if place not in shifted:
                    shifted[place] = _shifted(columns[place[1]], place[0])
                parts.append(shifted[place])
                if text:
                    parts.append(repeat(text, n))
            named.append(map(sys.intern, map("".join, zip(*parts, strict=True))))
        return list(map(list, zip(*named, strict=True)))


def _shifted(column: list[str], offset: int) -> list[str]:
    """Return what stands ``offset`` tokens further, at each token."""
    n = len(column)
    before = [f"_B{place}" for place in range(offset, min(0, offset + n))]
    behind = [f"_B+{place - n + 1}" for place in range(max(n, offset), offset + n)]
    return before + column[max(0, offset) : max(0, n + offset)] + behind


def read_template(path: str) -> tuple[str, ...]:
    """Return the lines of a template's file, checked."""
    lines = list(lines_of(path))
    AttributeTemplate.of_lines(lines, path)
    return tuple(line for _, line in lines)


def standard_template(n_columns: int) -> tuple[str, ...]:
    """Return the template for files without one: each column in a window of two, neighbours in pairs, and ``B``."""
    lines = []
    for c in range(n_columns):
        lines += [f"U{c}[{k}]:%x[{k},{c}]" for k in range(-2, 3)]
        lines += [f"U{c}[{k}|{k + 1}]:%x[{k},{c}]/%x[{k + 1},{c}]" for k in (-1, 0)]
    return (*lines, "B")
