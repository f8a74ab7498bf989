"""The folder where compiled code is kept: one for all environments of a user, else a temporary one, else none.

``SSVM_CACHE_DIR`` names another folder, or ``off`` for none; ``NUMBA_CACHE_DIR`` is taken where it is not set.
Compiled code is kept under what it is made of (:mod:`ssvm_dsl.kernels.compiling.code_key`), so that environments share
it safely.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISDIR

from platformdirs import user_cache_path

#: What the folder may hold; the entries that were not used for longest make room.
MOST_BYTES = 500_000_000

#: Whether processes can wait for each other here, by locks on files.
LOCKS = find_spec("fcntl") is not None

#: Called when something is found not to be compiled yet.
ON_MISS: list[Callable[[], object]] = []

#: How the names of entries end.
SUFFIX = ".kernel"


@cache
def folder() -> Path | None:
    """Return the folder of compiled code, ``None`` where none is kept.

    Warns
    -----
    RuntimeWarning
        The folder is a temporary one, or there is none although nobody asked for that.
    """
    named = os.environ.get("SSVM_CACHE_DIR", "")
    if named == "off":
        return None
    if named := named or os.environ.get("NUMBA_CACHE_DIR", ""):
        return _named(Path(named).expanduser())
    why, advice = "no cache folder of yours can be written", "set SSVM_CACHE_DIR to a folder that can"
    for found, lasting in folders():
        if writable(found, private=True):
            if not lasting:
                warnings.warn(f"compiled code is kept in {found}: {why}; {advice}", RuntimeWarning, stacklevel=2)
            return found
    text = f"compiled code is not kept, so that every process compiles again: {why}"
    warnings.warn(f"{text}, nor a temporary folder; {advice} (or to 'off')", RuntimeWarning, stacklevel=2)
    return None


def _named(folder: Path) -> Path | None:
    """Return a folder that the environment names, if it can be written."""
    if writable(folder):
        return folder
    text = f"compiled code is not kept, so that every process compiles again: {folder} cannot be written"
    warnings.warn(text, RuntimeWarning, stacklevel=3)
    return None


def folders() -> Iterator[tuple[Path, bool]]:
    """Yield (folder, whether it outlives the machine's next start) of each place to try, the best first."""
    user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    kept = user_cache_path("ssvm-dsl", appauthor=False, opinion=False)
    if kept.is_absolute():  # there is a home
        yield kept / "kernels", True
    try:
        yield Path(tempfile.gettempdir()) / f"ssvm-dsl-{user}" / "kernels", False
    except OSError:  # no temporary folder at all
        return


def writable(folder: Path, private: bool = False) -> bool:
    """Return whether files can be made in a folder, which is made if need be; a private one is nobody else's.

    Compiled code is loaded as it is, so that a folder where others could put some is none to use.
    """
    try:
        if private:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.parent.lstat()
            if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
                return False
            if not S_ISDIR(status.st_mode):
                return False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@cache
def warn_of_loss(folder: Path, why: str) -> None:
    """Warn that compiled code cannot be kept in a folder; once in a process."""
    text = f"compiled code is not kept, so that every process compiles again: {folder}: {why}"
    warnings.warn(f"{text}; make room, or set SSVM_CACHE_DIR to another folder", RuntimeWarning, stacklevel=2)


@cache
def remove_oldest(folder: Path) -> None:
    """Remove the entries that were not used for longest, so that a quarter of the room is free; once in a process."""
    entries = []
    for path in folder.glob(f"*{SUFFIX}*"):
        with suppress(OSError):
            stat = path.stat()
            entries.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries) if total > MOST_BYTES else ():
        if total <= 0.75 * MOST_BYTES:
            break
        with suppress(OSError):
            path.unlink()
        total -= size
