"""What users write by the habits of other libraries ends in an error of ours that says what to write here."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from ssvm_dsl import (
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    StructuredRegressor,
    StructuredSVM,
    along,
    chain,
    cross,
    grid,
    pairs,
)
from ssvm_dsl.errors import DataError, KeywordError, ModelError, OptionError, SsvmError
from ssvm_dsl.learning.estimator import HABITS


class Row(Model):
    x = Input(3)
    y = Label(2)
    f = Factor(y, features=x)
    loss = Hamming(y)


class Word(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 2)
    f = Factor(y, features=x)
    c = Factor(chain(y))
    loss = Hamming(y)


X = [np.ones((4, 3)), np.zeros((2, 3))]
Y = [[0, 1, 0, 1], [1, 0]]


class Table:
    """A data frame, as far as anybody looks."""

    shape = (3, 2)

    def __len__(self):
        return 3

    def __getitem__(self, key):
        raise KeyError(key)

    def to_numpy(self):
        return np.zeros(self.shape)


DATA = {
    "None": (lambda: StructuredSVM(Word).fit([X[0], None], Y), "'x', example 1: .* found None.*leave the example"),
    "None in a dict": (lambda: StructuredSVM(Word).fit([{"x": X[0]}, {"x": None}], Y), "'x', example 1.*found None"),
    "one example": (lambda: StructuredSVM(Word).fit(X[0], Y[0]), r"found shape \(3,\).*pass a list with it: \[X\]"),
    "one row": (lambda: StructuredSVM(Row).fit(np.ones(3), 1), r"found shape \(\).*pass a list with it: \[X\]"),
    "transposed": (lambda: StructuredSVM(Word).fit([x.T for x in X], Y), r"shape \(3, 4\).*pass x.T for each example"),
    "features by examples": (lambda: StructuredSVM(Row).fit(np.ones((3, 9)), [0] * 9), "3 rows of 9 numbers.*pass X.T"),
    "data frame": (lambda: StructuredSVM(Row).fit(Table(), [0, 1, 0]), r"found Table.*pass its rows: X.to_numpy\(\)"),
    "labels in one": (lambda: StructuredSVM(Row).fit(np.ones((3, 3)), Table()), r"pass the column: Y.iloc\[:, 0\]"),
    "columns": (lambda: StructuredSVM(Row).fit(["a", "b"], [0, 1]), "found the string 'a'.*names of its columns"),
}


@pytest.mark.parametrize("name", DATA)
def test_data_in_other_forms(name):
    call, text = DATA[name]
    with pytest.raises(DataError, match=f"(?s){text}"):
        call()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max_iter", "it is called max_passes"),
        ("maxIter", "it is called max_passes"),
        ("n_jobs", "it is called n_threads"),
        ("class_weight", r"loss = Hamming\(y, weights="),
        ("c1", "it is called l1"),
        ("c", "it is called C"),
        ("loss", r"declared in the model: loss = Hamming\(y\)"),
        ("kernel", "RandomFourier"),
        ("tole", r"did you mean tol=\?"),
        ("keep", r"it is an option of a trainer \(.*trainer_options=\{'keep': ...\}"),
        ("max_nodes", r"it is an option of a backend \(.*backend_options=\{'max_nodes': ...\}"),
        ("zzz", "parameters: model, "),
    ],
)
@pytest.mark.parametrize("made", [StructuredSVM, StructuredRegressor])
def test_keywords_of_estimators(made, name, text):
    with pytest.raises(KeywordError, match=f"(?s){made.__name__} has no parameter '{name}'.*{text}"):
        made(Row, **{name: 1})
    with pytest.raises(TypeError, match=f"(?s)Invalid parameter '{name}'"):
        made(Row).set_params(**{name: 1})


def test_no_habit_is_a_parameter():
    own = {name.replace("_", "").lower() for name in StructuredSVM(Row).get_params()}
    assert not own & set(HABITS) - {"c"}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Factor(Row.y, feature=Row.x), "Factor has no parameter 'feature'; it is called features="),
        (lambda: Input(3, sparce=True), r"did you mean sparse=\?"),
        (lambda: Label(n_states=3), r"the last argument: Label\(T, 3\)"),
        (lambda: Hamming(Row.y, ignore_index=3), "it is called ignore="),
    ],
)
def test_keywords_of_the_language(call, text):
    with pytest.raises(KeywordError, match=text):
        call()


def test_mistakes_of_declarations():
    with pytest.raises(ModelError) as caught:

        class Wrong(Model):
            T = Dim()
            x = Input(Dim, 3)
            z = Label(Dim, 3)
            y = Label(T, 3)
            f = Factor(chain("y"))
            g = Factor(pairs("y", T))
            h = Factor(grid("y"))
            i = Factor(along("y", "e"))
            j = Factor(cross(y, "z"))

    text = str(caught.value)
    assert "x: Input: an axis is made by calling Dim: write T = Dim(), then Input(T, ...)" in text
    assert "z: Label: an axis is made by calling Dim" in text
    for kind in ("chain", "pairs", "grid", "cross"):
        assert f"{kind}: expected a Label, the name without quotes, got '{'z' if kind == 'cross' else 'y'}'" in text
    assert "it has 0" not in text


@pytest.mark.parametrize("name", ["report_", "plan_", "coef_", "weights_", "infeasible_"])
def test_what_fit_learns_is_not_there_before(name):
    svm = StructuredSVM(Row)
    assert not hasattr(svm, name)
    with pytest.raises(NotFittedError, match="not fitted yet; call fit first"):
        getattr(svm, name)
    with pytest.raises(AttributeError, match="object has no attribute 'raport'"):
        svm.raport  # noqa: B018
    given = StructuredSVM.from_weights(Row, {"f": np.zeros((2, 3))})
    if name in ("report_", "plan_"):
        with pytest.raises(AttributeError, match="from_weights"):
            getattr(given, name)


def test_options_are_set_one_by_one():
    svm = StructuredSVM(Row, trainer_options={"order": "cyclic"})
    old = svm.trainer_options
    svm.set_params(trainer_options__keep=3, backend_options__a=1, regularization__f=0.5)
    assert svm.trainer_options == {"order": "cyclic", "keep": 3}
    assert (old, svm.backend_options, svm.regularization) == ({"order": "cyclic"}, {"a": 1}, {"f": 0.5})
    with pytest.raises(OptionError, match=r"parameter 'C' .* has no parameters"):
        svm.set_params(C__x=1)
    data, labels = np.eye(3)[[0, 1] * 6], [0, 1] * 6
    search = GridSearchCV(StructuredSVM(Row, tol=0.1), {"trainer_options__keep": [1, 5]}, cv=2).fit(data, labels)
    assert search.best_params_["trainer_options__keep"] in (1, 5)


def test_estimators_and_symbols_are_copied_all_the_same():
    svm = StructuredSVM(Row, C=2.0)
    assert clone(svm).C == pickle.loads(pickle.dumps(svm)).C == 2.0
    assert issubclass(KeywordError, SsvmError)
