"""Ctrl-C while a kernel is compiled or loaded comes once that is done, to whoever handles it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import numba
import pytest
from numba.core.event import Listener, install_listener

import ctrl_c
from ctrl_c import pressed_within_llvm, python_hears_ctrl_c
from own_compiler import own_compiler
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.kernels.compiling.jit import cfunc, njit
from ssvm_dsl.kernels.compiling.while_compiling import PostponedInterrupts

pytestmark = own_compiler


def press():
    signal.raise_signal(signal.SIGINT)


class Pressing(Listener):
    """Presses Ctrl-C whenever numba begins to compile something."""

    def on_start(self, event):
        press()

    def on_end(self, event):
        pass


def fresh():
    """Return a kernel that calls another one, neither compiled yet."""

    @njit(cache=False)
    def half(x):
        return 0.5 * x

    @njit(cache=False)
    def quarter(x):
        return 0.5 * half(x)

    return quarter


def test_an_interrupt_comes_once_and_the_kernel_is_there():
    quarter = fresh()
    with python_hears_ctrl_c():
        with install_listener("numba:compile", Pressing()), pytest.raises(KeyboardInterrupt) as caught:
            quarter(8.0)  # pressed twice, as two functions are compiled
        assert caught.value.__context__ is None
        assert len(quarter.signatures) == 1
        assert quarter(8.0) == 2.0


def called_by_address():
    function = cfunc(numba.float64(numba.float64))(lambda x: 0.5 * x)
    return lambda x: function.ctypes(x)


@pytest.mark.parametrize("make", [fresh, called_by_address])
def test_an_interrupt_within_calls_from_llvm_is_not_lost(make):
    made = make()
    with python_hears_ctrl_c(), pressed_within_llvm(), pytest.raises(KeyboardInterrupt):
        made(8.0)


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from ctrl_c import pressed_within_llvm, python_hears_ctrl_c
from ssvm_dsl.kernels.compiling.jit import njit

@njit
def half(x):
    return 0.5 * x

with python_hears_ctrl_c():
    try:
        with pressed_within_llvm():
            half(8.0)
    except KeyboardInterrupt:
        print("interrupted", half.stats.cache_hits.total(), half(8.0))
"""


def test_an_interrupt_while_a_kernel_is_loaded_is_not_lost(tmp_path, monkeypatch):
    monkeypatch.setenv("SSVM_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "half_of_a_test.py").write_text(PROGRAM.format(tests=str(Path(ctrl_c.__file__).parent)))
    told = []
    for _ in range(2):
        command = [sys.executable, "-B", "-c", "import half_of_a_test"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.strip())
    assert told == ["interrupted 0 4.0", "interrupted 1 4.0"]


def test_an_error_of_the_compiler_is_the_context_of_the_interrupt():
    pressing, raises = install_listener("numba:compile", Pressing()), pytest.raises(KeyboardInterrupt)
    with python_hears_ctrl_c(), pressing, raises as caught:
        fresh()("text")
    assert isinstance(caught.value.__context__, numba.TypingError)


def test_a_handler_of_somebody_else_is_called_at_the_end():
    heard, quarter = [], fresh()

    def hear(number, frame):
        heard.append((number, len(quarter.signatures)))

    with python_hears_ctrl_c(), install_listener("numba:compile", Pressing()):
        signal.signal(signal.SIGINT, hear)
        assert quarter(8.0) == 2.0  # it raises nothing, and so all goes on
        assert signal.signal(signal.SIGINT, signal.default_int_handler) is hear
    assert heard == [(signal.SIGINT, 1)]


def test_a_handler_that_comes_meanwhile_stays():
    def hear(number, frame):
        pass

    with python_hears_ctrl_c():
        with PostponedInterrupts():
            signal.signal(signal.SIGINT, hear)
        assert signal.signal(signal.SIGINT, signal.default_int_handler) is hear


@pytest.mark.parametrize("action", [signal.SIG_IGN, signal.SIG_DFL])
def test_signals_without_a_handler_of_python_are_left_alone(action):
    seen = []
    with python_hears_ctrl_c():
        signal.signal(signal.SIGINT, action)
        with PostponedInterrupts():
            seen.append(signal.getsignal(signal.SIGINT))
        assert signal.signal(signal.SIGINT, signal.default_int_handler) is action
    assert seen == [action]


def test_other_threads_leave_the_handler_alone_and_hear_of_ctrl_c_when_they_have_compiled():
    compiles, pressed, after = threading.Event(), threading.Event(), []

    class Waiting(Pressing):
        def on_start(self, event):
            after.append(signal.getsignal(signal.SIGINT))
            compiles.set()
            assert pressed.wait(timeout=120.0)

    def work(quarter):
        try:
            return quarter(8.0)
        except KeyboardInterrupt:
            after.append(len(quarter.signatures))
            raise

    def interrupt(threads):
        assert compiles.wait(timeout=120.0)
        threads._interrupt()
        pressed.set()

    threads, presser = Threads(2), None
    with python_hears_ctrl_c(), install_listener("numba:compile", Waiting()):
        found: Future = threads._pool.submit(threads._run, lambda: work(fresh()))
        presser = threading.Thread(target=interrupt, args=(threads,))
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            found.result(timeout=120.0)
        presser.join()
    threads.close()
    assert after == [signal.default_int_handler] * 3 + [1], "the kernel, its part, and the part that it calls"
