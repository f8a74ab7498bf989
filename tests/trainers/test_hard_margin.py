"""Hard margins (``C = inf``): against scikit-learn, programs of all labellings, and proofs that nothing separates."""

from __future__ import annotations

from itertools import islice, product

import clarabel
import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from model_table import tagger
from ssvm_dsl import (
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Matching,
    Model,
    StructuredSVM,
    chain,
)
from ssvm_dsl.errors import InseparableError, OptionError, TrainingError
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.plugin_api import StopRule
from ssvm_dsl.testing import training_problem
from ssvm_trainers.cutting.n_slack import NSlack


class Binary(Model):
    """A linear classifier of two classes: the score of the second one."""

    x, y = Input(4), Label(2)
    f = Factor(y.is_(1), features=x)
    loss = Hamming(y)


#: A chain.
Word = tagger(6, 3)


class Bounded(Word):
    """Transitions are at least 0."""

    trans = Factor(chain(Word.y), nonneg=True)


class Align(Model):
    """A matching."""

    I, J = Dim(), Dim()
    x, y = Input(I, J, 6), Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y)


def chains(model, n=8, seed=0):
    """Data that some weights separate."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(int(t), 6)) for t in rng.integers(1, 5, n)]
    weights = {"emit": rng.normal(size=(3, 6)), "trans": np.abs(rng.normal(size=(3, 3)))}
    return X, StructuredSVM.from_weights(model, weights).predict(X)


def matchings(n=5):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(int(i), int(j), 6)) for i, j in rng.integers(1, 4, (n, 2))]
    return X, StructuredSVM.from_weights(Align, {"sim": rng.normal(size=6)}).predict(X)


def features(model, x, y):
    """The joint features, by hand."""
    if model is Align:
        return np.einsum("ij,ijf->f", y, x)
    emit, trans = np.zeros((3, 6)), np.zeros((3, 3))
    np.add.at(emit, y, x)
    np.add.at(trans, (y[:-1], y[1:]), 1.0)
    return np.concatenate([emit.ravel(), trans.ravel()])


def labellings(model, x):
    if model is not Align:
        return [np.array(z) for z in product(range(3), repeat=len(x))]
    every = (np.array(z).reshape(x.shape[:2]) for z in product(range(2), repeat=x[..., 0].size))
    return [z for z in every if z.sum(axis=0).max() <= 1 and z.sum(axis=1).max() <= 1]


def by_enumeration(model, X, Y, slack=False):
    """The least half of |w|^2 with all margins, by Clarabel, and w."""
    rows, least = [], []
    for x, y in zip(X, Y, strict=True):
        for z in labellings(model, x):
            if wrong := float((z != y).sum()):
                rows.append(features(model, x, y) - features(model, x, z))
                least.append(1.0 if slack else wrong)
    dim = len(rows[0])
    if model is Bounded:
        rows += list(np.eye(dim)[18:])
        least += [0.0] * 9
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    matrix = sparse.csc_array(-np.array(rows))
    cone = [clarabel.NonnegativeConeT(len(rows))]
    eye = sparse.eye_array(dim, format="csc")
    found = clarabel.DefaultSolver(eye, np.zeros(dim), matrix, -np.array(least), cone, settings).solve()
    assert str(found.status) == "Solved"
    return float(found.obj_val), np.array(found.x)


DATA = [(Word, 0), (Word, 1), (Bounded, 2), (Bounded, 3), (Align, 0)]


def data_of(model, seed):
    return matchings() if model is Align else chains(model, seed=seed)


@pytest.mark.parametrize(
    ("model", "seed", "risk"), [*((*one, "margin") for one in DATA), (Word, 0, "slack"), (Word, 1, "slack")]
)
def test_the_optimum_over_all_labellings(model, seed, risk):
    X, Y = data_of(model, seed)
    best, w = by_enumeration(model, X, Y, slack=risk == "slack")
    svm = StructuredSVM(model, C=np.inf, risk=risk, tol=1e-7, max_passes=500).fit(X, Y)
    report = svm.report_
    assert report.converged
    assert report.certified
    assert report.trainer == "n-slack"
    assert report.convention == "1/2 |w|^2 where all risks are 0 (hard margins, C = inf)"
    assert report.dual <= best * (1 + 1e-7)
    assert report.primal == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(svm.coef_, w, atol=1e-3 * np.abs(w).max())
    assert svm.score(X, Y) == 1.0
    assert np.isnan(svm.certified_gap(1.0))  # nothing is known of finite C


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_are_those_of_scikit_learn(seed):
    """A support vector machine without an intercept: 1/2 |w|^2 with margins of 1."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(60, 3)), np.ones((60, 1))], axis=1)
    side = X @ [1.0, 2.0, -1.0, 0.3]
    X, y = X[np.abs(side) > 0.3], (side[np.abs(side) > 0.3] > 0).astype(int)
    ours = StructuredSVM(Binary, C=np.inf, tol=1e-9).fit(list(X), list(y)).coef_
    # the dual of SVC has an equation for the intercept, which mirrored points make 0
    theirs = SVC(C=1e10, kernel="linear", tol=1e-8).fit(np.concatenate([X, -X]), np.concatenate([y, 1 - y]))
    assert abs(theirs.intercept_[0]) < 1e-6
    np.testing.assert_allclose(ours, theirs.coef_[0], atol=1e-4 * np.abs(ours).max())


