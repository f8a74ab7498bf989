"""A text of numbers and words separated by white space, parsed in bulk, with errors that name line and column.

All formats of factor graphs are streams of tokens in which lines mean nothing.  The text becomes one array of float64
by ``np.fromstring`` (about 10 million numbers a second), piece by piece, so that besides the text and the array (8
bytes for each token) only a few megabytes are needed; words become zeros in the array and are remembered by number.
Readers walk over the array with a cursor; where a token stands in the file is worked out only for an error message.
"""

from __future__ import annotations

import re
import warnings
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.ir.ragged import runs

#: Integers up to here are exact in float64.
MAX_WHOLE = 2**53

#: Longest token, and all words together, in bytes.
MAX_TOKEN, MAX_WORDS = 4096, 1 << 24

#: Bytes of text that are parsed at a time.
PIECE = 1 << 20

_SPACE = np.isin(np.arange(256), [9, 10, 11, 12, 13, 32])
_DIGIT = np.isin(np.arange(256), list(b"0123456789."))
_SIGN = np.isin(np.arange(256), list(b"+-"))
_CONTROL = ((np.arange(256) < 32) | (np.arange(256) == 127)) & ~_SPACE
_NOT_ZERO = re.compile(rb"[+-]?[0.]*[1-9]")


class _Piece(NamedTuple):
    """A part of the text that ends between two tokens."""

    begin: int
    end: int
    first: int  #: number of its first token


