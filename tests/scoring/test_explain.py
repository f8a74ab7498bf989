"""What scores are made of: sums of terms beside scores by plain loops, and clamped answers beside all labellings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scored_structures import STRUCTURES

import model_table
import naive
from model_table import hidden_chain
from ssvm_dsl import (
    AtMost,
    Attributes,
    Dim,
    Factor,
    Grammar,
    Hamming,
    Input,
    Label,
    Model,
    ParseTree,
    SpanLength,
    StructuredSVM,
    chain,
    ground,
    leaves,
    rules,
    spans,
    starts,
)
from ssvm_dsl.errors import InfeasibleError, OptionError
from ssvm_dsl.report import plot_contributions

#: The others are compared with the kernel that scores labellings.
LOOPED = [model for model in model_table.TEMPLATES if model not in (model_table.Observed, model_table.White)]


def weighted(model, X, Y, seed=0, **parameters):
    """An estimator with random weights."""
    rng = np.random.default_rng(seed)
    blocks = ground(model, X, Y).parameters.blocks
    weights = {b.name: rng.normal(size=b.shape) if b.lower_bound < 0 else rng.random(b.shape) for b in blocks}
    return StructuredSVM.from_weights(model, weights, fitted_on=X, **parameters)


def close(value, expected):
    return value == pytest.approx(expected, rel=1e-9, abs=1e-9)


def adds_up(found):
    """All terms add up to the score, and so do the sums by factor, feature and position."""
    assert close(found.total, found.score)
    assert close(math.fsum(term.score for term in found.rows()), found.score)
    for what in ("factor", "feature", "position"):
        assert close(math.fsum(found.by(what).values()), found.score)


@pytest.mark.parametrize("model", LOOPED, ids=lambda model: model.__name__)
def test_terms_are_those_of_plain_loops(model):
    X, Y, inputs, labels = model_table.make_data(model, 3, seed=1, ragged=(1, 3))
    svm = weighted(model, X, Y, backend="auto", guarantee="heuristic")
    declaration, fitted = model.declaration, ground(model, X).fitted
    for x, y, raw, states in zip(X, Y, inputs, labels):
        found = svm.explain(x, y)
        adds_up(found)
        blocks = {name: model_table.densely(value) for name, value in svm.weights_.items()}
        assert close(found.total, naive.naive_score(declaration, blocks, raw, states, fitted))
        sums = found.by("factor")
        for factor in declaration.factors:
            if factor.tie is None and not any(other.tie is factor for other in declaration.factors):
                alone = {n: v if n == factor.name else np.zeros_like(v) for n, v in blocks.items()}
                expected = naive.naive_score(declaration, alone, raw, states, fitted)
                assert close(sums.get(factor.name, 0.0), expected), factor.name


def test_weights_of_observed_pairs_and_hashed_features():
    X, Y, *_ = model_table.make_data(model_table.White, 4, seed=1)
    hashed = weighted(model_table.White, X, Y)
    X_pairs, Y_pairs, *_ = model_table.make_data(model_table.Observed, 6, seed=2)
    pairs = StructuredSVM(model_table.Observed, trainer="perceptron", max_passes=3, random_state=0)
    pairs.fit(X_pairs, Y_pairs)
    assert pairs.coef_.any()
    for svm, examples, labels in ((hashed, X, Y), (pairs, X_pairs, Y_pairs)):
        for x, y, score in zip(examples, labels, svm.best_score(examples, labels)):
            found = svm.explain(x, y)
            adds_up(found)
            assert close(found.total, score)


def structure_inputs(structure, k, rng):
    """Random inputs of an example of a structure."""
    declaration, size = structure.model.declaration, structure.sizes[k]
    lengths = {name: values[k] for name, values in structure.lengths(structure.sizes).items()}
    inputs = {}
    for one in declaration.inputs:
        if one.name in structure.data:
            inputs[one.name] = structure.data[one.name][k]
        else:
            shape = (*(dim.size or lengths[dim.origin.name] for dim in one.dims), *one.shape)
            inputs[one.name] = rng.normal(size=shape)
    assert size is None or lengths
    return model_table.user_inputs(structure.model, inputs)


def same(one, other):
    if isinstance(one, dict):
        return all(same(one[name], other[name]) for name in one)
    return np.shape(one) == np.shape(other) and bool(np.all(np.asarray(one) == np.asarray(other)))


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_beside_all_their_labellings(name):
    structure, rng = STRUCTURES[name], np.random.default_rng(3)
    x, every = structure_inputs(structure, 0, rng), list(structure.labellings(structure.sizes[0]))
    if name == "candidates":
        every = [y for y in every if _allowed(structure, y)]
    blocks = ground(structure.model, [x]).parameters.blocks
    weights = {b.name: rng.normal(size=b.shape) if b.lower_bound < 0 else rng.random(b.shape) for b in blocks}
    svm = StructuredSVM.from_weights(structure.model, weights)
    scores = svm.best_score([x] * len(every), every)
    best = svm.explain(x)
    adds_up(best)
    assert close(best.score, scores.max())
    for k in rng.permutation(len(every))[:4].tolist():
        found = svm.why_not(x, every[k])
        adds_up(found.asked)
        assert same(found.labelling, every[k])
        assert close(found.margin, scores.max() - scores[k])
        assert close(math.fsum(one.change for one in found.changes()), -found.margin)
        assert close(math.fsum(found.by("feature").values()), -found.margin)
        assert "score" in str(found)


def _allowed(structure, y):
    may = structure.data["may"][0]
    return all(may[t][state] for t, state in enumerate(y))


class Word(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, ["<script>", "b", "c"])
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    few = AtMost(1, y.is_("b"))
    loss = Hamming(y)


EMIT = np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]])
TRANS = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [0.5, 0.0, 0.0]])


def word():
    return StructuredSVM.from_weights(Word, {"emit": EMIT, "trans": TRANS})


def test_partial_labels_are_completed_by_the_best_labelling():
    svm, x = word(), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    every = [y for y in np.ndindex(3, 3, 3) if y.count(1) <= 1]
    score = {y: sum(EMIT[s] @ row for s, row in zip(y, x)) + TRANS[y[0], y[1]] + TRANS[y[1], y[2]] for y in every}
    found = svm.why_not(x, [None, "c", None])
    rest = max((y for y in every if y[1] == 2), key=score.get)
    assert [["<script>", "b", "c"].index(one) for one in found.labelling] == list(rest)
    assert close(found.margin, max(score.values()) - score[rest])
    assert any(place == "y[1]" and new == "c" for place, _, new in found.differences)
    assert all(one.change < 0 for one in found.against)
    assert all(one.change > 0 for one in found.speaking_for)


def test_what_the_prediction_has_and_what_nothing_has():
    svm, x = word(), np.eye(2)
    there = svm.why_not(x, svm.predict([x])[0])
    assert there.margin == 0.0
    assert not there.changes()
    assert "the prediction has these labels" in str(there)
    never = svm.why_not(x, ["b", "b"])
    assert never.asked is None
    assert never.margin == math.inf
    assert never.changes() == []
    assert never.by("factor") == {}
    assert str(never).startswith("no labelling has these labels")
    with pytest.raises(InfeasibleError):
        svm.explain(x, ["b", "b"])


def test_terms_have_names_and_shown_things_are_escaped():
    svm, x = word(), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = svm.explain(x, ["<script>", "b", "c"])
    terms = found.rows()
    assert {(t.factor, t.places, t.states, t.feature) for t in terms} >= {
        ("emit", ("y[0]",), ("<script>",), "x[0]"),
        ("trans", ("y[1]", "y[2]"), ("b", "c"), None),
    }
    assert found.by("position").keys() == {"y[0]", "y[1]", "y[2]"}
    for page in (found._repr_html_(), svm.why_not(x, [None, "c", None])._repr_html_()):
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert "prefers-color-scheme" in page
    assert "<script>" in str(found)
    with pytest.raises(OptionError, match="factor, feature, position"):
        found.by("colour")
    with pytest.raises(OptionError, match="got -1"):
        found.top(-1)
    with pytest.raises(OptionError, match="emit, trans"):
        found.top(factor="emitt")
    assert all(term.factor == "trans" for term in found.top(factor=Word.trans))


def test_an_empty_example_and_weights_of_0():
    svm = word()
    empty = svm.explain(np.zeros((0, 2)))
    assert empty.score == empty.total == 0.0
    assert "all terms are 0" in str(empty)
    nothing = StructuredSVM.from_weights(Word, {"emit": 0 * EMIT, "trans": 0 * TRANS}).explain(np.ones((2, 2)))
    assert nothing.rows() == []
    assert nothing._repr_html_()


Parts = hidden_chain(2, 3, "uv")


def test_latent_states_are_the_best_ones():
    x, rng = np.random.default_rng(0).normal(size=(3, 2)), np.random.default_rng(1)
    weights = {"emit": rng.normal(size=(3, 2)), "joint": rng.normal(size=(3, 2)), "trans": rng.normal(size=(3, 3))}
    svm = StructuredSVM.from_weights(Parts, weights)
    for k, name in enumerate("uv"):
        found = svm.explain(x, name)
        scores = {
            h: sum(weights["emit"][s] @ row + weights["joint"][s, k] for s, row in zip(h, x))
            + weights["trans"][h[0], h[1]] + weights["trans"][h[1], h[2]]
            for h in np.ndindex(3, 3, 3)
        }  # fmt: skip
        adds_up(found)
        assert close(found.score, max(scores.values()))
        assert tuple(found.latent) == max(scores, key=scores.get)


class Chunks(Model):
    """Lengths have weights and no features: spans are no variables."""

    T = Dim()
    t = Attributes(T)
    y = Label(T, ["N", "V"], segments=4)
    whole = Factor(spans(y), features=SpanLength(spans(y)))
    step = Factor(chain(y))
    head = Factor(starts(y), features=t)
    loss = Hamming(y)


def test_segments_whose_spans_are_no_variables():
    X = [[["a"], ["b", "a"], ["c"], ["a"], []]]
    Y = [[(0, 2, "N"), (2, 3, "V"), (3, 5, "N")]]
    svm = weighted(Chunks, X, Y)
    assert any(group.of_spans for group in ground(Chunks, X, Y).program.groups)
    found, w = svm.explain(X[0], Y[0]), svm.weights_
    whole, step, head, names = w["whole"], w["step"], w["head"], svm.weights_.names("head")
    at = {name: k for k, name in enumerate(names[-1])}
    expected = whole[0, 1] + whole[1, 0] + whole[0, 1] + step[0, 1] + step[1, 0]
    expected += head[0, at["a"]] + head[1, at["c"]] + head[0, at["a"]]
    adds_up(found)
    assert close(found.score, expected)
    assert ("whole", ("y[2]",), ("V", "length 1")) in {term[:3] for term in found.rows()}
    adds_up(svm.explain(X[0]))


TREE = ParseTree.of("(S (NP (D the) (N dog)) (VP (V saw) (NP (N cats))))")


class Parser(Model):
    T = Dim()
    x = Input(T, 3)
    pair = Input(T, T, 2)
    y = Label(T, grammar=Grammar.from_trees([TREE], horizontal=0))
    leaf = Factor(leaves(y), features=x)
    span = Factor(spans(y), features=pair)
    rule = Factor(rules(y))
    loss = Hamming(y)


def test_parse_trees():
    rng = np.random.default_rng(4)
    x = {"x": rng.normal(size=(4, 3)), "pair": rng.normal(size=(4, 4, 2))}
    svm = weighted(Parser, [x], [TREE])
    found = svm.explain(x, TREE)
    adds_up(found)
    assert close(found.score, svm.best_score([x], [TREE])[0])
    assert close(svm.why_not(x, TREE).best.total, svm.best_score([x])[0])
    assert "NP" in {state for term in found.rows() for state in term.states}


def test_plots_and_tables():
    pytest.importorskip("matplotlib").use("Agg")
    svm, x = word(), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = svm.explain(x)
    ax = plot_contributions(found.by("feature"), k=2)
    assert len(ax.patches) == 3
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(found.score)
    changed = svm.why_not(x, [None, "c", None])
    ax = plot_contributions(changed.by("position"))
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(-changed.margin)


def test_heuristic_answers_say_that_the_margin_is_not_proved():
    X, Y, *_ = model_table.make_data(model_table.Seg, 1, seed=1, ragged=(2,))
    svm = weighted(model_table.Seg, X, Y, backend="icm", guarantee="heuristic")
    found = svm.why_not(X[0], 2 - np.asarray(svm.predict(X)[0]))
    adds_up(found.best)
    assert "not proved" in str(found)
