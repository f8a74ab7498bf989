"""Find the instances of a pattern, as a database joins: no array has an entry for each combination of positions.

An instance is an assignment of the index variables for which all positions exist and the condition is true.  Indices
are bound one after the other.  What binds an index next is whatever makes the fewest rows: the range that comparisons
leave (``i < j``, ``abs(i - j) <= 5``, positions that must exist), the nonzeros of an input of zeros and ones, or equal
values (``word[i].is_(word[j])``).  How many rows there will be is known before they are made.  The instances of
several examples are found together; the number of the example is the first column of every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I64, Bools
from ssvm_dsl.errors import DataError, TooLargeError
from ssvm_dsl.ir.ragged import pointers, runs
from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import (
    Arithmetic,
    Compare,
    Condition,
    Dim,
    FromEnd,
    Index,
    IsOne,
    Joined,
    OnAxis,
    Read,
    Ring,
    Shift,
    conjuncts,
    indices_of,
    walk,
)
from ssvm_dsl.lang.inputs import At, Edges, Positions
from ssvm_dsl.lang.symbols import Symbol
from ssvm_dsl.memory import require_memory

Values = NDArray[Any]

#: Bytes of an entry of a column, and the most that a join holds of each at a time (old and new rows).
ENTRY, COPIES = 8, 3


@dataclass(frozen=True, eq=False)
class World:
    """What instances follow from: axis sizes of some examples, and the inputs that conditions and positions read.

    Parameters
    ----------
    sizes : dict of str to ndarray of int64, shape (n,)
        By the name of the axis.
    raw : dict of str to sequence of arrays
        The inputs of these examples by name.
    n : int
        Number of examples.
    first : sequence of int
        Their numbers, for messages; 0 to n - 1 without.
    """

    sizes: dict[str, I64]
    raw: dict[str, Sequence[Any]]
    n: int
    numbers: Sequence[int] = ()
    kept: dict[Any, Any] = field(default_factory=dict)

    def size(self, dim: Dim) -> I64:
        """Return the size of an axis in each example."""
        if dim.size is not None:
            return np.full(self.n, dim.size, dtype=np.int64)
        return self.sizes[dim.origin.name]

    def size_at(self, dim: Dim, owner: I64) -> Any:
        """Return the size of an axis in the example of each row; one number where it is fixed."""
        return self.sizes[dim.origin.name][owner] if dim.size is None else dim.size

    def flat(self, source: Any) -> tuple[Values, I64]:
        """Return (rows of an input over all examples, ``shape (R, width)``; where each example begins)."""
        if source.name not in self.kept:
            self.kept[source.name] = self._flat(source)
        flat: tuple[Values, I64] = self.kept[source.name]
        return flat

    def _flat(self, source: Any) -> tuple[Values, I64]:
        if isinstance(source, Edges):
            width, dims = source.arity, (source.dim,)
        else:
            width, dims = source.width, source.dims
        if isinstance(source, Positions) and source.values is not None:
            row = np.array(source.values, dtype=np.int64)[:, None]
            return row, np.zeros(self.n, dtype=np.int64)
        parts = self.raw[source.name]
        if not isinstance(source, Edges):
            parts = [_dense(one, width) for one in parts]
        counts = np.ones(self.n, dtype=np.int64)
        for dim in dims:
            counts = counts * self.size(dim)
        values = np.concatenate(parts) if parts else np.zeros((0, width))
        return values, pointers(counts)[:-1]

    def example(self, owner: int) -> int:
        """Return the number of an example in messages."""
        return int(self.numbers[owner]) if len(self.numbers) else owner

    def relation(self, number: At) -> Relation:
        """Return where an input of zeros and ones is 1."""
        key = number.source.name, number.column, "relation"
        if key not in self.kept:
            self.kept[key] = self._relation(number)
        relation: Relation = self.kept[key]
        return relation

    def _relation(self, number: At) -> Relation:
        values, base = self.flat(number.source)
        column = values[:, number.column or 0]
        at = np.flatnonzero(column)
        wrong = np.flatnonzero(column[at] != 1)
        if len(wrong):
            row = int(at[wrong[0]])
            owner = int(np.searchsorted(base, row, side="right")) - 1
            what, found = f"input '{number.source.name}'", f"{column[row]:g}"
            raise DataError(what, example=self.example(owner), expected="0 or 1, as it is a condition", found=found)
        # examples without positions begin where the next one does: the last of them is the owner
        which: I64 = np.searchsorted(base, at, side="right") - 1
        rest, coordinates = at - base[which], []
        for dim in reversed(number.source.dims):
            size = np.maximum(self.size(dim)[which], 1)
            coordinates.append(rest % size)
            rest = rest // size
        return Relation(which, tuple(reversed(coordinates)))


def _dense(value: Any, width: int) -> Values:
    """Return an input of an example as rows; a sparse one with all of its zeros."""
    if hasattr(value, "indices") and hasattr(value, "ptr"):
        out = np.zeros(value.shape)
        out[np.repeat(np.arange(len(value.ptr) - 1), np.diff(value.ptr)), value.indices] = value.data
        return out.reshape(-1, width)
    return np.asarray(value).reshape(-1, width)


@dataclass(frozen=True, eq=False)
class Relation:
    """Where an input of zeros and ones is 1: example and coordinates, in C order."""

    owner: I64
    coordinates: tuple[I64, ...]


@dataclass(frozen=True, eq=False)
class Instances:
    """Assignments of index variables, sorted by example, then by the indices in the order of their declaration.

    Parameters
    ----------
    world : World
    owner : ndarray of int64, shape (n,)
        The example of each.
    columns : dict of int to ndarray of int64, shape (n,)
        The value of each index, by the identity of the index.
    """

    world: World
    owner: I64
    columns: dict[int, I64]
    kept: dict[Any, tuple[I64, Bools | None]] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.owner)

    def chosen(self, which: Any) -> Instances:
        """Return some of them: those of a mask, or at some places."""
        return Instances(self.world, self.owner[which], {key: one[which] for key, one in self.columns.items()})

    def number(self, expression: Any) -> tuple[Values, Bools | None]:
        """Return (value of a number in each instance, whether it is known; ``None`` where all are)."""
        world, owner = self.world, self.owner
        if isinstance(expression, Index):
            return self.columns[id(expression)], None
        if isinstance(expression, int | float):
            return np.full(len(owner), expression), None
        if isinstance(expression, Shift):
            values, known = self.number(expression.base)
            return values + expression.by, known
        if isinstance(expression, Ring):
            return (self.columns[id(expression.base)] + expression.by) % world.size_at(expression.dim, owner), None
        if isinstance(expression, FromEnd):
            values = world.size_at(expression.base.dim, owner) + expression.by - self.columns[id(expression.base)]
            return values, values >= 0
        if isinstance(expression, OnAxis):
            return self.columns[id(expression.base)], None
        if isinstance(expression, Arithmetic):
            return self._arithmetic(expression)
        if isinstance(expression, Read):
            return self._read(expression)
        assert isinstance(expression, At)
        rows, known = self.rows(expression)
        values, _ = world.flat(expression.source)
        column = expression.column or 0
        if known is None:
            return values[rows, column], None
        out = np.zeros(len(owner), dtype=values.dtype)
        out[known] = values[rows[known], column]
        return out, known

    def _arithmetic(self, expression: Arithmetic) -> tuple[Values, Bools | None]:
        first, known = self.number(expression.given[0])
        if expression.op == "abs":
            return np.abs(first), known
        second, other = self.number(expression.given[1])
        both = _both(known, other)
        if expression.op == "%":
            return first % second, both
        return (first + second if expression.op == "+" else first - second), both

    def _read(self, expression: Read) -> tuple[Values, Bools | None]:
        rows, known = self.rows(expression)
        values = self.world.flat(expression.source)[0][:, expression.column]
        if known is None:
            numbers = values[rows].astype(np.int64, copy=False)
            if isinstance(expression.source, Edges):  # there is no -1 among them
                return numbers, None
        else:
            numbers = np.full(len(rows), -1, dtype=np.int64)
            numbers[known] = values[rows[known]]
        there = numbers >= 0
        return numbers, None if there.all() else there

    def rows(self, expression: Any) -> tuple[I64, Bools | None]:
        """Return (row of a source over all examples at its positions, whether these exist; ``None`` where all do)."""
        source = expression.source
        dims = (source.dim,) if isinstance(source, Edges) else source.dims
        _, base = self.world.flat(source)
        if isinstance(source, Positions) and source.values is not None:
            place, known = self.position(expression.places[0], None)
            inside = place < len(source.values)
            return place, known if inside.all() else _both(known, inside)
        key = source.name, expression.places
        if key not in self.kept:
            flat, known = self.flat(expression.places, dims)
            self.kept[key] = flat + base[self.owner], known
        return self.kept[key]

    def flat(self, places: Sequence[Any], dims: Sequence[Dim], look: bool = True) -> tuple[I64, Bools | None]:
        """Return (flat position on axes in each instance, whether it exists; ``None`` where all do).

        Parameters
        ----------
        places : sequence
            A position on each axis.
        dims : sequence of Dim
        look : bool
            Whether positions may be missing; without it only those that are ints are compared with sizes.
        """
        flat, known = np.zeros(len(self.owner), dtype=np.int64), None
        for k, (place, dim) in enumerate(zip(places, dims, strict=True)):
            at, there = self.position(place, dim) if look or isinstance(place, int) else (self.number(place)[0], None)
            flat, known = at if k == 0 else flat * self.world.size_at(dim, self.owner) + at, _both(known, there)
        return flat, known

    def position(self, place: Any, dim: Dim | None) -> tuple[I64, Bools | None]:
        """Return (position on an axis in each instance, whether it exists; ``None`` where all do)."""
        if isinstance(place, int):
            assert dim is not None
            size = self.world.size_at(dim, self.owner)
            at = np.full(len(self.owner), place, dtype=np.int64) + (size if place < 0 else 0)
            there = (at >= 0) & (at < size)
            return at, None if there.all() else there
        at, known = self.number(place)
        if isinstance(place, Index | Ring) and (dim is None or place.axis.origin is dim.origin):
            return at, None
        inside = at >= 0 if dim is None else (at >= 0) & (at < self.world.size_at(dim, self.owner))
        known = _both(known, inside)
        return at, None if known is None or known.all() else known

    def truth(self, condition: Condition) -> tuple[Bools, Bools]:
        """Return (whether a condition is true, whether it is known) in each instance; joined as in SQL."""
        if isinstance(condition, Joined):
            given = [self.truth(one) for one in condition.given]
            if condition.op == "not":
                true, known = given[0]
                return known & ~true, known
            decides = condition.op == "|"
            true = np.logical_or.reduce([one & known for one, known in given])
            false = np.logical_or.reduce([known & ~one for one, known in given])
            every = np.logical_and.reduce([known for _, known in given])
            return (true, true | every) if decides else (every & ~false, false | every)
        if isinstance(condition, IsOne):
            self.world.relation(condition.number)  # refuses what is not 0 or 1
            values, exists = self.number(condition.number)
            return _known(values == 1, exists)
        assert isinstance(condition, Compare)
        left, first = self.number(condition.left)
        if condition.right is None:
            _, there = self.rows(condition.left)
            missing = left < 0
            return _known(missing if condition.op == "==" else ~missing, there)
        right, other = self.number(condition.right)
        return _known(_OPERATIONS[condition.op](left, right), _both(first, other))


_OPERATIONS: dict[str, Callable[[Values, Values], Bools]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def _both(a: Bools | None, b: Bools | None) -> Bools | None:
    return b if a is None else a if b is None else a & b


def _known(true: Bools, known: Bools | None) -> tuple[Bools, Bools]:
    return (true, np.ones(len(true), dtype=bool)) if known is None else (true & known, known)


def box_instances(
    box: Sequence[tuple[Index, tuple[tuple[Dim, int], ...], int]], fixed: Sequence[tuple[int, Dim]], world: World
) -> Instances:
    """Return the assignments of index variables that fill a box, without a search.

    Parameters
    ----------
    box : sequence of (index, ends, begin)
        Where the positions of each index begin, and the axes (with a number to add) that they end at.
    fixed : sequence of (int, axis)
        Positions that must exist.
    world : World
    """
    sides = [np.maximum(ends_least(ends, world) - low, 0) for _, ends, low in box]
    total = sides[0] if len(sides) == 1 else np.prod([np.ones(world.n, dtype=np.int64), *sides], axis=0)
    for place, dim in fixed:
        size = world.size(dim)
        total = total * ((size > place) if place >= 0 else (size >= -place))
    owner = np.repeat(np.arange(world.n, dtype=np.int64), total)
    if len(box) == 1:
        index, _, low = box[0]
        return Instances(world, owner, {id(index): runs(np.full(world.n, low, dtype=np.int64), total)})
    rest, columns = runs(np.zeros(world.n, dtype=np.int64), total), dict[int, I64]()
    for (index, _, low), side in reversed(list(zip(box, sides, strict=True))):
        width = side[owner]
        columns[id(index)] = rest % width + low
        rest = rest // width
    return Instances(world, owner, columns)


def ends_least(ends: tuple[tuple[Dim, int], ...], sizes: World | Mapping[str, Any]) -> Any:
    """Return the least of some axis sizes, each with a number added."""
    least: Any = None
    for dim, by in ends:
        size = sizes.size(dim) if isinstance(sizes, World) else sizes[dim.origin.name] if dim.size is None else dim.size
        least = size + by if least is None else np.minimum(least, size + by)
    return least


def find_instances(
    free: tuple[Index, ...],
    where: Condition | None,
    places: Sequence[tuple[Any, Dim]],
    world: World,
    what: object = "a pattern",
) -> Instances:
    """Return the assignments of index variables whose positions exist and for which a condition is true.

    Parameters
    ----------
    free : tuple of Index
    where : Condition, optional
    places : sequence of (position, axis)
        Positions that must exist.
    world : World
    what : object
        What the instances are those of, as messages show it.

    Raises
    ------
    TooLargeError
        There are more instances than memory holds.
    DataError
        An input that is a condition holds something else than 0 and 1.
    """
    return _Join(free, where, places, world, what).run()


def extend_instances(
    found: Instances,
    over: tuple[Index, ...],
    where: Condition | None,
    places: Sequence[tuple[Any, Dim]],
    what: str = "a rule",
) -> tuple[Instances, I64]:
    """Return (assignments of more index variables, the instance that each extends, in order).

    Parameters
    ----------
    found : Instances
    over : tuple of Index
        The new indices.
    where : Condition, optional
        What must be true of the new assignments; it may have the old indices, too.
    places : sequence of (position, axis)
        Positions that must exist.
    what : str
        What the instances are those of, for messages.
    """
    join = _Join(over, where, places, found.world, what)
    join.table = Instances(found.world, found.owner, found.columns | {PARENT: np.arange(len(found), dtype=np.int64)})
    join.bound = set(found.columns)
    table = join.bind()
    parent = table.columns[PARENT]
    columns = {key: one for key, one in table.columns.items() if key != PARENT}
    return Instances(found.world, table.owner, columns), parent


#: The key of the column that says which instance a row extends; no identity of an object.
PARENT = -1


class _Join:
    """Binds one index after the other."""

    def __init__(
        self,
        free: tuple[Index, ...],
        where: Condition | None,
        places: Sequence[tuple[Any, Dim]],
        world: World,
        what: object,
    ) -> None:
        self.free, self.world, self.what = free, world, what
        self.places = [
            (place, dim) for place, dim in places if not (isinstance(place, Index) and place.axis.origin is dim.origin)
        ]
        self.waiting = list(conjuncts(where))
        self.table = Instances(world, np.arange(world.n, dtype=np.int64), {})
        self.bound: set[int] = set()
        self.order: list[Index] = []
        self.sorted = True

    def bind(self) -> Instances:
        """Return the instances; each row's own are in its place, in any order."""
        self._filter()
        while any(id(index) not in self.bound for index in self.free):
            self._take(min(self._steps(), key=lambda step: step.total))
            self._filter()
        return self.table

    def run(self) -> Instances:
        """Return the instances."""
        self.bind()
        if not self.sorted and len(self.table):
            keys = [self.table.columns[id(index)] for index in reversed(self.free)]
            self.table = self.table.chosen(np.lexsort((*keys, self.table.owner)))
        return self.table

    def _filter(self) -> None:
        """Drop rows for which a condition that is bound now is not true, or a position does not exist."""
        keep: Bools | None = None
        if true := [one for one in self.waiting if self._is_bound(one)]:
            self.waiting = [one for one in self.waiting if not self._is_bound(one)]
        if there := [one for one in self.places if self._is_bound(one[0])]:
            self.places = [one for one in self.places if not self._is_bound(one[0])]
        for one in true:
            keep = _both(keep, self.table.truth(one)[0])
        for place, dim in there:
            keep = _both(keep, self.table.position(place, dim)[1])
        if keep is not None and not keep.all():
            self.table = self.table.chosen(keep)

    def _is_bound(self, expression: Any) -> bool:
        return index_ids(expression) <= self.bound

    def _steps(self) -> Iterator[_Step]:
        """Yield the ways to bind an index (or several) next."""
        for index in self.free:
            if id(index) not in self.bound:
                yield self._range_step(index)
        for condition in self.waiting:
            if isinstance(condition, IsOne):
                step = self._relation_step(condition)
            elif isinstance(condition, Compare) and condition.op == "==" and condition.right is not None:
                step = self._equality_step(condition)
            else:
                step = None
            if step is not None:
                yield step

    def _take(self, step: _Step) -> None:
        """Bind the indices of a step."""
        total = step.total
        needed = float(total) * ENTRY * COPIES * (len(self.free) + 1)
        if total > MOST:
            raise TooLargeError(f"{self.what}: {total:.3g} instances, {MOST} are the most; narrow its where=")
        if needed > 1e8:
            require_memory(needed, f"{self.what} of {total} instances", "narrow its where=, or pass fewer examples")
        columns = {key: one.repeat(step.counts) for key, one in self.table.columns.items()}
        columns |= {id(index): one for index, one in zip(step.indices, step.columns(), strict=True)}
        self.table = Instances(self.world, self.table.owner.repeat(step.counts), columns)
        for index in step.indices:
            later = [one for one in self.free if one.number > index.number and id(one) in self.bound]
            self.sorted = self.sorted and step.ascending and not later
            self.bound.add(id(index))
        if step.settles:
            done = set(map(id, step.settles))
            self.waiting = [one for one in self.waiting if id(one) not in done]
            self.places = [one for one in self.places if id(one) not in done]

    # -- ranges --------------------------------------------------------------------------------------------------

    def _range_step(self, index: Index) -> _Step:
        """Bind an index by the range that comparisons and positions leave."""
        owner = self.table.owner
        lows: list[Any] = [np.zeros(len(owner), dtype=np.int64)]
        highs: list[Any] = [self.world.size_at(index.dim, owner)]
        settles: list[Any] = []
        for one in self.places:
            place, dim = one
            if isinstance(place, Shift | OnAxis) and place.base is index:
                by = place.by if isinstance(place, Shift) else 0
                lows.append(-by)
                highs.append(self.world.size_at(dim, owner) - by)
                settles.append(one)
        for condition in self.waiting:
            bounds = [self._bounds(index, *one) for one in _comparisons(condition)]
            if bounds and None not in bounds:
                for side, value in (bound for found in bounds if found is not None for bound in found):
                    (lows if side == ">=" else highs).append(value)
                settles.append(condition)
        low, high = reduce(np.maximum, lows), reduce(np.minimum, highs)
        counts = np.maximum(high - low, 0)
        return _Step((index,), counts, lambda: (runs(low, counts),), settles, True)

    def _bounds(self, index: Index, op: str, left: Any, right: Any) -> list[tuple[str, I64]] | None:
        """Return what ``left op right`` leaves of an index where all else is bound; else ``None``.

        It is at least a number, ``">="``, or below one, ``"<"``, or both.
        """
        terms = _terms(left, index, 1), _terms(right, index, -1)
        if terms[0] is None or terms[1] is None:
            return None
        factor, others = terms[0][0] + terms[1][0], [*terms[0][1], *terms[1][1]]
        if abs(factor) != 1 or not all(self._is_bound(one) for _, one in others):
            return None
        value: Any = 0
        known: Bools | None = None
        for sign, one in others:
            values, there = self.table.number(one)
            value, known = value + values if sign == -factor else value - values, _both(known, there)
        op = op if factor == 1 else {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)  # the index op value
        least = value if np.asarray(value).dtype.kind == "i" else np.ceil(value).astype(np.int64)
        most = value if least is value else np.floor(value).astype(np.int64)
        found = [] if known is None else [("<", np.where(known, MOST, -MOST))]
        if op in ("<", "<=", "=="):
            found.append(("<", least if op == "<" else most + 1))
        if op in (">", ">=", "=="):
            found.append((">=", most + 1 if op == ">" else least))
        return found

    # -- inputs of zeros and ones --------------------------------------------------------------------------------

    def _relation_step(self, condition: IsOne) -> _Step | None:
        """Bind the indices of an input of zeros and ones by where it is 1."""
        number = condition.number
        unbound = [k for k, place in enumerate(number.places) if not self._is_bound(place)]
        indices = tuple(number.places[k] for k in unbound)
        if (
            not unbound
            or not all(isinstance(one, Index) for one in indices)
            or len(set(map(id, indices))) < len(indices)
        ):
            return None
        relation, dims = self.world.relation(number), number.source.dims
        largest = [int(self.world.size(dim).max(initial=0)) + 1 for dim in dims]
        if self.world.n * prod(map(float, largest)) > 2**62:
            return None
        fixed = [k for k in range(len(dims)) if k not in unbound]
        key = relation.owner
        for k in (*fixed, *unbound):
            key = key * largest[k] + relation.coordinates[k]
        place = np.argsort(key, kind="stable")
        key = key[place]
        query, exists = self.table.owner, None
        for k in fixed:
            at, there = self.table.position(number.places[k], dims[k])
            query, exists = query * largest[k] + (at if there is None else np.where(there, at, 0)), _both(exists, there)
        width = prod(largest[k] for k in unbound)
        begin = np.searchsorted(key, query * width)
        counts = np.searchsorted(key, (query + 1) * width) - begin
        if exists is not None:
            counts = np.where(exists, counts, 0)

        def columns() -> tuple[I64, ...]:
            rows = place[runs(begin, counts)]
            return tuple(relation.coordinates[k][rows] for k in unbound)

        numbers = [index.number for index in indices]
        return _Step(indices, counts, columns, [condition], numbers == sorted(numbers))

    # -- equal values --------------------------------------------------------------------------------------------

    def _equality_step(self, condition: Compare) -> _Step | None:
        """Bind an index by the positions at which a value is equal to one that is bound."""
        for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
            unbound = [index for index in indices_of(side) if id(index) not in self.bound]
            if len(unbound) == 1 and len(indices_of(side)) == 1 and self._is_bound(other) and indices_of(side):
                return self._by_value(unbound[0], side, other, condition)
        return None

    def _by_value(self, index: Index, side: Any, other: Any, condition: Compare) -> _Step:
        world = self.world
        sizes = world.size(index.dim)
        owner = np.repeat(np.arange(world.n, dtype=np.int64), sizes)
        every = Instances(world, owner, {id(index): runs(np.zeros(world.n, np.int64), sizes)})
        values, known = every.number(side)
        if known is not None:
            every, values = every.chosen(known), values[known]
        asked, there = self.table.number(other)
        codes = np.unique(np.concatenate([values, asked]), return_inverse=True)[1].reshape(-1)
        n_codes = int(codes.max(initial=0)) + 1
        key = every.owner * n_codes + codes[: len(values)]
        place = np.argsort(key, kind="stable")
        query = self.table.owner * n_codes + codes[len(values) :]
        begin = np.searchsorted(key[place], query)
        counts = np.searchsorted(key[place], query, side="right") - begin
        if there is not None:
            counts = np.where(there, counts, 0)
        return _Step(
            (index,), counts, lambda: (every.columns[id(index)][place[runs(begin, counts)]],), [condition], True
        )


