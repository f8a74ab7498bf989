"""Compiled oracles of structures and graphs: against brute force, and in the compiled passes of trainers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from model_table import STRUCTURES, few, heads, segmenter
from ssvm_dsl import (
    POTTS,
    Cost,
    Dim,
    Factor,
    Forbid,
    Grammar,
    Hamming,
    Input,
    Label,
    Matching,
    Model,
    ProjectiveTree,
    StructuredSVM,
    complete,
    grid,
    ground,
    rules,
    spans,
)
from ssvm_dsl.errors import BackendFault
from ssvm_dsl.inference.checked import CheckedSession
from ssvm_dsl.kernels import SIGNATURE, cfunc
from ssvm_dsl.testing import open_session


@cfunc(SIGNATURE)
def no_answer(ints, longs, example, pool, node, labels, work):
    return np.nan


SENTENCES = Grammar([("S", "ab"), ("S", "Sb"), ("S", "aS"), ("S", "a"), ("S", "b")], "S", tags="ab")


def test_an_oracle_without_an_answer_leaves_it_to_solve(monkeypatch):
    original = CheckedSession.compiled
    silent = no_answer
    monkeypatch.setattr(CheckedSession, "compiled", lambda self: replace(original(self), function=silent))
    X, Y = noisy_data(Six)
    for trainer in ("bcfw", "subgradient", "perceptron"):
        risk = "perceptron" if trainer == "perceptron" else "margin"
        with pytest.raises(BackendFault, match="has no answer where the backend's solve has one"):
            StructuredSVM(Six, trainer=trainer, risk=risk, random_state=0).fit(X, Y)


class Six(Model):
    K = Dim(4)
    x = Input(3)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y, weights=[1.0, 2.0])


class Masked(Six):
    never = Forbid(Six.y.at(0), [1])


class Align(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 3)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y, weights=[1.0, 3.0])


Heads = heads(3, single_root=True)


class Nested(Heads):
    tree = ProjectiveTree(Heads.head)


class Picture(Model):
    H = Dim(3)
    W = Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    own = Factor(y, features=x)
    same = Factor(grid(y), form=POTTS, nonneg=True)
    loss = Hamming(y)


FEW, SEGMENTS, ROUTE = few(3, 3, 2), segmenter(3, "OA", 3), STRUCTURES["path"].model

ARCS = np.array([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)])


def inputs_of(model, rng):
    if model is ROUTE:
        return {"z": np.zeros((5, 1)), "e": ARCS, "f": rng.normal(size=(len(ARCS), 2))}
    sizes = {dim.name: dim.size or int(rng.integers(3, 6)) for dim in model.declaration.dims}
    (x,) = model.declaration.inputs
    return rng.normal(size=(*(sizes[dim.name.rstrip("'")] for dim in x.dims), *x.shape))


def blurred(x, rng):
    return x | {"f": blurred(x["f"], rng)} if isinstance(x, dict) else x + rng.normal(size=x.shape)


def noisy_data(model, n=12):
    """Examples labelled by random weights, at inputs that noise was added to."""
    rng = np.random.default_rng(0)
    X = [inputs_of(model, rng) for _ in range(n)]
    weights = {
        block.name: np.maximum(rng.normal(size=block.shape), block.lower_bound)
        for block in ground(model, X).parameters.blocks
    }
    Y = StructuredSVM.from_weights(model, weights).predict(X)
    return [blurred(x, rng) for x in X], Y


class Parses(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, grammar=SENTENCES)
    own = Factor(y, features=x)
    phrase = Factor(spans(y))
    rule = Factor(rules(y))
    loss = Cost(spans(y), "wrong") + Hamming(y)


MODELS = {
    Six: "junction-tree", Masked: "junction-tree", Align: "assignment", Heads: "arborescence", Nested: "eisner",
    FEW: "cardinality", ROUTE: "shortest-path", SEGMENTS: "semi-markov", Picture: "graph-cut", Parses: "cky",
}  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """How many oracles were offered to kernels of trainers."""
    offered = []
    original = CheckedSession.compiled
    monkeypatch.setattr(CheckedSession, "compiled", lambda self: offered.append(original(self)) or offered[-1])
    return offered


@pytest.mark.parametrize("model", MODELS)
def test_compiled_passes_reach_the_optimum_of_cutting_planes(model, calls):
    X, Y = noisy_data(model)
    settings = {"C": 0.5, "tol": 1e-4, "random_state": 0, "backend": MODELS[model]}
    right = StructuredSVM(model, trainer="one-slack", **settings).fit(X, Y).report_
    assert not calls
    report = StructuredSVM(model, **settings).fit(X, Y).report_
    assert calls
    assert all(calls)
    assert report.converged
    assert report.certified
    assert report.primal == pytest.approx(right.primal, rel=3e-4)
    assert report.dual <= right.primal * (1.0 + 1e-9)


@pytest.mark.parametrize("trainer", ["perceptron", "subgradient"])
@pytest.mark.parametrize("model", [Six, Align, Parses])
def test_steps_are_those_of_calls_from_python(model, trainer, calls, monkeypatch):
    X, Y = noisy_data(model)
    settings = {"trainer": trainer, "max_passes": 3, "random_state": 0, "backend": MODELS[model], "tol": 1e-9}
    settings["risk"] = "perceptron" if trainer == "perceptron" else "margin"
    compiled = StructuredSVM(model, **settings).fit(X, Y)
    assert calls
    monkeypatch.setattr(CheckedSession, "compiled", lambda self: None)
    one_by_one = StructuredSVM(model, trainer_options={"batch_size": 1} if trainer == "subgradient" else {}, **settings)
    np.testing.assert_allclose(compiled.coef_, one_by_one.fit(X, Y).coef_, atol=1e-9)


@pytest.mark.parametrize(("limit", "offered"), [(1, True), (None, True), (2, False)])
def test_matchings_are_offered_unless_they_are_flows(limit, offered):
    class Limited(Align):
        one = Matching(Align.y.is_(1), rows=Align.I, cols=Align.J, col_limit=limit)

    rng = np.random.default_rng(0)
    program = ground(Limited, [rng.normal(size=(2, 3, 3)) for _ in range(4)]).program
    assert (open_session(program, "assignment").compiled() is not None) == offered
