"""Formats of files of examples, and readers of them: as examples and labels, or as parts of a data set.

Each file is a part of a ``PartitionedDataset``, read where the part is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ssvm_dsl.calls import checked_call
from ssvm_dsl.datasets.formats.conll import read_template
from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData
from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.files.opening import as_path, suffix_of
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.plugin_api.specs import FileContent, ReaderSpec
from ssvm_dsl.registry import describe_reader, reader_method, reader_of, readers

# -- formats: those of the package, and those of plug-ins ----------------------------------------------------------


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
    content = reader_method(spec)(source, settings)
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
    function: Callable[..., Any] | None = reader_method(format_of("", settings.format), method)
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
    function: Callable[..., Any] | None = reader_method(spec, "write_data")
    if function is None:
        raise OptionError(f"{describe_reader(spec)} writes no data; write another format, such as jsonl")
    return function


@checked_call
def read_examples(
    path: str | PathLike[str], format: str | None = None, *, template: str | PathLike[str] | None = None,
    label: Sequence[str] = (), sequence: str = "", inputs: Sequence[str] = (),
) -> tuple[Any, Any]:  # fmt: skip
    """Return the examples and the labels of a file, in any format of ``ssvm train``.

    Parameters
    ----------
    path : path
        A file, or a folder of images.
    format : str, optional
        ``"conll"``, ``"crfsuite"``, ``"jsonl"``, ``"csv"``, ``"npz"``, ``"svmlight"``, ``"conllu"``, ``"parquet"`` or
        ``"images"``, or the format of a plug-in; by default what the name says.
    template : path, optional
        Feature templates of ``conll``.
    label, sequence : list of str, str
        Columns of ``csv``: those with labels, and the one that tells sequences apart.
    inputs : list of str
        Of ``images``: the inputs of a model of your own.

    Returns
    -------
    X, Y
        In the forms that ``fit`` takes; Y is ``None`` where the file has no labels.

    Raises
    ------
    FileFormatError
        The file is not of this format; names the line.
    OptionError
        The format does not follow from the name.

    Examples
    --------
    >>> X, Y = read_examples("train.csv", label=["species"])
    >>> Classifier().fit(X, Y)
    """
    source = str(as_path(path, "path"))
    data = read_file(source, settings_of("read_examples", source, format, template, label, sequence, inputs))
    return data.X, data.Y


@checked_call
def read_conll(path: str | PathLike[str]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words and the tags of the sentences of a file in CoNLL columns: the first column and the last one.

    Those are what ``ChainTagger().fit(sentences, tags)`` takes.  ``read_examples(path, "conll")`` makes features of all
    columns, by a template.

    Raises
    ------
    FileFormatError
        A line has another number of columns, or there is one column only; names file and line.
    """
    from ssvm_dsl.datasets.formats.conll import one_column, read_columns

    source = str(as_path(path, "path"))
    file = read_columns(source)
    if len(file.rows[0][0]) < 2:
        raise one_column(source, file)
    return [[row[0] for row in rows] for rows in file.rows], [[row[-1] for row in rows] for rows in file.rows]


@checked_call
def read_conllu(path: str | PathLike[str]) -> tuple[list[tuple[list[str], list[str]]], list[list[int]] | None]:
    """Return the sentences of a file in CoNLL-U or CoNLL-X, each a pair (words, parts of speech), and their heads.

    Those are what ``DependencyParser().fit(sentences, heads)`` takes: heads are positions, -1 is the root; ``None``
    where no word has one.  Trees of phrases are read by :func:`~ssvm_dsl.read_trees`.

    Raises
    ------
    FileFormatError
        A line has another number of columns, or no head within its sentence; names file and line.
    """
    return read_examples(path, "conllu")


@checked_call
def read_images(path: str | PathLike[str]) -> tuple[list[Any], list[Any] | None]:
    """Return features of the pixels of the images of a folder, and their label maps.

    Images are ``images/NAME.png``, masks ``masks/NAME.png``; features are those of
    :func:`~ssvm_dsl.datasets.pixel_features`.  Those are what ``GridSegmenter().fit(X, Y)`` takes.

    Raises
    ------
    FileFormatError
        There are no images, or a mask is missing or of another size.
    OptionError
        Pillow is not installed.
    """
    return read_examples(path, "images")


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
