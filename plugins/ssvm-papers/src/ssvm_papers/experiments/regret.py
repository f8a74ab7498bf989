"""Ratliff, Bagnell and Zinkevich (2007), sections 5.2 and 5.3: the regret of the online learner, and its bounds.

Examples come one after the other, each once.  Example t costs ``c_t(w) = lam/2 |w|^2 + r_t(w)`` with the margin risk
r_t, and the step is ``w <- w - g_t / (lam t)`` for a subgradient g_t of c_t at w_t (``trainer="subgradient"``,
``order="incremental"``, ``schedule="1/(lam t)"``).  The regret after T examples is

    R_T = sum_t c_t(w_t) - min_w sum_t c_t(w)  <=  1/(2 lam) sum_t |g_t|^2 / t  <=  G^2/(2 lam) (1 + ln T) ,  |g_t| <= G

(Hazan et al. 2006).  The minimum is that of a certified fit of the first T examples; its lower bound counts, so that
the reported regret is an upper bound.  The loss of predictions is at most their risk, which gives theorem 5.2,

    sum_t L_t(y_t*)  <=  sum_t r_t(w*) + lam T |w*|^2 + 1/lam (1 + ln T)              (15)

for features of norm at most 1, which ours have.  Subgradients of the risk have norms up to 2 then, and those of c_t up
to 4, so that G^2/2 may be 8, where (15) has 1.  With 1/2 in place of both of the last coefficients (G = 1), the lam of
the theorem gives (16), ``sum_t r_t(w*) + |w*| sqrt(T (1 + ln T))``; from (15) as printed follows twice the last term.
So (15) and (16) are compared, and the bound of the regret is that with the subgradients that were met.

(17): with probability 1 - delta the expected loss of the averaged weights is at most ``1/T sum_t r_t(w_t) +
sqrt(2/T ln(1/delta))``.  It holds for risks of at most 1; the largest observed risk is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl import Dim, Edges, Factor, Hamming, Input, Label, Model, Path, StructuredSVM, chain
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.ir import F64
from ssvm_dsl.testing import training_problem
from ssvm_papers.generators import make_walks
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Between, Statement

#: Regularisation, and the probability that (17) may fail with.
LAM, DELTA = 0.01, 0.05

#: OnlineExamples after which regrets are compared; new examples that averaged weights are tried on.
HORIZONS, N_NEW = (50, 100, 200, 500, 1000), 500

#: Draws of the data, and in a full run.
N_DRAWS, N_FULL_DRAWS = 2, 10

#: Positions of the sequences, and their states.
LENGTH, N_STATES = 8, 3

#: A weight for each pair of states; its feature is as small as those of positions.
SMALL = np.eye(N_STATES**2).reshape(-1, N_STATES, N_STATES) / (np.sqrt(2.0) * LENGTH)


class GridWalk(Model):
    """A walk over squares from corner to corner; each step has features, and none can be taken back."""

    N, M = Dim(), Dim()
    place = Input(N, 1)
    e = Edges(M, over=N)
    f = Input(M, 6)
    start, goal = Input(1), Input(1)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    route = Path(y.is_(1), e, source=start, target=goal)
    loss = Hamming(y, normalize=True)


class ShortSequence(Model):
    """A chain of three states."""

    T = Dim()
    x = Input(T, 5)
    y = Label(T, N_STATES)
    emit = Factor(y, features=x)
    trans = Factor(chain(y), form=SMALL)
    loss = Hamming(y, normalize=True)


def sequences(n: int, random_state: int) -> tuple[list[Any], list[Any]]:
    """Return sequences whose joint features have norms of at most 1."""
    X, Y = make_chains(n, N_STATES, 5, length=(LENGTH, LENGTH), noise=0.5, random_state=random_state)
    most = max(float(np.linalg.norm(x, axis=1).max()) for x in X)
    return [x / (np.sqrt(2.0) * LENGTH * most) for x in X], list(Y)


def walks(n: int, random_state: int) -> tuple[list[Any], list[Any]]:
    """Return walks whose joint features have norms of at most 1."""
    X, Y = make_walks(n, random_state=random_state)
    return list(X), list(Y)


#: The data: by name a model, and what draws examples.
DATA: dict[str, tuple[type[Model], Callable[[int, int], tuple[list[Any], list[Any]]]]] = {
    "walks": (GridWalk, walks), "sequences": (ShortSequence, sequences),
}  # fmt: skip

STATEMENTS = tuple(
    statement
    for name in DATA
    for statement in (
        Statement(f"{name}-regret",
                  f"{name}: regret over the bound by the subgradients met, largest of all T and draws", "at most 1",
                  Between(0, 1), "{:.2f}"),
        Statement(f"{name}-growth", f"{name}: regret of the most examples over that of a tenth of them",
                  "as 1 + ln T: sublinear", Between(0, 3), "{:.2f}"),
        Statement(f"{name}-theorem", f"{name}: wrong labels, as a share, summed: over the right side of (15), largest",
                  "at most 1", Between(0, 1), "{:.3f}"),
        Statement(f"{name}-horizon", f"{name}: the same with the lam for T, over the right side of (16), largest",
                  "at most 1", Between(0, 1), "{:.3f}"),
        Statement(f"{name}-new",
                  f"{name}: loss on new examples, averaged weights, over the right side of (17), largest", "at most 1",
                  Between(0, 1), "{:.3f}"),
        Statement(f"{name}-risk", f"{name}: the largest risk of an example that was met"),
        Statement(f"{name}-gap", f"{name}: certified relative gap of the minima, at most", form="{:.1e}"),
    )
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class OnlineRun:
    """The costs and losses of an online learner after each example.

    Parameters
    ----------
    costs, risks, losses : ndarray, shape (T,)
        ``c_t(w_t)``, ``r_t(w_t)``, and the loss of the prediction with w_t.
    bounds : ndarray, shape (T,)
        ``1/(2 lam) sum_{s <= t} |g_s|^2 / s``.
    w : ndarray, shape (dim,)
        The newest weights.
    averages : dict of int to ndarray
        The mean of ``w_1 ... w_T`` by T, at the horizons.
    """

    costs: F64
    risks: F64
    losses: F64
    bounds: F64
    w: F64
    averages: Mapping[int, F64]


class Met(NamedTuple):
    """What an online learner meets at an example.

    Parameters
    ----------
    risk : float
        ``r_t(w)``.
    vector : ndarray, shape (dim,)
        Its subgradient, or what stands for it.
    loss : float
        Of the prediction with w.
    """

    risk: float
    vector: F64
    loss: float


@dataclass(frozen=True, eq=False)
class OnlineExamples:
    """A sequence of examples for an online learner.

    Parameters
    ----------
    dim, n : int
        Weights and examples.
    meet : callable
        ``meet(w, t)`` is what is met at example t.
    total : callable
        ``total(w)`` is the sum of all subgradients at w.
    """

    dim: int
    n: int
    meet: Callable[[F64, int], Met]
    total: Callable[[F64], F64]


def margin_examples(model: type[Model], X: Sequence[Any], Y: Sequence[Any]) -> OnlineExamples:
    """Return the examples of MMSC: margin risks, their exact subgradients, and shares of wrong labels."""
    problem, plain = (training_problem(model, X, Y, risk=risk) for risk in ("margin", "perceptron"))
    truth = [np.asarray(y) for y in Y]

    def meet(w: F64, t: int) -> Met:
        gradient, predicted = problem.gradient(w, np.array([t])), plain.oracle(w, np.array([t])).labels
        return Met(float(gradient.value[0]), gradient.vector, float(np.mean(predicted != truth[t])))

    return OnlineExamples(problem.dim, len(X), meet, lambda w: problem.gradient(w).vector)


def learn_online(examples: OnlineExamples, lam: float, horizons: Sequence[int]) -> OnlineRun:
    """Go through the examples once."""
    n = examples.n
    w, total, averages = np.zeros(examples.dim), np.zeros(examples.dim), {}
    costs, risks, losses, squares = np.zeros((4, n))
    for t in range(n):
        risks[t], vector, losses[t] = examples.meet(w, t)
        step = lam * w + vector
        costs[t] = risks[t] + 0.5 * lam * float(w @ w)
        squares[t] = float(step @ step) / (t + 1)
        total += w
        if t + 1 in horizons:
            averages[t + 1] = total / (t + 1)
        w = w - step / (lam * (t + 1))
    return OnlineRun(costs, risks, losses, np.cumsum(squares) / (2.0 * lam), w, averages)


def given(model: type[Model], w: F64, X: Sequence[Any], Y: Sequence[Any]) -> StructuredSVM:
    """Return an estimator that predicts with some weights; the examples tell their shapes."""
    blocks = training_problem(model, X[:1], Y[:1]).blocks
    return StructuredSVM.from_weights(model, {one.name: one.view(w) for one in blocks}, n_threads=1)


@dataclass(frozen=True, eq=False)
class Comparison:
    """An online learner and its proved bounds, at each horizon; ``shape (n_horizons,)`` each.

    Parameters
    ----------
    regret, bound : ndarray
        The regret, from the certified lower bound of the minimum, and its bound by the subgradients met.
    lost, theorem : ndarray
        Sums of losses, and the right side of (15) for the weights of the minimum.
    lost_horizon, horizon : ndarray
        The same with the lam of theorem 5.2 for each T, and the right side of (16).
    new, generalisation : ndarray
        The loss of averaged weights on new examples, and the right side of (17).
    gap : ndarray
        Relative gaps of the minima.
    largest : float
        The largest risk that was met.
    """

    regret: F64
    bound: F64
    lost: F64
    theorem: F64
    lost_horizon: F64
    horizon: F64
    new: F64
    generalisation: F64
    gap: F64
    largest: float


def compared(name: str, draw: int, horizons: Sequence[int], n_new: int) -> Comparison:
    """Return the comparison on a draw of the data."""
    model, make = DATA[name]
    n = horizons[-1]
    X, Y = make(n + n_new, draw)
    run, columns = learn_online(margin_examples(model, X[:n], Y[:n]), LAM, horizons), np.zeros((9, len(horizons)))
    for k, T in enumerate(horizons):
        best = StructuredSVM(model, lam=LAM, tol=1e-3, random_state=0, n_threads=1).fit(X[:T], Y[:T])
        report, norm = best.report_, float(np.linalg.norm(best.coef_))
        risks, log = T * (report.primal - 0.5 * LAM * norm**2), 1.0 + np.log(T)
        lam = np.sqrt(log / T) / norm
        again = learn_online(margin_examples(model, X[:T], Y[:T]), lam, ())
        averaged = given(model, run.averages[T], X, Y)
        columns[:, k] = (
            run.costs[:T].sum() - T * report.dual, run.bounds[T - 1],
            run.losses[:T].sum(), risks + LAM * T * norm**2 + log / LAM,
            again.losses.sum(), risks + norm * np.sqrt(T * log),
            1.0 - averaged.score(X[n:], Y[n:]), run.risks[:T].mean() + np.sqrt(2.0 / T * np.log(1.0 / DELTA)),
            report.relative_gap,
        )  # fmt: skip
    regret, bound, lost, theorem, lost_horizon, horizon, new, generalisation, gap = columns
    return Comparison(
        regret, bound, lost, theorem, lost_horizon, horizon, new, generalisation, gap, float(run.risks.max())
    )


def run(quick: bool, progress: Progress) -> Findings:
    """Compare on two draws of both data; quick: one draw, up to 200 examples."""
    return compare((20, 50, 200), 1, 100, progress) if quick else compare(HORIZONS, N_DRAWS, N_NEW, progress)


def run_all(progress: Progress) -> Findings:
    """Compare on more draws."""
    return compare(HORIZONS, N_FULL_DRAWS, N_NEW, progress)


def compare(horizons: Sequence[int], draws: int, n_new: int, progress: Progress) -> Findings:
    """Compare on some draws of both data."""
    steps, answers, arrays = Steps(progress, draws * len(DATA)), Answers(STATEMENTS), {"horizons": np.array(horizons)}
    tables = []
    for name in DATA:
        several = []
        for draw in range(draws):
            steps(f"{name}, draw {draw + 1}")
            several.append(compared(name, draw, horizons, n_new))
        tell(answers, name, horizons, several)
        arrays[name] = np.array([[one.regret, one.bound] for one in several])
        tables.append(table(name, horizons, several))
    return Findings(answers.rows, NOTES, tables, arrays)


def tell(answers: Answers, name: str, horizons: Sequence[int], several: Sequence[Comparison]) -> None:
    """Answer the statements about one kind of data."""
    ratios = {
        "regret": [one.regret / one.bound for one in several],
        "theorem": [one.lost / one.theorem for one in several],
        "horizon": [one.lost_horizon / one.horizon for one in several],
        "new": [one.new / one.generalisation for one in several],
    }
    for key, shares in ratios.items():
        answers.numbers(f"{name}-{key}", float(np.max(shares)))
    tenth = int(np.argmin(np.abs(np.array(horizons) - horizons[-1] / 10)))
    answers.draws(f"{name}-growth", [one.regret[-1] / one.regret[tenth] for one in several])
    largest = max(one.largest for one in several)
    answers.text(f"{name}-risk", f"{largest:.2f}", largest)
    answers.draws(f"{name}-gap", float(max(one.gap.max() for one in several)))


def table(name: str, horizons: Sequence[int], several: Sequence[Comparison]) -> Table:
    """Return the means over draws, by T."""
    columns = ("T", "regret", "its bound", "summed loss", "(15)", "summed loss, lam for T", "(16)",
               "loss on new examples", "(17)")  # fmt: skip
    values = np.mean(
        [[one.regret, one.bound, one.lost, one.theorem, one.lost_horizon, one.horizon, one.new, one.generalisation]
         for one in several], axis=0,
    )  # fmt: skip
    forms = ("{:.2f}",) * 2 + ("{:.1f}",) * 4 + ("{:.3f}",) * 2
    rows = [(str(T), *(form.format(x) for form, x in zip(forms, column, strict=True)))
            for T, column in zip(horizons, values.T, strict=True)]  # fmt: skip
    return Table(f"{name}: means over draws", columns, rows)


NOTES = (
    f"lam = {LAM:g}, delta = {DELTA:g}. Walks: 5 x 5 squares, six features of each step, costs with noise. Sequences: "
    f"eight positions, three states, five features, all scaled so that joint features have norms of at most 1. The "
    "minima are certified fits of the first T examples, and their lower bounds count: the regret is at most what the "
    "table has, up to the gap.",
    "Theorem 5.2 assumes more than features of norm 1: as printed (15) is that of subgradients with |g_t|^2 <= 2, and "
    "those of this assumption reach 4. (16) follows from (15) with half of its last two terms, as for |g_t| <= 1. Both "
    "hold here with much room. The bound by the subgradients that were met holds without any assumption.",
    "The paper states bounds, and shows no curve of them.",
)


def draw(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw the regret and its bound over the number of examples, a panel for each kind of data."""
    for axis, name in zip(figure.subplots(1, len(DATA)), DATA, strict=True):
        regrets, bounds = arrays[name].transpose(1, 0, 2)
        axis.plot(arrays["horizons"], bounds.mean(axis=0), color="black", linestyle="--", label="bound")
        for k, one in enumerate(regrets):
            axis.plot(arrays["horizons"], one, color="green", label=None if k else "regret, by draw")
        axis.set(xlabel="examples", ylabel="regret", xscale="log", title=name)
        axis.legend()


PAPER = "Ratliff, Bagnell, Zinkevich: (Online) Subgradient Methods for Structured Prediction (2007)"

EXPERIMENTS = (
    Experiment(
        "regret", "regret", PAPER, "sections 5.2, 5.3",
        "online learning: regret and generalisation beside their bounds", run, STATEMENTS, draw,
        (9.0, 4.0), (), ("generated walks and sequences: the paper gives no data",), run_full=run_all,
        smaller=f"{N_DRAWS} draws of {N_FULL_DRAWS}",
    ),
)  # fmt: skip
