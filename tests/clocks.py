"""A clock that goes on at each look, in place of the machine's: what ends in time does so on any machine."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

import pytest


class Ticks:
    """``perf_counter`` that goes on by a millisecond at each look, and presses Ctrl-C at the look ``ctrl_c``."""

    STEP = 1e-3

    def __init__(self, ctrl_c=None):
        self.looks, self.ctrl_c = 0, ctrl_c

    def __call__(self):
        self.looks += 1
        if self.looks == self.ctrl_c:
            raise KeyboardInterrupt
        return self.looks * self.STEP


@contextmanager
def ticking(ctrl_c=None):
    """Give the modules of the package and of its plug-ins a clock of ticks, and yield it."""
    clock = Ticks(ctrl_c)
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.split(".")[0].startswith("ssvm_") and vars(module).get("perf_counter") is time.perf_counter:
                patch.setattr(module, "perf_counter", clock)
        yield clock


def looks_of(call, ctrl_c=None):
    """Return what a call returns, and how often it looks at the clock; at the look ``ctrl_c`` comes Ctrl-C."""
    with ticking(ctrl_c) as clock:
        return call(), clock.looks
