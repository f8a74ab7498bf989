r"""Sums over all parses where rules score the same at every word: divisions of a span first, its rules then.

With ``weight[r]`` for the exponential of the score of the rule r, A -> B C, the sum of a span i..j is ::

    below[A] = sum_{r: A -> B C} weight[r] products[B, C] ,    products[B, C] = sum_k above[i, k - 1, B] above[k, j, C]

so that a division costs a product for each pair of children, not one for each rule.  Rules cost O(T^2 R).
Back, the derivatives by ``products`` are those of the rules, once for a span, and each division passes them on.  Sums
are those of :mod:`ssvm_backends.structures.constituency.scaled_sums`; rules are counted in the whole sentence.
Pairs with a symbol that has one word below matter at the ends of a span only.  Products are kept for the way back,
O(T^2 P) numbers for P pairs, where that is little: it saves a sixth of the time with the grammar of the WSJ sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.constituency.chart import (
    SEVERAL_SEVERAL,
    SEVERAL_WORD,
    WORD_SEVERAL,
    WORD_WORD,
    PairedRules,
    ParseScores,
    note_active,
    span_at,
)
from ssvm_backends.structures.constituency.scaled_sums import (
    TINY,
    UNLIKELY,
    ScaledChart,
    begin_chart,
    begin_shares,
    begin_span,
    log_total,
    rescale,
    split_shift,
    spread_chains,
    spread_words,
    sum_chains,
)
from ssvm_backends.structures.constituency.sum_parses import ParseShares, largest
from ssvm_dsl.ir import F64, GrammarArrays
from ssvm_dsl.kernels import njit

#: Numbers of products that are kept at most, 16 MiB; those of longer sentences and larger grammars are made again.
MOST_KEPT = 2**21


class PairedChart(NamedTuple):
    """The tables of a sentence, and what the kernels share.

    Parameters
    ----------
    scaled : ScaledChart
    least : ndarray of float64, shape (n_spans + 1,)
        The smallest entry of ``above`` that is not 0, 0 where there is none; last the smallest weight that is not 0.
    weight : ndarray of float64, shape (R,)
        Exponentials of the scores of rules, in the order of ``by_left``.
    products : ndarray of float64, shape (n_spans, P) or (1, P)
        Of each span that has any, for the way back to read again; of the span at hand where they are too many.
    factor : ndarray of float64, shape (n_spans, T)
        By which products count where the second child of a span begins at each word.
    largest : ndarray of float64, shape (n_spans,)
        By what the sums of each span were divided after they were made of its products.
    """

    scaled: ScaledChart
    least: F64
    weight: F64
    products: F64
    factor: F64
    largest: F64


@njit(cache=True, nogil=True)
def fill_paired(grammar: GrammarArrays, paired: PairedRules, scores: ParseScores) -> tuple[PairedChart, float]:
    """Return the tables of a sentence of at least one word and log Z; nan where a term might lose digits.

    Parameters
    ----------
    grammar, paired : GrammarArrays, PairedRules
    scores : ParseScores
        With one row of scores of rules.
    """
    n, (scaled, base) = len(scores.tag), begin_chart(grammar, scores)
    size = n * (n + 1) // 2
    kept = size if size * len(paired.second) <= MOST_KEPT else 1
    space = PairedChart(
        scaled, np.ones(size + 1), np.empty(len(paired.place)), np.empty((kept, len(paired.second))),
        np.empty((size, n)), np.empty(size),
    )  # fmt: skip
    if np.isnan(base):
        return space, base
    for q in range(len(space.weight)):
        space.weight[q] = scaled.rule[0, grammar.by_left[q]]
        if space.weight[q] > 0.0:
            space.least[size] = min(space.least[size], space.weight[q])
    for t in range(n):
        note_least(space, span_at(t, t, n))
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            if not fill_paired_span(grammar, paired, scores, space, i, i + length - 1):
                return space, np.nan
    return space, base + log_total(grammar, scaled, n)


@njit(cache=True, nogil=True, borrowed=True, inline="always")
def products_of(space: PairedChart, at: int) -> F64:
    """Return the products of a span, or where those of any one are."""
    return space.products[at if len(space.products) > 1 else 0]


@njit(cache=True, nogil=True, borrowed=True)
def note_least(space: PairedChart, at: int) -> None:
    """Write the smallest entry of a span that is not 0."""
    above, least = space.scaled.chart.above[at], np.inf
    for s in range(len(above)):
        if above[s] > 0.0:
            least = min(least, above[s])
    space.least[at] = least if least < np.inf else 0.0


@njit(cache=True, nogil=True, borrowed=True)
def fill_paired_span(
    grammar: GrammarArrays, paired: PairedRules, scores: ParseScores, space: PairedChart, i: int, j: int
) -> bool:
    """Write the tables of the span i..j, i < j, after all shorter ones; return whether no term is too small."""
    scaled, n = space.scaled, len(scores.tag)
    chart, at = scaled.chart, span_at(i, j, n)
    if begin_span(scores, scaled, i, j):
        if fill_split_factors(scores, space, i, j):
            return False
        multiply(paired, space, i, j, n)
        sum_rules(grammar, paired, space, at)
        space.largest[at] = largest(chart.below[at])
        scaled.bottom[at] += rescale(chart.below[at])
        if not sum_chains(grammar, scores, i, j, scaled):
            return False
    note_active(chart, at, 0.0)
    note_least(space, at)
    return True


@njit(cache=True, nogil=True, borrowed=True)
def fill_split_factors(scores: ParseScores, space: PairedChart, i: int, j: int) -> bool:
    """Write ``factor`` of the divisions of a span; return whether a product of its children's sums may underflow."""
    scaled, n, rule = space.scaled, len(scores.tag), space.least[-1]
    at = span_at(i, j, n)
    for k in range(i + 1, j + 1):
        left, right = space.least[span_at(i, k - 1, n)], space.least[span_at(k, j, n)]
        space.factor[at, k] = np.exp(split_shift(scores, scaled, i, j, k) - scaled.bottom[at])
        if left > 0.0 and right > 0.0 and not left * right * space.factor[at, k] * rule >= TINY:
            return True
    return False


