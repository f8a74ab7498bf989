"""Structures of pointer labels: permutations, directed trees.

A pointer label ``y = Label(T, over=J)`` has a yes or no for each pair of a position and what it may point to, and with
``null=True`` one for "nowhere".  Its structure is one constraint over all of them; without a declared one each position
points to one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ssvm_dsl.lang.constraints.logic import Constraint, Literal, Parameter, Sum
from ssvm_dsl.lang.dims import Dim, Index
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.patterns.join import symbols_of
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.symbols import Mistake, ModelView, Symbol, as_flag, got, show


class PointerStructure(Constraint):
    """The structure that all pointers of a label form."""

    pointers: Label

    def _structure(
        self,
        kind: str,
        label: object,
        mistakes: list[Mistake],
        meta: tuple[Parameter, ...],
        pair: tuple[Parameter, ...],
        none: tuple[Parameter, ...],
        along: tuple[Dim, ...] = (),
    ) -> None:
        """Declare the constraint: numbers of the whole, of a pair, and of a pointer that points nowhere."""
        pointers = _checked(label, type(self).__name__, mistakes)
        literals = [Literal(Target("indicator", (pointers,), state=1))]
        numbers = [pair]
        if pointers.none is not None:
            literals.append(Literal(Target("indicator", (pointers.none,), state=1)))
            numbers.append(none)
        object.__setattr__(self, "pointers", pointers)
        self._declare(mistakes, kind, tuple(literals), along, meta, tuple(numbers))

    def clashes(self, model: ModelView) -> Iterator[str]:
        """Yield a structure that the same pointers have already."""
        first = next(one for one in model.of(PointerStructure) if one.pointers is self.pointers)
        if first.name != self.name:
            yield f"{self.pointers.name} is a {first.name} already; pointers have one structure"

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        single = any(one.name == "single_root" and one.value for one in self.meta)
        return (self.pointers,), ({"single_root": True} if single else {})


class AllDifferent(PointerStructure):
    """No two pointers of a label point to the same position; with as many positions as pointers, a permutation.

    Parameters
    ----------
    y : Label, or pointer at positions
        A pointer label: ``y = Label(T, over=T)``.  Where it has ``null=True`` any number of them point nowhere.  Of a
        label of several axes ``h[f, i]``.
    over : Index, optional
        Of a pointer at positions, the index over which all differ, for each assignment of the others.

    Examples
    --------
    >>> order = AllDifferent(y)
    >>> tracks = AllDifferent(h[f, i], over=i)                  # h = Label(F, I, over=J): one for each f
    """

    at: LabelAt | None
    over: Index | None

    def __init__(self, y: Label | LabelAt, over: Index | None = None) -> None:
        mistakes = list[Mistake]()
        label = _of_positions(y, over, mistakes) if isinstance(y, LabelAt) or over is not None else y
        pointers = _checked(label, type(self).__name__, mistakes)
        *own, to = pointers.dims
        if not isinstance(y, LabelAt) and len(own) > 1:
            text = "AllDifferent: of a label of several axes say over which:"
            mistakes.append(lambda: f"{text} AllDifferent({show(y)}[i, j], over=j)")
        from_ = own[-1]
        if isinstance(y, LabelAt) and not mistakes:
            from_ = next(dim for dim, place in zip(own, y.places, strict=True) if place is over)
        meta = (
            Parameter("n_rows", Sum(sizes=(from_,)), whole=True),
            Parameter("n_cols", Sum(sizes=(to, from_) if pointers.null else (to,)), whole=True),
            *(Parameter(name, value, whole=True) for name, value in (("row_least", 1), ("row_most", 1))),
            *(Parameter(name, value, whole=True) for name, value in (("col_least", 0), ("col_most", 1))),
        )
        row = Parameter("row", Sum((from_,)))
        # "nowhere" is a column of each row's own
        nowhere = (row, Parameter("col", Sum((from_,), (to,))))
        others = tuple(dim for dim in own if dim is not from_)
        object.__setattr__(self, "at", y if isinstance(y, LabelAt) and not mistakes else None)
        object.__setattr__(self, "over", over)
        self._structure("matching", pointers, mistakes, meta, (row, Parameter("col", Sum((to,)))), nowhere, others)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return ((self.at,), {"over": self.over}) if self.at is not None else ((self.pointers,), {})

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its label, and the indices of positions."""
        yield from super().references()
        for place in () if self.at is None else self.at.places:
            yield from symbols_of(place)


class ExactlyOneState(PointerStructure):
    """Each pointer of a label points to one position (or nowhere): every pointer label has this constraint.

    Parameters
    ----------
    y : Label
        A pointer label.
    """

    def __init__(self, y: Label) -> None:
        one = tuple(Parameter(name, 1, whole=True) for name in ("lower", "upper"))
        self._structure("count", y, [], one, (), (), along=y.dims[:-1])
        object.__setattr__(self, "name", y.name)


class Arborescence(PointerStructure):
    """Pointers to heads form a directed tree: from every position heads lead to the root, which is "nowhere".

    Parameters
    ----------
    head : Label
        A pointer label ``head = Label(T, over=T, null=True)``; -1 is the root.
    single_root : bool
        Exactly one position has the root for its head.

    Examples
    --------
    >>> tree = Arborescence(head, single_root=True)
    """

    def __init__(self, head: Label, single_root: bool = False) -> None:
        self._tree("arborescence", head, single_root)

    def _tree(self, kind: str, label: object, single_root: object) -> None:
        what, mistakes = type(self).__name__, list[Mistake]()
        single = as_flag(single_root, f"{what}: single_root", mistakes)
        head = _checked(label, what, mistakes)
        if not mistakes and (len(head.dims) != 2 or head.dims[1].origin is not head.dims[0] or not head.null):
            mistakes.append(f"{what}: heads are positions of the same axis or none: head = Label(T, over=T, null=True)")
        position, target = head.dims[-2:]
        meta = (Parameter("n", Sum(sizes=(position,)), whole=True), Parameter("single_root", single))
        dependent = Parameter("dependent", Sum((position,), plus=1))
        pair = (Parameter("head", Sum((target,), plus=1)), dependent)
        self._structure(kind, head, mistakes, meta, pair, (Parameter("head", Sum()), dependent))


class ProjectiveTree(Arborescence):
    """Pointers to heads form a directed tree none of whose arcs cross, the root before the first position.

    The arguments are those of :class:`Arborescence`.
    """

    def __init__(self, head: Label, single_root: bool = False) -> None:
        self._tree("projective-tree", head, single_root)


def _of_positions(at: object, over: object, mistakes: list[Mistake]) -> object:
    """Return the label of a pointer at positions: a different index for each of its axes, ``over`` one of them."""
    if not isinstance(at, LabelAt):
        mistakes.append(got("AllDifferent: over= is for a pointer at positions, as h[f, i], over=i", at))
        return at
    mistakes += at.mistakes
    alone = [isinstance(one, Index) for one in at.places]
    if not all(alone) or len(set(map(id, at.places))) < len(at.places):
        mistakes.append(got("AllDifferent: a different index for each axis, as h[f, i]", at))
    elif not any(one is over for one in at.places):
        mistakes.append(lambda: f"AllDifferent: over= is an index of {at!r}, got {show(over)}")
    return at.label


def _checked(label: object, what: str, mistakes: list[Mistake]) -> Label:
    """Return a pointer label; note anything else as a mistake."""
    if isinstance(label, Label) and label.pointer:
        return label
    mistakes.append(got(f"{what}: a pointer label, such as y = Label(T, over=T)", label))
    return Label(Dim(1), over=Dim(1), null=True)
