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
    opened = False  # a bracket whose symbol, if any, comes next
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "(":
            stack.append([""])
            if len(stack) > MOST_DEPTH:
                raise _wrong(where, text, match, f"at most {MOST_DEPTH} brackets inside each other")
        elif not stack:
            raise _wrong(where, text, match, "'(' at the beginning of a tree")
        elif token != ")":
            if opened:
                stack[-1][0] = token
            else:
                stack[-1].append(token)
        else:
            tree = stack.pop()
            if expected := _mistake(tree):
                raise _wrong(where, text, match, expected)
            tree = tree if tree[0] else tree[1]
            if stack:
                stack[-1].append(tree)
            else:
                yield tree
        opened = token == "("
    if stack:
        raise DataError(where, expected=f"{len(stack)} more ')' at the end", found=repr(text[-40:]))


def _mistake(tree: list[Any]) -> str:
    """Return the rule that a finished tree breaks, ``""`` if it breaks none."""
    label, *children = tree
    if not children or (not label and (len(children) > 1 or isinstance(children[0], str))):
        return "a symbol and its children in each pair of brackets"
    if len(children) > 1 and any(isinstance(child, str) for child in children):
        return "a word alone in the brackets of its part of speech"
    return ""


def _wrong(where: str, text: str, match: re.Match[str], expected: str) -> DataError:
    at = match.start()
    line = text.count("\n", 0, at) + 1
    return DataError(where, expected=expected, found=f"line {line}: {text[max(0, at - 20) : at + 20]!r}")
