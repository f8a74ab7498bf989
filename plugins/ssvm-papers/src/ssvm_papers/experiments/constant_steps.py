"""Ratliff, Bagnell and Zinkevich (2007), theorem 5.1: constant steps converge linearly to a ball around the optimum.

With ``c(w') >= c(w) + g . (w' - w) + lam/2 |w' - w|^2`` for the optimum w' = w*, and ``c(w) - c(w*) >= lam/2 |w -
w*|^2``, a step of length a against a subgradient g with ``|g| <= G`` has

    |w_(t+1) - w*|^2  <=  (1 - 2 a lam) |w_t - w*|^2 + a^2 G^2 .

The theorem says less than that: the radius of the ball, ``sqrt(a G^2 / lam)``, belongs to the factor 1 - a lam.  So
distances are compared with ``(1 - a lam)^t |w_1 - w*|^2 + a G^2 / lam`` at each step, with the largest subgradient that
was met, and with the sharper bound.  w* is that of a certified fit, whose gap says how far from it the true one may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl import StructuredRegressor, StructuredSVM
from ssvm_dsl.ir import F64
from ssvm_papers.experiments.regret import DATA, LAM, PAPER, OnlineExamples, margin_examples
from ssvm_papers.experiments.regret_values import VALUES, drawn_values, value_examples, value_regressor
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Between, Statement

#: Lengths of steps, times lam; steps, and examples.
LENGTHS, N_STEPS, N_EXAMPLES = (1.0, 0.1, 0.01, 0.001), 3000, 50

#: Relative gap of the optimum.
TOLERANCE = 1e-8

NAMES = (*DATA, VALUES)

STATEMENTS = tuple(
    statement
    for name in NAMES
    for statement in (
        Statement(f"{name}-theorem", f"{name}: distance from the optimum over that of the theorem, largest of all "
                  "steps and lengths", "at most 1", Between(0, 1), "{:.3f}"),
        Statement(f"{name}-sharper", f"{name}: the same over the sharper bound", "at most 1", Between(0, 1), "{:.3f}"),
        Statement(f"{name}-ball", f"{name}: distance after {N_STEPS} steps over the radius of the ball, largest",
                  "at most 1", Between(0, 1), "{:.3f}"),
        Statement(f"{name}-inside", f"{name}: steps until inside the ball, by length a lam = "
                  f"{', '.join(f'{one:g}' for one in LENGTHS)}"),
        Statement(f"{name}-optimum", f"{name}: how far the weights of the fit may be from the optimum, in radii of the "
                  "smallest ball", form="{:.1e}"),
    )
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Optimum:
    """Weights near the optimum, and how far they may be from it."""

    w: F64
    within: float


def optimum(name: str, X: Sequence[Any], Y: Sequence[Any], values: F64 | None) -> Optimum:
    """Return the weights of a certified fit: ``lam/2 |w - w*|^2`` is at most its gap."""
    limits: dict[str, Any] = {"tol": TOLERANCE, "max_passes": 10_000}
    fitted: StructuredSVM | StructuredRegressor
    if values is None:
        fitted = StructuredSVM(DATA[name][0], lam=LAM, trainer="bundle", random_state=0, n_threads=1, **limits)
        fitted.fit(X, Y)
    else:
        fitted = value_regressor(**limits)
        fitted.fit(X, values, Y)
    gap = max(fitted.report_.primal - fitted.report_.dual, 0.0)
    return Optimum(fitted.coef_, float(np.sqrt(2.0 * gap / LAM)))


def distances(examples: OnlineExamples, w: F64, length: float, n_steps: int) -> tuple[F64, float]:
    """Return ``|w_t - w*|`` for t = 1 ... n_steps + 1, from 0, and the largest norm of a subgradient."""
    at, squared, largest = np.zeros(examples.dim), np.zeros(n_steps + 1), 0.0
    for t in range(n_steps + 1):
        squared[t] = np.linalg.norm(at - w)
        g = LAM * at + examples.total(at) / examples.n
        largest = max(largest, float(np.linalg.norm(g)))
        at = at - length * g
    return squared, largest


def run(quick: bool, progress: Progress) -> Findings:
    """Take constant steps of several lengths; quick: 10 examples, 100 steps, two lengths."""
    n, n_steps, lengths = (10, 100, LENGTHS[1:3]) if quick else (N_EXAMPLES, N_STEPS, LENGTHS)
    steps, answers, arrays, rows = Steps(progress, len(NAMES) * len(lengths)), Answers(STATEMENTS), {}, []
    for name in NAMES:
        values = None
        if name == VALUES:
            X, values, Y = drawn_values(n, 0)
            examples = value_examples(X, values, Y)
        else:
            model, make = DATA[name]
            X, Y = make(n, 0)
            examples = margin_examples(model, X, Y)
        best = optimum(name, X, Y, values)
        theorem, sharper, last, inside, smallest = [], [], [], [], np.inf
        for relative in lengths:
            steps(f"{name}, steps of {relative:g} / lam")
            length = relative / LAM
            measured, G = distances(examples, best.w, length, n_steps)
            radius, t = np.sqrt(length * G**2 / LAM), np.arange(n_steps + 1)
            bound = np.sqrt((1.0 - relative) ** t * measured[0] ** 2 + radius**2)
            rate = (1.0 - 2.0 * relative) ** t if relative < 0.5 else (t == 0).astype(float)
            closer = np.sqrt(rate * measured[0] ** 2 + (radius**2 / 2.0 if relative < 0.5 else length**2 * G**2))
            theorem.append(float((measured / bound).max()))
            sharper.append(float((measured / closer).max()))
            last.append(float(measured[-1] / radius))
            within = np.flatnonzero(measured <= radius)
            inside.append(int(within[0]) if len(within) else n_steps)
            smallest = min(smallest, radius)
            rows.append((name, f"{relative:g} / lam", f"{G:.2f}", f"{measured[0]:.2f}", f"{measured[-1]:.3f}",
                         f"{radius:.2f}", str(inside[-1])))  # fmt: skip
            arrays[f"{name}/{relative:g}"] = np.stack([measured, bound])
        answers.numbers(f"{name}-theorem", max(theorem))
        answers.numbers(f"{name}-sharper", max(sharper))
        answers.numbers(f"{name}-ball", max(last))
        answers.text(f"{name}-inside", ", ".join(map(str, inside)), *inside)
        answers.draws(f"{name}-optimum", best.within / float(smallest))
    columns = ("data", "length", "largest subgradient", "distance at first", f"after {n_steps} steps", "radius",
               "steps until inside")  # fmt: skip
    return Findings(answers.rows, NOTES, (Table("Distances from the optimum", columns, rows),), arrays)


NOTES = (
    f"Batch steps over {N_EXAMPLES} examples from w = 0, lam = {LAM:g}; data as in the experiments `regret` (walks, "
    f"sequences: MMSC) and `regret-values` ({VALUES}: MMSR). G of the bounds is the largest subgradient that was met, "
    "so that nothing is assumed of the region.",
    "The sharper bound has the factor 1 - 2 a lam and half of the square of the radius, for a < 1/(2 lam); for longer "
    "steps the factor is taken as 0.",
)


def draw(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw distances over steps, and their bounds, a panel for each kind of data."""
    colors = ("black", "green", "blue", "red")
    for axis, name in zip(figure.subplots(1, len(NAMES)), NAMES, strict=True):
        curves = [(key.partition("/")[2], one) for key, one in arrays.items() if key.partition("/")[0] == name]
        for (length, (measured, bound)), color in zip(curves, colors, strict=False):
            axis.plot(np.arange(1, len(measured) + 1), measured, color=color, label=f"a = {length} / lam")
            axis.plot(np.arange(1, len(measured) + 1), bound, color=color, linestyle="--")
        axis.set(xlabel="steps", ylabel="distance from the optimum", xscale="log", yscale="log", title=name)
        axis.legend(title="dashed: theorem 5.1", fontsize="small")


EXPERIMENTS = (
    Experiment(
        "regret-constant", "regret", PAPER, "theorem 5.1", "constant steps: distances from the optimum and their bound",
        run, STATEMENTS, draw, (12.0, 4.0), (), ("generated data: the paper gives none",),
    ),
)  # fmt: skip
