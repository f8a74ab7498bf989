"""Weights for observed pairs only: the model of all pairs with the other weights held at zero, by every trainer."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

import naive
import small
from model_table import Observed, densely, make_data
from small import Case
from ssvm_dsl import (
    Attributes,
    Dim,
    Factor,
    Hamming,
    Hashed,
    Input,
    Label,
    Model,
    ModelBuilder,
    StructuredSVM,
    chain,
    ground,
)
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import DataError, FileFormatError, OptionError, TrainingError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.learning.estimators.fitted import Fitted
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem

SEEN = Case(small.Seen, n=7, C=2.0).make(3)
STEPS = Case(small.SeenSteps, n=7, ignore=9).make(1)


def fit(data, **options) -> StructuredSVM:
    settings = {"C": data.case.C, "random_state": 0, "n_threads": 1, "tol": 1e-7, "max_passes": 3000, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(data.case.model, **settings).fit(data.X, data.Y)


def held_at_zero(data):
    """Which weights of the model of all pairs are of pairs that do not occur, laid out as ``data.flat``."""
    declaration, fitted = data.case.model.declaration, data.grounded.fitted
    seen = naive.observed_pairs(declaration, data.inputs, data.labels, fitted, data.shapes, data.ignored)
    return ~np.concatenate([np.ravel(seen[name]) for name in data.shapes])


# -- which pairs there are -------------------------------------------------------------------------------------


class Tagger(Model):
    T = Dim()
    words = Attributes(T)
    y = Label(T, ["noun", "verb", "other"])
    emit = Factor(y, features=words, weights="observed")
    step = Factor(chain(y), features=words, weights="observed")
    trans = Factor(chain(y))
    loss = Hamming(y, ignore="?")


X = [[["dog", "s"], ["bark", "end"]], [{"cat": 1.0, "s": 2.0, "odd": 0.0}, ["purr", "end"]], [["bark", "end"]]]
Y = [["noun", "verb"], ["noun", "?"], ["verb"]]


def test_pairs_are_those_that_occur():
    g = ground(Tagger, X, Y)
    names, pairs = g.fitted["words"]["names"], g.fitted["emit"]
    found = {
        (names[p], int(state)) for p in range(len(names)) for state in pairs["state"][slice(*pairs["ptr"][p : p + 2])]
    }
    # neither what has the value 0 nor what is beside an unknown label
    assert found == {("dog", 0), ("s", 0), ("cat", 0), ("bark", 1), ("end", 1)}
    assert g.fitted["step"]["state"].tolist() == [1, 1]  # noun, verb at bark and end
    assert [block.shape for block in g.parameters.blocks] == [(5,), (2,), (3, 3)]
    whole = ground(Tagger, X, Y, whole=True)  # keeps the unknown variable, learns nothing from it
    np.testing.assert_array_equal(whole.fitted["emit"]["state"], pairs["state"])


@pytest.mark.parametrize("data", [SEEN, STEPS], ids=["seen", "steps"])
def test_as_many_weights_as_pairs(data):
    held = held_at_zero(data)
    assert data.grounded.parameters.dim == np.count_nonzero(~held)
    assert 0.1 < held.mean() < 0.9
    svm = fit(data, max_passes=2)
    rng = np.random.default_rng(0)
    svm.coef_ = rng.uniform(1.0, 2.0, size=svm.coef_.shape)
    np.testing.assert_array_equal(data.flat(svm.weights_) == 0.0, held)


class Sources(Model):
    """Hashed attributes, a sparse input, and a list with a dense one."""

    T = Dim()
    t = Attributes(T)
    s, x = Input(T, 5, sparse=True), Input(T, 2)
    y = Label(T, 4)
    bucket = Factor(y, features=Hashed(t, 8), weights="observed")
    given = Factor(y, features=s, weights="observed")
    listed = Factor(y, features=[t, s, x], weights="observed")
    loss = Hamming(y)


def test_every_sparse_source():
    X, Y, _, labels = make_data(Sources, 6, seed=0)
    g = ground(Sources, X, Y)
    for fmap in g.parameters.maps:
        rows, states = fmap.features, np.concatenate([y["y"] for y in labels])
        dense = csr_array((rows.data, rows.indices, rows.ptr), shape=rows.shape).toarray() != 0
        seen = np.stack([dense[states == s].any(axis=0) for s in range(4)], axis=1)
        assert fmap.observed.state.tolist() == np.nonzero(seen)[1].tolist()
        assert np.diff(fmap.observed.ptr).tolist() == seen.sum(axis=1).tolist()
    svm = StructuredSVM(Sources, C=0.1, tol=1e-4, random_state=0).fit(X, Y)
    assert svm.report_.certified
    assert svm.weights_["bucket"].shape == (4, 8)


# -- training --------------------------------------------------------------------------------------------------

#: Margins are among the fits of ``test_every_trainer``.
EXACT = [
    {"trainer": "bcfw", "trainer_options": {"sampling": "uniform", "max_cached_passes": 0}},
    {"trainer": "bcfw", "risk": "relaxed", "tol": 1e-5},
    {"trainer": "bcfw", "risk": "relaxed", "tol": 1e-5, "backend": "lp", "guarantee": "bound"},
    {"trainer": "lp-dual-qp", "risk": "relaxed", "tol": 1e-5},
    {"trainer": "extragradient", "risk": "relaxed", "tol": 1e-4},
]


@pytest.mark.parametrize("settings", EXACT, ids=lambda s: " ".join(map(str, s.values())))
@pytest.mark.parametrize("data", [SEEN, STEPS], ids=["seen", "steps"])
def test_exact_trainers_agree_with_the_quadratic_program(data, settings):
    best, w_best = data.optimum()
    svm = fit(data, **settings)
    w, report = data.flat(svm.weights_), svm.report_
    assert report.converged
    assert report.certified
    accuracy = 1e-7 if "risk" not in settings else 1e-5  # of oracles; the relaxation of chains is tight
    assert report.primal == pytest.approx(data.objective(w), rel=accuracy)
    assert report.dual - accuracy * best <= best <= report.primal + accuracy * best
    tol = max(settings.get("tol", 0.0), accuracy)
    assert report.primal <= best * (1 + 2 * tol)
    np.testing.assert_allclose(w, w_best, atol=3 * np.sqrt(tol * best))


STEPPING = [
    {"trainer": "subgradient"},
    {"trainer": "subgradient", "trainer_options": {"order": "batch"}},
    {"trainer": "perceptron", "risk": "perceptron"},
    {"trainer": "perceptron", "trainer_options": {"update": "pa-i"}},
    {"trainer": "perceptron", "trainer_options": {"update": "arow"}},
]


@pytest.mark.parametrize("settings", STEPPING, ids=lambda s: " ".join(map(str, s.values())))
def test_compiled_passes_are_those_without_a_compiled_oracle(settings, monkeypatch):
    svm = fit(SEEN, max_passes=12, **settings)
    report, w = svm.report_, SEEN.flat(svm.weights_)
    assert report.primal == pytest.approx(SEEN.objective(w, settings.get("risk", "margin")), rel=1e-9)
    monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    np.testing.assert_allclose(fit(SEEN, max_passes=12, **settings).coef_, svm.coef_, atol=1e-9)


@pytest.mark.parametrize("trainer", ["lbfgs", "adam", "svrg", "eg"])
def test_smooth_trainers_agree(trainer):
    best = fit(SEEN, risk="log", trainer="lbfgs", tol=1e-9).report_.primal
    report = fit(SEEN, risk="log", trainer=trainer, tol=1e-4, max_passes=400).report_
    assert report.dual - 1e-8 * best <= best <= report.primal + 1e-8 * best
    assert trainer == "adam" or report.primal <= best * (1.0 + 1e-4)  # its steps are short


def test_weights_of_classes_and_of_examples():
    class Weighted(small.Seen):
        loss = Hamming(small.Seen.y, weights=[1.0, 3.0, 0.5])

    data = Case(Weighted, n=6, weighted=True).make(0)
    best, _ = data.optimum()
    svm = StructuredSVM(Weighted, C=1.0, tol=1e-7, random_state=0).fit(data.X, data.Y, data.weight)
    assert svm.report_.primal == pytest.approx(best, rel=1e-6)


# -- going on --------------------------------------------------------------------------------------------------


class Killed(Exception):
    """Raised by a callback: nothing after it runs."""


def test_a_checkpoint_of_other_pairs_is_refused(tmp_path):
    def kill(event):
        raise Killed

    fitted = ground(Tagger, X, Y).fitted
    settings = {"checkpoint": str(tmp_path / "fit.ckpt"), "checkpoint_seconds": 0.0, "warm_start": True}
    svm = StructuredSVM(Tagger, random_state=0, **settings)
    svm.fitted_ = Fitted(np.zeros(16), ground(Tagger, X, Y).parameters.blocks, fitted)
    svm.set_params(callbacks=[kill])
    with pytest.raises(Killed):
        svm.fit(X, Y)
    other = {**fitted, "step": {**fitted["step"], "state": fitted["step"]["state"] + np.int32(1)}}
    svm.fitted_ = replace(svm.fitted_, learnt=other)
    with pytest.raises(TrainingError, match=r"features: hash .* then, hash .* now"):
        svm.fit(X, Y)


def test_warm_starts_and_streams_keep_the_pairs_of_the_first_batch():
    svm = StructuredSVM(Tagger, warm_start=True, random_state=0, tol=1e-3).fit(X, Y)
    blocks = svm.fitted_.blocks
    svm.fit([[["dog"], ["new"], ["bark"]]], [["other", "verb", "noun"]])
    assert svm.fitted_.blocks == blocks
    stream = StructuredSVM(Tagger, trainer="subgradient", random_state=0).partial_fit(X, Y)
    stream.partial_fit([[["dog"], ["bark"]]], [["verb", "other"]])
    assert stream.fitted_.blocks == blocks
    assert densely(stream.weights_["emit"])[1, 0] == 0.0


# -- predicting ------------------------------------------------------------------------------------------------


def test_what_was_not_observed_scores_zero():
    svm = StructuredSVM(Tagger, random_state=0).fit(X, Y)
    svm.coef_ = np.random.default_rng(0).normal(size=svm.coef_.shape)
    table = {one[:4]: one.weight for one in svm.weights_.top(k=None)}
    assert len(table) == len(svm.coef_)
    more = [[["dog", "new"], {"bark": 2.0, "s": 1.0}, ["end"]], [["never"], []]]
    for labels in (["noun", "verb", "verb"], ["verb", "other", "noun"]), (["other", "verb"], ["noun", "noun"]):
        (k,) = [k for k, x in enumerate(more) if len(x) == len(labels[0])]
        for y in labels:
            total = sum(table["trans", (), pair, None] for pair in pairwise(y))
            tokens = [dict(token) if isinstance(token, dict) else dict.fromkeys(token, 1.0) for token in more[k]]
            for t, (token, tag) in enumerate(zip(tokens, y)):
                total += sum(value * table.get(("emit", (), (tag,), name), 0.0) for name, value in token.items())
                pair = tuple(y[t - 1 : t + 1])
                if t:
                    total += sum(value * table.get(("step", (), pair, name), 0.0) for name, value in token.items())
            assert svm.best_score([more[k]], [y])[0] == pytest.approx(total, abs=1e-12)


def test_weights_by_name(tmp_path, capsys):
    svm = StructuredSVM(Tagger, random_state=0).fit(X, Y)
    weights = svm.weights_
    assert repr(weights) == "Weights(emit[3, 7] (5 observed), step[9, 7] (2 observed), trans[3, 3])"
    states, names = weights.names(Tagger.emit)
    assert states == ("noun", "verb", "other")
    assert set(names) == {"dog", "s", "bark", "end", "cat", "odd", "purr"}
    pairs, _ = weights.names("step")
    assert pairs[:4] == (("noun", "noun"), ("noun", "verb"), ("noun", "other"), ("verb", "noun"))
    array = weights["emit"]
    assert array.shape == (3, 7)
    assert array.nnz == 5
    top = weights.top("emit", k=None, state="verb")
    assert {one.feature for one in top} == {"bark", "end"}
    assert all(one.weight == array[1, names.index(one.feature)] for one in top)
    assert weights.top("emit", state="other") == ()  # a class, without weights
    with pytest.raises(OptionError, match="state='adverb' is not a class that emit scores"):
        weights.top("emit", state="adverb")
    svm.save(tmp_path / "model")
    assert main(["weights", str(tmp_path / "model"), "--factor", "step", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {(tuple(one["states"]), one["feature"]) for one in told} <= {(("noun", "verb"), n) for n in ("bark", "end")}


# -- files and refusals ----------------------------------------------------------------------------------------


def test_a_saved_model_comes_back(tmp_path):
    X, Y, _, _ = make_data(Observed, 8, seed=5)
    svm = StructuredSVM(Observed, random_state=0, tol=1e-2).fit(X, Y)
    svm.save(tmp_path / "model")
    again = StructuredSVM.load(tmp_path / "model")
    more, _, _, _ = make_data(Observed, 8, seed=6)
    assert [list(y) for y in again.predict(more)] == [list(y) for y in svm.predict(more)]
    assert again.certified_gap(1.0) == svm.certified_gap(1.0)
    for name in svm.weights_:
        np.testing.assert_array_equal(densely(again.weights_[name]), densely(svm.weights_[name]))


@pytest.mark.parametrize(
    "damage",
    [
        lambda ptr, state: (ptr[:-1], state),
        lambda ptr, state: (ptr + 1, state),
        lambda ptr, state: (ptr[::-1].copy(), state),
        lambda ptr, state: (ptr.astype(np.int32), state),
        lambda ptr, state: (ptr, state[:-1]),
        lambda ptr, state: (ptr, state + np.int32(2)),
        lambda ptr, state: (ptr, state - np.int32(1)),
        lambda ptr, state: (ptr, np.zeros_like(state).reshape(-1, 1)),
        lambda ptr, state: (np.where(ptr > 0, len(state), 0), state),
        lambda ptr, state: (np.zeros((0, 2), np.int64), state),
    ],
)
def test_damaged_pairs_are_refused(damage, tmp_path):
    path = tmp_path / "model"
    StructuredSVM(Tagger, random_state=0).fit(X, Y).save(path)
    content, arrays = read_arrays(path)
    keys = [content["fitted"]["emit"][name]["array"] for name in ("ptr", "state")]
    for key, array in zip(keys, damage(*(arrays[key] for key in keys))):
        arrays[key] = array
    write_arrays(path, content, arrays)
    with pytest.raises(FileFormatError, match=r"does not fit the model .* factor 'emit': expected"):
        StructuredSVM.load(path)


def test_explain_needs_no_labels(tmp_path, capsys):
    file = tmp_path / "models.py"
    text = "from ssvm_dsl import *\nclass M(Model):\n    T = Dim()\n    t = Attributes(T)\n    y = Label(T, 3)\n"
    file.write_text(text + "    f = Factor(y, features=t, weights='observed')\n    g = Factor(chain(y))\n")
    assert main(["explain", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["predict"]["backend"], told["n_weights"]) == ("chain", None)
    assert "f = Factor(y, features=t, weights='observed')  w[3, ?]" in told["text"]


def test_labels_are_needed_to_learn_the_pairs():
    with pytest.raises(DataError, match="Y: expected labels: factor 'emit' has weights for pairs observed with them"):
        ground(Tagger, X)
    fitted = ground(Tagger, X, Y).fitted
    assert ground(Tagger, X, fitted=fitted).parameters.dim == 16


def test_pairs_of_other_features_are_refused():
    fitted = ground(Tagger, X, Y).fitted
    other = {**fitted, "words": {"names": [*fitted["words"]["names"], "more"]}}
    with pytest.raises(OptionError, match="the observed pairs of factor 'emit' are those of other learnt features"):
        ground(Tagger, X, fitted=other)


def test_no_pair_at_all():
    model = ModelBuilder("Nothing")
    T = model.dim("T")
    s, y = model.input("s", T, 3, sparse=True), model.label("y", T, 2)
    model.factor("emit", y, features=s, weights="observed")
    model.factor("trans", chain(y))
    model.loss(Hamming(y))
    svm = StructuredSVM(model.build(), random_state=0, tol=1e-3).fit([csr_array((2, 3))] * 3, [[0, 1]] * 3)
    assert svm.weights_["emit"].shape == (2, 3)
    assert svm.weights_["emit"].nnz == 0
    assert svm.predict([csr_array(np.ones((2, 3)))])[0].tolist() == [0, 1]


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient", "perceptron", "smo", "bundle"])
def test_a_fit_in_pieces_is_the_fit_in_one(trainer, tmp_path):
    def kill(event):
        if event.iteration == 2:
            raise Killed

    settings = {"trainer": trainer, "max_passes": 21, "tol": 1e-9}
    whole, file = fit(SEEN, **settings), str(tmp_path / "fit.ckpt")
    with pytest.raises(Killed):
        fit(SEEN, **settings, checkpoint=file, checkpoint_seconds=0.0, callbacks=[kill])
    again = fit(SEEN, **settings, checkpoint=file)
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    assert (again.report_.primal, again.report_.dual) == (whole.report_.primal, whole.report_.dual)
