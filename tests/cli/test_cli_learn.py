"""``ssvm train``, ``predict``, ``evaluate``: CoNLL files from the shell, beside CRF++'s templates and conlleval."""

from __future__ import annotations

import io
import json
import os
import random
import sys
from zipfile import ZipFile

import pytest
from naive_crf import conlleval, template_features
from snippets import FENCE, ROOT, commands, tidy

from foreign import inside
from ssvm_dsl.cli.learn.measures import measure
from ssvm_dsl.datasets.formats.conll import AttributeTemplate, standard_template
from ssvm_dsl.models import ChainTagger

TEMPLATE = """# words, and parts of speech
U00:%x[-2,0]
U01:%x[0,0]/%x[1,0]
U02:%x[0,1]

U03:<%x[-1,1]>%x[0,1]|%x[2,0]
B
"""

WORDS = {"B-NP": ("the DT", "a DT", "my PRP"), "I-NP": ("dog NN", "cat NN", "boat NN"), "B-VP": ("saw VB", "was VB"),
         "O": (". .", ", ,")}  # fmt: skip


def corpus(n, seed=0):
    """Sentences in columns: word, part of speech, chunk tag."""
    rng, lines = random.Random(seed), []
    for _ in range(n):
        tags = [tag for _ in range(rng.randint(1, 3)) for tag in ("B-NP", "I-NP", "B-VP")] + ["O"]
        lines += [f"{rng.choice(WORDS[tag])} {tag}" for tag in tags[: rng.randint(1, len(tags))]] + [""]
    return "\n".join(lines) + "\n"