@njit(cache=True, nogil=True, borrowed=True)
def multiply(paired: PairedRules, space: PairedChart, i: int, j: int, n: int) -> None:
    """Write the products of the tables of children, summed over the divisions of the span i..j.

    Parameters
    ----------
    paired, space
        As for :func:`fill_paired`; ``products`` is written.
    i, j, n : int
        The span, and the number of words.
    """
    out = products_of(space, span_at(i, j, n))
    for p in range(len(out)):
        out[p] = 0.0
    for k in range(i + 1, j + 1):
        add_products(paired, space, i, j, n, k, SEVERAL_SEVERAL)
    add_products(paired, space, i, j, n, i + 1, WORD_SEVERAL)
    add_products(paired, space, i, j, n, j, SEVERAL_WORD)
    if j == i + 1:
        add_products(paired, space, i, j, n, j, WORD_WORD)


@njit(cache=True, nogil=True, borrowed=True)
def add_products(paired: PairedRules, space: PairedChart, i: int, j: int, n: int, k: int, sort: int) -> None:
    """Add the products of pairs of one sort at one division.

    Parameters
    ----------
    paired, space, i, j, n
        As for :func:`multiply`.
    k : int
        Where the second child begins.
    sort : int
        The number of the sort, as of ``PairedRules.block``.
    """
    at, above = span_at(i, j, n), space.scaled.chart.above
    out, factor = products_of(space, at), space.factor[at, k]
    left, right = above[span_at(i, k - 1, n)], above[span_at(k, j, n)]
    for q in range(paired.block[sort], paired.block[sort + 1]):
        value = left[paired.first[q]] * factor
        if value > 0.0:
            for p in range(paired.ptr[q], paired.ptr[q + 1]):
                out[p] += value * right[paired.second[p]]


@njit(cache=True, nogil=True, borrowed=True)
def sum_rules(grammar: GrammarArrays, paired: PairedRules, space: PairedChart, at: int) -> None:
    """Write the sums below the symbols of a span from its products."""
    below, products = space.scaled.chart.below[at], products_of(space, at)
    for s in range(len(below)):
        even, odd, q, end = 0.0, 0.0, grammar.left_ptr[s], grammar.left_ptr[s + 1]
        while q + 1 < end:  # two accumulators, to break the dependency chain
            even += space.weight[q] * products[paired.place[q]]
            odd += space.weight[q + 1] * products[paired.place[q + 1]]
            q += 2
        if q < end:
            even += space.weight[q] * products[paired.place[q]]
        below[s] = even + odd


class Derivatives(NamedTuple):
    """Derivatives of log Z on the way down, and how often each rule is expected.

    Parameters
    ----------
    above : ndarray of float64, shape (n_spans, S)
        By the table of each span.
    products : ndarray of float64, shape (P,)
        By the products of the span at hand.
    rule : ndarray of float64, shape (R,)
        In the order of ``by_left``.
    """

    above: F64
    products: F64
    rule: F64


