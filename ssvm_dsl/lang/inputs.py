"""Inputs of an example: dense and sparse arrays, CRFsuite-style attributes, and edge lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import Dim, Number, Read, check_axes, place_mistakes, read_places, refuse, with_origins
from ssvm_dsl.lang.symbols import Mistake, Symbol, as_flag, got, plain, show

#: Most positions that an edge joins.
MOST_ENDS = 100_000


@dataclass(frozen=True, init=False, repr=False)
class Source(Symbol):
    """Anything that gives a row of features at each position of its axes."""

    dims: tuple[Dim, ...]

    @property
    def width(self) -> int | None:
        """Number of features in a row; ``None`` when it is learnt from the training data."""
        raise NotImplementedError

    @property
    def sparse(self) -> bool:
        """Whether rows are stored sparsely (CSR)."""
        return False

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources this one is computed from."""
        return ()

    @property
    def learns(self) -> bool:
        """Whether it learns from the training data (by itself: its sources may, too)."""
        return False

    @property
    def asked_inputs(self) -> tuple[str, ...] | None:
        """Inputs that a user's function asks for by name; ``None``: all of them."""
        return ()

    @property
    def made_of(self) -> tuple[Symbol, ...]:
        """The source and everything it is computed from."""
        return (self, *(one for part in self.sources for one in part.made_of))

    def references_of_factor(self) -> Iterator[tuple[str, Symbol]]:
        """Yield (role, symbol) for symbols that a factor refers to through these features."""
        yield from (("the axis", dim.origin) for dim in self.dims)

    def name_mistakes(self, inputs: frozenset[str]) -> Iterator[str]:
        """Yield mistakes in the inputs that a user's function asks for by name."""
        yield from ()

    def __getitem__(self, places: Any) -> At:
        return at_positions(self, places)

    def __iter__(self) -> NoReturn:
        refuse(f"{show(self)} cannot be iterated; {show(self)}[t] is its row at position t")

    def __contains__(self, other: object) -> NoReturn:
        refuse(f"`in` asks Python, not the model; {show(self)}[t].is_(...) compares its number at position t")


