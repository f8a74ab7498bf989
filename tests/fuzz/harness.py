"""What all fuzzers share: seeded trials in processes of their own, so that a crash or a hang is a finding, too.

A fuzzer is a module ``fuzz_<name>.py`` in this folder with

* a docstring: which promise it attacks,
* ``UNIT``: what is counted ("problems", "files", ...),
* ``SHORT``: how many trials the ordinary test run makes (a few seconds),
* ``LIMIT``: seconds that one trial may take at most, kernels that are compiled not counted; a trial that is still
  running then has failed,
* ``trial(rng, scratch)``: draw from the generator, try, raise ``AssertionError`` where the promise is broken, and
  return how many units were tried.  ``scratch`` is an empty folder of its own.

Trial number t of seed s draws from ``numpy.random.default_rng([s, t])`` and from nothing else.
"""

from __future__ import annotations

import importlib
import multiprocessing
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ssvm_dsl.deadline import work_seconds
from ssvm_dsl.registry import registry

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Failure:
    """A broken promise: run the trial again with ``make fuzz ARGS="NAME --seed S --trial T"``."""

    name: str
    seed: int
    trial: int
    text: str

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}, trial {self.trial}: {self.text}"


def names() -> list[str]:
    """Return the names of all fuzzers."""
    return sorted(path.stem.removeprefix("fuzz_") for path in FOLDER.glob("fuzz_*.py"))


def load(name: str) -> ModuleType:
    """Return the module of a fuzzer."""
    for folder in (FOLDER, FOLDER.parent, FOLDER.parent / "learning"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    return importlib.import_module(f"fuzz_{name}")


class TookTooLong(BaseException):
    """A trial ran past its limit; not an ``Exception``, so that nothing under test swallows it."""


def _alarm_after(seconds: float) -> Callable[[int, Any], None]:
    """Return a handler of alarms that ends a trial after so many seconds of work: compiling kernels is none."""
    begin = work_seconds()

    def alarm(signum: int, frame: Any) -> None:
        left = seconds - (work_seconds() - begin)
        if left <= 0.5:
            raise TookTooLong
        signal.setitimer(signal.ITIMER_REAL, left)

    return alarm


def one(name: str, seed: int, number: int) -> int:
    """Make one trial in this process and return how many units it tried.

    Raises
    ------
    AssertionError
        A promise is broken; any other exception is a finding as well.
    """
    module = load(name)
    scratch = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    before = signal.signal(signal.SIGALRM, _alarm_after(float(module.LIMIT)))
    signal.setitimer(signal.ITIMER_REAL, float(module.LIMIT))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return int(module.trial(np.random.default_rng([seed, number]), scratch))
    except TookTooLong as err:
        raise AssertionError(f"still running after {module.LIMIT} s") from err
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        shutil.rmtree(scratch, ignore_errors=True)


def _work(name: str, seed: int, numbers: Iterator[int], pipe: Any) -> None:
    """Make trials and send (trial number about to start), then results, through a pipe."""
    tried = 0
    for number in numbers:
        pipe.send(("start", number, tried))
        tried = 0
        try:
            tried = one(name, seed, number)
        except KeyboardInterrupt:
            return
        except BaseException as err:
            pipe.send(("failed", number, _told(err)))
    pipe.send(("done", -1, tried))


def _told(err: BaseException) -> str:
    """Return what happened and where."""
    where = traceback.extract_tb(err.__traceback__)[-1]
    return f"{type(err).__name__}: {str(err)[:600]} ({Path(where.filename).name}:{where.lineno})"


def shorts(seed: int, pipe: Any) -> None:
    """Make the few trials of the ordinary test run, of all fuzzers; send (name, units tried, failures) of each."""
    for name in names():
        registry.cache_clear()  # what an earlier one has registered
        tried, failures = 0, []
        for number in range(load(name).SHORT):
            try:
                tried += one(name, seed, number)
            except BaseException as err:
                failures.append(f"{name}, seed {seed}, trial {number}: {_told(err)}")
        pipe.send((name, tried, failures))


class Runner:
    """Runs the trials ``first, first + step, ...`` of one fuzzer in a process that is restarted when it dies.

    Parameters
    ----------
    name : str
    seed : int
    first, step : int
    most : int, optional
        Number of trials; without end by default.
    """

    def __init__(self, name: str, seed: int, first: int = 0, step: int = 1, most: int | None = None) -> None:
        self.name, self.seed, self.next, self.step = name, seed, first, step
        self.left, self.tried, self.trials = most, 0, 0
        self.limit = float(load(name).LIMIT)
        self.failures: list[Failure] = []
        self.finished = most == 0
        self._process: Any = None
        self._pipe: Any = None
        self._at: int | None = None
        self._begun = time.monotonic()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe(duplex=False)
        stop = sys.maxsize if self.left is None else self.next + self.step * self.left
        numbers = range(self.next, stop, self.step)
        self._process = context.Process(target=_work, args=(self.name, self.seed, numbers, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._begun = time.monotonic()

    def poll(self, seconds: float) -> None:
        """Take what the process reports within some time; restart it when it died or hangs."""
        if self.finished:
            return
        if self._process is None:
            self._start()
        end = time.monotonic() + seconds
        while not self.finished and (left := end - time.monotonic()) > 0.0:
            try:
                if self._pipe.poll(min(left, 0.2)):
                    self._take(*self._pipe.recv())
                elif self._at is not None and time.monotonic() - self._begun > 2.0 * self.limit + 60.0:
                    self._lost(f"hangs: still running after {time.monotonic() - self._begun:.0f} s")
            except EOFError:
                self._process.join()
                self._lost(f"the process died with exit status {self._process.exitcode}")

    def _take(self, what: str, number: int, told: Any) -> None:
        if what == "failed":
            self.failures.append(Failure(self.name, self.seed, number, told))
            return
        self.tried += told
        if what == "done":
            self.trials += self._at is not None
            self.finished, self._at = True, None
            self._process.join()
            return
        self.trials += self._at is not None
        self._at, self.next, self._begun = number, number + self.step, time.monotonic()
        if self.left is not None:
            self.left -= 1

    def _lost(self, text: str) -> None:
        """Note that the trial at hand ended its process, and go on with the next one."""
        self.stop()
        if self._at is not None:
            self.failures.append(Failure(self.name, self.seed, self._at, text))
            self.trials += 1
        else:
            self.failures.append(Failure(self.name, self.seed, self.next, f"{text}, before its first trial"))
            self.finished = True
        self._at = None
        if self.left is not None and self.left <= 0:
            self.finished = True
        elif not self.finished:
            self._start()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None and self._process.is_alive():
            self._process.kill()
            self._process.join()
