"""A text of words, numbers and punctuation, read token by token, with errors that name line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import NoReturn

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.files.text_lines import decoded_text

#: Longest token, in characters.
MAX_TOKEN = 4096

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_ZERO = re.compile(r"[+-]?[0.]*[1-9]")


class WordText:
    """The tokens of a text, one ahead: ``ahead`` is the next one, empty at the end.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    data : bytes
    token : pattern
        A token, anywhere; what is between tokens does not count.
    """

    def __init__(self, source: str, data: bytes, token: re.Pattern[str]) -> None:
        try:
            self.source, self._text = source, decoded_text(data, source)
        except FileFormatError as err:
            raise FileFormatError(str(err).replace("\n  hint: ", "; ")) from None
        self._tokens: Iterator[re.Match[str]] = token.finditer(self._text)
        self._at, self.ahead = 0, ""
        self._step()

    def _step(self) -> None:
        match = next(self._tokens, None)
        self._at, self.ahead = (len(self._text.rstrip()), "") if match is None else (match.start(), match[0])
        if len(self.ahead) > MAX_TOKEN:
            self.fail(f"tokens of at most {MAX_TOKEN} characters", "a longer one")

    @property
    def place(self) -> int:
        """Where the next token begins."""
        return self._at

    @property
    def n_left(self) -> int:
        """Number of characters from the next token on."""
        return len(self._text) - self._at

    def fail(self, expected: str, found: str = "", at: int | None = None) -> NoReturn:
        """Raise the error for the next token, or for what begins at a place."""
        at = self._at if at is None else at
        line, column = self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at)
        found = found or (repr(self.ahead[:40]) if self.ahead else "the end of the file")
        raise FileFormatError(f"{self.source}, line {line}, column {column}: expected {expected}, found {found}")

    def take(self, expected: str) -> str:
        """Return the next token."""
        if not self.ahead:
            self.fail(expected)
        token = self.ahead
        self._step()
        return token

    def accept(self, *tokens: str) -> bool:
        """Step over the next token if it is one of some; return whether it was."""
        if self.ahead not in tokens or not self.ahead:
            return False
        self._step()
        return True

    def require(self, *tokens: str) -> None:
        """Step over the next token, which is one of some."""
        if not self.accept(*tokens):
            self.fail(" or ".join(map(repr, tokens)))

    def is_number(self) -> bool:
        """Whether the next token is a number."""
        return _NUMBER.fullmatch(self.ahead) is not None

    def real(self, what: str) -> float:
        """Return the next token, a number that fits 64 bits and is not rounded to zero."""
        if not self.is_number():
            self.fail(f"{what}, a number")
        value = float(self.ahead)
        if not isfinite(value) or (value == 0.0 and _NOT_ZERO.match(self.ahead)):
            self.fail(f"{what}, a number that fits 64 bits")
        self._step()
        return value

    def whole(self, what: str, low: int = 0, high: int = 2**53) -> int:
        """Return the next token, an int of a range."""
        # a bound on the length first: int() takes time that grows with its square
        plain = len(self.ahead) <= 40 and re.fullmatch(r"[+-]?\d+", self.ahead, re.ASCII) is not None
        if not plain or not low <= int(self.ahead) <= high:
            bounds = f"an int of at least {low}" if high >= 2**53 else f"an int from {low} to {high}"
            self.fail(f"{what}, {bounds}")
        value = int(self.ahead)
        self._step()
        return value

    def end(self, after: str) -> None:
        """Check that nothing is left."""
        if self.ahead:
            self.fail(f"the end of the file after {after}")
