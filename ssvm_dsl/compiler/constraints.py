"""Lay hard constraints over all examples: which literals each of them has, and the numbers that come with the data.

The literals follow from axis sizes; they are worked out once for each combination of sizes that occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.inputs import Examples, stack_dense
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.rules import KindGrounder, constraint_groups
from ssvm_dsl.compiler.scopes import few_examples, ground_scopes, lay_circuit
from ssvm_dsl.errors import DataError, InfeasibleError, TooLargeError
from ssvm_dsl.ir.constraints import ConstraintGroup, CustomOracle
from ssvm_dsl.ir.ragged import members, owners, pointers, positions
from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.constraints.logic import NO_BOUND, Constraint, EdgeEnd, Literal, Parameter, Sum
from ssvm_dsl.lang.constraints.relations import PairRelation
from ssvm_dsl.lang.constraints.structures import CUSTOM_EXACT, Custom
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.rules.circuits import RuleCircuit
from ssvm_dsl.lang.symbols import show

#: Bytes of a literal and of a constraint, without what their kinds need to know.
LITERAL_BYTES, CONSTRAINT_BYTES = 9, 8

#: Bytes of a number that a kind needs, and of one that is a position or a sum of them, of a literal.
NUMBER_BYTES, POSITION_BYTES = 8, 4


def lower_constraints(declaration: Declaration, layout: Layout, examples: Examples) -> tuple[ConstraintGroup, ...]:
    """Return the constraints of a model, grounded on the examples.

    Raises
    ------
    DataError
        A number that comes with an example cannot be used; names input and example.
    TooLargeError
        There are more literals than 32 bits can number.
    """
    groups = [
        _relations(one, layout, examples) if isinstance(one, PairRelation) else _group(one, layout, examples)
        for one in declaration.constraints
    ]
    for circuit in declaration.circuits:
        ground, of, few = lay_circuit(circuit, layout, examples)
        groups += constraint_groups(circuit, ground, of, few.n)
    for rule in declaration.rules_of_kinds:
        of, few, world = few_examples(rule, layout, examples)
        groups.append(KindGrounder(rule, few.domains, world, few.start_inside).group(of))
    return tuple(groups)


def constraint_sizes(constraint: Constraint, layout: Layout) -> tuple[int, int, int]:
    """Return (constraints, literals, bytes) of a symbol over all examples."""
    none = np.zeros(layout.n)
    n, literals = (float((none + count).sum()) for count in constraint.count(layout.sizes))
    if literals > MOST:
        text = f"constraint '{constraint.name}': {literals:.3g} literals in {layout.n} examples, {MOST} are the most"
        raise TooLargeError(f"{text}; pass fewer examples at a time")
    numbers = (sum(map(_number_bytes, one)) for one in constraint.literal_meta)
    per_literal = LITERAL_BYTES + max(numbers, default=0)
    n_bytes = n * (CONSTRAINT_BYTES + NUMBER_BYTES * len(constraint.meta)) + literals * per_literal
    return int(n), int(literals), int(n_bytes) + 8 * layout.n


def circuit_size(circuit: RuleCircuit, layout: Layout, examples: Examples) -> tuple[float, float]:
    """Return (bytes, literals) of the constraints of a rule over all examples, and of what is kept of each shape."""
    ground, of, few = lay_circuit(circuit, layout, examples)
    n_bytes, literals = sum(float(gate.literals.n_bytes) for gate in ground.gates), 0.0
    for one in ground.constraints:
        n_bytes += one.literals.n_bytes
        n = float(np.bincount(one.owner, minlength=few.n)[of].sum())
        mine = float(np.bincount(one.owner[one.literals.row], minlength=few.n)[of].sum())
        n_bytes += n * (CONSTRAINT_BYTES + 2 * NUMBER_BYTES + POSITION_BYTES * len(circuit.free))
        n_bytes += mine * (LITERAL_BYTES + NUMBER_BYTES * (one.coefficient is not None))
        literals += mine
    return n_bytes, literals


def _number_bytes(parameter: Parameter) -> int:
    return POSITION_BYTES if isinstance(parameter.value, Dim | Sum | EdgeEnd) else NUMBER_BYTES


def free_variables(groups: tuple[ConstraintGroup, ...], layout: Layout) -> Bools:
    """Return which variables constraints are about; ``ndarray of bool, shape (V,)``."""
    out = np.zeros(int(layout.var_ptr[-1]), dtype=bool)
    for group in groups:
        first = layout.var_ptr[:-1][group.example_of[group.constraint_of]]
        out[first + group.variable] = True
    return out


@dataclass(frozen=True, eq=False)
class _LiteralPattern:
    """The literals of one example: S constraints of L literals each.

    Parameters
    ----------
    n : int
        S.
    variable : ndarray of int64, shape (S, L)
        Counted from the example's first variable.
    of : ndarray of int64, shape (L,)
        Which of the written literals each one belongs to.
    slices : dict of str to ndarray of int64, shape (S,)
        The position of each constraint on the axes it runs along.
    places : dict of str to ndarray of int64, shape (S, L)
        The position of each literal on every axis; 0 on those it does not have.
    sizes : mapping of str to int
        Axis sizes.
    """

    n: int
    variable: I64
    of: I64
    slices: dict[str, I64]
    places: dict[str, I64]
    sizes: Mapping[str, int]

    @classmethod
    def of_sizes(cls, constraint: Constraint, sizes: Mapping[str, int], start: Mapping[str, int]) -> _LiteralPattern:
        """Return the literals of an example whose axes have these sizes and whose labels start there."""
        along = [dim.name for dim in constraint.along]
        slices = _positions(along, sizes)
        n = prod(sizes[name] for name in along)
        names = list(dict.fromkeys([*along, *(dim.name for one in constraint.literals for dim in one.label.dims)]))
        parts = [_spread(one, along, slices, n, sizes, start, names) for one in constraint.literals]
        variable = np.concatenate([part[0] for part in parts], axis=1)
        places = {name: np.concatenate([part[1][name] for part in parts], axis=1) for name in names}
        of = np.repeat(np.arange(len(parts)), [part[0].shape[1] for part in parts])
        return cls(n, variable, of, slices, places, sizes)

    def positions(self, values: list[Sum]) -> I32:
        """Return for each literal the sum of positions and sizes that belongs to the written one."""
        out = np.empty(self.variable.shape, dtype=np.int32)
        ends = pointers(np.bincount(self.of, minlength=len(values))).tolist()  # written ones stand one after the other
        for value, lo, hi in zip(values, ends[:-1], ends[1:], strict=True):
            out[:, lo:hi] = value.plus + sum(self.sizes[dim.name] for dim in value.sizes)
            for dim in value.positions:
                out[:, lo:hi] += self.places[dim.name][:, lo:hi].astype(np.int32)
        return out.ravel()

    def rows(self, source: Input, where: Mapping[str, I64], shape: tuple[int, ...]) -> I64:
        """Return the row of an input at each of some positions."""
        flat = np.zeros(shape, dtype=np.int64)
        for dim in source.dims:
            flat = flat * self.sizes[dim.name] + where[dim.name]
        return flat


def _positions(names: list[str], sizes: Mapping[str, int]) -> dict[str, I64]:
    """Return the coordinates of all positions on some axes, in C order."""
    grid = np.indices([sizes[name] for name in names]).reshape(len(names), prod(sizes[name] for name in names))
    return dict(zip(names, grid.astype(np.int64, copy=False), strict=True))


def _spread(
    literal: Literal,
    along: list[str],
    slices: Mapping[str, I64],
    n: int,
    sizes: Mapping[str, int],
    start: Mapping[str, int],
    names: list[str],
) -> tuple[I64, dict[str, I64]]:
    """Return (variables, coordinates) of one written literal in each of n constraints; ``shape (n, r)``."""
    dims = [dim.name for dim in literal.label.dims]
    own = _positions([name for name in dims if name not in along], sizes)
    r = prod(sizes[name] for name in own)
    places = {name: np.zeros((n, r), dtype=np.int64) for name in names}
    for name in along:
        places[name] += slices[name][:, None]
    for name, at in own.items():
        places[name] += at
    flat = np.zeros((n, r), dtype=np.int64)
    for name in dims:
        flat = flat * sizes[name] + places[name]
    return start[literal.label.name] + flat, places


def _group(constraint: Constraint, layout: Layout, examples: Examples) -> ConstraintGroup:
    constraint_sizes(constraint, layout)  # refuses what is too large
    patterns, of = _patterns(constraint, layout)
    counts = np.array([one.n for one in patterns], dtype=np.int64)
    lengths = np.array([one.variable.shape[1] for one in patterns], dtype=np.int64)
    literal_ptr = pointers(np.repeat(lengths[of], counts[of]))
    inner = positions(pointers(counts * lengths), of)  # each example's literals among those of all patterns

    def each(parts: list[NDArray[Any]]) -> NDArray[Any]:
        return (np.concatenate(parts) if len(parts) > 1 else parts[0])[inner]

    written = each([np.tile(one.of, one.n) for one in patterns])
    states = np.array([_state(one) for one in constraint.literals], dtype=np.int32)
    negated = np.array([one.negated for one in constraint.literals], dtype=bool)
    values = _Values(constraint, examples, patterns, of, counts, counts * lengths)
    label = constraint.judged_label
    shared, rules = ({}, None) if label is None else structure_of(label).rules(label)
    literal_meta = {
        one.name: values.of_literals(place, written)
        for place, one in enumerate(constraint.literal_meta[0] if constraint.literal_meta else ())
    }
    if constraint.kind == "transport":
        _require_literals(constraint, layout, examples)
    return ConstraintGroup(
        kind=constraint.kind,
        name=constraint.name,
        ptr=pointers(counts[of]),
        literal_ptr=literal_ptr,
        variable=each([one.variable.ravel() for one in patterns]).astype(np.int32),
        state=states[written],
        negated=negated[written],
        meta={one.name: values.of_constraints(one) for one in constraint.meta},
        literal_meta=literal_meta,
        oracle=_custom_oracle(constraint) if isinstance(constraint, Custom) else None,
        rules=rules,
        shared=shared,
        places=_places(constraint, patterns, members(pointers(counts), of)),
    )


def _places(constraint: Constraint, patterns: list[_LiteralPattern], chosen: I64) -> dict[str, I32]:
    """Return where constraints are on the axes that they run along."""
    names = [dim.name for dim in constraint.along]
    return {name: np.concatenate([one.slices[name] for one in patterns])[chosen].astype(np.int32) for name in names}


def _relations(constraint: PairRelation, layout: Layout, examples: Examples) -> ConstraintGroup:
    """Return the relations of a symbol: one for each assignment of the indices that are not of its pairs."""
    constraint_sizes(constraint, layout)  # refuses what is too large
    scopes, label = ground_scopes(constraint.pattern, layout, examples), constraint.labels[0]
    shapes, instances = scopes.shapes, scopes.found
    assert instances is not None
    shape = owners(shapes.start)  # of each literal of the different examples
    first, second = (instances.position(one, one.dim)[0] for one in constraint.pair)
    columns = [shape, *(instances.position(one, one.dim)[0] for one in constraint.others)]
    keys, relation = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    relation = relation.reshape(-1)
    order = np.argsort(relation, kind="stable")
    counts = np.bincount(keys[:, 0], minlength=shapes.n_shapes)  # relations of each shape
    lengths = np.bincount(relation, minlength=len(keys))  # literals of each relation
    state = np.full(len(shape), constraint.state, dtype=np.int32)
    if label.symmetric and label.converse is not None:  # a variable stands where its positions increase
        state[first > second] = label.converse[constraint.state]
    chosen = members(pointers(counts), shapes.of)  # relations of all examples
    literals = order[members(pointers(lengths), chosen)]
    n_items = scopes.sizes[constraint.pair[0].dim.name][keys[:, 0]]
    return ConstraintGroup(
        kind=constraint.kind,
        name=constraint.name,
        ptr=pointers(counts[shapes.of]),
        literal_ptr=pointers(lengths[chosen]),
        variable=np.ascontiguousarray(shapes.scope[literals, 0]),
        state=state[literals],
        negated=np.zeros(len(literals), dtype=bool),
        meta={"n_items": n_items[chosen].astype(np.int64)},
        literal_meta={"first": first[literals].astype(np.int32), "second": second[literals].astype(np.int32)},
        places={show(one): keys[chosen, k + 1].astype(np.int32) for k, one in enumerate(constraint.others)},
    )


def _require_literals(constraint: Constraint, layout: Layout, examples: Examples) -> None:
    """Refuse examples without columns whose rows are to be matched, and the other way round.

    Raises
    ------
    InfeasibleError
        Names the first such example.
    """
    sizes = {one.name: one.value.name for one in constraint.meta if isinstance(one.value, Dim)}
    for parameter in constraint.literal_meta[0]:
        side, _, bound = parameter.name.partition("_")
        if bound != "least":
            continue
        other, value = sizes["n_cols" if side == "row" else "n_rows"], parameter.value
        for i in np.flatnonzero((layout.sizes[other] == 0) & (layout.sizes[sizes[f"n_{side}s"]] > 0)).tolist():
            least = np.max(examples.raw[value.name][i], initial=0) if isinstance(value, Input) else value
            if isinstance(least, int | float | np.number) and least > 0:
                text = f"example {i} has no labelling: constraint '{constraint.name}' wants {parameter.name} of up to"
                raise InfeasibleError(f"{text} {least:g}, and {other} is 0")


def _custom_oracle(constraint: Custom) -> CustomOracle:
    """Return the record of the user's class."""
    (label,), ref = constraint.labels, constraint.ref
    assert ref.function is not None
    sizes = tuple(dim.size or 0 for dim in label.dims)
    exact = constraint.kind == CUSTOM_EXACT
    return CustomOracle(ref.path, ref.function, constraint.options, sizes, label.n_states, exact)


