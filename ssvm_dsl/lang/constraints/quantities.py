"""Numbers of constraints and literals that follow from positions, sizes and edges of an example."""

from __future__ import annotations

from dataclasses import dataclass

from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.inputs import Edges, Input


@dataclass(frozen=True)
class EdgeEnd:
    """The position that an edge starts from, or leads to, for literals at each edge.

    Parameters
    ----------
    edges : Edges
    end : int
        0 for the start, 1 for the other end.
    """

    edges: Edges
    end: int


@dataclass(frozen=True)
class Sum:
    """The sum of a literal's positions on some axes, of the sizes of others, and a number.

    Parameters
    ----------
    positions : tuple of Dim
        None of them for numbers of constraints.
    sizes : tuple of Dim
    plus : int
    """

    positions: tuple[Dim, ...] = ()
    sizes: tuple[Dim, ...] = ()
    plus: int = 0

    @property
    def dims(self) -> tuple[Dim, ...]:
        """All axes."""
        return (*self.positions, *self.sizes)


#: A number of a constraint: fixed, of each example (an input), or a size or position (Dim, the end of an edge, a sum).
Value = float | Input | Dim | EdgeEnd | Sum


@dataclass(frozen=True)
class Parameter:
    """A number that a kind of constraint needs.

    Parameters
    ----------
    name : str
        Its name in ``ConstraintGroup.meta``, or ``literal_meta``.
    value : number, Input or Dim
        Of a constraint: the same everywhere, or from an input whose axes are among ``along``, or the size of an axis.
        Of a literal: the same for all, or from an input whose axes are its label's, or its position on an axis.
    whole : bool
        Whether it is a whole number.
    below : Dim, optional
        It is a position on this axis, counted from its end where it is a negative number.
    """

    name: str
    value: Value
    whole: bool = False
    below: Dim | None = None
