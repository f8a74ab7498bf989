"""Output of ``ssvm solve`` on the screen."""

from __future__ import annotations

from math import isfinite, log
from typing import TYPE_CHECKING

import numpy as np

from ssvm_dsl.report.tables import plain_table, two_columns
from ssvm_dsl.units import seconds_text

if TYPE_CHECKING:
    from rich.console import Console

    from ssvm_dsl.io.graph_problem import GraphProblem
    from ssvm_dsl.scoring.problems import SolveAnswer, SolveRequest


def show_answer(screen: Console, request: SolveRequest, answer: SolveAnswer, read: float, labels: bool) -> None:
    """Show one answer as a table, with the labelling or the marginals when asked for."""
    rows = [("problem", problem_text(request.problem, read)), *_evidence(request), ("status", answer.status)]
    if answer.log_partition is not None:
        rows.append(("log Z", _log_partition(answer.log_partition)))
    else:
        rows += [("score", number(answer.score)), ("bound", number(answer.bound)), ("gap", number(answer.gap, ".3g"))]
        if isfinite(answer.eta):
            rows.append(("eta", f"{answer.eta:.5g}: the energy is at most that many times the least one"))
    rows += [("backend", answer.plan.backend), ("plan", answer.plan.reason), ("time", seconds_text(answer.seconds))]
    if answer.note:
        rows.append(("note", answer.note))
    if labels and answer.labels is not None:
        rows.append(("labels", _labels(request.problem, answer.labels)))
    screen.print(two_columns("", rows))
    if labels and answer.node is not None:
        _show_marginals(screen, request.problem, answer.node)


def show_comparison(
    screen: Console, request: SolveRequest, answers: list[SolveAnswer], refused: dict[str, str], read: float
) -> None:
    """Show the answer of every backend, best score first, and why backends without an answer have none."""
    screen.print(problem_text(request.problem, read), markup=False, soft_wrap=True)
    for what, text in _evidence(request):
        screen.print(f"{what}: {text}", markup=False)
    if request.marginals:
        columns = ["backend", "status", "log Z", "time"]
        rows = [
            [one.plan.backend, one.status, number(one.log_partition or np.nan), seconds_text(one.seconds)]
            for one in answers
        ]
    else:
        columns = ["backend", "status", "score", "bound", "gap", "time"]
        ranked = sorted(answers, key=lambda one: (-one.score if isfinite(one.score) else np.inf, one.seconds))
        rows = [[one.plan.backend, one.status, *_numbers(one), seconds_text(one.seconds)] for one in ranked]
    screen.print(plain_table("", columns, rows))
    for name, reason in refused.items():
        screen.print(f"{name}: {reason}", markup=False, style="dim", soft_wrap=True)


def problem_text(problem: GraphProblem, read: float) -> str:
    """Return one line about a problem."""
    program = problem.program
    n_factors = sum(group.n_factors for group in program.groups)
    parts = [f"{program.n_variables} variables of up to {int(program.card.max(initial=0))} states"]
    parts.append(f"{n_factors} factors of up to {program.max_arity}" if n_factors else "no factors")
    return f"{problem.source}: {', '.join(parts)} (read in {seconds_text(read)})"


def number(value: float, style: str = ".10g") -> str:
    """Return a number's text, a dash where there is none."""
    return f"{value:{style}}" if isfinite(value) else "-"


def _numbers(answer: SolveAnswer) -> list[str]:
    return [number(answer.score), number(answer.bound), number(answer.gap, ".3g")]


def _evidence(request: SolveRequest) -> list[tuple[str, str]]:
    if request.clamp is None:
        return []
    return [("evidence", f"{int((request.clamp >= 0).sum())} variables observed")]


def _log_partition(value: float) -> str:
    return f"{number(value)} (log10 Z {number(value / log(10))})"


def _labels(problem: GraphProblem, labels: list[int]) -> str:
    if problem.names is None:
        return " ".join(map(str, labels))
    return " ".join(f"{name}={label}" for name, label in zip(problem.names, labels, strict=True))


def _show_marginals(screen: Console, problem: GraphProblem, node: np.ndarray) -> None:
    parts = np.split(node, problem.program.state_ptr[1:-1]) if problem.n_variables else []
    rows = [[problem.name(v), " ".join(f"{p:.6g}" for p in part)] for v, part in enumerate(parts)]
    screen.print(plain_table("", ["variable", "probability of each state"], rows))