def _state(literal: Literal) -> int:
    """Return the state that a literal is about."""
    assert literal.target.state is not None
    return literal.label.index(literal.target.state) or 0


def _patterns(constraint: Constraint, layout: Layout) -> tuple[list[_LiteralPattern], I64]:
    """Return the different patterns, and which one each example has."""
    labels = {label.name: label for label in constraint.labels}
    names = sorted({dim.name for label in labels.values() for dim in label.dims} | {a.name for a in constraint.axes})
    starts = [layout.start_inside(label) for label in labels.values()]
    columns = np.stack([*(layout.sizes[name] for name in names), *starts], axis=1)
    rows, of = np.unique(columns, axis=0, return_inverse=True)
    made = []
    for row in rows.tolist():
        sizes, start = row[: len(names)], row[len(names) :]
        sized, started = dict(zip(names, sizes, strict=True)), dict(zip(labels, start, strict=True))
        made.append(_LiteralPattern.of_sizes(constraint, sized, started))
    return made, of.reshape(-1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Values:
    """Reads the numbers that a kind needs, for each constraint and for each literal of the batch."""

    constraint: Constraint
    examples: Examples
    patterns: list[_LiteralPattern]
    of: I64
    counts: I64
    literals: I64

    def of_constraints(self, parameter: Parameter) -> NDArray[Any]:
        """Return a number for each constraint."""
        numbers = self._constraints(parameter)
        return numbers if parameter.below is None else self._positions(parameter, parameter.below, numbers)

    def _positions(self, parameter: Parameter, axis: Dim, numbers: I64) -> I64:
        """Return numbers that are positions on an axis, those below 0 counted from its end.

        Raises
        ------
        DataError
            There is no such position.
        """
        example = np.repeat(np.arange(len(self.of)), self.counts[self.of])
        sizes = self.examples.sizes[axis.name][example]
        placed = np.where(numbers < 0, numbers + sizes, numbers)
        wrong = np.flatnonzero((placed < 0) | (placed >= sizes))
        if len(wrong):
            k = int(wrong[0])
            what = f"constraint '{self.constraint.name}'"
            expected = f"{parameter.name}: a position in 0..{sizes[k] - 1} ({axis.name}={sizes[k]})"
            raise DataError(what, example=int(example[k]), expected=expected, found=str(numbers[k]))
        return placed

    def _constraints(self, parameter: Parameter) -> NDArray[Any]:
        value, n = parameter.value, int(self.counts[self.of].sum())
        if isinstance(value, Input):
            rows = [one.rows(value, one.slices, (one.n,)) for one in self.patterns]
            return self._read(parameter, rows, self.counts, np.arange(n))
        if isinstance(value, Dim | Sum):
            added = Sum(sizes=(value,)) if isinstance(value, Dim) else value
            sums = [added.plus + sum(one.sizes[dim.name] for dim in added.sizes) for one in self.patterns]
            return np.repeat(np.array(sums, dtype=np.int64)[self.of], self.counts[self.of])
        return np.full(n, value, dtype=_dtype(parameter))

    def of_literals(self, place: int, written: I64) -> NDArray[Any]:
        """Return the number for each literal that stands at a place among those of the written literals."""
        placed = [one[place].value for one in self.constraint.literal_meta]
        sums = [Sum((value,)) if isinstance(value, Dim) else value for value in placed]
        if all(isinstance(value, Sum) for value in sums):  # the same in all examples of equal sizes
            places_of = [one.positions([value for value in sums if isinstance(value, Sum)]) for one in self.patterns]
            return np.concatenate(places_of)[positions(pointers(self.literals), self.of)]
        chosen = [np.flatnonzero(written == number) for number in range(len(self.constraint.literals))]
        parts = [
            self._literals(of_literal[place], mine)
            for of_literal, mine in zip(self.constraint.literal_meta, chosen, strict=True)
        ]
        out = np.empty(len(written), dtype=np.result_type(*parts))
        for mine, part in zip(chosen, parts, strict=True):
            out[mine] = part
        return out

    def _literals(self, parameter: Parameter, mine: I64) -> NDArray[Any]:
        """Return the number for some of the literals, all of the same written one."""
        value = parameter.value
        if isinstance(value, Input):
            rows = [one.rows(value, one.places, one.variable.shape).ravel() for one in self.patterns]
            return self._read(parameter, rows, self.literals, mine)
        if isinstance(value, EdgeEnd):
            lists = self.examples.raw[value.edges.name]
            rows = [one.places[value.edges.dim.name].ravel() for one in self.patterns]
            sizes = np.array([len(edges) for edges in lists], dtype=np.int64)
            return self._at(np.concatenate(lists)[:, value.end], sizes, rows, self.literals, mine).astype(np.int32)
        return np.full(len(mine), value, dtype=_dtype(parameter))

    def _read(self, parameter: Parameter, rows: list[I64], lengths: I64, mine: I64) -> NDArray[Any]:
        """Return numbers of an input for some of the constraints or literals, at rows counted in each example."""
        value = parameter.value
        assert isinstance(value, Input)
        sizes, numbers = self.examples.size(value.dims), stack_dense(value, self.examples)[:, 0]
        if parameter.whole:
            _check_counts(parameter, value, numbers, sizes)
        return self._at(numbers, sizes, rows, lengths, mine).astype(_dtype(parameter))

    def _at(
        self, numbers: NDArray[Any], sizes: I64, rows: list[I64], lengths: I64, mine: I64
    ) -> NDArray[Any]:
        """Return entries of numbers that each example has so many of, at rows counted in each example."""
        local = np.concatenate(rows)[members(pointers(lengths), self.of)[mine]]
        base = np.repeat(pointers(sizes)[:-1], lengths[self.of])[mine]
        return np.asarray(numbers[base + local])


def _dtype(parameter: Parameter) -> type:
    if isinstance(parameter.value, bool):
        return np.bool_
    return np.int64 if parameter.whole else np.float64


def _check_counts(parameter: Parameter, source: Input, numbers: F64, sizes: I64) -> None:
    """Refuse values that are not a number of literals, or not a position."""
    wrong = np.flatnonzero((numbers < 0) | (numbers != np.floor(numbers)) | (numbers >= NO_BOUND))
    if len(wrong):
        example = int(np.searchsorted(pointers(sizes), wrong[0], side="right")) - 1
        role = "how many literals are true" if parameter.below is None else f"a position on {parameter.below.name}"
        expected, found = f"a whole number of at least 0 ({role})", f"{numbers[wrong[0]]:g}"
        raise DataError(f"input '{source.name}'", example=example, expected=expected, found=found)
