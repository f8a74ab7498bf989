"""Refuse true labels that break a hard constraint: no weights could ever predict them."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.validate import position_words
from ssvm_dsl.errors import DataError
from ssvm_dsl.inference.constraint_rules import with_rules
from ssvm_dsl.inference.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.need import Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.ir.solution import Primal
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.registry import Registry, registry


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
        Names the example and the constraint.
    """
    if not grounded.program.constraints:
        return
    program = with_rules(grounded.program, registry() if plugins is None else plugins)
    truth, ignored = grounded.truth, grounded.ignored
    assert truth is not None
    unknown = grounded.layout.latent if ignored is None else grounded.layout.latent | ignored
    doubtful = np.zeros(program.n_examples, dtype=bool)
    for group in program.constraints:
        doubt = _about_unknown(group, unknown, program.var_ptr)
        broken = group.broken(truth, program.var_ptr)
        if (broken & ~doubt).any():
            _complain(grounded, group, int(np.flatnonzero(broken & ~doubt)[0]))
        doubtful[group.example_of[broken & doubt]] = True
    nearest_labelling(program, truth, ~unknown, doubtful)


def nearest_labelling(
    program: Program, states: I32, fixed: Bools, doubtful: Bools | None = None, plugins: Registry | None = None
) -> I32:
    """Return the labelling that keeps masks and constraints and differs least from given states.

    Parameters
    ----------
    program : Program
    states : ndarray of int32, shape (V,)
    fixed : ndarray of bool, shape (V,)
        Variables whose states stay.
    doubtful : ndarray of bool, shape (B,), optional
        Examples to look at; those that break a constraint by default.
    plugins : Registry, optional
        The installed plug-ins by default.

    Raises
    ------
    DataError
        There is none; names the example.
    """
    if not program.constraints:
        return states
    program = with_rules(program, registry() if plugins is None else plugins)
    if doubtful is None:
        doubtful = np.zeros(program.n_examples, dtype=bool)
        for group in program.constraints:
            doubtful[group.example_of[group.broken(states, program.var_ptr)]] = True
    examples = np.flatnonzero(doubtful)
    out = states.copy()
    if len(examples):
        inner = members(program.var_ptr, examples)
        out[inner] = _nearest(program, np.where(fixed, states, np.int32(-1))[inner], states[inner], examples)
    return out


def _about_unknown(group: ConstraintGroup, unknown: Bools, var_ptr: I64) -> Bools:
    """Return which constraints have a literal whose variable has no known label."""
    first = var_ptr[:-1][group.example_of[group.constraint_of]]
    return np.bincount(group.constraint_of, unknown[first + group.variable], group.n_constraints) > 0


def _complain(grounded: Grounded, group: ConstraintGroup, k: int) -> None:
    """Say which constraint the labels of which example break, and how many of its literals they make true."""
    assert grounded.truth is not None
    example, symbol = int(group.example_of[k]), grounded.declaration.find(group.name)
    true = group.true_literals(grounded.truth, grounded.program.var_ptr)[group.literals(k)]
    along = next((one.along for one in grounded.declaration.constraints if one is symbol), ())
    shape = tuple(int(grounded.layout.sizes[dim.name][example]) for dim in along)
    where = position_words(along, shape, k - int(group.ptr[example]))
    raise DataError(
        "Y",
        example=example,
        expected=f"labels that keep the constraint {group.name} = {symbol!r}",
        found=f"{int(true.sum())} of its {len(true)} literals true{f' ({where})' if where else ''}",
        hint="no weights could predict such labels: correct them, or loosen the constraint",
    )


def _nearest(program: Program, clamp: I32, states: I32, examples: I64) -> I32:
    """Return labellings of some examples that keep all constraints and agree with as many states as possible."""
    bare = Program(program.var_ptr, program.card, (), program.constraints, allowed=program.allowed).take(examples)
    node = np.zeros(bare.n_states)
    node[bare.state_ptr[:-1] + states] = 1.0
    session = open_plan(plan(Need.of(bare, frozenset({Task.MAP_CLAMPED}))), bare)
    solution = session.solve(Question(Theta.of(bare, node), None, Task.MAP_CLAMPED, np.ascontiguousarray(clamp)))
    without = np.flatnonzero(solution.primal != Primal.FEASIBLE)
    if len(without):
        names = ", ".join(group.name for group in program.constraints)
        raise DataError(
            "Y",
            example=int(examples[without[0]]),
            expected=f"known labels that some others complete so that all constraints ({names}) are kept",
            found="labels that none complete",
        )
    return solution.labels
