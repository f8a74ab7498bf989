"""Walks over squares with the steps right and down, the cheapest ones by hidden costs: planning without cycles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.ir import F64, I64


def make_walks(
    n: int = 100,
    side: int = 5,
    n_features: int = 6,
    *,
    noise: float = 0.5,
    random_state: int | np.random.Generator = 0,
) -> tuple[list[dict[str, Any]], list[I64]]:
    """Return squares to cross from corner to corner, and the walk that was cheapest there.

    The hidden cost of a step is linear in its features, with noise.  Features are scaled so that those of no walk,
    which are the sums over its steps, have a norm above 1.

    Parameters
    ----------
    n : int
        Number of examples.
    side : int
        Squares are ``side`` by ``side``; a walk has ``2 (side - 1)`` steps.
    n_features : int
        Of a step, between 0 and 1 before they are scaled.
    noise : float
        Standard deviation of what the features do not tell of a step's cost, relative to that of what they tell.
    random_state : int or Generator

    Returns
    -------
    X : list of dict
        ``place``, shape (N, 1), of no meaning; ``e``, shape (M, 2), the steps; ``f``, shape (M, n_features);
        ``start`` and ``goal``, shape (1,).
    Y : list of ndarray of int64, shape (M,)
        1 for the steps of the walk.
    """
    rng = np.random.default_rng(random_state)
    square = np.arange(side * side).reshape(side, side)
    across, down = (square[:, :-1], square[:, 1:]), (square[:-1], square[1:])
    steps = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in (across, down)])
    steps = steps[np.argsort(steps[:, 0], kind="stable")]
    costs, longest = rng.random(n_features), 2 * (side - 1) * np.sqrt(n_features)
    X, Y = [], []
    for _ in range(n):
        f = rng.random((len(steps), n_features))
        exact = f @ costs
        paid = exact + noise * exact.std() * rng.normal(size=len(steps))
        X.append({
            "place": np.zeros((side * side, 1)), "e": steps, "f": -f / longest,
            "start": np.array([0.0]), "goal": np.array([side * side - 1.0]),
        })  # fmt: skip
        Y.append(_cheapest(steps, paid, side * side))
    return X, Y


def _cheapest(steps: I64, costs: F64, n_squares: int) -> I64:
    """Return 1 for the steps of the cheapest walk; steps come in the order of the squares that they leave."""
    best, last = np.full(n_squares, np.inf), np.full(n_squares, -1)
    best[0] = 0.0
    for k, (a, b) in enumerate(steps.tolist()):
        if best[a] + costs[k] < best[b]:
            best[b], last[b] = best[a] + costs[k], k
    found, at = np.zeros(len(steps), np.int64), n_squares - 1
    while at:
        found[last[at]] = 1
        at = int(steps[last[at], 0])
    return found
