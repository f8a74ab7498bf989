"""Lay rules over data: masks, tables of what is ruled out, constraints, and the auxiliary variables of their gates.

Everything follows from axis sizes and from what edges, positions and inputs of conditions hold; it is worked out for
one example of each shape (:mod:`ssvm_dsl.compiler.prepared`) and spread over the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.labels.domains import LabelDomain, content_key
from ssvm_dsl.errors import DataError, InfeasibleError
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.ragged import members, pointers
from ssvm_dsl.ir.shapes import first_of_each, kinds_of_rows
from ssvm_dsl.lang.constraints.logic import NO_BOUND
from ssvm_dsl.lang.dims import Dim, Index, Number, Position, conjunction, conjuncts, indices_of
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.patterns.join import Instances, World, extend_instances, find_instances
from ssvm_dsl.lang.patterns.pattern import may_be_one
from ssvm_dsl.lang.patterns.references import LabelAt, LiteralAt
from ssvm_dsl.lang.rules.circuits import Gate, RuleCircuit, Signed
from ssvm_dsl.lang.rules.formulas import (
    OF_VARIABLES,
    Atom,
    Formula,
    atom_of,
    formulas_of,
    free_indices,
    instance_condition,
    references_of,
    same_reference,
    truth,
)
from ssvm_dsl.lang.rules.structures import RuleOfKind
from ssvm_dsl.lang.symbols import show


@dataclass(frozen=True, eq=False)
class RuleLiterals:
    """RuleLiterals that belong to the rows of a gate or of a clause, and how many more are true whatever the labels.

    Parameters
    ----------
    n : int
        Number of rows.
    row : ndarray of int64, shape (l,)
        In increasing order.
    variable, state : ndarray of int64, shape (l,)
    negated : ndarray of bool, shape (l,)
    true : ndarray of int64, shape (n,)
        RuleLiterals of each row that are always true; those that never are are left out.
    """

    n: int
    row: I64
    variable: I64
    state: I64
    negated: Bools
    true: I64

    @classmethod
    def of_columns(cls, n: int, row: I64, columns: Sequence[Column]) -> RuleLiterals:
        """Return literals in columns, without those that do not exist and those of a row that are the same.

        Parameters
        ----------
        n : int
        row : ndarray of int64, shape (m,)
            The row of each entry of a column.
        columns : sequence of (variable, state, negated), each of shape (m,)
            A variable of -1 is a literal that does not exist, which is false.
        """
        rows = np.tile(row, len(columns))
        variable, state, negated = (np.concatenate([one[k] for one in columns]) for k in range(3))
        fixed = variable < 0
        true = np.bincount(rows[fixed & negated], minlength=n)
        rows, variable, state, negated = (one[~fixed] for one in (rows, variable, state, negated))
        order = np.lexsort((negated, state, variable, rows))
        rows, variable, state, negated = (one[order] for one in (rows, variable, state, negated))
        same = np.zeros(len(rows), dtype=bool)
        if len(rows):
            keys = (rows, variable, state, negated)
            same[1:] = np.logical_and.reduce([one[1:] == one[:-1] for one in keys])
        rows, variable, state, negated = (one[~same] for one in (rows, variable, state, negated))
        return cls(n, rows, variable, state, negated.astype(bool), true)

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(one.nbytes for one in (self.row, self.variable, self.state, self.negated, self.true))

    @property
    def counts(self) -> I64:
        """RuleLiterals of each row."""
        return np.bincount(self.row, minlength=self.n)

    def chosen(self, rows: Bools) -> RuleLiterals:
        """Return those of some rows, numbered anew."""
        number = np.cumsum(rows) - 1
        mine = rows[self.row]
        return RuleLiterals(
            int(rows.sum()), number[self.row[mine]], self.variable[mine], self.state[mine], self.negated[mine],
            self.true[rows],
        )  # fmt: skip

    def with_column(self, column: Column) -> RuleLiterals:
        """Return them with one more literal in each row."""
        row = np.concatenate([self.row, np.arange(self.n)])
        order = np.argsort(row, kind="stable")
        own = self.variable, self.state, self.negated
        a, b, c = (np.concatenate([one, more])[order] for one, more in zip(own, column, strict=True))
        return RuleLiterals(self.n, row[order], a, b, c, self.true)


#: Variable, state, and whether the literal is negated, of each row.
Column = tuple[I64, I64, Bools]


@dataclass(eq=False)
class RuleBounds:
    """Constraints of one kind: bounds on how many literals are true, or on their weighted sum.

    Parameters
    ----------
    owner : ndarray of int64, shape (m,)
        The example of each.
    place : ndarray of int64, shape (m,)
        The instance of the rule.
    literals : RuleLiterals
        Of m rows.
    lower, upper : ndarray, shape (m,)
    coefficient : ndarray of float64, shape (l,), optional
    """

    owner: I64
    place: I64
    literals: RuleLiterals
    lower: NDArray[Any]
    upper: NDArray[Any]
    coefficient: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class GateStates:
    """What the auxiliary variables of a gate follow from.

    Parameters
    ----------
    gate : Gate
    variable : ndarray of int64, shape (n,)
    literals : RuleLiterals
        Of n rows; of ``"iff"`` the two columns instead.
    bounds : list of ndarray of int64, shape (n,)
        The state is how many of them the count reaches.
    columns : list of Column
        Of ``"iff"``.
    rows : Instances
        Where each of them is.
    """

    gate: Gate
    variable: I64
    literals: RuleLiterals
    bounds: list[I64]
    columns: list[Column]
    rows: Instances

    def states(self, labels: I32) -> I64:
        """Return the states of the auxiliary variables for those of all variables before."""
        if self.gate.op == "iff":
            a, b = (_is_true(column, labels) for column in self.columns)
            return np.asarray((a == b).astype(np.int64))
        one = self.literals
        true = (labels[one.variable] == one.state) != one.negated
        count = np.bincount(one.row[true], minlength=one.n) + one.true
        out = np.zeros(one.n, dtype=np.int64)
        for bound in self.bounds:
            out += count >= bound
        return out

    def variables(self) -> tuple[I64, I64]:
        """Return (row, variable) of everything that the gate is about."""
        if self.gate.op != "iff":
            return self.literals.row, self.literals.variable
        row = np.tile(np.arange(len(self.variable)), len(self.columns))
        variable = np.concatenate([one[0] for one in self.columns])
        return row[variable >= 0], variable[variable >= 0]


def _is_true(column: Column, labels: I32) -> Bools:
    variable, state, negated = column
    there = variable >= 0
    return np.asarray(np.where(there, labels[np.maximum(variable, 0)] == state, False) != negated)


@dataclass(eq=False)
class GroundRule:
    """A rule, laid over some examples.

    Parameters
    ----------
    found : Instances
    constraints : list of RuleBounds
    masks : list of (place, owner, variable, state, negated)
        RuleLiterals that are true by themselves.
    gates : list of GateStates
        Inner ones first.
    top : Column, optional
        The auxiliary variables that say whether the rule is true; of a rule of a factor.
    counts : dict of str to ndarray of int64
        How many auxiliary variables of each gate every example has.
    """

    found: Instances
    constraints: list[RuleBounds] = field(default_factory=list)
    masks: list[tuple[I64, I64, I64, I64, Bools]] = field(default_factory=list)
    gates: list[GateStates] = field(default_factory=list)
    top: Column | None = None
    counts: dict[str, I64] = field(default_factory=dict)


class Grounder:
    """Lays one rule over some examples.

    Parameters
    ----------
    name : str
        The rule's, for messages.
    rule : LiteralAt or Formula
    domains : dict of str to LabelDomain
        Of these examples.
    world : World
    start : callable
        The first variable of a label in each example.
    """

    def __init__(
        self, name: str, rule: Any, domains: dict[str, Any], world: World, start: Callable[[Label], I64]
    ) -> None:
        self.name, self.rule, self.domains, self.world, self.start = name, rule, domains, world, start

    # -- literals ------------------------------------------------------------------------------------------------

    def instances(
        self, free: tuple[Any, ...], where: Any, atoms: Sequence[Atom], outside: bool, bounds: Sequence[Any]
    ) -> Instances:
        """Return the instances of the rule, without those whose variables do not exist, or are the same."""
        references = distinct_references(atoms)
        places = [pair for one in references if outside for pair in _places(one)]
        rows = find_instances(free, where, places, self.world, f"rule '{self.name}'")
        keep = np.ones(len(rows), dtype=bool)
        for k, one in enumerate(references):
            if outside:
                keep &= self.variable(one, rows)[0] >= 0
            for other in references[:k]:
                if may_be_one(one, other):
                    keep &= ~self._is_one(rows, one, other)
        for atom in atoms if outside else ():
            if isinstance(atom.state, Number):
                keep &= self.state(atom.state, atom.label, rows) >= 0
        for bound in bounds:
            known = self.bound(bound, rows)[1]
            keep &= True if known is None else known
        return rows if keep.all() else rows.chosen(keep)

    def _is_one(self, rows: Instances, one: LabelAt, other: LabelAt) -> Bools:
        first, second = (self.variable(each, rows)[0] for each in (one, other))
        return np.asarray((first == second) & (first >= 0))

    def variable(self, reference: LabelAt, rows: Instances) -> tuple[I64, Bools | None]:
        """Return (number of the variable in each row, -1 where there is none; whether its classes are turned)."""
        label, owner = reference.label, rows.owner
        flat, known = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=bool)
        found = []
        for place, dim in _places(reference):
            at, there = rows.position(place, dim)
            at = at if there is None else np.where(there, at, 0)
            known &= True if there is None else there
            flat = flat * self.world.size(dim)[owner] + at
            found.append(at)
        domain: LabelDomain | None = self.domains.get(label.name)
        flat = np.where(known, flat, 0)
        number = flat.copy()
        turned = None
        if domain is not None:
            number[known] = domain.numbers(label, owner[known], flat[known])
            turned = found[0] > found[1] if label.symmetric else None
        known &= number >= 0
        return np.where(known, number + self.start(label)[owner], -1), turned

    def literal(self, atom: Atom, rows: Instances, negated: bool) -> Column:
        """Return a literal in each row."""
        variable, turned = self.variable(atom.reference, rows)
        state = self.state(atom.state, atom.label, rows)
        variable = np.where(state < 0, -1, variable)
        if turned is not None and atom.label.converse is not None:
            converse = np.array(atom.label.converse, dtype=np.int64)
            state = np.where(turned, converse[np.maximum(state, 0)], state)
        return variable, np.maximum(state, 0), np.full(len(rows), negated)

    def state(self, state: Any, label: Label, rows: Instances) -> I64:
        """Return the number of a state in each row, -1 where an input says that there is none."""
        if not isinstance(state, Number):
            return np.full(len(rows), label.index(state) or 0, dtype=np.int64)
        if isinstance(state, Position):
            at, there = rows.position(state, state.axis)
            return at if there is None else np.where(there, at, -1)
        values, known = rows.number(state)
        numbers = np.where(True if known is None else known, values, -1)
        wrong = np.flatnonzero((numbers < -1) | (numbers >= label.n_states) | (numbers != np.floor(numbers)))
        if len(wrong):
            k = int(wrong[0])
            expected = f"the number of a state of {label.name}, 0..{label.n_states - 1}, or -1 for none"
            what = f"input '{getattr(state, 'source', self).name}'"
            raise DataError(what, example=self.world.example(int(rows.owner[k])), expected=expected,
                            found=f"{numbers[k]:g}")
        return numbers.astype(np.int64)

    def bound(self, bound: Any, rows: Instances) -> tuple[I64, Bools | None]:
        """Return (a bound in each row, whether it is known; ``None`` where all are)."""
        if not isinstance(bound, Number):
            return np.full(len(rows), bound, dtype=np.int64), None
        values, known = rows.number(bound)
        wrong = np.flatnonzero((values < 0) | (values != np.floor(values)) | (values >= NO_BOUND))
        if len(wrong):
            k = int(wrong[0])
            what = f"input '{getattr(bound, 'source', self).name}'"
            raise DataError(what, example=self.world.example(int(rows.owner[k])),
                            expected="a whole number of at least 0 (how many literals are true)",
                            found=f"{values[k]:g}")
        return values.astype(np.int64), known

    def words(self, rows: Instances, k: int) -> str:
        """Return the positions of an instance in words: ``i = 0, j = 2``."""
        return instance_words(free_indices(self.rule), rows, k)

    def infeasible(self, rows: Instances, k: int) -> InfeasibleError:
        """Return the error of an instance that is false whatever the labels."""
        example, where = self.world.example(int(rows.owner[k])), self.words(rows, k)
        at = f" at {where}" if where else ""
        return InfeasibleError(f"example {example} has no labelling: rule '{self.name}' is false{at}, whatever it is")


def _places(reference: LabelAt) -> list[tuple[Any, Dim]]:
    """Return the positions of a variable, each with its axis."""
    return list(zip(reference.places, reference.label.dims, strict=True))


def instance_words(indices: Sequence[Index], rows: Instances, k: int) -> str:
    """Return the positions of an instance in words, ``i = 0, j = 2``: those of indices that it has."""
    there = (index for index in indices if id(index) in rows.columns)
    return ", ".join(f"{show(index)} = {int(rows.columns[id(index)][k])}" for index in there)


def _places_of(indices: Sequence[Index], found: Instances, rows: I64) -> dict[str, I32]:
    """Return where some instances are, by the names of indices."""
    return {show(one): found.columns[id(one)][rows].astype(np.int32) for one in indices if id(one) in found.columns}


class CircuitGrounder(Grounder):
    """Lays a rule without a table over some examples: its gates become auxiliary variables and constraints."""

    def __init__(
        self, circuit: RuleCircuit, domains: dict[str, Any], world: World, start: Callable[[Label], I64]
    ) -> None:
        super().__init__(circuit.name, circuit.rule, domains, world, start)
        self.circuit, self.rows = circuit, dict[int, tuple[Instances, I64]]()

    def run(self) -> GroundRule:
        """Return the rule, laid over the examples."""
        circuit = self.circuit
        atoms, bounds = top_atoms(circuit.rule), top_bounds(circuit.rule)
        rows = self.instances(circuit.free, circuit.condition, atoms, circuit.outside, bounds)
        if not circuit.hard:
            rows = rows.chosen(self._about_something(circuit.top, rows))
        self.found = rows
        self.out = GroundRule(rows)
        self.rows.clear()
        place = np.arange(len(rows))
        if circuit.hard:
            self._require(circuit.top, rows, place)
        else:
            self.out.top = self._compile(circuit.top, rows, place)
        return self.out

    # -- gates ---------------------------------------------------------------------------------------------------

    def _members(self, gate: Gate, rows: Instances, parts: Sequence[Signed]) -> tuple[Instances, I64]:
        """Return (assignments of the indices that a gate collects over, the row that each belongs to)."""
        if not gate.over:
            return rows, np.arange(len(rows))
        references = [one for part in parts for one in own_references(part)]
        places = [pair for one in references for pair in _places(one)]
        members, parent = extend_instances(rows, gate.over, gate.members, places, f"rule '{self.name}'")
        keep = np.ones(len(members), dtype=bool)
        for one in references:
            keep &= self.variable(one, members)[0] >= 0
        for atom in (atom for part in parts for atom in own_atoms(part)):
            if isinstance(atom.state, Number):
                keep &= self.state(atom.state, atom.label, members) >= 0
        return (members, parent) if keep.all() else (members.chosen(keep), parent[keep])

    def _about_something(self, signed: Signed, rows: Instances) -> Bools:
        """Return which rows have any variable."""
        node = signed.node
        if node is None:
            return np.zeros(len(rows), dtype=bool)
        if isinstance(node, Atom):
            return self.literal(node, rows, False)[0] >= 0
        over = node.over if node.op != "same" else ()
        inner, parent = self._members(node, rows, node.parts) if over else (rows, np.arange(len(rows)))
        out = np.zeros(len(rows), dtype=bool)
        for part in node.parts:
            out[parent[self._about_something(part, inner)]] = True
        return out

    def _columns(self, gate: Gate, rows: Instances, place: I64) -> RuleLiterals:
        """Return the literals of the parts of a gate."""
        over = gate.op != "same"
        inner, parent = self._members(gate, rows, gate.parts) if over else (rows, np.arange(len(rows)))
        columns = [self._compile(part, inner, place[parent]) for part in gate.parts]
        return RuleLiterals.of_columns(len(rows), parent, columns)

    def _compile(self, signed: Signed, rows: Instances, place: I64) -> Column:
        """Return a literal that is true where a formula is."""
        node = signed.node
        if node is None:
            nothing = np.full(len(rows), -1, dtype=np.int64)
            return nothing, np.zeros(len(rows), dtype=np.int64), np.full(len(rows), signed.negated)
        if isinstance(node, Atom):
            return self.literal(node, rows, signed.negated)
        bounds: list[I64] = []
        columns: list[Column] = []
        if node.op == "iff":
            columns = [self._compile(part, rows, place) for part in node.parts]
            literals = RuleLiterals.of_columns(len(rows), np.arange(len(rows)), columns)
        else:
            literals = self._columns(node, rows, place)
            bounds = self._bounds(node, rows)
        variable = self._auxiliary(node, rows)
        self.out.gates.append(GateStates(node, variable, literals, bounds, columns, rows))
        if node.op == "iff":
            self._define_iff(variable, columns, rows, place)
        elif node.op in ("any", "same"):
            self._define_any(variable, literals, rows, place)
        else:
            self._define_count(node, variable, literals, bounds, rows, place)
        return variable, np.full(len(rows), node.true_state, dtype=np.int64), np.full(len(rows), signed.negated)

    def _bounds(self, gate: Gate, rows: Instances) -> list[I64]:
        """Return the numbers at which the state of a gate changes."""
        if gate.op in ("any", "same"):
            return [np.ones(len(rows), dtype=np.int64)]
        if gate.op == "number":
            return [np.full(len(rows), k, dtype=np.int64) for k in range(1, gate.n_states)]
        bounds = []
        if gate.lower is not None:
            bounds.append(self.bound(gate.lower, rows)[0])
        if gate.upper is not None:
            bounds.append(self.bound(gate.upper, rows)[0] + 1)
        return bounds

    def _auxiliary(self, gate: Gate, rows: Instances) -> I64:
        """Return the auxiliary variable of a gate in each row."""
        assert gate.aux is not None
        counts = np.bincount(rows.owner, minlength=self.world.n)
        self.out.counts[gate.aux.name] = counts
        local = np.arange(len(rows)) - pointers(counts)[:-1][rows.owner]
        return local + self.start(gate.aux)[rows.owner]

    def _add(self, rows: Instances, place: I64, literals: RuleLiterals, lower: Any, upper: Any) -> None:
        """Add bounds on how many literals of each row are true."""
        n = literals.n
        low, high = (np.broadcast_to(np.asarray(one, dtype=np.int64), n) for one in (lower, upper))
        self.out.constraints.append(RuleBounds(rows.owner, place, literals, low, high))

    def _add_clause(self, rows: Instances, place: I64, columns: Sequence[Column]) -> None:
        """Add that one of some literals is true, in each row."""
        self._clause(RuleLiterals.of_columns(len(rows), np.arange(len(rows)), columns), rows, place)

    def _clause(self, literals: RuleLiterals, rows: Instances, place: I64) -> None:
        """Add that one of the literals of each row is true."""
        open_ = literals.true == 0
        counts = literals.counts
        if (open_ & (counts == 0)).any():
            raise self.infeasible(self.found, int(place[np.flatnonzero(open_ & (counts == 0))[0]]))
        single = open_ & (counts == 1)
        if single.any():
            self._mask(literals.chosen(single), rows.chosen(single), place[single])
        rest = open_ & (counts > 1)
        if rest.any():
            self._add(rows.chosen(rest), place[rest], literals.chosen(rest), 1, NO_BOUND)

    def _mask(self, literals: RuleLiterals, rows: Instances, place: I64) -> None:
        """Say that the only literal of each row is true."""
        of = literals.row
        self.out.masks.append((place[of], rows.owner[of], literals.variable, literals.state, literals.negated))

    def _define_any(self, variable: I64, literals: RuleLiterals, rows: Instances, place: I64) -> None:
        """Say that an auxiliary variable is 1 exactly where one of the literals is true."""
        always = literals.true > 0
        ones = np.ones(len(rows), dtype=np.int64)
        yes, no = np.zeros(len(rows), dtype=bool), np.ones(len(rows), dtype=bool)
        never = ~always & (literals.counts == 0)
        for which, negated in ((always, yes), (never, no)):
            if which.any():
                column = variable[which], ones[which], negated[which]
                self._add_clause(rows.chosen(which), place[which], [column])
        usual = ~always & ~never
        if not usual.any():
            return
        some, mine = literals.chosen(usual), variable[usual]
        of = some.row
        each = rows.chosen(usual).chosen(of)
        literal = some.variable, some.state, ~some.negated
        truth_of = mine[of], np.ones(len(of), dtype=np.int64), np.zeros(len(of), dtype=bool)
        self._add_clause(each, place[usual][of], [truth_of, literal])
        column = mine, np.ones(len(mine), dtype=np.int64), np.ones(len(mine), dtype=bool)
        self._clause(some.with_column(column), rows.chosen(usual), place[usual])

    def _define_iff(self, variable: I64, columns: list[Column], rows: Instances, place: I64) -> None:
        """Say that an auxiliary variable is 1 exactly where two literals are both true, or both false."""
        n = len(rows)
        yes = variable, np.ones(n, dtype=np.int64), np.zeros(n, dtype=bool)
        a, b = columns
        for clause in ([_not(yes), _not(a), b], [_not(yes), a, _not(b)], [yes, a, b], [yes, _not(a), _not(b)]):
            self._add_clause(rows, place, clause)

    def _define_count(
        self, gate: Gate, variable: I64, literals: RuleLiterals, bounds: list[I64], rows: Instances, place: I64
    ) -> None:
        """Say that the state of an auxiliary variable is how many bounds the number of true literals reaches."""
        n, m, c = literals.n, literals.counts, literals.true
        low = [np.zeros(n, dtype=np.int64), *bounds]
        high = [*(one - 1 for one in bounds), m + c]
        order = np.argsort(np.concatenate([literals.row, *[np.arange(n)] * len(low)]), kind="stable")
        states = [np.full(n, s, dtype=np.int64) for s in range(len(low))]
        joined = RuleLiterals(
            n,
            np.concatenate([literals.row, *[np.arange(n)] * len(low)])[order],
            np.concatenate([literals.variable, *[variable] * len(low)])[order],
            np.concatenate([literals.state, *states])[order],
            np.concatenate([literals.negated, *[np.zeros(n, dtype=bool)] * len(low)])[order],
            np.zeros(n, dtype=np.int64),
        )
        ones = np.ones(len(literals.row))
        for side, numbers in (("low", low), ("high", high)):
            clipped = [np.clip(one - c, 0 if side == "low" else -1, m + 1).astype(np.float64) for one in numbers]
            coefficient = np.concatenate([ones, *(-one for one in clipped)])[order]
            zero, infinite = np.zeros(n), np.full(n, np.inf)
            least, largest = (zero, infinite) if side == "low" else (-infinite, zero)
            self.out.constraints.append(RuleBounds(rows.owner, place, joined, least, largest, coefficient))

    # -- what is hard --------------------------------------------------------------------------------------------

    def _require(self, signed: Signed, rows: Instances, place: I64) -> None:
        """Say that a formula is true in each row."""
        node = signed.node
        if not isinstance(node, Gate):
            self._add_clause(rows, place, [self._compile(signed, rows, place)])
        elif node.op == "any" and signed.negated:
            inner, parent = self._members(node, rows, node.parts)
            for part in node.parts:
                self._require(part.flipped(), inner, place[parent])
        elif node.op == "any" or (node.op == "same" and signed.negated):
            if node.op == "same":  # none of "all have this class" is true
                for part in node.parts:
                    self._require(part.flipped(), rows, place)
            else:
                self._clause(self._columns(node, rows, place), rows, place)
        elif node.op == "same":
            self._require_same(node, rows, place)
        elif node.op == "iff":
            a, b = (self._compile(part, rows, place) for part in node.parts)
            b = _not(b) if signed.negated else b
            self._add_clause(rows, place, [_not(a), b])
            self._add_clause(rows, place, [a, _not(b)])
        else:
            self._require_count(node, signed, rows, place)

    def _require_count(self, node: Gate, signed: Signed, rows: Instances, place: I64) -> None:
        """Say that the number of true literals is within its bounds, or is not."""
        if signed.negated and node.n_states == 3:
            self._add_clause(rows, place, [self._compile(signed, rows, place)])
            return
        lower, upper = (None if one is None else self.bound(one, rows)[0] for one in (node.lower, node.upper))
        if signed.negated:
            lower, upper = (None if upper is None else upper + 1), (None if lower is None else lower - 1)
        literals = self._columns(node, rows, place)
        m, c = literals.counts, literals.true
        low = np.zeros(literals.n, dtype=np.int64) if lower is None else np.maximum(lower - c, 0)
        high = m if upper is None else np.minimum(upper - c, m)
        wrong = np.flatnonzero((low > m) | (high < 0))
        if len(wrong):
            raise self.infeasible(self.found, int(place[wrong[0]]))
        rest = (low > 0) | (high < m)
        if rest.any():
            some = literals.chosen(rest)
            self._add(rows.chosen(rest), place[rest], some, low[rest], np.where(high < m, high, NO_BOUND)[rest])

    def _require_same(self, node: Gate, rows: Instances, place: I64) -> None:
        """Say that all variables of each row have one class: each has that of the one before."""
        parts = [Signed(Atom(one, None)) for one in node.variables]
        inner, parent = self._members(node, rows, parts)
        listed = [(self.variable(one, inner), one.label) for one in node.variables]
        row = np.concatenate([parent] * len(listed))
        variable = np.concatenate([one[0][0] for one in listed])
        which = np.repeat(np.arange(len(listed)), len(parent))
        turned = np.concatenate([np.zeros(len(parent), bool) if one[0][1] is None else one[0][1] for one in listed])
        keep = variable >= 0
        row, variable, which, turned = (one[keep] for one in (row, variable, which, turned))
        order = np.lexsort((variable, row))
        row, variable, which, turned = (one[order] for one in (row, variable, which, turned))
        pair = np.flatnonzero((row[1:] == row[:-1]) & ((variable[1:] != variable[:-1]) | (turned[1:] != turned[:-1])))
        names = dict.fromkeys(
            name for one in node.variables for name in (one.label.classes or range(one.label.n_states))
        )
        owner = rows.chosen(row[pair])
        for name in names:
            first, second = (
                self._class_literal(name, listed, at, variable, which, np.asarray(turned)) for at in (pair, pair + 1)
            )
            self._add_clause(owner, place[row[pair]], [_not(first), second])

    def _class_literal(
        self, name: Any, listed: list[Any], at: I64, variable: I64, which: I64, turned: Bools
    ) -> Column:
        """Return the literals "this variable has the class of a name"."""
        state = np.zeros(len(at), dtype=np.int64)
        there = np.zeros(len(at), dtype=bool)
        for k, (_, label) in enumerate(listed):
            mine, number = which[at] == k, label.index(name)
            if number is not None:
                there |= mine
                other = number if label.converse is None else label.converse[number]
                state = np.where(mine, np.where(turned[at], other, number), state)
        return np.where(there, variable[at], -1), state, np.zeros(len(at), dtype=bool)


def _not(column: Column) -> Column:
    return column[0], column[1], ~column[2]


def own_atoms(signed: Signed) -> list[Atom]:
    """Return the literals of a formula that are not collected over indices."""
    node = signed.node
    if isinstance(node, Atom):
        return [node]
    if node is None or node.over:
        return []
    return [atom for part in node.parts for atom in own_atoms(part)]


def own_references(signed: Signed) -> list[LabelAt]:
    """Return the different variables of a formula that are not collected over indices."""
    return distinct_references(own_atoms(signed))


def distinct_references(atoms: Sequence[Atom]) -> list[LabelAt]:
    """Return the variables of some literals, each once."""
    references: list[LabelAt] = []
    for atom in atoms:
        if not any(same_reference(atom.reference, one) for one in references):
            references.append(atom.reference)
    return references


def top_atoms(rule: Any) -> list[Atom]:
    """Return the literals of a rule that are not collected over indices."""
    if isinstance(rule, LiteralAt):
        return [atom_of(rule)]
    if rule.over:
        return []
    if rule.op in OF_VARIABLES:
        return [Atom(one, None) for one in rule.given]
    return [atom for part in rule.given for atom in top_atoms(part)]


def top_bounds(rule: Any) -> list[Number]:
    """Return the bounds of a rule that come with the data, and are not collected over indices."""
    if isinstance(rule, LiteralAt):
        return []
    own = [rule.bound] if isinstance(rule.bound, Number) else []
    if rule.over or rule.op in OF_VARIABLES:
        return own
    return own + [bound for part in rule.given for bound in top_bounds(part)]


class TableGrounder(Grounder):
    """Lays a rule over some examples whose tables are not the same for all instances."""

    def run(self) -> tuple[Instances, list[RuleTables]]:
        """Return (instances, tables of those that have the same variables)."""
        rule = self.rule
        references = references_of(rule)
        outside = not isinstance(rule, Formula) or rule.outside
        bounds = top_bounds(rule)
        rows = self.instances(free_indices(rule), instance_condition(rule), top_atoms(rule), outside, bounds)
        variables = np.stack([self.variable(one, rows)[0] for one in references], axis=1)
        literals = [one for one in formulas_of(rule) if isinstance(one, LiteralAt)]
        columns = [self.literal(atom_of(one), rows, False) for one in literals]
        numbers = [np.where(variable < 0, -1, state) for variable, state, _ in columns]
        numbers += [self.bound(one, rows)[0] for one in bounds]
        key = np.column_stack([variables < 0, *numbers]).astype(np.int64)
        kinds, kind_of = np.unique(key, axis=0, return_inverse=True)
        kind_of = kind_of.reshape(-1)
        masks, mask_of = np.unique(kinds[:, : len(references)], axis=0, return_inverse=True)
        out = []
        for k, missing in enumerate(masks.astype(bool)):
            mine = np.flatnonzero(mask_of.reshape(-1) == k)
            there = [one for one, gone in zip(references, missing, strict=True) if not gone]
            tables = [self._table(literals, bounds, there, kinds[kind][len(references) :]) for kind in mine]
            chosen = np.flatnonzero(np.isin(kind_of, mine))
            rank = np.searchsorted(mine, kind_of[chosen])
            cards = tuple(one.label.n_states for one in there)
            true = np.stack(tables).reshape(len(tables), -1)
            out.append(RuleTables(chosen, variables[chosen][:, ~missing], rank, cards, true, np.flatnonzero(~missing)))
        return rows, out

    def _table(self, literals: list[LiteralAt], bounds: list[Any], there: list[LabelAt], key: I64) -> Bools:
        """Return where the rule is true, over the joint states of the variables that exist."""
        cards = tuple(one.label.n_states for one in there)
        grid = np.indices(cards, sparse=True)
        number_of = {id(one): int(key[k]) for k, one in enumerate(literals)}
        bound_of = {id(one): int(key[len(literals) + k]) for k, one in enumerate(bounds)}

        def states(reference: LabelAt) -> Any:
            return next((grid[k] for k, one in enumerate(there) if same_reference(one, reference)), None)

        def bound(value: Any) -> int:
            return int(bound_of.get(id(value), value))

        values = truth(self.rule, states, lambda literal: number_of[id(literal)], bound)
        return np.array(np.broadcast_to(values, cards))


@dataclass(frozen=True, eq=False)
class RuleTables:
    """Instances of a rule that have the same variables, and where it is true.

    Parameters
    ----------
    place : ndarray of int64, shape (m,)
        The instances.
    variables : ndarray of int64, shape (m, r)
    table : ndarray of int64, shape (m,)
        The table of each.
    cards : tuple of int
    true : ndarray of bool, shape (n_tables, prod(cards))
    there : ndarray of int64, shape (r,)
        Which of the variables of the rule they are.
    """

    place: I64
    variables: I64
    table: I64
    cards: tuple[int, ...]
    true: Bools
    there: I64


class KindGrounder(Grounder):
    """Lays a structure or a sum over some examples: one constraint for each assignment of its other indices."""

    def __init__(
        self, rule: RuleOfKind, domains: dict[str, Any], world: World, start: Callable[[Label], I64]
    ) -> None:
        super().__init__(rule.name, rule.formula, domains, world, start)
        self.of_kind = rule

    def group(self, of: I32) -> ConstraintGroup:
        """Return the constraints over all examples, whose shapes are given."""
        rule, world = self.of_kind, self.world
        mine = [one for one in conjuncts(rule.condition) if not self._collected(one)]
        others = [one for one in conjuncts(rule.condition) if self._collected(one)]
        rows = find_instances(rule.free, conjunction(tuple(mine)), [], world, f"rule '{rule.name}'")
        read = {name: one for name, one in rule.meta if isinstance(one, Number) and rule.kind != "transport"}
        for value in read.values():
            known = rows.number(value)[1]
            rows = rows if known is None or known.all() else rows.chosen(known)
        whole = rule.kind == "matching"
        bounds = {name: (self.bound(one, rows) if whole else rows.number(one))[0] for name, one in read.items()}
        owner, columns, parts = [], [], []
        for formula, coefficient in rule.terms:
            negated = isinstance(formula, Formula)
            atom = atom_of(formula.given[0] if negated else formula)
            over = tuple(one for one in rule.over if any(one is index for index in free_indices(formula)))
            where, places = conjunction(tuple(others)), _places(atom.reference)
            inner, parent = extend_instances(rows, over, where, places, f"rule '{rule.name}'")
            variable, state, sign = self.literal(atom, inner, negated)
            keep = variable >= 0
            if rule.kind in ("path", "circuit"):
                keep &= inner.columns[id(rule.over[0])] != inner.columns[id(rule.over[1])]
            number, known = inner.number(coefficient)
            keep &= True if known is None else known
            owner.append(parent[keep])
            columns.append((variable[keep], state[keep], sign[keep], np.asarray(number, dtype=np.float64)[keep]))
            parts.append(inner.chosen(keep))
        row = np.concatenate(owner)
        order = np.argsort(row, kind="stable")
        variable, state, sign, number = (np.concatenate([one[k] for one in columns])[order] for k in range(4))
        lengths = np.bincount(row, minlength=len(rows))
        chosen = members(pointers(np.bincount(rows.owner, minlength=world.n)), of)
        inner_ = members(pointers(lengths), chosen)
        literal_meta: dict[str, NDArray[Any]] = {}
        if rule.kind == "linear":
            literal_meta["coefficient"] = number[inner_]
        else:
            names = ("tail", "head") if rule.kind in ("path", "circuit") else ("row", "col")
            for name, index in zip(names, rule.over, strict=True):
                literal_meta[name] = parts[0].columns[id(index)][order][inner_].astype(np.int32)
        if rule.kind == "transport":
            self._require_pairs(rows, parts[0], row)
            literal_meta |= {name: self._limit(name, one, parts[0])[order][inner_] for name, one in rule.meta}
        meta = {name: values[chosen] for name, values in self._meta(rows, bounds).items()}
        return ConstraintGroup(
            kind=rule.kind, name=rule.name, ptr=pointers(np.bincount(rows.owner, minlength=world.n)[of]),
            literal_ptr=pointers(lengths[chosen]), variable=variable[inner_].astype(np.int32),
            state=state[inner_].astype(np.int32), negated=sign[inner_].astype(bool), meta=meta,
            literal_meta=literal_meta, places=_places_of(rule.free, rows, chosen),
        )  # fmt: skip

    def _limit(self, name: str, value: Any, rows: Instances) -> I64:
        """Return how often a row or column is matched at most, or at least; no limit where it reads no position."""
        numbers, known = self.bound(value, rows)
        return numbers if known is None else np.where(known, numbers, 0 if name.endswith("least") else NO_BOUND)

    def _require_pairs(self, found: Instances, literals: Instances, of: I64) -> None:
        """Refuse rows and columns that are to be matched, and have no pair.

        Raises
        ------
        InfeasibleError
        """
        for index, name in zip(self.of_kind.over, ("row_least", "col_least"), strict=True):
            value = dict(self.of_kind.meta)[name]
            if value == 0:
                continue
            lines, parent = extend_instances(found, (index,), None, [], f"rule '{self.name}'")
            size = int(self.world.size(index.dim).max(initial=1))
            there = np.isin(parent * size + lines.columns[id(index)], of * size + literals.columns[id(index)])
            wrong = np.flatnonzero(~there & (self._limit(name, value, lines) > 0))
            if len(wrong):
                raise self.infeasible(found, int(parent[wrong[0]]))

    def diagonal(self) -> tuple[I64, Column]:
        """Return (example, literal) of each arc from a node to itself, which is false."""
        rule = self.of_kind
        formula = rule.terms[0][0]
        negated = isinstance(formula, Formula)
        rows = find_instances(free_indices(formula), None, [], self.world, f"rule '{rule.name}'")
        rows = rows.chosen(rows.columns[id(rule.over[0])] == rows.columns[id(rule.over[1])])
        variable, state, sign = self.literal(atom_of(formula.given[0] if negated else formula), rows, not negated)
        there = variable >= 0
        return rows.owner[there], (variable[there], state[there], sign[there])

    def _collected(self, condition: Any) -> bool:
        return any(one is other for one in indices_of(condition) for other in self.of_kind.over)

    def _meta(self, rows: Instances, bounds: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the numbers of the kind for each constraint."""
        rule, n = self.of_kind, len(rows)
        meta: dict[str, NDArray[Any]] = {}
        if rule.kind == "linear":
            for name, none in (("lower", -np.inf), ("upper", np.inf)):
                value = dict(rule.meta)[name]
                given = none if value is None else bounds.get(name, value)
                meta[name] = np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), n))
            return meta
        sizes = [self.world.size(one.dim)[rows.owner] for one in rule.over]
        if rule.kind in ("matching", "transport"):
            meta["n_rows"], meta["n_cols"] = sizes
        else:
            meta["n_nodes"] = sizes[0]
        if rule.kind == "transport":  # each literal has the numbers of its row and column
            return meta
        for name, value in rule.meta:
            if name == "all_nodes":
                meta[name] = np.full(n, bool(value))
            else:
                numbers = bounds[name] if name in bounds else np.full(n, value, dtype=np.int64)
                route = rule.kind == "path"
                meta[name] = np.where(numbers < 0, numbers + sizes[0], numbers) if route else numbers
        return meta


