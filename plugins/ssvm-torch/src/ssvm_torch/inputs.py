"""The inputs of a batch: tensors by name, padded here where they come in lists, and the sizes that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ssvm_dsl import Input
from ssvm_dsl.errors import DataError
from ssvm_dsl.scoring import Scorer
from ssvm_torch.arrays import stacked


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of inputs.

    Parameters
    ----------
    tensors : dict of str to Tensor
        Padded: ``(B, *axes, *widths)``.
    lengths : dict of str to ndarray of int
        Sizes of ragged axes, where lists told them.
    """

    tensors: dict[str, torch.Tensor]
    lengths: dict[str, Any]

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(next(iter(self.tensors.values())))


def read_inputs(scorer: Scorer, inputs: Any) -> Batch:
    """Return the inputs of a batch by name.

    Parameters
    ----------
    scorer : Scorer
    inputs : Tensor, list of Tensor, or mapping of these by the name of the input
        A list has a tensor for each example.

    Raises
    ------
    DataError
        An input is missing or of the wrong shape.
    """
    needed = {one.name: one for template in scorer.templates.values() for one in template.inputs or ()}
    if not isinstance(inputs, Mapping):
        if len(needed) != 1:
            raise DataError("inputs", expected=f"a dict with {', '.join(needed)}", found=type(inputs).__name__)
        inputs = {next(iter(needed)): inputs}
    tensors: dict[str, torch.Tensor] = {}
    lengths: dict[str, Any] = {}
    for name, one in needed.items():
        if name not in inputs:
            found = ", ".join(map(str, inputs)) or "none"
            raise DataError("inputs", expected=f"a tensor for input '{name}'", found=found)
        tensors[name] = _padded(one, inputs[name], lengths)
    return Batch(tensors, lengths)


def _padded(one: Input, value: Any, lengths: dict[str, Any]) -> torch.Tensor:
    """Return the padded tensor of an input; note the sizes of its axes where it is a list."""
    if isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, Sequence) or not value or not all(isinstance(part, torch.Tensor) for part in value):
        expected = "a padded tensor, or a list with a tensor for each example"
        raise DataError(f"input '{one.name}'", expected=expected, found=type(value).__name__)
    n_axes = len(one.dims)
    for i, part in enumerate(value):
        if part.dim() != n_axes + len(one.shape):
            expected = f"a tensor of {n_axes + len(one.shape)} dimensions"
            raise DataError(f"input '{one.name}'", example=i, expected=expected, found=str(tuple(part.shape)))
    sizes = np.array([tuple(part.shape[:n_axes]) for part in value], dtype=np.int64).reshape(len(value), n_axes)
    for k, dim in enumerate(one.dims):
        if dim.ragged:
            lengths[dim.origin.name] = sizes[:, k]
    return stacked(value, sizes.max(axis=0).tolist())

