"""Attributes as CRFsuite takes them: texts, truth values, and names in lists and dicts."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssvm_dsl import Attributes, Dim, Factor, Hamming, Label, Model, StructuredSVM
from ssvm_dsl.compiler.features.attributes import hashed_rows, known_rows, learn_rows


def read(tokens):
    """Return each token as {name: value}, by the vocabulary."""
    names, rows = learn_rows(tokens)
    spans = zip(rows.ptr[:-1], rows.ptr[1:], strict=True)
    entries = [zip(rows.indices[a:b], rows.data[a:b].tolist(), strict=True) for a, b in spans]
    return [{names[k]: value for k, value in row if value} for row in entries]


def test_all_kinds_of_values():
    token = {"w": "the", "n": 0.5, "caps": True, "low": False, "ends": ["e", "he"], "in": {"x": "y", "k": 2}}
    token["s"] = {"b"}
    wanted = {"w:the": 1, "n": 0.5, "caps": 1, "ends:e": 1, "ends:he": 1, "in:x:y": 1, "in:k": 2, "s:b": 1}
    assert read([token, ["w:the", "m"], {}]) == [wanted, {"w:the": 1, "m": 1}, {}]


def test_the_same_name_twice_is_added():
    assert read([{"w:a": 0.5, "w": "a"}]) == [{"w:a": 1.5}]


TOKEN = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from([1, 2.5, True, "x", "y:z", ["p", "q"]]), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=2),
)


def leaves(token, prefix=""):
    for name, value in token.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}:")
        elif isinstance(value, str):
            yield f"{prefix}{name}:{value}", 1.0
        elif isinstance(value, list):
            yield from ((f"{prefix}{name}:{one}", 1.0) for one in value)
        else:
            yield prefix + name, float(value)


@given(st.lists(TOKEN, min_size=1, max_size=4))
def test_the_same_as_written_out(tokens):
    wanted = []
    for token in tokens:
        wanted.append({})
        for name, value in leaves(token):
            wanted[-1][name] = wanted[-1].get(name, 0.0) + value
    assert read(tokens) == wanted
    names, _ = learn_rows(wanted)
    for rows in (known_rows, hashed_rows):
        how = names if rows is known_rows else 16
        one, other = rows(tokens, how), rows(wanted, how)
        assert np.array_equal(one.data, other.data)
        assert np.array_equal(one.indices, other.indices)


def test_python_crfsuite_reads_the_same():
    crfsuite = pytest.importorskip("pycrfsuite")
    token = {"w": "the", "n": 0.5, "caps": True, "ends": ["e", "he"], "in": {"x": "y", "k": 2}, "s": {"b"}}
    assert read([token]) == crfsuite.ItemSequence([token]).items()


def test_a_model_of_them():
    class Words(Model):
        T = Dim()
        x = Attributes(T)
        y = Label(T, ["low", "high"])
        emit = Factor(y, features=x)
        loss = Hamming(y)

    X, Y = [[{"w": "up"}, {"w": "down", "n": 2}]], [["high", "low"]]
    svm = StructuredSVM(Words, C=10.0).fit(X, Y)
    assert svm.predict(X)[0].tolist() == Y[0]
    assert svm.weights_.names("emit")[1] == ("w:up", "w:down", "n")


def test_pieces_join_up(monkeypatch):
    tokens = [{"w": f"{k % 7}", "n": k / 2, "no": False} for k in range(20)]
    tokens += [{"w": ["a", f"{k}"], "deep": {"er": {"x": "y", "k": k}}} for k in range(9)]
    tokens += [[f"w:{k % 7}", "m", "m"] for k in range(9)] + [{}, {"w:3": 2}]
    names, whole = learn_rows(tokens)
    monkeypatch.setattr("ssvm_dsl.compiler.features.attributes.POSITIONS", 4)
    again, parts = learn_rows(tokens)
    assert (again, parts.shape) == (names, whole.shape)
    for rows in (parts, known_rows(tokens, names), known_rows(tokens, type(names)(names))):
        for one, other in ((rows.ptr, whole.ptr), (rows.indices, whole.indices), (rows.data, whole.data)):
            np.testing.assert_array_equal(one, other)
    some = learn_rows(tokens, lambda position: position < 8)[1]
    np.testing.assert_array_equal(some.ptr[:9], whole.ptr[:9])
    assert (some.ptr[9:] == some.ptr[8]).all()


def test_unknown_texts_are_not_kept_without_end(monkeypatch):
    monkeypatch.setattr("ssvm_dsl.compiler.features.attributes.UNKNOWN", 5)
    names, _ = learn_rows([{"w": "a", "n": 2.0}])
    rows = known_rows([{"w": f"{k}", "n": float(k), "m": True} for k in range(50)], names)
    assert len(names.pairs) <= len(names) + 5
    assert rows.data.tolist() == [float(k) for k in range(1, 50)]
    assert copy.deepcopy(names) == pickle.loads(pickle.dumps(names)) == names
