"""Files of named arrays (npz), read with limits: no pickle, and no array larger than what the file holds."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.atomic import write_atomically

#: Most bytes the arrays of one file may take together.
MAX_BYTES = 8 * 10**9


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], compress: bool = True) -> None:
    """Write named arrays to an npz file, atomically; without compression it takes a twentieth of the time."""
    named: dict[str, Any] = dict(arrays)
    save = np.savez_compressed if compress else np.savez
    write_atomically(path, lambda file: save(file, **named))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an npz file.

    Raises
    ------
    FileFormatError
        Not such a file, damaged, pickled objects inside, or larger than allowed.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            total = sum(entry.file_size for entry in entries)
            if total > MAX_BYTES:
                raise FileFormatError(f"{path}: holds {total} bytes, at most {MAX_BYTES} are read")
            return {entry.filename.removesuffix(".npy"): _read(path, archive, entry) for entry in entries}
    except (ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as err:
        if isinstance(err, FileFormatError):
            raise
        raise FileFormatError(f"{path}: not a file of arrays, or damaged ({err})") from err


def _read(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one array after checking that its announced size is what the file holds."""
    with archive.open(entry) as file:
        shape, dtype = _header(file)
        size = int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize
        if dtype.hasobject or size != entry.file_size - file.tell():
            found = "pickled objects" if dtype.hasobject else f"{size} bytes announced, {entry.file_size} there"
            raise FileFormatError(f"{path}: array '{entry.filename}': {found}")
    with archive.open(entry) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return (shape, dtype) of an npy stream."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype
