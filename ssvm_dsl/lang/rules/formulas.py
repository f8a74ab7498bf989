"""Formulas over variables at positions: ``Implies(y[k].is_(1), y[up[k]].is_(1))``, ``AtMost(2, y[t].is_(1), over=t)``.

An attribute of a model is a hard rule: one for each assignment of its free indices.  In a ``Factor`` its score is a
weight times its truth value.  The public classes (``AtMost``, ``Implies``, ``Same`` ...) make formulas where they are
given variables at positions, and constraints over whole labels where they are given these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import Bools
from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import (
    Condition,
    Index,
    Number,
    as_condition,
    conjunction,
    conjuncts,
    indices_of,
    refuse,
    walk,
)
from ssvm_dsl.lang.inputs import At, Input
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.patterns.impossible import impossible, impossible_both
from ssvm_dsl.lang.patterns.join import inputs_of, symbols_of
from ssvm_dsl.lang.patterns.references import LabelAt, LiteralAt
from ssvm_dsl.lang.symbols import Mistake, ModelView, Node, Symbol, as_flag, compared, got, plain, show

#: Operations that bound the number of true formulas.
COUNTS = frozenset({"AtMost", "AtLeast", "Exactly", "ExactlyOne"})

#: Operations over variables, not formulas.
OF_VARIABLES = frozenset({"Same", "Different"})

#: Operations that have ``over=``.
WITH_OVER = COUNTS | OF_VARIABLES | {"AllOf", "AnyOf", "Count"}

#: Joint states of the variables of a formula that has a table, with up to three variables and with more.
MOST_OF_THREE, MOST_STATES = 1 << 16, 1 << 8


@dataclass(frozen=True, init=False, repr=False)
class Formula(Symbol):
    """A formula over variables at positions; made by the classes whose names ``op`` has.

    Parameters
    ----------
    op : str
        ``"Not"``, ``"AllOf"``, ``"AnyOf"``, ``"Implies"``, ``"Iff"``, ``"Xor"``, ``"AtMost"``, ``"AtLeast"``,
        ``"Exactly"``, ``"ExactlyOne"``, ``"Same"``, ``"Different"`` or ``"Count"`` (a number, for factors).
    given : tuple of LiteralAt and Formula, or of LabelAt
    bound : int or input at positions, optional
        Of counts.
    over : tuple of Index
        Indices over which its members are collected.
    condition : Condition, optional
    outside : bool
        Whether an instance is left out where a position does not exist; if not, such literals are false.
    most : int, optional
        The largest number that ``Count`` tells from larger ones.
    """

    op: str
    given: tuple[Any, ...]
    bound: Any
    over: tuple[Index, ...]
    condition: Condition | None
    outside: bool
    most: int | None

    def __init__(
        self,
        op: str,
        given: Sequence[Any],
        bound: Any = None,
        over: Any = (),
        where: Any = None,
        outside: Any = True,
        most: Any = None,
    ) -> None:
        mistakes: list[Mistake] = []
        members = _as_members(op, given, mistakes)
        listed = tuple(over) if isinstance(over, tuple | list) else (() if over is None else (over,))
        for one in listed:
            if not isinstance(one, Index):
                mistakes.append(got(f"{op}: over= is an index, or a tuple of them", one))
        listed = tuple(one for one in listed if isinstance(one, Index))
        condition = None if where is None else as_condition(where)
        outside = as_flag(outside, f"{op}: outside", mistakes)
        if not outside and op in OF_VARIABLES:
            mistakes.append(f"{op}: outside=False is for literals; variables that do not exist have no state")
        bound = _as_bound(op, bound, mistakes)
        for number in (condition, bound):
            mistakes += (text for one in walk(number) for text in getattr(one, "mistakes", ()))
        most = _as_most(most, mistakes) if op == "Count" else None
        self._fill(
            mistakes, op=op, given=members, bound=bound, over=listed, condition=condition, outside=outside, most=most
        )
        if not mistakes:
            object.__setattr__(self, "mistakes", (*_index_mistakes(self), *_never(self), *_one_triangle(self)))

    # -- what it is made of --------------------------------------------------------------------------------------

    @property
    def constructor(self) -> str:
        """The public class."""
        return self.op

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        args = self.given
        if self.op in COUNTS or self.op == "Count":
            one = self.given[0] if len(self.given) == 1 else list(self.given)
            args = (one,) if self.op in ("ExactlyOne", "Count") else (self.bound, one)
        options: dict[str, Any] = {}
        if self.over:
            options["over"] = self.over[0] if len(self.over) == 1 else self.over
        if self.most is not None:
            options["most"] = self.most
        if self.condition is not None:
            options["where"] = self.condition
        if not self.outside:
            options["outside"] = False
        return args, options

    def __repr__(self) -> str:
        args, options = self.arguments()
        shown = [shown_formula(one) for one in args] + [f"{key}={show(value)}" for key, value in options.items()]
        return f"{self.op}({', '.join(shown)})"

    def __bool__(self) -> NoReturn:
        refuse(f"{self!r} has no truth value in Python: write Not, AllOf, AnyOf for `not`, `and`, `or`")

    def _no_operator(self, other: object = None) -> NoReturn:
        refuse(f"{self!r}: &, | and ~ join conditions; of rules write AllOf(a, b), AnyOf(a, b), Not(a)")

    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _no_operator

    @property
    def made_of(self) -> tuple[Symbol, ...]:
        """The formula and those inside it."""
        return tuple(one for one in formulas_of(self) if isinstance(one, Formula))

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its labels, inputs and indices."""
        for literal in literals_of(self):
            yield "the label", literal.label.declared
        for number in numbers_of(self):
            yield from symbols_of(number)

    @property
    def about(self) -> tuple[Label, ...]:
        """Labels whose variables it is about."""
        return labels_of(self)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels whose variables it is about."""
        return labels_of(self)

    def clashes(self, model: ModelView) -> Iterator[str]:
        """Yield that it is a hard rule and part of another one, too."""
        others = [(one.name, one) for one in model.of(Formula) if one is not self]
        about = [(one.name, getattr(one, "target", None)) for one in model.of(Symbol)]
        others += [(name, target.rule) for name, target in about if target is not None and hasattr(target, "rule")]
        for name, other in others:
            if any(one is self or getattr(one, "narrowed_from", None) is self for one in formulas_of(other)):
                text = f"it is hard as an attribute, and a part of {name}, too"
                yield f"{text}: build it in a function, or write it where it is used"
        if self.op == "Count":
            yield "a Count has no effect as an attribute: write Factor(Count(...)), or AtMost, AtLeast, Exactly"

    def misfits(self, model: ModelView) -> Iterator[str]:
        """Yield that no states make it true."""
        table = self.op != "Count" and is_fixed(self) and is_small(self)
        if table and not truth_table(self, references_of(self)).any():
            yield f"{self!r} is never true"

    def narrowed(self, where: Any) -> Formula:
        """Return the formula with one more condition."""
        joined = conjunction((*conjuncts(self.condition), *conjuncts(as_condition(where))))
        made = Formula(self.op, self.given, self.bound, self.over, joined, self.outside, self.most)
        object.__setattr__(made, "narrowed_from", self)
        return made


# -- walking formulas --------------------------------------------------------------------------------------------------


def formulas_of(formula: Any) -> Iterator[Any]:
    """Yield a formula and all formulas and literals inside it."""
    yield formula
    if isinstance(formula, Formula) and formula.op not in OF_VARIABLES:
        for one in formula.given:
            yield from formulas_of(one)


@dataclass(frozen=True, eq=False)
class Atom:
    """A variable at positions that a formula speaks of, and the state, ``None`` where it speaks of all."""

    reference: LabelAt
    state: Any

    @property
    def label(self) -> Label:
        """The label; of pointers the part that says whether they point somewhere."""
        label: Label = self.reference.label
        return label


def atom_of(literal: LiteralAt) -> Atom:
    """Return the variable and the state of a literal: of a pointer, whether it points there."""
    label, places = literal.label, literal.reference.places
    if not label.pointer:
        return Atom(literal.reference, literal.state)
    if literal.state is None:
        return Atom(LabelAt(label.none or label, places), 1)
    return Atom(LabelAt(label, (*places, literal.state)), 1)


def literals_of(formula: Any) -> Iterator[Atom]:
    """Yield the variables that a formula speaks of, with their states."""
    for one in formulas_of(formula):
        if isinstance(one, LiteralAt):
            yield atom_of(one)
        elif one.op in OF_VARIABLES:
            yield from (Atom(reference, None) for reference in one.given)


def labels_of(formula: Any) -> tuple[Label, ...]:
    """Return the labels of a formula, each once."""
    return tuple({id(one.label): one.label for one in literals_of(formula)}.values())


def numbers_of(formula: Any) -> Iterator[Any]:
    """Yield the positions, numbers and conditions in a formula."""
    for one in formulas_of(formula):
        if isinstance(one, Formula):
            yield from one.over
            yield one.condition
            yield one.bound
    for atom in literals_of(formula):
        yield from atom.reference.places
        yield atom.state


def inputs_read(formula: Any) -> tuple[Any, ...]:
    """Return the inputs whose content decides what a formula says."""
    input_by_id = {id(one): one for number in numbers_of(formula) for one in inputs_of(number)}
    for label in labels_of(formula):
        input_by_id |= {id(one): one for one in label.domain_inputs}
    return tuple(input_by_id.values())


def free_indices(formula: Any) -> tuple[Index, ...]:
    """Return the indices of a formula that are not collected over, in the order of their declaration."""
    if isinstance(formula, LiteralAt):
        return indices_of(*formula.reference.places, formula.state)
    if isinstance(formula, LabelAt):
        return indices_of(*formula.places)
    inner = [index for one in formula.given for index in free_indices(one)]
    indices = indices_of(*inner, formula.condition, formula.bound)
    return tuple(one for one in indices if not any(one is other for other in formula.over))


def references_of(formula: Any) -> tuple[LabelAt, ...]:
    """Return the different variables at positions that a formula without ``over=`` speaks of."""
    references: list[LabelAt] = []
    for atom in literals_of(formula):
        if not any(same_reference(atom.reference, one) for one in references):
            references.append(atom.reference)
    return tuple(references)


def same_reference(a: LabelAt, b: LabelAt) -> bool:
    """Whether two variables at positions are written the same."""
    return a.label is b.label and a.places == b.places


def split_where(formula: Formula) -> tuple[Condition | None, Condition | None]:
    """Return the conditions that choose (instances, members): the latter have an index of ``over=``."""
    mine: list[Condition] = []
    members: list[Condition] = []
    for one in conjuncts(formula.condition):
        collected = any(index is other for index in indices_of(one) for other in formula.over)
        (members if collected else mine).append(one)
    return conjunction(tuple(mine)), conjunction(tuple(members))


def instance_condition(formula: Any) -> Condition | None:
    """Return the condition on the instances of a rule."""
    return split_where(formula)[0] if isinstance(formula, Formula) else None


def is_flat(formula: Any) -> bool:
    """Whether it has no ``over=`` and is no count for a factor."""
    return not any(isinstance(one, Formula) and (one.over or one.op == "Count") for one in formulas_of(formula))


def is_fixed(formula: Any) -> bool:
    """Whether all its instances say the same of their variables: states, bounds and which literals there are."""
    for one in formulas_of(formula):
        if isinstance(one, Formula) and (not one.outside or isinstance(one.bound, Number)):
            return False
    return all(not isinstance(one.state, Number) and not one.label.turns for one in literals_of(formula))


def is_small(formula: Any) -> bool:
    """Whether a table over its variables has at most the usual size."""
    if not is_flat(formula):
        return False
    cards: list[int] = [one.label.n_states for one in references_of(formula)]
    if len(cards) <= 2:
        return prod(cards) <= MOST
    return prod(cards) <= (MOST_OF_THREE if len(cards) == 3 else MOST_STATES)


def has_tables(formula: Any) -> bool:
    """Whether tables over its variables say it all, which are not the same for all instances."""
    turned = any(atom.state is None and atom.label.turns for atom in literals_of(formula))
    return is_small(formula) and not turned


# -- truth -------------------------------------------------------------------------------------------------------------

#: The states of a variable, in arrays that broadcast; ``None`` where it does not exist.
States = Callable[[LabelAt], "NDArray[Any] | None"]


def truth(
    formula: Any, states: States, number: Callable[[LiteralAt], Any], bound: Callable[[Any], Any] = int
) -> Any:
    """Return where a formula without ``over=`` is true.

    Parameters
    ----------
    formula : LiteralAt or Formula
    states : callable
        The states of a variable at positions; ``None`` where it does not exist: literals about it are false.
    number : callable
        The number of the state of a literal.
    bound : callable
        The number that a bound is.
    """
    if isinstance(formula, LiteralAt):
        state = states(atom_of(formula).reference)
        return np.False_ if state is None else state == number(formula)
    op = formula.op
    if op in OF_VARIABLES:
        return _alike([(one.label, states(one)) for one in references_of(formula)], op == "Same")
    parts = [truth(one, states, number, bound) for one in formula.given]
    if op == "Not":
        return ~parts[0]
    if op in ("AllOf", "AnyOf"):
        join = np.logical_and if op == "AllOf" else np.logical_or
        out: Any = np.bool_(op == "AllOf")
        for part in parts:
            out = join(out, part)
        return out
    if op == "Implies":
        return ~parts[0] | parts[1]
    if op in ("Iff", "Xor"):
        return (parts[0] == parts[1]) if op == "Iff" else (parts[0] != parts[1])
    total: Any = 0
    seen: list[Any] = []
    for one, part in zip(formula.given, parts, strict=True):
        key = _literal_key(one, number)
        if key is not None and any(key[0] == k[0] and same_reference(key[1], k[1]) for k in seen):
            continue  # a literal counts once
        seen += [] if key is None else [key]
        total = total + part.astype(np.int64)
    k = 1 if op == "ExactlyOne" else bound(formula.bound)
    return total <= k if op == "AtMost" else total >= k if op == "AtLeast" else total == k


def _literal_key(formula: Any, number: Callable[[LiteralAt], Any]) -> tuple[Any, LabelAt] | None:
    """Return (state, whether it is negated), and the variable of a literal; ``None`` for other formulas."""
    negated = False
    while isinstance(formula, Formula) and formula.op == "Not":
        formula, negated = formula.given[0], not negated
    if not isinstance(formula, LiteralAt):
        return None
    return (int(number(formula)), negated), atom_of(formula).reference


def _alike(variables: list[tuple[Label, Any]], same: bool) -> Any:
    """Return where variables have the same class, or no two of them have."""
    out: Any = np.True_
    listed = list(variables)
    for k, (label, one) in enumerate(listed):
        for other_label, other in listed[:k]:
            equal = class_numbers(label, other_label)[one] == other
            out = out & (equal if same else ~equal)
    return out


def class_numbers(label: Label, other: Label) -> NDArray[np.int64]:
    """Return the number among the classes of another label of each class of a label, -1 where it has none."""
    names = label.classes or range(label.n_states)
    return np.array([-1 if (at := other.index(name)) is None else at for name in names], dtype=np.int64)


def fixed_number(literal: LiteralAt) -> int:
    """Return the number of the state of a literal that is no index and no input."""
    atom = atom_of(literal)
    return atom.label.index(atom.state) or 0


def truth_table(formula: Any, references: Sequence[LabelAt], missing: Bools | None = None) -> Bools:
    """Return where a formula is true, over the joint states of variables; ``shape (cards of those that exist)``.

    Parameters
    ----------
    formula : LiteralAt or Formula
    references : sequence of LabelAt
    missing : ndarray of bool, optional
        Which of them do not exist.
    """
    there = [one for k, one in enumerate(references) if missing is None or not missing[k]]
    cards = tuple(one.label.n_states for one in there)
    grid = np.indices(cards, sparse=True)

    def states(reference: LabelAt) -> Any:
        return next((grid[k] for k, one in enumerate(there) if same_reference(one, reference)), None)

    return np.array(np.broadcast_to(truth(formula, states, fixed_number), cards))


# -- reading -----------------------------------------------------------------------------------------------------------


def speaks_of_positions(*values: Any) -> bool:
    """Whether some value is a literal or a variable at positions, a formula, or a list with one."""
    return any(
        isinstance(value, LiteralAt | LabelAt | Formula)
        or (isinstance(value, Node) and value.constructor in OF_WHOLE_LABELS - {"Not"})  # formulas are nested
        or (isinstance(value, tuple | list) and speaks_of_positions(*value))
        for value in values
    )


def formula_of_call(made: type, args: tuple[Any, ...], named: Mapping[str, Any]) -> Formula | None:
    """Return the formula that a call of a public class makes; ``None`` where nothing in it is at positions.

    Parameters
    ----------
    made : type
        The class, whose name is the operation.
    args, named
        Arguments of its constructor.
    """
    if not (speaks_of_positions(*args, *named.values()) or named.keys() & {"over", "where", "outside"}):
        return None
    try:
        call = signature(made.__init__).bind(None, *args, **named)  # type: ignore[misc]
    except TypeError:
        return None  # the constructor explains it
    found = dict(call.arguments)
    options = {key: found[key] for key in ("over", "where", "outside") if key in found}
    op = made.__name__
    if op == "Implies":
        members: Any = [found["condition"], found["consequence"]]
    elif op in OF_VARIABLES:
        members = [found["target"], *([] if found.get("other") is None else [found["other"]]), *found.get("others", ())]
        if len(members) == 1 and isinstance(members[0], tuple | list):
            members = members[0]
    else:
        members = found.get("literals", ())
        members = members if isinstance(members, tuple | list) else (members,)
    formula = Formula(op, members, found.get("k"), **options)
    if found.get("along", ()) not in ((), []):
        text = f"{op}: along= is for whole labels; with positions there is one rule for each assignment of its indices"
        object.__setattr__(formula, "mistakes", (*formula.mistakes, text))
    return formula


#: Classes that are about whole labels, too; of labels without axes they are formulas.
OF_WHOLE_LABELS = COUNTS | OF_VARIABLES | {"Not", "AnyOf", "Implies"}


def as_formula(value: object, what: str, mistakes: list[Mistake]) -> Any:
    """Return a literal or a formula; a literal of a label without axes is one at no positions.  Others are noted."""
    if isinstance(value, LiteralAt | Formula):
        mistakes += value.mistakes
        return value
    if isinstance(value, Target) and value.kind == "indicator" and not value.mistakes:
        if not value.label.dims:
            return LiteralAt(LabelAt(value.label, ()), value.state)
        text = f"{what}: {value!r} speaks of all positions; in a formula with positions write {show(value.label)}[t]"
        mistakes.append(f"{text}.is_(...)")
        return None
    if isinstance(value, Node) and value.constructor in OF_WHOLE_LABELS and not value.mistakes:
        args, _ = value.arguments()
        if value.constructor in OF_VARIABLES:
            if all(isinstance(one, Label) and not one.dims for one in args):  # two labels without axes
                return Formula(value.constructor, args)
            mistakes.append(got(f"{what}: variables at positions, as Same(y[i], y[j])", value))
            return None
        k, listed = (args[0], args[1]) if value.constructor in COUNTS - {"ExactlyOne"} else (None, args)
        members = listed if isinstance(listed, tuple | list) else (listed,)
        members = members[0] if len(members) == 1 and isinstance(members[0], tuple | list) else members
        return Formula(value.constructor, members, k)
    text = f"{what}: a literal at positions, as y[t].is_(1), or a formula of such"
    mistakes.append(got(text, value, compared(value)))
    return None


def _as_members(op: str, given: Sequence[Any], mistakes: list[Mistake]) -> tuple[Any, ...]:
    """Return the formulas, or the variables, of an operation."""
    listed = [*given]
    if not listed:
        mistakes.append(f"{op}: at least one {'variable' if op in OF_VARIABLES else 'literal'} is needed")
    if op not in OF_VARIABLES:
        members = [as_formula(one, op, mistakes) for one in listed]
        for one in members:
            if isinstance(one, Formula) and one.op == "Count":
                mistakes.append(f"{op}: a Count is a number; write AtMost, AtLeast or Exactly")
            if isinstance(one, Formula) and not one.outside:
                mistakes.append(f"{op}: outside=False belongs to the whole rule")
            if isinstance(one, Formula) and split_where(one)[0] is not None:
                text = f"{op}: where= belongs to the whole rule, or each part of it has an index of over="
                mistakes.append(got(text, one))
        return tuple(one for one in members if one is not None)
    variables: list[LabelAt] = []
    for value in listed:
        one = LabelAt(value, ()) if isinstance(value, Label) and not value.dims else value
        if not isinstance(one, LabelAt):
            mistakes.append(got(f"{op}: variables at positions, as y[i]", value))
            continue
        mistakes += one.mistakes
        if one.label.pointer:
            mistakes.append(f"{op}: {one!r}: a pointer occurs only with .is_(position)")
        variables.append(one)
    for one in variables[1:]:
        if _unlike(variables[0].label, one.label):
            mistakes.append(_unlike_classes(op, variables[0], one))
    return tuple(variables)


def _unlike(a: Label, b: Label) -> bool:
    """Whether two labels have different classes that are not all numbers."""
    names = [tuple(one.classes or range(one.n_states)) for one in (a, b)]
    return names[0] != names[1] and not all(isinstance(name, int) for listed in names for name in listed)


def _unlike_classes(op: str, a: LabelAt, b: LabelAt) -> Mistake:
    return lambda: f"{op}: {a!r} and {b!r} have unlike classes; write Iff of .is_(...) for those that are meant"


def _as_bound(op: str, bound: Any, mistakes: list[Mistake]) -> Any:
    """Return the bound of a count."""
    if op not in COUNTS or op == "ExactlyOne":
        return None
    bound = plain(bound)
    if isinstance(bound, At) and bound.width == 1:
        return bound
    if isinstance(bound, Input) and not bound.dims and bound.width == 1:
        return At(bound, ())
    if isinstance(bound, int) and not isinstance(bound, bool) and 0 <= bound < MOST:
        return bound
    text = f"{op}: the number of literals must be a whole number of at least 0, or an input at positions"
    mistakes.append(got(text, bound))
    return 0


def _as_most(most: Any, mistakes: list[Mistake]) -> int | None:
    most = plain(most)
    if most is None or (isinstance(most, int) and not isinstance(most, bool) and 1 <= most < MOST):
        return most
    mistakes.append(got("Count: most= is the largest number with a weight, a positive int", most))
    return None


def _index_mistakes(formula: Formula) -> Iterator[Mistake]:
    """Yield why indices of a formula do not fit."""
    if formula.over and formula.op not in WITH_OVER:
        yield f"{formula.op}: it has no over="
    for one in formula.over:
        inside = [index for part in formula.given for index in free_indices(part)]
        if not any(one is index for index in inside):
            yield got(f"{formula.op}: over= is an index of its members", one)
    for part in formula.given if formula.op not in OF_VARIABLES else ():
        inner = {id(index) for one in formulas_of(part) if isinstance(one, Formula) for index in one.over}
        if twice := [one for one in (*free_indices(formula), *formula.over) if id(one) in inner]:
            yield got(f"{formula.op}: an index that is collected over in a part of it, and used outside", twice[0])
            return
    chosen = [*indices_of(formula.condition), *(one for part in formula.given for one in free_indices(part))]
    bound_only = [index for index in indices_of(formula.bound) if not any(index is one for one in chosen)]
    if bound_only:
        yield got(f"{formula.op}: an index that is in the bound only", bound_only[0])
    if any(index is one for index in indices_of(formula.bound) for one in formula.over):
        yield got(f"{formula.op}: the bound has no index of over=", formula.bound)


def _never(formula: Formula) -> Iterator[Mistake]:
    """Yield why a formula has no instance, whatever the data."""
    places: list[Any] = []
    if formula.outside and is_flat(formula):
        places = [pair for one in references_of(formula) for pair in zip(one.places, one.label.dims, strict=True)]
    yield from impossible(formula, places, formula.condition)


def _one_triangle(formula: Formula) -> Iterator[Mistake]:
    """Yield that a rule says a third of "related" of a label that has one order of each pair: ij and jk imply ik."""
    if formula.op != "Implies" or not isinstance(formula.given[0], Formula) or formula.given[0].op != "AllOf":
        return
    joined, last = formula.given[0].given, formula.given[1]
    if len(joined) != 2 or not all(isinstance(one, LiteralAt) for one in (*joined, last)):
        return
    first, second, third = (one.reference for one in (*joined, last))
    label, places = first.label, [one.places for one in (first, second, third)]
    one_label = all(one.label is label for one in (second, third)) and not label.pointer and not label.symmetric
    if not one_label or len(label.indices) != 2 or label.dims[0].origin is not label.dims[1].origin:
        return
    i, j = label.indices
    closes = places[0][1] == places[1][0] and places[2] == (places[0][0], places[1][1])
    ordered = label.condition is not None and impossible_both(label.condition, i > j, i < j)
    if closes and ordered:
        text = "of pairs in one order it is one of three rules of a triangle; write"
        other = "or declare the label with symmetric=True"
        yield lambda: f"{formula!r}: {text} Equivalence({show(label)}) or LinearOrder({show(label)}), {other}"


def shown_formula(value: Any) -> str:
    """Return how a part of a formula reads: formulas as they are written, whatever their names."""
    if isinstance(value, Formula):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(shown_formula, value))}]"
    return show(value)


# -- the public words that have no older meaning -----------------------------------------------------------------------


@checked_call
def AllOf(*formulas: Any, over: Any = (), where: Any = None, outside: bool = True) -> Formula:
    """All of the formulas are true.

    Parameters
    ----------
    *formulas : literal at positions, or formula
    over : Index or tuple of Index, optional
        All of those at the positions of these indices: one formula for each assignment of the other indices.
    where : condition, optional
        Conditions (joined by ``&``) without an index of ``over=`` choose instances, others choose members.
    outside : bool
        Whether an instance is left out where a position does not exist; with False such literals are false.

    Examples
    --------
    >>> fits = Implies(rel[m].is_("works for"), AllOf(ent[e[m, 0]].is_("person"), ent[e[m, 1]].is_("firm")))
    >>> calm = AllOf(Not(y[t].is_("B")), over=t)
    """
    return Formula("AllOf", formulas, over=over, where=where, outside=outside)


@checked_call
def Iff(first: Any, second: Any, where: Any = None, outside: bool = True) -> Formula:
    """Both formulas are true, or none is.

    Parameters
    ----------
    first, second : literal at positions, or formula
    where, outside
        As of :func:`AllOf`.

    Examples
    --------
    >>> paired = Iff(a[t].is_(1), b[t].is_(1))
    """
    return Formula("Iff", (first, second), where=where, outside=outside)


@checked_call
def Xor(first: Any, second: Any, where: Any = None, outside: bool = True) -> Formula:
    """One of two formulas is true, and one is not; the arguments are those of :func:`Iff`."""
    return Formula("Xor", (first, second), where=where, outside=outside)


@checked_call
def Count(literals: Any, over: Any = (), most: int | None = None, where: Any = None, outside: bool = True) -> Formula:
    """The number of true formulas, for ``Factor(Count(...))``: a weight for each number.

    Parameters
    ----------
    literals : literal at positions, formula, or list of them
    over : Index or tuple of Index, optional
        The formulas at the positions of these indices; one count for each assignment of the other indices.
    most : int, optional
        The last weight is that of this number and of larger ones; needed where an axis of ``over=`` is ragged.
    where, outside
        As of :func:`AllOf`.

    Examples
    --------
    >>> size = Factor(Count(y[i].is_("a"), over=i, most=5))       # six weights, the last of "5 or more"
    """
    listed = tuple(literals) if isinstance(literals, tuple | list) else (literals,)
    return Formula("Count", listed, over=over, where=where, outside=outside, most=most)
