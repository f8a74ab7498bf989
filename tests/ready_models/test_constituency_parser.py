"""``ConstituencyParser``: what it makes of treebanks, the baseline by counting, its score, saving."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ssvm_dsl import Grammar, MaximumLikelihoodPCFG, ParseTree, bracket_scores, read_trees
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.models import ConstituencyParser

LINES = """
(S (NP (D the) (N cat)) (VP (V sleeps)))
(S (NP (N mary)) (VP (V sees) (NP (D the) (N dog))))
(S (NP (D the) (N man)) (VP (V sees) (NP (D the) (N girl)) (PP (P with) (NP (D a) (N telescope)))))
(S (NP (N mary)) (VP (V feeds) (NP (NP (D the) (N dog)) (PP (P with) (NP (D a) (N collar))))))
(S (NP (NP (D the) (N man)) (PP (P in) (NP (D the) (N park)))) (VP (V sleeps)))
(S (NP (D a) (N girl)) (VP (V feeds) (NP (D the) (A small) (A old) (N cat))))
(S (NP (N john)) (VP (V sees) (NP (D a) (N cat)) (PP (P in) (NP (D the) (N park)))))
""".strip().splitlines()
TREES = [ParseTree.of(line) for line in LINES]
#: A symbol above itself, and symbols that are parts of speech and phrases.
ODD = [ParseTree.of("(S (S (NP (N mary)) (VP (V sleeps))))"), ParseTree.of("(S (NP cats) (VP (V see) (NP (N dogs))))")]


@pytest.fixture(scope="module", params=[True, False], ids=["counted", "learnt"])
def parser(request):
    return ConstituencyParser(baseline=request.param, C=10.0, random_state=0).fit(TREES)


def test_finds_the_trees_it_has_seen(parser):
    assert parser.score(TREES) > 0.95
    found = parser.predict([list(tree.words) for tree in TREES])
    assert [tree.words for tree in found] == [tree.words for tree in TREES]
    assert parser.score(TREES) == bracket_scores(TREES, found).f1


def test_new_words_are_parsed_and_kept(parser):
    words = ("the", "unicorn", "sees", "Xyzzy")
    (tree,) = parser.predict([words])
    assert tree.words == words
    assert tree.label == "S"


@pytest.mark.parametrize("form", [str, ParseTree.to_lists, lambda tree: tree], ids=["text", "lists", "trees"])
def test_every_form_of_trees(form):
    given = [form(tree) for tree in TREES]
    sentences = [np.array(tree.words) for tree in TREES]
    for data in ((given,), (sentences, given)):
        parser = ConstituencyParser(baseline=True).fit(*data)
        assert parser.predict(sentences) == parser.predict(TREES)
        assert parser.score(sentences, given) == parser.score(given)


def test_the_baseline_is_the_grammar_by_counting():
    parser = ConstituencyParser(baseline=True).fit(TREES)
    sentences = [list(tree.words) for tree in TREES]
    counted = MaximumLikelihoodPCFG(parser.model_).fit(sentences, TREES)
    found = [tree.with_words(words) for tree, words in zip(counted.predict(sentences), sentences, strict=True)]
    assert parser.predict(sentences) == found
    assert parser.model_.declaration.outputs[0].grammar == Grammar.from_trees(TREES, above_tags=True)
    with pytest.raises(AttributeError, match="the weights were given"):
        _ = parser.report_


def test_the_learnt_one_certifies(parser):
    if not parser.baseline:
        assert parser.report_.certified
        assert parser.report_.plan.backend == "cky"


@pytest.mark.parametrize("baseline", [True, False])
def test_cycles_and_tags_that_are_phrases_are_settled_and_told(baseline):
    with pytest.warns(UserWarning, match="told apart|above itself") as caught:
        parser = ConstituencyParser(baseline=baseline, random_state=0).fit(TREES + ODD)
    said = [str(one.message) for one in caught]
    assert any("1 of 9 trees have a symbol above itself with the same words" in text for text in said)
    assert any("parts of speech and phrases are told apart in the grammar: NP" in text for text in said)
    found = parser.predict([("cats", "see", "dogs"), ("mary", "sleeps")])
    assert all("@" not in str(tree) for tree in found)
    assert parser.score(TREES + ODD) > 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # told once, in fit
        parser.predict(TREES)


def test_trees_of_another_treebank_are_scored(parser):
    other = [ParseTree.of("(TOP (X (Y the) (Z cat)) (W sleeps))")]
    assert 0.0 <= parser.score(other) < 1.0


def test_saved_and_loaded(parser, tmp_path):
    parser.save(tmp_path / "m.ssvm")
    again = ConstituencyParser.load(tmp_path / "m.ssvm")
    sentences = [["the", "gnu", "sleeps"], *(list(tree.words) for tree in TREES)]
    assert again.predict(sentences) == parser.predict(sentences)


def test_a_treebank_in_a_file(tmp_path):
    path = tmp_path / "a.mrg"
    path.write_text("\n".join(LINES))
    assert ConstituencyParser(baseline=True).fit(read_trees(path)).score(TREES) > 0.95


def test_mistakes():
    with pytest.raises(DataError, match="example 1: expected a tree"):
        ConstituencyParser().fit([TREES[0], "(S (NP"])
    with pytest.raises(DataError, match="example 0: expected a list of words"):
        ConstituencyParser().fit(["the cat sleeps"], TREES[:1])
    with pytest.raises(DataError, match="example 0: expected a tree, where no Y is given"):
        ConstituencyParser().fit([None])
    with pytest.raises(OptionError, match="no sample_weight"):
        ConstituencyParser(baseline=True).fit(TREES, sample_weight=[1.0] * 7)
    with pytest.raises(OptionError, match="vertical 1 or 2"):
        ConstituencyParser(vertical=3).fit(TREES)
