"""Ctrl-C waits until a kernel is compiled.

LLVM calls Python back while it compiles.  An interrupt that strikes in such a call is lost, or leaves half a result
behind, of which numba says ``no compiled object yet``.  So interrupts are noted while a kernel is compiled or loaded,
some seconds at the longest, and come when that is over.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from ctypes import c_ulong, py_object, pythonapi
from threading import Lock, current_thread, get_ident, local, main_thread
from typing import Any

#: A handler of SIGINT; ``None`` in threads that have none.
Handler = Callable[[int, Any], Any] | None

#: Threads that compile, and whether an interrupt waits for them.
_waiting: dict[int, bool] = {}
_lock = Lock()


class HeldInterrupts(local):
    """A context, which may be entered again within itself, that holds back the interrupts of the thread it runs in.

    Python delivers SIGINT to the main thread, to whichever handler there is: it is called at the end, once.  A signal
    that is ignored, or has its default effect, or a handler that is not Python's, stays as it is.  Other threads hear
    of Ctrl-C by :func:`interrupt`.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._handler: Handler = None

    def __enter__(self) -> None:
        """Begin."""
        if self._depth == 0:
            try:
                self._begin()
            except BaseException:  # an interrupt that came just before
                self._end()
                raise
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        """End.  If an interrupt came meanwhile, call its handler, which may raise."""
        self._depth -= 1
        if self._depth == 0:
            handler = self._handler
            if self._end():
                _deliver(handler)

    def let_through(self) -> None:
        """Deliver an interrupt that waits: for loops that wait for another process, within the context."""
        me = get_ident()
        with _lock:
            came = _waiting.get(me, False)
            if came:
                _waiting[me] = False
        if came:
            _deliver(self._handler)

    def _begin(self) -> None:
        """Postpone Ctrl-C: an interrupt is noted, and raised at the end of the block."""
        with _lock:
            _waiting[get_ident()] = False
        if current_thread() is main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, _note)

    def _end(self) -> bool:
        """Note interrupts no longer; return whether one came."""
        handler, self._handler = self._handler, None
        if handler is not None and signal.getsignal(signal.SIGINT) is _note:
            signal.signal(signal.SIGINT, handler)
        with _lock:
            return _waiting.pop(get_ident(), False)


def interrupt(thread: int) -> None:
    """Raise ``KeyboardInterrupt`` in another thread at the next step of Python that it takes outside the compiler."""
    with _lock:
        if thread in _waiting:
            _waiting[thread] = True
        else:
            pythonapi.PyThreadState_SetAsyncExc(c_ulong(thread), py_object(KeyboardInterrupt))


def _note(number: int, frame: Any) -> None:
    """Note that SIGINT came; without the lock, which the main thread may have when the signal strikes."""
    _waiting[get_ident()] = True


def _deliver(handler: Handler) -> None:
    """Call the main thread's interrupt handler, or raise, as an interrupt does."""
    if handler is None:
        raise KeyboardInterrupt
    handler(signal.SIGINT, None)


#: Within it interrupts wait.
held_interrupts = HeldInterrupts()
