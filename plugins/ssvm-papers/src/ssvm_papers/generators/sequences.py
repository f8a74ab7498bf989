"""Seeded generators of two-state sequences (Iglesias Garcia 2013, sections 4.1, 4.2), of walks, of sets of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.ir import F64, I64


@dataclass(frozen=True, eq=False)
class GaussianHMM:
    """A hidden Markov model with independent Gaussian features, and the weights of the equivalent linear model.

    Parameters
    ----------
    start : ndarray, shape (S,)
        Probability of each first state.
    transitions : ndarray, shape (S, S)
        Probability of each next state; rows sum to 1.
    means, variances : ndarray, shape (S, d)
        Of each feature, given the state.
    """

    start: F64
    transitions: F64
    means: F64
    variances: F64

    def emission_weights(self) -> tuple[F64, F64]:
        """Return weights of the features ``(x, x^2)`` and of the state alone whose sum is ``log p(x | state)``.

        ``log p(x | s) = sum_f [-(x_f - m)^2 / (2 v) - log(2 pi v) / 2]``, written out in powers of ``x_f``.

        Returns
        -------
        weights : ndarray, shape (S, 2 d)
            Of the features, then of their squares.
        prior : ndarray, shape (S,)
        """
        weights = np.concatenate([self.means / self.variances, -0.5 / self.variances], axis=1)
        prior = -0.5 * (self.means**2 / self.variances + np.log(2 * np.pi * self.variances)).sum(axis=1)
        return weights, prior


def make_gaussian_hmm(
    n: int = 200,
    length: int = 250,
    n_features: int = 10,
    *,
    stay: tuple[float, float] = (0.9, 0.99),
    variances: tuple[float, float] = (0.0, 1.0),
    random_state: int | np.random.Generator = 0,
) -> tuple[list[F64], list[I64], GaussianHMM]:
    """Return sequences of a two-state hidden Markov model with Gaussian features, and the model.

    Dataset 1 of the thesis (section 4.1): features have mean 1 in state 1 and -1 in state 0, and a variance of their
    own for each state.  The thesis says that the probability to stay is "considerably larger" than that to move; here
    it is drawn between the numbers of ``stay``, for each state.

    Parameters
    ----------
    n : int
        Number of sequences.
    length : int
    n_features : int
    stay : (float, float)
        Between what numbers the probability to stay is drawn.
    variances : (float, float)
        Between what numbers variances are drawn.
    random_state : int or Generator

    Returns
    -------
    X : list of ndarray, shape (length, n_features)
    Y : list of ndarray of int64, shape (length,)
        0 and 1.
    model : GaussianHMM
    """
    rng = np.random.default_rng(random_state)
    staying = rng.uniform(*stay, size=2)
    transitions = np.diag(staying) + np.diag(1.0 - staying)[:, ::-1]
    spread = np.maximum(rng.uniform(*variances, size=(2, n_features)), np.finfo(float).tiny)
    model = GaussianHMM(np.full(2, 0.5), transitions, np.outer([-1.0, 1.0], np.ones(n_features)), spread)
    X, Y = [], []
    for _ in range(n):
        leaves = rng.random(length)
        states = np.zeros(length, dtype=np.int64)
        state = int(rng.integers(2))
        for t in range(length):
            if t and leaves[t] >= staying[state]:
                state = 1 - state
            states[t] = state
        X.append(model.means[states] + np.sqrt(spread[states]) * rng.normal(size=(length, n_features)))
        Y.append(states)
    return X, Y, model


def make_blocks(
    n: int = 200,
    length: int = 250,
    n_features: int = 10,
    *,
    distortion: float = 0.0,
    noise: float = 4.0,
    n_noise_features: int = 0,
    n_blocks: tuple[int, int] = (1, 5),
    block_length: tuple[int, int] = (10, 100),
    random_state: int | np.random.Generator = 0,
) -> tuple[list[F64], list[I64]]:
    """Return sequences with blocks of state 1 in state 0, seen through distorted and noisy features.

    Dataset 2 of the thesis (section 4.2), drawn as listing B.2 draws: for each feature a share of all positions, drawn
    over all sequences together, shows the other state; a feature is 1 or -1 plus noise.  Limits are those that the
    listing is given.  Because of its ``ceil(d * rand) - 1`` and of both ends of ``rp:rp+rl`` it draws one block less
    than the upper limit at most, and blocks one position longer than the lower limit at least.  Limits are not in the
    thesis; these are the ones whose results fit the published ones.

    Parameters
    ----------
    n : int
        Number of sequences.
    length, n_features : int
    distortion : float
        Share of positions that show the other state, 0 .. 1, drawn for each feature.
    noise : float
        Standard deviation.
    n_noise_features : int
        Features, the last ones, that are noise of the same standard deviation and nothing else.
    n_blocks : (int, int)
        There are ``low .. high - 1`` blocks in a sequence, which may overlap.
    block_length : (int, int)
        A block has ``low + 1 .. high`` positions, at most ``length``.
    random_state : int or Generator

    Returns
    -------
    X : list of ndarray, shape (length, n_features)
    Y : list of ndarray of int64, shape (length,)
        0 and 1.
    """
    rng = np.random.default_rng(random_state)
    states = np.zeros((n, length), dtype=np.int64)
    for row in states:
        for _ in range(rng.integers(*n_blocks)):
            size = min(int(rng.integers(*block_length)) + 1, length)
            first = int(rng.integers(length - size + 1))
            row[first : first + size] = 1
    features = np.zeros((n * length, n_features))
    for f in range(n_features - n_noise_features):
        shown = states.ravel().copy()
        wrong = rng.permutation(len(shown))[: round(distortion * len(shown))]
        shown[wrong] = 1 - shown[wrong]
        features[:, f] = 2.0 * shown - 1.0
    features += noise * rng.normal(size=features.shape)
    return list(features.reshape(n, length, n_features)), list(states)


# -- Walks over squares, right and down, the cheapest ones by hidden costs: planning without cycles ------------------


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
    path, at = np.zeros(len(steps), np.int64), n_squares - 1
    while at:
        path[last[at]] = 1
        at = int(steps[last[at], 0])
    return path


# -- Labels of complete graphs, as Meshi et al. (2010) generated them ------------------------------------------------


def make_multilabel(
    n: int = 100,
    n_labels: int = 20,
    n_states: int = 4,
    *,
    sweeps: int = 20,
    random_state: int | np.random.Generator = 0,
) -> tuple[list[F64], list[I64]]:
    """Return examples of a complete graph of labels, labelled by iterated conditional modes.

    The set of Meshi et al. (2010), Figure 1d: label i sees one number x_i, with a weight for each of its states, and
    each pair of labels has a table.  All weights and numbers are standard normal; labels start at the best states
    alone and move one at a time to their best state given the others, until none moves.

    Parameters
    ----------
    n : int
        Number of examples.
    n_labels, n_states : int
    sweeps : int
        Most passes over the labels of an example.
    random_state : int or Generator

    Returns
    -------
    X : list of ndarray, shape (n_labels,)
    Y : list of ndarray of int64, shape (n_labels,)
    """
    rng = np.random.default_rng(random_state)
    weights = rng.normal(size=(n_labels, n_states))
    tables = rng.normal(size=(n_labels, n_labels, n_states, n_states))
    tables = np.triu(np.ones((n_labels, n_labels)), 1)[:, :, None, None] * tables
    tables += tables.transpose(1, 0, 3, 2)  # table [i, j] holds the scores of (y_i, y_j); none of i with itself
    everyone = np.arange(n_labels)
    X, Y = [], []
    for _ in range(n):
        x = rng.normal(size=n_labels)
        unary = weights * x[:, None]
        y = unary.argmax(axis=1)
        for _ in range(sweeps):
            before = y.copy()
            for i in range(n_labels):
                y[i] = (unary[i] + tables[i, everyone, :, y].sum(axis=0)).argmax()
            if (y == before).all():
                break
        X.append(x)
        Y.append(y.astype(np.int64))
    return X, Y
