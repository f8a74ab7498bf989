"""The sets, the methods and the counts of :mod:`~ssvm_papers.experiments.dual_losses`.

Methods are given passes, not seconds, so that what they reach depends on no machine.  What they did until an iterate is
an :class:`Effort`: looks at an example, operations, processor time, and the part of that time inside the solver alone.

An operation reads one joint state of a pair of labels with its three numbers (its score and a
message of either end; or the entries of its column in the equations):

* a pass of message passing updates the messages into every label, which looks at every joint state twice, and the
  choice that gives the subgradient looks at each once more: 2 R + 1 sweeps over all joint states in a look of DLPW;
* a pivot of the simplex method prices the columns, of which each joint state has one: a sweep for each pivot, and one
  more for the look at the solution.  Other costs of a pivot (solving with the basis) are not counted.

Our linear programs start from the last basis of the same example, which takes a tenth of the pivots.  The paper speaks
of methods that solve each program from scratch, and DLPW, whose messages stay, is made to do better than those.  So the
compared operations are those from scratch: the looks, times the pivots that a program takes without a basis, which is
found by solving some programs at weights along the way once more.  Looks and weights are the same either way, but for
ties.

Minimum cuts have no like measure; they are not in the paper, and only their looks and times are shown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, complete
from ssvm_dsl.datasets import load_reuters, load_scene, load_yeast
from ssvm_dsl.ir import F64, Question, Task
from ssvm_dsl.plugin_api import Session, StopRule, TrainProblem, Value
from ssvm_dsl.testing import make_trainer, training_problem
from ssvm_papers.generators import make_multilabel

#: The weight of the risks.
C = 1.0

#: How many training examples are used, by set: all.
SIZES = {"yeast": 1500, "scene": 1211, "reuters": 3000, "synthetic": 100}

#: Seeds of the compared method whose orders of the examples are random and whose newest weights are noisy.
SEEDS = (0, 1, 2)

#: Iterates along the way at which programs are solved from scratch, and how many at each.
SAMPLED_ITERATES, SAMPLED_EXAMPLES = 6, 10

#: By how much the number of passes grows, at least, from an iterate that is kept to the next.
THINNING = 1.06


@dataclass(frozen=True)
class Method:
    """A trainer with its options, the backend that answers, and its passes on each set; left out: not run there.

    Parameters
    ----------
    trainer, backend : str
    passes : dict
    options : dict
    sweeps : int
        Sweeps over all joint states in each look, for methods that pass messages; 0: the backend counts pivots.
    """

    trainer: str
    backend: str
    passes: dict[str, int]
    options: dict[str, Any] = field(default_factory=dict)
    sweeps: int = 0


#: The ball that holds the optimum, as losses are at most 1, has the radius sqrt(C).
PEGASOS = {"averaging": "none", "radius": C**0.5, "evaluate_every": 10**9}
DLPW = {"evaluate_every": 10**9}

#: The methods that are compared, one for each family, chosen beforehand: DLPW with R = 10 and the newest weights, as in
#: the paper; Pegasos with its newest weights; cutting planes with a slack for each example, as in the code the paper
#: took.
COMPARED = {"DLPW": "DLPW", "Pegasos": "Pegasos + LP", "cutting plane": "n-slack + LP"}

#: All methods; those that are not compared are shown as well.
METHODS = {
    "ours: bcfw": Method("bcfw", "auto", {"yeast": 200, "scene": 200, "reuters": 200, "synthetic": 200}),
    "DLPW": Method("dlpw", "msd", {"yeast": 60, "scene": 60, "reuters": 50, "synthetic": 800}, DLPW, 21),
    "DLPW, R = 3, averaged": Method(
        "dlpw", "msd", {"yeast": 60, "scene": 60, "reuters": 50, "synthetic": 800},
        {**DLPW, "averaging": "weighted", "passes": 3}, 7,
    ),
    "Pegasos + LP": Method(
        "subgradient", "lp", {"yeast": 12, "scene": 16, "reuters": 4, "synthetic": 100}, PEGASOS
    ),
    "n-slack + LP": Method("n-slack", "lp", {"yeast": 30, "scene": 12, "reuters": 4, "synthetic": 60}),
    "Pegasos + min. cut": Method("subgradient", "qpbo", {"yeast": 16, "scene": 16, "reuters": 4}, PEGASOS),
    "one-slack, stabilised + min. cut": Method("bundle", "qpbo", {"yeast": 120, "scene": 60, "reuters": 50}),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Effort(Value):
    """The effort of a method.

    Parameters
    ----------
    passes : float
        As the trainer counts them.
    looks : float
        Examples looked at, each time it was.
    sweeps : float
        Over the joint states of an example; times their number these are operations.  ``nan``: not counted.
    seconds, inside : float
        Of a processor: of training, and of these inside the solver alone (``nan``: not known).
    """

    passes: float = 0.0
    looks: float = 0.0
    sweeps: float = 0.0
    seconds: float = 0.0
    inside: float = 0.0


def multilabel(n_labels: int, n_features: int, sparse: bool = False) -> type[Model]:
    """Return the model of the paper: a complete graph with separate weights for each label and pair."""

    class MultiLabelModel(Model):
        K = Dim(n_labels)
        x = Input(n_features, sparse=sparse)
        y = Label(K, 2)
        unary = Factor(y, features=x, per=K)
        pair = Factor(complete(y), per="edge")
        loss = Hamming(y, normalize=True)

    return MultiLabelModel


class Synthetic(Model):
    """Twenty labels of four states; each has one feature."""

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


def dataset(name: str, size: int) -> Data:
    """Return a set, with so many training examples of it."""
    if name == "synthetic":
        made, labels = make_multilabel(2 * size)
        return Data(Synthetic, (made[:size], labels[:size]), (made[size:], labels[size:]))
    loaded = {"yeast": load_yeast, "scene": load_scene, "reuters": load_reuters}[name]()
    parts: list[list[Any]] = [part[:size] for part in loaded] if size < SIZES[name] else list(loaded)
    X, Y, others, truth = parts
    if name != "reuters":
        return Data(multilabel(len(Y[0]), len(X[0])), (X, Y), (others, truth))
    seen = np.unique(np.concatenate([x.indices for x in X]))  # weights of words that do not occur are zero
    X, others = [x[:, seen] for x in X], [x[:, seen] for x in others]
    return Data(multilabel(len(Y[0]), len(seen), sparse=True), (X, Y), (others, truth))


def problem_of(model: type[Model], X: list[Any], Y: list[Any], method: Method) -> tuple[TrainProblem, Oracle]:
    """Return the relaxed problem of a method, and the session that answers its questions."""
    made: list[Oracle] = []

    def around(session: Session) -> Session:
        made.append(Oracle(session))
        return made[0]

    problem = training_problem(
        model, X, Y, risk="relaxed", backend=method.backend, trainer=method.trainer, lam=1.0 / C, around=around
    )
    return problem, made[0]


class Oracle:
    """A session that starts from its last answer for each example, and adds up what its backend counts."""

    def __init__(self, session: Any) -> None:
        self.session, self.keep = session, True
        self.warm: dict[int, Any] = {}
        self.pivots, self.inside = 0, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def solve(self, question: Question, known: Any = None) -> Any:
        """Answer."""
        if question.task is not Task.RELAXED:
            return self.session.solve(question, known)
        solution = self.session.solve(question.replace(warm=self.warm) if self.keep else question, known)
        self.warm.update(solution.warm or {})
        self.pivots += int(solution.stats.get("lp_iterations", 0))
        self.inside += float(solution.stats.get("solver_seconds", 0.0))
        return solution


@dataclass(frozen=True, eq=False)
class Trace:
    """The iterates and bounds of a method.

    Parameters
    ----------
    iterates : list of (Effort, ndarray)
        The effort until then, and the weights; thinned out.
    bound : float
        The best lower bound of the optimum.
    pivots : float
        Those that a linear program takes from scratch, on average; ``nan`` for other methods.
    """

    iterates: list[tuple[Effort, F64]]
    bound: float
    pivots: float = np.nan

    def scratch(self, effort: Effort) -> float:
        """Return the sweeps until then, had every linear program been solved from scratch."""
        return effort.sweeps if np.isnan(self.pivots) else effort.looks * (self.pivots + 1.0)


def run_method(method: Method, problem: Any, oracle: Oracle, passes: float, seed: int = 0) -> Trace:
    """Run a method for so many passes, or to a gap of a thousandth."""
    trainer = make_trainer(method.trainer, method.options, seed)
    visited, bound, begin = [(Effort(), np.zeros(problem.dim))], -np.inf, time.process_time()
    for iterate in trainer.steps(problem, StopRule(tol=1e-3)):
        spent = time.process_time() - begin
        bound = max(bound, iterate.dual)
        done = iterate.n_passes >= passes
        done |= bool(np.isfinite(iterate.primal) and iterate.upper - bound <= 1e-3 * iterate.primal)
        if iterate.n_passes >= THINNING * visited[-1][0].passes or done:
            visited.append((_effort(method, problem, oracle, iterate.n_passes, spent), iterate.w.copy()))
        if done:
            break
    pivots = pivots_from_scratch(problem, oracle, visited) if method.backend == "lp" else np.nan
    return Trace(visited, bound, pivots)


def _effort(method: Method, problem: Any, oracle: Oracle, passes: float, seconds: float) -> Effort:
    """Return the effort so far."""
    looks = float(problem.n_oracle_calls)
    if method.sweeps:  # a pass is one kernel, all of it counts as solving
        return Effort(passes, looks, method.sweeps * looks, seconds, seconds)
    sweeps = oracle.pivots + looks if method.backend == "lp" else np.nan
    return Effort(passes, looks, sweeps, seconds, oracle.inside if method.backend in ("lp", "qpbo") else np.nan)


def pivots_from_scratch(problem: Any, oracle: Oracle, iterates: Sequence[tuple[Effort, F64]]) -> float:
    """Return the pivots that a linear program takes without a basis, on average over examples and the iterates."""
    before = oracle.pivots
    examples = np.unique(np.linspace(0, problem.n - 1, SAMPLED_EXAMPLES).astype(np.int64))
    places = np.unique(np.linspace(1, len(iterates) - 1, SAMPLED_ITERATES).astype(int)).tolist()
    oracle.keep = False
    for place in places:
        problem.gradient(iterates[place][1], examples)
    oracle.keep = True
    return float(oracle.pivots - before) / (len(places) * len(examples))


class ObjectiveCurve:
    """The objective of equation 7 at some iterates of a method.

    Parameters
    ----------
    trace : Trace
    judge : MarginProblem
        Evaluates equation 7.
    most : int
        How many iterates are evaluated at first, from the first one to the last.
    """

    def __init__(self, trace: Trace, judge: Any, most: int = 6) -> None:
        self.trace, self.judge = trace, judge
        self.values: dict[int, float] = {}
        for k in np.unique(np.linspace(0, len(trace.iterates) - 1, most).astype(int)).tolist():
            self.at(k)

    def at(self, k: int) -> float:
        """Return the objective at an iterate."""
        if k not in self.values:
            self.values[k] = self.judge.evaluate(self.trace.iterates[k][1])[1]
        return self.values[k]

    def refine(self, goal: float) -> None:
        """Evaluate more iterates, to know when the objective falls to the goal."""
        last = next((k for k in sorted(self.values) if self.at(k) <= goal), 0)
        first = max((k for k in self.values if k < last), default=last)
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if self.at(middle) <= goal else (middle, last)

    def reached(self, goal: float) -> Effort | None:
        """Return the effort until the objective is at most the goal; ``None`` where it never is."""
        return next((self.trace.iterates[k][0] for k in sorted(self.values) if self.values[k] <= goal), None)

    @property
    def whole(self) -> Effort:
        """The total effort."""
        return self.trace.iterates[-1][0]

    @property
    def best(self) -> float:
        """The lowest objective."""
        return min(self.values.values())

    @property
    def points(self) -> F64:
        """Seconds, sweeps and objectives; ``shape (n, 3)``."""
        efforts = [(self.trace.iterates[k][0], value) for k, value in sorted(self.values.items())]
        return np.array([(effort.seconds, effort.sweeps, value) for effort, value in efforts])
