"""``ssvm solve``: factor graphs from files, one backend or all, and statuses that are derived."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import time
from io import StringIO

import pytest
from rich.console import Console

from foreign import distribution, inside, ssvm_here
from ssvm_dsl.io.problem_file import read_problem
from ssvm_dsl.registry import registry
from ssvm_dsl.report.progress import SolveProgress
from ssvm_dsl.scoring import solve_problem

TINY = "MARKOV\n3\n2 2 3\n4\n0\n1 0\n2 0 1\n2 1 2\n1 0.5\n2 0.5 1\n4  0.1 0.9 0.5 0.5\n6  1 0 2  2 0 1\n"
KEYS = ["score", "bound", "gap", "status", "labels", "backend", "seconds"]

#: Backends whose answers are worth different things, for files with three variables of two states.
ODD = """
import numpy as np
from ssvm_dsl.ir import *
from ssvm_dsl.plugin_api import score_labels
from ssvm_dsl.plugin_api import *

@hookimpl
def ssvm_backends():
    many = Caps(frozenset({Task.MAP, Task.MARGINALS}), guarantee=Guarantee.BOUND, max_arity=9)
    return [BackendSpec(name, f"odd:{name.title()}", caps=many, options=(Option("effort", 1.0, "how hard", float),))
            for name in ("loose", "bounder", "silent", "liar", "stopper", "reporter")]

class Base:
    labels, stop, primal, slack, states = True, Stop.FINISHED, Primal.FEASIBLE, 4.0, [0, 0, 0]
    def check(self, need):
        return Verdict(True, cost=1.0)
    def open(self, program, options):
        self.program, self.options = program, options
        return self
    def solve(self, question):
        theta, limits, task = question.theta, question.limits, question.task
        p, labels = self.program, np.array(self.states, np.int32)
        score = score_labels(p, theta, labels)
        if limits.progress is not None:
            limits.progress(float(score[0]), float(score[0]) + 9.0)
        bound = score + self.slack * self.options["effort"]
        if not self.labels:
            score = score - np.inf
        state = lambda value: np.array([value], np.int8)
        if task is Task.MARGINALS:
            uniform = tuple(np.full((g.n_factors, g.n_configs), 1 / g.n_configs) for g in p.groups)
            given = Marginals(1 / np.repeat(p.card, p.card), uniform)
            none = (labels[:0], score * np.nan, score * np.nan, state(self.stop), state(Primal.NONE))
            return Solution(*none, marginals=given, log_partition=bound)
        return Solution(labels, score, bound, state(self.stop), state(self.primal))

class Loose(Base):
    pass
class Reporter(Base):
    slack, states = 0.0, [1, 1, 0]
class Bounder(Base):
    labels, primal = False, Primal.NONE
class Silent(Base):
    labels, primal, slack = False, Primal.NONE, np.inf
class Stopper(Base):
    stop = Stop.INTERRUPTED
class Liar(Base):
    slack = -1.0
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.uai"
    path.write_text(TINY)
    return path


