"""Lines of text from files, plain or packed, and standard input, and to files and standard output.

A line that cannot be read is an error with the file, the line, what was expected and what was found.  A file is written
whole or not at all.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO

from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.files.opening import PACKED_SUFFIXES, check_path, open_regular, unpacked
from ssvm_dsl.files.standard_output import output
from ssvm_dsl.files.text_lines import bad_text, numbered_lines
from ssvm_dsl.io.atomic import write_atomically, write_lines

#: Standard input or output.
STANDARD_STREAM = "-"

#: First bytes of a zip archive.
_ZIP = b"PK\x03\x04"


def source_name(source: str) -> str:
    """Return what messages call a file."""
    return "standard input" if source == STANDARD_STREAM else source


def bad_line(source: str, line: int, expected: str, found: str, hint: str = "") -> FileFormatError:
    """Return the error for a line of a file."""
    return bad_text(source_name(source), line, expected, found, hint)


def shortened(text: str, most: int = 60) -> str:
    """Return a piece of a file as messages show it: quoted, not too long."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


def lines_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of the lines of a file in UTF-8, plain or packed; ``-`` is standard input.

    Raises
    ------
    FileFormatError
        A line is no text, or too long; the file is a folder, or damaged.
    OSError
        The file cannot be opened.
    """
    with opened(source) as file:
        if file.peek(4)[:4] == _ZIP:
            raise bad_line(source, 1, "text", "a zip archive", "unpack it: unzip -p FILE | ssvm ... --data -")
        yield from numbered_lines(file, source_name(source))


@contextmanager
def opened(source: str) -> Iterator[BufferedReader]:
    """Open a file, a pipe such as ``<(command)`` of a shell, or standard input, and unpack it where it is packed."""
    if source == STANDARD_STREAM:
        if sys.stdin.isatty():
            raise OptionError("standard input is a terminal: name a file, or pipe data in (command | ssvm ... -)")
        yield unpacked(sys.stdin.buffer, source_name(source))
        return
    piped = os.path.exists(source) and stat.S_ISFIFO(os.stat(source).st_mode)
    with unpacked(open(source, "rb") if piped else open_regular(Path(source)), source) as file:
        yield file


def write_text(out: str, lines: Iterable[str]) -> None:
    """Write lines to a file, atomically, or to standard output.

    Raises
    ------
    OSError
        The disk is full, or nothing may be written there; the old file is as it was.
    """
    if out != STANDARD_STREAM:
        write_lines(check_path(out, "--out"), lines)
        return
    screen = output()
    try:
        for line in lines:
            screen.write(line + "\n")
        screen.flush()
    except BrokenPipeError:
        raise
    except OSError as err:
        raise OSError(err.errno, err.strerror, "standard output") from err


def write_bytes(out: str, write: Callable[[IO[bytes]], None]) -> None:
    """Write a binary file, atomically.

    Raises
    ------
    OptionError
        It is standard output.
    OSError
        The disk is full, or nothing may be written there; the old file is as it was.
    """
    if out == STANDARD_STREAM:
        raise OptionError("standard output takes text only: name a file with --out")
    if Path(out).suffix.lower() in PACKED_SUFFIXES:
        raise OptionError(f"--out {out}: such files are packed inside; leave out {Path(out).suffix}")
    write_atomically(check_path(out, "--out"), write)


def require_place(out: str | Path, name: str, inputs: Iterable[str | None]) -> None:
    """Check before the work that a file can be written, and that it is none of those that are read.

    Raises
    ------
    OptionError
        It is an input, a folder, or in no folder.
    OSError
        Nothing may be written there.
    """
    from tempfile import TemporaryFile

    if str(out) == STANDARD_STREAM:
        return
    path = Path(out)
    for one in inputs:
        if one is not None and path.exists() and os.path.exists(one) and os.path.samefile(path, one):
            raise OptionError(f"{name} {out}: that file is read by this command; write to another one")
    check_path(path, name)
    try:
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as err:
        raise OSError(err.errno, err.strerror, str(path)) from err
