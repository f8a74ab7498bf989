"""Names in the users' words: variables ``y[3]``, ``same[2, 7]``, ``head[4] -> 1``; where factors and rules are."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.rules import GateStates, GroundRule, instance_words
from ssvm_dsl.compiler.scopes import ground_scopes
from ssvm_dsl.ir.ragged import owner_of
from ssvm_dsl.lang.dims import indices_of
from ssvm_dsl.lang.outputs.agreements import Agreement
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.patterns.join import Instances
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.rules.circuits import RuleAux
from ssvm_dsl.lang.rules.formulas import numbers_of


def label_of(layout: Layout, variable: int) -> tuple[Label, int, int]:
    """Return (label, example, number in the label's array of that example) of a variable."""
    example = owner_of(layout.var_ptr, variable)
    for label in layout.declaration.labels:
        number = variable - int(layout.start(label)[example])
        if 0 <= number < int(layout.count(label)[example]):
            return label, example, number
    raise ValueError("a variable belongs to a label")


def variable_name(layout: Layout, variable: int) -> str:
    """Return the name of a variable; of an auxiliary one of a rule that of the rule, and where it is."""
    label, example, number = label_of(layout, variable)
    place = layout.place(label, example, number)
    if isinstance(label, Agreement):
        return f"{label.name.rpartition(': all ')[0]}, set {place[0]}"
    if isinstance(label, RuleAux) and (found := _gate(layout, label, example)) is not None:
        gate, first = found
        circuit = label.circuit
        whole = circuit.auxiliary[-1] is label and not circuit.hard
        name = circuit.name if whole else f"part {label.number + 1} of {circuit.name}"
        where = instance_words(indices_of(*numbers_of(circuit.rule)), gate.rows, first + number)
        return f"{name} at {where}" if where else name
    if label.pointer:
        return f"{label.name}[{', '.join(map(str, place[:-1]))}] -> {place[-1]}"
    return f"{label.name}[{', '.join(map(str, place))}]" if place else label.name


def instances_of(layout: Layout, target: Target, example: int) -> list[Instances | None]:
    """Return the values of index variables for the factors of an example, in the parts that they are grounded in.

    ``None`` where they have none, or have not been laid.
    """
    if not isinstance(target, Pattern) or target.word is not None:
        return [None]
    if target.count_reads_inputs and target not in layout.known_scopes:
        return [None]
    parts = ground_scopes(target, layout, Examples(layout.n, layout.sizes, {})).parts(target)
    found = [(one.scopes.found, one.scopes.shapes.factors(example)) for one in parts]
    return [None if rows is None else rows.chosen(mine) for rows, mine in found]


def variables_behind(layout: Layout, variable: int) -> list[int]:
    """Return the users' variables that an auxiliary one of a rule follows from; any other variable is its own."""
    label, example, number = label_of(layout, variable)
    found = _gate(layout, label, example) if isinstance(label, RuleAux) else None
    if found is None:
        return [variable]
    gate, first = found
    row, variables = gate.variables()
    base = int(layout.var_ptr[example])
    inner = [base + v for v in variables[row == first + number].tolist()]
    return list(dict.fromkeys(behind for one in inner for behind in variables_behind(layout, one)))


def _gate(layout: Layout, label: RuleAux, example: int) -> tuple[GateStates, int] | None:
    """Return (the gate of auxiliary variables, its first row in the example); ``None`` where it has not been laid."""
    found = layout.known_scopes.get(label.circuit)
    if found is None:
        return None
    ground: GroundRule = found[0]
    for gate in ground.gates:
        if gate.gate.aux is label:
            return gate, int(np.searchsorted(gate.rows.owner, int(found[1][example])))
    return None
