"""Seeded data for training by counting (Gaertner and Vembu 2009, section 4): the identity, and cyclic tours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64, I64


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
