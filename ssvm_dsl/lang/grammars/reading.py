"""What grammars are read from: text with rules, and the rules and chains that trees use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ssvm_dsl.errors import OptionError
from ssvm_dsl.files.text_lines import BLANKS, columns_of, lines_in
from ssvm_dsl.lang.grammars.parse_tree import ParseTree, is_part

#: A left side and its right side: two symbols, or one.
Rule = tuple[str, tuple[str, ...]]

#: Several symbols over the same words, from top to bottom: each is above the next by a rule of one child.
Chain = tuple[str, ...]

_SYMBOL = re.compile(r"\"[^\"]*\"|'[^']*'|[^ \t|\"']+|\|")


def read_cfg(text: str) -> tuple[str, list[Rule], list[tuple[str, str]]]:
    """Return (start, rules, lexicon) of a text with rules ``A -> B C | "word"``.

    Raises
    ------
    OptionError
        A line is no rule, or there is none.
    """
    start, rules, lexicon = "", list[Rule](), list[tuple[str, str]]()
    for number, line in enumerate((line.strip(BLANKS) for line in lines_in(text)), 1):
        if line.startswith("%start"):
            start = line.removeprefix("%start").strip(BLANKS)
        elif line and not line.startswith("#"):
            left, arrow, right = (part.strip(BLANKS) for part in line.partition("->"))
            if not arrow or not left or len(columns_of(left)) > 1:
                raise OptionError(f"Grammar: line {number}: expected 'A -> B C | \"word\"', got {line[:60]!r}")
            for side in _sides(right):
                _add(left, side, rules, lexicon, number)
            start = start or left
    if not rules and not lexicon:
        raise OptionError("Grammar: the text has no rules")
    return start, rules, lexicon


def _sides(right: str) -> Iterator[list[str]]:
    """Yield the right sides between vertical bars, quotes kept."""
    side: list[str] = []
    for match in _SYMBOL.finditer(right):
        if match[0] == "|":
            yield side
            side = []
        else:
            side.append(match[0])
    yield side


def _add(left: str, side: list[str], rules: list[Rule], lexicon: list[tuple[str, str]], number: int) -> None:
    """Add a right side to the rules, or to the lexicon where it is a word."""
    if not side:
        raise OptionError(f"Grammar: line {number}: a right side of {left} is empty; every symbol has a word below it")
    if len(side) == 1 and side[0][0] in "\"'":
        lexicon.append((left, side[0][1:-1]))
        return
    for one in side:
        if one[0] in "\"'":
            lexicon.append((one, one[1:-1]))
    rules.append((left, tuple(side)))


def rules_of(tree: ParseTree) -> Iterator[Rule]:
    """Yield the rules of a tree, above parts of speech."""
    for one in tree.subtrees():
        if not one.is_tag:
            yield one.label, tuple(child.label for child in one.trees)


def chains_of(tree: ParseTree) -> Iterator[Chain]:
    """Yield the chains of a binarised tree.

    Raises
    ------
    OptionError
        A symbol stands above itself, with no other words.
    """
    stack = [tree]
    while stack:
        names, bottom = chain_down(stack.pop())
        if names and not is_part(names[0]):
            if len(set(names)) < len(names):
                text = f"with the same words: {' > '.join(names)}; tree.without_cycles() leaves one of them out"
                raise OptionError(f"Grammar: a symbol stands above itself {text}")
            yield names
        stack += bottom.trees


def chain_down(tree: ParseTree) -> tuple[Chain, ParseTree]:
    """Return the symbols from the top of a tree to where it divides or reaches a tag, and the tree there."""
    names: list[str] = []
    while not tree.is_tag:
        names.append(tree.label)
        if len(tree.children) > 1:
            break
        tree = tree.trees[0]
    return tuple(names), tree
