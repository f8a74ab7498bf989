"""Formats of data of ``ssvm train`` and others: the same model and the same answers whatever the format."""

from __future__ import annotations

import io
import itertools
import json
import sys
import zipfile

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from ctrl_c import python_hears_ctrl_c
from foreign import inside
from ssvm_dsl.models import ChainTagger, Classifier, MultiLabel

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 4)).round(3)
CLASSES = (ROWS @ RNG.normal(size=(4, 3))).argmax(axis=1)
SETS = (ROWS[:, :3] + 0.3 * RNG.normal(size=(60, 3)) > 0).astype(int)
SIZES = [0, 7, 9, 20, 33, 34, 60]


@pytest.fixture
def here(tmp_path, monkeypatch):
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


def write_csv(path, rows, labels, names=("y",), sequence=None):
    head = [*(["s"] if sequence is not None else []), "a", "b", "c", "d", *names]
    lines = [",".join(head)]
    for k, row in enumerate(rows):
        first = [] if sequence is None else [sequence[k]]
        lines.append(",".join(map(str, [*first, *row.tolist(), *np.ravel(labels[k]).tolist()])))
    path.write_text("\n".join(lines) + "\n")


def split(rows):
    return [rows[lo:hi] for lo, hi in itertools.pairwise(SIZES)]


def write_rows(path, form):
    """The rows and classes in a format; returns arguments that it asks for."""
    if form == "csv":
        write_csv(path, ROWS, CLASSES)
    elif form == "npz":
        np.savez(path, X=ROWS, Y=CLASSES)
    elif form == "svmlight":
        dump_svmlight_file(ROWS, CLASSES, str(path), zero_based=True)
    else:
        path.write_text("\n".join(json.dumps({"x": x, "y": y}) for x, y in zip(ROWS.tolist(), CLASSES.tolist())))


FITTED = ("--C", 1, "--tol", 1e-4)


@pytest.mark.parametrize("form", ["csv", "npz", "svmlight", "jsonl"])
def test_a_classifier_from_each_format(here, capsys, form):
    data = f"data.{form}"
    write_rows(here / data, form)
    ok(capsys, "train", "classifier", "--data", data, "--out", "m.ssvm", *FITTED)
    expected = Classifier(C=1.0, tol=1e-4, random_state=0).fit(ROWS, CLASSES).predict(ROWS)
    found = json.loads(ok(capsys, "evaluate", "m.ssvm", "--data", data, "--json"))
    assert found["label-accuracy"] == pytest.approx(np.mean(expected == CLASSES))
    ok(capsys, "predict", "m.ssvm", "--data", data, "--out", f"p.{form}")
    read = {
        "csv": lambda: [int(line.split(",")[-1]) for line in (here / "p.csv").read_text().splitlines()[1:]],
        "npz": lambda: np.load(here / "p.npz")["Y"].tolist(),
        "svmlight": lambda: list(map(int, (here / "p.svmlight").read_text().split())),
        "jsonl": lambda: [json.loads(line)["y"] for line in (here / "p.jsonl").read_text().splitlines()],
    }
    assert read[form]() == expected.tolist()
    both = ("evaluate", "--data", data, "--predicted", f"p.{form}", "--json")
    assert json.loads(ok(capsys, *both)) == found
    assert json.loads(ok(capsys, "evaluate", "m.ssvm", *both[1:])) == found


@pytest.mark.parametrize("form", ["csv", "npz", "svmlight", "jsonl"])
def test_sets_of_labels_from_each_format(here, capsys, form):
    data, more = f"data.{form}", ()
    if form == "csv":
        write_csv(here / data, ROWS, SETS, ("u", "v", "w"))
        more = ("--label", "u", "--label", "v", "--label", "w")
    elif form == "npz":
        np.savez(here / data, X=ROWS, Y=SETS)
    elif form == "svmlight":
        dump_svmlight_file(ROWS, csr_array(SETS), str(here / data), multilabel=True)
    else:
        lines = [json.dumps({"x": x, "y": y}) for x, y in zip(ROWS.tolist(), SETS.tolist())]
        (here / data).write_text("\n".join(lines))
    ok(capsys, "train", "multi-label", "--data", data, "--out", "m.ssvm", *FITTED, *more)
    rows = csr_array(ROWS) if form == "svmlight" else ROWS  # which are not standardised
    expected = MultiLabel(C=1.0, tol=1e-4, random_state=0).fit(rows, SETS).predict(rows)
    found = json.loads(ok(capsys, "evaluate", "m.ssvm", "--data", data, "--json"))
    assert found["label-accuracy"] == pytest.approx((expected == SETS).mean())
    assert found["exact-match"] == pytest.approx((expected == SETS).all(axis=1).mean())
    ok(capsys, "predict", "m.ssvm", "--data", data, "--out", f"p.{form}")
    both = ("evaluate", "m.ssvm", "--data", data, "--predicted", f"p.{form}", "--json")
    assert json.loads(ok(capsys, *both)) == found


