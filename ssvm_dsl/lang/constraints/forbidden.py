"""States and joint states that are ruled out: ``Forbid``, ``Allow``, ``Same``, ``Different``; tagging schemes.

Rules on single variables become a mask, rules on several a table of ``0`` and ``-inf`` that has no
weights, so that chains with forbidden transitions stay chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.arrays import MOST, NotNumbers, plain_array
from ssvm_dsl.lang.functions import FunctionRef, check_function
from ssvm_dsl.lang.outputs.about_target import AboutTarget
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.outputs.targets import as_target, cross
from ssvm_dsl.lang.outputs.variables import ClassName
from ssvm_dsl.lang.patterns.join import symbols_of
from ssvm_dsl.lang.patterns.pattern import Pattern, function_mistakes, unknown_inputs
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.rules.formulas import Formula, formula_of_call, truth_table
from ssvm_dsl.lang.rules.rule_patterns import RulePattern
from ssvm_dsl.lang.symbols import Mistake, ModelView, Symbol, got, plain, show

#: As many states of a rule are printed.
FEW = 2

#: Most joint states of a target that a rule is about.
MOST_STATES = 1 << 24


@dataclass(frozen=True, init=False, repr=False)
class Forbid(AboutTarget):
    """Rule out states of single variables, or joint states of several.

    No answer has them, and in training they are never the most violated labelling.

    Parameters
    ----------
    target : Label or Target
        ``y``, ``y.at(0)``, ``chain(y)``, ``pairs(y, W)``, ``grid(y)``, ``complete(y)``, ``along(y, edges)``,
        ``cliques(y, sets)`` or ``cross(a, b)``.
    states : list of class names, list of tuples of class names, array of bool, tagging scheme, or function
        The states of a single variable; tuples for targets of several variables, in their order; an array of the shape
        of the target's joint states, True where they are ruled out; or :func:`BIO`, :func:`BIOES`.  Of variables at
        positions a function: called with the class of each variable, the listed positions, and inputs by name, all as
        arrays; it returns where the states are ruled out, of a shape that broadcasts to ``(n, *cards)``.
    *positions : index or position
        What the function gets after the classes.
    where : condition, optional
        Of variables at positions: the instances that the rule is about.

    Examples
    --------
    >>> no_start = Forbid(y.at(0), ["I-PER", "I-LOC"])
    >>> no_step = Forbid(chain(y), [("O", "I-PER"), ("O", "I-LOC")])
    >>> scheme = Forbid(chain(y), BIO(y))
    >>> def too_near(a, b, s, t): return abs(a - b) < 2         # frequencies of neighbours
    >>> apart = Forbid((y[s], y[t]), too_near, s, t, where=s < t)
    """

    features, joint, per, n_units = None, False, (), 1  # as of a Factor

    forbidden: tuple[int, ...]  # numbers of joint states, in C order over the states of the variables
    ref: FunctionRef | None
    places: tuple[Any, ...]

    def __init__(
        self, target: Label | Target | LabelAt | Sequence[Any], states: Any, *positions: Any, where: Any = None
    ) -> None:
        self._rule(target, states, positions, where, allowed=False)

    def _rule(self, target: Any, states: Any, positions: tuple[Any, ...], where: Any, allowed: bool) -> None:
        """Read the forbidden states, or the allowed ones."""
        mistakes: list[Mistake] = []
        goal = self._target(target, mistakes, where)
        if isinstance(states, FunctionRef) or (callable(states) and not isinstance(states, TagScheme)):
            ref = check_function(states, type(self).__name__, mistakes)
            mistakes += function_mistakes(type(self).__name__, goal, positions)
            sound = not goal.mistakes and not mistakes
            self._keep(goal, np.zeros(prod(goal.cards), dtype=bool), mistakes)
            for key, value in (("ref", ref if sound else None), ("places", positions if sound else ())):
                object.__setattr__(self, key, value)
            return
        if positions:
            mistakes.append(got(f"{type(self).__name__}: positions are for a function, which gets them", positions))
        meant = np.zeros(prod(goal.cards), dtype=bool)
        if not goal.mistakes and not mistakes:
            meant = _read_states(type(self).__name__, goal, states, mistakes)
        self._keep(goal, ~meant if allowed and not mistakes else meant, mistakes)

    def _target(self, target: Any, mistakes: list[Mistake], where: Any = None) -> Target:
        goal, what = as_target(target, where), type(self).__name__
        if goal.label.pointer and goal.arity > 1 and not goal.mistakes:
            mistakes.append(f"{what}: of several pointers nothing is ruled out")
        if goal.is_indicator and not goal.mistakes:
            mistakes.append(got(f"{what}: the label or pattern first, then its states: {what}(y, ['a'])", target))
        if prod(goal.cards) > MOST_STATES:
            mistakes.append(f"{what}: {goal!r} has more than {MOST_STATES} joint states")
            goal = Target("each", (Label(1),))
        return goal

    def _keep(self, goal: Target, ruled_out: NDArray[np.bool_], mistakes: list[Mistake]) -> None:
        if not goal.mistakes and not mistakes and ruled_out.all():
            mistakes.append(lambda: f"{type(self).__name__}: it rules out every state of {goal!r}")
        numbers = tuple(np.flatnonzero(ruled_out).tolist())
        self._fill([*goal.mistakes, *mistakes], target=goal, forbidden=numbers, ref=None, places=())

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The function that says what is ruled out, if there is one."""
        return () if self.ref is None else (self.ref,)

    @property
    def asked_inputs(self) -> tuple[str, ...] | None:
        """The inputs that the function asks for by name; ``None``: all of them."""
        asked = () if self.ref is None else self.ref.arguments()
        return asked if asked is None else asked[self.target.arity + len(self.places) :]

    def misfits(self, model: ModelView) -> Iterator[str]:
        """Yield parameters of the function that name no input."""
        yield from super().misfits(model)
        if self.ref is not None:
            given = f"the classes of {self.target.arity} variables and {len(self.places)} positions"
            yield from unknown_inputs(self.ref, self.asked_inputs, model, given)

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols of the target and of the positions."""
        yield from super().references()
        for one in self.places:
            yield from symbols_of(one)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments: the target and the names of the forbidden states."""
        target, where = self.written()
        if self.ref is not None:
            return (target, self.ref, *self.places), where
        return (target, _names(self.target, self.forbidden)), where

    @property
    def short(self) -> str:
        """How it reads: the first states of many."""
        (target, *states), where = self.arguments()
        if states and isinstance(states[0], list) and len(states[0]) > FEW:
            first = ", ".join(show(one) for one in states[0][:FEW])
            options = "".join(f", {key}={show(value)}" for key, value in where.items())
            return f"{self.constructor}({show(target)}, [{first}, ...]{options})"
        return repr(self)

    @property
    def note(self) -> str:
        """How many states it rules out."""
        if self.ref is not None:
            return "as a function says"
        return f"rules out {len(self.forbidden)} of {prod(self.target.cards)} states"

    def mask(self) -> NDArray[np.bool_]:
        """Return which joint states are left; ``shape (prod(cards),)``."""
        left = np.ones(prod(self.target.cards), dtype=bool)
        left[list(self.forbidden)] = False
        return left


