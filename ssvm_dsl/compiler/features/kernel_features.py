"""What kernel maps learn, and the features they make of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.features.kernel_features import SCALE, KernelMap, Nystroem, RandomFourier


def learn_kernel(source: KernelMap, values: F64) -> dict[str, Any]:
    """Return the state that a kernel map learns from rows of features, ``shape (n, P)``.

    Raises
    ------
    DataError
        There are fewer rows than the map takes of them, or all are the same and gamma is to follow from them.
    """
    gamma = _gamma(source, values)
    if isinstance(source, RandomFourier):
        from sklearn.kernel_approximation import RBFSampler

        sampler = RBFSampler(gamma=gamma, n_components=source.width, random_state=source.seed).fit(values[:1])
        return {"weights": np.ascontiguousarray(sampler.random_weights_.T), "offset": sampler.random_offset_}
    assert isinstance(source, Nystroem)
    if len(values) < source.width:
        expected = f"at least {source.width} rows to draw from"
        raise DataError(f"feature {source!r}", expected=expected, found=str(len(values)), hint="lower n_features")
    from sklearn.kernel_approximation import Nystroem as Sampler

    settings = _settings(source, gamma)
    sampler = Sampler(n_components=source.width, random_state=source.seed, kernel=source.kernel, **settings).fit(values)
    found = {"components": sampler.components_, "normalization": sampler.normalization_, "gamma": np.array([gamma])}
    return {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in found.items()}


def kernel_rows(source: KernelMap, values: F64, learnt: dict[str, Any]) -> F64:
    """Return the features of each row; ``shape (n, width)``."""
    if isinstance(source, RandomFourier):
        return np.asarray(np.sqrt(2.0 / source.width) * np.cos(values @ learnt["weights"].T + learnt["offset"]))
    assert isinstance(source, Nystroem)
    from sklearn.metrics.pairwise import pairwise_kernels

    if not len(values):
        return np.zeros((0, source.width))
    settings = _settings(source, float(learnt["gamma"][0]))
    found = pairwise_kernels(values, learnt["components"], metric=source.kernel, filter_params=True, **settings)
    return np.asarray(found @ learnt["normalization"].T)


def _gamma(source: KernelMap, values: F64) -> float:
    """Return the kernel's width."""
    if source.gamma != SCALE:
        return float(source.gamma)
    spread = float(values.var() * values.shape[1])
    if not 0.0 < spread < np.inf:
        hint = "give gamma a number"
        raise DataError(f"feature {source!r}", expected="features that differ", found=f"variance {spread:g}", hint=hint)
    return 1.0 / spread


def _settings(source: Nystroem, gamma: float) -> dict[str, Any]:
    """Return the parameters of a kernel that it has."""
    settings: dict[str, Any] = {} if source.kernel == "cosine" else {"gamma": gamma}
    if source.kernel in ("polynomial", "sigmoid"):
        settings["coef0"] = 1.0
    return settings | ({"degree": source.degree} if source.kernel == "polynomial" else {})
