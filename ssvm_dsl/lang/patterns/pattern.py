"""``Pattern``: variables at positions with index variables, one factor for each assignment of these.

``Pattern((y[t], y[t + 1]))`` is what ``chain(y)`` means; ``Factor((y[i], y[j]), where=i < j)`` makes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ssvm_dsl.array_types import Bools
from ssvm_dsl.ir.shapes import kinds_of_rows
from ssvm_dsl.lang.dims import (
    Condition,
    Dim,
    FromEnd,
    Index,
    OnAxis,
    Read,
    Ring,
    Shift,
    as_condition,
    conjunction,
    conjuncts,
    indices_of,
    n_positions,
    walk,
)
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.inputs import At, Positions
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.patterns.impossible import impossible
from ssvm_dsl.lang.patterns.join import (
    Instances,
    World,
    box_instances,
    ends_least,
    find_instances,
    inputs_of,
    symbols_of,
)
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.symbols import Mistake, ModelView, Node, Symbol, got, show

#: Axis sizes for which a pattern remembers how many factors it has.
MOST_COUNTS = 10_000


@dataclass(frozen=True, eq=False)
class Word:
    """What users wrote for a pattern, ``chain(y)``, and how it takes features and weights by axes.

    Parameters
    ----------
    name : str
        The function.
    args : tuple
        Its arguments.
    options : dict
    axes : tuple of Dim
        The axes that features may have.
    at : tuple of tuple
        For each part of the pattern the positions on these axes at which a factor takes its features.
    shared : tuple of Dim
        Axes along which all variables of a factor have the same position.
    ends : dict of str to position
        What functions of features may ask for beside the inputs.
    """

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    axes: tuple[Dim, ...] = ()
    at: tuple[tuple[Any, ...], ...] = ()
    shared: tuple[Dim, ...] = ()
    ends: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Pattern(Target):
    """Variables at positions: one factor for each assignment of the index variables.

    Left out are assignments where a position does not exist, where the condition is not true, where a label has no
    such variable, and where two references are the same variable.  Patterns are equal up to the names of indices.

    Parameters
    ----------
    references : variable at positions, tuple of them, or list of tuples
        ``y[t]``; ``(y[t], y[t + 1])``; a list of tuples, whose factors all belong to the pattern.
    where : condition, optional
        ``i < j``, ``(abs(i - j) <= 5) & friend[i, j]``.

    Examples
    --------
    >>> t = T.index()
    >>> trans = Factor(Pattern((y[t], y[t + 1])))           # or Factor((y[t], y[t + 1]))
    >>> skip = Factor((y[i], y[j]), where=(i < j) & word[i].is_(word[j]))
    """

    groups: tuple[tuple[LabelAt, ...], ...]
    condition: Condition | None
    word: Word | None

    def __init__(self, references: Any, where: Any = None) -> None:
        self._make(references, where, None, [])

    @classmethod
    def of_word(
        cls, word: Word, groups: list[tuple[LabelAt, ...]], where: Any = None, mistakes: Sequence[Mistake] = ()
    ) -> Pattern:
        """Return the pattern that a function stands for."""
        made = cls.__new__(cls)
        made._make(groups, where, word, list(mistakes))
        return made

    def _make(self, references: Any, where: Any, word: Word | None, mistakes: list[Mistake]) -> None:
        groups = _read_groups(references, mistakes)
        condition = None if where is None else as_condition(where)
        for number in (condition, *(place for group in groups for one in group for place in one.places)):
            mistakes += (text for one in walk(number) for text in getattr(one, "mistakes", ()))
        mistakes += _same_twice(groups)
        for key, value in (("groups", groups), ("condition", condition), ("word", word)):
            object.__setattr__(self, key, value)
        if type(self) is Pattern and word is None and not mistakes:
            for group in groups:
                places = [pair for one in group for pair in zip(one.places, one.label.dims, strict=True)]
                mistakes += impossible(self, places, condition)
        super().__init__("pattern", tuple(one.label for one in groups[0]), mistakes=dict.fromkeys(mistakes))

    # -- what it is made of --------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Pattern, ...]:
        """The patterns that it is the union of: itself, if it is none."""
        if len(self.groups) == 1:
            return (self,)
        return self._kept(
            "_parts",
            lambda: tuple(
                Pattern.of_word(_PART, [group], self.condition).reading((), self.units) for group in self.groups
            ),
        )

    @property
    def references(self) -> tuple[LabelAt, ...]:
        """The variables of a factor; of a union those of the first part."""
        return self.groups[0]

    @property
    def places(self) -> tuple[tuple[Any, Dim], ...]:
        """The positions of the variables of a factor, each with its axis."""
        return self._kept(
            "_places",
            lambda: tuple(pair for one in self.references for pair in zip(one.places, one.label.dims, strict=True)),
        )

    @property
    def free(self) -> tuple[Index, ...]:
        """The index variables, in the order of their declaration."""
        return self._kept("_free", lambda: indices_of(*(place for place, _ in self.places), self.condition))

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs whose content decides which factors there are: edges, positions, numbers of conditions."""

        def find() -> tuple[Any, ...]:
            numbers = [place for part in self.parts for place, _ in part.places]
            input_by_id = {id(one): one for number in (*numbers, self.condition) for one in inputs_of(number)}
            for label in self.all_labels:
                input_by_id |= {id(one): one for one in label.domain_inputs}
            input_by_id |= {id(one): one for one in self.also_read}
            return tuple(input_by_id.values())

        return self._kept("_inputs", find)

    @property
    def also_read(self) -> tuple[Any, ...]:
        """The inputs that only the positions of features and units read: ``x[parent[n]]``, ``per=day[t]``."""
        read: tuple[Any, ...] = self.__dict__.get("_also_read", ())
        return read

    @property
    def units(self) -> tuple[Any, ...]:
        """What is read in ``per=``: where there is no such position, there is no factor (it would have no weights)."""
        units: tuple[Any, ...] = self.__dict__.get("_units", ())
        return units

    def reading(self, numbers: tuple[Any, ...], units: tuple[Any, ...] = ()) -> Pattern:
        """Return the pattern as one whose shape follows, too, from what features and units read at positions."""
        known = {id(one) for one in self.inputs}
        more = {id(one): one for number in (*numbers, *units) for one in inputs_of(number) if id(one) not in known}
        reads = tuple(one for one in units if isinstance(one, Read))
        if not more and not reads:
            return self
        made = copy(self)
        object.__setattr__(made, "_also_read", tuple(more.values()))
        object.__setattr__(made, "_units", reads)
        return made

    @property
    def count_reads_inputs(self) -> bool:
        """Whether the content of inputs decides how many factors there are; edges of a word are all there."""

        def find() -> bool:
            domains = any(label.has_domain for label in self.all_labels)
            return domains or (bool(self.inputs) and not self._is_on_axes)

        return self._kept("_counts_read", find)

    @property
    def all_labels(self) -> tuple[Label, ...]:
        """The labels of all parts, each once."""
        return self._kept(
            "_labels", lambda: tuple({id(one.label): one.label for group in self.groups for one in group}.values())
        )

    def symbols(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols that it refers to beside its labels, with what each is to it."""
        for number in (self.condition, *(place for part in self.parts for place, _ in part.places)):
            for what, symbol in symbols_of(number):
                if symbol.name or not (isinstance(symbol, Positions) or (isinstance(symbol, Dim) and symbol.size)):
                    yield what, symbol

    def narrowed(self, where: Any) -> Pattern:
        """Return the pattern with one more condition."""
        condition = as_condition(where)
        return Pattern(list(self.groups), conjunction((*conjuncts(self.condition), *conjuncts(condition))))

    # -- which factors there are ---------------------------------------------------------------------------------

    @property
    def is_box(self) -> bool:
        """Whether there is a factor at each position of a box, whatever the data: an axis for each index."""
        return self._kept("_box", self._find_box)

    def _find_box(self) -> bool:
        if len(self.groups) > 1 or self.condition is not None or any(one.has_domain for one in self.labels):
            return False
        if self.units or any(isinstance(one, Read | Ring) for place, _ in self.places for one in walk(place)):
            return False
        return not any(may_be_one(a, b) for k, a in enumerate(self.references) for b in self.references[:k])

    @property
    def box(self) -> tuple[tuple[Index, tuple[tuple[Dim, int], ...], int], ...]:
        """For each index of a box: the index, the axes (with a number to add) that it ends at, where it begins."""

        def find() -> tuple[tuple[Index, tuple[tuple[Dim, int], ...], int], ...]:
            out = []
            for index in self.free:
                low, ends = 0, [(index.dim, 0)]
                for place, dim in self.places:
                    if isinstance(place, Shift | OnAxis) and index in (place.base, getattr(place.base, "base", None)):
                        by = place.by if isinstance(place, Shift) else 0
                        inner = place.base if isinstance(place, Shift) else place
                        if isinstance(inner, FromEnd):  # size + c - t + by is a position
                            ends.append((dim, inner.by + by + 1))
                            low = max(low, inner.by + by + 1)
                            continue
                        low = max(low, -by)
                        ends.append((dim, -by))
                    elif isinstance(place, FromEnd) and place.base is index:
                        ends.append((dim, place.by + 1))
                out.append((index, tuple(dict.fromkeys(ends)), low))
            return tuple(out)

        return self._kept("_bounds", find)

    def count(self, sizes: Mapping[str, Any]) -> Any:
        """Return the number of factors for axis sizes given by name (ints, or arrays over examples).

        Of patterns that follow from sizes alone.
        """
        if self._is_on_axes:
            return n_positions(self.feature_axes, sizes)
        if self.is_box or (self.is_union and all(part.is_box for part in self.parts)):
            return sum(part._box_count(sizes) for part in self.parts)
        ragged = [dim.name for dim in self.all_axes if dim.ragged]
        if not ragged:
            return self._kept("_count", lambda: self._listed_counts(World({}, {}, 1))[0])
        columns = np.array(np.broadcast_arrays(*(sizes[name] for name in ragged)), dtype=np.int64)
        rows = columns.reshape(len(columns), -1)
        of, first = kinds_of_rows(list(rows), rows.shape[1])
        known: dict[tuple[int, ...], int] = self._kept("_counts", dict)
        if len(known) > MOST_COUNTS:
            known.clear()
        keys = list(zip(*rows[:, first].tolist(), strict=True))
        if new := [key for key in keys if key not in known]:
            some = dict(zip(ragged, np.array(new, dtype=np.int64).T, strict=True))
            known.update(zip(new, self._listed_counts(World(some, {}, len(new))), strict=True))
        counts = np.array([known[key] for key in keys], dtype=np.int64)
        return counts[of].reshape(columns.shape[1:])[()]

    def _box_count(self, sizes: Mapping[str, Any]) -> Any:
        """Return the number of positions of a box."""
        total: Any = 1
        for _, ends, low in self.box:
            total = total * np.maximum(ends_least(ends, sizes) - low, 0)
        for place, dim in self.fixed_places:
            size = sizes[dim.origin.name] if dim.size is None else dim.size
            total = total * ((size > place) if place >= 0 else (size >= -place))
        return total if self.free else total + 0 * sum(sizes[dim.name] for dim in self.all_axes)

    def _listed_counts(self, world: World) -> list[int]:
        """Return the number of instances for examples of some sizes."""
        owners = [part.instances(world).owner for part in self.parts]
        counts: list[int] = np.bincount(np.concatenate(owners), minlength=world.n).tolist()
        return counts

    @property
    def fixed_places(self) -> tuple[tuple[int, Dim], ...]:
        """The positions that are written as ints, each with its axis."""
        return self._kept("_fixed", lambda: tuple((one, dim) for one, dim in self.places if isinstance(one, int)))

    def instances(self, world: World) -> Instances:
        """Return the assignments of the index variables for which there is a factor; of a pattern that is no union.

        Labels with conditions of their own are not looked at: the compiler knows their variables.
        """
        if self.exists_everywhere:
            return box_instances(self.box, self.fixed_places, world)
        rows = find_instances(self.free, self.condition, self.places, world, self)
        for a, b in self._kept("_alike", self._find_alike):
            same = _is_one(rows, a, b)
            rows = rows.chosen(~same) if same.any() else rows
        for unit in self.units:
            known = rows.position(unit, unit.axis)[1]
            rows = rows if known is None else rows.chosen(known)
        return rows

    @property
    def exists_everywhere(self) -> bool:
        """Whether there is a factor for each position of a box of the indices: positions need no look."""
        return self.is_box or self._is_on_axes

    def _find_alike(self) -> tuple[tuple[LabelAt, LabelAt], ...]:
        """Return the pairs of references that may be the same variable."""
        pairs = ((a, b) for k, a in enumerate(self.references) for b in self.references[:k])
        return tuple(pair for pair in pairs if may_be_one(*pair))

    # -- as a target ---------------------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """Number of variables in one factor."""
        return len(self.references)

    @property
    def covers(self) -> bool:
        """Whether there is one factor for each variable of the label, in their order."""
        places = self.references[0].places
        return self.condition is None and len(self.groups) == self.arity == 1 and places == self.free

    @property
    def members(self) -> tuple[Label, ...]:
        """The label of each variable of a factor."""
        return self.labels

    @property
    def all_axes(self) -> tuple[Dim, ...]:
        """Axes whose sizes decide how many factors there are."""
        known: tuple[Dim, ...] | None = self.__dict__.get("_axes")
        if known is not None:
            return known
        axes = [index.dim for part in self.parts for index in part.free]
        axes += [dim.origin for part in self.parts for _, dim in part.places]
        kept = tuple({id(dim): dim for dim in axes if dim.name or dim.ragged}.values())  # others are constants
        if all(dim.name for dim in axes):  # names come later
            object.__setattr__(self, "_axes", kept)
        return kept

    @property
    def feature_axes(self) -> tuple[Dim, ...]:
        """The axes that features of a word may have; of a written pattern none, its features are at positions."""
        return () if self.word is None else self.word.axes

    @property
    def shared_axes(self) -> tuple[Dim, ...]:
        """The axes that ``per=`` may name of a word; of a written pattern it names an index."""
        return () if self.word is None else self.word.shared

    @property
    def is_union(self) -> bool:
        """Whether it is made of several patterns."""
        return len(self.groups) > 1

    @property
    def ends(self) -> tuple[str, ...]:
        """What functions of features may ask for beside the inputs."""
        return () if self.word is None else tuple(self.word.ends)

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """Of variables at ``t + k`` of a label with one axis the numbers k."""
        if len(self.groups) > 1 or len(self.free) != 1 or self.condition is not None:
            return None
        if any(len(one.places) != 1 or one.label is not self.label for one in self.references):
            return None
        offsets = [_offset(place) for place, _ in self.places]
        return (
            tuple(one[1] for one in offsets if one is not None and one[0] == id(self.free[0]))
            if all(one is not None and one[0] == id(self.free[0]) for one in offsets)
            else None
        )

    @property
    def fixed_position(self) -> int | None:
        """The position of a single variable that is written as an int."""
        alone = len(self.groups) == 1 and self.arity == 1 and len(self.places) == 1
        place = self.places[0][0] if alone else None
        return place if isinstance(place, int) else None

    @property
    def _is_on_axes(self) -> bool:
        """Whether there is a factor at each position of the axes of a word: of ``cross`` and ``along``."""

        def find() -> bool:
            word = self.word
            return (
                word is not None
                and bool(self.free and word.axes)
                and len(word.axes) == len(word.at[0]) == len(self.free)
                and all(
                    place is index and dim is index.dim
                    for place, index, dim in zip(word.at[0], self.free, word.axes, strict=True)
                )
            )

        return self._kept("_on_axes", find)

    @property
    def position_axes(self) -> tuple[tuple[Dim | None, int], ...]:
        """The axes of an array with a number for each factor, see :class:`Target`: of a box one for each index."""
        if self._is_on_axes:
            return tuple((dim, 0) for dim in self.feature_axes)
        if not self.is_box:
            return ((None, 0),)
        return tuple(_box_axis(ends, low) for _, ends, low in self.box)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return references and condition; of a word its arguments."""
        if self.word is not None:
            return self.word.args, self.word.options
        groups: Any = self.groups[0] if len(self.groups) == 1 else list(self.groups)
        return (groups,), ({} if self.condition is None else {"where": self.condition})

    @property
    def written(self) -> Any:
        """The variables; of a word itself."""
        if self.word is not None:
            return self
        if len(self.groups) > 1:
            return list(self.groups)
        return self.references if self.arity > 1 else self.references[0]

    @property
    def written_options(self) -> dict[str, Any]:
        """The condition."""
        return {} if self.condition is None or self.word is not None else {"where": self.condition}

    @property
    def constructor(self) -> str:
        """The function of a word, else the class."""
        return "Pattern" if self.word is None else self.word.name

    @property
    def pattern(self) -> Pattern:
        """The pattern with its indices, as ``print(Model.trans.pattern)`` shows it."""
        if self.word is None:
            return self
        return Pattern(list(self.groups) if self.is_union else self.references, self.condition)

    def __repr__(self) -> str:
        if self.word is not None and self.word.name == "at":
            return f"{show(self.label)}.at({self.word.args[1]})"
        if self.word is not None and self.word is not _PART:
            return Node.__repr__(self)
        groups = [f"({', '.join(map(repr, group))})" if len(group) > 1 else repr(group[0]) for group in self.groups]
        text = groups[0] if len(groups) == 1 else f"[{', '.join(groups)}]"
        return text if self.condition is None else f"Pattern({text}, where={self.condition!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Target):
            return NotImplemented
        return self is other or (isinstance(other, Pattern) and self._content() == other._content())

    def __hash__(self) -> int:
        return hash((Pattern, len(self.groups), tuple(one.label.n_states for one in self.references)))

    def _content(self) -> tuple[Any, ...]:
        known: tuple[Any, ...] | None = self.__dict__.get("_canonical")
        if known is not None:
            return known
        indices = indices_of(*(place for part in self.parts for place, _ in part.places), self.condition)
        ranks = {id(index): k for k, index in enumerate(indices)}
        groups = tuple(tuple(canonical(one, ranks) for one in group) for group in self.groups)
        word = None if self.word is None else (self.word.name, canonical(self.word.at, ranks))
        content = groups, canonical(self.condition, ranks), word, self.also_read, canonical(self.units, ranks)
        if all(index.dim.name or index.dim.size for index in indices):  # names come later
            object.__setattr__(self, "_canonical", content)
        return content


#: A part of a union.
_PART = Word("Pattern", ())


def _box_axis(ends: tuple[tuple[Dim, int], ...], begin: int) -> tuple[Dim | None, int]:
    """Return the axis of an index of a box: its positions go from ``begin`` to where the first axis ends."""
    first, by = min(ends, key=lambda one: one[1])
    return (first, begin - by) if all(dim is first for dim, _ in ends) else (None, 0)


def canonical(expression: Any, ranks: Mapping[int, int]) -> Any:
    """Return an expression with indices by their rank, so that names make no difference."""
    if isinstance(expression, Index):
        dim = expression.dim
        return "index", ranks.get(id(expression), -1), dim if dim.name else dim.size or id(dim)
    named = isinstance(expression, Symbol) and not isinstance(expression, At)
    constant = isinstance(expression, Positions) and expression.constant and not expression.name
    if isinstance(expression, Node) and (constant or not named):
        args, options = expression.arguments()
        return type(expression).__name__, tuple(canonical(one, ranks) for one in (*args, *options.values()))
    if isinstance(expression, tuple | list):
        return tuple(canonical(one, ranks) for one in expression)
    return expression


def as_reference(value: Any) -> LabelAt | None:
    """Return a variable at positions; a label without axes is its own; ``None`` for anything else."""
    if isinstance(value, LabelAt):
        return value
    return LabelAt(value, ()) if isinstance(value, Label) and not value.dims else None


def is_pattern(value: Any) -> bool:
    """Whether a value is read as a pattern with indices: variables at positions, in a tuple or a list of tuples."""
    if isinstance(value, LabelAt | Pattern):
        return True
    return isinstance(value, tuple | list) and any(isinstance(one, LabelAt) or is_pattern(one) for one in value)


def _read_groups(references: Any, mistakes: list[Mistake]) -> tuple[tuple[LabelAt, ...], ...]:
    """Return the tuples of variables of a pattern."""
    if isinstance(references, list) and references:
        if any(not isinstance(one, tuple) for one in references):
            mistakes.append(got("a list holds tuples of variables, (y[i], y[j]); a pair is a tuple", references))
            references = tuple(one for one in references if not isinstance(one, tuple)) or references[:1]
        else:
            groups = [_read_group(one, mistakes) for one in references]
            if len({tuple(one.label.n_states for one in group) for group in groups}) > 1:
                mistakes.append("the parts of a union have the same numbers of states, variable by variable")
                groups = groups[:1]
            return tuple(groups)
    return (_read_group(references, mistakes),)


def _read_group(references: Any, mistakes: list[Mistake]) -> tuple[LabelAt, ...]:
    listed = references if isinstance(references, tuple | list) else (references,)
    members = [as_reference(one) for one in listed]
    for one, value in zip(members, listed, strict=True):
        if one is None:
            hint = "" if not isinstance(value, Label) else f"; write {show(value)}[t] with an index of each axis"
            mistakes.append(got(f"a pattern holds variables at positions, such as y[t]{hint}", value))
        else:
            mistakes += one.mistakes
            if one.label.pointer and len(one.places) < len(one.label.dims):
                mistakes.append(f"{one!r}: a pointer occurs only with .is_(position)")
    sound = tuple(one for one in members if one is not None and not one.mistakes)
    return sound or (LabelAt(Label(1), ()),)


def _same_twice(groups: tuple[tuple[LabelAt, ...], ...]) -> Iterator[Mistake]:
    for group in groups:
        for k, one in enumerate(group):
            if any(one.label is other.label and one.places == other.places for other in group[:k]):
                yield _twice(one)


def _twice(one: LabelAt) -> Mistake:
    return lambda: f"{one!r} is written twice: a factor joins different variables"


def _offset(place: Any) -> tuple[Any, int] | None:
    """Return a position as (index, or a sign of the end, or nothing; distance): those of one base differ by numbers."""
    if isinstance(place, int):
        return ("end" if place < 0 else "begin"), place
    if isinstance(place, Index):
        return id(place), 0
    if isinstance(place, Shift) and isinstance(place.base, Index):
        return id(place.base), place.by
    return None


def may_be_one(a: LabelAt, b: LabelAt) -> bool:
    """Whether two references may be the same variable."""
    if a.label is not b.label:
        return False
    if a.label.symmetric:  # (i, j) is (j, i)
        return True
    for p, q in zip(a.places, b.places, strict=True):
        first, second = _offset(p), _offset(q)
        if first is not None and second is not None and first[0] == second[0] and first[1] != second[1]:
            return False  # they differ by a number
    return True


def _is_one(rows: Instances, a: LabelAt, b: LabelAt) -> Bools:
    """Return in which instances two references are the same variable."""
    pairs = zip(a.places, b.places, a.label.dims, strict=True)
    same = [rows.position(p, dim)[0] == rows.position(q, dim)[0] for p, q, dim in pairs]
    one: Bools = np.logical_and.reduce(same) if same else np.ones(len(rows), dtype=bool)
    if a.label.symmetric and len(a.places) == 2:
        p, q = (
            [rows.position(place, dim)[0] for place, dim in zip(x.places, x.label.dims, strict=True)] for x in (a, b)
        )
        one = one | ((p[0] == q[1]) & (p[1] == q[0]))
    return one


# -- functions of the user that are called with the states of the variables of a pattern, positions and inputs -----


def function_mistakes(what: str, goal: Target, positions: tuple[Any, ...]) -> Iterator[Mistake]:
    """Yield why a function cannot say what is ruled out of a target."""
    if goal.mistakes:
        return
    if not isinstance(goal, Pattern) or goal.word is not None or goal.is_union:
        yield got(f"{what}: a function is for variables at positions, such as (y[s], y[t])", goal)
        return
    for index in indices_of(*positions):
        if not any(index is own for own in goal.free):
            yield got(f"{what}: the function gets positions of the pattern's own indices", index)


def unknown_inputs(
    ref: FunctionRef, asked: tuple[str, ...] | None, model: ModelView, given: str
) -> Iterator[str]:
    """Yield that a function asks for what is no input of a model.

    Parameters
    ----------
    ref : FunctionRef
    asked : tuple of str, optional
        The names of its parameters for inputs.
    model : ModelView
    given : str
        What it is given by place before.
    """
    unknown = sorted(set(asked or ()) - model.input_names)
    if unknown:
        yield f"{ref.path} asks for {', '.join(unknown)}, after {given} inputs by name"
