"""Features of pairs: of a word and its head in a sentence, of a word and its translation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from ssvm_dsl.array_types import F64

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
