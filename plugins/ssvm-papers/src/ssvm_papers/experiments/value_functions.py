"""Ratliff, Bagnell and Zinkevich (2007), section 7.3 and Figure 3: values of plans by structured regression.

The footstep plans of the paper cannot be had.  In their place stand plans of a robot with a heading on random terrains
(:mod:`ssvm_papers.generators.terrains`), whose costs are not linear in what a path on squares can see.  Three learners:

* structured regression (MMSR): the cost of the best path is to be the value;
* the same with features of the value alone;
* regressed max-margin planning (MMP): weights learnt by margins, so that paths have the right shape, and then a line
  that turns the costs of best paths into values.

Max-margin planning needs costs that stay positive where the loss pays for steps that were not taken; its steps cost 1
besides what is learnt, as much as the loss pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_dsl import Dim, Edges, Factor, Given, Hamming, Input, Label, Model, Path, StructuredRegressor, StructuredSVM
from ssvm_dsl.datasets import load_grid_map
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir import F64
from ssvm_papers.generators import Plans, make_plans, map_terrain
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps
from ssvm_papers.results.statements import Answers, Between, Rising, Statement, with_spread

#: Learners, in the order of the arrays; colours of Figure 3.
LEARNERS = {"regressed MMP": "blue", "MMSR": "green", "MMSR, value features": "red"}

#: Strengths that MMP is tried with; the best one on the test plans is taken, in its favour.
STRENGTHS = (0.1, 1.0, 10.0)

#: A map of which terrains are made, if there is one: ``maps/NAME.map`` in the folder ``SSVM_DATA``.
MAP = "den520d"

#: Of structured regression.
C, LAM = 10.0, 1e-3

#: Plans on graphs with cycles, none of which earns anything.
ROUNDS: dict[str, Any] = {"backend": "shortest-path", "backend_options": {"cycles": "improve"}, "n_threads": 1}


class ValuedWalk(Model):
    """A path on squares, with a cost for each feature of its steps."""

    N, M = Dim(), Dim()
    place = Input(N, 1)
    e = Edges(M, over=N)
    f = Input(M, 5)
    start, goal, far = Input(1), Input(1), Input(4)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f, nonneg=True)
    route = Path(y.is_(1), e, source=start, target=goal)
    loss = Hamming(y)


class Valued(ValuedWalk):
    """The same with features of the value alone."""

    once = Label(1)
    value = Factor(once, features=ValuedWalk.far)


class Planning(ValuedWalk):
    """The same with a cost of 1 for each step."""

    least = Given(ValuedWalk.y.is_(1), scores=[-1.0])


class Headed(ValuedWalk):
    """A path on states with headings; the last feature counts turns."""

    f = Input(ValuedWalk.M, 6)
    cost = Factor(ValuedWalk.y.is_(1), features=f, nonneg=True)


STATEMENTS = (
    Statement("mmsr", "rms error on other terrains: MMSR, regressed MMP", "MMSR < regressed MMP", Rising(), "{:.2f}"),
    Statement("value", "the same: MMSR with value features, MMSR", "slightly better than MMSR", Rising(), "{:.2f}"),
    Statement("draws", "draws in which both orders hold"),
    Statement("passes", "subgradient steps: passes after which MMSR is below the best error of regressed MMP",
              "within few iterations", Between(1, 15), "{:.0f}"),
    Statement("headings", "MMSR on states (row, column, heading)", form="{:.2f}"),
    Statement("spread", "standard deviation of the values", form="{:.2f}"),
    Statement("map", f"windows of the map {MAP}: MMSR with value features, MMSR, regressed MMP",
              "MMSR < regressed MMP; value features better", Rising(), "{:.2f}"),
)  # fmt: skip


def run(quick: bool, progress: Progress) -> Findings:
    """Learn on some terrains, test on others, for several draws; quick: one draw, smaller data."""
    n, draws, passes = (20, 1, 8) if quick else (100, 3, 30)
    steps = Steps(progress, 3 * draws + 1)
    errors, curves, spread = np.zeros((4, draws)), np.zeros((3, draws, passes)), np.zeros(draws)
    for k in range(draws):
        train, test = make_plans(n, random_state=2 * k), make_plans(n, random_state=2 * k + 1)
        spread[k] = test.values.std()
        steps(f"draw {k + 1}: optima")
        errors[:3, k] = optima(train, test)
        steps(f"draw {k + 1}: subgradient steps")
        curves[:, k] = learning_curves(train, test, passes)
        steps(f"draw {k + 1}: states with headings")
        some = [make_plans(max(n // 4, 10), headings=True, random_state=seed) for seed in (2 * k, 2 * k + 1)]
        errors[3, k] = regression(Headed, *some)
    answers = Answers(STATEMENTS)
    tell_errors(answers, errors)
    best = min(errors[0].mean(), curves[0].mean(axis=0).min())
    first = np.flatnonzero(curves[1].mean(axis=0) < best)
    if len(first):
        answers.numbers("passes", first[0] + 1)
    else:
        answers.numbers("passes", passes, at_least=True)
    answers.draws("headings", errors[3])
    answers.draws("spread", spread)
    steps("windows of a map")
    missing = on_maps(n, answers)
    notes = (
        f"{n} plans on {n // 10} terrains of 16 x 16 squares to learn from, as many on others to test on, {draws} "
        f"draw{'s' * (draws > 1)}. Errors are of certified optima (structured regression: C = 10; MMP: the best of "
        "C = 0.1, 1, 10 on the test plans). Subgradient steps: 0.2 / sqrt(t), weighted averages, lam = 0.001. The "
        "true costs are quadratic in slopes, and the first turn is not seen on squares: what is left of the errors.",
        *missing,
    )
    return Findings(answers.rows, notes, arrays={"errors": errors, "curves": curves})


def tell_errors(answers: Answers, errors: F64) -> None:
    """Tell the mean errors of the three learners, their order, and in how many draws it holds."""
    planned, direct, valued, _ = errors
    for key, several in (("mmsr", (direct, planned)), ("value", (valued, direct))):
        text = ", ".join(with_spread(one, "{:.2f}") for one in several)
        answers.numbers(key, *(float(one.mean()) for one in several), text=text)
    holds = (valued < direct) & (direct < planned)
    answers.text("draws", f"{holds.sum()} of {len(holds)}", 100.0 * float(holds.mean()))


def optima(train: Plans, test: Plans) -> tuple[float, float, float]:
    """Return the errors of the three learners on the test plans."""
    return regressed_planning(train, test), regression(ValuedWalk, train, test), regression(Valued, train, test)


def on_maps(n: int, answers: Answers) -> list[str]:
    """Tell errors on terrains made of a grid map; return a note where the map is not there."""
    try:
        squares = load_grid_map(MAP)
    except DataError as err:
        return [f"Terrains of a grid map are left out. {err}"]

    def terrain(rng: np.random.Generator) -> F64:
        return map_terrain(squares, random_state=rng)

    planned, direct, valued = optima(*(make_plans(n, terrain=terrain, random_state=seed) for seed in (0, 1)))
    answers.numbers("map", valued, direct, planned)
    return []


def rms(predicted: F64, values: F64) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.mean((predicted - values) ** 2)))


def regression(model: type[Model], train: Plans, test: Plans) -> float:
    """Return the error of structured regression on the test plans, at the optimum."""
    reg = StructuredRegressor(model, C=C, **ROUNDS).fit(train.X, train.values, labellings(model, train))
    return rms(reg.predict(test.X), test.values)


def regressed_planning(train: Plans, test: Plans) -> float:
    """Return the error of max-margin planning with a line through its costs, with the best strength."""
    predictions = []
    for strength in STRENGTHS:
        svm = StructuredSVM(Planning, C=strength, tol=0.01, random_state=0, **ROUNDS).fit(train.X, train.Y)
        predictions.append(on_a_line(svm, train, test))
    return min(predictions)


def on_a_line(svm: StructuredSVM, train: Plans, test: Plans) -> float:
    """Return the error on the test plans of the line from scores to values that is best on the others."""
    line = np.polyfit(svm.best_score(train.X), train.values, 1)
    return rms(line[0] * svm.best_score(test.X) + line[1], test.values)


def labellings(model: type[Model], plans: Plans) -> list[Any]:
    """Return the paths as labellings of a model."""
    return [{"y": y, "once": 0} for y in plans.Y] if model is Valued else list(plans.Y)


def learning_curves(train: Plans, test: Plans, passes: int) -> F64:
    """Return errors on the test plans after each pass of subgradient steps; ``shape (3, passes)``."""
    options = {"schedule": "1/sqrt(t)", "step_size": 0.2, "averaging": "weighted", "best_iterate": False}
    more: dict[str, Any] = {"lam": LAM, "trainer": "subgradient", "trainer_options": options, "random_state": 0}
    more |= ROUNDS
    svm, errors = StructuredSVM(Planning, **more), np.zeros((3, passes))
    regs = [(model, StructuredRegressor(model, **more)) for model in (ValuedWalk, Valued)]
    for k in range(passes):
        errors[0, k] = on_a_line(svm.partial_fit(train.X, train.Y), train, test)
        for row, (model, reg) in enumerate(regs, 1):
            reg.partial_fit(train.X, train.values, labellings(model, train))
            errors[row, k] = rms(reg.predict(test.X), test.values)
    return errors


def draw(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw Figure 3: rms error over passes; dashed lines are the optima."""
    axis = figure.subplots()
    for (name, color), curve, best in zip(
        LEARNERS.items(), arrays["curves"].mean(axis=1), arrays["errors"].mean(axis=1), strict=False
    ):
        axis.plot(np.arange(1, len(curve) + 1), curve, color=color, label=name)
        axis.axhline(best, color=color, linestyle="--", linewidth=0.8)
    axis.set(xlabel="passes", ylabel="rms error on other terrains", ylim=(0, None))
    axis.legend()


PAPER = "Ratliff, Bagnell, Zinkevich: (Online) Subgradient Methods for Structured Prediction (2007)"

EXPERIMENTS = (
    Experiment(
        "value-functions", "value-functions", PAPER, "section 7.3, Figure 3",
        "values of plans: structured regression and regressed max-margin planning", run,
        STATEMENTS, draw, (6.0, 4.0),
        substitutes=("plans over (row, column, heading) on random terrains for the footstep plans of a robot",),
    ),
)  # fmt: skip
