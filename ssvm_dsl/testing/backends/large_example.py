"""Whether a time limit and Ctrl-C end the search on one example that is far too large for a backend.

Many backends check the clock between the examples of a batch.  Before the first iteration on a large one they lay out
graphs, write rows, search for orders or components.  So one example grows until the backend refuses it or it is large;
each time a new session is asked with a short limit.  Only processor time counts, which other programs do not take.
Ctrl-C has to end a search inside one call of a solver as well; one that is over before says nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Timer, current_thread, main_thread
from time import perf_counter, process_time
from typing import Any

from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import Caps, Limits, Question, Solution, Stop, Task
from ssvm_dsl.plugin_api import Backend
from ssvm_dsl.testing.backends.judge import naming_the_question
from ssvm_dsl.testing.backends.planted import Planted, PlantedJudge, dense, planted
from ssvm_dsl.testing.contract import opened, verdict_on
from ssvm_dsl.testing.report import Complaint

#: Seconds that the first answer has, which compiles kernels.
COMPILING = 1.0

#: Numbers of variables of the examples.
SIZES = (16, 400, 10000)

#: Time limits in seconds: one ends during the first preparation, the other during preparation within the search.
LIMITS = (0.05, 0.3)

#: Seconds of processor time beyond the limit that an answer may take: single passes that cannot be cut short.
MOST_OVER = 0.4

#: A late answer or end may have compiled something, or other programs ran; this many in a row are no accident.
TRIES = 3


def check_large_example(backend: Backend, caps: Caps, options: Mapping[str, Any]) -> bool:
    """Ask about ever larger examples with a short limit; return whether the backend takes any of them.

    Parameters
    ----------
    backend : Backend
    caps : Caps
    options : mapping

    Raises
    ------
    Complaint
        It takes much longer than the limit, or its answer is none.
    """
    asked = False
    for large in accepted_examples(backend, caps, options, dense(caps)):
        if not asked:
            _seconds(backend, options, large, Limits(time=COMPILING))
        asked = True
        for limit in LIMITS:
            took = min(_until_in_time(backend, options, large, limit))
            if took <= limit + MOST_OVER:
                continue
            n, m = large.program.n_variables, sum(group.n_factors for group in large.program.groups)
            text = f"one example of {n} variables and {m} factors takes {took:.3g} s of the processor with"
            text += f" Limits(time={limit:g})"
            raise Complaint(f"{text}; look at the clock while the answer is prepared, and within long passes")
    return asked


def accepted_examples(
    backend: Backend, caps: Caps, options: Mapping[str, Any], *more: Planted
) -> Iterator[PlantedJudge]:
    """Yield examples that the backend takes: some more, and ever larger ones."""
    for problem in (*more, *(planted(caps, n) for n in SIZES)):
        large = PlantedJudge(problem, caps)
        if verdict_on(backend, caps, large.problem, Task.MAP, options) is not None:
            yield large


def _until_in_time(backend: Backend, options: Mapping[str, Any], large: PlantedJudge, limit: float) -> Iterator[float]:
    """Yield the seconds that answers within a limit take, until one is in time or has been tried often enough."""
    for _ in range(TRIES):
        took = _seconds(backend, options, large, Limits(time=limit))
        yield took
        if took <= limit + MOST_OVER:
            return


def _seconds(backend: Backend, options: Mapping[str, Any], large: PlantedJudge, limits: Limits) -> float:
    """Return the seconds of the processor that a new session and its answer take."""
    begin, question = process_time(), Question(large.problem.theta, limits=limits)
    try:
        session = opened(backend, large.program, options)
        solution = session.solve(question)
    except (OutOfTime, TooLargeError):
        return process_time() - begin
    took = process_time() - begin
    with naming_the_question(question, large.problem.name):
        large.everything(question, solution)
    return took


#: Seconds after which Ctrl-C comes, and seconds that the search may then take to end.
AFTER, MOST_LATE = 0.3, 1.0

#: Seconds after which a search ends in any case, if it keeps limits: a kit is not to hang on what it looks for.
LIMIT = 10.0


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
    for large in accepted_examples(backend, caps, options):
        if not tried:  # compiles kernels
            opened(backend, large.program, options).solve(Question(large.problem.theta, limits=Limits(time=LIMIT)))
            tried = True
            continue
        times = []
        for _ in range(TRIES):
            took = _seconds_until_ended(backend, options, large)
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


def _seconds_until_ended(backend: Backend, options: Mapping[str, Any], large: PlantedJudge) -> float | None:
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
