"""Hard constraints, which every labelling satisfies, independently of the weights.

A constraint is about literals, "this variable has class s" (``y.is_(s)``) or has not (``Not(y.is_(s))``).  The literals
of a label with axes are those of all its positions; with ``along=T`` there is a constraint for each position of T, and
literals without that axis stand in every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, ClassVar

from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import Condition, Dim, Number, check_axes, opposite
from ssvm_dsl.lang.inputs import At, Edges, Input
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.patterns.references import LiteralAt
from ssvm_dsl.lang.rules.formulas import OF_WHOLE_LABELS, Formula, formula_of_call, speaks_of_positions
from ssvm_dsl.lang.rules.structures import RuleLinear
from ssvm_dsl.lang.symbols import Mistake, Node, Symbol, compared, got, plain, show

# -- numbers of constraints and literals that follow from positions, sizes and edges of an example -----------------


@dataclass(frozen=True)
class EdgeEnd:
    """The position that an edge starts from, or leads to, for literals at each edge.

    Parameters
    ----------
    edges : Edges
    end : int
        0 for the start, 1 for the other end.
    """

    edges: Edges
    end: int


@dataclass(frozen=True)
class Sum:
    """The sum of a literal's positions on some axes, of the sizes of others, and a number.

    Parameters
    ----------
    positions : tuple of Dim
        None of them for numbers of constraints.
    sizes : tuple of Dim
    plus : int
    """

    positions: tuple[Dim, ...] = ()
    sizes: tuple[Dim, ...] = ()
    plus: int = 0

    @property
    def dims(self) -> tuple[Dim, ...]:
        """All axes."""
        return (*self.positions, *self.sizes)


#: A number of a constraint: fixed, of each example (an input), or a size or position (Dim, the end of an edge, a sum).
Value = float | Input | Dim | EdgeEnd | Sum


@dataclass(frozen=True)
class Parameter:
    """A number that a kind of constraint needs.

    Parameters
    ----------
    name : str
        Its name in ``ConstraintGroup.meta``, or ``literal_meta``.
    value : number, Input or Dim
        Of a constraint: the same everywhere, or from an input whose axes are among ``along``, or the size of an axis.
        Of a literal: the same for all, or from an input whose axes are its label's, or its position on an axis.
    whole : bool
        Whether it is a whole number.
    below : Dim, optional
        It is a position on this axis, counted from its end where it is a negative number.
    """

    name: str
    value: Value
    whole: bool = False
    below: Dim | None = None


#: A bound that no count of literals reaches.
NO_BOUND = MOST

#: The comparisons of ``Linear``.
COMPARISONS = ("<=", ">=", "==")


@dataclass(frozen=True, init=False, repr=False)
class Not(Node):
    """The opposite of a literal: "this variable has another class"; of a formula, and of a condition.

    Parameters
    ----------
    literal : literal, formula or condition
        Such as ``y.is_(1)``, ``y[t].is_(1)``, ``friend[i, j]``.
    where : condition, optional
    outside : bool
        Of formulas at positions, as of :class:`AnyOf`.
    """

    target: Target
    made_from: ClassVar = ("target",)

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a formula of one at positions, a condition of one, and of a literal of whole labels its opposite."""
        value = args[0] if args else next(iter(named.values()), None)
        whole = isinstance(value, Node) and value.constructor in OF_WHOLE_LABELS and not isinstance(value, Not)
        if isinstance(value, LiteralAt | Formula) or whole or named.keys() & {"where", "outside"}:
            return Formula("Not", (value,), where=named.get("where"), outside=named.get("outside", True))
        if isinstance(value, Not) and not named:
            return value.target
        if isinstance(value, Condition | Number):
            return opposite(value)
        return super().__new__(cls)

    def __init__(self, literal: Any, where: Any = None, outside: bool = True) -> None:
        mistakes: list[Mistake] = []
        target = as_literal(literal, "Not", mistakes).target
        if where is not None or outside is not True:
            mistakes.append("Not: where= and outside= are for formulas at positions, as Not(y[t].is_(1))")
        self._fill(mistakes, target=target)


