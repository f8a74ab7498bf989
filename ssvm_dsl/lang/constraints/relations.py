"""Relations between positions of one axis, over labels of two classes: clusterings, orders, transitive, acyclic ones.

The label says of each pair of positions whether the first is related to the second.  Its variables may be at some of
the pairs only: they are to be those of some clustering, order or relation of all positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from ssvm_dsl.lang.constraints.logic import Constraint, Literal
from ssvm_dsl.lang.dims import Dim, Index
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.patterns.references import LabelAt, LiteralAt
from ssvm_dsl.lang.symbols import Mistake, Symbol, got, show


@dataclass(frozen=True, init=False, repr=False)
class PairRelation(Constraint):
    """What the relations have in common.

    Parameters
    ----------
    literal : Label, or literal at positions
    pair : tuple of two Index, optional
    """

    kind_name: ClassVar[str] = ""

    written_literal: Any
    pair: tuple[Index, Index]
    pattern: Pattern
    state: int

    def __init__(self, literal: Any, pair: Any = None) -> None:
        mistakes: list[Mistake] = []
        what = type(self).__name__
        read, indices = _read(literal, pair, what, mistakes)
        label, state = read.label, read.label.index(read.state) or 0
        if not mistakes and (text := self._unfit(label)):
            mistakes.append(f"{what}: {text}")
        once = label.symmetric and self.kind_name in ("equivalence", "linear-order")
        condition = indices[0] < indices[1] if once and not mistakes else None
        names = label.classes or tuple(range(label.n_states))
        target = label.is_(names[state])
        self._fill(
            mistakes, kind=self.kind_name, literals=(Literal(target),), along=(), meta=(), literal_meta=((),),
            written_literal=literal if isinstance(literal, Label | LiteralAt) else label, pair=indices,
            pattern=Pattern(read.reference, condition), state=state,
        )  # fmt: skip

    def _unfit(self, label: Label) -> str:
        """Return why the relation does not go together with how a label is symmetric; empty if it does."""
        return ""

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        options = {} if isinstance(self.written_literal, Label) else {"pair": self.pair}
        return (self.written_literal,), options

    @property
    def targets(self) -> tuple[Target, ...]:
        """The pattern of its literals."""
        return (self.pattern,)

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its label, indices, and what its positions read."""
        yield "the label", self.labels[0].declared
        if not isinstance(self.written_literal, Label):
            yield from self.pattern.symbols()

    @property
    def others(self) -> tuple[Index, ...]:
        """The other indices: there is a relation for each assignment of them."""
        return tuple(one for one in self.pattern.free if not any(one is mine for mine in self.pair))

    @property
    def axes(self) -> tuple[Dim, ...]:
        """The axes of its indices."""
        return tuple({id(one.dim): one.dim for one in self.pattern.free}.values())

    def count(self, sizes: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return (relations, literals) of an example at most, for axis sizes by name."""
        n = prod((sizes[one.dim.name] for one in self.others), start=1)
        side = sizes[self.pair[0].dim.name]
        return n, n * side * side


class Equivalence(PairRelation):
    """Positions are related within the clusters of a clustering, and not between them.

    Over variables at all pairs, in both orders, this implies that the relation is symmetric, and true on the diagonal.
    Over some of the pairs some clustering of all positions agrees with them.

    Parameters
    ----------
    literal : Label, or literal at positions
        A label over one axis twice, of two classes (the second one means "related"); or ``same[f, i, j].is_(1)``.
    pair : tuple of two Index, optional
        Of a literal at positions: the indices of the pair; there is a relation for each assignment of the others.

    Examples
    --------
    >>> same = Label(i, j, 2, where=i < j)
    >>> one = Equivalence(same)
    >>> each = Equivalence(link[f, i, j].is_(1), pair=(i, j))
    """

    kind_name = "equivalence"

    def _unfit(self, label: Label) -> str:
        if label.converse is not None and label.converse != tuple(range(label.n_states)):
            return "a clustering says the same of both orders of a pair: the label is symmetric=True, without converses"
        return ""


class LinearOrder(PairRelation):
    """A position is related to those behind it in a linear order of all positions.

    Of variables at pairs ``i < j`` the other order is the opposite.  Over some of the pairs some order of all positions
    agrees with them.  On the diagonal nothing is related.

    Parameters
    ----------
    literal, pair
        As of :class:`Equivalence`.

    Examples
    --------
    >>> before = Label(i, j, 2, where=i < j)
    >>> rank = LinearOrder(before)
    """

    kind_name = "linear-order"

    def _unfit(self, label: Label) -> str:
        if label.converse == tuple(range(label.n_states)):
            return "an order says the opposite of both orders of a pair: where=i < j, or symmetric={'before': 'after'}"
        return ""


class Transitive(PairRelation):
    """Where related positions lead from one position to another, these two are related, if there is such a variable.

    Nothing is said of pairs without a variable.  On the diagonal, where the label has one, a position is related to
    itself if related positions lead back to it.

    Parameters
    ----------
    literal, pair
        As of :class:`Equivalence`.

    Examples
    --------
    >>> implies = Label(i, j, 2, where=i.is_not(j))
    >>> closed = Transitive(implies)
    """

    kind_name = "transitive"


class Acyclic(PairRelation):
    """Related positions do not lead in a circle; no position is related to itself.

    Parameters
    ----------
    literal, pair
        As of :class:`Equivalence`.

    Examples
    --------
    >>> arc = Label(i, j, 2)
    >>> graph = Acyclic(arc)
    """

    kind_name = "acyclic"


def _read(literal: Any, pair: Any, what: str, mistakes: list[Mistake]) -> tuple[LiteralAt, tuple[Index, Index]]:
    """Return (a literal at positions, the indices of its pair)."""
    if isinstance(literal, Label):
        mistakes += literal.mistakes
        if pair is not None:
            mistakes.append(f"{what}: pair= is for literals at positions, as {show(literal)}[i, j].is_(1)")
        if literal.pointer or len(literal.dims) != 2 or literal.dims[0].origin is not literal.dims[1].origin:
            text = f"{what}: a label over one axis twice, as Label(i, j, 2), or a literal with its pair:"
            mistakes.append(got(f"{text} {what}(r[f, i, j].is_(1), pair=(i, j))", literal))
        elif literal.n_states != 2:
            mistakes.append(got(f"{what}: a label of two classes, the second for related positions", literal))
        else:
            i, j = literal.dims[0].origin.index(2)
            return LiteralAt(LabelAt(literal, (i, j)), _classes(literal)[1]), (i, j)
        return _none()
    if not isinstance(literal, LiteralAt):
        mistakes.append(got(f"{what}: a label over one axis twice, or a literal with its pair=(i, j)", literal))
        return _none()
    mistakes += literal.mistakes
    indices = tuple(pair) if isinstance(pair, tuple | list) else ()
    if len(indices) != 2 or not all(isinstance(one, Index) for one in indices) or indices[0] is indices[1]:
        mistakes.append(got(f"{what}: pair= is two indices over one axis, as pair=(i, j)", pair))
    elif indices[0].dim is not indices[1].dim:
        mistakes.append(got(f"{what}: the indices of pair= run over one axis", indices))
    elif literal.label.pointer or literal.label.index(literal.state) is None:
        mistakes.append(f"{what}: the literal is about a class of a label, as r[f, i, j].is_(1)")
    else:
        free = Pattern(literal.reference).free
        for one in indices:
            if not any(one is index for index in free):
                mistakes.append(got(f"{what}: the indices of pair= occur in the literal", one))
    return (_none() if mistakes else (literal, (indices[0], indices[1])))


def _classes(label: Label) -> tuple[Any, ...]:
    """Return the classes of a label."""
    return label.classes or tuple(range(label.n_states))


def _none() -> tuple[LiteralAt, tuple[Index, Index]]:
    """Return a literal that stands for one with mistakes."""
    axis = Dim(1)
    i, j = axis.index(2)
    return LiteralAt(LabelAt(Label(i, j, 2), (i, j)), 1), (i, j)
