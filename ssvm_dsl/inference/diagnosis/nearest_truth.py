"""Which examples have labels that the model rules out, by rules or constraints, and the feasible ones next to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.layout import EncodedLabels, Layout
from ssvm_dsl.compiler.variable_names import label_of, variable_name
from ssvm_dsl.errors import DataError, InfeasibleError, NoLabellingError
from ssvm_dsl.inference.diagnosis.feasible_truth import broken_constraints_of, closest, completed, unknown_variables
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import members, owners
from ssvm_dsl.ir.solution import Primal, Stop
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.registry import registry


@dataclass(frozen=True, eq=False)
class NearestTruth:
    """Labels in which those that could not be learnt are replaced.

    Parameters
    ----------
    labels : EncodedLabels
    n_changed : int
        How many known labels (of positions, pairs or pointers) changed.
    n_unproved : int
        Of how many examples time was up before the labels were proved nearest.
    """

    labels: EncodedLabels
    n_changed: int
    n_unproved: int


def infeasible_examples(grounded: Grounded) -> I64:
    """Return the examples whose known labels masks, rules or constraints rule out, whatever the unknown ones are.

    Parameters
    ----------
    grounded : Grounded
        With the truth and with all variables (``whole``).
    """
    program, truth = with_rules(grounded.program, registry()), grounded.truth
    assert truth is not None
    unknown, owner = unknown_variables(grounded), owners(program.var_ptr)
    ruled_out = np.zeros(program.n_variables, dtype=bool)
    if program.allowed is not None:
        ruled_out = ~program.allowed[program.state_ptr[:-1] + truth]
    broken = _examples(owner, ruled_out & ~unknown, program.n_examples)
    doubtful = _examples(owner, ruled_out & unknown, program.n_examples)
    contradictions, about_unknown = broken_constraints_of(grounded, program, unknown)
    broken[[one.example for one in contradictions]] = True
    tables = _hard_tables(grounded)
    doubtful |= about_unknown | _forbidden(grounded, truth)
    sure = _examples(owner, unknown, program.n_examples) == 0
    broken |= doubtful & sure
    examples = np.flatnonzero(doubtful & ~broken)
    clamp = np.where(unknown, np.int32(-1), truth)
    broken[examples[~completed(program, truth, clamp, examples, tables)]] = True
    return np.flatnonzero(broken)


def nearest_truth(grounded: Grounded, examples: I64) -> NearestTruth:
    """Return the labels with those of some examples replaced by the feasible ones that differ least from them.

    The least number of variables that differ is found exactly, unless the call at hand runs out of time; of segments,
    that of wrong classes and beginnings.

    Parameters
    ----------
    grounded : Grounded
        As for :func:`infeasible_examples`.
    examples : ndarray of int64

    Raises
    ------
    InfeasibleError
        An example has no feasible labelling at all.
    NoLabellingError
        Time was up before there was one for an example.
    """
    program, truth = with_rules(grounded.program, registry()), grounded.truth
    assert truth is not None
    layout, unknown = grounded.layout, unknown_variables(grounded)
    price = (~unknown & ~layout.auxiliary).astype(np.float64)
    for label in layout.declaration.outputs:
        if label.segments is not None and not layout.declaration.compact:
            price[layout.variables(label.spans)] = 0.0
    solution = closest(program, _hard_tables(grounded), price, truth, None, examples)
    without = np.flatnonzero(solution.primal != Primal.FEASIBLE)
    if len(without) and (late := without[solution.stop[without] == Stop.TIME]).size:
        text = f"Y, example {int(examples[late[0]])}: time was up before any feasible labelling was found"
        raise NoLabellingError(f"{text}; raise max_seconds, or leave such examples out (infeasible='drop')")
    if len(without):
        text = f"Y, example {int(examples[without[0]])}: no labelling at all is feasible"
        raise InfeasibleError(f"{text}, so none is nearest to its labels; leave the example out (infeasible='drop')")
    unproved = (solution.stop == Stop.TIME) & ~(solution.bound <= solution.score + 0.5)  # prices are whole numbers
    states, inner = truth.copy(), members(program.var_ptr, examples)
    states[inner] = solution.labels
    differs = (states != truth) & (price > 0)
    for label in layout.declaration.outputs:
        if label.pointer:  # a pointer that changes is a pair more and a pair less
            differs[layout.variables(label)] &= states[layout.variables(label)] == 1
        if label.none is not None:
            differs[layout.variables(label.none)] &= states[layout.variables(label.none)] == 1
    own = None if grounded.ignored is None else grounded.ignored & ~layout.auxiliary
    return NearestTruth(EncodedLabels(states, own), int(differs.sum()), int(unproved.sum()))


def nearest_states(grounded: Grounded, states: I32, given: str = "") -> I32:
    """Return states that nothing in the model rules out, as near as possible to given ones; known labels stay.

    Parameters
    ----------
    grounded : Grounded
        With the truth.
    states : ndarray of int32, shape (V,)
        Of all variables: known labels have theirs.
    given : str
        What the user calls the states of latent variables, which then stay as they are; empty where they may change.

    Raises
    ------
    DataError
        There are none; names the example, and what is ruled out.
    """
    program, tables = with_rules(grounded.program, registry()), _hard_tables(grounded)
    unknown, broken = unknown_variables(grounded), _forbidden(grounded, states)
    if program.allowed is not None:
        out_of_mask = ~program.allowed[program.state_ptr[:-1] + states]
        broken |= _examples(owners(program.var_ptr), out_of_mask, program.n_examples)
    for group in program.constraints:
        broken[group.example_of[group.broken(states, program.var_ptr)]] = True
    examples = np.flatnonzero(broken)
    if not len(examples):
        return states
    free = unknown & ~grounded.layout.latent if given else unknown
    clamp = np.where(free, np.int32(-1), states)
    solution = closest(program, tables, np.ones(len(states)), states, clamp, examples)
    without = np.flatnonzero(solution.primal != Primal.FEASIBLE)
    if len(without):
        i = int(examples[without[0]])
        if given:
            found = _ruled_out(grounded, program, tables, states, free, i)
            raise DataError(given, example=i, expected="states that the model does not rule out", found=found)
        names = [group.name for group in program.constraints] + [rule.name for rule in grounded.declaration.rules]
        expected = f"known labels that some others complete so that all constraints ({', '.join(names)}) are kept"
        raise DataError("Y", example=i, expected=expected, found="labels that none complete")
    out = states.copy()
    out[members(program.var_ptr, examples)] = solution.labels
    return out


def _ruled_out(
    grounded: Grounded, program: Program, tables: dict[int, F64], states: I32, free: Bools, example: int
) -> str:
    """Return what rules out the states of an example, and which: the first mask, table or constraint that does."""
    layout, declaration = grounded.layout, grounded.declaration
    lo, hi = program.var_ptr[example : example + 2].tolist()
    if program.allowed is not None:
        for v in np.flatnonzero(~program.allowed[program.state_ptr[lo:hi] + states[lo:hi]] & ~free[lo:hi]).tolist():
            return f"{_state(layout, states, lo + v)}, which is ruled out there"
    one = np.array([example], dtype=np.int64)
    for g, table in tables.items():
        group = program.groups[g]
        variables = group.shapes.variables(one)
        state = group.joint_states(variables, states)
        wrong = (state >= 0) & (table[group.table_rows(one), np.maximum(state, 0)] == -np.inf)
        for k in np.flatnonzero(wrong & ~free[variables].any(axis=1)).tolist():
            target = _target(declaration, group.name)
            same = [rule for rule in declaration.rules if rule.target == target and rule.target.cards == group.cards]
            these = [rule.name for rule in same if not rule.mask()[state[k]]] or [group.name]
            names = ", ".join(f"'{name}'" for name in these)
            return f"{', '.join(_state(layout, states, int(v)) for v in variables[k])}, which {names} rules out"
    broken = [(one, one.broken(states, program.var_ptr) & (one.example_of == example)) for one in program.constraints]
    names = ", ".join(f"'{group.name}'" for group, which in broken if which.any())
    return f"states that break {names}" if names else "states that no others complete"


def _target(declaration: Declaration, name: str) -> Any:
    """Return what a rule or a factor of this name is about."""
    named = [*declaration.rules, *declaration.factors, *declaration.given]
    return next((one.target for one in named if one.name == name), None)


def _state(layout: Layout, states: I32, variable: int) -> str:
    """Return the state of a variable, in words."""
    label, _, _ = label_of(layout, variable)
    return f"{variable_name(layout, variable)} = {(label.classes or range(label.n_states))[int(states[variable])]}"


def _examples(owner: I32 | I64, which: Bools, n: int) -> Bools:
    """Return which examples have a variable among those of a mask."""
    return np.bincount(owner[which], minlength=n) > 0


def _hard_tables(grounded: Grounded) -> dict[int, F64]:
    """Return what tables rule out, by the number of the group: 0 and ``-inf``."""
    constants = grounded.parameters.constants
    tables = {} if constants is None else constants.tables
    return {g: np.where(table == -np.inf, -np.inf, 0.0) for g, table in tables.items() if (table == -np.inf).any()}


def _forbidden(grounded: Grounded, states: I32) -> Bools:
    """Return the examples whose states are ruled out by tables."""
    constants = grounded.parameters.constants
    if constants is None:
        return np.zeros(grounded.n_examples, dtype=bool)
    return np.asarray(constants.value(grounded.program, states) == -np.inf)