def test_a_large_c_comes_close():
    X, Y = chains(Word)
    hard = StructuredSVM(Word, C=np.inf, tol=1e-7).fit(X, Y).report_
    soft = StructuredSVM(Word, C=1e4, trainer="one-slack", tol=1e-7, max_passes=3000).fit(X, Y).report_
    assert soft.primal == pytest.approx(hard.primal, rel=1e-6)


def test_a_proof_that_nothing_separates():
    X, Y = chains(Word)
    X, Y = [*X, X[0]], [*Y, (Y[0] + 1) % 3]  # the same input with other labels
    with pytest.raises(InseparableError, match="no weights give every truth its margin") as caught:
        StructuredSVM(Word, C=np.inf).fit(X, Y)
    assert f"example {len(X) - 1}, labelled" in str(caught.value)
    assert "use a finite C" in str(caught.value)
    check_proof(Word, caught.value.proof, X, Y)


def check_proof(model, proof, X, Y):
    """Shares add up to 1, features to nothing that weights could use, and losses to more than 0."""
    total, losses = 0.0, 0.0
    for example, states, loss, share in proof:
        z = np.array(states).reshape(np.shape(Y[example]))
        assert loss == (z != Y[example]).sum()
        total = total + share * (features(model, X[example], Y[example]) - features(model, X[example], z))
        losses += share * loss
    assert sum(share for *_, share in proof) == pytest.approx(1.0)
    if model is Bounded:  # weights of at least 0 gain nothing from sums below 0
        total[18:] = np.maximum(total[18:], 0.0)
    np.testing.assert_allclose(total, 0.0, atol=1e-9)
    assert losses > 0.01


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("model", [Word, Bounded])
def test_random_labels_are_separated_or_proved_not_to_be(model, seed):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 6)) for _ in range(3 + 2 * seed)]
    Y = [rng.integers(3, size=3) for _ in X]
    try:
        report = StructuredSVM(model, C=np.inf, tol=1e-6, max_passes=1000).fit(X, Y).report_
    except InseparableError as err:
        check_proof(model, err.proof, X, Y)
    else:
        assert report.primal == pytest.approx(by_enumeration(model, X, Y)[0], rel=1e-5)


def test_only_bounds_of_weights_stand_in_the_way():
    class Climbing(Model):
        x, y = Input(1), Label(2)
        f = Factor(y.is_(1), features=x, nonneg=True)
        loss = Hamming(y)

    with pytest.raises(InseparableError, match="or less where weights have a lower bound") as caught:
        StructuredSVM(Climbing, C=np.inf).fit([[1.0], [-2.0]], [0, 0])
    assert 0 in [example for example, *_ in caught.value.proof]


def test_examples_without_weight_ask_for_nothing():
    X, Y = chains(Word)
    alone = StructuredSVM(Word, C=np.inf, tol=1e-7).fit(X, Y).report_.primal
    X, Y = [*X, X[0]], [*Y, (Y[0] + 1) % 3]
    weight = np.append(np.full(len(X) - 1, 3.0), 0.0)
    report = StructuredSVM(Word, C=np.inf, tol=1e-7).fit(X, Y, sample_weight=weight).report_
    assert report.primal == pytest.approx(alone)


def test_one_pass_is_not_enough_and_says_so():
    X, Y = chains(Word, n=20)
    with pytest.warns(Warning, match="stopped at"):
        svm = StructuredSVM(Word, C=np.inf, max_passes=2).fit(X, Y)
    assert svm.report_.primal == np.inf
    assert not svm.report_.converged


def test_unit_losses_are_the_scale_of_nothing():
    """Losses of 1e-6 and features of 1e4 change the numbers, not the solution."""

    class Tiny(Word):
        loss = Hamming(Word.y, weights=[1e-6] * 3)

    X, Y = chains(Word)
    whole = StructuredSVM(Word, C=np.inf, tol=1e-7).fit(X, Y).coef_
    tiny = StructuredSVM(Tiny, C=np.inf, tol=1e-7).fit(X, Y).coef_
    np.testing.assert_allclose(1e6 * tiny, whole, rtol=1e-3, atol=1e-3)


def test_other_trainers_say_who_can():
    X, Y = chains(Word)
    for trainer in ("bcfw", "bundle", "one-slack", "subgradient"):
        with pytest.raises(TrainingError, match=r"finds no hard margins .* these do: n-slack; .*C=1e4"):
            StructuredSVM(Word, C=np.inf, trainer=trainer).fit(X, Y)
    with pytest.raises(OptionError, match=r"hard margins .*take no L1 penalty"):
        StructuredSVM(Word, C=np.inf, l1=0.1).fit(X, Y)
    with pytest.raises(TrainingError, match="risk 'log'"):
        StructuredSVM(Word, C=np.inf, risk="log").fit(X, Y)
    with pytest.raises(OptionError, match="lam must be a positive number"):
        StructuredSVM(Word, lam=np.inf).fit(X, Y)


def test_runs_resume():
    X, Y = chains(Word, n=12)
    problem = training_problem(Word, X, Y, trainer="n-slack", lam=1.0 / len(X))
    soft = problem.objective
    problem.objective = RegularizedRisk(
        soft.lam, soft.n, soft.weight, soft.scale, soft.lower, hard=True, negligible=1e-9
    )
    whole = [one.w.copy() for one in islice(NSlack().steps(problem, StopRule()), 6)]
    first = NSlack()
    for _ in islice(first.steps(problem, StopRule()), 3):
        pass
    again = [one.w.copy() for one in islice(NSlack().resume(problem, StopRule(), first.state()), 3)]
    np.testing.assert_allclose(again, whole[3:], rtol=1e-12)
