"""Weights by name: a score added up from names and weights alone is the score of the model."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise

import numpy as np
import pytest

from ssvm_dsl import (
    ANTISYMMETRIC,
    POTTS,
    SYMMETRIC,
    Attributes,
    Dim,
    Edges,
    Factor,
    Feature,
    Hamming,
    Hashed,
    Input,
    JointFeature,
    Label,
    Model,
    PLiF,
    Polynomial,
    Standardized,
    StructuredRegressor,
    StructuredSVM,
    Whitened,
    along,
    chain,
    cliques,
    complete,
    cross,
    pairs,
)
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import DataError, OptionError


class Tagger(Model):
    T = Dim()
    words, more = Attributes(T), Attributes(T)
    y = Label(T, ["noun", "verb", "x"])
    emit = Factor(y, features=words)
    both = Factor(y, features=[words, more])
    bucket = Factor(y, features=Hashed(words, 4))
    trans = Factor(chain(y))
    alike = Factor(chain(y, order=2), form=POTTS)
    noun = Factor(y.is_("noun"))
    again = Factor(y, features=words, tie=emit)
    loss = Hamming(y)


SENTENCES = [
    [{"w=the": 1.0, "cap": 2.0}, ["w=fish"], ["w=swims", "cap"]],
    [["w=fish"], {"w=the": 0.5}],
]
X = [{"words": s, "more": [["cap"] if len(list(t)) > 1 else [] for t in s]} for s in SENTENCES]
Y = [["x", "noun", "verb"], ["noun", "x"]]


def fitted(model, X, Y, rng=0):
    """A fitted estimator with other weights, so that none is 0 by chance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = StructuredSVM(model, C=1.0, max_passes=1, random_state=0).fit(X, Y)
    svm.coef_ = np.random.default_rng(rng).normal(size=svm.coef_.shape)
    return svm


@pytest.fixture(scope="module")
def tagger():
    return fitted(Tagger, X, Y)


def items(token):
    return dict(token) if isinstance(token, dict) else dict.fromkeys(token, 1.0)


def test_scores_of_a_tagger_follow_from_names_and_weights(tagger):
    table = {one[:4]: one.weight for one in tagger.weights_.top(k=None)}
    hashes = {}
    for name in {name for s in SENTENCES for token in s for name in items(token)}:
        only = tagger._ground([{"words": [[name]], "more": [[]]}], fitted=tagger.fitted_.learnt).parameters.maps
        hashes[name] = next(m for m in only if m.name == "bucket").features.indices[0]
    for x, y, score in zip(X, Y, tagger.best_score(X, Y), strict=True):
        total = 0.0
        for token, more, tag in zip(x["words"], x["more"], y, strict=True):
            for name, value in items(token).items():
                total += 2 * value * table["emit", (), (tag,), name]  # emit, and again with its weights
                total += value * table["both", (), (tag,), f"words:{name}"]
                total += value * table["bucket", (), (tag,), f"words#{hashes[name]}"]
            total += sum(table["both", (), (tag,), f"more:{name}"] for name in more)
            total += table["noun", (), ("noun",), None] if tag == "noun" else 0.0
        total += sum(table["trans", (), pair, None] for pair in pairwise(y))
        triples = zip(y, y[1:], y[2:], strict=False)
        total += sum(table["alike", (), ("all equal",), None] for three in triples if len(set(three)) == 1)
        assert score == pytest.approx(total, rel=1e-12)


def test_names_have_the_lengths_of_the_axes(tagger):
    weights = tagger.weights_
    for name in weights:
        assert tuple(map(len, weights.names(name))) == weights[name].shape
    assert weights.names(Tagger.emit) == (("noun", "verb", "x"), ("w=the", "cap", "w=fish", "w=swims"))
    assert weights.names("alike") == weights.names("noun") == ()
    assert weights.names("again") == weights.names("emit")
    with pytest.raises(KeyError, match="no factor 'emitt'"):
        weights.names("emitt")


def test_the_top_is_sorted_and_can_be_of_one_class(tagger):
    weights = tagger.weights_
    top = weights.top(k=5)
    sizes = np.sort(np.abs(tagger.coef_))[::-1]
    assert [abs(one.weight) for one in top] == sizes[:5].tolist()
    verb = weights.top("trans", k=None, state="verb")
    before, after = {(tag, "verb") for tag in ("noun", "verb", "x")}, {("verb", tag) for tag in ("noun", "verb", "x")}
    assert {one.states for one in verb} == before | after
    assert {one.factor for one in weights.top(k=None, state="noun")} == {"emit", "both", "bucket", "trans", "noun"}
    with pytest.raises(OptionError, match="state='verbb' is not a class that trans scores"):
        weights.top("trans", state="verbb")
    for wrong in (0, 2.5, "all"):
        with pytest.raises(OptionError, match="k must be None or a positive int"):
            weights.top(k=wrong)
    tagger.coef_[:] = 0
    assert weights.top(k=None) == ()
    assert str(weights.top()) == "weight  factor"


