r"""The records that the kernels of parsing share, and the recursion over spans (Cocke, Kasami, Younger; CKY).

With ``below[i, j, A]`` for the parses of the words i..j under a symbol A that divides them (or stands above a tag), and
``above[i, j, A]`` for those with A at the top of a chain ::

    below[i, j, A] = plus_{k, A -> B C}  above[i, k - 1, B] + above[k, j, C] + rule[k, A -> B C]
    above[i, j, A] = plus_{chains c of top A}  below[i, j, bottom of c] + span[i, j, c]

where plus is the maximum, or log sum exp; parts of phrases, which binarising made, are tops themselves.  The score of a
span without a phrase is that of its state 0; it is subtracted from those of phrases and added for all spans in the end.
Tables have an entry for each span and symbol, O(T^2 S); time is O(T^3 R) at most: rules are looked up by first children
that there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools, GrammarArrays
from ssvm_dsl.kernels import njit


class ParseScores(NamedTuple):
    """The scores of one sentence of T words, for a grammar of L tags, K chains, R rules and P pairs.

    Parameters
    ----------
    tag : ndarray of float64, shape (T, L)
        Of each tag over each word, ``-inf`` where it is ruled out; so of the others.
    span : ndarray of float64, shape (T, T, K + 1)
        ``span[i, j, 0]`` where the words i..j are no phrase, ``span[i, j, c + 1]`` where they are the chain c; entries
        with j < i count with state 0 only.
    rule : ndarray of float64, shape (G, R)
        Rows of scores of rules.
    row : ndarray of int64, shape (T,)
        The row for phrases whose second child begins at each word (that of word 0 is not read).
    pair : ndarray of float64, shape (P,) or (0,)
        Of a chain above a tag, where they have scores.
    """

    tag: F64
    span: F64
    rule: F64
    row: I64
    pair: F64


class Chart(NamedTuple):
    """The tables of the recursion; spans (i, j) are numbered by :func:`span_at`.

    Parameters
    ----------
    above, below : ndarray of float64, shape (n_spans, S)
    active : ndarray of int32, shape (n_spans, S)
        Symbols with a finite ``above``.
    n_active : ndarray of int64, shape (n_spans,)
    blocked : ndarray of bool, shape (n_spans,)
        Spans that no parse may have.
    """

    above: F64
    below: F64
    active: I32
    n_active: I64
    blocked: Bools


@njit(cache=True, nogil=True, borrowed=True, inline="always")
def span_at(i: int, j: int, n: int) -> int:
    """Return the number of the span i..j among those of n words."""
    return i * n - i * (i - 1) // 2 + j - i


@njit(cache=True, nogil=True)
def empty_chart(n: int, n_symbols: int) -> Chart:
    """Return space for sentences of n words."""
    size = n * (n + 1) // 2
    return Chart(
        np.empty((size, n_symbols)), np.empty((size, n_symbols)), np.empty((size, n_symbols), dtype=np.int32),
        np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.bool_),
    )  # fmt: skip


@njit(cache=True, nogil=True, borrowed=True, inline="always")
def joined(one: float, other: float, soft: bool) -> float:
    """Return the maximum of two scores, or their log sum of exponentials."""
    high = max(one, other)
    if not soft or high == -np.inf:
        return high
    return high + np.log1p(np.exp(min(one, other) - high))


@njit(cache=True, nogil=True, borrowed=True, inline="always")
def gain(scores: ParseScores, i: int, j: int, c: int) -> float:
    """Return how much better the chain c over i..j is than no phrase, or its score where there has to be one."""
    none = scores.span[i, j, 0]
    return scores.span[i, j, c + 1] - (none if none > -np.inf else 0.0)


@njit(cache=True, nogil=True, borrowed=True)
def block_crossing(scores: ParseScores, chart: Chart) -> float:
    """Block spans that cross one that has to be a phrase; return the score of no phrases.

    Binary trees without a span that crosses i..j have the span i..j.  It is ``-inf`` where an entry with j < i is ruled
    out.
    """
    n, base = len(scores.tag), 0.0
    chart.blocked[:] = False
    for i in range(n):
        for j in range(n):
            none = scores.span[i, j, 0]
            if none > -np.inf or j < i:
                base += none
                continue
            for a in range(i):
                for b in range(i, j):
                    chart.blocked[span_at(a, b, n)] = True
            for a in range(i + 1, j + 1):
                for b in range(j + 1, n):
                    chart.blocked[span_at(a, b, n)] = True
    return base


@njit(cache=True, nogil=True)
def fill_chart(grammar: GrammarArrays, scores: ParseScores, soft: bool, chart: Chart) -> float:
    """Write the tables of a sentence; return the score of its best parse, or log Z; ``-inf`` where there is none.

    Parameters
    ----------
    grammar : GrammarArrays
    scores : ParseScores
    soft : bool
        Whether to sum exponentials.
    chart : Chart
        Of as many words; written.
    """
    n, total = len(scores.tag), -np.inf
    if n == 0:
        return total
    base = block_crossing(scores, chart)
    for t in range(n):
        fill_word(grammar, scores, soft, t, chart)
    sums = np.empty(len(grammar.is_part) if soft else 0)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            fill_span(grammar, scores, sums, i, i + length - 1, chart)
    whole = chart.above[span_at(0, n - 1, n)]
    for s in range(len(whole)):
        if grammar.is_start[s]:
            total = joined(total, whole[s], soft)
    return total + base


@njit(cache=True, nogil=True, borrowed=True)
def fill_word(grammar: GrammarArrays, scores: ParseScores, soft: bool, t: int, chart: Chart) -> None:
    """Write the tables of the span of one word."""
    at = span_at(t, t, len(scores.tag))
    chart.above[at, :], chart.below[at, :] = -np.inf, -np.inf
    if scores.span[t, t, 0] > -np.inf:
        for tag in range(len(grammar.tag_symbol)):
            chart.above[at, grammar.tag_symbol[tag]] = scores.tag[t, tag]
    for p in range(len(grammar.pair_chain)):
        value = pair_score(grammar, scores, t, p)
        if value > -np.inf:
            top = grammar.chain_top[grammar.pair_chain[p]]
            chart.above[at, top] = joined(chart.above[at, top], value, soft)
    note_active(chart, at, -np.inf)


@njit(cache=True, nogil=True, borrowed=True, inline="always")
def pair_score(grammar: GrammarArrays, scores: ParseScores, t: int, p: int) -> float:
    """Return the score of a chain above a tag over a word."""
    value = scores.tag[t, grammar.pair_tag[p]] + gain(scores, t, t, grammar.pair_chain[p])
    return value + scores.pair[p] if len(scores.pair) else value


@njit(cache=True, nogil=True, borrowed=True, inline="always")
def note_active(chart: Chart, at: int, nothing: float) -> None:
    """List the symbols that a span may have: whose entry is above that of no parse."""
    n = 0
    for s in range(chart.above.shape[1]):
        if chart.above[at, s] > nothing:
            chart.active[at, n] = s
            n += 1
    chart.n_active[at] = n


@njit(cache=True, nogil=True, borrowed=True)
def fill_span(grammar: GrammarArrays, scores: ParseScores, sums: F64, i: int, j: int, chart: Chart) -> None:
    """Write the tables of the span i..j, i < j, after those of all shorter ones.

    Parameters
    ----------
    grammar, scores, chart
        As for :func:`fill_chart`.
    sums : ndarray of float64, shape (S,) or (0,)
        Space for sums of exponentials; empty for the best parse.
    i, j : int
    """
    soft, at = len(sums) > 0, span_at(i, j, len(scores.tag))
    below, above = chart.below[at], chart.above[at]
    below[:], above[:] = -np.inf, -np.inf
    if not chart.blocked[at]:
        for k in range(i + 1, j + 1):
            if soft:
                add_splits(grammar, scores, sums, i, j, k, chart)
            else:
                raise_splits(grammar, scores, i, j, k, chart)
        if soft:
            for s in range(len(below)):
                if below[s] > -np.inf:
                    below[s] += np.log(sums[s])
    fill_chains(grammar, scores, soft, i, j, chart)


@njit(cache=True, nogil=True, borrowed=True)
def fill_chains(grammar: GrammarArrays, scores: ParseScores, soft: bool, i: int, j: int, chart: Chart) -> None:
    """Raise the table of the span i..j, i < j, which is ``-inf``, from that of the symbols that divide it."""
    at = span_at(i, j, len(scores.tag))
    below, above = chart.below[at], chart.above[at]
    if not chart.blocked[at]:
        if scores.span[i, j, 0] > -np.inf:
            for s in range(len(below)):
                if grammar.is_part[s]:
                    above[s] = below[s]
        for c in range(len(grammar.chain_top)):
            value = below[grammar.chain_bottom[c]] + gain(scores, i, j, c)
            if value > -np.inf:
                top = grammar.chain_top[c]
                above[top] = joined(above[top], value, soft)
    note_active(chart, at, -np.inf)


@njit(cache=True, nogil=True, borrowed=True)
def raise_splits(grammar: GrammarArrays, scores: ParseScores, i: int, j: int, k: int, chart: Chart) -> None:
    """Raise the best scores below symbols to those of phrases whose second child begins at k."""
    n = len(scores.tag)
    at, left, right = span_at(i, j, n), span_at(i, k - 1, n), span_at(k, j, n)
    below, second, rule = chart.below[at], chart.above[right], scores.rule[scores.row[k]]
    for a in range(chart.n_active[left] if chart.n_active[right] else 0):
        s = chart.active[left, a]
        value = chart.above[left, s]
        for r in range(grammar.first_ptr[s], grammar.first_ptr[s + 1]):
            score = value + second[grammar.second[r]] + rule[r]
            if score > below[grammar.left[r]]:
                below[grammar.left[r]] = score


@njit(cache=True, nogil=True, borrowed=True)
def add_splits(grammar: GrammarArrays, scores: ParseScores, sums: F64, i: int, j: int, k: int, chart: Chart) -> None:
    """Add phrases whose second child begins at k to sums of exponentials, relative to the largest so far.

    Parameters
    ----------
    grammar, scores, chart
        As for :func:`fill_chart`; ``below`` has the largest terms meanwhile.
    sums : ndarray of float64, shape (S,)
        Added to.
    i, j, k : int
    """
    n = len(scores.tag)
    at, left, right = span_at(i, j, n), span_at(i, k - 1, n), span_at(k, j, n)
    below, second, rule = chart.below[at], chart.above[right], scores.rule[scores.row[k]]
    for a in range(chart.n_active[left] if chart.n_active[right] else 0):
        s = chart.active[left, a]
        value = chart.above[left, s]
        for r in range(grammar.first_ptr[s], grammar.first_ptr[s + 1]):
            score = value + second[grammar.second[r]] + rule[r]
            if score == -np.inf:
                continue
            parent = grammar.left[r]
            high = below[parent]
            if high == -np.inf:
                below[parent], sums[parent] = score, 1.0
            elif score <= high:
                sums[parent] += np.exp(score - high)
            else:
                below[parent], sums[parent] = score, sums[parent] * np.exp(high - score) + 1.0


# -- Pairs of children that rules have: what divisions of spans look at, in place of all rules -----------------------

#: What the first and the second child of a pair can have below them: a symbol that is only ever a tag has one word.
SEVERAL_SEVERAL, WORD_SEVERAL, SEVERAL_WORD, WORD_WORD = range(4)


class PairedRules(NamedTuple):
    """The pairs of children that rules have, by first child: P pairs in Q rows.

    Parameters
    ----------
    first : ndarray of int32, shape (Q,)
        The first child of each row.
    ptr : ndarray of int64, shape (Q + 1,)
        Pairs ``ptr[q]:ptr[q + 1]`` are in row q.
    second : ndarray of int32, shape (P,)
        The second child of each pair.
    block : ndarray of int64, shape (5,)
        Rows ``block[sort]:block[sort + 1]`` are those of each sort: ``SEVERAL_SEVERAL``, ``WORD_SEVERAL``,
        ``SEVERAL_WORD`` and ``WORD_WORD``.
    place : ndarray of int64, shape (R,)
        The pair of the rule ``by_left[k]``.
    """

    first: I32
    ptr: I64
    second: I32
    block: I64
    place: I64


def paired_rules(grammar: GrammarArrays) -> PairedRules:
    """Return the pairs of a grammar's rules."""
    has_several = grammar.is_part.copy()
    has_several[grammar.chain_top] = True
    sort = WORD_SEVERAL * ~has_several[grammar.first] + SEVERAL_WORD * ~has_several[grammar.second]
    keys = np.stack([sort, grammar.first, grammar.second], axis=1).astype(np.int64)
    pairs, place = np.unique(keys, axis=0, return_inverse=True)
    rows, ptr = np.unique(pairs[:, :2], axis=0, return_index=True)
    block = np.searchsorted(rows[:, 0], np.arange(5))
    first, second = rows[:, 1].astype(np.int32), np.ascontiguousarray(pairs[:, 2], dtype=np.int32)
    return PairedRules(first, np.append(ptr, len(pairs)), second, block, place.reshape(-1)[grammar.by_left])
