"""Seeded generators of small structured problems with a known truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64, I64


def make_chains(
    n: int = 50,
    n_states: int = 3,
    n_features: int = 5,
    *,
    length: tuple[int, int] = (3, 12),
    stay: float = 0.7,
    noise: float = 1.0,
    random_state: int | np.random.Generator = 0,
) -> tuple[list[F64], list[I64]]:
    """Return sequences of a hidden Markov chain with Gaussian observations.

    The state stays with probability ``stay``, else moves to one of the others, all equally likely; the
    observation is the mean of the state (drawn once from a standard normal) plus noise.

    Parameters
    ----------
    n : int
        Number of sequences.
    n_states, n_features : int
    length : (int, int)
        Shortest (at least 1) and longest length.
    stay : float
        Probability that the next state is the same.
    noise : float
        Standard deviation of the observations around their mean.
    random_state : int or Generator

    Returns
    -------
    X : list of ndarray, shape (T, n_features)
    Y : list of ndarray of int64, shape (T,)
    """
    rng = np.random.default_rng(random_state)
    means = rng.normal(size=(n_states, n_features))
    X, Y = [], []
    for size in rng.integers(length[0], length[1] + 1, size=n):
        moves = rng.integers(1, max(n_states, 2), size=size) * (rng.random(size) >= stay)
        moves[0] = rng.integers(n_states)
        states = np.cumsum(moves) % n_states
        X.append(means[states] + noise * rng.normal(size=(size, n_features)))
        Y.append(states)
    return X, Y


def make_stripes(
    n: int = 20,
    shape: tuple[int, int] = (12, 12),
    n_states: int = 3,
    *,
    noise: float = 0.5,
    vertical: bool = False,
    permuted: bool = False,
    wander: float = 1 / 3,
    random_state: int | np.random.Generator = 0,
) -> tuple[list[F64], list[I64]]:
    """Return images of stripes, one for each state, seen through noisy channels.

    Channel k of a pixel is 1 where the state is k and 0 elsewhere, plus noise.  The images of the thesis of
    Iglesias Garcia (section 4.3, B.1) are ``vertical=True, permuted=True, wander=0``.

    Parameters
    ----------
    n : int
        Number of images.
    shape : (int, int)
        Height and width in pixels; with ``3 * n_states`` or more across the stripes every stripe is there.
    n_states : int
        Number of stripes, and of channels.
    noise : float
        Standard deviation.
    vertical : bool
        Stripes run from top to bottom, side by side.
    permuted : bool
        Each image has its own random order of the states; otherwise the order is that of their numbers.
    wander : float
        By what share of a stripe the borders move from image to image, at most.
    random_state : int or Generator

    Returns
    -------
    X : list of ndarray, shape (H, W, n_states)
    Y : list of ndarray of int64, shape (H, W)
    """
    rng = np.random.default_rng(random_state)
    across, along = shape[::-1] if vertical else shape
    X, Y = [], []
    for _ in range(n):
        shift = rng.uniform(-wander, wander, size=n_states - 1)
        borders = (np.arange(1, n_states) + shift) * across / n_states
        rows = np.searchsorted(borders, np.arange(across) + 0.5)
        if permuted:
            rows = rng.permutation(n_states)[rows]
        states = np.repeat(rows[:, None], along, axis=1).astype(np.int64)
        states = np.ascontiguousarray(states.T) if vertical else states
        X.append(np.eye(n_states)[states] + noise * rng.normal(size=(*states.shape, n_states)))
        Y.append(states)
    return X, Y


# -- data for training by counting ---------------------------------------------------------------------------------
#
# Seeded data for training by counting (Gaertner and Vembu 2009, section 4): the identity, and cyclic tours.


def make_identity(
    n: int = 500, n_labels: int = 5, *, random_state: int | np.random.Generator = 0
) -> tuple[F64, I64]:
    """Return random vectors of 0 and 1 whose labels are the vectors themselves (section 4.1).

    Parameters
    ----------
    n, n_labels : int
    random_state : int or Generator

    Returns
    -------
    X : ndarray of float64, shape (n, n_labels)
    Y : ndarray of int64, shape (n, n_labels)
    """
    Y = np.random.default_rng(random_state).integers(0, 2, size=(n, n_labels))
    return Y.astype(np.float64), Y


class Tours(NamedTuple):
    """Tours with their hidden policies: ``X, Y, policies = make_tours()``.

    Parameters
    ----------
    X : ndarray of float64, shape (n, n_policies)
        Shares of the hidden policies.
    Y : list of tuple of int
        A directed cycle for each, as its nodes in order.
    policies : ndarray of float64, shape (n, n_nodes (n_nodes - 1) / 2)
        What a step from u to v, u < v, earns, and a step back costs: the scores that
        :class:`~ssvm_dsl.Dicycles` decodes.
    """

    X: F64
    Y: list[tuple[int, ...]]
    policies: F64


def make_tours(
    n: int = 200, n_policies: int = 15, n_nodes: int = 10, *, random_state: int | np.random.Generator = 0
) -> Tours:
    """Return people who each take a cyclic tour that earns much under a hidden policy (section 4.2).

    ``n_policies`` antisymmetric matrices A have entries between -1 and 1, inputs x entries between 0 and 1, all
    uniform; the policy of x is ``sum_j x_j A_j``, and its tour the one that the approximate decoder of
    :class:`~ssvm_dsl.Dicycles` finds.

    Parameters
    ----------
    n, n_policies, n_nodes : int
    random_state : int or Generator
    """
    from ssvm_dsl.learning.counting.outputs.dicycles import Dicycles

    rng, space = np.random.default_rng(random_state), Dicycles(n_nodes)
    matrices = rng.uniform(-1.0, 1.0, size=(n_policies, space.n_features))
    X = rng.uniform(size=(n, n_policies))
    policies = X @ matrices
    return Tours(X, space.decode(policies), policies)
