"""Lines of text from files and standard input, and to files and standard output.

A line that cannot be read is an error with the file, the line, what was expected and what was found.  A file is written
whole or not at all.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, BinaryIO

from ssvm_dsl.cli.screen import output
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.io.atomic import write_atomically, write_lines
from ssvm_dsl.io.regular_file import open_regular
from ssvm_dsl.learning.estimators.check_parameters import check_path
from ssvm_dsl.units import bytes_text

#: Standard input or output.
STANDARD_STREAM = "-"

#: Most bytes of a line.
LONGEST = 64_000_000

#: First bytes of packed files, and what unpacks them.
_PACKED = {b"\x1f\x8b": "gunzip -c", b"PK\x03\x04": "unzip -p", b"BZh": "bunzip2 -c", b"\xfd7zXZ": "xz -dc"}


def source_name(source: str) -> str:
    """Return what messages call a file."""
    return "standard input" if source == STANDARD_STREAM else source


def bad_line(source: str, line: int, expected: str, found: str, hint: str = "") -> FileFormatError:
    """Return the error for a line of a file."""
    more = f"\n  hint: {hint}" if hint else ""
    return FileFormatError(f"{source_name(source)}, line {line}: expected {expected}, found {found}{more}")


def shortened(text: str, most: int = 60) -> str:
    """Return a piece of a file as messages show it: quoted, not too long."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


def lines_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of the lines of a file in UTF-8; ``-`` is standard input.

    Raises
    ------
    FileFormatError
        A line is no text, or too long; the file is packed, or a folder.
    OSError
        The file cannot be opened.
    """
    with _opened(source) as file:
        for number in count(1):
            raw = file.readline(LONGEST + 1)
            if not raw:
                return
            if number == 1:
                _refuse_packed(source, raw)
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            yield number, _text(source, number, raw)


def _text(source: str, number: int, raw: bytes) -> str:
    """Return a line of bytes as text, without its end."""
    if len(raw) > LONGEST:
        raise bad_line(source, number, f"at most {bytes_text(LONGEST)} in a line", "more")
    try:
        if b"\0" in raw:
            raise bad_line(source, number, "text", "binary data (a zero byte)")
        return raw.decode().rstrip("\r\n")
    except UnicodeDecodeError as err:
        found = f"byte {raw[err.start]:#04x} at position {err.start + 1}"
        hint = "convert other encodings, e.g. iconv -f latin1 -t utf8 FILE"
        raise bad_line(source, number, "text in UTF-8", found, hint) from None


def _refuse_packed(source: str, raw: bytes) -> None:
    for magic, command in _PACKED.items():
        if raw.startswith(magic):
            hint = f"unpack it: {command} FILE | ssvm ... --data -"
            raise bad_line(source, 1, "text", "a packed file", hint)


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    """Open a file, a pipe such as ``<(command)`` of a shell, or standard input."""
    if source == STANDARD_STREAM:
        if sys.stdin.isatty():
            raise OptionError("standard input is a terminal: name a file, or pipe data in (command | ssvm ... -)")
        yield sys.stdin.buffer
        return
    piped = os.path.exists(source) and stat.S_ISFIFO(os.stat(source).st_mode)
    with open(source, "rb") if piped else open_regular(Path(source)) as file:
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
