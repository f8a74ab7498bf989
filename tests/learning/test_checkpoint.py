"""Fits that are killed and go on: the same weights, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import small
from small import Case

from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import FileFormatError, TrainingError

DATA = Case(small.Word, n=12, C=2.0).make(0)
LOOPY = Case(small.Loopy).make(0)

TRAINERS = [
    ("bcfw", {}),
    ("bcfw", {"averaging": True, "sampling": "uniform"}),
    ("subgradient", {}),
    ("subgradient", {"order": "batch", "averaging": "none"}),
    ("subgradient", {"metric": "newton"}),
    ("subgradient", {"radius": "pegasos"}),
]


def fit(data, trainer="bcfw", options=None, **other):
    svm = StructuredSVM(
        data.case.model, C=2.0, tol=other.pop("tol", 1e-9), trainer=trainer, trainer_options=options or {},
        random_state=1, checkpoint_seconds=0.0, **other,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return svm.fit(data.X, data.Y, data.weight)


def same(a, b):
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert (a.report_.primal, a.report_.dual) == (b.report_.primal, b.report_.dual)
    assert a.report_.n_passes == b.report_.n_passes
    assert a.report_.n_oracle_calls == b.report_.n_oracle_calls
    assert [e.iteration for e in a.report_.history] == [e.iteration for e in b.report_.history]


@pytest.mark.parametrize("data", [DATA, LOOPY], ids=["chain", "loopy"])
@pytest.mark.parametrize(("trainer", "options"), TRAINERS, ids=str)
def test_a_fit_in_pieces_is_the_fit_in_one(trainer, options, data, tmp_path):
    whole = fit(data, trainer, options, max_passes=41)
    file = str(tmp_path / "fit.ckpt")

    class Killed(Exception):
        pass

    def kill_at(iteration):
        def callback(event):
            if event.iteration == iteration:
                raise Killed

        return callback

    for stop in (2, 3, 7):
        try:
            fit(data, trainer, options, max_passes=41, checkpoint=file, callbacks=[kill_at(stop)])
        except Killed:
            assert os.path.exists(file)
    same(fit(data, trainer, options, max_passes=41, checkpoint=file), whole)


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

X, Y, *_ = load_letters(fold=1)
svm = StructuredSVM(OCR, C=0.1, tol=2e-4, random_state=0, checkpoint=sys.argv[1] or None, checkpoint_seconds=0.0)
svm.fit(X[:150], Y[:150])
print(svm.coef_.tobytes().hex()[:4000], svm.report_.primal, svm.report_.dual)
"""


def test_kill_minus_nine_and_resume(tmp_path):
    file = tmp_path / "fit.ckpt"
    command = [sys.executable, "-c", SCRIPT]
    whole = subprocess.run([*command, ""], capture_output=True, text=True, check=True).stdout
    for delay in (0.05, 0.2):
        process = subprocess.Popen([*command, str(file)], stdout=subprocess.DEVNULL)
        while not file.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert file.exists()
    resumed = subprocess.run([*command, str(file)], capture_output=True, text=True, check=True).stdout
    assert resumed == whole
    assert not file.exists()


def test_limits_may_be_raised(tmp_path):
    file = str(tmp_path / "fit.ckpt")
    assert not fit(DATA, max_passes=4, checkpoint=file).report_.converged
    assert Path(file).exists()
    done = fit(DATA, max_passes=4000, tol=1e-6, checkpoint=file)
    assert done.report_.converged
    assert done.report_.history[0].iteration == 1
    assert not Path(file).exists()


@pytest.mark.parametrize(
    "change", [{"trainer": "subgradient"}, {"options": {"keep": 3}}, {"regularization": {"trans": 2.0}}, {"risk": "hm"}]
)
def test_another_fit_is_refused(tmp_path, change):
    file = str(tmp_path / "fit.ckpt")
    fit(DATA, max_passes=3, checkpoint=file)
    with pytest.raises(TrainingError, match="checkpoint of another fit"):
        fit(DATA, max_passes=3, checkpoint=file, **change)


def test_other_data_are_refused(tmp_path):
    file = str(tmp_path / "fit.ckpt")
    fit(DATA, max_passes=3, checkpoint=file)
    with pytest.raises(TrainingError, match="checkpoint of another fit"):
        fit(Case(small.Word, n=12, C=2.0).make(1), max_passes=3, checkpoint=file)


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
