"""Mixed structures: ``decompose`` beside ``ilp``, and the two best labellings of grids by ``combi`` beside ``ilp``."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
from cut_speed import grid_edges
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import ConstraintGroup, Group, Guarantee, Program, Question, Solution, Task, Theta
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.registry import registry

CONSOLE = Console(width=110)
TIMES = 20

Ints = NDArray[np.integer]
Problem = tuple[Program, Theta]


def repeated(
    rng: np.random.Generator, card: Ints, links: list[Ints], scales: list[NDArray[np.float64]], times: int,
    constraint: dict[str, Any] | None = None,
) -> Problem:  # fmt: skip
    """Return examples of one structure with scores of their own.

    ``scales`` multiply the random tables of each list of links; ``constraint`` has kind, the variables of its literals
    ("has state 1"), and the numbers of the whole and of each literal.
    """
    n = len(card)
    var_ptr = np.arange(times + 1) * n
    groups, tables = [], []
    for number, (edges, scale) in enumerate(zip(links, scales, strict=True)):
        scope = np.concatenate([edges + lo for lo in var_ptr[:-1]]).astype(np.int32)
        cards = (int(card[edges[0, 0]]), int(card[edges[0, 1]]))
        m = len(scope)
        ptr, rows = np.arange(times + 1) * len(edges), np.arange(m, dtype=np.int32)
        groups.append(Group.of(f"link {number}", cards, scope, ptr, rows, m, var_ptr))
        tables.append(scale * rng.normal(size=(m, *cards)))
    constraints: tuple[ConstraintGroup, ...] = ()
    if constraint is not None:
        variables = np.asarray(constraint["variables"], dtype=np.int32)
        l, ends = len(variables), np.arange(times + 1)
        meta = {key: np.full(times, value) for key, value in constraint["meta"].items()}
        each = {key: np.tile(value, times) for key, value in constraint.get("each", {}).items()}
        constraints = (
            ConstraintGroup(
                constraint["kind"], "structure", ends, ends * l, np.tile(variables, times),
                np.ones(times * l, np.int32), np.zeros(times * l, dtype=bool), meta, each,
            ),
        )  # fmt: skip
    program = Program(var_ptr, np.tile(card, times).astype(np.int32), tuple(groups), constraints).validate()
    return with_rules(program, registry()), Theta.of(program, rng.normal(size=program.n_states), tables)


def matching(rng: np.random.Generator, n: int, strength: float) -> Problem:
    """Square matchings with tables (for two places that both hold) over 15 % of the pairs that may hold together."""
    row, col = np.divmod(np.arange(n * n), n)
    links = [(a, b) for a in range(n * n) for b in range(a) if row[a] != row[b] and col[a] != col[b]]
    edges = np.array([link for link in links if rng.random() < 0.15])
    limits = {"n_rows": n, "n_cols": n, "row_least": 1, "row_most": 1, "col_least": 0, "col_most": 1}
    both = strength * np.array([[0.0, 0.0], [0.0, 1.0]])
    structure = {"kind": "matching", "variables": np.arange(n * n), "meta": limits, "each": {"row": row, "col": col}}
    return repeated(rng, np.full(n * n, 2), [edges], [both], TIMES, structure)


def tree(rng: np.random.Generator, n: int, strength: float) -> Problem:
    """Directed trees whose tokens have one of three labels, with tables for an arc and the label of either end."""
    arcs = np.array([(h, d) for d in range(1, n + 1) for h in range(n + 1) if h != d])
    number = np.arange(len(arcs))
    ends = [np.stack([number, len(arcs) + arcs[:, 1] - 1], axis=1)]
    ends.append(np.stack([number, len(arcs) + arcs[:, 0] - 1], axis=1)[arcs[:, 0] > 0])
    taken = strength * np.array([[0.0] * 3, [1.0] * 3])
    each = {"head": arcs[:, 0], "dependent": arcs[:, 1]}
    meta = {"n": n, "single_root": False}
    structure = {"kind": "arborescence", "variables": number, "meta": meta, "each": each}
    return repeated(rng, np.repeat([2, 3], [len(arcs), n]), ends, [taken, taken], TIMES, structure)


def budget(rng: np.random.Generator, n: int, strength: float) -> Problem:
    """At most four of n labels, with tables over all pairs."""
    edges = np.array([(a, b) for a in range(n) for b in range(a)])
    meta = {"lower": 0, "upper": 4}
    structure = {"kind": "count", "variables": np.arange(n), "meta": meta}
    return repeated(rng, np.full(n, 2), [edges], [np.full((2, 2), strength)], TIMES, structure)


def timed(problem: Problem, backend: str, **question: Any) -> tuple[Solution, float]:
    """Return an answer and its processor time, after a first one that compiles what is needed."""
    program, theta = problem
    asked = Question(theta, **question)
    session = open_plan(plan(program_need(program, frozenset({asked.task}), Guarantee.BOUND), backend), program)
    session.solve(asked.replace(examples=np.arange(1)))
    start = process_time()
    return session.solve(asked), process_time() - start


def main() -> None:
    """Print both tables."""
    rng = np.random.default_rng(0)
    cases = {
        "6 by 6 matching": matching(rng, 6, 0.3),
        "tree of 6 tokens": tree(rng, 6, 0.5),
        "tree of 10 tokens": tree(rng, 10, 1.0),
        "4 of 14 labels": budget(rng, 14, 1.0),
        "4 of 30 labels": budget(rng, 30, 0.2),
    }
    table = Table("problem", "best found", "proved", "decompose [s]", "ilp [s]")
    for name, problem in cases.items():
        (right, slow), (found, quick) = timed(problem, "ilp"), timed(problem, "decompose")
        best = np.mean(found.score >= right.score - 1e-6)
        table.add_row(name, f"{best:.0%}", f"{found.optimal().mean():.0%}", f"{quick:.2f}", f"{slow:.2f}")
    CONSOLE.print(table)
    table = Table("grid of 20 by 20, two best", "combi [s each]", "ilp [s each]")
    for states, strength in ((2, 0.5), (2, 1.0), (4, 0.5)):
        links = [grid_edges(20)]
        grids = repeated(rng, np.full(400, states), links, [np.full((states, states), strength)], 3)
        times = [timed(grids, backend, task=Task.KBEST, k=2)[1] / 3 for backend in ("combi", "ilp")]
        table.add_row(f"{states} states, pairs {strength}", *(f"{one:.2f}" for one in times))
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
