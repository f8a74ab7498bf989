"""The perceptron with linear programs for predictions (Kulesza and Pereira 2007): updates, and what separability is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete
from ssvm_dsl.ir import labelling_marginals
from ssvm_dsl.plugin_api import StopRule
from ssvm_dsl.testing import training_problem
from ssvm_trainers.online.perceptron import Perceptron

#: Pairs that differ, and not.
DIFFER = (1.0 - np.eye(2))[None]


class Differ(Model):
    """One weight for a feature of each label that is 1, and one for each pair of labels that differ."""

    K = Dim()
    x = Input(K, 1)
    y = Label(K, 2)
    one = Factor(y.is_(1), features=x)
    pair = Factor(complete(y), form=DIFFER)
    loss = Hamming(y)


def column(*values):
    return np.array(values, float)[:, None]


#: Weights (1, 1) make 1100 the best labelling: 6, where 1110 has 5.8 and 1111 3.6.  But half of each state has 7.8: it
#: is worse than the truth only if a pair that differs is worth at most a tenth of the feature, and then 1111 is best.
LOOSE = [column(1.0, 1.0, 0.8, 0.8)], [[1, 1, 0, 0]]

#: Weights (1, 0.01) make the truth the best point of the relaxation.
TIGHT = [column(1.0, -1.0, 2.0), column(-0.5, -1.0, 0.7, 0.3)], [[1, 0, 1], [0, 0, 1, 1]]


#: The perceptron of Kulesza and Pereira.
RELAXED = {"trainer": "perceptron", "risk": "relaxed", "backend": "lp"}


def fit(data, max_passes=200, *, against="prediction", options=(), **given):
    settings = RELAXED | {"trainer_options": {"against": against, "averaging": False, **dict(options)}} | given
    return StructuredSVM(Differ, max_passes=max_passes, random_state=0, **settings).fit(*data)


def test_algorithmically_separable_data_are_learnt_without_an_error():
    svm = fit(TIGHT)
    assert svm.report_.reason == "ended"
    assert svm.report_.history[-1].extra["updates"] == 0.0
    assert svm.report_.tightness == 1.0
    assert [list(y) for y in svm.predict(TIGHT[0])] == TIGHT[1]


def test_separable_data_need_not_be_algorithmically_separable():
    exact = fit(LOOSE, backend="brute-force", risk="perceptron")
    assert exact.report_.reason == "ended"
    assert [list(y) for y in exact.predict(LOOSE[0])] == LOOSE[1]
    relaxed = fit(LOOSE)
    assert relaxed.report_.reason == "passes"
    assert all(event.extra["updates"] == 1.0 for event in relaxed.report_.history)


@pytest.mark.parametrize("order", ["incremental", "batch"])
@pytest.mark.parametrize("backend", ["lp", "ad3"])
def test_updates_are_those_of_the_definition(order, backend):
    """w + Phi(truth) - Phi(mu) with mu the best point, fractional or not; all by enumeration of vertices."""
    problem = training_problem(Differ, *LOOSE, risk="relaxed", backend=backend)
    trainer = Perceptron(order=order, against="prediction", averaging=False)
    found = [one.w.copy() for one in itertools.islice(trainer.steps(problem, StopRule()), 6)]
    x, truth, w = LOOSE[0][0][:, 0], np.array(LOOSE[1][0]), np.zeros(2)
    pairs = list(itertools.combinations(range(4), 2))

    def features(p, differ):
        return np.array([p @ x, differ])

    of_truth = features(truth, sum(truth[a] != truth[b] for a, b in pairs))
    for mine in found:
        # the vertices of the local polytope of binary pairs are half-integral, and tables follow from their variables
        vertices = []
        for p in itertools.product([0.0, 0.5, 1.0], repeat=4):
            least = [abs(p[a] - p[b]) for a, b in pairs]
            most = [min(p[a] + p[b], 2.0 - p[a] - p[b]) for a, b in pairs]
            vertices += [features(np.array(p), sum(least)), features(np.array(p), sum(most))]
        best = max(w @ one for one in vertices)
        point = of_truth - (mine - w)  # Phi of the point that the update moved away from
        assert w @ point == pytest.approx(best, abs=1e-6 if backend == "lp" else 1e-3)
        w = mine


@pytest.mark.parametrize("update", ["perceptron", "pa", "pa-i", "pa-ii", "arow"])
@pytest.mark.parametrize("against", ["max-loss", "prediction"])
def test_every_update_takes_fractional_points(update, against):
    svm = fit(TIGHT, 30, against=against, options={"update": update})
    assert [list(y) for y in svm.predict(TIGHT[0])] == TIGHT[1]


def test_predictions_that_are_labellings_are_exactly_these():
    problem = training_problem(Differ, *TIGHT, risk="relaxed", backend="lp")
    planes = problem.predicted(np.array([1.0, 0.01]))
    flat = np.concatenate([planes.marginals.node, *(table.ravel() for table in planes.marginals.tables)])
    np.testing.assert_array_equal(flat, labelling_marginals(problem.program, problem.loss.truth))
    np.testing.assert_array_equal(planes.value, 0.0)
    assert not problem.accumulate(planes, np.ones(2), np.zeros(2)).any()


def test_a_stream_is_learnt():
    svm = StructuredSVM(Differ, **RELAXED, trainer_options={"against": "prediction"}, random_state=0)
    for _ in range(30):
        svm.partial_fit(*TIGHT)
    assert [list(y) for y in svm.predict(TIGHT[0])] == TIGHT[1]
