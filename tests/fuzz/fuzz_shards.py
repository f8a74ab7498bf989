"""Fits over shards of random small models: against optima over all labellings, the same whoever holds the shards."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_optima import check, refused, suits, table
from random_models import draw

from optima import Reference
from ssvm_dsl import StructuredSVM, register
from ssvm_dsl.errors import NoBackendError, OptionError, OutOfTime, TrainingError
from ssvm_dsl.plugin_api import ExecutorSpec, Option, hookimpl, time_left

UNIT, SHORT, LIMIT = "fits", 4, 90.0

#: Trainers that work over shards.
TRAINERS = ("bcfw", "one-slack", "bundle", "lbfgs", "svrg", "adam", "subgradient")

#: Refusals of models that shards do not take.
KNOWN = ("on shards", "over shards", "which shards of the data cannot give it")


class KeptShards:
    """Shards of this process that stay open."""

    def __init__(self, shards: int) -> None:
        self.n_shards = shards

    def start(self, shards: Any) -> None:
        """Take over shards."""
        self.shards, self.opened = shards, dict[int, Any]()

    def run(self, function: Any, calls: Any) -> list[Any]:
        """Return what a function finds on shards."""
        found: list[Any] = [None] * len(calls)
        for place, (number, given) in enumerate(calls):
            if time_left() <= 0.0:
                error = OutOfTime("no time is left")
                error.found = found
                raise error
            if number not in self.opened:
                self.opened[number] = self.shards[number].open()
            found[place] = function(self.opened[number], *given)
        return found

    def close(self) -> None:
        """Forget the shards."""
        self.start(())


class Plugin:
    """Registers the executor of this module."""

    @hookimpl
    def ssvm_executors(self) -> tuple[ExecutorSpec, ...]:
        """Return the description of an executor."""
        options = (Option("shards", 1, "how many shards", int, least=1),)
        return (ExecutorSpec("kept", "fuzz_shards:KeptShards", "shards of this process", keeps=True, options=options),)


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Fit a model over shards, compare it with the optimum, and with as many shards in other hands."""
    register(Plugin(), "fuzz_shards")
    data = draw(rng, n=int(rng.integers(1, 9)))
    able = [one for one in table() if one.trainer in TRAINERS and one.oracle != "heuristic" and suits(data, one.risk)]
    one = able[rng.integers(len(able))]
    reference = Reference(data, one.risk, 1.0)
    shards = int(rng.choice([1, 2, 3, 8]))
    options: dict[str, Any] = {
        "risk": one.risk, "trainer": one.trainer, "random_state": int(rng.integers(100)), "n_threads": 1,
        "max_passes": int(rng.choice([1, 3, 100])), "tol": float(rng.choice([1e-2, 1e-5])), "max_seconds": 5.0,
        **data.settings,
    }  # fmt: skip
    found = []
    for executor in ("kept", "stream")[: 1 if one.trainer in ("bcfw", "one-slack") else 2]:
        made = StructuredSVM(data.model, executor=executor, executor_options={"shards": shards}, **options)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made.fit(data.X, data.Y, data.weight)
        except (NoBackendError, OptionError, TrainingError) as err:
            if not refused(str(err)) and not any(words in str(err) for words in KNOWN):
                raise
            return 0
        found.append(made)
    low, high, _ = reference.optimum()
    check(reference, found[0], one, low, high)
    if not any(made.report_.reason == "time" for made in found):
        assert len({made.coef_.tobytes() for made in found}) == 1, (one.trainer, one.risk, shards, data.kind)
    return len(found)
