"""The lines and columns of text that people hold in hands.

Lines end with LF or CR LF, columns are separated by spaces and tabs.  No-break spaces, next-line marks (U+0085), line
separators (U+2028) and form feeds are parts of tokens, and occur in real corpora; ``str.split()`` and
``str.splitlines()`` divide at each of them.  A byte order mark at the beginning of a file is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.files.opening import PIECE, open_unpacked
from ssvm_dsl.units import bytes_text

#: Most bytes of a line.
LONGEST = 64_000_000

#: The byte order mark of UTF-8.
_MARK = b"\xef\xbb\xbf"

#: How text in two bytes a character begins.
_WIDE = (b"\xff\xfe", b"\xfe\xff")

#: What separates columns.
BLANKS = " \t"


def columns_of(line: str) -> list[str]:
    """Return what stands between spaces and tabs."""
    return [column for column in line.replace("\t", " ").split(" ") if column]


def is_blank(line: str) -> bool:
    """Whether a line holds nothing but spaces and tabs."""
    return not line.strip(BLANKS)


def lines_in(text: str) -> list[str]:
    """Return the lines of a text; an end of line at its end begins no further one."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def blocks_in(lines: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines between blank lines, such as the tokens of a sentence.

    Parameters
    ----------
    lines : iterable of (number, text)

    Yields
    ------
    list of (number, text)
        At least one.
    """
    block: list[tuple[int, str]] = []
    for number, line in lines:
        if not is_blank(line):
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def without_mark(data: bytes) -> bytes:
    """Return the bytes of a text without a byte order mark."""
    return data.removeprefix(_MARK)


def bad_text(name: str, line: int, expected: str, found: str, hint: str = "") -> FileFormatError:
    """Return the error for a line of a file."""
    more = f"\n  hint: {hint}" if hint else ""
    return FileFormatError(f"{name}, line {line}: expected {expected}, found {found}{more}")


def numbered_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of the lines of a stream in UTF-8, without their ends.

    Parameters
    ----------
    stream : binary stream
        Unpacked.
    name : str
        What messages call it.

    Raises
    ------
    FileFormatError
        A line is no text, or too long.
    """
    for number in count(1):
        raw = stream.readline(LONGEST + 1)
        if not raw:
            return
        raw = without_mark(raw) if number == 1 else raw
        if len(raw) > LONGEST:
            raise bad_text(name, number, f"at most {bytes_text(LONGEST)} in a line", "more")
        yield number, _decoded(raw, name, number).removesuffix("\n").removesuffix("\r")


def read_text(path: Path, most: int) -> str:
    """Return the text of a file in UTF-8, plain or packed; lines end with ``\\n``.

    Parameters
    ----------
    path : Path
    most : int
        Bytes of the longest text.

    Raises
    ------
    FileFormatError
        It is longer, or no text.
    OSError
        The file cannot be opened.
    """
    with open_unpacked(path) as file:
        data = bounded(file, most + 1)
    if len(data) > most:
        raise FileFormatError(f"{path}: expected at most {bytes_text(most)} of text, found more")
    return decoded_text(without_mark(data), str(path))


def bounded(file: BinaryIO, most: int) -> bytes:
    """Return at most so many bytes of a stream; memory is taken as they come."""
    parts: list[bytes] = []
    while most > 0 and (part := file.read(min(most, PIECE))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def decoded_text(data: bytes, name: str) -> str:
    """Return the text of bytes in UTF-8; lines end with ``\\n``.

    Raises
    ------
    FileFormatError
        They are no text; names the line.
    """
    return _decoded(data, name, 1).replace("\r\n", "\n")


def _decoded(raw: bytes, name: str, first: int) -> str:
    """Return bytes as text; ``first`` is the number of their first line."""
    if first == 1 and raw.startswith(_WIDE):
        raise bad_text(name, 1, "text in UTF-8", "UTF-16", "convert it, e.g. iconv -f utf-16 -t utf8 FILE")
    zero = raw.find(b"\0")
    if zero >= 0:
        raise bad_text(name, first + raw.count(b"\n", 0, zero), "text", "binary data (a zero byte)")
    try:
        return raw.decode()
    except UnicodeDecodeError as err:
        line, begin = first + raw.count(b"\n", 0, err.start), raw.rfind(b"\n", 0, err.start) + 1
        found = f"byte {raw[err.start]:#04x} at position {err.start - begin + 1}"
        hint = "convert other encodings, e.g. iconv -f latin1 -t utf8 FILE"
        raise bad_text(name, line, "text in UTF-8", found, hint) from None
