"""What is compiled again although another process has compiled it: each task in two fresh processes, one cache folder.

The first process fills the folder of compiled code, so that the second one should compile nothing: what it compiles,
it compiles in every process.  Rows with a number above 0 are defects, and end the benchmark with an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numba.core import event

#: Trainers with kernels of their own.
TRAINERS = "subgradient", "one-slack", "n-slack", "smo", "eg", "dlpw", "adam", "svrg"

#: Fits by name, and what their estimators are made with.
FITS: dict[str, dict[str, Any]] = {
    "fit": {},
    "log-loss": {"risk": "log", "trainer": "lbfgs"},
    "perceptron": {"risk": "perceptron", "trainer": "perceptron"},
    **{name: {"trainer": name} for name in TRAINERS},
}


class Compiled(event.Listener):  # type: ignore[misc]
    """The names of the functions that numba compiles."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, event: Any) -> None:
        """Note the function that is compiled now."""
        function = event.data["dispatcher"].py_func
        self.names.append(f"{function.__module__}.{function.__qualname__}")

    def on_end(self, event: Any) -> None:
        """Do nothing."""


def cases() -> dict[str, Callable[[], tuple[Any, list[Any]]]]:
    """Return for each model a function that returns it with a few examples."""
    import latency
    import loading
    import oracle_speed

    rng = np.random.default_rng(0)
    ring = np.array([(v, (v + 1) % 12) for v in range(12)])
    tokens = [[f"w={rng.integers(9)}", "bias"] for _ in range(6)]
    trees = [{"x": rng.normal(size=(6, 6, 8)), "r": rng.normal(size=(6, 8))} for _ in range(3)]

    def drawn(model: Any, *shape: int) -> Callable[[], tuple[Any, list[Any]]]:
        return lambda: (model, [rng.normal(size=shape) for _ in range(3)])

    return {
        "word": drawn(latency.Word, 5, 128),
        "sentence": lambda: (latency.Sentence, [tokens] * 3),
        "six labels": drawn(latency.SixLabels, 294),
        "graph": lambda: (loading.Graph, [{"x": rng.normal(size=(12, 8)), "e": ring} for _ in range(3)]),
        "matching": drawn(oracle_speed.Align, 4, 4, 8),
        "tree": lambda: (latency.Heads, trees),
        "projective": lambda: (latency.Projective, trees),
        "budget": drawn(latency.Budget, 8, 8),
        "count": drawn(oracle_speed.Few, 8, 8),
        "segments": drawn(oracle_speed.Segments, 6, 8),
        "grid": drawn(oracle_speed.Picture, 3, 3, 8),
    }


def tasks(model: Any, X: list[Any]) -> dict[str, Callable[[], object]]:
    """Return the tasks by name."""
    from ssvm_dsl import StructuredSVM, ground

    blocks = ground(model, X, whole=True).parameters.blocks
    rng = np.random.default_rng(1)
    drawn = {one.name: np.maximum(rng.normal(size=one.shape), one.lower_bound) for one in blocks}
    svm = StructuredSVM.from_weights(model, drawn, fitted_on=X)
    Y = svm.predict(X)

    def made(**options: Any) -> StructuredSVM:
        return StructuredSVM(model, max_passes=2, n_threads=1, random_state=0, **options)

    found: dict[str, Callable[[], object]] = {
        "predict": lambda: svm.predict(X, return_bounds=True),
        "given": lambda: svm.predict(X, given=Y),
        "k best": lambda: svm.predict_kbest(X, 3),
        "marginals": lambda: svm.predict_marginals(X),
        "score": lambda: svm.score(X, Y),
        "best score": lambda: (svm.best_score(X), svm.best_score(X, Y)),
        "explain": lambda: (svm.explain(X[0]), svm.why_not(X[0], Y[1])),
        "partial fit": lambda: made(trainer="subgradient").partial_fit(X, Y),
    }
    for name, options in FITS.items():
        found[name] = lambda options=options: made(**options).fit(X, Y)
    return found


def child(case: str) -> None:
    """Do all tasks of a case; write what each has compiled."""
    from ssvm_dsl.errors import SsvmError
    from ssvm_dsl.kernels.compiling import compile_cache

    compiled, missed = Compiled(), list[None]()
    event.register("numba:compile", compiled)
    compile_cache.ON_MISS.append(lambda: missed.append(None))
    for name, task in tasks(*cases()[case]()).items():
        before, n_missed, begin = len(compiled.names), len(missed), time.process_time()
        refused = "refused"
        with suppress(SsvmError):  # not every structure can do everything
            task()
            refused = ""
        row = {"task": name, "names": compiled.names[before:], "missed": len(missed) - n_missed, "refused": refused}
        print(json.dumps({**row, "seconds": time.process_time() - begin}), flush=True)


def rows(case: str) -> list[dict[str, Any]]:
    """Return what a fresh process writes."""
    command = [sys.executable, __file__, case]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Print a row for each model and task."""
    from ocr_speed import CONSOLE, table

    os.environ["SSVM_COMPILE_AHEAD"] = "off"
    heads = "model", "task", "first, CPU s", "second, CPU s", "compiled again"
    shown = table("each task in two fresh processes", *heads)
    bad = []
    for case in cases():
        for first, second in zip(rows(case), rows(case), strict=True):
            n = max(len(second["names"]), second["missed"])
            seconds = [first["refused"] or f"{one['seconds']:.2f}" for one in (first, second)]
            shown.add_row(case, first["task"], *seconds, str(n))
            if n:
                bad.append(f"{case}, {first['task']}: {', '.join(second['names']) or 'a callback'}")
    CONSOLE.print(shown)
    if bad:
        sys.exit("compiled in every process:\n" + "\n".join(bad))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        warnings.simplefilter("ignore")
        child(sys.argv[1])
    else:
        main()
