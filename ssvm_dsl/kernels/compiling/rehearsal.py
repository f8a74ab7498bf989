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
from numba.core.ccallback import CFunc
from numba.core.dispatcher import OmittedArg
from numba.experimental import function_type as function_type  # types of functions that are passed by their address
from numba.extending import _Intrinsic

from ssvm_dsl.kernels.compiling.code_key import extent
from ssvm_dsl.kernels.compiling.code_store import Store
from ssvm_dsl.kernels.compiling.jit import Kernel

#: What intrinsic functions are in Python; the others return their argument.
IN_PYTHON: dict[str, Callable[..., Any]] = {
    "count_bits": lambda word: int(word).bit_count(),
    "first_bit": lambda word: (int(word) & -int(word)).bit_length() - 1,
    "prefetch": lambda array, index: None,
}


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
        known = kept is not None and isinstance(kept._cache, Store)
        return kept._cache.state(self.arguments, kept.targetctx.codegen()) if known else "missing"

    def _kept(self) -> Any:
        """Return what compiles it, ``None`` for functions that are called by their address."""
        kernel = self.found()
        if not isinstance(kernel, Kernel):
            return None
        return kernel.part if self.part else kernel


class Rehearsal:
    """Within it kernels run in Python and become :attr:`jobs` where Python calls them, :attr:`parts` where others do.

    It changes what kernels are for the whole process: nothing else may run meanwhile.
    """

    def __init__(self) -> None:
        self._jobs: dict[Job, None] = {}
        self._callbacks: list[CFunc] = []
        self._depth = 0
        self._before = Kernel.compile, CFunc.compile, _Intrinsic.__call__
        self._errors = np.errstate(all="ignore")  # integers that overflow, as they may in machine code

    @property
    def jobs(self) -> list[Job]:
        """What is to be compiled, the longest first."""
        return sorted((job for job in self._jobs if not job.part), key=lambda job: -job.extent)

    @property
    def parts(self) -> list[Job]:
        """The parts of these, in the order of their first calls."""
        return [job for job in self._jobs if job.part]

    def __enter__(self) -> Self:
        """Begin."""
        rehearsal = self

        def compile_kernel(self: Kernel, arguments: Any) -> Callable[..., Any]:
            rehearsal._note(self.py_func, tuple(arguments), part=rehearsal._depth > 0)
            return lambda *args: rehearsal._call(self.py_func, args)

        def compile_callback(self: CFunc) -> None:
            rehearsal._note(self.__wrapped__, ())
            rehearsal._callbacks.append(self)

        def call_intrinsic(self: _Intrinsic, value: Any, *rest: Any) -> Any:
            return IN_PYTHON[self._name](value, *rest) if self._name in IN_PYTHON else value

        self._put(compile_kernel, compile_callback, call_intrinsic)
        self._errors.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End: kernels are compiled again when they are called."""
        self._put(*self._before)
        self._errors.__exit__(kind, error, trace)

    def _put(self, *methods: Callable[..., Any]) -> None:
        """Give kernels, functions called by their address, and intrinsic functions other methods."""
        changed = (Kernel, "compile"), (CFunc, "compile"), (_Intrinsic, "__call__")
        for (kind, name), method in zip(changed, methods, strict=True):
            setattr(kind, name, method)

    def catch_up(self) -> None:
        """Compile, or load, what the process has imported meanwhile and will not import again."""
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
            return function(*(one.value if isinstance(one, OmittedArg) else one for one in args))
        finally:
            self._depth -= 1
