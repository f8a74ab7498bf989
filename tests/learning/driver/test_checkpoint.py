"""Fits that are killed and go on: the same weights, bit for bit."""

from __future__ import annotations

import os
import re
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import archives
import fresh
import small
from model_table import independent
from small import Case
from ssvm_dsl import StructuredSVM, __version__
from ssvm_dsl.errors import DataError, FileFormatError, OptionError, TrainingError
from ssvm_dsl.learning.driver import fit as driver
from ssvm_dsl.plugin_api import RiskSpec, TrainerSpec
from ssvm_dsl.registry import registry

DATA = Case(small.Word, n=12, C=2.0).make(0)
LOOPY = Case(small.Loopy).make(0)
BOUNDED = Case(small.Bounded, n=8).make(0)
COUNTED = Case(small.WordF1, n=8).make(0)

#: Prices that are kept from one oracle call to the next decide what so few calls find.
FEW_CALLS = {"max_nodes": 1, "max_iterations": 2, "max_entries": 4}
LOOSE = {"backend": "decompose", "guarantee": "bound", "backend_options": FEW_CALLS}

#: Trainers whose whole work is one solve: there is nothing to go on from.
ONE_SOLVE = {"lp-dual-qp"}

TRAINERS = [spec for spec in registry().specs(TrainerSpec) if spec.name not in ONE_SOLVE]

#: Those that keep most: the state of each, and of other options, goes through the kit in ``test_every_trainer``.
KEEPING = ["bcfw", "dlpw", "n-slack", "bundle", "perceptron", "lbfgs"]


