"""Feature maps of kernels: ``RandomFourier`` and ``Nystroem``, so that linear models act as kernel machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ssvm_dsl.lang.features.sources import Transform, check_width
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.symbols import Mistake, got, plain

#: The width of a kernel that data say: 1 / (number of features times their variance).
SCALE = "scale"

#: The largest number that gamma may be.
LARGEST = 1e300

#: Kernels of Nystroem, by scikit-learn's names.
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
        width, gamma, seed = check_width(n_features, name, mistakes), plain(gamma), plain(seed)
        number = isinstance(gamma, int | float) and not isinstance(gamma, bool) and 0 < gamma <= LARGEST
        if not number and not (isinstance(gamma, str) and gamma == SCALE):
            mistakes.append(got(f"{name}: gamma must be a positive number or 'scale'", gamma))
            gamma = 1.0
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
            mistakes.append(got(f"{name}: the seed must be an int from 0 to 2^32 - 1", seed))
            seed = 0
        gamma = gamma if isinstance(gamma, str) else float(gamma)
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
        degree = plain(degree)
        if not isinstance(degree, int) or isinstance(degree, bool) or not 1 <= degree <= 100:
            mistakes.append(got("Nystroem: the degree must be an int from 1 to 100", degree))
            degree = 3
        self._fill(mistakes, **fields, kernel=kernel, degree=degree)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        options: dict[str, Any] = {} if self.kernel == "rbf" else {"kernel": self.kernel}
        options |= {"degree": self.degree} if self.degree != 3 else {}
        return (self.source, self.n_features), options | self._options()
