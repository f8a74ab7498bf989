"""Damaged files of every format: a problem or one line, never anything else, never slow, never large."""

from __future__ import annotations

import gzip
import tracemalloc
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_formats import fg_text, uai_text, wcsp_text

from ssvm_dsl import read_problem
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.graph_problem import GraphProblem
from ssvm_dsl.io.source_text import FileLimits
from ssvm_dsl.io.uai import read_evidence

WRITERS = {"uai": uai_text, "fg": fg_text, "wcsp": wcsp_text}
KEYWORDS = "k 4 3 4 99 3 3 3 3 2 0 1 -1 >= 1 2 3 0 1 2 -1 salldiff var 5 4 0 1 2 3 -1 sgcc dec 5 1 0 1 1 -1 2 0 1 2 4"
LIMITS = FileLimits(n_bytes=10**6, n_entries=10**5)

#: What tends to break readers.
NASTY = [
    *("", "-1", "0", "1", "2", "3", "63", "64", "999999999", "1000000000", "99999999999999999999", "4294967296"),
    *("9223372036854775807", "-9223372036854775808", "1e9", "1e308", "1e309", "-1e309", "1e-400", "5e-324", "0.5"),
    *("nan", "NaN", "-nan", "inf", "-inf", "Infinity", "0x10", "1_0", "1,5", "--1", "+", "-", ".", "e5", "1e", "1.2.3"),
    *("MARKOV", "BAYES", "#", "# 3", "salldiff", "var", ">=", "é", "\x00", "\x1a", "\ufeff", "\u0661", "9" * 5000),
]

pytestmark = pytest.mark.filterwarnings("error")

fuzz = settings(max_examples=150)


def base_text(name, seed):
    return KEYWORDS if name == "wcsp" and seed == 0 else WRITERS[name](np.random.default_rng(seed))


@st.composite
def damaged(draw):
    """A file of one format with a few mistakes."""
    name = draw(st.sampled_from(sorted(WRITERS)))
    text = base_text(name, draw(st.integers(0, 50)))
    for _ in range(draw(st.integers(1, 3))):
        how = draw(st.sampled_from(["cut", "token", "swap", "drop", "double", "bytes"]))
        tokens = text.split(" ")
        at = draw(st.integers(0, max(len(tokens) - 1, 0)))
        if how == "cut":
            text = text[: draw(st.integers(0, len(text)))]
        elif how == "bytes":
            where = draw(st.integers(0, len(text)))
            text = text[:where] + draw(st.text(max_size=3)) + text[where + draw(st.integers(0, 3)) :]
        else:
            other = draw(st.sampled_from(NASTY))
            pair = tokens[at : at + 2]
            middle = {"token": [other], "swap": pair[::-1], "drop": [], "double": pair[:1] * 2}
            rest = tokens[at + (2 if how == "swap" else 1) :]
            text = " ".join(tokens[:at] + middle[how] + rest)
    return name, text.encode("utf-8", "surrogatepass")


def outcome(read):
    """What a call returns, or its one-line complaint."""
    try:
        return read()
    except FileFormatError as err:
        return str(err)


def check(path, name):
    """Read a file; whatever is in it, there is a valid problem or one line that names the file."""
    tracemalloc.start()
    start = perf_counter()
    problem = outcome(lambda: read_problem(path, format=name, limits=LIMITS))
    seconds, peak = perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 2.0
    assert peak < 3e7
    if isinstance(problem, str):
        assert "\n" not in problem
        assert problem.startswith(str(path))
        assert len(problem) < 600 + len(str(path))
    else:
        assert isinstance(problem, GraphProblem)
        problem.program.validate()
        assert problem.program.n_states + problem.theta.pool.size <= 3 * LIMITS.n_entries
        for array in (problem.theta.node, problem.theta.pool, problem.theta.const):
            assert not np.isnan(array).any()
            assert not (array == np.inf).any()


@fuzz
@given(damaged())
def test_damaged_files(tmp_path_factory, case):
    name, data = case
    path = tmp_path_factory.getbasetemp() / f"damaged.{name}"
    path.write_bytes(data)
    check(path, name)


@fuzz
@given(st.sampled_from(sorted(WRITERS)), st.binary(max_size=300), st.booleans())
def test_noise(tmp_path_factory, name, noise, zipped):
    path = tmp_path_factory.getbasetemp() / f"noise.{name}"
    path.write_bytes(b"\x1f\x8b" + noise if zipped else noise)
    check(path, name)


@fuzz
@given(st.sampled_from(sorted(WRITERS)), st.lists(st.sampled_from(NASTY), max_size=40))
def test_nasty_words_alone(tmp_path_factory, name, words):
    path = tmp_path_factory.getbasetemp() / f"nasty.{name}"
    path.write_bytes(" ".join(words).encode())
    check(path, name)


@settings(fuzz, max_examples=60)
@given(st.integers(0, 30), st.integers(0, 200), st.integers(0, 255))
def test_damaged_gzip_files(tmp_path_factory, seed, where, byte):
    packed = bytearray(gzip.compress(base_text("uai", seed).encode()))
    packed[where % len(packed)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.uai.gz"
    path.write_bytes(packed)
    check(path, "uai")


@settings(fuzz, max_examples=100)
@given(st.lists(st.sampled_from(NASTY) | st.integers(-1, 4).map(str), max_size=8))
def test_damaged_evidence(tmp_path_factory, words):
    folder = tmp_path_factory.getbasetemp()
    (folder / "model.uai").write_text("MARKOV 3 2 2 3 0")
    path = folder / "damaged.evid"
    path.write_bytes(" ".join(words).encode())
    problem = read_problem(folder / "model.uai")
    clamp = outcome(lambda: read_evidence(path, problem))
    if isinstance(clamp, str):
        assert "\n" not in clamp
    else:
        assert (clamp < problem.program.card).all()
        assert (clamp >= -1).all()


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_every_way_to_cut_a_file_off(tmp_path, name):
    text = base_text(name, 3).rstrip()
    n_good = 0
    for end in range(len(text)):
        path = tmp_path / f"cut.{name}"
        path.write_text(text[:end])
        try:
            read_problem(path)
        except FileFormatError:
            continue
        n_good += 1
        assert text[end] in "0123456789.e-"  # only the digits of the last number can be missing
    assert n_good <= 8
