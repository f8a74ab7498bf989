"""Speed of cuts on grids and small graphs beside PyMaxflow and gco (optional: ``pip install 'ssvm-dsl[bench]'``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, product

import numpy as np
from models import interleaved
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ssvm_backends.cuts.graph_cut import GraphCut
from ssvm_backends.cuts.maxflow import workspace
from ssvm_backends.cuts.move_making import AlphaBetaSwap, AlphaExpansion
from ssvm_backends.cuts.qpbo import QPBO
from ssvm_backends.cuts.roof_duality import roof_network
from ssvm_backends.graphs.graph import build_graph
from ssvm_backends.programs.lp import LP
from ssvm_dsl.ir import Group, Program, Question, Task, Theta
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.plugin_api import BackendSpec, score_labels
from ssvm_dsl.registry import registry

CONSOLE = Console(width=110)
SIDE = 100
F64 = NDArray[np.float64]


def grid_edges(side: int) -> NDArray[np.int32]:
    """Return the edges of a square grid, rows first."""
    at = np.arange(side * side, dtype=np.int32).reshape(side, side)
    across, down = (at[:, :-1], at[:, 1:]), (at[:-1], at[1:])
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in (across, down)])


class Potts:
    """A grid with unary costs (side, side, labels) and Potts costs (edges), and the same as a program with scores."""

    def __init__(self, n_labels: int, strength: float, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.unary = rng.normal(size=(SIDE, SIDE, n_labels))
        self.edges = grid_edges(SIDE)
        self.weight = strength * np.abs(rng.normal(size=len(self.edges)))
        self.differ = 1.0 - np.eye(n_labels)
        n, rows = len(self.edges), np.arange(len(self.edges), dtype=np.int32)
        group = Group.of("e", (n_labels, n_labels), self.edges, np.array([0, n]), rows, n, np.array([0, SIDE * SIDE]))
        self.program = Program(np.array([0, SIDE * SIDE]), np.full(SIDE * SIDE, n_labels, np.int32), (group,))
        tables = -np.outer(self.weight, self.differ.ravel())
        self.theta = Theta.of(self.program, -self.unary.ravel(), [tables])

    def score(self, labels: NDArray[np.integer]) -> float:
        """Return the score of a labelling."""
        return float(score_labels(self.program, self.theta, np.ascontiguousarray(labels, np.int32).ravel())[0])

    def solver(self, backend: type, **options: str) -> Callable[[], float]:
        """Return a call that solves with a backend opened before."""
        session = backend().open(self.program, options)
        return lambda: float(session.solve(Question(self.theta)).score[0])


def pymaxflow(problem: Potts) -> Callable[[], float] | None:
    """Return a call that builds and solves a binary problem with PyMaxflow, by its fast grid constructors."""
    try:
        import maxflow
    except ImportError:
        return None
    n_across = SIDE * (SIDE - 1)
    across, down = np.zeros((SIDE, SIDE)), np.zeros((SIDE, SIDE))
    across[:, :-1] = problem.weight[:n_across].reshape(SIDE, SIDE - 1)
    down[:-1] = problem.weight[n_across:].reshape(SIDE - 1, SIDE)
    right, below = np.zeros((3, 3)), np.zeros((3, 3))
    right[1, 2] = below[2, 1] = 1

    def call() -> float:
        graph = maxflow.Graph[float](SIDE * SIDE, 2 * SIDE * SIDE)
        nodes = graph.add_grid_nodes((SIDE, SIDE))
        graph.add_grid_edges(nodes, across, structure=right, symmetric=True)
        graph.add_grid_edges(nodes, down, structure=below, symmetric=True)
        graph.add_grid_tedges(nodes, problem.unary[..., 0], problem.unary[..., 1])
        flow = graph.maxflow()
        graph.get_grid_segments(nodes)
        return -float(flow)

    return call


def gco(problem: Potts, algorithm: str) -> Callable[[], NDArray[np.integer]] | None:
    """Return a call that returns the labels gco finds, to convergence."""
    try:
        import gco as library
    except ImportError:
        return None
    unary = problem.unary.reshape(SIDE * SIDE, -1)
    arguments = problem.edges, problem.weight, unary, problem.differ
    return lambda: library.cut_general_graph(*arguments, n_iter=-1, algorithm=algorithm)


def table(title: str, *columns: str) -> Table:
    """Return an empty table."""
    made = Table(title=title, title_justify="left")
    for column in columns:
        made.add_column(column)
    return made


def binary() -> None:
    """One minimum cut of a binary grid, capacities priced anew."""
    shown = table("binary Potts grid 100 x 100, one thread", "strength", "solver", "ms", "ratio", "score", "target")
    for strength in (0.3, 1.0, 2.0):
        problem = Potts(2, strength)
        calls = {"graph-cut": problem.solver(GraphCut), "qpbo": problem.solver(QPBO, rest="none")}
        other = pymaxflow(problem)
        calls |= {} if other is None else {"PyMaxflow": other}
        best = interleaved(calls, 15)
        base = best.get("PyMaxflow", float("nan"))
        for name, seconds in best.items():
            target = "<= 3" if name == "graph-cut" else ""
            shown.add_row(
                f"{strength}", name, f"{1e3 * seconds:.2f}", f"{seconds / base:.2f}", f"{calls[name]():.4f}", target
            )
    CONSOLE.print(shown)


def many_labels() -> None:
    """Expansion and swap on a grid of four labels."""
    shown = table("4-label Potts grid 100 x 100, one thread", "strength", "solver", "ms", "ratio", "score", "target")
    for strength in (0.3, 0.5, 1.0):
        problem = Potts(4, strength)
        for algorithm, backend in (("expansion", AlphaExpansion), ("swap", AlphaBetaSwap)):
            ours, other = problem.solver(backend), gco(problem, algorithm)
            best = interleaved({"ours": ours} | ({} if other is None else {"gco": other}), 9)
            ratio, target = best["ours"] / best.get("gco", float("nan")), "<= 2" if algorithm == "expansion" else ""
            row = f"{1e3 * best['ours']:.1f}", f"{ratio:.2f}", f"{ours():.2f}", target
            shown.add_row(f"{strength}", f"alpha-{'beta-' * (algorithm == 'swap')}{algorithm}", *row)
            if other is not None:
                score = problem.score(other())
                shown.add_row(f"{strength}", f"gco {algorithm}", f"{1e3 * best['gco']:.1f}", "1.00", f"{score:.2f}", "")
    CONSOLE.print(shown)


def batches() -> None:
    """Many small graphs in one call."""
    shown = table("1000 binary submodular graphs of 20 variables, 40 factors", "call", "ms", "us for each graph")
    rng, n, m, many = np.random.default_rng(0), 20, 40, 1000
    scope = np.stack([rng.choice(n, 2, replace=False) for _ in range(m * many)]).astype(np.int32)
    scope += np.repeat(np.arange(many, dtype=np.int32) * n, m)[:, None]
    rows = np.arange(m * many, dtype=np.int32)
    group = Group.of("e", (2, 2), scope, pointers(np.full(many, m)), rows, m * many, pointers(np.full(many, n)))
    program = Program(pointers(np.full(many, n)), np.full(n * many, 2, np.int32), (group,)).validate()
    weight = np.abs(rng.normal(size=(m * many, 1)))
    theta = Theta.of(program, rng.normal(size=2 * n * many), [weight * np.eye(2).ravel()])
    session, one = GraphCut().open(program, {}), np.array([500])
    every, single = Question(theta), Question(theta, one)
    best = interleaved({"all": lambda: session.solve(every), "one": lambda: session.solve(single)})
    shown.add_row("all in one call", f"{1e3 * best['all']:.2f}", f"{1e6 * best['all'] / many:.1f}")
    shown.add_row("one of them", f"{1e3 * best['one']:.3f}", f"{1e6 * best['one']:.1f}")
    CONSOLE.print(shown)


def complete_graphs(n: int, many: int, strength: float) -> tuple[Program, Theta]:
    """Return multi-label models: all pairs of n binary variables, tables shared by all examples."""
    rng, pairs = np.random.default_rng(0), np.array(list(combinations(range(n), 2)), np.int32)
    scope = (pairs + n * np.arange(many, dtype=np.int32)[:, None, None]).reshape(-1, 2)
    rows = np.tile(np.arange(len(pairs), dtype=np.int32), many)
    group = Group.of(
        "pair", (2, 2), scope, pointers(np.full(many, len(pairs))), rows, len(pairs), pointers(np.full(many, n))
    )
    program = Program(pointers(np.full(many, n)), np.full(n * many, 2, np.int32), (group,)).validate()
    return program, Theta.of(program, rng.normal(size=2 * n * many), [strength * rng.normal(size=(len(pairs), 4))])


def pymaxflow_roofs(program: Program, theta: Theta) -> Callable[[], float] | None:
    """Return a call that solves the networks of roof duality, their capacities given, with PyMaxflow."""
    try:
        import maxflow
    except ImportError:
        return None
    graph, n = build_graph(program), int(np.diff(program.var_ptr)[0])
    node, arc, _ = workspace(2 * n, 4 * int(np.diff(graph.factor_ptr)[0]))
    networks = []
    for example in range(program.n_examples):
        roof_network(graph, theta.node, theta.pool, example, 2.0**40, node, arc)
        tail = np.repeat(np.arange(2 * n), np.diff(node["first"]))
        first = np.flatnonzero(np.arange(len(arc)) < arc["sister"])
        ends, back = (tail[first], arc["head"][first]), arc["cap"][arc["sister"][first]]
        excess = node["excess"][: 2 * n].astype(float)
        terminals = np.maximum(excess, 0.0), np.maximum(-excess, 0.0)
        networks.append((ends, (arc["cap"][first].astype(float), back.astype(float)), terminals))

    def call() -> float:
        total = 0.0
        for ends, caps, terminals in networks:
            made = maxflow.Graph[float](2 * n, len(ends[0]))
            nodes = made.add_nodes(2 * n)
            made.add_edges(*ends, *caps)
            made.add_grid_tedges(nodes, *terminals)
            total += made.maxflow()
        return total / 2.0**40

    return call


def relaxations() -> None:
    """Bounds of multi-label models by roof duality, beside the linear program and the flows alone of PyMaxflow."""
    columns = ("labels", "pairs weigh", "open", "qpbo us", "alone us", "flows of PyMaxflow", "lp", "target")
    shown = table("bounds of complete graphs, us for each of 200 (and times what qpbo takes), one thread", *columns)
    options = registry().find(BackendSpec, "lp").resolve({})
    for n, strength in product((6, 14, 30), (0.05, 0.3, 1.0)):
        program, theta = complete_graphs(n, 200, strength)
        some, one = np.arange(10), np.array([7])
        cut, lp = QPBO().open(program, {"rest": "none"}), LP().open(program, options)
        flows = pymaxflow_roofs(program, theta)
        calls: dict[str, Callable[[], object]] = {} if flows is None else {"flows": flows}
        calls["qpbo"] = partial(cut.solve, Question(theta, task=Task.RELAXED))
        calls["alone"] = partial(cut.solve, Question(theta, one, Task.RELAXED))
        calls["lp"] = partial(lp.solve, Question(theta, some, Task.RELAXED))
        sizes = {"alone": 1, "lp": len(some)}
        us = {name: 1e6 * seconds / sizes.get(name, 200) for name, seconds in interleaved(calls, 5).items()}
        question = Question(theta, task=Task.RELAXED)
        found, exact = cut.solve(question), lp.solve(question.replace(examples=some))
        np.testing.assert_allclose(found.bound[some], exact.bound, rtol=1e-6)
        assert found.marginals is not None
        row = [str(n), f"{strength}", f"{np.mean(found.marginals.node == 0.5):.0%}"]
        row += [f"{us['qpbo']:.1f}", f"{us['alone']:.0f}"]
        row += [f"{us[name]:.1f} (x {us[name] / us['qpbo']:.1f})" if name in us else "" for name in ("flows", "lp")]
        shown.add_row(*row, "lp >= x 10")
    CONSOLE.print(shown)


def main() -> None:
    """Run all."""
    binary()
    many_labels()
    batches()
    relaxations()
