"""The table of formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from ssvm_dsl.cli.data.examples import DataSettings, LabelledData
from ssvm_dsl.errors import OptionError
from ssvm_dsl.files.unpacking import suffix_of


class FormatModule(Protocol):
    """The functions of a format's module."""

    def read(self, source: str, settings: DataSettings) -> LabelledData:
        """Return the data of a file."""
        ...

    def read_answers(self, source: str, data: LabelledData) -> Any:
        """Return the labels that :meth:`write_answers` wrote for these data."""
        ...

    def write_answers(self, out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
        """Write predictions."""
        ...

    def write_data(self, out: str, data: LabelledData) -> None:
        """Write examples and labels."""
        ...


@dataclass(frozen=True)
class DataFormat:
    """A format.

    Parameters
    ----------
    name, module, summary : str
    suffixes : tuple of str
        Ends of file names that tell it.
    """

    name: str
    module: str
    summary: str
    suffixes: tuple[str, ...]

    def load(self) -> FormatModule:
        """Return its module."""
        return cast(FormatModule, import_module(f"ssvm_dsl.cli.data.{self.module}"))


FORMATS = {
    one.name: one
    for one in (
        DataFormat("conll", "conll", "tokens in columns, the label last", (".conll", ".txt", ".data")),
        DataFormat("crfsuite", "crfsuite", "label and attributes of a token, with tabs", (".crfsuite", ".crf")),
        DataFormat("jsonl", "jsonl", 'an object {"x": ..., "y": ...} on each line', (".jsonl", ".ndjson")),
        DataFormat("csv", "tables", "a header, a row for each example or position", (".csv", ".tsv")),
        DataFormat("npz", "arrays", "arrays X and Y of numpy", (".npz",)),
        DataFormat("svmlight", "svmlight", "LABEL INDEX:VALUE ...", (".svmlight", ".svm", ".libsvm", ".dat")),
        DataFormat("conllu", "conllu", "tokens in ten columns, with the head of each", (".conllu", ".conllx", ".dp")),
        DataFormat("trees", "trees", "trees in brackets", (".mrg", ".ptb", ".trees")),
        DataFormat("parquet", "parquet", "columns x and y, or one for each input", (".parquet", ".pq")),
        DataFormat("images", "images", "a folder with images/ and masks/", ()),
    )
}


def format_of(source: str, given: str | None, option: str = "--format") -> DataFormat:
    """Return the format of a file, by its name where none is given.

    Raises
    ------
    OptionError
        The name does not tell it.
    """
    if given is not None:
        return FORMATS[given]
    if Path(source).is_dir():
        return FORMATS["images"]
    for one in FORMATS.values():
        if suffix_of(source) in one.suffixes:
            return one
    listed = ", ".join(f"{one.name} ({one.summary})" for one in FORMATS.values())
    raise OptionError(f"{source}: the format does not follow from the name; set {option} to one of: {listed}")
