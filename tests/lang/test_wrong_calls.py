"""Every public name, called in ways that it is not made for, raises an error of ours or notes a mistake of the model.

A bare ``TypeError`` or ``AttributeError`` from inner code would speak of things that the user did not write.
"""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pytest

import ssvm_dsl
from ssvm_dsl import (
    CountingPredictor,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    StructuredRegressor,
    StructuredSVM,
    Subsets,
    chain,
    grid_scores,
    ground,
    nested_scores,
    to_networkx,
)
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.calls import CheckedCalls, checked_call
from ssvm_dsl.errors import KeywordError, SsvmError
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.losses.label_losses import Loss
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.lang.symbols import Symbol

#: Subclassed by users, or made by other functions and never called: Python's errors are enough.
BASES = {"OutputSpace", "Target", "Transform"}

T, U, M = Dim(), Dim(), Dim()
x, y, z, e = Input(T, 3), Label(T, 3), Label(T, U, 2), Edges(M, over=T)


class Row(Model):
    x = Input(3)
    y = Label(3)
    f = Factor(y, features=x)
    loss = Hamming(y)


class Word(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 3)
    f = Factor(y, features=x)
    g = Factor(chain(y))
    loss = Hamming(y)


ODD = [None, "y", 3, -1, 1.5, float("nan"), 10**30, [], [None], {}, object(), b"a", True, np.ones((2, 2))]
ODD += [Dim, T, x, y, e, Row, Word, Hamming(y), Factor(y), [("y",)], ["a"] * 6, [{"zz": 1}] * 6, [np.ones((4, 3))]]

CALLED = sorted(name for name in ssvm_dsl.__all__ if callable(getattr(ssvm_dsl, name)) and name not in BASES)


