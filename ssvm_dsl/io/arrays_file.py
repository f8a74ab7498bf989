"""Files of named arrays and one JSON text (npz without compression), which carry a hash of what they hold.

Nothing is executed: there is no pickle, and headers of arrays are matched with a pattern instead of being evaluated.
Nothing is unpacked either, so that what is read takes as much memory as the file, and the JSON text at most some thirty
times its length.  The hash detects damage only: values are checked as well, since an edited file may have a right hash.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.files.opening import open_regular
from ssvm_dsl.io.atomic import clean_up, write_atomically

Arrays = dict[str, NDArray[Any]]

#: Names of the JSON text and of the hash among the arrays.
JSON, HASH = "json", "hash"

#: Types that arrays of a file may have.
TYPES = {np.dtype(code).str: np.dtype(code) for code in "dfqihbQIHB?"}

#: Longest header of an array, and bytes read at a time.
_LONGEST, _PIECE = 1000, 1 << 20

_HEADER = re.compile(
    r"\{'descr': '([<>|=a-z0-9]+)', 'fortran_order': (True|False), 'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), \} *\n"
)

#: What reading a damaged archive raises.
_DAMAGED = (
    *(ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError, EOFError, OSError),
    *(NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error),
)


def write_arrays(path: Path, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write JSON content and named arrays, atomically.

    Raises
    ------
    TypeError
        Something in the content cannot be written as JSON, or an array is not of numbers.
    OSError
        The disk is full, or the file cannot be written.
    """
    text = json.dumps(content, default=_number).encode()
    other = [f"'{name}' of {array.dtype}" for name, array in arrays.items() if array.dtype.str not in TYPES]
    if other:
        raise TypeError(f"arrays of numbers can be saved, not {other[0]}")
    named: Arrays = {JSON: np.frombuffer(text, dtype=np.uint8), **arrays}
    named[HASH] = _hash(named)

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in named.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    npy.write_array(entry, np.asanyarray(array), version=(1, 0), allow_pickle=False)

    write_atomically(path, write)


def read_arrays(path: Path, called: str = "a file of arrays") -> tuple[dict[str, Any], Arrays]:
    """Return the JSON content and the named arrays of a file.

    Parameters
    ----------
    path : Path
    called : str
        The expected kind of file, for messages.

    Raises
    ------
    FileFormatError
        It is not such a file, or damaged: its hash does not match its content.
    OSError
        It is not there, or may not be opened.
    """
    clean_up(path)
    with open_regular(path) as file:
        try:
            arrays = _read_all(file)
            if HASH not in arrays or JSON not in arrays:
                raise ValueError("it has no JSON text, or no hash")
            if not np.array_equal(arrays.pop(HASH), _hash(arrays)):
                raise ValueError("its hash is that of other content")
            text = arrays.pop(JSON)
            if text.dtype != np.uint8 or text.ndim != 1:
                raise ValueError("it has no JSON text")
            content = json.loads(text.tobytes())
            if not isinstance(content, dict):
                raise ValueError("its JSON text is no object")
        except _DAMAGED as err:
            found = f"{type(err).__name__}: {err}" if str(err) else type(err).__name__
            raise FileFormatError(f"{path}: not {called}, or damaged ({_one_line(found)})") from err
    return content, arrays


def _read_all(file: IO[bytes]) -> Arrays:
    """Return all arrays of an archive."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(f"'{entry.filename}' is compressed")
        if sum(entry.file_size for entry in entries) > file.seek(0, 2):
            raise ValueError("it announces more than it holds")
        arrays = {entry.filename.removesuffix(".npy"): _read(archive, entry) for entry in entries}
        if len(arrays) != len(entries):
            raise ValueError("two arrays have one name")
        return arrays


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one array after checking that its announced size is what the file holds."""
    with archive.open(entry) as file:
        start = file.read(10)
        length = int.from_bytes(start[8:10], "little")
        header = _HEADER.fullmatch(file.read(min(length, _LONGEST)).decode("latin1"))
        if start[:8] != b"\x93NUMPY\x01\x00" or header is None or header[1] not in TYPES:
            raise ValueError(f"'{entry.filename}' is no array of numbers")
        dtype, shape = TYPES[header[1]], tuple(int(n) for n in header[3].split(",") if n.strip())
        size = prod(shape) * dtype.itemsize
        if size != entry.file_size - 10 - length:
            raise ValueError(f"'{entry.filename}': {size} bytes announced, {entry.file_size - 10 - length} there")
        data, at = bytearray(size), 0
        while at < size:
            part = file.read(min(_PIECE, size - at))
            if not part:
                raise EOFError(f"'{entry.filename}' ends early")
            data[at : at + len(part)] = part
            at += len(part)
        file.read(1)  # at the end the check sum is compared
    flat: NDArray[Any] = np.frombuffer(data, dtype=dtype)
    turned = flat.reshape(shape, order="F") if header[2] == "True" else flat.reshape(shape)
    return np.ascontiguousarray(turned).reshape(shape)


def _hash(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """Return the hash of names, types, shapes and values."""
    digest = blake2b(digest_size=32)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}\n{array.dtype.str}{arrays[name].shape}\n".encode("utf-8", "surrogatepass"))
        digest.update(array.data if array.size else b"")
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _number(value: Any) -> Any:
    """Write numpy numbers as plain ones."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a value of type {type(value).__name__} cannot be saved: {value!r}")


def _one_line(text: str) -> str:
    """Return a text without line breaks, and not too long."""
    return " ".join(text.split())[:300]
