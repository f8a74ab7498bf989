"""Clusterings and linear orders: how far answers are from their bounds, and in which time.

*Clusters*: pairs of mentions of planted clusters, of scores +1 or -1 with normal noise that turns a fifth of the signs
round, or signs alone of which a fifth is turned round.  *Orders*: input-output tables as those of LOLIB: sectors of
very different sizes, a hidden order against which a third as much flows.  The gap is bound less score, relative to the
score.
Small problems stand beside all clusterings and all orders, middle ones beside CP-SAT on a plain model with all
triangles, which gets the same time.  Processor time of one thread.
"""

from __future__ import annotations

import itertools
from time import process_time

import numpy as np
from rich.console import Console
from rich.table import Table

from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import F64, I64, ConstraintGroup, Guarantee, Limits, Program, Question, Solution, Theta
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.registry import registry

#: Seconds of each answer at most.
SECONDS = 10.0

#: Noise of this spread turns a fifth of the signs of numbers around 1 and -1.
SPREAD = 1.188


def pairs_of(n: int) -> tuple[I64, I64]:
    """Return all pairs of items a < b."""
    return np.triu_indices(n, 1)


def clusters(n: int, n_clusters: int, signs: bool, seed: int) -> F64:
    """Return what each pair gains in one cluster."""
    rng, (a, b) = np.random.default_rng(seed), pairs_of(n)
    right = np.where(a % n_clusters == b % n_clusters, 1.0, -1.0)
    if signs:
        return right * np.where(rng.random(len(a)) < 0.2, -1.0, 1.0)
    return right + SPREAD * rng.normal(size=len(a))


def flows(n: int, seed: int, against: float = 1.0 / 3.0) -> F64:
    """Return what each pair a < b gains with a before b: the flow there less the flow back, whole numbers."""
    rng = np.random.default_rng(seed)
    place, (a, b) = rng.permutation(n), pairs_of(n)
    table = rng.lognormal(0.0, 1.0, (n, 1)) * rng.lognormal(0.0, 1.0, (1, n)) * rng.lognormal(0.0, 1.0, (n, n))
    table *= np.where(place[:, None] < place[None, :], 1.0, against) * (rng.random((n, n)) < 0.7)
    whole = np.rint(100.0 * table)
    return whole[a, b] - whole[b, a]


def asked(kind: str, n: int, gain: F64, backend: str) -> tuple[Solution, float]:
    """Return the answer of a backend, and its processor time."""
    a, b = pairs_of(n)
    m = len(a)
    group = ConstraintGroup(
        kind, kind, np.array([0, 1]), np.array([0, m]), np.arange(m, dtype=np.int32), np.ones(m, np.int32),
        np.zeros(m, bool), {"n_items": np.array([n])}, {"first": a.astype(np.int32), "second": b.astype(np.int32)},
    )  # fmt: skip
    program = with_rules(Program(np.array([0, m]), np.full(m, 2, np.int32), (), (group,)).validate(), registry())
    theta = Theta.of(program, np.stack([np.zeros(m), gain], axis=1).ravel())
    guarantee = Guarantee.BOUND if backend == "lp" else Guarantee.EXACT
    session = open_plan(plan_program(program, program_need(program, guarantee=guarantee), backend), program)
    begin = process_time()
    found = session.solve(Question(theta, limits=Limits(time=SECONDS)))
    return found, process_time() - begin


def by_plain_model(kind: str, n: int, gain: F64) -> tuple[float, float, float]:
    """Return (score, bound, processor time) of CP-SAT with all triangles."""
    from ortools.sat.python import cp_model

    begin, model, x = process_time(), cp_model.CpModel(), {}
    for a, b in zip(*(one.tolist() for one in pairs_of(n)), strict=True):
        x[a, b] = model.new_bool_var("")
    for a, b, c in itertools.combinations(range(n), 3):
        if kind == "equivalence":
            for one, other, third in itertools.permutations((x[a, b], x[b, c], x[a, c])):
                if one.index < other.index:
                    model.add_bool_or(~one, ~other, third)
        else:
            model.add_bool_or(~x[a, b], ~x[b, c], x[a, c])
            model.add_bool_or(x[a, b], x[b, c], ~x[a, c])
    model.maximize(sum(float(g) * one for g, one in zip(gain, x.values(), strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds = 1, SECONDS
    status = solver.solve(model)
    score = solver.objective_value if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else np.nan
    return score, solver.best_objective_bound, process_time() - begin


def best_of_all(kind: str, n: int, gain: F64) -> float:
    """Return the best score over all clusterings, or all orders."""
    a, b = pairs_of(n)
    every = itertools.permutations(range(n)) if kind == "linear-order" else itertools.product(range(n), repeat=n)
    places = np.array(list(every))
    true = places[:, a] < places[:, b] if kind == "linear-order" else places[:, a] == places[:, b]
    return float((true @ gain).max())


def main() -> None:
    """Show scores, bounds and times of all problems."""
    problems = [
        ("equivalence", "6 mentions", 6, clusters(6, 2, False, 0)),
        ("equivalence", "30 mentions, 3 clusters", 30, clusters(30, 3, False, 0)),
        *(("equivalence", f"200 mentions, {k} clusters", 200, clusters(200, k, False, 0)) for k in (2, 4, 7, 10)),
        ("equivalence", "200 mentions, 3 clusters, signs", 200, clusters(200, 3, True, 0)),
        ("linear-order", "7 items", 7, flows(7, 0)),
        ("linear-order", "30 items", 30, flows(30, 0)),
        *(("linear-order", f"60 items, seed {seed}", 60, flows(60, seed)) for seed in range(3)),
    ]
    asked("equivalence", 4, clusters(4, 2, False, 0), "relations")  # kernels are compiled
    asked("linear-order", 4, flows(4, 0), "relations")
    table = Table(title="relations", title_justify="left")
    for column in ("problem", "by", "score", "bound", "gap %", "seconds"):
        table.add_column(column, justify="left" if column in ("problem", "by") else "right")

    def add(problem: str, by: str, score: float, bound: float, seconds: float) -> None:
        gap = 100.0 * (bound - score) / max(abs(score), 1e-300)
        table.add_row(problem, by, f"{score:.2f}", f"{bound:.2f}", f"{gap:.4f}", f"{seconds:.2f}")

    for kind, name, n, gain in problems:
        for backend in ("relations", "lp", "ilp") if n <= 30 else ("relations",):
            found, seconds = asked(kind, n, gain, backend)
            add(name, backend, float(found.score[0]), float(found.bound[0]), seconds)
        if n <= 7:
            best = best_of_all(kind, n, gain)
            add(name, "all of them", best, best, np.nan)
        elif n <= 30:
            add(name, "all triangles", *by_plain_model(kind, n, gain))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
