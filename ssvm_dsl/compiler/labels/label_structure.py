"""What a kind of labels brings: how values are read, written, described and judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.compiler.labels.unknown_labels import UnseenClasses
from ssvm_dsl.ir.constraints import LabelRules
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.outputs.labels import Label


class LabelPlaces(Protocol):
    """Where the variables of labels are: a :class:`~ssvm_dsl.compiler.layout.Layout`."""

    @property
    def declaration(self) -> Declaration:
        """The declaration."""

    @property
    def card(self) -> I32:
        """States of each variable."""

    @property
    def domains(self) -> Mapping[str, Any]:
        """The positions of labels that have variables at some only."""

    def variables(self, label: Label) -> slice | I64:
        """Return the variables of a label."""

    def count(self, label: Label) -> I64:
        """Return how many variables of a label each example has."""

    def ends(self, label: Label) -> list[int]:
        """Return 0, and where the variables of each example end among those of a label."""

    def shape(self, label: Label, i: int) -> tuple[int, ...]:
        """Return the shape of the label's array in an example."""

    def shapes(self, label: Label) -> Iterable[tuple[int, ...]]:
        """Return the shape of the label's array in each example."""

    def pairs(self, label: Label) -> tuple[I64, I64]:
        """Return how many positions point, and are pointed to, in each example."""


class LabelStructure(ABC):
    """A kind of labels; there is one object of each."""

    #: Whether its values have classes, all of which may be expected in data.
    has_classes: ClassVar[bool]

    @abstractmethod
    def words(self, label: Label) -> str:
        """Return what plans and reports call such a label; nothing where labels are variables of the program."""

    @abstractmethod
    def judged(self, label: Label, parts_alone: bool) -> tuple[Label, ...]:
        """Return the parts of a label that a loss looks at, ``parts_alone``: a ``Cost``."""

    def rules(self, label: Label) -> tuple[dict[str, NDArray[Any]], LabelRules | None]:
        """Return (arrays, judge) of the constraint that judges whole labellings; ``({}, None)`` where literals do."""
        return {}, None

    @abstractmethod
    def encode(
        self, places: LabelPlaces, label: Label, values: Sequence[Any], out: tuple[I32, Bools], partial: bool,
        unseen: UnseenClasses | None = None,
    ) -> list[I64]:  # fmt: skip
        """Write what users gave as states, and which are not known; return states that some of the latter lack.

        Parameters
        ----------
        places : LabelPlaces
        label : Label
        values : sequence
            For each example.
        out : tuple of ndarray, shape (V,)
            States of variables, and whether they are not known; written.
        partial : bool
            Whether values may be known in part.
        unseen : UnseenClasses, optional
            Takes classes that the label does not have; they are an error where it is left out.
        """

    @abstractmethod
    def decode(self, places: LabelPlaces, label: Label, states: I32) -> list[Any]:
        """Return the users' form of a labelling, for each example."""
