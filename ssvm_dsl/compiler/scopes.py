"""Lay a target's pattern over all examples at once: the scope of every factor, without a loop over examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.validate import Examples
from ssvm_dsl.ir.ragged import members, owners, pointers, runs
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.labels import Label
from ssvm_dsl.lang.relations import Target, union_axes

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scopes:
    """The factors of one template over all examples.

    Parameters
    ----------
    variables : ndarray of int32, shape (n, r)
        Scope of each factor.
    ptr : ndarray of int64, shape (B + 1,)
        Factors of each example.
    axes : tuple of Dim
        Axes on which a factor has a position.
    place : ndarray of int64, shape (n,)
        Flat position of each factor on those axes.
    number : ndarray of int64, shape (n,)
        Number of each factor in its example's full list.
    """

    variables: I32
    ptr: I64
    axes: tuple[Dim, ...]
    place: I64
    number: I64

    @classmethod
    def of(cls, variables: NDArray[Any], counts: I64, axes: tuple[Dim, ...], place: I64 | None = None) -> Scopes:
        """Return scopes; without ``place`` factors are at all positions in order (at the only one without axes)."""
        number = runs(np.zeros(len(counts), np.int64), counts)
        if place is None:
            place = number if axes else np.zeros_like(number)
        return cls(variables.astype(np.int32), pointers(counts), axes, place, number)

    def keep(self, wanted: NDArray[np.bool_]) -> Scopes:
        """Return only the wanted factors."""
        counts = np.bincount(owners(self.ptr)[wanted], minlength=len(self.ptr) - 1)
        return Scopes(self.variables[wanted], pointers(counts), self.axes, self.place[wanted], self.number[wanted])

    def position(self, dims: tuple[Dim, ...], sizes: dict[str, I64]) -> I64:
        """Return each factor's flat position on some of the axes; ``shape (n,)``."""
        if dims == self.axes:
            return self.place
        owner = owners(self.ptr)
        flat = np.zeros(len(owner), dtype=np.int64)
        for dim in dims:
            flat = flat * sizes[dim.name][owner] + self._coordinate(dim, sizes, owner)
        return flat

    def _coordinate(self, dim: Dim, sizes: dict[str, I64], owner: I64) -> I64:
        stride = np.ones(len(self.ptr) - 1, dtype=np.int64)
        for axis in reversed(self.axes):
            if axis.name == dim.name:
                break
            stride = stride * sizes[axis.name]
        return np.asarray((self.place // stride[owner]) % sizes[dim.name][owner])


def lay(target: Target, layout: Layout, examples: Examples) -> Scopes:
    """Return the scopes of a target over all examples."""
    return _LAYERS[target.kind](target, layout, examples)


def _each(target: Target, layout: Layout, examples: Examples) -> Scopes:
    counts = layout.count(target.label)
    variables = runs(layout.start(target.label), counts)
    return Scopes.of(variables[:, None], counts, target.label.dims)


def _chain(target: Target, layout: Layout, examples: Examples) -> Scopes:
    counts = np.maximum(layout.count(target.label) - target.order, 0)
    first = runs(layout.start(target.label), counts)
    last = runs(np.full(layout.n, target.order, dtype=np.int64), counts)
    return Scopes.of(first[:, None] + np.arange(target.order + 1), counts, target.label.dims, last)


def _pairs(target: Target, layout: Layout, examples: Examples) -> Scopes:
    assert target.axis is not None
    return _along_axis(target.label, target.axis, layout)


def _along_axis(label: Label, axis: Dim, layout: Layout) -> Scopes:
    """Join neighbours along one axis: for each position on the axes before it, one run of starts."""
    k = [dim.name for dim in label.dims].index(axis.name)
    outer, inner = np.ones((2, layout.n), dtype=np.int64)
    for dim in label.dims[:k]:
        outer = outer * layout.sizes[dim.name]
    for dim in label.dims[k + 1 :]:
        inner = inner * layout.sizes[dim.name]
    size = layout.sizes[axis.name]
    owner = np.repeat(np.arange(layout.n), outer)
    block = runs(np.zeros(layout.n, np.int64), outer) * (size * inner)[owner]
    length = (np.maximum(size - 1, 0) * inner)[owner]
    start = layout.start(label)
    first = runs(start[owner] + block, length)
    second = first + np.repeat(inner[owner], length)
    counts = outer * np.maximum(size - 1, 0) * inner
    place = second - np.repeat(start, counts)
    return Scopes.of(np.stack([first, second], axis=1), counts, label.dims, place)


def _grid(target: Target, layout: Layout, examples: Examples) -> Scopes:
    parts = [_along_axis(target.label, dim, layout) for dim in target.label.dims]
    owner = np.concatenate([owners(part.ptr) for part in parts])
    order = np.argsort(owner, kind="stable")
    variables = np.concatenate([part.variables for part in parts])[order]
    place = np.concatenate([part.place for part in parts])[order]
    counts = np.sum([np.diff(part.ptr) for part in parts], axis=0)
    return Scopes.of(variables, counts, target.label.dims, place)


def _complete(target: Target, layout: Layout, examples: Examples) -> Scopes:
    counts = layout.count(target.label)
    return _patterned(
        counts[:, None], layout.start(target.label)[:, None], lambda key: np.stack(np.triu_indices(key[0], 1), axis=1)
    )


def _cliques(target: Target, layout: Layout, examples: Examples) -> Scopes:
    sets = np.array(target.sets, dtype=np.int64)
    return _patterned(np.zeros((layout.n, 1), np.int64), layout.start(target.label)[:, None], lambda key: sets)


def _cross(target: Target, layout: Layout, examples: Examples) -> Scopes:
    axes = union_axes(*target.labels)
    shapes = np.stack([layout.sizes[dim.name] for dim in axes] or [np.ones(layout.n, np.int64)], axis=1)
    starts = np.stack([layout.start(label) for label in target.labels], axis=1)

    def pattern(shape: tuple[int, ...]) -> I64:
        grid = np.indices(shape).reshape(len(shape), -1)
        names = [dim.name for dim in axes]
        columns = []
        for label in target.labels:
            at = [names.index(dim.name) for dim in label.dims]
            sizes = tuple(shape[k] for k in at)
            columns.append(np.ravel_multi_index(tuple(grid[at]), sizes) if at else np.zeros(grid.shape[1], int))
        return np.stack(columns, axis=1)

    return _patterned(shapes, starts, pattern, axes)


def _patterned(
    keys: I64, starts: I64, pattern: Callable[[tuple[int, ...]], NDArray[Any]], axes: tuple[Dim, ...] = ()
) -> Scopes:
    """Lay a local pattern over each example; examples with equal keys share it."""
    kinds, kind_of = np.unique(keys, axis=0, return_inverse=True)
    kind_of = kind_of.ravel()
    locals_ = [pattern(tuple(key.tolist())) for key in kinds]
    counts = np.array([len(local) for local in locals_], dtype=np.int64)[kind_of]
    ptr = pointers(counts)
    variables = np.empty((int(ptr[-1]), locals_[0].shape[1]), dtype=np.int32)
    for k, local in enumerate(locals_):
        mine = np.flatnonzero(kind_of == k)
        laid = local[None] + starts[mine][:, None, :]
        variables[members(ptr, mine)] = laid.reshape(-1, local.shape[1])
    return Scopes.of(variables, counts, axes)


def _along(target: Target, layout: Layout, examples: Examples) -> Scopes:
    assert target.edges is not None
    lists = examples.raw[target.edges.name]
    counts = np.array([len(edges) for edges in lists], dtype=np.int64)
    start = np.repeat(layout.start(target.label), counts)
    return Scopes.of(np.concatenate(lists) + start[:, None], counts, (target.edges.dim,))


_LAYERS: dict[str, Callable[[Target, Layout, Examples], Scopes]] = {
    "each": _each,
    "indicator": _each,
    "chain": _chain,
    "pairs": _pairs,
    "grid": _grid,
    "complete": _complete,
    "cliques": _cliques,
    "cross": _cross,
    "along": _along,
}