@dataclass(frozen=True)
class Literal:
    """The subject of a constraint: a class of a label, or its opposite, at every position of the label."""

    target: Target
    negated: bool = False

    @property
    def label(self) -> Label:
        """The label."""
        return self.target.label

    def written(self) -> Target | Not:
        """Return the constraint as the user wrote it."""
        return Not(self.target) if self.negated else self.target


@dataclass(frozen=True, init=False, repr=False)
class Constraint(Symbol):
    """A hard constraint of any registered kind (``ssvm plugins list``).

    Parameters
    ----------
    kind : str
        Name of the kind.
    literals : literal or sequence of literals
        ``y.is_(1)``, ``Not(y.is_(1))`` or a list of them; a kind gets them in the order they are written, positions in
        C order.
    along : Dim or sequence of Dim, optional
        One constraint for each position of these axes; a single one otherwise.
    **parameters : number, bool, Input or Dim
        Data of the kind.  A number applies to each constraint, and so does an ``Input(1)``, which comes with each
        example, or an input whose axes are among ``along``; one with other axes of the label is for each literal.  A
        ``Dim`` gives each literal its position on that axis.

    Examples
    --------
    >>> calm = Constraint("few-runs", y.is_(1), runs=1)
    """

    kind: str
    literals: tuple[Literal, ...]
    along: tuple[Dim, ...]
    meta: tuple[Parameter, ...]
    literal_meta: tuple[tuple[Parameter, ...], ...]

    def __init__(self, kind: str, literals: Any, along: Any = (), **parameters: Any) -> None:
        mistakes: list[Mistake] = []
        if not isinstance(kind, str) or not kind:
            mistakes.append(got("Constraint: the first argument is the name of a kind of constraints", kind))
            kind = "?"
        read = as_literals(literals, "Constraint", mistakes)
        axes = as_axes(along, "Constraint", mistakes)
        meta: list[Parameter] = []
        of_literals: list[Parameter] = []
        for name, value in parameters.items():
            parameter = _as_parameter(name, value, mistakes)
            each = isinstance(value, Dim) or (isinstance(value, Input) and not within(value, axes))
            (of_literals if each else meta).append(parameter)
        self._declare(mistakes, kind, read, axes, tuple(meta), (tuple(of_literals),) * len(read))

    def _declare(
        self,
        mistakes: list[Mistake],
        kind: str,
        literals: tuple[Literal, ...],
        along: tuple[Dim, ...],
        meta: tuple[Parameter, ...],
        literal_meta: tuple[tuple[Parameter, ...], ...] = (),
    ) -> None:
        """Fill in the fields; note mistakes in the combination of literals and axes."""
        if not mistakes:
            mistakes += _axis_mistakes(literals, along)
        if not mistakes:
            mistakes += _input_mistakes(literals, along, meta, literal_meta)
        of_literals = literal_meta or ((),) * len(literals)
        self._fill(mistakes, kind=kind, literals=literals, along=along, meta=meta, literal_meta=of_literals)

    @property
    def judged_label(self) -> Label | None:
        """The label that brings the rules which judge whole labellings; ``None`` where literals decide."""
        return None

    def in_names(self, said: str) -> str:
        """Return what its kind says, which knows states by number, in the names of classes."""
        return said

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        parameters = (*self.meta, *(self.literal_meta[0] if self.literal_meta else ()))
        options = {one.name: one.value for one in parameters}
        return (self.kind, self.written()), self._along() | options

    def written(self) -> Any:
        """Return the text of the literals: one, or a list of several."""
        listed = [literal.written() for literal in self.literals]
        return listed[0] if len(listed) == 1 else listed

    def _along(self) -> dict[str, Any]:
        if not self.along:
            return {}
        return {"along": self.along[0] if len(self.along) == 1 else self.along}

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels whose variables the constraint involves."""
        return tuple({id(one.label): one.label for one in self.literals}.values())

    @property
    def about(self) -> tuple[Label, ...]:
        """Labels whose variables the constraint involves."""
        return self.labels

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets of its literals."""
        return tuple(literal.target for literal in self.literals)

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its labels, inputs, axes and edge lists."""
        yield from (("the label", label.declared) for label in self.labels)
        yield from (("the input", given) for given in self.inputs)
        yield from (("the axis", dim.origin) for dim in self.axes)
        yield from (("the edge list", edges) for edges in self.edge_lists)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All numbers it needs, those of literals once for each."""
        return (*self.meta, *(one for of_literal in self.literal_meta for one in of_literal))

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that come with each example."""
        return tuple(one.value for one in self.parameters if isinstance(one.value, Input))

    @property
    def counts(self) -> tuple[Input, ...]:
        """The inputs that are numbers of literals."""
        whole = (one for one in self.parameters if one.whole and one.below is None)
        return tuple(one.value for one in whole if isinstance(one.value, Input))

    @property
    def nodes(self) -> tuple[tuple[Input, Dim], ...]:
        """The inputs that are positions on an axis, with the axis."""
        placed = ((one.value, one.below) for one in self.parameters)
        return tuple((value, below) for value, below in placed if isinstance(value, Input) and below is not None)

    @property
    def edge_lists(self) -> tuple[Edges, ...]:
        """The edges that its literals are at."""
        ends = (one.value for one in self.parameters if isinstance(one.value, EdgeEnd))
        return tuple({id(end.edges): end.edges for end in ends}.values())

    @property
    def axes(self) -> tuple[Dim, ...]:
        """All axes it names."""
        sums = (dim for one in self.parameters if isinstance(one.value, Sum) for dim in one.value.dims)
        return (*self.along, *(one.value for one in self.parameters if isinstance(one.value, Dim)), *sums)

    def count(self, sizes: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return (constraints, literals) of an example, for axis sizes by name (ints, or arrays over examples)."""
        n = prod((sizes[dim.name] for dim in self.along), start=1)
        each = [
            prod((sizes[dim.name] for dim in one.label.dims if not any(dim is axis for axis in self.along)), start=1)
            for one in self.literals
        ]
        return n, n * sum(each)


