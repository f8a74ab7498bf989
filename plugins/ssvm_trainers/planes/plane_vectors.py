"""Planes as vectors over all weights, which are fast where there are few weights: dot products and steps are sweeps."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32
from ssvm_dsl.kernels import borrow, njit
from ssvm_trainers.planes.cache import Cache, DensePlanes
from ssvm_trainers.shared.arrays import Fixed, Work
from ssvm_trainers.shared.products import PART_WORK, collect_parts, move_parts, shrunk


@njit(cache=True, nogil=True, borrowed=True)
def plane_vector(fixed: Fixed, work: Work, i: int, labels: I32, at: int, out: F64) -> None:
    """Write ``psi`` of the labelling of example i that starts at ``labels[at]`` to ``out``."""
    out[:] = 0.0
    collected = collect_parts(fixed, i, labels, at, np.int64(1), work.parts)
    work.unit[0] = 1.0
    move_parts(fixed, work.parts, collected, work.ones, work.unbounded, work.unit, out, out)
    work.unit[0] = 0.0
    work.counter[0] += collected.n_parts * PART_WORK


@njit(cache=True, nogil=True, borrowed=True)
def fill_vectors(fixed: Fixed, cache: Cache, work: Work) -> None:
    """Write ``psi`` of all cached planes to ``cache.dense``."""
    fixed, cache, work = borrow(fixed), borrow(cache), borrow(work)
    for i in range(len(cache.n_planes)):
        size = fixed.var_ptr[i + 1] - fixed.var_ptr[i]
        at = (cache.alpha.shape[1] + 1) * fixed.var_ptr[i]
        for k in range(cache.n_planes[i]):
            plane_vector(fixed, work, i, cache.labels, at + k * size, cache.dense.psi[i, k])


@njit(cache=True, nogil=True, borrowed=True)
def vector_dots(psi: F64, n: int, w: F64, out: F64) -> int:
    """Write ``w . psi_k`` of the first n rows; return the multiply-adds."""
    for k in range(n):
        total = 0.0
        for j in range(len(w)):
            total += psi[k, j] * w[j]
        out[k] = total
    return n * len(w)


@njit(cache=True, nogil=True, borrowed=True)
def move_vectors(dense: DensePlanes, i: int, n: int, delta: F64, threshold: float, w: F64, free: F64) -> None:
    """Add ``metric sum_k delta_k psi_k`` of example i to the free weights, and shrink them.

    Parameters
    ----------
    dense : DensePlanes
        Read only.
    i : int
        The example.
    n : int
        Number of planes.
    delta : ndarray of float64, shape (n or more,)
        The change of the dual weight of each plane.
    threshold : float
        Of the L1 penalty.
    w, free : ndarray of float64, shape (dim,)
        The weights and the free weights; changed in place.
    """
    for k in range(n):
        if delta[k] != 0.0:
            for j in range(len(w)):
                free[j] += delta[k] * dense.metric[j] * dense.psi[i, k, j]
    for j in range(len(w)):
        w[j] = shrunk(free[j], dense.lower[j], threshold)
