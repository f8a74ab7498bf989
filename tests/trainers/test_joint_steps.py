"""Joint steps of ``bcfw``: the dual over kept planes against a quadratic program, and fits with few weights."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from scipy import sparse

from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain, grid
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_trainers.planes.joint_steps import KeptRows, climb
from ssvm_trainers.planes.store import MOST_WEIGHTS


def best_over_rows(objective, share, rows):
    """The optimum of ``lam/2 |w|^2 + sum_i share_i max(0, max_k loss_k - psi_k . w)``, w above its lower bounds."""
    n, dim, m = len(share), rows.psi.shape[1], len(rows.loss)
    bounded = np.flatnonzero(objective.lower > -np.inf)
    curve = sparse.block_diag([sparse.diags(objective.lam * objective.scale), sparse.csc_matrix((n, n))], format="csc")
    cost = np.concatenate([np.zeros(dim), share])
    slack = sparse.csr_matrix((np.ones(m), (np.arange(m), rows.owner)), shape=(m, n))
    left = sparse.vstack(
        [
            sparse.hstack([-sparse.csr_matrix(rows.psi), -slack]),
            sparse.hstack([sparse.csr_matrix((n, dim)), -sparse.identity(n)]),
            -sparse.identity(dim + n, format="csr")[bounded],
        ],
        format="csc",
    )
    right = np.concatenate([-rows.loss, np.zeros(n), -objective.lower[bounded]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(len(right))]
    return clarabel.DefaultSolver(curve, cost, left, right, cones, settings).solve().obj_val


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_climb_reaches_the_best_dual_weights_of_the_kept_planes(seed, bounded):
    rng = np.random.default_rng(seed)
    n, dim = 12, 4
    owner = np.sort(np.concatenate([rng.integers(n, size=40), [0]]))
    lower = np.where(bounded & (np.arange(dim) < 2), 0.0, -np.inf)
    objective = RegularizedRisk(0.02, n, rng.uniform(0.5, 2.0, n), rng.uniform(0.5, 2.0, dim), lower)
    share = objective.weight / n
    alpha = rng.uniform(size=len(owner)) / 50.0
    rows = KeptRows(owner, rng.uniform(size=len(owner)), 3.0 * rng.normal(size=(len(owner), dim)), alpha)

    def dual(alpha):
        mixed = share[owner] * alpha
        return objective.dual(mixed @ rows.psi, float(mixed @ rows.loss))

    best = best_over_rows(objective, share, rows)
    found, w, _, gap = climb(objective, share, rows, 1e-7 * best)
    assert (found >= 0.0).all()
    assert (np.bincount(owner, found) <= 1.0 + 1e-12).all()
    assert dual(alpha) <= dual(found) <= best * (1.0 + 1e-6)
    assert dual(found) == pytest.approx(best, rel=1e-6)
    risks = np.zeros(n)
    np.maximum.at(risks, owner, rows.loss - rows.psi @ w)
    primal = objective.regularizer(w) + float(share @ risks)
    assert primal == pytest.approx(best, rel=1e-6)
    assert primal - dual(found) == pytest.approx(gap, abs=1e-9 * best)
    assert (w >= lower).all()


class Line(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 2)
    unary = Factor(y, features=x)
    pair = Factor(chain(y))
    loss = Hamming(y, normalize=True)


class Picture(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    unary = Factor(y, features=x)
    same = Factor(grid(y), form=POTTS)
    loss = Hamming(y, normalize=True)


def lines(n, length=60):
    rng = np.random.default_rng(0)
    Y = [np.cumsum(rng.random(length) < 0.2) % 2 for _ in range(n)]
    return [y[:, None] * [1.0, -0.5, 0.2] + rng.normal(size=(length, 3)) for y in Y], Y


def pictures(n, side=6):
    rng = np.random.default_rng(0)
    Y = [(np.add.outer(np.arange(side), np.arange(side)) > rng.integers(2 * side)).astype(int) for _ in range(n)]
    return [y[:, :, None] * [0.8, -0.8] + rng.normal(size=(side, side, 2)) for y in Y], Y


@pytest.mark.parametrize(
    ("model", "data", "settings"),
    [
        (Line, lines(30), {}),
        (Line, lines(30), {"trainer_options": {"averaging": False}}),
        (Picture, pictures(8), {}),
        (Picture, pictures(8), {"risk": "relaxed", "trainer_options": {"blocks": "examples"}}),
    ],
)
def test_few_weights_and_large_examples_take_few_passes(model, data, settings):
    report = StructuredSVM(model, C=10.0, tol=1e-3, max_passes=60, random_state=0, **settings).fit(*data).report_
    assert report.converged
    settings = {"risk": settings.get("risk", "margin"), "trainer": "bundle"}
    other = StructuredSVM(model, C=10.0, tol=1e-3, random_state=0, **settings).fit(*data)
    assert report.primal == pytest.approx(other.report_.primal, rel=2e-3)


class Wide(Line):
    x = Input(Line.T, 150)
    unary = Factor(Line.y, features=x)


@pytest.mark.parametrize("model", [Line, Wide])
def test_joint_steps_take_no_more_operations_than_the_rest(model):
    """With few weights, and with more where examples are long enough to keep planes as vectors."""
    X, Y = lines(20, length=20)
    if model is Wide:
        X = [np.concatenate([x, np.sin(x @ np.arange(3.0 * 147).reshape(3, 147))], axis=1) for x in X]
    svm = StructuredSVM(model, C=1.0, tol=1e-2, random_state=0).fit(X, Y)
    report = svm.report_
    assert (report.n_weights > MOST_WEIGHTS) == (model is Wide)
    shares = [event.extra["joint_share"] for event in report.history if "joint_share" in event.extra]
    assert report.converged
    assert 0.0 < shares[-1] <= 0.55