@pytest.fixture
def odd(tmp_path, tiny):
    distribution(tmp_path, "odd", ODD)

    def run(*arguments):
        done = ssvm_here("solve", tiny, *arguments, path=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return run


def solved(capsys, *arguments):
    status, out, err = inside(capsys, "solve", *arguments, "--json")
    return status, json.loads(out), err


def test_the_best_labelling_is_printed(capsys, tiny):
    status, told, _ = solved(capsys, tiny)
    assert status == 0
    assert list(told) == KEYS
    # 0.5 x 1 x 0.5 x 2, by hand
    assert told["score"] == pytest.approx(math.log(0.5))
    assert told["score"] <= told["bound"] <= told["score"] + 1e-13  # rounded outwards
    assert told["gap"] == told["bound"] - told["score"]
    assert (told["status"], told["labels"], told["backend"]) == ("optimal", [1, 1, 0], "chain")
    assert 0 < told["seconds"] < 60


def test_people_see_a_table(capsys, tiny):
    status, out, _ = inside(capsys, "solve", tiny, "--labels")
    assert status == 0
    for words in ("3 variables of up to 3 states, 2 factors of up to 2", "optimal", "-0.6931471806", "1 1 0"):
        assert words in " ".join(out.split())
    assert "chain: exact for disjoint chains" in " ".join(out.split())
    assert "labels" not in inside(capsys, "solve", tiny)[1]


def test_evidence_fixes_states(capsys, tiny, tmp_path):
    (tmp_path / "e").write_text("1\n1 2 2\n")
    status, told, _ = solved(capsys, tiny, "--evidence", tmp_path / "e")
    # by hand: x2 = 2 and x1 = 0 give 0.5 x 2 x 0.5 x 1, where x0 = 1
    assert (status, told["labels"], told["score"]) == (0, [1, 0, 2], pytest.approx(math.log(0.5)))
    assert "1 variables observed" in inside(capsys, "solve", tiny, "--evidence", tmp_path / "e")[1]


def all_values():
    return [
        (x, y, z, 0.5 * [0.5, 1][x] * [[0.1, 0.9], [0.5, 0.5]][x][y] * [[1, 0, 2], [2, 0, 1]][y][z])
        for x in range(2) for y in range(2) for z in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize("evidence", [None, 2])
def test_marginals_and_log_z(capsys, tiny, tmp_path, evidence):
    more = []
    if evidence is not None:
        (tmp_path / "e").write_text(f"1 2 {evidence}")
        more = ["--evidence", tmp_path / "e"]
    status, told, _ = solved(capsys, tiny, "--task", "marginals", *more)
    kept = [row for row in all_values() if evidence in (None, row[2])]
    assert (status, told["status"], list(told)) == (0, "exact", [*KEYS, "log_partition"])
    assert told["log_partition"] == pytest.approx(math.log(sum(row[3] for row in kept)))
    out = inside(capsys, "solve", tiny, "--task", "marginals", "--labels", *more)[1]
    share = sum(row[3] for row in kept if row[0] == 1) / sum(row[3] for row in kept)
    assert f"{share:.6g}" in out
    assert "log10 Z" in out


def test_what_is_impossible_is_infeasible(capsys, tmp_path):
    path = tmp_path / "no.uai"
    path.write_text("MARKOV 2 2 2 2  1 0 2 0 1  2 1 0  4 0 0 1 1")
    status, told, _ = solved(capsys, path)
    assert (status, told["status"], told["labels"], told["score"]) == (1, "infeasible", None, None)
    status, told, _ = solved(capsys, path, "--task", "marginals")
    assert (status, told["status"], told["log_partition"]) == (1, "infeasible", None)
    assert "infeasible" in inside(capsys, "solve", path)[1]


FRUSTRATED = "frust 3 2 4 10000000000\n2 2 2\n0 1000000000 0\n" + "".join(
    f"2 {a} {b} 0 2 0 0 300 1 1 300\n" for a, b in [(0, 1), (1, 2), (0, 2)]
)
NEARLY = "MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n2\n1 {0}\n4\n1 1 1 1\n"


@pytest.mark.parametrize(("backend", "status", "bound"), [("trws", "feasible", -1e9), ("combi", "optimal", -1e9 - 300)])
def test_a_large_constant_does_not_make_an_answer_optimal(capsys, tmp_path, backend, status, bound):
    """A triangle of which one edge must cost 300; message passing only knows that it costs nothing or more."""
    (tmp_path / "frust.wcsp").write_text(FRUSTRATED)
    _, told, _ = solved(capsys, tmp_path / "frust.wcsp", "--backend", backend)
    assert (told["status"], told["bound"]) == (status, bound)
    assert told["score"] == -1e9 - 300


def test_scores_of_1e_12_are_told_apart(capsys, tmp_path):
    (tmp_path / "tiny.uai").write_text(NEARLY.format("1.000000000001"))
    _, told, _ = solved(capsys, tmp_path / "tiny.uai")
    assert told["status"] == "optimal"
    assert told["labels"][0] == 1


@pytest.mark.parametrize(
    ("backend", "bound", "most"), [("alpha-expansion", "factor", 2.0), ("alpha-beta-swap", "dual", 1.0)]
)
def test_eta_tells_how_far_an_energy_is_from_the_least(capsys, tmp_path, backend, bound, most):
    """Three variables of three states in a row, Potts tables: scores are logarithms of these numbers."""
    unary, pair = ("9 1 1", "1 2 1", "1 1 4"), "2 1 1 1 2 1 1 1 2"
    tables = "\n".join([*(f"3 {one}" for one in unary), *(f"9 {pair}",) * 2])
    path = tmp_path / "row.uai"
    path.write_text(f"MARKOV\n3\n3 3 3\n5\n1 0\n1 1\n1 2\n2 0 1\n2 1 2\n{tables}\n")
    options = ("--backend", backend, "--option", f"bound={bound}")
    status, out, _ = inside(capsys, "solve", str(path), *options, "--json")
    assert status == 0
    assert json.loads(out)["eta"] == pytest.approx(most, abs=1e-4)
    assert "times the lowest one" in " ".join(inside(capsys, "solve", str(path), *options)[1].split())
    assert "eta" not in json.loads(inside(capsys, "solve", str(path), "--backend", backend, "--json")[1])


def test_zipped_files_and_named_formats(capsys, tmp_path):
    (tmp_path / "a.txt").write_bytes(gzip.compress(TINY.encode()))
    assert solved(capsys, tmp_path / "a.txt", "--format", "uai")[1]["labels"] == [1, 1, 0]


def test_names_are_shown_with_the_labels(capsys, tmp_path):
    (tmp_path / "a.fg").write_text("1\n\n2\n9 4\n2 2\n1\n1 2.5\n")
    assert "4=0 9=1" in inside(capsys, "solve", tmp_path / "a.fg", "--labels")[1]


def test_every_backend_that_fits_is_compared(capsys, tiny):
    status, out, _ = inside(capsys, "solve", tiny, "--all", "--json")
    told = json.loads(out)
    assert status == 0
    exact = {one["backend"]: one for one in told["answers"] if one["backend"] in ("chain", "tree", "brute-force")}
    assert len(exact) == 3
    for one in exact.values():
        assert list(one) == KEYS
        assert (one["status"], one["score"]) == ("optimal", pytest.approx(math.log(0.5)))
    for one in told["answers"]:
        assert one["score"] is None or one["score"] <= math.log(0.5) + 1e-9
        assert one["bound"] is None or one["bound"] >= math.log(0.5) - 1e-9
    shown = inside(capsys, "solve", tiny, "--all")[1]
    assert "brute-force" in shown
    assert "backend" in shown


def test_refusals_are_listed_with_their_reasons(capsys, tmp_path):
    path = tmp_path / "loop.uai"
    path.write_text("MARKOV 3 2 2 2 3 2 0 1 2 1 2 2 2 0" + " 4 1 2 3 4" * 3)
    status, out, _ = inside(capsys, "solve", path, "--all", "--json")
    told = json.loads(out)
    assert status == 0
    assert "handles disjoint chains" in told["refused"]["chain"]
    assert "chain: handles disjoint chains" in inside(capsys, "solve", path, "--all")[1]


def test_no_time_at_all_ends_in_a_labelling_and_a_bound(capsys, tmp_path):
    path = tmp_path / "loop.uai"
    path.write_text("MARKOV 3 2 2 2 3 2 0 1 2 1 2 2 2 0" + " 4 1 2 3 4" * 3)
    for backend in ("auto", "combi", "icm"):
        status, out, _ = inside(capsys, "solve", path, "--backend", backend, "--time-limit", "1e-9", "--json")
        told = json.loads(out)
        assert (status, told["status"], len(told["labels"])) == (0, "feasible", 3)
        assert told["score"] <= 3 * math.log(4) <= told["bound"] + 1e-9
    status, out, _ = inside(capsys, "solve", path, "--task", "marginals", "--time-limit", "1e-9", "--json")
    assert (status, json.loads(out)["status"]) == (1, "no answer")


def test_a_status_is_derived_from_the_verified_answer(odd):
    best = math.log(0.5 * 0.5 * 0.1 * 1)  # the labelling of zeros
    expected = {
        "loose": (0, "feasible", best, best + 4),
        "reporter": (0, "optimal", math.log(0.5), math.log(0.5)),
        "bounder": (0, "feasible", math.log(0.25), best + 4),  # the labelling is the one that every search begins with
        "silent": (0, "feasible", math.log(0.25), None),
        "stopper": (0, "interrupted", best, best + 4),
    }
    for name, (code, status, score, bound) in expected.items():
        returned, out, _ = odd("--backend", name, "--json")
        told = json.loads(out)
        assert (returned, told["status"]) == (code, status), name
        assert told["score"] == (None if score is None else pytest.approx(score))
        assert told["bound"] == (None if bound is None else pytest.approx(bound))
        assert (told["labels"] is None) == (score is None)


def test_one_that_breaks_its_contract_does_not_hide_the_others(odd):
    returned, _, err = odd("--backend", "liar")
    assert returned == 2
    assert "backend 'liar' (plug-in 'odd-plugin', odd 1.0) broke its contract" in err
    returned, out, _ = odd("--all", "--task", "marginals", "--json")
    told = json.loads(out)
    assert returned == 0
    assert told["refused"]["liar"].startswith("failed: BackendFault: backend 'liar' (plug-in 'odd-plugin'")
    # nobody is asked after an interrupt
    assert [one["backend"] for one in told["answers"]][-1] == "stopper"
    assert told["refused"]["reporter"] == "not asked: interrupted"


def test_options_reach_the_backend(odd):
    told = json.loads(odd("--backend", "loose", "--option", "effort=2.5", "--json")[1])
    assert told["gap"] == pytest.approx(10.0)
    returned, _, err = odd("--backend", "loose", "--option", "force=1")
    assert returned == 2
    assert "has no option 'force'; its options are: effort" in err


def test_auto_wants_a_proof_and_names_who_would_do_without(odd, tiny):
    pairs = [(i, j) for i in range(60) for j in range(i)]  # too many cycles for any exact method
    scopes = " ".join(f"2 {i} {j}" for i, j in pairs)
    tiny.write_text(f"MARKOV 60 {'2 ' * 60} {len(pairs)} {scopes} {'4 1 2 3 4 ' * len(pairs)}")
    returned, out, err = odd("--task", "marginals")
    assert (returned, out) == (1, "")
    assert "no backend can answer: marginals on a graph with cycles" in err
    hint = err[err.index("without a proof of optimality these would fit, name one with --backend: ") :]
    assert "loose (bound)" in hint


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["{folder}/nowhere.uai"], "nowhere.uai: No such file or directory"),
        (["{folder}"], "expected a file, found a folder"),
        (["{folder}", "--format", "uai"], "expected a file, found a folder"),
        (["{folder}/bad.uai"], "bad.uai, line 1, column 8: expected the number of variables, an int of at least 0, fo"),
        (["{folder}/bad.txt"], "unknown format 'txt'; set --format to one of: uai, wcsp, cfn, fg"),
        (["{file}", "--backend", "chian"], "there is no backend 'chian'; did you mean 'chain'?"),
        (["{file}", "--evidence", "{folder}/bad.uai"], "bad.uai, line 1, column 1"),
        (["{file}", "--evidence", "{folder}/none"], "none: No such file"),
        (["{file}", "--all", "--backend", "chain"], "leave out --backend and --option"),
        (["{file}", "--option", "a=1"], "--option a=... belongs to one backend: name it with --backend"),
    ],
)
def test_one_clear_message(capsys, tmp_path, tiny, arguments, word):
    (tmp_path / "bad.uai").write_text("MARKOV x")
    (tmp_path / "bad.txt").write_text("")
    status, out, err = inside(capsys, "solve", *(text.format(folder=tmp_path, file=tiny) for text in arguments))
    assert (status, out) == (2, "")
    assert word in err.replace("\n", "")
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["--time-limit", "0"], ["--time-limit", "soon"], ["--option", "a"]])
def test_usage(capsys, tiny, arguments):
    with pytest.raises(SystemExit) as caught:
        inside(capsys, "solve", tiny, *arguments)
    assert caught.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_a_backend_that_does_not_fit_is_refused_with_status_one(capsys, tmp_path):
    path = tmp_path / "loop.uai"
    path.write_text("MARKOV 3 2 2 2 3 2 0 1 2 1 2 2 2 0" + " 4 1 2 3 4" * 3)
    status, out, err = inside(capsys, "solve", path, "--backend", "chain")
    assert (status, out) == (1, "")
    assert "handles disjoint chains" in err


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (None, "no answer yet"),
        ((-math.inf, math.inf), "no labelling yet"),
        ((-math.inf, 5.0), "no labelling yet  bound 5"),
        ((3.0, math.inf), "score 3"),
        ((3.0, 4.0), "score 3  bound 4  gap 1"),
    ],
)
def test_progress_is_shown_where_someone_looks(told, shown):
    stream = StringIO()
    with SolveProgress("trws", Console(file=stream, force_terminal=True, width=100)) as show:
        if told:
            show(*told)
    assert "trws" in stream.getvalue()
    assert shown in stream.getvalue()


