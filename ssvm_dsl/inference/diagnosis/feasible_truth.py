"""Refuse true labels that break a hard constraint: no weights could ever predict them.

They are all counted before anything is refused, and the first of them described in the words of the structure
(:class:`~ssvm_dsl.plugin_api.ExplainingKind`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.labels.ruled_out import SHOWN, ruled_out_error
from ssvm_dsl.errors import DataError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.inference.starting.repair import scores_of
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.ir.solution import Primal, Solution, Stop
from ssvm_dsl.ir.theta import Theta
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
