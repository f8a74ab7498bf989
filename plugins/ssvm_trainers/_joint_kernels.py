"""Compiled: the planes that examples keep, as vectors of all weights (for few weights)."""

from __future__ import annotations

import numpy as np
from numba import njit

from ssvm_dsl.ir.borrow import borrow
from ssvm_dsl.ir.flat import FlatMaps
from ssvm_trainers._fractional_kernels import Entries, Metric, Room, Store, add_plane, move
from ssvm_trainers._plane_arrays import F64, Cache, Fixed, Parts, Work
from ssvm_trainers._plane_products import collect_parts, move_parts


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
def fractional_rows(maps: FlatMaps, entries: Entries, fixed: Metric, store: Store, room: Room, out: F64) -> None:
    """Add ``psi_ik`` of every kept fractional labelling, example by example, to the rows of ``out``."""
    row = 0
    for i in range(len(store.n_planes)):
        for k in range(store.n_planes[i]):
            room.delta[: entries.ptr[i + 1] - entries.ptr[i]] = 0.0
            add_plane(entries, store, i, k, np.float64(1.0), room.delta)
            psi = out[row]
            move(maps, entries, room.ones, room.unbounded, fixed.lower, i, room.delta, psi, psi, np.bool_(False))
            row += 1
