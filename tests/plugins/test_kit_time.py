"""A kit says which case takes long and what to do, and keeps to the time that it is given."""

from __future__ import annotations

import signal
import threading

import pytest
from broken_backends import Honest, spec_of

from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import check_backend
from ssvm_dsl.testing import watch as watching
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
