"""Code of plug-ins at work: its errors contained, its surroundings put back, what it is shown read-only.

Plug-ins are foreign programs: they may raise anything, ``SystemExit`` included, and whatever goes wrong in them becomes
an error that names the plug-in (:class:`contained`).  Two things are not theirs: ``KeyboardInterrupt`` (the user's; a
note says where it struck) and what a signal handler of the host raises while their code runs, such as the ``sys.exit``
of a handler for SIGTERM.  A plug-in that hangs cannot be stopped from inside the process; Ctrl-C is then what ends it.

Code that numpy, warnings, signals and files of everybody depend on is not a plug-in's to change: a solver that sets
``np.seterr(all="raise")`` makes the host fail elsewhere, one that replaces the handler of SIGINT takes Ctrl-C away.
What is changed is put back, and named (:class:`kept_surroundings`).  What is looked at: numpy's error state in every
thread, for it is one for each; in the main thread also the working directory, the warnings filters, and the handlers of
the signals that end programs; where a backend is opened also the environment variables.  Other threads of the process
may change these rightly while a plug-in works in one of them, so that they are left alone there.  Filters that an
import brings stay: they are those of the library that was imported.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from threading import current_thread, main_thread
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from ssvm_dsl.errors import BackendFault, OutOfTime, PluginError, PluginWarning, SsvmError, TooLargeError

#: Makes the error of a backend from a text that says what it did.
Fault = Callable[[str], BackendFault]


class contained:
    """Run code of a plug-in, as a context manager.

    Parameters
    ----------
    what : str
        The owner of the code, e.g. ``"backend 'x' (plug-in 'y' of z 1.0)"``.
    error : callable, optional
        Makes the error from a text like ``"it failed with ValueError: ..."``; a :class:`PluginError` by default.

    Raises
    ------
    PluginError
        The code raised an exception that is not one of this package's errors.  ``__cause__`` holds the exception.
    TooLargeError
        It ran out of memory.
    """

    __slots__ = ("error", "what")

    def __init__(self, what: str, error: Callable[[str], SsvmError] | None = None) -> None:
        self.what, self.error = what, error

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and (translated := self.translate(error)) is not error:
            raise translated

    def translate(self, error: BaseException) -> BaseException:
        """Return what to raise in the place of an error of the code; the error itself where it may pass."""
        if isinstance(error, SsvmError):
            return error
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"interrupted in {self.what}")
            return error
        if from_signal(error.__traceback__):
            return error
        translated: SsvmError
        if isinstance(error, MemoryError):
            translated = TooLargeError(f"{self.what} ran out of memory; give it less at once, or take another")
        else:
            text = f"it failed with {words(error)}"
            translated = self.error(text) if self.error is not None else PluginError(f"{self.what}: {text}")
        translated.__cause__ = error
        return translated


def refusal(error: SsvmError) -> str:
    """Return, in one line, why a plug-in is not taken while others are considered: it must not take the host down.

    Raises
    ------
    OutOfTime
        If that is the error: the end of the call is no failure of the plug-in.
    """
    if isinstance(error, OutOfTime):
        raise error
    return " ".join(str(error).removeprefix("it failed with ").split())


def words(error: BaseException) -> str:
    """Return an exception as one line; one that cannot be printed by its type alone."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    return f"{name}: {text[:500]}" if text else name


