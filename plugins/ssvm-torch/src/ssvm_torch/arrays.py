"""Tensors to arrays and back: on the CPU, in single or double precision, by factor."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.scoring import Scorer

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
    return tensor.numpy(force=True)


def to_arrays(scores: Mapping[str, torch.Tensor]) -> dict[str, NDArray[Any]]:
    """Return scores by factor as arrays."""
    return {name: to_array(one, f"the scores of '{name}'") for name, one in scores.items()}


def like(array: NDArray[Any] | float, tensor: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor of the precision and on the device of another one."""
    made = torch.from_numpy(np.asarray(array, order="C"))
    return made if made.dtype == tensor.dtype and tensor.device.type == "cpu" else made.to(tensor)


def widest(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the first of the tensors of the highest precision: sums of all of them are like it."""
    dtype = reduce(torch.promote_types, (one.dtype for one in tensors))
    return next((one for one in tensors if one.dtype == dtype), tensors[0])


def summed(made: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Return the sums of arrays by factor."""
    return {name: np.sum([one[name] for one in made], axis=0) for name in made[0]}


def plain_label(scorer: Scorer) -> str | None:
    """Return the only label of a model, if it has just one that is plain: no segments, no pointers."""
    labels = scorer.declaration.own_labels
    return labels[0].name if len(labels) == 1 and not labels[0].pointer else None


def as_states(truth: Any, scorer: Scorer) -> Any:
    """Return labels as the scorer takes them: integer tensors are states of a plain label, padded with -1."""
    if isinstance(truth, torch.Tensor):
        if truth.dtype.is_floating_point or truth.dtype == torch.bool:
            raise DataError("truth", expected="a tensor of whole numbers: states", found=str(truth.dtype))
        return truth.detach().cpu().numpy()
    if isinstance(truth, list | tuple):
        if plain_label(scorer) is not None and truth and all(isinstance(one, torch.Tensor) for one in truth):
            sizes = np.max([tuple(one.shape) for one in truth], axis=0).tolist()
            return as_states(stacked(truth, sizes, -1), scorer)
        return [as_label(one) for one in truth]
    return truth


def stacked(parts: Sequence[torch.Tensor], sizes: Sequence[int], fill: float = 0.0) -> torch.Tensor:
    """Return tensors as one, the first axes of each filled up to some sizes; gradients flow to all."""
    made = []
    for part in parts:
        short = [size - have for size, have in zip(sizes, part.shape, strict=False)]
        pads = [pad for amount in reversed([*short, *[0] * (part.dim() - len(short))]) for pad in (0, amount)]
        made.append(torch.nn.functional.pad(part, pads, value=fill) if any(short) else part)
    return torch.stack(made)


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
