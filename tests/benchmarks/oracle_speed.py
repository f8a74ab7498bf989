"""Oracle calls from within trainers' kernels beside the same backend asked for a batch, and small fits.

Processor time of one thread.  *Call* is one call of the compiled oracle from a kernel, at random scores, for one of 256
examples; *batch* is the time for each example when the backend's session answers all of them in one call from Python;
*bare* is that of the kernel alone that the session has called for it, with the same arguments; *ratio* is that of a
call to it.  *Visit* is what a fit of ``bcfw`` takes for each exact visit: scores of the features, the call, and the
step.  *Joint* is the share of all counted operations that were steps over the kept planes of all examples.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

from model_table import complete_labels, heads, matching, picture, tagger
from ssvm_dsl import (
    AtMost,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    ProjectiveTree,
    StructuredSVM,
    chain,
    ground,
)
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question, Task, Theta
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import program_need

#: Rounds, calls in each for every example, and examples: enough for calls from Python not to be seen.
ROUNDS, TIMES, MANY = 7, 5, 256

#: The kernel that a backend's session calls for a batch: (module, name).
KERNELS = {
    "chain": ("trees.max_product", "viterbi"),
    "junction-tree": ("elimination.max", "max_steps"),
    "assignment": ("structures.matchings.best_matchings", "assign_all"),
    "arborescence": ("structures.spanning_trees.spanning_trees", "best_trees"),
    "eisner": ("structures.spanning_trees.spanning_trees", "best_projective_trees"),
    "cardinality": ("structures.counting", "choose_counts"),
    "semi-markov": ("structures.segmentations.best_segments", "best_segmentations"),
}


Words = tagger(8, 5)
Six = complete_labels(6, 8, 2)
Align = matching(8)
Heads = heads(8, single_root=True)


class Nested(Heads):
    tree = ProjectiveTree(Heads.head)


class Few(Model):
    T = Dim()
    x = Input(T, 8)
    y = Label(T, 5)
    own = Factor(y, features=x)
    few = AtMost(4, y.is_(1))
    loss = Hamming(y)


class Segments(Model):
    T = Dim()
    x = Input(T, 8)
    y = Label(T, ["O", "A", "B"], segments=4)
    own = Factor(y, features=x)
    next = Factor(chain(y))
    loss = Hamming(y)


Picture = picture(8, 2)


#: Models, sizes of their examples, and how many of them.
CASES: list[tuple[type[Model], tuple[int, ...], int]] = [
    (Words, (6, 8), 20), (Words, (20, 8), 200), (Six, (8,), 50), (Six, (8,), 200), (Align, (10, 10, 8), 50),
    (Align, (10, 10, 8), 200), (Heads, (20, 20, 8), 50), (Heads, (20, 20, 8), 200), (Nested, (20, 20, 8), 50),
    (Few, (12, 8), 50), (Segments, (20, 8), 50), (Picture, (10, 10, 8), 50),
]  # fmt: skip


def data(model: type[Model], shape: tuple[int, ...], n: int) -> tuple[list[Any], list[Any]]:
    """Return examples labelled by random weights, at inputs to which noise was added afterwards."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=shape) for _ in range(n)]
    blocks = ground(model, X[:1]).parameters.blocks
    weights = {one.name: np.maximum(rng.normal(size=one.shape), one.lower_bound) for one in blocks}
    Y = StructuredSVM.from_weights(model, weights).predict(X)
    return [x + 0.7 * rng.normal(size=shape) for x in X], Y


@njit
def call_all(
    function: Any, ints: Any, longs: Any, n: int, times: int, pool: Any, node: Any, labels: Any, work: Any
) -> float:  # fmt: skip
    """Call an oracle for all examples some times; return the sum of the scores."""
    total = 0.0
    for _ in range(times):
        for i in range(n):
            total += function(ints, longs, i, pool, node, labels, work)
    return total


def spent(task: Callable[[], object], calls: int) -> float:
    """Return the least processor seconds of a few turns of as many calls, for each call."""
    return spent_in_turn([task], calls)[0]


