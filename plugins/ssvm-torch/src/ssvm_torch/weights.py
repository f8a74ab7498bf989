"""Scores of a declared factor from tensors: the factor's weights times the inputs that are its features."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch

from ssvm_dsl import Dim, Factor
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.scoring import Template


def weight_shape(template: Template) -> tuple[int, ...] | None:
    """Return the shape of a factor's own weights; ``None`` where it has none (given scores, or another's weights).

    Raises
    ------
    OptionError
        Its features are no tensors: functions, attributes, sparse inputs.
    """
    symbol = template.symbol
    if template.inputs is None or (isinstance(symbol, Factor) and (symbol.observed or symbol.joint)):
        text = f"factor '{template.name}' has features that are no dense Input: {symbol.features!r}"
        raise OptionError(f"{text}; compute them in the network, and declare Given(target, scores=Input(...))")
    if template.target.is_union and template.inputs:
        text = f"factor '{template.name}' of grid(y) has features"
        raise OptionError(f"{text}; in a layer write a factor of pairs(y, axis) for each axis")
    if not isinstance(symbol, Factor) or symbol.tie is not None:
        return None
    width = sum(one.width for one in template.inputs) if template.inputs else None
    return tuple(int(size) for size in symbol.weight_shape(width) if size is not None)


def scores_of(
    template: Template, weights: torch.Tensor | None, inputs: Mapping[str, torch.Tensor], n: int
) -> torch.Tensor:
    """Return the scores of a factor for padded inputs: a table for all factors where nothing tells them apart.

    Parameters
    ----------
    template : Template
    weights : Tensor, optional
        In the shape that users see; ``None`` for given scores.
    inputs : mapping of str to Tensor
        Padded, ``(B, *axes, *widths)``.
    n : int
        Number of examples.
    """
    assert template.inputs is not None
    if weights is None:
        rows = _rows(template, inputs)
        return rows.reshape(*rows.shape[:-1], *template.shape)
    symbol = template.symbol
    assert isinstance(symbol, Factor)
    if symbol.per == "edge":
        return _by_edge(template, weights, inputs, n)
    if symbol.per:
        return _by_position(template, symbol, weights, inputs, n)
    if not template.inputs:
        return weights
    rows = _rows(template, inputs)
    if rows.dtype != weights.dtype and not torch.is_autocast_enabled(rows.device.type):
        found = f"{rows.dtype} inputs of '{template.name}' and {weights.dtype} weights"
        raise OptionError(f"{found}: convert one of them, e.g. layer.to({rows.dtype})")
    made = _spread(template, rows @ weights.reshape(prod(template.shape), -1).T)
    return made.reshape(*made.shape[:-1], *template.shape)


def _spread(template: Template, made: torch.Tensor) -> torch.Tensor:
    """Return scores with an axis for factors that all have the same ones."""
    for k, axis in enumerate(template.axes):
        if axis.dim is None:
            if template.fixed_count is None:
                text = f"factor '{template.name}': features of the whole example for factors whose number varies"
                raise OptionError(f"{text}; compute its scores in the network, and declare Given")
            made = made.unsqueeze(1 + k).expand(*made.shape[: 1 + k], template.fixed_count, *made.shape[1 + k :])
    return made


def _rows(template: Template, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the rows of features at the positions of the factors, ``(B, *positions, width)``."""
    made = []
    for one in template.inputs or ():
        tensor = inputs[one.name]
        n_axes = len(one.dims)
        if tensor.dim() != 1 + n_axes + len(one.shape) or tuple(tensor.shape[1 + n_axes :]) != one.shape:
            axes = "".join(f", {dim.name}" for dim in one.dims) + "".join(f", {size}" for size in one.shape)
            found = f"a tensor of shape {tuple(tensor.shape)}"
            raise DataError(f"input '{one.name}'", expected=f"a padded tensor (B{axes})", found=found)
        tensor = tensor.reshape(*tensor.shape[: 1 + n_axes], one.width)
        names = [dim.name for dim in one.dims]
        for k, axis in enumerate(template.axes):
            if axis.dim is None:
                continue
            if axis.dim.name not in names:
                tensor = tensor.unsqueeze(1 + k)
            elif axis.less:
                tensor = tensor.narrow(1 + k, axis.less, max(tensor.shape[1 + k] - axis.less, 0))
        made.append(tensor)
    if len(made) == 1:
        return made[0]
    shape = torch.broadcast_shapes(*(one.shape[:-1] for one in made))
    return torch.cat([one.expand(*shape, one.shape[-1]) for one in made], dim=-1)


def _by_edge(
    template: Template, weights: torch.Tensor, inputs: Mapping[str, torch.Tensor], n: int
) -> torch.Tensor:
    """Return the scores of factors each of which has weights of its own."""
    n_factors = template.fixed_count or 0
    table = weights.reshape(n_factors, prod(template.shape), -1)
    if template.inputs:
        rows = _rows(template, inputs)
        rows = rows.reshape(len(rows), -1, rows.shape[-1]).expand(-1, n_factors, -1)
        made = torch.einsum("bup,uqp->buq", rows, table)
    else:
        made = table[..., 0].expand(n, *table.shape[:-1])
    sizes = [axis.dim.size - axis.less if axis.dim and axis.dim.size else n_factors for axis in template.axes]
    return made.reshape(n, *sizes, *template.shape)


def _by_position(
    template: Template, symbol: Factor, weights: torch.Tensor, inputs: Mapping[str, torch.Tensor], n: int
) -> torch.Tensor:
    """Return the scores of factors that have weights of their own at each position of some axes."""
    assert not isinstance(symbol.per, str)
    own = [(one if isinstance(one, Dim) else one.axis).name for one in symbol.per]
    of = [axis.dim.name if axis.dim else "" for axis in template.axes]
    table = weights.reshape(*symbol.unit_shape, prod(template.shape), -1)
    table = table.permute(*(own.index(name) for name in of if name in own), -2, -1)
    sizes = [dict(zip(own, symbol.unit_shape, strict=True)).get(name, 1) for name in of]
    table = table.reshape(*sizes, *table.shape[-2:])
    if template.inputs:
        made = (table @ _rows(template, inputs).unsqueeze(-1))[..., 0]
    else:
        made = table[..., 0].expand(n, *table.shape[:-1])
    return made.reshape(*made.shape[:-1], *template.shape)
