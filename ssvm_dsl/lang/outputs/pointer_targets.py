"""Patterns of several pointers: ``siblings(y)`` and ``grandparents(y)``.

Factors of several pointers score where all of them point as the pattern says; elsewhere they score nothing.
"""

from __future__ import annotations

from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.patterns.pattern import Pattern, Word
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.symbols import Mistake, got


@checked_call
def siblings(y: Label) -> Target:
    """Join each two pointers to the same position: ``first`` and ``second`` point to ``target``, ``first < second``.

    A factor scores where both do.  Its features are a row for each (first, second, target), the target running fastest:
    ``Feature(function, siblings(y), width=...)``, a function that takes these as arrays.

    Parameters
    ----------
    y : Label
        A pointer label, such as ``Label(T, over=T, null=True)``.

    Examples
    --------
    >>> both = Factor(siblings(head))
    >>> def apart(first, second, target): return (second - first == 1).astype(float)
    >>> near = Factor(siblings(head), features=Feature(apart, siblings(head), width=1))
    """
    if mistakes := _pointer_mistakes("siblings", y):
        return Target("each", (y,), mistakes=mistakes)
    (i, j), k = y.dims[0].index(2), y.dims[1].origin.index()
    i, j, k = i.shown_as("i"), j.shown_as("j"), k.shown_as("k")
    word = Word("siblings", (y,), ends={"first": i, "second": j, "target": k})
    return Pattern.of_word(word, [(LabelAt(y, (i, k)), LabelAt(y, (j, k)))], i < j)


@checked_call
def grandparents(y: Label) -> Target:
    """Join pointers one after the other: ``first`` points to ``second``, which points to ``target``.

    A factor scores where both do.  Its features are those of :func:`siblings`, with all pairs of different positions in
    order, and the target running fastest.

    Parameters
    ----------
    y : Label
        A label that points to positions of its own axis, such as ``Label(T, over=T, null=True)``.

    Examples
    --------
    >>> chains = Factor(grandparents(head))
    """
    mistakes = _pointer_mistakes("grandparents", y)
    if not mistakes and y.dims[1].origin is not y.dims[0]:
        mistakes.append("grandparents: pointers to pointers need one axis: Label(T, over=T)")
    if mistakes:
        return Target("each", (y,), mistakes=mistakes)
    i, j, k = (index.shown_as(text) for index, text in zip(y.dims[0].index(3), "ijk", strict=True))
    word = Word("grandparents", (y,), ends={"first": i, "second": j, "target": k})
    return Pattern.of_word(word, [(LabelAt(y, (i, j)), LabelAt(y, (j, k)))], i.is_not(j))


def _pointer_mistakes(what: str, y: object) -> list[Mistake]:
    alone = isinstance(y, Label) and y.pointer and len(y.dims) == 2
    return [] if alone else [got(f"{what}: a pointer label of one axis, as Label(T, over=T)", y)]