# -- over the examples of a batch --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AuxiliaryCounts:
    """How many auxiliary variables of a gate each example has, stored once for each shape.

    Parameters
    ----------
    of : ndarray of int32, shape (B,)
    each : ndarray of int64, shape (K,)
    """

    of: I32
    each: I64

    @property
    def counts(self) -> I64:
        """Variables of each example; ``shape (B,)``."""
        return np.asarray(self.each[self.of])

    def chosen(self, examples: I64) -> AuxiliaryCounts:
        """Return those of some examples."""
        return AuxiliaryCounts(self.of[examples], self.each)


def auxiliary_counts(circuit: RuleCircuit, domains: dict[str, Any], examples: Examples) -> dict[str, AuxiliaryCounts]:
    """Return how many auxiliary variables each gate of a rule has in each example."""
    names = sorted({dim.name for dim in circuit.all_axes})
    columns: list[NDArray[Any]] = [examples.sizes[name] for name in names]
    columns += [first_of_each(map(content_key, examples.raw[one.name]))[0] for one in circuit.inputs]
    of, chosen = kinds_of_rows(columns, examples.n)
    world = world_of(circuit.inputs, examples, chosen)
    known = {name: domain.chosen(chosen) for name, domain in domains.items()}
    # where labels begin is not known yet, and makes no difference as long as they are apart
    apart = {label.name: np.full(len(chosen), k << 40) for k, label in enumerate(circuit.laid_labels)}
    ground = CircuitGrounder(circuit, known, world, lambda label: apart[label.name]).run()
    return {name: AuxiliaryCounts(of, counts) for name, counts in ground.counts.items()}


