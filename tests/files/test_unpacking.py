"""Packed files: every reader takes them, whatever their name; damaged ones and bombs are refused."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import tracemalloc

import numpy as np
import pytest
from pyarrow import table
from pyarrow.parquet import write_table

from ssvm_dsl import read_problem, read_trees
from ssvm_dsl.datasets.formats.examples import DataSettings
from ssvm_dsl.datasets.formats.lines import opened, write_bytes, write_text
from ssvm_dsl.datasets.formats.readers import format_of, read_file
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.files.opening import open_unpacked, suffix_of
from ssvm_dsl.io.formats.uai import read_evidence
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.plugin_api import FileContent
from ssvm_dsl.registry import readers

PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}

FILES = {
    "conll": "a N B\nz V O\n",
    "crfsuite": "B\ta\nO\tz\n",
    "conllu": "1\ta\t_\tN\t_\t_\t2\t_\t_\t_\n2\tz\t_\tV\t_\t_\t0\t_\t_\t_\n",
    "csv": "x,label\n1,B\n2,O\n",
    "svmlight": "1 1:2 2:3\n",
    "jsonl": json.dumps({"x": [[1.0, 2.0]], "y": ["B"]}),
    "trees": "(S (N a)\n (V b))\n",
}


#: The end of names by which each format is found.
SUFFIXES = {one.name: one.suffixes[0] for one in readers(FileContent.EXAMPLES) if one.suffixes}


def content(form):
    """The content of a file of each format."""
    file = io.BytesIO()
    if form == "npz":
        np.savez(file, X=np.ones((2, 3)), Y=np.array([0, 1]))
    elif form == "parquet":
        write_table(table({"x": [[1.0, 2.0]], "y": ["B"]}), file)
    else:
        file.write(FILES[form].encode())
    return file.getvalue()


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("form", [*FILES, "npz", "parquet"])
def test_every_format_of_data(form, suffix, tmp_path, monkeypatch):
    path, plain = tmp_path / f"a{SUFFIXES[form]}{suffix}", tmp_path / "plain"
    packed = PACK[suffix](content(form))
    path.write_bytes(packed)
    plain.write_bytes(content(form))
    assert format_of(str(path), None).name == form
    expected = read_file(str(plain), DataSettings(form))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    for source in (str(path), "-"):
        found = read_file(source, DataSettings(form))
        assert str(found.X) == str(expected.X)
        assert str(found.Y) == str(expected.Y)


def test_all_formats_are_tried():
    assert set(SUFFIXES) == {*FILES, "npz", "parquet"}


@pytest.mark.parametrize("suffix", PACK)
def test_problems_evidence_and_trees(suffix, tmp_path):
    path, evidence, trees = (tmp_path / f"{name}{suffix}" for name in ("a.uai", "a.evid", "a.mrg"))
    path.write_bytes(PACK[suffix](b"MARKOV 1 2 1 1 0 2 1 3"))
    evidence.write_bytes(PACK[suffix](b"1 0 1"))
    trees.write_bytes(PACK[suffix](b"(S (N a))"))
    problem = read_problem(path)
    assert problem.theta.node.tolist() == [0.0, np.log(3.0)]
    assert read_evidence(evidence, problem).tolist() == [1]
    assert read_trees(trees)[0].words == ("a",)


@pytest.mark.parametrize("suffix", PACK)
def test_long_ones_of_several_members_with_padding(suffix, tmp_path):
    rng = np.random.default_rng(0)
    text = " ".join(map(str, rng.integers(10**9, size=300_000))).encode()
    path = tmp_path / "a"
    path.write_bytes(b"".join(PACK[suffix](text[lo : lo + 10**6]) + bytes(8) for lo in range(0, len(text), 10**6)))
    with open_unpacked(path) as file:
        assert file.read() == text


@pytest.mark.parametrize("suffix", PACK)
def test_damaged_ones_are_refused(suffix, tmp_path):
    path, packed = tmp_path / f"a.uai{suffix}", PACK[suffix](b"MARKOV 1 2 1 1 0 2 1 3")
    name = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}[suffix]
    for damaged in (packed[:-3], packed[:15], packed[:14] + bytes(9) + packed[23:], packed + b"more"):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=f"a.uai{suffix}: expected a whole {name} file, found a damaged one"):
            read_problem(path)


@pytest.mark.parametrize("suffix", PACK)
def test_bombs_cost_no_more_than_their_limit(suffix, tmp_path):
    path = tmp_path / f"bomb.uai{suffix}"
    path.write_bytes(PACK[suffix](b"MARKOV 1 2 0" + b" " * 60_000_000))
    hint = {".gz": "gunzip", ".bz2": "bunzip2", ".xz": "unxz"}[suffix]
    tracemalloc.start(1)
    try:
        with pytest.raises(FileFormatError, match=rf"at most 1[0-9.]+ MB of text, found more \(100 times .* {hint} f"):
            read_problem(path)
        with pytest.raises(FileFormatError, match=r"at most 1\.0 MB of text, found more \(FileLimits\.n_bytes"):
            read_problem(path, limits=FileLimits(n_bytes=10**6))
        with pytest.raises(FileFormatError, match="100 times"):
            read_file(str(path), DataSettings("conll"))
        assert tracemalloc.get_traced_memory()[1] < 45e6
    finally:
        tracemalloc.stop()


def test_a_dictionary_of_gigabytes_is_not_taken(tmp_path):
    path = tmp_path / "a.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    packed = bytearray(lzma.compress(b"(S (N a))", filters=filters))
    path.write_bytes(packed)
    with pytest.raises(FileFormatError, match=r"damaged one \(Memory usage limit"):
        read_trees(path)


def test_words_that_begin_as_packed_files_do_not_unpack(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("BZhang N B\n")
    with opened(str(path)) as file:
        assert file.read() == b"BZhang N B\n"


@pytest.mark.parametrize("suffix", PACK)
def test_what_is_written_is_packed_as_its_name_says(suffix, tmp_path):
    path = tmp_path / f"a.txt{suffix}"
    write_text(str(path), ["one", "two"])
    assert {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}[suffix](path.read_bytes()) == (
        b"one\ntwo\n"
    )
    first = path.read_bytes()
    write_text(str(path), ["one", "two"])
    assert path.read_bytes() == first
    with pytest.raises(OptionError, match="packed inside"):
        write_bytes(str(tmp_path / f"a.npz{suffix}"), lambda file: None)


def test_suffixes():
    names = {"a.uai": ".uai", "a.UAI.GZ": ".uai", "a.b.wcsp.xz": ".wcsp", "a.gz": "", "a": "", "a.uai.1": ".1"}
    assert {name: suffix_of(name) for name in names} == names
