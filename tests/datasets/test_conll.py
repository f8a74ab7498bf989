"""CoNLL-2000: phrases and F1 as the shared task counts them, the attributes of CRFsuite's tutorial, the reader."""

from __future__ import annotations

import itertools
import re
import zipfile

import numpy as np
import pytest

from combinations import ALL
from ssvm_dsl import datasets
from ssvm_dsl.datasets import CHUNK_TAGS, chunk_attributes, chunk_f1, load_conll2000, phrases
from ssvm_dsl.errors import DataError

LINES = {"train.txt": "He PRP B-NP\nran VBD B-VP\n\nNo DT O\n\n", "test.txt": "The DT B-NP\ncat NN I-NP\n. . O\n"}


def write(folder, members):
    (folder / "sequences").mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "sequences" / "conll2000.zip", "w") as archive:
        for name, text in members.items():
            archive.writestr(f"conll2000/{name}", text)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-NP I-NP O B-VP", [("NP", 0, 1), ("VP", 3, 3)]),
        ("B-NP B-NP I-NP", [("NP", 0, 0), ("NP", 1, 2)]),
        ("I-NP I-NP O I-NP", [("NP", 0, 1), ("NP", 3, 3)]),  # an I after O or at the start begins a phrase
        ("B-NP I-VP I-VP I-NP", [("NP", 0, 0), ("VP", 1, 2), ("NP", 3, 3)]),  # and one after another type
    ],
)
def test_phrases(tags, expected):
    assert [tuple(phrase) for phrase in phrases(tags.split())] == expected


@pytest.mark.parametrize(
    ("truth", "found", "expected"),
    [
        (["B-NP I-NP O"], ["B-NP I-NP O"], 1.0),
        (["O O"], ["O O"], 1.0),
        (["B-NP I-NP O"], ["O O O"], 0.0),
        (["B-NP I-NP O"], ["B-NP O O"], 0.0),  # a wrong end
        (["B-NP I-NP O"], ["B-VP I-VP O"], 0.0),  # a wrong type
        (["B-NP I-NP B-VP"], ["I-NP I-NP I-VP"], 1.0),  # the same phrases by other tags
        (["B-NP I-NP B-VP O", "B-PP"], ["B-NP I-NP O O", "B-PP"], 0.8),  # 2 right, 2 found, 3 true
        (["B-NP I-NP"], ["B-NP B-NP"], 0.0),
        (["B-NP", "B-NP"], ["B-NP", "O"], 2 / 3),  # the same place in different sentences
    ],
)
def test_f1(truth, found, expected):
    found = [np.array(tags.split()) for tags in found]  # as predictions come
    assert chunk_f1([tags.split() for tags in truth], found) == pytest.approx(expected)


def test_f1_needs_the_same_sentences():
    with pytest.raises(DataError, match="expected 2 examples, as in truth, found 1"):
        chunk_f1([["O"], ["O"]], [["O"]])


FIELDS = ("w-2", "w-1", "w0", "w1", "w2", "w-1 w0", "w0 w1", "p-2", "p-1", "p0", "p1", "p2", "p-2 p-1", "p-1 p0",
          "p0 p1", "p1 p2", "p-2 p-1 p0", "p-1 p0 p1", "p0 p1 p2")  # fmt: skip


def attributes_of_one(words, pos, t):
    """The tutorial's templates, read out one by one."""
    names = []
    for field in FIELDS:
        picks = [(part[0], int(part[1:])) for part in field.split()]
        if all(0 <= t + k < len(words) for _, k in picks):
            head = "|".join(f"{'w' if kind == 'w' else 'pos'}[{k}]" for kind, k in picks)
            names.append(f"{head}={'|'.join((words if kind == 'w' else pos)[t + k] for kind, k in picks)}")
    return names + ["__BOS__"] * (t == 0) + ["__EOS__"] * (t == len(words) - 1)


