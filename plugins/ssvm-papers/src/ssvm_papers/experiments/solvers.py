"""Schmidt (2009), every exact solver on the same small problems: do all of them reach one optimum, and how fast?

Each solver continues until its certified relative gap is below 1e-7 or its passes are over: their number is fixed, so
that what a solver reaches depends on no machine.  Objectives are computed at the weights that it returns, by one exact
pass.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain, complete, pairs
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.ir import I64
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Between, Statement

#: Relative gap that ends a fit, and relative distance between objectives that counts as one optimum.
TOLERANCE, ONE = 1e-7, 1e-6

#: Columns of the tables.
COLUMNS = ("solver", "objective", "above best", "gap", "passes", "oracle calls", "seconds", "ended by")

#: Passes that a solver may take, and in a quick run.
PASSES, QUICK_PASSES = 10_000, 100

#: Passes of exponentiated gradient on graphs with cycles, where a pass takes longer and it is not compared.
SLOW_PASSES = 2_500


class SolvedChain(Model):
    """A sequence of three states."""

    T = Dim()
    x = Input(T, 5)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Complete(Model):
    """Five binary labels, each pair with a separate table."""

    K = Dim(5)
    x = Input(6)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


class Grid(Model):
    """Three by three labels of three states, whose neighbours share one table."""

    H, W = Dim(3), Dim(3)
    x = Input(H, W, 5)
    y = Label(H, W, 3)
    data = Factor(y, features=x)
    across = Factor(pairs(y, W))
    down = Factor(pairs(y, H))
    loss = Hamming(y)


@dataclass(frozen=True)
class Formulation:
    """A risk with the solvers that end at its optimum.

    Parameters
    ----------
    name : str
    model : Model class
    parameters : dict
        Risk and power.
    key : str
    solvers : tuple of str
    slow : tuple of str
        Solvers besides, that are not expected to end in time.
    """

    name: str
    model: type[Model]
    parameters: Mapping[str, Any]
    solvers: tuple[str, ...]
    key: str
    slow: tuple[str, ...] = ()


#: Solvers that are trainers with options.
WITH_OPTIONS = {"extragradient, entropic": ("extragradient", {"geometry": "entropic"})}

PLANES = ("bcfw", "n-slack", "one-slack", "bundle")
DUALS = ("smo", "lp-dual-qp", "extragradient", *WITH_OPTIONS)
FORMULATIONS = (
    Formulation("margin rescaling, chains", SolvedChain, {}, (*PLANES, *DUALS, "eg"), "chains"),
    Formulation("margin rescaling, complete graphs", Complete, {}, (*PLANES, *DUALS), "complete", slow=("eg",)),
    Formulation("margin rescaling, grids", Grid, {}, (*PLANES, *DUALS), "grids", slow=("eg",)),
    Formulation(
        "squared slacks, chains", SolvedChain, {"power": 2}, ("n-slack", "one-slack", "bundle", "lp-dual-qp"), "squared"
    ),
    Formulation("slack rescaling, chains", SolvedChain, {"risk": "slack"}, ("n-slack", "one-slack", "bundle"), "slack"),
    Formulation("HM-SVM, chains", SolvedChain, {"risk": "hm"}, PLANES, "hm"),
    Formulation("log-loss, chains", SolvedChain, {"risk": "log"}, ("lbfgs", "svrg", "eg", "bundle"), "log"),
    Formulation("relaxed margin, complete graphs", Complete, {"risk": "relaxed"}, (*PLANES, "lp-dual-qp"), "relaxed"),
)


STATEMENTS = tuple(
    Statement(one.key, f"{one.name}: how far above the best objective each solver is", "one optimum", Between(0, ONE),
              "{:.0e}")
    for one in FORMULATIONS
)  # fmt: skip


def run(quick: bool, progress: Progress) -> Findings:
    """Run all solvers of all formulations; quick: two formulations, a hundred passes each."""
    formulations = FORMULATIONS[:2] if quick else FORMULATIONS
    steps = Steps(progress, sum(len(one.solvers) + len(one.slow) for one in formulations))
    answers, tables = Answers(STATEMENTS), []
    for one in formulations:
        tables.append(compare_solvers(one, quick, answers, steps))
    return Findings(answers.rows, NOTES, tables)


NOTES = (
    "Seconds are of a processor, kernels being compiled beforehand.  Stochastic solvers whose gap does not close "
    "(subgradient, adam, perceptron) are left out.",
    "Exponentiated gradient closes its gap slowly towards the end, as its dual weights do not reach zero.  It takes "
    "thousands of passes.  On graphs with cycles it is shown beside the others and not counted among them.",
    "On complete graphs and grids the trainers that work on marginals (smo, lp-dual-qp, extragradient) have those of "
    "the cliques of the triangulated graph.  These are all five labels of a complete graph, and up to four of a grid.",
)


def data_of(model: type[Model]) -> tuple[list[Any], list[Any]]:
    """Return 20 examples with noisy labels, so that no weights are right everywhere."""
    if model is SolvedChain:
        return make_chains(20, noise=1.5)
    rng = np.random.default_rng(0)
    if model is Grid:
        grids = [rng.integers(3, size=(3, 3)) for _ in range(20)]
        for y in grids:
            y[1:] = np.where(rng.random((2, 3)) < 0.6, y[:-1], y[1:])  # columns like to agree
        return [np.eye(5)[y] + 1.5 * rng.normal(size=(3, 3, 5)) for y in grids], grids
    weights = rng.normal(size=(5, 6))
    X = [rng.normal(size=6) for _ in range(20)]
    Y: list[I64] = [(weights @ x + 2.0 * rng.normal(size=5) > 0).astype(np.int64) for x in X]
    return X, Y


def compare_solvers(one: Formulation, quick: bool, answers: Answers, steps: Steps) -> Table:
    """Answer whether all solvers reach one optimum; return the effort of each."""
    X, Y = data_of(one.model)
    reports, spent = {}, {}
    for solver in (*one.solvers, *one.slow):
        steps(f"{one.name}: {solver}")
        trainer, options = WITH_OPTIONS.get(solver, (solver, {}))
        svm = StructuredSVM(one.model, C=0.1, trainer=trainer, random_state=0, n_threads=1, **one.parameters)
        svm.set_params(max_passes=3, trainer_options=options).fit(X, Y)  # compiles
        most = QUICK_PASSES if quick else SLOW_PASSES if solver in one.slow else PASSES
        begin = time.process_time()
        reports[solver] = svm.set_params(tol=TOLERANCE, max_passes=most).fit(X, Y).report_
        spent[solver] = time.process_time() - begin
    best = min(report.primal for report in reports.values())
    above = {solver: report.primal / best - 1.0 for solver, report in reports.items()}
    late = [solver for solver in one.solvers if above[solver] > ONE]
    ours = f"{len(one.solvers)} solvers, at most {max(above[solver] for solver in one.solvers):.1e} above"
    ours += f"; not there: {', '.join(late)}" if late else ""
    ours += "".join(f"; besides, {solver} {above[solver]:.1e}" for solver in one.slow)
    answers.numbers(one.key, *(above[solver] for solver in one.solvers), text=ours)
    lines = [
        (solver, f"{report.primal:.8g}", f"{above[solver]:.0e}", f"{report.relative_gap:.0e}",
         f"{report.n_passes:.4g}", f"{report.n_oracle_calls}", f"{spent[solver]:.3f}", report.reason)
        for solver, report in reports.items()
    ]  # fmt: skip
    return Table(one.name, COLUMNS, lines)


PAPER = "Schmidt: A Note on Structural Extensions of SVMs (2009)"

EXPERIMENTS = (
    Experiment(
        "solvers", "solvers", PAPER, "all formulations", "exact solvers reach one optimum: their work", run, STATEMENTS,
    ),
)  # fmt: skip
