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
        if not len(tensors[name]):
            raise DataError(f"input '{name}'", expected="at least one example", found="none")
    return Batch(tensors, lengths)


def _padded(one: Input, value: Any, lengths: dict[str, Any]) -> torch.Tensor:
    """Return the padded tensor of an input; note the sizes of its axes where it is a list."""
    what, n_axes = f"input '{one.name}'", len(one.dims)
    if isinstance(value, torch.Tensor):
        if not value.dim():
            raise DataError(what, expected="a padded tensor, with an axis of examples", found="a single number")
        return _with_numbers(value, what)
    if not isinstance(value, Sequence) or not value or not all(isinstance(part, torch.Tensor) for part in value):
        expected = "a padded tensor, or a list with a tensor for each example"
        found = "an empty list" if isinstance(value, Sequence) and not value else type(value).__name__
        raise DataError(what, expected=expected, found=found)
    for i, part in enumerate(value):
        _with_numbers(part, what)
        if part.dim() != n_axes + len(one.shape) or part.shape[n_axes:] != one.shape:
            words = ", ".join([dim.name for dim in one.dims] + [str(size) for size in one.shape])
            raise DataError(what, example=i, expected=f"a tensor ({words})", found=f"shape {tuple(part.shape)}")
    sizes = np.array([tuple(part.shape[:n_axes]) for part in value], dtype=np.int64).reshape(len(value), n_axes)
    for k, dim in enumerate(one.dims):
        if dim.ragged:
            lengths[dim.origin.name] = sizes[:, k]
    return stacked(value, sizes.max(axis=0).tolist())


def _with_numbers(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """Return a tensor that has numbers, one after the other."""
    if tensor.layout is not torch.strided or tensor.is_meta:
        found = "one on the device 'meta'" if tensor.is_meta else f"one of layout {tensor.layout}"
        raise DataError(what, expected="a dense tensor with numbers", found=found)
    return tensor
