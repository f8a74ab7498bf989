"""Feature maps of kernels, by which linear models are kernel machines: exactly, or approximately.

``Kernel`` is exact; ``RandomFourier`` and ``Nystroem`` approximate, for more rows than that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.lang.features.sources import Transform, check_width
from ssvm_dsl.lang.functions import FunctionRef, check_function
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.symbols import Mistake, got, plain

#: The width of a kernel that data say: 1 / (number of features times their variance).
SCALE = "scale"

#: The largest number that gamma may be.
LARGEST = 1e300

#: Of ``Kernel``: the largest residual, relative to the largest value, and the highest rank.
TOLERANCE, MOST_RANK = 1e-8, 2000

#: Kernels by scikit-learn's names.
KERNELS = ("rbf", "laplacian", "polynomial", "sigmoid", "chi2", "cosine")


@dataclass(frozen=True, init=False, repr=False)
class KernelMap(Transform):
    """A feature map whose inner products approximate a kernel."""

    n_features: int
    gamma: float | str
    seed: int

    def _read(self, source: Source, n_features: Any, gamma: Any, seed: Any) -> tuple[list[Mistake], dict[str, Any]]:
        """Return (mistakes, fields) common to all kernel maps."""
        name = type(self).__name__
        checked, mistakes = self._start(source, name)
        width, gamma, seed = check_width(n_features, name, mistakes), _gamma(gamma, name, mistakes), plain(seed)
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
            mistakes.append(got(f"{name}: the seed must be an int from 0 to 2^32 - 1", seed))
            seed = 0
        return mistakes, {
            "dims": checked.dims, "source": checked, "n_features": width, "gamma": gamma, "seed": seed,
        }  # fmt: skip

    def _options(self) -> dict[str, Any]:
        out: dict[str, Any] = {} if self.gamma == SCALE else {"gamma": self.gamma}
        return out | ({"seed": self.seed} if self.seed else {})

    @property
    def learns(self) -> bool:
        """Its random numbers, or landmarks, are drawn in training."""
        return True

    @property
    def width(self) -> int:
        """Number of features."""
        return self.n_features


@dataclass(frozen=True, init=False, repr=False)
class RandomFourier(KernelMap):
    """Random Fourier features: inner products approximate the kernel ``exp(-gamma |x - z|^2)``.

    ``sqrt(2 / n) cos(W x + b)`` with random W and b (Rahimi and Recht, NIPS 2007; scikit-learn's ``RBFSampler``).  W
    and b are drawn when the model is fitted, and stored with it.

    Parameters
    ----------
    source : Input or feature
        A dense one.
    n_features : int
        Number of random features.
    gamma : float or "scale"
        The kernel's width; ``"scale"``: ``1 / (P var)`` for P features of variance ``var`` in the training data.
    seed : int
        Of the random numbers.

    Examples
    --------
    >>> emit = Factor(y, features=RandomFourier(x, 500))
    """

    def __init__(self, source: Source, n_features: int = 100, gamma: float | str = SCALE, seed: int = 0) -> None:
        mistakes, fields = self._read(source, n_features, gamma, seed)
        self._fill(mistakes, **fields)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.source, self.n_features), self._options()


@dataclass(frozen=True, init=False, repr=False)
class Nystroem(KernelMap):
    """Features whose inner products approximate any kernel, from rows of the training data (scikit-learn's).

    With m rows drawn at random and K their kernel matrix, ``K^(-1/2) k(x)`` (Williams and Seeger, NIPS 2001).

    Parameters
    ----------
    source : Input or feature
        A dense one.
    n_features : int
        Number m of training rows; there must be as many.
    kernel : str
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"sigmoid"``, ``"chi2"`` or ``"cosine"``, as in
        ``sklearn.metrics.pairwise``.
    gamma : float or "scale"
        As for :class:`RandomFourier`; ``"cosine"`` has none.
    degree : int
        Of the polynomial kernel ``(gamma x . z + 1)^degree``.
    seed : int
        Of the choice of rows.

    Examples
    --------
    >>> emit = Factor(y, features=Nystroem(x, 300, kernel="polynomial", degree=2))
    """

    kernel: str
    degree: int

    def __init__(
        self,
        source: Source,
        n_features: int = 100,
        kernel: str = "rbf",
        gamma: float | str = SCALE,
        degree: int = 3,
        seed: int = 0,
    ) -> None:
        mistakes, fields = self._read(source, n_features, gamma, seed)
        if not (isinstance(kernel, str) and kernel in KERNELS):
            mistakes.append(got(f"Nystroem: the kernel must be one of {', '.join(KERNELS)}", kernel))
            kernel = "rbf"
        self._fill(mistakes, **fields, kernel=kernel, degree=_degree(degree, "Nystroem", mistakes))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        options: dict[str, Any] = {} if self.kernel == "rbf" else {"kernel": self.kernel}
        options |= {"degree": self.degree} if self.degree != 3 else {}
        return (self.source, self.n_features), options | self._options()


@dataclass(frozen=True, init=False, repr=False)
class Kernel(Transform):
    """Features whose inner products are a kernel's values: exactly on all training rows, up to a tolerance.

    The best weights of a regularised risk are combinations of the features of the training rows (the representer
    theorem), so that any features with the right inner products there will do.  A Cholesky factor of the kernel matrix
    K has them, and with the r rows p that its pivots choose,

        phi(x) = L_p^-1 k(x, p) ,        K_pp = L_p L_p' ,

    until no row's residual ``k(x, x) - |phi(x)|^2`` is above ``tolerance`` times the largest ``k(x, x)``.  Only r
    columns of K are computed.  The report says the rank r; new rows get theirs by the same formula.

    Parameters
    ----------
    source : Input or feature
        A dense one.
    kernel : str or callable
        One of those of :class:`Nystroem`; or a function of two arrays of rows, ``shape (n, P)`` and ``(m, P)``, that
        returns their kernel's values, ``shape (n, m)``.  Rows may be codes of strings, or numbers of graphs in a list.
    gamma : float or "scale"
        As for :class:`RandomFourier`; functions and ``"cosine"`` have none.
    degree : int
        Of the polynomial kernel ``(gamma x . z + 1)^degree``.
    tolerance : float
        The largest residual, relative to the largest value of a row with itself.
    most : int
        The highest rank: each row has so many features.  More are an error, which says what to do.

    Examples
    --------
    >>> emit = Factor(y, features=Kernel(x, "rbf", gamma=0.5))
    """

    kernel: str | FunctionRef
    gamma: float | str
    degree: int
    tolerance: float
    most: int

    def __init__(
        self,
        source: Source,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | str = SCALE,
        degree: int = 3,
        tolerance: float = TOLERANCE,
        most: int = MOST_RANK,
    ) -> None:
        checked, mistakes = self._start(source, "Kernel")
        if isinstance(kernel, str) and kernel not in KERNELS:
            mistakes.append(got(f"Kernel: the kernel must be one of {', '.join(KERNELS)}, or a function", kernel))
            kernel = "rbf"
        named = kernel if isinstance(kernel, str) else check_function(kernel, "Kernel", mistakes)
        tolerance = plain(tolerance)
        if not (isinstance(tolerance, int | float) and not isinstance(tolerance, bool) and 0 <= tolerance < 1):
            mistakes.append(got("Kernel: the tolerance must be a number from 0 to below 1", tolerance))
            tolerance = TOLERANCE
        self._fill(
            mistakes, dims=checked.dims, source=checked, kernel=named, gamma=_gamma(gamma, "Kernel", mistakes),
            degree=_degree(degree, "Kernel", mistakes), tolerance=float(tolerance),
            most=check_width(most, "Kernel: most", mistakes),
        )  # fmt: skip

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        options: dict[str, Any] = {} if self.gamma == SCALE else {"gamma": self.gamma}
        options |= {"degree": self.degree} if self.degree != 3 else {}
        options |= {"tolerance": self.tolerance} if self.tolerance != TOLERANCE else {}
        return (self.source, self.kernel), options | ({"most": self.most} if self.most != MOST_RANK else {})

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The user's kernel."""
        return () if isinstance(self.kernel, str) else (self.kernel,)

    @property
    def learns(self) -> bool:
        """Pivots and their factor."""
        return True

    @property
    def width(self) -> None:
        """The rank, which is known in training."""
        return None


def _gamma(gamma: Any, name: str, mistakes: list[Mistake]) -> float | str:
    """Return the width of a kernel; note what is none."""
    gamma = plain(gamma)
    if isinstance(gamma, str) and gamma == SCALE:
        return gamma
    if not (isinstance(gamma, int | float) and not isinstance(gamma, bool) and 0 < gamma <= LARGEST):
        mistakes.append(got(f"{name}: gamma must be a positive number or 'scale'", gamma))
        return 1.0
    return float(gamma)


def _degree(degree: Any, name: str, mistakes: list[Mistake]) -> int:
    """Return the degree of a polynomial kernel; note what is none."""
    degree = plain(degree)
    if not isinstance(degree, int) or isinstance(degree, bool) or not 1 <= degree <= 100:
        mistakes.append(got(f"{name}: the degree must be an int from 1 to 100", degree))
        return 3
    return degree
