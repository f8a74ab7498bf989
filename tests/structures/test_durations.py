"""Least and greatest durations of segments and of states of chains, beside every labelling that keeps them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import (
    AtMost,
    Dim,
    Duration,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    SpanLength,
    StructuredSVM,
    chain,
    ground,
    spans,
    starts,
)
from ssvm_dsl.errors import DataError, InfeasibleError, ModelError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.registry import registry

#: (least, most, cut).
BOUNDS = [(2, None, False), ({"a": 3}, {"b": 2}, False), (2, None, True), ({"b": 2}, 3, True), (None, {"a": 1}, False)]


def segmented(least, most, cut, spans_are_variables=False):
    class Segments(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, "ab", segments=4)
        each = Factor(y, features=x)
        length = Factor(spans(y), features=SpanLength(spans(y)))
        trans = Factor(chain(y))
        lasting = Duration(spans(y), least=least, most=most, cut=cut)
        budget = AtMost(99, y.is_("a")) if spans_are_variables else None
        loss = Hamming(y)

    return Segments


def chained(least, most, cut):
    class Chain(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, "abc")
        each = Factor(y, features=x)
        trans = Factor(chain(y))
        lasting = Duration(y, least=least, most=most, cut=cut)
        loss = Hamming(y)

    return Chain


def drawn(model, seed=0, sizes=(4, 5, 6)):
    rng = np.random.default_rng(seed)
    k = len(model.y.classes)
    weights = {"each": rng.normal(size=(k, 2)), "trans": rng.normal(size=(k, k))}
    if hasattr(model, "length"):
        weights["length"] = rng.normal(size=(2, 4))
    return weights, [rng.normal(size=(n, 2)) for n in sizes]


def bound(value, name, none):
    return value.get(name, none) if isinstance(value, dict) else none if value is None else value


def keeps(segments, n, least, most, cut, none=99):
    """Whether segments, or runs, keep the bounds: from the definition."""
    return all(
        end - start <= bound(most, name, none)
        and (end - start >= bound(least, name, 1) or (cut and (start == 0 or end == n)))
        for start, end, name in segments
    )


def divisions(n, longest, classes):
    """All segmentations of n positions."""
    if n == 0:
        yield []
    for size in range(1, min(n, longest) + 1):
        for rest in divisions(n - size, longest, classes):
            for name in classes:
                yield [*rest, (n - size, n, name)]


def score(weights, x, segments):
    """The score of a segmentation."""
    names = [ord(name) - ord("a") for _, _, name in segments]
    total = sum(x[start:end].sum(axis=0) @ weights["each"][k] for (start, end, _), k in zip(segments, names))
    total += sum(weights["length"][k, end - start - 1] for (start, end, _), k in zip(segments, names))
    return total + sum(weights["trans"][a, b] for a, b in itertools.pairwise(names))


def runs(labels):
    found, start = [], 0
    for name, some in itertools.groupby(labels):
        size = len(list(some))
        found.append((start, start + size, name))
        start += size
    return found


@pytest.mark.parametrize(("least", "most", "cut"), BOUNDS)
def test_segments_are_the_best_that_keep_them(least, most, cut):
    model = segmented(least, most, cut)
    weights, X = drawn(model)
    svm = StructuredSVM.from_weights(model, weights)
    kbest, marginals = svm.predict_kbest(X, 3), svm.predict_marginals(X)
    for x, answer, several, probability in zip(X, svm.predict(X), kbest, marginals):
        every = [one for one in divisions(len(x), 4, "ab") if keeps(one, len(x), least, most, cut)]
        scores = np.array([score(weights, x, one) for one in every])
        assert score(weights, x, answer) == pytest.approx(scores.max())
        assert keeps(answer, len(x), least, most, cut)
        assert [value for _, value in several] == pytest.approx(np.sort(scores)[::-1][:3])
        share = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        first = sum(p for p, one in zip(share, every) if one[0][2] == "a")
        assert np.asarray(probability)[0, 0] == pytest.approx(first)
    assert svm.predict(X) == StructuredSVM.from_weights(segmented(least, most, cut, True), weights).predict(X)


@pytest.mark.parametrize(("least", "most", "cut"), BOUNDS)
@pytest.mark.parametrize("backend", ["auto", "ilp"])
def test_chains_are_the_best_that_keep_them(least, most, cut, backend):
    model = chained(least, most, cut)
    weights, X = drawn(model)
    svm = StructuredSVM.from_weights(model, weights, backend=backend)
    for x, answer, found in zip(X, svm.predict(X), svm.best_score(X)):
        best = max(
            (x * weights["each"][list(y)]).sum() + weights["trans"][y[:-1], y[1:]].sum()
            for y in map(np.array, itertools.product(range(3), repeat=len(x)))
            if keeps(runs("abc"[k] for k in y), len(x), least, most, cut)
        )
        assert found == pytest.approx(best)
        assert keeps(runs(answer), len(x), least, most, cut)


def test_long_chains_go_through_ages():
    model = chained(4, {"a": 9}, True)
    program = with_rules(ground(model, [np.zeros((60, 2))]).program, registry())
    assert "runs-to-ages" in str(plan_program(program, program_need(program), "auto"))
    weights, X = drawn(model, sizes=(60,))
    svm = StructuredSVM.from_weights(model, weights)
    exact = StructuredSVM.from_weights(model, weights, backend="ilp")
    assert svm.best_score(X) == pytest.approx(exact.best_score(X))


@pytest.mark.parametrize("make", [segmented, chained])
@pytest.mark.parametrize("risk", ["margin", "log"])
def test_training_is_that_of_brute_force(make, risk):
    model = make(2, {"a": 3}, False)
    weights, X = drawn(model)
    Y = StructuredSVM.from_weights(model, weights).predict(X)
    options = {"trainer": "lbfgs"} if risk == "log" else {"tol": 1e-4}
    fits = [StructuredSVM(model, risk=risk, backend=name, **options).fit(X, Y) for name in ("auto", "brute-force")]
    assert fits[0].report_.primal == pytest.approx(fits[1].report_.primal, rel=1e-3)


@pytest.mark.parametrize("make", [segmented, chained])
def test_they_come_back_from_json_as_they_were_written(make):
    model = make({"a": 3}, 3, True)
    text = "y" if make is chained else "spans(y)"
    assert repr(model.lasting) == f"Duration({text}, least={{'a': 3}}, most=3, cut=True)"
    assert Model.from_json(model.to_json()).declaration == model.declaration
    assert str(Model.from_json(model.to_json())) == str(model)
    idle = make(None, {"a": 4}, False) if make is segmented else make({"a": 1}, None, False)
    assert Model.from_json(idle.to_json()).declaration == idle.declaration


def test_labels_that_break_them_are_refused_by_name():
    X = [np.zeros((6, 2)), np.zeros((5, 2))]
    with pytest.raises(DataError, match=r"Y, example 1: .*the segment \(3, 5, 'b'\) of 2 positions, at least 3"):
        StructuredSVM(segmented(3, None, False)).fit(X, ["aaabbb", "aaabb"])
    with pytest.raises(DataError, match=r"Y, example 1: .*'b' lasts from position 3 for 2, at least 3"):
        StructuredSVM(chained(3, None, False)).fit(X, ["aaabbb", "aaabb"])
    assert StructuredSVM(segmented(3, None, True)).fit(X, ["aaabbb", "aaabb"]).predict(X)


def test_sequences_that_are_too_short_are_refused_by_name():
    weights, _ = drawn(segmented(3, None, False))
    svm = StructuredSVM.from_weights(segmented(3, None, False), weights)
    with pytest.raises(InfeasibleError, match=r"example 1 .* its 5 positions cannot be divided .* lasting ="):
        svm.predict([np.zeros((8, 2)), np.zeros((5, 2))])  # 3 or 4 positions each
    assert svm.predict([np.zeros((0, 2))]) == [[]]
    chains = chained(3, None, False)
    with pytest.raises(InfeasibleError, match=r"its 2 positions are fewer than the 3 that every state lasts"):
        StructuredSVM.from_weights(chains, drawn(chains)[0]).predict([np.zeros((2, 2))])


def test_nearest_labels_keep_them():
    model = segmented(2, None, False)
    X = [np.random.default_rng(0).normal(size=(6, 2)) for _ in range(3)]
    with pytest.warns(UserWarning, match="nearest feasible"):
        svm = StructuredSVM(model, infeasible="nearest").fit(X, ["aabbaa", "aabbbb", "ababab"])
    assert all(keeps(one, 6, 2, None, False) for one in svm.predict(X))


def test_mistakes():
    with pytest.raises(ModelError) as caught:

        class Bad(Model):
            T = Dim()
            y = Label(T, "ab", segments=4)
            z = Label(T, "ab")
            one = Duration(spans(y), least=5)
            two = Duration(y, least=2)
            three = Duration(z, least={"c": 2})
            four = Duration(z, least=3, most=2)
            five = Duration(z)
            six = Duration(starts(y), most=0)
            seven = Duration(z, most=0)

    text = str(caught.value)
    assert "Duration: least is 5 for 'a', and segments=4 of the label" in text
    assert "Duration: of a label of segments write Duration(spans(y), ...)" in text
    assert "Duration: least must name classes of the label ('a', 'b'), got 'c'" in text
    assert "Duration: least is at most most, got 3 and 2 for 'a'" in text
    assert "Duration: it needs least= or most=" in text
    assert "Duration: the first argument is spans(y), or a label with an axis of time, got starts(y)" in text
    assert "Duration: most is a number of positions, or a dict of them by class, of at least 1, got 0" in text
