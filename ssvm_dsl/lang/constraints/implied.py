"""Constraints that labels have by themselves: pointers, segments and trees are not just any states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ssvm_dsl.lang.constraints.logic import Constraint, Literal, Parameter, Sum
from ssvm_dsl.lang.constraints.pointers import ExactlyOneState, PointerStructure
from ssvm_dsl.lang.outputs.labels import Label, Target


class Implied(Constraint):
    """A constraint that a label has by itself, and its name."""

    of: Label

    def _imply(self, y: Label, kind: str, literals: tuple[Literal, ...], *more: Any) -> None:
        object.__setattr__(self, "of", y)
        self._declare([], kind, literals, (), *more)
        object.__setattr__(self, "name", y.name)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.of,), {}


class Derivable(Implied):
    """The tags, phrases and rules of a label are one tree that its grammar derives.

    Models have it for each label with ``grammar=``.  Its literals only name the variables, in this order: tags of
    words, phrases by first and last word, first and second digits of rules.  What they say is for the grammar to judge,
    by labels.

    Parameters
    ----------
    y : Label
        A label with ``grammar=``.
    """

    def __init__(self, y: Label) -> None:
        literals = [_of_state(part, 0) for part in (y, *y.parts)]
        meta = (Parameter("n", Sum(sizes=y.dims), whole=True),)
        self._imply(y, "derivable", tuple(literals), meta)

    @property
    def judged_label(self) -> Label:
        """The label itself."""
        return self.of


class Segmentation(Implied):
    """The segments of a label divide its axis: each position is in one, of the class that the position has.

    Models have it for each label with ``segments=``.  Its literals are "position t has class k", "a segment begins at
    position t" and "the span from s, so many positions long, is a segment of class k"; of spans, ``start`` and ``stop``
    are their ends, of the others both are t; ``class`` is -1 for beginnings.

    Parameters
    ----------
    y : Label
        A label with ``segments=``.
    """

    def __init__(self, y: Label) -> None:
        (axis,), (_, length) = y.dims, y.spans.dims
        at = Parameter("start", Sum((axis,))), Parameter("stop", Sum((axis,)))
        span = Parameter("start", Sum((axis,))), Parameter("stop", Sum((axis, length), plus=1))
        literals, numbers = [], []
        for k in range(y.n_states):
            literals.append(_of_state(y, k))
            numbers.append((*at, Parameter("class", Sum(plus=k))))
        literals.append(_of_state(y.begins, 1))
        numbers.append((*at, Parameter("class", Sum(plus=-1))))
        for k in range(y.n_states):
            literals.append(_of_state(y.spans, k + 1))
            numbers.append((*span, Parameter("class", Sum(plus=k))))
        meta = (
            Parameter("n", Sum(sizes=(axis,)), whole=True),
            Parameter("n_classes", y.n_states, whole=True),
            Parameter("longest", y.segments or 1, whole=True),
        )
        self._imply(y, "segmentation", tuple(literals), meta, tuple(numbers))


class SegmentBegins(Implied):
    """The segments of a label whose spans are no variables are not too long, and the first begins at once.

    Its literals are "position t has the first class" of all positions, which are no condition and say where the classes
    are, and then "a segment begins at position t".  That classes do not change within segments is a rule on successive
    ones.

    Parameters
    ----------
    y : Label
        A label with ``segments=``.
    """

    def __init__(self, y: Label) -> None:
        meta = (
            Parameter("n", Sum(sizes=y.dims), whole=True),
            Parameter("n_classes", y.n_states, whole=True),
            Parameter("longest", y.segments or 1, whole=True),
        )
        literals = _of_state(y, 0), _of_state(y.begins, 1)
        self._imply(y, "segment-begins", literals, meta, ((), ()))


def _of_state(label: Label, k: int) -> Literal:
    """Return the literal of the k-th state of a label."""
    return Literal(Target("indicator", (label,), state=k if label.classes is None else label.classes[k]))


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
