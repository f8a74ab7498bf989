"""Meshi, Sontag, Jaakkola, Globerson (2010), Figure 1: objective of equation 7 against time.

Four sets, five methods, one objective: the margin risk relaxed to the local polytope.  Time is that of training alone,
without evaluating equation 7 (as in the paper); it is measured at the iterates a method shows, one for each pass.  The
best objective is the lowest any method reached, and how far it can be from the optimum is certified by our default's
dual bound.  The paper does not give C; here it is 1 (``1/2 |w|^2 + 1/n sum_i risk_i``).

Sets are cut down so that the slowest method makes a few passes within its seconds.  A step of DLPW on one example costs
more in Python than in its kernel here, which the paper's C++ did not have; so it also runs on ten examples at a time,
where that cost is a tenth, and ratios are to the fastest of its variants.
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, complete, ground
from ssvm_dsl.datasets import load_reuters, load_scene, load_yeast, make_multilabel
from ssvm_dsl.inference.planner import need_of, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.learning.objective import regularized_risk
from ssvm_dsl.learning.risks import find_risk
from ssvm_dsl.plugin_api import StopRule, TrainerSpec
from ssvm_dsl.registry import registry

#: Seconds for each method on each set, and the weight of the risks.
SECONDS, C = float(os.environ.get("SSVM_MESHI_SECONDS", "12")), 1.0

#: How many training examples are used.
SIZES = {"yeast": 500, "scene": 500, "reuters": 300, "synthetic": 100}

#: Published: how many times faster than other methods DLPW gets to the optimum.
PUBLISHED = {
    "yeast": "Pegasos 6, cutting plane 43",
    "scene": "Pegasos a little over 1, cutting plane much more",
    "reuters": "Pegasos over 2, cutting plane more",
    "synthetic": "cutting plane, Pegasos: more, in this order",
}


@dataclass(frozen=True)
class Method:
    """A trainer with its options, and the backend that answers."""

    trainer: str
    backend: str
    options: dict[str, Any]


PEGASOS = {"averaging": "none", "radius": "pegasos", "evaluate_every": 10**9}
DLPW = {"evaluate_every": 10**9}
METHODS = {
    "ours: bcfw": Method("bcfw", "auto", {}),
    "DLPW": Method("dlpw", "msd", DLPW),
    "DLPW, averaged": Method("dlpw", "msd", {**DLPW, "averaging": "weighted"}),
    "DLPW, averaged, 10 at a time": Method("dlpw", "msd", {**DLPW, "averaging": "weighted", "batch_size": 10}),
    "Pegasos + LP": Method("subgradient", "lp", PEGASOS),
    "cutting plane + LP": Method("bundle", "lp", {"stabilise": False}),
}


class OneThread:
    """An executor that runs everything here and now."""

    def map(self, function, parts):
        """Return the results of all calls."""
        return [function(part) for part in parts]


def multilabel(n_labels: int, n_features: int, sparse: bool = False) -> type[Model]:
    """Return the model of the paper: a complete graph, weights of its own for each label and pair."""

    class MultiLabelModel(Model):
        K = Dim(n_labels)
        x = Input(n_features, sparse=sparse)
        y = Label(K, 2)
        unary = Factor(y, features=x, per=K)
        pair = Factor(complete(y), per="edge")
        loss = Hamming(y, normalize=True)

    return MultiLabelModel


class Synthetic(Model):
    """Twenty labels of four states; each sees one number of its own."""

    K = Dim(20)
    x = Input(K)
    y = Label(K, 4)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y, normalize=True)


def dataset(name: str) -> tuple[type[Model], list[Any], list[Any]]:
    """Return (model, X, Y) of a set."""
    size = SIZES[name]
    if name == "synthetic":
        X, Y = make_multilabel(size)
        return Synthetic, X, Y
    loaded = {"yeast": load_yeast, "scene": load_scene, "reuters": load_reuters}[name]()
    X, Y = loaded.X_train[:size], loaded.Y_train[:size]
    if name != "reuters":
        return multilabel(len(Y[0]), len(X[0])), X, Y
    seen = np.unique(np.concatenate([x.indices for x in X]))  # weights of words that do not occur are zero
    return multilabel(len(Y[0]), len(seen), sparse=True), [x[:, seen] for x in X], Y


def problem_of(model: type[Model], X: list[Any], Y: list[Any], backend: str, messages: bool = False):
    """Return the relaxed problem with a backend."""
    grounded, risk = ground(model, X, Y), find_risk("relaxed")
    assert grounded.loss is not None
    n = len(X)
    objective = regularized_risk(grounded.parameters, 1.0 / C, np.ones(n), None, 1.0)
    tasks, kinds = risk.asks(grounded.loss, messages)
    need = need_of(grounded.parameters, tasks, Guarantee.BOUND, kinds)
    session = open_plan(plan_program(grounded.program, need, backend), grounded.program)
    return risk.problem(grounded.parameters, grounded.loss, objective, session, OneThread())


def run(method: Method, problem: Any, seconds: float) -> tuple[list[tuple[float, np.ndarray]], float]:
    """Return (seconds, weights) after each pass, thinned out, and the best dual bound."""
    spec = registry().find(TrainerSpec, method.trainer)
    trainer = spec.load()(**spec.resolve(method.options), random_state=0)
    found, dual, begin, last = [], -np.inf, time.perf_counter(), -np.inf
    for iterate in trainer.steps(problem, StopRule(tol=1e-4)):
        spent = time.perf_counter() - begin
        dual = max(dual, iterate.dual)
        done = spent > seconds or (np.isfinite(iterate.primal) and iterate.upper - dual <= 1e-3 * abs(iterate.primal))
        if spent > 1.08 * last or done:
            found.append((spent, iterate.w.copy()))
            last = spent
        if done:
            break
    return found, dual


def time_to(trace: list[tuple[float, float]], goal: float) -> float:
    """Return the first time at which the objective is at most the goal."""
    return next((t for t, value in trace if value <= goal), np.inf)


def curves(name: str) -> tuple[dict[str, list[tuple[float, float]]], float]:
    """Return (seconds, objective of equation 7) of every method on a set, and the best dual bound."""
    data, traces, bounds = dataset(name), {}, []
    judge = problem_of(*data, "auto")
    judge.evaluate(np.zeros(judge.dim))  # compiles
    for label, method in METHODS.items():
        messages = registry().find(TrainerSpec, method.trainer).needs.messages
        run(method, problem_of(data[0], data[1][:20], data[2][:20], method.backend, messages), 0.0)  # compiles
        found, dual = run(method, problem_of(*data, method.backend, messages), SECONDS)
        chosen = found[:: max(1, len(found) // 12)] + found[-1:]
        traces[label] = [(t, judge.evaluate(w)[1]) for t, w in chosen]
        bounds.append(dual)
    return traces, max(bounds)


def report(name: str, traces: dict[str, list[tuple[float, float]]], dual: float) -> Table:
    """Return the table of a set."""
    best = min(value for trace in traces.values() for _, value in trace)
    model, size = ("20 labels of 4 states" if name == "synthetic" else "binary labels"), SIZES[name]
    known = f"certified within {(best - dual) / best:.2%}" if dual > 0 else "not certified"
    title = f"{name}: first {size} examples, {model}; best objective {best:.5f}, {known}"
    shown = Table(title=title, title_justify="left", min_width=100)
    for column in ("method", "seconds to 1 %", "x DLPW's", "after", "objective", "above best"):
        shown.add_column(column, justify="left" if column == "method" else "right")
    goal, of_dlpw = 1.01 * best, min(time_to(traces[key], 1.01 * best) for key in traces if key.startswith("DLPW"))
    for label, trace in traces.items():
        taken, (last, value) = time_to(trace, goal), trace[-1]
        ratio = "-"
        if np.isfinite(taken) and np.isfinite(of_dlpw):
            ratio = f"{taken / of_dlpw:.2f}"
        elif np.isfinite(taken):
            ratio = f"< {taken / traces['DLPW'][-1][0]:.2f}"
        shown.add_row(
            label, f"{taken:.2f}" if np.isfinite(taken) else f"> {last:.1f}", ratio, f"{last:.1f} s", f"{value:.5f}",
            f"{value / best - 1:.2%}",
        )  # fmt: skip
    shown.caption = f"published, times slower than DLPW: {PUBLISHED[name]}"
    return shown


def main(names: tuple[str, ...] = tuple(SIZES)) -> None:
    """Print for each set the time every method takes to 1 % of the best objective."""
    warnings.simplefilter("ignore")
    console = Console(width=110)
    for name in names:
        console.print(report(name, *curves(name)))


if __name__ == "__main__":
    import sys

    main(tuple(sys.argv[1:]) or tuple(SIZES))
