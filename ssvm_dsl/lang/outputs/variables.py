"""``Variables``: the declaration of a label, how it prints, and how a model checks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.lang.dims import Condition, Dim, Index
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.outputs.class_names import ClassName
from ssvm_dsl.lang.patterns.join import Instances, World, find_instances, inputs_of, symbols_of
from ssvm_dsl.lang.symbols import Mistake, ModelView, Symbol, got, plain, show

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
