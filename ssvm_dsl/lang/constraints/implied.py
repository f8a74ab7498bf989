"""Constraints that labels have by themselves: a state for each pointer, a division into segments, a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssvm_dsl.lang.constraints.derivable import Derivable
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.constraints.pointers import ExactlyOneState, PointerStructure
from ssvm_dsl.lang.constraints.segments import Segmentation, SegmentBegins
from ssvm_dsl.lang.outputs.labels import Label


def implied_constraints(
    declared: Sequence[Constraint], labels: Sequence[Label], compact: bool = False
) -> Iterator[Constraint]:
    """Yield one for each pointer label without a declared structure, one for each label of segments, and of trees.

    With ``compact`` spans of segments are no variables.
    """
    divided = SegmentBegins if compact else Segmentation
    shaped = {id(one.pointers) for one in declared if isinstance(one, PointerStructure)}
    yield from (ExactlyOneState(label) for label in labels if label.pointer and id(label) not in shaped)
    yield from (divided(label) for label in labels if label.segments is not None)
    yield from (Derivable(label) for label in labels if label.grammar is not None)
