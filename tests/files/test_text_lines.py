"""Columns are separated by spaces and tabs, lines end with LF or CR LF; other white space belongs to tokens."""

from __future__ import annotations

import io
import json
import sys
import zipfile

import numpy as np
import pytest

from ssvm_dsl import read_problem, read_trees
from ssvm_dsl.datasets import load_alignments, load_conll2000, load_dependency_treebank
from ssvm_dsl.datasets.formats import conll
from ssvm_dsl.datasets.formats.conll import read_template
from ssvm_dsl.datasets.formats.examples import DataSettings
from ssvm_dsl.datasets.formats.readers import read_file
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.files.text_lines import blocks_in, columns_of, lines_in, numbered_lines
from ssvm_dsl.lang.grammars.grammar import read_cfg

#: What `str.split` or `str.splitlines` divides at, and columns and lines do not.
INSIDE = [c for c in map(chr, range(sys.maxunicode)) if (c.isspace() or len(f"a{c}b".splitlines()) > 1)]
INSIDE = [c for c in INSIDE if c not in " \t\r\n"]

MARK = b"\xef\xbb\xbf"


def test_columns_and_lines():
    assert len(INSIDE) > 20
    for c in INSIDE:
        word = f"w{c}x"
        assert columns_of(f"  {word}\t {c} b ") == [word, c, "b"]
        assert lines_in(f"{word}\r\n\n{c}b\n") == [word, "", f"{c}b"]
        assert [text for _, text in numbered_lines(io.BytesIO(f"{word}\r\n{c}\n".encode()), "a")] == [word, c]
    assert lines_in("") == []
    assert lines_in("\n") == [""]
    assert lines_in("a") == ["a"]
    numbered = list(enumerate(["", "a", "b", " \t", "", "c"], 1))
    assert list(blocks_in(numbered)) == [[(2, "a"), (3, "b")], [(6, "c")]]


def rows(c):
    """A file of two sentences in each format whose tokens hold a character: (content, words of the examples)."""
    w = f"w{c}x"
    return {
        "conll": f"{w} N B\nz V O\n\n{w}\tN B\n".replace("\t", " "),
        "crfsuite": f"B\t{w}\nO\tz\n\nB\t{w}\n",
        "conllu": f"1\t{w}\t_\tN\t_\t_\t2\t_\t_\t_\n2\tz\t_\tV\t_\t_\t0\t_\t_\t_\n",
        "csv": f"s,word,label\n1,{w},B\n1,z,O\n",
        "svmlight": f"a{c}b 1:2 2:3\n{c} 1:1\n",
        "jsonl": json.dumps({"x": [[w], ["z"]], "y": ["B", "O"]}, ensure_ascii=False),
    }


@pytest.mark.parametrize("form", rows(""))
@pytest.mark.parametrize("mark", [b"", MARK])
def test_every_format_keeps_what_stands_within_tokens(form, mark, tmp_path):
    path = tmp_path / "data"
    settings = DataSettings(form, sequence="s" if form == "csv" else "")
    for c in INSIDE[:3] + INSIDE[-6:] + ["\u00a0", "\u0085", "\u2028", "\u3000", "\x0c"]:
        for end in ("\n", "\r\n"):
            path.write_bytes(mark + rows(c)[form].replace("\n", end).encode())
            found = read_file(str(path), settings)
            if form == "svmlight":
                assert [f"a{c}b", c] == found.Y
                continue
            text = json.dumps(found.X, default=lambda one: one.tolist(), ensure_ascii=False)
            assert json.dumps(f"w{c}x", ensure_ascii=False)[1:-1] in text
            assert "\ufeff" not in text
            assert found.n_examples == rows(c)[form].count("\n\n") + 1


def test_predictions_stand_behind_the_lines_they_are_for(tmp_path):
    path, out = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("w\u00a0x N B\nz\u2028z V O\n", encoding="utf-8", newline="\n")
    data = conll.read(str(path), DataSettings("conll"))
    conll.write_answers(str(out), data, [["P", "Q"]])
    assert out.read_bytes().decode() == "w\u00a0x N B P\nz\u2028z V O Q\n\n"
    assert conll.read_answers(str(out), data) == [["P", "Q"]]


def test_templates_trees_grammars_keep_them(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(MARK + "U00:a\u00a0%x[0,0]\r\nB\r\n".encode())
    assert read_template(str(path)) == ("U00:a\u00a0%x[0,0]", "B")
    path.write_bytes(MARK + "(S (N a\u00a0b)\r\n (V\tc\u2028d))\r\n".encode())
    assert read_trees(path)[0].words == ("a\u00a0b", "c\u2028d")
    assert read_cfg('S -> A\u00a0B C | "x"\r\nC -> "y\u0085z"')[1:] == (
        [("S", ("A\u00a0B", "C"))], [("S", "x"), ("C", "y\u0085z")]
    )  # fmt: skip


@pytest.mark.parametrize(("suffix", "text"), [("uai", "MARKOV 1 2 1 1 0 2 1 3"), ("fg", "1\n\n1\n5\n2\n1\n1 3\n"),
                                              ("wcsp", "a 1 2 1 9 2 1 0 0 1 1 3")])  # fmt: skip
def test_problems_begin_behind_the_mark(suffix, text, tmp_path):
    path, plain = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    path.write_bytes(MARK + text.encode())
    plain.write_text(text)
    assert np.array_equal(read_problem(path).theta.node, read_problem(plain).theta.node)


def test_text_of_other_encodings_is_named(tmp_path):
    path = tmp_path / "a.mrg"
    for text, encoding, words in (
        ("(S\n (N a)\n (V b\u00e9))", "latin1", "line 3: expected text in UTF-8, found byte 0xe9 at position 6"),
        ("(S (N a))", "utf-16", "line 1: expected text in UTF-8, found UTF-16"),
        ("(S\n (N a\0))", "utf8", "line 2: expected text, found binary data"),
    ):
        path.write_bytes(text.encode(encoding))
        with pytest.raises(FileFormatError, match=words):
            read_trees(path)


def test_data_sets_keep_them(tmp_path, monkeypatch):
    monkeypatch.setenv("SSVM_DATA", str(tmp_path))
    word = "w\u00a0x"
    (tmp_path / "sequences").mkdir()
    (tmp_path / "alignment").mkdir()
    with zipfile.ZipFile(tmp_path / "sequences/conll2000.zip", "w") as archive:
        for name in ("train.txt", "test.txt"):
            archive.writestr(name, f"{word} N B-NP\r\n\r\nz V O\r\n")
    with zipfile.ZipFile(tmp_path / "sequences/dependency_treebank.zip", "w") as archive:
        archive.writestr("a.dp", f"{word} N 2\nz\u2028 V 0\n")
    (tmp_path / "alignment/enfr.src-tgt").write_text(f"{word} a ||| b\u0085\n", encoding="utf-8", newline="\n")
    (tmp_path / "alignment/enfr.gold").write_text("1-1\n")
    assert load_conll2000().train[0].words == [word]
    assert load_dependency_treebank()[0].words == [word, "z\u2028"]
    assert (load_alignments()[0].source, load_alignments()[0].target) == ([word, "a"], ["b\u0085"])
