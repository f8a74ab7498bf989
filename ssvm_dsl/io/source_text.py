"""The bytes of a problem file: plain or gzip, never more than a limit.

A file says how large it is itself (``stat``), a gzip stream does not: it is unpacked piece by piece and given up
as soon as it exceeds the limit, so a small file that unpacks to gigabytes costs no more than the limit.  Reading a
problem takes at most about ten bytes of memory for each byte of its text and twenty for each entry of its tables.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.regular_file import open_regular
from ssvm_dsl.units import bytes_text

_GZIP_MAGIC = b"\x1f\x8b"

#: Bytes read at a time.
_PIECE = 1 << 20

#: A packed file may unpack to this many bytes, and beyond them to so many times its size.
_FREE, _RATIO = 10_000_000, 100


@dataclass(frozen=True)
class FileLimits:
    """How much memory a problem file may ask for.

    Parameters
    ----------
    n_bytes : int
        Length of the text after unpacking.
    n_entries : int
        States of all variables and entries of all tables together (8 bytes each).
    """

    n_bytes: int = 100_000_000
    n_entries: int = 50_000_000


#: The limits when none are given.
STANDARD = FileLimits()


def read_source(path: Path, limits: FileLimits) -> bytes:
    """Return the content of a file, unpacked when it is a gzip file (whatever its name).

    Raises
    ------
    FileFormatError
        Longer than the limit, or a damaged gzip file.
    OSError
        The file cannot be opened.
    """
    with open_regular(path) as file:
        packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        most = min(limits.n_bytes, _FREE + _RATIO * size) if packed else limits.n_bytes
        try:
            data = (_unpack if packed else _copy)(file, most + 1)
        except (EOFError, zlib.error, OSError) as err:
            what = "a whole gzip file" if packed else "a file that can be read"
            raise FileFormatError(f"{path}: expected {what}, found a damaged one ({err})") from err
    if len(data) > most:
        hint = "FileLimits.n_bytes raises this"
        if most < limits.n_bytes:
            hint = f"{_RATIO} times the packed size; unpack it with gunzip first"
        raise FileFormatError(f"{path}: expected at most {bytes_text(most)} of text, found more ({hint})")
    return data


def _copy(file: IO[bytes], most: int) -> bytes:
    """Return at most ``most`` bytes of a file; memory is taken as they come."""
    parts: list[bytes] = []
    while most > 0 and (part := file.read(min(most, _PIECE))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _unpack(file: IO[bytes], most: int) -> bytes:
    """Return at most ``most`` unpacked bytes of a gzip file of one or more members."""
    parts: list[bytes] = []
    bytes_left, pending = most, b""
    while bytes_left > 0:
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while not member.eof and bytes_left > 0:
            pending = pending or file.read(_PIECE)
            if not pending:
                raise EOFError("it ends in the middle")
            parts.append(member.decompress(pending, bytes_left))
            bytes_left -= len(parts[-1])
            pending = member.unused_data if member.eof else member.unconsumed_tail
        pending = (pending or file.read(_PIECE)).lstrip(b"\0")  # padding after the last member is allowed
        if not pending:
            break
    return b"".join(parts)
