"""Relaxations show labellings or say that they have none: no state that nobody found, no score above a bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ssvm_dsl.errors import InfeasibleError, NoLabellingError
from ssvm_dsl.inference.diagnosis.missing_answers import MissingAnswers
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Guarantee, Limits, Primal, Question, Solution, Task, Topology
from ssvm_dsl.ir.solution import NO_STATE
from ssvm_dsl.plugin_api import program_need, score_labels
from ssvm_dsl.testing.problems import Problem, Recipe, Scores, seeded

UNIT, SHORT, LIMIT = "answers", 12, 60.0

#: Backends that relax, with each way of making labellings of what they find.
WAYS = (
    *(("lp", {"rounding": rule}) for rule in ("none", "argmax", "threshold", "conditional")),
    *(("qpbo", {"rest": rest}) for rest in ("none", "icm", "pairs")),
    *((name, {}) for name in ("trws", "msd", "mplp", "tbcd", "ad3")),
)


def random_problem(rng: np.random.Generator) -> Problem:
    """Return a small problem, loopy more often than not, with forbidden states in some."""
    recipe = Recipe(
        topology=Topology.LOOPY,
        max_variables=int(rng.integers(2, 8)),
        max_card=int(rng.choice([2, 2, 3, 4])),
        max_arity=int(rng.choice([2, 2, 3])),
        density=float(rng.uniform(0.2, 1.0)),
        forbidden=bool(rng.random() < 0.4),
        scores=list(Scores)[rng.integers(len(Scores))],
    )
    return seeded(recipe, int(rng.integers(2**31)))


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Ask a relaxing backend about a random problem, and compare with all labellings."""
    problem = random_problem(rng)
    program, theta = problem.program, problem.theta
    asked, fits = program_need(program, guarantee=Guarantee.HEURISTIC), program.card.max(initial=1) <= 2
    best = open_plan(plan(asked, "brute-force"), program).solve(Question(theta)).score
    binary = fits and program.max_arity <= 2
    name, options = [way for way in WAYS if binary or way[0] != "qpbo"][rng.integers(len(WAYS) - (0 if binary else 3))]
    limits = Limits(iterations=int(rng.integers(1, 30))) if rng.random() < 0.2 else Limits()
    session = open_plan(plan(asked, name, options or None), program)
    found = session.solve(Question(theta, limits=limits))
    there = found.primal == Primal.FEASIBLE
    for i in range(program.n_examples):
        labels = found.labels[program.var_ptr[i] : program.var_ptr[i + 1]]
        about = f"{name} {options}, {i}: labels {labels.tolist()}, score {found.score[i]}, bound {found.bound[i]}"
        slack = 1e-6 * max(1.0, float(np.abs(theta.node[np.isfinite(theta.node)]).max(initial=1.0))) * 10
        if there[i]:
            only = np.array([i], dtype=np.int64)
            assert ((labels >= 0) & (labels < program.card[program.var_ptr[i] : program.var_ptr[i + 1]])).all(), about
            assert found.score[i] == score_labels(program, theta, labels, only)[0] > -np.inf, about
            assert found.score[i] <= best[i] + slack, f"{about}; the best score is {best[i]}"
        else:
            assert (labels == NO_STATE).all(), f"{about}, with {Primal(int(found.primal[i])).name}"
            assert found.score[i] == -np.inf, about
            assert found.primal[i] != Primal.INFEASIBLE or best[i] == -np.inf, about
        assert not found.bound[i] < best[i] - slack, f"{about}; the best score is {best[i]}"
    told = _refusal(session, found)
    assert bool(told) == (not there.all()), f"{name} {options}: {told}"
    if told and (found.primal != Primal.INFEASIBLE).all():
        missing = np.flatnonzero(~there)
        assert f"for {len(missing)} of {len(there)} examples" in told, told
        assert str(missing[0]) in told, told
    return program.n_examples


def _refusal(session: PlannedSession, found: Solution) -> str:
    """Return what is said of answers that are not there, nothing where all are."""
    try:
        missing = MissingAnswers(Task.MAP)
        missing.add(session.plan, session.guarantee, found)
        missing.check()
    except (InfeasibleError, NoLabellingError) as err:
        return str(err)
    return ""
