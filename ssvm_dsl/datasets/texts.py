"""Sentences with structure: dependency trees of the Wall Street Journal, word alignments, an air-travel grammar.

All are read from the folder that environment variable ``SSVM_DATA`` names; every loader raises
:class:`~ssvm_dsl.errors.DataError` when its file is not there, with where it comes from, or is not what it should be.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.datasets.files import MOST_BYTES, data_file
from ssvm_dsl.errors import DataError
from ssvm_dsl.files.text_lines import BLANKS, blocks_in, columns_of, is_blank, lines_in, read_text, without_mark
from ssvm_dsl.lang.grammars.brackets import read_brackets
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.grammars.parse_tree import ParseTree


class ParsedSentence(NamedTuple):
    """A sentence with its dependency tree: heads count from 0, -1 is the root."""

    words: list[str]
    pos: list[str]
    heads: I64


class AlignedPair(NamedTuple):
    """A sentence and its translation; links are (position in source, position in target), from 0.

    Parameters
    ----------
    source, target : list of str
    sure, possible : set of (int, int)
        Sure links are possible, too.
    """

    source: list[str]
    target: list[str]
    sure: set[tuple[int, int]]
    possible: set[tuple[int, int]]


class CountedParses(NamedTuple):
    """A context-free grammar with sentences and how many parses each has.

    Parameters
    ----------
    start : str
    rules : list of (str, tuple of str)
        Left side and right side; words stand in double quotes.
    sentences : list of list of str
    n_parses : list of int
    """

    start: str
    rules: list[tuple[str, tuple[str, ...]]]
    sentences: list[list[str]]
    n_parses: list[int]

    @property
    def grammar(self) -> Grammar:
        """The grammar, binarised."""
        words = [(left, right[0][1:-1]) for left, right in self.rules if right[0][0] == '"']
        return Grammar([rule for rule in self.rules if rule[1][0][0] != '"'], self.start, lexicon=words)


def load_dependency_treebank() -> list[ParsedSentence]:
    """Return the 3914 sentences of the Penn Treebank sample with dependency trees, in the order of their files."""
    path = data_file("load_dependency_treebank", "sequences/dependency_treebank.zip")
    sentences: list[ParsedSentence] = []
    for text in _texts(path, ".dp"):
        for block in blocks_in(enumerate(lines_in(text), 1)):
            rows = [columns_of(line) for _, line in block]
            if any(len(row) != 3 or not row[2].isdecimal() or int(row[2]) > len(rows) for row in rows):
                shown = repr(block[0][1][:60])
                raise DataError(str(path), example=len(sentences), expected="lines 'word pos head'", found=shown)
            words, pos, heads = (list(column) for column in zip(*rows, strict=True))
            sentences.append(ParsedSentence(words, pos, np.array(heads, dtype=np.int64) - 1))
    return sentences


def load_treebank(*, empty: bool = False, functions: bool = False) -> list[ParseTree]:
    """Return the 3914 parse trees of the Penn Treebank sample, in the order of their files.

    Parameters
    ----------
    empty : bool
        Keep traces and dropped words (``-NONE-``).
    functions : bool
        Keep the functions of phrases: ``NP-SBJ`` in place of ``NP``.
    """
    path = data_file("load_treebank", "grammar/treebank.zip")
    texts = _texts(path, ".mrg")
    return [tree for text in texts for tree in read_brackets(text, str(path), empty=empty, functions=functions)]


def load_alignments() -> list[AlignedPair]:
    """Return the 447 English and French sentence pairs of the Hansards with hand-made word alignments."""
    texts, golds = (data_file("load_alignments", f"alignment/enfr.{name}") for name in ("src-tgt", "gold"))
    pairs, links = (lines_in(read_text(path, MOST_BYTES)) for path in (texts, golds))
    if len(pairs) != len(links):
        raise DataError(str(golds), expected=f"a line for each of {len(pairs)} pairs", found=f"{len(links)}")
    found = []
    for k, (text, line) in enumerate(zip(pairs, links, strict=True)):
        sides, marks = text.split("|||"), [re.fullmatch(r"(\d+)([-p])(\d+)", one) for one in columns_of(line)]
        if len(sides) != 2 or not all(marks):
            expected = "'source ||| target' and links 'i-j', 'ipj'"
            raise DataError(str(texts), example=k, expected=expected, found=line[:60])
        each = [(mark[2], (int(mark[1]) - 1, int(mark[3]) - 1)) for mark in marks if mark]
        sure = {link for kind, link in each if kind == "-"}
        found.append(AlignedPair(columns_of(sides[0]), columns_of(sides[1]), sure, {link for _, link in each}))
    return found


def load_atis_grammar() -> CountedParses:
    """Return the ATIS grammar (5517 rules) with its 98 test sentences."""
    path = data_file("load_atis_grammar", "grammar/large_grammars.zip")
    (grammar,), (tests,) = _texts(path, "/atis.cfg"), _texts(path, "/atis_sentences.txt")
    start = ""
    rules: list[tuple[str, tuple[str, ...]]] = []
    for line in filter(None, (line.strip(BLANKS) for line in lines_in(grammar))):
        if line.startswith("%start"):
            start = columns_of(line)[1]
        elif not line.startswith("#"):
            left, _, right = line.partition("->")
            rules += [(left.strip(BLANKS), tuple(columns_of(one))) for one in re.split(r"[ \t]\|[ \t]", right)]
    lines = [line.partition(":") for line in lines_in(tests) if not is_blank(line) and not line.startswith("#")]
    sentences, counts = [columns_of(text) for _, _, text in lines], [int(count) for count, _, _ in lines]
    return CountedParses(start, rules, sentences, counts)


def _texts(path: Path, ending: str) -> list[str]:
    """Return the texts of an archive whose names end so, by name."""
    try:
        with ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(ending))
            texts = [without_mark(archive.read(name)).decode(errors="replace") for name in names]
    except BadZipFile as err:
        raise DataError(str(path), expected="a zip archive", found=str(err)) from err
    if not texts:
        raise DataError(str(path), expected=f"files *{ending} in the archive", found="none")
    return texts
