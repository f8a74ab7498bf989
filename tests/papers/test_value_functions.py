"""Structured regression on paths: values of plans over terrains, on squares and on states with headings."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import StructuredRegressor
from ssvm_dsl.errors import DataError
from ssvm_papers.experiments.value_functions import ROUNDS, Headed, Valued, ValuedWalk
from ssvm_papers.generators import HeadingPlanner, make_plans, make_terrain, map_terrain, terrains


def test_costs_to_go_satisfy_bellmans_equation():
    planner = HeadingPlanner(make_terrain((5, 7), random_state=3))
    costs, following = planner.costs_to_go(16)
    tail, head, cost = planner.arcs()
    best = np.full(len(costs), np.inf)
    np.minimum.at(best, tail, cost + costs[head])
    at_goal = np.arange(len(costs)) // 8 == 16
    assert not costs[at_goal].any()
    assert np.allclose(costs[~at_goal], best[~at_goal])
    known = {(t, h): c for t, h, c in zip(tail.tolist(), head.tolist(), cost.tolist(), strict=True)}
    for state in np.flatnonzero(~at_goal).tolist():
        assert np.isclose(costs[state], known[state, int(following[state])] + costs[following[state]])


def test_steps_have_their_geometry():
    """On a plane that rises by 1 to the south: slopes by direction, no roughness away from the edges."""
    planner = HeadingPlanner(np.repeat(np.arange(5.0)[:, None], 5, axis=1))
    inner = np.isin(planner.tail, (12,))
    length, up, down, across, rough = planner.features[inner].T
    order = np.argsort(planner.heading[inner])  # north first, then clockwise
    assert np.allclose(length[order], [1, 2**0.5] * 4)
    assert np.allclose(up[order], [0, 0, 0, 1, 1, 1, 0, 0])
    assert np.allclose(down[order], [1, 1, 0, 0, 0, 1 * 0, 0, 1])
    assert np.allclose(across[order], [0, 1, 1, 1, 0, 1, 1, 1])
    assert np.allclose(rough, 0)


def test_walls_are_high_ground():
    squares = np.ones((20, 30), dtype=bool)
    squares[:, 15:] = False
    heights = map_terrain(squares, (8, 8), relief=2.0, random_state=1)
    assert np.isclose(heights.std(), 2.0)
    assert (np.diff(heights, axis=1) >= -1e-12).all()
    assert np.allclose(heights, heights[0])
    plans = make_plans(3, terrain=lambda rng: map_terrain(squares, (6, 7), random_state=rng))
    assert [len(x["place"]) for x in plans.X] == [42] * 3
    for closed in (np.ones((9, 9), dtype=bool), np.eye(5) > 0):
        with pytest.raises(DataError, match="a window of 8 x 8 squares"):
            map_terrain(closed, (8, 8))


@pytest.fixture
def linear_costs(monkeypatch):
    """Plans whose costs are linear in the features of steps, with turns at a price of 0.4, or none on squares."""

    def plans(n, seed, headings=False):
        monkeypatch.setattr(terrains, "SQUARE", np.zeros(5))
        price = 0.4 if headings else 1e-9
        monkeypatch.setattr(HeadingPlanner, "turn_costs", lambda self: np.full(self.heights.size, price))
        return make_plans(n, shape=(7, 7), headings=headings, random_state=seed)

    return plans


@pytest.mark.sensitive
@pytest.mark.parametrize("headings", [False, True])
def test_costs_are_found_where_values_are_linear_in_features(headings, linear_costs):
    """The weights are the costs that the planner used; on squares where turns cost nothing."""
    X, Y, values = linear_costs(40, 1, headings)
    reg = StructuredRegressor(Headed if headings else ValuedWalk, C=1e3, tol=1e-4, **ROUNDS).fit(X, values, Y)
    assert reg.report_.converged
    assert reg.report_.certified
    assert np.allclose(reg.weights_["cost"].ravel()[:5], terrains.LINEAR, atol=0.02)
    assert np.allclose(reg.weights_["cost"].ravel()[5:], 0.4, atol=0.02)
    other = linear_costs(10, 2, headings)
    assert reg.score(other.X, other.values) > 0.999
    for x, y in zip(other.X, reg.predict_labels(other.X), strict=True):
        assert np.isclose((x["f"][y == 1] @ reg.weights_["cost"].ravel()).sum(), reg.predict([x])[0])


def test_value_features_are_fitted_to_the_value(linear_costs):
    """They are no costs of steps: what the value has besides is found as their weights, of either sign."""
    X, Y, values = linear_costs(40, 1)
    extra = np.array([0.5, -0.3, 0.2, 1.0])
    values = values + np.array([x["far"] for x in X]) @ extra
    paths = [{"y": y, "once": 0} for y in Y]
    reg = StructuredRegressor(Valued, C=1e3, tol=1e-4, max_passes=1000, **ROUNDS).fit(X, values, paths)
    assert reg.report_.converged
    assert np.abs(reg.predict(X) - values).max() < 0.05
    found, known = reg.weights_["value"].ravel(), reg.weights_["cost"].ravel()
    # up - down of a path is the rise of the goal: these three weights are known but for one number
    assert np.allclose(found[[0, 1, 3]], extra[[0, 1, 3]], atol=0.1)
    planted = terrains.LINEAR[1] - terrains.LINEAR[2] + 2 * extra[2]
    assert np.isclose(known[1] - known[2] + 2 * found[2], planted, atol=0.1)
