"""A second process that compiles during the first fit on a machine, so that it takes as many processors as there are.

It is started when a fit finds that something is not compiled yet, never where all is, and once in a process.  It
rehearses a small fit with the same trainer, risk and backend, and begins with what the fit needs last, while the fit
begins with what it needs first; what it needs and the other one compiles, it waits for.  ``SSVM_COMPILE_AHEAD=off``
switches it off.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ssvm_dsl import processors
from ssvm_dsl.kernels.compiling import compile_cache
from ssvm_dsl.kernels.compiling.jit import LINKED

#: What the process runs.
PROGRAM = "ssvm_dsl.learning.estimators.fitting.rehearsed_fit"

#: The process, once there is one.
_started: list[subprocess.Popen[bytes]] = []


@contextmanager
def compiling_ahead(trainer: str, risk: str, backend: str) -> Iterator[None]:
    """Compile in a second process the kernels that a fit is found to need, if any.

    Parameters
    ----------
    trainer, risk, backend : str
        Their names.
    """

    def begin() -> None:
        if not _started and possible():
            start(trainer, risk, backend)

    compile_cache.ON_MISS.append(begin)
    try:
        yield
    finally:
        compile_cache.ON_MISS.remove(begin)


def possible() -> bool:
    """Return whether a second process would help, and may be started.

    Not from processes that were themselves started to compute, as joblib's: there are as many of them as processors.
    """
    mine = multiprocessing.current_process()
    return (
        os.environ.get("SSVM_COMPILE_AHEAD", "") != "off"
        and LINKED
        and compile_cache.LOCKS
        and processors.available() > 1
        and idle()
        and compile_cache.folder() is not None
        and mine.name == "MainProcess"
        and not mine.daemon
        and bool(sys.executable)
        and not getattr(sys, "frozen", False)
    )


def idle() -> bool:
    """Return whether a processor has been without work: a second process costs a quarter more processor time."""
    return os.getloadavg()[0] <= (os.cpu_count() or 1) - 0.5


def start(trainer: str, risk: str, backend: str) -> None:
    """Start the process; if the system cannot start one, the fit compiles everything itself."""
    command = [sys.executable, "-m", PROGRAM, trainer, risk, backend]
    nowhere = subprocess.DEVNULL
    env = {**os.environ, "SSVM_COMPILE_AHEAD": "off"}
    with suppress(OSError):
        process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=env)
        _started.append(process)
        atexit.register(end, process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process, if it has not."""
    process.terminate()
    process.wait()
