"""Data in unusual representations are read for what they are, or refused; users' data and results stay as they are."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from model_table import graph, tagger
from ssvm_dsl import (
    Attributes,
    Dim,
    Factor,
    Feature,
    Hamming,
    Hashed,
    Input,
    Label,
    Model,
    Polynomial,
    Standardized,
    StructuredSVM,
    Whitened,
    ground,
)
from ssvm_dsl.errors import DataError, OptionError


class Sparse(Model):
    T = Dim()
    s = Input(T, 5, sparse=True)
    y = Label(T, 3)
    emit = Factor(y, features=s)
    loss = Hamming(y)


class Row(Model):
    s = Input(5, sparse=True)
    y = Label(3)
    emit = Factor(y, features=s)
    loss = Hamming(y)


Word = tagger(2, "ab")


class Tokens(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, 2)
    emit = Factor(y, features=t)
    hashed = Factor(y, features=Hashed(t, 8))
    loss = Hamming(y)


Graph = graph(2, 3)


def rows_of(grounded):
    features = grounded.parameters.maps[0].features
    return sp.csr_array((features.data, features.indices, features.ptr), shape=features.shape).toarray()


MATRIX = np.array([[1.0, 0, 0, 2, 0], [0, 0, 0, 0, 0], [0, 3, 4, 0, 5]])


def damaged(form, name, change):
    matrix = getattr(sp, f"{form}_array")(MATRIX)
    setattr(matrix, name, change(getattr(matrix, name)))
    return matrix


DAMAGES = [
    ("csr", "indices", lambda a: np.where(np.arange(len(a)) == 2, 60, a), "column 60 in row 2 of a matrix with 5"),
    ("csr", "indices", lambda a: np.where(np.arange(len(a)) == 0, -(10**8), a), "column -100000000 in row 0"),
    ("csr", "indices", lambda a: a.astype(float), "indices of shape (5,) and dtype float64"),
    ("csr", "indices", lambda a: a[:-1], "pointers up to 5 into 4 indices"),
    ("csr", "data", lambda a: a[:-1], "into 5 indices and 4 values"),
    ("csr", "indptr", lambda a: a[::-1], "pointers"),
    ("csr", "indptr", lambda a: a + 1, "pointers 1, 3 of row 0"),
    ("csr", "indptr", lambda a: a[:-1], "3 pointers for 3 rows"),
    ("csc", "indices", lambda a: a + 10**6, "row 1000000 in column 0 of a matrix with 3 rows"),
    ("bsr", "indices", lambda a: a + 7, "column of blocks"),
    ("bsr", "data", lambda a: a[0], "blocks of shape"),
    ("coo", "coords", lambda a: (a[0], a[1] - 9), "column -9 of a matrix with 5 columns"),
    ("lil", "rows", lambda a: np.array([[7], [], []], dtype=object), "rows with more columns than values"),
    ("dia", "offsets", lambda a: a[:-1], "diagonals of shape"),
]


@pytest.mark.parametrize(("form", "name", "change", "text"), DAMAGES)
def test_damaged_sparse_matrices_never_reach_compiled_code(form, name, change, text):
    good = sp.csr_array(MATRIX)
    with pytest.raises(DataError) as caught:
        ground(Sparse, [good, damaged(form, name, change)], [[0, 1, 2]] * 2)
    assert (caught.value.what, caught.value.example) == ("input 's'", 1)
    assert text in caught.value.found
    assert "indices are inside it" in caught.value.expected


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["coo", "dok", "lil", "dia", "bsr", "csc", "csr"])
def test_every_sparse_format_gives_the_dense_rows(form, kind):
    matrix = getattr(sp, f"{form}_{kind}")(MATRIX)
    assert (rows_of(ground(Sparse, [matrix, MATRIX], [[0, 1, 2]] * 2)) == np.vstack([MATRIX, MATRIX])).all()


def test_disorder_duplicates_and_spare_room_in_sparse_rows():
    columns, values = np.array([3, 1, 3, 99], dtype=np.int64), np.array([1.0, 2.0, 0.5, np.nan])
    matrix = sp.csr_array((values[:3], columns[:3], [0, 3]), shape=(1, 5))
    matrix.has_canonical_format = True  # a lie
    matrix.indices, matrix.data = columns, values
    assert rows_of(ground(Row, [matrix], [0])).tolist() == [[0, 2, 0, 1.5, 0]]
    assert matrix.indices.tolist() == [3, 1, 3, 99], "the user's matrix was changed"
    twice = sp.coo_array((np.ones(2, dtype=bool), ([0, 0], [4, 4])), shape=(1, 5))
    assert rows_of(ground(Row, [twice], [0])).tolist() == [[0, 0, 0, 0, 1]]


def test_a_sparse_matrix_with_a_row_for_each_example():
    svm = StructuredSVM(Row, random_state=0, max_passes=5, n_threads=1)
    whole = svm.fit(sp.csr_matrix(MATRIX), [0, 1, 2]).coef_
    rows = [sp.csr_array(MATRIX[i : i + 1]) for i in range(3)]
    assert (whole == svm.fit(rows, [0, 1, 2]).coef_).all()
    assert (whole == svm.fit(list(sp.csr_array(MATRIX)), [0, 1, 2]).coef_).all()  # rows without an axis
    matrix = sp.csc_array(MATRIX)
    assert svm.predict(matrix) == svm.predict(rows)
    assert svm.score(matrix, [0, 1, 2]) == svm.score(rows, [0, 1, 2])
    with pytest.raises(DataError, match=r"input 's', example 0: expected a sparse matrix of shape \(T, 5\)"):
        ground(Sparse, list(sp.csr_array(MATRIX)))
    with pytest.raises(DataError, match="X: expected a list of examples"):
        ground(Sparse, sp.csr_array(MATRIX))


def test_masked_entries_are_not_looked_behind():
    values, mask = np.zeros((2, 2)), [[False, True], [False, False]]
    for x in (np.ma.array(values, mask=mask), list(np.ma.array(values, mask=mask))):
        with pytest.raises(DataError, match="input 'x', example 0: expected an array without masked entries"):
            ground(Word, [x])
    hidden = ground(Word, [values], [np.ma.array(["a", "b"], mask=[True, False])])
    assert hidden.ignored.tolist() == [True, False]
    for weight in (np.ma.array([1.0], mask=[True]), ["1"], [1j]):
        with pytest.raises(DataError, match="sample_weight: expected 1 numbers"):
            StructuredSVM(Word).fit([values], ["ab"], sample_weight=weight)
    kept = ground(Word, [np.ma.array(values + 1)], [np.ma.array(["a", "b"])])
    assert kept.parameters.maps[0].features.tolist() == [[1, 1], [1, 1]]


# -- labels --------------------------------------------------------------------------------------------------


def test_large_class_numbers_are_told_apart_in_every_type():
    class Big(Model):
        T = Dim()
        x = Input(T)
        y = Label(T, [2**60, 2**60 + 1])
        emit = Factor(y, features=x)

    def read(*labels):
        return ground(Big, [np.zeros(len(one)) for one in labels], list(labels)).truth.tolist()

    assert read([2**60 + 1], np.array([2**60], dtype=np.uint64)) == [1, 0]
    with pytest.raises(DataError, match=r"label 'y', example 1: .* found 1\.15"):
        read([2**60], [2.0**60])


def test_labels_of_different_types_of_numbers_in_one_data_set():
    class Two(Model):
        T = Dim()
        x = Input(T)
        y = Label(T, 2)
        emit = Factor(y, features=x)

    Y = [[0, 1], np.array([1.0, 0.0]), np.array([True, False]), np.array([0, 1], dtype=">i2")]
    assert ground(Two, np.zeros((4, 2)), Y).truth.tolist() == [0, 1, 1, 0, 1, 0, 0, 1]
    with pytest.raises(DataError, match=r"label 'y', example 2: .* found inf at position 1 of T"):
        ground(Two, np.zeros((3, 2)), [[0, 1], [1, 1], [0.0, np.inf]])


def test_a_single_label_that_is_no_class_is_named_with_its_example():
    for odd, found in ((2**70, str(2**70)), (0.5, "0.5"), (1 + 0j, r"\(1\+0j\)")):
        with pytest.raises(DataError, match=f"label 'y', example 1: expected an int in 0..2, found {found}"):
            ground(Row, np.zeros((2, 5)), [0, odd])


def test_names_that_numpy_would_cut_and_names_that_look_alike():
    with pytest.raises(DataError, match=r"label 'y', example 0: expected class names, found .*\n  hint: no class name"):
        ground(Word, np.zeros((1, 1, 2)), [["a\0"]])

    class Cafe(Model):
        x = Input()
        y = Label(["caf\u00e9", "bar"])
        emit = Factor(y, features=x)

    with pytest.raises(DataError, match="hint: a class looks like it, in other Unicode characters"):
        ground(Cafe, [0.0], ["cafe\u0301"])


# -- attributes ----------------------------------------------------------------------------------------------

HASH_SEEDS = """
from ssvm_dsl import Attributes, Dim, Factor, Input, Label, Model, ground

