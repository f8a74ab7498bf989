"""Ratliff, Bagnell and Zinkevich (2007), sections 5.2 and 5.3 for structured regression: "similar results hold".

Example t has a value v_t and a labelling y_t, and costs ``c_t(w) = lam/2 |w|^2 + psi_t(w) + phi_t(w)``, the risk of
(13).  A prediction is the score of the best labelling, and its loss how far beyond epsilon it is from the value.
That is at most the risk: the score of the best labelling is at least that of y_t.  So the regret has the bound of MMSC,

    sum_t c_t(w_t) - min_w sum_t c_t(w)  <=  1/(2 lam) sum_t |g_t|^2 / t ,

and for losses of at most 1 the mean loss of the averaged weights on new examples is at most, with probability
1 - delta, ``1/T sum_t r_t(w_t) + sqrt(2/T ln(1/delta))``, which is (17).  The risks here are written out, by the best
labelling alone; the minima are those of :class:`~ssvm_dsl.StructuredRegressor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl import StructuredRegressor
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.testing import training_problem
from ssvm_papers.experiments.regret import (
    DELTA,
    HORIZONS,
    LAM,
    N_NEW,
    PAPER,
    Met,
    OnlineExamples,
    ShortSequence,
    given,
    learn_online,
    sequences,
)
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Between, Statement

#: The name of the data, epsilon, the scale of the hidden weights, and the noise of values relative to their spread.
VALUES, EPSILON, SCALE, NOISE = "values", 0.02, 2.0, 0.1

#: Draws.
N_DRAWS = 3

STATEMENTS = (
    Statement("regret", "regret over the bound by the subgradients met, largest of all T and draws", "at most 1",
              Between(0, 1), "{:.2f}"),
    Statement("growth", "regret of the most examples over that of a tenth of them", "as 1 + ln T: sublinear",
              Between(0, 3), "{:.2f}"),
    Statement("new", "loss on new examples, averaged weights, over the right side of (17), largest", "at most 1",
              Between(0, 1), "{:.3f}"),
    Statement("loss", "loss over risk, largest of all examples", "at most 1", Between(0, 1.000001), "{:.3f}"),
    Statement("risk", "the largest risk of an example that was met", form="{:.2f}"),
    Statement("gap", "certified relative gap of the minima, at most", form="{:.1e}"),
)  # fmt: skip


def drawn_values(n: int, random_state: int) -> tuple[list[Any], F64, list[Any]]:
    """Return sequences, the scores of their best labellings by hidden weights, with noise, and these labellings."""
    X, _ = sequences(n, random_state)
    rng = np.random.default_rng(random_state)
    dim = training_problem(ShortSequence, X[:1], [np.zeros(len(X[0]), int)]).dim
    svm = given(ShortSequence, SCALE * rng.normal(size=dim), X, [np.zeros(len(X[0]), int)])
    values, Y = np.asarray(svm.best_score(X)), list(svm.predict(X))
    return X, values + NOISE * values.std() * rng.normal(size=n), Y


def value_regressor(**options: Any) -> StructuredRegressor:
    """Return the regressor of the data."""
    return StructuredRegressor(
        ShortSequence, epsilon=EPSILON, lam=LAM, trainer="bundle", random_state=0, n_threads=1, **options
    )


def value_examples(X: Sequence[Any], values: F64, Y: Sequence[Any]) -> OnlineExamples:
    """Return the examples of MMSR: risks of (13), their subgradients, and losses of predicted values."""
    problem = training_problem(ShortSequence, X, Y, risk="perceptron")  # max_y s(y) - s(y_t), and where it is
    truth, everything = np.zeros((len(X), problem.dim)), np.arange(len(X))
    for t, y in enumerate(Y):
        problem.parameters.accumulate(np.asarray(y, dtype=np.int32), np.ones(1), truth[t], np.array([t]))

    def parts(w: F64, ids: I64) -> tuple[F64, F64, F64]:
        """Return psi and phi before they are cut off at 0, and the scores of the best labellings."""
        score = truth[ids] @ w
        best = score + problem.gradient(w, ids).value
        return best - values[ids] - EPSILON, values[ids] - score - EPSILON, best

    def subgradient(w: F64, ids: I64, high: F64, low: F64) -> F64:
        labels = problem.oracle(w, ids).labels
        vector = problem.parameters.accumulate(labels, (high > 0.0).astype(float), np.zeros(problem.dim), ids)
        return np.asarray(vector - (low > 0.0) @ truth[ids])

    def meet(w: F64, t: int) -> Met:
        ids = np.array([t])
        high, low, best = parts(w, ids)
        risk, loss = max(high[0], 0.0) + max(low[0], 0.0), max(abs(best[0] - values[t]) - EPSILON, 0.0)
        return Met(float(risk), subgradient(w, ids, high, low), float(loss))

    def total(w: F64) -> F64:
        high, low, _ = parts(w, everything)
        return subgradient(w, everything, high, low)

    return OnlineExamples(problem.dim, len(X), meet, total)


def run(quick: bool, progress: Progress) -> Findings:
    """Compare on three draws; quick: one draw, up to 200 examples."""
    horizons, n_draws, n_new = ((20, 50, 200), 1, 100) if quick else (HORIZONS, N_DRAWS, N_NEW)
    steps, regrets, largest, loss = Steps(progress, n_draws), np.zeros((n_draws, len(horizons), 5)), 0.0, 0.0
    for draw in range(n_draws):
        steps(f"draw {draw + 1}")
        n = horizons[-1]
        X, values, Y = drawn_values(n + n_new, draw)
        examples = value_examples(X[:n], values[:n], Y[:n])
        online = learn_online(examples, LAM, horizons)
        largest = max(largest, float(online.risks.max()))
        some = online.risks > 1e-12
        loss = max(loss, float((online.losses[some] / online.risks[some]).max()))
        new = value_examples(X[n:], values[n:], Y[n:])
        for k, T in enumerate(horizons):
            best = value_regressor(tol=1e-3).fit(X[:T], values[:T], Y[:T]).report_
            w = online.averages[T]
            regrets[draw, k] = (
                online.costs[:T].sum() - T * best.dual,
                online.bounds[T - 1],
                np.mean([new.meet(w, t).loss for t in range(new.n)]),
                online.risks[:T].mean() + np.sqrt(2.0 / T * np.log(1.0 / DELTA)),
                best.relative_gap,
            )
    regret, bound, lost, right, gap = np.moveaxis(regrets, 2, 0)
    answers = Answers(STATEMENTS)
    answers.numbers("regret", float((regret / bound).max()))
    tenth = int(np.argmin(np.abs(np.array(horizons) - horizons[-1] / 10)))
    answers.draws("growth", regret[:, -1] / regret[:, tenth])
    answers.numbers("new", float((lost / right).max()))
    answers.numbers("loss", loss)
    answers.draws("risk", largest)
    answers.draws("gap", float(gap.max()))
    forms = ("{:.3f}",) * 4
    rows = [(str(T), *(form.format(x) for form, x in zip(forms, column[:4], strict=True)))
            for T, column in zip(horizons, regrets.mean(axis=0), strict=True)]  # fmt: skip
    columns = ("T", "regret", "its bound", "loss on new examples", "(17)")
    arrays = {"horizons": np.array(horizons), "curves": regrets[:, :, :4]}
    return Findings(answers.rows, NOTES, (Table("Means over draws", columns, rows),), arrays)


NOTES = (
    f"lam = {LAM:g}, epsilon = {EPSILON:g} on both sides, delta = {DELTA:g}. Sequences are those of the experiment "
    "`regret`; values are the scores of their best labellings by hidden weights, with noise of a tenth of their "
    "spread. The minima are certified fits of the first T examples, and their lower bounds count.",
    "(17) is for risks of at most 1; the largest that was met is shown.",
)


def draw(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw the regret and its bound (left), and the loss on new examples with (17) (right), over examples."""
    for axis, (first, second), what in zip(figure.subplots(1, 2), ((0, 1), (2, 3)), ("regret", "loss on new examples"),
                                           strict=True):  # fmt: skip
        curves = arrays["curves"].mean(axis=0)
        axis.plot(arrays["horizons"], curves[:, second], color="black", linestyle="--", label="bound")
        axis.plot(arrays["horizons"], curves[:, first], color="green", label=what)
        axis.set(xlabel="examples", xscale="log")
        axis.legend()


EXPERIMENTS = (
    Experiment(
        "regret-values", "regret", PAPER, "section 5.3, regression",
        "online learning of structured regression: regret and generalisation beside their bounds", run, STATEMENTS,
        draw, (9.0, 4.0), (), ("generated values of sequences: the paper gives no data",),
    ),
)  # fmt: skip
