"""Trees in brackets, as the Penn Treebank writes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import DataError
from ssvm_dsl.files.text_lines import read_text
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.grammars.parse_tree import Bracket, ParseTree, nested_lists, plain_label

#: The part of speech of what stands for no word: traces, dropped subjects.
EMPTY = "-NONE-"

#: Longest text, in characters, that is read.
MOST_TEXT = 200_000_000

_FUNCTION = re.compile(r"(?<=.)[-=|].*")


@checked_call
def read_trees(path: str | Path, *, empty: bool = False, functions: bool = False) -> list[ParseTree]:
    """Return the trees of a file, one after the other in brackets.

    Parameters
    ----------
    path : str or Path
        A file of at most 200 MB in UTF-8, plain or packed (``.gz``, ``.bz2``, ``.xz``).
    empty, functions
        As of :func:`read_brackets`.

    Raises
    ------
    DataError
        It is not in this form; says where.
    FileFormatError
        It is too large, or no text.
    """
    if not isinstance(path, str | Path):
        raise DataError("read_trees", expected="the path of a file", found=describe(path))
    return read_brackets(read_text(Path(path), MOST_TEXT), str(path), empty=empty, functions=functions)


@checked_call
def read_brackets(
    text: str, where: str = "tree", *, empty: bool = False, functions: bool = False
) -> list[ParseTree]:
    """Return the trees of a text.

    Parameters
    ----------
    text : str
        ``(S (NP (NNP Mary)) (VP (VBZ runs)))``; a pair of brackets without a symbol around a tree is left out.
    where : str
        What errors call it.
    empty : bool
        Keep words that stand for nothing (``-NONE-``), and phrases of nothing else.
    functions : bool
        Keep what follows ``-``, ``=`` or ``|`` in symbols: ``NP-SBJ-1`` in place of ``NP``.

    Raises
    ------
    DataError
        Brackets do not match, a symbol has no children, or words and phrases are siblings; the message says where.
    """
    if not isinstance(text, str) or not isinstance(where, str):
        raise DataError("read_brackets", expected="text", found=describe(text))
    if len(text) > MOST_TEXT:
        raise DataError(where, expected=f"at most {MOST_TEXT} characters", found=f"{len(text)}")
    raw = [ParseTree.of(one) for one in nested_lists(text, where)]
    trees = raw if empty else [tree for one in raw if (tree := _without_empty(one)) is not None]
    return trees if functions else [tree.map_labels(without_function) for tree in trees]


def without_function(label: str) -> str:
    """Return a symbol of the Penn Treebank without its functions: ``NP-SBJ-1`` is ``NP``, ``-LRB-`` stays."""
    return label if label.startswith("-") else _FUNCTION.sub("", label)


def _without_empty(tree: ParseTree) -> ParseTree | None:
    """Return a tree without words that stand for nothing; ``None`` if it has no others."""
    if tree.is_tag:
        return None if tree.label == EMPTY else tree
    kept = tuple(child for one in tree.trees if (child := _without_empty(one)) is not None)
    return ParseTree(tree.label, kept) if kept else None


# -- labelled precision, recall and F1 of parse trees, counted as the program ``evalb`` counts them ----------------
#
# A bracket is right where start, end and symbol are those of a true one, each true one once.  As with the parameters
# that are usual for the Penn Treebank (``COLLINS.prm``; Sekine and Collins 1997) the root ``TOP`` is no bracket,
# punctuation does not count as words, and ``PRT`` is the same as ``ADVP``::
#
#     precision = right / found,    recall = right / true,    F1 = 2 right / (found + true)

#: Parts of speech of punctuation.
PUNCTUATION = frozenset({",", ":", "``", "''", "."})

_TOP, _SAME = frozenset({"TOP", "ROOT"}), {"PRT": "ADVP"}


class BracketScores(NamedTuple):
    """Brackets of a corpus.

    Parameters
    ----------
    right, found, true : int
        Brackets in both, in the answers, in the truth.
    exact : int
        Trees all whose brackets are right, and no others found.
    n_trees : int
    """

    right: int
    found: int
    true: int
    exact: int
    n_trees: int

    @property
    def precision(self) -> float:
        """Share of the brackets found that are right; 0 where none is found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of the true brackets that are found; 0 where there are none."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        return 2 * self.right / (self.found + self.true) if self.found + self.true else 0.0

    def __str__(self) -> str:
        return (
            f"F1 {self.f1:.4f}, precision {self.precision:.4f}, recall {self.recall:.4f} "
            f"({self.right} of {self.found} brackets found are right, {self.true} are true; "
            f"{self.exact} of {self.n_trees} trees are entirely right)"
        )


@checked_call
def bracket_scores(true: Iterable[Any], found: Iterable[Any], punctuation: bool = False) -> BracketScores:
    """Return how well trees are found.

    Parameters
    ----------
    true, found : iterable
        Trees, or what :meth:`ParseTree.of` reads; ``None`` in ``found`` where there is no answer: no bracket is.
    punctuation : bool
        Whether words with tags of punctuation (those of the truth) count as words.

    Raises
    ------
    DataError
        An answer has other words than the truth, or there is not one for each; names the example.
    """
    truth, answers = _listed(true, "true"), _listed(found, "found")
    if len(truth) != len(answers):
        raise DataError("found", expected=f"a tree for each of {len(truth)}", found=f"{len(answers)}")
    right = n_found = n_true = exact = 0
    for i, (one, other) in enumerate(zip(truth, answers, strict=True)):
        tree, answer = ParseTree.of(one), None if other is None else ParseTree.of(other)
        if answer is not None and len(answer.words) != len(tree.words):
            raise DataError("found", example=i, expected=f"{len(tree.words)} words", found=f"{len(answer.words)}")
        counts = [tag not in PUNCTUATION or punctuation for tag in tree.tags]
        gold = _counted(tree, counts)
        mine = Counter[Bracket]() if answer is None else _counted(answer, counts)
        both = (gold & mine).total()
        right, n_found, n_true = right + both, n_found + mine.total(), n_true + gold.total()
        exact += both == gold.total() == mine.total() and answer is not None
    return BracketScores(right, n_found, n_true, exact, len(truth))


def _listed(trees: object, name: str) -> list[Any]:
    if not isinstance(trees, Iterable) or isinstance(trees, str | bytes):
        raise DataError(f"bracket_scores: {name}", expected="a list of trees", found=describe(trees))
    return list(trees)


def _counted(tree: ParseTree, counts: list[bool]) -> Counter[Bracket]:
    """Return the brackets over words that count, in numbers of such words."""
    place = np.concatenate([[0], np.cumsum(counts)]).tolist()
    moved = (Bracket(place[one.start], place[one.end], plain_label(one.label)) for one in tree.brackets())
    kept = (one for one in moved if one.start < one.end and one.label not in _TOP)
    return Counter(one._replace(label=_SAME.get(one.label, one.label)) for one in kept)
