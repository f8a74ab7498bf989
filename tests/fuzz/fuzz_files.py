"""Damaged problem files: each is read to a problem, or refused with one line; in bounded time and memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import resource
import sys
import tracemalloc
from functools import cache, lru_cache, partial
from pathlib import Path

import numpy as np
from mutations import NASTY, changed_bytes, changed_tokens

from naive_formats import bif_text, cfn_text, fg_text, opb_text, uai_text, wcnf_text, wcsp_text
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.formats.uai import read_evidence
from ssvm_dsl.io.problem_file import FileLimits, read_problem
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.plugin_api import FileContent
from ssvm_dsl.registry import reader_method, reader_of

UNIT, SHORT, LIMIT = "files", 2, 60.0

WRITERS = {
    "uai": uai_text, "fg": fg_text, "wcsp": wcsp_text, "cfn": cfn_text, "wcnf": wcnf_text, "opb": opb_text,
    "bif": bif_text,
}  # fmt: skip

#: Files of a trial; one of so many goes through the file system, packed or with evidence, and its memory is traced.
FILES, STORED = 500, 10

LIMITS = FileLimits(n_bytes=10**6, n_entries=10**5)

#: Bytes that reading a file of some hundred bytes may take: three times the tables that it may ask for, and scratch.
MEMORY = 3 * 8 * LIMITS.n_entries + 3_000_000

#: What all files of a trial may add to the memory of the process.
GROWTH = 100_000_000

KEYWORDS = "k 4 3 4 99 3 3 3 3 2 0 1 -1 >= 1 2 3 0 1 2 -1 salldiff var 5 4 0 1 2 3 -1 sgcc dec 5 1 0 1 1 -1 2 0 1 2 4"


@lru_cache(maxsize=200)
def base(name: str, seed: int) -> str:
    """Return a good file."""
    return KEYWORDS if name == "wcsp" and seed < 8 else WRITERS[name](np.random.default_rng(seed))


def draw(rng: np.random.Generator) -> tuple[str, bytes]:
    """Return (format, content) of a file with a few mistakes."""
    name = sorted(WRITERS)[rng.integers(len(WRITERS))]
    if rng.random() < 0.05:
        return name, rng.bytes(rng.integers(300))
    if rng.random() < 0.05:
        return name, " ".join(rng.choice(NASTY, size=rng.integers(40))).encode("utf-8", "surrogatepass")
    text = changed_tokens(rng, base(name, int(rng.integers(60))))
    data = text.encode("utf-8", "surrogatepass")
    return name, changed_bytes(rng, data) if rng.random() < 0.3 else data


def check(problem: GraphProblem) -> None:
    """Check that what was read is a problem."""
    problem.program.validate()
    assert problem.program.n_states + problem.theta.pool.size <= 3 * LIMITS.n_entries
    for array in (problem.theta.node, problem.theta.pool, problem.theta.const):
        assert not np.isnan(array).any()
        assert not (array == np.inf).any()


def complaint(err: FileFormatError, source: str) -> None:
    """Check that a refusal is one line that names the file."""
    text = str(err)
    assert "\n" not in text, text
    assert text.startswith(source), text
    assert len(text) < 800 + len(source), text


def stored(rng: np.random.Generator, name: str, data: bytes, scratch: Path) -> None:
    """Read a file from disk, packed or not, and evidence for it."""
    path, evidence = scratch / f"damaged.{name}", scratch / "damaged.evid"
    path.write_bytes(data)
    words = [str(word) for word in rng.choice([*NASTY, "0", "1", "1", "2"], size=rng.integers(8))]
    evidence.write_bytes(" ".join(words).encode("utf-8", "surrogatepass"))
    at = path
    try:
        problem = read_problem(path, limits=LIMITS)
        check(problem)
        at = evidence
        clamp = read_evidence(evidence, problem, LIMITS)
    except FileFormatError as err:
        complaint(err, str(at))
    else:
        assert ((clamp >= -1) & (clamp < problem.program.card)).all()


def packed(rng: np.random.Generator, data: bytes) -> bytes:
    """Return the content of a file, packed half of the time, and then damaged half of the time."""
    if rng.random() < 0.5:
        return data
    least = partial(gzip.compress, compresslevel=1), partial(bz2.compress, compresslevel=1)
    data = (*least, partial(lzma.compress, preset=0))[rng.integers(3)](data)
    return changed_bytes(rng, data) if rng.random() < 0.5 else data


def traced(rng: np.random.Generator, name: str, data: bytes, scratch: Path) -> None:
    """Read a file from disk and measure its memory."""
    data = packed(rng, data)
    tracemalloc.start(1)
    try:
        stored(rng, name, data, scratch)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY, f"{peak} bytes at the peak for {data[:300]!r}"


@cache
def warm_up(scratch: Path) -> None:
    """Read a good file of each format: what the first one imports and compiles is not the memory of a file."""
    for name in sorted(WRITERS):
        path, evidence = scratch / f"good.{name}", scratch / "good.evid"
        path.write_bytes(gzip.compress(base(name, 8).encode()))
        evidence.write_text("0")
        read_evidence(evidence, read_problem(path, limits=LIMITS), LIMITS)


def resident() -> int:
    """Return the most memory that this process has had, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Read damaged files."""
    warm_up(scratch)
    before = resident()
    for number in range(FILES):
        name, data = draw(rng)
        if number % STORED == 0:
            traced(rng, name, data, scratch)
            continue
        try:
            check(reader_method(reader_of(FileContent.PROBLEM, name, ""))("file", data, LIMITS))
        except FileFormatError as err:
            complaint(err, "file")
    assert resident() < before + GROWTH, f"{resident() - before} bytes more than before"
    return FILES
