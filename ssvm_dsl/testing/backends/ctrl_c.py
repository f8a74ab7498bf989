"""Whether Ctrl-C ends a search that takes long, inside one call of a solver as well.

The example is the one whose size grows (:mod:`large_example`): small enough for the preparation in Python to be over
soon, large enough for the search.  A search that is over before Ctrl-C comes says nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Timer, current_thread, main_thread
from time import perf_counter
from typing import Any

from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import Caps, Limits, Question, Solution, Stop
from ssvm_dsl.plugin_api import Backend
from ssvm_dsl.testing.backends.large_example import accepted_examples
from ssvm_dsl.testing.backends.planted import PlantedJudge
from ssvm_dsl.testing.contract import opened
from ssvm_dsl.testing.report import Complaint

#: Seconds after which Ctrl-C comes, and seconds that the search may then take to end.
AFTER, MOST_LATE = 0.3, 1.0

#: Seconds after which a search ends in any case, if it keeps limits: a kit is not to hang on what it looks for.
LIMIT = 10.0

#: A late end may have been that of a compilation, or of other programs; this many in a row are not.
TRIES = 3


def check_ctrl_c(backend: Backend, caps: Caps, options: Mapping[str, Any]) -> bool:
    """Press Ctrl-C during a search; return whether any example took long enough.

    Raises
    ------
    Complaint
        The search went on for more than :data:`MOST_LATE` seconds, or does not say what ended it.
    """
    if current_thread() is not main_thread() or os.name != "posix":
        return False
    tried = False
    for large in accepted_examples(backend, caps):
        if not tried:  # compiles kernels
            opened(backend, large.program, options).solve(Question(large.problem.theta, limits=Limits(time=LIMIT)))
            tried = True
            continue
        times = []
        for _ in range(TRIES):
            took = _seconds(backend, options, large)
            if took is None:
                break
            times.append(took)
            if took <= AFTER + MOST_LATE:
                return True
        if len(times) == TRIES:
            text = f"Ctrl-C after {AFTER:g} s of a search on {large.program.n_variables} variables ended it after"
            cure = "call the solver by call_in_thread or call_in_process of ssvm_dsl.plugin_api"
            raise Complaint(f"{text} {min(times):.1f} s, expected {AFTER + MOST_LATE:g} s; {cure}")
    return False


def _seconds(backend: Backend, options: Mapping[str, Any], large: PlantedJudge) -> float | None:
    """Return how long a search takes that is interrupted; ``None`` if it is over before.

    The whole time counts: a solver that keeps Python's global lock also keeps Ctrl-C from being pressed.
    """
    begin = end = perf_counter()
    over_before = True  # also if Ctrl-C comes between the end of the search and the next lines
    answer: Solution | None = None
    with _pressed_after(AFTER) as pressed:
        try:
            begin = perf_counter()
            session = opened(backend, large.program, options)
            answer = session.solve(Question(large.problem.theta, limits=Limits(time=LIMIT)))
        except (KeyboardInterrupt, OutOfTime, TooLargeError):
            pass  # if it ended by itself, what counts is when
        end = perf_counter()
        over_before = not pressed.is_set()
    if over_before:
        return None
    took = end - begin
    if answer is not None and (answer.stop == Stop.TIME).any() and took < LIMIT:
        raise Complaint("Ctrl-C ended the search, and stop is TIME, expected Stop.INTERRUPTED or KeyboardInterrupt")
    return took


@contextmanager
def _pressed_after(seconds: float) -> Iterator[Event]:
    """Press Ctrl-C once, by Python's own handler, and set an event before; one that comes when all is over is lost."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed = Event()

    def press() -> None:
        pressed.set()
        os.kill(os.getpid(), signal.SIGINT)

    timer = Timer(seconds, press)
    timer.start()
    try:
        try:
            yield pressed
        finally:
            timer.cancel()
            timer.join()
    except KeyboardInterrupt:
        pass  # it came after the call under test had returned
    finally:
        signal.signal(signal.SIGINT, before)