@dataclass(frozen=True, eq=False)
class _Step:
    """A way to bind indices: how many rows each row becomes, and the new columns.

    Parameters
    ----------
    indices : tuple of Index
    counts : ndarray of int64, shape (rows,)
    columns : callable
        Makes the new columns.
    settles : list of Condition
        Conditions that are true of all new rows.
    ascending : bool
        Whether the new rows of a row are in order.
    """

    indices: tuple[Index, ...]
    counts: I64
    columns: Callable[[], tuple[I64, ...]]
    settles: list[Any]
    ascending: bool

    @cached_property
    def total(self) -> int:
        """Rows after it."""
        return int(self.counts.sum())


def index_ids(expression: Any) -> frozenset[int]:
    """Return the identities of the indices in an expression, which are kept with it."""
    if isinstance(expression, int | float):
        return frozenset()
    indices: tuple[Index, ...] | None = expression.__dict__.get("_indices")  # a copy has copies of them
    if indices is None:
        indices = indices_of(expression)
        object.__setattr__(expression, "_indices", indices)
    return frozenset(map(id, indices))


def _comparisons(condition: Condition) -> list[tuple[str, Any, Any]]:
    """Return a comparison as (operation, left, right), that of an absolute value as the two that it is."""
    if not isinstance(condition, Compare) or condition.right is None or condition.op == "!=":
        return []
    op, left, right = condition.op, condition.left, condition.right
    if isinstance(right, Arithmetic) and right.op == "abs":
        op, left, right = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op), right, left
    if not (isinstance(left, Arithmetic) and left.op == "abs"):
        return [(op, left, right)]
    if op not in ("<", "<="):
        return []
    return [(op, left.given[0], right), (op.replace("<", ">"), left.given[0], Arithmetic("-", (0, right)))]