class _Count(Constraint):
    """Bounds on how many literals are true: ``sides`` says whether from below, and from above."""

    sides: ClassVar[tuple[bool, bool]] = False, True

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a formula where some literal is at positions; else a constraint on whole labels."""
        formula = formula_of_call(cls, args, named)
        return super().__new__(cls) if formula is None else formula

    def _bound(self, k: Any, literals: tuple[Any, ...], along: Any, lower: bool, upper: bool) -> None:
        """Declare ``lower <= count`` (where asked for) and ``count <= upper``, both k."""
        what, mistakes = type(self).__name__, list[Mistake]()
        read = as_literals(literals[0] if len(literals) == 1 else literals, what, mistakes)
        value = _as_count(k, what, mistakes)
        axes = as_axes(along, what, mistakes)
        if lower and not mistakes and isinstance(value, int):
            mistakes += _too_many(what, value, read, axes)
        low = Parameter("lower", value if lower else 0, whole=True)
        high = Parameter("upper", value if upper else NO_BOUND, whole=True)
        self._declare(mistakes, "count", read, axes, (low, high))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        lower, upper = (one.value for one in self.meta)
        return (lower if upper == NO_BOUND else upper, self.written()), self._along()


class AtMost(_Count):
    """At most k of the literals are true.

    Parameters
    ----------
    k : int or Input
        A number, or ``Input(1)``: a number that comes with each example (an input over axes of ``along``: with each
        constraint).
    literals : literal or sequence of literals
        Such as ``y.is_(1)``: "y has class 1", at every position of y.
    along : Dim or sequence of Dim, optional
        One constraint for each position of these axes.
    over : Index or tuple of Index, optional
        Of literals at positions: those at the positions of these indices count, for each assignment of the others.
    where : condition, optional
        Of literals at positions: conditions (joined by ``&``) without an index of ``over=`` choose instances, others
        choose what is counted.
    outside : bool
        Whether an instance is left out where a position does not exist; with False such literals are false.

    Examples
    --------
    >>> budget = AtMost(3, y.is_(1))
    >>> one_king = AtMost(1, board.is_("K"), along=row)
    >>> degree = AtMost(cap[i], y[i, j].is_(1), over=j)              # y = Label(I, J, 2), cap = Input(I)
    """

    def __init__(
        self, k: int | Input | At, literals: Any, along: Any = (), over: Any = (), where: Any = None,
        outside: bool = True,
    ) -> None:  # fmt: skip
        self._bound(k, (literals,), along, *self.sides)


class AtLeast(AtMost):
    """At least k of the literals are true; the arguments are those of :class:`AtMost`."""

    sides = True, False


class Exactly(AtMost):
    """Exactly k of the literals are true; the arguments are those of :class:`AtMost`."""

    sides = True, True


class ExactlyOne(_Count):
    """Exactly one of the literals is true.

    Parameters
    ----------
    literals : literal or sequence of literals
    along : Dim or sequence of Dim, optional
        One constraint for each position of these axes.
    over, where, outside
        Of literals at positions, as of :class:`AtMost`.
    """

    def __init__(self, literals: Any, along: Any = (), over: Any = (), where: Any = None, outside: bool = True) -> None:
        self._bound(1, (literals,), along, lower=True, upper=True)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.written(),), self._along()


class AnyOf(_Count):
    """At least one of the literals is true.

    Parameters
    ----------
    *literals : literal
        Of whole labels, or at positions; of those also formulas.
    along : Dim or sequence of Dim, optional
        One constraint for each position of these axes.
    over, where, outside
        Of literals at positions, as of :class:`AtMost`.

    Examples
    --------
    >>> covered = AnyOf(y.is_("on"), z.is_("on"), along=T)
    """

    def __init__(
        self, *literals: Any, along: Any = (), over: Any = (), where: Any = None, outside: bool = True
    ) -> None:
        self._bound(1, literals, along, lower=True, upper=False)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return tuple(one.written() for one in self.literals), self._along()


class Implies(_Count):
    """Where the first literal is true, so is the second, at each position of the axes of both.

    Positions agree on shared axes of the labels; the rule holds for all combinations of the other axes.

    Parameters
    ----------
    condition, consequence : literal
        Of whole labels; or at positions, also formulas.
    where, outside
        Of literals at positions, as of :class:`AtMost`.

    Examples
    --------
    >>> tree = Implies(child.is_(1), parent.is_(1))
    >>> up = Implies(y[k].is_(1), y[parent[k]].is_(1))
    """

    def __init__(self, condition: Any, consequence: Any, where: Any = None, outside: bool = True) -> None:
        mistakes: list[Mistake] = []
        if_true = as_literal(condition, "Implies", mistakes)
        then = as_literal(consequence, "Implies", mistakes)
        axes = tuple({id(dim): dim for one in (if_true, then) for dim in one.label.dims}.values())
        bounds = (Parameter("lower", 1, whole=True), Parameter("upper", NO_BOUND, whole=True))
        literals = (Literal(if_true.target, not if_true.negated), then)
        self._declare(mistakes, "count", literals, axes, bounds)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        first, second = self.literals
        return (Literal(first.target, not first.negated).written(), second.written()), {}


class Linear(Constraint):
    """A bound on a weighted sum of literals.

    Parameters
    ----------
    terms : mapping of literal to number or Input, or sequence of (literal, number or Input)
        The weight of each true literal; an input over axes of the label gives every position its own number.
    comparison : {"<=", ">=", "=="}
    bound : number or Input
        A number, or ``Input(1)``: one that comes with each example.
    along : Dim or sequence of Dim, optional
        One constraint for each position of these axes.
    over : Index or tuple of Index, optional
        Of literals at positions: each term is summed over those of these indices that it has; one constraint for each
        assignment of the others.
    where : condition, optional
        Of literals at positions, as of :class:`AtMost`.

    Examples
    --------
    >>> knapsack = Linear({y.is_(1): cost}, "<=", 10.0)
    >>> budget = Linear({y[i].is_(1): cost[i]}, "<=", capacity, over=i)
    >>> balance = Linear({a.is_(1): 2.0, b.is_(1): -1.0}, "<=", 3, along=T)
    """

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a rule where some literal is at positions, or there is ``over=``."""
        terms = args[0] if args else named.get("terms")
        listed = list(terms.items()) if isinstance(terms, Mapping) else terms
        pairs = [one for one in listed if isinstance(one, tuple | list)] if isinstance(listed, list | tuple) else []
        if speaks_of_positions(*(one[0] for one in pairs if one)) or named.keys() & {"over", "where"}:
            return RuleLinear(*args, **named)
        return super().__new__(cls)

    def __init__(
        self, terms: Any, comparison: str, bound: Any, along: Any = (), over: Any = (), where: Any = None
    ) -> None:
        mistakes: list[Mistake] = []
        pairs = _as_terms(terms, mistakes)
        literals = tuple(as_literal(one, "Linear", mistakes) for one, _ in pairs)
        numbers = [_as_parameter("coefficient", value, mistakes).value for _, value in pairs]
        weights = tuple((Parameter("coefficient", value),) for value in numbers)
        if not (isinstance(comparison, str) and comparison in COMPARISONS):
            mistakes.append(got(f"Linear: the comparison must be one of {', '.join(COMPARISONS)}", comparison))
            comparison = "<="
        limit = _as_parameter("bound", bound, mistakes).value
        axes = as_axes(along, "Linear", mistakes)
        low = Parameter("lower", -float("inf") if comparison == "<=" else limit)
        high = Parameter("upper", float("inf") if comparison == ">=" else limit)
        self._declare(mistakes, "linear", literals, axes, (low, high), weights)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        pairs = zip(self.literals, self.literal_meta, strict=True)
        terms = tuple((literal.written(), coefficient.value) for literal, (coefficient,) in pairs)
        lower, upper = (one.value for one in self.meta)
        comparison = "<=" if lower == -float("inf") else ">=" if upper == float("inf") else "=="
        return (terms, comparison, upper if comparison == "<=" else lower), self._along()

    def __repr__(self) -> str:
        (terms, *others), options = self.arguments()
        shown = ", ".join(f"{show(literal)}: {show(coefficient)}" for literal, coefficient in terms)
        rest = [show(one) for one in others] + [f"{key}={show(value)}" for key, value in options.items()]
        return f"Linear({{{shown}}}, {', '.join(rest)})"


