"""One sentence of a program as the kernels of parsing read it, and their answers as labels and marginals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.constituency.best_parse import Parse, fill_best, trace_parse
from ssvm_backends.structures.constituency.chart import PairedRules, ParseScores, empty_chart, fill_chart
from ssvm_backends.structures.constituency.paired_sums import fill_paired, spread_paired
from ssvm_backends.structures.constituency.scaled_sums import fill_scaled, spread_scaled
from ssvm_backends.structures.constituency.sum_parses import ParseShares, spread_shares
from ssvm_backends.structures.literals import best_states
from ssvm_backends.structures.packing import places_in
from ssvm_dsl.ir import F64, I32, I64, GrammarArrays
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_flags, packed_longs, packed_record


class SentencePlaces(NamedTuple):
    """Where the scores and labels of one sentence of n words are.

    Parameters
    ----------
    sizes : ndarray of int64, shape (6,)
        n, tags L, chains K, rules R, digits D of codes of rules, groups f of factors over rules.
    state : ndarray of int64, shape (4,)
        Where in the unary scores those of tags, spans, first and second digits begin.
    variable : ndarray of int64, shape (4,)
        Where their labels begin, counted from the first variable of the example.
    row : ndarray of int64, shape (f, n)
        Where in the pool of tables that of each word begins, for each group of factors over rules.
    """

    sizes: I64
    state: I64
    variable: I64
    row: I64


class SentenceArrays(NamedTuple):
    """The places of all B sentences of a program, packed.

    Parameters
    ----------
    grammar : ndarray of int64, shape (B,)
        The number of each sentence's grammar; -1 for an example without a label of trees.
    sizes : ndarray of int64, shape (B, 6)
        As of :class:`SentencePlaces`; so of the others.
    state, variable : ndarray of int64, shape (B, 4)
    row_ptr : ndarray of int64, shape (B + 1,)
        Entries ``row_ptr[i]:row_ptr[i + 1]`` of ``row`` are those of sentence i.
    row : ndarray of int64
    """

    grammar: I64
    sizes: I64
    state: I64
    variable: I64
    row_ptr: I64
    row: I64


@njit
def sentence_at(arrays: SentenceArrays, example: int) -> SentencePlaces:
    """Return where the scores and labels of a sentence are."""
    sizes = arrays.sizes[example]
    row = arrays.row[arrays.row_ptr[example] : arrays.row_ptr[example + 1]]
    return SentencePlaces(sizes, arrays.state[example], arrays.variable[example], row.reshape((sizes[5], sizes[0])))


@njit(cache=True, nogil=True)
def scores_of(places: SentencePlaces, node: F64, pool: F64) -> tuple[ParseScores, float]:
    """Return the scores of a sentence, and that of the first word's code, which stands for no rule.

    Rules have one row of scores where all words share them, else a row for each word.

    Parameters
    ----------
    places : SentencePlaces
    node, pool : ndarray of float64
        As of :class:`~ssvm_dsl.ir.Theta`; ``-inf`` at states that are ruled out.
    """
    n, n_tags, n_chains, n_rules, base = places.sizes[:5]
    tags, spans, first, second = places.state
    digits = node[first : first + n * base].reshape((n, base))
    others = node[second : second + n * base].reshape((n, base))
    alike = not (digits[1:].any() or others[1:].any())
    for f in range(len(places.row)):
        alike = alike and (places.row[f] == places.row[f, 0]).all()
    rule = np.zeros((1 if alike else n, n_rules))
    for t in range(len(rule)):
        at = n - 1 if alike else t
        for r in range(n_rules):
            code = r + 1
            rule[t, r] = digits[at, code // base] + others[at, code % base]
            for f in range(len(places.row)):
                rule[t, r] += pool[places.row[f, at] + code]
    none = digits[0, 0] + others[0, 0]
    for f in range(len(places.row)):
        none += pool[places.row[f, 0]]
    tag = node[tags : tags + n * n_tags].reshape((n, n_tags))
    span = node[spans : spans + n * n * (n_chains + 1)].reshape((n, n, n_chains + 1))
    row = np.zeros(n, np.int64) if alike else np.arange(n)
    return ParseScores(tag, span, rule, row, np.zeros(0)), none


@njit(cache=True, nogil=True)
def best_labels(
    grammar: GrammarArrays, paired: PairedRules, arrays: SentenceArrays, example: int, node: F64, pool: F64,
    labels: I32,
) -> float:  # fmt: skip
    """Write the labels of the best parse, tags, spans and digits; return its score, ``-inf`` where there is none.

    Parameters
    ----------
    grammar, paired : GrammarArrays, PairedRules
    arrays, example : SentenceArrays, int
        The sentence.
    node, pool
        As for :func:`scores_of`.
    labels : ndarray of int32
        Of the variables of the example; those of the sentence are written.
    """
    places = sentence_at(arrays, example)
    n, base = places.sizes[0], places.sizes[4]
    if n == 0:
        return -np.inf
    scores, none = scores_of(places, node, pool)
    chart = empty_chart(n, len(grammar.is_part))
    if len(scores.rule) == 1:
        total = none + fill_best(grammar, paired, scores, chart)
    else:
        total = none + fill_chart(grammar, scores, False, chart)
    if total == -np.inf:
        return total
    tags, spans, first, second = places.variable
    parse = Parse(
        labels[tags : tags + n], labels[spans : spans + n * n].reshape((n, n)), np.zeros(n, dtype=np.int32)
    )
    trace_parse(grammar, scores, chart, parse)
    for t in range(n):
        labels[first + t], labels[second + t] = parse.rule[t] // base, parse.rule[t] % base
    return total


@njit(cache=True, nogil=True)
def sum_sentence(
    grammar: GrammarArrays, paired: PairedRules, arrays: SentenceArrays, example: int, node: F64, pool: F64,
    shares: ParseShares,
) -> float:  # fmt: skip
    """Add how likely the parts of parses are; return log Z, ``-inf`` without a parse.

    Parameters
    ----------
    grammar, paired, arrays, example, node, pool
        As for :func:`best_labels`.
    shares : ParseShares
        Zeros; written.
    """
    places = sentence_at(arrays, example)
    n = places.sizes[0]
    if n == 0:
        return -np.inf
    scores, none = scores_of(places, node, pool)
    if len(scores.rule) == 1:
        space, total = fill_paired(grammar, paired, scores)
        scaled = space.scaled
    else:
        scaled, total = fill_scaled(grammar, scores)
    if np.isnan(total):
        chart = empty_chart(n, len(grammar.is_part))
        total = fill_chart(grammar, scores, True, chart)
        if total > -np.inf:
            spread_shares(grammar, scores, chart, shares)
    elif total > -np.inf:
        spread_scaled(grammar, scores, scaled, shares)
    return none + total


class ExpectedParts(NamedTuple):
    """Weighted marginals of n sentences, and log Z.

    Parameters
    ----------
    coef : ndarray of float64, shape (n,)
        The weight of each sentence.
    node : ndarray of float64
        Marginals of tags and phrases are added, in the layout of the unary scores.
    rule : ndarray of float64, shape (n, R)
        How often each rule is expected in each sentence, not weighted; written.
    log_z : ndarray of float64, shape (n,)
        Written; nan where nothing is added: the rules differ from word to word, or a term might lose digits.
    """

    coef: F64
    node: F64
    rule: F64
    log_z: F64


@njit(cache=True, nogil=True)
def expect_sentences(
    grammar: GrammarArrays, paired: PairedRules, arrays: SentenceArrays, ids: I64, node: F64, pool: F64,
    parts: ExpectedParts,
) -> None:  # fmt: skip
    """Add weighted marginals of sentences, but for which rule is where.

    Parameters
    ----------
    grammar, paired : GrammarArrays, PairedRules
    arrays : SentenceArrays
    ids : ndarray of int64, shape (n,)
        The sentences, all of this grammar.
    node, pool
        As for :func:`scores_of`.
    parts : ExpectedParts
        Written.
    """
    for k in range(len(ids)):
        places = sentence_at(arrays, ids[k])
        n, n_tags, n_chains, n_rules = places.sizes[0], places.sizes[1], places.sizes[2], places.sizes[3]
        parts.log_z[k] = -np.inf
        if n == 0:
            continue
        scores, none = scores_of(places, node, pool)
        parts.log_z[k] = np.nan
        if len(scores.rule) > 1:
            continue
        space, total = fill_paired(grammar, paired, scores)
        parts.log_z[k] = none + total
        if total > -np.inf:
            shares = ParseShares(
                np.zeros((n, n_tags)), np.zeros((n, n, n_chains + 1)), parts.rule[k].reshape((1, n_rules))
            )
            spread_paired(grammar, paired, scores, space, shares)
            add_flat(shares.tag.reshape(-1), parts.coef[k], places.state[0], parts.node)
            add_flat(shares.span.reshape(-1), parts.coef[k], places.state[1], parts.node)


@njit(cache=True, nogil=True, borrowed=True)
def add_flat(values: F64, coef: float, start: int, out: F64) -> None:
    """Add ``coef * values`` to ``out`` from some place on."""
    for k in range(len(values)):
        out[start + k] += coef * values[k]


#: Where the arrays of sentences, and of grammars, begin; how many arrays a grammar is, and with its pairs.
SENTENCES, GRAMMARS, OF_GRAMMAR = 3, 9, len(GrammarArrays._fields)
OF_RULES = OF_GRAMMAR + len(PairedRules._fields)


@njit
def sentences_in(longs: I64) -> SentenceArrays:
    """Return the places of all sentences."""
    return SentenceArrays(
        packed_longs(longs, SENTENCES),
        packed_longs(longs, SENTENCES + 1).reshape((-1, 6)),
        packed_longs(longs, SENTENCES + 2).reshape((-1, 4)),
        packed_longs(longs, SENTENCES + 3).reshape((-1, 4)),
        packed_longs(longs, SENTENCES + 4),
        packed_longs(longs, SENTENCES + 5),
    )


#: How a grammar, and its pairs, are read.
grammar_in, pairs_in = packed_record(GrammarArrays), packed_record(PairedRules)


@cfunc(SIGNATURE)
def cky_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    ints, longs, pool, node, labels = borrow(ints), borrow(longs), borrow(pool), borrow(node), borrow(labels)
    ids, ptr, feasible = np.full(1, example), np.zeros(1, np.int64), np.ones(1, dtype=np.bool_)
    places, free = places_in(ints, longs, 0), packed_flags(ints, longs, 2)
    lo, hi, state_ptr = places.var_ptr[example], places.var_ptr[example + 1], places.state_ptr
    labels[: hi - lo] = 0
    best_states(places, free, node, ids, ptr, labels, feasible)
    total, arrays = 0.0 if feasible[0] else -np.inf, sentences_in(longs)
    for v in range(lo, hi):
        if free[v]:
            total += node[state_ptr[v] + labels[v - lo]]
    if arrays.grammar[example] >= 0:
        first = GRAMMARS + OF_RULES * arrays.grammar[example]
        grammar, paired = grammar_in(ints, longs, first), pairs_in(ints, longs, first + OF_GRAMMAR)
        total += best_labels(grammar, paired, arrays, example, node, pool, labels)
    return total