class NumberText:
    """The tokens of a text, with a cursor ``at`` (the number of the next token).

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    data : bytes
    titled : bool
        The first token is a word whatever it looks like.
    comments : bytes
        Lines that start with this do not count.

    Raises
    ------
    FileFormatError
        Something is neither a number nor a word.
    """

    def __init__(self, source: str, data: bytes, titled: bool = False, comments: bytes = b"") -> None:
        self.source, self.at = source, 0
        # blanks instead of comments keep every column
        self._data = data
        if comments and comments in data:
            pattern = re.compile(rb"^" + re.escape(comments) + rb"[^\n]*", re.MULTILINE)
            self._data = pattern.sub(lambda found: b" " * len(found[0]), data)
        self._pieces, values, words, first = list[_Piece](), list[F64](), list[I64](), 0
        for begin, end in _cut(self._data):
            self._pieces.append(_Piece(begin, end, first))
            numbers, places = self._parse(self._pieces[-1], titled and not first)
            values.append(numbers)
            words.append(places)
            first += len(numbers)
        self.values = values[0] if len(values) == 1 else np.concatenate([np.zeros(0), *values])
        none = np.zeros((3, 0), dtype=np.int64)
        self._words, self._word_begins, self._word_ends = np.concatenate([none, *words], axis=1)
        self._word_list = array("q", self._words.tobytes())  # what bisect is fast on

    @property
    def n_left(self) -> int:
        """Number of tokens from the cursor on."""
        return len(self.values) - self.at

    def fail(self, at: int, expected: str, found: str = "") -> NoReturn:
        """Raise the error for token ``at``, with its line and column, the expected and the actual text."""
        piece = max((piece for piece in self._pieces if piece.first <= at), default=_Piece(0, 0, 0))
        starts, ends = self._spans(piece)
        if at - piece.first < len(starts):
            begin, end = (piece.begin + int(place[at - piece.first]) for place in (starts, ends))
            token = self._data[begin : min(end, begin + 40)].decode("ascii", "backslashreplace")
            found = found or repr(token)
        else:
            begin, found = len(self._data.rstrip()), found or "the end of the file"
        line = self._data.count(b"\n", 0, begin) + 1
        column = begin - self._data.rfind(b"\n", 0, begin)
        raise FileFormatError(f"{self.source}, line {line}, column {column}: expected {expected}, found {found}")

    def word(self, expected: str) -> str:
        """Return the next token, which is a word."""
        k = bisect_left(self._word_list, self.at)
        if k == len(self._word_list) or self._word_list[k] != self.at:
            self.fail(self.at, expected)
        self.at += 1
        return self._data[int(self._word_begins[k]) : int(self._word_ends[k])].decode("utf-8", "backslashreplace")

    def where(self, word: bytes, expected: str) -> I64:
        """Return the numbers of all tokens that are words, each of which is a letter; the cursor stays."""
        other = self._word_ends - self._word_begins != len(word)
        content = np.frombuffer(self._data, dtype=np.uint8)
        if not other.any() and len(self._words):
            other = content[self._word_begins] != word[0]
        if other.any():
            self.fail(int(self._words[other][0]), expected)
        words: I64 = self._words
        return words

    def whole(self, what: str, low: int = 0, high: int = MAX_WHOLE) -> int:
        """Return the next token, an int of a range."""
        at, k = self.at, bisect_left(self._word_list, self.at)
        value = self.values.item(at) if at < len(self.values) else -1.0
        word = k < len(self._word_list) and self._word_list[k] == at
        if at >= len(self.values) or not low <= value <= high or value % 1 or word:
            self.fail(at, f"{what}, {_range_text(low, high)}")
        self.at += 1
        return int(value)

    def wholes(self, n: int, what: str, low: int = 0, high: int = MAX_WHOLE) -> I64:
        """Return the next ``n`` tokens, ints of a range; ``ndarray, shape (n,)``."""
        first = self.at
        values = self.reals(n, what)
        wrong = _no_ints(values, low, high)
        if len(wrong):
            self.fail(first + int(wrong[0]), f"{what}, {_range_text(low, high)}")
        return values.astype(np.int64)

    def check_wholes(self, at: I64, what: str, low: int = 0, high: int = MAX_WHOLE) -> I64:
        """Return the tokens of these numbers, ints of a range, leaving the cursor alone."""
        values = self.values[at]
        wrong = _no_ints(values, low, high)
        if len(self._words):
            wrong = np.union1d(wrong, np.flatnonzero(np.isin(at, self._words)))
        if len(wrong):
            self.fail(int(at[wrong[0]]), f"{what}, {_range_text(low, high)}")
        return values.astype(np.int64)

    def reals(self, n: int, what: str) -> F64:
        """Return the next ``n`` tokens as a view, after checking that n are left and none is a word."""
        first = self.at
        if n > len(self.values) - first:
            self.fail(len(self.values), f"{what} ({n} numbers from token {first + 1} on)")
        stop = first + n
        word = bisect_left(self._word_list, first)
        if word < len(self._words) and self._words[word] < stop:
            self.fail(int(self._words[word]), f"{what}, a number")
        self.at = stop
        return self.values[first:stop]

    def end(self, after: str) -> None:
        """Check that nothing is left."""
        if self.at < len(self.values):
            self.fail(self.at, f"the end of the file after {after}")

    # -- parsing ---------------------------------------------------------------------------------------

    def _spans(self, piece: _Piece) -> tuple[I64, I64]:
        """Return where each token of a piece starts and ends, counted from where the piece begins."""
        content = np.frombuffer(self._data, dtype=np.uint8, count=piece.end - piece.begin, offset=piece.begin)
        edges = np.flatnonzero(np.diff(_SPACE[content], prepend=True, append=True))
        return edges[0::2], edges[1::2]

    def _parse(self, piece: _Piece, titled: bool) -> tuple[F64, I64]:
        """Return the tokens of a piece as numbers, zeros in place of words, and (number, begin, end) of each word.

        The second has ``shape (3, n_words)``.
        """
        starts, ends = self._spans(piece)
        content = np.frombuffer(self._data, dtype=np.uint8, count=piece.end - piece.begin, offset=piece.begin)
        control = _CONTROL[content]
        if control.any():
            begin = int(np.flatnonzero(control)[0])
            at = int(np.searchsorted(starts, begin, side="right")) - 1
            self.fail(piece.first + max(at, 0), "a text file", f"byte {content[begin]}")
        long = ends - starts > MAX_TOKEN
        if long.any():
            at = piece.first + int(np.flatnonzero(long)[0])
            self.fail(at, f"tokens of at most {MAX_TOKEN} characters", "a longer one")
        if not len(starts):
            return np.zeros(0), np.zeros((3, 0), dtype=np.int64)

        # words: what does not begin like a number
        lead, follow = content[starts], content[np.minimum(starts + 1, len(content) - 1)]
        number = _DIGIT[lead] | (_SIGN[lead] & _DIGIT[follow])
        if titled:
            number[0] = False
        words = np.flatnonzero(~number)
        lengths = ends[words] - starts[words]
        if lengths.sum() > MAX_WORDS:
            self.fail(piece.first + int(words[0]), "a file of numbers", "words all over")
        text = content
        if len(words):
            text = content.copy()
            text[runs(starts[words], lengths)] = ord(" ")
            text[starts[words]] = ord("0")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # how older numpy says what newer raises
            try:
                values = np.fromstring(text.tobytes(), dtype=np.float64, sep=" ")
            except ValueError:
                values = np.zeros(0)
        if len(values) != len(starts):
            self._blame(piece, starts, ends, words)
        infinite = np.flatnonzero(~np.isfinite(values))
        if len(infinite):
            self.fail(piece.first + int(infinite[0]), "a number that fits 64 bits")
        # too small for float64, so that they would silently become zeros
        exponents = np.flatnonzero(((text[:-1] | 32) == ord("e")) & (text[1:] == ord("-")))
        tokens = np.unique(np.searchsorted(starts, exponents, side="right") - 1)
        for at in tokens[values[tokens] == 0].tolist():
            if _NOT_ZERO.match(text[int(starts[at]) : int(ends[at])].tobytes()):
                self.fail(piece.first + at, "zero or a number of at least 5e-324")
        places = np.stack([piece.first + words, piece.begin + starts[words], piece.begin + ends[words]])
        return values, places

    def _blame(self, piece: _Piece, starts: I64, ends: I64, words: I64) -> NoReturn:
        """Name the first token that is no number."""
        known = set(words.tolist())
        for at, (begin, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            if at not in known and not _is_number(self._data[piece.begin + begin : piece.begin + end]):
                self.fail(piece.first + at, "a number")
        self.fail(piece.first, "numbers", "something else")


def _cut(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where pieces of the text begin and end: behind white space, but within tokens that are too long anyway."""
    begin = 0
    while begin < len(data):
        end = begin + PIECE
        if end < len(data):
            last = np.frombuffer(data, dtype=np.uint8, count=MAX_TOKEN + 1, offset=end - MAX_TOKEN - 1)
            spaces = np.flatnonzero(_SPACE[last])
            end -= MAX_TOKEN - int(spaces[-1]) if len(spaces) else 0
        yield begin, min(end, len(data))
        begin = end


def _no_ints(values: F64, low: int, high: int) -> I64:
    """Return where values are no ints of a range."""
    return np.flatnonzero(~((values >= low) & (values <= high)) | (values % 1 != 0))


def _is_number(token: bytes) -> bool:
    return re.fullmatch(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", token) is not None


def _range_text(low: int, high: int) -> str:
    return f"an int of at least {low}" if high >= MAX_WHOLE else f"an int from {low} to {high}"
