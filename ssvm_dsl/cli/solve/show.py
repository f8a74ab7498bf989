"""Output of ``ssvm solve`` on the screen."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from ssvm_dsl.report.tables import plain_table, two_columns
from ssvm_dsl.units import number_text, seconds_text

if TYPE_CHECKING:
    from rich.console import Console

    from ssvm_dsl.array_types import I32
    from ssvm_dsl.inference.problems import SolveAnswer
    from ssvm_dsl.ir.graph_problem import GraphProblem


def show_answer(
    screen: Console, problem: GraphProblem, observed: I32 | None, answer: SolveAnswer, read: float, labels: bool
) -> None:
    """Show one answer as a table, with the labelling or the marginals when asked for."""
    rows = [("problem", problem_text(problem, read)), *_evidence(observed), *answer.rows()]
    if labels and answer.labels is not None:
        rows.append(("labels", _labels(problem, answer.labels)))
    screen.print(two_columns("", rows))
    if labels and answer.node is not None:
        _show_marginals(screen, problem, answer.node)


def show_comparison(
    screen: Console, problem: GraphProblem, observed: I32 | None, answers: list[SolveAnswer],
    refused: dict[str, str], read: float,
) -> None:  # fmt: skip
    """Show the answer of every backend, best score first, and why backends without an answer have none."""
    screen.print(problem_text(problem, read), markup=False, soft_wrap=True)
    for what, text in _evidence(observed):
        screen.print(f"{what}: {text}", markup=False)
    if any(one.log_partition is not None for one in answers):
        columns = ["backend", "status", "log Z", "time"]
        rows = [
            [one.plan.title, one.status, number_text(one.log_partition or np.nan), seconds_text(one.seconds)]
            for one in answers
        ]
    else:
        columns = ["backend", "status", "score", "bound", "gap", "time"]
        ranked = sorted(answers, key=lambda one: (-one.score if isfinite(one.score) else np.inf, one.seconds))
        rows = [[one.plan.title, one.status, *_numbers(one), seconds_text(one.seconds)] for one in ranked]
    screen.print(plain_table("", columns, rows))
    for name, reason in refused.items():
        screen.print(f"{name}: {reason}", markup=False, style="dim", soft_wrap=True)


def problem_text(problem: GraphProblem, read: float) -> str:
    """Return one line about a problem, and how long reading it took."""
    return f"{problem} (read in {seconds_text(read)})"


def _numbers(answer: SolveAnswer) -> list[str]:
    return [number_text(answer.score), number_text(answer.bound), number_text(answer.gap, ".3g")]


def _evidence(observed: I32 | None) -> list[tuple[str, str]]:
    return [] if observed is None else [("evidence", f"{int((observed >= 0).sum())} variables observed")]


def _labels(problem: GraphProblem, labels: list[int]) -> str:
    if problem.names is None:
        return " ".join(map(str, labels))
    return " ".join(f"{problem.name(v)}={problem.state_name(v, label)}" for v, label in enumerate(labels))


def _show_marginals(screen: Console, problem: GraphProblem, node: np.ndarray) -> None:
    parts = np.split(node, problem.program.state_ptr[1 : problem.n_given]) if problem.n_given else []
    rows = [[problem.name(v), " ".join(f"{p:.6g}" for p in part)] for v, part in enumerate(parts)]
    screen.print(plain_table("", ["variable", "probability of each state"], rows))
