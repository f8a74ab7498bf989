"""Kernels between inputs, by scikit-learn's pairwise kernels, and products with their Gram matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.memory import require_memory

#: A function of two arrays of inputs, (m, p) and (n, p), that returns their Gram matrix (m, n), as ``SVC`` takes it.
KernelFunction = Callable[[F64, F64], F64]

#: What users write, and what scikit-learn calls it.
NAMES = {"linear": "linear", "rbf": "rbf", "polynomial": "polynomial", "poly": "polynomial"}

#: Kernels beyond are refused: objectives have their squares, times numbers of examples.
LARGEST = 1e120

#: Inputs that a user's function is tried on, and its rounding errors relative to the largest entry.
SAMPLE, ROUNDING = 200, 1e-10

#: Numbers of a block of a Gram matrix that is not kept.
BLOCK = 2**22


@dataclass(frozen=True)
class InputKernel:
    """A positive definite kernel between inputs.

    Parameters
    ----------
    kernel : str or function
        ``"linear"``: x . z; ``"rbf"``: exp(-gamma |x - z|^2); ``"polynomial"``: (gamma x . z + coef0)^degree; or a
        function of two arrays of inputs that returns their Gram matrix.
    gamma, degree, coef0 : float
        For those that have them.
    """

    kernel: str | KernelFunction
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 1.0

    @classmethod
    def of(cls, kernel: Any, gamma: Any, degree: Any, coef0: Any, X: F64) -> InputKernel:
        """Return a kernel by parameters of users; ``gamma="scale"`` is 1 / (n_inputs times the variance of X).

        Raises
        ------
        OptionError
            They make no sense, or a function is not symmetric and positive definite on the first inputs.
        """
        if not callable(kernel) and (not isinstance(kernel, str) or kernel not in NAMES):
            names = "linear, rbf, polynomial, or a function of two arrays that returns their Gram matrix"
            raise OptionError(f"kernel must be one of {names}; got {kernel!r}")
        scaled = isinstance(gamma, str) and gamma == "scale"
        if not scaled and not (is_number(gamma) and 0 < gamma < np.inf):
            raise OptionError(f"gamma is 'scale' or a positive number, got {gamma!r}")
        for name, value, least in (("degree", degree, 1), ("coef0", coef0, 0)):
            if not (is_number(value) and least <= value < np.inf):
                raise OptionError(f"{name} must be a number of at least {least}, got {value!r}")
        if scaled:
            variance = float(X.var())
            gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        made = cls(kernel if callable(kernel) else NAMES[kernel], float(gamma), degree, coef0)
        if callable(kernel):
            made._check(X[:SAMPLE])
        return made

    def _check(self, X: F64) -> None:
        """Refuse a function that is no positive definite kernel on some inputs."""
        matrix = self(X, X)
        largest = float(np.abs(matrix).max())
        if not np.allclose(matrix, matrix.T, atol=ROUNDING * largest):
            raise OptionError("kernel: expected a symmetric function, k(x, z) = k(z, x); it is not on the inputs given")
        least = float(np.linalg.eigvalsh(matrix)[0])
        if least < -ROUNDING * largest * len(X):
            text = f"the Gram matrix of the first {len(X)} inputs has the eigenvalue {least:.3g}"
            raise OptionError(f"kernel: expected a positive definite function; {text}")

    def __call__(self, A: F64, B: F64) -> F64:
        """Return the Gram matrix of inputs; ``shape (len(A), len(B))``.

        Raises
        ------
        OptionError
            The user's function returned something else.
        DataError
            The kernel of some inputs is too large for a float64.
        """
        from sklearn.metrics.pairwise import pairwise_kernels

        if callable(self.kernel):
            gram = np.asarray(self.kernel(A, B), dtype=np.float64)
            if gram.shape != (len(A), len(B)) or not np.isfinite(gram).all():
                text = f"kernel: expected finite numbers of shape {(len(A), len(B))} for inputs of shapes"
                raise OptionError(f"{text} {A.shape} and {B.shape}, found shape {gram.shape} or others")
            return gram
        more = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        with np.errstate(over="ignore", invalid="ignore"):
            gram = np.asarray(pairwise_kernels(A, B, metric=self.kernel, filter_params=True, **more))
        if not (np.abs(gram) <= LARGEST).all():
            text, size = f"inputs whose {self.kernel} kernel is at most {LARGEST:g}", max(abs(A).max(), abs(B).max())
            raise DataError("X", expected=text, found=f"numbers up to {size:.3g}", hint="scale the inputs")
        return gram

    def diagonal(self, X: F64) -> F64:
        """Return ``k(x, x)`` of each input; ``shape (n,)``."""
        if self.kernel == "rbf":
            return np.ones(len(X))
        size = 32  # small blocks: all but their diagonals is thrown away
        parts = [np.diag(self(X[lo : lo + size], X[lo : lo + size])) for lo in range(0, len(X), size)]
        return np.concatenate(parts)


class Gram:
    """The Gram matrix of inputs, stored or recomputed for each product.

    Parameters
    ----------
    kernel : InputKernel
    X : ndarray of float64, shape (n, p)
    keep : bool
        Store the matrix: n^2 numbers.

    Attributes
    ----------
    n_products : int
        How many products there were so far: a measure of work that depends on no machine.

    Raises
    ------
    TooLargeError
        It does not fit into memory.
    """

    def __init__(self, kernel: InputKernel, X: F64, keep: bool) -> None:
        self.kernel, self.X, self.matrix, self.n_products = kernel, X, None, 0
        if keep:
            instead = "set solver='sgd', or fit on fewer examples"
            require_memory(16.0 * len(X) ** 2, f"the Gram matrix of {len(X)} examples", instead)
            self.matrix = kernel(X, X)

    def dot(self, coef: F64) -> F64:
        """Return ``K @ coef``; rows of zeros in ``coef (n, d)`` cost nothing where the matrix is not kept."""
        self.n_products += 1
        if self.matrix is not None:
            return np.asarray(self.matrix @ coef)
        used: I64 = np.flatnonzero(coef.any(axis=1))
        return expansion(self.kernel, self.X, self.X[used], coef[used])


def expansion(kernel: InputKernel, X: F64, support: F64, coef: F64) -> F64:
    """Return ``sum_j k(x, support_j) coef_j`` for each input, in blocks; ``shape (n, d)``."""
    size = max(1, BLOCK // max(len(support), 1))
    sums = np.zeros((len(X), coef.shape[1]))
    if len(support):
        for lo in range(0, len(X), size):
            sums[lo : lo + size] = kernel(X[lo : lo + size], support) @ coef
    return sums
