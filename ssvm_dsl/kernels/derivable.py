"""Whether labels are a tree that a grammar derives."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.kernels.compiling.jit import njit


@njit(cache=True, nogil=True)
def is_parse(grammar, tag: I32, span: I32, code: I64, from_left: bool) -> bool:  # type: ignore[no-untyped-def]
    """Return whether tags, phrases and rules of a sentence are one tree.

    Phrases alone decide where a tree divides, as parts of phrases go on at one side: the first child is the longest
    phrase that begins there (or the second one the longest that ends there).

    Parameters
    ----------
    grammar : GrammarArrays
    tag : ndarray of int32, shape (T,)
    span : ndarray of int32, shape (T, T)
        0 for no phrase, else 1 and the number of a chain.
    code : ndarray of int64, shape (T,)
        1 and the number of the rule whose second child begins at each word; 0 at the first word.
    from_left : bool
        Whether the parts of phrases are first children.
    """
    n, waiting, seen, phrases = len(tag), 1, 0, 0
    if n == 0 or code[0] != 0:
        return False
    for i in range(n):
        for j in range(n):
            if span[i, j] > 0:
                phrases += 1
    stack = np.empty((n + 1, 3), dtype=np.int64)
    top = grammar.tag_symbol[tag[0]] if span[0, n - 1] == 0 else grammar.chain_top[span[0, n - 1] - 1]
    if not grammar.is_start[top] or (n > 1 and span[0, n - 1] == 0):
        return False
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n - 1, top
    while waiting:
        waiting -= 1
        i, j, symbol = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        chain = span[i, j] - 1
        if chain >= 0:
            seen += 1
            if grammar.chain_top[chain] != symbol:
                return False
        if i == j:
            if not above_tag(grammar, symbol, chain, tag[i]):
                return False
            continue
        if (chain < 0) != grammar.is_part[symbol]:
            return False
        below = symbol if chain < 0 else grammar.chain_bottom[chain]
        k = division(span, i, j, from_left)
        r = code[k] - 1
        if r < 0 or r >= len(grammar.left) or grammar.left[r] != below:
            return False
        stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = i, k - 1, grammar.first[r]
        stack[waiting + 1, 0], stack[waiting + 1, 1], stack[waiting + 1, 2] = k, j, grammar.second[r]
        waiting += 2
    return seen == phrases


@njit(cache=True, nogil=True)
def above_tag(grammar, symbol: int, chain: int, tag: int) -> bool:  # type: ignore[no-untyped-def]
    """Return whether a tag, with a chain above it (-1 for none), is below a symbol."""
    if chain < 0:
        return bool(grammar.tag_symbol[tag] == symbol)
    found = False
    for p in range(len(grammar.pair_chain)):
        found |= grammar.pair_chain[p] == chain and grammar.pair_tag[p] == tag
    return found


@njit(cache=True, nogil=True)
def division(span: I32, i: int, j: int, from_left: bool) -> int:
    """Return where the second child of the words i..j begins."""
    if from_left:
        for k in range(i + 1, j):
            if span[k, j] > 0:
                return k
        return j
    for e in range(j - 1, i, -1):
        if span[i, e] > 0:
            return e + 1
    return i + 1
