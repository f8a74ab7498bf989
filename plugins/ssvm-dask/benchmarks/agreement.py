"""Fits on two workers beside fits in this process, on OCR letters and CoNLL-2000: objectives, and bytes an iteration.

    python plugins/ssvm-dask/benchmarks/agreement.py                         some minutes; chunks need SSVM_DATA
    python plugins/ssvm-dask/benchmarks/agreement.py letters --trainers lbfgs bcfw --passes 10

* *sum*: how far the objective that the workers report is from that of one process at the same weights, relatively.
* *here*, *there*: the objectives reached after as many passes, with their certified gaps.  ``bcfw`` takes other steps
  on shards, so that its objectives agree as far as the gaps say.
* *bytes*: what is pickled for a round of calls and for its answers, over ``2 x workers x 8 x weights``.  What travels
  besides is measured by ``traffic.py``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from real_data import Chunks, LetterChain, examples, read
from rich.console import Console

from ssvm_dask.executor import DaskExecutor
from ssvm_dsl import PartitionedDataset, StructuredSVM
from ssvm_dsl.learning.estimators.fitting.over_shards import worker_of
from ssvm_dsl.learning.shards.recipe import step_on, sums_at

#: Largest relative difference between two sums of the same risks, and most bytes over those that must travel.
SAME, MOST = 1e-9, 1.2

#: By data: the model, and the tolerance.
DATA = {"letters": (LetterChain, 1e-3), "chunks": (Chunks, 0.1)}

#: Risks that a trainer is for, if not margins.
RISKS = {"lbfgs": {"risk": "log"}}


#: Columns of the table, and their widths.
COLUMNS = {
    "data": 8, "trainer": 11, "weights": 9, "sum": 8, "here (gap)": 24, "there (gap)": 24, "rounds": 8, "bytes": 9,
}  # fmt: skip

#: Bytes of each round of the fit at hand.
ROUNDS: list[int] = []


def count_bytes() -> None:
    """Note from now on how large the calls of iterations and their answers are."""
    run = DaskExecutor.run

    def counted(self: DaskExecutor, function: Any, calls: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        found = run(self, function, calls)
        if calls[0][1][0] in (sums_at, step_on):
            ROUNDS.append(sum(len(pickle.dumps(one)) for one in [*calls, *found]))
        return found

    DaskExecutor.run = counted


def objective_here(model: Any, asked: dict[str, Any], X: list[Any], Y: list[Any]) -> Any:
    """Return the function that gives the objective at weights, in this process."""
    learner = worker_of(StructuredSVM(model, **asked))
    grounded, weight = learner._shard_data(X, Y, None, None)
    problem = learner._shard_problem(grounded, weight)
    problem.objective = replace(problem.objective, lam=asked["lam"], n=problem.n)
    return lambda w: problem.value(w)[0]


def row(name: str, trainer: str, n_workers: int, passes: int) -> tuple[list[str], bool]:
    """Return the cells of a row, and whether all is as it should be."""
    model, tol = DATA[name]
    X, Y = examples(name)
    asked = {
        "trainer": trainer, "lam": 10.0 / len(X), "tol": tol, "max_passes": passes, "random_state": 0,
        **RISKS.get(trainer, {}),
    }  # fmt: skip
    here = StructuredSVM(model, **asked).fit(X, Y).report_
    data = PartitionedDataset([(name, number, n_workers) for number in range(n_workers)], read)
    ROUNDS.clear()
    svm = StructuredSVM(model, **asked, executor="dask", executor_options={"workers": n_workers}).fit(data)
    there, dim = svm.report_, len(svm.coef_)
    value = objective_here(model, asked, X, Y)(svm.coef_)
    apart = abs(value - there.primal) / abs(value)
    share = float(np.mean(ROUNDS)) / (2.0 * n_workers * 8.0 * dim)
    fine = apart <= SAME and share <= MOST
    reached = [f"{one.primal:.8g} ({one.relative_gap:.1e})" for one in (here, there)]
    cells = [name, trainer, str(dim), f"{apart:.0e}", *reached, str(len(ROUNDS)), f"{share:.2f} x"]
    return cells, fine


def main() -> None:
    """Print a row for each fit; exit with 1 where sums differ, or too much travels."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", nargs="*", default=list(DATA), help="letters, chunks")
    parser.add_argument("--trainers", nargs="+", default=["lbfgs", "bundle", "one-slack", "bcfw"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--passes", type=int, default=100, help="most passes over the data")
    asked = parser.parse_args()
    console, fine = Console(width=140), True
    console.print("".join(one.rjust(width) for one, width in COLUMNS.items()))
    count_bytes()
    warnings.simplefilter("ignore")
    for name in asked.data:
        if name == "chunks" and not os.environ.get("SSVM_DATA"):
            continue
        for trainer in asked.trainers:
            cells, good = row(name, trainer, asked.workers, asked.passes)
            console.print("".join(map(str.rjust, cells, COLUMNS.values())), highlight=False)
            fine &= good
    sys.exit(not fine)


if __name__ == "__main__":
    main()
