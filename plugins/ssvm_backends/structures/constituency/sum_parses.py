r"""How likely each part of a parse is: the reverse sweep of the log partition (inside and outside).

The probability of an item is the derivative of log Z by its score.  Each sum passes its own on to its terms, in
proportion to their exponentials; the items of longer spans come first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.constituency.chart import Chart, ParseScores, gain, pair_score, span_at
from ssvm_dsl.ir import F64, GrammarArrays
from ssvm_dsl.kernels import njit


class ParseShares(NamedTuple):
    """Probabilities of the parts of parses, in the places of :class:`ParseScores`; all added to.

    Parameters
    ----------
    tag : ndarray of float64, shape (T, L)
    span : ndarray of float64, shape (T, T, K + 1)
    rule : ndarray of float64, shape (T, R)
        Of phrases whose second child begins at each word.
    """

    tag: F64
    span: F64
    rule: F64


class Passed(NamedTuple):
    """Probabilities on the way down.

    Parameters
    ----------
    above : ndarray of float64, shape (n_spans, S)
        Of the symbols at the tops of spans.
    below : ndarray of float64, shape (S,)
        Of the symbols that divide the span at hand.
    """

    above: F64
    below: F64


@njit(cache=True, nogil=True)
def spread_shares(grammar: GrammarArrays, scores: ParseScores, chart: Chart, shares: ParseShares) -> None:
    """Add how likely each part of a parse is; the sentence has a parse.

    Parameters
    ----------
    grammar, scores : GrammarArrays, ParseScores
    chart : Chart
        As :func:`~ssvm_backends.structures.constituency.chart.fill_chart` wrote it, soft.
    shares : ParseShares
        Zeros; written.
    """
    n, n_symbols = len(scores.tag), len(grammar.is_part)
    above = np.zeros((len(chart.above), n_symbols))
    passed = Passed(above, np.zeros(n_symbols))
    whole, high = span_at(0, n - 1, n), -np.inf
    for s in range(n_symbols):
        if grammar.is_start[s]:
            high = max(high, chart.above[whole, s])
    total = 0.0
    for s in range(n_symbols):
        if grammar.is_start[s]:
            above[whole, s] = np.exp(chart.above[whole, s] - high)
            total += above[whole, s]
    above[whole] /= total
    for length in range(n, 1, -1):
        for i in range(n - length + 1):
            spread_span(grammar, scores, chart, shares, passed, i, i + length - 1)
    for t in range(n):
        at = span_at(t, t, n)
        spread_word(grammar, scores, chart.above[at], shares, above[at], t)
    share_no_phrase(shares)


@njit(cache=True, nogil=True, borrowed=True)
def share_no_phrase(shares: ParseShares) -> None:
    """Write how likely spans are no phrases."""
    n = len(shares.tag)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for c in range(1, shares.span.shape[2]):
                total += shares.span[i, j, c]
            shares.span[i, j, 0] = max(0.0, 1.0 - total)


@njit(cache=True, nogil=True, borrowed=True)
def largest(values: F64) -> float:
    """Return the largest of some numbers of at least 0."""
    high = 0.0
    for s in range(len(values)):
        high = max(high, values[s])
    return high


@njit(cache=True, nogil=True, borrowed=True)
def spread_span(
    grammar: GrammarArrays, scores: ParseScores, chart: Chart, shares: ParseShares, passed: Passed, i: int, j: int
) -> None:
    """Pass the probabilities of the symbols of a span on to its chains, rules and children.

    Parameters
    ----------
    grammar, scores, chart, shares
        As for :func:`spread_shares`.
    passed : Passed
        Added to for the children.
    i, j : int
        The span; i < j.
    """
    at, above, below = span_at(i, j, len(scores.tag)), passed.above, passed.below
    below[:] = 0.0
    if largest(above[at]) == 0.0:
        return
    if scores.span[i, j, 0] > -np.inf:
        for s in range(len(below)):
            if grammar.is_part[s]:
                below[s] = above[at, s]
    for c in range(len(grammar.chain_top)):
        top, bottom = grammar.chain_top[c], grammar.chain_bottom[c]
        if above[at, top] > 0.0 and chart.below[at, bottom] > -np.inf:
            value = chart.below[at, bottom] + gain(scores, i, j, c)
            share = above[at, top] * np.exp(value - chart.above[at, top])
            shares.span[i, j, c + 1] += share
            below[bottom] += share
    for k in range(i + 1, j + 1):
        spread_split(grammar, scores, chart, shares, passed, at, i, k)


@njit(cache=True, nogil=True, borrowed=True, inline="always")
def spread_split(
    grammar: GrammarArrays, scores: ParseScores, chart: Chart, shares: ParseShares, passed: Passed, at: int, i: int,
    k: int,
) -> None:  # fmt: skip
    """Pass probabilities on to phrases of a span whose second child begins at k.

    Parameters
    ----------
    grammar, scores, chart, shares, passed
        As for :func:`spread_span`.
    at : int
        The number of the span.
    i, k : int
        Where it begins, and its second child.
    """
    n, above, below = len(scores.tag), passed.above, passed.below
    j = i + at - span_at(i, i, n)
    left, right = span_at(i, k - 1, n), span_at(k, j, n)
    second, rule = chart.above[right], scores.rule[scores.row[k]]
    counts = shares.rule[k]
    for a in range(chart.n_active[left] if chart.n_active[right] else 0):
        s = chart.active[left, a]
        value = chart.above[left, s]
        for r in range(grammar.first_ptr[s], grammar.first_ptr[s + 1]):
            parent, other = grammar.left[r], grammar.second[r]
            if below[parent] > 0.0 and second[other] > -np.inf:
                share = below[parent] * np.exp(value + second[other] + rule[r] - chart.below[at, parent])
                counts[r] += share
                above[left, s] += share
                above[right, other] += share


@njit(cache=True, nogil=True, borrowed=True)
def spread_word(
    grammar: GrammarArrays, scores: ParseScores, best: F64, shares: ParseShares, above: F64, t: int
) -> None:
    """Pass the probabilities of the symbols above a word on to its tags and chains.

    Parameters
    ----------
    grammar, scores, shares
        As for :func:`spread_shares`.
    best, above : ndarray of float64, shape (S,)
        Log sums over the subtrees of each symbol, and its probability.
    t : int
        The word.
    """
    if scores.span[t, t, 0] > -np.inf:
        for tag in range(len(grammar.tag_symbol)):
            s = grammar.tag_symbol[tag]
            if above[s] > 0.0:
                shares.tag[t, tag] += above[s] * np.exp(scores.tag[t, tag] - best[s])
    for p in range(len(grammar.pair_chain)):
        top = grammar.chain_top[grammar.pair_chain[p]]
        if above[top] > 0.0:
            share = above[top] * np.exp(pair_score(grammar, scores, t, p) - best[top])
            shares.tag[t, grammar.pair_tag[p]] += share
            shares.span[t, t, grammar.pair_chain[p] + 1] += share
