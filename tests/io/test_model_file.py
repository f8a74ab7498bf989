"""Saved models: what is saved comes back; what is damaged or hostile is refused with one clear error."""

from __future__ import annotations

import io
import os
import pickle
import stat
import warnings
import zipfile
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import model_table
from archives import packed, parts
from ssvm_dsl import Dim, Factor, Feature, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.errors import FileFormatError, ModelError, OptionError, SsvmError

FUNCTIONS = ["model_table:square", "model_table:contrast", "model_table:joint_chain"]


class Small(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "ab")
    emit = Factor(y, features=x)
    trans = Factor(chain(y), nonneg=True)
    loss = Hamming(y)


def fit(model, X, Y, **options) -> StructuredSVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(model, **{"random_state": 0, "max_passes": 3, **options}).fit(X, Y)


def same(a, b) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return np.array_equal(np.asarray(a), np.asarray(b))

X, Y, _, _ = model_table.make_data(Small, 6, seed=0)

@cache
def good() -> StructuredSVM:
    """A fitted estimator; made when first asked for, as its kernels may have to be compiled."""
    return fit(Small, X, Y)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ssvm"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """The bytes of a good file."""
    path = tmp_path_factory.mktemp("good") / "model.ssvm"
    good().save(path)
    return path.read_bytes()


# -- round trips -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda model: model.__name__)
def test_every_model_comes_back(model, path):
    X, Y, _, _ = model_table.make_data(model, 4, seed=1)
    more, labels, _, _ = model_table.make_data(model, 5, seed=2)
    svm = fit(model, X, Y, trainer="subgradient")
    svm.save(path)
    again = StructuredSVM.load(path, trusted=FUNCTIONS)
    np.testing.assert_array_equal(again.coef_, svm.coef_)
    assert again.model.declaration == model.declaration
    assert again.report_.summary() == svm.report_.summary()
    assert str(again.report_) == str(svm.report_)
    assert again.plan_.backend == svm.plan_.backend
    assert list(again.weights_) == list(svm.weights_)
    for name in svm.weights_:
        one, other = model_table.densely(again.weights_[name]), model_table.densely(svm.weights_[name])
        np.testing.assert_array_equal(one, other)
    assert all(same(a, b) for a, b in zip(again.predict(more), svm.predict(more), strict=True))
    assert again.score(more, labels) == svm.score(more, labels)
    np.testing.assert_array_equal(again.best_score(more), svm.best_score(more))


def test_the_certificate_comes_back(path):
    for options in ({}, {"trainer": "subgradient"}):
        svm = fit(Small, X, Y, **options)
        svm.save(path)
        again = StructuredSVM.load(path)
        for C in (0.1, 1.0, 7.0):
            np.testing.assert_equal(again.certified_gap(C), svm.certified_gap(C))
    for C in (-2.0, 0, np.inf, np.nan, "a", None):
        with pytest.raises(OptionError, match=f"C must be a positive number, got {C!r}"):
            again.certified_gap(C)


@pytest.mark.parametrize(  # which weights Observed has follows from labels
    "model", [one for one in model_table.TEMPLATES if one is not model_table.Observed], ids=lambda model: model.__name__
)
def test_given_weights_come_back(model, path):
    X, Y, _, _ = model_table.make_data(model, 4, seed=1)
    more, _, _, _ = model_table.make_data(model, 5, seed=2)
    learnt = fit(model, X, Y, trainer="subgradient")
    owners = [block.name for block in learnt.fitted_.blocks]  # factors that are tied have those of others
    given = {name: model_table.densely(learnt.weights_[name]) for name in owners}
    svm = StructuredSVM.from_weights(model, given, fitted_on=X, C=3.0, warm_start=True)
    svm.save(path)
    again = StructuredSVM.load(path, trusted=FUNCTIONS)
    np.testing.assert_array_equal(again.coef_, svm.coef_)
    assert again.model.declaration == model.declaration
    assert (again.C, again.warm_start) == (3.0, True)
    assert not hasattr(again, "report_")
    assert all(same(a, b) for a, b in zip(again.predict(more), svm.predict(more), strict=True))
    np.testing.assert_array_equal(again.best_score(more), svm.best_score(more))
    with pytest.raises(OptionError, match="the weights were given"):
        again.certified_gap(1.0)


def test_a_fit_goes_on_from_given_weights_of_a_file(path):
    given = StructuredSVM.from_weights(Small, good().weights_, warm_start=True, max_passes=3, random_state=0)
    given.save(path)
    again = StructuredSVM.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given.fit(X, Y)
        again.fit(X, Y)
    np.testing.assert_array_equal(again.coef_, given.coef_)
    again.save(path)
    assert StructuredSVM.load(path).report_.summary() == again.report_.summary()


def test_given_weights_with_half_a_fit_are_refused(path, whole):
    StructuredSVM.from_weights(Small, good().weights_).save(path)
    content, arrays = parts(path.read_bytes())
    assert content["report"] is None
    assert "certificate" not in arrays
    fitted, more = parts(whole)
    refused(path, packed(content, {**arrays, "certificate": more["certificate"]}))
    refused(path, packed({**content, "report": fitted["report"]}, arrays))
    refused(path, packed({**content, "stream": {"trainer": "subgradient"}}, arrays))
    refused(path, packed({**content, "fitted": {"x": {"mean": [1.0]}}}, arrays))
    refused(path, packed(content, {**arrays, "coef": np.full(8, np.nan)}))
    refused(path, packed(content, {**arrays, "coef": arrays["coef"][:-1]}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/model.ssvm", "save: there is no folder '.*missing' for 'model.ssvm'"),
        ("", "save is the path of a file, got the folder"),
        (3, "save is the path of a file, got 3"),
    ],
)
def test_where_no_file_can_be_written(name, message, tmp_path):
    with pytest.raises(OptionError, match=message):
        good().save(name if isinstance(name, int) else tmp_path / name)


def test_a_model_with_a_lambda_can_be_saved_after_all(path):
    def model(function):
        square = Factor(Small.y, features=Feature(function, Small.T, width=2))
        return type(Small)("Squares", (Small,), {"own": square})

    svm = fit(model(lambda x: x**2), X, Y)
    with pytest.raises(ModelError, match=r"at the top level .*nothing learnt is lost: .*set_params\(model=...\)"):
        svm.save(path)
    svm.set_params(model=model(model_table.square)).save(path)
    again = StructuredSVM.load(path, trusted=FUNCTIONS)
    np.testing.assert_array_equal(again.best_score(X), svm.best_score(X))


def test_parameters_come_back(path):
    options = {
        "lam": np.float64(0.25),
        "trainer": "subgradient",
        "trainer_options": {"order": "batch", "radius": 3.5},
        "backend": "tree",
        "backend_options": {},
        "regularization": {Small.emit: 2.0, "trans": np.float32(0.5)},
        "random_state": np.int64(7),
        "max_seconds": 60,
        "n_threads": 1,
        "warm_start": True,
        "callbacks": [lambda event: None],
    }
    svm = fit(Small, X, Y, **options)
    svm.save(str(path))
    again = StructuredSVM.load(str(path))
    expected = {**svm.get_params(), "callbacks": None, "regularization": {"emit": 2.0, "trans": 0.5}}
    got = again.get_params()
    assert got.pop("model").declaration == expected.pop("model").declaration
    assert got == expected


def test_limits_without_end_come_back(path):
    svm = StructuredSVM(Small, max_passes=np.inf, max_seconds=np.inf, random_state=0).fit(X, Y)
    svm.save(path)
    assert StructuredSVM.load(path).max_passes == np.inf


def test_a_loaded_model_can_go_on(path):
    good().save(path)
    again = StructuredSVM.load(path)
    np.testing.assert_array_equal(fit(again.model, X, Y).coef_, good().coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert again.set_params(warm_start=True).fit(X, Y).report_.primal <= good().report_.primal
    again.save(path)
    assert StructuredSVM.load(path).report_.plan.backend == "chain"


def test_user_functions_run_only_when_trusted(path):
    X, Y, _, _ = model_table.make_data(model_table.Rich, 3, seed=1)
    fit(model_table.Rich, X, Y, trainer="subgradient").save(path)
    with pytest.raises(OptionError, match="calls the function model_table:square, which runs code"):
        StructuredSVM.load(path)
    with pytest.raises(OptionError, match="model_table:joint_chain"):
        StructuredSVM.load(path, trusted=["model_table:square"])
    for trusted in (True, ["model_table"], ["model_table:square", "model_table:joint_chain"]):
        assert len(StructuredSVM.load(path, trusted=trusted).predict(X)) == 3


def test_a_function_without_a_path_is_refused_before_anything_is_written(path):
    class Local(Small):
        extra = Factor(Small.y, features=Feature(lambda x: x**2, Small.T, width=2))

    with pytest.raises(ModelError, match="lambda"):
        fit(Local, X, Y).save(path)
    assert not path.exists()


# -- damaged and hostile files ---------------------------------------------------------------------------------


def refused(path, content: bytes, match: str | None = None) -> str:
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=match) as caught:
        StructuredSVM.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 1000, b"PK\3\4 and more", b"{}", pickle.dumps({"coef": 1}), "Zürich".encode(), b"\x93NUMPY\1\0"],
    ids=["empty", "zeros", "zip start", "json", "pickle", "text", "npy start"],
)
def test_other_files_are_refused(path, content):
    refused(path, content)


def test_a_bare_array_of_huge_announced_size_is_refused(path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    refused(path, b"\x93NUMPY\1\0" + (118).to_bytes(2, "little") + header)


def test_truncated_files_are_refused(path, whole):
    for size in [1, 10, *range(100, len(whole), 97), len(whole) - 1]:
        refused(path, whole[:size])


@settings(max_examples=150)
@given(st.data())
def test_flipped_bytes_do_no_harm(whole, tmp_path_factory, data):
    """A damaged file is refused, or it still says exactly the same."""
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.ssvm"
    path.write_bytes(bytes(damaged))
    try:
        again = StructuredSVM.load(path)
    except SsvmError:
        return
    np.testing.assert_array_equal(again.coef_, good().coef_)
    assert all(same(a, b) for a, b in zip(again.predict(X), good().predict(X)))


def test_a_file_packed_by_hand_is_read(path, whole):
    path.write_bytes(packed(*parts(whole)))
    np.testing.assert_array_equal(StructuredSVM.load(path).coef_, good().coef_)


def edits():
    """(name, change of the JSON content or the arrays)."""

    def key(*where, value):
        def change(content, arrays):
            target = content
            for step in where[:-1]:
                target = target[step]
            target[where[-1]] = value

        return change

    def without(name):
        return lambda content, arrays: content.pop(name)

    for name in ("format", "version", "declaration", "parameters", "blocks", "fitted", "report"):
        yield f"no {name}", without(name)
        for value in (None, 7, [], {}, "text", [[]], {"a": {"b": 1}}):
            if name not in ("fitted", "parameters") or value not in ([], {}):  # there may be none
                yield f"{name} = {value}", key(name, value=value)
    yield "another version", key("version", value=99)
    for field, values in {
        "name": ["other", None],
        "offset": [-1, 1, 3, "x", None, 1e300],
        "shape": [[4, 1], [2], [2, 2, 1], [-2, -2], [2, 10**9], "23", None, [[2], 2]],
        "lower_bound": [0.0, "low", 1.5],
        "feature_axis": [0, 1, "x"],
    }.items():
        for value in values:
            yield f"block {field} = {value}", key("blocks", 0, field, value=value)
    yield "a block less", lambda content, arrays: content["blocks"].pop()
    yield "a block twice", lambda content, arrays: content["blocks"].append(content["blocks"][0])
    yield "a missing array", key("fitted", value={"x": {"mean": {"array": "nowhere"}}})
    yield "parameter unknown", key("parameters", "colour", value="red")
    yield "parameter model", key("parameters", "model", value="Small")
    yield "report of nothing", key("report", value={"primal": 1.0})
    yield "report with more", key("report", "colour", value="red")
    yield "plan of nothing", key("report", "plan", value={})
    for name, coef in {
        "short": np.zeros(3),
        "long": np.zeros(9),
        "wide": np.zeros((8, 1)),
        "single": np.zeros(8, np.float32),
        "complex": np.zeros(8, complex),
        "text": np.array(list("abcdefgh")),
        "nan": np.full(8, np.nan),
        "inf": np.full(8, np.inf),
        "objects": np.array([None] * 8),
    }.items():
        yield f"coef {name}", lambda content, arrays, coef=coef: arrays.update(coef=coef)
    yield "no coef", lambda content, arrays: arrays.pop("coef")
    yield "no certificate", lambda content, arrays: arrays.pop("certificate")
    for name, numbers in {"short": np.ones(5), "negative": -np.ones(6), "text": np.array(list("abcdef"))}.items():
        yield f"certificate {name}", lambda content, arrays, numbers=numbers: arrays.update(certificate=numbers)


EDITS = dict(edits())


@pytest.mark.parametrize("name", EDITS)
def test_wrong_contents_are_refused(name, path, whole):
    content, arrays = parts(whole)
    EDITS[name](content, arrays)
    refused(path, packed(content, arrays))


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"\xff\xfe", b"{", b"[" * 100_000, b'{"a":' * 50_000 + b"1"], ids=range(7)
)
def test_wrong_json_is_refused(path, whole, text):
    refused(path, packed(text, parts(whole)[1]))


@pytest.mark.parametrize(
    "declaration", ["{}", "[]", "null", "not json", '{"format": "ssvm-dsl declaration", "version": 1}', "[" * 100_000]
)
def test_wrong_declarations_are_refused(path, whole, declaration):
    content, arrays = parts(whole)
    refused(path, packed({**content, "declaration": declaration}, arrays))


def test_weights_of_another_model_are_refused(path, whole):
    class Wider(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, "abc")
        emit = Factor(y, features=x)
        trans = Factor(chain(y), nonneg=True)
        loss = Hamming(y)

    content, arrays = parts(whole)
    text = refused(path, packed({**content, "declaration": Wider.to_json()}, arrays))
    assert "expected weights emit[3, 2], trans[3, 3], found emit[2, 2], trans[2, 2]" in text


def test_a_vocabulary_that_does_not_fit_the_weights_is_refused(path):
    X, Y, _, _ = model_table.make_data(model_table.Tokens, 4, seed=1)
    fit(model_table.Tokens, X, Y).save(path)
    content, arrays = parts(path.read_bytes())
    content["fitted"]["t"]["names"] = [f"n{k}" for k in range(5000)]
    refused(path, packed(content, arrays), match="expected weights")


def test_pickled_arrays_are_never_opened(path, whole):
    class Bomb:
        def __reduce__(self):
            return (os.system, (f"touch {path.parent / 'exploded'}",))

    content, arrays = parts(whole)
    refused(path, packed(content, {**arrays, "coef": np.array([Bomb()])}), match="no array of numbers")
    refused(path, packed(content, arrays, extra=np.array([Bomb()])), match="no array of numbers")
    refused(path, pickle.dumps(Bomb()))
    assert not (path.parent / "exploded").exists()


def member(name: str, payload: bytes, whole: bytes) -> bytes:
    """A good file with one member's bytes replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.namelist():
            new.writestr(entry, payload if entry == name else old.read(entry))
    return out.getvalue()