@pytest.mark.parametrize("form", ["csv", "npz", "svmlight", "jsonl"])
def test_sequences_of_rows_from_each_format(here, capsys, form):
    data, more = f"data.{form}", ()
    names = np.array(["no", "yes"])[SETS[:, 0]]
    if form == "csv":
        write_csv(here / data, ROWS, names, sequence=np.repeat(np.arange(6), np.diff(SIZES)))
        more = ("--sequence", "s")
    elif form == "npz":
        np.savez(here / data, X=ROWS, Y=names, ptr=SIZES)
    elif form == "svmlight":
        dump_svmlight_file(ROWS, SETS[:, 0], str(here / data), query_id=np.repeat(np.arange(6), np.diff(SIZES)))
    else:
        pairs = zip(split(ROWS), split(names))
        (here / data).write_text("\n".join(json.dumps({"x": x.tolist(), "y": y.tolist()}) for x, y in pairs))
    ok(capsys, "train", "chain-tagger", "--data", data, "--out", "m.ssvm", *FITTED, *more)
    expected = ChainTagger(C=1.0, tol=1e-4, random_state=0).fit(split(ROWS), [y.tolist() for y in split(names)])
    score = expected.score(split(ROWS), [y.tolist() for y in split(names)])
    found = json.loads(ok(capsys, "evaluate", "m.ssvm", "--data", data, "--json"))
    assert found["label-accuracy"] == pytest.approx(score)
    assert found["n_examples"] == 6
    ok(capsys, "predict", "m.ssvm", "--data", data, "--out", f"p.{form}")
    both = ("evaluate", "m.ssvm", "--data", data, "--predicted", f"p.{form}", "--json")
    assert json.loads(ok(capsys, *both)) == found


def test_words_in_columns_of_a_table(here, capsys):
    words = ["the", "dog", "saw", "my", "cat"] * 6
    rows = [f"{k // 5};{word};{k % 3};{'N' if len(word) < 3 else 'V'}" for k, word in enumerate(words)]
    (here / "data.csv").write_text("\n".join(["s;word;n;tag", *rows]))
    ok(capsys, "train", "chain-tagger", "--data", "data.csv", "--sequence", "s", "--out", "m.ssvm", "--C", 10)
    assert "label-accuracy: 100.00%" in ok(capsys, "evaluate", "m.ssvm", "--data", "data.csv")
    out = ok(capsys, "predict", "m.ssvm", "--data", "data.csv")
    assert out.splitlines()[:2] == ["s;word;n;tag;predicted", "0;the;0;V;V"]


CHAINS = [("csv", ("svmlight", "npz", "jsonl", "csv")), ("svmlight", ("npz", "jsonl"))]


@pytest.mark.parametrize(("start", "forms"), CHAINS)
def test_rows_survive_conversions(here, capsys, start, forms):
    write_rows(here / f"0.{start}", start)
    before = f"0.{start}"
    for k, form in enumerate(forms, 1):
        ok(capsys, "convert", before, f"{k}.{form}")
        before = f"{k}.{form}"
    if before.endswith("csv"):
        assert np.allclose(np.loadtxt(before, delimiter=",", skiprows=1)[:, -5:], np.column_stack([ROWS, CLASSES]))
    else:
        found = [json.loads(line) for line in (here / before).read_text().splitlines()]
        assert np.allclose([one["x"] for one in found], ROWS)
        assert [one["y"] for one in found] == CLASSES.tolist()


def test_sequences_survive_conversions(here, capsys):
    np.savez(here / "0.npz", X=ROWS, Y=SETS[:, 0], ptr=SIZES)
    before = "0.npz"
    for k, form in enumerate(("csv", "svmlight", "npz", "jsonl"), 1):
        more = ("--sequence", "sequence") if before.endswith("csv") else ()
        ok(capsys, "convert", before, f"{k}.{form}", *more)
        before = f"{k}.{form}"
    found = [json.loads(line) for line in (here / before).read_text().splitlines()]
    for one, x, y in zip(found, split(ROWS), split(SETS[:, 0]), strict=True):
        assert np.allclose(np.array(one["x"])[:, -4:], x)
        assert one["y"] == y.tolist()


