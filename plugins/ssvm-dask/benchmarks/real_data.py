"""OCR letters and CoNLL-2000 in parts, for the benchmarks of this folder, in a module that workers import."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ssvm_dsl import Attributes, Dim, Factor, Hamming, Input, Label, Model, chain
from ssvm_dsl.datasets import CHUNK_TAGS, chunk_attributes, load_conll2000, load_letters


class LetterChain(Model):
    """A word: images of its letters, and the letters."""

    T = Dim()
    x = Input(T, 128)
    y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Chunks(Model):
    """CoNLL-2000 with the features of CRFsuite's tutorial."""

    T = Dim()
    words = Attributes(T)
    y = Label(T, CHUNK_TAGS)
    emit = Factor(y, features=words, weights="observed")
    trans = Factor(chain(y))
    loss = Hamming(y)


@cache
def examples(name: str) -> tuple[list[Any], list[Any]]:
    """Return all training examples: nine folds of the letters, or the sentences (which need ``SSVM_DATA``)."""
    if name == "letters":
        data = load_letters(fold=1, train="rest")
        return list(data.X_train), list(data.Y_train)
    sentences = load_conll2000().train
    return [chunk_attributes(one.words, one.pos) for one in sentences], [one.chunks for one in sentences]


def read(part: tuple[str, int, int]) -> tuple[list[Any], list[Any]]:
    """Return the examples of a part: so many parts of nearly equal length has the data of that name."""
    name, number, n_parts = part
    X, Y = examples(name)
    lo, hi = (int(one) for one in np.linspace(0, len(X), n_parts + 1)[number : number + 2])
    return X[lo:hi], Y[lo:hi]