@dataclass(frozen=True, init=False, repr=False)
class Allow(Forbid):
    """Rule out all states of single variables, or joint states of several, but those listed.

    Parameters are those of :class:`Forbid`; ``states`` are the allowed states (True in an array).

    Examples
    --------
    >>> follows = Allow(chain(y), [("a", "a"), ("a", "b"), ("b", "b")])
    """

    def __init__(
        self, target: Label | Target | LabelAt | Sequence[Any], states: Any, *positions: Any, where: Any = None
    ) -> None:
        self._rule(target, states, positions, where, allowed=True)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments: the target and the names of the allowed states."""
        target, where = self.written()
        if self.ref is not None:
            return (target, self.ref, *self.places), where
        return (target, _names(self.target, np.flatnonzero(self.mask()).tolist())), where


class _Pairs(Forbid):
    """A rule about two variables that have the same states."""

    _same = True

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a formula where variables are at positions; else a rule on a pattern or two labels."""
        formula = formula_of_call(cls, args, named)
        return super().__new__(cls) if formula is None else formula

    def __init__(
        self, target: Any, other: Any = None, *others: Any, over: Any = (), where: Any = None, outside: bool = True
    ) -> None:
        mistakes: list[Mistake] = []
        if others:
            mistakes.append(got(f"{type(self).__name__}: two labels, or variables at positions", others[0]))
        if isinstance(target, Label) and isinstance(other, Label):
            goal = self._target(cross(target, other), mistakes)
        elif other is not None:
            mistakes.append(got(f"{type(self).__name__}: two labels, or one pattern such as along(y, edges)", other))
            goal = Target("each", (Label(1),))
        else:
            goal = self._target(target, mistakes)
        if not goal.mistakes and not mistakes and (goal.arity != 2 or len(set(goal.cards)) > 1):
            mistakes.append(lambda: f"{type(self).__name__}: {goal!r} is not about two variables with the same states")
        sound = not goal.mistakes and not mistakes
        equal = np.eye(goal.cards[0], dtype=bool).ravel() if sound else np.zeros(prod(goal.cards), dtype=bool)
        self._keep(goal, ~equal if self._same and sound else equal, mistakes)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        target = self.target
        crossed = isinstance(target, Pattern) and target.word is not None and target.word.name == "cross"
        return (target.labels if crossed else (target,)), {}


