r"""Sums over all parses in scaled exponentials: no exponential and no logarithm in the inner loop.

The recursion of :mod:`ssvm_backends.structures.constituency.chart` and its reverse sweep, where the table of a span
holds ``exp(score - shift)`` with one shift for the span.  It takes .53 of the time of sums of logarithms with the
grammar of the WSJ sample, and about .4 with random grammars.  Where the scores of one span differ by so much that a
term would lose digits, the answer is nan, and the caller takes the recursion in logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.constituency.chart import (
    Chart,
    ParseScores,
    block_crossing,
    empty_chart,
    fill_word,
    gain,
    note_active,
    span_at,
)
from ssvm_backends.structures.constituency.sum_parses import ParseShares, Passed, largest, share_no_phrase, spread_word
from ssvm_dsl.ir import F64, GrammarArrays
from ssvm_dsl.kernels import njit

#: A smaller term may have lost digits; a smaller probability of a span changes no sum of probabilities.
TINY, UNLIKELY = 1e-290, 1e-30


class ScaledChart(NamedTuple):
    """The tables of the recursion in scaled exponentials, n_spans spans and S symbols.

    Parameters
    ----------
    chart : Chart
        ``above`` and ``below`` are ``exp(score - shift)``, 0 where there is no parse.
    top, bottom : ndarray of float64, shape (n_spans,)
        The shifts of ``above`` and of ``below``; ``-inf`` where there is no parse.
    rule : ndarray of float64, shape (G, R)
        ``exp(score - shift)`` of the rules in each row of scores.
    rule_shift : ndarray of float64, shape (G,)
    """

    chart: Chart
    top: F64
    bottom: F64
    rule: F64
    rule_shift: F64


@njit(cache=True, nogil=True)
def fill_scaled(grammar: GrammarArrays, scores: ParseScores) -> tuple[ScaledChart, float]:
    """Return the tables of a sentence of at least one word and log Z.

    It is ``-inf`` without a parse, and nan where a term would lose digits; the tables are not complete then.
    """
    n, (scaled, base) = len(scores.tag), begin_chart(grammar, scores)
    if np.isnan(base):
        return scaled, base
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            if not scale_span(grammar, scores, i, i + length - 1, scaled):
                return scaled, np.nan
    return scaled, base + log_total(grammar, scaled, n)


@njit(cache=True, nogil=True)
def begin_chart(grammar: GrammarArrays, scores: ParseScores) -> tuple[ScaledChart, float]:
    """Return tables with the spans of single words, and what every parse scores; nan where a term would lose digits."""
    n = len(scores.tag)
    chart, size = empty_chart(n, len(grammar.is_part)), n * (n + 1) // 2
    scaled = ScaledChart(chart, np.empty(size), np.empty(size), np.empty_like(scores.rule), np.zeros(len(scores.rule)))
    base = block_crossing(scores, chart)
    for g in range(len(scores.rule)):
        scaled.rule_shift[g] = scale(scores.rule[g], scaled.rule[g])
        if not in_range(scores.rule[g], scaled.rule[g]):
            return scaled, np.nan
    for t in range(n):
        if not scale_word(grammar, scores, t, scaled):
            return scaled, np.nan
    return scaled, base


@njit(cache=True, nogil=True, borrowed=True)
def log_total(grammar: GrammarArrays, scaled: ScaledChart, n: int) -> float:
    """Return the log sum over the parses of n words; ``-inf`` without a parse."""
    whole, total = span_at(0, n - 1, n), 0.0
    for s in range(len(grammar.is_start)):
        if grammar.is_start[s]:
            total += scaled.chart.above[whole, s]
    return scaled.top[whole] + np.log(total) if total > 0.0 else -np.inf


@njit(cache=True, nogil=True)
def begin_shares(grammar: GrammarArrays, scaled: ScaledChart, n: int) -> Passed:
    """Return the probabilities of the symbols of the span of all n words, which has a parse."""
    n_symbols, whole, total = len(grammar.is_part), span_at(0, n - 1, n), 0.0
    passed = Passed(np.zeros((len(scaled.chart.above), n_symbols)), np.zeros(n_symbols))
    for s in range(n_symbols):
        if grammar.is_start[s]:
            passed.above[whole, s] = scaled.chart.above[whole, s]
            total += passed.above[whole, s]
    passed.above[whole] /= total
    return passed


@njit(cache=True, nogil=True, borrowed=True)
def begin_span(scores: ParseScores, scaled: ScaledChart, i: int, j: int) -> bool:
    """Clear the tables of the span i..j, i < j, and write the shift of its products; return whether it has any."""
    chart, at = scaled.chart, span_at(i, j, len(scores.tag))
    chart.below[at, :], chart.above[at, :] = 0.0, 0.0
    scaled.top[at], scaled.bottom[at] = -np.inf, -np.inf
    if not chart.blocked[at]:
        for k in range(i + 1, j + 1):
            scaled.bottom[at] = max(scaled.bottom[at], split_shift(scores, scaled, i, j, k))
    return scaled.bottom[at] > -np.inf


@njit(cache=True, nogil=True, borrowed=True)
def scale(scores: F64, out: F64) -> float:
    """Write ``exp(scores - shift)`` and return the shift, the largest score (``-inf`` where all are ``-inf``).

    Parameters
    ----------
    scores, out : ndarray of float64, shape (m,)
        ``out`` is written.
    """
    high = -np.inf
    for s in range(len(scores)):
        high = max(high, scores[s])
    for s in range(len(scores)):
        out[s] = np.exp(scores[s] - high) if scores[s] > -np.inf else 0.0
    return high


@njit(cache=True, nogil=True, borrowed=True)
def in_range(scores: F64, scaled: F64) -> bool:
    """Return whether each finite score has an exponential of at least ``TINY``; both of ``shape (m,)``."""
    least = np.inf
    for s in range(len(scores)):
        if scores[s] > -np.inf:
            least = min(least, scaled[s])
    return least >= TINY


@njit(cache=True, nogil=True)
def scale_word(grammar: GrammarArrays, scores: ParseScores, t: int, scaled: ScaledChart) -> bool:
    """Write the tables of the span of one word; return whether no term is too small."""
    chart, at = scaled.chart, span_at(t, t, len(scores.tag))
    fill_word(grammar, scores, True, t, chart)
    logs = chart.above[at].copy()
    scaled.top[at], scaled.bottom[at], chart.below[at, :] = scale(logs, chart.above[at]), -np.inf, 0.0
    return in_range(logs, chart.above[at])


@njit(cache=True, nogil=True, borrowed=True)
def scale_span(grammar: GrammarArrays, scores: ParseScores, i: int, j: int, scaled: ScaledChart) -> bool:
    """Write the tables of the span i..j, i < j, after all shorter ones; return whether no term is too small."""
    chart, at = scaled.chart, span_at(i, j, len(scores.tag))
    if begin_span(scores, scaled, i, j):
        for k in range(i + 1, j + 1):
            if not sum_splits(grammar, scores, i, j, k, scaled):
                return False
        scaled.bottom[at] += rescale(chart.below[at])
        if not sum_chains(grammar, scores, i, j, scaled):
            return False
    note_active(chart, at, 0.0)
    return True


@njit(cache=True, nogil=True, borrowed=True, inline="always")
def split_shift(scores: ParseScores, scaled: ScaledChart, i: int, j: int, k: int) -> float:
    """Return the shift of products of two children of the span i..j, the second of which begins at k."""
    n = len(scores.tag)
    return scaled.top[span_at(i, k - 1, n)] + scaled.top[span_at(k, j, n)] + scaled.rule_shift[scores.row[k]]


@njit(cache=True, nogil=True, borrowed=True)
def rescale(values: F64) -> float:
    """Divide by the largest value and return its logarithm; ``-inf`` where all are 0."""
    high = largest(values)
    if high == 0.0:
        return -np.inf
    for s in range(len(values)):
        values[s] /= high
    return np.log(high)


@njit(cache=True, nogil=True, borrowed=True)
def sum_splits(grammar: GrammarArrays, scores: ParseScores, i: int, j: int, k: int, scaled: ScaledChart) -> bool:
    """Add phrases whose second child begins at k; return whether no term is too small.

    Parameters
    ----------
    grammar, scores
        As for :func:`fill_scaled`.
    i, j, k : int
        The span, and the begin of the second child.
    scaled : ScaledChart
        ``chart.below`` of the span is added to.
    """
    n, chart = len(scores.tag), scaled.chart
    at, left, right = span_at(i, j, n), span_at(i, k - 1, n), span_at(k, j, n)
    if not (chart.n_active[left] and chart.n_active[right]):
        return True
    factor = np.exp(split_shift(scores, scaled, i, j, k) - scaled.bottom[at])
    below, second, rule, least = chart.below[at], chart.above[right], scaled.rule[scores.row[k]], np.inf
    for a in range(chart.n_active[left]):
        s = chart.active[left, a]
        value = chart.above[left, s] * factor
        for r in range(grammar.first_ptr[s], grammar.first_ptr[s + 1]):
            other, weight = second[grammar.second[r]], rule[r]
            if other > 0.0 and weight > 0.0:
                term = value * other * weight
                least = min(least, term)
                below[grammar.left[r]] += term
    return least >= TINY


@njit(cache=True, nogil=True, borrowed=True)
def sum_chains(grammar: GrammarArrays, scores: ParseScores, i: int, j: int, scaled: ScaledChart) -> bool:
    """Write the table of a span from that of the symbols that divide it; return whether no term is too small."""
    chart, at = scaled.chart, span_at(i, j, len(scores.tag))
    below, above, least = chart.below[at], chart.above[at], np.inf
    parts = scores.span[i, j, 0] > -np.inf
    high = 0.0 if parts else -np.inf
    for c in range(len(grammar.chain_top)):
        if below[grammar.chain_bottom[c]] > 0.0:
            high = max(high, gain(scores, i, j, c))
    if parts:
        factor = np.exp(-high)
        for s in range(len(below)):
            if grammar.is_part[s] and below[s] > 0.0:
                above[s] = below[s] * factor
                least = min(least, above[s])
    for c in range(len(grammar.chain_top)):
        value = gain(scores, i, j, c)
        if below[grammar.chain_bottom[c]] > 0.0 and value > -np.inf:
            term = below[grammar.chain_bottom[c]] * np.exp(value - high)
            least = min(least, term)
            above[grammar.chain_top[c]] += term
    scaled.top[at] = scaled.bottom[at] + high + rescale(above)
    return least >= TINY


@njit(cache=True, nogil=True)
def spread_scaled(grammar: GrammarArrays, scores: ParseScores, scaled: ScaledChart, shares: ParseShares) -> None:
    """Add how likely each part of a parse is; the sentence has a parse.

    Parameters
    ----------
    grammar, scores : GrammarArrays, ParseScores
    scaled : ScaledChart
        As :func:`fill_scaled` returned it.
    shares : ParseShares
        Zeros; written.
    """
    n, chart, n_symbols = len(scores.tag), scaled.chart, len(grammar.is_part)
    passed = begin_shares(grammar, scaled, n)
    above, below = passed.above, passed.below
    for length in range(n, 1, -1):
        for i in range(n - length + 1):
            j = i + length - 1
            at = span_at(i, j, n)
            if largest(above[at]) < UNLIKELY:
                continue
            spread_chains(grammar, scores, scaled, shares, passed, i, j)
            for s in range(n_symbols):
                below[s] = below[s] / chart.below[at, s] if below[s] > UNLIKELY else 0.0
            for k in range(i + 1, j + 1):
                spread_splits(grammar, scores, scaled, shares, passed, i, j, k)
    spread_words(grammar, scores, scaled, shares, passed)


@njit(cache=True, nogil=True)
def spread_words(
    grammar: GrammarArrays, scores: ParseScores, scaled: ScaledChart, shares: ParseShares, passed: Passed
) -> None:
    """Pass the probabilities of the symbols above words on, and write how likely spans are no phrases.

    Parameters
    ----------
    grammar, scores, scaled, shares
        As for :func:`spread_scaled`.
    passed : Passed
        ``above`` is known of all spans.
    """
    n, above = len(scores.tag), scaled.chart.above
    for t in range(n):
        at = span_at(t, t, n)
        logs = above[at].copy()
        for s in range(len(logs)):
            logs[s] = np.log(logs[s]) + scaled.top[at] if logs[s] > 0.0 else -np.inf
        spread_word(grammar, scores, logs, shares, passed.above[at], t)
    share_no_phrase(shares)


@njit(cache=True, nogil=True, borrowed=True)
def spread_chains(
    grammar: GrammarArrays,
    scores: ParseScores,
    scaled: ScaledChart,
    shares: ParseShares,
    passed: Passed,
    i: int,
    j: int,
) -> None:
    """Pass the probabilities of the tops of chains over a span on to their lowest symbols.

    Parameters
    ----------
    grammar, scores, scaled, shares
        As for :func:`spread_scaled`.
    passed : Passed
        ``below`` is written.
    i, j : int
    """
    chart, at = scaled.chart, span_at(i, j, len(scores.tag))
    above, below = passed.above[at], passed.below
    below[:] = 0.0
    if scores.span[i, j, 0] > -np.inf:
        for s in range(len(below)):
            if grammar.is_part[s]:
                below[s] = above[s]
    shift = scaled.bottom[at] - scaled.top[at]
    for c in range(len(grammar.chain_top)):
        top, bottom = grammar.chain_top[c], grammar.chain_bottom[c]
        if above[top] > 0.0 and chart.below[at, bottom] > 0.0:
            weight = np.exp(gain(scores, i, j, c) + shift)
            share = above[top] / chart.above[at, top] * chart.below[at, bottom] * weight
            shares.span[i, j, c + 1] += share
            below[bottom] += share


@njit(cache=True, nogil=True, borrowed=True)
def spread_splits(
    grammar: GrammarArrays, scores: ParseScores, scaled: ScaledChart, shares: ParseShares, passed: Passed, i: int,
    j: int, k: int,
) -> None:  # fmt: skip
    """Pass probabilities on to phrases whose second child begins at k.

    Parameters
    ----------
    grammar, scores, scaled, shares
        As for :func:`spread_scaled`.
    passed : Passed
        ``above`` is added to for the children; ``below`` has the probabilities of the symbols that divide the span,
        over their entries of ``chart.below``.
    i, j, k : int
        The span, and the begin of the second child.
    """
    n, chart = len(scores.tag), scaled.chart
    at, left, right = span_at(i, j, n), span_at(i, k - 1, n), span_at(k, j, n)
    if not (chart.n_active[left] and chart.n_active[right]):
        return
    factor = np.exp(split_shift(scores, scaled, i, j, k) - scaled.bottom[at])
    second, rule, to_second = chart.above[right], scaled.rule[scores.row[k]], passed.above[right]
    counts = shares.rule[k]
    for a in range(chart.n_active[left]):
        s, total = chart.active[left, a], 0.0
        value = chart.above[left, s] * factor
        for r in range(grammar.first_ptr[s], grammar.first_ptr[s + 1]):
            up, other = passed.below[grammar.left[r]], second[grammar.second[r]]
            if up > 0.0 and other > 0.0:
                share = up * value * other * rule[r]
                counts[r] += share
                total += share
                to_second[grammar.second[r]] += share
        passed.above[left, s] += total
