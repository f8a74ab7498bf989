"""What is different in this process while a kernel compiles: Ctrl-C waits, and Python looks for garbage seldom.

LLVM calls Python back while it compiles.  An interrupt that strikes in such a call is lost, or leaves half a result
behind, of which numba says ``no compiled object yet``.  So interrupts are noted while a kernel is compiled or loaded,
some seconds at the longest, and come when that is over.
"""

from __future__ import annotations

import gc
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


class PostponedInterrupts(local):
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
postponed_interrupts = PostponedInterrupts()


class FewCollections:
    """A context for all threads within which Python looks for garbage seldom.

    Compiling makes millions of objects that live until it ends, and Python goes through all of them again and again: a
    sixth of the time of a first fit, for 20 MB less.  It begins when the first thread enters it, and ends when the last
    leaves it, unless somebody else has set other thresholds meanwhile.
    """

    #: New objects before a look, and looks before a look at older ones.
    THRESHOLD = (200_000, 50, 100)

    def __init__(self) -> None:
        self._lock, self._depth = Lock(), 0

    def __enter__(self) -> None:
        """Begin."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < self.THRESHOLD[0]:
                    gc.set_threshold(*self.THRESHOLD)

    def __exit__(self, *error: object) -> None:
        """End."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and gc.get_threshold() == self.THRESHOLD:
                gc.set_threshold(*self._before)
