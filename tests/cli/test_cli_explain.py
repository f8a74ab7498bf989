"""``ssvm explain``: the user's file, made-up examples, and what the backends say."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

import model_table
from foreign import LAZY, distribution, inside, ssvm_here
from ssvm_dsl.cli.explain.command import with_all_weights, without_features
from ssvm_dsl.cli.explain.examples import import_file, make_examples
from ssvm_dsl.compiler import ground
from ssvm_dsl.inference.planning.planner import need_of, plan
from ssvm_dsl.ir import Guarantee, Task
from ssvm_dsl.plugin_api import program_need

FILE = """
import helper
import numpy as np
from ssvm_dsl import *

print("hello from the file")

class OCR(Model):
    T     = Dim()
    x     = Input(T, 12)
    y     = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit  = Factor(y, features=x)
    trans = Factor(chain(y))
    loss  = Hamming(y)

class Whole(OCR):
    loss = ZeroOne(OCR.y)

class Found(OCR):
    loss = CountLoss(OCR.y, "iou", positive="q")

class Plain(Model):
    y = Label(3)
    x = Input(2)
    f = Factor(y, features=x)

class Big(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 5)
    data = Factor(y, features=x)
    net = Factor(grid(y))
    loss = CountLoss(y, positive=1)

class Graph(Model):
    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N)
    y = Label(N, 2)
    node = Factor(y, features=x)
    edge = Factor(along(y, e), form=POTTS)
    loss = Hamming(y)

def picky(x):
    if x.min() < 0:
        raise ValueError("no negative numbers here")
    return x[:, :1]

class Picky(OCR):
    more = Factor(OCR.y, features=Feature(picky, OCR.T, width=1))

def examples():
    print("reading")
    return [np.ones((t, 12)) for t in (3, 30)]

words = [np.ones((2, 12))]

def broken():
    raise OSError("no such database")
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))  # the command adds the folder of the file
    for name in ("my_models", "helper"):
        monkeypatch.setitem(sys.modules, name, None)  # to have it removed again
        del sys.modules[name]
    (tmp_path / "helper.py").write_text("")
    path = tmp_path / "my_models.py"
    path.write_text(FILE)
    return path


def explained(capsys, *arguments):
    status, out, _ = inside(capsys, "explain", "--json", *arguments)
    return status, json.loads(out)


def test_a_chain_is_explained(capsys, file):
    status, told = explained(capsys, f"{file}:OCR", "--size", "T=20", "--examples", "5")
    assert (status, told["model"], told["n_weights"], told["note"]) == (0, "OCR", 12 * 26 + 26 * 26, "")
    assert (told["size"]["n_examples"], told["size"]["n_variables"]) == (5, 100)
    assert told["predict"]["backend"] == told["train"]["backend"] == "chain"
    assert told["predict"]["reason"].startswith("chain: exact for disjoint chains")
    assert told["predict"]["need"]["tasks"] == ["map"]
    by_name = {one["name"]: one for one in told["predict"]["candidates"]}
    assert by_name["tree"]["fits"]
    assert not by_name["brute-force"]["fits"]
    assert "labellings" in by_name["brute-force"]["reasons"][0]


def test_the_answers_are_the_planners(capsys, file):
    _, told = explained(capsys, f"{file}:OCR", "--data", "examples")
    from my_models import OCR, examples

    chosen = plan(need_of(ground(OCR, examples()).parameters, frozenset({Task.MAP}), Guarantee.EXACT))
    assert told["predict"]["reason"] == chosen.reason
    shown = [(one["name"], one["fits"], one["reasons"]) for one in told["predict"]["candidates"]]
    assert shown == [(one.name, one.ok, list(one.reasons)) for one in chosen.candidates]


def test_the_zero_one_loss_asks_for_two_labellings(capsys, file):
    _, told = explained(capsys, f"{file}:Whole")
    assert told["predict"]["need"]["tasks"] == ["map"]
    assert told["train"]["need"]["tasks"] == ["kbest"]


def test_losses_of_counts_ask_for_backends_that_count(capsys, file):
    _, told = explained(capsys, f"{file}:Found")
    assert "loss  = CountLoss(y, 'iou', positive='q')" in told["text"]
    candidates = {one["name"]: one for one in told["train"]["candidates"]}
    assert told["train"]["backend"] == "chain"
    assert {name for name, one in candidates.items() if one["fits"]} <= {"chain", "tree", "brute-force"}
    assert candidates["junction-tree"]["reasons"] == ["does not find best labellings by counts"]


def test_without_a_loss_there_is_no_training(capsys, file):
    status, told = explained(capsys, f"{file}:Plain")
    assert status == 0
    assert "train" not in told


def test_when_nothing_fits_the_status_is_one(capsys, file):
    status, told = explained(capsys, f"{file}:Big", "--size", "H=20", "--size", "W=20")
    assert status == 1  # best labellings by counts on a large grid: nobody finds them
    assert told["predict"]["backend"] is not None
    assert told["train"]["backend"] is None
    assert not any(one["fits"] for one in told["train"]["candidates"])
    assert inside(capsys, "explain", f"{file}:Big", "--size", "H=20", "--size", "W=20")[0] == 1


def test_edge_lists_can_be_trees(capsys, file):
    assert explained(capsys, f"{file}:Graph", "--size", "N=30", "--trees")[1]["predict"]["backend"] == "tree"
    assert explained(capsys, f"{file}:Graph", "--size", "N=30")[1]["predict"]["backend"] != "tree"


def test_a_feature_function_that_fails_is_left_out(capsys, file):
    status, told = explained(capsys, f"{file}:Picky")
    assert (status, told["train"]["backend"]) == (0, "chain")
    assert "ValueError: no negative numbers here" in told["note"]
    assert explained(capsys, f"{file}:Picky", "--data", "examples")[1]["note"] == ""


