"""Read a factor graph from a file, whose name determines the format; its bytes are never more than a limit.

Reading a problem takes at most about ten bytes of memory for each byte of its text, twenty for each entry of its
tables and eighty for each literal of its clauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import FileFormatError, PluginError, memory_for
from ssvm_dsl.files.opening import as_path, open_unpacked, suffix_of
from ssvm_dsl.files.text_lines import bounded, without_mark
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.plugin_api.specs import FileContent
from ssvm_dsl.registry import describe_reader, reader_method, reader_of, readers
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


@checked_call
@memory_for("reading the problem", "FileLimits(n_bytes=..., n_entries=...) refuses such files earlier")
def read_problem(path: str | Path, format: str | None = None, limits: FileLimits = STANDARD) -> GraphProblem:
    """Return the factor graph of a file: ``.uai``, ``.wcsp``, ``.cfn``, ``.fg``, ``.bif``, ``.wcnf`` or ``.opb``.

    Each may be packed (``.gz``, ``.bz2``, ``.xz``).  Plug-ins may read others (``ReaderSpec``).

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
    suffix = suffix_of(path)
    spec = reader_of(FileContent.PROBLEM, format, suffix)
    if spec is None:
        listed, name = ", ".join(one.name for one in readers(FileContent.PROBLEM)), format or suffix[1:]
        raise FileFormatError(f"{path}: expected a format out of {listed}, found {name!r} (name one with format=)")
    problem = reader_method(spec)(str(path), read_source(path, limits), limits)
    if not isinstance(problem, GraphProblem):
        raise PluginError(f"{describe_reader(spec)} returned {type(problem).__name__}, expected a GraphProblem")
    return problem
