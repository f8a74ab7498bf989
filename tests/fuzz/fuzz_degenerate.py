"""Degenerate problems: every bundled backend answers every task right, without a warning, or refuses with a reason.

One state, one variable, no variable, all scores equal, zero tables, everything forbidden but one labelling, or all of
it, examples that differ in size, tables that factors share: where divisions by zero and empty maxima are at home.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from ssvm_dsl.errors import SsvmError
from ssvm_dsl.inference.planning.planner import accepted_guarantee, plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Group, Program, Question, Task, Theta
from ssvm_dsl.plugin_api import BackendSpec, program_need
from ssvm_dsl.registry import registry
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing.backends.judge import Judge
from ssvm_dsl.testing.kit import Complaint
from ssvm_dsl.testing.problems import Problem

UNIT = "answers"
SHORT = 2
LIMIT = 60.0

#: What scores there are, each drawn for a whole array.
FILLS = ("zero", "equal", "one", "ties", "forbidden", "all but one", "random", "huge and equal", "denormal")

#: Backends whose every call opens a solver of its own: asked less often.
SLOW = ("ilp", "lp")


def fill(rng, shape, how):
    """Return scores of one kind."""
    if how == "zero":
        return np.zeros(shape)
    if how in ("equal", "huge and equal"):
        return np.full(shape, rng.choice([-1.0, 1.0, 1e-9, 0.3]) * (1e9 if how != "equal" else 1.0))
    if how == "one":
        out = np.zeros(shape)
        out.flat[rng.integers(out.size)] = rng.choice([-1.0, 1.0])
        return out
    if how == "ties":
        return rng.integers(-1, 2, shape).astype(float)
    if how == "forbidden":
        return np.where(rng.random(shape) < 0.6, -np.inf, rng.integers(-1, 2, shape).astype(float))
    if how == "all but one":
        out = np.full(shape, -np.inf)
        out.flat[rng.integers(out.size)] = rng.choice([0.0, -2.0])
        return out
    if how == "denormal":
        return rng.choice([0.0, 5e-324, -5e-324, 1e-310], shape)
    return rng.normal(size=shape)


def draw(rng):
    """Return a problem of small and odd examples, all of one random character."""
    most = int(rng.integers(1, 4))
    sizes = rng.integers(0, int(rng.choice([2, 3, 5])) + 1, int(rng.integers(1, 4)))
    var_ptr = np.concatenate([[0], np.cumsum(sizes)])
    card = np.where(rng.random(var_ptr[-1]) < 0.4, 1, rng.integers(1, most + 1, var_ptr[-1])).astype(np.int32)
    scopes: dict[tuple[int, ...], list[tuple[int, list[int]]]] = {}
    for i, n in enumerate(sizes):
        for _ in range(int(rng.integers(0, n + 2)) if n > 1 else 0):
            arity = 2 if n < 3 or rng.random() < 0.7 else 3
            scope = (var_ptr[i] + rng.choice(n, arity, replace=False)).tolist()
            scopes.setdefault(tuple(card[scope].tolist()), []).append((i, scope))
    groups = []
    for cards, found in scopes.items():
        found.sort(key=lambda pair: pair[0])
        ptr = np.searchsorted([i for i, _ in found], np.arange(len(sizes) + 1)).astype(np.int64)
        n_tables = int(rng.integers(1, len(found) + 1))
        table = rng.integers(0, n_tables, len(found)).astype(np.int32)
        scope = np.array([scope for _, scope in found], np.int32)
        groups.append(Group.of(f"g{len(groups)}", cards, scope, ptr, table, n_tables, var_ptr.astype(np.int64)))
    allowed = rng.random(int(card.sum())) < 0.7 if rng.random() < 0.2 else None
    program = Program(var_ptr.astype(np.int64), card, tuple(groups), allowed=allowed).validate()
    theta = Theta.zeros(program)
    common = rng.choice(FILLS) if rng.random() < 0.4 else None
    for array in (theta.node, *theta.tables):
        if array.size:
            array[...] = fill(rng, array.shape, common or rng.choice(FILLS))
    theta.const[:] = rng.choice([0.0, 0.0, -3.0], len(sizes))
    return Problem("degenerate", program, theta)


def ask(rng, problem, spec, task):
    """Put one question to one backend and judge the answer; return the number of answers."""
    program, theta = problem.program, problem.theta
    need = program_need(program, frozenset({task}), properties=table_properties(program, theta))
    need = replace(need, guarantee=accepted_guarantee(spec.name))
    try:
        session = open_plan(plan(need, spec.name), program)
    except SsvmError:
        return 0  # it says why not
    clamp = None
    if task is Task.MAP_CLAMPED:
        clamp = np.where(rng.random(len(program.card)) < 0.5, -1, rng.integers(0, program.card)).astype(np.int32)
    chosen = None if rng.random() < 0.5 else rng.permutation(program.n_examples)[: int(rng.integers(1, 4))]
    question = Question(theta, chosen, task, clamp, k=int(rng.integers(1, 6)) if task is Task.KBEST else 1)
    solution = session.solve(question)
    Judge(problem, spec.caps).everything(question, solution)
    return program.n_examples if chosen is None else len(chosen)


def trial(rng, scratch):
    """Draw a problem and ask every backend every question it answers."""
    problem, tried = draw(rng), 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.seterr(all="warn", under="ignore")
        for spec in registry().specs(BackendSpec):
            if spec.name in SLOW and rng.random() < 0.8:
                continue
            for task in sorted(spec.caps.tasks):
                try:
                    tried += ask(rng, problem, spec, task)
                except Complaint as complaint:
                    raise AssertionError(f"{spec.name}, {task}: {complaint}") from complaint
                except Exception as err:
                    raise AssertionError(f"{spec.name}, {task}: {type(err).__name__}: {err}") from err
    return tried
