"""The cached planes of block-coordinate methods, as kernels read them."""

from __future__ import annotations

from typing import NamedTuple

from ssvm_dsl.ir import F64, I32


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
    """

    n_planes: I32
    alpha: F64
    loss: F64
    gram: F64
    age: I32
    labels: I32
