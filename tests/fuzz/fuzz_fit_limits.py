"""Promise: a fit with a limit returns weights and a certificate that is a number, whatever it was doing, and in time.

Models of every structure in sizes from tiny to ten times what fits, with any trainer and risk, and limits that most of
these fits meet.  What may be late here is generous, for machines that do other things; ``make bench ARGS=fit-limits``
measures it.  Some have many examples, as large data sets do, for which each step on all of them takes a part of the
limit: by their own work these are late by a tenth.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from limited_fits import limited_fit
from model_table import STRUCTURES
from ssvm_dsl import estimate

UNIT = "fits"
SHORT = 3
LIMIT = 120.0

#: Seconds that a fit may be late: a stretch of work that nothing interrupts, on a machine that is busy.
LATE = 30.0

#: Scores of data with many examples, how many of these differ, and seconds of their fits.
CROWD, DIFFERENT, CROWD_SECONDS = 2e6, 20, 2.0

#: Share of the limit that these may be late by their own work, and seconds besides, for a step of the set-up.
OVERRUN, BESIDES = 0.1, 0.5

#: Trainers, the risk of each, and what else they are told.
TRAINERS = (
    ("bcfw", "margin"),
    ("bcfw", "relaxed"),
    ("n-slack", "margin"),
    ("one-slack", "margin"),
    ("bundle", "margin"),
    ("bundle", "slack"),
    ("bundle", "log"),
    ("smo", "margin"),
    ("eg", "margin"),
    ("extragradient", "margin"),
    ("lp-dual-qp", "margin"),
    ("dlpw", "relaxed"),
    ("lbfgs", "log"),
    ("svrg", "softmax-margin"),
    ("adam", "margin"),
    ("subgradient", "margin"),
    ("subgradient", "relaxed"),
    ("perceptron", "perceptron"),
)


#: Those that also train on shards.
SHARDED = ("bundle", "one-slack", "lbfgs", "svrg", "adam", "subgradient")


def drawn(rng):
    """Return (name, model, X, Y, seconds, parameters, whether there are many examples) of a random fit."""
    name = list(STRUCTURES)[int(rng.integers(len(STRUCTURES)))]
    if rng.random() < 0.2:
        return crowd(rng)
    structure = STRUCTURES[name]
    size = structure.sizes[int(rng.integers(3))]
    n = int(rng.choice([1, 3, 20] if size == structure.sizes[2] else [3, 20, 200]))
    made = [structure.example(int(rng.integers(max(structure.sizes[0], size // 2), size + 1)), rng) for _ in range(n)]
    trainer, risk = TRAINERS[int(rng.integers(len(TRAINERS)))]
    guarantee = str(rng.choice(["exact", "bound", "heuristic"]))
    parameters = {"trainer": trainer, "risk": risk, "guarantee": guarantee, "n_threads": int(rng.choice([1, 2]))}
    if trainer in SHARDED and rng.random() < 0.3:
        parameters |= {"executor": "stream", "executor_options": {"shards": int(rng.integers(1, 5))}}
    seconds = float(rng.choice([0.2, 1.0, 5.0], p=[0.6, 0.3, 0.1]))
    what = f"{name} of {size}, {n} examples, {trainer} ({risk}), {guarantee}, {seconds:g} s"
    what += ", shards" if "executor" in parameters else ""
    return what, structure, [x for x, _ in made], [y for _, y in made], seconds, parameters, False


def crowd(rng):
    """Return the same of a fit with many examples."""
    name = str(rng.choice(["labels", "labels", "chain", "grid", "complete"]))
    structure = STRUCTURES[name]
    size = {"chain": 20, "grid": 6, "complete": 8}.get(name, 40)
    made = [structure.example(size, rng) for _ in range(DIFFERENT)]
    alone = sum(estimate(structure.model, [x]).score_bytes for x, _ in made) / 8.0
    times = max(1, round(CROWD / alone))
    trainer, risk = TRAINERS[int(rng.integers(len(TRAINERS)))]
    parameters = {"trainer": trainer, "risk": risk, "guarantee": str(rng.choice(["exact", "bound", "heuristic"]))}
    what = f"{name} of {size}, {times * len(made)} examples, {trainer} ({risk}), {parameters['guarantee']}"
    X, Y = ([pair[side] for pair in made] * times for side in (0, 1))
    return what, structure, X, Y, CROWD_SECONDS, parameters | {"n_threads": 1}, True


def trial(rng, scratch):
    """Fit a random model with a random limit."""
    what, structure, X, Y, seconds, parameters, many = drawn(rng)
    found = limited_fit(structure.model, X, Y, seconds, **parameters)
    if "found" in found.error and "segments of at most" in found.error:
        return 0  # labels drawn at random may be one segment that is too long
    assert not found.error or found.refused, f"{what}: lost: {found}"
    assert not found.unknown, f"{what}: no certificate: {found}"
    assert not found.crossed, f"{what}: bounds cross: {found}"
    assert found.late <= LATE, f"{what}: late: {found}"
    overrun = OVERRUN * seconds + BESIDES
    assert not many or found.error or found.late * found.share <= overrun, f"{what}: late: {found}, {found.share:.2f}"
    return 1
