"""Memory is estimated truthfully before it is taken: laying random models over data holds what ``estimate`` says."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np

import model_table
from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, chain, complete, cross, estimate, grid, ground
from ssvm_dsl.lang.model import Model as Declared

UNIT, SHORT, LIMIT = "models", 4, 60.0

#: How far estimates may be off (a factor), and what they need not know of: names, lists, small arrays.
WITHIN, UNCOUNTED = 1.3, 300_000


class Net(Model):
    """All pairs of ragged sets, with weights of their own features."""

    N = Dim()
    x = Input(N, 3)
    y = Label(N, 3)
    own = Factor(y, features=x)
    pair = Factor(complete(y), form=POTTS)
    loss = Hamming(y)


class Pairs(Model):
    """A complete graph with weights for each edge."""

    K = Dim(30)
    x = Input(4)
    y = Label(K, 2)
    own = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y, normalize=True)


class Cross(Model):
    """Two labels, joined where they meet and everywhere."""

    S, T = Dim(), Dim()
    a, b = Label(S, 2), Label(T, 4)
    x, z = Input(S, 2), Input(T, 5)
    of_a = Factor(a, features=x)
    of_b = Factor(b, features=z)
    both = Factor(cross(a, b))
    loss = Hamming(a) + 2.0 * Hamming(b)


class Net3(Model):
    """Images with one table for all neighbours, and triples of a row of labels."""

    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 4)
    data = Factor(y, features=x)
    net = Factor(grid(y), form=POTTS)
    loss = Hamming(y)


class Triples(Model):
    """Chains of the second order, with features of each step."""

    T = Dim()
    x = Input(T, 6)
    y = Label(T, 5)
    emit = Factor(y, features=x)
    step = Factor(chain(y), features=x)
    triple = Factor(chain(y, order=2))
    loss = Hamming(y)


MODELS: list[type[Declared]] = [*model_table.TEMPLATES, Net, Pairs, Cross, Net3, Triples]


#: Of weights for observed pairs more is estimated at the peak than is taken where few attributes occur again and again.
OBSERVED = 1.5


def data_of(model: type[Declared], rng: np.random.Generator) -> tuple[list[object], list[object]]:
    """Return examples, a few different ones again and again, of a size that takes some megabytes."""
    sizes = tuple(int(size) for size in rng.integers(1, int(rng.choice([8, 25])), size=3))
    X, Y, _, _ = model_table.make_data(model, int(rng.integers(1, 5)), int(rng.integers(2**31)), ragged=sizes)
    alone = estimate(model, X).total_bytes / len(X)
    times = int(np.clip(rng.uniform(4e6, 2e7) / alone / len(X), 1, 4000))
    return X * times, Y * times


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Lay a random model over random data and compare what it holds, and held at most, with the estimate."""
    model = MODELS[rng.integers(len(MODELS))]
    X, Y = data_of(model, rng)
    told = estimate(model, X)
    ground(model, X[:1], Y[:1])  # what is imported and remembered is no part of it
    tracemalloc.start()
    made = ground(model, X, Y)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made.n_examples == told.n_examples
    for what, measured, said in (("stays", kept, told.ground_bytes), ("is held", peak, told.peak_bytes)):
        text = f"{model.__name__}, {len(X)} examples: {measured / 1e6:.2f} MB {what}, estimated {said / 1e6:.2f} MB"
        most = OBSERVED if model is model_table.Observed and what == "is held" else WITHIN
        assert said <= most * (measured + UNCOUNTED), text
        assert measured <= WITHIN * (said + UNCOUNTED), text
    return 1
