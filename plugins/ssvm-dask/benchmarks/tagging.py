"""Taggers and parts of data for the benchmarks of this folder, in a module that workers import."""

from __future__ import annotations

from functools import cache

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, chain


@cache
def model_of(width: int) -> type[Model]:
    """Return a tagger with so many features of a word."""

    class Tagger(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, 4)
        emit = Factor(y, features=x)
        trans = Factor(chain(y))
        loss = Hamming(y)

    return Tagger


def part_of(what: tuple[int, int, int]) -> tuple[list, list]:
    """Return the examples of a part: of a seed, so many, of a width."""
    seed, n, width = what
    random = np.random.default_rng(seed)
    return [random.normal(size=(5, width)) for _ in range(n)], [random.integers(0, 4, size=5) for _ in range(n)]
