"""Patterns with index variables: which factors there are, features at positions, mistakes in words."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc

import numpy as np
import pytest

from naive import holds, pattern_scopes
from random_patterns import Drawn
from ssvm_dsl import (
    POTTS,
    Allow,
    Attributes,
    Cost,
    Dim,
    Edges,
    Factor,
    Feature,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    ModelBuilder,
    Pattern,
    Positions,
    Standardized,
    StructuredSVM,
    along,
    chain,
    complete,
    ground,
    instances,
)
from ssvm_dsl.compiler.inputs import read_examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import ground_scopes
from ssvm_dsl.errors import DataError, InfeasibleError, ModelError, TooLargeError
from ssvm_dsl.lang.dims import as_condition, opposite
from ssvm_dsl.lang.patterns.join import World, find_instances
from ssvm_dsl.scoring import Scorer


def numbered(declaration, sizes, example, first):
    """The number of the variable at each position of each label, and the number after the last one."""
    out, n = {}, first
    for label in declaration.labels:
        for place in itertools.product(*(range(sizes[dim.origin.name]) for dim in label.dims)):
            at = {id(index): value for index, value in zip(label.indices, place)}
            if label.symmetric and not place[0] < place[1]:
                continue
            if label.condition is not None and holds(label.condition, at, sizes, example) is not True:
                continue
            out[label.name, place] = n
            if label.symmetric:
                out[label.name, place[::-1]] = n
            n += 1
    return out, n


@pytest.mark.parametrize("seed", range(0, 400, 8))
def test_factors_are_those_of_the_definition(seed):
    for number in range(seed, seed + 8):
        try:
            drawn = Drawn(number)
        except ModelError:
            continue
        declaration, X = drawn.model.declaration, [drawn.example() for _ in range(3)]
        examples = read_examples(declaration, X, judged=False)
        layout, target = Layout.of(declaration, examples), declaration.find("drawn").target
        try:
            shapes = ground_scopes(target, layout, examples).shapes
        except ModelError:  # a relation in an order that it does not have
            continue
        found = shapes.variables()
        for k, example in enumerate(X):
            sizes = {"N": len(example["x"]), "K": 3, "M": len(example["e"])}
            number_of, end = numbered(declaration, sizes, example, int(layout.var_ptr[k]))
            assert end == layout.var_ptr[k + 1]
            scopes = [s for part in range(len(target.groups)) for s, _ in pattern_scopes(target, part, sizes, example)]
            wanted = [[number_of.get(one) for one in scope] for scope in scopes]
            wanted = [one for one in wanted if None not in one and len(set(one)) == len(one)]
            assert found[shapes.ptr[k] : shapes.ptr[k + 1]].tolist() == wanted, (number, repr(target))


class Words(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    second = Factor(chain(y, order=2), form=POTTS)
    loss = Hamming(y)


class Indices(Model):
    T = Dim()
    t = T.index()
    x = Input(T, 4)
    y = Label(T, 3)
    emit = Factor(y[t], features=x[t])
    trans = Factor((y[t], y[t + 1]))
    second = Factor((y[t], y[t + 1], y[t + 2]), form=POTTS)
    loss = Hamming(y)


def test_a_chain_by_indices_is_a_chain():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 4)) for n in (3, 1, 5, 2, 4, 0)]
    Y = [x[:, :3].argmax(axis=1) for x in X]
    one, other = (StructuredSVM(model, random_state=0).fit(X, Y) for model in (Words, Indices))
    assert np.array_equal(one.coef_, other.coef_)
    assert one.plan_.backend == other.plan_.backend
    assert all(np.array_equal(a, b) for a, b in zip(one.predict(X), other.predict(X)))


def test_patterns_are_equal_up_to_names_and_keep_their_hash():
    T, U = Dim(), Dim()
    assert T != U
    before = hash(T)
    T.__set_name__(None, "T")
    assert hash(T) == before
    y = Label(T, 2)
    (s, t), (u, v) = T.index(2), T.index(2)
    assert s != t
    assert Pattern((y[s], y[t]), where=s < t) == Pattern((y[u], y[v]), where=u < v)
    assert Pattern((y[s], y[t]), where=s < t) != Pattern((y[v], y[u]), where=u < v)
    assert hash(Pattern((y[s], y[t]))) == hash(Pattern((y[u], y[v])))
    assert chain(y) == chain(y)
    assert chain(y) != Pattern((y[s], y[s + 1]))  # the features of a chain have a place
    assert chain(y).pattern == Pattern((y[s], y[s + 1]))
    assert {chain(y): 1}[chain(y)] == 1


class Window(Model):
    T = Dim()
    t = T.index()
    x = Input(T, 2)
    words = Attributes(T)
    y = Label(T, 2)
    near = Factor(y[t], features=[x[t - 1], Standardized(x)[t], x[t + 1, 0]])
    named = Factor(y[t], features=words[t - 1])
    pair = Factor((y[t], y[t + 1]), features=Feature(lambda s, t, x: np.c_[x[t] - x[s]], t, t + 1, width=2))
    given = Given((y[t], y[t + 1]), scores=[0.0, 1.0, 0.0, 0.0])
    loss = Hamming(y)


def test_features_at_positions_are_zeros_where_there_is_none():
    X = [{"x": np.arange(6.0).reshape(3, 2), "words": [["a"], ["b"], ["c"]]}, {"x": np.ones((1, 2)), "words": [["a"]]}]
    made = ground(Window, X, [[0, 1, 0], [1]])
    maps = {one.name: one for one in made.parameters.maps}
    rows = maps["near"].features
    assert rows.shape == (4, 5)
    assert rows[0, :2].tolist() == [0.0, 0.0]
    assert rows[1, :2].tolist() == [0.0, 1.0]
    assert rows[:, 4].tolist() == [2.0, 4.0, 0.0, 0.0]
    named = maps["named"].features
    assert np.diff(named.ptr).tolist() == [0, 1, 1, 0]
    assert maps["pair"].features.tolist() == [[2.0, 2.0], [2.0, 2.0]]


class Units(Model):
    N, K = Dim(), Dim(3)
    n, k = N.index(), K.index()
    x = Input(N, 2)
    day = Positions(N, over=K)
    parent = Positions([-1, 0, 0], over=K)
    y = Label(N, 2)
    z = Label(K, 2)
    emit = Factor(y[n], features=x[n], per=day[n])
    own = Factor(z[k], per=k)
    up = Factor((z[k], z[parent[k]]))
    loss = Hamming(y) + Hamming(z)


def test_weights_per_index_and_per_what_is_read():
    rng = np.random.default_rng(0)
    X = [{"x": rng.normal(size=(n, 2)), "day": rng.integers(0, 3, n)} for n in (2, 5, 4)]
    Y = [{"y": (x["x"][:, 0] * (x["day"] - 1) > 0).astype(int), "z": [1, 0, 1]} for x in X]
    svm = StructuredSVM(Units, random_state=0).fit(X, Y)
    assert svm.weights_["emit"].shape == (3, 2, 2)
    assert svm.weights_["own"].shape == (3, 2)
    assert len(instances(Units, "up", X[0])) == 2
    assert instances(Units, "up", X[0]).left_out["a position does not exist"] == 1
    assert svm.score(X, Y) > 0.8
    with pytest.raises(DataError, match=r"input 'day', example 0: expected positions in 0..2 .*found 3"):
        svm.predict([{"x": np.ones((1, 2)), "day": [3]}])


class Relation(Model):
    N = Dim()
    i, j, k = N.index(3)
    x = Input(N, N, 2)
    same = Label(i, j, 2, where=i < j)
    link = Factor(same[i, j], features=x[i, j])
    three = Factor((same[i, j], same[j, k], same[i, k]), where=(i < j) & (j < k))
    loss = Hamming(same)


class Times(Model):
    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 3)
    order = Label(i, j, ["none", "before", "after"], symmetric={"before": "after"})
    link = Factor(order, features=x)
    loss = Hamming(order)


def test_labels_over_pairs_are_masked_and_mirrored():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, n, 3)) for n in (3, 4, 2, 5)]
    pairs = [x[..., 0] > 0 for x in X]
    svm = StructuredSVM(Relation, random_state=0).fit([x[..., :2] for x in X], [one.astype(int) for one in pairs])
    found = svm.predict([X[1][..., :2]])[0]
    assert np.array_equal(np.ma.getmaskarray(found), np.tri(4, dtype=bool))
    names, back = np.array(["none", "before", "after"]), {"none": "none", "before": "after", "after": "before"}
    Y = []
    for x in X:
        y = names[x.argmax(axis=-1)].astype(object)
        for a, b in itertools.combinations(range(len(y)), 2):
            y[b, a] = None if rng.random() < 0.5 else back[y[a, b]]
        Y.append(y)
    times = StructuredSVM(Times, random_state=0, tol=1e-4).fit(X, Y)
    found = times.predict(X[:1])[0]
    assert all(found[b, a] == back[found[a, b]] for a, b in itertools.combinations(range(3), 2))
    assert times.score(X, Y) > 0.9
    Y[0][1, 0] = Y[0][0, 1] = "before"
    with pytest.raises(DataError, match=r"label 'order', example 0: .*the label is symmetric"):
        times.score(X, Y)
    restored = pickle.loads(pickle.dumps(times))
    assert np.array_equal(restored.predict(X[:1])[0], found)


def test_a_relation_in_the_order_that_it_does_not_have_is_refused():
    class Wrong(Model):
        N = Dim()
        i, j, k = N.index(3)
        x = Input(N, N)
        same = Label(i, j, 2, where=i < j)
        link = Factor(same, features=x)
        three = Factor((same[i, j], same[j, k], same[i, k]))
        loss = Hamming(same)

    with pytest.raises(ModelError, match=r"does not exist in this order of its positions.*symmetric=True"):
        ground(Wrong, [np.ones((3, 3))])


def test_models_with_indices_survive_json():
    for model in (Indices, Relation, Times, Units):
        again = Model.from_json(model.to_json())
        assert again.to_json() == model.to_json()
        assert str(again) == str(model)
    text = str(Relation)
    assert "Label(i, j, 2, where=i < j)" in text
    assert "Factor((same[i, j], same[j, k], same[i, k]), where=(i < j) & (j < k))" in text


def test_a_builder_takes_indices():
    m = ModelBuilder("Built")
    N = m.dim("N")
    i, j = m.index("i j", N)
    x, near = m.input("x", N, 2), m.input("near", N, N)
    y = m.label("y", N, 2)
    m.factor("own", y[i], features=x[i])
    m.factor("pair", (y[i], y[j]), form=POTTS, where=(i < j) & near[i, j])
    m.loss(Hamming(y))
    made = ground(m.build(), [{"x": np.ones((3, 2)), "near": np.ones((3, 3))}])
    assert made.program.groups[0].shapes.n_factors == 3


def test_friends_of_friends_are_joined_without_a_cube():
    N = Dim()
    N.__set_name__(None, "N")
    a, b, c = N.index(3)
    friend = Input(N, N)
    friend.__set_name__(None, "friend")
    rng, n = np.random.default_rng(0), 400
    table = np.zeros((n, n), dtype=np.int8)
    for row in range(n):
        table[row, rng.choice(n, 5, replace=False)] = 1
    world = World({"N": np.array([n])}, {"friend": [table]}, 1)
    tracemalloc.start()
    found = find_instances((a, b, c), friend[a, b] & friend[b, c], [], world)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 25 * n
    assert peak < 4e6
    with pytest.raises(TooLargeError, match="narrow its where="):
        find_instances((a, b, c), None, [], World({"N": np.array([2000])}, {}, 1))
    with pytest.raises(DataError, match="input 'friend', example 0: expected 0 or 1"):
        find_instances((a, b), as_condition(friend[a, b]), [], World({"N": np.array([n])}, {"friend": [table * 2]}, 1))


def test_what_was_left_out_is_counted():
    class Apart(Model):
        N = Dim()
        i, j = N.index(2)
        x = Input(N)
        near = Input(N, N)
        y = Label(N, 2)
        own = Factor(y[i], features=x[i])
        pair = Factor((y[i], y[j + 1]), where=near[i, j])
        loss = Hamming(y)

    found = instances(Apart, "pair", {"x": np.ones(3), "near": np.ones((3, 3))})
    assert found.left_out == {
        "the condition is not true": 0,
        "a position does not exist": 3,
        "two references are the same variable": 2,
        "the label has no variable there": 0,
    }
    assert "i = 0, j = 0: y[0], y[1]" in str(found)


def raised(make):
    with pytest.raises(ModelError) as caught:
        make()
    return str(caught.value)


def declared(make):
    """The message of a model in whose body a symbol is wrong."""

    def body():
        class Wrong(Model):
            T, U, K = Dim(), Dim(), Dim(3)
            t, (i, j), u, k = T.index(), T.index(2), U.index(), K.index()
            x, f = Input(T, 3), Input(T, T)
            y, z, r = Label(T, "ab"), Label(K, 2), Label(T, T, 2)
            e = Edges(U, over=T)
            wrong = make(locals())
            own = Factor(y, features=x)
            loss = Hamming(y)

    return raised(body)


T = Dim()
t, i, j, k = T.index(4)
x, y, f = Input(T, 3), Label(T, "ab"), Input(T, T)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: i < j < k, "write (i < j) & (j < k)"),
        (lambda: not i < j, "has no truth value in Python"),
        (lambda: i < j & f[i, j], "brackets are missing: write (i < j) & f[i, j]"),
        (lambda: y[i][j], "write y[i, j], not y[i][j]"),
        (lambda: y[1:2], "slices are no positions"),
        (lambda: y[1.5], "positions are indices and ints, got 1.5"),
        (lambda: y[True], "positions are indices and ints, got True"),
        (lambda: y[np.arange(2)], "positions are indices and ints"),
        (lambda: np.arange(2) + t, "put the positions of an array into Positions"),
        (lambda: list(y), "cannot be iterated"),
        (lambda: list(x), "cannot be iterated"),
        (lambda: t in y, "`in` asks Python, not the model"),
        (lambda: -t, "-1 - t counts from the end"),
        (lambda: 5 - t, "only a negative int less an index is a position"),
        (lambda: (t + 1) % Dim(), "a ring is over the index's own axis"),
        (lambda: Factor((y[i], y[j]), where=True), "use .is_ in place of =="),
        (lambda: i.is_(None), "only what Positions hold may be no position"),
        (lambda: T.index(0), "how many indices, a positive int, got 0"),
    ],
)
def test_traps_of_python_are_answered(make, words):
    assert words in raised(make)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: Factor(p["y"][p["u"]]), "y[u]: a position on U, expected one on T; u.on(T) is the same number"),
        (lambda p: Factor(p["z"][5]), "z[5]: there is no position 5 on an axis of 3"),
        (lambda p: Factor(p["y"][p["i"]], features=p["x"][p["j"]]), "has the index j, which is not one of y[i]"),
        (lambda p: Factor((p["y"][p["i"]], p["y"][p["j"]]), where=p["i"] < p["u"]), "on T and on U, two axes"),
        (lambda p: Factor(p["y"][p["i"]], features=p["x"]), "x has the axes [T]; in a pattern it is read at positions"),
        (lambda p: Factor((p["y"][p["i"]], p["y"][p["i"]])), "y[i] is written twice"),
        (lambda p: Factor([p["y"][p["i"]], p["y"][p["j"]]]), "a pair is a tuple"),
        (lambda p: Factor(p["y"][p["i"]], per=p["i"]), "runs over a ragged axis"),
        (lambda p: Factor(p["y"][p["i"]], per=p["k"]), "per: an index of the pattern, got k"),
        (lambda p: Factor(chain(p["y"]), where=p["i"] < p["j"]), "a condition is for variables at positions"),
        (lambda p: Factor(p["y"][p["i"] + p["j"]]), "this is no position; put the positions into Positions"),
        (lambda p: Factor(p["y"][p["i"]], features=Standardized(p["x"][p["i"]])), "write Standardized(x)[i]"),
        (lambda p: Factor(p["y"][Positions([0, 1], over=p["T"])[p["k"]]]), "a fixed axis of 2, got k"),
        (lambda p: Factor(p["r"], features=p["x"]), "r has the axis T twice: write features at positions"),
        (lambda p: Factor(p["r"][p["i"]]), "r has 2 positions, one for each axis, got 1"),
        (lambda p: Factor(p["y"][p["e"][p["u"], 2]]), "ends are 0 to 1"),
        (lambda p: Label(p["T"], 2, where=p["i"] < 3), "its where= has its own indices only"),
        (lambda p: Label(p["i"], p["T"], 2), "indices in place of axes: all of them indices, each once"),
        (lambda p: Label(p["i"], p["u"], 2, symmetric=True), "symmetric= is for two indices over one axis"),
    ],
)
def test_mistakes_with_indices_are_named(make, words):
    assert words in declared(make)


def test_numbers_of_numpy_are_ints_and_words_lay_what_they_did():
    assert repr(np.int64(1) + t) == repr(t + 1)
    assert opposite(i < j) != (i < j)
    rng = np.random.default_rng(0)

    class Both(Model):
        N, M = Dim(), Dim()
        n, m, (a, b) = N.index(), M.index(), N.index(2)
        x = Input(N, 2)
        e = Edges(M, over=N)
        y = Label(N, 2)
        own = Factor(y, features=x)
        old = Factor(along(y, e))
        new = Factor((y[e[m, 0]], y[e[m, 1]]))
        pairs_ = Factor(complete(y))
        every = Factor((y[a], y[b]), where=a < b)
        loss = Hamming(y)

    X = [{"x": rng.normal(size=(4, 2)), "e": [[0, 1], [3, 2]]}, {"x": rng.normal(size=(2, 2)), "e": [[1, 0]]}]
    maps = {one.name: one.shapes.variables().tolist() for one in ground(Both, X).parameters.maps}
    assert maps["old"] == maps["new"]
    assert maps["pairs_"] == maps["every"]


class Friends(Model):
    N = Dim()
    a, b = N.index(2)
    friend = Input(N, N)
    z = Input(N, 2)
    vote = Label(N, ["left", "right"])
    own = Factor(vote[a], features=z[a])
    alike = Factor((vote[a], vote[b]), form=POTTS, where=(a < b) & friend[a, b])
    loss = Hamming(vote)


def test_scores_of_a_pattern_that_inputs_decide_are_poured_in():
    rng, scorer = np.random.default_rng(0), Scorer(Friends)
    assert scorer.shapes["alike"] == "(n,) for each example, or () for all factors"
    tables = [np.triu(rng.random((n, n)) < 0.6, 1) * 1.0 for n in (3, 4)]
    own = [rng.normal(size=(len(one), 2)) for one in tables]
    alike = [rng.normal(size=int(one.sum())) for one in tables]
    found = scorer.answer({"own": own, "alike": alike}, data={"friend": tables})
    for unary, pairs, table, score in zip(own, alike, tables, found.score, strict=True):
        ends, n = np.argwhere(table), len(table)
        best = max(
            sum(unary[range(n), y]) + sum(w for w, (p, q) in zip(pairs, ends, strict=True) if y[p] == y[q])
            for y in itertools.product((0, 1), repeat=n)
        )
        assert score == pytest.approx(best)


def test_terms_are_named_by_positions():
    X = [{"friend": np.triu(np.ones((3, 3)), 1), "z": np.eye(3, 2)}]
    svm = StructuredSVM(Friends, random_state=0).fit(X, [["left", "left", "right"]])
    text = str(svm.explain(X[0]))
    assert "z[a][0]" in text
    assert "vote[0], vote[1]" in text


def test_copies_of_a_model_lay_the_same_factors():
    class Local(Model):
        N = Dim()
        i, j, k = N.index(3)
        x = Input(N)
        y = Label(N, 2)
        own = Factor(y, features=x)
        pair = Factor((y[i], y[j]), where=abs(i - j) <= 2)
        every = Factor(complete(y))
        loss = Hamming(y)

    X, Y = [np.arange(4.0), np.ones(3)], [[0, 1, 1, 0], [1, 0, 1]]
    svm = StructuredSVM(Local, random_state=0).fit(X, Y)
    copied = pickle.loads(pickle.dumps(svm))
    for one in (svm, copied, pickle.loads(pickle.dumps(copied))):
        assert np.array_equal(one.best_score(X), svm.best_score(X))
    assert np.array_equal(copied.fit(X, Y).coef_, svm.coef_)


def test_costs_of_a_pattern_are_those_of_the_word():
    class Both(Model):
        N = Dim()
        i = N.index()
        x = Input(N, 2)
        y = Label(N, 2)
        own = Factor(y, features=x)
        trans = Factor(chain(y))
        loss = Cost((y[i], y[i + 1]), "boundary")

    class Word(Model):
        N = Dim()
        x = Input(N, 2)
        y = Label(N, 2)
        own = Factor(y, features=x)
        trans = Factor(chain(y))
        loss = Cost(chain(y), "boundary")

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (3, 4, 2)]
    Y = [(x[:, 0] > 0).astype(int) for x in X]
    one, other = (StructuredSVM(model, random_state=0).fit(X, Y) for model in (Both, Word))
    assert np.array_equal(one.coef_, other.coef_)
    assert Model.from_json(Both.to_json()).to_json() == Both.to_json()


def too_near(a, b, s, t, gap):
    """Frequencies of two transmitters that are too near each other."""
    return abs(a - b) < gap[s.ravel(), t.ravel()].reshape(s.shape)


class Frequencies(Model):
    N = Dim()
    s, t = N.index(2)
    x = Input(N, 3)
    gap = Input(N, N)
    y = Label(N, [1, 2, 4])
    own = Factor(y[s], features=x[s])
    apart = Forbid((y[s], y[t]), too_near, s, t, where=s < t)
    first = Allow(y[s], lambda a, s: (a < 4) | (s > 0), s)
    loss = Hamming(y)


def test_functions_say_which_joint_states_are_ruled_out():
    rng, classes = np.random.default_rng(0), np.array([1, 2, 4])
    X = [{"x": rng.normal(size=(n, 3)), "gap": rng.integers(0, 3, (n, n))} for n in (3, 2, 3, 1)]
    weights = {"own": rng.normal(size=(3, 3))}
    svm = StructuredSVM.from_weights(Frequencies, weights)

    def allowed(x, y):
        pairs = itertools.combinations(range(len(y)), 2)
        return y[0] < 4 and all(abs(y[a] - y[b]) >= x["gap"][a, b] for a, b in pairs)

    def score(x, y):
        return sum(weights["own"][list(classes).index(c)] @ row for c, row in zip(y, x["x"], strict=True))

    for x in X:
        every = [y for y in itertools.product(classes, repeat=len(x["x"])) if allowed(x, y)]
        if not every:
            with pytest.raises(InfeasibleError):
                svm.predict([x])
            continue
        found = svm.predict([x])[0]
        assert allowed(x, found)
        assert score(x, found) == pytest.approx(max(score(x, y) for y in every))
    wrong = {"x": np.ones((2, 3)), "gap": np.full((2, 2), 2)}
    with pytest.raises(DataError, match="labels that rule 'apart' does not rule out"):
        StructuredSVM(Frequencies).fit([wrong], [[1, 2]])
    assert "too_near" in str(Frequencies)
    assert "a function is for variables at positions" in declared(lambda p: Forbid(p["y"], too_near))
    assert "positions of the pattern's own indices" in declared(lambda p: Forbid(p["y"][p["i"]], too_near, p["j"]))


def test_a_builder_takes_rules_and_given_scores_with_conditions():
    m = ModelBuilder("Ruled")
    N = m.dim("N")
    i, j = m.index("i j", N)
    x, y = m.input("x", N), m.label("y", N, 2)
    m.factor("own", y[i], features=x[i])
    m.forbid("apart", (y[i], y[j]), [(1, 1)], where=j.is_(i + 1))
    m.given("pair", (y[i], y[j]), np.zeros((2, 2)), where=i < j)
    m.loss(Hamming(y))
    svm = StructuredSVM.from_weights(m.build(), {"own": np.array([[0.0], [1.0]])})
    assert svm.predict([np.array([2.0, 3.0, 2.0])])[0].tolist() == [1, 0, 1]
