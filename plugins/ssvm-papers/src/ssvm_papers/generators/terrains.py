"""Plans over terrains: what paths through (row, column, heading) cost, as values of paths on simpler graphs.

The data that Ratliff, Bagnell and Zinkevich (2007, section 7.3) used, footstep plans of a robot with legs, cannot be
had.  Here a robot turns by 45 degrees or steps to the square ahead.  A step is dear uphill, less so downhill, across
slopes and on rough ground, more than in proportion where it is steep; a turn costs more on slopes.  So the cost of a
plan is not linear in the features of its steps, and its turns are not seen on a map of squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.errors import DataError
from ssvm_dsl.ir import F64, I64, Bools

#: Steps in (rows, columns) by heading, each 45 degrees on from the last.
STEPS = np.array([(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)])

#: Features of a step: its length, and that times slope up, slope down, slope across, and roughness of the ground ahead.
STEP_FEATURES = ("length", "up", "down", "across", "rough")

#: Features of the value alone: 1, the distance to the goal over the longer side of the map, the height of the goal
#: above the start, and one half of 1 minus the cosine of the angle between the heading and the goal.
VALUE_FEATURES = ("one", "distance", "rise", "turned")

#: What a unit of each step feature costs, what its square costs, and what a turn by 45 degrees costs.
LINEAR, SQUARE, TURN = np.array([1.0, 2.0, 0.5, 1.0, 1.5]), np.array([0.0, 3.0, 1.0, 1.5, 2.0]), 0.5


def make_terrain(
    shape: tuple[int, int] = (16, 16), *, relief: float = 1.0, random_state: int | np.random.Generator = 0
) -> F64:
    """Return a height for each square: hills of all sizes, larger ones higher.

    Waves of random phase whose amplitude falls with the 3/2-th power of their frequency.

    Parameters
    ----------
    shape : (int, int)
    relief : float
        Standard deviation of the heights, in lengths of a square.
    random_state : int or Generator
    """
    rng = np.random.default_rng(random_state)
    rows, columns = (np.fft.fftfreq(2 * size) * 2 * size for size in shape)  # twice as large: no wrapping round
    frequency = np.hypot(rows[:, None], columns[None, :])
    frequency[0, 0] = np.inf
    waves = np.fft.fft2(rng.normal(size=(2 * shape[0], 2 * shape[1]))) / frequency**1.5
    heights = np.fft.ifft2(waves).real[: shape[0], : shape[1]]
    return np.asarray(relief * (heights - heights.mean()) / heights.std())


def map_terrain(
    squares: Bools,
    shape: tuple[int, int] = (16, 16),
    *,
    relief: float = 1.0,
    blur: float = 1.5,
    random_state: int | np.random.Generator = 0,
) -> F64:
    """Return the heights of a window of a map; ground that cannot be walked on is high, with soft slopes.

    The window is drawn among those with a tenth or more open, and a tenth or more closed.

    Parameters
    ----------
    squares : ndarray of bool, shape (H, W)
        Which can be walked on, as :func:`~ssvm_dsl.datasets.load_grid_map` returns them.
    shape : (int, int)
    relief : float
        Standard deviation of the heights, in lengths of a square.
    blur : float
        Standard deviation of the Gaussian filter that makes slopes of walls, in squares.
    random_state : int or Generator

    Raises
    ------
    DataError
        No window was found in a thousand draws.
    """
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(random_state)
    rows, columns = (whole - part for whole, part in zip(squares.shape, shape, strict=True))
    for _ in range(1000 if min(rows, columns) >= 0 else 0):
        row, column = rng.integers(rows + 1), rng.integers(columns + 1)
        window = squares[row : row + shape[0], column : column + shape[1]]
        if 0.1 <= window.mean() <= 0.9:
            heights = gaussian_filter(np.where(window, 0.0, 1.0), blur, mode="nearest")
            return np.asarray(relief * (heights - heights.mean()) / heights.std())
    expected = f"a window of {shape[0]} x {shape[1]} squares that is open in part"
    raise DataError("map_terrain", expected=expected, found=f"none in a map of {squares.shape[0]} x {squares.shape[1]}")


class HeadingPlanner:
    """Least costs and plans on one terrain, over states (row, column, heading).

    Parameters
    ----------
    heights : ndarray, shape (H, W)

    Attributes
    ----------
    tail, head, heading : ndarray of int64, shape (M,)
        Steps between squares, which are numbered row by row.
    features : ndarray, shape (M, 5)
        ``STEP_FEATURES`` of each.
    """

    def __init__(self, heights: F64) -> None:
        self.heights, self.shape = heights, heights.shape
        square = np.arange(heights.size).reshape(self.shape)
        padded = np.pad(square, 1, constant_values=-1)
        parts = []
        for k, (down, right) in enumerate(STEPS):
            target = padded[1 + down : 1 + down + self.shape[0], 1 + right : 1 + right + self.shape[1]]
            inside = target >= 0
            parts.append((square[inside], target[inside], np.full(int(inside.sum()), k)))
        self.tail, self.head, self.heading = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.features = self._features()

    def _features(self) -> F64:
        """Return the features of each step."""
        height = self.heights.ravel()
        length = np.hypot(*STEPS.T)[self.heading]
        slope = (height[self.head] - height[self.tail]) / length
        gradient = np.stack([*np.gradient(self.heights)], axis=-1).reshape(-1, 2)
        aside = STEPS[(self.heading + 2) % 8] / length[:, None]
        across = np.abs((gradient[self.head] * aside).sum(axis=1))
        padded = np.pad(self.heights, 1, mode="edge")
        near = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).reshape(len(height), 9)
        rough = np.abs(near.mean(axis=1) - height)[self.head]
        columns = (np.ones_like(length), np.maximum(slope, 0.0), np.maximum(-slope, 0.0), across, rough)
        return np.asarray(length[:, None] * np.stack(columns, axis=1))

    def step_costs(self) -> F64:
        """Return what each step costs; ``shape (M,)``."""
        length = self.features[:, :1]
        return np.asarray(self.features @ LINEAR + (self.features**2 / length) @ SQUARE)

    def turn_costs(self) -> F64:
        """Return what a turn by 45 degrees costs on each square."""
        steep = np.hypot(*np.gradient(self.heights)).ravel()
        return np.asarray(TURN * (1.0 + steep))

    def arcs(self) -> tuple[I64, I64, F64]:
        """Return (tails, heads, costs) of all moves between states: steps first, then turns right, then left."""
        state = np.arange(self.heights.size)[:, None] * 8 + np.arange(8)
        right = (np.arange(self.heights.size)[:, None] * 8 + (np.arange(8) + 1) % 8).ravel()
        turns = np.repeat(self.turn_costs(), 8)
        tail = np.concatenate([self.tail * 8 + self.heading, state.ravel(), right])
        head = np.concatenate([self.head * 8 + self.heading, right, state.ravel()])
        return tail, head, np.concatenate([self.step_costs(), turns, turns])

    def costs_to_go(self, goal: int) -> tuple[F64, I64]:
        """Return the least cost from each state to a square, in any heading, and the next state on the way.

        Returns
        -------
        costs : ndarray, shape (8 H W,)
            By state: eight headings for each square.
        following : ndarray of int64, shape (8 H W,)
            Negative at the goal.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        tail, head, cost = self.arcs()
        n = 8 * self.heights.size
        graph = csr_array((cost, (head, tail)), shape=(n, n))  # against the arcs: from the goal
        goals = 8 * goal + np.arange(8)
        costs, following, _ = dijkstra(graph, indices=goals, min_only=True, return_predecessors=True)
        return costs, following.astype(np.int64)


