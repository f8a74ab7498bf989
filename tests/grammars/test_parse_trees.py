"""Trees of phrases: reading, writing, binarising, scores."""

from __future__ import annotations

import sys
from types import ModuleType
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssvm_dsl import Grammar, ParseTree, bracket_scores, read_brackets, read_trees
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.lang.grammars.grammar import binarized

DOG = ParseTree.of("(S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (A big) (N cat)) (PP here)))")

_labels = st.sampled_from(["S", "NP", "VP", "X-Y"])
_trees = st.recursive(
    st.builds(lambda tag, word: ParseTree(tag, (word,)), st.sampled_from("DNV"), st.sampled_from(["a", "b)", "c"])),
    lambda inner: st.builds(
        lambda label, children: ParseTree(label, tuple(children)), _labels, st.lists(inner, min_size=1, max_size=5)
    ),
    max_leaves=12,
)


def test_reading():
    text = """( (S (NP-SBJ-1 (NNP Mary)) (VP (VBD slept) (NP=2 (-NONE- *T*-1)) (PP|ADVP (RB here))) (. .)) )
    (X (-LRB- -LRB-))"""
    tree, other = read_brackets(text)
    assert str(tree) == "(S (NP (NNP Mary)) (VP (VBD slept) (PP (RB here))) (. .))"
    assert other.label == "X"
    assert other.tags == ("-LRB-",)
    whole = read_brackets(text, empty=True, functions=True)[0]
    assert whole.words == ("Mary", "slept", "*T*-1", "here", ".")
    assert whole.trees[0].label == "NP-SBJ-1"
    assert read_brackets("(S (-NONE- 0))") == []


def test_files(tmp_path):
    path = tmp_path / "a.mrg"
    path.write_text(f"{DOG}\n\n{DOG}")
    assert read_trees(path) == [DOG, DOG]


@pytest.mark.parametrize(
    ("text", "said"),
    [("(S (NP a)", "1 more"), ("(S a))", "'('"), ("()", "a symbol"), ("(S (NP a) b)", "alone"), ("S", "'('"),
     ("(" * 1000, "inside each other")],
)  # fmt: skip
def test_what_is_no_tree(text, said):
    with pytest.raises(DataError, match=said.replace("(", r"\(")):
        read_brackets(text)


def test_forms_of_trees():
    assert ParseTree.of(DOG.to_lists()) == DOG
    assert ParseTree.of(str(DOG)) == DOG
    assert eval(repr(DOG)) == DOG
    for wrong in (["S"], ["S", "a", "b"], 3, ["S", ["NP", "a"], "b"], [1, "a"], "(A b) (C d)"):
        with pytest.raises(DataError):
            ParseTree.of(wrong)


def test_trees_of_nltk(monkeypatch):
    class Listed(list):
        def __init__(self, label, children):
            super().__init__(children)
            self._label = label

        def label(self):
            return self._label

    monkeypatch.setitem(sys.modules, "nltk", module := ModuleType("nltk"))
    module.Tree = Listed
    assert ParseTree.of(DOG.to_nltk()) == DOG


def test_drawings():
    assert DOG.draw().splitlines()[:4] == ["S", "├─ NP", "│  ├─ D the", "│  └─ N dog"]
    drawn = ElementTree.fromstring(ParseTree.of("(S (A <&>))").svg())
    assert [one.text for one in drawn if one.tag.endswith("text")] == ["<&>", "A", "S"]


@given(_trees, st.sampled_from(["left", "right"]), st.sampled_from([None, 0, 1, 2]), st.sampled_from([1, 2]))
def test_binarising_is_undone(tree, side, horizontal, vertical):
    folded = binarized(tree, side, horizontal, vertical)
    assert all(len(one.children) <= 2 for one in folded.subtrees())
    assert folded.un_binarized() == tree
    assert folded.words == tree.words


def test_names_of_parts():
    folded = binarized(ParseTree.of("(A (B b) (C c) (D d) (E e))"), "right", 1)
    assert str(folded) == "(A (B b) (A|<C> (C c) (A|<D> (D d) (E e))))"
    folded = binarized(ParseTree.of("(A (B b) (C c) (D d) (E e))"), "left", 1, 2)
    assert str(folded) == "(A^<ROOT> (A^<ROOT>|<D> (A^<ROOT>|<C> (B b) (C c)) (D d)) (E e))"


def test_grammars_of_trees():
    grammar = Grammar.from_trees([DOG, "(S (NP (N rain)) (VP (V fell)))"], horizontal=0)
    assert grammar.start == ("S",)
    assert ("VP", "V", "VP|<>") in grammar.binary
    assert ("NP", "N") in grammar.unary
    assert grammar.n_parses(DOG.words, DOG.tags) == 1
    assert grammar.n_parses(["x"] * 3, "DND") == 0
    with pytest.raises(OptionError, match="above itself"):
        Grammar.from_trees(["(A (B (A (C c))))"])
    assert str(ParseTree.of("(A (B (A (C c))) (D (D d)))").without_cycles()) == "(A (B (A (C c))) (D d))"
    assert str(ParseTree.of("(A (B (A (C c))))").without_cycles()) == "(A (B (C c)))"