class Tokens(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, 2)
    emit = Factor(y, features=t)

found = ground(Tokens, [[{"w=the", "cap", "suffix=he"}, frozenset(["b", "a"])]], [[0, 1]])
print(list(found.fitted["t"]["names"]))
"""


def test_sets_of_names_do_not_depend_on_the_hash_seed():
    names = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", HASH_SEEDS], env=environment, capture_output=True, text=True)
        names.add(done.stdout.strip() or done.stderr)
    assert names == {"['cap', 'suffix=he', 'w=the', 'a', 'b']"}


@pytest.mark.parametrize(
    ("token", "found"),
    [
        ((name for name in "ab"), "generator"),
        ({"a": np.complex128(1j)}, "'a': "),
        ({"a": 10**400}, "'a': an int of 1329 bits"),
        ({"a": np.array([1.0])}, "'a': array"),
        ({"a": np.ma.masked}, "'a': masked"),
        ({1, "a"}, "1"),
    ],
)
def test_attributes_that_are_no_names_with_numbers(token, found):
    with pytest.raises(DataError) as caught:
        ground(Tokens, [[{"a": 1.0}], [{"a": 1.0}, token]])
    assert (caught.value.what, caught.value.example) == ("input 't'", 1)
    assert found in caught.value.found
    assert "position 1" in caught.value.found


def test_odd_names_and_large_numbers_are_attributes_all_the_same():
    found = ground(Tokens, [[{"a": 2**70, "": True, "a\0": np.float32(2)}, ["half \ud800"]]])
    assert list(found.fitted["t"]["names"]) == ["a", "", "a\0", "half \ud800"]
    assert rows_of(found).tolist() == [[2.0**70, 1, 2, 0], [0, 0, 0, 1]]


# -- edges ---------------------------------------------------------------------------------------------------


def graph(edges, n=4):
    return {"x": np.zeros((n, 2)), "e": edges}


def test_edges_that_may_be_transposed_are_mentioned():
    square = np.array([[0, 1], [2, 3]])
    with pytest.warns(UserWarning, match=r"input 'e': every example has edges of shape \(2, 2\).* pass e.T"):
        ground(Graph, [graph(square)], [[0] * 4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ground(Graph, [graph(square.tolist())], [[0] * 4])  # pairs, one by one
        ground(Graph, [graph(np.array([[0, 1], [0, 2]]))], [[0] * 4])  # the other way round 0 would be joined with 0
        ground(Graph, [graph(square), graph(np.array([[0, 1]]))], [[0] * 4] * 2)
        ground(Graph, [graph(square)])
    with pytest.raises(DataError, match=r"expected ints of shape \(M, 2\), .*\n  hint: edges are rows, .* e.T"):
        ground(Graph, [graph(np.array([[0, 1, 2], [1, 2, 3]]))])
    with pytest.raises(DataError, match=r"found edge \(0, 0\) at row 0\n  hint: edges are rows"):
        ground(Graph, [graph(np.array([[0, 0], [1, 2]]))])


def test_edges_too_large_for_64_bits():
    with pytest.raises(DataError, match=r"input 'e', example 0: expected two different positions in 0\.\.3"):
        ground(Graph, [graph(np.array([[0, 2**64 - 1]], dtype=np.uint64))])


# -- users' functions and computed features --------------------------------------------------------------------


def with_feature(function) -> type[Model]:
    class Own(Model):
        T = Dim()
        x = Input(T, 2)
        s = Input(T, 5, sparse=True)
        t = Attributes(T)
        y = Label(T, 3)
        own = Factor(y, features=Feature(function, T, width=1))

    return Own


def imaginary(x):
    return x[:, :1] * 1j


def hiding(x):
    return np.ma.array(x[:, :1], mask=True)


def spelling(x):
    return x[:, :1].astype(str)


def spoiling(x):
    x[...] = 7.0
    return x[:, :1]


def greedy(s, t):
    s.data[:] = 7.0
    s.indices[:] = 0
    t[0]["a"] = 7.0
    t.clear()
    return np.ones((3, 1))


BUFFER = np.zeros((3, 1))


def reusing(x):
    BUFFER[:] = x[:, :1]
    return BUFFER


def example(value=0.0):
    return {"x": np.full((3, 2), value), "s": sp.csr_array(MATRIX), "t": [{"a": 1.0}] * 3}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (imaginary, "expected real numbers, found dtype complex128"),
        (hiding, "expected an array without masked entries"),
        (spelling, "expected real numbers, found the text '0.0' (dtype <U32)"),
        (spoiling, "ValueError: assignment destination is read-only\n  hint: inputs are read-only"),
    ],
)
def test_what_users_functions_return_is_taken_whole_or_not_at_all(function, text):
    data = [example()]
    with pytest.raises(DataError) as caught:
        ground(with_feature(function), data)
    assert f"Feature {__name__}:{function.__name__}, example 0" in str(caught.value)
    assert text in str(caught.value)
    assert not data[0]["x"].any()


def test_users_functions_get_copies_and_give_copies():
    data = [example()]
    ground(with_feature(greedy), data)
    assert (data[0]["s"].toarray() == MATRIX).all()
    assert data[0]["t"] == [{"a": 1.0}] * 3
    found = ground(with_feature(reusing), [example(1.0), example(2.0)])
    assert found.parameters.maps[0].features.ravel().tolist() == [1, 1, 1, 2, 2, 2]


def computed(make) -> type[Model]:
    class Computed(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 2)
        emit = Factor(y, features=make(x))

    return Computed


def test_a_constant_feature_is_standardized_to_zero():
    found = ground(computed(Standardized), [np.full((10, 2), 0.1)])
    assert not found.parameters.maps[0].features.any()


@pytest.mark.parametrize("make", [Standardized, Whitened, Polynomial])
def test_computed_features_beyond_the_largest_float_are_named(make):
    x = np.array([[1e308, 0.0], [-1e308, 1.0], [1e308, 2.0]])
    with pytest.raises(DataError, match=rf"feature {make.__name__}\(x.*expected .*finite"):
        ground(computed(make), [x])
    with pytest.raises(DataError, match="at least one row to learn from" if make is not Polynomial else "Y: expected"):
        ground(computed(make), [np.zeros((0, 2))], None if make is not Polynomial else [])


def test_c_beside_lam_is_refused_whatever_it_is():
    x, Y = [np.zeros((1, 2))], ["a"]
    for C in (1.0, 2.0):
        with pytest.raises(OptionError, match="say the same thing"):
            StructuredSVM(Word, C=C, lam=0.1).fit(x, Y)
    svm = StructuredSVM(Word, lam=0.1, random_state=0, max_passes=2)
    assert svm.get_params()["C"] == 1.0
    assert svm.fit(x, Y).report_.convention.endswith("lam = 0.1")


def test_answers_about_examples_without_variables():
    svm = StructuredSVM(Word, random_state=0, max_passes=3).fit(np.ones((2, 2, 2)), ["ab", "ba"])
    X = [np.zeros((0, 2)), np.ones((1, 2)), []]
    assert [len(one) for one in svm.predict(X)] == [0, 1, 0]
    assert [one.shape for one in svm.predict_marginals(X)] == [(0, 2), (1, 2), (0, 2)]
    assert [len(one) for one in svm.predict_kbest(X, 3)] == [1, 2, 1]
    assert svm.best_score(X)[[0, 2]].tolist() == [0.0, 0.0]
    assert svm.score([X[0]], [[]]) == 1.0