def test_backends_report_their_progress(tiny, tmp_path, monkeypatch):
    distribution(tmp_path, "odd", ODD)
    monkeypatch.syspath_prepend(tmp_path)
    registry.cache_clear()
    try:
        problem, seen = read_problem(tiny), []
        assert solve_problem(problem, backend="chain", time_limit=5.0).status == "optimal"
        solve_problem(problem, backend="loose", progress=lambda score, bound: seen.append((score, bound)))
        assert [bound - score for score, bound in seen] == [pytest.approx(9.0)]
    finally:
        registry.cache_clear()
        sys.modules.pop("odd", None)


SLOW = """
import time
from ssvm_dsl.ir import *
from ssvm_dsl.plugin_api import *

@hookimpl
def ssvm_backends():
    return [BackendSpec("slow", "slow:Backend", caps=Caps(guarantee=Guarantee.EXACT, max_arity=9))]

class Backend:
    def check(self, need):
        return Verdict(True, cost=1.0)
    def open(self, program, options):
        return self
    def solve(self, question):
        print("solving", flush=True)
        time.sleep(60)
"""


def test_an_interrupt_that_no_backend_catches_still_ends_with_a_table(tmp_path, tiny):
    distribution(tmp_path, "slow", SLOW)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "120"}
    command = [sys.executable, "-m", "ssvm_dsl.cli", "solve", str(tiny), "--backend", "slow"]
    process = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # pytest in the background ignores it
    )
    assert process.stderr.readline() == "solving\n"  # standard output is the command's
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted" in out
    assert "Traceback" not in err


@pytest.mark.data
@pytest.mark.parametrize("name", ["Promedus_22", "Promedus_29", "DBN_14"])
def test_published_partition_functions(capsys, data_dir, name):
    folder = data_dir / "map/pr2014"
    known = {one["file"]: one["log10_Z"] for one in json.loads((folder / "partition_functions.json").read_text())}
    file, evidence = folder / f"{name}.uai.gz", folder / f"{name}.uai.evid"
    status, told, err = solved(capsys, file, "--evidence", evidence, "--task", "marginals")
    assert status == 0, err
    assert told["log_partition"] / math.log(10) == pytest.approx(known[f"{name}.uai"], abs=1e-4)
