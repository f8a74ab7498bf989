"""Training under hard constraints: one optimum whoever answers, and objectives that enumeration agrees with."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from ssvm_dsl import (
    AtLeast,
    AtMost,
    CountLoss,
    Dim,
    Factor,
    Hamming,
    Implies,
    Input,
    Label,
    Latent,
    Linear,
    Model,
    Not,
    StructuredSVM,
    chain,
    complete,
    cross,
)
from ssvm_dsl.errors import DataError, NoBackendError, TrainingError

RNG = np.random.default_rng(0)


class Seq(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, "ab")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    few = AtMost(2, y.is_("b"))
    loss = Hamming(y)


class Tags(Model):
    K = Dim(4)
    x = Input(2)
    cost = Input(K)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    budget = Linear({y.is_(1): cost}, "<=", 2.0)
    loss = Hamming(y)


def sequences(n=10):
    X = [RNG.normal(size=(int(t), 3)) for t in RNG.integers(2, 6, n)]
    Y = []
    for x in X:
        y = np.full(len(x), "a")
        noisy = x[:, 0] + 0.5 * RNG.normal(size=len(x))
        y[[i for i in np.argsort(-noisy)[:2] if noisy[i] > 0]] = "b"
        Y.append(y)
    return X, Y


def tagged(n=10):
    X, Y = [], []
    for _ in range(n):
        x, cost = RNG.normal(size=2), RNG.choice([0.5, 1.0, 1.5], 4)
        y = (RNG.random(4) < 0.5).astype(int)
        while cost @ y > 2.0:
            y[RNG.integers(4)] = 0
        X.append({"x": x, "cost": cost})
        Y.append(y)
    return X, Y


SEQUENCES, TAGGED = sequences(), tagged()


def fit(model, data, backend, trainer="bcfw", **options):
    svm = StructuredSVM(model, C=1.0, trainer=trainer, backend=backend, tol=1e-4, max_passes=100, **options)
    return svm.fit(*data)


@cache
def fitted(model, backend, trainer="bcfw"):
    """A fit on the data of a model, for all tests that only look at it."""
    return fit(model, {Seq: SEQUENCES, Tags: TAGGED, Twice: LONG}[model], backend, trainer)


def objective(svm, labellings, score, data):
    """The primal objective by enumeration: hinge losses over feasible labellings."""
    total = 0.5 * float(svm.coef_ @ svm.coef_)
    for x, y in zip(*data, strict=True):
        scores = {tuple(z): score(x, z) + np.mean(np.asarray(z) != np.asarray(y)) * len(y) for z in labellings(x)}
        total += max(scores.values()) - score(x, y)
    return total


def few(x):
    return [np.array(z) for z in itertools.product("ab", repeat=len(x)) if z.count("b") <= 2]


@pytest.mark.parametrize("backend", ["auto", "tree", "ilp", "brute-force"])
def test_sequences_have_one_optimum_whoever_answers(backend):
    svm = fitted(Seq, backend)
    assert svm.plan_.backend == ("chain" if backend == "auto" else backend)
    assert svm.report_.certified
    emit, trans = svm.weights_[Seq.emit], svm.weights_[Seq.trans]

    def score(x, z):
        s = [int(c == "b") for c in z]
        return sum(emit[k] @ row for k, row in zip(s, x, strict=True)) + sum(trans[k] for k in itertools.pairwise(s))

    value = objective(svm, few, score, SEQUENCES)
    assert svm.report_.primal == pytest.approx(value, rel=1e-6)
    assert svm.report_.dual <= value * (1 + 1e-6)
    reference = fitted(Seq, "brute-force", "n-slack")
    assert value == pytest.approx(reference.report_.primal, rel=1e-3)
    assert all(list(y).count("b") <= 2 for y in svm.predict(SEQUENCES[0]))


@pytest.mark.parametrize("trainer", ["n-slack", "one-slack", "bundle"])
def test_cutting_planes_reach_it_as_well(trainer):
    reference = fitted(Tags, "brute-force").report_.primal
    svm = fit(Tags, TAGGED, "ilp", trainer)
    assert svm.report_.primal == pytest.approx(reference, rel=1e-3)
    assert all(x["cost"] @ y <= 2.0 for x, y in zip(TAGGED[0], svm.predict(TAGGED[0]), strict=True))


def test_constraints_only_take_labellings_away():
    class Free(Tags):
        budget = None

    free, bound = fit(Free, TAGGED, "auto"), fitted(Tags, "ilp")
    assert bound.report_.primal <= free.report_.dual * (1 + 1e-3)


@pytest.mark.parametrize(("risk", "trainer"), [("log", "lbfgs"), ("margin", "eg"), ("slack", "n-slack")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_risks_by_enumeration(risk, trainer):
    svm = fit(Seq, SEQUENCES, "auto" if risk == "slack" else "brute-force", trainer, risk=risk)
    assert np.isfinite(svm.report_.primal)
    assert svm.report_.dual <= svm.report_.primal
    if risk == "log":
        probabilities = svm.predict_marginals(SEQUENCES[0])
        assert all(p[:, 1].sum() <= 2.0 + 1e-9 for p in probabilities)


def test_the_relaxed_risk_bounds_the_margin_risk():
    relaxed = fit(Tags, TAGGED, "lp", "n-slack", risk="relaxed")
    assert relaxed.report_.primal >= fitted(Tags, "ilp").report_.dual * (1 - 1e-6)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"trainer": "smo"}, TrainingError, "needs a model without hard constraints; others for this risk: bcfw"),
        ({"trainer": "extragradient", "risk": "relaxed"}, TrainingError, "does not know the marginals that hard"),
        (
            {"trainer": "dlpw", "risk": "relaxed", "backend": "msd"}, NoBackendError,
            "not expose dual messages under hard constraints",
        ),
        ({"trainer": "bcfw", "backend": "assignment"}, NoBackendError, "does not handle constraints count"),
    ],
)
def test_what_constraints_do_not_reach_is_refused_by_name(options, error, text):
    with pytest.raises(error, match=text):
        StructuredSVM(Seq, **options).fit(*SEQUENCES)


def test_a_loss_of_counts_is_left_to_brute_force():
    class Counted(Seq):
        loss = CountLoss(Seq.y, "f1", positive="b")

    with pytest.raises(NoBackendError, match="does not find best labellings by counts under hard constraints"):
        StructuredSVM(Counted, backend="chain").fit(*SEQUENCES)
    assert fit(Counted, SEQUENCES, "auto").plan_.backend == "brute-force"


def test_models_are_saved_with_their_constraints(tmp_path):
    svm = fitted(Tags, "ilp")
    svm.save(tmp_path / "tags.npz")
    again = StructuredSVM.load(tmp_path / "tags.npz")
    assert "budget" in str(again.model)
    assert all((a == b).all() for a, b in zip(svm.predict(TAGGED[0]), again.predict(TAGGED[0]), strict=True))


class Hidden(Model):
    T = Dim()
    x = Input(T, 3)
    h = Latent(T, 3)
    y = Label(2)
    emit = Factor(h, features=x)
    joint = Factor(cross(h, y))
    some = AtLeast(1, h.is_(2))
    few = AtMost(1, h.is_(1))
    never = Implies(y.is_(1), Not(h.is_(1)))
    loss = Hamming(y)


@pytest.mark.parametrize("init", ["k-means", "random"])
def test_latent_variables_keep_constraints(init):
    X = SEQUENCES[0][4:]
    Y = [int((y == "b").any()) for y in SEQUENCES[1][4:]]
    svm = StructuredSVM(Hidden, backend="ilp", max_passes=8, tol=1e-2, latent_options={"init": init, "rounds": 2})
    svm.fit(X, Y)
    assert (np.diff(svm.report_.latent_objectives) <= 1e-9).all()
    for hidden, y in zip(svm.latents(X, Y), Y, strict=True):
        found = list(hidden["h"] if isinstance(hidden, dict) else hidden)
        assert found.count(2) >= 1
        assert found.count(1) <= (0 if y else 1)


def test_labels_that_no_latent_states_complete_are_refused():
    class Torn(Hidden):
        torn = Implies(Hidden.y.is_(1), Hidden.h.is_(0))  # and one of them is 2

    with pytest.raises(DataError, match="Y, example 1: expected known labels that some others complete"):
        StructuredSVM(Torn, backend="ilp").fit(SEQUENCES[0][:2], [0, 1])


class Twice(Seq):
    some = AtLeast(1, Seq.y.is_("b"))


def long_sequences():
    """Of nine to eleven positions, one or two of them b."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(int(t), 3)) for t in rng.integers(9, 12, 6)]
    best = [np.argsort(-x[:, 0])[: 1 + k % 2] for k, x in enumerate(X)]
    return X, [np.where(np.isin(np.arange(len(x)), mine), "b", "a") for x, mine in zip(X, best, strict=True)]


