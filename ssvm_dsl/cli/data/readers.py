"""Readers of files of data for Python: what ``ssvm train`` reads, as examples and labels."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from ssvm_dsl.calls import checked_call
from ssvm_dsl.cli.data import conll
from ssvm_dsl.cli.data.formats import read_file
from ssvm_dsl.cli.data.parts import settings_of
from ssvm_dsl.files.regular_file import as_path


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
    source = str(as_path(path, "path"))
    file = conll.read_columns(source)
    if len(file.rows[0][0]) < 2:
        raise conll.one_column(source, file)
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
