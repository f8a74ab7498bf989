"""``dlpw`` on the prices of ``decompose``: trees and matchings with tables, without their relaxation at each step."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from combinations import crossed
from kit import keeps_its_promises
from model_table import independent
from ssvm_dsl import (
    Arborescence,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Matching,
    Model,
    StructuredSVM,
    along,
    pairs,
)
from ssvm_dsl.errors import NoBackendError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LAM = 0.5


class Parse(Model):
    """Trees with factors of two arcs to the same head."""

    T, M = Dim(), Dim()
    x = Input(T, T, 3)
    e = Edges(M, over=T, arity=4)
    f = Input(M, 2)
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None))
    both = Factor(along(head, e), features=f)
    tree = Arborescence(head, single_root=True)
    loss = Hamming(head)


class Align(Model):
    """Matchings with factors of neighbouring links."""

    I, J = Dim(), Dim()
    x = Input(I, J, 3)
    y = Label(I, J, 2)
    link = Factor(y.is_(1), features=x)
    across = Factor(pairs(y, J))
    down = Factor(pairs(y, I))
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y)


def parses(rng):
    X, Y = [], []
    for n in (3, 4, 4, 5):
        a, c, h = (one.ravel() for one in np.indices((n, n, n)))
        same = (a < c) & ((a - h) * (c - h) > 0)
        e = np.stack([a, h, c, h], axis=1)[same].astype(np.int32)
        X.append({"x": rng.normal(size=(n, n, 3)), "e": e, "f": rng.normal(size=(len(e), 2))})
        Y.append([None, *(int(rng.integers(k)) for k in range(1, n))])
    return X, Y


def alignments(rng):
    X, Y = [], []
    for n in (2, 3, 3, 4):
        X.append(rng.normal(size=(n, n, 3)))
        Y.append(np.eye(n, dtype=int)[rng.permutation(n)])
    return X, Y


CASES = {"parses": (Parse, parses, "ad3"), "alignments": (Align, alignments, "lp")}


@cache
def case(name):
    """(model, X, Y, optimum of the relaxed objective: ``ad3`` takes trees whole, as the parts do)"""
    model, make, backend = CASES[name]
    X, Y = make(np.random.default_rng(1))
    svm = StructuredSVM(
        model, lam=LAM, risk="relaxed", trainer="bcfw", backend=backend, guarantee="bound", tol=1e-4, max_passes=2000
    )
    report = svm.fit(X, Y).report_
    assert report.converged
    return model, X, Y, report.primal


def fit(name, max_passes, **options):
    model, X, Y, _ = case(name)
    options = {"averaging": "weighted", "evaluate_every": 10**6} | options
    return StructuredSVM(
        model, lam=LAM, risk="relaxed", trainer="dlpw", backend="decompose", guarantee="bound", tol=1e-3,
        max_passes=max_passes, random_state=0, trainer_options=options,
    ).fit(X, Y)  # fmt: skip


@crossed(name=CASES, options=[{"passes": 10}, {"passes": 2}, {"passes": 5, "batch_size": 2}])
def test_the_relaxed_optimum_is_approached(name, options):
    report, optimum = fit(name, 250, **options).report_, case(name)[3]
    assert report.primal <= 1.01 * optimum
    assert report.dual <= optimum <= report.primal * (1.0 + 2e-4)
    assert report.certified


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("passes", [1, 4])
def test_bounds_hold_at_any_time(name, passes):
    report, optimum = fit(name, 3, passes=passes).report_, case(name)[3]
    assert report.dual <= optimum * (1 + 1e-4)
    assert report.primal >= optimum * (1 - 2e-4)


Line = independent(2, 2)


def test_messages_are_for_constraints_alone():
    """Without constraints a part may hold all factors, whose bound is none of the local polytope."""
    svm = StructuredSVM(Line, risk="relaxed", trainer="dlpw", backend="decompose")
    with pytest.raises(NoBackendError, match="decompose: does not expose dual messages without hard constraints"):
        svm.fit([np.zeros((2, 2))], [[0, 1]])


def test_auto_finds_the_messages():
    model, X, Y, _ = case("alignments")
    svm = StructuredSVM(model, lam=LAM, risk="relaxed", trainer="dlpw", max_passes=2).fit(X, Y)
    assert svm.plan_.backend == "decompose"


def test_the_kit_finds_its_bounds_and_slopes_right():
    """Against all labellings of problems with every kind of constraint: bounds, slopes, and messages that are kept."""
    report = keeps_its_promises("decompose", n_problems=4, only=frozenset({"messages under constraints"}))
    (check,) = [one for one in report.checks if one.name == "messages under constraints"]
    assert check.cases >= 5