def rows(text):
    return [[line.split() for line in block.splitlines()] for block in text.strip().split("\n\n")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_text(corpus(30))
    (tmp_path / "test.txt").write_text(corpus(20, seed=1))
    (tmp_path / "template").write_text(TEMPLATE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ok(capsys, *arguments):
    status, out, err = inside(capsys, *arguments)
    assert status == 0, err
    return out


def refused(capsys, *arguments):
    status, out, err = inside(capsys, *arguments)
    assert (status, out) == (2, ""), err
    return err


def trained(capsys, *more, data="train.txt", model="chain-tagger"):
    return ok(capsys, "train", model, "--data", data, "--out", "m.ssvm", "--C", 1, "--tol", 0.01, *more)


def test_templates_expand_as_crf_plus_plus_does():
    sentences = [*rows(corpus(20)), [["one", "CD", "O"]]]
    for text in (TEMPLATE, "\n".join(standard_template(2)), "U1:%x[-3,0]\nU2:%x[3,1]x%x[1,1]\nB"):
        template = AttributeTemplate.of_lines(enumerate(text.splitlines(), 1), "t")
        assert template.transitions
        for one in sentences:
            columns = [[row[c] for row in one] for c in range(2)]
            assert template.attributes(columns) == template_features(text, one)


def test_three_commands_do_what_python_does(here, capsys):
    assert "certified" in trained(capsys, "--template", "template")
    ok(capsys, "predict", "m.ssvm", "--data", "test.txt", "--out", "tagged.txt")
    tagged, test = rows((here / "tagged.txt").read_text()), rows((here / "test.txt").read_text())
    assert [[row[:3] for row in one] for one in tagged] == test
    train = rows((here / "train.txt").read_text())
    X, X_test = ([template_features(TEMPLATE, one) for one in part] for part in (train, test))
    Y, Y_test = ([[row[2] for row in one] for one in part] for part in (train, test))
    tagger = ChainTagger(C=1.0, tol=0.01, random_state=0).fit(X, Y)
    predicted = [[row[3] for row in one] for one in tagged]
    assert predicted == [list(one) for one in tagger.predict(X_test)]
    expected = conlleval(Y_test, predicted)
    assert ok(capsys, "evaluate", "--data", "test.txt", "--predicted", "tagged.txt") == expected
    assert ok(capsys, "evaluate", "m.ssvm", "--data", "test.txt") == expected
    found = json.loads(ok(capsys, "evaluate", "m.ssvm", "--data", "test.txt", "--json"))
    assert f"FB1: {100 * found['phrases']['f1']:6.2f}" in expected
    assert found["phrases"]["f1"] == found["span-f1"]


def test_reports_are_those_of_conlleval_for_any_tags():
    rng = random.Random(3)
    for _ in range(200):
        tags = ["O", "B-A", "I-A", "B-B", "I-B"]
        truth = [[rng.choice(tags) for _ in range(rng.randint(1, 9))] for _ in range(4)] + [["B-A"]]
        predicted = [[rng.choice([tag, rng.choice(tags)]) for tag in one] for one in truth]
        assert "\n".join(measure(truth, predicted).lines()) + "\n" == conlleval(truth, predicted)


def test_labels_may_be_missing_from_new_data(here, capsys):
    trained(capsys)
    test = (here / "test.txt").read_text()
    (here / "bare.txt").write_text("\n".join(line.rpartition(" ")[0] for line in test.splitlines()))
    with_labels = ok(capsys, "predict", "m.ssvm", "--data", "test.txt")
    without = ok(capsys, "predict", "m.ssvm", "--data", "bare.txt")
    last = [[row[-1] for row in one] for one in rows(with_labels)]
    assert last == [[row[-1] for row in one] for one in rows(without)]
    assert "expected examples with labels" in refused(capsys, "evaluate", "m.ssvm", "--data", "bare.txt")


def test_standard_input_and_output(here, capsys, monkeypatch):
    expected = None
    for source in ("train.txt", "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((here / "train.txt").read_bytes())))
        trained(capsys, "--format", "conll", data=source)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((here / "test.txt").read_bytes())))
        found = ok(capsys, "predict", "m.ssvm", "--data", "-")
        assert expected in (None, found)
        expected = found


def test_json_is_all_there_is_on_standard_output(here, capsys):
    found = json.loads(trained(capsys, "--json", "--risk", "log", "--trainer", "lbfgs", "--set", "order=0"))
    assert found["model"] == "chain-tagger"
    assert found["n_examples"] == 30
    assert found["report"]["certified"]


def test_without_b_labels_do_not_depend_on_each_other(here, capsys):
    (here / "template").write_text("U:%x[0,0]\n")
    sizes = [json.loads(trained(capsys, "--json", "--template", "template", *more))["report"]["n_weights"]
             for more in ((), ("--set", "order=1"))]  # fmt: skip
    assert sizes[1] - sizes[0] == 16


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "bad.txt: expected at least one sentence, found none"),
        ("\n\n \n", "bad.txt: expected at least one sentence"),
        ("the DT B-NP\ndog I-NP\n", "bad.txt, line 2: expected 3 columns, as before, found 2: 'dog I-NP'"),
        ("the DT B-NP\n\n\ndog NN I-NP x\n", "bad.txt, line 4: expected 3 columns, as before, found 4"),
        ("the\n", "bad.txt, line 1: expected at least two columns, the last one the label"),
        (b"the DT B-NP\n\xff\xfe DT B-NP\n", "bad.txt, line 2: expected text in UTF-8, found byte 0xff at position 1"),
        (b"the DT B-NP\n\0\0\0\n", "bad.txt, line 2: expected text, found binary data"),
        (b"\x1f\x8b\x08\x00rest", "bad.txt: expected a whole gzip file, found a damaged one"),
        (b"PK\x03\x04rest", "unzip -p FILE"),
    ],
)
def test_bad_lines_are_named(here, capsys, content, words):
    (here / "bad.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in refused(capsys, "train", "chain-tagger", "--data", "bad.txt", "--out", "m.ssvm")
    assert not (here / "m.ssvm").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("B01:%x[0,0]", "template, line 1: expected B alone"),
        ("U01:%x[0]", "template, line 1: expected U...:%x[row,column] or B"),
        ("hello", "template, line 1: expected"),
        ("B", "found none"),
        ("U:%x[0,2]", "the template reads column 2 (counted from 0); train.txt has 2 columns besides the label"),
    ],
)
def test_bad_templates_are_named(here, capsys, line, words):
    (here / "template").write_text(line + "\n")
    base = ("train", "chain-tagger", "--data", "train.txt", "--out", "m.ssvm", "--template")
    assert words in refused(capsys, *base, "template")


def test_new_data_have_the_columns_of_training(here, capsys):
    trained(capsys)
    (here / "wide.txt").write_text("a b c d\n")
    expected = "wide.txt, line 1: expected 3 columns, as in training, or 2 without the label, found 4"
    assert expected in refused(capsys, "predict", "m.ssvm", "--data", "wide.txt")


