"""A second process compiles during a first fit: only then, and only where it may be started."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest

import fresh
from own_compiler import own_compiler
from ssvm_dsl.kernels.compiling import compile_cache
from ssvm_dsl.learning.driver import compile_ahead

pytestmark = own_compiler

FIT = """
import sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.learning.driver import compile_ahead

compile_ahead.idle = lambda: True

class Words(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 4)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)

rng = np.random.default_rng(0)
X = [rng.standard_normal((n, 3)) for n in range(2, 8)]
Y = [rng.integers(4, size=n) for n in range(2, 8)]
svm = StructuredSVM(Words, trainer="one-slack", tol=0.1, random_state=0).fit(X, Y)
started = len(compile_ahead._started)
for process in compile_ahead._started:
    process.wait(timeout=300)
print(started, [process.returncode for process in compile_ahead._started], svm.report_.primal)
"""


@pytest.fixture
def allowed(monkeypatch, tmp_path):
    monkeypatch.delenv("SSVM_COMPILE_AHEAD")
    monkeypatch.setattr(compile_ahead.processors, "available", lambda: 2)
    monkeypatch.setattr(compile_cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(compile_ahead.multiprocessing.current_process(), "_name", "MainProcess")
    assert compile_ahead.possible()


def test_a_first_fit_has_a_second_process_and_the_next_has_none(tmp_path):
    env = {**os.environ, "SSVM_CACHE_DIR": str(tmp_path), "SSVM_COMPILE_AHEAD": ""}
    if compile_ahead.processors.available() < 2:
        pytest.skip("there is one processor")
    said = []
    for _ in range(2):
        done = fresh.run(["-c", FIT], env=env)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.rsplit(" ", 1))
    (first, primal), (second, again) = said
    assert (first, second, primal) == ("1 [0]", "0 []", again)
    assert not list(tmp_path.glob("*.lock"))


def test_it_finds_what_a_fit_compiles():
    code = "from ssvm_dsl.learning.estimators.fitting.rehearsed_fit import rehearse\n"
    code += "print([job.name for job in rehearse('bcfw', 'margin', 'chain') if not job.part])\n"
    code += "print([job.name for job in rehearse('bcfw', 'margin', 'junction-tree')])\n"
    code += "print(rehearse('no-such', 'margin', 'chain'))"
    done = fresh.run(["-c", code])
    assert done.returncode == 0, done.stderr
    chain, loops, nothing = done.stdout.splitlines()
    assert chain.startswith("['visit_examples', ")
    assert "'viterbi'" in chain
    assert "'add_node_scores'" in chain
    assert "'fill_vectors'" not in chain  # for runs that go on
    assert "'visit_examples'" in loops
    assert "'viterbi'" not in loops
    assert nothing == "[]"


PARTS = """
import numpy as np
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.compiling.rehearsal import Rehearsal

@njit
def first(x, n):
    return x[n]

@njit
def second(x):
    return x.sum()

@njit
def both(x):
    return first(x, 1) + second(x[1:])

with Rehearsal() as rehearsal:
    both(np.ones(3))
jobs = rehearsal.parts[::-1] + rehearsal.jobs
print(*(f"{job.name} {job.state()}" for job in jobs))
for job in jobs[:-1]:
    job.compile()
misses = [kernel.part.stats.cache_misses.total() for kernel in (first, second)]
print(*(job.state() for job in jobs), both(np.ones(3)), *misses)
"""


def test_parts_that_are_compiled_ahead_are_those_that_kernels_call(tmp_path):
    (tmp_path / "parts_of_a_test.py").write_text(PARTS)
    env = {**os.environ, "SSVM_CACHE_DIR": str(tmp_path / "cache")}
    run = [sys.executable, "-B", "-c", "import parts_of_a_test"]
    done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.splitlines()
    assert before == "second missing first missing both missing"
    assert after == "kept kept missing 3.0 1 1"


@pytest.mark.usefixtures("allowed")
def test_it_is_not_started_where_it_would_not_help(monkeypatch):
    for target, name, value in (
        (compile_ahead.processors, "available", lambda: 1),
        (compile_cache, "folder", lambda: None),
        (os, "getloadavg", lambda: (float(os.cpu_count()), 0.0, 0.0)),
        (compile_cache, "LOCKS", False), (compile_ahead, "LINKED", False),
        (sys, "frozen", True),
        (sys, "executable", ""),
        (multiprocessing.current_process(), "_name", "LokyProcess-1"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value, raising=False)
            assert not compile_ahead.possible(), name
    monkeypatch.setenv("SSVM_COMPILE_AHEAD", "off")
    assert not compile_ahead.possible()


def test_a_system_that_starts_no_process_is_no_error(monkeypatch):
    monkeypatch.setattr(compile_ahead, "_started", [])
    monkeypatch.setattr(compile_ahead.sys, "executable", "/no/such/python")
    compile_ahead.start("bcfw", "margin", "chain")
    assert compile_ahead._started == []
