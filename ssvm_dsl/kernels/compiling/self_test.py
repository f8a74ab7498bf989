"""Whether numba's compiler is the one that :mod:`ssvm_dsl.kernels.compiling.linking` builds on.

That module uses parts of numba that are not public.  It is used with versions of numba that were tested, where a small
kernel, of a part and a callback, compiles and computes what Python computes.  The test runs once for an installation:
a file in the folder of compiled code says that it has passed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, NamedTuple

#: Versions of numba that were tested.
TESTED = ("0.68",)

#: ``SSVM_COMPILER=numba`` asks for plain numba.
VARIABLE, PLAIN = "SSVM_COMPILER", "numba"


def asked() -> bool:
    """Return whether the environment asks for plain numba."""
    return os.environ.get(VARIABLE, "") == PLAIN


def objection() -> str:
    """Return why kernels are compiled by plain numba, ``""`` where they are not."""
    from numba import __version__

    if asked():
        return f"{VARIABLE}={PLAIN} asks for it"
    if not any(__version__ == one or __version__.startswith(f"{one}.") for one in TESTED):
        return f"numba {__version__} is installed, and numba {', '.join(TESTED)} is what was tested"
    try:
        _pass_once()
    except Exception as err:  # whatever another version has changed
        return f"numba's compiler is not as expected ({type(err).__name__}: {' '.join(str(err).split())[:200]})"
    return ""


def _pass_once() -> None:
    """Run the test, unless a file says that it has passed."""
    from ssvm_dsl.kernels.compiling import code_key, compile_cache

    folder = compile_cache.folder()
    passed = None if folder is None else folder / f"self-test-{code_key.versions_digest()}"
    if passed is not None and passed.exists():
        return
    run()
    if passed is not None:
        with suppress(OSError):  # the disk is full: the next process tests again
            passed.touch()


def run() -> None:
    """Compile a kernel that calls another function, and a callback, and compare their results with Python's.

    Raises
    ------
    Exception
        Of any type, if a result is not as expected.
    """
    import numpy as np
    from numba import types

    from ssvm_dsl.kernels.compiling.linking import cfunc, njit

    class TestedRecord(NamedTuple):
        rows: Any
        scale: float

    def scaled(r: Any, k: int) -> Any:
        return r.rows[k, -1] * r.scale

    def total(r: Any) -> Any:
        out = 0.0
        for k in range(len(r.rows)):
            r.rows[k, 0] = k
            out += part(r, k) + r.rows[k][0]
        return out

    @cfunc(types.float64(types.float64))
    def callback(x: float) -> float:
        return x + 1.0

    part = njit(scaled, cache=False, borrowed=True)
    kernel = njit(total, cache=False, borrowed=False, nogil=True)
    results = kernel(TestedRecord(np.arange(6.0).reshape(3, 2), 2.0)), callback.ctypes(1.5)
    expected = 21.0, 2.5
    if results != expected:
        raise ArithmeticError(f"a small kernel computes {results}, expected {expected}")
