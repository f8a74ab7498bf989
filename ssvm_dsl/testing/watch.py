"""Watches the cases of a conformance kit: says which one takes long, and ends the kit when its time is up.

A thread does so, and while a call of the plug-in lets no other Python code run, a process (``sentinel.py``).
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from ssvm_dsl.units import seconds_text

#: Seconds after which a case is reported; then each time that it has taken three times as long.
SLOW = 4.5

#: Seconds that the process waits longer than the thread.
LATER = 0.3

_ADVICE = (
    "problems of the kit are tiny; a search that may take long looks at its clock (`clock.over`, `limits.begin()`) "
    "between pieces of work, so that time limits of users end it; --problems and --only make the kit shorter, "
    "--seconds (seconds=) bounds it"
)

_STREAM: ContextVar[int] = ContextVar("stream", default=2)
_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


class TimeIsUp(BaseException):
    """The time of the whole kit is up; no ``Exception``, so that plug-ins do not catch it."""


class Watch:
    """What a kit is doing, told to whoever waits.

    Parameters
    ----------
    what : str
        Kind and name of the plug-in.
    say : callable, optional
        Called with a line about a case that takes long; such lines go to standard error by default.
    seconds : float, optional
        Time of the whole kit.  A case that runs then is interrupted in the main thread, as soon as Python code runs.
    """

    def __init__(self, what: str, say: Callable[[str], None] | None, seconds: float | None) -> None:
        self._what, self.seconds = what, seconds
        self._stream = _STREAM.get()
        process = _sentinel(self._stream)
        self._outside = None if process is None else process.stdin
        self._say = say or (_to_standard_error if self._stream == 2 else self._to_stream)
        self._end = float("inf") if seconds is None else monotonic() + seconds
        self.check, self.case, self._begin, self._next = "", "", 0.0, float("inf")
        self._change = threading.Condition()
        self._over = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what happens inside."""
        thread = threading.Thread(target=self._look, name="conformance kit", daemon=True)
        token = _WATCH.set(self)
        thread.start()
        try:
            with self._alarm():
                yield
        finally:
            _WATCH.reset(token)
            self._tell("done")
            with self._change:
                self._over = True
                self._change.notify()
            thread.join()

    @contextmanager
    def _alarm(self) -> Iterator[None]:
        """Interrupt the main thread when time is up, where the system can."""
        main = threading.current_thread() is threading.main_thread()
        if self.seconds is None or not main or not hasattr(signal, "setitimer"):
            yield
            return

        def ring(number: int, frame: FrameType | None) -> Any:
            raise TimeIsUp

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(self._end - monotonic(), 1e-6))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

    def begin(self, check: str, case: str) -> None:
        """Note the case that begins.

        Raises
        ------
        TimeIsUp
            Nothing may begin any more.
        """
        if monotonic() >= self._end:
            raise TimeIsUp
        with self._change:
            self.check, self.case, self._begin = check, case, monotonic()
            self._next = self._begin + SLOW
            self._change.notify()
        where = f" on {case}" if case else ""
        self._tell(f"begin {self._what}: @ in check '{check}'{where}")

    def done(self) -> None:
        """Note that the case has ended."""
        with self._change:
            self._next = float("inf")
        self._tell("done")

    def _tell(self, line: str) -> None:
        """Write a line to the process outside, if it is there."""
        if self._outside is not None:
            with suppress(OSError):
                self._outside.write(" ".join(line.split()).encode() + b"\n")

    def _to_stream(self, text: str) -> None:
        os.write(self._stream, f"{text}\n".encode())

    def _look(self) -> None:
        """Tell cases that take long, until the kit ends."""
        first = True
        with self._change:
            while not self._over:
                now = monotonic()
                if now >= self._next:
                    spent = now - self._begin
                    self._next = self._begin + 3.0 * spent
                    where = f" on {self.case}" if self.case else ""
                    text = f"{self._what}: {seconds_text(spent)} in check '{self.check}'{where}"
                    self._tell("told")
                    self._say(f"{text}\n  {_ADVICE}" if first else text)
                    first = False
                left = self._next - monotonic()
                self._change.wait(None if left == float("inf") else max(left, 1e-3))


def begin_case(check: str, case: str) -> None:
    """Note that a case begins, if somebody watches."""
    if (watch := _WATCH.get()) is not None:
        watch.begin(check, case)


def case_done() -> None:
    """Note that a case has ended, if somebody watches."""
    if (watch := _WATCH.get()) is not None:
        watch.done()


def _to_standard_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def speaking_to(stream: int) -> Iterator[None]:
    """Write lines about cases that take long to a file descriptor, in the place of standard error."""
    token = _STREAM.set(stream)
    try:
        yield
    finally:
        _STREAM.reset(token)


@cache
def _sentinel(stream: int) -> subprocess.Popen[bytes] | None:
    """Return the process outside, whose standard input takes lines; ``None`` if it cannot start.

    There is one process for all kits that write to a descriptor.  It ends when this process does, however that ends:
    nobody can write to it then.
    """
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("sentinel.py")), str(SLOW + LATER)]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stream, bufsize=0)
    except OSError:
        return None
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process outside."""
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
