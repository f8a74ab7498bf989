"""Labels of segments: how they read, what they compile to, and that what is learnt is the segmentation."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from ssvm_dsl import (
    Attributes,
    Cost,
    CountLoss,
    Dim,
    Factor,
    Feature,
    Forbid,
    Given,
    Hamming,
    Input,
    JointFeature,
    Label,
    Model,
    SpanLength,
    SpanMean,
    SpanSum,
    StructuredSVM,
    chain,
    estimate,
    ground,
    spans,
    starts,
)
from ssvm_dsl.errors import DataError, ModelError
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.plugin_api import score_labels


def rise(x, start, end):
    """The last position of a span less the first one."""
    return x[end - 1] - x[start]


class Names(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, ["O", "PER", "LOC"], segments=3)
    emit = Factor(y, features=x)
    first = Factor(starts(y), features=x)
    trans = Factor(chain(y))
    whole = Factor(
        spans(y), features=[SpanLength(spans(y)), SpanMean(x, spans(y)), Feature(rise, spans(y), width=2)]
    )
    loss = Hamming(y)


class Plain(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2, segments=2)
    whole = Factor(spans(y), features=SpanSum(x, spans(y)))
    loss = Hamming(y)


def random_segments(rng, n, classes=("O", "PER", "LOC"), longest=3):
    out, start = [], 0
    while start < n:
        end = min(n, start + int(rng.integers(1, longest + 1)))
        out.append((start, end, classes[rng.integers(len(classes))]))
        start = end
    return out


def score(segments, x, w):
    """The score of a segmentation by the model's definition."""
    total, before = 0.0, None
    for start, end, name in segments:
        k, length = ["O", "PER", "LOC"].index(name), np.eye(3)[end - start - 1]
        features = np.concatenate([length, x[start:end].mean(axis=0), x[end - 1] - x[start]])
        total += w["emit"][k] @ x[start:end].sum(axis=0) + w["first"][k] @ x[start] + w["whole"][k] @ features
        total += 0.0 if before is None else w["trans"][before, k]
        before = k
    return total


def test_scores_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (5, 0, 3)]
    Y = [random_segments(rng, len(x)) for x in X]
    grounded = ground(Names, X, Y)
    theta = grounded.parameters.scores(w := rng.normal(size=grounded.parameters.dim))
    blocks = {block.name: block.view(w) for block in grounded.parameters.blocks}
    found = score_labels(grounded.program, theta, grounded.truth)
    np.testing.assert_allclose(found, [score(y, x, blocks) for x, y in zip(X, Y)], atol=1e-9)
    assert grounded.layout.decode(grounded.truth) == Y


def test_a_class_for_each_position_is_read_as_its_runs():
    X = [np.zeros((4, 2))] * 3
    Y = [["O", "PER", "PER", "O"], np.array(["LOC", "O", "LOC", "LOC"]), [(0, 2, "O"), (2, 4, "O")]]
    found = ground(Names, X, Y).layout
    states, hidden, *_ = found.encode(Y)
    assert hidden is None
    assert found.decode(states) == [
        [(0, 1, "O"), (1, 3, "PER"), (3, 4, "O")], [(0, 1, "LOC"), (1, 2, "O"), (2, 4, "LOC")], Y[2]
    ]  # fmt: skip
    numbers = ground(Plain, X[:1], [np.array([[0, 2, 1], [2, 3, 0], [3, 4, 0]])])
    assert numbers.layout.decode(numbers.truth) == [[(0, 2, 1), (2, 3, 0), (3, 4, 0)]]


def test_the_loss_counts_wrong_classes_and_beginnings():
    X, truth = [np.zeros((4, 2))] * 3, [[(0, 2, "O"), (2, 4, "PER")]] * 3
    grounded = ground(Names, X, truth)
    other = [[(0, 2, "O"), (2, 3, "PER"), (3, 4, "PER")], [(0, 1, "LOC"), (1, 4, "PER")], truth[0]]
    states, *_ = grounded.layout.encode(other)
    assert grounded.loss.value(grounded.program, states).tolist() == [1.0, 4.0, 0.0]


