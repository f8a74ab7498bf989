"""Features of words in sentences, for taggers of sentences that are lists of words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.arrays import describe

#: What begins a word, and what ends it: so many letters at most.
PREFIX, SUFFIX = 3, 4

def word_shape(word: str) -> str:
    """Return the shape of a word: ``X`` and ``x`` for letters, ``9`` for digits, runs of one kind once.

    >>> word_shape("McDonald's"), word_shape("1990-95")
    ("XxXx'x", '9-9')
    """
    out: list[str] = []
    for letter in word:
        kind = "X" if letter.isupper() else "x" if letter.isalpha() else "9" if letter.isdigit() else letter
        if not out or out[-1] != kind:
            out.append(kind)
    return "".join(out)


def word_features(words: Sequence[str]) -> list[list[str]]:
    """Return the names of the features of each word of a sentence.

    They are what taggers of parts of speech, chunks and names usually look at:

    * the word, and the word in lower case;
    * its first 1 to 3 and its last 1 to 4 letters, in lower case;
    * its shape (:func:`word_shape`), and whether it holds a digit or a hyphen;
    * of the word before and the word behind: the word in lower case, its last 3 letters and its shape;
    * of the words two before and two behind: the word in lower case;
    * the word together with the one before, and with the one behind.

    Ends of the sentence count as the words ``<s>`` and ``</s>``.

    Parameters
    ----------
    words : list of str
        A sentence.

    Raises
    ------
    DataError
        It is no list of words.

    Examples
    --------
    >>> word_features(["The", "cat"])[1][:3]
    ['word=cat', 'lower=cat', 'prefix=c']
    """
    sentence = list(words) if not isinstance(words, str) else [words]
    odd = next((one for one in sentence if not isinstance(one, str)), words if isinstance(words, str) else None)
    if odd is not None:
        hint = "split the text into words: text.split()" if isinstance(words, str) else ""
        raise DataError("words", expected="a list of words", found=describe(odd), hint=hint)
    own = list(map(_own, sentence))
    padded = ["<s>", "<s>", *(word.lower() for word in sentence), "</s>", "</s>"]
    beside = ["<s>", *sentence, "</s>"]
    out = []
    for t, features in enumerate(own):
        before, here, behind = padded[t + 1 : t + 4]
        out.append([
            *features, *_beside("-1", beside[t]), *_beside("+1", beside[t + 2]),
            f"-2:lower={padded[t]}", f"+2:lower={padded[t + 4]}", f"-1|0={before}|{here}", f"0|+1={here}|{behind}",
        ])  # fmt: skip
    return out


@lru_cache(maxsize=100_000)
def _own(word: str) -> list[str]:
    """Return the features of a word alone."""
    lower = word.lower()
    names = [f"word={word}", f"lower={lower}"]
    names += [f"prefix={lower[:k]}" for k in range(1, min(PREFIX, len(word)) + 1)]
    names += [f"suffix={lower[-k:]}" for k in range(1, min(SUFFIX, len(word)) + 1)]
    names.append(f"shape={word_shape(word)}")
    if any(letter.isdigit() for letter in word):
        names.append("has a digit")
    if "-" in word:
        names.append("has a hyphen")
    return names


@lru_cache(maxsize=200_000)
def _beside(place: str, word: str) -> list[str]:
    """Return the features that a neighbour has."""
    lower = word.lower()
    return [f"{place}:lower={lower}", f"{place}:suffix={lower[-3:]}", f"{place}:shape={word_shape(word)}"]
