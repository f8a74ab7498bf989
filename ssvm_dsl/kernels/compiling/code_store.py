"""Compiled code on disk: one file for each entry, named after all that it is made of.

An entry is written to a file of its own and renamed, so that a reader sees all of it or nothing.  What one process
compiles, others wait for, as compiling it twice at the same time would take as long for both: a process that compiles
holds a lock on a file beside the entry, which the system releases when the process ends, however it ends.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.caching import _Cache
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from ssvm_dsl.kernels.compiling import code_key, compile_cache
from ssvm_dsl.kernels.compiling.compile_cache import LOCKS
from ssvm_dsl.kernels.compiling.while_compiling import postponed_interrupts

if LOCKS:
    import fcntl

#: Seconds to wait for another process that compiles the same, and between two looks whether it has ended.  Where a
#: wait was in vain, as for a process that was stopped, there is no other one.
PATIENCE, PAUSE = 60.0, 0.01
_impatient: list[Path] = []

#: Entries that were used within so many seconds are not marked as used again.
DAY = 86400.0


class Lock:
    """A lock among processes, on a file that goes with it.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path, self._descriptor = path, -1

    def take(self) -> bool:
        """Take the lock and return ``True``, or return ``False`` as another process has it.

        Where locks do not work, on some network drives, all processes get it.
        """
        if not LOCKS:
            return True
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink == 0:  # released, and removed, in between
                os.close(descriptor)
                return False
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)
            return True
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor >= 0:
            with suppress(OSError):
                self.path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


class CodeStore(_Cache):  # type: ignore[misc]
    """The compiled code of one function, for all types of arguments, by numba's protocol of a cache.

    Parameters
    ----------
    function : function
    options : str
        How it is compiled, and what is kept.
    rebuild : callable
        Makes the result of compiling of (target context, what :func:`reduced` has returned).
    """

    def __init__(self, function: Callable[..., Any], options: str, rebuild: Callable[[Any, Any], Any]) -> None:
        self.function, self.options, self.rebuild, self.enabled = function, options, rebuild, True
        self._locks: dict[Any, Lock] = {}

    @property
    def cache_path(self) -> str | None:
        """The folder."""
        folder = compile_cache.folder()
        return None if folder is None else str(folder)

    def enable(self) -> None:
        """Keep code from now on."""
        self.enabled = True

    def disable(self) -> None:
        """Keep no code from now on."""
        self.enabled = False

    def flush(self) -> None:
        """Do nothing: entries are right for ever."""

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the result of compiling that is kept, else ``None``; then the caller is the one to compile.

        Kept code needs nothing but numba's memory management.  All that it can compile is a fifth of a second to load,
        and is loaded by the compiler.
        """
        rtsys.initialize(target_context)
        path = self.path(signature, target_context.codegen())
        if path is None:
            return None
        result = self._read(path, target_context)
        if result is not None:
            return result
        for call in compile_cache.ON_MISS:
            call()
        lock, end = Lock(path.with_suffix(".lock")), time.monotonic() + PATIENCE
        while not lock.take():
            if _impatient or time.monotonic() > end:
                _impatient.append(path)
                return None
            postponed_interrupts.let_through()
            time.sleep(PAUSE)
        self._locks[signature] = lock
        return self._read(path, target_context)

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep the result of compiling."""
        path = self.path(signature, result.codegen)
        if path is None or result.lifted or result.library.has_dynamic_globals:
            return
        compile_cache.remove_oldest(path.parent)
        data = packed(reduced(result))
        name = ""
        try:
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
                name = file.name
                file.write(data)
            os.replace(name, path)
        except OSError as err:  # the disk is full, or the folder is gone: what was compiled is used all the same
            with suppress(OSError):
                os.unlink(name)
            compile_cache.warn_of_loss(path.parent, err.strerror or str(err))

    def release(self, signature: Any) -> None:
        """Let other processes compile, or find what this one has compiled."""
        lock = self._locks.pop(signature, None)
        if lock is not None:
            lock.release()

    def state(self, signature: Any, codegen: Any) -> str:
        """Return ``"kept"``, ``"busy"`` where another process compiles it, ``"missing"``, or ``"never"`` kept."""
        path = self.path(signature, codegen)
        if path is None:
            return "never"
        lock = Lock(path.with_suffix(".lock"))
        try:
            return "kept" if path.exists() else "missing" if lock.take() else "busy"
        finally:
            lock.release()

    def path(self, signature: Any, codegen: Any) -> Path | None:
        """Return the file of an entry, ``None`` if it cannot be kept."""
        folder = compile_cache.folder() if self.enabled else None
        if folder is None:
            return None
        try:
            key = code_key.entry(self.function, self.options, signature, codegen.magic_tuple())
        except code_key.NoKey:
            return None
        return folder / f"{self.function.__name__}-{key[:32]}{compile_cache.SUFFIX}"

    def _read(self, path: Path, target_context: Any) -> Any:
        """Return the result of compiling in a file; ``None`` without one, or if it is broken."""
        try:
            data = path.read_bytes()
            if time.time() - path.stat().st_mtime > DAY:
                path.touch()
        except OSError:
            return None
        try:
            parts = unpacked(data)
        except (zlib.error, pickle.UnpicklingError, EOFError):  # the machine went down while it was written
            return None
        return self.rebuild(target_context, parts)


def packed(value: Any) -> bytes:
    """Return results of compiling, or types of arguments, as bytes."""
    return zlib.compress(dumps(value), 1)


def unpacked(data: bytes) -> Any:
    """Return the unpacked object."""
    return pickle.loads(zlib.decompress(data))


def reduced(result: Any) -> tuple[Any, ...]:
    """Return the cached part of a compile result, without its type annotations, which are not needed again."""
    parts = result._replace(type_annotation="")._reduce()
    return tuple(map(_kept, parts))


def _kept(value: Any) -> Any:
    """Return environments, alone or in a tuple, in the form in which they are kept; everything else as it is."""
    if isinstance(value, tuple) and value and all(isinstance(one, Environment) for one in value):
        return tuple(map(KeptEnvironment, value))
    return KeptEnvironment(value) if isinstance(value, Environment) and value.can_cache() else value


# -- environments --------------------------------------------------------------------------------------------------
#
# An environment holds the Python objects that compiled code may need, such as texts of errors, and the globals of its
# function's module, which only code in numba's object mode reads: that is never kept.  Numba imports the module all the
# same, for each function of its own that was inlined into a kernel: with ``numba.np.arraymath`` comes ``scipy.linalg``,
# a tenth of a second in a process that answers one question.


class KeptEnvironment:
    """An environment on its way to the disk.

    Parameters
    ----------
    environment : Environment
        Of a function with a module.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self.environment
        return rebuilt, (kept.globals["__name__"], list(kept.consts), kept.env_name)


def rebuilt(module: str, consts: Sequence[Any], name: str) -> Environment:
    """Return the environment of a name: the one that is there, else one made of what was kept.

    A part and the kernel that is made of it have one environment, kept with each: the kernel's has more objects at its
    end, such as the types of elements of arrays that it returns to Python.  Whichever is loaded first, all are there.
    """
    environment = lookup_environment(name)
    if environment is None:
        there = sys.modules.get(module)
        environment = Environment({"__name__": module} if there is None else there.__dict__)
        environment.env_name = name
        Environment._memo[name] = environment
    environment.consts.extend(consts[len(environment.consts) :])
    return environment
