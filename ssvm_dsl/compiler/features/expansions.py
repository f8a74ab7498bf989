"""What expansions of features learn, and what they make of them: kernel maps, piecewise-linear functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.deadline import pause
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.features.kernel_features import SCALE, Kernel, KernelMap, Nystroem, RandomFourier
from ssvm_dsl.units import bytes_text

#: Bytes of the factor of a kernel matrix at most; rows whose own values are computed together.
MOST_BYTES, BLOCK = 2.0**31, 256

#: A kernel's residual below this, relative to the largest value, is more than rounding.
NEGATIVE = -1e-7


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
    state = {"components": sampler.components_, "normalization": sampler.normalization_, "gamma": np.array([gamma])}
    return {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in state.items()}


def kernel_rows(source: KernelMap, values: F64, learnt: dict[str, Any]) -> F64:
    """Return the features of each row; ``shape (n, width)``."""
    if isinstance(source, RandomFourier):
        return np.asarray(np.sqrt(2.0 / source.width) * np.cos(values @ learnt["weights"].T + learnt["offset"]))
    assert isinstance(source, Nystroem)
    from sklearn.metrics.pairwise import pairwise_kernels

    if not len(values):
        return np.zeros((0, source.width))
    settings = _settings(source, float(learnt["gamma"][0]))
    similarity = pairwise_kernels(values, learnt["components"], metric=source.kernel, filter_params=True, **settings)
    return np.asarray(similarity @ learnt["normalization"].T)


def learn_pivots(source: Kernel, values: F64) -> dict[str, Any]:
    """Return the pivots of a kernel matrix, and their factor, by Cholesky's method with complete pivoting.

    Raises
    ------
    DataError
        The rank is above ``source.most``, or the factor takes too much memory; or the kernel is none: not symmetric or
        not positive semidefinite, or of another shape.

    Notes
    -----
    Time O(n r^2) and r columns of the kernel matrix, memory O(n r), for n rows of rank r.
    """
    n, needs_gamma = len(values), source.kernel in ("rbf", "laplacian", "polynomial", "sigmoid", "chi2")
    gamma = _gamma(source, values) if needs_gamma else 1.0
    left = np.concatenate([
        np.diag(_values(source, gamma, values[lo : lo + BLOCK], values[lo : lo + BLOCK])) for lo in range(0, n, BLOCK)
    ])  # fmt: skip
    largest = float(np.abs(left).max(initial=0.0))
    most, pivots = min(n, source.most), list[int]()
    if 8.0 * n * most > MOST_BYTES:
        most = int(MOST_BYTES / (8.0 * n))
    factor = np.zeros((n, min(most, 64)))
    while len(pivots) < n:
        pivot, r = int(left.argmax()), len(pivots)
        if left[pivot] <= source.tolerance * largest:
            break
        if r >= most:
            raise _too_many(source, n, most, float(left[pivot]) / largest)
        pause()
        if r == factor.shape[1]:
            factor = np.concatenate([factor, np.zeros((n, min(r, most - r)))], axis=1)
        column = _values(source, gamma, values, values[pivot : pivot + 1])[:, 0] - factor[:, :r] @ factor[pivot, :r]
        factor[:, r] = column / np.sqrt(left[pivot])
        left = left - factor[:, r] ** 2
        left[pivot] = 0.0
        pivots.append(pivot)
        if left.min() < NEGATIVE * largest or not np.isfinite(left).all():
            raise DataError(
                f"feature {source!r}", expected="a kernel: symmetric, and no negative eigenvalue on the training rows",
                found=f"a residual of {left.min():.3g} (the largest value of a row with itself is {largest:.3g})",
                hint="'rbf', 'laplacian', 'polynomial' and 'cosine' are kernels on any data",
            )  # fmt: skip
    rows = np.array(pivots, dtype=np.int64)
    return {
        "components": np.ascontiguousarray(values[rows]), "factor": np.tril(factor[rows, : len(rows)]),
        "gamma": np.array([gamma]), "rows": np.array([float(n)]),
        "residual": np.array([max(float(left.max(initial=0.0)), 0.0) / (largest or 1.0)]),
    }  # fmt: skip


def kernel_ranks(fitted: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return for each kernel of a model the rank that it has in training, in words."""
    return {
        name: f"rank {len(one['components'])} of {int(one['rows'][0])} rows, residuals up to {one['residual'][0]:.2g}"
        for name, one in fitted.items()
        if "factor" in one and "residual" in one
    }


