"""Read a factor graph from a file, whose name determines the format."""

from __future__ import annotations

from pathlib import Path

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import FileFormatError, PluginError, memory_for
from ssvm_dsl.files.regular_file import as_path
from ssvm_dsl.files.unpacking import suffix_of
from ssvm_dsl.io.source_text import STANDARD, FileLimits, read_source
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.plugin_api.specs import FileContent, ReaderSpec
from ssvm_dsl.registry import describe_reader, open_reader, reader_of, readers


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
    spec = problem_format(path, format)
    if spec is None:
        listed, name = ", ".join(one.name for one in readers(FileContent.PROBLEM)), format or suffix_of(path)[1:]
        raise FileFormatError(f"{path}: expected a format out of {listed}, found {name!r} (name one with format=)")
    problem = open_reader(spec)(str(path), read_source(path, limits), limits)
    if not isinstance(problem, GraphProblem):
        raise PluginError(f"{describe_reader(spec)} returned {type(problem).__name__}, expected a GraphProblem")
    return problem


def problem_format(path: str | Path, name: str | None = None) -> ReaderSpec | None:
    """Return the format of a file, by its name where no format is named; ``None`` if there is none."""
    return reader_of(FileContent.PROBLEM, name, suffix_of(path))