def test_optima_are_the_same_by_every_backend(monkeypatch):
    monkeypatch.setattr(Declaration, "lowered", property(lambda self: self))  # with spans as variables
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(n, 2)) for n in (3, 2, 4)]
    Y = [random_segments(rng, len(x)) for x in X]
    fits = [StructuredSVM(Names, trainer="n-slack", C=1.0, tol=1e-4, backend=name).fit(X, Y)
            for name in ("semi-markov", "ilp")]  # fmt: skip
    assert fits[0].report_.primal > 1.0
    assert fits[0].report_.primal == pytest.approx(fits[1].report_.primal, rel=2e-4)


def test_segments_are_learnt_and_completed():
    rng = np.random.default_rng(0)
    w = {"emit": rng.normal(size=(3, 2)), "first": rng.normal(size=(3, 2)), "trans": rng.normal(size=(3, 3)),
         "whole": rng.normal(size=(3, 7))}  # fmt: skip
    X = [rng.normal(size=(int(n), 2)) for n in rng.integers(1, 6, 12)]
    svm = StructuredSVM.from_weights(Names, w)
    Y = svm.predict(X)
    fitted = StructuredSVM(Names, C=1000.0, max_passes=200).fit(X, Y)
    assert fitted.report_.plan.backend == "semi-markov"
    said = " ".join(str(fitted.report_).split())  # what was declared, not the graph that it becomes
    assert "semi-markov: exact for segments of up to 3 positions, 3 classes (label 'y')" in said
    assert "cycles" not in said
    assert fitted.score(X, Y) == 1.0
    assert fitted.predict(X) == Y
    long = next(i for i, x in enumerate(X) if len(x) >= 4)
    given = [None] * 12
    given[long] = [(0, 2, "LOC"), (2, len(X[long]), None)]
    assert fitted.predict(X, given=given)[long][0] == (0, 2, "LOC")
    assert fitted.weights_.names(Names.whole)[1][:4] == ("length 1", "length 2", "length 3", "mean of x[0]")


def test_marginals_are_those_of_positions():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(n, 2)) for n in (3, 1, 4)]
    Y = [random_segments(rng, len(x)) for x in X]
    svm = StructuredSVM(Names, risk="log", trainer="lbfgs", max_passes=5).fit(X, Y)
    for x, p in zip(X, svm.predict_marginals(X)):
        assert p.shape == (len(x), 3)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_rules_and_given_scores_of_segments():
    class Ruled(Names):
        never = Forbid(chain(Names.y), [("PER", "PER"), ("O", "O")])
        start = Forbid(starts(Names.y), ["LOC"])
        prior = Given(spans(Names.y), scores=[0.5, -np.inf, 0.0])

    x = np.zeros((3, 2))
    w = {name: np.zeros(shape) for name, shape in (("emit", (3, 2)), ("first", (3, 2)), ("trans", (3, 3)))}
    whole = np.zeros((3, 7))
    found = StructuredSVM.from_weights(Ruled, w | {"whole": whole}).predict([x])
    assert found == [[(0, 3, "O")]]  # LOC begins nowhere, PER is no segment, O does not follow itself
    with pytest.raises(DataError, match=r"labels that rule 'never' does not rule out, found O, O"):
        StructuredSVM(Ruled).fit([x], [[(0, 1, "O"), (1, 3, "O")]])
    with pytest.raises(DataError, match=r"the scores of 'prior' \(-inf\)"):
        StructuredSVM(Ruled).fit([x], [[(0, 3, "PER")]])


def test_the_loss_of_spans_counts_segments_missed_and_invented():
    class Whole(Names):
        loss = 2 * Cost(spans(Names.y), "wrong")

    X, truth = [np.zeros((4, 2))] * 3, [[(0, 2, "O"), (2, 4, "PER")]] * 3
    grounded = ground(Whole, X, truth)
    other = [[(0, 2, "O"), (2, 3, "PER"), (3, 4, "PER")], [(0, 2, "PER"), (2, 4, "PER")], truth[0]]
    states, *_ = grounded.layout.encode(other)
    assert grounded.loss.value(grounded.program, states).tolist() == [6.0, 4.0, 0.0]  # of 3, and of 2
    assert StructuredSVM(Whole, tol=0.9, max_passes=9).fit(X, truth).report_.plan.backend == "semi-markov"
    again = Model.from_json(Whole.to_json(), trusted=True)
    assert again.declaration == Whole.declaration