def test_svmlight_is_what_scikit_learn_reads(here, capsys):
    write_rows(here / "a.csv", "csv")
    ok(capsys, "convert", "a.csv", "b.svmlight")
    X, y = load_svmlight_file(str(here / "b.svmlight"))
    assert np.allclose(X.toarray(), ROWS)
    assert y.tolist() == CLASSES.tolist()


def test_named_features_survive_conversions(here, capsys):
    (here / "a.txt").write_text("the DT B-NP\ndog:s N\\N I-NP\n\nruns VB B-VP\n")
    (here / "t").write_text("U0:%x[0,0]\nU1:%x[0,1]/%x[-1,1]\nB\n")
    ok(capsys, "convert", "a.txt", "b.crfsuite", "--template", "t")
    assert (here / "b.crfsuite").read_text().splitlines() == [
        "B-NP\tU0\\:the\tU1\\:DT/_B-1", "I-NP\tU0\\:dog\\:s\tU1\\:N\\\\N/DT", "", "B-VP\tU0\\:runs\tU1\\:VB/_B-1", "",
    ]  # fmt: skip
    ok(capsys, "convert", "b.crfsuite", "c.jsonl")
    found = [json.loads(line) for line in (here / "c.jsonl").read_text().splitlines()]
    assert found[0] == {"x": [{"U0:the": 1.0, "U1:DT/_B-1": 1.0}, {"U0:dog:s": 1.0, "U1:N\\N/DT": 1.0}],
                        "y": ["B-NP", "I-NP"]}  # fmt: skip
    ok(capsys, "convert", "c.jsonl", "d.crfsuite")
    assert (here / "d.crfsuite").read_text() == (here / "b.crfsuite").read_text()


def test_crfsuites_format_and_conll_give_one_model(here, capsys):
    (here / "a.txt").write_text("the DT B-NP\ndog NN I-NP\n\nshe PR B-NP\nruns VB B-VP\n\nruns VB B-VP\n")
    ok(capsys, "convert", "a.txt", "a.crfsuite")
    reports = []
    for name in ("a.txt", "a.crfsuite"):
        out = ok(capsys, "train", "chain-tagger", "--data", name, "--out", "m.ssvm", "--tol", 1e-6, "--json")
        reports.append(json.loads(out)["report"])
    assert reports[0]["n_weights"] == reports[1]["n_weights"]
    assert reports[0]["primal"] == pytest.approx(reports[1]["primal"], rel=1e-5)
    assert ok(capsys, "predict", "m.ssvm", "--data", "a.crfsuite") == "B-NP\nI-NP\n\nB-NP\nB-VP\n\nB-VP\n\n"


def test_images_with_masks(here, capsys):
    image = pytest.importorskip("PIL.Image")
    for folder in ("train/images", "train/masks", "new/images"):
        (here / folder).mkdir(parents=True)
    masks = {}
    for k in range(4):
        mask = np.zeros((12, 10), dtype=np.uint8)
        mask[2 + k : 8 + k, 3:8] = 1
        colours = np.where(mask[..., None], [200, 60, 50], [40, 120, 200]) + RNG.integers(0, 30, (12, 10, 3))
        masks[str(k)] = mask
        image.fromarray(colours.astype(np.uint8)).save(here / f"train/images/{k}.png")
        image.fromarray(colours.astype(np.uint8)).save(here / f"new/images/{k}.png")
        image.fromarray(mask).save(here / f"train/masks/{k}.png")
    ok(capsys, "train", "grid-segmenter", "--data", "train", "--out", "m.ssvm", "--C", 1, "--tol", 0.01)
    ok(capsys, "predict", "m.ssvm", "--data", "new", "--out", "found")
    assert sorted(one.name for one in (here / "found").iterdir()) == [f"{k}.png" for k in range(4)]
    same = [np.array(image.open(here / "found" / f"{k}.png")) == masks[str(k)] for k in range(4)]
    assert np.mean(same) > 0.95
    found = json.loads(ok(capsys, "evaluate", "--data", "train", "--predicted", "found", "--json"))
    assert found["label-accuracy"] == pytest.approx(np.mean(same))
    assert found["mean-iou"] > 0.9
    assert "got the folder 'found'" in refused(capsys, "predict", "m.ssvm", "--data", "new", "--out", "found")
    (here / "train/masks/2.png").unlink()
    assert "expected a mask train/masks/2.png, found none" in refused(
        capsys, "train", "grid-segmenter", "--data", "train", "--out", "x.ssvm"
    )
    (here / "new/images/9.png").write_bytes(b"no image")
    assert "9.png: expected an image" in refused(capsys, "predict", "m.ssvm", "--data", "new", "--out", "other")
    assert not (here / "other").exists()


