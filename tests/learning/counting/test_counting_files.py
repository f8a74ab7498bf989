"""Predictors trained by counting: files, streams, and the conventions of scikit-learn."""

from __future__ import annotations

import pickle
from contextlib import suppress
from math import comb

import mutations
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score

import archives
from ssvm_dsl import CountingPredictor, Dicycles, OutputSpace, StructuredSVM, Subsets
from ssvm_dsl.datasets import make_identity, make_tours
from ssvm_dsl.errors import DataError, FileFormatError, OptionError, TrainingError


class Teams(OutputSpace):
    """Two of n players."""

    decoders = {"exact": 1.0}  # noqa: RUF012

    def __init__(self, n):
        self.n_features = n

    def __repr__(self):
        return f"Teams({self.n_features})"

    size = property(lambda self: comb(self.n_features, 2))
    Phi = property(lambda self: np.full(self.n_features, self.n_features - 1.0))
    C = property(lambda self: np.ones((self.n_features,) * 2) + np.eye(self.n_features) * (self.n_features - 2.0))

    def canonical(self, output):
        return tuple(sorted(int(player) for player in output))

    def features(self, output):
        return np.isin(np.arange(self.n_features), output).astype(float)

    def decode(self, scores, decoder="exact"):
        return [self.canonical(row[:2]) for row in np.argsort(-scores, axis=1, kind="stable")]


def cases():
    X, Y = make_identity(40, 3)
    yield CountingPredictor(Subsets(3), C=10.0, tol=1e-4).fit(X, Y), X
    yield CountingPredictor(Subsets(3), kernel="poly", degree=2, lam=0.1, solver="sgd", truncation=0.3).fit(X, Y), X
    X, Y, _ = make_tours(30, 3, 4)
    yield CountingPredictor(Dicycles(4), kernel="linear", solver="closed-form", decoder="exact").fit(X, Y), X
    made = CountingPredictor(Dicycles(4), lam=0.1, solver="sgd", truncation=20, random_state=3)
    yield made.partial_fit(X[:25], Y[:25]), X
    X, Y = np.eye(4), [[0, 1], [1, 2], [2, 3], [0, 3]]
    yield CountingPredictor(Teams(4), kernel="linear", gamma=0.5, max_seconds=60.0).fit(X, Y), X


def test_what_is_saved_comes_back(tmp_path):
    for made, X in cases():
        path = tmp_path / "model.ssvm"
        made.save(path)
        own = {"space": made.space} if isinstance(made.space, Teams) else {}
        read = CountingPredictor.load(path, **own)
        for a, b in ((read, made), (pickle.loads(pickle.dumps(made)), made)):
            assert repr(a.get_params()) == repr(b.get_params())
            assert (a.decision_function(X) == b.decision_function(X)).all()
            assert repr(a.predict(X)) == repr(b.predict(X))
            assert np.array_equal(a.support_, b.support_)
            assert str(a.report_) == str(b.report_)


def test_a_space_of_ones_own_is_given_again(tmp_path):
    *_, (made, _) = cases()
    made.save(tmp_path / "teams")
    with pytest.raises(OptionError, match=r"the space 'Teams' is your own code.*load\(path, space=...\)"):
        CountingPredictor.load(tmp_path / "teams")
    for wrong in (Teams(5), Subsets(4), "Teams"):
        with pytest.raises(OptionError, match="expected the space 'Teams' with 4 features"):
            CountingPredictor.load(tmp_path / "teams", space=wrong)
    made, _ = next(cases())
    made.save(tmp_path / "labels")
    with pytest.raises(OptionError, match="the file has the space Subsets"):
        CountingPredictor.load(tmp_path / "labels", space=Subsets(4))


