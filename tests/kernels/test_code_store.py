"""Compiled code on disk: found again where nothing of it has changed, and by processes that wait for each other."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import fresh
from own_compiler import own_compiler

pytestmark = own_compiler

LEAF = """
from collections import namedtuple
from ssvm_dsl.kernels.compiling.jit import njit
SCALE = {scale}
Pair = namedtuple("Pair", {fields!r})

@njit
def leaf(x):
    return SCALE * x
"""

TOP = """
import sys
from ssvm_dsl.kernels.compiling.jit import njit
from leaf_of_a_test import Pair, leaf

@njit
def top(x):
    return leaf(x) + 1.0

@njit
def first(pair):
    return pair.a

print(top(2.0), first(Pair(1, 2)), top.stats.cache_hits.total(), first.stats.cache_hits.total())
"""


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Run the modules above in a fresh process and return what it prints."""
    monkeypatch.setenv("SSVM_CACHE_DIR", str(tmp_path / "cache"))

    def asked(scale=2.0, fields="a b", top=TOP):
        (tmp_path / "leaf_of_a_test.py").write_text(LEAF.format(scale=scale, fields=fields))
        (tmp_path / "top_of_a_test.py").write_text(top)
        done = fresh.run(["-c", "import sys; sys.dont_write_bytecode = True; import top_of_a_test"], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return asked


def test_a_change_in_another_file_is_seen(ask):
    assert ask() == ["5.0", "1", "0", "0"]
    assert ask() == ["5.0", "1", "1", "1"]
    assert ask(scale=3.0) == ["7.0", "1", "0", "1"]  # a constant that a callee reads
    assert ask(fields="b a") == ["5.0", "2", "1", "0"]  # fields of a record in another order


def test_lines_and_docstrings_do_not_matter(ask):
    told = TOP.replace("def top(x):\n", 'def top(x):\n    """Say it."""\n')
    ask(top=told)
    moved = told.replace("@njit", "\n\n@njit").replace("Say it", "Say more")
    assert ask(top=moved) == ["5.0", "1", "1", "1"]


def test_a_broken_entry_is_compiled_anew(ask, tmp_path):
    ask()
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    assert ask() == ["5.0", "1", "0", "0"]
    assert ask() == ["5.0", "1", "1", "1"]


MAKES = """
import numpy as np
from ssvm_dsl.kernels.compiling.jit import njit

@njit
def made(n):
    return np.zeros(n)

@njit
def through(n):
    return len(made(n)) + {more}

{asked}
"""


def test_a_kernel_finds_its_objects_after_its_part_was_loaded(ask):
    assert ask(top=MAKES.format(more=0, asked="print(len(made(2)), through(2))")) == ["2", "2"]
    told = MAKES.format(more=1, asked="print(through(2), len(made(2)), made.stats.cache_hits.total())")
    assert ask(top=told) == ["3", "2", "1"]


FULL = """
import warnings
from ssvm_dsl.kernels.compiling import code_store

def replace(*files):
    raise OSError(28, "No space left on device")

code_store.os.replace = replace
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import leaf_of_a_test
    leaf_of_a_test.leaf(2.0), leaf_of_a_test.leaf(2)
print(len([one for one in caught if "No space left on device; make room" in str(one.message)]))
"""


def test_a_full_disk_is_said_once(ask):
    assert ask(top=FULL) == ["1"]


SLOW = """
import sys, time
from ssvm_dsl.kernels.compiling import code_store
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.compiling.linking import PartCompiler

@njit
def leaf(x):
    return x + 1.0

@njit
def {name}(x):
    return leaf(x) * 2.0

begun = PartCompiler.compile_extra

def compile_extra(self, func):
    if func.__name__ == "leaf":
        time.sleep({pause})
        print("compiles", func.__name__)
    return begun(self, func)

PartCompiler.compile_extra = compile_extra
{name}(1.0)
"""


def test_a_part_is_compiled_by_one_process_of_two(tmp_path, monkeypatch):
    monkeypatch.setenv("SSVM_CACHE_DIR", str(tmp_path / "cache"))
    said, running = [], []
    for name, pause in (("one", 3.0), ("two", 0.0)):
        (tmp_path / f"{name}_of_a_test.py").write_text(SLOW.format(name=name, pause=pause))
    (tmp_path / "shared_of_a_test.py").write_text(LEAF.format(scale=2.0, fields="a b"))
    for name in ("one", "two"):
        path = tmp_path / f"{name}_of_a_test.py"
        text = path.read_text().replace(
            "@njit\ndef leaf(x):\n    return x + 1.0\n", "from shared_of_a_test import leaf\n"
        )
        path.write_text(text)
        command = [sys.executable, "-B", "-c", f"import {name}_of_a_test"]
        running.append(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True))
        end = time.monotonic() + 60.0
        while name == "one" and not list(Path(tmp_path / "cache").glob("leaf*.lock")) and time.monotonic() < end:
            time.sleep(0.01)
    said = [process.communicate(timeout=120)[0].split() for process in running]
    assert said == [["compiles", "leaf"], []]
