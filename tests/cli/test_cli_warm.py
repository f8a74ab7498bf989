"""``ssvm warm``: what it compiles ahead is all that a fit and predictions need."""

from __future__ import annotations

import os

import pytest

import fresh
from own_compiler import own_compiler

pytestmark = own_compiler

MODEL = """
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, chain

class Words(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 4)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)
"""

FIT = """
import numpy as np
from words import Words
from ssvm_dsl import StructuredSVM
from ssvm_dsl.kernels.compiling import compile_cache
missed = []
compile_cache.ON_MISS.append(lambda: missed.append(1))
rng = np.random.default_rng(1)
X = [rng.standard_normal((n, 3)) for n in range(1, 30)]
Y = [np.argmax(x @ rng.standard_normal((3, 4)), axis=1) for x in X]
svm = StructuredSVM(Words, trainer="one-slack").fit(X, Y)
svm.predict(X), svm.score(X, Y), svm.predict_kbest(X, 2)
print(len(missed))
"""


def run(folder, *command, **environment):
    env = {**os.environ, "SSVM_CACHE_DIR": str(folder / "cache"), **environment}
    return fresh.run(command, cwd=folder, env=env)


@pytest.fixture
def here(tmp_path):
    (tmp_path / "words.py").write_text(MODEL)
    return tmp_path


def test_a_fit_compiles_nothing_any_more(here):
    asked = ("-m", "ssvm_dsl.cli", "warm", "words.py", "--trainer", "one-slack", "--processes", "2", "--also", "kbest")
    done = run(here, *asked)
    assert done.returncode == 0, done.stderr
    assert "kernels to compile, about" in done.stderr
    assert "in 2 processes" in done.stderr
    assert f"kernels are ready in {here / 'cache'}" in done.stdout
    fit = run(here, "-c", FIT)
    assert fit.stdout.split() == ["0"], fit.stdout + fit.stderr
    again = run(here, *asked)
    assert again.returncode == 0
    assert "to compile" not in again.stderr


def test_without_a_folder_it_says_so(here):
    done = run(here, "-m", "ssvm_dsl.cli", "warm", SSVM_CACHE_DIR="off")
    assert done.returncode == 2
    assert "SSVM_CACHE_DIR=off" in done.stderr
    done = run(here, "-m", "ssvm_dsl.cli", "warm", SSVM_CACHE_DIR=str(here / "words.py"))
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_mistakes_are_told(here):
    for wrong, told in (("--backend", "no-such"), ("--trainer", "no-such"), ("--data", "--data")):
        done = run(here, "-m", "ssvm_dsl.cli", "warm", wrong, told)
        assert done.returncode == 2, done.stderr
        assert told in done.stderr
        assert "Traceback" not in done.stderr


#: What a fit with each method calls from Python, rehearsed or run.
CALLS = """
import sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from contextlib import nullcontext
from ssvm_dsl import Dim, Edges, Factor, Hamming, Input, Label, Model, StructuredSVM, along
from ssvm_dsl.kernels.compiling.linking import CompiledKernel
from ssvm_dsl.kernels.compiling.rehearsal import Rehearsal
from words import Words

class Triangle(Model):
    T = Dim()
    M = Dim()
    x = Input(T, 4)
    e = Edges(M, over=T)
    y = Label(T, 3)
    unary = Factor(y, features=x)
    pair = Factor(along(y, e))
    loss = Hamming(y)

rng = np.random.default_rng(0)
CHAINS = [rng.standard_normal((n, 3)) for n in range(2, 6)], [rng.integers(4, size=n) for n in range(2, 6)]
LOOPS = [{"x": rng.standard_normal((3, 4)), "e": [[0, 1], [1, 2], [0, 2]]} for _ in range(3)], [[0, 1, 2]] * 3
called = {}

def fit(model, data, **options):
    svm = StructuredSVM(model, random_state=0, max_passes=3, tol=1e-9, n_threads=1, **options).fit(*data)
    svm.predict(data[0])

class Run:
    def __enter__(self):
        self.compile, self.depth = CompiledKernel.compile, 0
        def compile(kernel, arguments):
            if self.depth == 0:
                called[kernel.py_func.__module__ + "." + kernel.py_func.__qualname__, str(arguments)] = None
            self.depth += 1
            try:
                return self.compile(kernel, arguments)
            finally:
                self.depth -= 1
        CompiledKernel.compile = compile
    def __exit__(self, *error):
        CompiledKernel.compile = self.compile

rehearsed = sys.argv[1] == "rehearsed"
with Rehearsal() if rehearsed else Run() as found:
    fit(Words, CHAINS)
    fit(Words, CHAINS, trainer="smo")
    fit(Words, CHAINS, trainer="subgradient")
    fit(Words, CHAINS, trainer="lbfgs", risk="log")
    fit(Triangle, LOOPS, backend="junction-tree")
    fit(Triangle, LOOPS, backend="combi")
if rehearsed:
    called = {(job.text, str(job.arguments)): None for job in found.jobs if job.arguments}
for text, arguments in sorted(called):
    print(text, arguments)
"""


def test_a_rehearsal_finds_the_kernels_that_a_fit_calls(here):
    said = []
    for how in ("rehearsed", "run"):
        done = fresh.run(["-c", CALLS, how], cwd=here)
        assert done.returncode == 0, done.stderr
        said.append(set(done.stdout.splitlines()))
    rehearsed, run = said
    assert len(run) > 20
    assert run <= rehearsed, run - rehearsed
