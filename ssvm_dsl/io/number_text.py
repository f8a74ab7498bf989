"""A text of numbers and words separated by white space, parsed in bulk, with errors that name line and column.

All formats of factor graphs are streams of tokens in which lines mean nothing.  The whole text becomes one array
of float64 by one call of ``np.fromstring`` (about 10 million numbers a second); words become zeros in it and are
remembered by number.  Readers walk over the array with a cursor; where a token stands in the file is worked out
only for an error message.
"""

from __future__ import annotations

import re
import warnings
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.ir.ragged import runs

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

#: Integers up to here are exact in float64.
MAX_WHOLE = 2**53

#: Longest token, and all words together, in bytes.
MAX_TOKEN, MAX_WORDS = 4096, 1 << 24

_SPACE = np.isin(np.arange(256), [9, 10, 11, 12, 13, 32])
_DIGIT = np.isin(np.arange(256), list(b"0123456789."))
_SIGN = np.isin(np.arange(256), list(b"+-"))
_CONTROL = ((np.arange(256) < 32) | (np.arange(256) == 127)) & ~_SPACE
_COMMENT = re.compile(rb"^#[^\n]*", re.MULTILINE)
_NOT_ZERO = re.compile(rb"[+-]?[0.]*[1-9]")


class NumberText:
    """The tokens of a text, with a cursor ``at`` (the number of the next token).

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    data : bytes
    titled : bool
        The first token is a word whatever it looks like.
    comments : bool
        Lines that start with ``#`` do not count.

    Raises
    ------
    FileFormatError
        Something is neither a number nor a word.
    """

    def __init__(self, source: str, data: bytes, titled: bool = False, comments: bool = False) -> None:
        self.source, self.at = source, 0
        # blanks instead of comments keep every column
        self._data = _COMMENT.sub(lambda found: b" " * len(found[0]), data) if comments else data
        starts, ends = self._spans()
        self._check_bytes(starts, ends)
        words = self._find_words(starts, titled)
        self.values = self._parse(starts, ends, words)
        self._words = words
        self._refuse_tiny(starts, ends)

    @property
    def n_left(self) -> int:
        """Number of tokens from the cursor on."""
        return len(self.values) - self.at

    def fail(self, at: int, expected: str, found: str = "") -> NoReturn:
        """Raise the error for token ``at``: its line and column, what was expected, what is there."""
        starts, ends = self._spans()
        if at < len(starts):
            begin, end = int(starts[at]), int(ends[at])
            token = self._data[begin : min(end, begin + 40)].decode("ascii", "backslashreplace")
            found = found or repr(token)
        else:
            begin, found = len(self._data.rstrip()), "the end of the file"
        line = self._data.count(b"\n", 0, begin) + 1
        column = begin - self._data.rfind(b"\n", 0, begin)
        raise FileFormatError(f"{self.source}, line {line}, column {column}: expected {expected}, found {found}")

    def word(self, expected: str) -> str:
        """Return the next token, which is a word."""
        if self.n_left == 0 or not self._is_word(self.at):
            self.fail(self.at, expected)
        starts, ends = self._spans()
        self.at += 1
        return self._data[int(starts[self.at - 1]) : int(ends[self.at - 1])].decode("utf-8", "backslashreplace")

    def whole(self, what: str, low: int = 0, high: int = MAX_WHOLE) -> int:
        """Return the next token, an int of a range."""
        at = self.at
        value = self.values.item(at) if at < len(self.values) else -1.0
        if at >= len(self.values) or not low <= value <= high or value % 1 or self._is_word(at):
            self.fail(at, f"{what}, {_range_text(low, high)}")
        self.at += 1
        return int(value)

    def wholes(self, n: int, what: str, low: int = 0, high: int = MAX_WHOLE) -> I64:
        """Return the next ``n`` tokens, ints of a range; ``ndarray, shape (n,)``."""
        first = self.at
        return self.check_wholes(np.arange(first, first + len(self.reals(n, what))), what, low, high)

    def check_wholes(self, at: I64, what: str, low: int = 0, high: int = MAX_WHOLE) -> I64:
        """Return the tokens of these numbers, ints of a range, leaving the cursor alone."""
        values = self.values[at]
        bad = ~((values >= low) & (values <= high)) | (values % 1 != 0) | self._words_among(at)
        if bad.any():
            self.fail(int(at[np.flatnonzero(bad)[0]]), f"{what}, {_range_text(low, high)}")
        return values.astype(np.int64)

    def reals(self, n: int, what: str) -> F64:
        """Return the next ``n`` tokens as a view, after checking that so many are left and none is a word."""
        first = self.at
        if n > self.n_left:
            self.fail(len(self.values), f"{what} ({n} numbers from token {first + 1} on)")
        stop = first + n
        word = int(np.searchsorted(self._words, first))
        if word < len(self._words) and self._words[word] < stop:
            self.fail(int(self._words[word]), f"{what}, a number")
        self.at = stop
        return self.values[first:stop]

    def end(self, after: str) -> None:
        """Check that nothing is left."""
        if self.n_left:
            self.fail(self.at, f"the end of the file after {after}")

    def _is_word(self, at: int) -> bool:
        k = int(np.searchsorted(self._words, at))
        return k < len(self._words) and int(self._words[k]) == at

    def _words_among(self, at: I64) -> NDArray[np.bool_]:
        return np.isin(at, self._words) if len(self._words) else np.zeros(len(at), dtype=bool)

    # -- parsing ---------------------------------------------------------------------------------------

    def _bytes(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._data, dtype=np.uint8)

    def _spans(self) -> tuple[I64, I64]:
        """Return where each token starts and ends."""
        edges = np.flatnonzero(np.diff(_SPACE[self._bytes()], prepend=True, append=True))
        return edges[0::2], edges[1::2]

    def _check_bytes(self, starts: I64, ends: I64) -> None:
        """Refuse what is no text."""
        control = _CONTROL[self._bytes()]
        if control.any():
            begin = int(np.flatnonzero(control)[0])
            at = int(np.searchsorted(starts, begin, side="right")) - 1
            self.fail(max(at, 0), "a text file", f"byte {self._data[begin]}")
        long = ends - starts > MAX_TOKEN
        if long.any():
            self.fail(int(np.flatnonzero(long)[0]), f"tokens of at most {MAX_TOKEN} characters", "a longer one")

    def _find_words(self, starts: I64, titled: bool) -> I64:
        """Return the numbers of the tokens that do not begin like a number."""
        content = self._bytes()
        lead = content[starts]
        signed = _SIGN[lead]
        follow = content[np.minimum(starts + 1, max(len(content) - 1, 0))]
        number = _DIGIT[lead] | (signed & _DIGIT[follow])
        if titled:
            number[:1] = False
        return np.flatnonzero(~number)

    def _parse(self, starts: I64, ends: I64, words: I64) -> F64:
        """Return all tokens as numbers, zeros in place of words."""
        if not len(starts):
            return np.zeros(0)
        text = self._data
        if len(words):
            lengths = ends[words] - starts[words]
            if lengths.sum() > MAX_WORDS:
                self.fail(int(words[0]), "a file of numbers", "words all over")
            content = self._bytes().copy()
            content[runs(starts[words], lengths)] = ord(" ")
            content[starts[words]] = ord("0")
            text = content.tobytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # how older numpy says what newer raises
            try:
                values = np.fromstring(text, dtype=np.float64, sep=" ")
            except ValueError:
                values = np.zeros(0)
        if len(values) != len(starts):
            self._blame(starts, ends, words)
        if not np.isfinite(values).all():
            self.fail(int(np.flatnonzero(~np.isfinite(values))[0]), "a number that fits 64 bits")
        return values

    def _blame(self, starts: I64, ends: I64, words: I64) -> NoReturn:
        """Name the first token that is no number."""
        known = set(words.tolist())
        for at, (begin, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            if at not in known and not _is_number(self._data[begin:end]):
                self.fail(at, "a number")
        self.fail(0, "numbers", "something else")

    def _refuse_tiny(self, starts: I64, ends: I64) -> None:
        """Refuse numbers that are not zero but too small for float64: they would silently become zeros."""
        if b"e-" not in self._data and b"E-" not in self._data:
            return
        content = self._bytes()
        exponents = np.flatnonzero(((content[:-1] | 32) == ord("e")) & (content[1:] == ord("-")))
        tokens = np.unique(np.searchsorted(starts, exponents, side="right") - 1)
        for at in np.setdiff1d(tokens[self.values[tokens] == 0], self._words).tolist():
            if _NOT_ZERO.match(self._data[int(starts[at]) : int(ends[at])]):
                self.fail(at, "zero or a number of at least 5e-324")


def _is_number(token: bytes) -> bool:
    return re.fullmatch(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", token) is not None


def _range_text(low: int, high: int) -> str:
    return f"an int of at least {low}" if high >= MAX_WHOLE else f"an int from {low} to {high}"

