"""``CountLoss``: its oracle against every labelling, training end to end, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import small
from small import Case, Data
from ssvm_dsl import (
    CountLoss,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    ModelBuilder,
    StructuredSVM,
    along,
    chain,
    cross,
)
from ssvm_dsl.datasets.published import load_scene
from ssvm_dsl.errors import DataError, NoBackendError, OptionError, TooLargeError, TrainingError
from ssvm_dsl.learning.risks.hinges import margin as learning_problem
from ssvm_dsl.plugin_api import TrainerSpec
from ssvm_dsl.registry import registry

F1 = Case(small.WordF1, n=6)


def fitted(data: Data, **options) -> StructuredSVM:
    settings = {"C": data.case.C, "random_state": 0, "n_threads": 1, "tol": 1e-6, "max_passes": 500, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(data.case.model, **settings).fit(data.X, data.Y, data.weight)


# -- the oracle ----------------------------------------------------------------------------------------------


@st.composite
def cases(draw) -> Case:
    """A chain, tree, bag or two layers of 2 or 3 states, a measure, positive classes, other terms."""
    shape = draw(st.sampled_from(["chain", "tree", "bag", "layers"]))
    n_states = draw(st.integers(2, 3))
    m = ModelBuilder("Counted")
    T = m.dim("N" if shape == "tree" else "T")
    x, y = m.input("x", T, 1), m.label("y", T, n_states)
    m.factor("emit", y, features=x)
    if shape == "chain":
        m.factor("trans", chain(y))
    if shape == "layers":
        z = m.label("z", T, 2)
        m.factor("both", cross(y, z), features=x)
    few = draw(st.lists(st.integers(0, n_states - 1), min_size=1, max_size=2, unique=True))
    measure = draw(st.sampled_from(["f1", "iou", "f_beta", small.share_found]))
    beta = draw(st.sampled_from([0.3, 2.0])) if measure == "f_beta" else None
    loss = draw(st.sampled_from([1.0, 0.4, 3.0])) * CountLoss(y, measure, positive=few, beta=beta, ignore=9)
    if draw(st.booleans()):
        loss = loss + 0.2 * Hamming(y, normalize=True)
    if shape == "tree":
        M = m.dim("M")
        m.factor("edge", along(y, m.add("e", Edges(M, over=T))), features=m.input("f", M, 2))
    m.loss(loss)
    ragged = (1, 3, 5) if shape != "layers" else (1, 3)
    return Case(m.build(), n=3, ragged=ragged, ignore=9 if draw(st.booleans()) and shape == "chain" else None)


def has_edges(case: Case) -> bool:
    return any(isinstance(one, Edges) for one in case.model.declaration.inputs)


def make(case: Case, seed: int) -> Data:
    """Data of a case; the catalogue makes edges of trees for the class ``small.Tree`` only."""
    if has_edges(case):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(small, "Tree", case.model)
            return case.make(seed)
    return case.make(seed)


@settings(max_examples=60)
@given(cases(), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 1.0, 5.0]), st.booleans())
def test_the_oracle_finds_the_best_labelling(case, seed, size, ties):
    """Weights of all sizes; whole numbers make ties of scores."""
    data = make(case, seed)
    backend = "tree" if has_edges(case) or seed % 2 else "chain"
    problem, rng = data.problem(backend=backend), np.random.default_rng(seed)
    w = size * rng.normal(size=problem.dim)
    w = np.round(w) if ties else w
    found = problem.oracle(w)
    best = np.array([np.max(losses - psi @ w) for losses, psi in data.planes])
    np.testing.assert_allclose(found.value, best, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.bound, found.value, rtol=1e-9, atol=1e-9)
    psi = problem.accumulate(found, np.ones(problem.n), np.zeros(problem.dim))
    assert found.loss.sum() - psi @ w == pytest.approx(best.sum(), rel=1e-9, abs=1e-9)


def test_backends_and_threads_agree():
    data = Case(small.TreeIoU, ragged=(3, 5), n=12).make(3)
    w = np.random.default_rng(0).normal(size=data.grounded.parameters.dim)
    tree, brute = (data.problem(backend=name) for name in ("tree", "brute-force"))
    np.testing.assert_allclose(tree.oracle(w).value, brute.oracle(w).value, rtol=1e-9)
    some = np.array([7, 2, 11])
    alone = [tree.oracle(w, some[k : k + 1]).labels for k in range(3)]
    np.testing.assert_array_equal(tree.oracle(w, some).labels, np.concatenate(alone))
    one, two = (fitted(data, n_threads=n, trainer="n-slack").coef_ for n in (1, 2))
    np.testing.assert_array_equal(one, two)


# -- training ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trainer", [spec.name for spec in registry().specs(TrainerSpec)])
def test_every_trainer_takes_it_or_refuses(trainer):
    """What is reported is the objective; trainers on distributions need losses that add up."""
    data = F1.make(1)
    best, _ = data.optimum()
    if trainer not in ("bcfw", "n-slack", "one-slack", "bundle", "subgradient", "perceptron", "adam"):
        reasons = "adds up over variables, not CountLoss|does not minimise risk 'margin'"
        with pytest.raises((OptionError, TrainingError), match=reasons):
            fitted(data, trainer=trainer)
        return
    svm = fitted(data, trainer=trainer, tol=0.0, max_passes=12)
    assert svm.report_.primal == pytest.approx(data.objective(data.flat(svm.weights_)), rel=1e-9)
    assert svm.report_.dual - 1e-9 <= best <= svm.report_.primal + 1e-9


def test_the_score_is_the_mean_of_the_examples():
    data = Case(small.WordF1, n=30).make(0)
    svm = fitted(data, tol=1e-3)
    states = [{"y": np.array(["abc".index(c) for c in labels])} for labels in svm.predict(data.X)]
    loss = small.WordF1.declaration.loss
    f1 = [1 - naive.naive_loss(loss, truth, guess) for truth, guess in zip(data.labels, states)]
    assert svm.score(data.X, data.Y) == pytest.approx(np.mean(f1))


def test_a_checkpoint_of_another_loss_is_refused(tmp_path):
    class Other(small.Word):
        loss = CountLoss(small.Word.y, "iou", positive="b")

    data, kept = F1.make(0), {"tol": 1e-9, "max_passes": 5, "checkpoint": str(tmp_path / "fit")}
    fitted(data, **kept)
    with pytest.raises(match="another fit"):
        StructuredSVM(Other, C=F1.C, random_state=0, n_threads=1, **kept).fit(data.X, data.Y)


def test_a_saved_model_keeps_its_loss(tmp_path):
    data = Case(small.JointBalanced, ignore=9, n=6).make(0)
    svm = fitted(data)
    svm.save(tmp_path / "model")
    with pytest.raises(OptionError, match="trusted"):
        StructuredSVM.load(tmp_path / "model")
    again = StructuredSVM.load(tmp_path / "model", trusted=["small"])
    assert again.score(data.X, data.Y) == svm.score(data.X, data.Y)


@pytest.mark.data
def test_training_for_f1_finds_more_labels_of_scenes(data_dir):
    """Mean F1 of test pictures, C chosen on a third of the training pictures: 0.70, by Hamming loss 0.59."""

    class Scene(Model):
        K, x = Dim(6), Input(294)
        y = Label(K, 2)
        unary = Factor(y, features=x, per=K)
        bias = Factor(y, per=K)
        loss = CountLoss(y, "f1")

    class Plain(Scene):
        loss = Hamming(Scene.y)

    data = load_scene()
    fits = {model: StructuredSVM(model, C=C, tol=1e-2, random_state=0) for model, C in ((Scene, 0.03), (Plain, 0.3))}
    truth, f1 = np.array(data.Y_test), {}
    for model, svm in fits.items():
        found = np.array(svm.fit(data.X_train, data.Y_train).predict(data.X_test))
        both, either = (truth & found).sum(axis=1), truth.sum(axis=1) + found.sum(axis=1)
        f1[model] = np.mean(np.where(either > 0, 2 * both / np.maximum(either, 1), 1.0))
    assert fits[Scene].score(data.X_test, data.Y_test) == pytest.approx(f1[Scene])
    assert f1[Scene] > 0.69
    assert f1[Plain] < 0.61


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.fixture
def no_oracle(monkeypatch):
    """Fail when an oracle is called."""

    def called(*_):
        raise AssertionError("an oracle was called")

    monkeypatch.setattr(learning_problem.MarginProblem, "oracle", called)


@pytest.mark.parametrize(("risk", "trainer"), [("softmax-margin", "lbfgs"), ("relaxed", "bundle")])
def test_risks_that_need_sums_refuse(no_oracle, risk, trainer):
    with pytest.raises(OptionError, match=r"adds up .*, not CountLoss; .* margin, slack; .* loss: hm, perceptron, log"):
        fitted(F1.make(0), risk=risk, trainer=trainer)


def test_other_refusals(no_oracle, monkeypatch):
    data = F1.make(0)
    with pytest.raises(NoBackendError, match=r"does not find best labellings by counts(.|\n)*would fit: chain, tree"):
        fitted(data, backend="junction-tree")
    with pytest.raises(OptionError, match="a CountLoss alone"):
        fitted(Case(small.TreeIoU, ragged=(3,), n=3).make(0), risk="slack", trainer="bundle")
    single = Case(type(small.Single)("S", (small.Single,), {"loss": CountLoss(small.Single.y, positive="yes")})).make(0)
    with pytest.raises(TrainingError, match="Hamming or Cost"):
        fitted(single, risk="weston-watkins", trainer="subgradient")
    monkeypatch.setattr(learning_problem, "MAX_COUNT_BYTES", 100)
    with pytest.raises(TooLargeError, match=r"example \d is a function of \d x \d pairs of counts"):
        fitted(data)


def too_short(tp, fp, fn, tn):
    return np.zeros(1)


def negative(tp, fp, fn, tn):
    return -1.0 * (fp + fn)


def never_right(tp, fp, fn, tn):
    return 1.0 + tp


def nothing(tp, fp, fn, tn):
    return None


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (too_short, r"expected shape \(\d+,\).*found shape \(1,\)"),
        (negative, "expected finite, non-negative losses.*found -1"),
        (never_right, "expected 0 where fp = fn = 0.*found"),
        (nothing, "expected a loss for each of the counts|expected shape"),
    ],
)
def test_measures_are_checked(measure, text):
    class Bad(small.Word):
        loss = CountLoss(small.Word.y, measure, positive="a")

    data = F1.make(0)
    with pytest.raises(DataError, match=rf"(?s)CountLoss: what .*{measure.__name__} returns.*{text}"):
        StructuredSVM(Bad).fit(data.X, data.Y)


def test_no_trainer_is_proposed_that_cannot_take_it():
    able = "bcfw, n-slack, one-slack, bundle, adam, perceptron, subgradient"
    for trainer in ("eg", "smo", "extragradient"):
        with pytest.raises(TrainingError, match=f"trainer '{trainer}' works on .*, not CountLoss; .*: {able}$"):
            fitted(F1.make(0), trainer=trainer)