def test_equal_weights_come_in_order():
    svm = fitted(Tagger, X, Y)
    svm.coef_[:] = 1.0
    assert [one.states for one in svm.weights_.top("trans", k=2)] == [("noun", "noun"), ("noun", "verb")]


def test_tables_are_shown(tagger):
    svm = fitted(Tagger, X, Y, rng=3)
    top = svm.weights_.top("emit", k=2)
    lines = str(top).splitlines()
    assert lines[0].split() == ["weight", "factor", "states", "feature"]
    assert [line.split()[0] for line in lines[1:]] == [f"{one.weight:+.4g}" for one in top]
    assert [line.split()[-1] for line in lines[1:]] == [one.feature for one in top]
    assert "<th>emit  " in top._repr_html_()
    assert top.__rich__().row_count == 2


def test_names_survive_a_file(tagger, tmp_path):
    svm = fitted(Tagger, X, Y)
    svm.save(tmp_path / "m.ssvm")
    assert StructuredSVM.load(tmp_path / "m.ssvm").weights_.top(k=None) == svm.weights_.top(k=None)


class Scene(Model):
    K, L = Dim(3), Dim(2)
    x, z, flat = Input(2), Input(K, 2, 2), Input()
    a, b = Label(K, 2), Label(K, L, ["u", "v", "w"])
    own = Factor(a, features=z, per=K)
    pair = Factor(complete(a), per="edge")
    joins = Factor(pairs(b, L), per="edge", form=SYMMETRIC)
    anti = Factor(pairs(b, K), form=ANTISYMMETRIC, features=x)
    both = Factor(cross(a, b), features=[flat, Standardized(x)], per=[K, L])
    basis = Factor(complete(a), form=np.array([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [0.5, 0.0]]]))
    fine = Factor(a, features=[PLiF(x, [0.0, 1.5]), Polynomial(x, 2)])
    loss = Hamming(a) + Hamming(b)


def scene():
    rng = np.random.default_rng(0)
    X = [{"x": rng.random(2), "z": rng.random((3, 2, 2)), "flat": rng.random()} for _ in range(3)]
    Y = [{"a": rng.integers(0, 2, 3), "b": rng.choice(["u", "v", "w"], (3, 2))} for _ in range(3)]
    return fitted(Scene, X, Y), X, Y


def value(name, one, k, standard):
    """A feature by its name, at position k of the first axis."""
    x, z = one["x"], one["z"][k]
    numbers = {"x[0]": x[0], "x[1]": x[1], "flat": one["flat"]}
    numbers |= {f"z[{i}, {j}]": z[i, j] for i in (0, 1) for j in (0, 1)}
    for i in (0, 1):
        numbers |= {f"Standardized(x[{i}])": standard(i), f"x[{i}] at 0": max(1 - x[i] / 1.5, 0)}
        numbers |= {f"x[{i}] at 1.5": min(x[i] / 1.5, 1)}
    numbers |= {f"x[{i}]*x[{j}]": x[i] * x[j] for i in (0, 1) for j in (0, 1)}
    return numbers[name]


def test_scores_of_units_forms_and_dense_features_follow_from_names():
    svm, X, Y = scene()
    rows = svm.weights_.top(k=None)
    assert len(rows) == len(svm.coef_)
    (learnt,) = (state for state in svm.fitted_.learnt.values() if "mean" in state)
    for one, y, score in zip(X, Y, svm.best_score(X, Y), strict=True):
        a, b = y["a"].tolist(), y["b"].tolist()

        def standard(i, one=one):
            return (one["x"][i] - learnt["mean"][i]) / learnt["scale"][i]

        def times(row, k=0, one=one, standard=standard):
            return row.weight * (1.0 if row.feature is None else value(row.feature, one, k, standard))

        def matches(row, a=a, b=b):
            if row.factor == "own":
                return times(row, *row.unit) * (a[row.unit[0]] == row.states[0])
            if row.factor == "pair":
                ((i, j),) = row.unit
                return times(row) * ((a[i], a[j]) == row.states)
            if row.factor == "joins":
                (((i, j), (k, m)),) = row.unit
                return times(row) * (sorted((b[i][j], b[k][m])) == sorted(row.states))
            if row.factor == "anti":
                joined = [(b[k][m], b[k + 1][m]) for k in range(2) for m in range(2)]
                return times(row) * sum((two == row.states) - (two[::-1] == row.states) for two in joined)
            if row.factor == "both":
                k, m = row.unit
                return times(row) * ((a[k], b[k][m]) == row.states)
            if row.factor == "basis":
                table = {"basis 0": [[1, 0], [0, 2]], "basis 1": [[0, 1], [0.5, 0]]}[row.states[0]]
                return row.weight * sum(table[a[i]][a[j]] for i in range(3) for j in range(i + 1, 3))
            return sum(times(row) * (state == row.states[0]) for state in a)

        assert score == pytest.approx(sum(map(matches, rows)), rel=1e-10)