@dataclass(frozen=True, init=False, repr=False)
class Same(_Pairs):
    """Variables have the same state: ``Same(a, b)`` at each position, ``Same(along(y, edges))`` for each edge.

    Parameters
    ----------
    target : Label or Target, or variable at positions
        A label, or a pattern of two variables; ``vote[i]``.
    other : Label, or variable at positions, optional
        The other one.
    *others : variable at positions
        More of them.
    over : Index or tuple of Index, optional
        All variables at the positions of these indices, for each assignment of the others.
    where : condition, optional
        Of variables at positions, as of :class:`AtMost`.

    Examples
    --------
    >>> alike = Factor(Same(vote[i], vote[j]), where=(i < j) & friend[i, j])
    >>> constant = Same(y[t], over=t)
    """


@dataclass(frozen=True, init=False, repr=False)
class Different(_Pairs):
    """No two variables have the same state: ``Different(a, b)`` at each position, ``Different(along(y, e))``.

    Parameters are those of :class:`Same`.
    """

    _same = False


@dataclass(frozen=True)
class TagScheme:
    """Which tags may follow each other, begin and end, for names such as ``B-PER``; made by :func:`BIO`, :func:`BIOES`.

    Parameters
    ----------
    name : str
        ``"BIO"`` or ``"BIOES"``.
    classes : tuple of class names
    """

    name: str
    classes: tuple[ClassName, ...]

    def mistakes(self, target: Target) -> Iterator[Mistake]:
        """Yield why the scheme says nothing about a target."""
        if not self.classes or self.classes != target.label.classes:
            yield got(f"{self.name}: these are not the classes of {show(target.label)}", self.classes)
        elif target.offsets != (0, 1) and target.fixed_position not in (0, -1):
            yield lambda: f"{self.name}: it is about chain(y), y.at(0) and y.at(-1), not {target!r}"
        else:
            for name in self.classes:
                if _split(self.name, name) is None:
                    yield got(f"{self.name}: tags are O, or begin with {_prefixes(self.name)}", name)
                    return

    def forbidden(self, target: Target) -> NDArray[np.bool_]:
        """Return which (joint) states of a target break the scheme."""
        tags = [_split(self.name, name) or ("O", "") for name in self.classes]
        if target.fixed_position is not None:
            wrong = "IE" if target.fixed_position == 0 else "BI" if self.name == "BIOES" else ""
            return np.array([place in wrong for place, _ in tags], dtype=bool)
        return np.array([not self._may_follow(before, after) for before in tags for after in tags], dtype=bool)

    def _may_follow(self, before: tuple[str, str], after: tuple[str, str]) -> bool:
        (left, kind), (right, other) = before, after
        inside = left in "BI" and kind == other
        if self.name == "BIO":
            return right != "I" or inside
        return (right in "IE" and inside) if left in "BI" else right not in "IE"


@checked_call
def BIO(classes: Label | Sequence[ClassName]) -> TagScheme:
    """Forbid invalid sequences of the tags ``O``, ``B-kind`` and ``I-kind``: ``I-kind`` only follows a tag of its kind.

    For ``Forbid(chain(y), BIO(y))`` and ``Forbid(y.at(0), BIO(y))``.

    Parameters
    ----------
    classes : Label or sequence of str
        The label, or its class names.
    """
    return TagScheme("BIO", _classes(classes))


@checked_call
def BIOES(classes: Label | Sequence[ClassName]) -> TagScheme:
    """Forbid invalid sequences of tags ``O``, ``B-``, ``I-``, ``E-`` and ``S-kind`` (``L-`` and ``U-`` are E and S).

    Segments begin with B, continue with I and end with E; S is a segment of one.  For ``Forbid(chain(y), BIOES(y))``,
    ``Forbid(y.at(0), BIOES(y))`` and ``Forbid(y.at(-1), BIOES(y))``.

    Parameters
    ----------
    classes : Label or sequence of str
        The label, or its class names.
    """
    return TagScheme("BIOES", _classes(classes))


def _classes(classes: object) -> tuple[ClassName, ...]:
    if isinstance(classes, Label):
        return classes.classes or ()
    listed = isinstance(classes, Sequence) and not isinstance(classes, str) and len(classes) <= MOST_STATES
    return tuple(map(plain, cast(Sequence[Any], classes))) if listed else ()


def _prefixes(name: str) -> str:
    return "B- or I-" if name == "BIO" else "B-, I-, E- or S-"


