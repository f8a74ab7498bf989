"""Opening files that users name: no folder, pipe or device; unpacked where they are packed, never more than a limit.

Files are plain or packed by gzip, bzip2 or xz, whatever their names.
A file says how large it is itself (``stat``), a packed stream does not.  It is unpacked as it is read and given up as
soon as it exceeds the limit, so that a small file of gigabytes (a bomb) costs no more than what is read of it.
"""

from __future__ import annotations

import io
import os
import re
import stat
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from gzip import GzipFile
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.units import bytes_text

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


#: Bytes read at a time.
PIECE = 1 << 20

#: A packed file may unpack to this many bytes, and beyond them to so many times its size.
_FREE, _RATIO = 10_000_000, 100

#: Bytes that an xz stream may take for its dictionary: ``xz -9`` takes 65 MB, and a file may ask for 4 GB.
_DICTIONARY = 200_000_000


class Packing(NamedTuple):
    """A way to pack a file.

    Parameters
    ----------
    name : str
    suffix : str
        How names of such files end.
    magic : pattern
        How such files begin.
    decoder : callable
        Makes what unpacks a stream.
    writer : callable
        Makes a file that packs what is written to it into an open one.
    command : str
        What unpacks such files in a shell.
    """

    name: str
    suffix: str
    magic: re.Pattern[bytes]
    decoder: Callable[[], Any]
    writer: Callable[[IO[bytes]], Any]
    command: str


class _GzipDecoder:
    """A decoder of zlib with the methods that those of bz2 and lzma have."""

    def __init__(self) -> None:
        self._inner, self._rest = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), b""

    def decompress(self, data: bytes, most: int) -> bytes:
        """Return at most so many bytes; what is left of the data is kept."""
        out = self._inner.decompress(self._rest + data, most)
        self._rest = self._inner.unconsumed_tail
        return out

    @property
    def needs_input(self) -> bool:
        """Whether all data are used up."""
        return not self._rest

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        """What follows the stream."""
        return self._inner.unused_data


def _library(name: str, packing: str) -> Any:
    try:
        return import_module(name)
    except ImportError as err:  # some builds of Python are without it
        raise OptionError(f"this Python has no module {name}: unpack {packing} files before they are read") from err


#: The ways that are known.  A text that only begins with the letters BZh is none.
PACKINGS = (
    Packing(
        "gzip", ".gz", re.compile(rb"\x1f\x8b"), _GzipDecoder,
        lambda file: GzipFile("", "wb", fileobj=file, mtime=0), "gunzip",
    ),
    Packing(
        "bzip2", ".bz2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
        lambda: _library("bz2", "bzip2").BZ2Decompressor(), lambda file: _library("bz2", "bzip2").BZ2File(file, "wb"),
        "bunzip2",
    ),
    Packing(
        "xz", ".xz", re.compile(rb"\xfd7zXZ\x00"),
        lambda: _library("lzma", "xz").LZMADecompressor(memlimit=_DICTIONARY),
        lambda file: _library("lzma", "xz").LZMAFile(file, "wb"), "unxz",
    ),
)  # fmt: skip

#: How names of packed files end.
PACKED_SUFFIXES = tuple(one.suffix for one in PACKINGS)


class _UnpackedStream(io.RawIOBase):
    """The content of a packed stream of one or more members.

    Parameters
    ----------
    stream : binary stream
    packing : Packing
    name : str
        What messages call it.
    """

    def __init__(self, stream: BinaryIO, packing: Packing, name: str) -> None:
        super().__init__()
        self._stream, self._packing, self._name = stream, packing, name
        self._decoder = packing.decoder()
        self._n_packed, self._n_unpacked, self._size = 0, 0, _size_of(stream)

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the packed stream, too."""
        self._stream.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Unpack the next bytes into a buffer; return how many, 0 at the end."""
        with memoryview(buffer).cast("B") as out:
            if not len(out):
                return 0
            piece = self._next(len(out))
            self._n_unpacked += len(piece)
            most = _FREE + _RATIO * max(self._size, self._n_packed)
            if self._n_unpacked > most:
                hint = f"{_RATIO} times the packed size; unpack it with {self._packing.command} first"
                found = f"expected at most {bytes_text(most)} of text, found more ({hint})"
                raise FileFormatError(f"{self._name}: {found}")
            out[: len(piece)] = piece
            return len(piece)

    def _next(self, most: int) -> bytes:
        """Return at least one and at most so many bytes, none at the end."""
        while True:
            if self._decoder.eof:
                data = self._next_member(self._decoder.unused_data)
                if not data:
                    return b""
                self._decoder = self._packing.decoder()
            else:
                data = self._read() if self._decoder.needs_input else b""
                if self._decoder.needs_input and not data:
                    raise self._damaged("it ends in the middle")
            try:
                piece: bytes = self._decoder.decompress(data, most)
            except MemoryError:
                raise
            except Exception as err:  # each library has an error of its own
                raise self._damaged(str(err)) from err
            if piece:
                return piece

    def _next_member(self, data: bytes) -> bytes:
        """Return how the next member begins, none at the end; zeros behind a member are padding."""
        data = data.lstrip(b"\0")
        while not data:
            data = self._read()
            if not data:
                break
            data = data.lstrip(b"\0")
        return data

    def _damaged(self, what: str) -> FileFormatError:
        expected = f"expected a whole {self._packing.name} file, found a damaged one ({what})"
        return FileFormatError(f"{self._name}: {expected}")

    def _read(self) -> bytes:
        data = self._stream.read(PIECE)
        self._n_packed += len(data)
        return data


def _size_of(stream: BinaryIO) -> int:
    """Return the size of a file, 0 for a pipe."""
    try:
        state = os.fstat(stream.fileno())
    except OSError:
        return 0
    return state.st_size if stat.S_ISREG(state.st_mode) else 0


def unpacked(stream: BinaryIO, name: str) -> io.BufferedReader:
    """Return the content of a stream: itself, or what it unpacks to.

    Parameters
    ----------
    stream : binary stream
        Plain, or packed by gzip, bzip2 or xz; its first bytes tell.
    name : str
        What messages call it.

    Raises
    ------
    FileFormatError
        When it is read: the packed data are damaged, or unpack to more than 10 MB and a hundred times their size.
    """
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    begin = buffered.peek(10)[:10]
    for packing in PACKINGS:
        if packing.magic.match(begin):
            return io.BufferedReader(_UnpackedStream(buffered, packing, name), PIECE)
    return buffered


def open_unpacked(path: Path) -> io.BufferedReader:
    """Return a file opened for reading, unpacked where it is packed.

    Raises
    ------
    FileFormatError
        It is a folder, a pipe or a device; see also :func:`unpacked`.
    OSError
        It is not there, or may not be read.
    """
    return unpacked(open_regular(path), str(path))


def suffix_of(path: str | Path) -> str:
    """Return how the name of a file ends, in lower case, without ``.gz``, ``.bz2`` and ``.xz`` behind: ``".uai"``."""
    for suffix in reversed(Path(path).suffixes):
        if suffix.lower() not in PACKED_SUFFIXES:
            return suffix.lower()
    return ""


def packing_for(path: Path, file: IO[bytes]) -> AbstractContextManager[Any]:
    """Return a file that packs what is written to it as a name says (``.gz``, ``.bz2``, ``.xz``); else the file."""
    for packing in PACKINGS:
        if path.suffix.lower() == packing.suffix:
            made: AbstractContextManager[Any] = packing.writer(file)
            return made
    return nullcontext(file)