@dataclass(frozen=True, eq=False)
class TerrainPlan:
    """The cheapest plan between a state and a square.

    Parameters
    ----------
    planner : HeadingPlanner
        Of its terrain.
    states : ndarray of int64
        On its way, both ends among them; eight for each square.
    cost : float
    """

    planner: HeadingPlanner
    states: I64
    cost: float

    @property
    def squares(self) -> I64:
        """The squares on the way, each once."""
        squares: I64 = self.states // 8
        return np.asarray(squares[np.concatenate([[True], np.diff(squares) != 0])])

    def value_features(self) -> F64:
        """Return ``VALUE_FEATURES``; ``shape (4,)``."""
        ends = np.stack(np.unravel_index(self.squares[[0, -1]], self.planner.shape), axis=1)
        apart, ahead = np.diff(ends, axis=0)[0], STEPS[self.states[0] % 8]
        distance = float(np.hypot(*apart))
        cosine = float(apart @ ahead) / (distance * float(np.hypot(*ahead)))
        rise = float(np.diff(self.planner.heights.ravel()[self.squares[[0, -1]]])[0])
        return np.array([1.0, distance / max(self.planner.shape), rise, 0.5 * (1.0 - cosine)])


class Plans(NamedTuple):
    """Examples for :class:`~ssvm_dsl.StructuredRegressor`: ``X, Y, values = make_plans()``.

    Parameters
    ----------
    X : list of dict
        ``"place"``, shape (N, 1): a number for each node, of no meaning; ``"e"``, shape (M, 2): edges; ``"f"``: minus
        the features of each edge; ``"start"`` and ``"goal"``, shape (1,): nodes; ``"far"``: minus the features of the
        value alone.
    Y : list of ndarray of int64, shape (M,)
        1 for the edges of the plan.
    values : ndarray of float64, shape (n,)
        Minus the cost of each plan.
    """

    X: list[dict[str, Any]]
    Y: list[I64]
    values: F64


