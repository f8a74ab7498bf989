"""Brackets inside brackets, as nested lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ssvm_dsl.errors import DataError

#: The deepest tree that is read: what walks it calls itself once for each level.
MOST_DEPTH = 300

_TOKEN = re.compile(r"[()]|[^ \t\r\n()]+")


def nested_lists(text: str, where: str) -> Iterator[list[Any]]:
    """Yield the trees of a text, each as a list ``[symbol, child, ...]``; brackets without a symbol are left out.

    Raises
    ------
    DataError
        Brackets do not match, a symbol has no children, or words and phrases are siblings; the message says where.
    """
    stack: list[list[Any]] = []
    begin = left = 0  # where the tree begins, and the last one at the left edge
    opened = False  # a bracket whose symbol, if any, comes next
    for match in _TOKEN.finditer(text):
        token, at = match[0], match.start()
        if token == "(":
            if not stack:
                begin = at
                left = at if text[at - 1 : at] in ("", "\n") else left
            stack.append([""])
            if len(stack) > MOST_DEPTH:
                raise _unclosed(where, text, begin, f"at most {MOST_DEPTH} brackets inside each other", at)
        elif not stack:
            before = f" (the tree before begins at line {_line(text, left)})" if left < at else ""
            raise _wrong(where, text, at, f"'(' at the beginning of a tree{before}")
        elif token != ")":
            if opened:
                stack[-1][0] = token
            else:
                stack[-1].append(token)
        else:
            tree = stack.pop()
            if expected := _mistake(tree):
                raise _wrong(where, text, at, f"{expected} (in the tree that begins at line {_line(text, begin)})")
            tree = tree if tree[0] else tree[1]
            if stack:
                stack[-1].append(tree)
            else:
                yield tree
        opened = token == "("
    if stack:
        raise _unclosed(where, text, begin, f"{len(stack)} more ')' for it", len(text))


def _mistake(tree: list[Any]) -> str:
    """Return the rule that a finished tree breaks, ``""`` if it breaks none."""
    label, *children = tree
    if not children or (not label and (len(children) > 1 or isinstance(children[0], str))):
        return "a symbol and its children in each pair of brackets"
    if len(children) > 1 and any(isinstance(child, str) for child in children):
        return "a word alone in the brackets of its part of speech"
    return ""


def _unclosed(where: str, text: str, begin: int, expected: str, at: int) -> DataError:
    """Return the error for a tree that is not closed: all trees before it are, so a bracket of it is missing."""
    line = _line(text, begin)
    found = f"the tree that begins at line {line}, {text[begin : begin + 40]!r}, still open at line {_line(text, at)}"
    after = re.compile(r"^\(", re.MULTILINE).search(text, begin + 1, at)
    hint = "a bracket is missing in it"
    if after is not None:
        hint = f"line {_line(text, after.start())} begins the next tree; a bracket is missing before it"
    return DataError(where, expected=expected, found=found, hint=hint)


def _wrong(where: str, text: str, at: int, expected: str) -> DataError:
    found = f"line {_line(text, at)}: {text[max(0, at - 20) : at + 20]!r}"
    return DataError(where, expected=expected, found=found)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