def fit(data, trainer="bcfw", options=None, **other):
    spec = registry().find(TrainerSpec, trainer)
    risk = next(name for name in ("margin", "log", "relaxed") if spec.needs.minimises(registry().find(RiskSpec, name)))
    settings = {"risk": risk, "backend": "msd" if spec.needs.messages else "auto", "tol": 1e-9} | other
    svm = StructuredSVM(
        data.case.model, trainer=trainer, trainer_options=options or {}, random_state=1,
        **{"C": 2.0, "checkpoint_seconds": 0.0} | settings,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return svm.fit(data.X, data.Y, data.weight)


def same(a, b):
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert (a.report_.primal, a.report_.dual) == (b.report_.primal, b.report_.dual)
    anew = a.report_.n_passes - b.report_.n_passes  # a pass, where the objective kept in a file is computed anew
    assert anew in (0.0, 1.0)
    assert a.report_.n_oracle_calls - b.report_.n_oracle_calls in (0, a.report_.n_examples)
    assert [e.iteration for e in a.report_.history] == [e.iteration for e in b.report_.history]


class Killed(Exception):
    """Raised by a callback: nothing after it runs."""


def killed_at(iteration, *args, **other):
    """Fit until an iteration; return whether it was reached."""

    def callback(event):
        if event.iteration == iteration:
            raise Killed

    try:
        fit(*args, callbacks=[callback], **other)
    except Killed:
        return True
    return False


def in_pieces(file, data, *args, **other):
    """Fit with two stops on the way."""
    for iteration in (2, 3):
        assert killed_at(iteration, data, *args, checkpoint=file, **other)
        assert os.path.exists(file)
    killed_at(7, data, *args, checkpoint=file, **other)
    return fit(data, *args, checkpoint=file, **other)


def test_every_trainer_keeps_checkpoints():
    assert {spec.name for spec in TRAINERS if not spec.resumable} == set()


@pytest.mark.parametrize("trainer", KEEPING)
def test_a_fit_in_pieces_is_the_fit_in_one(trainer, tmp_path):
    whole = fit(DATA, trainer, max_passes=18)
    same(in_pieces(str(tmp_path / "fit.ckpt"), DATA, trainer, max_passes=18), whole)


@pytest.mark.parametrize(
    ("data", "trainer", "other"),
    [
        (LOOPY, "bcfw", {}),
        (LOOPY, "bcfw", {"risk": "relaxed", "backend": "lp", "guarantee": "bound"}),
        (LOOPY, "n-slack", {"risk": "relaxed", "backend": "lp", "guarantee": "bound"}),
        (LOOPY, "one-slack", {"risk": "relaxed", "backend": "lp", "guarantee": "bound"}),
        (LOOPY, "subgradient", {}),
        (LOOPY, "n-slack", {"risk": "slack", "power": 2.0}),
        (COUNTED, "bcfw", {}),
        (BOUNDED, "bcfw", {}),
        (BOUNDED, "bundle", {"risk": "hm"}),
        (BOUNDED, "one-slack", {"power": 2.0}),
        (BOUNDED, "lbfgs", {"max_passes": 14}),
        (BOUNDED, "bcfw", {"backend": "decompose"}),
        (LOOPY, "bcfw", LOOSE),
        (LOOPY, "subgradient", LOOSE),
    ],
    ids=lambda value: str(getattr(value, "case", value)),
)
def test_other_risks_and_models_in_pieces(data, trainer, other, tmp_path):
    settings = {"max_passes": 14} | other
    same(in_pieces(str(tmp_path / "fit.ckpt"), data, trainer, **settings), fit(data, trainer, **settings))


def test_a_warm_start_goes_on_in_pieces(tmp_path):
    for trainer in ("bcfw", "subgradient", "n-slack", "bundle", "lbfgs"):
        file = str(tmp_path / trainer)
        risk = "log" if trainer == "lbfgs" else "margin"
        first = StructuredSVM(small.Word, C=1.0, risk=risk, tol=0.1, random_state=0).set_params(
            trainer=trainer, max_passes=9, warm_start=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first.fit(DATA.X, DATA.Y)
            whole, begun = deepcopy(first), deepcopy(first)
            more = {"C": 2.0, "max_passes": 30, "tol": 1e-9}
            whole.set_params(**more).fit(DATA.X, DATA.Y)
            begun.set_params(**more, checkpoint=file, checkpoint_seconds=0.0)
            stopped = deepcopy(begun).set_params(callbacks=[lambda event: event.iteration == 2])
            assert stopped.fit(DATA.X, DATA.Y).report_.reason == "callback"
            same(begun.fit(DATA.X, DATA.Y), whole)


SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import load_letters

class OCR(Model):
    T = Dim()
    x = Input(T, 128)
    y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)

def fit(trainer, risk, file, callbacks=()):
    X, Y, *_ = load_letters(fold=1)
    svm = StructuredSVM(OCR, C=0.1, tol=0.0, random_state=0, trainer=trainer, risk=risk, max_passes=80)
    svm.set_params(checkpoint=file, checkpoint_seconds=0.0, n_threads=1, callbacks=callbacks)
    return svm.fit(X[:30], Y[:30])
"""


#: A fit that never ends, however late it is killed.
STUCK = """
import os, pathlib, time
pathlib.Path(sys.argv[3] + ".pid").write_text(str(os.getpid()))
seen = []
def wait(event):
    seen.append(event)
    if len(seen) == 25:
        time.sleep(600.0)
fit(*sys.argv[1:], callbacks=[wait])
"""


@pytest.mark.parametrize(("trainer", "risk", "kills"), [("bcfw", "margin", 2), ("lbfgs", "log", 1)])
def test_kill_minus_nine_and_resume(trainer, risk, kills, tmp_path):
    space = {"__name__": "script"}
    exec(SCRIPT, space)
    whole = space["fit"](trainer, risk, None)
    file = tmp_path / "fit.ckpt"
    command = ["-c", SCRIPT + STUCK, trainer, risk, file]
    before = None
    with ThreadPoolExecutor() as pool:
        for _ in range(kills):
            process = pool.submit(fresh.run, command)
            while (file.stat().st_mtime_ns if file.exists() else None) == before and not process.done():
                time.sleep(0.002)
            time.sleep(np.random.default_rng().uniform(0.0, 0.05))
            os.kill(int(Path(f"{file}.pid").read_text()), signal.SIGKILL)
            assert process.result().returncode == -signal.SIGKILL
            before = file.stat().st_mtime_ns
    resumed = space["fit"](trainer, risk, str(file))
    same(resumed, whole)
    assert len(resumed.report_.history) > 20


def test_a_limit_that_was_reached_ends_the_fit_again(tmp_path):
    file, options = str(tmp_path / "fit.ckpt"), {"step_size": 0.1}
    first = fit(DATA, "adam", options, max_passes=7, checkpoint=file)
    again = fit(DATA, "adam", options, max_passes=7, checkpoint=file)
    assert again.report_.reason == "passes"
    same(again, first)


def test_limits_may_be_raised(tmp_path):
    file = str(tmp_path / "fit.ckpt")
    assert not fit(DATA, max_passes=4, checkpoint=file, checkpoint_seconds=1e9).report_.converged
    assert Path(file).exists()  # a limit is a good moment to write
    done = fit(DATA, max_passes=4000, tol=1e-6, checkpoint=file)
    assert done.report_.converged
    assert done.report_.history[0].iteration == 1
    assert not Path(file).exists()


def refusal(file, data=DATA, **change):
    """Return the lines between the first and the last of a refusal: what differs."""
    with pytest.raises(TrainingError, match=r"a checkpoint of another fit:\n") as caught:
        fit(data, max_passes=3, checkpoint=file, **change)
    first, *lines, last = str(caught.value).splitlines()
    assert first.startswith(file)
    assert last == "to resume, restore that setting; to start over, delete the file or name another one"
    return [line.strip() for line in lines]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trainer": "subgradient"}, ["trainer: bcfw then, subgradient now"]),
        ({"options": {"keep": 3}}, ["trainer_options: keep: 2 then, 3 now"]),
        ({"regularization": {"trans": 2.0}}, [r"regularization .*: hash \w{16} then, hash \w{16} now"]),
        ({"risk": "hm"}, ["risk: margin then, hm now", "loss: additive, 1.0, hash .* then, ZeroOne, 1.0, hash .* now"]),
        ({"backend": "tree"}, ["backend: chain then, tree now"]),
        ({"C": 0.3}, ["C: 2.0 then, 0.3 now"]),
    ],
)  # fmt: skip
def test_another_fit_is_refused_and_says_what_differs(tmp_path, change, said):
    file = str(tmp_path / "fit.ckpt")
    fit(DATA, max_passes=3, checkpoint=file)
    found = refusal(file, **change)
    assert len(found) == len(said)
    assert all(re.fullmatch(text, line) for text, line in zip(said, found)), found


def test_another_version_is_refused(tmp_path, monkeypatch):
    file = str(tmp_path / "fit.ckpt")
    monkeypatch.setattr("ssvm_dsl.learning.driver.checkpoint.__version__", "0.0.9")
    fit(DATA, max_passes=3, checkpoint=file)
    monkeypatch.undo()
    assert refusal(file) == [f"ssvm-dsl: 0.0.9 then, {__version__} now"]


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    """A process that dies while it writes leaves the checkpoint before."""
    file = tmp_path / "fit.ckpt"
    fit(DATA, max_passes=4, checkpoint=str(file))
    before = file.read_bytes()

    def die(number):
        raise Killed

    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(Killed):
        fit(DATA, max_passes=40, checkpoint=str(file))
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["fit.ckpt"]


def test_a_certificate_that_was_withdrawn_stays_withdrawn(tmp_path, monkeypatch):
    file = str(tmp_path / "fit.ckpt")
    false = "a plane was false"
    monkeypatch.setattr(driver, "contradiction", lambda *told: false)
    assert fit(DATA, max_passes=3, checkpoint=file).report_.withdrawn == false
    monkeypatch.undo()
    assert fit(DATA, max_passes=6, checkpoint=file).report_.withdrawn == false


def test_a_fit_that_ended_by_itself_leaves_no_file(tmp_path):
    file = tmp_path / "fit.ckpt"
    X, Y = [np.eye(3)[:2], np.eye(3)[1:]], [[0, 1], [1, 2]]

    Easy = independent(3, 3)

    svm = StructuredSVM(Easy, trainer="perceptron", checkpoint=str(file), checkpoint_seconds=0.0, max_passes=1000)
    assert svm.fit(X, Y).report_.reason == "ended"
    assert not file.exists()


def test_other_data_are_refused(tmp_path):
    file = str(tmp_path / "fit.ckpt")
    fit(DATA, max_passes=3, checkpoint=file)
    parts = {"model and graphs of the examples", "features", "labels", "loss", "sample_weight"}
    assert {line.split(":")[0] for line in refusal(file, Case(small.Word, n=12, C=2.0).make(1))} <= parts
    relabelled = replace(DATA, Y=[DATA.Y[0][::-1], *DATA.Y[1:]])
    assert [line.split(":")[0] for line in refusal(file, relabelled)] == ["labels", "loss"]
    fewer = replace(DATA, X=DATA.X[:9], Y=DATA.Y[:9], weight=None if DATA.weight is None else DATA.weight[:9])
    assert "number of examples: 12 then, 9 now" in refusal(file, fewer)
    found = refusal(file, LOOPY)
    assert next(line for line in found if "number of weights" in line) not in refusal(file, BOUNDED)


@pytest.mark.parametrize("number", [10**400, 2**70, None, True])
def test_numbers_that_are_none_are_refused(number, tmp_path):
    file = tmp_path / "fit.ckpt"
    fit(DATA, max_passes=3, checkpoint=str(file))
    content, arrays = archives.parts(file.read_bytes())
    content["progress"]["primal"] = number
    file.write_bytes(archives.packed(content, arrays))
    with pytest.raises(FileFormatError, match="numbers"):
        fit(DATA, max_passes=9, checkpoint=str(file))


def test_weights_that_were_edited_are_blamed_on_the_file(tmp_path):
    file = tmp_path / "fit.ckpt"
    fit(DATA, max_passes=3, checkpoint=str(file))
    content, arrays = archives.parts(file.read_bytes())
    for name in ("state/planes.w", "state/planes.free", "state/average"):
        arrays[name][:] = 1e308
    file.write_bytes(archives.packed(content, arrays))
    with pytest.raises(FileFormatError, match="damaged, or not of these data; it leads to an error: input 'x'"):
        fit(DATA, max_passes=9, checkpoint=str(file))


def test_a_trainer_that_fails_on_a_state_blames_the_file(tmp_path, monkeypatch):
    """Numbers of a size that no check excludes may lead a solver to any exception, or a certificate to infinity."""
    from ssvm_trainers.cutting.aggregated_qp import AggregatedModel

    file = tmp_path / "fit.ckpt"
    fit(DATA, "one-slack", checkpoint=file, max_passes=2)

    def fail(*given):
        raise ValueError("zero-size array")

    def inf(*given):
        raise DataError("input 'x'", expected="features whose scores are numbers", found="inf")

    with monkeypatch.context() as patched:
        patched.setattr(AggregatedModel, "solve", fail)
        with pytest.raises(FileFormatError, match=r"fit\.ckpt: damaged, or not of these data.*zero-size array"):
            fit(DATA, "one-slack", checkpoint=file, max_passes=5)
    with monkeypatch.context() as patched:
        patched.setattr(driver.FitRun, "_conclude", inf)
        with pytest.raises(FileFormatError, match=r"fit\.ckpt: damaged, or not of these data"):
            fit(DATA, "one-slack", checkpoint=file, max_passes=5)


def test_files_that_could_not_be_written_are_refused(tmp_path):
    for path, text in ((tmp_path, "the folder"), (tmp_path / "none" / "fit.ckpt", "there is no folder"), (3, "got 3")):
        with pytest.raises(OptionError, match=f"checkpoint.*{text}"):
            fit(DATA, checkpoint=path)


@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_files_that_are_no_checkpoints_are_refused(tmp_path, content):
    file = tmp_path / "fit.ckpt"
    if content is None:
        np.savez(file.with_suffix(".npz"), json=np.frombuffer(b"{}", np.uint8))
        file.write_bytes(file.with_suffix(".npz").read_bytes())
    else:
        file.write_bytes(content)
    with pytest.raises(FileFormatError, match=str(file)):
        fit(DATA, max_passes=3, checkpoint=str(file))
