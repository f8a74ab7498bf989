"""Kernels of parsing against all parses of short sentences, finite differences, and published counts."""

from __future__ import annotations

import numpy as np
import pytest
from parses_by_hand import parses, worth

from ssvm_backends.structures.constituency.chart import ParseScores, empty_chart, fill_chart, paired_rules
from ssvm_backends.structures.constituency.paired_sums import fill_paired, spread_paired
from ssvm_backends.structures.constituency.scaled_sums import fill_scaled, spread_scaled
from ssvm_backends.structures.constituency.sentence import Parse, fill_best, trace_parse
from ssvm_backends.structures.constituency.sum_parses import ParseShares, spread_shares
from ssvm_dsl import Grammar
from ssvm_dsl.ir import GrammarArrays
from ssvm_dsl.lang.grammars.grammar import grammar_numbers

SMALL = Grammar(
    [("S", "AB"), ("S", "SS"), ("A", "a"), ("A", "AB"), ("B", "b"), ("B", "A"), ("B", "aSb"), ("S", "A"), ("A", "Ca")],
    start=["S", "A"], tags="abC",
)  # fmt: skip


def numbers(grammar):
    return GrammarArrays(**grammar_numbers(grammar))


def drawn(grammar, n, rng, per_gap=True):
    """Random scores of a sentence."""
    rules = rng.normal(size=(n if per_gap else 1, len(grammar.binary)))
    row = np.arange(n) if per_gap else np.zeros(n, dtype=np.int64)
    tag, span = rng.normal(size=(n, len(grammar.tags))), rng.normal(size=(n, n, len(grammar.chains) + 1))
    return ParseScores(tag, span, rules, row, np.zeros(0))


def asked(grammar, scores, soft):
    chart = empty_chart(len(scores.tag), len(grammar.symbols))
    return fill_chart(numbers(grammar), scores, soft, chart), chart


def best(grammar, scores):
    value, chart = asked(grammar, scores, soft=False)
    n = len(scores.tag)
    parse = Parse(np.zeros(n, np.int32), np.zeros((n, n), np.int32), np.zeros(n, np.int32))
    if value > -np.inf:
        trace_parse(numbers(grammar), scores, chart, parse)
    return value, parse


def total(scores, parse):
    """The score of a parse as arrays."""
    n = len(scores.tag)
    found = sum(scores.tag[t, parse.tag[t]] for t in range(n))
    found += sum(scores.span[i, j, parse.span[i, j]] for i in range(n) for j in range(n))
    return found + sum(scores.rule[scores.row[t], parse.rule[t] - 1] for t in range(1, n))


@pytest.mark.parametrize("n", range(1, 6))
def test_all_parses(n):
    rng = np.random.default_rng(n)
    scores = drawn(SMALL, n, rng)
    every = list(parses(SMALL, n))
    worths = np.array([worth(SMALL, one, scores.tag, scores.span, scores.rule) for one in every])
    value, parse = best(SMALL, scores)
    assert value == pytest.approx(worths.max())
    assert total(scores, parse) == pytest.approx(worths.max())
    assert asked(SMALL, scores, soft=True)[0] == pytest.approx(np.logaddexp.reduce(worths))
    tags = sum(SMALL.n_parses("x" * n, one) for one in np.ndindex(*[3] * n) for one in [[SMALL.tags[k] for k in one]])
    assert tags == len(every)


def test_masks_and_known_phrases():
    rng = np.random.default_rng(3)
    for _ in range(40):
        scores = drawn(SMALL, 4, rng, per_gap=False)
        scores.span[rng.random(scores.span.shape) < 0.15] = -np.inf
        scores.tag[rng.random(scores.tag.shape) < 0.2] = -np.inf
        wide = np.repeat(scores.rule, 4, axis=0)
        worths = np.array([worth(SMALL, one, scores.tag, scores.span, wide) for one in parses(SMALL, 4)])
        value, parse = best(SMALL, scores)
        assert value == pytest.approx(worths.max())
        assert asked(SMALL, scores, soft=True)[0] == pytest.approx(np.logaddexp.reduce(worths))
        if value > -np.inf:
            assert total(scores, parse) == pytest.approx(value)
        given, chart = numbers(SMALL), empty_chart(4, len(SMALL.symbols))
        assert fill_best(given, paired_rules(given), scores, chart) == pytest.approx(value, rel=1e-13)


def test_shares_are_the_derivatives_of_log_z():
    rng = np.random.default_rng(0)
    n, step = 5, 1e-5
    scores = drawn(SMALL, n, rng)
    _, chart = asked(SMALL, scores, soft=True)
    shares = ParseShares(*(np.zeros(one.shape) for one in scores[:3]))
    spread_shares(numbers(SMALL), scores, chart, shares)
    for array, share in zip(scores[:3], shares, strict=True):
        for k in rng.choice(array.size, 20):
            at = np.unravel_index(k, array.shape)
            ends = []
            for move in (step, -step):
                array[at] += move
                ends.append(asked(SMALL, scores, soft=True)[0])
                array[at] -= move
            assert share[at] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


