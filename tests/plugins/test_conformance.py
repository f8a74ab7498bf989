"""The conformance kit passes what is right and catches, with the right check, what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import broken_backends as broken
import pytest
from broken_backends import BOUNDING, COMPILED, COUNTS, HEURISTIC, MESSAGES, SUMS, WARM, spec_of

import fresh
from kit import CHECKS, keeps_its_promises
from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.ir import Question, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.backends.conformance import check_backend
from ssvm_dsl.testing.kit import MAX_FAILURES
from ssvm_dsl.testing.problems import Recipe, Scores, seeded

N = 4  # random problems, besides the corner cases


def test_brute_force_passes_everything_it_claims():
    report = keeps_its_promises("brute-force", n_problems=5)
    free = {"messages", "messages under constraints", "compiled oracle", "summed marginals"}
    assert set(report.not_claimed) == {"relaxed", "warm start", *free}
    assert all(check.cases >= 3 for check in report.checks if check.name not in ("loads", "interleaved threads"))
    assert len(report.checks) + len(report.not_claimed) == len(CHECKS) + 2


@pytest.mark.parametrize(
    ("backend", "tasks", "caps"),
    [
        (broken.Honest, (Task.MAP,), {"topology": Topology.CHAIN, "max_arity": 1}),
        (broken.Honest, (Task.MARGINALS,), {"topology": Topology.FOREST}),
        (broken.Honest, (Task.MAP,), BOUNDING),
        (broken.Honest, (Task.MAP,), {"requires": frozenset({"submodular"})}),
        (broken.FaithfulToWarm, (Task.KBEST,), WARM),
        (broken.Integral, (Task.RELAXED,), {}),
        (broken.FirstStates, (Task.MAP,), HEURISTIC | {"topology": Topology.CHAIN}),
        (broken.SecondBest, (Task.MAP,), HEURISTIC),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_right_passes(backend, tasks, caps):
    if backend in (broken.FirstStates, broken.SecondBest):
        backend = without_bound(backend)
    keeps_its_promises(spec_of(backend, *tasks, **caps), n_problems=N)


def without_bound(backend):
    """A heuristic makes no claim about the optimum."""

    class Heuristic(backend):
        def solve(self, session, question):
            solution = super().solve(session, question)
            solution.bound = solution.bound * float("nan")
            return solution

    Heuristic.__name__ = f"Heuristic{backend.__name__}"
    setattr(broken, Heuristic.__name__, Heuristic)
    return Heuristic


#: backend, tasks, caps, the check that must catch it, checks that must not be disturbed
CATCHES = [
    (broken.LowBound, (), {}, "bounds", {"map", "scores", "masks", "deterministic", "answer form"}),
    (broken.HighBound, (), {}, "bounds", {"map", "scores", "masks", "deterministic"}),
    (broken.LowBound, (), {}, "verifier", {"map"}),
    (broken.HighBound, (), {}, "verifier", {"map"}),
    (broken.SecondBest, (), BOUNDING, "bounds", {"map", "scores", "masks", "deterministic"}),
    (broken.SecondBest, (), {}, "map", {"scores", "masks", "deterministic"}),
    (broken.LowBound, (), HEURISTIC, "bounds", {"map", "scores"}),
    (broken.WrongScore, (), {}, "scores", {"map", "masks", "deterministic"}),
    (broken.WrongScore, (), {}, "verifier", {"map"}),
    (broken.FirstStates, (), {}, "map", {"scores", "masks", "deterministic", "answer form"}),
    (broken.AllFeasible, (), {}, "forbidden scores", {"masks", "bounds"}),
    (broken.AllInfeasible, (), {}, "map", {"answer form", "deterministic"}),
    (broken.AllInfeasible, (), HEURISTIC, "map", {"answer form", "deterministic"}),
    (broken.SameTwice, (Task.MAP, Task.KBEST), {}, "kbest", {"map", "scores", "bounds"}),
    (broken.CapsInfinities, (), {}, "forbidden scores", {"deterministic", "empty examples"}),
    (broken.NeedsVariables, (), {}, "empty examples", {"loads", "planning", "forbidden scores"}),
    (broken.ReadsAllScores, (), {}, "selected examples", {"map", "bounds", "scores", "session reuse"}),
    (broken.SharedBuffer, (), {}, "session reuse", {"map", "scores", "bounds", "deterministic"}),
    (broken.WritesTheta, (), {}, "inputs unchanged", {"answer form"}),
    (broken.Moody, (), {}, "deterministic", {"map", "scores", "bounds", "selected examples", "verifier"}),
    (broken.OneAtATime, (), {}, "threads", {"map", "scores", "selected examples", "deterministic", "verifier"}),
    (broken.StuckToWarm, (), WARM, "warm start", {"map", "scores", "selected examples", "deterministic", "verifier"}),
    (broken.Honest, (), WARM, "warm start", {"map", "scores", "deterministic"}),
    (broken.IgnoresLimits, (), {}, "time limit", {"map", "scores", "limits", "deterministic", "verifier"}),
    (broken.Crashes, (), {}, "map", {"loads", "planning"}),
    (broken.Exits, (), {}, "map", {"loads", "planning"}),
    (broken.CrashesOnLoad, (), {}, "loads", set()),
    (broken.Speechless, (), {}, "planning", {"loads"}),
    (broken.Unnormalised, (Task.MARGINALS,), {}, "marginals", {"answer form", "deterministic"}),
    (broken.Superposed, (Task.RELAXED,), {}, "relaxed", {"deterministic"}),
    (broken.CalledFeasible, (Task.RELAXED,), BOUNDING, "relaxed", {"deterministic"}),
    (broken.CountsAnyhow, (), COUNTS, "best by count", {"map", "scores", "bounds", "verifier", "threads"}),
    (broken.Honest, (), COUNTS, "abilities", {"map", "scores", "bounds"}),
    (broken.Honest, (), COMPILED, "abilities", {"map", "scores", "bounds"}),
    (broken.SumsAnyhow, (Task.MAP, Task.MARGINALS), SUMS, "summed marginals", {"map", "marginals", "abilities"}),
    (broken.ShyAboutItsSums, (Task.MAP, Task.MARGINALS), SUMS, "summed marginals", {"map", "marginals", "abilities"}),
    (broken.Honest, (), MESSAGES, "messages", {"map", "scores", "bounds", "deterministic"}),
    (broken.SameSlope, (), MESSAGES, "messages", {"map", "scores", "bounds", "warm start"}),
    (broken.OtherMessages, (), MESSAGES, "messages", {"map", "scores", "bounds", "warm start"}),
    (broken.CompiledZeros, (), COMPILED, "compiled oracle", {"abilities", "map", "scores", "bounds", "verifier"}),
]


@pytest.mark.parametrize(
    ("backend", "tasks", "caps", "caught_by", "innocent"), CATCHES, ids=lambda v: getattr(v, "__name__", None)
)
def test_what_is_wrong_is_caught_by_the_right_check(backend, tasks, caps, caught_by, innocent):
    always = {"loads", "planning"}
    spec = spec_of(backend, *tasks, **caps)
    report = check_backend(spec, n_problems=N, only=(innocent | {caught_by}) - always)
    assert caught_by in report.failed, str(report)
    assert not innocent & set(report.failed), str(report)
    assert innocent <= {check.name for check in report.checks}
    assert not report.ok


def test_counting_is_claimed_and_then_tested():
    assert "best by count" in check_backend(spec_of(broken.Honest), n_problems=0, only={"best by count"}).not_claimed
    report = check_backend(spec_of(broken.Honest, **COUNTS), n_problems=0, only={"best by count"})
    assert report.failed == ["best by count"]  # its sessions have no such method
    assert "best_by_count" in str(report)


@pytest.fixture(scope="module")
def report_on():
    """Return the whole report on a backend; each is made once."""
    return cache(lambda backend: check_backend(spec_of(backend), n_problems=N, only=CHECKS))


def failure_of(report, name):
    return next(check for check in report.checks if check.name == name).failures[0]


def test_a_failure_says_what_was_asked_expected_and_found(report_on):
    failure = failure_of(report_on(broken.LowBound), "bounds")
    assert failure.problem == "catalogue()['one state']"
    assert failure.text == "task map\nexample 0: bound -0.9 is below the best score 0.1"
    failure = failure_of(report_on(broken.Crashes), "map")
    assert failure.text.startswith("it failed with RuntimeError: segmentation of the imagination (broken_backends.py:")
    failure = failure_of(report_on(broken.CrashesOnLoad), "loads")
    assert "libsolver.so" in failure.text


def test_the_failing_problem_can_be_made_again():
    """What the report calls a problem is Python that makes it; the failure is there again."""
    report = check_backend(spec_of(broken.Timid), n_problems=20, seed=5, only={"bounds"})
    failures = next(check for check in report.checks if check.name == "bounds").failures
    name = next(one.problem for one in failures if one.problem.startswith("seeded(Recipe("))
    names = {"seeded": seeded, "Recipe": Recipe, "Topology": Topology, "Scores": Scores}
    problem = eval(name, names)
    solution = broken.Timid().open(problem.program, {}).solve(Question(problem.theta, examples=None, task=Task.MAP))
    assert (solution.bound < solution.score).any()


def test_a_check_ends_after_a_few_failures(report_on):
    check = next(c for c in report_on(broken.Crashes).checks if c.name == "map")
    assert check.cases == len(check.failures) == MAX_FAILURES


def test_zero_cases_is_a_failure_not_a_pass(report_on):
    report = report_on(broken.RefusesAll)
    assert not report.ok
    assert {"map", "scores", "verifier"} <= set(report.failed)
    assert "no problem could test it" in str(report)
    assert set(report.refusals) == {"not today"}
    assert "not today" in str(report)


def test_claims_without_problems_are_failures():
    kinds = frozenset({"at-most"})
    report = check_backend(spec_of(broken.Honest, constraint_kinds=kinds), n_problems=N, only={"map"})
    assert report.failed == ["constraint at-most"]


def test_missing_modules_are_reported():
    spec = BackendSpec(
        "x", "broken_backends:Honest", requires=("no_such_module_anywhere",), install_hint="pip install x"
    )
    report = check_backend(spec)
    assert report.failed == ["loads"]
    assert "no_such_module_anywhere" in str(report)
    assert "pip install x" in str(report)


def test_unknown_names_and_options_are_the_callers_mistakes():
    with pytest.raises(PluginError, match="did you mean 'brute-force'"):
        check_backend("brute-farce")
    with pytest.raises(OptionError, match="no option 'speed'"):
        check_backend("brute-force", options={"speed": 9})
    with pytest.raises(OptionError, match="no check 'maps'; the checks are: loads, planning, answer form,"):
        check_backend("brute-force", only={"map", "maps"})


def test_a_registry_can_be_given():
    with pytest.raises(PluginError, match="no backend"):
        check_backend("Honest", registry())


def test_the_summary_is_plain_data(report_on):
    good = check_backend("brute-force", n_problems=0, seed=7, only={"map", "masks"}).summary()
    assert json.loads(json.dumps(good)) == good
    assert (good["ok"], good["seed"], good["n_problems"]) == (True, 7, 0)
    bad = report_on(broken.LowBound).summary()
    assert json.loads(json.dumps(bad)) == bad
    assert bad["ok"] is False
    bounds = next(check for check in bad["checks"] if check["name"] == "bounds")
    assert bounds["passed"] == bounds["cases"] - len(bounds["failures"])
    assert {"problem", "text"} == set(bounds["failures"][0])


def test_the_text_names_failures_and_what_was_not_claimed(report_on):
    text = str(report_on(broken.LowBound))
    assert text.startswith("backend 'LowBound': ")
    assert "FAIL  bounds: 0 of 3 cases passed" in text
    assert "ok    map: " in text
    assert "not claimed: map_clamped, kbest, marginals, relaxed" in text


def test_the_same_seed_gives_the_same_report():
    reports = [
        check_backend(spec_of(broken.Timid), n_problems=20, seed=s, only={"bounds"}).summary() for s in (1, 1, 2)
    ]
    for report in reports:
        for check in report["checks"]:
            check.pop("seconds")
    assert reports[0] == reports[1]
    assert reports[0] != reports[2]


def test_fixture_fails_with_the_report(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from ssvm_dsl.testing.brute_force import BruteForce\n"
        "class Mine(BruteForce):\n"
        "    def check(self, need):\n"
        "        return None\n"
    )
    (tmp_path / "test_mine.py").write_text(
        "from ssvm_dsl.plugin_api import BackendSpec\n"
        "def test_mine(backend_conformance):\n"
        "    backend_conformance(BackendSpec('mine', 'mine:Mine'), n_problems=0)\n"
    )
    done = fresh.run(["-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"], cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "passed" not in done.stdout.splitlines()[-1]
    assert "backend 'mine':" in done.stdout
    assert "expected a Verdict, got NoneType" in done.stdout


def test_pytest_plugin_loads_nothing_heavy():
    code = (
        "import ssvm_dsl.testing.pytest_plugin, sys\n"
        "print([m for m in ('numpy', 'numba', 'sklearn', 'scipy', 'hypothesis', 'pluggy_') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"