MODEL = """
from ssvm_dsl import *

class Word(Model):
    N, M = Dim(), Dim()
    x    = Input(N, 2)
    e    = Edges(M, over=N)
    y    = Label(N, ["low", "high"])
    node = Factor(y, features=x)
    edge = Factor(along(y, e))
    loss = Hamming(y)

svm = StructuredSVM(Word, C=5.0)
"""


@pytest.mark.parametrize("place", ["words.py:Word", "words.py:svm"])
def test_a_model_of_ones_own(here, capsys, place):
    (here / "words.py").write_text(MODEL)
    lines = []
    for _ in range(10):
        x = RNG.normal(size=(3, 2)).round(2)
        y = np.array(["low", "high"])[(x[:, 0] > 0).astype(int)].tolist()
        lines.append(json.dumps({"x": {"x": x.tolist(), "e": [[0, 1], [1, 2]]}, "y": y}))
    (here / "data.jsonl").write_text("\n".join(lines) + "\n")
    ok(capsys, "train", place, "--data", "data.jsonl", "--out", "m.ssvm")
    assert f"model       {place}" in ok(capsys, "info", "m.ssvm")
    assert json.loads(ok(capsys, "evaluate", "m.ssvm", "--data", "data.jsonl", "--json"))["label-accuracy"] > 0.8
    lines[3] = json.dumps({"x": {"x": [[1, 2], [3, 4]], "e": [[0, 5]]}, "y": ["low", "low"]})
    (here / "bad.jsonl").write_text("\n".join(lines) + "\n")
    err = refused(capsys, "train", place, "--data", "bad.jsonl", "--out", "m.ssvm")
    assert "example 3 (counted from 0) begins at line 4 of bad.jsonl" in err


OWN = """
import signal
import numpy as np
from ssvm_dsl import *

def squares(x):
    return np.concatenate([x, x**2], axis=1)

class Word(Model):
    T     = Dim()
    x     = Input(T, 4)
    y     = Label(T, 2)
    f     = Feature(squares, T, width=8)
    node  = Factor(y, features=f)
    trans = Factor(chain(y))
    loss  = Hamming(y)

class Nameless(Word):
    g     = Feature(lambda x: x, Word.T, width=4)
    other = Factor(Word.y, features=g)

def press(event):
    signal.raise_signal(signal.SIGINT)

stopped = StructuredSVM(Word, tol=1e-12, callbacks=[press], checkpoint_seconds=0)
"""


@pytest.fixture
def own(here, monkeypatch):
    """A file with models of its own that call functions; its modules are forgotten afterwards."""
    (here / "own_model.py").write_text(OWN)
    np.savez(here / "data.npz", X=ROWS, Y=SETS[:, 0], ptr=SIZES)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "own_model.py"
    for name in [name for name in sys.modules if "own_model" in name]:
        del sys.modules[name]


def test_functions_of_a_model_are_trusted_by_name(own, here, capsys):
    base = ("--data", "data.npz", "--out", "m.ssvm")
    ok(capsys, "train", f"{own}:Word", *base)
    del sys.modules["own_model"]
    evaluate = ("evaluate", "m.ssvm", "--data", "data.npz")
    assert "--trust MODULE:NAME" in refused(capsys, *evaluate)
    assert "label-accuracy" in ok(capsys, *evaluate, "--trust", "own_model:squares")
    err = refused(capsys, "train", f"{own}:Nameless", *base)
    assert "cannot be written to a file" in err
    assert "fit" not in err.split()  # refused before any work


def test_ctrl_c_keeps_the_best_model_so_far(own, here, capsys):
    with python_hears_ctrl_c():
        status, out, err = inside(capsys, "train", f"{own}:stopped", "--data", "data.npz", "--out", "m.ssvm")
    assert status == 130
    assert "the best model so far is kept" in err
    assert "saved       m.ssvm" in out
    assert "interrupted" in ok(capsys, "info", "m.ssvm", "--trust", "own_model:squares")


