"""A clock that goes on at each look, in place of the machine's: what ends in time does so on any machine."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

import pytest


class Ticks:
    """``perf_counter`` that goes on by a millisecond at each look."""

    STEP = 1e-3

    def __init__(self):
        self.looks = 0

    def __call__(self):
        self.looks += 1
        return self.looks * self.STEP


@contextmanager
def ticking():
    """Give the modules of the package and of its plug-ins a clock of ticks, and yield it."""
    clock = Ticks()
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.split(".")[0].startswith("ssvm_") and vars(module).get("perf_counter") is time.perf_counter:
                patch.setattr(module, "perf_counter", clock)
        yield clock


def looks_of(call):
    """Return what a call returns, and how often it looks at the clock."""
    with ticking() as clock:
        return call(), clock.looks