@pytest.mark.parametrize("shape", ["(10000000000000,)", "(8, 10000000000)", "(-8,)", "(4294967296, 4294967296)", "8"])
def test_announced_sizes_are_checked_before_memory_is_taken(path, whole, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    npy = b"\x93NUMPY\1\0" + (118).to_bytes(2, "little") + header + b"\0" * 64
    refused(path, member("coef.npy", npy, whole))


def test_what_is_packed_is_not_unpacked(path, whole):
    _, arrays = parts(whole)
    file = io.BytesIO()
    np.savez_compressed(file, json=np.zeros(10**8, np.uint8), **arrays)
    assert len(file.getvalue()) < 200_000
    assert "is compressed" in refused(path, file.getvalue())


def test_a_wrong_hash_is_refused(path, whole):
    content, arrays = parts(whole)
    assert "its hash is that of other content" in refused(
        path, packed(content, arrays, hashed=False, hash=np.zeros(32, np.uint8))
    )
    refused(path, packed(content, arrays, hashed=False), match="no hash")


@pytest.mark.parametrize("feature", [model_table.Rich, model_table.Tokens], ids=lambda model: model.__name__)
def test_what_features_learnt_is_checked(feature, path):
    X, Y, _, _ = model_table.make_data(feature, 4, seed=1)
    fit(feature, X, Y, trainer="subgradient").save(path)
    content, arrays = parts(path.read_bytes())
    learnt = [name for name in arrays if name.startswith("fitted")]
    for name in learnt:
        array = arrays[name]
        changed = [array[:1], array[None], array[..., None], array.astype(np.float32), np.full_like(array, np.nan)]
        for change in [one for one in changed if one.shape != array.shape or not np.array_equal(one, array)]:
            path.write_bytes(packed(content, arrays | {name: change}))
            with pytest.raises(FileFormatError, match=f"{path}: the state of fitted features does not fit the model"):
                StructuredSVM.load(path, trusted=True)
    for key in content["fitted"]:
        less = {k: v for k, v in content["fitted"].items() if k != key}
        for fitted in (less, {**less, key: {}}, {**content["fitted"], "other": content["fitted"][key]}):
            path.write_bytes(packed({**content, "fitted": fitted}, arrays))
            with pytest.raises(FileFormatError, match=f"{path}: "):
                StructuredSVM.load(path, trusted=True)


def test_a_missing_file_is_a_missing_file(path):
    with pytest.raises(FileNotFoundError):
        StructuredSVM.load(path)


# -- writing ---------------------------------------------------------------------------------------------------


def test_a_failed_save_keeps_the_old_file(path, monkeypatch):
    good().save(path)
    before = path.read_bytes()

    def full_disk(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        good().save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_parameter_that_is_not_data_is_refused_before_anything_is_written(path):
    svm = fit(Small, X, Y)
    svm.backend_options = {"solver": object()}
    with pytest.raises(TypeError, match="cannot be saved"):
        svm.save(path)
    assert not list(path.parent.iterdir())


def test_saving_twice_writes_over(path):
    good().save(path)
    fit(Small, X, Y, C=7.0).save(path)
    assert StructuredSVM.load(path).C == 7.0
    assert os.listdir(path.parent) == [path.name]


def test_files_get_the_usual_permissions(path):
    other = path.parent / "other"
    other.write_bytes(b"")
    good().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
    path.chmod(0o600)
    good().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