def spent_in_turn(tasks: list[Callable[[], object]], calls: int) -> list[float]:
    """Return the same of several tasks, which take turns."""
    turns: list[list[float]] = []
    for task in tasks:
        task()
    for _ in range(ROUNDS):
        turns.append([])
        for task in tasks:
            begin = process_time()
            for _ in range(calls):
                task()
            turns[-1].append((process_time() - begin) / calls)
    return [min(one) for one in zip(*turns, strict=True)]


def bare(backend: str, solve: Callable[[], object]) -> Callable[[], object] | None:
    """Return a call of the kernel that a session calls for its answer, with the same arguments."""
    if backend not in KERNELS:
        return None
    place, name = KERNELS[backend]
    module = import_module(f"ssvm_backends.{place}")
    kernel, caught = getattr(module, name), list[Any]()

    def catch(*given: Any) -> Any:
        caught.append([one.copy() if isinstance(one, np.ndarray) and len(one) == 3 else one for one in given])
        return kernel(*given)

    with patch.object(module, name, catch):
        solve()
    (given,) = caught
    places = [k for k, one in enumerate(given) if isinstance(one, np.ndarray) and len(one) == 3]  # cursors

    def call() -> object:
        fresh = list(given)
        for k in places:
            fresh[k] = given[k].copy()
        return kernel(*fresh)

    return call


def calls(model: type[Model], X: list[Any]) -> tuple[str, float, float, float]:
    """Return (backend, microseconds of a call from a kernel, of an example in a batch, in the kernel alone)."""
    program = ground(model, X).program
    need = program_need(program, frozenset({Task.MAP}), properties=frozenset({"submodular"}))
    session = open_plan(plan_program(program, need), program)
    theta, rng = Theta.zeros(program), np.random.default_rng(1)
    theta.node[:] = rng.normal(size=len(theta.node))
    for table in theta.tables:  # of two states: those that agree score more, as minimum cuts need it
        table[:] = rng.random(table.shape) * (np.eye(2).ravel() if table.shape[1] == 4 and model is Picture else 1.0)
    oracle, question = session.compiled(), Question(theta)
    if oracle is None:
        return session.plan.backend, np.nan, np.nan, np.nan
    n, labels, work = len(X), np.zeros(program.n_variables, np.int32), np.empty(oracle.work_size)
    given = oracle.function, oracle.ints, oracle.longs, n, TIMES, theta.pool, theta.node, labels, work
    alone = bare(session.plan.backend, lambda: session.solve(question))
    tasks = [lambda: call_all(*given), lambda: session.solve(question), *([] if alone is None else [alone])]
    inside, *others = [1e6 * one / n for one in spent_in_turn(tasks, TIMES)]
    return session.plan.backend, inside / TIMES, others[0], others[1] if alone is not None else np.nan


def main() -> None:
    """Print the table."""
    heads = "call us", "batch us", "bare us", "ratio", "fit ms", "visit us", "passes", "joint"
    table = Table("model", "examples", "backend", *heads)
    for model, shape, n in CASES:
        X, Y = data(model, shape, n)
        backend, inside, batch, alone = calls(model, (X * MANY)[:MANY])
        estimator = StructuredSVM(model, C=1.0, tol=0.01, max_passes=1000, random_state=0)
        seconds, report = spent(lambda: estimator.fit(X, Y), 1), estimator.report_  # noqa: B023
        visit = 1e6 * report.oracle_seconds / max(report.n_oracle_calls, 1)
        shares = [event.extra["joint_share"] for event in report.history if "joint_share" in event.extra]
        table.add_row(
            model.__name__, str(n), backend, f"{inside:.2f}", f"{batch:.2f}", f"{alone:.2f}",
            f"{inside / alone:.2f}", f"{1e3 * seconds:.1f}", f"{visit:.1f}",
            f"{report.n_passes:.1f}", f"{shares[-1] if shares else 0.0:.2f}",
        )  # fmt: skip
    Console(width=120).print(table)
