"""Which kernels a computation calls, found without compiling any: it is rehearsed in Python, on a small example.

What is found can then be compiled in any order, by as many processes as there are processors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Self

import numpy as np
from numba.core.dispatcher import OmittedArg
from numba.experimental import function_type as function_type  # types of functions that are passed by their address

from ssvm_dsl.kernels.compiling.code_key import extent
from ssvm_dsl.kernels.compiling.code_store import CodeStore
from ssvm_dsl.kernels.compiling.linking import Callback, CompiledKernel, substitutes


@dataclass(frozen=True)
class Job:
    """A kernel to compile.

    Parameters
    ----------
    module, name : str
        Where it is defined.
    arguments : tuple of numba types
        Those of its arguments; none for a function that is compiled as soon as its module is imported.
    extent : int
        How much code it is made of, in bytes of Python's; 0 for parts.
    part : bool
        Whether the part is compiled that kernels call, not the kernel that Python calls.
    """

    module: str
    name: str
    arguments: tuple[Any, ...]
    extent: int
    part: bool = False

    @property
    def text(self) -> str:
        """Where it is defined."""
        return f"{self.module}.{self.name}"

    def found(self) -> Any:
        """Return the kernel; importing its module compiles it if it is one that is called by its address.

        Raises
        ------
        ImportError
            It is not where a process can find it.
        """
        value: Any = import_module(self.module)
        for name in self.name.split("."):
            if not hasattr(value, name):
                raise ImportError(f"{self.module} has no {self.name}")
            value = getattr(value, name)
        return value

    def compile(self) -> None:
        """Compile the kernel, or load it."""
        kept = self._kept()
        if kept is not None:
            kept.compile(self.arguments)

    def state(self) -> str:
        """Return what :meth:`Store.state` says; of functions that are called by their address nothing is known."""
        kept: Any = self._kept() if self.arguments else None
        known = kept is not None and isinstance(kept._cache, CodeStore)
        return kept._cache.state(self.arguments, kept.targetctx.codegen()) if known else "missing"

    def _kept(self) -> Any:
        """Return what compiles it, ``None`` for functions that are called by their address."""
        kernel = self.found()
        if not isinstance(kernel, CompiledKernel):
            return None
        return kernel.part if self.part else kernel


class Rehearsal:
    """Within it kernels run in Python and become :attr:`jobs` where Python calls them, :attr:`parts` where others do.

    Nothing is compiled in the whole process meanwhile: nothing else may run.
    """

    def __init__(self) -> None:
        self._jobs: dict[Job, None] = {}
        self._callbacks: list[Callback] = []
        self._depth = 0
        self._errors = np.errstate(all="ignore")  # integers that overflow, as they may in machine code

    @property
    def jobs(self) -> list[Job]:
        """The list of functions to compile, the longest first."""
        return sorted((job for job in self._jobs if not job.part), key=lambda job: -job.extent)

    @property
    def parts(self) -> list[Job]:
        """The parts of these, in the order of their first calls."""
        return [job for job in self._jobs if job.part]

    def __enter__(self) -> Self:
        """Begin."""
        substitutes.append(self)
        self._errors.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End: kernels are compiled again when they are called."""
        substitutes.remove(self)
        self._errors.__exit__(kind, error, trace)

    def kernel(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Record a kernel; return a function that calls its Python version."""
        self._note(function, arguments, part=self._depth > 0)
        return lambda *args: self._call(function, args)

    def callback(self, callback: Callback) -> None:
        """Note a function that would be compiled now, to be called by its address."""
        self._note(callback.__wrapped__, ())
        if callback not in self._callbacks:
            self._callbacks.append(callback)

    def catch_up(self) -> None:
        """Compile or load kernels of modules that the process has imported meanwhile."""
        while self._callbacks:
            self._callbacks.pop().compile()

    def _note(self, function: Callable[..., Any], arguments: tuple[Any, ...], part: bool = False) -> None:
        """Note that a kernel is called."""
        size = 0 if part else extent(function)
        self._jobs[Job(function.__module__, function.__qualname__, arguments, size, part)] = None

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call the Python function of a kernel."""
        self._depth += 1
        try:
            return function(*(one.value if isinstance(one, OmittedArg) else _as_python(one) for one in args))
        finally:
            self._depth -= 1


def _as_python(value: Any) -> Any:
    """Return an argument whose records have their fields as attributes, as compiled code reads them."""
    if isinstance(value, np.ndarray) and value.dtype.fields and not isinstance(value, np.recarray):
        return value.view(np.recarray)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_as_python, value))
    return value
