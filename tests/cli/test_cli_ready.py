"""Every ready model from the shell: train, predict, evaluate, info and report in each format that can hold its data."""

from __future__ import annotations

import json
import re
from itertools import accumulate

import numpy as np
import pytest
from pyarrow import table
from pyarrow.parquet import write_table
from test_cli_learn import here, ok, refused  # noqa: F401 (a fixture)

from foreign import inside
from ssvm_dsl import ParseTree, models
from ssvm_dsl.cli.learn.reading import FORMATS_OF, READY

RNG = np.random.default_rng(0)
WORDS = {"D": ["the", "a"], "N": ["dog", "cat"], "V": ["sees", "feeds"]}


def rows(n=12):
    return RNG.normal(size=(n, 2)).round(2)


def parts(n=8):
    """Sequences: each row says its class, with noise."""
    Y = [RNG.integers(2, size=int(RNG.integers(3, 6))) for _ in range(n)]
    return [(2.0 * np.eye(2)[y] + 0.3 * RNG.normal(size=(len(y), 2))).round(2) for y in Y], Y


def made(name):
    """Examples and labels as ``fit`` takes them."""
    X, Y = parts()
    named = [["NV"[k] for k in y] for y in Y]
    graphs = [{"x": x.tolist(), "edges": [[k, k + 1] for k in range(len(x) - 1)]} for x in X]
    if name in ("classifier", "multi-label"):
        x = rows()
        return x, (x > 0).astype(int) if name == "multi-label" else ["ab"[int(row[0] > 0)] for row in x]
    if name in ("chain-tagger", "segment-tagger"):
        return X, named
    if name == "ranker":
        return X, [np.argsort(np.argsort(-x[:, 0])) for x in X]
    if name == "graph-labeller":
        return graphs, named
    if name == "latent-graph":
        return graphs, ["big" if 2 * y.sum() > len(y) else "small" for y in Y]
    if name == "dependency-parser":
        kinds = [list("DNV"), list("DNVDN")] * 4
        return [([str(RNG.choice(WORDS[k])) for k in one], one) for one in kinds], [[1, 2, -1], [1, 2, -1, 4, 2]] * 4
    if name == "constituency-parser":
        lines = "(S (NP (D the) (N dog)) (VP (V sees)))", "(S (NP (N cat)) (VP (V feeds)))"
        trees = list(map(ParseTree.of, lines))
        return [list(one.words) for one in trees * 4], trees * 4
    shape = (4, 3, 3) if name == "matcher" else (4, 4, 5)
    y = np.stack([np.eye(3, dtype=int)[RNG.permutation(3)] for _ in range(4)])
    y = y if name == "matcher" else RNG.integers(2, size=shape)
    return (2.0 * np.eye(2)[y] + 0.3 * RNG.normal(size=(*y.shape, 2))).round(2), y


def write(name, form, X, Y):
    """Write a file in a format; return the arguments that the format asks for."""
    sequences = name not in ("classifier", "multi-label")
    blocks, labels = (X, Y) if sequences else ([X], [Y])
    labels = [] if name == "constituency-parser" else labels
    several = name == "multi-label"
    flat = [(i, row, y) for i, (x, ys) in enumerate(zip(blocks, labels)) for row, y in zip(x, ys)]
    if form == "jsonl":
        lines = [json.dumps({"x": plain(x), "y": plain(y)}) for x, y in zip(X, Y)]
    elif form == "npz":
        ptr = {"ptr": [0, *accumulate(map(len, X))]} if isinstance(X, list) else {}
        np.savez("data.npz", **(ptr | {"X": np.concatenate(X), "Y": np.concatenate(Y)} if ptr else {"X": X, "Y": Y}))
        return ()
    elif form == "parquet":
        columns = {key: [plain(x[key]) for x in X] for key in X[0]} if isinstance(X[0], dict) else {"x": plain(X)}
        write_table(table(columns | {"y": plain(Y)}), "data.parquet")
        return ()
    elif form == "csv":
        cells = [[*([f"s{i}"] if sequences else []), *row, *np.ravel(y)] for i, row, y in flat]
        head = [*(["s"] if sequences else []), "f", "g", *(("u", "v") if several else "y")]
        lines = [",".join(map(str, one)) for one in [head, *cells]]
    elif form == "svmlight":
        sets = [",".join(str(k) for k in range(2) if y[k]) if several else str(y) for _, _, y in flat]
        query = [f" qid:{i}" if sequences else "" for i, _, _ in flat]
        lines = [f"{y}{q} 1:{row[0]} 2:{row[1]}" for y, q, (_, row, _) in zip(sets, query, flat)]
    elif form == "conllu":
        lines = []
        for (words, kinds), heads in zip(X, Y):
            lines += ["# a comment", "1-2\tboth" + 8 * "\t_"]
            token = zip(range(1, 9), words, kinds, heads)
            lines += [f"{k}\t{w}\t_\t{tag}\t_\t_\t{head + 1}\tdep\t_\t_" for k, w, tag, head in token] + [""]
    elif form == "trees":
        lines = map(str, Y)
    elif form == "conll":
        lines = [line for x, y in zip(X, Y) for line in (*(f"{a[0]:.0f} {a[1]:.0f} {b}" for a, b in zip(x, y)), "")]
    else:
        lines = [line for x, y in zip(X, Y) for line in (*(f"{b}\ta:{a[0]}\tb:{a[1]}" for a, b in zip(x, y)), "")]
    with open(f"data.{form}", "w") as file:
        file.write("\n".join(lines) + "\n")
    if form != "csv" or name == "classifier":
        return ()
    return ("--label", "u", "--label", "v") if several else ("--sequence", "s")