def from_signal(trace: TracebackType | None) -> bool:
    """Return whether an exception comes from a signal handler, which runs on top of whatever code is at work."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    while trace is not None and handlers:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    """Return the code of a signal handler written in Python."""
    while hasattr(handler, "func"):  # functools.partial
        handler = handler.func
    if callable(handler) and not hasattr(handler, "__code__") and not hasattr(handler, "__func__"):
        handler = type(handler).__call__
    code = getattr(getattr(handler, "__func__", handler), "__code__", None)
    return code if isinstance(code, CodeType) else None


#: Signals that end programs, by name: not all systems have them all.
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP") if hasattr(signal, name))


def read_only(value: Any) -> Any:
    """Return arrays, and records and tuples of them, as views that cannot be written through."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, tuple):
        return tuple(map(read_only, value))
    if isinstance(value, dict):
        return {name: read_only(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        made = replace(value, **{one.name: read_only(getattr(value, one.name)) for one in fields(value) if one.init})
        cached = {name: read_only(one) for name, one in vars(value).items() if name not in vars(made)}
        vars(made).update(cached)  # what the record has computed once, such as pointers
        return made
    return value


class kept_surroundings:
    """Run code of a plug-in and put back what it changes in its process, as a context manager.

    Takes about 20 to 40 microseconds, so that only third-party code runs inside it.

    Parameters
    ----------
    owner_name : str
        The owner of the code, e.g. ``"backend 'x' (plug-in 'y' of z 1.0)"``.
    reported : set of str
        Changes that users were warned of already: each is named once.
    thorough : bool
        Whether environment variables are compared, too, which takes longer.

    Warns
    -----
    PluginWarning
        The code changed its process; the change has been undone.
    """

    __slots__ = ("before", "owner_name", "reported", "thorough")

    def __init__(self, owner_name: str, reported: set[str], thorough: bool = False) -> None:
        self.owner_name, self.reported, self.thorough = owner_name, reported, thorough

    def __enter__(self) -> None:
        self.before = _Surroundings.now(self.thorough)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        changed = self.before.put_back()
        new = [what for what in changed if what not in self.reported]
        self.reported.update(new)
        if new:
            text = f"{self.owner_name} changed {', '.join(new)} of this process: put back"
            warnings.warn(text, PluginWarning, stacklevel=3)


@dataclass(frozen=True, eq=False)
class _Surroundings:
    """What code runs in.

    Parameters
    ----------
    errors : dict
        numpy's error state in this thread.
    folder : str or None
        The working directory; ``None`` outside of the main thread, or where it is gone.
    filters : list or None
        The warnings filters; ``None`` outside of the main thread.
    handlers : list or None
        Those of the signals that end programs; likewise.
    n_modules : int
        How many modules are imported.
    variables : dict or None
        The environment; ``None`` if it is not compared.
    """

    errors: dict[str, Any]
    folder: str | None
    filters: list[Any] | None
    handlers: list[Any] | None
    n_modules: int
    variables: dict[str, str] | None

    @classmethod
    def now(cls, thorough: bool) -> _Surroundings:
        """Return their current values."""
        errors, n_modules = dict(np.geterr()), len(sys.modules)
        if current_thread() is not main_thread():
            return cls(errors, None, None, None, n_modules, None)
        handlers = [signal.getsignal(number) for number in ENDING]
        variables = dict(os.environ) if thorough else None
        return cls(errors, _folder(), list(warnings.filters), handlers, n_modules, variables)

    def put_back(self) -> list[str]:
        """Restore the earlier values; return the changes as text."""
        steps: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("numpy's error state", self._put_back_errors),
            ("the working directory", self._put_back_folder),
            ("the warnings filters", self._put_back_filters),
            ("signal handlers", self._put_back_handlers),
            ("environment variables", self._put_back_variables),
        )
        return [what for what, step in steps if step()]

    def _put_back_errors(self) -> bool:
        changed = np.geterr() != self.errors
        if changed:
            np.seterr(**self.errors)
        return changed

    def _put_back_folder(self) -> bool:
        if self.folder is None or _folder() == self.folder:
            return False
        with suppress(OSError):  # it may be gone
            os.chdir(self.folder)
        return True

    def _put_back_filters(self) -> bool:
        if self.filters is None or len(sys.modules) != self.n_modules or list(warnings.filters) == self.filters:
            return False
        warnings.resetwarnings()
        warnings.filters[:] = self.filters  # type: ignore[index]  # a list, which typeshed takes for any sequence
        return True

    def _put_back_handlers(self) -> bool:
        changed = False
        for number, handler in zip(ENDING, self.handlers or (), strict=False):
            if signal.getsignal(number) is not handler and handler is not None:  # None: set by code that is not Python
                signal.signal(number, handler)
                changed = True
        return changed

    def _put_back_variables(self) -> bool:
        if self.variables is None or dict(os.environ) == self.variables:
            return False
        for name in os.environ.keys() - self.variables.keys():
            del os.environ[name]
        os.environ.update(self.variables)
        return True


def _folder() -> str | None:
    """Return the working directory, ``None`` if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None
