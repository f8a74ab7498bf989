"""Input of the steps on single factors: the factors of each shape of an example, and the curvature of the dual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I64, FeatureMap, Program, SparseRows, bounded_slices, members, owners, pointers
from ssvm_dsl.plugin_api import TrainProblem
from ssvm_trainers.planes.factors.records import Curvature, Factors
from ssvm_trainers.shared.spaces import map_scales

#: Number of factors that are rounded together.
CHUNK = 2**18


class Listing(NamedTuple):
    """The factors of one example of each shape, in the order of their examples.

    Parameters
    ----------
    few : Program
        One example of each shape.
    place : list of ndarray of int64
        For each group, where its factors are among those of its shapes.
    order : ndarray of int64, shape (m,)
        The factors of all groups, one group after the other, in the order of their examples.
    """

    few: Program
    place: list[I64]
    order: I64


def list_shapes(program: Program) -> Listing:
    """Return the factors of one example of each shape."""
    few = program.representatives
    owner = _joined([owners(group.ptr) for group in few.groups])
    place = [members(group.shapes.start, group.shapes.of) for group in few.groups]
    return Listing(few, place, np.argsort(owner, kind="stable"))


def own_tables(problem: TrainProblem) -> dict[int, int]:
    """Return the groups, with their map, whose tables are weights: their scores have no other terms."""
    maps = problem.parameters.maps
    plain = {
        fmap.group: m for m, fmap in enumerate(maps)
        if fmap.features is None and fmap.basis is None and not fmap.joint and fmap.block.lower_bound == -np.inf
    }  # fmt: skip
    return {g: m for g, m in plain.items() if g >= 0 and sum(fmap.group == g for fmap in maps) == 1}


def list_factors(problem: TrainProblem, listing: Listing, own: dict[int, int]) -> Factors:
    """Return the factors and where their numbers are; ``own`` as of :func:`own_tables`."""
    program, maps, (few, place, order) = problem.parameters.program, problem.parameters.maps, listing
    groups, scales = program.groups, map_scales(problem)
    n_configs = np.array([g.n_configs for g in groups], dtype=np.int64)
    width = np.array([sum(g.cards) for g in groups], dtype=np.int64)
    kind, number, table, slot, weights, n_slots = [], [], [], [], [], 0
    for k, (group, at) in enumerate(zip(groups, place, strict=True)):
        kind.append(np.full(len(at), k))
        number.append(np.arange(len(at)) - np.repeat(few.groups[k].ptr[:-1], few.groups[k].shapes.counts))
        table.append(group.rows[at])
        slot.append(n_slots + np.arange(len(at)) * group.arity)
        n_slots += len(at) * group.arity
        weights.append(np.full(len(at), -1))
        if k in own:
            units = maps[own[k]].units
            weights[k][:] = maps[own[k]].block.offset
            weights[k] += 0 if units is None else units[at].astype(np.int64) * group.n_configs
    of = _joined(kind)[order]
    sent, start = pointers(width[of]), pointers(_counts(few))
    shape = program.shape if few is not program else np.arange(problem.n, dtype=np.int32)
    corners, corner_at = _corners(program)
    return Factors(
        shape=shape,
        start=start,
        group=of,
        table=_joined(table)[order] * n_configs[of],
        mu=_joined(number)[order] * n_configs[of],
        message=sent[:-1] - np.repeat(sent[start[:-1]], np.diff(start)),
        table_at=_bases(program, 0, [(g.n_tables, g.table_base) for g in groups]),
        mu_at=_bases(program, program.n_states, [(g.n_factors, g.ptr[:-1]) for g in groups]),
        message_at=pointers(np.diff(sent[start])[shape]),
        own=_joined(weights)[order],
        slot=_joined(slot)[order],
        variable=_joined([g.shapes.scope[at].ravel() for g, at in zip(groups, place, strict=True)]).astype(np.int32),
        degree=_degrees(program, few),
        arity=np.array([g.arity for g in groups], dtype=np.int64),
        n_configs=n_configs,
        width=width,
        rate=np.array([1.0 / scales[own[k]] if k in own else 0.0 for k in range(len(groups))]),
        place_at=corner_at,
        place=corners,
    )


def _bases(program: Program, first: int, parts: Sequence[tuple[int, I64]]) -> I64:
    """Return where the rows of each group start for each example, ``shape (n, G)``, in a vector of rows by group.

    Parameters
    ----------
    first : int
        Where the vector's first group starts.
    parts : sequence of (int, ndarray of int64, shape (n,))
        Rows of each group, and the first row of each example.
    """
    out = np.zeros((program.n_examples, len(parts)), dtype=np.int64)
    for k, (group, (n_rows, base)) in enumerate(zip(program.groups, parts, strict=True)):
        out[:, k] = first + base * group.n_configs
        first += n_rows * group.n_configs
    return out


def _counts(program: Program) -> I64:
    """Return the number of factors of each example."""
    return sum((group.shapes.counts for group in program.groups), np.zeros(program.n_examples, dtype=np.int64))


def _corners(program: Program) -> tuple[I64, I64]:
    """Return for each joint state and slot of a group its place among the states of all slots; where groups start."""
    out = []
    for group in program.groups:
        first = pointers(np.array(group.cards, dtype=np.int64))[:-1]
        out.append((np.indices(group.cards).reshape(group.arity, -1).T + first).ravel())
    return _joined(out), pointers(np.array([len(part) for part in out], dtype=np.int64))[:-1]


def _degrees(program: Program, few: Program) -> F64:
    """Return the number of slots of each variable."""
    out = np.zeros(few.n_variables)
    for group in few.groups:
        out += np.bincount(group.shapes.variables().ravel(), minlength=few.n_variables)
    return out if few is program else out[members(few.var_ptr, program.shape)]


def _joined(parts: Sequence[NDArray[np.integer[Any]]]) -> I64:
    """Return arrays of integers one after the other; there may be none."""
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)


def chunks_of(factors: Factors) -> list[tuple[int, int]]:
    """Return ranges of examples whose factors are few enough to be copied."""
    parts = bounded_slices(np.diff(factors.start)[factors.shape], CHUNK)
    return [(part.start, part.stop) for part in parts]


# -- curvature -----------------------------------------------------------------------------------------------


def together(fmap: FeatureMap) -> I64:
    """Return for each factor of the shapes how many of its shape, itself included, have the same weights."""
    shapes = fmap.shapes
    owner = owners(shapes.start)
    if fmap.units is None:
        return np.diff(shapes.start)[owner]
    key, most = owner * max(fmap.n_units, 1) + fmap.units, len(shapes.start) * max(fmap.n_units, 1)
    if most > 8 * len(key):  # too many to count each
        key = np.unique(key, return_inverse=True)[1]
    return np.asarray(np.bincount(key)[key], dtype=np.int64)


def squared_norms(fmap: FeatureMap) -> F64:
    """Return for each row of features a squared bound of its stretch of marginals in the joint feature map.

    Without features there is one row; features that depend on the joint state have a row for each factor.
    """
    rows: F64 = np.ones(1)
    if isinstance(fmap.features, SparseRows):
        squares = fmap.features.data**2
        rows = np.asarray(np.bincount(owners(fmap.features.ptr), squares, fmap.features.shape[0]), dtype=np.float64)
    elif fmap.features is not None:
        dense = fmap.features[:]
        rows = np.einsum("rp,rp->r", dense, dense)
    if fmap.joint:
        rows = rows.reshape(-1, fmap.n_configs).sum(axis=1)
    form = 1.0 if fmap.basis is None else float(np.linalg.norm(fmap.basis, 2)) ** 2
    return form * rows


def curvature_of(problem: TrainProblem, listing: Listing, factors: Factors) -> Curvature:
    """Return the curvature of the dual along the marginals of each variable and each factor.

    Examples of one shape share the numbers of their factors where no factor of two variables or more has features.
    """
    parameters, metric, everyone = problem.parameters, 1.0 / map_scales(problem), np.arange(problem.n)
    program, node = parameters.program, np.zeros(parameters.program.n_variables)
    shared = all(fmap.features is None for fmap in parameters.maps if fmap.group >= 0)
    sizes = [len(at) if shared else g.n_factors for at, g in zip(listing.place, program.groups, strict=True)]
    by_group = [np.zeros(n) for n in sizes]
    for m, fmap in enumerate(parameters.maps):
        amount, norms = metric[m] * together(fmap), squared_norms(fmap)
        if fmap.group >= 0 and shared:
            by_group[fmap.group] += (amount * norms)[listing.place[fmap.group]]
            continue
        for part in fmap.shapes.chunks(everyone):
            ids = everyone[part]
            values = fmap.shapes.spread(amount, None, ids)
            values = values * (norms if fmap.features is None else norms[fmap.rows_of(ids)])
            if fmap.group < 0:
                np.add.at(node, fmap.shapes.variables(ids)[:, 0], values)
            else:
                by_group[fmap.group][fmap.ptr[part.start] : fmap.ptr[part.stop]] += values
    if shared:
        return Curvature(node, np.concatenate([*by_group, np.zeros(0)])[listing.order], np.zeros(problem.n, np.int64))
    order = np.argsort(_joined([owners(group.ptr) for group in program.groups]), kind="stable")
    at = pointers(_counts(program))[:-1] - factors.start[factors.shape]
    return Curvature(node, np.concatenate([*by_group, np.zeros(0)])[order], at)
