"""Labelled examples in files: each file is a part of a ``PartitionedDataset``, read where the part is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from ssvm_dsl.calls import checked_call
from ssvm_dsl.cli.data.examples import DataSettings
from ssvm_dsl.cli.data.formats import format_names, format_of, read_file
from ssvm_dsl.cli.data.templates import read_template
from ssvm_dsl.errors import OptionError
from ssvm_dsl.learning.shards.parts import PartitionedDataset


@dataclass(frozen=True)
class ReadPart:
    """Reads a file as the first one was read.

    Parameters
    ----------
    settings : DataSettings
    """

    settings: DataSettings

    def __call__(self, source: str) -> tuple[Any, Any]:
        """Return the examples and labels of a file."""
        data = read_file(source, self.settings)
        return data.X, data.require_labels()


def parts_of_files(files: Sequence[str], settings: DataSettings) -> PartitionedDataset:
    """Return files as parts; ``settings`` are those with which the first was read."""
    if not settings.learnt:
        settings = read_file(files[0], settings).settings
    return PartitionedDataset(files, ReadPart(settings))


@checked_call
def partitioned_files(
    files: Sequence[str | PathLike[str]], format: str | None = None, *, template: str | PathLike[str] | None = None,
    label: Sequence[str] = (), sequence: str = "", inputs: Sequence[str] = (),
) -> PartitionedDataset:  # fmt: skip
    """Return labelled examples in files, a part for each file, in the formats of ``ssvm train``.

    The first file is read at once: it says which columns and features there are.  All are read again where and when
    they are needed.

    Parameters
    ----------
    files : list of paths
    format : str, optional
        ``"jsonl"``, ``"npz"``, ``"parquet"``, ``"conll"``, ``"crfsuite"``, ``"csv"`` or ``"svmlight"``; by default the
        ends of the names tell it.
    template : path, optional
        Of features as for CRF++ (``conll``).
    label : sequence of str
        The column with the label, the last one by default; several for sets of labels (``csv``).
    sequence : str
        The column whose equal values make one sequence (``csv``).
    inputs : sequence of str
        Names of the model's inputs, where columns may hold words (``csv``).

    Raises
    ------
    OptionError
        There is no file, or its name does not tell the format.
    FileFormatError, OSError
        The first file cannot be read.

    Examples
    --------
    >>> data = partitioned_files(sorted(Path("shards").glob("*.parquet")))
    >>> StructuredSVM(OCR, risk="log", trainer="lbfgs", executor="stream").fit(data)
    """
    given = [files] if isinstance(files, str | PathLike) else files
    names = [str(one) for one in given if isinstance(one, str | PathLike)] if isinstance(given, Sequence) else []
    if not names or len(names) < len(given):
        raise OptionError(f"partitioned_files: expected a list of the paths of files, got {files!r:.80}")
    settings = settings_of("partitioned_files", names[0], format, template, label, sequence, inputs)
    return parts_of_files(names, settings)


def settings_of(
    called: str, source: str, format: str | None, template: str | PathLike[str] | None, label: Sequence[str],
    sequence: str, inputs: Sequence[str],
) -> DataSettings:  # fmt: skip
    """Return how a file is read, for the arguments of a public function that is called so.

    Raises
    ------
    OptionError
        An argument is not of its kind, or the format does not follow from the name.
    """
    if format is not None and (not isinstance(format, str) or format not in format_names()):
        raise OptionError(f"{called}: format must be one of {', '.join(format_names())}, got {format!r:.80}")
    for name, value in (("label", label), ("inputs", inputs)):
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
            raise OptionError(f"{called}: {name} must be a list of names, got {value!r:.80}")
    if not isinstance(sequence, str) or not isinstance(template, str | PathLike | None):
        wrong = f"sequence={sequence!r:.60}, template={template!r:.60}"
        raise OptionError(f"{called}: sequence must be a name and template a path, got {wrong}")
    chosen = format_of(source, format, "format")
    lines = () if template is None else read_template(str(template))
    return DataSettings(
        chosen.name, several=len(label) > 1, template=lines, labels=tuple(label), sequence=sequence,
        inputs=tuple(inputs),
    )  # fmt: skip
