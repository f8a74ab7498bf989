"""Fits while the disk is full, nothing may be written, or memory runs out: nothing learnt is lost, one clear error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import small
from small import Case

from ssvm_dsl import StructuredSVM
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import SsvmError, TooLargeError

DATA = Case(small.Word, n=8).make(0)


def fit(file=None, **options):
    settings = {"tol": 0.0, "max_passes": 6, "random_state": 0, "checkpoint_seconds": 0.0, "n_threads": 1} | options
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        svm = StructuredSVM(DATA.case.model, checkpoint=None if file is None else str(file), **settings)
        svm.fit(DATA.X, DATA.Y)
    return svm, [str(one.message) for one in told if "checkpoint" in str(one.message)]


WHOLE = fit()[0]


@pytest.mark.parametrize("name", ["fsync", "replace", "open"])
@pytest.mark.parametrize("first", [0, 2])
def test_a_full_disk_is_told_once_and_the_fit_goes_on(tmp_path, monkeypatch, name, first):
    file, calls, module = tmp_path / "fit.ckpt", [], os if name != "open" else os.path
    path = type(file)
    call = path.open if name == "open" else getattr(module, name)

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) > first:
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*args, **kwargs)

    monkeypatch.setattr(path if name == "open" else module, name, fail)
    svm, told = fit(file)
    monkeypatch.undo()
    assert told == [f"checkpoint {file} could not be written (No space left on device); training goes on without"]
    assert len(calls) > first + 1
    np.testing.assert_array_equal(svm.coef_, WHOLE.coef_)
    assert os.listdir(tmp_path) == (["fit.ckpt"] if first else [])
    if first:  # what was written before is whole
        np.testing.assert_array_equal(fit(file)[0].coef_, WHOLE.coef_)


def test_a_folder_that_goes_away(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    gone = lambda event: event.iteration == 2 and os.rename(folder, f"{folder}2")  # noqa: E731
    svm, told = fit(folder / "fit.ckpt", callbacks=[gone])
    assert len(told) == 1
    np.testing.assert_array_equal(svm.coef_, WHOLE.coef_)


SCRIPT = """
import resource, signal, sys, warnings
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.path[:0] = {path!r}
import test_trouble
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
svm, told = test_trouble.fit(sys.argv[1])
assert len(told) == 1 and "File too large" in told[0], told
assert (svm.coef_ == test_trouble.WHOLE.coef_).all()
try:
    svm.save(sys.argv[1] + ".ssvm")
except OSError as err:
    print("refused", err)
"""


def test_files_that_may_not_grow(tmp_path):
    path = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]
    command = [sys.executable, "-c", SCRIPT.format(path=path), str(tmp_path / "fit.ckpt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refused" in done.stdout
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("message", ["", "Unable to allocate 74.5 GiB for an array"])
def test_memory_that_runs_out_is_an_error_of_the_package(monkeypatch, tmp_path, capsys, message):
    def fail(*args, **kwargs):
        raise MemoryError(message)

    monkeypatch.setattr(sys.modules["ssvm_dsl.compiler.ground"], "Encoder", fail)
    for what, call in {
        "fit": fit,
        "prediction": lambda: WHOLE.predict(DATA.X),
        "decision_function": lambda: WHOLE.decision_function(DATA.X, DATA.Y),
    }.items():
        with pytest.raises(TooLargeError, match=f"^{what} ran out of memory.*{message}.*; "):
            call()
    monkeypatch.undo()
    (tmp_path / "a.uai").write_text("MARKOV 1 2 0")
    monkeypatch.setattr("ssvm_dsl.io.uai.assemble", fail)
    assert main(["solve", str(tmp_path / "a.uai")]) == 2
    assert "reading the problem ran out of memory" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr("ssvm_dsl.io.read_problem.read_problem", fail)
    assert main(["solve", str(tmp_path / "a.uai")]) == 2
    assert "out of memory" in capsys.readouterr().err
    assert issubclass(TooLargeError, SsvmError)
