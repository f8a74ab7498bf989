"""Files that are none, or never end, given to everything that reads files; files that are cut off anywhere."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from naive_formats import bif_text, cfn_text, fg_text, opb_text, uai_text, wcnf_text, wcsp_text
from ssvm_dsl import StructuredSVM, read_problem
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.io.atomic import write_lines
from ssvm_dsl.io.formats.uai import read_evidence
from ssvm_dsl.io.problem_file import FileLimits

WRITERS = {"uai": uai_text, "fg": fg_text, "wcsp": wcsp_text}
OTHERS = {"cfn": cfn_text, "wcnf": lambda rng: wcnf_text(rng, old=False), "opb": opb_text, "bif": bif_text}


@pytest.fixture
def hostile(tmp_path):
    """Names that are not those of files with a content: what each is, and what is said of it."""
    made = {"a folder": tmp_path / "folder", "a pipe": tmp_path / "pipe", "none": tmp_path / "none"}
    made["a folder"].mkdir()
    os.mkfifo(made["a pipe"])
    made["Too many levels"] = tmp_path / "loop"
    made["Too many levels"].symlink_to(made["Too many levels"])
    made["junk"] = tmp_path / "junk"
    made["junk"].write_bytes(np.random.default_rng(0).bytes(3000))
    made["empty"] = tmp_path / "empty"
    made["empty"].touch()
    made["zip"] = tmp_path / "zip"
    made["zip"].write_bytes(b"PK\3\4" + bytes(100))
    made["gzip"] = tmp_path / "gzip"
    made["gzip"].write_bytes(gzip.compress(bytes(10**6)))
    if os.path.exists("/dev/zero"):
        made["a device"] = tmp_path / "device"
        made["a device"].symlink_to("/dev/zero")
    return made


COMMANDS = [["weights"], ["solve", "--format", "uai"], ["solve", "--format", "wcsp"], ["explain"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_takes_everything(command, hostile, capsys):
    for what, path in hostile.items():
        assert main([command[0], str(path), *command[1:]]) == 2, what
        said = capsys.readouterr()
        assert str(path) in said.err
        assert "Traceback" not in said.err
        assert len(said.err.splitlines()) <= 3, said.err
        assert not said.out
        if what[0] in "aT" and command[0] != "explain":
            assert what in said.err, said.err


def test_readers_refuse_what_is_no_file(hostile, tmp_path):
    good = tmp_path / "good.uai"
    good.write_text("MARKOV 1 2 0")
    problem = read_problem(good)
    for what, path in hostile.items():
        kind = FileFormatError if what not in ("none", "Too many levels") else OSError
        for read in (
            StructuredSVM.load,
            lambda path: read_problem(path, "fg"),
            lambda path: read_evidence(path, problem),
            read_arrays,
        ):
            with pytest.raises(kind, match=path.name):
                read(path)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_every_way_to_cut_a_file_off(tmp_path, name):
    text = WRITERS[name](np.random.default_rng(3)).rstrip()
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


#: How a text of clauses, constraints or blocks ends that lacks some of them; of others none can be missing.
ENDS = {"cfn": "never", "wcnf": "0", "opb": ";", "bif": "}"}


@pytest.mark.parametrize("name", ENDS)
def test_files_of_blocks_end_behind_a_block(tmp_path, name):
    text = OTHERS[name](np.random.default_rng(6)).rstrip()
    n_good = 0
    for end in range(len(text)):
        path = tmp_path / f"cut.{name}"
        path.write_text(text[:end])
        try:
            read_problem(path)
        except FileFormatError as err:
            complaint = str(err)
            continue
        n_good += 1
        left = re.sub(r"//[^\n]*|/$|^[*c][^\n]*", "", text[:end], flags=re.MULTILINE).split()
        assert not left or left[-1].endswith(ENDS[name])
    assert n_good < len(text) / 3
    assert "\n" not in complaint


def test_a_packed_file_unpacks_to_a_hundred_times_its_size(tmp_path):
    path = tmp_path / "bomb.uai.gz"
    path.write_bytes(gzip.compress(b"MARKOV 1 2 0" + b" " * 20_000_000))
    with pytest.raises(FileFormatError, match=r"at most 1[0-9.]+ MB of text, found more \(100 times .* gunzip"):
        read_problem(path)
    with pytest.raises(FileFormatError, match=r"at most 1\.0 MB of text, found more \(FileLimits\.n_bytes raises this"):
        read_problem(path, limits=FileLimits(n_bytes=10**6))


#: (suffix, text, what is said of it, MB that reading it may take)
BOMBS = {
    "large tables by a keyword": ("wcsp", "b 18 2 2 99 " + "2 " * 18 + 2 * "{scope} -1 salldiff var 3 ", "", 30),
    "many bounds of a keyword": ("wcsp", "b 18 2 1 99 " + "2 " * 18 + "{scope} -1 sgcc dec 3 2000 {rows}", "", 30),
    "very many pairs": ("wcsp", "b {n} 1 1 9 " + "1 " * 9000 + "{many} -1 salldiff dec 3", "found 'salldiff' over", 10),
    "a table that is too large": ("fg", "1 1 0 99000000 1 0 0.5", "a table of at most 50000000 entries", 2),
    "states that are too many": ("uai", "MARKOV 2 40000000 40000000 0", "at most 50000000 states together", 2),
}


@pytest.mark.parametrize("name", BOMBS)
def test_small_files_do_not_take_much(name, tmp_path):
    import tracemalloc

    suffix, text, said, most = BOMBS[name]
    parts = {"scope": "18 " + " ".join(map(str, range(18))), "rows": " ".join(f"{v} 0 1" for v in range(2000))}
    path = tmp_path / f"bomb.{suffix}"
    path.write_text(text.format(n=9000, many="9000 " + " ".join(map(str, range(9000))), **parts))
    tracemalloc.start(1)
    try:
        if said:
            with pytest.raises(FileFormatError, match=said):
                read_problem(path)
        else:
            read_problem(path)
        assert tracemalloc.get_traced_memory()[1] < most * 1e6
    finally:
        tracemalloc.stop()


def test_reading_takes_some_times_the_text(tmp_path):
    import tracemalloc

    path = tmp_path / "long.uai"
    path.write_text("MARKOV\n1\n499999\n1\n1 0\n499999\n" + "1 " * 499_999)
    tracemalloc.start(1)
    try:
        read_problem(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * path.stat().st_size + 12_000_000  # pieces of a megabyte
    finally:
        tracemalloc.stop()


# -- writing -----------------------------------------------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from ssvm_dsl.io.atomic import write_atomically

def write(file):
    file.write(b"half")
    file.flush()
    print("ready", flush=True)
    sys.stdin.read() if len(sys.argv) > 2 else os._exit(9)

write_atomically(Path(sys.argv[1]), write)
"""


def test_what_killed_writers_leave_is_deleted_and_what_others_write_is_not(tmp_path):
    path, arrays = tmp_path / "file", {"a": np.arange(3)}
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    assert len(os.listdir(tmp_path)) == 1
    command = [sys.executable, "-c", KILLED, str(path), "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        write_arrays(path, {}, arrays)
        assert len(os.listdir(tmp_path)) == 2
        other.stdin.close()
        other.wait()
    assert path.read_bytes() == b"half"  # the other one has written it
    assert os.listdir(tmp_path) == ["file"]


def test_pipes_and_links_are_not_replaced(tmp_path):
    pipe, link, path = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    link.symlink_to(path)
    path.write_bytes(b"old")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_lines(pipe, ["new"])
    assert os.read(reader, 10) == b"new\n"
    os.close(reader)
    assert pipe.is_fifo()
    write_lines(link, ["new"])
    assert link.is_symlink()
    assert path.read_bytes() == b"new\n"


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, name):
    path = tmp_path / "file"
    write_arrays(path, {"x": 1}, {})

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError, match="No space left"):
        write_arrays(path, {"x": 2}, {})
    assert read_arrays(path)[0] == {"x": 1}
    assert os.listdir(tmp_path) == ["file"]
