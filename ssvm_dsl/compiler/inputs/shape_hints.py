"""Advice about arrays of the wrong shape: one example that is not in a list, and transposed arrays."""

from __future__ import annotations

from ssvm_dsl.lang.inputs import Input

#: The shape of an example; ``None`` for an axis whose size comes with it.
Shape = tuple[int | None, ...]


def shape_hint(symbol: Input, shapes: list[tuple[int, ...]], wrong: int) -> str:
    """Return a guess at the intended examples of a dense input; empty without one.

    Parameters
    ----------
    symbol : Input
    shapes : list of tuple of int
        Of the arrays that were passed.
    wrong : int
        The first one that does not fit.
    """
    expected: Shape = (*(dim.size for dim in symbol.dims), *symbol.shape)
    found, name = shapes[wrong], symbol.name
    if len(expected) > 1 and _fits(found[::-1], expected):
        return f"it fits transposed: pass {name}.T for each example"
    alike = len(set(shapes)) == 1
    if alike and _fits((len(shapes), *found), expected):
        return f"X reads as {len(shapes)} examples; if it is a single one, pass a list with it: [X]"
    if alike and len(expected) == 1 and len(found) == 1 and len(shapes) == expected[0]:
        return f"X has {len(shapes)} rows of {found[0]} numbers: if these are features by examples, pass X.T"
    return ""


def _fits(shape: tuple[int, ...], expected: Shape) -> bool:
    """Whether an array of this shape may be an example."""
    if len(shape) != len(expected):
        return False
    return all(size is None or size == given for given, size in zip(shape, expected, strict=True))
