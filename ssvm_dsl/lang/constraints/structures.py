"""Outputs that are one combinatorial structure, over labels of two states: matchings, paths, circuits.

Each is a constraint on the literals ``y.is_(1)``: the positions in class 1 form the structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.constraints.logic import (
    NO_BOUND,
    Constraint,
    EdgeEnd,
    Literal,
    Parameter,
    as_axes,
    as_literal,
    within,
)
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.inputs import Edges, Input
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.rules.formulas import speaks_of_positions
from ssvm_dsl.lang.rules.structures import RuleMatching, RuleRoute
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
        How often a row (column) may be matched at most, 1 by default; ``None`` for no limit.  ``Input(1)`` is a number
        that comes with each example, an input over the rows (columns), ``capacity = Input(J)``, one of each of them.
    along : Dim or sequence of Dim, optional
        A matching for each position of these axes; of the label's own other axes there always is.
    row_least, col_least : int or Input
        How often it is matched at least, 0 by default.
    where : condition, optional
        Of a literal at positions, ``Matching(y[f, i, j].is_(1), rows=i, cols=j)``, which pairs there are; there is one
        matching for each of the other indices.  Its limits may be inputs at positions: ``col_limit=capacity[f, j]``.

    Examples
    --------
    >>> one = Matching(y.is_(1), rows=I, cols=J)
    >>> fertile = Matching(y.is_(1), rows=I, cols=J, row_limit=3)
    >>> reviews = Matching(y.is_(1), rows=I, cols=J, row_limit=3, row_least=3, col_limit=capacity)
    >>> shifts = Matching(y[d, i, j].is_(1), rows=i, cols=j, row_limit=most[d], col_least=needed[d, j], col_limit=None)
    """

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a rule where the literal is at positions: one matching for each of the other indices."""
        if speaks_of_positions(*args[:1], *named.values()):
            return RuleMatching(*args, **named)
        return super().__new__(cls)

    def __init__(
        self,
        literal: Any,
        rows: Any,
        cols: Any,
        perfect: bool = False,
        row_limit: int | Input | None = 1,
        col_limit: int | Input | None = 1,
        along: Any = (),
        row_least: int | Input = 0,
        col_least: int | Input = 0,
        where: Any = None,
    ) -> None:
        mistakes: list[Mistake] = []
        if where is not None:
            mistakes.append("Matching: where= is for a literal at positions, as y[i, j].is_(1)")
        read = as_literal(literal, "Matching", mistakes)
        perfect = as_flag(perfect, "Matching: perfect", mistakes)
        sides = {"rows": rows, "cols": cols}
        for name, axis in sides.items():
            if not any(axis is dim for dim in read.label.dims) and not mistakes:
                mistakes.append(got(f"Matching: {name} must be an axis of the label", axis))
        if rows is cols:
            mistakes.append("Matching: rows and cols are different axes")
        axes, values = as_axes(along, "Matching", mistakes), {}
        own = [dim for dim in read.label.dims if dim is not rows and dim is not cols]
        axes = (*axes, *(dim for dim in own if not any(dim is axis for axis in axes)))
        for side, axis, most, least in (("row", rows, row_limit, row_least), ("col", cols, col_limit, col_least)):
            limit = _bound(most, f"{side}_limit", 1, (axis, *axes), mistakes)
            values[f"{side}_least"] = _bound(least, f"{side}_least", 0, (axis, *axes), mistakes)
            values[f"{side}_most"] = limit
            if perfect:
                if values[f"{side}_least"] != 0:
                    mistakes.append(f"Matching: perfect says how often rows and columns are matched, not {side}_least")
                if limit == NO_BOUND:
                    text = "Matching: perfect needs a limit of rows and of columns: as often is each of them matched"
                    mistakes += [text] if text not in mistakes else []
                values[f"{side}_least"] = limit
            low = values[f"{side}_least"]
            if isinstance(low, int) and isinstance(limit, int) and low > limit:
                mistakes.append(f"Matching: {side}_least is at most {side}_limit, got {low} and {limit}")
        if mistakes:
            rows = cols = Dim(1)
        sizes = (Parameter("n_rows", rows, whole=True), Parameter("n_cols", cols, whole=True))
        limits = tuple(Parameter(name, value, whole=True) for name, value in values.items())
        at = (Parameter("row", rows), Parameter("col", cols))
        # limits of each row or column are numbers of its literals
        each = any(isinstance(one, Input) and not within(one, axes) for one in values.values())
        kind, meta, of_literals = ("transport", sizes, at + limits) if each else ("matching", sizes + limits, at)
        self._declare(mistakes, kind, (read,), axes, meta, (of_literals,))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        value = {one.name: one.value for one in self.parameters}
        options: dict[str, Any] = {"rows": value["n_rows"], "cols": value["n_cols"]}
        least, most = ([value[f"{side}_{bound}"] for side in ("row", "col")] for bound in ("least", "most"))
        perfect = all(low == high for low, high in zip(least, most, strict=True))
        if perfect:
            options["perfect"] = True
        for side, low, high in zip(("row", "col"), least, most, strict=True):
            if high != 1:
                options[f"{side}_limit"] = None if high == NO_BOUND else high
            if low != 0 and not perfect:
                options[f"{side}_least"] = low
        return (self.written(),), options | self._along()


class _Route(Constraint):
    """A route along the edges of a graph that comes with each example."""

    def _route(self, kind: str, literal: Any, edges: Any, mistakes: list[Mistake], more: tuple[Parameter, ...]) -> None:
        what = type(self).__name__
        read = as_literal(literal, what, mistakes)
        if not isinstance(edges, Edges):
            text = f"{what}: the second argument must be a list of edges, such as e = Edges(M, over=N)"
            mistakes.append(got(text, edges))
        elif edges.several or edges.arity != 2:
            mistakes.append(got(f"{what}: the edges join two positions of one axis, as Edges(M, over=N)", edges))
        elif not mistakes and (len(read.label.dims) != 1 or read.label.dims[0] is not edges.dim):
            mistakes.append(
                lambda: f"{what}: the label has one variable for each edge, as Label({edges.dim.name}, 2) has"
            )
        if mistakes or not isinstance(edges, Edges):
            self._declare(mistakes, kind, (read,), (), more)
            return
        meta = (Parameter("n_nodes", edges.ends[0], whole=True), *more)
        ends = (Parameter("tail", EdgeEnd(edges, 0)), Parameter("head", EdgeEnd(edges, 1)))
        self._declare(mistakes, kind, (read,), (), meta, (ends,))

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

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a rule where the literal is at positions, ``Path(y[i, j].is_(1), tail=i, head=j, source=0, ...)``."""
        if speaks_of_positions(*args[:1], *named.values()):
            return _route_rule(cls, args, named)
        return super().__new__(cls)

    def __init__(
        self, literal: Any, edges: Any = None, source: Any = 0, target: Any = -1, tail: Any = None, head: Any = None,
        where: Any = None,
    ) -> None:  # fmt: skip
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

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a rule where the literal is at positions, ``Circuit(y[i, j].is_(1), tail=i, head=j)``."""
        if speaks_of_positions(*args[:1], *named.values()):
            return _route_rule(cls, args, named)
        return super().__new__(cls)

    def __init__(
        self, literal: Any, edges: Any = None, all_nodes: bool = False, tail: Any = None, head: Any = None,
        where: Any = None,
    ) -> None:  # fmt: skip
        mistakes: list[Mistake] = []
        flag = as_flag(all_nodes, "Circuit: all_nodes", mistakes)
        self._route("circuit", literal, edges, mistakes, (Parameter("all_nodes", flag),))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        every = any(one.name == "all_nodes" and one.value for one in self.meta)
        return (self.written(), self.edges), ({"all_nodes": True} if every else {})


def _route_rule(made: type, args: tuple[Any, ...], named: dict[str, Any]) -> RuleRoute:
    """Return the route that a call with a literal at positions means."""
    call = signature(made.__init__).bind(None, *args, **named).arguments  # type: ignore[misc]
    names = ("source", "target") if made.__name__ == "Path" else ("all_nodes",)
    usual = {"source": 0, "target": -1, "all_nodes": False}
    numbers = {name: call.get(name, usual[name]) for name in names}
    return RuleRoute(
        made.__name__, call.get("literal"), call.get("tail"), call.get("head"), numbers, call.get("where")
    )


def _bound(value: object, what: str, least: int, axes: tuple[Any, ...], mistakes: list[Mistake]) -> int | Input:
    """Return how often a row or column is matched at most, or at least: a number or an input over some axes."""
    value = plain(value)
    if value is None and least:
        return NO_BOUND
    if isinstance(value, Input):
        known = [dim for dim in axes if isinstance(dim, Dim)]
        if value.width != 1 or value.sparse or not within(value, tuple(known)):
            side = "rows" if what.startswith("row") else "columns"
            text = f"Matching: {what} is Input(1), or an input with one number for each of the {side}"
            mistakes.append(got(text, value))
        return value
    if isinstance(value, int) and not isinstance(value, bool) and least <= value < NO_BOUND:
        return value
    none = ", or None" if least else ""
    mistakes.append(got(f"Matching: {what} must be a whole number of at least {least}, an Input{none}", value))
    return least


def _node(value: object, what: str, mistakes: list[Mistake]) -> int | Input:
    """Return a node: a position, counted from the end where negative, or an input."""
    value = plain(value)
    if isinstance(value, Input) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < NO_BOUND):
        return value
    mistakes.append(got(f"Path: {what} is the number of a node (-1: the last one) or an Input(1)", value))
    return 0


# -- a structure that the user's own class knows, and finds --------------------------------------------------------

#: Kinds of constraints: of oracles that find something, and of those that say that it is the best.
CUSTOM, CUSTOM_EXACT = "custom", "custom-exact"

#: What the class of an oracle has (:class:`ssvm_dsl.plugin_api.StructureOracle`).
METHODS = ("feasible", "best")


@dataclass(frozen=True, init=False, repr=False)
class Custom(Constraint):
    """The labels of each example are a structure that the user's own class judges, and searches for the best of.

    Each labelling that it finds is checked: by its own ``feasible``, and its score is computed by the host.  That it is
    the best is believed of classes with ``exact = True`` alone, whose answers to small problems are compared with all
    labellings first; those of others come without bounds (``guarantee="heuristic"``), and fits without certificates.

    Parameters
    ----------
    y : Label
        A label with classes.  No factor joins its variables with each other or with others.
    oracle : class or str
        A :class:`~ssvm_dsl.plugin_api.StructureOracle`, or its import path ``"package.module:Class"``.  Files of models
        hold the path, and are read with ``trusted=`` only.
    **options : str, int, float or bool
        Passed to the class.

    Examples
    --------
    >>> top = Custom(y, oracle="mine.structures:Top", k=3)
    """

    ref: FunctionRef
    options: tuple[tuple[str, Any], ...]

    def __init__(self, y: Label, oracle: Any, **options: Any) -> None:
        mistakes: list[Mistake] = []
        if not isinstance(y, Label) or y.pointer or y.segments is not None:
            mistakes.append(got("Custom: the first argument must be a Label with classes", y))
            y = Label(1)
        ref = _reference(oracle, mistakes)
        lacking = [name for name in METHODS if not callable(getattr(ref.function, name, None))]
        if lacking and not mistakes:
            text = f"Custom: {ref.path} is no StructureOracle: it lacks {' and '.join(f'{name}()' for name in lacking)}"
            mistakes.append(text)
        given = {key: plain(value) for key, value in options.items()}
        for key, value in given.items():
            if not isinstance(value, str | int | float) or value != value:
                mistakes.append(got(f"Custom: the option {key} must be a string, a number or a truth value", value))
                given[key] = None
        classes = range(y.n_states) if y.classes is None else y.classes
        literals = tuple(Literal(y.is_(one)) for one in classes)
        sizes = tuple(Parameter(f"size_{k}", dim, whole=True) for k, dim in enumerate(y.dims))
        kind = CUSTOM_EXACT if getattr(ref.function, "exact", False) is True else CUSTOM
        self._declare(mistakes, kind, literals, (), sizes)
        object.__setattr__(self, "ref", ref)
        object.__setattr__(self, "options", tuple(sorted(given.items())))

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The class of the oracle."""
        return (self.ref,)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.labels[0],), {"oracle": self.ref} | dict(self.options)


def _reference(oracle: Any, mistakes: list[Mistake]) -> FunctionRef:
    """Return the reference of a class that is given itself, or by its import path."""
    if isinstance(oracle, FunctionRef):
        return oracle
    if isinstance(oracle, type):
        return FunctionRef.of(oracle)
    if not isinstance(oracle, str) or ":" not in oracle:
        mistakes.append(got("Custom: the oracle must be a class, or a path 'package.module:Class'", oracle))
        return FunctionRef("?:?")
    try:
        return FunctionRef(oracle).load(trusted=True)  # the user's own program says so
    except OptionError as err:
        mistakes.append(f"Custom: {err}")
        return FunctionRef(oracle)
