"""``Custom``: own classes against all labellings; what is believed of them, what is refused, and files."""

from __future__ import annotations

import re

import numpy as np
import pytest
from custom_classes import Boastful, Greedy, Grid, Liar, Runs

from ssvm_dsl import Custom, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain, ground
from ssvm_dsl.errors import ModelError, NoBackendError, OptionError, PluginError, SsvmError
from ssvm_dsl.inference.planning.planner import need_of, plan_program
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.testing import check_oracle


class Calm(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "abc")
    z = Label(2)
    emit = Factor(y, features=x)
    mood = Factor(z)
    calm = Custom(y, oracle=Runs, most=1)
    loss = Hamming(y) + Hamming(z)


class Hasty(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "abc")
    emit = Factor(y, features=x)
    calm = Custom(y, oracle="custom_classes:Greedy")
    loss = Hamming(y)


def examples(n=5, length=4):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 2)) for _ in range(n)]
    Y = [{"y": "a" * (i % length + 1) + "c" * (length - 1 - i % length), "z": i % 2} for i in range(n)]
    return X, Y


def test_own_classes_are_exact_on_small_problems():
    assert check_oracle(Runs, n_states=3, most=1) == 200
    assert check_oracle(Runs, n_states=2, sizes=(4,), most=2, trials=20) == 20
    assert check_oracle(Grid, n_states=2, sizes=(0, 2), k=2, trials=50) == 50
    lie = r"oracle custom_classes:Greedy says exact = True, but \[.*where .* is possible"
    with pytest.raises(PluginError, match=lie):
        check_oracle(Greedy, n_states=2)
    with pytest.raises(PluginError, match=r"64 variables of 2 states have too many labellings.*leave exact out"):
        check_oracle(Runs, n_states=2, sizes=(64,))


def test_an_exact_class_trains_with_a_certificate_as_brute_force_does():
    X, Y = examples(n=3, length=3)
    svm = StructuredSVM(Calm, tol=1e-6, n_threads=2, backend="custom-exact").fit(X, Y)
    slow = StructuredSVM(Calm, tol=1e-6, n_threads=1, backend="brute-force", trainer="n-slack").fit(X, Y)
    assert svm.report_.certified
    np.testing.assert_allclose(svm.report_.primal, slow.report_.primal, rtol=1e-5)
    found, score, bound = svm.predict(X, return_bounds=True)
    same = {Calm.emit: svm.weights_[Calm.emit], Calm.mood: svm.weights_[Calm.mood]}
    every = StructuredSVM.from_weights(Calm, same, backend="brute-force").predict(X, return_bounds=True)
    np.testing.assert_allclose(score, every[1], rtol=1e-12)
    np.testing.assert_allclose(bound, score, rtol=1e-12)
    assert all((np.diff([ord(c) for c in y["y"]]) != 0).sum() <= 1 for y in found)
    clamped = svm.predict(X[:1], given=[{"y": ["b", None, None], "z": None}])
    assert clamped[0]["y"][0] == "b"


def test_a_heuristic_class_is_asked_for_by_name_and_certifies_nothing():
    X, Y = examples(length=12)
    Y = [y["y"] for y in Y]
    with pytest.raises(NoBackendError, match=r"ilp: .* a Custom has none(?s:.*)custom: its answers are heuristic"):
        StructuredSVM(Hasty).fit(X, Y)
    svm = StructuredSVM(Hasty, backend="custom", max_passes=5, guarantee="heuristic").fit(X, Y)
    assert not svm.report_.certified
    assert np.isnan(svm.report_.gap)
    assert all(len(set(y)) == 1 for y in svm.predict(X))
    assert np.isnan(svm.predict(X, return_bounds=True)[2]).all()


