"""The map from weights to scores as one sparse matrix, for solvers that need it written out.

:class:`~ssvm_dsl.plugin_api.ParameterMap` keeps it factored; here are its entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ssvm_dsl.ir import F64, I64, NODE, FeatureMap, SparseRows, pointers, runs
from ssvm_dsl.plugin_api import ParameterMap


def score_matrix(parameters: ParameterMap) -> Any:
    """Return ``Phi``: the scores are ``Phi w``.

    Returns
    -------
    csr_array, shape (n_states + n_pool, dim)
        Rows are the entries of a :class:`~ssvm_dsl.ir.Theta`: ``node``, then ``pool``.
    """
    program = parameters.program
    sizes = np.array([group.n_tables * group.n_configs for group in program.groups], dtype=np.int64)
    first = program.n_states + pointers(sizes)
    parts = [_entries(fmap, program.state_ptr, first) for fmap in parameters.maps]
    values, rows, columns = (np.concatenate([np.zeros(0), *part]) for part in zip(*parts, strict=True))
    shape = (int(first[-1]), parameters.dim)
    return csr_array((values, (rows.astype(np.int64), columns.astype(np.int64))), shape=shape)


def n_entries(parameters: ParameterMap) -> int:
    """Return how many entries the score of all columns of all factors have at most, without writing them out."""
    total = 0
    for fmap in parameters.maps:
        per_score: float = 1.0 if fmap.basis is None else float(np.count_nonzero(fmap.basis)) / fmap.n_configs
        if isinstance(fmap.features, SparseRows):
            per_score *= len(fmap.features.data) / max(len(fmap.features.ptr) - 1, 1)
        elif fmap.features is not None:
            per_score *= np.count_nonzero(fmap.features[:]) / max(fmap.features.shape[0], 1)
        total += int(fmap.n_factors * fmap.n_configs * per_score)
    return total


def _entries(fmap: FeatureMap, state_ptr: I64, first: I64) -> tuple[F64, I64, I64]:
    """Return (value, row, column) of each entry of one map."""
    start, feature_row, unit = _instances(fmap, state_ptr, first)
    places = np.arange(fmap.n_configs)
    if fmap.joint:  # a row of features for each joint state, one basis function
        feature_row = (feature_row[:, None] * fmap.n_configs + places).ravel()
        start, unit = (start[:, None] + places).ravel(), np.repeat(unit, fmap.n_configs)
        function, place, factor = np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1)
    elif fmap.basis is None:
        function, place, factor = places, places, np.ones(len(places))
    else:
        function, place = np.nonzero(fmap.basis)
        factor = fmap.basis[function, place]
    instance, feature, value = _feature_entries(fmap, feature_row)
    if fmap.observed is not None:  # a run of weights for each feature
        pairs = fmap.observed
        lengths = np.diff(pairs.ptr)[feature]
        pair, entry = runs(pairs.ptr[feature], lengths), np.repeat(np.arange(len(feature)), lengths)
        return value[entry], start[instance[entry]] + pairs.state[pair], fmap.block.offset + pair
    inner = feature[:, None] * fmap.n_basis + function if fmap.sparse else function * fmap.width + feature[:, None]
    weight = fmap.block.offset + unit[instance][:, None] * (fmap.n_basis * fmap.width) + inner
    return (value[:, None] * factor).ravel(), (start[instance][:, None] + place).ravel(), weight.ravel()


def _instances(fmap: FeatureMap, state_ptr: I64, first: I64) -> tuple[I64, I64, I64]:
    """Return for each row of scores that the map fills: where it starts, its row of features and its unit."""
    own = np.arange(fmap.n_factors)
    shared = fmap.group != NODE and not fmap.joint
    if shared and fmap.features is None:  # a table for each unit
        units = np.arange(fmap.n_units)
        return first[fmap.group] + units * fmap.n_configs, units, units
    if shared and fmap.units is None:  # a table for each row of features
        rows = np.arange(int(fmap.row_ptr[-1]))
        return first[fmap.group] + rows * fmap.n_configs, rows, np.zeros_like(rows)
    unit = fmap.units_of(None).astype(np.int64)
    row = own if fmap.rows is None or fmap.joint else fmap.rows_of(None)
    start = state_ptr[fmap.shapes.variables()[:, 0]] if fmap.group == NODE else first[fmap.group] + own * fmap.n_configs
    return start, row, unit


def _feature_entries(fmap: FeatureMap, rows: I64) -> tuple[I64, I64, F64]:
    """Return (place in ``rows``, feature, value) of the features that are not zero."""
    features = fmap.features
    if features is None:
        return np.arange(len(rows)), np.zeros(len(rows), np.int64), np.ones(len(rows))
    if isinstance(features, SparseRows):
        lengths = features.ptr[rows + 1] - features.ptr[rows]
        at = runs(features.ptr[rows], lengths)
        return np.repeat(np.arange(len(rows)), lengths), features.indices[at].astype(np.int64), features.data[at]
    values = features[rows]
    of, feature = np.nonzero(values)
    return of, feature, values[of, feature]
