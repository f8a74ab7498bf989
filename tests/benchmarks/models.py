"""Models and data the benchmarks share."""

from __future__ import annotations

import time
from collections.abc import Callable

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, chain
from ssvm_dsl.datasets import Split, load_letters


class OCR(Model):
    """A word: T letter images -> T letters."""

    T = Dim()
    x = Input(T, 128)
    y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class BiasedOCR(OCR):
    """The same with a weight for each letter, whatever its pixels."""

    prior = Factor(OCR.y)


class NormalizedOCR(OCR):
    """The same with the share of wrong letters as loss."""

    loss = Hamming(OCR.y, normalize=True)


def split_b() -> Split:
    """6173 training words: all folds but fold 1."""
    return load_letters(fold=1, train="rest")


def interleaved(
    calls: dict[str, Callable[[], object]], repeats: int = 7, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the shortest time of each call, all measured in turn so that they share the machine's moods."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            begin = clock()
            call()
            best[name] = min(best[name], clock() - begin)
    return best
