"""``Duration``: how long segments may be, and how long the states of a chain last, class by class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.constraints.logic import NO_BOUND, Constraint, Literal, Parameter, Sum
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.outputs.variables import MOST_CLASSES
from ssvm_dsl.lang.symbols import Mistake, as_flag, got, plain, show

#: Classes that a mistake lists.
MOST_NAMED = 8

#: A bound for each class.
Bounds = tuple[int, ...]


@checked_call
def Duration(target: Label | Target, least: Any = None, most: Any = None, cut: bool = False) -> Any:
    """Bound how long segments are, ``Duration(spans(y), ...)``, or runs of one class in a chain, ``Duration(y, ...)``.

    Parameters
    ----------
    target : Label or Target
        ``spans(y)`` of a label of segments, or a label whose last axis is an axis of time.  A run is a stretch of
        successive positions of one class, as long as it can be.
    least, most : int or dict of class name to int, optional
        How many positions a segment (a run) of each class has at least and at most; classes that a dict leaves out
        have no bound.  Segments are never longer than ``segments=`` of their label says.
    cut : bool
        Whether ``least`` leaves out the first and the last one of a sequence, of which more may lie outside of it.
        Otherwise it holds for all.  ``most`` always holds, for the positions that are there.

    Examples
    --------
    >>> lasting = Duration(spans(y), least=3, most={"sit": 50})
    >>> steady = Duration(y, least={"walk": 5, "run": 5}, cut=True)
    """
    if isinstance(target, Target) and target.kind == "spans":
        return SegmentDuration(target, least, most, cut)
    return RunDuration(target, least, most, cut)


class _Bounded:
    """What both kinds of durations have: bounds by class."""

    label: Label
    least: Bounds
    most: Bounds
    cut: bool

    @property
    def constructor(self) -> str:
        """Name of the public function that makes it."""
        return "Duration"

    def _options(self, none: int) -> dict[str, Any]:
        """Return the bounds as arguments; ``none`` is the most positions that are no bound."""
        names = self.label.classes or range(self.label.n_states)
        options: dict[str, Any] = {}
        for key, bounds, idle in (("least", self.least, 1), ("most", self.most, none)):
            if len(set(bounds)) == 1 and bounds[0] != idle:
                options[key] = bounds[0]
            elif set(bounds) != {idle}:
                options[key] = [[name, bound] for name, bound in zip(names, bounds, strict=True) if bound != idle]
        return (options or {"least": 1}) | ({"cut": True} if self.cut else {})

    def _shown(self, target: Any, options: Mapping[str, Any]) -> str:
        words = [show(target)]
        for key, value in options.items():
            pairs = ", ".join(f"{show(name)}: {bound}" for name, bound in value) if isinstance(value, list) else ""
            words.append(f"{key}={{{pairs}}}" if pairs else f"{key}={show(value)}")
        return f"Duration({', '.join(words)})"


@dataclass(frozen=True, init=False, repr=False)
class SegmentDuration(_Bounded, Forbid):
    """Segments of a label are so long, by class: spans of other lengths are ruled out.

    Parameters are those of :func:`Duration`.
    """

    least: Bounds
    most: Bounds
    cut: bool

    def __init__(self, target: Target, least: Any = None, most: Any = None, cut: bool = False) -> None:
        mistakes: list[Mistake] = list(target.mistakes)
        label = _of_few_classes(target.label, mistakes)
        longest = label.segments or 1
        low, high = _bounds(label, least, most, longest, mistakes)
        for name, bound in zip(label.classes or range(label.n_states), low, strict=True):
            if bound > longest and not mistakes:
                mistakes.append(f"Duration: least is {bound} for {show(name)}, and segments={longest} of the label")
        flag = as_flag(cut, "Duration: cut", mistakes)
        self._fill(mistakes, target=target, forbidden=(), ref=None, places=(), least=low, most=high, cut=flag)

    @property
    def label(self) -> Label:  # type: ignore[override]
        """The label of segments."""
        return self.target.label

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (Target("spans", self.target.labels),), self._options(self.label.segments or 1)

    def __repr__(self) -> str:
        (target,), options = self.arguments()
        return self._shown(target, options)

    @property
    def short(self) -> str:
        """How it reads."""
        return repr(self)

    @property
    def note(self) -> str:
        """How many kinds of segments are left."""
        left = int((self.long_enough() & self.short_enough()).sum())
        return f"leaves {left} of {self.label.n_states * (self.label.segments or 1)} (class, length)"

    def long_enough(self) -> NDArray[np.bool_]:
        """Return which lengths are enough; ``shape (n_classes, segments)``, the first column of length 1."""
        lengths = np.arange(1, (self.label.segments or 1) + 1)
        return np.asarray(lengths >= np.array(self.least)[:, None])

    def short_enough(self) -> NDArray[np.bool_]:
        """Return which lengths are not too many; as :meth:`long_enough`."""
        lengths = np.arange(1, (self.label.segments or 1) + 1)
        return np.asarray(lengths <= np.array(self.most)[:, None])


class RunDuration(_Bounded, Constraint):
    """Runs of one class in a chain are so long, by class: a constraint of the kind ``runs``.

    Its literals are "position t has class k" of all positions, for each class that has a bound.

    Parameters are those of :func:`Duration`.
    """

    label: Label
    least: Bounds
    most: Bounds
    cut: bool

    def __init__(self, y: Label | Target, least: Any = None, most: Any = None, cut: bool = False) -> None:
        mistakes: list[Mistake] = []
        if not isinstance(y, Label) or y.pointer or y.grammar is not None or not y.dims:
            mistakes.append(got("Duration: the first argument is spans(y), or a label with an axis of time", y))
            y = Label(Dim(1), 2)
        elif y.segments is not None:
            mistakes.append("Duration: of a label of segments write Duration(spans(y), ...)")
        y = _of_few_classes(y, mistakes)
        low, high = _bounds(y, least, most, NO_BOUND, mistakes)
        names, axis = y.classes or range(y.n_states), y.dims[-1]
        bounded = [k for k in range(y.n_states) if low[k] > 1 or high[k] < NO_BOUND] or [0]
        literals = tuple(Literal(Target("indicator", (y,), state=names[k])) for k in bounded)
        numbers = tuple(
            (
                Parameter("position", Sum((axis,))),
                Parameter("class", Sum(plus=k)),
                Parameter("least", Sum(plus=low[k])),
                Parameter("most", Sum(plus=high[k])),
            )
            for k in bounded
        )
        flag = as_flag(cut, "Duration: cut", mistakes)
        meta = (Parameter("n", Sum(sizes=(axis,)), whole=True), Parameter("cut", flag))
        for key, value in (("label", y), ("least", low), ("most", high), ("cut", flag)):
            object.__setattr__(self, key, value)
        self._declare(mistakes, "runs", literals, y.dims[:-1], meta, numbers)

    def in_names(self, said: str) -> str:
        """Return what the kind says of "state 1" as said of its name."""
        names = self.label.classes
        return said if names is None else re.sub(r"\bstate (\d+)", lambda found: repr(names[int(found[1])]), said)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.label,), self._options(NO_BOUND)

    def __repr__(self) -> str:
        (label,), options = self.arguments()
        return self._shown(label, options)


def _of_few_classes(label: Label, mistakes: list[Mistake]) -> Label:
    """Return a label of as many classes as there may be; note where there are more."""
    if label.n_states <= MOST_CLASSES:
        return label
    mistakes.append(f"Duration: states that last have at most {MOST_CLASSES} classes, got {label.n_states}")
    return Label(Dim(1), 2)


def _bounds(label: Label, least: Any, most: Any, none: int, mistakes: list[Mistake]) -> tuple[Bounds, Bounds]:
    """Return the bounds by class; note mistakes."""
    if least is None and most is None and not mistakes:
        mistakes.append("Duration: it needs least= or most=")
    low = _by_class(label, least, "least", 1, mistakes)
    high = _by_class(label, most, "most", none, mistakes)
    for name, one, other in zip(label.classes or range(label.n_states), low, high, strict=True):
        if one > other and other < none and not mistakes:
            mistakes.append(f"Duration: least is at most most, got {one} and {other} for {show(name)}")
    return low, high


def _by_class(label: Label, value: Any, what: str, idle: int, mistakes: list[Mistake]) -> Bounds:
    """Return a number of positions for each class."""
    value, expected = plain(value), f"Duration: {what} is a number of positions, or a dict of them by class"
    out = [idle] * label.n_states
    if value is None:
        return tuple(out)
    if isinstance(value, tuple | list) and all(isinstance(one, tuple | list) and len(one) == 2 for one in value):
        value = dict(map(tuple, value))  # as files of models have it
    pairs = value.items() if isinstance(value, Mapping) else [(None, value)]
    names = list(map(repr, label.classes or range(label.n_states)))
    shown = ", ".join([*names[:MOST_NAMED], *(["..."] if len(names) > MOST_NAMED else [])])
    for name, bound in pairs:
        state, bound = None if name is None else label.index(plain(name)), plain(bound)
        if name is not None and state is None:
            mistakes.append(got(f"Duration: {what} must name classes of the label ({shown})", name))
        elif not isinstance(bound, int) or isinstance(bound, bool) or not 1 <= bound < NO_BOUND:
            mistakes.append(got(f"{expected}, of at least 1", bound))
        elif state is None:
            out = [bound] * label.n_states
        else:
            out[state] = bound
    return tuple(min(bound, idle) if what == "most" else bound for bound in out)
