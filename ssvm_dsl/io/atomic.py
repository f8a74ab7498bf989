"""Write a file so that it is either the old one or the whole new one.

The new content goes to a file beside it, whose name tells the process that writes it.  Files of processes that are gone
(killed while they wrote) are deleted by whoever reads or writes there next, on the same machine.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO

from ssvm_dsl.files.opening import packing_for


def write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write to a temporary file in the same folder, flush it to disk, and rename it to ``path``; keep old permissions.

    A link stays, and the file that it leads to is written.  Pipes and devices, such as ``/dev/stdout``, are written to:
    whoever may rename files in their folder would replace the device by a file.

    Parameters
    ----------
    path : Path
    write : callable
        Given the open binary file.

    Raises
    ------
    OSError
        The disk is full, or nothing may be written there; the old file is as it was.
    """
    if path.exists() and not path.is_file():
        _write_through(path, write)
        return
    path = path.resolve() if path.is_symlink() else path
    clean_up(path)
    # opened plainly, not by tempfile, whose files nobody else may read
    fresh = path.with_name(f"{_lead(path)}{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with fresh.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, fresh)
        os.replace(fresh, path)
    except BaseException as err:
        with suppress(OSError):  # what went wrong first is what is told
            fresh.unlink(missing_ok=True)
        if isinstance(err, OSError):
            raise _naming(err, path) from err
        raise


def _write_through(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write to a pipe or a device."""
    try:
        with path.open("wb") as file:
            write(file)
    except OSError as err:
        raise _naming(err, path) from err


def _naming(error: OSError, path: Path) -> OSError:
    """Return an error that names a file; that of a full disk names none."""
    if error.errno is None or error.filename is not None:
        return error
    return OSError(error.errno, error.strerror, str(path))


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines of text as :func:`write_atomically` does, packed where the name ends in .gz, .bz2 or .xz."""

    def write(file: IO[bytes]) -> None:
        with packing_for(Path(path), file) as packed:
            packed.writelines(line.encode() + b"\n" for line in lines)

    write_atomically(Path(path), write)


def clean_up(path: Path) -> None:
    """Delete temporary files that ended processes of this machine left next to a file, as far as possible."""
    pattern = re.compile(re.escape(_lead(path)) + r"(\d{1,9})\.[0-9a-f]{8}")
    try:
        with os.scandir(path.parent) as entries:
            matches = [(entry.path, pattern.fullmatch(entry.name)) for entry in entries]
        for name, match in matches:
            if match and not _runs(int(match[1])):
                os.unlink(name)
    except (OSError, ValueError):
        return


def _lead(path: Path) -> str:
    """Return how names of new files for ``path`` begin: other machines may share the folder, not their processes."""
    return f".{path.name}.{blake2b(socket.gethostname().encode(), digest_size=3).hexdigest()}."


def _runs(process: int) -> bool:
    """Return whether a process of that number runs."""
    if os.name == "nt":  # asking ends the process there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
