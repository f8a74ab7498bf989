"""Features of words in sentences, of pairs of words, and of pixels, for taggers, parsers, aligners and segmenters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

from ssvm_dsl.array_types import F64
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


# -- pairs: of a word and its head in a sentence, of a word and its translation ------------------------------------

#: Columns that features of arcs are hashed to, as a power of 2.
BITS = 18


def arc_features(words: Sequence[str], pos: Sequence[str]) -> tuple[Any, Any]:
    """Return hashed features of each (word, head), and of each word below the root.

    They join words and tags of both, the distance and the neighbouring tags (McDonald, Crammer and Pereira, ACL 2005).

    Parameters
    ----------
    words, pos : sequence of str
        A sentence and its parts of speech.

    Returns
    -------
    scipy.sparse.csr_array, shape (n * n, 2**18)
        For ``Input(T, T, 2**18, sparse=True)``.
    scipy.sparse.csr_array, shape (n, 2**18)
    """
    from scipy.sparse import csr_array

    w, p = (np.array([crc32(one.encode()) for one in ("ROOT", *side)], np.uint64) for side in (words, pos))
    d, h = np.arange(1, len(w))[:, None], np.arange(len(w))[None, :]
    far = (np.sign(h - d) * np.digitize(abs(h - d), [2, 3, 4, 6, 10]) + 9).astype(np.uint64)
    left, right = np.roll(p, 1), np.roll(p, -1)
    parts = [(p[h], p[d]), (w[h], p[d]), (p[h], w[d]), (w[h], w[d]), (p[h], p[d], far), (w[d], far), (p[d], far)]
    parts += [(p[h], p[d], right[h], left[d]), (p[h], p[d], left[h], right[d]), (p[h], p[d], left[d], right[d])]
    codes = np.zeros((*far.shape, len(parts)), dtype=np.uint64)
    for k, part in enumerate(parts):
        for code in (np.uint64(k), *part):
            codes[..., k] = (codes[..., k] ^ code) * np.uint64(0x9E3779B97F4A7C15)
    columns = (codes >> np.uint64(64 - BITS)).astype(np.int64)
    made = []
    for table in (columns[:, 1:].reshape(-1, len(parts)), columns[:, 0]):
        ends = np.arange(len(table) + 1) * len(parts)
        made.append(csr_array((np.ones(table.size), table.ravel(), ends), (len(table), 2**BITS)))
    return made[0], made[1]


def link_features(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[F64]:
    """Return 19 features of each (word, word of the translation): joint counts, neighbours, positions, letters.

    Parameters
    ----------
    pairs : sequence of (source, target)
        Sentences and their translations, all that counts are taken from; no links are looked at.

    Returns
    -------
    list of ndarray, shape (n_source, n_target, 19)
        For ``Input(I, J, 19)``.
    """
    seen = [Counter(word for pair in pairs for word in set(pair[side])) for side in (0, 1)]
    met = Counter((a, b) for source, target in pairs for a in set(source) for b in set(target))
    return [_of_pair(source, target, seen, met) for source, target in pairs]


def _of_pair(s: Sequence[str], t: Sequence[str], seen: list[Counter[str]], met: Counter[tuple[str, str]]) -> F64:
    dice = np.array([[2 * met[a, b] / (seen[0][a] + seen[1][b]) for b in t] for a in s])
    rare = np.array([[min(seen[0][a], seen[1][b]) < 4 for b in t] for a in s])
    apart = abs(np.arange(len(s))[:, None] / len(s) - np.arange(len(t)) / len(t))
    near, around = np.exp(-apart * len(s) / 2), np.pad(dice, 1)
    best = [dice / dice.max(axis=axis, keepdims=True) for axis in (0, 1)]
    alike = [np.array([[a[:n] == b[:n] for b in t] for a in s]) for n in (2, 3, 4, 99)]
    met_often = [rare, ~rare, dice * rare, dice * ~rare, dice**2, near * dice, *best, *(one == 1 for one in best)]
    places = [around[:-2, :-2], around[2:, 2:], apart, apart**0.5, near]
    return np.asarray(np.stack([*met_often, *places, *alike], axis=2), dtype=np.float64)


# -- pixels --------------------------------------------------------------------------------------------------------


def pixel_features(rgb: F64) -> dict[str, F64]:
    """Return features of the pixels of a photograph, and of each pixel with its neighbours to the left and above.

    Parameters
    ----------
    rgb : ndarray of float64, shape (H, W, 3)
        Colours from 0 to 1.

    Returns
    -------
    dict
        ``x``, shape (H, W, 55): the place, by 6 x 6 products of linear hats; the colours, their means over 5 x 5 pixels
        and how far these are from the median colour at the edge of the image, with the squares of all of them; 1.
        ``left`` and ``above``, shape (H, W, 2): 1, and ``exp(-d / (2 m))`` for the squared difference d of the colours
        and its mean m, the contrast of Boykov and Jolly (2001).
    """
    from scipy.ndimage import uniform_filter

    near, edge = uniform_filter(rgb, (5, 5, 0)), np.concatenate([rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]])
    strange = abs(near - np.median(edge, axis=0))
    hats = [np.maximum(0, 1 - abs(np.linspace(0, 5, n)[:, None] - np.arange(6))) for n in rgb.shape[:2]]
    place = np.einsum("ia,jb->ijab", *hats).reshape(*rgb.shape[:2], 36)
    x = np.concatenate([place, rgb, rgb**2, near, near**2, strange, strange**2, np.ones_like(rgb[..., :1])], axis=2)
    steps = (np.square(np.diff(rgb, axis=a, prepend=rgb.take([0], axis=a))).sum(axis=2) for a in (0, 1))
    above, left = (np.stack([np.ones_like(s), np.exp(-s / (2 * max(s.mean(), 1e-12)))], axis=2) for s in steps)
    return {"x": x, "left": left, "above": above}