@njit(cache=True, nogil=True)
def spread_paired(
    grammar: GrammarArrays, paired: PairedRules, scores: ParseScores, space: PairedChart, shares: ParseShares
) -> None:
    """Add how likely each part of a parse is; the sentence has a parse.

    Parameters
    ----------
    grammar, paired, scores
        As for :func:`fill_paired`.
    space : PairedChart
        As it was returned.
    shares : ParseShares
        Zeros; written.  ``rule`` has one row, for the whole sentence.
    """
    n, n_symbols, scaled = len(scores.tag), len(grammar.is_part), space.scaled
    chart, passed = scaled.chart, begin_shares(grammar, scaled, n)
    by = Derivatives(np.zeros_like(passed.above), np.empty(len(paired.second)), np.zeros(len(paired.place)))
    for length in range(n, 0, -1):
        for i in range(n - length + 1):
            j, at = i + length - 1, span_at(i, i + length - 1, n)
            above, below = passed.above[at], passed.below
            for s in range(n_symbols):
                above[s] += by.above[at, s] * chart.above[at, s]
            if length > 1 and largest(above) >= UNLIKELY:
                spread_chains(grammar, scores, scaled, shares, passed, i, j)
                for s in range(n_symbols):
                    sums = chart.below[at, s] * space.largest[at]
                    below[s] = below[s] / sums if below[s] > UNLIKELY else 0.0
                if len(space.products) == 1:
                    multiply(paired, space, i, j, n)
                spread_rules(grammar, paired, space, at, below, by)
                divide(paired, space, by, i, j, n)
    for q in range(len(by.rule)):
        shares.rule[0, grammar.by_left[q]] = by.rule[q]
    spread_words(grammar, scores, scaled, shares, passed)


@njit(cache=True, nogil=True, borrowed=True)
def spread_rules(
    grammar: GrammarArrays, paired: PairedRules, space: PairedChart, at: int, below: F64, by: Derivatives
) -> None:
    """Count the rules of a span, and write the derivatives by its products.

    Parameters
    ----------
    grammar, paired, space
        As for :func:`spread_paired`.
    at : int
        The number of the span.
    below : ndarray of float64, shape (S,)
        Derivatives by the sums below symbols.
    by : Derivatives
        ``products`` is written, ``rule`` added to.
    """
    products, out = products_of(space, at), by.products
    for p in range(len(out)):
        out[p] = 0.0
    for s in range(len(below)):
        if below[s] > 0.0:
            for q in range(grammar.left_ptr[s], grammar.left_ptr[s + 1]):
                share = below[s] * space.weight[q]
                out[paired.place[q]] += share
                by.rule[q] += share * products[paired.place[q]]


@njit(cache=True, nogil=True, borrowed=True)
def divide(paired: PairedRules, space: PairedChart, by: Derivatives, i: int, j: int, n: int) -> None:
    """Pass the derivatives by the products of the span i..j on to the tables of its children.

    Parameters
    ----------
    paired, space
        As for :func:`spread_paired`.
    by : Derivatives
        ``above`` is added to.
    i, j, n : int
        The span, and the number of words.
    """
    for k in range(i + 1, j + 1):
        divide_at(paired, space, by, i, j, n, k, SEVERAL_SEVERAL)
    divide_at(paired, space, by, i, j, n, i + 1, WORD_SEVERAL)
    divide_at(paired, space, by, i, j, n, j, SEVERAL_WORD)
    if j == i + 1:
        divide_at(paired, space, by, i, j, n, j, WORD_WORD)


@njit(cache=True, nogil=True, borrowed=True)
def divide_at(
    paired: PairedRules, space: PairedChart, by: Derivatives, i: int, j: int, n: int, k: int, sort: int
) -> None:
    """Pass on what belongs to pairs of one sort at one division.

    Parameters
    ----------
    paired, space, by, i, j, n
        As for :func:`divide`.
    k : int
        Where the second child begins.
    sort : int
        The number of the sort, as of ``PairedRules.block``.
    """
    above, factor = space.scaled.chart.above, space.factor[span_at(i, j, n), k]
    one, other = span_at(i, k - 1, n), span_at(k, j, n)
    left, right = above[one], above[other]
    to_left, to_right = by.above[one], by.above[other]
    for q in range(paired.block[sort], paired.block[sort + 1]):
        value, total = left[paired.first[q]] * factor, 0.0
        if value > 0.0:
            for p in range(paired.ptr[q], paired.ptr[q + 1]):
                total += by.products[p] * right[paired.second[p]]
                to_right[paired.second[p]] += value * by.products[p]
            to_left[paired.first[q]] += factor * total
