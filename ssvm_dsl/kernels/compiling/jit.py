"""``njit`` and ``cfunc`` for the kernels of the package and of plug-ins.

With the versions of numba that were tested, what a kernel calls is compiled once, within the kernel, and kept on disk
for all environments (:mod:`ssvm_dsl.kernels.compiling.linking`).  With other versions plain ``numba.njit(cache=True)``
compiles: the results are the same, a first fit takes longer, and nothing is compiled ahead.  A warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numba
from numba import types
from numba.experimental import function_type  # noqa: F401 (how kernels take callbacks)

from ssvm_dsl.kernels.compiling import self_test

#: Why plain numba compiles, ``""`` where it does not.
OBJECTION = self_test.objection()

#: Whether kernels are compiled by :mod:`ssvm_dsl.kernels.compiling.linking`.
LINKED = not OBJECTION

if LINKED:
    from ssvm_dsl.kernels.compiling import linking
elif not self_test.asked():
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
        functions :mod:`ssvm_dsl.kernels.compiling.borrowing` finds out which need not count; plain numba counts always.
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
