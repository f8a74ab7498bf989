"""``assign``: copies of arrays inside compiled kernels.

``target[:] = source`` would do, but numba compiles the text of the error for arrays that do not fit together with it:
two seconds in each process that compiles a kernel, more than the kernel itself often takes.
"""

from __future__ import annotations

from typing import Any

from ssvm_dsl.kernels.compiling.jit import njit


@njit(cache=True, nogil=True, inline="always")
def assign(target: Any, source: Any) -> None:
    """Copy the elements of ``source`` to ``target``, which has as many or fewer; both are one-dimensional."""
    for k in range(len(target)):
        target[k] = source[k]