def _split(scheme: str, tag: object) -> tuple[str, str] | None:
    """Return (place, kind) of a tag, ``None`` where it is not one of the scheme."""
    if tag == "O":
        return "O", ""
    letter, _, kind = str(tag).partition("-")
    place = {"L": "E", "U": "S"}.get(letter, letter)
    known = "BI" if scheme == "BIO" else "BIES"
    return (place, kind) if isinstance(tag, str) and kind and len(place) == 1 and place in known else None


def _read_states(what: str, goal: Target, states: Any, mistakes: list[Mistake]) -> NDArray[np.bool_]:
    """Return which joint states are meant."""
    meant = np.zeros(prod(goal.cards), dtype=bool)
    if isinstance(states, TagScheme):
        wrong = list(states.mistakes(goal))
        mistakes += wrong
        return meant if wrong else states.forbidden(goal)
    if isinstance(states, np.ndarray) and states.dtype == bool:
        return _read_array(what, goal, states, mistakes)
    single = isinstance(states, np.ndarray) and states.ndim == 0
    if single or isinstance(states, str | bytes | Set) or not isinstance(states, Iterable):
        mistakes.append(got(f"{what}: a list of states, of tuples of states, or an array of bool", states))
        return meant
    listed = list(states)
    flags = _flags(listed) if listed else None
    if flags is not None:
        return _read_array(what, goal, flags, mistakes)
    for one in listed:
        number = _number(goal, one)
        if number is None:
            text = f"{what}: not {'a state' if goal.arity == 1 else f'{goal.arity} states'} of"
            mistakes.append(_not_a_state(text, goal, one))
        else:
            meant[number] = True
    return meant


def _not_a_state(text: str, goal: Target, value: object) -> Mistake:
    return lambda: f"{text} {goal!r}: {show(value)}; {_what_states_are(goal)}"


def _what_states_are(goal: Target) -> str:
    """Return what the states of a target are, and what says something about lengths of segments."""
    label = goal.label
    if label.pointer:
        return "a state is a position, or None"
    names = list(range(label.n_states)) if label.classes is None else list(label.classes)
    shown = ", ".join(show(one) for one in names[:6]) + (", ..." if len(names) > 6 else "")
    if goal.arity > 1:
        return f"each is a tuple of {goal.arity} of the classes {shown}"
    said = f"the states are the classes {shown}"
    if goal.kind in ("spans", "span", "lengths"):
        return f"{said}; how long segments are is said by Duration(spans({label.name or 'y'}), least=..., most=...)"
    return said


def _flags(listed: list[Any]) -> NDArray[np.bool_] | None:
    """Return nested lists of bool as an array, ``None`` where they hold something else."""
    try:
        array = plain_array(listed)
    except NotNumbers:
        return None
    return array if array.dtype == bool else None


def _read_array(what: str, goal: Target, states: NDArray[np.bool_], mistakes: list[Mistake]) -> NDArray[np.bool_]:
    if states.shape == goal.cards:
        return np.array(states).ravel()
    mistakes.append(f"{what}: an array of bool has the shape {goal.cards}, got {states.shape}")
    return np.zeros(prod(goal.cards), dtype=bool)


def _number(goal: Target, state: Any) -> int | None:
    """Return the number of a joint state, ``None`` where it is none."""
    state = plain(state)
    parts = (state,) if goal.arity == 1 and not isinstance(state, list | tuple) else state
    if not isinstance(parts, list | tuple) or len(parts) != goal.arity:
        return None
    at = [label.index(plain(one)) for label, one in zip(goal.members, parts, strict=True)]
    if None in at:
        return None
    number = 0
    for place, card in zip(at, goal.cards, strict=True):
        number = number * card + (place or 0)
    return min(number, MOST)


def _names(goal: Target, numbers: Iterable[int]) -> list[Any]:
    """Return the class names of joint states, in tuples for several variables."""
    names = [label.classes or range(label.n_states) for label in goal.members]
    out = []
    for number in numbers:
        state = np.unravel_index(number, goal.cards)
        named = tuple(names[k][int(s)] for k, s in enumerate(state))
        out.append(named if len(named) > 1 else named[0])
    return out


class RuledOut(Forbid):
    """The joint states for which a formula is false.

    Parameters
    ----------
    formula : Formula
        An attribute of a model.
    """

    formula: Formula

    def __init__(self, formula: Formula) -> None:
        target = RulePattern(formula)
        true = truth_table(formula, target.references)
        states = tuple(np.flatnonzero(~true).tolist())
        self._fill([], target=target, forbidden=states, ref=None, places=(), formula=formula)
        object.__setattr__(self, "name", formula.name)
        object.__setattr__(self, "line", formula.line)
