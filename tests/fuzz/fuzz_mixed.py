"""Hard constraints of every kind mixed with tables: ``score <= optimum <= bound``, and the same relaxation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from constraints import few_runs
from constraints.constraint_cases import random_constraints, with_pairs
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Guarantee, Primal, Program, Question, Solution, Stop, Task, Terms, Theta
from ssvm_dsl.plugin_api import ConstraintSpec, program_need
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.problems import Recipe, Scores, seeded

UNIT, SHORT, LIMIT = "answers", 3, 120.0

#: Those of structures, a stranger's, and sums over the variables of graphs.
KINDS = (
    "matching", "arborescence", "projective-tree", "path", "circuit", "segmentation", "few-runs", "count", "linear",
    "transport", "runs", "equivalence", "linear-order", "transitive", "acyclic",
)  # fmt: skip
RECIPES = (
    Recipe(max_variables=5, n_examples=3, masks=True, empty=True),
    Recipe(max_variables=4, max_arity=3, forbidden=True, scores=Scores.INTEGER),
    Recipe(max_arity=1, max_variables=7, max_card=2),
)

#: Backends, how they may be opened, and how far off their answers may be, relative to the sizes of the terms.
BACKENDS: tuple[tuple[str, dict[str, tuple[Any, ...]], float], ...] = (
    ("decompose", {"max_entries": (1, 4, 2**14), "max_nodes": (1, 200, None)}, 1e-12),
    ("ad3", {}, 1e-12),
    ("ilp", {"solver": ("cp-sat", "highs")}, 1e-7),
    ("lp", {"solver": ("glop", "highs")}, 1e-9),
)

#: How far apart two relaxations may be that iterative solvers end with.
RELAXED = 1e-5


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Draw a problem; ask every backend for its best labelling, also under clamps, and for the relaxation."""
    program, theta = problem(rng)
    clamp = np.where(rng.random(program.n_variables) < 0.2, rng.integers(0, program.card), -1).astype(np.int32)
    order = rng.permutation(program.n_examples)[: int(rng.integers(1, program.n_examples + 1))].astype(np.int64)
    questions = [Question(theta), Question(theta, order, Task.MAP_CLAMPED, clamp)]
    asked = 0
    for question in questions:
        best = BruteForceSession(program).solve(question)
        for name, options, atol in BACKENDS:
            chosen = {key: values[rng.integers(len(values))] for key, values in options.items()}
            compare(program, question, best, answer(program, question, name, chosen), (name, atol, chosen))
            asked += program.n_examples
    compare_relaxations(program, theta, BruteForceSession(program).solve(Question(theta)))
    return asked + 2 * program.n_examples


def problem(rng: np.random.Generator) -> tuple[Program, Theta]:
    """Return a problem that kinds of constraints make of themselves, or a graph; with pairs and further constraints."""
    kind = str(rng.choice(KINDS))
    if kind in ("count", "linear"):
        made = seeded(RECIPES[rng.integers(len(RECIPES))], int(rng.integers(2**31)))
        program, theta = made.program, made.theta
        program = replace(program, constraints=(random_constraints(rng, program, kind),))
    elif kind == "few-runs":
        program, theta = few_runs.FewRuns().problem(rng)
        groups = tuple(replace(group, rules=few_runs.FewRuns()) for group in program.constraints)
        program = replace(program, constraints=groups)
    else:
        program, theta = registry().load(registry().find(ConstraintSpec, kind))().problem(rng)
        if rng.random() < 0.6 and not program.groups:
            program, theta = with_pairs(program, theta, rng)
    for more in ("count", "linear"):
        if rng.random() < 0.25:
            other = with_rules(replace(program, constraints=(random_constraints(rng, program, more),)), registry())
            program = replace(program, constraints=(*program.constraints, *other.constraints))
    if rng.random() < 0.3:  # ties
        theta = Theta.of(program, np.rint(theta.node), [np.rint(one) for one in theta.tables], np.rint(theta.const))
    elif rng.random() < 0.3:
        scale = 10.0 ** int(rng.integers(-9, 10))
        theta = Theta.of(program, scale * theta.node, [scale * one for one in theta.tables], scale * theta.const)
    return with_rules(program.validate(), registry()), theta


def answer(program: Program, question: Question, name: str, options: dict[str, Any]) -> Solution:
    """Return the verified answer of a backend."""
    need = program_need(program, frozenset({question.task}), Guarantee.HEURISTIC)
    return open_plan(plan(need, name, options), program).solve(question)


def compare(program: Program, question: Question, best: Solution, found: Solution, how: tuple[Any, ...]) -> None:
    """Hold an answer against all labellings."""
    name, atol, _ = how
    there = best.primal != Primal.INFEASIBLE
    slack = atol * Terms.of(program, question.theta, question.ids(program)).size
    said = found.primal == Primal.INFEASIBLE
    assert not (said & there).any(), f"{how}: infeasible, but a labelling exists"
    assert (found.score[~there] == -np.inf).all(), f"{how}: a labelling where there is none"
    low = there & ~(found.bound >= best.score - slack)
    assert not low.any(), f"{how}: bounds {found.bound[low]} of scores {best.score[low]}"
    high = there & ~(found.score <= best.score + slack)
    assert not high.any(), f"{how}: scores {found.score[high]}, at most {best.score[high]}"
    if name == "ad3":
        assert (said == ~there).all(), f"{how}: neither a labelling nor a proof that there is none"
        assert (found.score > -np.inf)[there].all(), f"{how}: no labelling"
    if name == "ilp":
        missed = there & ~(found.score >= best.score - slack)
        assert not missed.any(), f"{how}: scores {found.score[missed]}, best {best.score[missed]}"


def compare_relaxations(program: Program, theta: Theta, best: Solution) -> None:
    """Hold the fractional solutions of ``ad3`` against those of ``lp``, where it has come to an end.

    Of trees ``ad3`` takes mixtures alone, and the rows that ``lp`` takes allow more: there may be points that keep the
    rows, and no mixture of trees that keeps the other constraints.  Where there is a labelling there is a mixture.
    """
    question = Question(theta, task=Task.RELAXED)
    ours, right = (answer(program, question, name, {}) for name in ("ad3", "lp"))
    none = right.primal == Primal.INFEASIBLE
    done = ours.stop == Stop.FINISHED
    assert (ours.primal[none & done] == Primal.INFEASIBLE).all(), "ad3: fractions where lp has none"
    known, slack = done & ~none, RELAXED * Terms.of(program, theta).size + np.finfo(float).tiny
    tighter = any(group.kind in ("arborescence", "projective-tree") for group in program.constraints)
    there = best.primal != Primal.INFEASIBLE if tighter else known
    assert not (known & there & (ours.primal == Primal.INFEASIBLE)).any(), "ad3: infeasible, and there is a solution"
    for mine, theirs in ((ours.bound, right.bound), (ours.score, right.score)):
        with np.errstate(invalid="ignore"):
            apart = known & ~((mine - theirs <= slack) & (tighter | (theirs - mine <= slack)))
        assert not apart.any(), f"ad3: {mine[apart]}, lp: {theirs[apart]}"
