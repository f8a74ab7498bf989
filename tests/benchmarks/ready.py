"""Ready models with their defaults beside what one would do without them: quality and processor time, one row each.

A row is a function that returns a :class:`Task`, below a line ``@row(...)`` that says which model is fitted, what one
would do without it, and by which measure both are judged; larger is better.  Rows of generated data are means over
``draws`` seeds.  ``SSVM_BENCH_READY=chains,tables`` takes the rows whose names begin so.  Rows with ``small=`` are kept
by the tests in a small form (``tests/ready_models/test_defaults.py``): no default may lose by more than :data:`LOST`.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ssvm_dsl.errors import DataError

#: By how much no default may be below the obvious.
LOST = 0.01

#: Modules beside this one that add rows.
MODULES = ("ready_tables", "ready_sequences", "ready_structures", "ready_labels")

#: Fits that take less are repeated once, and the shorter time counts: the first loads compiled code.
SHORT = 5.0


@dataclass(frozen=True)
class Task:
    """Data to learn from and to judge by."""

    X: Any
    Y: Any
    X_test: Any
    Y_test: Any


#: Learns from a task and returns predictions for its test examples.
Learn = Callable[[Task], Any]


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Parameters
    ----------
    name : str
        Kind of data and which: ``"tables: digits"``.
    task : callable
        ``task(seed)``, or with sizes ``task(seed, **small)``.
    model : callable
        Makes the ready model, with its defaults.
    obvious : tuple (str, callable)
        What one would do without it: its name, and what learns and predicts.
    measure : callable
        ``measure(truth, predicted)``; larger is better.
    draws : int
        Number of seeds.
    small : dict, optional
        Arguments of ``task`` for the form that tests keep.
    learn : callable
        How the model is used: ``learn(model, task)`` returns predictions.
    """

    name: str
    task: Callable[..., Task]
    model: Callable[[], Any]
    obvious: tuple[str, Learn]
    measure: Callable[[Any, Any], float]
    draws: int = 1
    small: dict[str, Any] | None = field(default=None, compare=False)
    learn: Callable[[Any, Task], Any] = lambda model, task: model.fit(task.X, task.Y).predict(task.X_test)

    @property
    def measured_by(self) -> str:
        """The measure in words."""
        return getattr(self.measure, "__name__", "").replace("_", " ")


ROWS: list[Row] = []


def row(name: str, model: Any, obvious: tuple[str, Learn], measure: Any, **more: Any) -> Any:
    """Return a decorator that enters a function ``task(seed)`` as a row of the table."""

    def enter(task: Callable[..., Task]) -> Callable[..., Task]:
        ROWS.append(Row(name, task, model, obvious, measure, **more))
        return task

    return enter


@dataclass(frozen=True)
class Outcome:
    """How good the model and the obvious are, and processor seconds of both, fit and prediction; means over draws."""

    ours: float
    obvious: float
    seconds: float
    obvious_seconds: float

    @property
    def lost(self) -> float:
        """By how much the model is worse."""
        return self.obvious - self.ours


def judged(one: Row, task: Task, repeat: bool = True) -> Outcome:
    """Return the outcome of a row on one task; short fits are repeated, for their time."""
    predicted, seconds = _timed(lambda: one.learn(one.model(), task), repeat)
    other, other_seconds = _timed(lambda: one.obvious[1](task), repeat)
    return Outcome(one.measure(task.Y_test, predicted), one.measure(task.Y_test, other), seconds, other_seconds)


def mean_outcome(one: Row, draws: int, *, repeat: bool = True, **sizes: Any) -> Outcome:
    """Return the mean outcome of a row over some seeds."""
    found = [judged(one, one.task(seed, **sizes), repeat) for seed in range(draws)]
    return Outcome(*np.mean([(f.ours, f.obvious, f.seconds, f.obvious_seconds) for f in found], axis=0).tolist())


def _timed(call: Callable[[], Any], repeat: bool) -> tuple[Any, float]:
    """Return the result of a call and its processor seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = process_time()
        found = call()
        seconds = process_time() - begin
        if repeat and seconds < SHORT:
            begin = process_time()
            call()
            seconds = min(seconds, process_time() - begin)
    return found, seconds


def rows() -> list[Row]:
    """Return all rows, in the order of the modules."""
    if not ROWS:
        sys.path.insert(0, str(Path(__file__).parent))
        for name in MODULES:
            importlib.import_module(name)
    return ROWS


def main() -> None:
    """Print the table, row by row as they are there."""
    chosen = tuple(filter(None, os.environ.get("SSVM_BENCH_READY", "").split(",")))
    table = Table("data", "model", "measure", "ours", "obvious", "what", "ours [s]", "obvious [s]")
    for one in rows():
        if chosen and not one.name.startswith(chosen):
            continue
        try:
            found = mean_outcome(one, one.draws)
        except DataError as err:
            print(f"{one.name}: left out, {err}")
            continue
        model = type(one.model()).__name__
        cells = (
            one.name, model, one.measured_by, f"{found.ours:.3f}", f"{found.obvious:.3f}", one.obvious[0],
            f"{found.seconds:.1f}", f"{found.obvious_seconds:.1f}",
        )  # fmt: skip
        print(" | ".join(cells), flush=True)
        table.add_row(*cells)
    Console(width=150).print(table)


if __name__ == "__main__":
    sys.modules["ready"] = sys.modules["__main__"]  # rows enter themselves here
    main()