@pytest.mark.parametrize("model", [Names, Plain])
def test_declarations_come_back_from_json_and_pickle(model):
    again = Model.from_json(model.to_json(), trusted=True)
    assert again.declaration == model.declaration
    assert str(again) == str(model)
    assert str(pickle.loads(pickle.dumps(again))) == str(model)
    assert json.loads(model.to_json())["symbols"][2]["options"] == {"segments": model.y.segments}


def test_how_they_read():
    assert repr(Names.y) == "Label(T, ['O', 'PER', 'LOC'], segments=3)"
    assert "3 states, in segments of up to 3" in str(Names)
    text = str(estimate(Names, [np.zeros((n, 2)) for n in (2, 0)]))
    assert "whole  spans(y): 3 factors, 21 weights" in text
    assert "SegmentBegins(y): 2 constraints of 4 literals" in text


def test_mistakes_are_reported_together():
    with pytest.raises(ModelError) as caught:

        class Bad(Model):
            T, I = Dim(), Dim()
            x = Input(T, 2)
            end = Input(T)
            words = Attributes(T)
            y = Label(T, 3, segments=2)
            grid = Label(T, I, 2, segments=2)
            none = Label(T, 2, segments=0)
            many = Label(T, 40000, segments=2)
            plain = Label(T, 2)
            whole = Factor(spans(plain))
            far = Factor(chain(y, order=2))
            untied = Factor(spans(y), per=T)
            rows = Factor(spans(y), features=x)
            length = Factor(y, features=SpanLength(spans(y)))
            sparse = Factor(spans(y), features=SpanMean(words, spans(y)))
            joint = Factor(starts(y), features=JointFeature(rise, width=1))
            named = Factor(spans(y), features=Feature(rise, spans(y), width=2))
            loss = CountLoss(y, "f1", positive=[1])
            more = Cost(spans(y), np.eye(3), normalize=True)
            chained = Cost(chain(y), "boundary")

    text = str(caught.value)
    for part in (
        "grid: Label: segments divide one axis",
        "none: Label: segments is the most positions of a segment, an int of at least 1, got 0",
        "many: Label: segments have at most 1024 classes, got 40000",
        "whole: spans: a label of segments, such as y = Label(T, states, segments=8), got plain",
        "far: chain: of segments the order is 1",
        "untied: a factor of segments has no per",
        "rows: features: they have the axis T, spans(y) has []",
        "length: features: its rows belong to spans(y), not to y",
        "sparse: SpanMean: the source must be a dense Input",
        "joint: a factor of segments has no per",
        "named: the parameter 'end' of the function says where each factor is",
        "loss: CountLoss: the loss of segments is Hamming(y), wrong classes and beginnings, or "
        "Cost(spans(y), 'wrong'), wrong segments, or CountLoss(spans(y), 'f1')",
        "more: Cost: of spans(y) the table is 'wrong'",
        "more: Cost: of spans(y) it has no normalize",
        "chained: Cost: the loss of segments is Hamming(y)",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([(0, 2, "O")], r"segments that reach the end, T=3, found the last one ends at 2"),
        ([(0, 2, "O"), (1, 3, "O")], r"follow each other from 0 to T=3, found \[1, 3, 'O'\] where one starts at 2"),
        ([(0, 4, "O")], r"from 0 to T=3"),
        ([(0, 3, "X")], r"one of the classes \['O', 'PER', 'LOC'\], found \[0, 3, 'X'\]"),
        (["O", "O"], r"a class for each of T=3 positions.* found 2 entries"),
        (["O", None, "O"], r"a class for each position, found None"),
        ([(0, "O")], r"segments \(start, end, class\), found \[0, 'O'\]"),
        (3, r"a list of \(start, end, class\), or a class for each position, found"),
    ],
)
def test_wrong_segments_name_the_example(wrong, text):
    with pytest.raises(DataError, match=rf"label 'y', example 1: expected .*{text}"):
        ground(Names, [np.zeros((3, 2))] * 2, [[(0, 3, "O")], wrong])


def test_segments_that_are_too_long_say_how_long_they_may_be():
    with pytest.raises(DataError, match=r"segments of at most 3 positions \(segments=3\), found \(0, 4, 'O'\) of 4"):
        ground(Names, [np.zeros((4, 2))], [["O"] * 4])