def test_lines_have_a_limit(here, capsys, monkeypatch):
    monkeypatch.setattr("ssvm_dsl.files.text_lines.LONGEST", 1000)
    (here / "long.txt").write_text("the DT B-NP\n" + 2000 * "a" + " DT B-NP\n")
    words = refused(capsys, "train", "chain-tagger", "--data", "long.txt", "--out", "m.ssvm")
    assert "long.txt, line 2: expected at most 1.0 kB in a line, found more" in words


def test_outputs_are_no_inputs_and_must_be_writable(here, capsys):
    base = ("train", "chain-tagger", "--data", "train.txt", "--out")
    before = (here / "train.txt").read_bytes()
    assert "that file is read by this command" in refused(capsys, *base, "train.txt")
    assert "that file is read by this command" in refused(capsys, *base, "./train.txt")
    assert "no folder" in refused(capsys, *base, "nowhere/m.ssvm")
    assert "got the folder" in refused(capsys, *base, ".")
    assert "a model file is no text" in refused(capsys, *base, "-")
    assert (here / "train.txt").read_bytes() == before
    assert "No such file" in refused(capsys, "train", "chain-tagger", "--data", "none.txt", "--out", "m.ssvm")
    assert "found a folder" in refused(capsys, *base, "m.ssvm", "--format", "conll", "--validation", ".")
    assert sorted(one.name for one in here.iterdir()) == ["template", "test.txt", "train.txt"]


def test_a_full_disk_is_told(here, capsys, monkeypatch):
    trained(capsys)
    monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    before = (here / "m.ssvm").read_bytes()
    base = ("train", "chain-tagger", "--data", "train.txt", "--out")
    assert "m.ssvm: No space left on device" in refused(capsys, *base, "m.ssvm")
    predict = ("predict", "m.ssvm", "--data", "test.txt", "--out", "tagged.txt")
    assert "tagged.txt: No space left" in refused(capsys, *predict)
    assert (here / "m.ssvm").read_bytes() == before
    assert sorted(one.name for one in here.iterdir()) == ["m.ssvm", "template", "test.txt", "train.txt"]
    monkeypatch.setattr(sys, "stdout", FullDisk())
    words = inside(capsys, "predict", "m.ssvm", "--data", "test.txt")
    assert words[0] == 2
    assert "standard output: No space left on device" in words[2]


class FullDisk(io.StringIO):
    """A stream that takes nothing."""

    def write(self, text):
        raise OSError(28, "No space left on device")


def test_names_that_are_not_there(here, capsys):
    base = ("--data", "train.txt", "--out", "m.ssvm")
    assert "did you mean 'chain-tagger'?" in refused(capsys, "train", "ChainTager", *base)
    assert "no parameter 'ordr'; did you mean 'order'?" in refused(
        capsys, "train", "chain-tagger", *base, "--set", "ordr=2"
    )
    assert "--scoring" in refused(capsys, "train", "chain-tagger", *base, "--scoring", "span-f1")
    (here / "data.xyz").write_text("a b\n")
    assert "the format does not follow from the name" in refused(
        capsys, "train", "chain-tagger", "--data", "data.xyz", "--out", "m.ssvm"
    )
    (here / "no.ssvm").write_text("nothing")
    assert "not a saved model" in refused(capsys, "predict", "no.ssvm", "--data", "test.txt")
    trained(capsys)
    assert "was trained on conll" in refused(capsys, "predict", "m.ssvm", "--data", "test.txt", "--format", "jsonl")
    assert "name a model, or" in refused(capsys, "evaluate", "--data", "test.txt")


def test_limits_validation_and_checkpoints(here, capsys):
    out = trained(capsys, "--validation", "test.txt", "--scoring", "span-f1", "--max-seconds", 100)
    assert "validation" in out
    status, _, err = inside(
        capsys, "train", "chain-tagger", "--data", "train.txt", "--out", "m.ssvm",
        "--checkpoint", "state", "--max-passes", 2, "--tol", 1e-9, "--set", "checkpoint_seconds=0",
    )  # fmt: skip
    assert status == 0
    assert "warning:" in err
    assert (here / "state").exists()
    trained(capsys, "--checkpoint", "other")
    assert not (here / "other").exists()