def _too_many(source: Kernel, n: int, most: int, left: float) -> DataError:
    """Return the error for a kernel matrix of too high a rank."""
    limit = f"most={source.most}" if most == source.most else f"{bytes_text(MOST_BYTES)} for its factor"
    expected = f"a kernel matrix of rank {most} or less at tolerance {source.tolerance:g} ({limit})"
    found = f"{n} rows, {left:.2g} of the largest value left at rank {most}"
    hint = f"Nystroem(x, {min(most, 500)}) takes some rows alone; or a larger tolerance"
    return DataError(f"feature {source!r}", expected=expected, found=found, hint=hint)


def pivot_rows(source: Kernel, values: F64, learnt: dict[str, Any]) -> F64:
    """Return the features of each row; ``shape (n, rank)``."""
    from scipy.linalg import solve_triangular

    if not len(values) or not len(learnt["components"]):
        return np.zeros((len(values), len(learnt["components"])))
    found = _values(source, float(learnt["gamma"][0]), values, learnt["components"])
    return np.ascontiguousarray(solve_triangular(learnt["factor"], found.T, lower=True, check_finite=False).T)


def _values(source: Kernel, gamma: float, one: F64, other: F64) -> F64:
    """Return the kernel's values of rows with others; ``shape (n, m)``.

    Raises
    ------
    DataError
        The user's function fails, or returns anything else than finite numbers of this shape.
    """
    if isinstance(source.kernel, str):
        from sklearn.metrics.pairwise import pairwise_kernels

        settings = _settings(source, gamma)
        return np.asarray(pairwise_kernels(one, other, metric=source.kernel, filter_params=True, **settings))
    named, shape = f"Kernel {source.kernel.path}", (len(one), len(other))
    assert source.kernel.function is not None
    try:
        found = np.asarray(source.kernel.function(one.copy(), other.copy()), dtype=np.float64)
    except Exception as err:
        raise DataError(named, expected=f"shape {shape}", found=f"{type(err).__name__}: {err}") from err
    if found.shape != shape or not np.isfinite(found).all():
        got = f"shape {found.shape}" if found.shape != shape else "numbers that are not finite"
        raise DataError(named, expected=f"finite numbers of shape {shape}", found=got)
    return found


def _gamma(source: KernelMap | Kernel, values: F64) -> float:
    """Return the kernel's width."""
    if source.gamma != SCALE:
        return float(source.gamma)
    spread = float(values.var() * values.shape[1])
    if not 0.0 < spread < np.inf:
        hint = "give gamma a number"
        raise DataError(f"feature {source!r}", expected="features that differ", found=f"variance {spread:g}", hint=hint)
    return 1.0 / spread


def _settings(source: Nystroem | Kernel, gamma: float) -> dict[str, Any]:
    """Return the parameters of a kernel that it has."""
    settings: dict[str, Any] = {} if source.kernel == "cosine" else {"gamma": gamma}
    if source.kernel in ("polynomial", "sigmoid"):
        settings["coef0"] = 1.0
    return settings | ({"degree": source.degree} if source.kernel == "polynomial" else {})


def hat_functions(x: F64, knots: F64) -> F64:
    """Return the coordinates c_p(x) of a piecewise-linear function on its knots (thesis, Eq. 4.2).

    Parameters
    ----------
    x : ndarray, shape (n,)
    knots : ndarray, shape (P,)
        Non-decreasing; of equal knots the first one takes the weight.

    Returns
    -------
    ndarray, shape (n, P)
        Rows sum to 1.
    """
    right = np.clip(np.searchsorted(knots, x, side="left"), 1, len(knots) - 1)
    left = right - 1
    # halves: the difference of two large numbers may be beyond the largest float
    gap = 0.5 * knots[right] - 0.5 * knots[left]
    share = np.clip((0.5 * x - 0.5 * knots[left]) / np.where(gap > 0, gap, 0.5), 0.0, 1.0)
    out = np.zeros((len(x), len(knots)))
    every = np.arange(len(x))
    out[every, left] = 1.0 - share
    out[every, right] += share
    return out
