"""``Subsets``: every subset of d labels is an output."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.calls import checked_class
from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace, whole_number


@checked_class
class Subsets(OutputSpace):
    """All subsets of d labels, as vectors of 0 and 1; ``phi(z) = z``.

    Half of the subsets have a label and a quarter of them two given ones (Gaertner and Vembu 2009, section 4.1):

        |Y| = 2^d ,     Phi = 2^(d-1) 1 ,     C = 2^(d-2) (I + 1 1') .

    The best subset holds the labels with scores of at least 0.

    Parameters
    ----------
    n_labels : int

    Examples
    --------
    >>> CountingPredictor(Subsets(5)).fit(X, Y).predict(X_test)
    """

    decoders: ClassVar = {"exact": 1.0}

    def __init__(self, n_labels: int) -> None:
        self.n_labels = self.n_features = whole_number(n_labels, 1, "n_labels")

    def __repr__(self) -> str:
        return f"Subsets({self.n_labels})"

    @property
    def size(self) -> int:
        """The number of subsets, 2^d."""
        return 1 << self.n_labels

    @property
    def Phi(self) -> F64:
        """The sum of the features of all subsets (overflows to ``inf`` beyond 1000 labels; ``mean`` does not)."""
        return float(np.ldexp(1.0, self.n_labels)) * self.mean

    @property
    def C(self) -> F64:
        """The sum of ``phi(z) phi(z)'`` over all subsets (overflows like ``Phi``; ``second_moment`` does not)."""
        return float(np.ldexp(1.0, self.n_labels)) * self.second_moment

    @property
    def mean(self) -> F64:
        """The mean of the features: one half each."""
        return np.full(self.n_labels, 0.5)

    @property
    def second_moment(self) -> F64:
        """The mean of ``phi(z) phi(z)'``: one half on the diagonal, a quarter elsewhere."""
        return 0.25 * (np.eye(self.n_labels) + 1.0)

    def canonical(self, output: Any) -> tuple[int, ...]:
        """Return a subset as a tuple of 0 and 1.

        Raises
        ------
        ValueError
            It is none.
        """
        values = np.asarray(output)
        good = values.shape == (self.n_labels,) and values.dtype.kind in "biuf" and np.isin(values, (0, 1)).all()
        if not good:
            raise ValueError(f"expected {self.n_labels} labels of 0 or 1, found {output!r}")
        return tuple(values.astype(int).tolist())

    def features(self, output: Any) -> F64:
        """Return the vector of 0 and 1."""
        return np.array(output, dtype=np.float64)

    def decode(self, scores: F64, decoder: str = "exact") -> Any:
        """Return the labels with scores of at least 0; ``shape (n, d)``, 0 or 1."""
        return np.asarray(scores >= 0.0, dtype=np.int64)

    def outputs(self) -> Iterator[tuple[int, ...]]:
        """Return all subsets."""
        return product((0, 1), repeat=self.n_labels)
