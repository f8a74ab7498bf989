"""``make bench ARGS=fit-limits``: fits that a limit ends - how late they are, and what they certify.

Every fit asks for more than there is time for.  Each line shows the seconds beyond the limit (loading code is not
counted), the bounds of the objective, and how many examples were not looked at in time.  A fit that is late is
repeated, and the least overrun counts: other programs on the machine make fits late, too.  ``SSVM_LIMITS_QUICK=1``
leaves out limits above 5 s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from limit_problems import complete_edges, grid_edges, large
from limited_fits import limited_fit
from model_table import STRUCTURES, tagger
from ssvm_dsl import Dim, Factor, Given, Hamming, Input, Label, Model, chain, complete

#: What a fit may be late by: a share of the limit, or seconds; and how often one that is late is repeated.
SHARE, SECONDS, AGAIN = 0.1, 0.2, 2

#: Trainers that are each asked with every limit on a problem that all of them take.
TRAINERS = ("bcfw", "n-slack", "one-slack", "bundle", "smo", "subgradient", "adam", "perceptron")


#: Chains with features.
CHAIN = tagger(3, 5)


class GivenChain(Model):
    T = Dim()
    s = Input(T, 5)
    y = Label(T, 5)
    own = Given(y, scores=s)
    next = Factor(chain(y))
    loss = Hamming(y)


@cache
def multi_label(n_labels: int, width: int) -> type[Model]:
    """Return the model of so many labels, all pairs of which have a table."""

    class Labels(Model):
        K = Dim(n_labels)
        x = Input(width)
        y = Label(K, 2)
        one = Factor(y.is_(1), features=x, per=K)
        two = Factor(complete(y), per="edge")
        loss = Hamming(y)

    return Labels


def tagged(n_labels: int, width: int, n: int) -> tuple[Any, Any, Any]:
    """Return a model of many labels and random data, on which labels are rare."""
    rng = np.random.default_rng(0)
    X = (rng.random((n, width)) < 0.05).astype(float)
    scores = X @ rng.normal(size=(width, n_labels))
    return multi_label(n_labels, width), X, list((scores > np.quantile(scores, 0.97, axis=0)).astype(int))


def structured(name: str, size: int, n: int) -> tuple[Any, Any, Any]:
    """Return the model of a structure and random data."""
    rng = np.random.default_rng(0)
    made = [STRUCTURES[name].example(size, rng) for _ in range(n)]
    return STRUCTURES[name].model, [x for x, _ in made], [y for _, y in made]


def chains(n: int, length: int, model: type[Model] = CHAIN, width: int = 3) -> tuple[Any, Any, Any]:
    """Return chains with features, or with given scores."""
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(length, width)) for _ in range(n)], [rng.integers(0, 5, length) for _ in range(n)]
    return model, X, Y


def graphs(edges: np.ndarray, card: int, n: int) -> tuple[Any, Any, Any]:
    """Return graphs that come with the examples."""
    made = large("", edges, card, n, np.random.default_rng(0))
    return made.model, made.X, made.Y


def segments(length: int, n: int) -> tuple[Any, Any, Any]:
    """Return sequences to divide into segments."""
    rng = np.random.default_rng(0)
    model = STRUCTURES["segments"].model
    return model, [rng.normal(size=(length, 3)) for _ in range(n)], [["O", "A", "B"] * (length // 3) for _ in range(n)]


def rows() -> Iterator[tuple[str, tuple[Any, Any, Any], list[float], dict[str, Any]]]:
    """Yield (what, (model, X, Y), limits, parameters)."""
    for trainer in ("bcfw", "one-slack", "bundle"):
        yield "3 chains of 30 000", chains(3, 30_000), [1.0, 5.0, 20.0], {"trainer": trainer}
        yield "3 of 30 000, given scores", chains(3, 30_000, GivenChain, 5), [5.0], {"trainer": trainer}
        yield "30 chains of 3 000", chains(30, 3_000), [0.2, 3.0], {"trainer": trainer}
    yield "complete 60, 10 states", graphs(complete_edges(60), 10, 2), [1.0, 5.0], {"backend": "trws"}
    yield "complete 120, 2 states", graphs(complete_edges(120), 2, 5), [1.0, 5.0], {"backend": "decompose"}
    yield "grid 200x200, 3 states", graphs(grid_edges(200, 200), 3, 2), [1.0, 5.0], {"backend": "trws"}
    yield "projective trees of 60", structured("projective", 60, 10), [1.0], {"backend": "ilp"}
    yield "segments of 10 000", segments(9_999, 10), [1.0], {}
    yield "45 labels, 333 examples", tagged(45, 100, 333), [5.0, 30.0], {"guarantee": "bound"}
    yield "159 labels, 4880 examples", tagged(159, 200, 4880), [20.0, 120.0], {}
    for trainer in ("subgradient", "bcfw"):
        yield "latent chains of 100", structured("latent", 100, 50), [0.2, 1.0, 4.0], {"trainer": trainer}
    for trainer in TRAINERS:
        yield "200 chains of 200", chains(200, 200), [0.05, 0.2, 1.0], {"trainer": trainer}
    for trainer in ("lbfgs", "svrg", "bundle"):
        yield "200 chains of 200", chains(200, 200), [0.05, 0.2, 1.0], {"trainer": trainer, "risk": "log"}


def main() -> None:
    """Print a line for each fit, and how many were late or without a certificate."""
    n_fits = n_late = n_unknown = n_lost = 0
    for what, data, limits, parameters in rows():
        limited_fit(*data, 0.05, **parameters)  # compiles
        for seconds in limits:
            if seconds > 5.0 and os.environ.get("SSVM_LIMITS_QUICK"):
                continue
            found = limited_fit(*data, seconds, **parameters)
            for _ in range(AGAIN):
                if found.late > max(SHARE * seconds, SECONDS):
                    found = min(found, limited_fit(*data, seconds, **parameters), key=lambda one: one.late)
            late, lost = found.late > max(SHARE * seconds, SECONDS), bool(found.error) and not found.refused
            marks = [name for name, on in (("LATE", late), ("NAN", found.unknown), ("LOST", lost)) if on]
            n_fits, n_late = n_fits + 1, n_late + late
            n_unknown, n_lost = n_unknown + found.unknown, n_lost + lost
            told = ", ".join(f"{name} {value}" for name, value in parameters.items()) or "defaults"
            print(f"{what:26} {told:28} {seconds:5g} s: {found} {' '.join(marks)}", flush=True)
    print(f"{n_fits} fits: {n_late} late by more than 0.2 s and a tenth, {n_unknown} without bounds, {n_lost} lost")
