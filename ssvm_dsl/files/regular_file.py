"""Paths that users pass, and opening files for reading: no folder, pipe or device."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from ssvm_dsl.errors import FileFormatError, OptionError

#: What else a name may stand for, by the type in its mode.
_OTHERS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def as_path(path: Any, name: str) -> Path:
    """Return the path of a file.

    Raises
    ------
    OptionError
        It is not a str or a Path.
    """
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"{name} is the path of a file, got {path!r}")
    return Path(path)


def check_path(path: Any, name: str) -> Path:
    """Return the path of a file that is to be written.

    Raises
    ------
    OptionError
        It is not a path, or a folder, or its folder does not exist; ``name`` is the name of the parameter.
    """
    checked = as_path(path, name)
    if checked.is_dir():
        raise OptionError(f"{name} is the path of a file, got the folder {str(checked)!r}")
    if not checked.parent.is_dir():
        raise OptionError(f"{name}: there is no folder {str(checked.parent)!r} for {checked.name!r}")
    return checked


def open_regular(path: Path) -> BinaryIO:
    """Return a file opened for reading; a pipe without a writer does not block, an endless device is not read.

    Raises
    ------
    FileFormatError
        It is a folder, a pipe or a device.
    OSError
        It is not there, or may not be read.
    """
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as err:  # a name with a zero byte
        raise FileFormatError(f"{str(path)!r}: no name of a file ({err})") from err
    except PermissionError as err:
        if os.path.isdir(path):  # how Windows says it
            raise FileFormatError(f"{path}: expected a file, found a folder") from err
        raise
    kind = stat.S_IFMT(os.fstat(number).st_mode)
    if kind != stat.S_IFREG:
        os.close(number)
        raise FileFormatError(f"{path}: expected a file, found {_OTHERS.get(kind, 'something else')}")
    return os.fdopen(number, "rb")
