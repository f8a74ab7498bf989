"""Calls of solvers written in C that do not return to Python until they are done: end them at the limit or at Ctrl-C.

Python delivers Ctrl-C to the main thread, between two of its instructions.  While the main thread is inside a library,
nothing happens until the library returns, whatever limit was set.  So another thread or another process makes the call,
and the main thread waits:

* :func:`call_in_thread` for a library that can be asked to stop (``stop_search()``, an interrupter, a callback).  It
  returns what it has then.
* :func:`call_in_process` for a library that cannot.  Its process is killed, and what it had found is lost.
"""

from __future__ import annotations

import atexit
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Event, Lock, Thread, current_thread, main_thread
from time import perf_counter
from typing import Any, ClassVar, Generic, TypeVar

from ssvm_dsl.deadline import time_left
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir.solution import Stop
from ssvm_dsl.loading import loading
from ssvm_dsl.plugin_api.example_session import Clock

T = TypeVar("T")

#: Seconds that a solver gets to come to an end once it was asked to.
GRACE = 1.0

#: Seconds that a process gets beyond the limit: a solver with a limit of its own returns in them, and to start
#: another process takes longer.
PROCESS_GRACE = 0.05

#: Seconds without which a call by another process is not begun.
LEAST = 0.005

#: Seconds between two looks at Ctrl-C, for systems where waiting for a thread cannot be interrupted.
LOOK = 0.1

#: Processes that wait for the next call; more are ended.
MOST_IDLE = 4


@dataclass(frozen=True, eq=False)
class CallOutcome(Generic[T]):
    """How a call ended, and what it returned.

    Parameters
    ----------
    value : object
        What the call returned; ``None`` if it was lost.
    stop : Stop
        ``FINISHED``: it returned by itself.  ``TIME`` and ``INTERRUPTED``: the limit or Ctrl-C ended it.
    lost : str
        What was lost, as a sentence; empty if the call returned.
    """

    value: T | None
    stop: Stop = Stop.FINISHED
    lost: str = ""


def call_in_thread(
    call: Callable[[], T], stop: Callable[[], object], clock: Clock | None = None, grace: float = GRACE
) -> CallOutcome[T]:
    """Return the result of a call that can be asked to stop; the limit or Ctrl-C asks it.

    The library must release Python's global lock while it works, as most do.  Without a limit, a call from another
    thread than the main one is made directly: Ctrl-C does not come there.

    Parameters
    ----------
    call : callable
        Runs the solver and returns its answer.
    stop : callable
        Asks the running call to end early; may be called several times, from another thread.
    clock : Clock, optional
        When to ask.  A limit of the caller of the backend holds as well (:func:`time_left`).
    grace : float
        Seconds that the call then gets.  One that has not returned goes on in the background, and its answer is lost.

    Raises
    ------
    Exception
        What the call raises.
    """
    if _seconds(clock) == inf and current_thread() is not main_thread():
        return CallOutcome(call())
    running = _Running(call)
    why = running.wait(clock)
    if why is Stop.FINISHED:
        return CallOutcome(running.result())
    end = perf_counter() + grace
    while not running.done.is_set() and perf_counter() < end:
        stop()
        running.done.wait(0.02)
    if running.done.is_set():
        return CallOutcome(running.result(), why)
    text = f"the solver was asked to stop and did not within {grace:g} s: its answer is lost, and its thread goes on"
    return CallOutcome(None, why, text)


def call_in_process(
    function: Callable[..., T] | str,
    arguments: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
) -> CallOutcome[T]:
    """Return the result of a function that cannot be asked to stop; its process is killed at the limit or at Ctrl-C.

    Give the solver a limit of its own as well, which ends a little earlier: then it returns its best answer.

    Processes are kept for later calls.  To start one takes as long as importing the function's module, once, which
    counts against no limit; a call takes about half a millisecond more than without, and a copy of what is sent.

    Parameters
    ----------
    function : callable or str
        A function of a module, or its name ``"package.module:function"``.  It and its module are imported there, so
        that a module of its own with few imports is right.
    arguments, keywords : sequence, mapping
        What it is called with; must be picklable, as its result.
    clock : Clock, optional
        When to end.  A limit of the caller of the backend holds as well (:func:`time_left`).

    Raises
    ------
    OptionError
        The function cannot be found by its name.
    RuntimeError
        The process ended by itself: it crashed, or the system ended it for want of memory.
    Exception
        What the function raises.
    """
    name = _name_of(function)
    if _seconds(clock) < LEAST:
        return CallOutcome(None, Stop.TIME, f"there was no time left to call {name}")
    with loading():
        process = _Process.take(name)
    begin = perf_counter()
    running = _Running(lambda: process.ask(name, arguments, dict(keywords or {})))
    why: Stop | None = None
    try:
        why = running.wait(clock)
        if why is Stop.TIME and running.done.wait(PROCESS_GRACE):
            why = Stop.FINISHED
    finally:
        if why is not Stop.FINISHED:
            process.kill()
    if why is Stop.FINISHED:
        process.put_back()
        return CallOutcome(running.result())
    text = f"{name} was ended after {perf_counter() - begin:.1f} s: what it had found is lost"
    return CallOutcome(None, why, text)


