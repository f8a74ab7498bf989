"""Labels that the model rules out: counted and described, left out, or replaced by the nearest feasible ones."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from model_table import matching
from ssvm_dsl import (
    BIO,
    Allow,
    AtMost,
    Circuit,
    Dim,
    Edges,
    Factor,
    Forbid,
    Hamming,
    Input,
    Label,
    Linear,
    Model,
    Path,
    ProjectiveTree,
    StructuredSVM,
    chain,
)
from ssvm_dsl.errors import DataError, OptionError

RNG = np.random.default_rng(3)


class Tree(Model):
    T = Dim()
    x = Input(T, T, 2)
    r = Input(T, 1)
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None), features=r)
    tree = ProjectiveTree(head, single_root=True)
    loss = Hamming(head)


Align = matching(2)


class Tags(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, ["O", "B-X", "I-X"])
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    first = Allow(y.at(0), ["O", "B-X"])
    step = Forbid(chain(y), BIO(y))
    few = AtMost(2, y.is_("B-X"))
    loss = Hamming(y)


def tree_data(heads):
    X = [{"x": RNG.normal(size=(len(h), len(h), 2)), "r": np.ones((len(h), 1))} for h in heads]
    return X, [np.array(h) for h in heads]


def message(model, X, Y, **options):
    with pytest.raises(DataError) as caught:
        StructuredSVM(model, max_passes=1, tol=1.0, **options).fit(X, Y)
    return str(caught.value)


GOOD = [-1, 0, 0, 2]


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        ([2, 3, -1, 2], "the arcs 2 -> 0 and 3 -> 1 cross"),
        ([1, -1, 0, 1], "found the arcs 0 -> 2 and 1 -> 3 cross"),
        ([-1, 2, 3, 1], "heads lead round in a circle: 1 -> 2 -> 3 -> 1"),
        ([-1, -1, 0, 0], r"2 positions are roots (0, 1), exactly 1 may be"),
        ([1, 0, 1, 1], "heads lead round in a circle: 0 -> 1 -> 0; 0 positions are roots"),
    ],
)
def test_trees_say_what_is_wrong(heads, words):
    text = message(Tree, *tree_data([GOOD, heads]))
    assert "Y, example 1: expected labels that keep the constraint tree = ProjectiveTree(head" in text
    assert words in text
    assert "infeasible='drop'" in text
    assert "'nearest'" in text


def test_all_examples_are_counted_and_five_described():
    text = message(Tree, *tree_data([GOOD] + 7 * [[2, 3, -1, 2]] + [GOOD]))
    assert "7 of 9 examples have such labels:" in text
    assert text.count("    example ") == 5
    assert "    example 5: the arcs" in text
    assert "    ...\n" in text


def test_matchings_name_rows_and_columns():
    y = np.array([[1, 0, 1], [0, 0, 1]])
    text = message(Align, [RNG.normal(size=(2, 3, 2))], [y])
    assert "row 0 has 2 (columns 0, 2), at most 1; column 2 has 2 (rows 0, 1), at most 1" in text


def test_rules_count_all_examples_too():
    X = [RNG.normal(size=(3, 2)) for _ in range(4)]
    Y = [["O", "I-X", "O"], ["O", "O", "O"], ["B-X", "O", "I-X"], ["B-X", "I-X", "O"]]
    text = message(Tags, X, Y)
    assert "Y, example 0: expected labels that rule 'step' does not rule out" in text
    assert "found O, I-X (y[0], y[1])" in text
    assert "2 of 4 examples have such labels" in text
    assert "example 2: O, I-X (y[1], y[2])" in text


class Routes(Model):
    N, M = Dim(), Dim()
    node = Input(N, 1)
    e = Edges(M, over=N)
    f = Input(M, 1)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    loss = Hamming(y)


class ToLast(Routes):
    way = Path(Routes.y.is_(1), Routes.e, source=0, target=-1)


class Round(Routes):
    way = Circuit(Routes.y.is_(1), Routes.e)


EDGES = np.array([[0, 1], [1, 2], [2, 3], [0, 2], [2, 0], [1, 3]])


@pytest.mark.parametrize(
    ("model", "edges", "words"),
    [
        (ToLast, [0, 1], "no edge enters the target 3; the edges end at node 2"),
        (ToLast, [0, 2, 3], "2 edges leave node 0"),
        (ToLast, [2], "no edge leaves the source 0; edges begin at node 2"),
        (ToLast, [], "no edge is chosen"),
        (Round, [0, 1], "the edges end at node 2"),
        (Round, [], "no edge is chosen"),
    ],
)
def test_routes_say_where_they_break(model, edges, words):
    x = {"node": np.zeros((4, 1)), "e": EDGES, "f": np.ones((6, 1))}
    y = np.zeros(6, dtype=int)
    y[edges] = 1
    assert words in message(model, [x], [y])


def test_sums_and_counts_say_their_bounds():
    class Sums(Model):
        T = Dim(3)
        x = Input(T, 1)
        y = Label(T, 2)
        f = Factor(y, features=x)
        total = Linear({y.is_(1): 1.5}, "<=", 3)
        few = AtMost(2, y.is_(1), along=())
        loss = Hamming(y)

    assert "a sum of 4.5, where at most 3 is allowed" in message(Sums, [np.ones((3, 1))], [[1, 1, 1]])
    few = message(type("Few", (Sums,), {"total": Linear({Sums.y.is_(1): 1.0}, "<=", 9)}), [np.ones((3, 1))], [[1] * 3])
    assert "3 of its 3 literals true, at most 2 may be" in few


def fitted(model, X, Y, how, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        svm = StructuredSVM(model, infeasible=how, random_state=0, tol=1e-2, **options).fit(X, Y)
    return svm, [one for one in found if "rules out" in str(one.message)]


def test_dropped_examples_are_those_that_are_ruled_out():
    X, Y = tree_data([GOOD, [2, 3, -1, 2], GOOD, [-1, -1, 0, 0]])
    svm, (warning,) = fitted(Tree, X, Y, "drop")
    assert svm.infeasible_.tolist() == [1, 3]
    assert str(warning.message).startswith("Y: 2 of 4 examples have labels that the model rules out (1, 3)")
    assert warning.filename == __file__
    alone, none = fitted(Tree, [X[0], X[2]], [Y[0], Y[2]], "drop")
    assert not none
    assert (svm.coef_ == alone.coef_).all()
    weighted, _ = fitted(Tree, X, Y, "drop")
    assert (weighted.coef_ == svm.coef_).all()
    with pytest.raises(DataError, match="none among 1 examples"):
        fitted(Tree, X[1:2], Y[1:2], "drop")


def projective(heads):
    """Whether pointers are a projective tree with one root."""
    n = len(heads)
    if sum(h < 0 for h in heads) != 1:
        return False
    for start in range(n):
        at, steps = start, 0
        while at >= 0 and steps <= n:
            at, steps = heads[at], steps + 1
        if steps > n:
            return False
    arcs = [tuple(sorted((h + 1, d + 1))) for d, h in enumerate(heads)]
    return not any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


def test_the_nearest_tree_is_the_nearest_of_all():
    wrong = [[2, 3, -1, 2], [1, 0, 1, 1], [-1, 2, 3, 1], [-1, -1, -1, -1]]
    X, Y = tree_data(wrong)
    every = [h for h in itertools.product(range(-1, 4), repeat=4) if all(h[d] != d for d in range(4)) and projective(h)]
    learnt = []

    class Spy(StructuredSVM):
        def _trainable(self, *given):
            data = super()._trainable(*given)
            learnt.append(self._ground(data.X, data.Y).layout.decode(data.Y.states))
            return data

    with pytest.warns(UserWarning, match="the nearest feasible ones are learnt"):
        Spy(Tree, infeasible="nearest", max_passes=1, tol=1.0).fit(X, Y)
    for found, y in zip(learnt[0], wrong, strict=True):
        assert projective(found.tolist())
        best = min(sum(a != b for a, b in zip(h, y, strict=True)) for h in every)
        assert sum(a != b for a, b in zip(found.tolist(), y, strict=True)) == best


@pytest.mark.parametrize(("model", "how"), [(Align, "nearest"), (Align, "drop"), (Tree, "nearest"), (Tags, "nearest")])
def test_without_time_feasible_labels_are_learnt_and_said_not_to_be_proved_nearest(model, how):
    n = 40
    if model is Align:
        X, Y = [RNG.normal(size=(n, n, 2)) for _ in range(2)], [np.eye(n, dtype=int), np.ones((n, n), dtype=int)]
    elif model is Tree:
        X, Y = tree_data([GOOD, RNG.permutation(np.arange(n))])
    else:
        X, Y = [RNG.normal(size=(3, 2)) for _ in range(2)], [["O", "B-X", "I-X"], ["I-X", "O", "I-X"]]

    class Spy(StructuredSVM):
        def _trainable(self, *given):
            data = super()._trainable(*given)
            self.learnt = len(data.X), data.Y
            return data

    with pytest.warns(UserWarning, match="have labels that the model rules out") as caught:
        svm = Spy(model, infeasible=how, max_seconds=1e-9).fit(X, Y)
    assert svm.infeasible_.tolist() == [1]
    assert svm.learnt[0] == (2 if how == "nearest" else 1)
    assert svm.report_.reason == "seconds"
    assert svm.report_.seconds > svm.report_.preparing_seconds > 0.0
    if how == "nearest":
        assert any("time was up before those of 1 examples were proved nearest" in str(one.message) for one in caught)


def test_nearest_keeps_rules_and_what_is_not_known():
    X = [RNG.normal(size=(4, 2)) for _ in range(3)]
    Y = [["O", "I-X", "I-X", None], ["O", "O", "B-X", "I-X"], [None, "I-X", "O", "O"]]
    svm, (warning,) = fitted(Tags, X, Y, "nearest")
    assert svm.infeasible_.tolist() == [0]  # the last one can begin with B-X
    assert "(1 label changed)" in str(warning.message)
    best, _ = fitted(Tags, X, [["O", "B-X", "I-X", None], *Y[1:]], "nearest")
    np.testing.assert_array_equal(svm.coef_, best.coef_)


def test_what_it_may_be():
    with pytest.raises(OptionError, match="infeasible must be one of 'raise', 'drop', 'nearest', got 'ignore'"):
        StructuredSVM(Tags, infeasible="ignore").fit([np.ones((1, 2))], [["O"]])
