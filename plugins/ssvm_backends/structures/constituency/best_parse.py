"""The best parse of a sentence: the way back through a chart of best scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.constituency.chart import (
    SEVERAL_SEVERAL,
    SEVERAL_WORD,
    WORD_SEVERAL,
    WORD_WORD,
    Chart,
    PairedRules,
    ParseScores,
    block_crossing,
    fill_chains,
    fill_word,
    gain,
    pair_score,
    span_at,
)
from ssvm_dsl.ir import F64, I32, GrammarArrays
from ssvm_dsl.kernels import njit


class Parse(NamedTuple):
    """A parse of T words.

    Parameters
    ----------
    tag : ndarray of int32, shape (T,)
        The number of each word's tag.
    span : ndarray of int32, shape (T, T)
        ``span[i, j]`` is 0 where the words i..j are no phrase, else 1 and the number of the chain.
    rule : ndarray of int32, shape (T,)
        1 and the number of the rule whose second child begins at each word; 0 at the first word.
    """

    tag: I32
    span: I32
    rule: I32


@njit(cache=True, nogil=True)
def trace_parse(grammar: GrammarArrays, scores: ParseScores, chart: Chart, parse: Parse) -> None:
    """Write the best parse of a sentence that has one.

    Scores on the way back are recomputed; of equal ones the first is taken.

    Parameters
    ----------
    grammar, scores : GrammarArrays, ParseScores
    chart : Chart
        As :func:`~ssvm_backends.structures.constituency.chart.fill_chart` wrote it, not soft.
    parse : Parse
        Written.
    """
    n = len(scores.tag)
    parse.tag[:], parse.span[:], parse.rule[:] = 0, 0, 0
    whole, best = chart.above[span_at(0, n - 1, n)], -1
    for s in range(len(whole)):
        if grammar.is_start[s] and (best < 0 or whole[s] > whole[best]):
            best = s
    stack = np.empty((n + 1, 3), dtype=np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n - 1, best
    waiting = 1
    while waiting:
        waiting -= 1
        i, j, top = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        if i == j:
            trace_word(grammar, scores, i, top, parse)
            continue
        bottom = trace_chain(grammar, scores, i, j, top, chart, parse)
        k, r = best_split(grammar, scores, i, j, bottom, chart)
        parse.rule[k] = r + 1
        stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = i, k - 1, grammar.first[r]
        stack[waiting + 1, 0], stack[waiting + 1, 1], stack[waiting + 1, 2] = k, j, grammar.second[r]
        waiting += 2


@njit(cache=True, nogil=True, borrowed=True)
def trace_word(grammar: GrammarArrays, scores: ParseScores, t: int, top: int, parse: Parse) -> None:
    """Write the tag of a word, and the chain above it, below a symbol."""
    best = -np.inf
    if scores.span[t, t, 0] > -np.inf:
        for tag in range(len(grammar.tag_symbol)):
            if grammar.tag_symbol[tag] == top and scores.tag[t, tag] > best:
                best, parse.tag[t] = scores.tag[t, tag], tag
    for p in range(len(grammar.pair_chain)):
        if grammar.chain_top[grammar.pair_chain[p]] == top:
            value = pair_score(grammar, scores, t, p)
            if value > best:
                best, parse.tag[t], parse.span[t, t] = value, grammar.pair_tag[p], grammar.pair_chain[p] + 1


@njit(cache=True, nogil=True, borrowed=True)
def trace_chain(
    grammar: GrammarArrays, scores: ParseScores, i: int, j: int, top: int, chart: Chart, parse: Parse
) -> int:
    """Write the chain of a span below a symbol; return its lowest symbol.

    Parameters
    ----------
    grammar, scores, chart, parse
        As for :func:`trace_parse`.
    i, j, top : int
        The span and the symbol.
    """
    if grammar.is_part[top]:
        return top
    best, chosen, below = -np.inf, 0, chart.below[span_at(i, j, len(scores.tag))]
    for c in range(len(grammar.chain_top)):
        if grammar.chain_top[c] == top:
            value = below[grammar.chain_bottom[c]] + gain(scores, i, j, c)
            if value > best:
                best, chosen = value, c
    parse.span[i, j] = chosen + 1
    return grammar.chain_bottom[chosen]


@njit(cache=True, nogil=True, borrowed=True)
def best_split(
    grammar: GrammarArrays, scores: ParseScores, i: int, j: int, symbol: int, chart: Chart
) -> tuple[int, int]:
    """Return where the second child of a phrase begins, and its rule."""
    n, best, place, chosen = len(scores.tag), -np.inf, i + 1, 0
    for k in range(i + 1, j + 1):
        left, right = chart.above[span_at(i, k - 1, n)], chart.above[span_at(k, j, n)]
        rule = scores.rule[scores.row[k]]
        for q in range(grammar.left_ptr[symbol], grammar.left_ptr[symbol + 1]):
            r = grammar.by_left[q]
            value = left[grammar.first[r]] + right[grammar.second[r]] + rule[r]
            if value > best:
                best, place, chosen = value, k, r
    return place, chosen


# -- The best parse where rules score the same at every word: divisions of a span first, its rules then --------------
#
# With ``score[r]`` for the score of the rule r, A -> B C ::
#
#     below[A] = max_{r: A -> B C} score[r] + pair[B, C] ,    pair[B, C] = max_k above[i, k - 1, B] + above[k, j, C]
#
# as :mod:`ssvm_backends.structures.constituency.paired_sums` does it with sums: a division costs a look at each pair of
# children, not at each rule.  The way back through the chart is that of every other one.


@njit(cache=True, nogil=True)
def fill_best(grammar: GrammarArrays, paired: PairedRules, scores: ParseScores, chart: Chart) -> float:
    """Write the tables of a sentence of at least one word; return the score of its best parse, ``-inf`` without one.

    Parameters
    ----------
    grammar, paired : GrammarArrays, PairedRules
    scores : ParseScores
        With one row of scores of rules.
    chart : Chart
        Of as many words; written.
    """
    n, total = len(scores.tag), -np.inf
    base = block_crossing(scores, chart)
    for t in range(n):
        fill_word(grammar, scores, False, t, chart)
    pairs, rule = np.empty(len(paired.second)), scores.rule[0][grammar.by_left]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j, at = i + length - 1, span_at(i, i + length - 1, n)
            chart.below[at, :], chart.above[at, :] = -np.inf, -np.inf
            if not chart.blocked[at]:
                raise_pairs(paired, pairs, i, j, n, chart)
                raise_rules(grammar, paired, pairs, rule, chart.below[at])
            fill_chains(grammar, scores, False, i, j, chart)
    whole = chart.above[span_at(0, n - 1, n)]
    for s in range(len(whole)):
        if grammar.is_start[s]:
            total = max(total, whole[s])
    return total + base


@njit(cache=True, nogil=True, borrowed=True)
def raise_pairs(paired: PairedRules, pairs: F64, i: int, j: int, n: int, chart: Chart) -> None:
    """Write the best scores of pairs of children over the divisions of the span i..j of n words.

    Parameters
    ----------
    paired : PairedRules
    pairs : ndarray of float64, shape (P,)
        Written.
    i, j, n : int
    chart : Chart
    """
    for p in range(len(pairs)):
        pairs[p] = -np.inf
    for k in range(i + 1, j + 1):
        left, right = chart.above[span_at(i, k - 1, n)], chart.above[span_at(k, j, n)]
        raise_sort(paired, pairs, left, right, SEVERAL_SEVERAL)
        if k == i + 1:
            raise_sort(paired, pairs, left, right, WORD_SEVERAL)
        if k == j:
            raise_sort(paired, pairs, left, right, SEVERAL_WORD)
        if k == i + 1 == j:
            raise_sort(paired, pairs, left, right, WORD_WORD)


@njit(cache=True, nogil=True, borrowed=True)
def raise_sort(paired: PairedRules, pairs: F64, left: F64, right: F64, sort: int) -> None:
    """Raise the scores of the pairs of one sort to those of two children.

    Parameters
    ----------
    paired, pairs
        As for :func:`raise_pairs`.
    left, right : ndarray of float64, shape (S,)
        The tables of the children.
    sort : int
        As of ``PairedRules.block``.
    """
    for q in range(paired.block[sort], paired.block[sort + 1]):
        value = left[paired.first[q]]
        if value > -np.inf:
            for p in range(paired.ptr[q], paired.ptr[q + 1]):
                pairs[p] = max(pairs[p], value + right[paired.second[p]])


@njit(cache=True, nogil=True, borrowed=True)
def raise_rules(grammar: GrammarArrays, paired: PairedRules, pairs: F64, rule: F64, below: F64) -> None:
    """Write the best scores below the symbols of a span from those of pairs.

    Parameters
    ----------
    grammar, paired, pairs
        As for :func:`raise_pairs`.
    rule : ndarray of float64, shape (R,)
        Scores of rules, in the order of ``by_left``.
    below : ndarray of float64, shape (S,)
        Written.
    """
    for s in range(len(below)):
        best = -np.inf
        for q in range(grammar.left_ptr[s], grammar.left_ptr[s + 1]):
            best = max(best, rule[q] + pairs[paired.place[q]])
        below[s] = best
