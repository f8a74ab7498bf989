"""``Weights``: the learnt weights by factor, in the shapes the declaration shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir.features import Block
from ssvm_dsl.lang.factors import Factor

F64 = NDArray[np.float64]


class Weights(Mapping["str | Factor", F64]):
    """A read-only mapping from factors (or their names) to arrays of weights.

    Parameters
    ----------
    w : ndarray of float64, shape (dim,)
        All weights.
    blocks : tuple of Block
        Their layout.
    ties : dict of str to str
        Factors that share another one's weights.

    Examples
    --------
    >>> svm.weights_[OCR.trans].shape
    (26, 26)
    >>> svm.weights_["emit"].shape
    (26, 128)
    """

    def __init__(self, w: F64, blocks: tuple[Block, ...], ties: dict[str, str]) -> None:
        self._w, self._ties = w, ties
        self._blocks = {block.name: block for block in blocks}

    def __getitem__(self, key: str | Factor) -> F64:
        name = key.name if isinstance(key, Factor) else key
        block = self._blocks.get(self._ties.get(name, name))
        if block is None:
            raise KeyError(f"no factor '{name}'; the factors are {', '.join(self._names())}")
        return block.view(self._w)

    def _names(self) -> list[str]:
        return [*self._blocks, *self._ties]

    def __iter__(self) -> Iterator[str | Factor]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._blocks) + len(self._ties)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}{list(block.shape)}" for name, block in self._blocks.items())
        return f"Weights({shapes})"
