"""Outputs that are one combinatorial structure, over labels of two states: matchings, paths, circuits.

Each is a constraint on the literals ``y.is_(1)``: the positions in class 1 form the structure.
"""

from __future__ import annotations

from typing import Any

from ssvm_dsl.lang.constraints.logic import NO_BOUND, Constraint, as_axes, as_literal
from ssvm_dsl.lang.constraints.quantities import EdgeEnd, Parameter
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.inputs import Edges, Input
from ssvm_dsl.lang.symbols import Mistake, as_flag, got, plain


class Matching(Constraint):
    """Positions of a label over two axes match rows with columns: at most one in each row, and in each column.

    Parameters
    ----------
    literal : literal
        ``y.is_(1)``: where it is true, its row is matched with its column.
    rows, cols : Dim
        Two axes of the label.
    perfect : bool
        Every row and every column is matched as often as its limit.
    row_limit, col_limit : int or Input
        How often a row (column) may be matched, 1 by default; ``None`` for no limit.
    along : Dim or sequence of Dim, optional
        A matching for each position of these axes.

    Examples
    --------
    >>> one = Matching(y.is_(1), rows=I, cols=J)
    >>> fertile = Matching(y.is_(1), rows=I, cols=J, row_limit=3)
    """

    def __init__(
        self,
        literal: Any,
        rows: Dim,
        cols: Dim,
        perfect: bool = False,
        row_limit: int | Input | None = 1,
        col_limit: int | Input | None = 1,
        along: Any = (),
    ) -> None:
        mistakes: list[Mistake] = []
        found = as_literal(literal, "Matching", mistakes)
        perfect = as_flag(perfect, "Matching: perfect", mistakes)
        sides = {"rows": rows, "cols": cols}
        for name, axis in sides.items():
            if not any(axis is dim for dim in found.label.dims) and not mistakes:
                mistakes.append(got(f"Matching: {name} must be an axis of the label", axis))
        if rows is cols:
            mistakes.append("Matching: rows and cols are different axes")
        limits = [_limit(value, name, mistakes) for name, value in (("row", row_limit), ("col", col_limit))]
        if perfect and NO_BOUND in limits:
            mistakes.append("Matching: perfect needs a limit of rows and of columns: as often is each of them matched")
        if mistakes:
            rows = cols = Dim(1)
        meta = [Parameter("n_rows", rows, whole=True), Parameter("n_cols", cols, whole=True)]
        for name, limit in zip(("row", "col"), limits, strict=True):
            meta.append(Parameter(f"{name}_least", limit if perfect else 0, whole=True))
            meta.append(Parameter(f"{name}_most", limit, whole=True))
        at = (Parameter("row", rows), Parameter("col", cols))
        self._declare(mistakes, "matching", (found,), as_axes(along, "Matching", mistakes), tuple(meta), (at,))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        value = {one.name: one.value for one in self.meta}
        options: dict[str, Any] = {"rows": value["n_rows"], "cols": value["n_cols"]}
        if value["row_least"] != 0:
            options["perfect"] = True
        for name in ("row", "col"):
            if value[f"{name}_most"] != 1:
                limit = value[f"{name}_most"]
                options[f"{name}_limit"] = None if limit == NO_BOUND else limit
        return (self.written(),), options | self._along()


class _Route(Constraint):
    """A route along the edges of a graph that comes with each example."""

    def _route(self, kind: str, literal: Any, edges: Any, mistakes: list[Mistake], more: tuple[Parameter, ...]) -> None:
        what = type(self).__name__
        found = as_literal(literal, what, mistakes)
        if not isinstance(edges, Edges):
            text = f"{what}: the second argument must be a list of edges, such as e = Edges(M, over=N)"
            mistakes.append(got(text, edges))
        elif edges.several or edges.arity != 2:
            mistakes.append(got(f"{what}: the edges join two positions of one axis, as Edges(M, over=N)", edges))
        elif not mistakes and (len(found.label.dims) != 1 or found.label.dims[0] is not edges.dim):
            mistakes.append(
                lambda: f"{what}: the label has one variable for each edge, as Label({edges.dim.name}, 2) has"
            )
        if mistakes or not isinstance(edges, Edges):
            self._declare(mistakes, kind, (found,), (), more)
            return
        meta = (Parameter("n_nodes", edges.ends[0], whole=True), *more)
        ends = (Parameter("tail", EdgeEnd(edges, 0)), Parameter("head", EdgeEnd(edges, 1)))
        self._declare(mistakes, kind, (found,), (), meta, (ends,))

    @property
    def edges(self) -> Edges:
        """The edges."""
        ends = [one.value for one in self.literal_meta[0]] if self.literal_meta else []
        if not ends:  # a mistake was noted
            return Edges(Dim(), over=Dim())
        assert isinstance(ends[0], EdgeEnd)
        return ends[0].edges


class Path(_Route):
    """The edges in class 1 form one path from source to target that meets no node twice.

    Parameters
    ----------
    literal : literal
        ``y.is_(1)`` of a label over the edges: ``y = Label(M, 2)``.
    edges : Edges
        ``e = Edges(M, over=N)``; an edge (a, b) leads from a to b.
    source, target : int or Input
        Nodes: a number, -1 for the last one, or an ``Input(1)`` that comes with each example.

    Examples
    --------
    >>> route = Path(y.is_(1), e, source=0, target=-1)
    """

    def __init__(self, literal: Any, edges: Edges, source: int | Input, target: int | Input) -> None:
        mistakes: list[Mistake] = []
        ends = {"source": _node(source, "source", mistakes), "target": _node(target, "target", mistakes)}
        over = edges.ends[0] if isinstance(edges, Edges) and edges.ends else None
        more = tuple(Parameter(name, value, whole=True, below=over) for name, value in ends.items())
        self._route("path", literal, edges, mistakes, more)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        value = {one.name: one.value for one in self.meta}
        return (self.written(), self.edges), {"source": value["source"], "target": value["target"]}


class Circuit(_Route):
    """The edges in class 1 form one directed circuit, of two nodes or more, that meets no node twice.

    Parameters
    ----------
    literal : literal
        ``y.is_(1)`` of a label over the edges: ``y = Label(M, 2)``.
    edges : Edges
        ``e = Edges(M, over=N)``; an edge (a, b) leads from a to b.
    all_nodes : bool
        The circuit meets every node (a tour).

    Examples
    --------
    >>> tour = Circuit(y.is_(1), e, all_nodes=True)
    """

    def __init__(self, literal: Any, edges: Edges, all_nodes: bool = False) -> None:
        mistakes: list[Mistake] = []
        flag = as_flag(all_nodes, "Circuit: all_nodes", mistakes)
        self._route("circuit", literal, edges, mistakes, (Parameter("all_nodes", flag),))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        every = any(one.name == "all_nodes" and one.value for one in self.meta)
        return (self.written(), self.edges), ({"all_nodes": True} if every else {})


def _limit(value: object, side: str, mistakes: list[Mistake]) -> int | Input:
    """Return how often a row or column may be matched."""
    value = plain(value)
    if value is None:
        return NO_BOUND
    if isinstance(value, Input) or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value < NO_BOUND):
        return value
    mistakes.append(got(f"Matching: {side}_limit must be a whole number of at least 1, an Input(1), or None", value))
    return 1


def _node(value: object, what: str, mistakes: list[Mistake]) -> int | Input:
    """Return a node: a position, counted from the end where negative, or an input."""
    value = plain(value)
    if isinstance(value, Input) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < NO_BOUND):
        return value
    mistakes.append(got(f"Path: {what} is the number of a node (-1: the last one) or an Input(1)", value))
    return 0
