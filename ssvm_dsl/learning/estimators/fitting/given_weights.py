"""Weights that are given, not learnt: of another program, of a table in a paper, or to start a fit from."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler.features.check_fitted import LearntWidths, weight_blocks
from ssvm_dsl.compiler.features.encode import Fitted
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir.features import Block
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, real_array
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.learning.objective import factor_name


def lay_weights(
    declaration: Declaration, weights: Mapping[Any, Any], fitted: Fitted | None = None
) -> tuple[F64, tuple[Block, ...]]:
    """Return (all weights in a row, their layout) for arrays by factor.

    Parameters
    ----------
    declaration : Declaration
    weights : mapping of Factor (or its name) to array
        In the shapes that ``print(Model)`` shows; a number, or an array of one, where there is one weight.
    fitted : Fitted, optional
        What features have learnt from data.

    Raises
    ------
    OptionError
        The model learns features from data and none are given, a factor has no weights or is none of the model, or an
        array has another shape, or numbers that its factor does not take.
    """
    if declaration.fitted and fitted is None:
        text = f"model {declaration.name} learns features (or which weights there are) from data"
        hint = "give these data (fitted_on=X), fit it, or load a model that was saved"
        raise OptionError(f"{text}, and weights alone do not define them: {hint}")
    if not isinstance(weights, Mapping):
        raise OptionError(f"weights must be a dict of arrays by factor, got {type(weights).__name__}")
    blocks = weight_blocks(declaration, LearntWidths(declaration, fitted or {}))
    given = {factor_name(key): _array(key, value) for key, value in weights.items()}
    names = [block.name for block in blocks]
    if set(given) != set(names):
        missing, unknown = sorted(set(names) - set(given)), sorted(map(str, set(given) - set(names)))
        parts = [f"no weights for {', '.join(missing)}"] if missing else []
        parts += [f"{', '.join(unknown)} owns no weights"] if unknown else []
        raise OptionError(f"model {declaration.name}: {'; '.join(parts)}; its factors are {', '.join(names) or 'none'}")
    w = np.zeros(max((block.stop for block in blocks), default=0))
    for block in blocks:
        array = given[block.name]
        if array.shape in ((), (1,)) and prod(block.shape) == 1:  # one weight, in whatever form a number has
            array = array.reshape(block.shape)
        if array.shape != block.shape:
            raise OptionError(f"weights of '{block.name}': expected shape {block.shape}, found {array.shape}")
        if (array < block.lower_bound).any():
            raise OptionError(f"weights of '{block.name}': expected none below 0 (nonneg=True), found {array.min():g}")
        block.view(w)[...] = array
    return w, blocks


def _array(key: Factor | str, value: Any) -> F64:
    """Return an array of finite numbers."""
    name = factor_name(key)
    try:
        array = as_floats(real_array(value))
    except NotNumbers as err:
        raise OptionError(f"weights of '{name}': {err}") from None
    if not np.isfinite(array).all():
        hint = "declare forbidden states: Forbid(...), or Given(...) for scores of -inf"
        raise OptionError(f"weights of '{name}': expected finite numbers ({hint})")
    return array
