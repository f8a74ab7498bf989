"""``collate``: examples of different sizes as one padded batch, for ``DataLoader(..., collate_fn=collate(model))``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ssvm_dsl import Input
from ssvm_dsl.errors import DataError
from ssvm_dsl.scoring import Scorer
from ssvm_torch.arrays import stacked

#: Fills up labels.
NO_LABEL = -1


def collate(model: Any) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Return what makes a batch of a list of (inputs, labels).

    The batch is a dict of what the layer takes: ``layer(**batch)``. Inputs are padded with 0; labels that are arrays
    or tensors of states are padded with -1, others stay a list; lengths and data are by name.

    Parameters
    ----------
    model : Model class
    """
    declared = {one.name: one for one in model.declaration.inputs}
    structural = set(Scorer(model).data_names)

    def joined(examples: Sequence[Any]) -> dict[str, Any]:
        inputs, labels = zip(*examples, strict=True)
        rows = [one if isinstance(one, dict) else {next(iter(declared)): one} for one in inputs]
        made: dict[str, Any] = {"inputs": {}, "lengths": {}, "data": {}}
        for name in rows[0]:
            if name not in declared:
                raise DataError("inputs", expected=f"the inputs {', '.join(declared)}", found=repr(name))
            _join(declared[name], [row[name] for row in rows], made, name in structural)
        made["lengths"], made["data"] = made["lengths"] or None, made["data"] or None
        return made | {"truth": _labels(labels)}

    return joined


def _join(symbol: Any, values: list[Any], made: dict[str, Any], structural: bool) -> None:
    """Add an input: padded where it is an array, as it is where structures follow from it."""
    if structural or not isinstance(symbol, Input) or symbol.sparse:
        made["data"][symbol.name] = values
        return
    parts = [torch.as_tensor(one) for one in values]
    sizes = np.array([tuple(one.shape[: len(symbol.dims)]) for one in parts]).reshape(len(parts), -1)
    for k, dim in enumerate(symbol.dims):
        if dim.ragged:
            made["lengths"][dim.origin.name] = torch.as_tensor(sizes[:, k])
    made["inputs"][symbol.name] = stacked(parts, sizes.max(axis=0).tolist())


def _labels(labels: Sequence[Any]) -> Any:
    """Return labels as a padded tensor of states, or as they are."""
    arrays = [torch.as_tensor(one) if isinstance(one, np.ndarray | int) else one for one in labels]
    if not all(isinstance(one, torch.Tensor) and not one.dtype.is_floating_point for one in arrays):
        return list(labels)
    sizes = [max(one.shape[k] for one in arrays) for k in range(arrays[0].dim())]
    return stacked(arrays, sizes, NO_LABEL)
