"""The k best labellings by integer programs: each one found is ruled out before the next is sought.

A labelling y is ruled out by one row over the columns of its states, ``sum_v x[v, y_v] <= V - 1``, which all others
keep.  Each example takes up to k programs, each harder than the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ssvm_dsl.ir import (
    I32,
    Bools,
    ConstraintGroup,
    LinearRows,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    Task,
    Theta,
    positions,
)
from ssvm_dsl.plugin_api import Clock


class _Solver(Protocol):
    def solve(self, question: Question) -> Solution: ...


class NoGood:
    """A constraint that not all of its literals are true."""

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken."""
        return np.logical_and.reduceat(true, group.literal_ptr[:-1])

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the one row of constraint k."""
        n = int(group.literal_ptr[k + 1] - group.literal_ptr[k])
        return LinearRows.one(np.ones(n), -np.inf, n - 1.0)


def k_best(
    program: Program, question: Question, open_: Callable[[Program, Mapping[str, Any]], _Solver], options: Any
) -> Solution:
    """Answer the task ``kbest`` example by example.

    Parameters
    ----------
    program : Program
    question : Question
    open_ : callable
        Makes a session for the task ``map`` of a program with constraints.
    options : mapping
        Options of the session.
    """
    ids, ptr, clock = question.ids(program), question.label_ptr(program), Clock.start(question.limits)
    k, n = question.k, len(ids)
    labels = np.zeros((k, int(ptr[-1])), dtype=np.int32)
    score, bound = np.full((k, n), -np.inf), np.full(n, np.nan)
    stop, primal = np.full(n, Stop.TIME, dtype=np.int8), np.full(n, Primal.NONE, dtype=np.int8)
    known: Mapping[int, Any] = question.warm if isinstance(question.warm, Mapping) else {}
    warm: dict[int, Any] = {}
    for j, example in enumerate(ids.tolist()):
        here = slice(int(ptr[j]), int(ptr[j + 1]))
        answers = _ranked(program, example, question, known.get(example), open_, options, clock.share(n - j))
        if answers[0].warm:
            warm[example] = answers[0].warm[0]
        bound[j], stop[j], primal[j] = answers[0].bound[0], answers[-1].stop[0], answers[0].primal[0]
        listed = [one for one in answers if one.primal[0] == Primal.FEASIBLE]
        listed.sort(key=lambda one: -float(one.score[0]))  # two scores that rounding cannot tell apart
        for rank, one in enumerate(listed):
            labels[rank, here], score[rank, j] = one.labels, one.score[0]
        bound[j] = max(bound[j], score[0, j]) if listed else bound[j]
    return Solution(labels, score, bound, stop, primal, warm=warm)


def _ranked(
    program: Program,
    example: int,
    question: Question,
    warm: Any,
    open_: Callable[[Program, Mapping[str, Any]], _Solver],
    options: Any,
    clock: Clock,
) -> list[Solution]:
    """Return the answers of one example, one after the other; the last one may hold no labelling."""
    only = np.array([example])
    one, states = program.example(example), positions(program.state_ptr[program.var_ptr], only)
    node = question.theta.node[states]
    theta = Theta(node, question.theta.pool, question.theta.tables, question.theta.const[example : example + 1])
    clamp = None if question.clamp is None else question.clamp[positions(program.var_ptr, only)]
    out: list[Solution] = []
    while len(out) < question.k:
        limits = replace(question.limits, time=None if clock.end == np.inf else clock.left)
        start = {0: warm} if warm is not None and not out else None
        asked = Question(theta, task=Task.MAP, clamp=clamp, limits=limits, warm=start)
        answer = open_(one, options).solve(asked)
        out.append(answer)
        if answer.stop[0] != Stop.FINISHED or answer.primal[0] != Primal.FEASIBLE or not one.n_variables:
            break
        one = replace(one, constraints=(*one.constraints, _without(answer.labels, len(out))))
    return out


def _without(labels: I32, number: int) -> ConstraintGroup:
    """Return the constraint that rules one labelling of an example out."""
    n = len(labels)
    ends = np.array([0, 1], dtype=np.int64), np.array([0, n], dtype=np.int64)
    variable, negated = np.arange(n, dtype=np.int32), np.zeros(n, dtype=bool)
    return ConstraintGroup("no-good", f"labelling {number}", *ends, variable, labels, negated, rules=NoGood())
