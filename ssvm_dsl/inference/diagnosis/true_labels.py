"""Which examples have labels that the model rules out, by rules or constraints, and the feasible ones next to them.

No weights could ever predict true labels that break a hard constraint.  They are all counted before anything is
refused, and the first of them is described in the words of the structure
(:class:`~ssvm_dsl.plugin_api.ExplainingKind`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.labels.ruled_out import SHOWN, ruled_out_error
from ssvm_dsl.compiler.layout import EncodedLabels, Layout
from ssvm_dsl.compiler.variable_names import label_of, variable_name
from ssvm_dsl.errors import DataError, InfeasibleError, NoLabellingError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.inference.starting.repair import scores_of
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners
from ssvm_dsl.ir.solution import Primal, Solution, Stop
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.plugin_api.constraints import ExplainingKind, UnmetKind
from ssvm_dsl.registry import Registry, registry


@dataclass(frozen=True)
class BrokenTruth:
    """Labels of an example that break a constraint.

    Parameters
    ----------
    example : int
    rule : str
        The constraint as it was declared.
    words : str
        What is wrong.
    """

    example: int
    rule: str
    words: str


def require_feasible_truth(grounded: Grounded, plugins: Registry | None = None) -> None:
    """Raise where the true labels of an example break a constraint, or where no unknown labels complete them.

    Parameters
    ----------
    grounded : Grounded
        With the truth; unknown and latent variables have any states, which count if they happen to keep constraints.
    plugins : Registry, optional
        The installed plug-ins by default.

    Raises
    ------
    DataError
        Counts the examples; names the violated constraints of the first ones.
    """
    if not grounded.program.constraints:
        return
    program = with_rules(grounded.program, registry() if plugins is None else plugins)
    truth, unknown = grounded.truth, unknown_variables(grounded)
    assert truth is not None
    found, doubtful = broken_constraints_of(grounded, program, unknown)
    if found:
        raise _error(found, grounded.n_examples)
    examples = np.flatnonzero(doubtful)
    clamp = np.where(unknown, np.int32(-1), truth)
    hopeless = examples[~completed(program, truth, clamp, examples)]
    if len(hopeless):
        names = ", ".join(group.name for group in program.constraints)
        rule = f"known labels that some others complete so that all constraints ({names}) are kept"
        words = "labels that none complete"
        raise _error([BrokenTruth(int(i), rule, words) for i in hopeless], grounded.n_examples)


def unknown_variables(grounded: Grounded) -> Bools:
    """Return which variables have no known label; ``shape (V,)``."""
    latent = grounded.layout.latent
    return latent if grounded.ignored is None else latent | grounded.ignored


def broken_constraints_of(grounded: Grounded, program: Program, unknown: Bools) -> tuple[list[BrokenTruth], Bools]:
    """Return the constraints that known labels break, by example, and which examples must be asked about.

    Parameters
    ----------
    grounded : Grounded
    program : Program
        Its program, with the rules of the constraints.
    unknown : ndarray of bool, shape (V,)
        Variables without a known label; examples that break a constraint of one of these are in doubt.
    """
    truth = grounded.truth
    assert truth is not None
    where, doubtful = list[tuple[int, int, int]](), np.zeros(program.n_examples, dtype=bool)
    for g, group in enumerate(program.constraints):
        doubt, broken = _about_unknown(group, unknown, program.var_ptr), group.broken(truth, program.var_ptr)
        doubtful[group.example_of[broken & doubt]] = True
        where += [(int(group.example_of[k]), g, k) for k in np.flatnonzero(broken & ~doubt).tolist()]
    where.sort()
    shown = sorted({example for example, _, _ in where})[:SHOWN]  # the others are counted
    found = []
    for example, g, k in where:
        group = program.constraints[g]
        rule = f"labels that keep the constraint {group.name} = {grounded.declaration.find(group.name)!r}"
        found.append(BrokenTruth(example, rule, _words(grounded, group, k) if example in shown else ""))
    return found, doubtful


def completed(program: Program, states: I32, clamp: I32, examples: I64, tables: dict[int, F64] | None = None) -> Bools:
    """Return the examples whose fixed states can be completed, as far as there is time to check.

    ``shape (n,)``; those that a search did not decide in time may be completed.
    """
    if not len(examples):
        return np.zeros(0, dtype=bool)
    solution = closest(program, tables or {}, np.ones(len(states)), states, clamp, examples)
    undecided = (solution.primal != Primal.INFEASIBLE) & (solution.stop == Stop.TIME)
    return np.asarray((solution.primal == Primal.FEASIBLE) | undecided)


def closest(
    program: Program, tables: dict[int, F64], price: F64, states: I32, clamp: I32 | None, examples: I64
) -> Solution:
    """Return labellings of some examples that keep all that is hard and agree with states where that is worth most.

    Where the call at hand has a limit (:mod:`ssvm_dsl.deadline`), they are the best ones found in time.

    Parameters
    ----------
    program : Program
        With rules.
    tables : dict of int to ndarray
        For groups that rule joint states out: 0 and ``-inf``.
    price : ndarray of float64, shape (V,)
        What it costs to differ at each variable.
    states : ndarray of int32, shape (V,)
    clamp : ndarray of int32, shape (V,), optional
        States that stay, negative where they are free.
    examples : ndarray of int64, shape (n,)
    """
    hard = tuple(program.groups[g] for g in tables)
    bare = Program(program.var_ptr, program.card, hard, program.constraints, allowed=program.allowed).take(examples)
    inner = members(program.var_ptr, examples)
    node = np.zeros(bare.n_states)
    node[bare.state_ptr[:-1] + states[inner]] = price[inner]
    task = Task.MAP if clamp is None else Task.MAP_CLAMPED
    fixed = None if clamp is None else np.ascontiguousarray(clamp[inner])
    question = Question(Theta.of(bare, node, tuple(tables.values())), None, task, fixed)
    return open_session(bare, Ask(frozenset({task})), outwards=True).solve(question)


def _about_unknown(group: ConstraintGroup, unknown: Bools, var_ptr: I64) -> Bools:
    """Return which constraints have a literal whose variable has no known label."""
    first = var_ptr[:-1][group.example_of[group.constraint_of]]
    return np.bincount(group.constraint_of, unknown[first + group.variable], group.n_constraints) > 0


def _words(grounded: Grounded, group: ConstraintGroup, k: int) -> str:
    """Return what is wrong with a constraint: in the words of its kind, or how many of its literals are true."""
    assert grounded.truth is not None
    true = group.true_literals(grounded.truth, grounded.program.var_ptr)[group.literals(k)]
    said = group.rules.explain(group, k, true) if isinstance(group.rules, ExplainingKind) else ""
    if isinstance(group.rules, UnmetKind):
        unmet = _why_unmet(grounded, group, group.rules, k)
        said = f"{said}; {unmet}" if said and unmet else said or unmet
    declared = next((one for one in grounded.declaration.constraints if one.name == group.name), None)
    said = said if declared is None else declared.in_names(said)
    found = said or f"{int(true.sum())} of its {len(true)} literals true"
    return f"{found} (at {where})" if (where := group.words(k)) else found


def _why_unmet(grounded: Grounded, group: ConstraintGroup, rules: UnmetKind, k: int) -> str:
    """Return why no labelling satisfies a constraint, or not these labels where all of them are known."""
    program, truth, example = grounded.program, grounded.truth, int(group.example_of[k])
    assert truth is not None
    free = np.zeros(program.n_states) if program.allowed is None else np.where(program.allowed, 0.0, -np.inf)
    variables = program.var_ptr[example] + group.variable[group.literals(k)]
    known = not unknown_variables(grounded)[variables].any()
    return rules.why_unmet(group, k, scores_of(program, free, group, k)[1], truth[variables] if known else None)


def _error(broken: list[BrokenTruth], n: int) -> DataError:
    """Return the error that counts all examples and describes the first."""
    words: dict[int, str] = {}
    for one in broken:
        words.setdefault(one.example, one.words)
    return ruled_out_error(list(words), n, broken[0].rule, words.__getitem__)


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
