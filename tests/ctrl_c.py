"""Ctrl-C at the worst moments of compiling."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import pytest
from numba.core.codegen import JITCodeLibrary


@contextmanager
def python_hears_ctrl_c():
    """Make the handler of SIGINT Python's own (a process in the background has none); it must be there at the end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def pressed_within_llvm():
    """Press Ctrl-C once, where LLVM calls Python to hand machine code over or to have it: exceptions are lost there."""
    pressed = []

    def put(library, name, value):
        made = name == "_compiled" and value
        loaded = name == "_compiled_object" and value is None and getattr(library, name, None) is not None
        if (made or loaded) and not pressed:
            pressed.append(name)
            signal.raise_signal(signal.SIGINT)
        object.__setattr__(library, name, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JITCodeLibrary, "__setattr__", put)
        yield
    assert pressed
