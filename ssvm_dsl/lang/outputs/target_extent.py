"""How many factors a target has, on which axes, and the tables that they have in programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

from ssvm_dsl.lang.dims import Dim, n_positions, union_axes
from ssvm_dsl.lang.inputs import Edges
from ssvm_dsl.lang.outputs.segment_lengths import n_spans
from ssvm_dsl.lang.outputs.variables import Variables
from ssvm_dsl.lang.symbols import Node, Symbol


@dataclass(frozen=True, init=False, repr=False)
class TargetExtent(Node):
    """The extent of a :class:`~ssvm_dsl.Target`, by its kind and axes; that class describes the fields."""

    kind: str
    labels: tuple[Any, ...]
    axes: tuple[Dim, ...]
    order: int
    edges: Edges | None
    sets: tuple[tuple[int, ...], ...]
    position: int

    @property
    def label(self) -> Variables:
        """The (first) label array of the target."""
        first: Variables = self.labels[0]
        return first

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs whose content decides which factors there are."""
        return () if self.edges is None else (self.edges,)

    def symbols(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols that it refers to beside its labels, with what each is to it."""
        if self.edges is not None:
            yield "the edge list", self.edges

    @property
    def all_labels(self) -> tuple[Any, ...]:
        """The labels whose variables its factors join, each once."""
        return tuple({id(label): label for label in self.labels}.values())

    @property
    def inner(self) -> TargetExtent:
        """The factors that auxiliary variables belong to."""
        raise NotImplementedError

    @property
    def arity(self) -> int:
        """Number of variables in one factor."""
        raise NotImplementedError

    @property
    def cards(self) -> tuple[int, ...]:
        """Number of states of each variable of a factor."""
        raise NotImplementedError

    def is_(self, state: object) -> Any:
        """Note a mistake: classes are those of a label, ``y.is_(k)``."""
        return self._with("is_: only a label has it, as y.is_(k), for all of its positions")

    def at(self, position: object) -> Self:
        """Note a mistake: positions are those of a label, ``y.at(0)``."""
        return self._with("at: only a label has it, as y.at(0)")

    def _with(self, mistake: str) -> Self:
        """Return the target with one more mistake."""
        made = copy(self)
        object.__setattr__(made, "mistakes", (*self.mistakes, mistake))
        return made

    @property
    def table_cards(self) -> tuple[int, ...]:
        """Number of states of each variable that a factor has in programs.

        Factors of segments also use the begin of segments: those of successive segments only that of the second.
        """
        if self.kind == "spans":
            return (self.label.n_states + 1,)
        return (*self.cards, 2) if self.where_segments_begin else self.cards

    @property
    def where_segments_begin(self) -> bool:
        """Whether its factors score only where segments begin."""
        return self.kind == "starts" or (self.kind == "chain" and self.label.segments is not None)

    @property
    def of_segments(self) -> bool:
        """Whether its factors are of whole segments."""
        return self.kind == "spans" or self.where_segments_begin

    @property
    def feature_axes(self) -> tuple[Dim, ...]:
        """Axes that features of this target may have.

        A factor of ``chain``, ``pairs`` and ``grid`` takes the features at its *last* variable.
        """
        if self.kind == "along" and self.edges is not None:
            return (self.edges.dim,)
        if self.kind in ("complete", "cliques", "at", "spans", "span", "lengths"):
            return ()
        if self.kind == "cross":
            return union_axes(*(label.dims for label in self.labels))
        return self.label.dims

    @property
    def shared_axes(self) -> tuple[Dim, ...]:
        """Axes along which all variables of one factor have the same position (what ``per=`` can untie)."""
        if self.kind in ("chain", "grid"):
            return ()
        if self.kind == "pairs":
            return tuple(dim for dim in self.label.dims if not any(dim is axis for axis in self.axes))
        return self.feature_axes

    @property
    def all_axes(self) -> tuple[Dim, ...]:
        """Axes whose sizes decide how many factors there are."""
        if self.kind == "along" and self.edges is not None:
            return (self.edges.dim,)
        return union_axes(*(label.dims for label in self.labels))

    def count(self, sizes: Mapping[str, Any]) -> Any:
        """Return the number of factors for axis sizes given by name (ints, or arrays over examples)."""
        if self.kind in ("agreement", "members"):
            return self.inner.count(sizes) * (1 if self.kind == "agreement" else self.inner.arity)
        if self.kind == "cliques":
            return len(self.sets) + 0 * sum(sizes[dim.name] for dim in self.all_axes)
        if self.kind == "at":
            size = n_positions(self.label.dims, sizes)
            return 1 * (size > self.position if self.position >= 0 else size >= -self.position)
        if self.kind in ("spans", "span"):
            return n_spans(n_positions(self.label.dims, sizes), self.label.segments or 1)
        if self.kind in ("chain", "pairs", "grid"):
            steps = [(axis,) for axis in self.label.dims] if self.kind == "grid" else [self.axes]
            return sum(self._steps(axes, sizes) for axes in steps)
        total = n_positions(self.all_axes, sizes)
        return total * (total - 1) // 2 if self.kind == "complete" else total

    def _steps(self, axes: tuple[Dim, ...], sizes: Mapping[str, Any]) -> Any:
        """Return how many runs of ``order + 1`` variables there are, each one step along all of the axes."""
        total = n_positions(tuple(dim for dim in self.label.dims if not any(dim is axis for axis in axes)), sizes)
        for axis in axes:
            total = total * ((sizes[axis.name] - self.order) * (sizes[axis.name] > self.order))
        return total
