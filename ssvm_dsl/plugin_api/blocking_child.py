"""The program of a process of :func:`ssvm_dsl.plugin_api.call_in_process`: reads calls, writes results.

It is run as a file and imports nothing of the package: it starts in a hundredth of a second, and the functions that it
is asked for are imported when they are.  Results leave by the descriptor of standard output, in whose place prints go
to standard error.
"""

import importlib
import os
import pickle
import signal
import struct
import sys
from functools import reduce
from typing import Any


def main() -> None:
    """Answer calls until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    given, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = _next(given)
    while True:
        try:
            name, arguments, keywords = _next(given)
        except EOFError:  # whoever asked has ended
            return
        try:
            module, _, path = name.partition(":")
            function: Any = reduce(getattr, path.split("."), importlib.import_module(module))
            result = (True, None if arguments is None else function(*arguments, **keywords))
            data = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
        except BaseException as error:
            data = _packed(error)
        answers.write(struct.pack("<q", len(data)) + data)
        answers.flush()


def _next(given: Any) -> Any:
    """Return the next message."""
    head = given.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(given.read(struct.unpack("<q", head)[0]))


def _packed(error: BaseException) -> bytes:
    """Return an error as a message; one that cannot travel as its text."""
    try:
        pickle.loads(data := pickle.dumps((False, error)))
    except Exception:
        data = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return data


if __name__ == "__main__":
    main()