def make_plans(
    n: int = 40,
    *,
    per_terrain: int = 10,
    shape: tuple[int, int] = (16, 16),
    headings: bool = False,
    terrain: Callable[[np.random.Generator], F64] | None = None,
    random_state: int | np.random.Generator = 0,
) -> Plans:
    """Return the cheapest plans between random states and squares of random terrains, as paths with values.

    Parameters
    ----------
    n : int
        Number of plans.
    per_terrain : int
        Plans on each terrain.
    shape : (int, int)
        Of the terrains of :func:`make_terrain`.
    headings : bool
        Nodes are squares, with edges to the eight around each and ``STEP_FEATURES``; or, with headings, states (row,
        column, heading) and one node more for the goal, whose edges have the number of turns for a last feature.
    terrain : callable, optional
        Draws the heights of one terrain, shape (H, W), in place of :func:`make_terrain`.
    random_state : int or Generator
    """
    rng = np.random.default_rng(random_state)
    plans: list[TerrainPlan] = []
    while len(plans) < n:
        planner = HeadingPlanner(make_terrain(shape, random_state=rng) if terrain is None else terrain(rng))
        plans += [draw_plan(planner, rng) for _ in range(min(per_terrain, n - len(plans)))]
    inputs = [_with_headings(plan) if headings else _on_squares(plan) for plan in plans]
    X = [{**x, "far": -plan.value_features()} for (x, _), plan in zip(inputs, plans, strict=True)]
    return Plans(X, [y for _, y in inputs], np.array([-plan.cost for plan in plans]))


def draw_plan(planner: HeadingPlanner, rng: np.random.Generator) -> TerrainPlan:
    """Return the cheapest plan between a random state and a random other square at least a third of the map away."""
    far = max(planner.shape) / 3
    while True:
        start, goal = rng.integers(planner.heights.size, size=2)
        ends = np.stack(np.unravel_index([start, goal], planner.shape), axis=1)
        if np.hypot(*np.diff(ends, axis=0)[0]) >= far:
            break
    costs, following = planner.costs_to_go(int(goal))
    states = [int(start) * 8 + int(rng.integers(8))]
    while states[-1] // 8 != goal:
        states.append(int(following[states[-1]]))
    return TerrainPlan(planner, np.array(states), float(costs[states[0]]))


def _on_squares(plan: TerrainPlan) -> tuple[dict[str, Any], I64]:
    """Return a plan as a path on squares."""
    planner, squares = plan.planner, plan.squares
    edges = np.stack([planner.tail, planner.head], axis=1)
    x = {"place": np.zeros((planner.heights.size, 1)), "e": edges, "f": -planner.features}
    return {**x, "start": squares[:1], "goal": squares[-1:]}, _taken(edges, squares)


def _with_headings(plan: TerrainPlan) -> tuple[dict[str, Any], I64]:
    """Return a plan as a path on states; a last node is reached from every heading at the goal, at no cost."""
    planner, n = plan.planner, 8 * plan.planner.heights.size
    tail, head, _ = planner.arcs()
    goals = plan.squares[-1] * 8 + np.arange(8)
    edges = np.stack([np.concatenate([tail, goals]), np.concatenate([head, np.full(8, n)])], axis=1)
    features = np.zeros((len(edges), planner.features.shape[1] + 1))
    features[: len(planner.features), :-1] = planner.features
    features[len(planner.features) : -8, -1] = 1.0
    x = {"place": np.zeros((n + 1, 1)), "e": edges, "f": -features, "start": plan.states[:1], "goal": np.array([n])}
    return x, _taken(edges, np.append(plan.states, n))


def _taken(edges: I64, nodes: I64) -> I64:
    """Return 1 for the edges between nodes in a row."""
    size = int(edges.max()) + 1
    steps = nodes[:-1] * size + nodes[1:]
    return np.isin(edges[:, 0] * size + edges[:, 1], steps).astype(np.int64)