@dataclass(frozen=True, init=False, repr=False)
class ExampleSource(Source):
    """A source that comes with each example, and is part of a model by its name."""

    stands_alone = True

    @property
    def sized_axes(self) -> tuple[Dim, ...]:
        """The axes whose sizes are read from it."""
        return self.dims

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the axes that the input names, for the checks of a declaration."""
        yield from (("the axis", dim.origin) for dim in self.dims)

    def references_of_factor(self) -> Iterator[tuple[str, Symbol]]:
        """Yield itself, which defines its axes."""
        yield "the input", self


@dataclass(frozen=True, init=False, repr=False)
class Input(ExampleSource):
    """An array of numbers that comes with each example.

    Parameters
    ----------
    *shape : Dim or int
        Axes first, then the feature widths: ``Input(T, 128)`` is ``(T, 128)`` numbers, 128 at each position;
        ``Input(294)`` one vector for the example; ``Input(H, W, 12)`` a vector at each pixel.  Without an
        int there is one number at each position.  ``Input(T, T, 20)`` has 20 numbers for each pair of positions of T,
        for a pointer label ``Label(T, over=T)``: positions first, then what they point to.
    sparse : bool
        Rows are sparse: the user passes a ``scipy.sparse`` matrix with one row for each position (without axes one row
        for the example, or one matrix with a row for each example when this is the only input; of ``Input(T, T, n)``
        one for each pair of positions, those of the first position first).

    Examples
    --------
    >>> x = Input(T, 128)
    >>> x = Input(T, 10**6, sparse=True)
    """

    shape: tuple[int, ...]
    is_sparse: bool

    def __init__(self, *shape: Dim | int, sparse: bool = False) -> None:
        mistakes: list[Mistake] = []
        shape = tuple(map(plain, shape))
        n_axes = len(shape)
        while n_axes and isinstance(shape[n_axes - 1], int) and not isinstance(shape[n_axes - 1], bool):
            n_axes -= 1
        dims = check_axes(shape[:n_axes], "Input", mistakes, twice=True)
        widths = tuple(size for size in shape[n_axes:] if isinstance(size, int))
        if any(size < 1 for size in widths):
            mistakes.append(got("Input: feature widths must be positive ints", widths))
        elif prod(widths) > MOST:
            mistakes.append(got(f"Input: at most {MOST} features at each position", widths))
            widths = (1,)
        sparse = as_flag(sparse, "Input: sparse", mistakes)
        if sparse and len(widths) != 1:
            mistakes.append("Input: a sparse input has exactly one feature width, e.g. Input(T, 10**6, sparse=True)")
        if sparse and len(dims) > 1 and (len(dims) > 2 or dims[1].origin is not dims[0]):
            text = "Input: a sparse input has at most one axis, whose positions are its rows, or one twice (T, T)"
            mistakes.append(text)
        self._fill(mistakes, dims=dims, shape=widths, is_sparse=sparse)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (*with_origins(self.dims), *self.shape), ({"sparse": True} if self.is_sparse else {})

    @property
    def width(self) -> int:
        """Number of features at each position."""
        return prod(self.shape)

    @property
    def sparse(self) -> bool:
        """Whether rows come as a scipy.sparse matrix."""
        return self.is_sparse


@dataclass(frozen=True, init=False, repr=False)
class Attributes(ExampleSource):
    """Named features, CRFsuite style: at each position a dict ``{name: value}`` or a collection of names.

    A data frame is a list of dicts, one for each row.

    A value is a number, true or false, or text, which becomes a part of the name: ``{"word": "the"}`` is
    ``{"word:the": 1}``; so do the names in a list or dict that is a value.  Sets are sorted, iterators refused.

    The vocabulary is learnt from the training data and stored with the model;
    names never seen in training are ignored later.

    Parameters
    ----------
    *axes : Dim
        At most two axes; one dict (or list of names) for each position.  With two axes the example is a list of lists:
        ``Attributes(T, T)`` has attributes of each (position, position that it points to), for
        ``Label(T, over=T)``.

    Examples
    --------
    >>> tokens = Attributes(T)          # [{"w=the": 1, "suffix=he": 1}, ["w=cat", "cap"], ...]
    >>> arcs = Attributes(T, T)         # arcs[word][head] = {"pair": "cat the", "distance": 1}
    """

    def __init__(self, *axes: Dim) -> None:
        mistakes: list[Mistake] = []
        dims = check_axes(axes, "Attributes", mistakes, twice=True)
        if len(dims) > 2:
            mistakes.append("Attributes: three axes; attributes have at most two")
        self._fill(mistakes, dims=dims)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return with_origins(self.dims), {}

    @property
    def width(self) -> None:
        """Learnt: the size of the vocabulary."""
        return None

    @property
    def sparse(self) -> bool:
        """Attributes are stored sparsely."""
        return True

    @property
    def learns(self) -> bool:
        """The vocabulary is learnt."""
        return True


@dataclass(frozen=True, init=False, repr=False)
class Edges(Symbol):
    """A list of edges that comes with each example: ints of shape ``(m, arity)``, positions on the axis ``over``.

    Each row is an edge, (start, end) where it joins two; a row for each end, as other libraries have them, is passed
    transposed.

    Parameters
    ----------
    axis : Dim
        The axis of the edges themselves (edge features are ``Input(M, 5)``).
    over : Dim or tuple of Dim
        The axis whose positions the edges join, which are different ones; or an axis for each end, as of a bipartite
        graph: column c of the list holds positions on the c-th of them.
    arity : int, optional
        How many positions an edge joins, 2 by default: hyperedges are rows of an ``(m, arity)`` list.  With several
        axes it is their number.

    Examples
    --------
    >>> e = Edges(M, over=N)
    >>> e = Edges(M, over=N, arity=3)          # along(y, e) joins three variables of Label(N, ...)
    >>> e = Edges(M, over=(N, K))              # along((y, z), e): from Label(N, ...) to Label(K, ...)
    """

    dim: Dim
    ends: tuple[Dim, ...]
    several: bool

    stands_alone = True

    def __init__(self, axis: Dim, *, over: Dim | tuple[Dim, ...], arity: int | None = None) -> None:
        mistakes: list[Mistake] = []
        several = isinstance(over, tuple | list)
        given: tuple[object, ...] = tuple(over) if isinstance(over, tuple | list) else (over,)
        size = plain(arity)
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or not 2 <= size <= MOST_ENDS):
            mistakes.append(got(f"Edges: arity must be an int from 2 to {MOST_ENDS}", arity))
            size = None
        if several and (len(given) < 2 or size not in (None, len(given))):
            mistakes.append(got("Edges: over must be an axis, or one for each of arity ends", over))
        apart = tuple({id(one): one for one in given}.values())  # without names yet, different ones are equal
        axes = check_axes((axis, *apart), "Edges", mistakes)
        if len(axes) < 1 + len(apart):
            axes, several = (Dim(), Dim()), False
        ends = tuple(one for one in given if isinstance(one, Dim)) if several else (axes[1],) * (size or 2)
        self._fill(mistakes, dim=axes[0], ends=ends, several=several)

    @property
    def sized_axes(self) -> tuple[Dim, ...]:
        """The axis whose size is read from it: that of the edges."""
        return (self.dim,)

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the axes that the input names, for the checks of a declaration."""
        yield from (("the axis", dim) for dim in (self.dim, *dict.fromkeys(self.ends)))

    @property
    def arity(self) -> int:
        """How many positions an edge joins."""
        return len(self.ends)

    def __getitem__(self, places: Any) -> Read:
        listed, mistakes = read_places(places, show(self)), list[Mistake]()
        if len(listed) != 2 or not isinstance(listed[1], int) or not 0 <= listed[1] < self.arity:
            ends = f"{show(self)}[m, 0] is the first end of edge m; ends are 0 to {self.arity - 1}"
            mistakes.append(got(ends, listed))
            return Read(self, listed[:1], mistakes=tuple(mistakes))
        mistakes += place_mistakes(listed[:1], (self.dim,), self)
        return Read(self, listed[:1], listed[1], mistakes=tuple(mistakes))

    def __iter__(self) -> NoReturn:
        refuse(f"{show(self)} cannot be iterated; {show(self)}[m, 0] is the first end of edge m")

    def __contains__(self, other: object) -> NoReturn:
        refuse(f"`in` asks Python, not the model; write {show(self)}[m, 0].is_(...)")

    @property
    def over(self) -> Dim | tuple[Dim, ...]:
        """The axis of all ends, or that of each."""
        return self.ends if self.several else self.ends[0]

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        more = {"arity": self.arity} if self.arity != 2 and not self.several else {}
        return (self.dim,), {"over": self.over} | more


