"""Calls of solvers that do not return to Python: ended at the limit and at Ctrl-C, in a thread or a process."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

import pytest

from ssvm_dsl.deadline import pause, within
from ssvm_dsl.errors import OptionError, OutOfTime
from ssvm_dsl.ir import Limits, Stop
from ssvm_dsl.plugin_api import Clock, call_in_process, call_in_thread
from ssvm_dsl.plugin_api.blocking import _Process

SOON = Limits(time=0.05)


@pytest.fixture
def python_hears_ctrl_c():
    """Make the handler of SIGINT Python's own (a process in the background has none)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Solver:
    """Works until it is asked to stop, as often as it takes."""

    def __init__(self, deaf=1):
        self.stopped, self.deaf = threading.Event(), deaf

    def solve(self):
        self.stopped.wait()
        return "the best so far"

    def stop(self):
        self.deaf -= 1
        if self.deaf == 0:
            self.stopped.set()


def test_results_and_errors_of_a_call_pass_through():
    assert call_in_thread(lambda: 3, Solver().stop, Clock.start(Limits())).value == 3
    assert call_in_process("operator:add", (1, 2)).value == 3
    assert call_in_process(Counter, ("aab",)).value == {"a": 2, "b": 1}
    assert call_in_process("builtins:sorted", ([2, 1],), {"reverse": True}).value == [2, 1]
    with pytest.raises(ZeroDivisionError):
        call_in_thread(lambda: 1 // 0, Solver().stop)
    with pytest.raises(ZeroDivisionError):
        call_in_process("operator:floordiv", (1, 0))
    assert call_in_process("operator:add", (1, 2)).stop is Stop.FINISHED  # that process answers on


@pytest.mark.parametrize("deaf", [1, 3])
def test_a_limit_asks_the_solver_to_stop_until_it_does(deaf):
    solver = Solver(deaf)
    ended = call_in_thread(solver.solve, solver.stop, Clock.start(SOON))
    assert (ended.value, ended.stop, ended.lost) == ("the best so far", Stop.TIME, "")


def test_a_solver_that_does_not_stop_is_left_behind():
    solver = Solver(deaf=10**9)
    ended = call_in_thread(solver.solve, solver.stop, Clock.start(SOON), grace=0.05)
    assert (ended.value, ended.stop) == (None, Stop.TIME)
    assert ended.lost == (
        "the solver was asked to stop and did not within 0.05 s: its answer is lost, and its thread goes on"
    )
    solver.stopped.set()


def test_a_limit_ends_the_process_of_a_solver():
    ended = call_in_process("time:sleep", (10_000,), clock=Clock.start(SOON))
    assert (ended.value, ended.stop) == (None, Stop.TIME)
    assert ended.lost.startswith("time:sleep was ended after ")
    assert ended.lost.endswith(" s: what it had found is lost")


#: Presses Ctrl-C in the process that asks, and goes on.
PRESS = "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(10_000)"


def test_ctrl_c_ends_both(python_hears_ctrl_c):
    solver = Solver()

    def solve():
        os.kill(os.getpid(), signal.SIGINT)
        return solver.solve()

    ended = call_in_thread(solve, solver.stop)
    assert (ended.value, ended.stop) == ("the best so far", Stop.INTERRUPTED)
    assert call_in_process("builtins:exec", (PRESS,)).stop is Stop.INTERRUPTED


def test_the_limit_of_whoever_called_the_backend_holds_too():
    with within(Clock.start(SOON)):
        assert call_in_process("time:sleep", (10_000,)).stop is Stop.TIME
        solver = Solver()
        assert call_in_thread(solver.solve, solver.stop).stop is Stop.TIME
        with pytest.raises(OutOfTime):
            call_in_thread(pause, solver.stop)  # the thread knows the limit


def test_a_process_that_dies_is_an_error_with_its_status():
    with pytest.raises(RuntimeError, match="the process that ran os:abort ended by itself, with status"):
        call_in_process("os:abort")


def test_functions_that_no_other_process_finds_are_refused():
    with pytest.raises(OptionError, match="at the top level of a module that can be imported"):
        call_in_process(lambda: 1)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        call_in_process("no_such_module:f")


def test_processes_are_kept_and_ended(monkeypatch):
    monkeypatch.setattr(_Process, "_idle", [])
    first = call_in_process("os:getpid").value
    assert call_in_process("os:getpid").value == first != os.getpid()
    kept = _Process._idle[0]
    _Process.end_all()
    assert kept._child.poll() is not None
    assert not _Process._idle


def test_what_a_function_prints_is_no_answer(capfd):
    assert call_in_process("builtins:print", ("hello",)).value is None
    call_in_process("sys:stdout.flush")
    assert capfd.readouterr().out == ""