@pytest.mark.parametrize("n", range(7))
def test_attributes(n):
    words, pos = [f"word{t}" for t in range(n)], [f"T{t % 3}" for t in range(n)]
    assert chunk_attributes(words, pos) == [attributes_of_one(words, pos, t) for t in range(n)]


def test_attributes_in_the_middle_of_a_sentence():
    names = chunk_attributes(["He", "will", "not", "run", "far", "today"], list("PMRVRN"))[2]
    assert len(names) == 19
    assert {"w[-2]=He", "w[-1]|w[0]=will|not", "pos[0]|pos[1]|pos[2]=R|V|R"} < set(names)


def test_reader(tmp_path, monkeypatch):
    write(tmp_path, LINES)
    monkeypatch.setenv("SSVM_DATA", str(tmp_path))
    train, test = load_conll2000()
    assert train == [(["He", "ran"], ["PRP", "VBD"], ["B-NP", "B-VP"]), (["No"], ["DT"], ["O"])]
    assert test[0].chunks == ["B-NP", "I-NP", "O"]


def test_reader_without_data(tmp_path, monkeypatch):
    monkeypatch.delenv("SSVM_DATA", raising=False)
    with pytest.raises(DataError, match="SSVM_DATA is not set"):
        load_conll2000()
    monkeypatch.setenv("SSVM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=re.escape("expected a file sequences/conll2000.zip")):
        load_conll2000()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"train.txt": LINES["train.txt"]}, "train.txt and test.txt, found KeyError"),
        (LINES | {"train.txt": "He PRP B-NP\n\nran VBD\n"}, "1: expected lines 'word pos chunk', found 'ran VBD'"),
        (LINES | {"test.txt": b"\xff\xfe"}, "found UnicodeDecodeError"),
        (LINES | {"test.txt": "\n"}, "example 0: expected lines"),
    ],
)
def test_reader_of_broken_archives(tmp_path, monkeypatch, members, message):
    write(tmp_path, members)
    monkeypatch.setenv("SSVM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=re.escape(message)):
        load_conll2000()


def test_reader_of_no_archive(tmp_path, monkeypatch):
    (tmp_path / "sequences").mkdir()
    (tmp_path / "sequences" / "conll2000.zip").write_bytes(b"no zip")
    monkeypatch.setenv("SSVM_DATA", str(tmp_path))
    with pytest.raises(DataError, match="BadZipFile"):
        load_conll2000()


@pytest.mark.data
def test_the_published_counts(data_dir):
    """Tjong Kim Sang and Buchholz (2000), section 3: 211727 and 47377 tokens, 106978 and 23852 phrases."""
    train, test = load_conll2000()
    assert (len(train), len(test)) == (8936, 2012)
    assert [sum(len(s.words) for s in part) for part in (train, test)] == [211727, 47377]
    assert [sum(len(phrases(s.chunks)) for s in part) for part in (train, test)] == [106978, 23852]
    tags = [{tag for s in part for tag in s.chunks} for part in (train, test)]
    assert tags[0] | tags[1] == set(CHUNK_TAGS)
    assert tags[0] == set(CHUNK_TAGS) - {"I-LST"}
    read, n_names = (train, 335674) if ALL else (train[:500], 42082)
    names = {name for s in read for token in chunk_attributes(s.words, s.pos) for name in token}
    assert len(names) == n_names
    flat = list(itertools.chain.from_iterable(s.pos for s in train))
    assert len(set(flat)) == 44


def test_segments_of_tags_and_back():
    tags = ["B-NP", "I-NP", "O", "O", "B-NP", "B-VP", "I-VP", "I-VP"]
    found = datasets.chunk_segments(tags)
    assert found == [(0, 2, "NP"), (2, 3, "O"), (3, 4, "O"), (4, 5, "NP"), (5, 8, "VP")]
    assert datasets.chunk_tags(found) == tags
    assert datasets.chunk_segments(tags, longest=2)[-2:] == [(5, 7, "VP"), (7, 8, "VP")]
    assert datasets.chunk_segments([]) == datasets.chunk_tags([]) == []