def test_what_ctrl_c_ended_resumes(own, here, capsys):
    base = ("--data", "data.npz", "--out", "m.ssvm", "--tol", 1e-4)
    with python_hears_ctrl_c():
        assert inside(capsys, "train", f"{own}:stopped", *base, "--checkpoint", "state")[0] == 130
    state = (here / "state").read_bytes()
    (here / "half").write_bytes(state[: len(state) // 2])
    words = refused(capsys, "train", f"{own}:Word", *base, "--checkpoint", "half")
    assert "half: not a checkpoint, or damaged" in words
    assert "to start over, delete the file" in words
    words = refused(capsys, "train", f"{own}:Word", *base, "--checkpoint", "state", "--C", 7)
    assert "a checkpoint of another fit" in words
    assert (here / "state").read_bytes() == state
    resumed = json.loads(ok(capsys, "train", f"{own}:Word", *base, "--checkpoint", "state", "--json"))["report"]
    whole = json.loads(ok(capsys, "train", f"{own}:Word", *base, "--json"))["report"]
    assert resumed["n_passes"] == whole["n_passes"]
    assert resumed["primal"] == whole["primal"]
    assert not (here / "state").exists()


BAD = [
    ("csv", "", "data.csv: expected a header with names of columns, found an empty file"),
    ("csv", "a,b\n", "data.csv: expected at least one row below the header, found none"),
    ("csv", "1,2\n3,4\n", "data.csv, line 1: expected a header with the names of columns"),
    ("csv", "a,a\n3,4\n", "data.csv, line 1: expected columns with different names, found 'a' twice"),
    ("csv", "a,y\n1,u\n2\n", "data.csv, line 3: expected 2 columns, as in the header, found 1"),
    ("csv", "a,y\n1,u\nred,v\n", "data.csv, line 3: expected a number in column 'a', found 'red'"),
    ("csv", "a,y\n1,u\nnan,v\n", "data.csv, line 3: expected a number in column 'a', found 'nan'"),
    ("csv", 'a,y\n1,u\n"2,v\n', "data.csv, line 3: expected columns, with quotes in pairs"),
    ("csv", "a\n1\n", "expected at least one column besides the label"),
    ("jsonl", "", "data.jsonl: expected at least one line with an object, found none"),
    ("jsonl", '{"x": [1], "y": 0}\n{"x": [1\n', "data.jsonl, line 2: expected a JSON object"),
    ("jsonl", '{"x": [1], "y": 0}\n[1]\n', "data.jsonl, line 2: expected an object with an entry"),
    ("jsonl", '{"x": [1], "y": 0}\n{"x": [1]}\n', "data.jsonl, line 2: expected an object with 'y'"),
    ("jsonl", 100000 * "[", "data.jsonl, line 1: expected a JSON object"),
    ("svmlight", "# nothing\n", "expected at least one line LABEL INDEX:VALUE"),
    ("svmlight", "1 1:0.5\n2 1:x\n", "data.svmlight, line 2: expected LABEL INDEX:VALUE"),
    ("svmlight", "1 -1:0.5\n", "data.svmlight, line 1: expected LABEL INDEX:VALUE"),
    ("svmlight", "1 1:inf\n", "data.svmlight, line 1: expected LABEL INDEX:VALUE"),
    ("svmlight", "1 qid:1 1:1\n2 qid:2 1:1\n1 qid:1 1:1\n", "line 3: expected all lines of qid:1 together"),
    ("svmlight", "1 qid:1 1:1\n2 1:1\n", "line 2: expected qid:NAME on all lines or on none"),
    ("svmlight", "1 1:1\n2:1\n", "line 2: expected a label first"),
    ("crfsuite", "A\tw:x\n", "data.crfsuite, line 1: expected an attribute NAME or NAME:NUMBER, found 'w:x'"),
    ("npz", "no archive", "data.npz: expected an npz file with arrays X and Y"),
]


@pytest.mark.parametrize(("form", "content", "words"), BAD)
def test_bad_lines_are_named(here, capsys, form, content, words):
    (here / f"data.{form}").write_text(content)
    model = "chain-tagger" if form == "crfsuite" else "classifier"
    assert words in refused(capsys, "train", model, "--data", f"data.{form}", "--out", "m.ssvm")
    assert not (here / "m.ssvm").exists()


@pytest.mark.parametrize("form", ["conll", "crfsuite", "jsonl", "csv", "npz", "svmlight"])
def test_random_bytes_are_refused(here, capsys, form):
    rng = np.random.default_rng(1)
    for size in (1, 30, 4000):
        (here / "data").write_bytes(rng.bytes(size))
        args = ("--data", "data", "--format", form, "--out", "m.ssvm")
        assert "data" in refused(capsys, "train", "chain-tagger", *args)


def test_archives_are_not_unpickled_nor_unpacked_beyond_memory(here, capsys, monkeypatch):
    base = ("train", "classifier", "--data", "data.npz", "--out", "m.ssvm")
    np.savez(here / "data.npz", X=np.array([{}, {}], dtype=object), Y=[0, 1])
    assert "Object arrays cannot be loaded" in refused(capsys, *base)
    for arrays, words in (
        ({"Y": [1]}, "expected an array X"),
        ({"X": np.ones((3, 2)), "Y": [0, 1]}, "expected Y of 3 rows, as in X, found shape (2,)"),
        ({"X": np.ones((3, 2)), "Y": [0, 1, 1], "ptr": [0, 2, 1, 3]}, "expected ptr to rise from 0 to 3"),
        ({"X_data": [1.0], "X_indices": [9], "X_indptr": [0, 1], "X_shape": [1, 2]}, "parts of a sparse matrix"),
    ):
        np.savez(here / "data.npz", **arrays)
        assert words in refused(capsys, *base)
    monkeypatch.setattr("ssvm_dsl.memory.free_memory", lambda: 1e8)
    with zipfile.ZipFile(here / "data.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", b"\0" * 200_000_000)
    assert "split it into smaller files" in refused(capsys, *base)


def test_new_data_have_the_features_of_training(here, capsys):
    write_rows(here / "data.csv", "csv")
    ok(capsys, "train", "classifier", "--data", "data.csv", "--out", "m.ssvm", *FITTED)
    (here / "new.csv").write_text("d,b,e,a,c\n1,2,3,4,5\n")  # another order, another column, no label
    assert ok(capsys, "predict", "m.ssvm", "--data", "new.csv").startswith("d,b,e,a,c,predicted\n1,2,3,4,5,")
    (here / "new.csv").write_text("d,b,e,a\n1,2,3,4\n")
    assert "expected a column 'c' (a feature in training)" in refused(capsys, "predict", "m.ssvm", "--data", "new.csv")


def test_info_of_models_and_data(here, capsys):
    write_rows(here / "data.csv", "csv")
    found = json.loads(ok(capsys, "info", "data.csv", "--json"))
    assert (found["examples"], found["labels"], found["different"]) == (60, 60, 3)
    assert "classes" in ok(capsys, "info", "data.csv")
    ok(capsys, "train", "classifier", "--data", "data.csv", "--out", "m.ssvm", *FITTED)
    found = json.loads(ok(capsys, "info", "m.ssvm", "--json"))
    assert found["model"] == "classifier"
    assert found["weights"] == 15
    assert "certified" in found["report"]
    write_rows(here / "data.npz", "npz")
    assert json.loads(ok(capsys, "info", "data.npz", "--json"))["format"] == "npz"


def test_a_model_saved_in_python_predicts(here, capsys):
    Classifier(C=1.0, random_state=0).fit(ROWS, CLASSES).save("m.ssvm")
    write_rows(here / "data.csv", "csv")
    assert "label-accuracy" in ok(capsys, "evaluate", "m.ssvm", "--data", "data.csv")
    assert "Classifier" in ok(capsys, "info", "m.ssvm")


def test_a_model_of_the_command_loads_in_python(here, capsys):
    write_rows(here / "data.csv", "csv")
    ok(capsys, "train", "classifier", "--data", "data.csv", "--out", "m.ssvm", *FITTED)
    loaded = Classifier.load("m.ssvm")
    out = ok(capsys, "predict", "m.ssvm", "--data", "data.csv").splitlines()[1:]
    assert loaded.predict(ROWS).tolist() == [int(line.split(",")[-1]) for line in out]


def test_binary_output_is_no_text(here, capsys, monkeypatch):
    write_rows(here / "data.npz", "npz")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((here / "data.npz").read_bytes())))
    args = ("--data", "-", "--format", "npz", "--out", "m.ssvm")
    ok(capsys, "train", "classifier", *args, *FITTED)
    assert "standard output takes text only" in refused(capsys, "predict", "m.ssvm", "--data", "data.npz")
    (here / "a.crfsuite").write_text("A\tw\n")
    for form in ("csv", "npz", "svmlight", "conll", "images", "conllu"):
        assert "jsonl" in refused(capsys, "convert", "a.crfsuite", f"b.{form}", "--to", form)
        assert not (here / f"b.{form}").exists()
