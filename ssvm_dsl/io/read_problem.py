"""Read a factor graph from a file, whose name determines the format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import FileFormatError, memory_for
from ssvm_dsl.files.regular_file import as_path
from ssvm_dsl.files.unpacking import suffix_of
from ssvm_dsl.io.formats.bif import parse_bif
from ssvm_dsl.io.formats.cfn import parse_cfn
from ssvm_dsl.io.formats.fg import parse_fg
from ssvm_dsl.io.formats.opb import parse_opb
from ssvm_dsl.io.formats.uai import parse_uai
from ssvm_dsl.io.formats.wcnf import parse_wcnf
from ssvm_dsl.io.formats.wcsp import parse_wcsp
from ssvm_dsl.io.graph_problem import GraphProblem
from ssvm_dsl.io.source_text import STANDARD, FileLimits, read_source

#: The formats that are read, by name and suffix.
FORMATS: dict[str, Callable[[str, bytes, FileLimits], GraphProblem]] = {
    "uai": parse_uai,
    "wcsp": parse_wcsp,
    "cfn": parse_cfn,
    "fg": parse_fg,
    "bif": parse_bif,
    "wcnf": parse_wcnf,
    "opb": parse_opb,
}


@checked_call
@memory_for("reading the problem", "FileLimits(n_bytes=..., n_entries=...) refuses such files earlier")
def read_problem(path: str | Path, format: str | None = None, limits: FileLimits = STANDARD) -> GraphProblem:
    """Return the factor graph of a file: ``.uai``, ``.wcsp``, ``.cfn``, ``.fg``, ``.bif``, ``.wcnf`` or ``.opb``.

    Each may be packed (``.gz``, ``.bz2``, ``.xz``).

    Parameters
    ----------
    path : str or Path
    format : str, optional
        The suffix of its files, such as ``"uai"``; taken from the name if left out.
    limits : FileLimits
        How much memory the file may ask for.

    Returns
    -------
    GraphProblem
        A program of one example and its scores, to be maximised.

    Raises
    ------
    FileFormatError
        The format is unknown, or the file does not hold what its format promises: one line with the file, line
        and column, what was expected and what was found.
    OSError
        The file cannot be opened.
    """
    path = as_path(path, "read_problem")
    name = format or format_of(path)
    if name not in FORMATS:
        listed = ", ".join(FORMATS)
        raise FileFormatError(f"{path}: expected a format out of {listed}, found {name!r} (name one with format=)")
    return FORMATS[name](str(path), read_source(path, limits), limits)


def format_of(path: str | Path) -> str:
    """Return the format given by the name of a file, its suffix without that of a packed one; it may be unknown."""
    return suffix_of(path).removeprefix(".")
