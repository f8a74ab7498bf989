"""CoNLL-2000 text chunking: reader, the attributes of CRFsuite's tutorial, and the score of the shared task.

The data (Tjong Kim Sang and Buchholz 2000) are sentences of the Wall Street Journal with part-of-speech tags by a
tagger and phrases in BIO tags: ``B-NP`` begins a noun phrase, ``I-NP`` continues it, ``O`` is in no phrase.  The
archive is read as it is published; it is not part of this package.

A phrase counts as found when its type and both its ends are right, as in the shared task's ``conlleval``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

from ssvm_dsl.datasets.published import data_file
from ssvm_dsl.errors import DataError
from ssvm_dsl.files.text_lines import blocks_in, columns_of, is_blank, lines_in, without_mark
from ssvm_dsl.learning.metrics import phrases, span_f1

#: Where the archive lies below the folder of environment variable ``SSVM_DATA``.
ARCHIVE = "sequences/conll2000.zip"

#: Phrase types of the task.
PHRASES = ("ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP")

#: Chunk tags: O, and for each type of phrase its beginning and its inside.
CHUNK_TAGS = ("O", *(f"{place}-{phrase}" for phrase in PHRASES for place in "BI"))

#: F1 over the phrases of all sentences.
chunk_f1 = span_f1

#: What attributes look at together: (field, offset) pairs, as in CRFsuite's tutorial.
TEMPLATES: tuple[tuple[tuple[str, int], ...], ...] = (
    *((("w", k),) for k in range(-2, 3)),
    *((("w", k), ("w", k + 1)) for k in range(-1, 1)),
    *((("pos", k),) for k in range(-2, 3)),
    *((("pos", k), ("pos", k + 1)) for k in range(-2, 2)),
    *((("pos", k), ("pos", k + 1), ("pos", k + 2)) for k in range(-2, 1)),
)


class Sentence(NamedTuple):
    """A sentence: its words, their parts of speech, and their chunk tags."""

    words: list[str]
    pos: list[str]
    chunks: list[str]


class Conll2000(NamedTuple):
    """The two parts of the data: ``train, test = load_conll2000()``."""

    train: list[Sentence]
    test: list[Sentence]


def load_conll2000() -> Conll2000:
    """Return the sentences of the shared task: 8936 to train on, 2012 to test on.

    They are read from ``sequences/conll2000.zip`` in the folder that environment variable ``SSVM_DATA`` names; the
    archive holds ``train.txt`` and ``test.txt`` with a line ``word pos chunk`` for each token and an empty line after
    each sentence.

    Raises
    ------
    DataError
        ``SSVM_DATA`` is not set, or the archive is not there or not what it should be.
    """
    path = data_file("load_conll2000", ARCHIVE)
    try:
        with ZipFile(path) as archive:
            parts = {Path(name).name: name for name in archive.namelist()}
            texts = [without_mark(archive.read(parts[name])).decode() for name in ("train.txt", "test.txt")]
    except (BadZipFile, KeyError, UnicodeDecodeError) as err:
        expected, found = "a zip archive with train.txt and test.txt", f"{type(err).__name__}: {err}"
        raise DataError(str(path), expected=expected, found=found) from err
    return Conll2000(*(list(_sentences(text, str(path))) for text in texts))


def chunk_attributes(words: Sequence[str], pos: Sequence[str]) -> list[list[str]]:
    """Return the attributes of each token as CRFsuite's tutorial makes them.

    Words and parts of speech in a window of two to either side, bigrams of both, trigrams of parts of speech; a
    template that looks beyond the sentence gives nothing, and the ends are marked.  19 names, e.g. ``"w[0]=the"``,
    ``"pos[-1]|pos[0]=IN|DT"``.
    """
    fields, n = {"w": words, "pos": pos}, len(words)
    columns = []
    for template in TEMPLATES:
        low, high = min(0, template[0][1]), max(0, template[-1][1])
        head = "|".join(f"{field}[{offset}]" for field, offset in template) + "="
        sources = [fields[field][offset - low : max(n + offset - high, 0)] for field, offset in template]
        values = sources[0] if len(sources) == 1 else map("|".join, zip(*sources, strict=True))
        columns.append((-low, [sys.intern(head + value) for value in values]))
    out = [[column[t - skip] for skip, column in columns if 0 <= t - skip < len(column)] for t in range(n)]
    if out:
        out[0].append("__BOS__")
        out[-1].append("__EOS__")
    return out


def chunk_segments(tags: Iterable[str], longest: int | None = None) -> list[tuple[int, int, str]]:
    """Return a tagged sentence as segments ``(start, end, type)`` for a label with ``segments=``.

    Phrases are segments of their type, and each token in no phrase is one of type ``"O"``.

    Parameters
    ----------
    tags : iterable of str
        Such as ``"B-NP"``, ``"I-NP"``, ``"O"``.
    longest : int, optional
        Longer phrases are cut into segments of so many tokens, and what is left.
    """
    tags = list(tags)
    phrase_at = {phrase.first: (phrase.last + 1, phrase.kind) for phrase in phrases(tags)}
    out, start = [], 0
    while start < len(tags):
        end, kind = phrase_at.get(start, (start + 1, "O"))
        step = longest or end - start
        out += [(first, min(first + step, end), kind) for first in range(start, end, step)]
        start = end
    return out


def chunk_tags(segments: Iterable[tuple[int, int, str]]) -> list[str]:
    """Return segments as chunk tags, one for each token: the inverse of :func:`chunk_segments`."""
    places = ((kind, "B" if t == start else "I") for start, end, kind in segments for t in range(start, end))
    return ["O" if kind == "O" else f"{place}-{kind}" for kind, place in places]


def _sentences(text: str, where: str) -> Iterator[Sentence]:
    """Yield the sentences of a file."""
    if is_blank(text.replace("\n", "")):
        raise DataError(where, example=0, expected="lines 'word pos chunk'", found="none")
    for i, block in enumerate(blocks_in(enumerate(lines_in(text), 1))):
        tokens = [columns_of(line) for _, line in block]
        wrong = next((token for token in tokens if len(token) != 3), None)
        if wrong is not None:
            raise DataError(where, example=i, expected="lines 'word pos chunk'", found=repr(" ".join(wrong)))
        yield Sentence(*(list(map(sys.intern, column)) for column in zip(*tokens, strict=True)))