def plain(value):
    if isinstance(value, ParseTree):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else np.asarray(value).tolist()


#: Other formats of these are in test_cli_formats.py, and images; Parquet is read as JSON lines are.
ELSEWHERE = ("classifier", "multi-label", "chain-tagger")
CASES = [
    (name, form) for name in READY for form in FORMATS_OF[name]
    if form == "jsonl" or not (form == "images" or name in ELSEWHERE)
    if form != "parquet" or name in ("segment-tagger", "graph-labeller", "matcher")
]  # fmt: skip


@pytest.mark.parametrize(("name", "form"), CASES)
def test_all_commands_of_a_ready_model(here, capsys, name, form):  # noqa: F811
    X, Y = made(name)
    data, more = f"data.{form}", write(name, form, X, Y)
    ok(capsys, "train", name, "--data", data, "--out", "m.ssvm", "--C", 1, "--tol", 0.1, "--max-passes", 20, *more)
    found = json.loads(ok(capsys, "evaluate", "m.ssvm", "--data", data, "--json"))
    ok(capsys, "predict", "m.ssvm", "--data", data, "--out", f"p.{form}")
    both = ("evaluate", "m.ssvm", "--data", data, "--predicted", f"p.{form}", "--json")
    assert json.loads(ok(capsys, *both)) == found
    if form == "jsonl":  # what Python does with the same examples
        svm = getattr(models, READY[name])(C=1.0, tol=0.1, max_passes=20, random_state=0).fit(X, Y)
        share = found[{"dependency-parser": "uas", "constituency-parser": "bracket-f1"}.get(name, "label-accuracy")]
        assert share == pytest.approx(svm.score(X, Y)) or name == "segment-tagger"
        assert plain(svm.predict(X)) == [json.loads(line)["y"] for line in (here / "p.jsonl").open()]
    if name in ("ranker", "dependency-parser", "constituency-parser"):
        assert found["classes"] == {}
    assert name in ok(capsys, "info", "m.ssvm")
    assert "examples" in ok(capsys, "info", data, *more)
    ok(capsys, "report", "m.ssvm", "--data", data)
    page = (here / "m.html").read_text("utf-8")
    assert f"{len(X)} examples, " in page
    assert "No data were given" not in page


def test_formats_that_cannot_hold_the_examples_are_refused(here, capsys):  # noqa: F811
    for name in READY:
        for form in {form for forms in FORMATS_OF.values() for form in forms} - set(FORMATS_OF[name]):
            (here / "data").write_text("1 2\n")
            base = ("train", name, "--data", "data", "--format", form, "--out", "m.ssvm")
            assert f"formats that can: {', '.join(FORMATS_OF[name])}" in refused(capsys, *base)
    X, Y = made("ranker")
    write("ranker", "svmlight", X, Y)
    words = refused(capsys, "train", "classifier", "--data", "data.svmlight", "--out", "m.ssvm")
    assert "leave out what tells sequences apart: qid:NAME" in words
    write("classifier", "csv", *made("classifier"))
    words = refused(capsys, "train", "chain-tagger", "--data", "data.csv", "--out", "m.ssvm")
    assert "tell sequences apart by --sequence NAME" in words


