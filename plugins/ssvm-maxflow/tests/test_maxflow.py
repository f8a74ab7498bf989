"""The same optima as ``graph-cut``, bounds that hold at any scale, and wrong answers that are found."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, from_networkx, pairs
from ssvm_dsl.errors import BackendFault, NoBackendError, ScoreError
from ssvm_dsl.ir import Limits, Primal, Stop, Task
from ssvm_dsl.testing import Problem, answer, check_backend
from ssvm_maxflow import backend


def submodular_grid(side, seed=0, whole=False, table=None):
    """A grid of binary variables whose tables are submodular and have four different entries."""
    rng = np.random.default_rng(seed)
    graph = networkx.grid_2d_graph(side, side)
    for node in graph.nodes.values():
        node["scores"] = rng.integers(-9, 9, 2) if whole else rng.normal(size=2)
    for edge in graph.edges.values():
        scores = rng.integers(-9, 9, (2, 2)).astype(float) if whole else rng.normal(size=(2, 2))
        scores[0, 1] = min(scores[0, 1], scores[0, 0] + scores[1, 1] - scores[1, 0])
        edge["table"] = scores if table is None else table
    problem = from_networkx(graph)
    return Problem(f"submodular grid of {side} x {side}", problem.program, problem.theta)


# -- optima --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [1, 2, 10, 60])
def test_grids(side):
    problem = submodular_grid(side)
    found, expected = answer("maxflow", problem), answer("graph-cut", problem)
    assert problem.agree(found.score, expected.score)
    assert found.bound[0] >= expected.score[0]


def test_clamped_grids():
    problem = submodular_grid(12, seed=1)
    clamp = np.full(144, -1, dtype=np.int32)
    clamp[::7], clamp[3::7] = 1, 0
    found, expected = (answer(name, problem, task=Task.MAP_CLAMPED, clamp=clamp) for name in ("maxflow", "graph-cut"))
    assert problem.agree(found.score, expected.score)
    assert (found.labels[::7] == 1).all()


@pytest.mark.parametrize(
    "table",
    [
        [[0.0, -np.inf], [-0.5, 0.0]],
        [[0.0, -0.5], [-np.inf, 0.0]],
        [[1.0, -np.inf], [-np.inf, 0.0]],
        [[-np.inf, -np.inf], [0.3, 0.1]],
        [[0.2, -np.inf], [0.3, -np.inf]],
        [[-np.inf, -np.inf], [-np.inf, 0.1]],
    ],
)
def test_forbidden_joint_states(table):
    problem = submodular_grid(6, seed=2, table=table)
    found, expected = answer("maxflow", problem), answer("combi", problem)
    assert problem.agree(found.score, expected.score)
    assert (found.primal == expected.primal).all()


def test_contradictions_on_a_large_grid_are_infeasible():
    """Capacities of what is forbidden add up to more than 64 bits hold."""
    problem = submodular_grid(150, table=[[0.0, -np.inf], [-np.inf, 0.0]])
    node = problem.theta.node.reshape(-1, 2)
    node[: len(node) // 2, 0] = -np.inf
    node[len(node) // 2 :, 1] = -np.inf
    found = answer("maxflow", problem)
    assert found.primal[0] == Primal.INFEASIBLE


# -- rounding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", range(-12, 13, 3))
def test_any_scale_has_the_same_answer(power):
    problem = submodular_grid(15, seed=3).scaled(10.0**power)
    found, expected = answer("maxflow", problem), answer("graph-cut", problem)
    assert problem.agree(found.score, expected.score)
    assert found.bound[0] >= expected.score[0]
    assert problem.agree(found.bound, expected.score)


@pytest.mark.parametrize("size", [1, 2**20, 2**36])
def test_integers_are_exact(size):
    problem = submodular_grid(15, seed=4, whole=True).scaled(float(size))
    found = answer("maxflow", problem)
    assert found.bound[0] == found.score[0] == answer("graph-cut", problem).score[0]


# -- what it refuses, and limits -----------------------------------------------------------------------------


def test_other_tables_are_refused():
    problem = submodular_grid(3, table=[[0.0, 1.0], [0.5, 0.0]])
    with pytest.raises(NoBackendError, match="submodular"):
        answer("maxflow", problem)


def test_weights_that_break_a_promise_are_told():
    problem = submodular_grid(3)
    session = backend.MaxFlow().open(problem.program, {})
    theta = problem.theta.copy()
    theta.tables[0][4] = [0.0, 1.0, 0.5, 0.0]
    with pytest.raises(ScoreError, match=r"t\(0, 0\) \+ t\(1, 1\) >= .*\[\[0.0, 1.0\], \[0.5, 0.0\]\]"):
        session.solve(backend.Question(theta))


def test_without_time_the_answer_is_the_hosts_first_labelling():
    problem = submodular_grid(5)
    found, best = answer("maxflow", problem, limits=Limits(time=0.0)), answer("maxflow", problem)
    assert (found.stop[0], found.primal[0]) == (Stop.TIME, Primal.FEASIBLE)
    assert found.score[0] <= best.score[0] <= found.bound[0]


# -- whose fault it is ---------------------------------------------------------------------------------------


def patched(monkeypatch, wrong):
    """Let ``wrong(network, value, labels)`` change what the solver answers."""
    cut = backend.minimum_cut
    monkeypatch.setattr(backend, "minimum_cut", lambda network: wrong(network, *cut(network)))


def test_a_cut_that_is_not_the_smallest_is_found(monkeypatch):
    """A labelling that another one beats, with its own score as the bound."""
    problem = submodular_grid(6, table=[[0.0, -0.01], [-0.01, 0.0]]).scaled(1.0)

    def wrong(network, value, labels):
        bad = 1 - labels
        lost = (network.source * bad + network.sink * (1 - bad)).sum()
        first, second = bad[network.scope].T
        lost += ((first < second) * network.forth + (first > second) * network.back).sum()
        return network.base + int(lost), bad

    patched(monkeypatch, wrong)
    with pytest.raises(BackendFault, match="maxflow"):
        answer("maxflow", problem)


def test_a_bound_below_its_own_labelling_is_found(monkeypatch):
    patched(monkeypatch, lambda network, value, labels: (value + (1 << 48), labels))
    with pytest.raises(BackendFault, match="is below the score"):
        answer("maxflow", submodular_grid(6))


def test_the_kit_finds_a_labelling_that_is_almost_optimal(monkeypatch):
    """What no verifier can see: a consistent answer that is not the best one."""

    def wrong(network, value, labels):
        changed = labels.copy()
        changed[:1] = 1 - changed[:1]
        return value, changed

    patched(monkeypatch, wrong)
    assert not check_backend("maxflow", only=["map"], n_problems=20).ok


# -- training ------------------------------------------------------------------------------------------------


class Seg(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    data = Factor(y, features=x)
    across = Factor(pairs(y, W), form=POTTS, nonneg=True)
    down = Factor(pairs(y, H), form=POTTS, nonneg=True)
    loss = Hamming(y)


def test_training_reaches_the_same_optimum():
    rng = np.random.default_rng(0)
    Y = [np.kron(rng.integers(0, 2, (2, 2)), np.ones((3, 3), int)) for _ in range(8)]
    X = [np.stack([y + rng.normal(size=y.shape), np.ones(y.shape)], axis=-1) for y in Y]
    found, expected = (
        StructuredSVM(Seg, C=0.5, backend=name, trainer="one-slack", tol=1e-4).fit(X, Y).report_
        for name in ("maxflow", "graph-cut")
    )
    assert found.certified
    assert found.primal == pytest.approx(expected.primal, rel=1e-3)
    assert found.dual <= expected.primal * (1 + 1e-9)
