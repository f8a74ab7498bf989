"""Trees in brackets, one after the other, as treebanks have them; or sentences without trees, one a line.

    (S (NP (D the) (N cat)) (VP (V sleeps)))        trees: to train on, to compare with, or for their words
    the cat sleeps                                  a sentence a line, words separated by spaces: to be parsed

Predictions are the trees, one a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData, require_examples
from ssvm_dsl.datasets.formats.lines import lines_of, source_name, write_text
from ssvm_dsl.errors import DataError, FileFormatError, OptionError
from ssvm_dsl.files.text_lines import columns_of, is_blank
from ssvm_dsl.lang.grammars.brackets import read_brackets
from ssvm_dsl.lang.grammars.parse_tree import ParseTree


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return sentences and their trees, or sentences alone.

    Raises
    ------
    FileFormatError
        Brackets do not match; says where the tree began.
    """
    lines = list(lines_of(source))
    first = next((text.strip() for _, text in lines if not is_blank(text)), "")
    settings = replace(settings, learnt=True)
    if first.startswith("("):
        trees = _trees(source, "\n".join(text for _, text in lines))
        require_examples(source, len(trees), "tree")
        return LabelledData(source, settings, [list(tree.words) for tree in trees], trees)
    sentences = [(number, columns_of(text)) for number, text in lines if not is_blank(text)]
    require_examples(source, len(sentences), "tree or sentence")
    return LabelledData(source, settings, [words for _, words in sentences], None, [number for number, _ in sentences])


def _trees(source: str, text: str) -> list[ParseTree]:
    try:
        return read_brackets(text, source_name(source))
    except DataError as err:
        raise FileFormatError(str(err)) from err


def read_answers(source: str, data: LabelledData) -> list[ParseTree]:
    """Return the trees of a file."""
    return _trees(source, "\n".join(text for _, text in lines_of(source)))


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write the predicted trees, one a line."""
    write_text(out, map(str, predicted))


def write_data(out: str, data: LabelledData) -> None:
    """Write trees, one a line."""
    trees = data.require_labels()
    if not all(isinstance(tree, ParseTree) for tree in trees):
        raise OptionError("--to trees: trees cannot be made from other labels; other formats: jsonl")
    write_text(out, map(str, trees))