def test_sets_of_names(here, capsys):  # noqa: F811
    x = rows(20)
    lines = [json.dumps({"x": row, "y": [n for n, v in zip(["sea", "sun"], row) if v > 0]}) for row in x.tolist()]
    (here / "data.jsonl").write_text("\n".join(lines) + "\n")
    ok(capsys, "train", "multi-label", "--data", "data.jsonl", "--out", "m.ssvm", "--C", 10)
    out = ok(capsys, "predict", "m.ssvm", "--data", "data.jsonl").splitlines()
    expected = models.MultiLabel(C=10.0, random_state=0).fit(x, (x > 0).astype(int)).predict(x)
    assert [json.loads(line)["y"] for line in out] == [[n for n, v in zip(["sea", "sun"], y) if v] for y in expected]
    found = json.loads(ok(capsys, "evaluate", "m.ssvm", "--data", "data.jsonl", "--json"))
    right = (expected * (x > 0))[:, 1]
    assert found["classes"]["sun"] == pytest.approx(
        {"true": int((x[:, 1] > 0).sum()), "found": int(expected[:, 1].sum()), "right": int(right.sum())}
        | {key: found["classes"]["sun"][key] for key in ("precision", "recall", "f1")}
    )
    (here / "new.jsonl").write_text('{"x": [1, 2], "y": ["sea"]}\n{"x": [1, 2], "y": ["moon"]}\n')
    words = refused(capsys, "evaluate", "m.ssvm", "--data", "new.jsonl")
    assert "new.jsonl, line 2: expected labels of the training data, sea, sun, found 'moon'" in words


def test_segments_are_compared_as_spans(here, capsys):  # noqa: F811
    truth, found = [[[0, 2, "A"], [2, 3, "O"], [3, 5, "B"]]], [[[0, 2, "A"], [2, 5, "B"]]]
    for name, labels in (("t", truth), ("p", found)):
        (here / f"{name}.jsonl").write_text("".join(json.dumps({"x": [[1]] * 5, "y": y}) + "\n" for y in labels))
    out = ok(capsys, "evaluate", "--data", "t.jsonl", "--predicted", "p.jsonl")
    first = "processed 5 tokens with 2 phrases; found: 2 phrases; correct: 1."
    second = "accuracy:  80.00%; precision:  50.00%; recall:  50.00%; FB1:  50.00"
    assert out.splitlines()[:2] == [first, second]


TREES = [
    ("the\tD\t2\ncat\tN\n", "t.conllu, line 2: expected 3 columns, as before, found 2"),
    ("the\tD\t2\ncat\tN\t3\n", "t.conllu, line 2: expected the head of the word, 0 to 2, found '3'"),
    ("the\tD\t2\ncat\tN\t0\n\na\tD\tx\n", "t.conllu, line 4: expected the head of the word, 0 to 1, found 'x'"),
    ("a\tb\tc\td\te\n", "t.conllu, line 1: expected ten columns of CoNLL-U, or WORD TAG HEAD, found 5"),
    ("# nothing\n", "t.conllu: expected at least one sentence"),
]


@pytest.mark.parametrize(("text", "words"), TREES)
def test_trees_that_cannot_be_read_are_named(here, capsys, text, words):  # noqa: F811
    (here / "t.conllu").write_text(text)
    assert words in refused(capsys, "train", "dependency-parser", "--data", "t.conllu", "--out", "m.ssvm")


def test_the_page_names_lines_and_words(here, capsys):  # noqa: F811
    ok(capsys, "train", "chain-tagger", "--data", "train.txt", "--out", "m.ssvm", "--C", 1e-4)
    ok(capsys, "report", "m.ssvm", "--data", "test.txt", "-o", "page.html")
    page = (here / "page.html").read_text("utf-8")
    shown = re.search(r"<h3>Example (\d+), line (\d+) of test.txt: loss", page)
    sentence = (here / "test.txt").read_text().split("\n\n")[int(shown[1])]
    assert (here / "test.txt").read_text().splitlines()[int(shown[2]) - 1] == sentence.splitlines()[0]
    assert [line.split()[0] for line in sentence.splitlines()] == re.findall(r'"dim">(\S+)</span><br>', page)[
        : sentence.count("\n") + 1
    ]
    (here / "odd.txt").write_text((here / "test.txt").read_text() + "odd UH I-LST\n")
    status, _, err = inside(capsys, "report", "m.ssvm", "--data", "odd.txt", "-o", "odd.html")
    assert status == 0
    assert "1 of 21 examples have classes that the training data lack, the first at line" in err
    assert (here / "odd.html").read_text("utf-8").replace("odd.txt", "test.txt") == page
    assert "--format: for the examples" in refused(capsys, "report", "m.ssvm", "--format", "conll")
    assert "that file is read by this command" in refused(
        capsys, "report", "m.ssvm", "--data", "test.txt", "-o", "test.txt"
    )