def test_who_claims_too_much_or_breaks_the_contract_is_named():
    X = [np.ones((3, 2))]
    for oracle, options, text in [
        (Boastful, {}, "custom_classes:Boastful says exact = True, but"),
        (Liar, {"how": "fails"}, "oracle custom_classes:Liar: it failed with KeyError: 'lost'"),
        (Liar, {"how": "shape"}, r"best\(\) returns ints of shape \(3,\) or None, got int64, shape \(2,\)"),
        (Liar, {"how": "floats"}, r"best\(\) returns ints of shape \(3,\) or None, got float64"),
        (Liar, {"how": "states"}, r"best\(\) returns states in 0..1, got 7..7"),
        (Liar, {"how": "infeasible"}, r"labels that feasible\(\) calls no structure: \[0, 1, 0\]"),
        (Liar, {"how": "perhaps"}, r"feasible\(\) returns True or False, got 'perhaps'"),
        (Liar, {"what": 3}, r"oracle custom_classes:Liar: it failed with TypeError"),
    ]:

        class Broken(Model):
            T = Dim()
            x = Input(T, 2)
            y = Label(T, 2)
            emit = Factor(y, features=x)
            own = Custom(y, oracle=oracle, **options)
            loss = Hamming(y)

        svm = StructuredSVM.from_weights(Broken, {"emit": np.zeros((2, 2))}, guarantee="heuristic", backend="custom")
        if oracle is Boastful:
            svm.set_params(backend="custom-exact", guarantee="exact")
        with pytest.raises(PluginError, match=text):
            svm.predict(X)


def test_true_labels_that_are_no_structure_are_refused():
    with pytest.raises(SsvmError, match=r"Y, example 1.*constraint calm = Custom\(y, oracle=Runs, most=1\)"):
        StructuredSVM(Calm).fit([np.ones((3, 2))] * 2, [{"y": "aab", "z": 0}, {"y": "aba", "z": 0}])


def test_factors_of_pairs_leave_it_to_trying_all():
    class Joined(Calm):
        pair = Factor(chain(Calm.y))

    X, Y = examples(n=2, length=3)
    parameters = ground(Joined, X).parameters
    need = need_of(parameters, frozenset({Task.MAP}), Guarantee.EXACT)
    assert plan_program(parameters.program, need).backend == "brute-force"
    with pytest.raises(NoBackendError, match="handles factors of up to 1 variables"):
        StructuredSVM(Joined, backend="custom-exact").fit(X, Y)


def test_files_hold_the_path_and_are_read_when_it_is_trusted():
    text = Calm.to_json()
    assert '"custom_classes:Runs"' in text
    with pytest.raises(OptionError, match=r"calls the function custom_classes:Runs, which runs.*trusted=\['custom_cl"):
        Model.from_json(text)
    again = Model.from_json(text, trusted=["custom_classes:Runs"])
    assert again.declaration == Calm.declaration
    with pytest.raises(SsvmError, match="declaration: TypeError: the oracle of a Custom must be a function"):
        Model.from_json(re.sub(r'\{\s*"function": ("custom_classes:Runs")\s*\}', r"\1", text), trusted=True)
    assert "calm = Custom(y, oracle=Runs, most=1)" in str(Calm)
    hashes = [ground(one, [np.ones((3, 2))]).program.content_hash for one in (Calm, Hasty)]
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda p: Custom(p.T, Runs), "the first argument must be a Label with classes, got T"),
        (lambda p: Custom(Label(p.T, over=p.T), Runs), "the first argument must be a Label with classes"),
        (lambda p: Custom(p.y, 3), "the oracle must be a class, or a path 'package.module:Class', got 3"),
        (lambda p: Custom(p.y, "no_such.module:Top"), "no_such.module:Top cannot be imported: ModuleNotFoundError"),
        (lambda p: Custom(p.y, dict), "builtins:dict is no StructureOracle: it lacks feasible() and best()"),
        (lambda p: Custom(p.y, Runs, most=[1]), "the option most must be a string, a number or a truth value, got [1]"),
    ],
)
def test_mistakes_in_declarations(make, text):
    with pytest.raises(ModelError) as caught:

        class Wrong(Hasty):
            extra = make(Hasty)

    assert text in str(caught.value)