def test_what_cannot_be_saved_is_refused(tmp_path):
    X, Y = make_identity(20, 3)
    made = CountingPredictor(Subsets(3), kernel=rbf_kernel).fit(X, Y)
    with pytest.raises(OptionError, match="kernel is a function, and files hold no code; name one"):
        made.save(tmp_path / "model")
    with pytest.raises(OptionError, match="no folder"):
        made.save(tmp_path / "nowhere" / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module", params=["decay", "smd"])
def whole(tmp_path_factory, request):
    """The bytes of a file with a stream."""
    path = tmp_path_factory.mktemp("models") / "model"
    X, Y = make_identity(12, 3)
    made = CountingPredictor(Subsets(3), lam=0.1, solver="sgd", truncation=9, step_rule=request.param)
    made.partial_fit(X, Y).save(path)
    return path.read_bytes()


CHANGES = {
    "format": [("format", "x"), ("version", 2), ("space", None), ("space", {"kind": "Subsets", "n": 4})],
    "space": [("space", {"kind": "Dicycles", "n": 3.0}), ("space", {"kind": "os", "n": 3}), ("kernel", {})],
    "parameters": [("parameters", {}), ("stream", {}), ("stream", None), ("report", {}), ("report", None)],
}
PARAMETERS = {
    "kernel": "sigmoid", "gamma": -1, "degree": "3", "coef0": None, "C": True, "lam": 0, "solver": "x", "tol": -1.0,
    "max_iter": 1.5, "step": [], "delay": None, "truncation": 0, "decoder": "no", "random_state": -1, "space": 3,
}  # fmt: skip
REPORT = {"objective": "1", "n_iterations": 1.5, "reason": "why", "certificate": "x", "solver": 3, "more": 1}
KERNEL = {"kernel": "linear", "gamma": "scale", "degree": 4, "coef0": 2.0}
STREAM = {"n_seen": 3, "fingerprint": {}, "values": {"delay": "x"}, "arrays": ["coef"]}


def test_edited_files_are_refused(whole, tmp_path):
    content, arrays = archives.parts(whole)
    edited = [{**content, key: value} for pairs in CHANGES.values() for key, value in pairs]
    for part, changes in (("parameters", PARAMETERS), ("report", REPORT), ("kernel", KERNEL), ("stream", STREAM)):
        edited += [{**content, part: {**content[part], key: value}} for key, value in changes.items()]
    edited.append({**content, "report": {**content["report"], "objective": 10**400}})
    for one in edited:
        refused(archives.packed(one, arrays), tmp_path)
    for name, array in arrays.items():
        others = [array[:-1], array.astype(np.float32), array[None], np.where(array == array, np.nan, array)]
        other_numbers = [] if name == "stream_trace" else [array - 1]  # nothing else in the file tells a trace
        for other in (*others, *other_numbers):
            refused(archives.packed(content, {**arrays, name: other}), tmp_path)
        refused(archives.packed(content, {key: one for key, one in arrays.items() if key != name}), tmp_path)
    refused(archives.packed(content, {**arrays, "more": np.zeros(1)}), tmp_path)
    refused(whole[:-30], tmp_path)
    with pytest.raises(FileFormatError):
        StructuredSVM.load(tmp_path / "model")


def test_mutated_files_are_refused_or_predict(whole, tmp_path):
    content, arrays = archives.parts(whole)
    rng, X = np.random.default_rng(0), make_identity(5, 3)[0]
    for _ in range(150):
        changed = mutations.changed_json(rng, content)
        (tmp_path / "model").write_bytes(archives.packed(changed, arrays))
        try:
            read = CountingPredictor.load(tmp_path / "model")
        except FileFormatError:
            continue
        except OptionError as err:
            if not str(err).startswith("load: the space '"):  # another name is a space of one's own
                raise
            continue
        assert np.isfinite(read.decision_function(X)).all()
        assert str(read.report_)
        read.predict(X)
        with suppress(TrainingError):  # settings that are not those of the stream
            read.partial_fit(*make_identity(3, 3))


def refused(data, tmp_path):
    (tmp_path / "model").write_bytes(data)
    with pytest.raises(FileFormatError, match="model: "):
        CountingPredictor.load(tmp_path / "model")


# -- streams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truncation", [None, 7, 30, 500])
@pytest.mark.parametrize("kernel", ["rbf", rbf_kernel])
@pytest.mark.parametrize("step_rule", ["decay", "smd"])
def test_batches_have_the_coefficients_of_one_pass(truncation, kernel, step_rule):
    X, Y = make_identity(150, 4)
    made = CountingPredictor(
        Subsets(4), kernel=kernel, gamma=0.3, lam=0.05, solver="sgd", delay=300.0, step=2.0, truncation=truncation,
        step_rule=step_rule, meta_step=0.2,
    )  # fmt: skip
    whole, stream, weight = clone(made).fit(X, Y, np.linspace(0.5, 1.5, 150)), clone(made), np.linspace(0.5, 1.5, 150)
    for lo, hi in ((0, 1), (1, 66), (66, 67), (67, 140), (140, 150)):
        stream.partial_fit(X[lo:hi], Y[lo:hi], weight[lo:hi])
    assert np.array_equal(stream.support_, whole.support_)
    np.testing.assert_allclose(stream.dual_coef_, whole.dual_coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(stream.X_fit_, whole.X_fit_)
    np.testing.assert_allclose(stream.decision_function(X), whole.decision_function(X), rtol=1e-9, atol=1e-12)
    assert (stream.report_.n_examples, stream.report_.reason) == (150, "stream")
    assert "not known" in str(stream.report_)


@pytest.mark.parametrize("step_rule", ["decay", "smd"])
def test_a_saved_stream_goes_on_bit_for_bit(tmp_path, step_rule):
    X, Y = make_identity(90, 3)
    made = CountingPredictor(Subsets(3), C=0.5, solver="sgd", truncation=25, step_rule=step_rule)
    made.partial_fit(X[:40], Y[:40]).save(tmp_path / "model")
    read = CountingPredictor.load(tmp_path / "model")
    for one in (made, read):
        one.partial_fit(X[40:], Y[40:])
    assert (made.dual_coef_ == read.dual_coef_).all()
    assert (made.support_ == read.support_).all()
    assert made.report_.n_examples == 90
    assert made._stream.values == read._stream.values
    with pytest.raises(TrainingError, match="step_rule: "):
        made.set_params(step_rule={"decay": "smd", "smd": "decay"}[step_rule]).partial_fit(X, Y)


def test_a_stream_adapts_the_step_size_over_batches():
    """A first p that is far too small: streams that adapt it come nearer to the policies of the optimum."""
    X, Y = make_identity(600, 4)
    best = CountingPredictor(Subsets(4), gamma=0.3, lam=0.01, solver="closed-form").fit(X, Y)
    errors = {}
    for rule in ("decay", "smd"):
        made = CountingPredictor(Subsets(4), gamma=0.3, lam=0.01, solver="sgd", step=0.05, step_rule=rule)
        for lo in range(0, 600, 50):
            made.partial_fit(X[lo : lo + 50], Y[lo : lo + 50])
        errors[rule] = np.abs(made.decision_function(X) - best.decision_function(X)).max()
    assert errors["smd"] < 0.5 * errors["decay"]
    assert made._stream.values["factor"] > 2 * 0.05


def test_steps_of_meta_descent_that_are_too_long_are_refused():
    X, Y = make_identity(40, 3)
    made = CountingPredictor(Subsets(3), solver="sgd", step_rule="smd", delay=0, lam=1e-300)
    with pytest.raises(TrainingError, match="too long"):
        made.partial_fit(1e3 * X, Y)
    assert not hasattr(made, "dual_coef_")


def test_a_longer_delay_is_kept():
    X, Y = make_identity(30, 3)
    made = CountingPredictor(Subsets(3), kernel="linear", lam=1e-4, solver="sgd").partial_fit(X, Y)
    first = made._stream.values["delay"]
    assert made.partial_fit(3.0 * X, Y)._stream.values["delay"] > first
    longest = made._stream.values["delay"]
    assert made.partial_fit(X, Y)._stream.values["delay"] == longest
    assert np.isfinite(made.dual_coef_).all()


def test_streams_that_cannot_go_on_say_so_and_stay_as_they_are():
    X, Y = make_identity(30, 3)
    with pytest.raises(TrainingError, match=r"solver='ncg' needs all examples at once.*set solver='sgd'"):
        CountingPredictor(Subsets(3)).partial_fit(X, Y)
    with pytest.raises(OptionError, match=r"share of all examples.*whole number"):
        CountingPredictor(Subsets(3), solver="sgd", truncation=0.5).partial_fit(X, Y)
    made = CountingPredictor(Subsets(3), solver="sgd", lam=0.1).partial_fit(X, Y)
    before = made.dual_coef_.copy()
    for call, kind, text in (
        (lambda: made.partial_fit(X[:, :2], Y), DataError, "3 columns, as in fit"),
        (lambda: made.partial_fit(X, Y[:5]), DataError, "30 outputs"),
        (lambda: made.set_params(step=2.0).partial_fit(X, Y), TrainingError, "step: 1.0 then, 2.0 now"),
        (lambda: made.set_params(step=1.0, delay=0, lam=1e-300).partial_fit(1e3 * X, Y), TrainingError, "too long"),
    ):
        with pytest.raises(kind, match=text):
            call()
        assert (made.dual_coef_ == before).all()
        assert made.report_.n_examples == 30
    made.set_params(delay="auto", lam=0.1).partial_fit(X, Y)
    assert made.report_.n_examples == 60
    made.fit(X, Y)
    with pytest.warns(UserWarning, match="starts a new stream"):
        made.partial_fit(X, Y)
    assert made.report_.n_examples == 30


def test_scikit_learn_scores_and_clones_it():
    X, Y = make_identity(60, 3)
    made = CountingPredictor(Subsets(3), C=10.0, solver="sgd")
    assert cross_val_score(made, X, Y, cv=3).shape == (3,)
    assert repr(clone(made).get_params()) == repr(made.get_params())
    assert clone(made).set_params(C=2.0, step=3.0).step == 3.0
    with pytest.raises(ValueError, match="Invalid parameter"):
        made.set_params(steps=3.0)
