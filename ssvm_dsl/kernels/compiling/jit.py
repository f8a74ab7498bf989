"""``njit`` and ``cfunc`` for the kernels of the package and of plug-ins.

With the versions of numba that were tested, what a kernel calls is compiled once, within the kernel, and kept on disk
for all environments (:mod:`ssvm_dsl.kernels.compiling.linking`).  With other versions plain ``numba.njit(cache=True)``
compiles: the results are the same, a first fit takes longer, and nothing is compiled ahead.  A warning says so.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import numba
from numba import types
from numba.experimental import function_type  # noqa: F401 (how kernels take callbacks)

# -- whether numba's compiler is the one that linking builds on ----------------------------------------------------
#
# That module uses parts of numba that are not public.  It is used with versions of numba that were tested, where a
# small kernel, of a part and a callback, compiles and computes what Python computes.  The test runs once for an
# installation: a file in the folder of compiled code says that it has passed.

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
    run_self_test()
    if passed is not None:
        with suppress(OSError):  # the disk is full: the next process tests again
            passed.touch()


def run_self_test() -> None:
    """Compile a kernel that calls another function, and a callback, and compare their results with Python's.

    Raises
    ------
    Exception
        Of any type, if a result is not as expected.
    """
    import numpy as np

    from ssvm_dsl.kernels.compiling import linking

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

    @linking.cfunc(types.float64(types.float64))
    def callback(x: float) -> float:
        return x + 1.0

    part = linking.njit(scaled, cache=False, borrowed=True)
    kernel = linking.njit(total, cache=False, borrowed=False, nogil=True)
    results = kernel(TestedRecord(np.arange(6.0).reshape(3, 2), 2.0)), callback.ctypes(1.5)
    expected = 21.0, 2.5
    if results != expected:
        raise ArithmeticError(f"a small kernel computes {results}, expected {expected}")


#: Why plain numba compiles, ``""`` where it does not.
OBJECTION = objection()

#: Whether kernels are compiled by :mod:`ssvm_dsl.kernels.compiling.linking`.
LINKED = not OBJECTION

if LINKED:
    from ssvm_dsl.kernels.compiling import linking
elif not asked():
    text = "kernels are compiled by plain numba, so that first calls take longer; results are the same"
    warnings.warn(f"{text}: {OBJECTION}", RuntimeWarning, stacklevel=2)

#: Options that numba takes, where they are not given, from whatever function a callee happens to be compiled for first.
EXPLICIT = {"fastmath": False, "error_model": "python", "forceinline": False}


def njit(
    function: Callable[..., Any] | None = None, *, cache: bool = True, borrowed: bool = False, **options: Any
) -> Any:
    """Compile a function when it is first called, as ``numba.njit`` does.

    Parameters
    ----------
    function : function, optional
        Without it a decorator is returned.
    cache : bool
        Whether compiled code is kept on disk.
    borrowed : bool
        Whether it is an error to make arrays or to return any: then no references to arrays are counted.  Of other
        functions :mod:`ssvm_dsl.kernels.compiling.linking` finds out which need not count; plain numba counts always.
    **options
        Options of ``numba.njit``.

    Returns
    -------
    numba dispatcher or decorator
    """
    if function is None:
        return lambda function: njit(function, cache=cache, borrowed=borrowed, **options)
    options = EXPLICIT | options
    if LINKED:
        return linking.njit(function, cache=cache, borrowed=borrowed, **options)
    # Where _nrt is not given, numba takes that of the function that is compiled around the first call of this one.
    return numba.njit(cache=cache, _nrt=not borrowed, **options)(function)


def cfunc(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a function that is called by its address, compiled when a kernel first gets it.

    Parameters
    ----------
    signature : numba signature
    """
    if LINKED:
        return linking.cfunc(signature)
    return lambda function: PlainCallback(function, signature)


class PlainCallback(types.WrapperAddressProtocol):  # type: ignore[misc]
    """A function that ``numba.cfunc`` compiles when a kernel first gets it.

    Parameters
    ----------
    function : function
    signature : numba signature
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self._function, self._signature = function, signature

    @cached_property
    def _compiled(self) -> Any:
        return numba.cfunc(self._signature, cache=True)(self._function)

    def __wrapper_address__(self) -> int:
        """Return where the code is."""
        address: int = self._compiled.address
        return address

    @property
    def ctypes(self) -> Any:
        """The function as Python calls it through ``ctypes``."""
        return self._compiled.ctypes

    def signature(self) -> Any:
        """Return the signature."""
        return self._signature

    def __call__(self, *args: Any) -> Any:
        """Call the Python function."""
        return self._function(*args)