def summed(grammar, scores):
    """Log Z and shares in scaled exponentials."""
    shares = ParseShares(
        *(np.zeros(one.shape) for one in (*scores[:2], np.zeros((len(scores.tag), scores.rule.shape[1]))))
    )
    chart, total = fill_scaled(numbers(grammar), scores)
    if np.isfinite(total):
        spread_scaled(numbers(grammar), scores, chart, shares)
    return total, shares


def paired(grammar, scores):
    """Log Z and shares by pairs of children; rules score the same everywhere."""
    given, pairs = numbers(grammar), paired_rules(numbers(grammar))
    space, total = fill_paired(given, pairs, scores)
    shares = ParseShares(*(np.zeros(one.shape) for one in scores[:3]))
    if np.isfinite(total):
        spread_paired(given, pairs, scores, space, shares)
        if len(scores.tag) > 1:  # as where the products are too many to be kept
            again = ParseShares(*(np.zeros(one.shape) for one in scores[:3]))
            spread_paired(given, pairs, scores, space._replace(products=space.products[:1].copy()), again)
            for one, other in zip(again, shares, strict=True):
                np.testing.assert_array_equal(one, other)
    return total, shares


@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0])
def test_scaled_sums_are_those_of_logarithms(size):
    rng = np.random.default_rng(7)
    for n in range(1, 7):
        scores = drawn(SMALL, n, rng, per_gap=bool(n % 2))
        for one in scores[:3]:
            one *= size
            one[rng.random(one.shape) < 0.1] = -np.inf
        scores.tag[:] += 1e5 * rng.normal(size=(n, 1))  # a shift of a word changes nothing
        total, found = summed(SMALL, scores)
        value, chart = asked(SMALL, scores, soft=True)
        shares = ParseShares(*(np.zeros(one.shape) for one in found))
        assert total == pytest.approx(value, rel=1e-13)
        if value > -np.inf:
            spread_shares(numbers(SMALL), scores, chart, shares)
            for one, other in zip(found, shares, strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
        if n % 2 == 0:
            log_z, again = paired(SMALL, scores)
            assert log_z == pytest.approx(value, rel=1e-13)
            if value > -np.inf:
                for one, other in zip(again, (*shares[:2], shares.rule.sum(axis=0)[None]), strict=True):
                    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_scores_that_lie_too_far_apart_are_left_to_logarithms():
    rng = np.random.default_rng(8)
    for place in range(3):
        for method in (summed, paired):
            scores = drawn(SMALL, 4, rng, per_gap=method is summed)
            scores[place][:] *= 1e3
            total, _ = method(SMALL, scores)
            value = asked(SMALL, scores, soft=True)[0]
            assert np.isnan(total) or total == pytest.approx(value, rel=1e-13)
    scores = drawn(SMALL, 1, rng)
    scores.tag[0, 0] = 1e6
    assert np.isnan(summed(SMALL, scores)[0])


def test_huge_and_tiny_scores():
    rng = np.random.default_rng(5)
    for size in (1e6, 1e-9):
        scores = drawn(SMALL, 5, rng)
        for one in scores[:3]:
            one *= size
        worths = np.array([worth(SMALL, one, scores.tag, scores.span, scores.rule) for one in parses(SMALL, 5)])
        assert best(SMALL, scores)[0] == pytest.approx(worths.max(), rel=1e-9)
        assert asked(SMALL, scores, soft=True)[0] == pytest.approx(np.logaddexp.reduce(worths), rel=1e-9)


def test_no_words_have_no_parse():
    assert asked(SMALL, drawn(SMALL, 0, np.random.default_rng(0)), soft=False)[0] == -np.inf


def test_published_counts(data_dir):
    from ssvm_dsl.datasets import load_atis_grammar

    atis = load_atis_grammar()
    grammar = atis.grammar
    assert [grammar.n_parses(words) for words in atis.sentences] == atis.n_parses
    place = {tag: k for k, tag in enumerate(grammar.tags)}
    for words, n_parses in list(zip(atis.sentences, atis.n_parses, strict=True))[:12]:
        n = len(words)
        tag = np.full((n, len(place)), -np.inf)
        for t, allowed in enumerate(grammar.allowed_tags(words)):
            tag[t, [place[one] for one in allowed]] = 0.0
        span, rule = np.zeros((n, n, len(grammar.chains) + 1)), np.zeros((1, len(grammar.binary)))
        log_z, _ = asked(grammar, ParseScores(tag, span, rule, np.zeros(n, np.int64), np.zeros(0)), soft=True)
        assert np.exp(log_z) == pytest.approx(n_parses, rel=1e-9)
