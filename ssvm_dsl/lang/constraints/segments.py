"""The constraint of a segment label: its segments divide the axis."""

from __future__ import annotations

from typing import Any

from ssvm_dsl.lang.constraints.logic import Constraint, Literal
from ssvm_dsl.lang.constraints.quantities import Parameter, Sum
from ssvm_dsl.lang.outputs.labels import Label, Target


class Segmentation(Constraint):
    """The segments of a label divide its axis: each position is in one, of the class that the position has.

    Models have it for each label with ``segments=``.  Its literals are "position t has class k", "a segment begins at
    position t" and "the span from s, so many positions long, is a segment of class k"; of spans, ``start`` and ``stop``
    are their ends, of the others both are t; ``class`` is -1 for beginnings.

    Parameters
    ----------
    y : Label
        A label with ``segments=``.
    """

    of: Label

    def __init__(self, y: Label) -> None:
        (axis,), (_, length) = y.dims, y.spans.dims
        at = Parameter("start", Sum((axis,))), Parameter("stop", Sum((axis,)))
        span = Parameter("start", Sum((axis,))), Parameter("stop", Sum((axis, length), plus=1))
        literals, numbers = [], []
        for k in range(y.n_states):
            literals.append(_literal(y, k if y.classes is None else y.classes[k]))
            numbers.append((*at, Parameter("class", Sum(plus=k))))
        literals.append(_literal(y.begins, 1))
        numbers.append((*at, Parameter("class", Sum(plus=-1))))
        for k in range(y.n_states):
            literals.append(_literal(y.spans, k + 1))
            numbers.append((*span, Parameter("class", Sum(plus=k))))
        meta = (
            Parameter("n", Sum(sizes=(axis,)), whole=True),
            Parameter("n_classes", y.n_states, whole=True),
            Parameter("longest", y.segments or 1, whole=True),
        )
        object.__setattr__(self, "of", y)
        self._declare([], "segmentation", tuple(literals), (), meta, tuple(numbers))
        object.__setattr__(self, "name", y.name)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.of,), {}


class SegmentBegins(Constraint):
    """The segments of a label whose spans are no variables are not too long, and the first begins at once.

    Its literals are "position t has the first class" of all positions, which are no condition and say where the classes
    are, and then "a segment begins at position t".  That classes do not change within segments is a rule on successive
    ones.

    Parameters
    ----------
    y : Label
        A label with ``segments=``.
    """

    of: Label

    def __init__(self, y: Label) -> None:
        meta = (
            Parameter("n", Sum(sizes=y.dims), whole=True),
            Parameter("n_classes", y.n_states, whole=True),
            Parameter("longest", y.segments or 1, whole=True),
        )
        literals = _literal(y, 0 if y.classes is None else y.classes[0]), _literal(y.begins, 1)
        object.__setattr__(self, "of", y)
        self._declare([], "segment-begins", literals, (), meta, ((), ()))
        object.__setattr__(self, "name", y.name)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.of,), {}


def _literal(label: Label, state: Any) -> Literal:
    return Literal(Target("indicator", (label,), state=state))
