"""Compiled: the planes that examples keep, as vectors of all weights (for few weights)."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64
from ssvm_dsl.kernels import FlatMaps, borrow, njit
from ssvm_trainers.planes.cache import Cache
from ssvm_trainers.planes.fractional_kernels import Entries, FractionalWorkspace, Metric, Store, add_plane, move
from ssvm_trainers.shared.arrays import Fixed, Parts, Work
from ssvm_trainers.shared.products import collect_parts, move_parts


@njit(cache=True, nogil=True)
def plane_rows(maps: FlatMaps, fixed: Fixed, cache: Cache, work: Work, parts: Parts, out: F64) -> None:
    """Add ``psi_ik`` of every cached labelling, example by example, to the rows of ``out``."""
    maps, fixed, cache, work, parts = borrow(maps), borrow(fixed), borrow(cache), borrow(work), borrow(parts)
    row = 0
    for i in range(len(cache.n_planes)):
        n = np.int64(cache.n_planes[i])
        at = (cache.alpha.shape[1] + 1) * fixed.var_ptr[i]
        n_factors, n_parts = collect_parts(maps, fixed, i, cache.labels, at, n, parts)
        for k in range(n):
            work.unit[k] = 1.0
            psi = out[row]
            move_parts(maps, fixed, parts, n_factors, n_parts, n, work.ones, work.unbounded, work.unit, psi, psi)
            work.unit[k] = 0.0
            row += 1


@njit(cache=True, nogil=True)
def fractional_rows(
    maps: FlatMaps, entries: Entries, fixed: Metric, store: Store, space: FractionalWorkspace, out: F64
) -> None:
    """Add ``psi_ik`` of every kept fractional labelling, example by example, to the rows of ``out``."""
    row = 0
    for i in range(len(store.n_planes)):
        for k in range(store.n_planes[i]):
            space.delta[: entries.ptr[i + 1] - entries.ptr[i]] = 0.0
            add_plane(entries, store, i, k, np.float64(1.0), space.delta)
            psi = out[row]
            move(maps, entries, space.ones, space.unbounded, fixed.lower, i, space.delta, psi, psi, np.bool_(False))
            row += 1
