"""A kind of constraints from another distribution: in the language, by rows, by enumeration, and in the kit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from constraints import few_runs
from ssvm_dsl import Constraint, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, register
from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import LinearRows, Question
from ssvm_dsl.plugin_api import ConstraintSpec, hookimpl
from ssvm_dsl.registry import PluginInfo, registry
from ssvm_dsl.testing import check_backend, check_bridge, check_constraint, kind_problem, open_session, solve

HERE = Path(__file__).parent


def few_runs_plugin(factory, name="few-runs"):
    """A plug-in with a kind of a factory in this module."""

    class Plugin:
        @hookimpl
        def ssvm_constraints(self):
            return [ConstraintSpec(name, f"{factory.__module__}:{factory.__qualname__}", parameters=("runs",))]

    return Plugin()


def registered(factory, name="few-runs"):
    """The installed plug-ins and the kind."""
    known = registry().copy()
    info = PluginInfo("stranger", "stranger 1.0", bundled=False, allowed=False)
    assert known.register(few_runs_plugin(factory, name), info)
    return known


@pytest.fixture
def kind():
    """The kind, registered for this process."""
    register(few_runs_plugin(few_runs.FewRuns), "stranger")


class Bursts(Model):
    T = Dim()
    x = Input(T, 2)
    most = Input(1)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    calm = Constraint("few-runs", y.is_(1), runs=most)
    loss = Hamming(y)


def n_runs(y):
    return int((np.diff([0, *y]) == 1).sum())


@pytest.mark.parametrize("backend", ["auto", "brute-force"])
def test_models_learn_and_predict_under_it(kind, backend):
    rng = np.random.default_rng(0)
    X = [{"x": rng.normal(size=(int(t), 2)), "most": np.array([1.0])} for t in rng.integers(3, 8, 8)]
    Y = [(np.abs(np.arange(len(x["x"])) - 2) <= 1).astype(int) for x in X]
    for x, y in zip(X, Y, strict=True):
        x["x"][:, 0] += y
    svm = StructuredSVM(Bursts, backend=backend, max_passes=20, tol=1e-3).fit(X, Y)
    assert svm.plan_.backend == ("brute-force" if backend != "auto" else svm.plan_.backend)
    new = [{"x": rng.normal(size=(6, 2)), "most": np.array([1.0])} for _ in range(20)]
    assert all(n_runs(y) <= 1 for y in svm.predict(new))
    gain = svm.weights_["emit"][1] - svm.weights_["emit"][0]
    assert any(n_runs((x["x"] @ gain > 0).astype(int)) > 1 for x in new)
    with pytest.raises(Exception, match="Y, example 0: expected labels that keep the constraint calm"):
        svm.fit(X[:1], [[1, 0, 1, *[0] * (len(X[0]["x"]) - 3)]])


def test_ilp_answers_by_rows(kind):
    for seed in range(15):
        problem = kind_problem("few-runs", seed)
        scores = [
            solve(problem.program, problem.theta, backend).score
            for backend in ("ilp", "brute-force")
        ]
        assert problem.agree(*scores)


def test_the_kit_passes_it(kind, constraint_conformance):
    report = constraint_conformance("few-runs", n_problems=10)
    assert {"violated", "rows", "answers", "infeasible examples"} <= {check.name for check in report.checks}


@pytest.mark.parametrize(("name", "check"), [("few-runs", check_constraint), ("logic-to-tables", check_bridge)])
def test_a_few_problems_are_enough_for_an_honest_plugin(kind, name, check):
    for seed in range(3):  # the first problem of a seed may be feasible, or refused by the bridge
        report = check(name, kind, n_problems=1, seed=seed, only={"feasible examples", "infeasible examples"})
        assert report.ok, report


def test_backends_are_checked_with_it(kind):
    report = check_backend("ilp", n_problems=1, only={"map", "constraints"})
    assert report.ok
    assert {check.name: check.cases for check in report.checks}["constraints"] > 5


class LooseRows(few_runs.FewRuns):
    def rows(self, group, k):
        n = int(np.diff(group.literal_ptr)[k])
        return LinearRows.one(np.ones(n), 0.0, 1.0)


class Forgetful(few_runs.FewRuns):
    def violated(self, group, true):
        return np.zeros(group.n_constraints, bool)


class NoBools(few_runs.FewRuns):
    def violated(self, group, true):
        return super().violated(group, true).astype(int)


class Writes(few_runs.FewRuns):
    def violated(self, group, true):
        found = super().violated(group, true)
        true[:] = False
        return found


class Fails(few_runs.FewRuns):
    def rows(self, group, k):
        raise ZeroDivisionError("at night")


class AllTrue(few_runs.FewRuns):
    def start(self, group, k, scores):
        return np.ones(scores.n_variables, np.int32)


class BestStates(few_runs.FewRuns):
    def start(self, group, k, scores):
        return scores.best()


class NoStates(few_runs.FewRuns):
    def start(self, group, k, scores):
        return [1] * scores.n_variables


class NoProblem(few_runs.FewRuns):
    def problem(self, rng):
        program, theta = super().problem(rng)
        return type(program)(program.var_ptr, program.card), theta


@pytest.mark.parametrize(
    ("factory", "failed", "text"),
    [
        (LooseRows, {"rows", "answers"}, "rows() the opposite"),
        (Forgetful, {"rows", "answers", "infeasible examples"}, "keep constraint 0, rows() the opposite"),
        (NoBools, {"violated", "rows", "answers"}, "bools, got array"),
        (Writes, {"violated", "rows", "answers"}, "read-only"),
        (Fails, {"rows", "answers"}, "ZeroDivisionError: at night"),
        (AllTrue, {"start"}, "start() returns states"),
        (BestStates, {"start"}, "that violated() says break constraint"),
        (NoStates, {"start"}, "int32 or None, got ["),
        (NoProblem, {"problems"}, "has no group of this kind"),
    ],
)
def test_the_kit_catches_what_is_wrong(factory, failed, text):
    report = check_constraint("few-runs", registered(factory), n_problems=5)
    assert failed <= set(report.failed)
    assert text in str(report)


def test_what_breaks_the_contract_is_named(kind, monkeypatch):
    monkeypatch.setattr(few_runs.FewRuns, "violated", NoBools.violated)
    monkeypatch.setitem(NoBools.violated.__globals__, "super", lambda: SimpleNamespace(violated=lambda *a: np.zeros(1)))
    problem = kind_problem("few-runs", 1)
    session = open_session(problem.program, "brute-force")
    with pytest.raises(PluginError, match=r"constraint 'few-runs' \(plug-in 'stranger'.* broke its contract"):
        session.solve(Question(problem.theta))


class NoRows:
    def violated(self, group, true):
        return np.zeros(group.n_constraints, bool)


def test_what_is_no_kind_is_refused():
    program, _ = few_runs.FewRuns().problem(np.random.default_rng(0))
    with pytest.raises(PluginError, match=r"makes no constraint kind: it lacks rows\(\) and problem\(\)"):
        with_rules(program, registered(NoRows))


def test_unknown_checks_are_refused():
    with pytest.raises(OptionError, match="there is no check 'rwos'; the checks are: loads, problems, violated, rows"):
        check_constraint("count", only={"rwos"})


def test_a_distribution_is_found_listed_and_checked(tmp_path):
    (tmp_path / "few_runs.py").write_text((HERE / "few_runs.py").read_text())
    info = tmp_path / "few_runs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: few-runs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ssvm]\nplugin-few-runs = few_runs\n")
    env = {key: value for key, value in os.environ.items() if not key.startswith("SSVM_")}
    env["PYTHONPATH"] = str(tmp_path)

    def ssvm(*arguments):
        command = [sys.executable, "-m", "ssvm_dsl.cli", *arguments, "--json"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        return json.loads(done.stdout)

    told = ssvm("plugins", "show", "few-runs")[0]
    assert (told["kind"], told["distribution"], told["parameters"]) == ("constraint", "few-runs 1.0", ["runs"])
    report = ssvm("plugins", "check", "few-runs", "--problems", "2")
    assert report["ok"], report
    assert report["kind"] == "constraint"
