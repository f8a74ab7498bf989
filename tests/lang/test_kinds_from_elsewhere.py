"""Kinds of constraints, features and targets from another package: they bring how they are checked, laid out and read.

Nothing in ``ssvm_dsl.lang`` or ``ssvm_dsl.compiler`` knows the classes of this module.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ssvm_dsl import (
    Constraint,
    Dim,
    Factor,
    Forbid,
    Hamming,
    Input,
    Label,
    Model,
    StructuredSVM,
    Target,
    Transform,
    ground,
)  # fmt: skip
from ssvm_dsl.errors import DataError, FileFormatError, ModelError, OptionError


class Ring(Target):
    """Each variable and the next one, the last and the first too."""

    def __init__(self, y):
        wrong = [] if len(y.dims) == 1 else [f"Ring: the label needs exactly one axis, it has {len(y.dims)}"]
        super().__init__("ring", (y,), mistakes=wrong)

    arity = 2
    feature_axes = ()

    def count(self, sizes):
        n = sizes[self.label.dims[0].name]
        return n * (n > 2)

    def scopes(self, sizes):
        (n,) = sizes
        return np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)[: n * (n > 2)]


class Ranked(Transform):
    """Which share of the training rows is below, for each column."""

    learns = True

    @property
    def width(self):
        return self.source.width

    def learn(self, rows):
        return {"sorted": np.sort(rows, axis=0)}

    def transform(self, rows, learnt):
        below = [np.searchsorted(known, column) for known, column in zip(learnt["sorted"].T, rows.T)]
        return np.stack(below, axis=1) / len(learnt["sorted"])


class Share(Constraint):
    """At most k of the variables have a class, k being a part of the fixed axis."""

    def __init__(self, share, literal):
        self_size = literal.label.dims[0].size or 0
        super().__init__("count", literal, lower=0, upper=int(share * self_size))
        object.__setattr__(self, "share", share)

    def arguments(self):
        return (self.share, self.written()), {}

    def clashes(self, model):
        if len(model.of(Share)) > 1 and model.of(Share)[0] is not self:
            yield "one share is enough"

    def misfits(self, model):
        if not self.literals[0].label.dims[0].size:
            yield "Share: the axis has no fixed size"

    @property
    def note(self):
        return f"at most {self.meta[1].value}"


class Round(Model):
    """A model of all three."""

    T = Dim(5)
    x = Input(T, 2)
    y = Label(T, "ab")
    emit = Factor(y, features=Ranked(x))
    turn = Factor(Ring(y))
    few = Share(0.5, y.is_("b"))
    loss = Hamming(y)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 2)) for _ in range(12)]
    Y = [["b" if x[t, 0] > np.sort(x[:, 0])[3] else "a" for t in range(5)] for x in X]
    return X, Y


def test_a_target_lists_its_scopes():
    class Loop(Model):
        T = Dim()
        x = Input(T)
        y = Label(T, 2)
        emit = Factor(y, features=x)
        turn = Factor(Ring(y))
        no = Forbid(Ring(y), [(1, 1)])
        loss = Hamming(y)

    program = ground(Loop, [np.zeros(n) for n in (4, 1, 3, 4)]).program
    scopes = [program.groups[0].factors(i)[0].tolist() for i in range(4)]
    assert scopes == [[[0, 1], [1, 2], [2, 3], [3, 0]], [], [[0, 1], [1, 2], [2, 0]], scopes[0]]


def test_a_feature_learns_from_the_training_data(data):
    X, Y = data
    grounded = ground(Round, X, Y)
    rows = np.concatenate(X)
    expected = (rows[:, None] > rows).mean(axis=1)
    np.testing.assert_allclose(grounded.parameters.maps[0].features, expected)
    assert Round.declaration.fitted


def test_the_model_is_trained_and_keeps_its_constraint(data):
    X, Y = data
    svm = StructuredSVM(Round, C=10.0, tol=1e-3, random_state=0).fit(X, Y)
    emit, turn = svm.weights_[Round.emit], svm.weights_[Round.turn]
    known = np.sort(np.concatenate(X), axis=0)
    for x, found in zip(X, svm.predict(X)):
        rows = np.stack([np.searchsorted(known[:, k], x[:, k]) for k in range(2)], axis=1) / len(known)

        def score(y, rows=rows):
            return sum(rows[t] @ emit[y[t]] for t in range(5)) + sum(turn[y[t], y[(t + 1) % 5]] for t in range(5))

        best = max((y for y in product(range(2), repeat=5) if sum(y) <= 2), key=score)
        labels = ["ab".index(one) for one in found]
        assert sum(labels) <= 2
        assert score(labels) == pytest.approx(score(best))


def test_what_a_feature_learnt_is_saved_and_loaded(data, tmp_path):
    X, Y = data
    svm = StructuredSVM(Round, tol=0.1, random_state=0).fit(X, Y)
    svm.save(tmp_path / "round.ssvm")
    again = StructuredSVM.load(tmp_path / "round.ssvm", trusted=[__name__])
    given = StructuredSVM.from_weights(Round, dict(svm.weights_.items()), fitted_on=X)
    assert again.best_score(X).tolist() == svm.best_score(X).tolist() == given.best_score(X).tolist()


def test_what_cannot_be_saved_is_not_learnt(data):
    class Words(Ranked):
        def learn(self, rows):
            return {"sorted": ["a"] * len(rows)}

    class Named(Model):
        T = Dim(5)
        x = Input(T, 2)
        y = Label(T, 2)
        emit = Factor(y, features=Words(x))
        loss = Hamming(y)

    with pytest.raises(DataError, match=r"feature Words\(x\).*a dict of arrays of numbers"):
        ground(Named, data[0])


def test_models_are_printed_in_their_words():
    text = str(Round)
    assert "turn = Factor(ring(y))" in text
    assert "few  = Share(0.5, y.is_('b'))" in text
    assert "at most 2" in text


def test_their_mistakes_are_told_with_the_others():
    with pytest.raises(ModelError) as caught:

        class Wrong(Model):
            T = Dim()
            K = Dim(3)
            x = Input(T)
            y = Label(T, 2)
            z = Label(K, 2)
            w = Label(T, K, 2)
            turn = Factor(Ring(w))
            first = Share(0.5, z.is_(1))
            second = Share(0.5, z.is_(1))
            third = Share(0.5, y.is_(1))
            loss = Hamming(y)

    text = str(caught.value)
    assert "turn: Ring: the label needs exactly one axis, it has 2" in text
    assert "second: one share is enough" in text
    assert "third: Share: the axis has no fixed size" in text
    assert "first:" not in text


def test_they_are_written_by_import_path_and_read_when_trusted():
    text = Round.to_json()
    assert f"{__name__}:Ring" in text
    with pytest.raises(OptionError, match="pass trusted="):
        Model.from_json(text)
    assert str(Model.from_json(text, trusted=[__name__])) == str(Round)
    for name in ("pathlib:Path", "builtins:print", f"{__name__}:product"):
        with pytest.raises(FileFormatError, match="is no kind of declaration"):
            Model.from_json(text.replace(f"{__name__}:Ring", name), trusted=True)


def test_kinds_of_functions_cannot_be_written():
    class Local(Ring):
        pass

    class Here(Model):
        T = Dim(3)
        y = Label(T, 2)
        turn = Factor(Local(y))

    with pytest.raises(ModelError, match="define the class at the top level of a module"):
        Here.to_json()


def test_rows_of_another_shape_are_refused(data):
    class Short(Ranked):
        def transform(self, rows, learnt):
            return rows[:-1]

    class Cut(Model):
        T = Dim(5)
        x = Input(T, 2)
        y = Label(T, 2)
        emit = Factor(y, features=Short(x))
        loss = Hamming(y)

    with pytest.raises(DataError, match=r"feature Short\(x\).*shape \(60, 2\).*shape \(59, 2\)"):
        ground(Cut, data[0])


class Shifted(Transform):
    """A constant, as an option says; it is learnt, so that what is learnt is not shared."""

    learns = True

    def __init__(self, source, by=1.0):
        super().__init__(source)
        self.by = by

    def arguments(self):
        return (self.source,), {"by": self.by}

    @property
    def width(self):
        return 1

    def learn(self, rows):
        return {"by": np.array([self.by])}

    def transform(self, rows, learnt):
        return np.zeros((len(rows), 1)) + learnt["by"]


class Forgetful(Transform):
    """Has an option, and no arguments."""

    def __init__(self, source, other=2):
        super().__init__(source)
        self.other = other

    @property
    def width(self):
        return 1


def test_transforms_with_other_options_are_other_features():
    class Twice(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, "ab")
        one = Factor(y, features=Shifted(x, by=1.0))
        five = Factor(y, features=Shifted(x, by=5.0))
        loss = Hamming(y)

    features = [fmap.features for fmap in ground(Twice, [np.ones((3, 2))]).parameters.maps]
    assert [np.unique(one).tolist() for one in features] == [[1.0], [5.0]]
    assert Shifted(Twice.x, by=5.0) == Shifted(Twice.x, by=5.0) != Shifted(Twice.x, by=1.0)
    assert len({Shifted(Twice.x, by=5.0), Shifted(Twice.x, by=5.0)}) == 1


def test_a_transform_with_options_and_without_arguments_is_a_mistake():
    text = "Forgetful: the class takes options, so that it needs a method arguments"
    with pytest.raises(ModelError, match=text):

        class Wrong(Model):
            T = Dim()
            x = Input(T, 2)
            y = Label(T, "ab")
            one = Factor(y, features=Forgetful(x))
            loss = Hamming(y)


def test_a_transform_that_depends_on_the_other_rows_of_a_call_is_refused(data):
    class Refitted(Ranked):
        def transform(self, rows, learnt):
            return super().transform(rows, self.learn(rows))

    class Whole(Model):
        T = Dim(5)
        x = Input(T, 2)
        y = Label(T, "ab")
        emit = Factor(y, features=Refitted(x))

    with pytest.raises(DataError, match=r"(?s)Refitted\(x\).*expected transform\(\) of some rows.*hint: .* learn\(\)"):
        ground(Whole, data[0])


class Spread(Transform):
    """Powers whose arguments lack the option, as ``width`` shows, or ``transform`` alone."""

    def __init__(self, source, degree=1, scale=1.0):
        super().__init__(source)
        self.degree, self.scale = degree, scale

    def arguments(self):
        return (self.source,), {}

    @property
    def width(self):
        return self.source.width * self.degree

    def transform(self, rows, learnt):
        return np.concatenate([self.scale * rows**k for k in range(1, self.degree + 1)], axis=1)


class FirstRow(Spread):
    """Doubles the first row of each call."""

    def transform(self, rows, learnt):
        return np.where(np.arange(len(rows))[:, None] == 0, 2.0 * rows, rows)


class Forgotten(Spread):
    """Learns something, and does not say so."""

    def learn(self, rows):
        return {"top": rows.max(axis=0)}


class Writing(Spread):
    """Writes to what it is given."""

    def transform(self, rows, learnt):
        rows *= 2.0
        return rows


@pytest.mark.parametrize(
    ("feature", "error", "text"),
    [
        (lambda x: Spread(x, degree=2), DataError, r"arguments\(\) to return all that Spread is made with"),
        (lambda x: Spread(x, scale=2.0), DataError, r"made of arguments\(\)"),
        (FirstRow, DataError, "what it does among all"),
        (Forgotten, DataError, "expected learns = True"),
        (Writing, ValueError, "read-only"),
    ],
)
def test_a_transform_that_would_be_another_one_later_is_refused(feature, error, text):
    class Words(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 2)
        emit = Factor(y, features=feature(x))
        loss = Hamming(y)

    X = [np.random.default_rng(i).normal(size=(4, 2)) for i in range(3)]
    with pytest.raises(error, match=text):
        StructuredSVM(Words, max_passes=2).fit(X, [np.array([0, 1, 0, 1])] * 3)