def as_literal(value: object, what: str, mistakes: list[Mistake]) -> Literal:
    """Return a literal; note anything else as a mistake."""
    if isinstance(value, Not):
        mistakes += value.mistakes
        return Literal(value.target, negated=True)
    if isinstance(value, Target) and value.kind == "indicator":
        mistakes += value.mistakes
        return Literal(value)
    if isinstance(value, Target) and value.mistakes:
        mistakes += value.mistakes
        return Literal(Target("indicator", (Label(1),), state=0))
    mistakes.append(got(f"{what}: a literal says which class a variable has, as y.is_(1) does", value, compared(value)))
    return Literal(Target("indicator", (Label(1),), state=0))


def as_literals(value: object, what: str, mistakes: list[Mistake]) -> tuple[Literal, ...]:
    """Return one literal, or several, as a tuple."""
    listed = value if isinstance(value, tuple | list) else (value,)
    if not listed:
        mistakes.append(f"{what}: at least one literal is needed, such as y.is_(1)")
    return tuple(as_literal(one, what, mistakes) for one in listed)


def _as_terms(terms: object, mistakes: list[Mistake]) -> list[tuple[Any, Any]]:
    """Return the (literal, coefficient) pairs of ``Linear``."""
    listed = list(terms.items()) if isinstance(terms, Mapping) else terms
    if isinstance(listed, tuple | list) and listed and all(isinstance(p, tuple | list) and len(p) == 2 for p in listed):
        return [(first, second) for first, second in listed]
    mistakes.append(got("Linear: the terms must be a dict of literals and numbers, as {y.is_(1): 2.0}", terms))
    return []


