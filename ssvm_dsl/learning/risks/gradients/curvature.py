"""A diagonal guess of the curvature of smooth risks, for methods that would take it for the identity.

With all labellings equally likely (w = 0) the log-loss has the second derivatives

    sum_i Var Phi_j(x_i, y)  ~  sum_f x_fp^2 B_qs^2 (1/k) (1 - 1/k)    summed over the k joint states s ,

taking factors for independent.  Weights of frequent features and of rare ones differ in it by orders of magnitude.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.ir.features import FeatureMap, SlicedRows, SparseRows
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.scores.parameter_map import ParameterMap


def curvature_of(parameters: ParameterMap, mu: Theta) -> F64:
    """Return the guess for each weight, summed over the examples; ``shape (dim,)``.

    Parameters
    ----------
    parameters : ParameterMap
    mu : Theta
        Scores that may be overwritten: memory to work in.
    """
    program = parameters.program
    if program.uniform_card:
        mu.node[:] = _spread(np.array(program.uniform_card))
    else:
        mu.node[:] = np.repeat(_spread(program.card), program.card)
    for group, table in zip(program.groups, mu.tables, strict=True):
        uses = group.table_uses()
        table[...] = (uses * _spread(np.array(group.n_configs)))[:, None]
    squares = ParameterMap(program, tuple(map(_squared, parameters.maps)), parameters.blocks)
    return squares.adjoint(mu)


def _spread(n_states: NDArray[np.integer]) -> F64:
    """Return the variance of the indicator of one of k equally likely states."""
    share = 1.0 / n_states
    return np.asarray(share * (1.0 - share))


def _squared(fmap: FeatureMap) -> FeatureMap:
    """Return the map with squared features and form."""
    features = fmap.features
    if isinstance(features, SparseRows):
        if not (features.data == 1.0).all():
            features = replace(features, data=features.data**2)
    elif isinstance(features, SlicedRows):
        make = features.make
        features = replace(features, make=lambda rows: make(rows) ** 2)
    elif features is not None:
        features = features**2
    return replace(fmap, features=features, basis=None if fmap.basis is None else fmap.basis**2)
