"""Dual bounds on graphs with cycles: how soon message passing comes near the optimum of the relaxation.

The optimum is that of HiGHS in the same run.  A line tells with which limit (most iterations, or smallest fall of the
bound for batches, whose graphs need different numbers of iterations), and in what time for a whole call, the bound was
within the given distance.  For batches the largest distance of all graphs counts, and times are for one graph.  AD3 of
the package of that name is shown where it is installed.

Bounds beyond that relaxation (``cycles``) are held against the optimum.
"""

from __future__ import annotations

import time
from itertools import combinations
from typing import Any

import numpy as np
from lp_speed import grid_edges, random_problem
from models import interleaved

from ssvm_backends import ssvm_backends
from ssvm_backends.dual.ad3 import AD3
from ssvm_backends.dual.descent.backends import MPLP, MSD, TBCD
from ssvm_backends.dual.trws import TRWS
from ssvm_backends.programs.lp import LP
from ssvm_dsl.ir import Group, Program, Question, Theta

F64 = np.ndarray[Any, np.dtype[np.float64]]

#: What is tried until the bound is near enough, for single graphs and for batches.
COUNTS = (1, 2, 3, 5, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000)
STEPS = [{"max_iterations": n, "tol": 0.0} for n in COUNTS]
TOLS = [{"max_iterations": 2000, "tol": tol} for tol in (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)]

SOLVERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "trws": (TRWS, {"smooth": True}),
    "trws, plain": (TRWS, {"smooth": False}),
    "mplp": (MPLP, {"update": "handshake"}),
    "msd": (MSD, {"update": "star", "temperature": 0.0}),
    "tbcd": (TBCD, {"trees": "random"}),
    "tbcd, cover": (TBCD, {"trees": "cover"}),
    "ad3": (AD3, {}),
}


def complete_graphs(n_graphs: int, n: int, card: int, seed: int = 0) -> tuple[Program, Theta]:
    """A batch of complete graphs with standard normal scores."""
    edges = np.array(list(combinations(range(n), 2)), dtype=np.int32)
    scope = (np.arange(n_graphs, dtype=np.int32)[:, None, None] * n + edges).reshape(-1, 2)
    ptr = np.arange(n_graphs + 1, dtype=np.int64)
    group = Group.of(
        "edge", (card, card), scope, ptr * len(edges), np.arange(len(scope), dtype=np.int32), len(scope), ptr * n
    )
    program = Program(ptr * n, np.full(n_graphs * n, card, np.int32), (group,)).validate()
    rng, theta = np.random.default_rng(seed), Theta.zeros(program)
    theta.node[:], theta.pool[:] = rng.normal(size=theta.node.size), rng.normal(size=theta.pool.size)
    return program, theta


def nearly_a_tree(n: int, n_more: int, seed: int = 0) -> F64:
    """Edges of a random tree, each variable with one of the three before it, and some more, numbered at random."""
    rng = np.random.default_rng(seed)
    tree = [(v, rng.integers(max(0, v - 3), v)) for v in range(1, n)]
    more = [rng.choice(n, 2, replace=False) for _ in range(n_more)]
    return rng.permutation(n)[np.array([*tree, *more])].astype(np.int32)


def distance(bound: F64, optimum: F64) -> float:
    """Largest relative distance of bounds from the optimum."""
    return float((np.abs(bound - optimum) / np.abs(optimum)).max())


def first_near(name: str, program: Program, theta: Theta, optimum: F64, near: float) -> tuple[Any, str] | None:
    """Return the session of the first limit that is near enough and what to say about it, ``None`` if there is none."""
    backend, options = SOLVERS[name]
    for limit in TOLS if program.n_examples > 1 else STEPS:
        opened = backend().open(program, options | limit)
        solution = opened.solve(Question(theta))
        found = distance(solution.bound, optimum)
        if found <= near:
            mean = solution.stats["iterations"] / program.n_examples
            return opened, f"{mean:.0f} iterations, tol {limit['tol']:g}, within {found:.4%}"
    return None


def compare(title: str, program: Program, theta: Theta, near: float, names: list[str], repeats: int) -> None:
    """Print how long each solver takes to come near, beside HiGHS."""
    highs = LP().open(program, {"solver": "highs", "rounding": "none"})
    optimum, n = highs.solve(Question(theta)).bound, program.n_examples
    calls, notes = {"HiGHS": lambda: highs.solve(Question(theta))}, {"HiGHS": "optimum of the relaxation"}
    for name in names:
        found = first_near(name, program, theta, optimum, near)
        if found is None:
            print(f"  {name:14} does not come within {near:g} on {title}")
            continue
        opened, notes[name] = found
        calls[name] = lambda opened=opened: opened.solve(Question(theta))
    times = interleaved({key: call for key, call in calls.items() if key != "HiGHS"}, repeats)
    times |= interleaved({"HiGHS": calls["HiGHS"]}, 1)
    print(f"{title}, bound within {near:g} of the relaxation")
    for name, seconds in times.items():
        print(f"  {name:14} {1e3 * seconds / n:9.3f} ms  {times['HiGHS'] / seconds:7.1f} x HiGHS  {notes[name]}")


