"""Probabilistic grammars by counting: probabilities of trees rule by rule, sums over all trees, and wrong calls."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from ssvm_dsl import (
    Attributes,
    Dim,
    Factor,
    Grammar,
    Hamming,
    Label,
    MaximumLikelihoodPCFG,
    Model,
    ParseTree,
    rules,
    spans,
)  # fmt: skip
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.lang.grammars.grammar import rules_of
from ssvm_dsl.learning.pcfg import word_class

TREES = [
    ParseTree.of(line)
    for line in (
        "(S (NP (N rain)) (VP (V fell)))",
        "(S (NP (D the) (A old) (N man)) (VP (V saw) (NP (N rain)) (PP (P in) (NP (N may)))))",
        "(S (NP (NP (D the) (N man)) (PP (P in) (NP (N rome)))) (VP (X (V fell))))",
    )
]
X = [tree.words for tree in TREES]


def parser(grammar):
    class Parser(Model):
        T = Dim()
        words = Attributes(T)
        y = Label(T, grammar=grammar)
        leaf = Factor(y, features=words)
        span = Factor(spans(y))
        rule = Factor(rules(y))
        loss = Hamming(y)

    return Parser


G = Grammar.from_trees(TREES, horizontal=1, above_tags=True)
Parser = parser(G)


def test_trees_have_the_products_of_their_rules():
    pcfg = MaximumLikelihoodPCFG(Parser, smoothing=0.5, rare=1).fit(X, TREES)
    folded = [G.fold(tree) for tree in TREES]
    used = Counter(rule for tree in folded for rule in rules_of(tree))
    left = Counter()
    for (symbol, _), n in used.items():
        left[symbol] += n
    named = [[one[0] for one in words] for words in pcfg.known(X)]
    assert named[1][:4] == ["the", "<>", "man", "<>"]
    emitted = Counter((tag, word) for tree, words in zip(TREES, named, strict=True)
                      for tag, word in zip(tree.tags, words, strict=True))  # fmt: skip
    tags, known = Counter(tag for tree in TREES for tag in tree.tags), len({word for words in named for word in words})
    share = {pair: (n + 0.5) / (tags[pair[0]] + 0.5 * known) for pair, n in emitted.items()}
    right = [
        sum(np.log(used[rule] / left[rule[0]]) for rule in rules_of(tree))
        + sum(np.log(share[pair]) for pair in zip(tree.tags, words, strict=True))
        for tree, words in zip(folded, named, strict=True)
    ]
    np.testing.assert_allclose(pcfg.svm_.best_score(pcfg.known(X), TREES), right)
    assert (pcfg.svm_.best_score(pcfg.known(X)) >= np.array(right) - 1e-9).all()
    assert pcfg.predict([["the", "man", "fell"]]) == [ParseTree.of("(S (NP (D 0) (N 1)) (VP (V 2)))")]
    assert 0.5 < pcfg.score(X, TREES) <= 1.0


def test_all_trees_of_all_sentences_have_probability_one():
    """Of a grammar with finitely many trees, over tags."""
    trees = ["(S (A a) (B b))", "(S (A a) (C (B b)))", "(S (C (B b)) (A a))", "(S (C (A a)))"]
    grammar = Grammar.from_trees(trees, above_tags=True)
    words = [ParseTree.of(one).words for one in trees]
    pcfg = MaximumLikelihoodPCFG(parser(grammar), rare=0, smoothing=1e-9).fit(words, trees)
    every = pcfg.known([["a"], ["b"], ["a", "b"], ["b", "a"], ["a", "a"], ["b", "b"]])
    found = [pcfg.svm_.predict_kbest([x], 20)[0] for x in every]
    assert sum(np.exp(worth) for ranked in found for _, worth in ranked) == pytest.approx(1.0, abs=1e-6)


def test_rules_that_are_not_seen():
    wider = Grammar.from_trees([*TREES, "(S (NP (N rain)) (VP (V fell) (NP (N may))))"], horizontal=1, above_tags=True)
    with pytest.raises(OptionError, match=r"VP -> V NP is in no tree; set rule_smoothing"):
        MaximumLikelihoodPCFG(parser(wider)).fit(X, TREES)
    weights = MaximumLikelihoodPCFG(parser(wider), rule_smoothing=0.1).fit(X, TREES).weights_
    assert np.isfinite(weights["rule"]).all()


def test_word_classes():
    assert [word_class(one) for one in ("Running", "1990s", "well-known", "at")] == ["<Cng>", "<0>", "<-wn>", "<>"]


def test_wrong_calls():
    for settings, said in (
        ({"smoothing": 0.0}, "smoothing must be a number above"), ({"rare": -1}, "rare"), ({"classes": 3}, "classes"),
        ({"rule_smoothing": -1.0}, "rule_smoothing"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=said):
            MaximumLikelihoodPCFG(Parser, **settings).fit(X, TREES)
    plain = parser(Grammar.from_trees(TREES, horizontal=1))
    with pytest.raises(OptionError, match="above_tags=True"):
        MaximumLikelihoodPCFG(plain).fit(X, TREES)

    class Without(Model):
        T = Dim()
        words = Attributes(T)
        y = Label(T, grammar=G)
        leaf = Factor(y, features=words)

    with pytest.raises(OptionError, match="one each, got leaf"):
        MaximumLikelihoodPCFG(Without).fit(X, TREES)
    with pytest.raises(DataError, match="example 1: expected a list of words"):
        MaximumLikelihoodPCFG(Parser).fit([X[0], "the man", X[2]], TREES)
    with pytest.raises(DataError, match="trees that are all known"):
        MaximumLikelihoodPCFG(Parser).fit(X, [None, *TREES[1:]])
    with pytest.raises(DataError, match="none of the grammar"):
        MaximumLikelihoodPCFG(Parser).fit(X[:1], ["(S (VP (V rain)) (NP (N fell)))"])
    with pytest.raises(NotFittedError):
        MaximumLikelihoodPCFG(Parser).predict(X)
    with pytest.raises(OptionError, match="is both"):
        Grammar.from_trees(["(S (S a) (S b))"], above_tags=True)
