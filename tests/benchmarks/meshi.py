"""Meshi, Sontag, Jaakkola, Globerson (2010), Figure 1: objective of equation 7 against time.

Four sets, nine methods, one objective: the margin risk relaxed to the local polytope.  Time is processor time of
training alone on one thread, without evaluating equation 7 (as in the paper); it is measured at the iterates a method
shows: one for each pass, for ours one for each sweep.  The best objective is the lowest any method reached; the best
lower bound of any method tells how far it can be from the optimum.  The paper does not give C; here it is 1
(``1/2 |w|^2 + 1/n sum_i risk_i``).  Sets have the published sizes.  A method whose time is long over is stopped within
its pass, and keeps the weights of the pass before.  Equation 7 is evaluated at a few iterates, and at more of them
around the one that is the first within 1 %.

DLPW takes whole passes in a compiled kernel, with R = 10 as in the paper and the newest weights; and also with R = 3
and the average of the weights, each times its number (Lacoste-Julien, Schmidt and Bach 2012), which is faster on some
sets.  Ratios are to the faster of the two.

Pegasos and cutting planes (with a slack for each example as in Finley and Joachims 2008, and with one slack for all;
the paper does not say which) need the relaxation solved at every look at an example: by a linear program, which goes
on from the basis of the last look, and on the binary sets also by a minimum cut (roof duality), which has the same
optimum, as the paper remarks.  With minimum cuts the one-slack method is also stabilised (a bundle method).

Reuters has 904 260 weights, and some methods need more than the minutes they are given there: ``SSVM_BENCH_LONG=1``
waits until DLPW, Pegasos and cutting planes are within 1 % too, three quarters of an hour.

Below each table is what an estimator with default options and ``tol=0.01`` makes of the set: time, and the share of
wrong labels on the set's test examples.

    python tests/benchmarks/meshi.py [yeast scene reuters synthetic] [--plot curves.png]
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
from threadpoolctl import threadpool_limits

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete, ground
from ssvm_dsl.datasets import load_reuters, load_scene, load_yeast, make_multilabel
from ssvm_dsl.inference.planner import need_of, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.learning.objective import regularized_risk
from ssvm_dsl.learning.risks.kinds import find_risk
from ssvm_dsl.plugin_api import StopRule, TrainerSpec
from ssvm_dsl.registry import registry

#: The weight of the risks.
C = 1.0

#: Seconds for each method on each set, by what answers: messages, minimum cuts, linear programs.
MESSAGES = {"yeast": 8.0, "scene": 4.0, "reuters": 30.0, "synthetic": 15.0}
SECONDS = {
    "auto": MESSAGES,
    "msd": MESSAGES,
    "qpbo": {"yeast": 15.0, "scene": 8.0, "reuters": 120.0},
    "lp": {"yeast": 100.0, "scene": 20.0, "reuters": 250.0, "synthetic": 170.0},
}

#: Seconds until others are within 1 % too, where that takes long (``SSVM_BENCH_LONG=1``).
LONG = {
    ("DLPW", "reuters"): 900.0,
    ("Pegasos + min. cut", "reuters"): 600.0,
    ("one-slack, stabilised + min. cut", "reuters"): 400.0,
}

#: How many training examples are used: all.
SIZES = {"yeast": 1500, "scene": 1211, "reuters": 3000, "synthetic": 100}

#: Shares above the best objective to which times are told.
GOALS = (0.1, 0.01)

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
    "DLPW, R = 3, averaged": Method("dlpw", "msd", {**DLPW, "averaging": "weighted", "passes": 3}),
    "Pegasos + LP": Method("subgradient", "lp", PEGASOS),
    "n-slack + LP": Method("n-slack", "lp", {}),
    "one-slack + LP": Method("bundle", "lp", {"stabilise": False}),
    "Pegasos + min. cut": Method("subgradient", "qpbo", PEGASOS),
    "n-slack + min. cut": Method("n-slack", "qpbo", {}),
    "one-slack, stabilised + min. cut": Method("bundle", "qpbo", {}),
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


@dataclass(frozen=True)
class Data:
    """A model with training and test examples."""

    model: type[Model]
    train: tuple[list[Any], list[Any]]
    test: tuple[list[Any], list[Any]]


def dataset(name: str) -> Data:
    """Return a set."""
    size = SIZES[name]
    if name == "synthetic":
        X, Y = make_multilabel(2 * size)
        return Data(Synthetic, (X[:size], Y[:size]), (X[size:], Y[size:]))
    loaded = {"yeast": load_yeast, "scene": load_scene, "reuters": load_reuters}[name]()
    X, Y, others = loaded.X_train[:size], loaded.Y_train[:size], loaded.X_test
    if name != "reuters":
        return Data(multilabel(len(Y[0]), len(X[0])), (X, Y), (others, loaded.Y_test))
    seen = np.unique(np.concatenate([x.indices for x in X]))  # weights of words that do not occur are zero
    X, others = [x[:, seen] for x in X], [x[:, seen] for x in others]
    return Data(multilabel(len(Y[0]), len(seen), sparse=True), (X, Y), (others, loaded.Y_test))


def problem_of(model: type[Model], X: list[Any], Y: list[Any], backend: str, messages: bool = False):
    """Return the relaxed problem with a backend."""
    grounded, risk = ground(model, X, Y), find_risk("relaxed")
    assert grounded.loss is not None
    n = len(X)
    objective = regularized_risk(grounded.parameters, 1.0 / C, np.ones(n), None, 1.0)
    tasks, kinds = risk.asks(grounded.loss, messages)
    need = need_of(grounded.parameters, tasks, Guarantee.BOUND, kinds)
    session = open_plan(plan_program(grounded.program, need, backend), grounded.program, outwards=False)
    return risk.problem(grounded.parameters, grounded.loss, objective, session, OneThread())


def seconds(label: str, name: str) -> float:
    """Return how long a method is given on a set."""
    usual = SECONDS[METHODS[label].backend][name]
    return usual if os.environ.get("SSVM_BENCH_LONG", "") in ("", "0") else LONG.get((label, name), usual)


class TimeUp(Exception):
    """A method has used up its time within a pass."""


class Oracle:
    """A session that starts from its last answer for each example, and stops answering when the time is long over."""

    def __init__(self, session: Any, end: float) -> None:
        self.session, self.end, self.warm = session, end, {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def solve(self, question: Question, known: Any = None) -> Any:
        """Answer, or stop."""
        if time.process_time() > self.end:
            raise TimeUp
        if question.task is not Task.RELAXED:
            return self.session.solve(question, known)
        found = self.session.solve(question.but(warm=self.warm), known)
        self.warm.update(found.warm or {})
        return found


def run(method: Method, problem: Any, seconds: float) -> tuple[list[tuple[float, np.ndarray]], float]:
    """Return (seconds, weights) at the start and after each pass, thinned out, and the best dual bound."""
    spec = registry().find(TrainerSpec, method.trainer)
    trainer = spec.load()(**spec.resolve(method.options), random_state=0)
    found, dual, begin = [(0.0, np.zeros(problem.dim))], -np.inf, time.process_time()
    problem.session = Oracle(problem.session, begin + 1.5 * seconds + 1.0)
    try:
        for iterate in trainer.steps(problem, StopRule(tol=1e-3)):
            spent = time.process_time() - begin
            dual = max(dual, iterate.dual)
            done = spent > seconds or (np.isfinite(iterate.primal) and iterate.upper - dual <= 1e-3 * iterate.primal)
            if spent > 1.12 * found[-1][0] or done:
                found.append((spent, iterate.w.copy()))
            if done:
                break
    except TimeUp:
        found.append((time.process_time() - begin, found[-1][1]))
    return found, dual


def time_to(trace: list[tuple[float, float]], goal: float) -> float:
    """Return the first time at which the objective is at most the goal."""
    return next((t for t, value in trace if value <= goal), np.inf)


class Curve:
    """The objective of equation 7 at some iterates of a method.

    Parameters
    ----------
    found : list of (float, ndarray)
        Seconds and weights.
    passes : float
        Examples looked at, each time it was, over their number.
    judge : MarginProblem
        What evaluates equation 7.
    most : int
        How many iterates are evaluated at first, from the first one to the last.
    """

    def __init__(self, found: list[tuple[float, np.ndarray]], passes: float, judge: Any, most: int = 6) -> None:
        self.found, self.passes, self.judge = found, passes, judge
        self.values: dict[int, float] = {}
        for k in np.unique(np.linspace(0, len(found) - 1, most).astype(int)).tolist():
            self.at(k)

    def at(self, k: int) -> float:
        """Return the objective at an iterate."""
        if k not in self.values:
            self.values[k] = self.judge.evaluate(self.found[k][1])[1]
        return self.values[k]

    def refine(self, goal: float) -> None:
        """Evaluate more iterates, to know when the objective falls to the goal."""
        last = next((k for k in sorted(self.values) if self.at(k) <= goal), 0)
        first = max((k for k in self.values if k < last), default=last)
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if self.at(middle) <= goal else (middle, last)

    @property
    def trace(self) -> list[tuple[float, float]]:
        """Seconds and objectives."""
        return [(self.found[k][0], value) for k, value in sorted(self.values.items())]


def curves(name: str, data: Data) -> tuple[dict[str, Curve], float]:
    """Return the curve of every method on a set, and the best dual bound."""
    found, bounds = {}, []
    judge, few = problem_of(data.model, *data.train, "auto"), [part[:20] for part in data.train]
    for label, method in METHODS.items():
        if name not in SECONDS[method.backend]:
            continue  # minimum cuts are for two states
        messages = registry().find(TrainerSpec, method.trainer).needs.messages
        run(method, problem_of(data.model, *few, method.backend, messages), 0.3)  # compiles
        problem = problem_of(data.model, *data.train, method.backend, messages)
        iterates, dual = run(method, problem, seconds(label, name))
        found[label] = Curve(iterates, problem.n_oracle_calls / problem.n, judge)
        bounds.append(dual)
    best = min(min(curve.values.values()) for curve in found.values())
    for curve in found.values():
        curve.refine((1.0 + GOALS[-1]) * best)
    return found, max(bounds)


def report(name: str, found: dict[str, Curve], dual: float) -> Table:
    """Return the table of a set."""
    traces = {label: curve.trace for label, curve in found.items()}
    best = min(value for trace in traces.values() for _, value in trace)
    model = "20 labels of 4 states" if name == "synthetic" else "binary labels"
    title = f"{name}: {SIZES[name]} examples, {model}; best objective {best:.5f}, optimum at least {dual:.5f}"
    shown = Table(title=title, title_justify="left", min_width=100)
    for column in ("method", "s to 10 %", "s to 1 %", "DLPW takes", "after", "passes", "objective", "above best"):
        shown.add_column(column, justify="left" if column == "method" else "right")
    reached = {label: [time_to(trace, (1.0 + goal) * best) for goal in GOALS] for label, trace in traces.items()}
    of_dlpw = min(reached[label][1] for label in traces if label.startswith("DLPW"))
    least = min(traces[label][-1][0] for label in traces if label.startswith("DLPW"))
    for label, trace in traces.items():
        last, value = trace[-1]
        times = [f"{t:.2f}" if np.isfinite(t) else f"> {last:.1f}" for t in reached[label]]
        mine = reached[label][1]
        ratio = f"x {of_dlpw / mine:.1f}" if np.isfinite(of_dlpw) else f"> x {least / mine:.1f}"
        ratio = ratio if np.isfinite(mine) else "-"
        passes = f"{found[label].passes:.1f}" if found[label].passes else "-"
        shown.add_row(label, *times, ratio, f"{last:.1f} s", passes, f"{value:.5f}", f"{value / best - 1:.2%}")
    shown.caption = f"published, times slower than DLPW: {PUBLISHED[name]}"
    return shown


def sanity(data: Data) -> str:
    """Return what the estimator makes of a set."""
    begin = time.process_time()
    svm = StructuredSVM(data.model, lam=1.0 / C, risk="relaxed", tol=0.01, random_state=0).fit(*data.train)
    spent = time.process_time() - begin
    wrong, told = 1.0 - svm.score(*data.test), svm.report_
    rare = np.mean([y != np.bincount(y).argmax() for y in np.array(data.train[1]).T])
    return (
        f"StructuredSVM(risk='relaxed', tol=0.01): {spent:.1f} s, relative gap {told.relative_gap:.2%}, "
        f"{told.tightness:.0%} of the relaxations whole; wrong labels: {wrong:.2%} of the test set "
        f"(the most frequent states: {rare:.2%} of the training set)"
    )


def plot(all_traces: dict[str, dict[str, list[tuple[float, float]]]], path: str) -> None:
    """Save the curves of all sets."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(all_traces), figsize=(5 * len(all_traces), 4), squeeze=False)
    for axis, (name, traces) in zip(axes[0], all_traces.items(), strict=True):
        best = min(value for trace in traces.values() for _, value in trace)
        for label, trace in traces.items():
            axis.loglog(*zip(*((max(t, 1e-2), value / best - 1 + 1e-5) for t, value in trace)), label=label)
        axis.set(title=name, xlabel="seconds", ylabel="objective above the best, relative")
    axes[0][0].legend(fontsize="small")
    figure.savefig(path, bbox_inches="tight")


def main(names: tuple[str, ...] = tuple(SIZES), path: str | None = None) -> None:
    """Print for each set the time every method takes to 10 % and 1 % of the best objective."""
    warnings.simplefilter("ignore")
    console, all_traces = Console(width=120), {}
    console.print(f"load when this began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name in names:
        data = dataset(name)
        with threadpool_limits(1, user_api="blas"):
            found, dual = curves(name, data)
        all_traces[name] = {label: curve.trace for label, curve in found.items()}
        console.print(report(name, found, dual))
        console.print(sanity(data), highlight=False)
    if path:
        plot(all_traces, path)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description="Meshi et al. (2010), Figure 1")
    parser.add_argument("names", nargs="*", default=list(SIZES), metavar="set", help=", ".join(SIZES))
    parser.add_argument("--plot", metavar="FILE", help="save the curves")
    given = parser.parse_args()
    main(tuple(given.names), given.plot)
