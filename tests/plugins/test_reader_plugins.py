"""Readers of files of plug-ins: found by suffix and by name, wrapped as the own formats are, their mistakes named."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from ssvm_dsl import partitioned_files, read_examples, read_problem, register, solve_problem
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import FileFormatError, OptionError, PluginError
from ssvm_dsl.ir import GraphProblem
from ssvm_dsl.plugin_api import FileContent, ReaderSpec, hookimpl
from ssvm_dsl.registry import registry


def ising(source, content, limits):
    """Lines of two spins and a coupling."""
    rows = [line.split() for line in content.decode().splitlines()]
    factors = [((int(a), int(b)), float(c) * np.eye(2)) for a, b, c in rows]
    return GraphProblem.of(source, [2] * (1 + max(max(scope) for scope, _ in factors)), factors)


def wrong(source, content, limits):
    return [source]


def broken(source, content, limits):
    raise KeyError("nobody home")


class Words:
    """A word and a tag on each line, blank lines between sequences; upper-case words are a feature."""

    def read(self, source, settings):
        with open(source) as file:
            blocks = [[line.split() for line in block.splitlines()] for block in file.read().split("\n\n")]
        X = [np.array([[1.0, float(word.isupper())] for word, *_ in rows]) for rows in blocks]
        return X, [[tag for _, tag in rows] for rows in blocks] if len(blocks[0][0]) > 1 else None


class Written(Words):
    def write_answers(self, out, data, predicted):
        with open(out, "w") as file:
            print(data.source, [list(map(str, one)) for one in predicted], file=file)


class Uneven(Words):
    def read(self, source, settings):
        return [1, 2], [1]


class Plugin:
    @hookimpl
    def ssvm_readers(self):
        for name in ("ising", "wrong", "broken"):
            yield ReaderSpec(name, f"{__name__}:{name}", content=FileContent.PROBLEM, suffixes=(f".{name}",))
        for kind in (Words, Written, Uneven):
            name = kind.__name__.lower()
            content = FileContent.EXAMPLES
            yield ReaderSpec(name, f"{__name__}:{kind.__name__}", content=content, suffixes=(f".{name}", ".uai"))


@pytest.fixture(autouse=True)
def plugin():
    register(Plugin(), "readers of a test")
    yield
    known = registry()
    known.forget(next(one for one in known.plugins if one.name == "readers of a test"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ising").write_text("0 1 2.0\n1 2 -1.0\n2 0 0.5\n")
    for name in ("words", "written", "uneven"):
        (tmp_path / f"a.{name}").write_text("A X\nb Y\nC X\n\nd Y\nE X")
    return tmp_path


def test_problems_are_found_by_suffix_and_by_name(folder, capsys):
    assert solve_problem(read_problem("a.ising")).score == 2.0
    (folder / "a.txt").write_text("0 1 2.0\n")
    assert solve_problem(read_problem("a.txt", "ising")).score == 2.0
    assert main(["solve", "a.ising", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["score"] == 2.0
    with pytest.raises(FileFormatError, match=r"a format out of uai, .*, opb, ising, wrong, broken, found 'txt'"):
        read_problem("a.txt")


def test_mistakes_of_readers_name_them(folder):
    for name, text in (("wrong", "returned list, expected a GraphProblem"), ("broken", "KeyError: 'nobody home'")):
        (folder / f"a.{name}").write_text("")
        with pytest.raises(PluginError, match=f"reader '{name}' .*readers of a test.*{text}"):
            read_problem(f"a.{name}")
    with pytest.raises(PluginError, match=r"reader 'uneven' .*returned 2 examples and the labels of 1"):
        read_examples("a.uneven")


def test_examples_are_found_by_suffix_and_by_name(folder):
    X, Y = read_examples("a.words")
    assert [x.shape for x in X] == [(3, 2), (2, 2)]
    assert Y == [["X", "Y", "X"], ["Y", "X"]]
    (folder / "a.conll").write_text("A X\nb Y\n")
    assert read_examples("a.conll", "words")[1] == [["X", "Y"]]
    assert read_examples("a.conll")[1] == [["X", "Y"]]  # the suffix is that of a format of the package
    assert len(partitioned_files(["a.words", "a.words"])) == 2
    with pytest.raises(OptionError, match=r"format must be one of conll, .*, words, written, uneven, got 'ising'"):
        read_examples("a.words", "ising")


@pytest.mark.parametrize(("suffix", "written"), [("words", '{"y": ["X", "Y", "X"]}'), ("written", "a.written [['X',")])
def test_a_model_is_trained_on_them_and_predicts_in_their_format(folder, suffix, written):
    arguments = ["train", "chain-tagger", "--data", f"a.{suffix}", "--out", "m.json", "--C", "10"]
    assert main(arguments) == 0
    assert main(["predict", "m.json", "--data", f"a.{suffix}", "--out", "out"]) == 0
    assert (folder / "out").read_text().startswith(written)
    if suffix == "words":  # what was written as JSON lines is read as such
        assert main(["evaluate", "m.json", "--data", "a.words", "--predicted", "out"]) == 0
    assert main(["convert", "a.words", "b.jsonl"]) == 0
    assert json.loads((folder / "b.jsonl").read_text().splitlines()[1])["y"] == ["Y", "X"]


def test_a_reader_that_is_gone_is_named(folder, capsys):
    assert main(["train", "chain-tagger", "--data", "a.words", "--out", "m.json", "--C", "10"]) == 0
    known = registry()
    info = next(one for one in known.plugins if one.name == "readers of a test")
    known.forget(info)
    assert main(["predict", "m.json", "--data", "a.words"]) == 2
    assert "there is no format 'words' of examples" in capsys.readouterr().err
    assert main(["convert", "a.jsonl", "b.words"]) == 2
    known.register(Plugin(), info)


def test_formats_without_writers_are_no_targets(folder, capsys):
    (folder / "a.jsonl").write_text('{"x": [[1.0]], "y": ["a"]}\n')
    assert main(["convert", "a.jsonl", "b.words"]) == 2
    assert re.search("reader 'words' .* writes no data", capsys.readouterr().err)


@pytest.mark.parametrize("suffix", ["xyz", ".", ".X", ". a"])
def test_suffixes_are_checked(suffix):
    class Wrong:
        @hookimpl
        def ssvm_readers(self):
            return [ReaderSpec("odd", f"{__name__}:ising", suffixes=(suffix,))]

    with pytest.raises(PluginError, match=r"suffixes are like '\.xyz'"):
        register(Wrong(), "odd")


@pytest.mark.parametrize(
    ("cards", "factor", "text"),
    [
        ([2, 2], ((0, 2), np.eye(2)), "factor 1: expected variables from 0 to 1, found [0, 2]"),
        ([2, 2], ((1, 1), np.eye(2)), "factor 1: expected different variables, found [1, 1]"),
        ([2, 3], ((0, 1), np.eye(2)), "factor 1: expected a table of shape (2, 3), found (2, 2)"),
        ([2, 2], ((0,), [np.nan, 0.0]), "factor 1: expected scores that are numbers or -inf"),
        ([0], ((), 0.0), "variables of at least one state"),
    ],
)
def test_problems_of_factors_are_checked(cards, factor, text):
    with pytest.raises(FileFormatError) as err:
        GraphProblem.of("file", cards, [((), 1.0), factor])
    assert text in str(err.value)


def test_problems_of_factors_have_names_states_and_constants():
    table = np.arange(6.0).reshape(2, 3)
    factors = [((0, 1), table), ((1,), [0, 1, -np.inf]), ((), 0.5)]
    problem = GraphProblem.of("f", [2, 3], factors, ["a", "b"], ["xy", "uvw"])
    answer = solve_problem(problem)
    assert answer.score == 5.5
    assert problem.number("b", "v") == (1, 1)
    assert answer.labels == [1, 1]
