"""The assignment oracle on batches beside bare calls of SciPy's ``linear_sum_assignment``, one thread.

Microseconds of CPU time for each problem (the machine may be shared), the best of seven turns.  *Oracle* is everything
from scores to labels: costs, solution, labels, their scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from ssvm_backends.structures.matchings.assignment import Assignment
from ssvm_backends.structures.matchings.best_matchings import match_all
from ssvm_dsl import Dim, Factor, Input, Label, Matching, Model, ground
from ssvm_dsl.ir import Question, pointers

SIZES = ((5, 5, 4000), (15, 15, 1000), (10, 20, 1000), (30, 30, 300), (100, 100, 30), (300, 300, 4))
N_TURNS = 7


class Pairs(Model):
    """The best matching of rows and columns."""

    I, J = Dim(), Dim()
    x = Input(I, J, 1)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)


def spent(*calls: Callable[[], object]) -> list[float]:
    """Return the CPU seconds of each call, the best of several turns."""
    best = [np.inf] * len(calls)
    for _ in range(N_TURNS):
        for number, call in enumerate(calls):
            begin = time.process_time()
            call()
            best[number] = min(best[number], time.process_time() - begin)
    return best


def measure(rows: int, cols: int, n: int) -> tuple[float, float, float]:
    """Return the microseconds for each of n problems: SciPy's bare calls, the kernel, the oracle."""
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(rows)
    X = [rng.normal(size=(rows, cols, 1)) for _ in range(n)]
    made = ground(Pairs, X)
    theta, session = made.parameters.scores(np.ones(1)), Assignment().open(made.program, {})
    costs = np.minimum(-np.concatenate([x.ravel() for x in X]), 0.0)
    start, sizes = np.arange(n + 1) * rows * cols, (np.full(n, rows), np.full(n, cols))
    match_start = pointers(sizes[0])

    def bare() -> None:
        for matrix in costs.reshape(n, rows, cols):
            linear_sum_assignment(matrix)

    def kernel() -> None:
        match_all(costs, start, *sizes, match_start, np.full(n * rows, -1, np.int32), np.ones(n, dtype=bool))

    def oracle() -> None:
        session.solve(Question(theta))

    kernel(), oracle()
    scipy, own, whole = (seconds / n * 1e6 for seconds in spent(bare, kernel, oracle))
    return scipy, own, whole


def main() -> None:
    """Show the times of all sizes."""
    table = Table(title="us for each problem", title_justify="left")
    for column in ("rows x columns", "SciPy", "kernel", "/ SciPy", "oracle", "/ SciPy"):
        table.add_column(column, justify="right")
    for rows, cols, n in SIZES:
        scipy, own, whole = measure(rows, cols, n)
        ratios = f"{own / scipy:.2f}", f"{whole / scipy:.2f}"
        table.add_row(f"{rows} x {cols}", f"{scipy:.2f}", f"{own:.2f}", ratios[0], f"{whole:.2f}", ratios[1])
    Console(width=100).print(table)
