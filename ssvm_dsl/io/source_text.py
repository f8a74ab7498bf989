"""The bytes of a problem file, plain or packed, never more than a limit.

Reading a problem takes at most about ten bytes of memory for each byte of its text, twenty for each entry of its
tables and eighty for each literal of its clauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.files.text_lines import bounded, without_mark
from ssvm_dsl.files.unpacking import open_unpacked
from ssvm_dsl.units import bytes_text


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
    """Return the content of a file, unpacked and without a byte order mark.

    Raises
    ------
    FileFormatError
        Longer than the limit, or a damaged packed file.
    OSError
        The file cannot be opened.
    """
    with open_unpacked(path) as file:
        try:
            data = bounded(file, limits.n_bytes + 1)
        except OSError as err:
            raise FileFormatError(f"{path}: expected a file that can be read, found a damaged one ({err})") from err
    if len(data) > limits.n_bytes:
        hint = "FileLimits.n_bytes raises this"
        raise FileFormatError(f"{path}: expected at most {bytes_text(limits.n_bytes)} of text, found more ({hint})")
    return without_mark(data)
