"""Processes in which toulbar2 runs, from this side: start one, ask it, stop it when time is up."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import Stop
from ssvm_dsl.plugin_api import loading

#: Seconds between two signals to a solver that should end.
AGAIN = 0.05

#: Seconds after which a solver that does not end is ended.
PATIENCE = 2.0

#: Processes that wait for the next question.
_idle: list[Worker] = []


class Worker:
    """A process that solves one problem at a time."""

    def __init__(self) -> None:
        theirs, self._mine = os.pipe()  # closed when this process ends, however it does: the worker ends then, too
        command = [sys.executable, "-P", str(Path(__file__).with_name("worker.py")), str(theirs)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, pass_fds=(theirs,), start_new_session=True)
        os.close(theirs)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._read()

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(
        self, problem: dict[str, Any], arrays: list[NDArray[Any]], end: float
    ) -> tuple[dict[str, Any] | None, Stop]:
        """Return what the solver answers (``None`` where it had to be killed), and why it was stopped, if it was.

        Parameters
        ----------
        problem, arrays
            See :func:`ssvm_toulbar2.worker.solve`.
        end : float
            When to stop, on the clock of ``time.perf_counter``; ``inf`` for never.

        Raises
        ------
        RuntimeError
            The process ended by itself.
        """
        reason = Stop.FINISHED
        try:
            head = problem | {"arrays": [(array.dtype.str, array.shape) for array in arrays]}
            self._to.write(json.dumps(head).encode() + b"\n")
            for array in arrays:
                self._to.write(np.ascontiguousarray(array).data)
            self._to.flush()
            while not wait([self._from.fileno()], None if end == np.inf else max(0.0, end - perf_counter())):
                if perf_counter() >= end:
                    reason = Stop.TIME
                    break
        except KeyboardInterrupt:
            reason = Stop.INTERRUPTED
        except BrokenPipeError:
            self._read()  # says how the process ended
        return self._finish(), reason

    def _finish(self) -> dict[str, Any] | None:
        """Return the answer; ask for it by signals until patience ends."""
        end = perf_counter() + PATIENCE
        while not wait([self._from.fileno()], 0.0):
            if perf_counter() >= end:
                self.close()
                return None
            self._process.send_signal(signal.SIGVTALRM)
            wait([self._from.fileno()], AGAIN)
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._from.readline()
        if not line.endswith(b"\n"):
            self.close()
            raise RuntimeError(f"the process of toulbar2 ended with status {self._process.returncode}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        if self._mine >= 0:
            os.close(self._mine)
            self._mine = -1
        for stream in (self._to, self._from):
            with suppress(BrokenPipeError):
                stream.close()


@contextmanager
def worker() -> Iterator[Worker]:
    """Lend a process: one that waits, or a new one."""
    try:
        mine = _idle.pop()
    except IndexError:
        with loading():
            mine = Worker()
    try:
        yield mine
    except BaseException:
        mine.close()  # it may still be working on what nobody waits for
        raise
    if mine.alive:
        _idle.append(mine)


def close_all() -> None:
    """End all processes that wait."""
    while _idle:
        _idle.pop().close()


atexit.register(close_all)
os.register_at_fork(after_in_child=_idle.clear)