def as_axes(along: object, what: str, mistakes: list[Mistake]) -> tuple[Dim, ...]:
    """Return the axes that a constraint runs along; note anything else as a mistake."""
    listed = tuple(along) if isinstance(along, tuple | list) else (along,)
    return check_axes(listed, f"{what}: along", mistakes)


def _as_count(k: object, what: str, mistakes: list[Mistake]) -> int | Input:
    """Return a number of literals."""
    k = plain(k)
    if isinstance(k, Input):
        return k
    if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k < NO_BOUND:
        mistakes.append(got(f"{what}: the number of literals must be a whole number of at least 0, or an Input(1)", k))
        return 0
    return k


def _as_parameter(name: str, value: object, mistakes: list[Mistake]) -> Parameter:
    """Return a number, an input or an axis under a name."""
    value = plain(value)
    if isinstance(value, Input | Dim):
        return Parameter(name, value)
    if isinstance(value, bool | int) and -(2**63) <= value < 2**63:
        return Parameter(name, value, whole=True)
    if isinstance(value, float) and isfinite(value):
        return Parameter(name, value)
    mistakes.append(got(f"{name} must be a finite number or an Input", value))
    return Parameter(name, 0)


def within(value: Input, axes: tuple[Dim, ...]) -> bool:
    """Whether an input has no axes but some of these."""
    return all(any(dim is axis for axis in axes) for dim in value.dims)


