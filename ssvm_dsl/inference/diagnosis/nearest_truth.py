"""Which examples have labels that the model rules out, by rules or constraints, and the feasible ones next to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.layout import EncodedLabels
from ssvm_dsl.errors import InfeasibleError, NoLabellingError
from ssvm_dsl.inference.diagnosis.feasible_truth import broken_constraints_of, closest, completed, unknown_variables
from ssvm_dsl.inference.rules.constraint_rules import with_rules
from ssvm_dsl.ir.ragged import members, owners
from ssvm_dsl.ir.solution import Primal, Stop
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
    found, about_unknown = broken_constraints_of(grounded, program, unknown)
    broken[[one.example for one in found]] = True
    tables = _hard_tables(grounded)
    doubtful |= about_unknown | _forbidden(grounded)
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


def _examples(owner: I32 | I64, which: Bools, n: int) -> Bools:
    """Return which examples have a variable among those of a mask."""
    return np.bincount(owner[which], minlength=n) > 0


def _hard_tables(grounded: Grounded) -> dict[int, F64]:
    """Return what tables rule out, by the number of the group: 0 and ``-inf``."""
    constants = grounded.parameters.constants
    tables = {} if constants is None else constants.tables
    return {g: np.where(table == -np.inf, -np.inf, 0.0) for g, table in tables.items() if (table == -np.inf).any()}


def _forbidden(grounded: Grounded) -> Bools:
    """Return the examples whose states are ruled out by tables."""
    constants, truth = grounded.parameters.constants, grounded.truth
    if constants is None or truth is None:
        return np.zeros(grounded.n_examples, dtype=bool)
    return np.asarray(constants.value(grounded.program, truth) == -np.inf)
