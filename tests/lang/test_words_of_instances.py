"""Explanations, pictures and errors speak of factors, rules and variables at the positions that the user wrote."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import (
    AllOf,
    AnyOf,
    AtMost,
    Count,
    Dim,
    Equivalence,
    Factor,
    Forbid,
    Hamming,
    Implies,
    Input,
    Label,
    Matching,
    Model,
    Same,
    StructuredSVM,
    ground,
    to_networkx,
)
from ssvm_dsl.errors import DataError, InfeasibleError


class Votes(Model):
    N = Dim()
    a, b = N.index(2)
    friend = Input(N, N)
    z = Input(N, 2)
    vote = Label(N, ["left", "right"])
    own = Factor(vote[a], features=z[a])
    alike = Factor(Same(vote[a], vote[b]), where=(a < b) & friend[a, b])
    all_left = Factor(AllOf(vote[b].is_("left"), over=b, where=friend[a, b]))
    size = Factor(Count(vote[b].is_("left"), over=b, most=3))
    few = AtMost(2, vote[b].is_("left"), over=b, where=friend[a, b])
    loss = Hamming(vote)


FRIENDS = np.array([[0, 1, 0, 1, 0], [1, 0, 1, 1, 1], [0, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 0, 0, 0]])
WEIGHTS = {"own": np.array([[1.0, 0.0], [0.0, 1.0]]), "alike": 1.0, "all_left": 0.5, "size": [0.0, 1.0, 0.5, 0.2]}
EXAMPLE = {"friend": FRIENDS, "z": np.array([[3.0, 1.0], [1.0, 4.0], [1.0, 3.0], [2.0, 1.0], [0.0, 1.0]])}


@pytest.fixture(scope="module")
def votes():
    return StructuredSVM.from_weights(Votes, WEIGHTS)


def test_terms_of_a_score_are_at_their_positions(votes):
    found = votes.explain(EXAMPLE)
    assert found.labelling.tolist() == ["left", "right", "right", "left", "right"]
    rows = {(one.factor, one.at): one for one in found.rows() if one.feature is None}
    assert rows["alike", "a = 0, b = 3"].places == ("vote[0]", "vote[3]")
    assert {at for name, at in rows if name == "alike"} == {"a = 0, b = 3", "a = 1, b = 2", "a = 1, b = 4"}
    assert {at for name, at in rows if name == "all_left"} == set()
    assert rows["size", ""].places == tuple(f"vote[{k}]" for k in range(5))
    assert rows["size", ""].states == ("2",)
    text = str(found)
    assert "alike at a = 0, b = 3" in text
    assert "own at a = 1" in text
    assert sum(found.by("position").values()) == pytest.approx(found.score)
    assert set(found.by("position")) == {f"vote[{k}]" for k in range(5)}
    assert found.total == pytest.approx(found.score)


def test_reasons_against_labels_are_at_their_positions(votes):
    asked = votes.why_not(EXAMPLE, ["left", "left", "right", "right", "right"])
    changes = {(one.factor, one.at): one for one in asked.changes()}
    assert changes["alike", "a = 0, b = 1"].asked == ("left", "left")
    assert changes["all_left", "a = 2"][2:5] == (("false",), ("true",), 0.5)
    assert "all_left at a = 2" in str(asked)
    none = votes.why_not(EXAMPLE, ["left", "right", "left", "left", "left"])
    assert none.asked is None
    assert "'few' (AtMost) and the given labels cannot be kept together ('few' at a = 1)" in none.reason


def test_true_labels_that_break_a_rule_are_named_with_its_place():
    with pytest.raises(DataError, match=r"few = AtMost\(.*found 4 of its 4 literals true.* \(at a = 1\)"):
        StructuredSVM(Votes).fit([EXAMPLE], [["left", "right", "left", "left", "left"]])


def test_a_factor_graph_has_the_places_of_factors_and_names_of_rules():
    graph = to_networkx(ground(Votes, [EXAMPLE]))
    assert graph.nodes["alike", 0]["at"] == "a = 0, b = 1"
    assert "all_left at a = 4" in graph
    assert "size" in graph
    assert not any("part" in str(node) for node in graph)


class Same3(Model):
    N = Dim()
    i, j, k = N.index(3)
    x = Input(N, N)
    same = Label(i, j, 2, where=i < j)
    link = Factor(same[i, j], features=x[i, j])
    closed = Implies(AllOf(same[i, j].is_(1), same[i, k].is_(1)), same[j, k].is_(1), where=(i < j) & (j < k))
    never = Forbid((same[i, j], same[i, k]), [(1, 0)], where=(j < k) & i.is_(0))
    loss = Hamming(same)


def test_rules_of_relations_name_pairs():
    svm = StructuredSVM.from_weights(Same3, {"link": [[0.0], [1.0]]})
    labels = np.ones((4, 4), dtype=int)
    labels[1, 3] = 0
    none = svm.why_not(np.ones((4, 4)), labels)
    assert "'closed' (Implies)" in none.reason
    assert "'closed' of same[0, 1], same[0, 3], same[1, 3]" in none.reason
    with pytest.raises(DataError, match=r"rule 'closed' .*found 1, 1, 0 \(same\[0, 1\], same\[0, 3\], "):
        ground(Same3, [np.ones((4, 4))], [labels])
    wrong = np.ones((4, 4), dtype=int)
    wrong[0, 2] = 0
    with pytest.raises(DataError, match=r"rule 'never' does not rule out, found 1, 0 \(same\[0, 1\], same\[0, 2\]\)"):
        ground(Same3, [np.ones((4, 4))], [wrong])


def test_structures_and_relations_at_positions_say_which_one_cannot_be_kept():
    class Frames(Model):
        F, I, J = Dim(), Dim(), Dim()
        f, i, j = F.index(), I.index(), J.index()
        x = Input(F, I, J)
        y = Label(F, I, J, 2)
        near = Factor(y[f, i, j], features=x[f, i, j])
        one = Matching(y[f, i, j].is_(1), rows=i, cols=j)
        some = AnyOf(y[f, i, j].is_(1), over=(i, j))
        loss = Hamming(y)

    svm = StructuredSVM.from_weights(Frames, {"near": [[0.0], [1.0]]})
    labels = np.zeros((3, 2, 2), dtype=int)
    labels[0, 0, 0] = labels[2, 0, 1] = labels[2, 1, 1] = labels[1, 0, 0] = 1
    assert "'one' at f = 2" in svm.why_not(np.ones((3, 2, 2)), labels).reason
    with pytest.raises(DataError, match=r"\(at f = 2\)"):
        StructuredSVM(Frames).fit([np.ones((3, 2, 2))], [labels])
    with pytest.raises(InfeasibleError, match="rule 'some' is false at f = 0"):
        svm.predict([np.ones((2, 0, 2))])

    class Clusters(Model):
        F, N = Dim(), Dim()
        f, (i, j) = F.index(), N.index(2)
        x = Input(F, N, N)
        r = Label(f, i, j, 2, where=i < j)
        link = Factor(r[f, i, j], features=x[f, i, j])
        one = Equivalence(r[f, i, j].is_(1), pair=(i, j))
        loss = Hamming(r)

    labels = np.ones((2, 3, 3), dtype=int)
    labels[1, 0, 1] = 0
    with pytest.raises(DataError, match=r"\(at f = 1\)"):
        StructuredSVM(Clusters).fit([np.ones((2, 3, 3))], [labels])
