"""``Variables``: the declaration of a label, how it prints, and how a model checks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import Condition, Dim, Index
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.patterns.join import Instances, World, find_instances, inputs_of, symbols_of
from ssvm_dsl.lang.symbols import Mistake, ModelView, Symbol, got, plain, show

# -- the classes of a label: a number of them, or their names; the value that means "not known" --------------------

ClassName = str | int


def read_states(states: object, mistakes: list[Mistake]) -> tuple[int, tuple[ClassName, ...] | None]:
    """Return (number of states, class names or None for plain ints)."""
    if isinstance(states, int) and not isinstance(states, bool):
        if states < 1:
            mistakes.append(got("Label: the last argument is the number of states or their names", states))
        elif states > MOST:
            mistakes.append(got(f"Label: at most {MOST} states", states))
        return min(max(states, 1), MOST), None
    if isinstance(states, Dim | bytes | bytearray | memoryview) or not isinstance(states, Sequence):
        mistakes.append(got("Label: the last argument is the number of states or their names", states))
        return 1, None
    names = tuple(map(plain, states))
    wrong = [name for name in names if not isinstance(name, str | int) or isinstance(name, bool)]
    if wrong:
        mistakes.append(got("Label: class names are strings or ints", wrong[0]))
        return len(names), None
    # plain ones: members of an enum, for one, are not written to files as themselves
    names = tuple(str.__str__(name) if isinstance(name, str) else int(name) for name in names)
    mistakes += _name_mistakes(names)
    return max(len(names), 1), names or None


def _name_mistakes(names: tuple[ClassName, ...]) -> Iterator[Mistake]:
    """Yield mistakes in strings and ints as class names."""
    if len({type(name) for name in names}) > 1:
        yield "Label: class names are all strings or all ints, not a mixture"
    if len(set(names)) != len(names):
        yield "Label: class names are given twice"
    if not names:
        yield "Label: at least one class is needed"
    for name in names:
        if isinstance(name, str) and name.endswith("\0"):
            yield got("Label: class names do not end with the character NUL, which numpy drops", name)
        if isinstance(name, int) and not -(2**63) <= name < 2**63:
            yield got("Label: class names that are ints have at most 64 bits", name)


def read_unknown(
    unknown: object, n_states: int, classes: tuple[ClassName, ...] | None, segments: int | None, mistakes: list[Mistake]
) -> ClassName | None:
    """Return the value that means "not known": of the type of the classes, and none of them.

    Parameters
    ----------
    unknown : object
        The value that the user wrote; ``None`` for no such value.
    n_states : int
    classes : tuple of class names, optional
    segments : int, optional
        Whether the label is one of segments, which mark unknown labels differently.
    mistakes : list
        List to which mistakes are added.
    """
    marker = plain(unknown)
    if marker is None:
        return None
    if segments is not None:
        mistakes.append("Label: segments have no unknown=; write (start, end, None) in Y for unknown classes")
        return None
    kind = str if classes and isinstance(classes[0], str) else int
    if not isinstance(marker, kind) or isinstance(marker, bool):
        words = "a string, as the classes are, such as '?'" if kind is str else "an int, as the classes are, such as -1"
        mistakes.append(got(f"Label: unknown must be {words}", marker))
        return None
    if marker in classes if classes else 0 <= int(marker) < n_states:
        mistakes.append(got("Label: unknown is no class, but a value of Y that means 'not known'", marker))
        return None
    return marker


def read_pointer_unknown(unknown: object, null: bool, mistakes: list[Mistake]) -> int | None:
    """Return the value of a pointer that means "not known": a negative int, not -1 where that is "nowhere"."""
    marker = plain(unknown)
    if marker is None:
        return None
    if not isinstance(marker, int) or isinstance(marker, bool) or marker >= 0 or (null and marker == -1):
        other = "; -1 points nowhere (null=True)" if null else ""
        mistakes.append(got(f"Label: unknown of a pointer label must be a negative int{other}", unknown))
        return None
    return marker


def read_converse(
    symmetric: object, n_states: int, classes: tuple[ClassName, ...] | None, mistakes: list[Mistake]
) -> tuple[int, ...] | None:
    """Return the converse of each state of a symmetric label; ``None`` of one that is not."""
    if symmetric is False or symmetric is True:
        return tuple(range(n_states)) if symmetric else None
    names: tuple[ClassName, ...] = classes or tuple(range(n_states))
    if not isinstance(symmetric, Mapping):
        mistakes.append(got("Label: symmetric is True or a dict of converse classes, {'before': 'after'}", symmetric))
        return None
    out = list(range(n_states))
    for one, other in symmetric.items():
        if one not in names or other not in names:
            mistakes.append(got("Label: symmetric= names classes of the label", one if one not in names else other))
            return tuple(range(n_states))
        a, b = names.index(one), names.index(other)
        if out[a] not in (a, b) or out[b] not in (a, b):
            mistakes.append(got("Label: symmetric= gives each class one converse", one))
        out[a], out[b] = b, a
    return tuple(out)


# -- how long the segments of a label may be, and how many spans there are of such lengths -------------------------

#: Classes of a segment at most, and classes times the lengths it may have.
MOST_CLASSES, MOST_SEGMENTS = 2**10, 2**20


def read_longest(segments: object, dims: tuple[Dim, ...], n_states: int, mistakes: list[Mistake]) -> int:
    """Return the maximum length of the segments of a label; note mistakes.

    Parameters
    ----------
    segments : object
        The user's value.
    dims : tuple of Dim
        The axes of the label.
    n_states : int
        Its classes.
    mistakes : list
        Where to note them.
    """
    longest = plain(segments)
    if len(dims) != 1:
        mistakes.append(f"Label: segments divide one axis, as in Label(T, states, segments=8); here are {len(dims)}")
    if not isinstance(longest, int) or isinstance(longest, bool) or longest < 1:
        mistakes.append(got("Label: segments is the most positions of a segment, an int of at least 1", segments))
    elif n_states > MOST_CLASSES:
        mistakes.append(f"Label: segments have at most {MOST_CLASSES} classes, got {n_states}")
    elif longest * n_states > MOST_SEGMENTS:
        mistakes.append(f"Label: segments times the number of states is at most {MOST_SEGMENTS}")
    else:
        return longest
    return 1


def n_spans(size: Any, longest: int) -> Any:
    """Return how many spans up to a length an axis of a size has (an int, or an array of them)."""
    short = size - (size - longest) * (size > longest)  # the lesser of both
    return size * short - short * (short - 1) // 2


#: As many classes of one letter are printed.
MOST_LETTERS = 26


@dataclass(frozen=True, init=False, repr=False)
class Variables(Symbol):
    """Discrete variables, one for each position of some axes."""

    dims: tuple[Dim, ...]
    n_states: int
    classes: tuple[ClassName, ...] | None
    allowed: Input | None
    over: Dim | None
    null: bool
    segments: int | None
    unknown: ClassName | None
    grammar: Grammar | None = None
    indices: tuple[Index, ...] = ()
    condition: Condition | None = None
    converse: tuple[int, ...] | None = None

    stands_alone = True

    @property
    def pointer(self) -> bool:
        """Whether its values are positions on an axis; it has a binary variable for every pair of positions."""
        return self.over is not None

    @property
    def symmetric(self) -> bool:
        """Whether the variable at (i, j) is that at (j, i), in the converse class."""
        return self.converse is not None

    @property
    def turns(self) -> bool:
        """Whether its classes differ with the order of its positions."""
        return self.converse is not None and self.converse != tuple(range(len(self.converse)))

    @property
    def has_domain(self) -> bool:
        """Whether there are variables at some positions of the axes only."""
        return self.condition is not None or self.converse is not None

    @property
    def domain_inputs(self) -> tuple[Any, ...]:
        """The inputs whose content decides at which positions there are variables."""
        return tuple({id(one): one for one in inputs_of(self.condition)}.values())

    def domain(self, world: World) -> Instances:
        """Return the positions at which there are variables; of a symmetric label those with i < j."""
        places = tuple(zip(self.indices, self.dims, strict=True))
        condition = self.condition
        if self.symmetric:
            i, j = self.indices
            condition = i < j if condition is None else (i < j) & condition
        return find_instances(self.indices, condition, places, world, f"label '{self.name}'")

    @property
    def structure(self) -> str | None:
        """The kind of its values where they are no classes of positions: pointers, segments, trees."""
        if self.over is not None:
            return "pointers"
        if self.segments is not None:
            return "segments"
        return None if self.grammar is None else "trees"

    def index(self, state: ClassName) -> int | None:
        """Return the position of a class name among the states, ``None`` when it is not one of them."""
        if not isinstance(state, str | int) or isinstance(state, bool):
            return None
        if self.classes is not None:
            return self.classes.index(state) if state in self.classes else None
        return state if isinstance(state, int) and 0 <= state < self.n_states else None

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its axes, and its mask."""
        yield from (("the axis", dim.origin) for dim in self.dims)
        if self.allowed is not None:
            yield "the input", self.allowed
        yield from symbols_of(self.condition)

    def misfits(self, model: ModelView) -> Iterator[str]:
        """Yield why an input is no mask of the label."""
        mask = self.allowed
        if mask is None:
            return
        alike = len(mask.dims) == len(self.dims) and all(a is b for a, b in zip(mask.dims, self.dims, strict=True))
        if mask.sparse or not alike or mask.width != self.n_states:
            axes = "".join(f"{dim.name}, " for dim in self.dims)
            yield f"allowed: expected an Input({axes}{self.n_states}), a number for each class, got {mask!r}"

    def gaps(self, model: ModelView) -> Iterator[str]:
        """Yield ragged axes whose size no input defines."""
        for dim in self.dims if model.input_names else ():
            if dim.ragged and not {id(dim), id(dim.origin)} & model.sized_axes:
                yield (
                    f"no input has the ragged axis {dim.name}, so its size is unknown when predicting; give an Input "
                    f"this axis or fix it: {dim.name} = Dim(n)"
                )

    @property
    def short(self) -> str:
        """How it reads; classes of one letter as one string."""
        classes = self.classes if self.grammar is None else None
        if classes is None or not all(isinstance(name, str) and len(name) == 1 for name in classes):
            return repr(self)
        axes = "".join(f"{show(dim)}, " for dim in self.dims)
        letters = "".join(map(str, classes))
        shown = letters[:MOST_LETTERS] + ("..." if len(letters) > MOST_LETTERS else "")
        more = "".join(f", {key}={show(value)}" for key, value in self.arguments()[1].items())
        return f"Label({axes}{shown!r}{more})"

    @property
    def note(self) -> str:
        """The kind of its values."""
        marked = "" if self.unknown is None else f"; {show(self.unknown)} is not known"
        if self.over is not None:
            return f"pointers to {show(self.over)}{', or nowhere' if self.null else ''}{marked}"
        if self.grammar is not None:
            return f"parse trees{marked}"
        longest = "" if self.segments is None else f", in segments of up to {self.segments}"
        return f"{self.n_states} states{longest}{marked}"