def refused(call, *args, **named):
    """What a call returns; ``None`` where it raises an error of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **named)
        except (SsvmError, OSError):  # a path may be one that is not there
            return None


def declared(made):
    """Put what was made into a model."""
    body = {"T": T, "U": U, "M": M, "x": x, "y": y, "z": z, "e": e}
    if isinstance(made, Target):
        body["made"] = Factor(made)
    elif isinstance(made, Loss):
        body["loss"] = made
    elif isinstance(made, Source):
        body |= {"made": made, "factor": Factor(y, features=made)}
    elif isinstance(made, Symbol):
        body["made"] = made
    repr(made)
    if len(body) > 6:  # there is something in it that could be wrong
        refused(type(Model), "Made", (Model,), body)


def parameters(call):
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one for one in inspect.signature(call).parameters.values() if one.kind in kinds]


def takes_any(call):
    """Whether a call takes keywords of any name."""
    return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(call).parameters.values())


@pytest.mark.parametrize("name", CALLED)
def test_wrong_arguments_are_named(name):
    call = getattr(ssvm_dsl, name)
    form = inspect.signature(call).parameters.values()
    if not takes_any(call):
        with pytest.raises(KeywordError, match=rf"{name} has no parameter 'zzz_q'"):
            call(zzz_q=1)
    if not any(one.kind is one.VAR_POSITIONAL for one in form):
        with pytest.raises(KeywordError, match=r"without a name, got 40|cannot be called"):
            call(*[y] * 40)
    if any(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in form):
        with pytest.raises(KeywordError, match=rf"(?s){name}: .* missing.*call: {name}\("):
            call()


@pytest.mark.parametrize("name", CALLED)
def test_odd_arguments_raise_errors_of_ours(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "y" is the name of a file
    call = getattr(ssvm_dsl, name)
    needed = [one.name for one in parameters(call) if one.default is one.empty]
    for odd in ODD:
        for args in ((odd,), (y, odd), (odd, T), (y, T, odd)):
            declared(refused(call, *args))
        for one in parameters(call):
            rest = {key: y for key in needed if key != one.name}
            declared(refused(call, **rest, **{one.name: odd}))


DATA = np.eye(3)[[0, 1, 2] * 2]
FITTED = {
    "row": (lambda: StructuredSVM(Row, tol=0.5).fit(DATA, [0, 1, 2] * 2), {"X": DATA, "Y": [0, 1, 2] * 2, "k": 2}),
    "word": (
        lambda: StructuredSVM(Word, tol=0.5).fit([np.ones((2, 3))], [[0, 1]]),
        {"X": [np.ones((2, 3))], "Y": [[0, 1]], "k": 2},
    ),
    "regressor": (
        lambda: StructuredRegressor(Row, tol=0.5).fit(DATA, [1.0] * 6, [0, 1, 2] * 2),
        {"X": DATA, "Y": [0, 1, 2] * 2, "values": [1.0] * 6, "k": 2},
    ),
    "counting": (lambda: CountingPredictor(Subsets(3)).fit(np.eye(3), np.eye(3)), {"X": np.eye(3), "Y": np.eye(3)}),
}
#: True or False, for which Python asks: an array has no truth value, and its message says so.
FLAGS = {"return_bounds", "deep", "whole", "shuffle"}

#: What the estimators pass to ``ground``, and no user has.
INNER = {"structures"}


@pytest.mark.parametrize("name", FITTED)
def test_methods_of_estimators(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, good = FITTED[name]
    fitted = refused(make)
    kept = pickle.dumps(fitted)
    for method in sorted(key for key in dir(type(fitted)) if not key.startswith("_")):
        if not callable(getattr(type(fitted), method)) or method == "set_params":
            continue
        if method.endswith(("_request", "_metadata_routing")):  # scikit-learn's own
            continue
        call = getattr(fitted, method)
        if not takes_any(call):
            with pytest.raises(KeywordError, match=rf"\.{method} has no parameter 'zzz_q'"):
                call(zzz_q=1)
        known = {one.name: one for one in parameters(call)}
        base = {key: value for key, value in good.items() if key in known and known[key].default is inspect._empty}
        for key in known.keys() - FLAGS:
            for odd in ODD:
                refused(getattr(pickle.loads(kept) if "fit" in method else fitted, method), **{**base, key: odd})


def test_functions_of_data_and_parameters():
    cheap = {"tol": 0.5, "max_passes": 1}
    base = {"estimator": StructuredSVM(Row, **cheap), "grid": {"C": [1.0]}, "X": DATA, "Y": [0, 1, 2] * 2}
    calls = [(grid_scores, base | {"folds": 2}), (nested_scores, base | {"outer": 2, "inner": 2})]
    calls += [(to_networkx, {"model": ground(Row, DATA)}), (ground, {"model": Row, "X": DATA})]
    for call, given in calls:
        for key in {one.name for one in parameters(call)} - FLAGS - INNER:
            for odd in ODD:
                refused(call, **{**given, key: odd})
    for one in parameters(StructuredSVM):
        for odd in ODD:
            made = refused(StructuredSVM, **{"model": Row, **cheap, one.name: odd})
            refused(made.fit, DATA, [0, 1, 2] * 2)


def test_messages_say_what_to_write():
    cases = {
        "missing": (StructuredSVM, r"StructuredSVM: 'model' is missing\n  call: StructuredSVM\(model, C=1.0, lam="),
        "two": (lambda: StructuredSVM.from_weights(), r"StructuredSVM.from_weights: 'model' and 'weights' are missing"),
        "nearest": (lambda: chain(y, ordr=1), r"chain has no parameter 'ordr'; did you mean order=\?"),
        "by name": (lambda: Edges(M, T), "Edges takes 1 argument without a name, got 2; pass the other arguments as"),
        "twice": (lambda: chain(y, y=y), "chain: 'y' is given twice, by its position and as y="),
        "constructor": (
            lambda: StructuredSVM(Row).fit(DATA, DATA, tol=1),
            r"fit has no parameter 'tol'; it is a parameter of StructuredSVM: StructuredSVM\(..., tol=...\)",
        ),
        "class": (lambda: StructuredSVM.load(), r"StructuredSVM.load: 'path' is missing"),
    }
    for call, text in cases.values():
        with pytest.raises(KeywordError, match=text):
            call()


def test_errors_of_the_body_are_left_alone():
    @checked_call
    def body(a):
        return a + "text"

    with pytest.raises(TypeError, match="unsupported operand"):
        body(1)

    class Own(CheckedCalls):
        def __init__(self, a, **more):
            self.a, self.more = a, more

        def look(self, b=1):
            return len(b)

    assert Own(1, anything=2).more == {"anything": 2}
    with pytest.raises(TypeError, match="has no len"):
        Own(1).look(2)
    with pytest.raises(KeywordError, match=r"Own.look has no parameter 'c'"):
        Own(1).look(c=2)


def test_warnings_point_to_the_caller():
    with pytest.warns(UserWarning, match="told") as found:
        warn_caller("told")
    assert found[0].filename == __file__
