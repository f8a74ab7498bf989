"""Problems that no solver finishes soon, asked with time limits: for the benchmark and the fuzzer of limits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from model_table import graph
from ssvm_dsl import StructuredSVM
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import NoBackendError, NoLabellingError, SsvmError
from ssvm_dsl.inference.planning.planner import accepted_guarantee, need_of, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.specs import BackendSpec
from ssvm_dsl.registry import registry

#: What is asked.
CALLS = ("solve", "predict", "fit")


@dataclass(frozen=True, eq=False)
class Large:
    """Examples of one graph each, with random inputs."""

    name: str
    model: type
    X: list
    Y: list


def graph_model(card):
    """Return the model of any graph with so many states."""

    return graph(3, card)


def grid_edges(height, width):
    """Return the edges of a grid."""
    at = np.arange(height * width).reshape(height, width)
    pairs = ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:]))
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])


def complete_edges(n):
    """Return the edges of a complete graph."""
    return np.stack(np.triu_indices(n, 1), axis=1)


def chain_edges(n):
    """Return the edges of a chain."""
    return np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)


def large(name, edges, card, n_examples, rng):
    """Return a problem with these edges in each example."""
    n = int(edges.max()) + 1
    X = [{"x": rng.normal(size=(n, 3)), "e": edges.astype(np.int32)} for _ in range(n_examples)]
    return Large(name, graph_model(card), X, [rng.integers(card, size=n) for _ in X])


def backends():
    """Return the names of the bundled backends that answer ``map``."""
    known = registry()
    specs = [spec for spec in known.specs(BackendSpec) if known.owner(spec).bundled]
    return sorted(spec.name for spec in specs if Task.MAP in spec.caps.tasks)


def overrun(problem, backend, call, seconds, rng):
    """Return (seconds taken beyond the limit, what came of it); the former is negative for a call that ended before.

    Compiling is not counted.  ``None`` for a backend that refuses the problem.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        deadline = Deadline(seconds)
        try:
            found = {"solve": _solve, "predict": _predict, "fit": _fit}[call](problem, backend, seconds, rng)
        except NoBackendError:
            return None
        except NoLabellingError:
            return deadline.spent - seconds, "no labelling"
        except SsvmError as err:
            if call == "fit" or "submodular" in str(err) or "allowed" in str(err):
                return None
            raise
    begun, what = found
    return begun.spent - seconds, what


def _solve(problem, backend, seconds, rng):
    svm = _weighted(problem, backend, rng)
    grounded = svm._ground(problem.X[:1], fitted=svm.fitted_.learnt)
    need = need_of(grounded.parameters, frozenset({Task.MAP}), accepted_guarantee(backend, Guarantee.HEURISTIC))
    theta = Theta.zeros(grounded.program)
    grounded.parameters.fill_shared(svm.coef_, theta)
    grounded.parameters.fill_examples(svm.coef_, theta, np.arange(1))
    deadline = Deadline(seconds)
    session = open_plan(plan_program(grounded.program, replace(need), backend), grounded.program)
    with within(deadline):
        answer = session.solve(Question(theta))
    return deadline, f"{answer.score[0]:.6g} <= {answer.bound[0]:.6g}"


def _predict(problem, backend, seconds, rng):
    svm, deadline = _weighted(problem, backend, rng), Deadline(seconds)
    svm.predict(problem.X, time_limit=seconds)
    return deadline, "labelled"


def _fit(problem, backend, seconds, rng):
    deadline = Deadline(seconds)
    svm = StructuredSVM(problem.model, backend=backend, max_seconds=seconds, random_state=0, tol=1e-4)
    report = svm.fit(problem.X, problem.Y).report_
    assert report.primal >= report.dual or np.isnan(report.primal)
    return deadline, f"gap {report.relative_gap:.2g}"


def _weighted(problem, backend, rng):
    """Return a fitted estimator with random weights."""
    tiny = large("", chain_edges(3), problem.model.declaration.labels[0].n_states, 2, rng)
    svm = StructuredSVM(problem.model, max_passes=1, random_state=0, tol=1e9).fit(tiny.X, tiny.Y)
    svm.coef_ = rng.normal(size=svm.coef_.shape)
    return svm.set_params(backend=backend, guarantee="heuristic")
