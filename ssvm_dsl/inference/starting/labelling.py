"""The labelling that a search begins with: best states, repaired where tables and constraints rule them out.

A labelling is looked for in milliseconds, so that it is there when a limit ends a search at any moment:

1. every variable takes its best state that masks and clamps allow;
2. where tables rule that out, states are taken one after the other so that none is ruled out
   (:mod:`ssvm_dsl.kernels.propagation`): always possible on forests;
3. where constraints are broken, their kinds say what keeps them (:class:`~ssvm_dsl.plugin_api.StartingKind`), a few
   rounds where they share variables;
4. what is left is given to an integer program without an objective, if it is small, for a tenth of a second.

Only where finding any labelling is hard may it stay unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.inference.starting.repair import Repair
from ssvm_dsl.inference.starting.rows import by_rows
from ssvm_dsl.inference.starting.tables import HardFactors
from ssvm_dsl.inference.verification.witness import best_states
from ssvm_dsl.ir.constraints import broken_constraints
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners, positions, reduced
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.scores.labellings import score_labels

#: Seconds after which repairs end with what they have, for all examples of a call; and for integer programs.
REPAIR_SECONDS, SEARCH_SECONDS = 0.5, 0.1


@dataclass(frozen=True, eq=False)
class Start:
    """A labelling of each example, where one was found.

    Parameters
    ----------
    labels : ndarray of int32
        Packed over the examples asked for; any states where there is none.
    score : ndarray of float64, shape (n,)
        ``-inf`` where there is none.
    impossible : ndarray of bool, shape (n,)
        Whether it is proved that there is none.
    """

    labels: I32
    score: F64
    impossible: Bools


def starting_labelling(program: Program, question: Question) -> Start:
    """Return a labelling of each example asked for, found at once.

    Parameters
    ----------
    program : Program
        With the rules of its constraints.
    question : Question
        Its scores, examples and clamp count.
    """
    ids, ptr = question.ids(program), question.label_ptr(program)
    labels, node = best_states(program, question), question.masked_node(program)
    states = positions(program.state_ptr[program.var_ptr], ids)
    own, at = node[states], _entries(program, ids, labels)
    bad = score_labels(program, question.theta, labels, ids) == -np.inf
    bad |= _any_of(own[at] == -np.inf, ptr)
    if program.constraints:
        bad |= broken_constraints(program.constraints, labels, ptr, ids)
    impossible = np.zeros(len(ids), dtype=bool)
    if bad.any():
        some = np.flatnonzero(bad)
        inner = members(ptr, some)
        sub, theta = _part(program, question, node, ids[some])
        repaired = _repaired(sub, theta, labels[inner])
        labels[inner], bad[some], impossible[some] = repaired
    score = score_labels(program, question.theta, labels, ids)
    return Start(labels, np.where(bad, -np.inf, score), impossible)


def _entries(program: Program, ids: I64, labels: I32) -> I64:
    """Return where the state of each variable is in the states of the examples."""
    return np.asarray(program.own_state_ptr(ids)[:-1] + labels)


def _any_of(flags: Bools, ptr: I64) -> Bools:
    """Return for each example whether a flag of one of its variables is set."""
    return np.bincount(owners(ptr)[flags], minlength=len(ptr) - 1) > 0


def _part(program: Program, question: Question, node: F64, ids: I64) -> tuple[Program, Theta]:
    """Return the program of some examples, and its scores under masks and clamps."""
    theta = question.theta
    if len(ids) == program.n_examples and (ids == np.arange(len(ids))).all():
        return program, Theta(node, theta.pool, theta.tables, theta.const)
    sub = program.take(ids)
    states = members(program.state_ptr[program.var_ptr], ids)
    return sub, Theta(node[states], theta.pool, theta.tables, theta.const[ids])


def _repaired(program: Program, theta: Theta, labels: I32) -> tuple[I32, Bools, Bools]:
    """Return (labels, which examples have none yet, and which are proved to have none)."""
    out, until = labels, Deadline(REPAIR_SECONDS)
    hard, ptr = HardFactors.of(program, theta), program.var_ptr
    alive = reduced(np.maximum, theta.node, program.state_ptr[:-1])
    impossible = _any_of(alive == -np.inf, ptr)
    if hard.n_factors:
        out, dead = hard.labels(theta.node)
        impossible |= _any_of(dead, ptr)
    every = Repair(program, theta, out, hard)
    bad = ~every.run(until, rounds=1)
    out = every.labels
    for i in np.flatnonzero(bad & ~impossible).tolist() if program.constraints else []:
        one = every.example(i)
        if one.run(until).all():
            out[slice(*ptr[i : i + 2].tolist())], bad[i] = one.labels, False
    search = Deadline(SEARCH_SECONDS)
    for i in np.flatnonzero(bad & ~impossible).tolist():
        one = every.example(i)
        states = by_rows(one.program, one.theta, search)
        if states is not None:
            out[slice(*ptr[i : i + 2].tolist())], bad[i] = states, False
    return out, bad, impossible
