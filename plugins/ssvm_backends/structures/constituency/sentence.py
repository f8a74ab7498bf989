"""One sentence of a program as the kernels of parsing read it, and their answers as labels and marginals."""

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
    empty_chart,
    fill_chains,
    fill_chart,
    fill_word,
    gain,
    pair_score,
    span_at,
)
from ssvm_backends.structures.constituency.paired_sums import fill_paired, spread_paired
from ssvm_backends.structures.constituency.scaled_sums import fill_scaled, spread_scaled
from ssvm_backends.structures.constituency.sum_parses import ParseShares, spread_shares
from ssvm_backends.structures.literals import Batch, best_states
from ssvm_backends.structures.packing import places_in
from ssvm_dsl.ir import F64, I32, I64, GrammarArrays
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_flags, packed_longs, packed_record

# -- The best parse of a sentence: the way back through a chart of best scores ---------------------------------------


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
    feasible = np.ones(1, dtype=np.bool_)
    places, free = places_in(ints, longs, 0), packed_flags(ints, longs, 2)
    lo, hi, state_ptr = places.var_ptr[example], places.var_ptr[example + 1], places.state_ptr
    labels[: hi - lo] = 0
    best_states(places, free, Batch(node, np.full(1, example), np.zeros(1, np.int64), labels, feasible))
    total, arrays = 0.0 if feasible[0] else -np.inf, sentences_in(longs)
    for v in range(lo, hi):
        if free[v]:
            total += node[state_ptr[v] + labels[v - lo]]
    if arrays.grammar[example] >= 0:
        first = GRAMMARS + OF_RULES * arrays.grammar[example]
        grammar, paired = grammar_in(ints, longs, first), pairs_in(ints, longs, first + OF_GRAMMAR)
        total += best_labels(grammar, paired, arrays, example, node, pool, labels)
    return total