def _axis_mistakes(literals: tuple[Literal, ...], along: tuple[Dim, ...]) -> Iterator[Mistake]:
    for axis in along:
        if not any(axis is dim for one in literals for dim in one.label.dims):
            yield got("along: an axis of a literal's label", axis)


def _input_mistakes(
    literals: tuple[Literal, ...],
    along: tuple[Dim, ...],
    meta: tuple[Parameter, ...],
    literal_meta: tuple[tuple[Parameter, ...], ...],
) -> Iterator[Mistake]:
    """Yield inputs that do not give one number for each constraint, or each literal."""
    places = [(one, along, "each constraint, with axes of along only") for one in meta]
    for literal, parameters in zip(literals, literal_meta, strict=False):
        axes = (*literal.label.dims, *along)
        places += [(one, axes, "each literal, with axes of its label only") for one in parameters]
    for one, axes, words in dict.fromkeys(places):
        if isinstance(one.value, Input):
            if one.value.width != 1 or one.value.sparse or not within(one.value, axes):
                example = "Input(1)" if not axes else "Input(1) or Input(axis)"
                what = "the number of literals" if one.whole else one.name
                yield got(f"{what}: an input of one number for {words}, as {example}", one.value)
        elif isinstance(one.value, Dim) and not any(one.value is axis for axis in axes) and one not in meta:
            yield got(f"{one.name}: an axis of the literal's label", one.value)


def _too_many(what: str, k: int, literals: tuple[Literal, ...], along: tuple[Dim, ...]) -> Iterator[Mistake]:
    """Yield that more literals are to be true than there are, where that is known."""
    sizes = [dim.size for one in literals for dim in one.label.dims if not any(dim is axis for axis in along)]
    if None not in sizes:
        most = sum(
            prod(dim.size or 1 for dim in one.label.dims if not any(dim is axis for axis in along)) for one in literals
        )
        if k > most:
            yield f"{what}: {k} literals cannot be true, there are {most}"
