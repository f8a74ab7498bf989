"""Learners: PyStruct's objective against other solvers and closed forms, steps against sums by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.svm import LinearSVC

from ssvm_dsl import StructuredSVM, load
from ssvm_pystruct.datasets import generate_blocks, generate_crosses, load_snakes
from ssvm_pystruct.learners import (
    FrankWolfeSSVM,
    LatentSSVM,
    NSlackSSVM,
    OneSlackSSVM,
    StructuredPerceptron,
    SubgradientLatentSSVM,
    SubgradientSSVM,
)
from ssvm_pystruct.models import BinaryClf, ChainCRF, GridCRF, LatentGridCRF, LatentNodeCRF, MultiClassClf
from ssvm_pystruct.utils import SaveLogger, objective_primal

XOR = np.array([[a, b, 1.0] for a in (-1, 1) for b in (-1, 1)]), np.array([-1, 1, 1, -1])


def blobs():
    X, Y = make_blobs(n_samples=60, centers=3, random_state=1, cluster_std=3)
    return np.hstack([X, np.ones((60, 1))]), Y


def test_multi_class_weights_are_those_of_liblinear():
    X, Y = blobs()
    theirs = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=0.1, tol=1e-8, max_iter=100000).fit(X, Y)
    mine = NSlackSSVM(MultiClassClf(), C=0.1, tol=1e-6, max_iter=500).fit(X, Y)
    assert np.allclose(mine.w, theirs.coef_.ravel(), atol=2e-3)


def test_a_binary_machine_is_a_hinge_of_half_the_weight():
    """``y x / 2`` makes the hinge ``1 - y w.x``, with C in place of liblinear's C."""
    X, Y = blobs()
    Y = np.where(Y == 0, -1, 1)
    w = FrankWolfeSSVM(BinaryClf(), C=0.5, tol=1e-6).fit(X, Y).w
    theirs = LinearSVC(loss="hinge", fit_intercept=False, C=0.5, tol=1e-9, max_iter=10**6).fit(X, Y).coef_.ravel()
    objective = lambda w: w @ w / 2 + 0.5 * np.maximum(0, 1 - Y * (X @ w)).sum()  # noqa: E731
    assert objective(w) == pytest.approx(objective(theirs), rel=1e-4)


@pytest.mark.parametrize("kind", [OneSlackSSVM, NSlackSSVM, FrankWolfeSSVM])
def test_learners_reach_one_optimum(kind):
    X, Y = generate_blocks(n_samples=3)
    learner = kind(GridCRF(inference_method="ad3"), C=0.1).fit(X, Y)
    objective = objective_primal(learner.model, learner.w, X, Y, 0.1)
    assert learner.primal_objective_curve_[-1] == pytest.approx(objective, rel=1e-4)
    assert learner.objective_curve_[-1] <= objective + 1e-9
    assert learner.svm_.report_.relative_gap <= 1e-3


def test_class_weights_price_errors_or_whole_risks():
    X, Y = blobs()
    prices, C = np.array([1.0, 2.0, 0.5]), 0.1
    for rescale in (False, True):
        learner = NSlackSSVM(MultiClassClf(class_weight=prices, rescale_C=rescale), C=C, max_iter=500).fit(X, Y)
        scores = X @ learner.w.reshape(3, -1).T
        loss = (np.arange(3) != Y[:, None]) * (1.0 if rescale else prices[Y][:, None])
        risk = (scores + loss).max(axis=1) - scores[np.arange(60), Y]
        value = learner.w @ learner.w / 2 + C * np.sum(risk * (prices[Y] if rescale else 1.0))
        assert learner.primal_objective_curve_[-1] == pytest.approx(value)


def test_perceptrons_take_the_steps_that_one_writes_down():
    X, Y = XOR
    learner = StructuredPerceptron(BinaryClf(3), max_iter=3)
    w, seen = np.zeros(3), []
    for step in range(3):
        for x, y in zip(X, Y, strict=True):
            if (1 if w @ x >= 0 else -1) != y:
                w = w + y * x * (step + 2.0) ** 0.5
            seen.append(w)
    learner.set_params(decay_exponent=0.5, decay_t0=2)
    assert learner.fit(X, Y).w.tolist() == pytest.approx(w.tolist())
    for average, mean in (
        (True, np.mean(seen, axis=0)),
        (2, np.mean(seen[8:], axis=0)),
        (-1, np.mean(seen[8:], axis=0)),
    ):
        assert learner.set_params(average=average).fit(X, Y).w.tolist() == pytest.approx(mean.tolist())
    batch = StructuredPerceptron(BinaryClf(3), max_iter=1, batch=True).fit(X, Y)
    assert batch.w.tolist() == [0.0, 0.0, -2.0]  # all are predicted 1 at w = 0