def installed_ad3(program: Program, theta: Theta) -> None:
    """Print what the AD3 package does on one pairwise example, where it is installed."""
    try:
        import ad3  # type: ignore[import-not-found]
    except ImportError:
        print("  (the package ad3 is not installed)")
        return
    (group,), card = program.groups, int(program.card[0])
    unary, tables = theta.node.reshape(-1, card), theta.tables[0].reshape(-1, card, card)

    def solve() -> None:
        ad3.general_graph(unary, group.scope.astype(np.int64), tables, verbose=0, n_iterations=100, exact=False)

    print(f"  {'AD3 package':14} {1e3 * interleaved({'': solve}, 1)['']:9.3f} ms  100 iterations")


def spin_glasses(n_graphs: int, side: int, field: float, seed: int = 0) -> tuple[Program, Theta]:
    """A batch of square grids of binary variables, normal couplings of both signs, normal fields times ``field``."""
    edges, n, rng = np.asarray(grid_edges(side, side)), side * side, np.random.default_rng(seed)
    scope = (np.arange(n_graphs)[:, None, None] * n + edges).reshape(-1, 2).astype(np.int32)
    ptr = np.arange(n_graphs + 1, dtype=np.int64)
    rows = np.arange(len(scope), dtype=np.int32)
    group = Group.of("edge", (2, 2), scope, ptr * len(edges), rows, len(scope), ptr * n)
    program = Program(ptr * n, np.full(n_graphs * n, 2, np.int32), (group,)).validate()
    coupling, theta = rng.normal(size=len(scope)), Theta.zeros(program)
    theta.tables[0][:] = np.stack([coupling, -coupling, -coupling, coupling], axis=1)
    theta.node[:] = (field * rng.normal(size=(len(program.card), 1)) * np.array([-1.0, 1.0])).ravel()
    return program, theta


def compare_tightened(title: str, program: Program, theta: Theta) -> None:
    """Print how far bounds are above the optimum, how many are proved, and the mean processor time of an example."""
    n, rows = program.n_examples, []
    for name in ("combi", "ilp", "lp", "trws", "cycles"):
        spec = next(spec for spec in ssvm_backends() if spec.name == name)
        session = spec.load()().open(program, spec.resolve({}))
        session.solve(Question(theta.copy(), np.array([0])))
        begin = time.process_time()
        rows.append((name, session.solve(Question(theta)), time.process_time() - begin))
    best = rows[0][1].score
    print(title)
    for name, found, seconds in rows:
        assert (found.bound >= best - 1e-6 * np.abs(best)).all()
        above = ((found.bound - best) / np.abs(best)).mean()
        proved = (found.bound - found.score <= 1e-5 * np.abs(best)).mean()
        print(f"  {name:14} {1e3 * seconds / n:9.3f} ms  proved {proved:6.1%}  bounds {above:9.4%} above the optimum")


def main() -> None:
    """Run all comparisons (some minutes)."""
    for field in (0.1, 0.5, 1.0):
        compare_tightened(f"spin glasses 10x10, fields {field}", *spin_glasses(20, 10, field))
    compare_tightened("complete graphs, 10 x 4 states", *complete_graphs(20, 10, 4))
    compare_tightened("complete graphs, 14 binary", *complete_graphs(50, 14, 2))
    grid = random_problem(2500, 5, grid_edges(50, 50))
    compare("grid 50x50, 5 states", *grid, 0.002, ["trws", "mplp", "msd", "tbcd", "tbcd, cover", "ad3"], 3)
    installed_ad3(*grid)
    names = ["trws", "mplp", "msd", "tbcd", "tbcd, cover", "ad3"]
    compare("complete graphs, 14 binary", *complete_graphs(200, 14, 2), 0.001, names, 5)
    tree = random_problem(2000, 5, nearly_a_tree(2000, 20))
    compare("a tree of 2000 variables of 5 states, 20 more edges", *tree, 1e-5, names, 3)
    compare("complete graphs, 20 x 4 states", *complete_graphs(5, 20, 4), 0.001, ["trws", "trws, plain", "ad3"], 3)
