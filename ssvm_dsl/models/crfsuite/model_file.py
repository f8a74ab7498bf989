"""Read the weights of a ``.crfsuite`` file.

A file (CRFsuite 0.12, little-endian) is a header of 48 bytes, which holds the offsets of chunks: features, each of a
type (0: state, 1: transition), a source (attribute or label), a label and a weight; and two tables of strings (labels
and attributes), whose array of offsets leads from a number to its string.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct, error

import numpy as np

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.files.regular_file import as_path

#: Magic, size, type, version; numbers of features, labels and attributes; offsets of features, labels, attributes ...
_HEADER = Struct("<4sI4sIIIIIIIII")
#: Of a table of strings: magic, size, flag, byte order, number of strings, offset of the array of their offsets.
_TABLE = Struct("<4sIIIII")
#: Of a string: its number, and its length with the final zero.
_STRING = Struct("<II")
_CHUNK = Struct("<4sII")
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])

#: What the third word of a table is in a file of this byte order.
_ORDER = 0x62445371


@dataclass(frozen=True, eq=False)
class CrfsuiteModel:
    """The content of a CRFsuite file.

    Parameters
    ----------
    labels, attributes : list of str
    state : dict of (attribute, label) to float
    transitions : dict of (label, label) to float
    """

    labels: list[str]
    attributes: list[str]
    state: dict[tuple[str, str], float]
    transitions: dict[tuple[str, str], float]


def read_crfsuite(path: str | Path) -> CrfsuiteModel:
    """Return labels, attributes and weights of a model that CRFsuite wrote.

    Raises
    ------
    FileFormatError
        It is no such file, or damaged.
    """
    try:
        data = as_path(path, "read_crfsuite").read_bytes()
        magic, size, kind, _, _, n_labels, n_attributes, features, labels, attributes, _, _ = _HEADER.unpack_from(data)
        if (magic, kind) != (b"lCRF", b"FOMC") or size > len(data):
            raise ValueError(f"expected a model of CRFsuite, found {data[:12]!r}")
        names = list(_strings(data, labels, n_labels)), list(_strings(data, attributes, n_attributes))
        return _model(*names, _features(data, features))
    except (OSError, error, ValueError, IndexError) as err:
        raise FileFormatError(f"{path}: not a readable model of CRFsuite ({err})") from err


def _strings(data: bytes, start: int, n: int) -> Iterator[str]:
    """Yield the strings of a table by number."""
    magic, _, _, order, n_strings, offsets = _TABLE.unpack_from(data, start)
    if magic != b"CQDB" or order != _ORDER or n_strings < n:
        raise ValueError("a table of strings is malformed")
    for offset in np.frombuffer(data, dtype="<u4", count=n, offset=start + offsets).tolist():
        place = start + offset
        _, length = _STRING.unpack_from(data, place)
        text = data[place + _STRING.size : place + _STRING.size + length]
        if len(text) != length or not length:
            raise ValueError("a string ends beyond the file")
        yield text[:-1].decode("utf-8", "surrogateescape")


def _features(data: bytes, start: int) -> np.ndarray:
    """Return the records of all features."""
    magic, _, n = _CHUNK.unpack_from(data, start)
    if magic != b"FEAT":
        raise ValueError("the list of features is not where it should be")
    return np.frombuffer(data, dtype=_FEATURE, count=n, offset=start + _CHUNK.size)


def _model(labels: list[str], attributes: list[str], features: np.ndarray) -> CrfsuiteModel:
    """Return the weights by name."""
    if not np.isfinite(features["weight"]).all():
        raise ValueError("weights that are not finite")
    found: tuple[dict[tuple[str, str], float], ...] = ({}, {})
    sources = (attributes, labels)
    for kind, source, label, weight in features.tolist():
        found[kind][sources[kind][source], labels[label]] = weight
    return CrfsuiteModel(labels, attributes, *found)
