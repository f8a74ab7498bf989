"""Slack rescaling against the optimum over all labellings, its oracles against trying every labelling."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from test_every_trainer import check_optimal

import small
from combinations import crossed
from optima import planes_of
from small import Case
from ssvm_dsl import Hamming, StructuredSVM
from ssvm_dsl.errors import NoBackendError, SsvmError, TrainingError
from ssvm_dsl.ir import Guarantee, Task
from ssvm_dsl.learning.risks.hinges.slack import Envelope, loss_counts
from toy_backends import Toys, registered

#: The reference's accuracy.
TINY = 1e-7


class Grainy(small.Word):
    """Losses that are multiples of no common unit."""

    loss = Hamming(small.Word.y, weights=[1.0, np.sqrt(2.0), np.pi / 3])


CASES = [
    Case(small.Word, n=6),
    Case(small.Word, C=0.05, weighted=True, tag="-weighted"),
    Case(small.Tree, ragged=(1, 4, 5), n=4),
    Case(small.Loopy),
    Case(small.Single, n=8),
    Case(small.Layers, ragged=(1, 2), n=4),
    Case(small.Ties, C=5.0, regularization={"agree": 0.2, "step": 2.0}, tag="-scaled"),
    Case(small.Joint, ignore=9, n=6),
    Case(small.Costs),
    Case(small.AllOrNothing),
    Case(small.Perceptron),
    Case(Grainy),
    Case(small.WordF1, n=6),
    Case(small.Bag, C=3.0, weighted=True),
    Case(small.JointBalanced, ignore=9, n=6),
]  # the last three are functions of counts

#: Losses that are declared as functions of counts do not add up: no envelope.
WAYS = [(case, "count") for case in CASES] + [(case, "envelope") for case in CASES[:-3]]

each_case = pytest.mark.parametrize("case", CASES, ids=str)


def fitted(data, **options):
    case = data.case
    settings = {"C": case.C, "regularization": case.regularization, "random_state": 0, "n_threads": 1}
    settings |= {"risk": "slack", "tol": 1e-8, "max_passes": 500} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(case.model, **settings).fit(data.X, data.Y, data.weight)


@crossed(case=CASES, trainer=["n-slack", "one-slack", "bundle"])
def test_exact_trainers_reach_the_optimum(case, trainer):
    data = case.make(1)
    check_optimal(data, fitted(data, trainer=trainer), *data.optimum("slack"), risk="slack")


@each_case
def test_subgradient_brackets_the_optimum(case):
    data = case.make(1)
    best, _ = data.optimum("slack")
    svm = fitted(data, trainer="subgradient", tol=0.0, max_passes=30)
    slack = TINY * max(best, 1.0)
    assert svm.report_.dual - slack <= best <= svm.report_.primal + slack
    assert svm.report_.primal == pytest.approx(data.objective(data.flat(svm.weights_), "slack"), rel=1e-9, abs=1e-9)


def hide_counts(problem):
    problem.by_count = False
    return problem


@pytest.mark.parametrize(("case", "way"), WAYS, ids=str)
def test_the_oracle_finds_the_best_product(case, way):
    """At weights of all sizes, against every labelling; and the plane it gives is one of theirs."""
    data = case.make(3)
    problem = data.problem(risk="slack")
    if way == "count" and case.model in (Grainy, small.AllOrNothing):
        assert not problem.by_count
    if way == "envelope":
        hide_counts(problem)
    planes = planes_of(data, "slack")
    rng = np.random.default_rng(0)
    for size in (0.0, 0.1, 1.0, 10.0):
        for _ in range(4):
            w = np.maximum(size * rng.normal(size=problem.dim), problem.objective.lower)
            found = problem.oracle(w)
            best = np.array([np.max(losses - psi @ w) for losses, psi in planes])
            np.testing.assert_allclose(found.value, best, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(found.bound, found.value, rtol=1e-9, atol=1e-9)
            psi = problem.accumulate(found, np.ones(problem.n), np.zeros(problem.dim))
            assert found.loss.sum() - psi @ w == pytest.approx(best.sum(), rel=1e-9, abs=1e-9)


def test_the_envelope_is_sometimes_stuck_and_the_k_best_settle_it():
    """Without k-best answers some bounds stay above the value; they are true, and the others are exact."""
    data = Case(small.Word, n=30, ragged=(3, 4)).make(0)
    problem, exact = hide_counts(data.problem(risk="slack")), data.problem(risk="slack")
    asked = []
    solve = problem.session.solve

    def counted(question, known=None):
        asked.append(question.task)
        return solve(question, known)

    problem.session.solve = counted
    rng = np.random.default_rng(1)
    loose = 0
    for size in np.geomspace(0.2, 4.0, 15):
        w = size * rng.normal(size=problem.dim)
        best = exact.oracle(w).value
        np.testing.assert_allclose(problem.oracle(w).value, best, rtol=1e-9)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(problem.session), "tasks", property(lambda self: frozenset({Task.MAP})))
            found = problem.oracle(w)
        assert (found.value <= best + 1e-9).all()
        assert (found.bound >= best - 1e-9).all()
        loose += int((found.bound > found.value + 1e-6).sum())
    assert Task.KBEST in asked
    assert loose > 0


def test_certificates_of_a_stuck_search_are_true(monkeypatch):
    """A relaxation-like oracle: the gap does not close, and both ends are bounds."""
    from ssvm_dsl.inference.checked import CheckedSession

    monkeypatch.setattr(CheckedSession, "tasks", property(lambda self: frozenset({Task.MAP})))
    monkeypatch.setattr(CheckedSession, "abilities", property(lambda self: frozenset()))
    widest = 0.0
    for seed in range(2):
        data = Case(small.Word, n=8, ragged=(3, 4), C=20.0).make(seed)
        best, _ = data.optimum("slack")
        report = fitted(data, trainer="one-slack", max_passes=40).report_
        assert report.certified
        assert report.dual - TINY * best <= best <= report.dual + report.gap + TINY * best
        widest = max(widest, report.relative_gap)
    assert widest < 1.0


def test_bounding_backends_keep_certificates_true():
    with registered(Toys()):
        data = Case(small.Word, n=5).make(0)
        best, _ = data.optimum("slack")
        report = fitted(data, trainer="bundle", backend="toy-bounding", max_passes=40).report_
        assert report.certified
        assert report.dual - TINY <= best <= report.dual + report.gap + TINY


def test_what_cannot_be_certified_is_refused():
    data = Case(small.Word, n=3).make(0)
    with registered(Toys()), pytest.raises(NoBackendError, match="heuristic, asked for bound"):
        fitted(data, backend="toy-heuristic", trainer="bundle")
    with pytest.raises(TrainingError, match=r"n-slack, one-slack, bundle"):
        fitted(data, trainer="bcfw")


def test_units_of_losses():
    problem = Case(small.Ties).make(0).problem(risk="slack")  # weights 1, 2, 1/2 over T variables
    per_example = np.repeat(np.arange(problem.n), np.diff(problem.program.state_ptr[problem.program.var_ptr]))
    np.testing.assert_allclose(problem.counts * problem.unit[per_example], problem.loss.node, rtol=1e-12)
    thirds = replace(problem.loss, node=np.where(problem.loss.node > 0, 1.0, 0.0))
    thirds.node[np.flatnonzero(thirds.node)[0]] = 1.75  # the unit is a quarter
    counts, unit = loss_counts(thirds, problem.program)
    assert unit[0] == pytest.approx(0.25)
    np.testing.assert_allclose(counts * unit[per_example], thirds.node)
    grainy = Case(Grainy, n=20).make(0).problem(risk="slack")
    assert len(loss_counts(grainy.loss, grainy.program)[0]) == 0


@pytest.mark.parametrize("unit", [0.0, 1.0])
def test_envelopes_on_random_points(unit):
    """Any set of points: bounds are true at every moment, and an unstuck search ends at the maximum."""
    rng, stuck = np.random.default_rng(0), 0
    for _ in range(300):
        n = int(rng.integers(1, 12))
        a = rng.integers(0, 6, n).astype(float) if unit else rng.uniform(0, 5, n)
        h = 1.0 + rng.normal(size=n) * 2.0 - 0.3 * a
        a, h = np.append(a, 0.0), np.append(h, 1.0)
        best = float((a * h).max())
        known = Envelope(np.zeros(1, np.int32), max(float(a.max()), 1e-3 if not unit else 1.0), unit)
        while (slope := known.question()) is not None:
            k = int(np.argmax(h + slope * a))
            known.tell(slope, float(h[k] + slope * a[k]))
            known.found(float(a[k]), float(h[k]), np.array([k], np.int32))
            assert known.value - 1e-9 <= best <= known.bound() + 1e-9
        if known.settled(known.bound()):
            assert known.value == pytest.approx(best, abs=1e-8)
        else:
            stuck += 1
    assert 0 < stuck < 150


def test_an_answer_of_the_wrong_counts_is_caught():
    problem = Case(small.Word, n=3, ragged=(2, 3)).make(0).problem(risk="slack")
    inner = problem.session.inner
    right = inner.best_by_count

    def other(question, tables):
        found = right(question, tables)
        return replace(found, labels=problem.truth.copy())

    inner.best_by_count = other
    with pytest.raises(SsvmError, match=r"it reports score 2.0 for a labelling whose score is 0.0"):
        problem.oracle(np.zeros(problem.dim))
    assert problem.session.guarantee is Guarantee.EXACT
