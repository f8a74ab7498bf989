"""The user's functions of the states of factors: prices of a loss, and what ``Forbid`` and ``Allow`` rule out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler.features.encode import Encoder
from ssvm_dsl.compiler.scopes import Scopes
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.outputs.labels import Target


def class_arrays(target: Target) -> list[NDArray[Any]]:
    """Return the classes of each variable of a factor, each on an axis of its own after that of factors."""
    r = target.arity
    names = [np.array(label.classes or range(label.n_states)) for label in target.members]
    return [one.reshape(1, *(-1 if k == at else 1 for k in range(r))) for at, one in enumerate(names)]


def call_of_factors(
    ref: FunctionRef, classes: Sequence[NDArray[Any]], places: Sequence[Any], target: Target, scopes: Scopes,
    encoder: Encoder, what: str,
) -> F64:  # fmt: skip
    """Return what a function says of each joint state of each factor of a batch, ``shape (n, *cards)``.

    Parameters
    ----------
    ref : FunctionRef
        Called once for each example: with classes, then positions, then inputs by name.
    classes : sequence of ndarray, shape (1 or n, ...)
        Of each factor, or of all.
    places : sequence of positions
    target : Target
    scopes : Scopes
        Of n factors.
    encoder : Encoder
    what : str
        What the function belongs to, for messages.

    Raises
    ------
    DataError
        The function fails, or returns another shape.
    """
    shapes, found, cards = scopes.shapes, scopes.found, target.cards
    assert found is not None
    columns = [found.position(one, getattr(one, "axis", None))[0] for one in places]
    out = np.zeros((shapes.n_factors, *cards))
    for i in range(shapes.n_examples):
        mine, lo, hi = shapes.factors(i), int(shapes.ptr[i]), int(shapes.ptr[i + 1])
        given = [one if len(one) == 1 else one[lo:hi] for one in classes]
        given += [column[mine].reshape(-1, *[1] * len(cards)) for column in columns]
        value = encoder.call_at(ref, i, given, what)
        try:
            out[lo:hi] = np.broadcast_to(value, (hi - lo, *cards))
        except ValueError as err:
            expected = f"an array that broadcasts to {(hi - lo, *cards)}"
            raise DataError(f"{what} {ref.path}", example=i, expected=expected, found=f"shape {value.shape}") from err
    return out