@dataclass(frozen=True, init=False, repr=False)
class Positions(Symbol):
    """Positions on an axis: one for each position of other axes, from each example or constant.

    Parameters
    ----------
    *axes : Dim, or a list of int
        The axes that there is a position for, an array of ints that comes with each example; or the positions
        themselves, which are then read by an index over a fixed axis of as many positions.  -1 is no position.
    over : Dim
        The axis that they are positions on.

    Examples
    --------
    >>> parent = Positions([-1, 0, 0, 1, 1, 2], over=K)
    >>> up     = Implies(y[k].is_(1), y[parent[k]].is_(1))
    >>> owner  = Positions(M, over=N)                       # an array of M ints with each example
    """

    dims: tuple[Dim, ...]
    over: Dim
    values: tuple[int, ...] | None

    stands_alone = True

    def __init__(self, *axes: Any, over: Dim) -> None:
        mistakes: list[Mistake] = []
        values: tuple[int, ...] | None = None
        if not isinstance(over, Dim):
            mistakes.append(got("Positions: over= is the axis that they are on, as Positions(K, over=N)", over))
            over = Dim()
        if len(axes) == 1 and not isinstance(axes[0], Dim):
            values, axes = self._read(axes[0], over, mistakes), ()
        elif not axes:
            mistakes.append("Positions: the axes are missing, as Positions(K, over=N), or the positions themselves")
        dims = check_axes(axes, "Positions", mistakes, twice=True)
        self._fill(mistakes, dims=dims, over=over, values=values)

    @staticmethod
    def _read(values: object, over: Dim, mistakes: list[Mistake]) -> tuple[int, ...]:
        listed = plain(values)
        listed = list(listed) if isinstance(listed, tuple | list | range) else None
        whole = listed is not None and all(isinstance(one, int) and not isinstance(one, bool) for one in listed)
        if listed is None or not listed or not whole:
            mistakes.append(got("Positions: an axis, or a list of int positions (-1: none)", values))
            return (0,)
        most = MOST if over.size is None else over.size
        wrong = [one for one in listed if not -1 <= one < most]
        if wrong:
            mistakes.append(got(f"Positions: positions on {show(over)} are -1 (none) or 0..{most - 1}", wrong[0]))
        return tuple(listed)

    @property
    def ends(self) -> tuple[Dim, ...]:
        """The axis that they are positions on."""
        return (self.over,)

    @property
    def width(self) -> int:
        """One position."""
        return 1

    @property
    def constant(self) -> bool:
        """Whether they are part of the model."""
        return self.values is not None

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the axes."""
        yield from (("the axis", dim.origin) for dim in (*self.dims, self.over))

    @property
    def sized_axes(self) -> tuple[Dim, ...]:
        """The axes whose sizes are read from it."""
        return self.dims

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (with_origins(self.dims) if self.values is None else (self.values,)), {"over": self.over}

    def __getitem__(self, places: Any) -> Read:
        listed, mistakes = read_places(places, show(self)), list[Mistake]()
        if self.values is None:
            mistakes += place_mistakes(listed, self.dims, self)
        elif len(listed) != 1:
            mistakes.append(f"{show(self)}: a list of positions is read at one position, got {len(listed)}")
        else:
            mistakes += self._constant_mistakes(listed[0])
        return Read(self, listed, mistakes=tuple(mistakes))

    def _constant_mistakes(self, place: Any) -> Iterator[Mistake]:
        """Yield that a constant list is read by an index over an axis of another size."""
        axis, n = getattr(place, "axis", None), len(self.values or ())
        if axis is not None and axis.size != n:
            yield lambda: f"{self!r} has {n} positions: it is read by an index over a fixed axis of {n}, got {place!r}"

    def __iter__(self) -> NoReturn:
        refuse(f"{show(self)} cannot be iterated; {show(self)}[k] reads the position at k")

    def __contains__(self, other: object) -> NoReturn:
        refuse(f"`in` asks Python, not the model; write {show(self)}[k].is_(...)")


@dataclass(frozen=True, init=False, repr=False)
class At(Source, Number):
    """A source at positions: ``x[t - 1]``, or one of its columns, ``x[t, 3]``; rows of features, or numbers to compare.

    Rows at positions that do not exist are zeros.

    Parameters
    ----------
    source : Source
    places : tuple
        A position for each axis of the source.
    column : int, optional
        The only column that counts.
    """

    source: Source
    places: tuple[Any, ...]
    column: int | None

    def __init__(
        self, source: Source, places: tuple[Any, ...], column: int | None = None, mistakes: tuple[Mistake, ...] = ()
    ) -> None:
        self._fill(mistakes, dims=(), source=source, places=tuple(places), column=column)

    @property
    def is_truth(self) -> bool:  # type: ignore[override]
        """Whether it is one number, so that it may be a condition."""
        return self.width == 1

    @property
    def parts(self) -> tuple[Any, ...]:
        """The positions."""
        return self.places

    @property
    def sources(self) -> tuple[Source, ...]:
        """The source."""
        return (self.source,)

    @property
    def width(self) -> int | None:
        """Columns of the source, or one."""
        return self.source.width if self.column is None else 1

    @property
    def sparse(self) -> bool:
        """Whether the source is."""
        return self.source.sparse

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return source, positions and column."""
        return (self.source, self.places) + (() if self.column is None else (self.column,)), {}

    def __repr__(self) -> str:
        columns = [] if self.column is None else [str(self.column)]
        return f"{show(self.source)}[{', '.join([*map(show, self.places), *columns])}]"


def at_positions(source: Source, places: object) -> At:
    """Return a source at what stands in its square brackets."""
    listed, mistakes = read_places(places, show(source)), list[Mistake]()
    column = None
    if len(listed) == len(source.dims) + 1:
        *first, column = listed
        width = source.width
        if not isinstance(column, int) or (width is not None and not -width <= column < width):
            most = "" if width is None else f" from 0 to {width - 1}"
            mistakes.append(got(f"{show(source)}: after its positions, a column{most}", column))
            column = 0
        column, listed = column % width if width is not None else column, tuple(first)
    mistakes += place_mistakes(listed, source.dims, source)
    return At(source, listed, column, tuple(mistakes))


#: What an example holds.
ExampleInput = Input | Attributes | Edges | Positions | Dim