def _seconds(clock: Clock | None) -> float:
    """Return the seconds until the nearest limit."""
    return min(time_left(), inf if clock is None or clock.end == inf else clock.left)


class _Running(Generic[T]):
    """A call that another thread makes."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.done, self._call = Event(), call
        self._value: T | None = None
        self._error: BaseException | None = None
        context = copy_context()
        self._thread = Thread(target=lambda: context.run(self._run), name="solver", daemon=True)

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error
        finally:
            self.done.set()

    def wait(self, clock: Clock | None) -> Stop:
        """Make the call, wait for it, for the limit or for Ctrl-C, and return which came first."""
        try:
            self._thread.start()
            while not self.done.wait(min(LOOK, max(left := _seconds(clock), 0.0))):
                if left <= 0.0:
                    return Stop.TIME
        except KeyboardInterrupt:
            return Stop.INTERRUPTED
        return Stop.FINISHED

    def result(self) -> T:
        """Return what the call returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # of the type T once the call has returned


def _name_of(function: Callable[..., Any] | str) -> str:
    """Return ``"package.module:function"``.

    Raises
    ------
    OptionError
        It is not to be found under its name in another process.
    """
    if isinstance(function, str):
        return function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<lambda>")
    if not module or module == "__main__" or "<" in name:
        text = "a function that another process runs must be at the top level of a module that can be imported"
        raise OptionError(f"call_in_process: {text}, got {function!r}")
    return f"{module}:{name}"


class _Process:
    """A process that answers calls one after the other; see ``blocking_child.py``."""

    _idle: ClassVar[list[_Process]] = []
    _lock = Lock()

    def __init__(self) -> None:
        self.owner, self._knows = os.getpid(), set[str]()
        command = [sys.executable, "-I", str(Path(__file__).with_name("blocking_child.py"))]
        new_group = {"start_new_session": True} if os.name == "posix" else {}  # Ctrl-C of a terminal stays here
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **new_group)  # type: ignore[call-overload]
        self._send(sys.path)

    @classmethod
    def take(cls, name: str) -> _Process:
        """Return a process that has imported a function.

        Raises
        ------
        Exception
            What the import raises.
        """
        with cls._lock:
            cls._idle[:] = [one for one in cls._idle if one.owner == os.getpid()]  # none of those before a fork
            knowing = [one for one in cls._idle if name in one._knows]
            waiting = (knowing or cls._idle)[-1:]
            for one in waiting:
                cls._idle.remove(one)
        made = waiting[0] if waiting and waiting[0]._child.poll() is None else cls()
        if name not in made._knows:
            try:
                made.ask(name, None, None)
            except BaseException:
                made.kill()
                raise
            made._knows.add(name)
        return made

    def put_back(self) -> None:
        """Keep the process for the next call."""
        with self._lock:
            if len(self._idle) < MOST_IDLE and self._child.poll() is None:
                self._idle.append(self)
                return
        self.kill()

    @classmethod
    def end_all(cls) -> None:
        """End the processes that wait for a call of this one."""
        for one in cls._idle:
            if one.owner == os.getpid():
                one.kill()
        cls._idle.clear()

    def ask(self, name: str, arguments: Sequence[Any] | None, keywords: Mapping[str, Any] | None) -> Any:
        """Return what a function returns there; without arguments it is only imported."""
        try:
            self._send((name, arguments, keywords))
            head = self._read(8)
            good, value = pickle.loads(self._read(struct.unpack("<q", head)[0]))
        except (EOFError, BrokenPipeError):
            status = self._child.wait()
            raise RuntimeError(f"the process that ran {name} ended by itself, with status {status}") from None
        if not good:
            raise value
        return value

    def kill(self) -> None:
        """End the process at once."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            with suppress(OSError):
                pipe.close()

    def _send(self, what: Any) -> None:
        data = pickle.dumps(what, protocol=pickle.HIGHEST_PROTOCOL)
        self._child.stdin.write(struct.pack("<q", len(data)) + data)
        self._child.stdin.flush()

    def _read(self, n: int) -> bytes:
        data: bytes = self._child.stdout.read(n)
        if len(data) < n:
            raise EOFError
        return data


atexit.register(_Process.end_all)
