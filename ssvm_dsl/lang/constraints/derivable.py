"""The constraint of a tree label: its parts form a tree that the grammar derives."""

from __future__ import annotations

from typing import Any

from ssvm_dsl.lang.constraints.logic import Constraint, Literal
from ssvm_dsl.lang.constraints.quantities import Parameter, Sum
from ssvm_dsl.lang.outputs.labels import Label, Target


class Derivable(Constraint):
    """The tags, phrases and rules of a label are one tree that its grammar derives.

    Models have it for each label with ``grammar=``.  Its literals only name the variables, in this order: tags of
    words, phrases by first and last word, first and second digits of rules.  What they say is for the grammar to judge,
    by labels.

    Parameters
    ----------
    y : Label
        A label with ``grammar=``.
    """

    of: Label

    def __init__(self, y: Label) -> None:
        literals = [_first(part) for part in (y, *y.parts)]
        meta = (Parameter("n", Sum(sizes=y.dims), whole=True),)
        object.__setattr__(self, "of", y)
        self._declare([], "derivable", tuple(literals), (), meta)
        object.__setattr__(self, "name", y.name)

    @property
    def judged_label(self) -> Label:
        """The label itself."""
        return self.of

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.of,), {}


def _first(label: Label) -> Literal:
    """Return the literal of the first state of a label."""
    return Literal(Target("indicator", (label,), state=0 if label.classes is None else label.classes[0]))
