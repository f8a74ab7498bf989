"""Whether labels are a tree that a grammar derives, some tree of so many words, and which spans have one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
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
    above = False
    for p in range(len(grammar.pair_chain)):
        above |= grammar.pair_chain[p] == chain and grammar.pair_tag[p] == tag
    return above


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


@njit(cache=True, nogil=True)
def derived_spans(grammar, tag: Bools, span: Bools) -> Bools:  # type: ignore[no-untyped-def]
    """Return which symbols derive the words i..j; ``ndarray of bool, shape (T, T, S)``.

    Parameters
    ----------
    grammar : GrammarArrays
    tag : ndarray of bool, shape (T, L)
        The tags that each word may have.
    span : ndarray of bool, shape (T, T, K + 1)
        The chains that the words i..j may be; the first entry: no phrase.
    """
    n, n_symbols = len(tag), len(grammar.is_part)
    there = np.zeros((n, n, n_symbols), dtype=np.bool_)
    for t in range(n):
        for one in range(tag.shape[1]):
            there[t, t, grammar.tag_symbol[one]] |= tag[t, one] and span[t, t, 0]
        for p in range(len(grammar.pair_chain)):
            c = grammar.pair_chain[p]
            there[t, t, grammar.chain_top[c]] |= tag[t, grammar.pair_tag[p]] and span[t, t, c + 1]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j, below = i + length - 1, np.zeros(n_symbols, dtype=np.bool_)
            for k in range(i + 1, j + 1):
                for r in range(len(grammar.left)):
                    below[grammar.left[r]] |= there[i, k - 1, grammar.first[r]] and there[k, j, grammar.second[r]]
            for s in range(n_symbols):
                there[i, j, s] = grammar.is_part[s] and below[s] and span[i, j, 0]
            for c in range(len(grammar.chain_top)):
                there[i, j, grammar.chain_top[c]] |= below[grammar.chain_bottom[c]] and span[i, j, c + 1]
    return there


class ParseLengths(NamedTuple):
    """How each symbol comes to so many words, for up to n words and S symbols; the first way that is found.

    Parameters
    ----------
    there : ndarray of bool, shape (n + 1, S)
        Whether a symbol has parses of so many words.
    chain : ndarray of int32, shape (n + 1, S)
        1 and the number of a chain with this top; 0 where there is none.
    rule : ndarray of int32, shape (n + 1, S)
        1 and the number of a rule with this left side; 0 where there is none.
    split : ndarray of int32, shape (n + 1, S)
        The words of its first child.
    """

    there: Bools
    chain: I32
    rule: I32
    split: I32


@njit(cache=True, nogil=True)
def parse_lengths(grammar, n: int, most: int) -> ParseLengths:  # type: ignore[no-untyped-def]
    """Return how symbols come to up to n words; longer ones are left out after so many looks at rules.

    Parameters
    ----------
    grammar : GrammarArrays
    n, most : int
    """
    shape, looks = (n + 1, len(grammar.is_part)), 0
    zeros = np.zeros((3, *shape), dtype=np.int32)
    known = ParseLengths(np.zeros(shape, dtype=np.bool_), zeros[0], zeros[1], zeros[2])
    for symbol in grammar.tag_symbol:
        known.there[1, symbol] = True
    for c in grammar.pair_chain:
        known.there[1, grammar.chain_top[c]] = True
    for m in range(2, n + 1):
        rule, split = known.rule[m], known.split[m]
        for r in range(len(grammar.left)):
            left, d = grammar.left[r], 0
            while rule[left] == 0 and d < m:  # halves first: trees are not deep
                a = m // 2 + ((d + 1) // 2 if d % 2 == 1 else -(d // 2))
                if 0 < a < m and known.there[a, grammar.first[r]] and known.there[m - a, grammar.second[r]]:
                    rule[left], split[left] = r + 1, a
                d += 1
            looks += d
        for s in range(len(rule)):
            known.there[m, s] = grammar.is_part[s] and rule[s] > 0
        for c in range(len(grammar.chain_top)):
            if rule[grammar.chain_bottom[c]] > 0:
                known.there[m, grammar.chain_top[c]], known.chain[m, grammar.chain_top[c]] = True, c + 1
        if looks > most:
            break
    return known


@njit(cache=True, nogil=True)
def write_parse(grammar, known: ParseLengths, tag: F64, word: F64, labels: I32, n_digits: int) -> bool:  # type: ignore[no-untyped-def]
    """Write a parse of a sentence, each word with the best tag that there is room for; return whether there is one.

    Parameters
    ----------
    grammar : GrammarArrays
    known : ParseLengths
        Of as many words.
    tag : ndarray of float64, shape (T, L)
        What each tag scores.
    word : ndarray of float64, shape (T, K + 1)
        What phrases of a single word score, the first where it is none.
    labels : ndarray of int32, shape (T + T^2 + 2 T,)
        Tags, phrases and both digits of rules; zeros before.
    n_digits : int
    """
    n = len(tag)
    span = labels[n : n + n * n].reshape((n, n))
    high, low = labels[n + n * n : 2 * n + n * n], labels[2 * n + n * n :]
    stack, waiting = np.empty((n + 1, 3), dtype=np.int64), 0
    for s in range(len(grammar.is_start)):
        if grammar.is_start[s] and known.there[n, s] and (n == 1 or known.chain[n, s] > 0):
            stack[0, 0], stack[0, 1], stack[0, 2], waiting = 0, n - 1, s, 1
    if waiting == 0:
        return False
    while waiting:
        waiting -= 1
        i, j, symbol = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        m = j - i + 1
        if m == 1:
            write_word(grammar, symbol, tag[i], word[i], labels[i : i + 1], span[i, i : i + 1])
            continue
        below = symbol
        if not grammar.is_part[symbol]:
            span[i, j] = known.chain[m, symbol]
            below = grammar.chain_bottom[span[i, j] - 1]
        r, k = known.rule[m, below] - 1, i + known.split[m, below]
        high[k], low[k] = (r + 1) // n_digits, (r + 1) % n_digits
        stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = i, k - 1, grammar.first[r]
        stack[waiting + 1, 0], stack[waiting + 1, 1], stack[waiting + 1, 2] = k, j, grammar.second[r]
        waiting += 2
    return True


@njit(cache=True, nogil=True)
def write_word(grammar, symbol: int, tag: F64, word: F64, mine: I32, chain: I32) -> None:  # type: ignore[no-untyped-def]
    """Write the best tag of a word below a symbol, and the chain between them, 0 for none."""
    best, written = -np.inf, False
    for t in range(len(tag)):
        if grammar.tag_symbol[t] == symbol and (not written or tag[t] + word[0] > best):
            best, written, mine[0], chain[0] = tag[t] + word[0], True, t, 0
    for p in range(len(grammar.pair_chain)):
        c, t = grammar.pair_chain[p], grammar.pair_tag[p]
        if grammar.chain_top[c] == symbol and (not written or tag[t] + word[c + 1] > best):
            best, written, mine[0], chain[0] = tag[t] + word[c + 1], True, t, c + 1
