"""Patterns without any instance, whatever the data: positions that never exist, conditions that are never true.

Positions, indices and sizes of axes are numbers whose differences are bounded, ``x_v - x_u <= w``, by what exists and
by comparisons.  There are such numbers unless some bounds around a circle add up to less than zero (Bellman and Ford).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ssvm_dsl.lang.dims import Compare, Condition, Dim, FromEnd, Index, OnAxis, Shift, conjuncts, indices_of
from ssvm_dsl.lang.symbols import Mistake, show

#: A bound ``x_v - x_u <= w`` as (u, v, w); numbers by the identity of an index or axis, 0 for the number 0.
Bound = tuple[int, int, int]

_ZERO = 0


def impossible(what: object, places: Sequence[tuple[Any, Dim]], condition: Condition | None) -> Iterator[Mistake]:
    """Yield why there is no instance, of a symbol that gets its name later.

    Parameters
    ----------
    what : object
        The pattern or rule, for messages.
    places : sequence of (position, axis)
        Positions that must exist.
    condition : Condition, optional
    """
    for place, dim in places:
        if isinstance(place, Shift | FromEnd) and _contradict([*_of_place(place, dim)]):
            yield partial(_no_position, what, place, dim)
            return
    compared = [*_of_condition(condition)]
    if condition is not None and _contradict(compared):
        yield lambda: f"{what!r}: where= is never true: {condition!r}"
        return
    existing = [bound for place, dim in places for bound in _of_place(place, dim)]
    if _contradict([*compared, *existing]):
        text = "its positions never exist together"
        text = text if condition is None else "where= is never true where its positions exist"
        yield lambda: f"{what!r}: {text}"


def _no_position(what: object, place: object, dim: Dim) -> str:
    return f"{what!r}: no position {place!r} exists on an axis of {show(dim.size)}"


def impossible_both(condition: Condition, *others: Condition) -> bool:
    """Return whether a condition is never true together with one of some others, of two opposite ones."""
    alone = [*_of_condition(condition)]
    return any(_contradict([*alone, *_of_condition(one)]) for one in others)


def _of_condition(condition: Condition | None) -> Iterator[Bound]:
    """Yield the bounds of comparisons of positions."""
    for index in indices_of(condition):
        yield from _of_place(index, index.dim)
    for one in conjuncts(condition):
        a, b = (_term(one.left), _term(one.right)) if isinstance(one, Compare) else (None, None)
        if a is None or b is None or not isinstance(one, Compare):
            continue
        (u, p), (v, q) = a, b
        if one.op in ("<", "<=", "=="):  # x_u + p <= x_v + q
            yield v, u, q - p - (one.op == "<")
        if one.op in (">", ">=", "=="):
            yield u, v, p - q - (one.op == ">")
        if one.op == "!=" and a == b:
            yield _ZERO, _ZERO, -1


def _of_place(place: Any, dim: Dim) -> Iterator[Bound]:
    """Yield the bounds under which a position exists."""
    size = id(dim.origin)
    yield from _of_size(dim)
    for index in indices_of(place):
        yield id(index), _ZERO, 0
        yield id(index.dim.origin), id(index), -1
        yield from _of_size(index.dim)
    if isinstance(place, int) and place < 0:
        yield size, _ZERO, place
    elif isinstance(place, FromEnd):
        yield id(place.base.dim.origin), id(place.base), place.by
        if place.base.dim.origin is dim.origin:
            yield id(place.base), _ZERO, -1 - place.by
    elif (term := _term(place)) is not None:
        node, by = term
        yield node, _ZERO, by
        yield size, node, -1 - by


def _of_size(dim: Dim) -> Iterator[Bound]:
    yield id(dim.origin), _ZERO, 0
    if dim.size is not None:
        yield id(dim.origin), _ZERO, -dim.size
        yield _ZERO, id(dim.origin), dim.size


def _term(number: Any) -> tuple[int, int] | None:
    """Return (an index, what is added to it); ``None`` for what is no such sum."""
    if isinstance(number, int):
        return _ZERO, number
    if isinstance(number, Index):
        return id(number), 0
    if isinstance(number, OnAxis):
        return _term(number.base)
    if isinstance(number, Shift):
        base = _term(number.base)
        return None if base is None else (base[0], base[1] + number.by)
    return None


def _contradict(bounds: list[Bound]) -> bool:
    """Whether no numbers keep all bounds."""
    least = dict.fromkeys((node for u, v, _ in bounds for node in (u, v)), 0)
    for _ in range(len(least) + 1):
        changed = False
        for u, v, w in bounds:
            if least[u] + w < least[v]:
                least[v], changed = least[u] + w, True
        if not changed:
            return False
    return bool(bounds)
