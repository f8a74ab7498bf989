"""Inputs of an example: dense and sparse arrays, CRFsuite-style attributes, and edge lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import Dim, check_axes, with_origins
from ssvm_dsl.lang.symbols import Mistake, ModelView, Symbol, as_flag, got, plain

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


def unpaired_axes(source: Source, model: ModelView) -> Iterator[str]:
    """Yield the mistake of a source that uses an axis twice where no pointers are between its positions."""
    paired, kind = [dim for dim in source.dims if dim.origin is not dim], type(source).__name__
    if paired and not any((id(dim.origin), id(dim)) in model.pointer_axes for dim in paired):
        yield f"{kind}: the same Dim is used twice; make a second Dim(), or a pointer label: Label(T, over=T)"


@dataclass(frozen=True, init=False, repr=False)
class ExampleSource(Source):
    """A source that comes with each example, and is part of a model by its name."""

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

    def clashes(self, model: ModelView) -> Iterator[str]:
        """Yield an axis that is used twice where no pointers are between its positions."""
        yield from unpaired_axes(self, model)


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

    @property
    def over(self) -> Dim | tuple[Dim, ...]:
        """The axis of all ends, or that of each."""
        return self.ends if self.several else self.ends[0]

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        more = {"arity": self.arity} if self.arity != 2 and not self.several else {}
        return (self.dim,), {"over": self.over} | more


#: What an example holds.
ExampleInput = Input | Attributes | Edges
