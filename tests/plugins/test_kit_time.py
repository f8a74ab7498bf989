"""A kit says which case takes long and what to do, and keeps to the time that it is given."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import threading

import pytest
from broken_backends import Crashes, Honest, spec_of

from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.starting.labelling import unanswered
from ssvm_dsl.ir import Stop
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import check_backend, sentinel
from ssvm_dsl.testing import watch as watching
from ssvm_dsl.testing.backends import limits
from ssvm_dsl.testing.backends.conformance import BackendKit
from ssvm_dsl.testing.problems import Recipe, seeded

TOLD = threading.Event()


class WaitsUntilTold(Honest):
    """Answers its first question once somebody has said that it takes long."""

    def solve(self, session, question):
        assert TOLD.wait(30.0)
        return super().solve(session, question)


class Endless(Honest):
    """Answers nothing, ever; what it waits in returns to Python now and then, as a search does."""

    def solve(self, session, question):
        while not threading.Event().wait(0.001):
            pass


class SaysInterrupted(Honest):
    """Catches Ctrl-C, and says so in its answer."""

    def solve(self, session, question):
        answer = super().solve(session, question)
        answer.stop[:] = Stop.INTERRUPTED
        return answer


class SmallKit(BackendKit):
    """The kit, on two problems."""

    def prepare(self):
        self.accepted = []
        self._consider([seeded(Recipe(), 0), seeded(Recipe(), 1)])


def checked(backend, only=("scores",), **options):
    """The report of the kit on a class of this module."""
    spec = BackendSpec(backend.__name__, f"{__name__}:{backend.__name__}", caps=spec_of(Honest).caps)
    return SmallKit(spec, registry(), seed=0).run(only, **options)


def quiet(text):
    """Say nothing."""


@pytest.fixture(autouse=True)
def told(monkeypatch):
    TOLD.clear()
    monkeypatch.setattr(watching, "SLOW", 0.01)


def test_what_takes_long_is_told_with_advice():
    lines = []

    def notice(text):
        lines.append(text)
        if "'scores'" in text:
            TOLD.set()

    report = checked(WaitsUntilTold, notice=notice)
    assert report.ok
    assert all(text.startswith("backend 'WaitsUntilTold': ") for text in lines)
    assert any(" in check 'scores' on seeded(" in text for text in lines)
    assert "`clock.over`" in lines[0]
    assert "--seconds" in lines[0]
    assert all("clock" not in text for text in lines[1:])  # the advice comes once


def test_standard_error_by_default(monkeypatch, capfd):
    say = watching._to_standard_error

    def told(text):
        say(text)
        if "'scores'" in text:
            TOLD.set()

    monkeypatch.setattr(watching, "_to_standard_error", told)
    checked(WaitsUntilTold)
    assert "in check 'scores'" in capfd.readouterr().err


def test_what_is_quick_is_silent(monkeypatch, capfd):
    monkeypatch.setattr(watching, "SLOW", 1e6)
    assert checked(Honest).ok
    assert capfd.readouterr().err == ""


def test_time_bounds_the_kit_and_is_no_pass():
    before = signal.getsignal(signal.SIGALRM)
    report = checked(Endless, ["scores", "bounds"], seconds=1.0, notice=quiet)
    assert not report.ok
    assert report.failed[-1] == "time"
    said = str(report.checks[-1])
    assert "1 seconds were up in check 'scores'" in said
    assert "not run to the end: scores, bounds" in said
    assert report.checks[-1].failures[0].problem
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_without_a_main_thread_no_case_begins_late():
    found = []

    def run():
        watch = watching.Watch("backend 'x'", lambda text: None, 1e-9)
        with watch.watching():
            try:
                watching.begin_case("a", "b")
            except watching.TimeIsUp:
                found.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [True]


def test_enough_time_changes_nothing(capsys):
    assert str(checked(Honest, seconds=1e6)) == str(checked(Honest))
    with pytest.raises(OptionError, match="seconds must be None or a positive number"):
        check_backend("chain", seconds=0)
    with pytest.raises(SystemExit):
        main(["plugins", "check", "chain", "--seconds", "0"])
    assert "--seconds" in capsys.readouterr().err
    assert not issubclass(watching.TimeIsUp, Exception)  # plug-ins do not catch it


class HoldsTheLock(Honest):
    """Reads a pipe without letting any other Python code run, until something is written there."""

    reader = -1

    def solve(self, session, question):
        ctypes.PyDLL(None).read(self.reader, ctypes.create_string_buffer(1), 1)
        return super().solve(session, question)


def test_a_call_that_stops_python_is_told_by_a_process_outside(monkeypatch):
    reader, writer = os.pipe()
    monkeypatch.setattr(HoldsTheLock, "reader", reader)
    monkeypatch.setattr(watching, "SLOW", 0.0)
    with watching.speaking_to(writer):
        assert checked(HoldsTheLock, notice=quiet).ok
    text = os.read(reader, 1000).decode()
    assert re.search(r"'HoldsTheLock': \d+ s in check 'scores' on seeded\(", text)
    assert text.endswith("in one call that lets no other Python code run\n")
    with watching._sentinel(writer) as process:
        process.stdin.close()
    watching._sentinel.cache_clear()
    os.close(reader)
    os.close(writer)


def test_the_process_outside_speaks_at_three_times_as_long(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(sentinel, "monotonic", lambda: now[0])
    made = sentinel.Sentinel(5.0)
    made.hear("begin backend 'x': @ in check 'map'")
    assert made.due == 105.0
    now[0] = 104.0
    made.hear("told")
    assert made.due == 113.0  # the thread speaks at 112
    made.hear("done")
    assert made.due == float("inf")


class Deaf(Honest):
    """Goes on when Ctrl-C is pressed, until its time is up."""

    def solve(self, session, question):
        over = question.limits.begin()
        while question.limits.time is not None and not over():
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait(0.001)
        return super().solve(session, question)


class Hears(Honest):
    """Ends when Ctrl-C is pressed, and not before."""

    def solve(self, session, question):
        if session.program.n_variables == 9:
            threading.Event().wait()
        return super().solve(session, question)


class SaysTime(Honest):
    """Ends when Ctrl-C is pressed, and says that the time was up."""

    def solve(self, session, question):
        if session.program.n_variables < 9:
            return super().solve(session, question)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
        return unanswered(session.program, question, Stop.TIME)


@pytest.mark.parametrize(
    ("backend", "late", "complaint"),
    [(Hears, 1e6, ""), (Deaf, 0.0, "by call_in_thread or call_in_process"), (SaysTime, 1e6, "stop is TIME")],
)  # fmt: skip
def test_ctrl_c_ends_a_search(monkeypatch, backend, late, complaint):
    monkeypatch.setattr(limits, "AFTER", 0.05)
    monkeypatch.setattr(limits, "MOST_LATE", late)
    monkeypatch.setattr(limits, "LIMIT", 0.2 if backend is Deaf else 1e6)
    monkeypatch.setattr(limits, "SIZES", (4, 9))
    before = signal.getsignal(signal.SIGINT)
    report = checked(backend, ["Ctrl-C"], notice=quiet)
    assert signal.getsignal(signal.SIGINT) is before
    assert [check.name for check in report.checks] == ["loads", "planning", "Ctrl-C"]
    assert complaint in str(report)
    assert report.ok is not bool(complaint)


def test_the_quick_form_asks_less_in_the_same_checks():
    many = ("threads", "session reuse", "verifier")
    only = (*many, "map", "marginals")
    whole, quick = (check_backend("tree", n_problems=3, only=only, quick=short) for short in (False, True))
    assert whole.ok
    assert quick.ok
    cases = {check.name: check.cases for check in whole.checks}
    assert [check.name for check in quick.checks] == list(cases)
    assert all(0 < check.cases <= 8 for check in quick.checks if check.name in many)
    assert all(cases[name] > 8 for name in many)
    assert all(check.seconds > 0.0 for check in whole.checks if not check.name.startswith("constraint "))
    assert re.search(r"ok    marginals: \d+ cases, \d+(\.\d+)? (ms|us|s)$", whole.text(timed=True), re.MULTILINE)


def test_equal_failures_are_shown_once():
    report = check_backend(spec_of(Crashes), n_problems=1, only=["answer form", "map", "session reuse"])
    lines = str(report).splitlines()
    assert sum("segmentation of the imagination" in line for line in lines) == 1
    assert "  FAIL  answer form: 0 of 3 cases passed; the same in 3 checks" in lines
    assert "  FAIL  map: 0 of 3 cases passed: as in 'answer form'" in lines
    assert "  FAIL  session reuse: 0 of 3 cases passed: as in 'answer form'" in lines


def test_only_takes_every_name_that_a_report_prints():
    names = [check.name for check in check_backend("assignment", n_problems=1, quick=True).checks]
    assert "constraint matching" in names
    for name in (names[0], names[1], names[-1], "time"):
        report = check_backend("assignment", n_problems=1, only=[name])
        kinds = ["constraint matching", "constraint transport"]
        assert [check.name for check in report.checks] == ["loads", "planning", *kinds]


def test_an_answer_that_ctrl_c_has_cut_short_ends_the_kit():
    with pytest.raises(KeyboardInterrupt):
        checked(SaysInterrupted)