def test_grammars_of_text():
    grammar = Grammar.from_cfg("""
        %start S
        S -> NP VP | VP     # a comment stays out of no line
        NP -> 'the' N | N
        N -> "dog" | 'run'
        VP -> "run" | VP NP
    """.replace("     # a comment stays out of no line", ""))  # fmt: skip
    assert grammar.start == ("S",)
    assert grammar.n_parses(["the", "dog", "run"]) == 1
    assert grammar.n_parses(["run", "run"]) == 2  # NP VP; VP NP
    assert grammar.n_parses(["cat"]) == 0
    for wrong, said in (("S", "line 1"), ("S -> ", "empty"), ("", "no rules"), ("S -> A", "derives nothing|start")):
        with pytest.raises(OptionError, match=said):
            Grammar(*([[("S", ["T", "S"])], "X"])) if said.startswith("derives") else Grammar.from_cfg(wrong)


def test_chains_stop_at_cycles():
    grammar = Grammar([("A", "B"), ("B", "A"), ("A", "a"), ("B", "b"), ("A", "AB")], start="A", tags="ab")
    assert grammar.chains == (("A",), ("A", "B"), ("B",), ("B", "A"))
    assert grammar.n_parses("x", "a") == 1  # A > a; A > B > A is no chain
    assert grammar.n_parses("x", "b") == 1


def test_bracket_scores():
    found = "(S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (A big)) (NP (N cat)) (PP here)))"
    scores = bracket_scores([DOG, DOG], [found, DOG])
    # S, NP and VP are right; NP(3, 6) is missed, NP(3, 5) and NP(5, 6) are too many; the second is right, with 4
    assert scores == (7, 9, 8, 1, 2)
    assert scores.precision == pytest.approx(7 / 9)
    assert scores.f1 == pytest.approx(14 / 17)
    assert bracket_scores([DOG], [None]) == (0, 0, 4, 0, 1)
    with pytest.raises(DataError, match="example 0"):
        bracket_scores([DOG], ["(S (A b))"])


def test_punctuation_and_names_that_count_the_same():
    gold = "(TOP (S (NP (N a)) (PRT (R up)) (. .)))"
    mine = "(S (NP (N a)) (S (ADVP (R up)) (. .)))"
    assert bracket_scores([gold], [mine])[:3] == (3, 4, 3)
    assert bracket_scores([gold], [mine], punctuation=True)[:3] == (3, 4, 3)
    apart = "(S (S (NP (N a)) (PRT (R up))) (. .))"
    assert bracket_scores([gold], [apart])[:3] == (3, 4, 3)
    assert bracket_scores(["(S (NP (N a) (, ,)))"], ["(S (NP (N a)) (, ,))"]).f1 == 1.0
    assert bracket_scores(["(S (NP (N a) (, ,)))"], ["(S (NP (N a)) (, ,))"], punctuation=True).right == 1


GOOD = """( (S
  (NP (D the) (N dog))
  (VP (V barks)) ))
"""


@pytest.mark.parametrize("broken", [3, 0, 399])
@pytest.mark.parametrize("deep", [False, True])
def test_a_missing_bracket_is_told_where_its_tree_begins(broken, deep):
    trees = [GOOD] * 400
    trees[broken] = GOOD.replace("))\n  (VP", ")\n  (VP")
    if deep:  # each tree lacks one from there on
        trees[broken:] = [trees[broken]] * (400 - broken)
    text = "".join(trees)
    line = 3 * broken + 1
    with pytest.raises(DataError) as caught:
        read_brackets(text, "file")
    said = str(caught.value)
    assert f"the tree that begins at line {line}, '( (S\\n  (NP" in said
    follows = f"line {line + 3} begins the next tree; a bracket is missing before it"
    assert (follows if broken < 399 else "a bracket is missing in it") in said
    many = deep and broken < 100
    assert ("expected at most 300 brackets" if many else f"expected {400 - broken if deep else 1} more ')'") in said


def test_one_bracket_too_many_is_told_with_the_tree_before():
    plain = GOOD.replace("( (S", "(S").replace(")) ))", ")))")
    text = plain + plain.replace("))\n  (VP", ")))\n  (VP") + plain
    with pytest.raises(DataError, match=r"tree before begins at line 4\), found line 6"):
        read_brackets(text)
    with pytest.raises(DataError, match=r"\(in the tree that begins at line 4\), found line 5"):
        read_brackets(GOOD + GOOD.replace("(D the)", "the"))
