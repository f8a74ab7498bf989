"""Structures and sums over literals at positions: matchings, paths, circuits, linear bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.lang.dims import Condition, Dim, Index, as_condition, indices_of
from ssvm_dsl.lang.inputs import At, Input
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.patterns.join import symbols_of
from ssvm_dsl.lang.patterns.references import LiteralAt
from ssvm_dsl.lang.rules.formulas import Formula, as_formula, free_indices, inputs_read, labels_of, numbers_of
from ssvm_dsl.lang.symbols import Mistake, Symbol, got, plain, show


@dataclass(frozen=True, init=False, repr=False)
class RuleOfKind(Symbol):
    """A constraint of a kind over literals at positions.

    Parameters
    ----------
    kind : str
        ``"matching"``, ``"transport"`` (limits differ from row to row), ``"path"``, ``"circuit"`` or ``"linear"``.
    terms : tuple of (literal, coefficient)
        Coefficients of ``"linear"``, else 1.
    over : tuple of Index
        The indices over which there is one constraint: rows and columns, tail and head.
    condition : Condition, optional
    meta : tuple of (name, value)
        Numbers of the kind.
    call : tuple of (name, value)
        The options as they are written.
    """

    kind: str
    terms: tuple[tuple[Any, Any], ...]
    over: tuple[Index, ...]
    condition: Condition | None
    meta: tuple[tuple[str, Any], ...]
    call: tuple[Any, ...]

    def _declare(
        self, kind: str, terms: Any, over: Any, where: Any, meta: Mapping[str, Any], call: tuple[Any, ...],
        mistakes: list[Mistake],
    ) -> None:  # fmt: skip
        found = []
        for literal, number in terms:
            formula = as_formula(literal, call[0], mistakes)
            inner = formula.given[0] if isinstance(formula, Formula) and formula.op == "Not" else formula
            if formula is not None and not isinstance(inner, LiteralAt):
                mistakes.append(got(f"{call[0]}: a literal at positions", literal))
            elif formula is not None:
                found.append((formula, plain(number)))
        listed = tuple(over) if isinstance(over, tuple | list) else (() if over is None else (over,))
        for one in listed:
            inside = [index for literal, _ in found for index in free_indices(literal)]
            if not isinstance(one, Index) or not any(one is index for index in inside):
                mistakes.append(got(f"{call[0]}: an index of its literals", one))
        condition = None if where is None else as_condition(where)
        self._fill(
            mistakes, kind=kind, terms=tuple(found), over=tuple(one for one in listed if isinstance(one, Index)),
            condition=condition, meta=tuple(meta.items()), call=call,
        )  # fmt: skip

    @property
    def formula(self) -> Formula:
        """Its literals and conditions as a formula, for what it reads."""
        return Formula("AllOf", [literal for literal, _ in self.terms], where=self.condition)

    @property
    def free(self) -> tuple[Index, ...]:
        """The indices that there is a constraint for each assignment of."""
        inside = [index for literal, _ in self.terms for index in free_indices(literal)]
        every = indices_of(*inside, self.condition)
        return tuple(one for one in every if not any(one is other for other in self.over))

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The coefficients and bounds that come with the data."""
        values = (*(number for _, number in self.terms), *(value for _, value in self.meta))
        return tuple(one for one in values if isinstance(one, At))

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels whose variables it is about."""
        return labels_of(self.formula)

    @property
    def laid_labels(self) -> tuple[Label, ...]:
        """The same."""
        return self.labels

    @property
    def about(self) -> tuple[Label, ...]:
        """The same."""
        return self.labels

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs that it reads."""
        return tuple({id(one): one for one in self._read()}.values())

    def _read(self) -> Iterator[Any]:
        yield from inputs_read(self.formula)
        yield from (number.source for number in self.numbers)

    @property
    def all_axes(self) -> tuple[Dim, ...]:
        """Axes whose sizes decide what there is."""
        axes = [index.dim.origin for index in indices_of(*numbers_of(self.formula), *self.numbers)]
        axes += [dim for label in self.labels for dim in (*label.dims, *(dim.origin for dim in label.dims))]
        return tuple({id(dim): dim for dim in axes}.values())

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its labels, inputs and indices."""
        yield from self.formula.references()
        for number in self.numbers:
            yield from symbols_of(number)

    @property
    def constructor(self) -> str:
        """The public class."""
        name: str = self.call[0]
        return name

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        args, options = self.call[1], dict(self.call[2])
        return args, options

    def __repr__(self) -> str:
        args, options = self.arguments()
        shown = [show(one) for one in args]
        if self.kind == "linear":
            shown[0] = "{" + ", ".join(f"{show(one)}: {show(number)}" for one, number in self.terms) + "}"
        return f"{self.constructor}({', '.join(shown + [f'{key}={show(value)}' for key, value in options.items()])})"


class RuleMatching(RuleOfKind):
    """``Matching(y[f, i, j].is_(1), rows=i, cols=j)``: one for each f."""

    def __init__(
        self, literal: Any, rows: Any, cols: Any, perfect: bool = False, row_limit: Any = 1, col_limit: Any = 1,
        row_least: Any = 0, col_least: Any = 0, where: Any = None, most: int = 2**31 - 1,
    ) -> None:  # fmt: skip
        mistakes: list[Mistake] = []
        values = {}
        for side, limit, least in (("row", row_limit, row_least), ("col", col_limit, col_least)):
            limit = _as_limit(limit, f"{side}_limit", mistakes)
            least = _as_limit(least, f"{side}_least", mistakes)
            if perfect and limit is None:
                mistakes.append("Matching: perfect needs a limit of rows and of columns")
            values[f"{side}_least"] = limit if perfect else least
            values[f"{side}_most"] = most if limit is None else limit
        sides = {"row": cols, "col": rows}  # a limit of rows has no index of columns
        for name, value in values.items():
            if any(one is sides[name[:3]] for one in indices_of(value)):
                text = "Matching: limits of rows have no index of columns, and the other way round"
                mistakes.append(got(text, value))
        each = any(one is rows or one is cols for one in indices_of(*values.values()))
        options = {"rows": rows, "cols": cols}
        written = {"perfect": (perfect, False), "row_limit": (row_limit, 1), "col_limit": (col_limit, 1),
                   "row_least": (row_least, 0), "col_least": (col_least, 0), "where": (where, None)}  # fmt: skip
        options |= {key: value for key, (value, usual) in written.items() if value is not usual}
        if isinstance(rows, Index) and rows is cols:
            mistakes.append("Matching: rows and cols are different indices")
        call = "Matching", (literal,), tuple(options.items())
        self._declare("transport" if each else "matching", [(literal, 1)], (rows, cols), where, values, call, mistakes)
        strange = [one for one in indices_of(*self.numbers) if not any(one is own for own in (*self.free, *self.over))]
        if strange and not self.mistakes:
            wrong = got("Matching: limits have indices of the literal", strange[0])
            object.__setattr__(self, "mistakes", (*self.mistakes, wrong))


def _as_limit(value: Any, what: str, mistakes: list[Mistake]) -> Any:
    """Return how often a row or column is matched: a number, an input at positions, or ``None`` for no limit."""
    value = plain(value)
    if isinstance(value, Input) and not value.dims and value.width == 1:
        value = At(value, ())
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    if isinstance(value, At) and value.width == 1:
        mistakes += value.mistakes
        return value
    mistakes.append(got(f"Matching: {what} at positions is a whole number, or an input at positions", value))
    return 1


class RuleRoute(RuleOfKind):
    """``Path(y[i, j].is_(1), tail=i, head=j, source=0, target=-1)``, ``Circuit`` alike; the diagonal is false."""

    def __init__(self, kind: str, literal: Any, tail: Any, head: Any, numbers: Mapping[str, Any], where: Any) -> None:
        mistakes: list[Mistake] = []
        for name, value in numbers.items():
            if not isinstance(plain(value), int):
                mistakes.append(got(f"{kind}: {name} at positions is a node, an int", value))
        alike = isinstance(tail, Index) and isinstance(head, Index) and tail.dim.origin is head.dim.origin
        if not alike or tail is head:
            mistakes.append(got(f"{kind}: tail and head are two indices over one axis", (tail, head)))
        options = {"tail": tail, "head": head} | dict(numbers) | ({} if where is None else {"where": where})
        call = kind, (literal,), tuple((key, value) for key, value in options.items() if value is not False)
        self._declare(kind.lower(), [(literal, 1)], (tail, head), where, numbers, call, mistakes)


class RuleLinear(RuleOfKind):
    """``Linear({y[i].is_(1): cost[i]}, "<=", capacity, over=i)``."""

    def __init__(self, terms: Any, comparison: Any, bound: Any, over: Any = (), where: Any = None) -> None:
        mistakes: list[Mistake] = []
        pairs = list(terms.items()) if isinstance(terms, Mapping) else list(terms)
        bound = given = plain(bound)
        if isinstance(bound, Symbol) and getattr(bound, "width", 0) == 1 and not getattr(bound, "dims", ()):
            bound = At(bound, ())  # type: ignore[arg-type]
        for number in (bound, *(number for _, number in pairs)):
            if not isinstance(plain(number), int | float | At) or isinstance(number, bool):
                mistakes.append(got("Linear: coefficients and bounds are numbers, or inputs at positions", number))
        if not (isinstance(comparison, str) and comparison in ("<=", ">=", "==")):
            mistakes.append(got("Linear: the comparison must be one of <=, >=, ==", comparison))
        meta = {"lower": None if comparison == "<=" else bound, "upper": None if comparison == ">=" else bound}
        options = {"over": over, "where": where}
        written = tuple((key, one) for key, one in options.items() if one is not None and one != ())
        call = "Linear", (tuple((literal, plain(number)) for literal, number in pairs), comparison, given), written
        self._declare("linear", pairs, over, where, meta, call, mistakes)