def world_of(inputs: Sequence[Any], examples: Examples, chosen: I64) -> World:
    """Return what instances in some examples follow from."""
    sizes = {name: size[chosen] for name, size in examples.sizes.items()}
    raw: dict[str, Sequence[Any]] = {one.name: [examples.raw[one.name][i] for i in chosen] for one in inputs}
    return World(sizes, raw, len(chosen), chosen.tolist())


def constraint_groups(circuit: RuleCircuit, ground: GroundRule, of: I32, n_few: int) -> list[ConstraintGroup]:
    """Return the constraints of a rule over all examples.

    Parameters
    ----------
    circuit : RuleCircuit
    ground : GroundRule
        Over one example of each shape, with variables counted from the first one of their example.
    of : ndarray of int32, shape (B,)
        The shape of each example.
    n_few : int
        Number of shapes.
    """
    groups = []
    for kind in ("count", "linear"):
        parts = [one for one in ground.constraints if (one.coefficient is None) == (kind == "count")]
        if not parts:
            continue
        owner, place, lower, upper = (
            np.concatenate([getattr(one, key) for one in parts]) for key in ("owner", "place", "lower", "upper")
        )
        lengths = np.concatenate([one.literals.counts for one in parts])
        order = np.argsort(owner, kind="stable")
        mine = order[members(pointers(np.bincount(owner, minlength=n_few)), of)]
        inner = members(pointers(lengths), mine)
        each = [np.concatenate([getattr(one.literals, key) for one in parts])[inner] for key in _OF_LITERALS]
        more: dict[str, Any] = {}
        if kind == "linear":
            numbers = [one.coefficient for one in parts if one.coefficient is not None]
            more["coefficient"] = np.concatenate(numbers)[inner]
        groups.append(
            ConstraintGroup(
                kind=kind, name=circuit.name, ptr=pointers(np.bincount(owner, minlength=n_few)[of]),
                literal_ptr=pointers(lengths[mine]), variable=each[0].astype(np.int32),
                state=each[1].astype(np.int32), negated=each[2].astype(bool),
                meta={"lower": lower[mine], "upper": upper[mine]}, literal_meta=more,
                places=_places_of(circuit.free, ground.found, place[mine]),
            )
        )  # fmt: skip
    return groups


#: Fields of literals that constraints have.
_OF_LITERALS = "variable", "state", "negated"
