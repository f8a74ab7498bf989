"""The formats of files of examples: those of the package, and those of plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData
from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.files.unpacking import suffix_of
from ssvm_dsl.plugin_api.specs import FileContent, ReaderSpec
from ssvm_dsl.registry import describe_reader, open_reader, reader_method, reader_of, readers


def format_names() -> list[str]:
    """Return the names of the formats."""
    return [one.name for one in readers(FileContent.EXAMPLES)]


def format_of(source: str, given: str | None, option: str = "--format") -> ReaderSpec:
    """Return the format of a file, by its name where none is given.

    Raises
    ------
    OptionError
        The name does not tell it, or there is no such format.
    """
    name = "images" if given is None and Path(source).is_dir() else given
    reader = reader_of(FileContent.EXAMPLES, name, suffix_of(source))
    if reader is not None:
        return reader
    listed = ", ".join(f"{one.name} ({one.summary})" for one in readers(FileContent.EXAMPLES))
    if given is not None:
        raise OptionError(f"{option}: there is no format {given!r} of examples; set it to one of: {listed}")
    raise OptionError(f"{source}: the format does not follow from the name; set {option} to one of: {listed}")


def read_file(source: str, settings: DataSettings) -> LabelledData:
    """Return the data of a file.

    Raises
    ------
    FileFormatError
        It is not of its format.
    PluginError
        The plug-in that reads the format is not installed any more, or broken.
    """
    spec = format_of(source, settings.format)
    content = open_reader(spec)(source, settings)
    if isinstance(content, LabelledData):
        return content
    if not isinstance(content, tuple) or len(content) != 2:
        expected = "expected a pair: the examples and the labels, None without labels"
        raise PluginError(f"{describe_reader(spec)} returned {type(content).__name__}, {expected}")
    X, Y = content
    if Y is not None and len(Y) != len(X):
        raise PluginError(f"{describe_reader(spec)} returned {len(X)} examples and the labels of {len(Y)}")
    return LabelledData(source, replace(settings, learnt=True), X, Y)


def answers_of(settings: DataSettings, method: str) -> Callable[..., Any]:
    """Return the function of a format that writes or reads predictions: JSON lines where the format has none.

    Parameters
    ----------
    settings : DataSettings
    method : str
        ``"write_answers"`` or ``"read_answers"``.
    """
    function = reader_method(format_of("", settings.format), method)
    if function is None:
        from ssvm_dsl.datasets.formats import jsonl

        function = getattr(jsonl, method)
    return function


def writer_of(spec: ReaderSpec) -> Callable[..., Any]:
    """Return the function of a format that writes examples and labels.

    Raises
    ------
    OptionError
        The format has none.
    """
    function = reader_method(spec, "write_data")
    if function is None:
        raise OptionError(f"{describe_reader(spec)} writes no data; write another format, such as jsonl")
    return function