LONG = long_sequences()


@pytest.mark.parametrize("backend", ["auto", "combi"])
def test_two_counts_on_a_chain_train_behind_a_bridge(backend, tmp_path):
    svm = fit(Twice, LONG, backend)
    if backend == "auto":  # both bridges fit so few variables; which is quicker, the costs say
        assert svm.plan_.backend == "junction-tree"
        assert svm.plan_.bridges in {("counts-to-states",), ("logic-to-tables",)}
    else:
        assert svm.plan_.title == f"{backend} through counts-to-states"
    assert svm.report_.certified
    assert svm.report_.primal == pytest.approx(fitted(Twice, "ilp").report_.primal, rel=1e-3)
    assert all(1 <= list(y).count("b") <= 2 for y in svm.predict(LONG[0]))
    svm.save(tmp_path / "twice.npz")
    assert StructuredSVM.load(tmp_path / "twice.npz").plan_.title == svm.plan_.title


def test_chains_and_trees_learn_the_log_loss_under_a_count():
    fits = [
        StructuredSVM(Seq, C=1.0, risk="log", trainer="lbfgs", backend=name, tol=1e-6).fit(*SEQUENCES)
        for name in ("auto", "tree", "junction-tree")
    ]
    assert [svm.plan_.title for svm in fits[:2]] == ["chain", "tree"]
    assert fits[2].plan_.bridges
    for svm in fits[:2]:
        assert svm.report_.primal == pytest.approx(fits[2].report_.primal, rel=1e-9)
        np.testing.assert_allclose(svm.coef_, fits[2].coef_, atol=1e-3)


