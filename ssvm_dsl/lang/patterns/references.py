"""Variables of labels at positions, ``y[i, j]``, and literals about them, ``y[t].is_("B")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from ssvm_dsl.lang.dims import Number, Position, place_mistakes, read_places, refuse
from ssvm_dsl.lang.symbols import Mistake, Node, got, plain, show


@dataclass(frozen=True, init=False, repr=False)
class LabelAt(Node):
    """The variable of a label at positions.

    Parameters
    ----------
    label : Label
    places : tuple
        A position for each axis.
    """

    label: Any
    places: tuple[Any, ...]
    made_from: ClassVar = ("label", "places")

    def __init__(self, label: Any, places: tuple[Any, ...], mistakes: tuple[Mistake, ...] = ()) -> None:
        self._fill(mistakes, label=label, places=tuple(places))

    def is_(self, state: Any) -> LiteralAt:
        """Return the literal "this variable has that state".

        Parameters
        ----------
        state : class name, index, input at positions, or position
            A class; a state by its number, as an index over as many positions as there are states or an input of ints;
            of a pointer label a position of the axis that it points to, or ``None``.
        """
        return LiteralAt(self, state)

    def __getitem__(self, places: Any) -> NoReturn:
        refuse(f"{self!r}[...]: all positions stand in one pair of brackets: write y[i, j], not y[i][j]")

    def __iter__(self) -> NoReturn:
        refuse(f"{self!r} is one variable and cannot be iterated")

    def __contains__(self, other: object) -> NoReturn:
        refuse(f"`in` asks Python, not the model; write {self!r}.is_(...)")

    def __bool__(self) -> NoReturn:
        refuse(f"{self!r} has no truth value in Python; {self!r}.is_(...) is a literal")

    def __repr__(self) -> str:
        return f"{show(self.label)}[{', '.join(map(show, self.places))}]" if self.places else show(self.label)


@dataclass(frozen=True, init=False, repr=False)
class LiteralAt(Node):
    """A variable at positions has a state.

    Parameters
    ----------
    reference : LabelAt
    state : class name, position or number
        See :meth:`LabelAt.is_`.
    """

    reference: LabelAt
    state: Any
    made_from: ClassVar = ("reference", "state")

    def __init__(self, reference: LabelAt, state: Any) -> None:
        state, mistakes = plain(state), [*reference.mistakes]
        label = reference.label
        if label.pointer:
            mistakes += _pointed_mistakes(reference, state)
        elif isinstance(state, Number):
            mistakes += _number_mistakes(reference, state)
        elif label.index(state) is None:
            mistakes.append(got(f"is_({show(state)}): a class of the label", label.classes or range(label.n_states)))
        self._fill(mistakes, reference=reference, state=state)

    @property
    def label(self) -> Any:
        """The label."""
        return self.reference.label

    def __bool__(self) -> NoReturn:
        refuse(f"{self!r} has no truth value in Python: write Not, AllOf, AnyOf for `not`, `and`, `or`")

    def _no_operator(self, other: object = None) -> NoReturn:
        refuse(f"{self!r}: &, | and ~ join conditions; of rules write AllOf(a, b), AnyOf(a, b), Not(a)")

    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _no_operator

    def __repr__(self) -> str:
        return f"{self.reference!r}.is_({self.state!r})"


def label_at(label: Any, places: Any) -> LabelAt:
    """Return the variable of a label at what stands in its square brackets."""
    listed, mistakes = read_places(places, show(label)), list[Mistake]()
    if label.structure == "trees":
        mistakes.append(f"{show(label)}: a label of trees has no variables at positions; use leaves, spans and rules")
    axes = label.dims[:-1] if label.pointer else label.dims
    mistakes += place_mistakes(listed, axes, label)
    return LabelAt(label, listed, tuple(mistakes))


def _pointed_mistakes(reference: LabelAt, state: Any) -> list[Mistake]:
    """Return why a state is nothing that a pointer points to."""
    label = reference.label
    if state is None:
        return (
            []
            if label.null
            else [f"{reference!r}.is_(None): the pointers of a label without null=True point somewhere"]
        )
    over = label.dims[-1].origin
    if isinstance(state, int) and not isinstance(state, bool):
        return []
    if isinstance(state, Position) and state.axis is not None and state.axis.origin is over:
        return []
    return [got(f"{reference!r}.is_(...): a pointer points to a position on {show(over)}", state)]


def _number_mistakes(reference: LabelAt, state: Any) -> list[Mistake]:
    """Return why a number is not that of a state."""
    axis, n = getattr(state, "axis", None), reference.label.n_states
    if axis is not None and axis.size != n:
        words = f"{reference!r}.is_({state!r}): an index over as many positions as there are states, {n}"
        return [got(words, axis)]
    if axis is None and getattr(state, "width", None) != 1:
        return [got(f"{reference!r}.is_(...): a class, an index, or an input of one number at positions", state)]
    return [*getattr(state, "mistakes", ())]
