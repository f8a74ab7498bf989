"""Fits while the disk is full, nothing may be written, or memory runs out: nothing learnt is lost, one clear error."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import sys
import warnings
from functools import cache
from typing import Any

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


@cache
def whole():
    """Return the fit without trouble."""
    return fit()[0]


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("first", [0, 2])
def test_a_full_disk_is_told_once_and_the_fit_goes_on(tmp_path, monkeypatch, name, first):
    file, calls, call = tmp_path / "fit.ckpt", [], getattr(os, name)

    def fail(*args):
        calls.append(args)
        if len(calls) > first:
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*args)

    monkeypatch.setattr(os, name, fail)
    svm, told = fit(file)
    monkeypatch.undo()
    assert told == [f"checkpoint {file} could not be written (No space left on device); training continues without it"]
    assert len(calls) > first + 1
    np.testing.assert_array_equal(svm.coef_, whole().coef_)
    assert os.listdir(tmp_path) == (["fit.ckpt"] if first else [])
    if first:  # what was written before is whole
        np.testing.assert_array_equal(fit(file)[0].coef_, whole().coef_)


def test_a_folder_that_goes_away(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    gone = lambda event: event.iteration == 2 and os.rename(folder, f"{folder}2")  # noqa: E731
    svm, told = fit(folder / "fit.ckpt", callbacks=[gone])
    assert len(told) == 1
    np.testing.assert_array_equal(svm.coef_, whole().coef_)


def limited(file: str, told: Any) -> None:
    """Fit and save in a process whose files may not grow beyond a kilobyte."""
    sys.dont_write_bytecode = True  # Python would keep the first kilobyte of it, for later processes
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    svm, warned = fit(file)
    try:
        svm.save(f"{file}.ssvm")
    except OSError as err:
        told.put((warned, str(err), bool((svm.coef_ == whole().coef_).all())))


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_files_that_may_not_grow(tmp_path):
    context = multiprocessing.get_context("fork")  # another way it would load everything anew
    told = context.SimpleQueue()
    process = context.Process(target=limited, args=(str(tmp_path / "fit.ckpt"), told))
    process.start()
    process.join()
    assert process.exitcode == 0
    warned, refused, same = told.get()
    assert len(warned) == 1
    assert "File too large" in warned[0] + refused
    assert same
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("message", ["", "Unable to allocate 74.5 GiB for an array"])
def test_memory_that_runs_out_is_an_error_of_the_package(monkeypatch, tmp_path, capsys, message):
    def fail(*args, **kwargs):
        raise MemoryError(message)

    monkeypatch.setattr(sys.modules["ssvm_dsl.compiler.ground"], "Encoder", fail)
    for what, call in {
        "fit": fit,
        "prediction": lambda: whole().predict(DATA.X),
        "best_score": lambda: whole().best_score(DATA.X, DATA.Y),
    }.items():
        with pytest.raises(TooLargeError, match=f"^{what} ran out of memory.*{message}.*; "):
            call()
    monkeypatch.undo()
    (tmp_path / "a.uai").write_text("MARKOV 1 2 0")
    monkeypatch.setattr("ssvm_dsl.io.formats.uai.assemble", fail)
    assert main(["solve", str(tmp_path / "a.uai")]) == 2
    assert "reading the problem ran out of memory" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr("ssvm_dsl.io.problem_file.read_problem", fail)
    assert main(["solve", str(tmp_path / "a.uai")]) == 2
    assert "out of memory" in capsys.readouterr().err
    assert issubclass(TooLargeError, SsvmError)
