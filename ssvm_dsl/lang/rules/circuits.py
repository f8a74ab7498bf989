"""A rule without a table as a circuit: gates that say whether one, or how many, of some literals are true.

A gate inside another one, and the outermost one of a factor, has an auxiliary variable, a function of the variables
below it whatever the weights are: sums over labellings, and the best of them, are those of the user's variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ssvm_dsl.lang.dims import Condition, Dim, Index, indices_of
from ssvm_dsl.lang.outputs.agreements import Auxiliary
from ssvm_dsl.lang.outputs.labels import Label, Latent
from ssvm_dsl.lang.patterns.references import LabelAt, LiteralAt
from ssvm_dsl.lang.rules.formulas import (
    OF_VARIABLES,
    Atom,
    Formula,
    atom_of,
    free_indices,
    inputs_read,
    instance_condition,
    labels_of,
    numbers_of,
    split_where,
)


@dataclass(eq=False)
class Gate:
    """A condition on how many of some literals are true.

    Parameters
    ----------
    op : str
        ``"any"``, ``"count"`` (between bounds), ``"number"`` (the count itself), ``"iff"`` (of two), ``"same"`` (its
        variables have one class).
    parts : tuple of Signed
    over : tuple of Index
        Indices over which the parts are collected.
    members : Condition, optional
        On these.
    lower, upper : int or number, optional
        Of ``"count"``; ``upper`` of ``"number"`` is the largest number that is told from larger ones.
    aux : RuleAux, optional
        Its auxiliary variable.
    variables : tuple of LabelAt
        Of ``"same"``.
    """

    op: str
    parts: tuple[Signed, ...]
    over: tuple[Index, ...] = ()
    members: Condition | None = None
    lower: Any = None
    upper: Any = None
    aux: RuleAux | None = None
    variables: tuple[LabelAt, ...] = ()

    @property
    def n_states(self) -> int:
        """States of its auxiliary variable: false and true, or below, within and above two bounds."""
        if self.op == "number":
            return int(self.upper) + 1
        return 3 if self.op == "count" and self.lower is not None and self.upper is not None else 2

    @property
    def true_state(self) -> int:
        """The state of the auxiliary variable that says that the gate is true."""
        return 0 if self.op == "count" and self.lower is None else 1


@dataclass(frozen=True, eq=False)
class Signed:
    """A literal, a gate, or nothing (false), or the opposite of it."""

    node: Atom | Gate | None
    negated: bool = False

    def flipped(self) -> Signed:
        """Return the opposite."""
        return Signed(self.node, not self.negated)


class RuleAux(Auxiliary):
    """The auxiliary variables of a gate of a rule.

    Parameters
    ----------
    circuit : Circuit
    number : int
        Of the gate among those of the circuit.
    n_states : int
    """

    circuit: RuleCircuit
    number: int

    def __init__(self, circuit: RuleCircuit, number: int, n_states: int) -> None:
        super().__init__(n_states)
        object.__setattr__(self, "circuit", circuit)
        object.__setattr__(self, "number", number)

    @property
    def is_latent(self) -> bool:
        """Whether it follows from variables that are never observed."""
        return any(isinstance(label, Latent) for label in self.circuit.labels)

    def said(self, state: int) -> str:
        """Return what a state says of the rule, or of its part: true or false, or a number."""
        gate, top = self.circuit.gates[self.number], self.circuit.top
        if gate.op == "number":
            return f"{state} or more" if state == gate.n_states - 1 else str(state)
        true = (state == gate.true_state) != (top.node is gate and top.negated)
        return "true" if true else "false"


class RuleCircuit:
    """A rule as a circuit.

    Parameters
    ----------
    rule : LiteralAt or Formula
    hard : bool
        Whether it is true of all labellings; if not, its truth value has an auxiliary variable.
    """

    def __init__(self, rule: Any, hard: bool) -> None:
        self.rule, self.hard = rule, hard
        self.top = _signed(rule)
        if not hard and not isinstance(self.top.node, Gate):
            self.top = Signed(Gate("any", (self.top,)))
        self.free = free_indices(rule)
        self.condition = instance_condition(rule)
        self.outside = not isinstance(rule, Formula) or rule.outside
        self.inputs = inputs_read(rule)
        self.labels = labels_of(rule)
        self.gates: list[Gate] = []
        self._number(self.top, asserted=hard)
        self.auxiliary = tuple(RuleAux(self, k, gate.n_states) for k, gate in enumerate(self.gates))
        for gate, aux in zip(self.gates, self.auxiliary, strict=True):
            gate.aux = aux
        self.name = ""

    @property
    def laid_labels(self) -> tuple[Label, ...]:
        """The labels that its auxiliary variables and constraints are about."""
        return (*self.labels, *self.auxiliary)

    @property
    def all_axes(self) -> tuple[Dim, ...]:
        """Axes whose sizes decide what there is."""
        return axes_of(self.rule)

    def rename(self, name: str) -> None:
        """Name the auxiliary variables after the rule, as no user can."""
        self.name = name
        for aux in self.auxiliary:
            object.__setattr__(aux, "name", f"{name}: part {aux.number + 1}")

    def _number(self, signed: Signed, asserted: bool) -> None:
        """List the gates that have auxiliary variables, inner ones first."""
        gate = signed.node
        if not isinstance(gate, Gate):
            return
        each = asserted and gate.op == "any" and signed.negated
        for part in gate.parts if not (asserted and gate.op == "same") else ():
            self._number(part.flipped() if each else part, asserted=each)
        two_sided = gate.op == "count" and gate.n_states == 3
        if not asserted or (gate.op == "count" and signed.negated and two_sided):
            self.gates.append(gate)


def axes_of(rule: Any) -> tuple[Dim, ...]:
    """Return the axes whose sizes decide which instances a rule has."""
    axes = [index.dim.origin for index in indices_of(*numbers_of(rule))]
    axes += [dim for label in labels_of(rule) for dim in label.dims]
    axes += [dim.origin for dim in axes]
    return tuple({id(dim): dim for dim in axes}.values())


def _signed(formula: Any) -> Signed:
    """Return a formula as literals and gates."""
    if isinstance(formula, LiteralAt):
        return Signed(atom_of(formula))
    op, given = formula.op, formula.given
    members = split_where(formula)[1]
    if op in OF_VARIABLES:
        return _of_variables(formula, members)
    parts = tuple(map(_signed, given))
    if op == "Not":
        return parts[0].flipped()
    if op == "AllOf":
        return Signed(Gate("any", tuple(one.flipped() for one in parts), formula.over, members), True)
    if op == "AnyOf":
        return Signed(Gate("any", parts, formula.over, members))
    if op == "Implies":
        return Signed(Gate("any", (parts[0].flipped(), parts[1])))
    if op in ("Iff", "Xor"):
        return Signed(Gate("iff", parts), op == "Xor")
    if op == "Count":
        most = formula.most if formula.most is not None else most_of(formula)
        return Signed(Gate("number", parts, formula.over, members, upper=most or 1))
    k = 1 if op == "ExactlyOne" else formula.bound
    lower, upper = (None if op == "AtMost" else k), (None if op == "AtLeast" else k)
    return Signed(Gate("count", parts, formula.over, members, lower, upper))


def _of_variables(formula: Formula, members: Condition | None) -> Signed:
    """Return "all have one class" or "no two have one" as literals and gates."""
    names = dict.fromkeys(name for one in formula.given for name in (one.label.classes or range(one.label.n_states)))

    def literals(name: Any, negated: bool) -> tuple[Signed, ...]:
        return tuple(
            Signed(None if one.label.index(name) is None else Atom(one, name), negated) for one in formula.given
        )

    over = formula.over
    if formula.op == "Different":
        each = [Signed(Gate("count", literals(name, False), over, members, None, 1), True) for name in names]
        return Signed(Gate("any", tuple(each)), True)
    alike = [Signed(Gate("any", literals(name, True), over, members), True) for name in names]
    return Signed(Gate("same", tuple(alike), over, members, variables=formula.given))


def most_of(formula: Formula) -> int | None:
    """Return how many members a count has at most; ``None`` where an axis is ragged."""
    sizes = [index.dim.size for index in formula.over]
    return None if None in sizes else len(formula.given) * prod(size or 1 for size in sizes)
