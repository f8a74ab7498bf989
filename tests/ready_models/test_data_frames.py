"""Columns of data frames go by name; text, categories, booleans and gaps become features; dates are refused."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.preprocessing import OneHotEncoder

import ssvm_dsl
from ssvm_dsl import Attributes, Dim, Factor, Hamming, Input, Label, Model, PartitionedDataset, StructuredSVM, chain
from ssvm_dsl.errors import DataError, FileFormatError
from ssvm_dsl.io import read_arrays, write_arrays
from ssvm_dsl.models import ChainTagger, Classifier, GraphLabeller, MultiLabel, Ranker, SegmentTagger

pandas = pytest.importorskip("pandas")

N = 12
MIXED = pandas.DataFrame(
    {
        "age": [30.0, None, 41.0, 28.0] * 3,
        "city": ["a", None, "b", "a"] * 3,
        "member": [True, False, True, True] * 3,
        "size": pandas.Categorical(["s", "l", None, "s"] * 3, categories=["s", "m", "l"]),
        "visits": pandas.array([1, 2, None, 4] * 3, dtype="Int64"),
        "n": np.arange(N),
    },
    index=[f"row {i}" for i in range(N)],
)
CLASSES = ["u", "v", "v", "u"] * 3
SWAPPED = ["n", "city", "visits", "size", "member", "age"]


def numbers(n=20, index=None):
    rng = np.random.default_rng(0)
    frames = [pandas.DataFrame(rng.normal(size=(9, 2)), columns=["a", "b"], index=index) for _ in range(n)]
    return frames, [np.where(one.a > 0, "p", "n") for one in frames]


def encoded():
    """Return what scikit-learn makes of the mixed frame."""
    plain = MIXED.assign(visits=MIXED.visits.astype("float64"), size=MIXED["size"].astype(object))
    plain = plain.astype({"city": object, "member": object}).where(plain.notna(), None)
    plain = plain.astype({"age": float, "visits": float, "n": float})
    made = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), ["age", "visits", "n"]),
            ("classes", OneHotEncoder(sparse_output=False), ["city", "member", "size"]),
        ]
    )
    return made.fit_transform(plain)


def test_columns_are_encoded_as_scikit_learn_does():
    given = Classifier(tol=1e-6, C=0.1).fit(MIXED, CLASSES)
    by_hand = Classifier(tol=1e-6, C=0.1).fit(encoded(), CLASSES)
    assert given.report_.primal == pytest.approx(by_hand.report_.primal, rel=1e-5)
    assert given.predict(MIXED).tolist() == by_hand.predict(encoded()).tolist()
    names = "age,visits,n,age is missing,visits is missing,city:a,city:b,city is missing,member:False,member:True"
    assert given.weights_.names("score")[-1] == (*names.split(","), "size:l", "size:s", "size is missing")
    assert isinstance(given.columns_.transformer, ColumnTransformer)
    assert "gaps become 30" in str(given.columns_)
    assert "city: a, b, missing" in str(given.columns_)


def many(kind):
    """Return (estimator, examples that hold the frame, labels, the same examples with columns in another order)."""
    frame, other = MIXED, MIXED[SWAPPED]
    if kind is Classifier:
        return Classifier(), frame, CLASSES, other
    if kind is MultiLabel:
        return MultiLabel(), frame, [[0, 1], [1, 0], [1, 1], [0, 1]] * 3, other
    if kind is GraphLabeller:
        edges = np.stack([np.arange(N - 1), np.arange(1, N)], axis=1)
        graphs = [[{"x": one, "edges": edges}] * 3 for one in (frame, other)]
        return GraphLabeller(), graphs[0], [CLASSES] * 3, graphs[1]
    return kind(), [frame] * 3, [CLASSES] * 3, [other] * 3


def plain(labels):
    return [one.tolist() if hasattr(one, "tolist") else one for one in labels]


@pytest.mark.parametrize("kind", [Classifier, MultiLabel, ChainTagger, SegmentTagger, GraphLabeller])
def test_ready_models_take_mixed_columns_by_name_and_are_saved_with_them(kind, tmp_path):
    estimator, X, Y, other = many(kind)
    estimator.fit(X, Y)
    expected = estimator.best_score(X if kind is not Classifier else estimator._checked(X))
    assert estimator.feature_names_in_.tolist() == list(MIXED.columns)
    estimator.save(tmp_path / "m.ssvm")
    for one in (estimator, ssvm_dsl.load(tmp_path / "m.ssvm"), pickle.loads(pickle.dumps(estimator))):
        np.testing.assert_allclose(one.best_score(other if kind is not Classifier else one._checked(other)), expected)
        assert one.feature_names_in_.tolist() == list(MIXED.columns)
        assert str(one.columns_) == str(estimator.columns_)
    assert clone(estimator).fit(other, Y).feature_names_in_.tolist() == SWAPPED


def test_what_training_has_not_seen():
    svm = Classifier().fit(MIXED, CLASSES)
    new = MIXED.assign(city="elsewhere", n=[None, *range(1, N)], visits=MIXED.visits.astype("float64"))
    rows = svm._checked(new)
    assert not rows[:, 5:8].any()
    assert rows[0, 2] == 5.5  # the median


@pytest.mark.parametrize("kind", [Classifier, MultiLabel, ChainTagger, SegmentTagger, GraphLabeller])
@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pandas.to_datetime(["2024-01-01"] * N), r"dates.*X.assign\(bad_year=.*\n.*X.drop\(columns='bad'\)"),
        (pandas.to_datetime(["2024-01-01"] * N, utc=True), "dates"),
        (pandas.to_timedelta([1] * N, unit="s"), r"X\['bad'\].dt.total_seconds\(\)"),
        ([1, "a"] * 6, "text and numbers"),
        ([[1]] * N, "a list of 1"),
        ([np.inf] * N, "inf in row 0"),
        ([1j] * N, "complex"),
    ],
    ids=["dates", "zones", "spans", "both", "lists", "infinite", "complex"],
)
def test_columns_that_are_no_features_are_named(kind, column, text):
    estimator, X, Y, _ = many(kind)

    def bad(frame):
        return frame.assign(bad=column)

    if kind in (Classifier, MultiLabel):
        X = bad(X)
    else:
        X = [{**x, "x": bad(x["x"])} if isinstance(x, dict) else bad(x) for x in X]
    with pytest.raises(DataError, match=rf"(?s)column 'bad'.*{text}"):
        estimator.fit(X, Y)


def test_columns_that_are_missing_or_unknown_or_of_another_kind_are_named():
    svm, tagger = Classifier().fit(MIXED, CLASSES), ChainTagger().fit([MIXED] * 2, [CLASSES] * 2)
    with pytest.raises(DataError, match="no 'age'; unknown 'years'"):
        svm.predict(MIXED.rename(columns={"age": "years"}))
    with pytest.raises(DataError, match=r"example 1.*no 'city'"):
        tagger.predict([MIXED, MIXED.drop(columns="city")])
    with pytest.raises(DataError, match="column 'age': expected numbers, as in fit, found text"):
        tagger.predict([MIXED.assign(age="old")])
    with pytest.raises(DataError, match="a data frame with the columns age"):
        svm.predict(np.zeros((2, 13)))
    with pytest.raises(DataError, match="'a' 2 times"):
        Classifier().fit(MIXED.set_axis(list("abcdea"), axis=1), CLASSES)


def test_labels_come_back_with_the_index():
    svm = Classifier().fit(MIXED, CLASSES)
    assert svm.predict(MIXED).index.equals(MIXED.index)
    labels = MultiLabel().fit(MIXED, [[0, 1]] * N).predict(MIXED)
    assert labels.index.equals(MIXED.index)
    assert labels.shape == (N, 2)
    frames, Y = numbers(index=range(70, 79))
    tagger = ChainTagger().fit(frames, Y)
    found, _, bounds = tagger.predict(frames, return_bounds=True)
    assert all(one.index.equals(frames[0].index) for one in found)
    assert len(bounds) == 20
    graph = {"x": frames[0], "edges": [(0, 1)]}
    assert GraphLabeller().fit([graph] * 2, Y[:1] * 2).predict([graph])[0].index.equals(frames[0].index)


def test_tools_of_scikit_learn_take_frames():
    svm = Classifier(risk="log", trainer="lbfgs")
    assert cross_val_score(svm, MIXED, CLASSES, cv=3, scoring="roc_auc").shape == (3,)
    assert cross_val_predict(svm, MIXED, CLASSES, cv=3).shape == (N,)
    assert ssvm_dsl.cross_val_predict(svm, MIXED, CLASSES, cv=3) == list(cross_val_predict(svm, MIXED, CLASSES, cv=3))


class Pair(Model):
    T = Dim()
    x = Input(T, 2)
    z = Input(T, 1)
    y = Label(T, ["n", "p"])
    emit = Factor(y, features=x)
    more = Factor(y, features=z)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Row(Model):
    x = Input(3)
    y = Label(["u", "v"])
    score = Factor(y, features=x)
    loss = Hamming(y)


def test_models_of_ones_own_match_columns_by_name(tmp_path):
    frames, Y = numbers()
    X = [{"x": one, "z": one[["a"]]} for one in frames]
    svm = StructuredSVM(Pair).fit(X, Y)
    arrays = StructuredSVM(Pair).fit([{name: part.to_numpy() for name, part in x.items()} for x in X], Y)
    np.testing.assert_array_equal(svm.coef_, arrays.coef_)
    assert svm.weights_.names("emit")[-1] == ("a", "b")
    assert svm.explain(X[0]).by("feature").keys() >= {"emit: b"} or "b" in str(svm.explain(X[0]))
    svm.save(tmp_path / "m.ssvm")
    swapped = [{"x": x["x"][["b", "a"]], "z": x["z"]} for x in X]
    for one in (svm, ssvm_dsl.load(tmp_path / "m.ssvm")):
        np.testing.assert_allclose(one.best_score(swapped), svm.best_score(X))
    assert svm.predict(X)[0].index.equals(frames[0].index)
    with pytest.raises(DataError, match=r"input 'x', example 1.*no 'a', 'b'; unknown 'c', 'd'"):
        svm.predict([X[0], {**X[0], "x": X[0]["x"].set_axis(["c", "d"], axis=1)}])
    with pytest.raises(AttributeError, match="several inputs"):
        _ = svm.feature_names_in_
    again = arrays.fit(X, Y).fit(X, Y)
    np.testing.assert_allclose(again.best_score(swapped), svm.best_score(X))


def test_rows_of_a_frame_are_examples():
    numbers = np.random.default_rng(0).normal(size=(10, 3))
    frame = pandas.DataFrame(numbers, columns=list("abc"), index=list("ABCDEFGHIJ"))
    svm = StructuredSVM(Row).fit(frame, ["u", "v"] * 5)
    assert svm.predict(frame[["c", "a", "b"]]).index.equals(frame.index)
    np.testing.assert_allclose(svm.decision_function(frame[["c", "a", "b"]]), svm.decision_function(frame.to_numpy()))
    assert svm.explain(frame[["b", "c", "a"]].iloc[3]).score == pytest.approx(svm.best_score(frame)[3])
    assert svm.feature_names_in_.tolist() == list("abc")
    with pytest.raises(DataError, match=r"(?s)column 'b'.*get_dummies"):
        svm.predict(frame.assign(b="x"))
    with pytest.raises(DataError, match=r"column 'b'.*nan at row 2"):
        svm.predict(frame.assign(b=[0, 1, None, *range(7)]))


def test_frames_with_numbers_for_names_go_by_place():
    frames, Y = numbers()
    bare = [pandas.DataFrame(one.to_numpy()) for one in frames]
    assert ChainTagger().fit(bare, Y).score([one.to_numpy() for one in frames], Y) > 0.9
    tagger = ChainTagger().fit([one.to_numpy() for one in frames], Y)
    assert tagger.score(frames, Y) > 0.9  # arrays name no columns
    with pytest.raises(AttributeError, match="fitted to arrays"):
        _ = tagger.feature_names_in_
    with pytest.raises(AttributeError, match="not fitted to data frames"):
        _ = tagger.columns_


def test_ranked_items_have_columns():
    frames, _ = numbers()
    places = [np.argsort(np.argsort(-one.a.to_numpy())) for one in frames]
    ranker = Ranker().fit(frames, places)
    assert ranker.score([one[["b", "a"]] for one in frames], places) == ranker.score(frames, places)


def test_very_many_values_are_sparse(tmp_path):
    frame = pandas.DataFrame({"word": [f"w{i}" for i in range(300)], "n": np.arange(300.0)})
    Y = ["a" if i % 2 else "b" for i in range(300)]
    tagger = ChainTagger(max_passes=3).fit([frame] * 2, [Y] * 2)
    assert tagger.model_.declaration.inputs[0].sparse
    assert "word:w299" in tagger.weights_.names("emit")[-1]
    tagger.save(tmp_path / "m.ssvm")
    again = ssvm_dsl.load(tmp_path / "m.ssvm")
    np.testing.assert_allclose(again.best_score([frame[["n", "word"]]]), tagger.best_score([frame]))


def test_frames_of_attributes_stay_lists_of_dicts():
    class Named(Model):
        T = Dim()
        x = Attributes(T)
        y = Label(T, ["u", "v"])
        emit = Factor(y, features=x)
        loss = Hamming(y)

    frame = MIXED[["member", "n"]]
    svm = StructuredSVM(Named).fit([frame] * 2, [CLASSES] * 2)
    assert svm.weights_.names("emit")[-1] == ("member", "n")


class Polars:
    """A frame of another package: no index, columns by name, dtypes in a list."""

    def __init__(self, columns):
        self._columns = columns
        self.columns, self.dtypes = list(columns), [one.dtype for one in columns.values()]

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            return pandas.Series(self._columns[key]).reset_index(drop=True)
        return Polars({name: self._columns[name] for name in key})

    def to_numpy(self):
        return np.column_stack(list(self._columns.values()))


def test_frames_of_other_packages():
    arrays = {"age": np.array([1.0, np.nan, 3.0, 4.0]), "city": np.array(["a", "b", None, "a"], dtype=object)}
    frame, Y = Polars(arrays), ["u", "v", "v", "u"]
    svm = Classifier().fit(frame, Y)
    found = svm.predict(frame[["city", "age"]])
    assert isinstance(found, np.ndarray)
    assert found.tolist() == svm.predict(pandas.DataFrame(arrays)).tolist()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.update(names=["age", "age"]),
        lambda x: x["fill"].update(age=float("nan")),
        lambda x: x.update(marked=["city"]),
        lambda x: x["categories"].update(city=["a", "a"]),
        lambda x: x["categories"].update(city=["a"]),
        lambda x: x["categories"].update(city=[]),
        lambda x: x.pop("fill"),
        lambda x: x.update(named=1),
    ],
)
def test_changed_files_are_refused(change, tmp_path):
    path = tmp_path / "m.ssvm"
    Classifier().fit(MIXED, CLASSES).save(path)
    content, arrays = read_arrays(path)
    change(content["frames"]["x"])
    write_arrays(path, content, arrays)
    with pytest.raises(FileFormatError, match="data frames"):
        ssvm_dsl.load(path)


def test_shards_match_columns_over_all_examples():
    frames, Y = numbers()
    mixed = [one if i % 2 else one[["b", "a"]] for i, one in enumerate(frames)]

    class Own(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, ["n", "p"])
        emit = Factor(y, features=x)
        loss = Hamming(y)

    how = {"C": 1.0, "risk": "log", "trainer": "lbfgs", "tol": 1e-6}
    for make in (lambda **more: StructuredSVM(Own, **how, **more), lambda **more: ChainTagger(**how, **more)):
        whole, shards = make().fit(mixed, Y), make(executor="stream").fit(mixed, Y)
        np.testing.assert_allclose(shards.best_score(frames), whole.best_score(frames), rtol=0.02)
        assert shards.feature_names_in_.tolist() == ["b", "a"]
        assert {one.feature for one in shards.weights_.top("emit", feature="a")}
        assert make(executor="stream").fit(mixed, Y, validation=(frames, Y)).score(frames, Y) > 0.9
    data = PartitionedDataset([0, 1], lambda k: (mixed[10 * k : 10 * k + 10], Y[10 * k : 10 * k + 10]))
    with pytest.raises(DataError, match="arrays in a part of the data"):
        StructuredSVM(Own, executor="stream", **how).fit(data)
