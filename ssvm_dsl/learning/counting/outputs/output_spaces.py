"""``OutputSpace``: what training by counting knows of all outputs together, and how the best one is found.

An output z has features phi(z), and the score of z is ``phi(z) . f`` with a vector f that depends on the input.
Training needs no best output, only three sums over all outputs (Gaertner and Vembu 2009, section 2):

    |Y| = sum_z 1 ,        Phi = sum_z phi(z) ,        C = sum_z phi(z) phi(z)' .

So hard output spaces can be learnt in polynomial time wherever these have closed forms, though the best output may be
hard to find.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OptionError


class OutputSpace(ABC):
    """All outputs of a structured problem: a subclass for each kind.

    A new kind defines ``size``, ``Phi``, ``C``, ``canonical``, ``features`` and ``decode``, and lists its decoders;
    with ``outputs``, :func:`ssvm_dsl.testing.check_output_space` compares all of them with enumeration.

    Attributes
    ----------
    n_features : int
        Length of phi(z).
    decoders : mapping of str to float
        Names of the ways to find good outputs, the default first, and what each guarantees: how far from the worst
        output to the best one its outputs are at least; 1 is exact.

    Examples
    --------
    One of k classes, as a user-defined space:

    >>> class Classes(OutputSpace):
    ...     decoders = {"exact": 1.0}
    ...     def __init__(self, k):
    ...         self.n_features = k
    ...     @property
    ...     def size(self):
    ...         return self.n_features
    ...     @property
    ...     def Phi(self):
    ...         return np.ones(self.n_features)
    ...     @property
    ...     def C(self):
    ...         return np.eye(self.n_features)
    ...     def canonical(self, output):
    ...         return int(output)
    ...     def features(self, output):
    ...         return np.eye(self.n_features)[output]
    ...     def decode(self, scores, decoder="exact"):
    ...         return scores.argmax(axis=1).tolist()
    ...     def true_outputs(self, value):
    ...         return list(value) if isinstance(value, list) else [value]
    ...     def outputs(self):
    ...         return iter(range(self.n_features))
    """

    n_features: int
    decoders: ClassVar[Mapping[str, float]]

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of outputs, ``|Y|``."""

    @property
    @abstractmethod
    def Phi(self) -> F64:
        """The sum of the features of all outputs; ``shape (d,)``."""

    @property
    @abstractmethod
    def C(self) -> F64:
        """The sum of ``phi(z) phi(z)'`` over all outputs; ``shape (d, d)``."""

    @abstractmethod
    def canonical(self, output: Any) -> Hashable:
        """Return an output in the one form it has here, so that equal outputs are equal.

        Raises
        ------
        ValueError
            It is not an output; the text names the expected one, as in ``"expected 5 labels of 0 or 1, found 6"``.
        """

    @abstractmethod
    def features(self, output: Any) -> F64:
        """Return phi of an output in canonical form; ``shape (d,)``."""

    @abstractmethod
    def decode(self, scores: F64, decoder: str) -> Sequence[Any]:
        """Return a good output for each vector of scores, in canonical form or as users want to see it.

        Parameters
        ----------
        scores : ndarray of float64, shape (n, d)
        decoder : str
            One of ``decoders``.
        """

    def true_outputs(self, value: Any) -> list[Any]:
        """Return what users give for one example as a list of outputs.

        Here an output is a sequence of numbers, and several true ones are a list of sequences.
        """
        return list(value) if len(value) and np.ndim(value[0]) else [value]

    def outputs(self) -> Iterator[Any]:
        """Return all outputs in canonical form: for small spaces, in tests."""
        raise NotImplementedError(f"{type(self).__name__} does not list its outputs")

    @property
    def mean(self) -> F64:
        """The mean of the features of all outputs, ``Phi / |Y|``; ``shape (d,)``."""
        return self.Phi / self.size

    @property
    def second_moment(self) -> F64:
        """The mean of ``phi(z) phi(z)'``, ``C / |Y|``; ``shape (d, d)``."""
        return self.C / self.size


def chosen_decoder(space: OutputSpace, decoder: str | None) -> str:
    """Return the name of a decoder of a space, the default one for ``None``.

    Raises
    ------
    OptionError
        The space has no such decoder.
    """
    if decoder is None:
        return next(iter(space.decoders))
    if not isinstance(decoder, str) or decoder not in space.decoders:
        known = f"decoder of {type(space).__name__} must be one of {', '.join(space.decoders)}"
        raise OptionError(f"{known}, got {decoder!r}")
    return decoder


def whole_number(value: Any, least: int, what: str) -> int:
    """Return a whole number of at least ``least``.

    Raises
    ------
    OptionError
        It is none.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise OptionError(f"{what} must be a whole number of at least {least}, got {value!r}")
    return int(value)
