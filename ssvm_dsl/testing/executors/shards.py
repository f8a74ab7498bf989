"""Shards for the conformance kit of executors, and calls on them; workers can import all of it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain


class Tagger(Model):
    """A small model to train on shards."""

    T = Dim()
    x = Input(T, 3)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


def sentences(seed: int) -> tuple[list[F64], list[list[int]]]:
    """Return the examples of a shard."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(int(random.integers(1, 5)), 3)) for _ in range(3 + seed)]
    return X, [random.integers(0, 3, size=len(x)).tolist() for x in X]


@dataclass(eq=False)
class OpenNumbers:
    """An opened shard of numbers that counts its calls."""

    values: F64
    n_asked: int = 0
    busy: bool = False


@dataclass(frozen=True)
class NumberShard:
    """Numbers that are drawn when the shard is opened.

    Parameters
    ----------
    key : str
    seed : int
    broken : bool
        Whether opening fails.
    """

    key: str
    seed: int
    broken: bool = False

    def open(self) -> OpenNumbers:
        """Draw the numbers."""
        if self.broken:
            raise DataError(f"shard {self.seed}", expected="a shard that opens", found="a broken one")
        return OpenNumbers(np.random.default_rng(self.seed).normal(size=5))


def scaled(shard: OpenNumbers, factor: float, more: F64) -> F64:
    """Return the numbers of a shard times a factor, and others."""
    return shard.values * factor + more


def times_asked(shard: OpenNumbers) -> int:
    """Return how often this was called on a shard."""
    shard.n_asked += 1
    return shard.n_asked


def undisturbed(shard: OpenNumbers, seconds: float) -> bool:
    """Return whether no other call on the shard was under way when this one began, which takes some seconds."""
    alone, shard.busy = not shard.busy, True
    time.sleep(seconds)
    shard.busy = False
    return alone


def refused(shard: OpenNumbers, what: str) -> None:
    """Raise an error of the data."""
    raise DataError(what, expected="nothing", found="this call")


def after(shard: OpenNumbers, seconds: float) -> float:
    """Return the first number after some seconds."""
    time.sleep(seconds)
    return float(shard.values[0])


def lost_once(shard: OpenNumbers, driver: int, trace: str) -> F64 | None:
    """End the worker that is asked first, then return the numbers; ``None`` in the process that asks."""
    if os.getpid() == driver:
        return None
    if not Path(trace).exists():
        Path(trace).touch()
        os._exit(1)
    return shard.values
