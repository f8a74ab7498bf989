"""Ratliff, Bagnell and Zinkevich (2007), section 6: what subgradients that are only approximate cost an online learner.

g is a gamma-subgradient of h at w if ``h(w') >= h(w) + g . (w' - w) - gamma h(w)`` for all w'.  The plane of a
labelling y, ``L(y) + w . (Phi(y) - Phi(y_t))``, is below the margin risk r_t everywhere.  So a labelling whose plane is
at ``(1 - gamma) r_t(w)`` or above at w gives one (theorem 6.2 says so of the maximum alone).  Here a labelling is found
with weights that are disturbed, by as much as gamma allows.

With the step ``1/(lam t)`` the regret is at most ``1/(2 lam) sum_t |g_t|^2 / t + gamma sum_t r_t(w_t)``, by the
argument of Hazan et al. (2006) and no assumption.  The paper has, with the lam of theorem 5.2 for T and
``S(T) = |w*| sqrt(T (1 + ln T))``,

    1/T sum_t L_t(y_t*)  <=  1/(1 - gamma) (1/T sum_t r_t(w*) + S(T)/T)         (18)
                         ->  1/(1 - gamma) R          as T grows                (19)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl import Model, StructuredSVM
from ssvm_dsl.ir import F64
from ssvm_dsl.testing import training_problem
from ssvm_papers.experiments.regret import DATA, LAM, PAPER, Met, OnlineExamples, learn_online, margin_examples
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Between, Statement

#: Values of gamma, examples after which averages are compared, and draws.
GAMMAS, HORIZONS, N_DRAWS = (0.0, 0.1, 0.3, 0.5), (50, 100, 200, 500, 1000), 2

#: How often a disturbance is halved before the exact labelling is taken.
HALVINGS = 12

STATEMENTS = tuple(
    statement
    for name in DATA
    for statement in (
        Statement(f"{name}-regret", f"{name}: regret over its bound with gamma, largest of all gamma, T and draws "
                  "(below 0: ahead of w*)", "at most 1", Between(-100, 1), "{:.2f}"),
        Statement(f"{name}-average", f"{name}: average loss over the right side of (18), largest of all", "at most 1",
                  Between(0, 1), "{:.3f}"),
        Statement(f"{name}-limit", f"{name}: average loss after {HORIZONS[-1]} examples over R / (1 - gamma) of (19), "
                  "largest of all gamma", "at most 1 in the limit", Between(0, 1), "{:.2f}"),
        Statement(f"{name}-gamma", f"{name}: part of the risk that the labellings miss, mean, for gamma = "
                  f"{GAMMAS[-1]:g}", form="{:.2f}"),
    )
)  # fmt: skip


def approximate_examples(
    model: type[Model], X: Sequence[Any], Y: Sequence[Any], gamma: float, seed: int
) -> tuple[OnlineExamples, list[float]]:
    """Return examples with gamma-subgradients; and a list of the shares of risks that were missed, which grows.

    Parameters
    ----------
    model, X, Y
    gamma : float
    seed : int
        Of the disturbances.
    """
    problem, plain = (training_problem(model, X, Y, risk=risk) for risk in ("margin", "perceptron"))
    truth, rng, missed = [np.asarray(y) for y in Y], np.random.default_rng(seed), list[float]()

    def meet(w: F64, t: int) -> Met:
        one = np.array([t])
        exact = problem.gradient(w, one)
        risk, vector = float(exact.value[0]), exact.vector
        disturbance = rng.normal(size=len(w)) * (1.0 + np.linalg.norm(w))
        for _ in range(HALVINGS if gamma > 0.0 else 0):
            other = problem.gradient(w + disturbance, one)
            reached = float(other.offset + other.vector @ w)  # the plane of that labelling, at w
            if reached >= (1.0 - gamma) * risk:
                vector = other.vector
                missed.append(1.0 - reached / risk if risk > 0.0 else 0.0)
                break
            disturbance *= 0.5
        else:
            missed.append(0.0)
        return Met(risk, vector, float(np.mean(plain.oracle(w, one).labels != truth[t])))

    return replace(margin_examples(model, X, Y), meet=meet), missed


def run(quick: bool, progress: Progress) -> Findings:
    """Compare on two draws of both data; quick: one draw, up to 100 examples, two gammas."""
    if quick:
        return compare((20, 50, 100), GAMMAS[::2], 1, progress)
    return compare(HORIZONS, GAMMAS, N_DRAWS, progress)


def compare(horizons: Sequence[int], gammas: Sequence[float], n_draws: int, progress: Progress) -> Findings:
    """Compare losses with (18), and regrets with the bound that holds without assumptions."""
    steps, answers = Steps(progress, len(DATA) * n_draws * len(horizons)), Answers(STATEMENTS)
    arrays, tables = {"horizons": np.array(horizons), "gammas": np.array(gammas)}, []
    for name, (model, make) in DATA.items():
        per_draw = np.zeros((n_draws, len(horizons), len(gammas), 6))
        for draw in range(n_draws):
            X, Y = make(horizons[-1], draw)
            for k, T in enumerate(horizons):
                steps(f"{name}, draw {draw + 1}, {T} examples")
                per_draw[draw, k] = compared(model, X[:T], Y[:T], gammas, draw)
        loss, right, limit, regret, bound, missed = np.moveaxis(per_draw, 3, 0)
        answers.numbers(f"{name}-regret", float((regret / bound).max()))
        answers.numbers(f"{name}-average", float((loss / right).max()))
        answers.numbers(f"{name}-limit", float((loss / limit)[:, -1].max()))
        answers.draws(f"{name}-gamma", float(missed[:, :, -1].mean()))
        arrays[name] = per_draw.mean(axis=0)
        tables.append(table(name, horizons, gammas, per_draw.mean(axis=0)))
    return Findings(answers.rows, NOTES, tables, arrays)


def compared(model: type[Model], X: Sequence[Any], Y: Sequence[Any], gammas: Sequence[float], seed: int) -> F64:
    """Return the columns of the table for T examples by gamma, ``shape (n_gammas, 6)``.

    The weights w* that losses are compared with are those of the certified fit with the lam of the experiment
    ``regret``; the learner has the lam for T and w*.
    """
    T = len(X)
    best = StructuredSVM(model, lam=LAM, tol=1e-3, random_state=0, n_threads=1).fit(X, Y)
    norm, log = float(np.linalg.norm(best.coef_)), 1.0 + np.log(T)
    risks, lam = T * (best.report_.primal - 0.5 * LAM * norm**2), float(np.sqrt(log / T) / norm)
    columns = np.zeros((len(gammas), 6))
    for m, gamma in enumerate(gammas):
        examples, missed = approximate_examples(model, X, Y, gamma, seed)
        run = learn_online(examples, lam, ())
        columns[m] = (
            run.losses.mean(),
            (risks + norm * np.sqrt(T * log)) / T / (1.0 - gamma),
            risks / T / (1.0 - gamma),
            run.costs.sum() - risks - 0.5 * T * lam * norm**2,
            run.bounds[-1] + gamma * run.risks.sum(),
            np.mean(missed),
        )
    return columns


def table(name: str, horizons: Sequence[int], gammas: Sequence[float], means: F64) -> Table:
    """Return the means over draws by T and gamma."""
    columns = ("T", "gamma", "average loss", "(18)", "R / (1 - gamma)", "regret", "its bound", "risk missed")
    forms = ("{:.3f}",) * 3 + ("{:.1f}",) * 2 + ("{:.0%}",)
    rows = [
        (str(T), f"{gamma:g}", *(form.format(x) for form, x in zip(forms, means[k, m], strict=True)))
        for k, T in enumerate(horizons) for m, gamma in enumerate(gammas)
    ]  # fmt: skip
    return Table(f"{name}: means over draws", columns, rows)


NOTES = (
    f"The data are those of the experiment `regret`, and w* is the optimum for T examples with lam = {LAM:g}; the "
    "learner has the lam of theorem 5.2 for T and w*. Bounds hold against any w*. Predictions are exact; subgradients "
    "are those of labellings that are best for disturbed weights and miss at most gamma of the risk.",
    "R of (19) is the mean risk of w* for T examples, in place of the limit. (18) has the constants of (16), which "
    "assume more than features of norm 1; the bound of the regret has the subgradients that were met, and no "
    "assumption.",
)


def draw(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw average losses over the number of examples by gamma, and the right sides of (18), a panel for each data."""
    colors = ("black", "green", "blue", "red")
    for axis, name in zip(figure.subplots(1, len(DATA)), DATA, strict=True):
        for m, gamma in enumerate(arrays["gammas"]):
            loss, right = arrays[name][:, m, :2].T
            axis.plot(arrays["horizons"], loss, color=colors[m], marker="o", label=f"gamma = {gamma:g}")
            axis.plot(arrays["horizons"], right, color=colors[m], linestyle="--")
        axis.set(xlabel="examples", ylabel="average loss", xscale="log", yscale="log", title=name)
        axis.legend(title="dashed: (18)", fontsize="small")


EXPERIMENTS = (
    Experiment(
        "regret-approximate", "regret", PAPER, "section 6.2, (18), (19)",
        "online learning with approximate subgradients: losses beside their bound", run, STATEMENTS, draw, (9.0, 4.0),
        (), ("generated walks and sequences: the paper gives no data",),
    ),
)  # fmt: skip