def test_the_users_own_examples(capsys, file):
    assert explained(capsys, f"{file}:OCR", "--data", "examples")[1]["size"]["n_variables"] == 33
    assert explained(capsys, f"{file}:OCR", "--data", "words")[1]["size"]["n_variables"] == 2


def test_people_see_model_size_and_reasons(capsys, file):
    status, out, err = inside(capsys, "explain", f"{file}:OCR", "--size", "T=9")
    assert status == 0
    assert "trans = Factor(chain(y))" in out
    assert "w[26, 26]" in out
    assert "27 variables" in out
    assert "auto takes chain: exact for disjoint chains" in out
    assert "To train (scores with the loss added): the same" in out
    assert "hello from the file" in err
    assert "hello" not in out
    assert "no backend" in inside(capsys, "explain", f"{file}:Big", "--size", "H=20", "--size", "W=20")[1]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["{file}"], "its models are: OCR, Whole, Found, Plain, Big, Graph, Picky"),
        (["{file}:OCX"], "there is no model 'OCX'; its models are: OCR"),
        (["{file}:picky"], "there is no model 'picky'"),
        (["nowhere.py:OCR"], "nowhere.py: there is no such file; expected FILE.py"),
        (["{file}:OCR", "--size", "Q=3"], "--size Q=...: the ragged axes of OCR are: T"),
        (["{file}:OCR", "--data", "nothing"], "has no 'nothing'"),
        (["{file}:OCR", "--data", "broken"], "OSError: no such database"),
        (["{file}:Graph", "--size", "N=1", "--size", "M=2"], "an edge joins two positions"),
        (["{file}:Graph", "--size", "N=3", "--size", "M=3", "--trees"], "3 edges over 3 positions are no tree"),
        (["{file}:Plain", "--data", "words"], "input 'x', example 0: expected shape (2,), found shape (2, 12)"),
    ],
)
def test_one_clear_message(capsys, file, arguments, word):
    status, out, err = inside(capsys, "explain", *(text.format(file=file) for text in arguments))
    assert (status, out) == (2, "")
    assert word in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("x = 1\ny = x / 0\n", ", line 2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(4)\n", ", line 2: SystemExit: 4"),
        ("def f(:\n", "SyntaxError"),
        ("from ssvm_dsl import *\nclass M(Model):\n    y = Label(0)\n    f = chain(y)\n", "model M has 3 mistakes"),
        ("x = 1\n", "its models are: none"),
    ],
)
def test_files_with_mistakes(capsys, tmp_path, monkeypatch, source, word):
    path = tmp_path / "with_mistakes.py"
    path.write_text(source)
    monkeypatch.chdir(tmp_path)
    for name in (path, path.name):
        status, _, err = inside(capsys, "explain", name)
        assert status == 2
        assert word in err


def test_a_file_is_run_as_it_is_now(tmp_path):
    """Two versions of one size, changed in the same second: what Python keeps as bytecode cannot tell them apart."""
    path = tmp_path / "changing.py"
    for value in ("1", "2"):
        path.write_text(f"x = {value}\n")
        os.utime(path, (1e9, 1e9))
        assert str(import_file(path).x) == value
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_file_with_one_model_needs_no_name(capsys, tmp_path):
    path = tmp_path / "json.py"  # a name that is taken
    text = "from ssvm_dsl import *\nclass M(Model):\n    x = Input(2)\n    y = Label(2)\n    f = Factor(y)\n"
    path.write_text(text)
    assert explained(capsys, path)[1]["model"] == "M"
    assert json.loads("[1]") == [1]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_model_is_drawn(capsys, tmp_path, file, ending):
    path = tmp_path / f"drawn.{ending}"
    assert inside(capsys, "explain", f"{file}:OCR", "--size", "T=4", "--plot", path)[0] == 0
    head = path.read_bytes()[:400]
    assert head.startswith(b"\x89PNG") if ending == "png" else b"<svg" in head or b"<!DOCTYPE svg" in head


def test_drawings_of_no_known_kind_are_refused(capsys, tmp_path, file):
    status, _, err = inside(capsys, "explain", f"{file}:OCR", "--plot", tmp_path / "drawn.xyz")
    assert status == 2
    assert "--plot: expected a file that ends in one of" in err


def test_foreign_backends_are_shown_and_not_chosen(tmp_path, file):
    distribution(tmp_path, "lazy", LAZY)
    told = json.loads(ssvm_here("explain", f"{file}:OCR", "--json", path=tmp_path).stdout)
    lazy = next(one for one in told["predict"]["candidates"] if one["name"] == "lazy")
    assert lazy["fits"]
    assert not lazy["auto"]
    assert told["predict"]["backend"] == "chain"
    assert "not for auto: name it" in ssvm_here("explain", f"{file}:OCR", path=tmp_path).stdout
    bundled = json.loads(ssvm_here("explain", f"{file}:OCR", "--json", "--no-plugins", path=tmp_path).stdout)
    assert "lazy" not in [one["name"] for one in bundled["predict"]["candidates"]]


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda model: model.__name__)
def test_made_up_examples_fit_every_model(model, trees):
    X = make_examples(model.declaration, 3, {}, trees=trees)
    declaration = with_all_weights(model.declaration)  # which weights there are takes labels
    grounded = ground(declaration, X)
    assert grounded.n_examples == 3
    bare = ground(without_features(model.declaration), X)
    assert program_need(bare.program) == program_need(grounded.program)
    again = make_examples(model.declaration, 3, {}, trees=trees)
    assert np.array_equal(ground(declaration, again).program.var_ptr, grounded.program.var_ptr)
