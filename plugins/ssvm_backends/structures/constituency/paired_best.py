"""The best parse where rules score the same at every word: divisions of a span first, its rules then.

With ``score[r]`` for the score of the rule r, A -> B C ::

    below[A] = max_{r: A -> B C} score[r] + pair[B, C] ,    pair[B, C] = max_k above[i, k - 1, B] + above[k, j, C]

as :mod:`ssvm_backends.structures.constituency.paired_sums` does it with sums: a division costs a look at each pair of
children, not at each rule.  The way back through the chart is that of every other one.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.constituency.chart import (
    Chart,
    ParseScores,
    block_crossing,
    fill_chains,
    fill_word,
    span_at,
)
from ssvm_backends.structures.constituency.paired_rules import (
    SEVERAL_SEVERAL,
    SEVERAL_WORD,
    WORD_SEVERAL,
    WORD_WORD,
    PairedRules,
)
from ssvm_dsl.ir import F64, GrammarArrays
from ssvm_dsl.kernels import njit


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