def test_subgradient_steps_with_momentum():
    X, Y = XOR
    learner = SubgradientSSVM(BinaryClf(3), max_iter=2, C=2.0, momentum=0.3, learning_rate=0.5, decay_t0=4)
    w, velocity, t = np.zeros(3), np.zeros(3), 0
    for _ in range(2):
        for x, y in zip(X, Y, strict=True):
            psi = y * x if 1 - y * (w @ x) > 0 else np.zeros(3)
            velocity = 0.7 * (psi - w / 8.0) + 0.3 * velocity
            w, t = w + 0.5 / (t + 4) * velocity, t + 1
    assert learner.fit(X, Y).w.tolist() == pytest.approx(w.tolist())


def test_constrained_weights_are_not_positive():
    X, Y = generate_blocks(n_samples=3)
    exact = ("ad3", {"branch_and_bound": True})
    free = NSlackSSVM(GridCRF(inference_method=exact), C=0.1).fit(X, Y)
    held = NSlackSSVM(GridCRF(inference_method=exact), C=0.1, negativity_constraint=[4, 6]).fit(X, Y)
    assert free.w[4] > 0
    assert max(held.w[4], held.w[6]) <= 0
    value = objective_primal(held.model, held.w, X, Y, 0.1)
    assert held.primal_objective_curve_[-1] == pytest.approx(value)
    assert objective_primal(free.model, free.w, X, Y, 0.1) < value


def test_hidden_states_are_completed_in_turn():
    X, Y = generate_crosses(n_samples=6, noise=5, n_crosses=1, total_size=8)
    crf = LatentGridCRF(n_labels=2, n_states_per_label=[1, 2])
    learner = LatentSSVM(OneSlackSSVM(crf, C=10.0, inference_cache=20)).fit(X, Y)
    assert learner.score(X, Y) > 0.98
    assert all((crf.label_from_latent(crf.latent(x, y, learner.w)) == y).all() for x, y in zip(X, Y, strict=True))
    steps = SubgradientLatentSSVM(crf, C=10.0, max_iter=5).fit(X, Y)
    assert [one.shape for one in steps.predict(X)] == [(8, 8)] * 6


def test_hidden_nodes_see_the_labels_around_them():
    y = [np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])]
    edges = np.array([[0, 4], [1, 4], [2, 5], [3, 5]])
    X = [(2.0 * one[:, None] - 1.0, edges, 2) for one in y]
    crf = LatentNodeCRF(n_labels=2, n_features=1, n_hidden_states=2)
    crf.initialize(X, y)
    first, second = (h[4:] for h in crf.init_latent(X, y))
    assert first.tolist() == second[::-1].tolist()
    assert sorted(first) == [2, 3]
    assert LatentSSVM(OneSlackSSVM(crf, C=10.0)).fit(X, y).score(X, y) == 1.0


def test_snapshots_are_learners(tmp_path):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 3)) for _ in range(12)]
    Y = [x.argmax(axis=1) for x in X]
    logger = SaveLogger(str(tmp_path / "learner"), save_every=1)
    learner = OneSlackSSVM(ChainCRF(), C=1.0, logger=logger, show_loss_every=1).fit(X, Y)
    again = logger.load()
    assert np.array_equal(again.w, learner.w)
    assert again.score(X, Y) == learner.score(X, Y)
    assert len(learner.loss_curve_) == len(learner.svm_.report_.history)
    learner.svm_.save(tmp_path / "model.ssvm")
    assert isinstance(load(tmp_path / "model.ssvm"), StructuredSVM)
    warm = OneSlackSSVM(ChainCRF(), C=1.0).fit(X, Y).fit(X, Y, warm_start=True)
    assert warm.svm_.report_.n_passes <= learner.svm_.report_.n_passes


def test_switching_to_a_relaxation_raises_the_bound():
    X, Y = generate_blocks(n_samples=2, noise=3.0, seed=3)
    crf = GridCRF(inference_method="qpbo")
    switched = OneSlackSSVM(crf, C=0.1, switch_to="ad3").fit(X, Y)
    assert crf.inference_method == "ad3"
    exact = OneSlackSSVM(GridCRF(inference_method=("ad3", {"branch_and_bound": True})), C=0.1).fit(X, Y)
    assert switched.primal_objective_curve_[-1] >= exact.objective_curve_[-1]


def test_snakes_are_paths():
    snakes = load_snakes()
    assert [len(snakes[name]) for name in ("X_train", "X_test")] == [200, 100]
    for y in snakes["Y_train"][:20]:
        at = np.array([np.argwhere(y == number)[0] for number in range(1, 11)])
        assert (np.abs(np.diff(at, axis=0)).sum(axis=1) == 1).all()


def test_an_average_that_never_begins_is_zero():
    X = np.array([[a, b, 1.0] for a in (-1, 1) for b in (-1, 1)])
    Y = np.array([-1, 1, 1, 1])  # learnt in two passes
    learner = StructuredPerceptron(BinaryClf(), max_iter=9, average=2).fit(X, Y)
    assert not learner.w.any()
    assert learner.set_params(average=-1).fit(X, Y).w.any()
    assert learner.set_params(average=True).fit(X, Y).w.any()


def test_scikit_learn_is_loaded_by_those_who_use_it():
    heavy = "{'sklearn', 'pandas', 'scipy.stats', 'matplotlib'}"
    code = f"import sys, ssvm_pystruct; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
