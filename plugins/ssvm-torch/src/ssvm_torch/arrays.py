"""Tensors to arrays and back: on the CPU, in single or double precision, by factor."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError, OptionError

#: Scores by factor: tensors.
Scores = dict[str, torch.Tensor]


class DeviceWarning(UserWarning):
    """Tensors were moved to the CPU."""


def to_array(tensor: torch.Tensor, what: str) -> NDArray[Any]:
    """Return a tensor as an array.

    Raises
    ------
    OptionError
        It is in half precision, as autocast makes them.
    """
    if tensor.dtype in (torch.float16, torch.bfloat16):
        text = f"{what} are {str(tensor.dtype).removeprefix('torch.')}, which structured sums are too large for"
        advice = "with torch.autocast(device, enabled=False): layer(scores.float(), ...)"
        raise OptionError(f"{text}; leave autocast before the layer: {advice}")
    if tensor.device.type != "cpu":
        warnings.warn(
            f"{what} are on {tensor.device}: they are moved to the CPU, where structured inference runs, and back",
            DeviceWarning, stacklevel=4,
        )  # fmt: skip
    return tensor.detach().cpu().numpy()


def to_arrays(scores: Mapping[str, torch.Tensor]) -> dict[str, NDArray[Any]]:
    """Return scores by factor as arrays."""
    return {name: to_array(one, f"the scores of '{name}'") for name, one in scores.items()}


def like(array: NDArray[Any] | float, tensor: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor of the precision and on the device of another one."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(tensor)


def summed(made: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Return the sums of arrays by factor."""
    return {name: np.sum([one[name] for one in made], axis=0) for name in made[0]}


def as_states(truth: Any) -> Any:
    """Return labels as the scorer takes them: an integer tensor becomes an array of states."""
    if isinstance(truth, torch.Tensor):
        if truth.dtype.is_floating_point or truth.dtype == torch.bool:
            raise DataError("truth", expected="a tensor of whole numbers: states", found=str(truth.dtype))
        return truth.detach().cpu().numpy()
    if isinstance(truth, list | tuple):
        return [as_label(one) for one in truth]
    return truth


def as_label(one: Any) -> Any:
    """Return the label of an example without tensors."""
    if isinstance(one, torch.Tensor):
        return one.detach().cpu().numpy()
    return {name: as_label(value) for name, value in one.items()} if isinstance(one, dict) else one


def as_mask(mask: Any) -> Any:
    """Return a mask, or lengths, without tensors."""
    if isinstance(mask, Mapping):
        return {name: as_mask(one) for name, one in mask.items()}
    return mask.detach().cpu().numpy() if isinstance(mask, torch.Tensor) else mask
