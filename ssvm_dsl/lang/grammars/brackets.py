"""Trees in brackets, as the Penn Treebank writes them."""

from __future__ import annotations

import re
from pathlib import Path

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import DataError
from ssvm_dsl.files.text_lines import read_text
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.grammars.bracket_text import nested_lists
from ssvm_dsl.lang.grammars.parse_tree import ParseTree

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