def _terms(number: Any, index: Index, sign: int) -> tuple[int, list[tuple[int, Any]]] | None:
    """Return a number as (factor of an index, other numbers with signs); ``None`` where it is not linear in it."""
    if id(index) not in index_ids(number):
        return 0, [(sign, number)]
    if isinstance(number, Index):
        return sign, []
    if isinstance(number, OnAxis):
        return sign, []
    if isinstance(number, Shift):
        terms = _terms(number.base, index, sign)
        return None if terms is None else (terms[0], [*terms[1], (sign, number.by)])
    if isinstance(number, Arithmetic) and number.op in ("+", "-"):
        parts = (
            _terms(number.given[0], index, sign),
            _terms(number.given[1], index, sign if number.op == "+" else -sign),
        )
        if parts[0] is not None and parts[1] is not None:
            return parts[0][0] + parts[1][0], [*parts[0][1], *parts[1][1]]
    return None


def inputs_of(number: Any) -> Iterator[Any]:
    """Yield the inputs that a number or a condition reads; constant positions are none."""
    for one in walk(number):
        if isinstance(one, At | Read) and not (isinstance(one.source, Positions) and one.source.constant):
            yield one.source


def symbols_of(number: Any) -> Iterator[tuple[str, Symbol]]:
    """Yield the symbols that a number or a condition refers to, with what each is to it."""
    for one in walk(number):
        if isinstance(one, Index):
            yield ("the index", one) if one.name else ("the axis", one.dim)
        elif isinstance(one, Read):
            yield "the input", one.source
        elif isinstance(one, At):
            yield from one.source.references_of_factor()
        elif isinstance(one, Ring | OnAxis):
            yield "the axis", one.dim.origin
