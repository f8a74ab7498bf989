"""Write a file so that it is either the old one or the whole new one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write to a new file beside ``path``, flush it to disk, and rename it; permissions of an old file are kept.

    Parameters
    ----------
    path : Path
    write : callable
        Given the open binary file.
    """
    # opened plainly, not by tempfile, whose files nobody else may read
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with fresh.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, fresh)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