def test_log_loss_under_counts():
    """Objective and gradient by enumeration at the weights found: the gradient is zero there."""
    X, Y = LONG
    svm = StructuredSVM(Twice, C=1.0, risk="log", trainer="lbfgs", backend="junction-tree", tol=1e-6).fit(X, Y)
    assert svm.plan_.bridges in {("counts-to-states",), ("logic-to-tables",)}

    def value(w):
        emit, trans = w[:6].reshape(2, 3), w[6:].reshape(2, 2)
        total = 0.5 * w @ w
        for x, y in zip(X, Y, strict=True):

            def score(s, x=x):
                return sum(emit[k] @ row for k, row in zip(s, x, strict=True)) + sum(
                    trans[k] for k in itertools.pairwise(s)
                )

            every = [score(s) for s in itertools.product((0, 1), repeat=len(x)) if 1 <= sum(s) <= 2]
            total += np.logaddexp.reduce(every) - score([int(c == "b") for c in y])
        return total

    w = np.concatenate([svm.weights_[Seq.emit].ravel(), svm.weights_[Seq.trans].ravel()])
    assert svm.report_.primal == pytest.approx(value(w), rel=1e-9)
    slope = [(value(w + 1e-5 * e) - value(w - 1e-5 * e)) / 2e-5 for e in np.eye(len(w))]
    assert np.abs(slope).max() < 1e-2
    marginals = svm.predict_marginals(X)
    assert all(1 - 1e-9 <= p[:, 1].sum() <= 2 + 1e-9 for p in marginals)


def test_streams_keep_constraints():
    svm = StructuredSVM(Seq, trainer="subgradient", random_state=0)
    for lo in (0, 5):
        svm.partial_fit(SEQUENCES[0][lo : lo + 5], SEQUENCES[1][lo : lo + 5])
    assert all(list(y).count("b") <= 2 for y in svm.predict(SEQUENCES[0]))


@pytest.mark.data
def test_yeast_with_a_budget(data_dir, monkeypatch):
    """How many of 14 labels a gene has is known: a budget of that many makes fewer of them wrong."""
    from ssvm_dsl.datasets import load_yeast

    monkeypatch.setenv("SSVM_DATA", str(data_dir))

    class Free(Model):
        K = Dim(14)
        x = Input(103)
        k = Input(1)
        y = Label(K, 2)
        unary = Factor(y, features=x, per=K)
        bias = Factor(y, per=K)
        loss = Hamming(y)

    class Budget(Free):
        most = AtMost(Free.k, Free.y.is_(1))

    data = load_yeast()
    sets = [(data.X_train, data.Y_train), (data.X_test, data.Y_test)]
    (X, Y), (X_test, Y_test) = (([{"x": x, "k": [y.sum()]} for x, y in zip(A, B, strict=True)], B) for A, B in sets)
    wrong = {}
    for model in (Free, Budget):
        svm = StructuredSVM(model, C=0.05, tol=0.02, random_state=0).fit(X, Y)
        wrong[model.__name__] = np.array(svm.predict(X_test)) != np.array(Y_test)
        assert svm.plan_.backend == ("chain" if model is Free else "cardinality")
    free, budget = wrong["Free"], wrong["Budget"]
    print(f"Hamming loss on Yeast: {free.mean():.4f}, with a budget {budget.mean():.4f}")
    assert budget.mean() < free.mean()
    assert budget.any(axis=1).mean() < free.any(axis=1).mean() - 0.1
