"""Small figures of the documentation that no other benchmark shows: budgets, counts, prices, circuits, trainers.

Processor time of one thread, the least of a few turns where a turn is short.  ``SSVM_BENCH_FIGURES=budgets,counts``
takes these alone.  Each function names the page that its figures are for.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from oracle_speed import spent
from rich.console import Console
from rich.table import Table

from model_table import picture, tagger
from ssvm_dsl import (
    AtMost,
    Circuit,
    Cost,
    CountLoss,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    StructuredSVM,
    chain,
    complete,
    ground,
)
from ssvm_dsl.datasets import load_letters, make_chains
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question, Task, Theta
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.testing import training_problem

CONSOLE = Console(width=110)


class Apart(Model):
    """Labels without pairs, at most three of them."""

    T = Dim()
    x = Input(T, 4)
    y = Label(T, 2)
    own = Factor(y, features=x)
    few = AtMost(3, y.is_(1))


class Tied(Apart):
    """The same with weights for all pairs."""

    pair = Factor(complete(Apart.y))


class Row(Model):
    """A chain of five states with a budget."""

    T = Dim()
    x = Input(T, 4)
    y = Label(T, 5)
    own = Factor(y, features=x)
    trans = Factor(chain(y))
    few = AtMost(3, y.is_(1))


class Twice(Row):
    """With two budgets."""

    others = AtMost(4, Row.y.is_(2))


class Tour(Model):
    """A circuit through all places."""

    N, M = Dim(), Dim()
    place = Input(N, 1)
    e = Edges(M, over=N)
    gain = Input(M, 1)
    y = Label(M, 2)
    step = Factor(y.is_(1), features=gain)
    tour = Circuit(y.is_(1), e, all_nodes=True)


#: The letters of a word.
Word = tagger(128, "abcdefghijklmnopqrstuvwxyz")
#: Potts grids of five weights.
Picture = picture(2, 2)


def answer_ms(model: type[Model], X: list[Any], backend: str, times: int = 20) -> float:
    """Return the milliseconds for each example of a call with random scores."""
    program = ground(model, X).program
    plan = plan_program(program, program_need(program, frozenset({Task.MAP})), backend)
    session = open_plan(plan, program, outwards=False)
    theta, rng = Theta.zeros(program), np.random.default_rng(1)
    theta.node[:] = rng.normal(size=len(theta.node))
    for table in theta.tables:
        table[:] = rng.normal(size=table.shape)
    return 1e3 * spent(lambda: session.solve(Question(theta)), times) / len(X)


def budgets() -> None:
    """Show docs/inference/constraints.md: a budget of three."""
    rng, table = np.random.default_rng(0), Table("problem", "backend", "ms")
    for what, model, length, n, backends in (
        ("14 labels without pairs", Apart, 14, 1, ("auto", "ilp")),
        ("the same, each of a thousand", Apart, 14, 1000, ("auto",)),
        ("a chain of 30 variables of 5 states", Row, 30, 1, ("auto", "ilp")),
        ("the same with two budgets", Twice, 30, 1, ("auto", "ilp")),
        ("14 labels with weights for all pairs", Tied, 14, 1, ("ilp", "brute-force")),
    ):
        X = [rng.normal(size=(length, 4)) for _ in range(n)]
        for backend in backends:
            table.add_row(what, backend, f"{answer_ms(model, X, backend):.2g}")
    CONSOLE.print(table)


def counts() -> None:
    """Show docs/language/count_losses.md: a call with F1 added, a third of the variables positive."""
    table = Table("variables", "ms of a call")
    for length, n_states in ((50, 3), (200, 3), (25, 23)):
        names = [str(k) for k in range(n_states)]

        class Counted(Model):
            T = Dim()
            x = Input(T, 4)
            y = Label(T, names)
            own = Factor(y, features=x)
            trans = Factor(chain(y))
            loss = CountLoss(y, "f1", **({"positive": "1"} if n_states == 3 else {"outside": "0"}))

        rng = np.random.default_rng(0)
        X = [rng.normal(size=(length, 4)) for _ in range(4)]
        Y = [[names[int(positive)] for positive in rng.permutation(length) < length // 3] for _ in X]
        problem = training_problem(Counted, X, Y)
        w = rng.normal(size=problem.dim)
        each = spent(lambda: problem.gradient(w, np.arange(len(X))), 5) / len(X)  # noqa: B023
        table.add_row(f"{length} of {n_states} states", f"{1e3 * each:.2g}")
    CONSOLE.print(table)


def circuits() -> None:
    """Show docs/inference/structures.md: tours of random points in the plane, by ``circuit``."""
    table = Table("points", "seconds", "gap")
    for n in (20, 40):
        points = np.random.default_rng(0).random((n, 2))
        edges = np.array([(a, b) for a in range(n) for b in range(n) if a != b], dtype=np.int32)
        gain = -np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1, keepdims=True)
        X = [{"place": np.zeros((n, 1)), "e": edges, "gain": gain}]
        svm = StructuredSVM.from_weights(Tour, {"step": [1.0]}, backend="circuit", guarantee="bound", n_threads=1)
        svm.predict(X)
        begin = process_time()
        _, scores, bounds = svm.predict(X, return_bounds=True)
        gap = (bounds[0] - scores[0]) / abs(scores[0])
        table.add_row(str(n), f"{process_time() - begin:.2f}", f"{gap:.1%}")
    CONSOLE.print(table)


def letters() -> tuple[list[Any], list[Any]]:
    """Return fold one of the OCR letters."""
    X, Y, *_ = load_letters(1, "one")
    return list(X), list(Y)


def fitted(model: type[Model], X: list[Any], Y: list[Any], trainer: str, **options: Any) -> tuple[float, Any]:
    """Return the processor seconds of a fit, and its report."""
    known: dict[str, Any] = {"random_state": 0, "n_threads": 1, "trainer": trainer} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        StructuredSVM(model, **known).fit(X[:2], Y[:2])  # loads kernels
        begin = process_time()
        report = StructuredSVM(model, **known).fit(X, Y).report_
    return process_time() - begin, report


def prices() -> None:
    """Show docs/language/joint_losses.md: prices of pairs of successive letters, on fold one of the OCR letters."""

    class Priced(Word):
        loss = Hamming(Word.y) + 0.5 * Cost(chain(Word.y), "boundary")

    X, Y = letters()
    table = Table("trainer", "seconds", "passes")
    for trainer, more in (("bcfw", {"tol": 0.01}), ("subgradient", {"max_passes": 5})):
        seconds, report = fitted(Priced, X, Y, trainer, C=0.1, **more)
        table.add_row(trainer, f"{seconds:.2f}", f"{report.n_passes:.0f}")
    CONSOLE.print(table)


def trainers() -> None:
    """Show docs/training/trainers.md: a gap of 1 % by trainer; docs/training/l1.md: the same with an L1 penalty."""
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=(10, 10, 2)) for _ in range(100)]
    given = StructuredSVM.from_weights(Picture, {"own": np.eye(2), "same": 0.7}, backend="graph-cut")
    Y = given.predict(drawn)
    noisy = [x + rng.normal(size=x.shape) for x in drawn]
    table = Table("data", "trainer", "seconds", "passes", "gap", "weights not 0")
    data = {
        "OCR letters, fold one": (Word, *letters(), {"C": 0.1}),
        "10 Potts grids": (Picture, noisy[:10], Y[:10], {"C": 0.3, "backend": "graph-cut"}),
        "100 of them": (Picture, noisy, Y, {"C": 0.3, "backend": "graph-cut"}),
    }
    for what, (model, X, labels, more) in data.items():
        for trainer in ("bcfw", "one-slack", "bundle", "n-slack", "subgradient"):
            seconds, report = fitted(model, X, labels, trainer, tol=0.01, max_passes=300, **more)
            table.add_row(what, trainer, f"{seconds:.2f}", f"{report.n_passes:.0f}", f"{report.relative_gap:.1%}", "")
    model, X, labels, _ = data["OCR letters, fold one"]
    for trainer, l1 in (("bcfw", 0.0), ("bcfw", 10.0), ("bundle", 10.0)):
        seconds, report = fitted(model, X, labels, trainer, tol=0.01, C=1.0, **({"l1": l1} if l1 else {}))
        table.add_row(f"OCR letters, l1 = {l1:g}", trainer, f"{seconds:.2f}", f"{report.n_passes:.0f}",
                      f"{report.relative_gap:.1%}", "")  # fmt: skip
    CONSOLE.print(table)


def bridges() -> None:
    """Show docs/inference/bridges.md: a count on a chain by ``chain``, and by ``junction-tree`` behind the bridge."""
    table = Table("positions", "most", "chain, ms", "junction-tree, ms", "ratio")
    for length, most in ((100, 3), (300, 10), (1000, 3), (1000, 50)):

        class Counted(Model):
            T = Dim()
            x = Input(T, 4)
            y = Label(T, 3)
            own = Factor(y, features=x)
            trans = Factor(chain(y))
            few = AtMost(most, y.is_(1))

        X = [np.random.default_rng(0).normal(size=(length, 4))]
        own, behind = (answer_ms(Counted, X, backend, 3) for backend in ("chain", "junction-tree"))
        table.add_row(str(length), str(most), f"{own:.2g}", f"{behind:.3g}", f"{behind / own:.1f}")
    CONSOLE.print(table)


def duals() -> None:
    """Show docs/training/marginals.md: dual trainers on the OCR letters; the second takes minutes."""
    X, Y = letters()
    table = Table("trainer", "words", "seconds", "passes", "gap")
    for trainer, n, tol in (("lp-dual-qp", 12, 1e-7), ("extragradient", len(X), 1e-2), ("bcfw", len(X), 1e-2)):
        seconds, report = fitted(Word, X[:n], Y[:n], trainer, C=0.1, tol=tol, max_passes=1000)
        table.add_row(trainer, str(n), f"{seconds:.1f}", f"{report.n_passes:.0f}", f"{report.relative_gap:.1e}")
    CONSOLE.print(table)


def schedules() -> None:
    """Show docs/training/subgradient.md: how far above the optimum 120 passes end, by schedule."""

    Short = tagger(5, 3)

    X, Y = make_chains(60, noise=1.5, random_state=0)
    table = Table("C", "power", "schedule", "objective over the optimum")
    for C, power in (*((10.0**k, 2) for k in range(-4, 5, 2)), (10.0, 1)):
        _, best = fitted(Short, list(X), list(Y), "bundle", C=C, power=power, tol=1e-3, max_passes=1000)
        for schedule in ("distance", "1/(lam t)"):
            options = {"order": "stochastic", "schedule": schedule}
            try:
                _, report = fitted(
                    Short, list(X), list(Y), "subgradient", C=C, power=power, max_passes=120, tol=0.0,
                    trainer_options=options,
                )  # fmt: skip
                shown = f"{report.primal / best.primal:.3f}"
            except TrainingError:
                shown = "diverges"
            table.add_row(f"{C:g}", str(power), schedule, shown)
    CONSOLE.print(table)


#: By name.
FIGURES: dict[str, Callable[[], None]] = {
    "budgets": budgets, "counts": counts, "circuits": circuits, "prices": prices, "trainers": trainers,
    "schedules": schedules, "bridges": bridges, "duals": duals,
}  # fmt: skip


def main() -> None:
    """Show the figures, or those that are named."""
    wanted = os.environ.get("SSVM_BENCH_FIGURES", "").split(",")
    for name, show in FIGURES.items():
        if wanted == [""] or name in wanted:
            CONSOLE.print(f"{name}: {(show.__doc__ or '').split(' ', 1)[1]}")
            show()
