"""``dlpw`` on the messages of every backend that is offered for it: it gets near the optimum of the relaxed risk."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

from combinations import crossed
from model_table import tagger
from ssvm_dsl import Dim, Edges, Factor, Hamming, Input, Label, Model, StructuredSVM, along, complete
from ssvm_dsl.ir.need import Ability
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: Tables of pairs that like to agree, with a strength for each state.
AGREE = np.stack([np.diag(row) for row in np.eye(3)]) * 5.0

BACKENDS = sorted(one.name for one in registry().specs(BackendSpec) if Ability.MESSAGES in one.caps.abilities)


class Associative(Model):
    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N)
    y = Label(N, 3)
    node = Factor(y, features=x)
    prior = Factor(y)
    edge = Factor(along(y, e), form=AGREE, nonneg=True)
    loss = Hamming(y)


class Full(Model):
    K = Dim(4)
    x = Input(2)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y, normalize=True)


Line = tagger(2, 3, normalize=True)


def associative(rng):
    X, Y = [], []
    for _ in range(4):
        edges = np.array([(i, j) for i in range(5) for j in range(i + 1, 5) if rng.random() < 0.7], np.int32)
        X.append({"x": rng.normal(size=(5, 2)), "e": edges})
        Y.append(rng.integers(3, size=5))
    return X, Y


def full(rng):
    return list(rng.normal(size=(8, 2))), list(rng.integers(2, size=(8, 4)))


def line(rng):
    X = [rng.normal(size=(t, 2)) for t in (3, 4, 5, 3, 4, 5)]
    return X, [rng.integers(3, size=len(x)) for x in X]


MODELS = {"associative": (Associative, associative), "full": (Full, full), "line": (Line, line)}


@cache
def case(name):
    """(model, X, Y, optimum of the relaxed objective)"""
    model, make = MODELS[name]
    X, Y = make(np.random.default_rng(0))
    joint = StructuredSVM(
        model, lam=0.25, risk="relaxed", trainer="lp-dual-qp", backend="lp", guarantee="bound", tol=1e-7
    )
    return model, X, Y, joint.fit(X, Y).report_.primal


def fit(name, backend, max_passes, **parameters):
    model, X, Y, _ = case(name)
    svm = StructuredSVM(
        model, risk="relaxed", trainer="dlpw", backend=backend, guarantee="bound", tol=1e-9, max_passes=max_passes,
        random_state=0, trainer_options={"passes": 2, "evaluate_every": 10**6}, **{"lam": 0.25} | parameters,
    )  # fmt: skip
    return svm.fit(X, Y)


def test_some_backends_are_offered():
    assert set(BACKENDS) >= {"msd", "mplp", "tbcd", "trws"}


@crossed(name=MODELS, backend=BACKENDS)
def test_the_optimum_is_approached(name, backend):
    """Within 10 % after so many passes; messages whose choices disagree end at two to seven times the optimum."""
    report = fit(name, backend, 150).report_
    assert report.primal <= 1.1 * case(name)[3]
    assert report.dual <= case(name)[3] <= report.primal * (1.0 + 1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_fit_ends_above_zero_weights(backend):
    """Steps of ``1 / (lam t)`` are long at first; what they leave is compared with the weights at the start."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        svm = fit("associative", backend, 3, lam=0.001)
    assert not svm.coef_.any()
    assert "no weights as good as those it started from" in str(caught[-1].message)
