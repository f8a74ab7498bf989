"""Seeded generators of the two-state sequences in the thesis of Iglesias Garcia (2013), sections 4.1 and 4.2."""

from __future__ import annotations

from dataclasses import dataclass

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
