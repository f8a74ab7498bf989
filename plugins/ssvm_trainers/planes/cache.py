"""The cached planes of block-coordinate methods, as kernels read them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I32

#: Planes are kept as vectors up to this number of weights, and up to this number of entries in all (256 MiB).
MOST_WEIGHTS, MOST_NUMBERS = 256, 1 << 25


class DensePlanes(NamedTuple):
    """Planes as vectors of all weights, where there are few; arrays of no weights elsewhere.

    Parameters
    ----------
    psi : ndarray of float64, shape (n, K + 1, dim)
        One place of each example is spare.
    metric, lower : ndarray of float64, shape (dim,)
        ``1 / scale`` and lower bound of each weight.
    """

    psi: F64
    metric: F64
    lower: F64


class Cache(NamedTuple):
    """Planes of every example; K is the capacity.

    Parameters
    ----------
    n_planes : ndarray of int32, shape (n,)
    alpha, loss : ndarray of float64, shape (n, K)
        Dual weight (the truth's is ``1 - sum``) and loss of each plane.
    gram : ndarray of float64, shape (n, K, K)
        ``psi_k . psi_l`` in the metric of the regulariser.
    age : ndarray of int32, shape (n, K)
        Iteration in which the plane last had weight.
    labels : ndarray of int32, shape ((K + 1) * V,)
        Example i's labellings one after the other from ``(K + 1) * var_ptr[i]``; one place is spare.
    dense : DensePlanes
        The same planes as vectors.
    """

    n_planes: I32
    alpha: F64
    loss: F64
    gram: F64
    age: I32
    labels: I32
    dense: DensePlanes


class CachedPlanes(Protocol):
    """Planes of every example; K is the capacity.

    Parameters
    ----------
    n_planes : ndarray of int, shape (n,)
    alpha, loss : ndarray of float64, shape (n, K)
    """

    @property
    def n_planes(self) -> NDArray[Any]:
        """Number of planes of each example."""

    @property
    def alpha(self) -> F64:
        """Dual weights."""

    @property
    def loss(self) -> F64:
        """Losses."""


def places(planes: CachedPlanes) -> NDArray[np.bool_]:
    """Return where planes are kept; ``shape (n, K)``."""
    return np.arange(planes.alpha.shape[1]) < planes.n_planes[:, None]
