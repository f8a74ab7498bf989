"""How many factors a target has, on which axes, and the tables that they have in programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

from ssvm_dsl.lang.dims import Dim, n_positions, union_axes
from ssvm_dsl.lang.outputs.segment_lengths import n_spans
from ssvm_dsl.lang.outputs.variables import Variables
from ssvm_dsl.lang.symbols import Node, Symbol


@dataclass(frozen=True, init=False, repr=False)
class TargetExtent(Node):
    """The extent of a :class:`~ssvm_dsl.Target`, by its kind and axes; that class describes the fields."""

    kind: str
    labels: tuple[Any, ...]

    @property
    def label(self) -> Variables:
        """The (first) label array of the target."""
        first: Variables = self.labels[0]
        return first

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs whose content decides which factors there are."""
        return () if self.kind not in ("agreement", "members") else self.inner.inputs

    @property
    def count_reads_inputs(self) -> bool:
        """Whether the content of inputs decides how many factors there are."""
        return any(label.has_domain for label in self.all_labels)

    def symbols(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols that it refers to beside its labels, with what each is to it."""
        yield from ()

    @property
    def all_labels(self) -> tuple[Any, ...]:
        """The labels whose variables its factors join, each once."""
        return tuple({id(label): label for label in self.labels}.values())

    @property
    def laid_labels(self) -> tuple[Any, ...]:
        """The labels whose variables its factors follow from, each once."""
        return self.all_labels

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
        return self.kind in ("starts", "chain")

    @property
    def of_segments(self) -> bool:
        """Whether its factors are of whole segments."""
        return self.kind == "spans" or self.where_segments_begin

    @property
    def of_spans(self) -> bool:
        """Whether its factors are of whole segments, which are variables."""
        return self.kind == "spans"

    @property
    def of_single_spans(self) -> bool:
        """Whether its factors are of single spans, which are no variables."""
        return self.kind == "span"

    @property
    def of_lengths(self) -> bool:
        """Whether its factors are of segments by class and length."""
        return self.kind == "lengths"

    @property
    def is_indicator(self) -> bool:
        """Whether it is about one class of each variable of a label."""
        return self.kind == "indicator"

    @property
    def is_whole(self) -> bool:
        """Whether it is each variable of a label."""
        return self.kind == "each"

    @property
    def is_union(self) -> bool:
        """Whether it is made of several patterns."""
        return False

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The variables of a factor by their distances along the only axis: ``(0, 1)`` of a chain."""
        if len(self.label.dims) != 1 or self.kind not in ("each", "indicator", "starts", "chain", "lengths"):
            return None
        return (0, 1) if self.kind == "chain" else (0,)

    @property
    def fixed_position(self) -> int | None:
        """The position of a single variable that is written as an int."""
        return None

    @property
    def ends(self) -> tuple[str, ...]:
        """What functions of features may ask for beside the inputs: where each factor is."""
        return ("start", "end") if self.kind == "spans" else ()

    @property
    def feature_axes(self) -> tuple[Dim, ...]:
        """Axes that features of this target may have."""
        return () if self.kind in ("spans", "span", "lengths") else self.label.dims

    @property
    def shared_axes(self) -> tuple[Dim, ...]:
        """Axes along which all variables of one factor have the same position (what ``per=`` can untie)."""
        return () if self.kind == "chain" else self.feature_axes

    @property
    def all_axes(self) -> tuple[Dim, ...]:
        """Axes whose sizes decide how many factors there are."""
        if self.kind in ("agreement", "members"):
            return self.inner.all_axes
        return union_axes(*(label.dims for label in self.labels))

    @property
    def position_axes(self) -> tuple[tuple[Dim | None, int], ...]:
        """The axes of an array with a number for each factor, with how many positions fewer each has.

        ``None`` for an axis that counts factors.
        """
        if self.kind in ("each", "indicator", "starts"):
            return tuple((dim, 0) for dim in self.label.dims)
        if self.kind == "chain":
            return ((self.label.dims[0], 1),)
        if self.kind == "spans":
            length: Dim = self.labels[0].spans.dims[-1]
            return (self.label.dims[0], 0), (length, 0)
        return ((None, 0),)

    def count(self, sizes: Mapping[str, Any]) -> Any:
        """Return the number of factors for axis sizes given by name (ints, or arrays over examples)."""
        if self.kind in ("agreement", "members"):
            return self.inner.count(sizes) * (1 if self.kind == "agreement" else self.inner.arity)
        total = n_positions(self.label.dims, sizes)
        if self.kind in ("spans", "span"):
            return n_spans(total, self.label.segments or 1)
        return (total - 1) * (total > 1) if self.kind == "chain" else total