def test_all_kinds_of_features_have_names():
    class Kinds(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 2)
        own = Feature(lambda x: x[:, :1] ** 2, T, width=1)
        one = Factor(y, features=[own, Whitened(x)])
        two = Factor(chain(y), features=JointFeature(joint, width=2))
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    svm = fitted(Kinds, [rng.random((3, 2)) for _ in range(2)], [[0, 1, 0], [1, 1, 0]])
    assert svm.weights_.names("one") == ((0, 1), ("own", "Whitened(x[0])", "Whitened(x[1])"))
    assert svm.weights_.names("two") == (("joint[0]", "joint[1]"),)
    assert {one.states for one in svm.weights_.top("two")} == {()}


def joint(x):
    return np.ones((len(x) - 1, 2, 2, 2))


def test_attributes_without_any_names_are_refused():
    class Bare(Model):
        T = Dim()
        words = Attributes(T)
        y = Label(T, 2)
        emit = Factor(y, features=words)
        loss = Hamming(y)

    with pytest.raises(DataError, match="input 'words': expected attribute names in some example, found none at all"):
        StructuredSVM(Bare).fit([[[], {}], [[]]], [[0, 1], [1]])


def test_the_command_names_a_file_that_is_not_there(tmp_path, capsys):
    assert main(["weights", str(tmp_path / "none.ssvm")]) == 2
    assert "none.ssvm: No such file or directory" in capsys.readouterr().err


def test_the_command_shows_weights_of_a_file(tmp_path, capsys):
    svm = fitted(Tagger, X, Y)
    svm.save(tmp_path / "m.ssvm")
    assert main(["weights", str(tmp_path / "m.ssvm"), "--factor", "emit", "--state", "verb", "-k", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["weight"] for row in rows] == [one.weight for one in svm.weights_.top("emit", 2, "verb")]
    assert list(rows[0]) == ["factor", "unit", "states", "feature", "weight"]
    assert main(["weights", str(tmp_path / "m.ssvm"), "-k", "3"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{one.weight:+.4g}" in shown for one in svm.weights_.top(k=3))
    for wrong, text in (("--factor", "no factor 'z'; it has: emit, both"), ("--state", "no class 'z'; it has: noun")):
        assert main(["weights", str(tmp_path / "m.ssvm"), wrong, "z"]) == 2
        assert text in capsys.readouterr().err


def test_the_command_reads_classes_that_are_ints_and_models_of_any_estimator(tmp_path, capsys):
    svm, _, _ = scene()
    svm.save(tmp_path / "m.ssvm")
    assert main(["weights", str(tmp_path / "m.ssvm"), "--factor", "own", "--state", "1", "-k", "100", "--json"]) == 0
    assert {tuple(row["states"]) for row in json.loads(capsys.readouterr().out)} == {(1,)}

    class Value(Model):
        x = Input(2)
        y = Label(1)
        score = Factor(y, features=x)

    reg = StructuredRegressor(Value).fit([np.ones(2), np.zeros(2)], [1.0, 0.0], [0, 0])
    reg.save(tmp_path / "r.ssvm")
    assert main(["weights", str(tmp_path / "r.ssvm")]) == 0
    assert "x[1]" in capsys.readouterr().out


def test_edges_of_a_list_are_numbered_and_those_of_a_pattern_named_by_positions():
    class Net(Model):
        N, M = Dim(4), Dim(3)
        x = Input(N, 1)
        e = Edges(M, over=N)
        y = Label(N, 2)
        node = Factor(y, features=x)
        listed = Factor(along(y, e), form=POTTS, per=M)
        fixed = Factor(cliques(y, [(0, 1, 2), (1, 2, 3)]), form=POTTS, per="edge")
        loss = Hamming(y)

    one = {"x": np.zeros((4, 1)), "e": [(0, 1), (1, 2), (2, 3)]}
    weights = fitted(Net, [one], [[0, 1, 1, 0]]).weights_
    assert weights.names("listed") == ((0, 1, 2),)
    assert weights.names("fixed") == (((0, 1, 2), (1, 2, 3)),)
    assert {(row.unit, row.states) for row in weights.top("fixed")} == {
        (((0, 1, 2),), ("all equal",)), (((1, 2, 3),), ("all equal",))
    }  # fmt: skip