def test_tuning_takes_the_same_data(here, capsys):
    (here / "train.txt").write_text(corpus(30) + "odd UH B-INTJ\n")  # one fold lacks the class
    base = ("tune", "chain-tagger", "--data", "train.txt", "--template", "template", "--folds", 2, "--jobs", 1)
    found = json.loads(ok(capsys, *base, "--grid", "C=0.01,1", "--grid", "tol=0.01", "--save", "m.ssvm", "--json"))
    sentences = rows((here / "train.txt").read_text())
    X, Y = [template_features(TEMPLATE, one) for one in sentences], [[row[2] for row in one] for one in sentences]
    for one in found["grid"]:
        scores = []
        for lo, hi in ((0, 16), (16, 31)):  # the folds of scikit-learn's KFold(2)
            part = [i for i in range(31) if not lo <= i < hi]
            tagger = ChainTagger(C=one["parameters"]["C"], tol=0.01, random_state=0)
            tagger.fit([X[i] for i in part], [Y[i] for i in part])
            pairs = [pair for a, b in zip(tagger.predict(X[lo:hi]), Y[lo:hi]) for pair in zip(a, b, strict=True)]
            scores.append(sum(a == b for a, b in pairs) / len(pairs))
        assert one["scores"] == pytest.approx(scores)
    assert "accuracy" in ok(capsys, "evaluate", "m.ssvm", "--data", "train.txt")
    assert "name a file with examples" in refused(capsys, "tune", "chain-tagger")
    assert "--groups" in refused(capsys, *base, "--groups", "g")
    assert "has no such parameter" in refused(capsys, *base, "--grid", "ordr=1,2")


def test_segments_are_labels_of_positions_in_columns(here, capsys):
    text = corpus(30).replace("B-NP", "NP").replace("I-NP", "NP")
    (here / "train.txt").write_text(text)
    trained(capsys, model="segment-tagger")
    out = rows(ok(capsys, "predict", "m.ssvm", "--data", "train.txt"))
    right = [row[2] == row[3] for one in out for row in one]
    assert sum(right) > 0.9 * len(right)
    found = json.loads(ok(capsys, "evaluate", "m.ssvm", "--data", "train.txt", "--json"))
    assert found["label-accuracy"] == sum(right) / len(right)


def test_shards_learn_the_same(here, capsys):
    reports = []
    for executor in ("threads", "stream"):
        more = ("--executor", executor, "--trainer", "bundle", "--json")
        reports.append(json.loads(trained(capsys, *more))["report"])
    low, high = (max(one["dual"] for one in reports), min(one["primal"] for one in reports))
    assert low <= high * (1 + 1e-9)
    assert all(one["certified"] for one in reports)


def test_the_commands_of_the_page_print_what_it_shows(here, capsys):
    page = (ROOT / "docs/howto/shell.md").read_text()
    blocks = [(found[1], found[2]) for found in FENCE.finditer(page)]
    (template,) = (text for _, text in blocks if text.startswith("U00:"))
    (here / "template").write_text(template)
    if "SSVM_DATA" in os.environ:
        with ZipFile(os.path.join(os.environ["SSVM_DATA"], "sequences/conll2000.zip")) as archive:
            sentences = archive.read("conll2000/train.txt").decode().split("\n\n")
            (here / "train.txt").write_text("\n\n".join(sentences[:1500]))  # all of them take 15 s
            (here / "test.txt").write_bytes(archive.read("conll2000/test.txt"))
    flowers = [f"{k % 7},{k % 5},{'iris' if k % 7 > 3 else 'rose'}" for k in range(35)]
    (here / "flowers.csv").write_text("\n".join(["width,height,species", *flowers]))
    (here / "new.csv").write_text("width,height\n6,1\n0,1\n")
    outputs = []
    for words in commands(ROOT / "docs/howto/shell.md"):
        if "tagger.crfsuite" not in words:  # a model of CRFsuite, which another test has
            outputs.append(ok(capsys, *words))
    assert (here / "predicted.csv").read_text() == "width,height,predicted\n6,1,iris\n0,1,rose\n"
    (shown,) = (text for language, text in blocks if language == "console")
    if "SSVM_DATA" in os.environ:
        assert tidy(outputs[2], "output") == tidy(shown, "output")
        assert outputs[2].startswith("processed 47377 tokens with 23852 phrases;")
        assert float(outputs[2].splitlines()[1].split()[-1]) > 89.0
    tagged = rows((here / "tagged.txt").read_text())
    truth, predicted = ([[row[k] for row in one] for one in tagged] for k in (-2, -1))
    assert outputs[2] == conlleval(truth, predicted)
