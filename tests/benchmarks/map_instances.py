"""MAP of the UAI-2014 instances: ``combi`` beside toulbar2 (where ``pytoulbar2`` is installed), one thread each.

``SSVM_MAP_SECONDS`` is the limit for each instance and solver (60), ``SSVM_MAP_ONLY`` a part of the names.  On the
command line: ``python map_instances.py --seconds 60 --only Grids wcsp --jobs 16 --output table.txt``.  With several
jobs, instances are solved in processes side by side, the two solvers of an instance one after the other in the same
process; leave a core free for each.  The file is written anew after each instance.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from ocr_speed import CONSOLE, table
from rich.console import Console

from ssvm_backends.search.combi import Combi
from ssvm_backends.search.solve import prepare
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.io.problem_file import read_problem
from ssvm_dsl.ir import Limits, Question, Task
from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.plugin_api import BackendSpec, score_labels
from ssvm_dsl.registry import registry

#: Relative accuracy to which a score equals the best known one.
TOLERANCE = 1e-6

#: Solves one file within a limit of CPU seconds, before which it stops only with a proof: prints labels and whether
#: they are proved, as JSON.
_TOULBAR2 = """
import json, sys, time
import pytoulbar2
problem = pytoulbar2.CFN(verbose=-1)
problem.Read(sys.argv[1])
start = time.process_time()
found = problem.Solve(timeLimit=int(float(sys.argv[2])))
labels = None if found is None or not found[0] else [int(s) for s in found[0]]
print(json.dumps([labels, labels is not None and time.process_time() - start < 0.95 * int(float(sys.argv[2]))]))
"""


class Instance:
    """One file with its evidence and what is known of it."""

    def __init__(self, folder: Path, row: dict[str, Any]) -> None:
        self.name, self.best = row["file"].removesuffix(".uai"), float(row["best_log_score"])
        self.proved = bool(row["proved_optimal"])
        self.path = folder / f"{row['file']}.gz"
        self.evidence = folder / f"{row['file']}.evid"
        self.problem = read_problem(self.path)
        numbers = [int(word) for word in self.evidence.read_text().split()]
        self.clamp = self.problem.clamp(zip(numbers[1::2], numbers[2::2], strict=True))

    def combi(self, seconds: float) -> tuple[float, float, float, bool]:
        """Return (seconds, score, bound, proved), the answer verified."""
        program, theta = self.problem.program, self.problem.theta
        spec = registry().find(BackendSpec, "combi")
        session = Combi().open(program, spec.resolve(None))
        start = time.perf_counter()
        question = Question(theta, task=Task.MAP_CLAMPED, clamp=self.clamp, limits=Limits(time=seconds))
        solution = session.solve(question)
        took = time.perf_counter() - start
        solution = Verifier(program, "combi", spec.caps)(question, solution)
        closed = Terms.of(program, theta).closed(solution.score, solution.bound)
        return took, float(solution.score[0]), float(solution.bound[0]), bool(closed[0])

    def toulbar2(self, seconds: float) -> tuple[float, float, bool]:
        """Return (seconds, score of its labelling as we score it, whether it says proved), start-up included."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{self.name}.uai"
            file.write_bytes(gzip.decompress(self.path.read_bytes()))
            file.with_suffix(".uai.evid").write_bytes(self.evidence.read_bytes())
            start = time.perf_counter()
            command = [sys.executable, "-c", _TOULBAR2, str(file), str(seconds)]
            run = subprocess.run(command, capture_output=True, text=True, timeout=3 * seconds + 60, check=False)
            took = time.perf_counter() - start
        lines = run.stdout.strip().splitlines()
        if run.returncode or not lines:
            return took, -np.inf, False
        labels, proved = json.loads(lines[-1])
        if labels is None:
            return took, -np.inf, False
        packed = np.array(labels, dtype=np.int32)
        score = score_labels(self.problem.program, self.problem.theta, packed)
        return took, float(score[0]), proved


def has_toulbar2() -> bool:
    """Whether ``pytoulbar2`` can be imported (in another process: it takes signals for itself)."""
    return not subprocess.run([sys.executable, "-c", "import pytoulbar2"], capture_output=True, check=False).returncode


def verdict(instance: Instance, score: float, proved: bool, found: float = -np.inf) -> str:
    """Return in a word how a score compares with the best known one, and with the one ``found`` by another solver."""
    slack = TOLERANCE * max(1.0, abs(instance.best))
    if proved and found > score + slack:
        return "WRONG PROOF"
    if score > instance.best + slack:
        return "ABOVE THE OPTIMUM" if instance.proved else "better"
    if score >= instance.best - slack:
        return "proved" if proved else "equal"
    return "WRONG PROOF" if proved else f"-{instance.best - score:.4g}"


def measure(folder: Path, row: dict[str, Any], seconds: float, with_toulbar2: bool) -> tuple[list[str], bool, bool]:
    """Return the cells of an instance's row, and whether ``combi`` and toulbar2 proved its optimum."""
    instance = Instance(folder, row)
    took, score, bound, proved = instance.combi(seconds)
    cells = [instance.name, f"{instance.best:.4f}{'*' if instance.proved else ''}"]
    cells += [f"{took:.2f}", f"{score:.4f}", f"{bound:.4f}", verdict(instance, score, proved)]
    if not with_toulbar2:
        return cells, proved, False
    took, theirs, claimed = instance.toulbar2(seconds)
    said = verdict(instance, theirs, claimed, found=score)
    return [*cells, f"{took:.2f}", f"{theirs:.4f}", said], proved, said == "proved"


def measured(
    folder: Path, rows: list[dict[str, Any]], seconds: float, with_toulbar2: bool, jobs: int
) -> Iterator[tuple[int, tuple[list[str], bool, bool]]]:
    """Yield the number of each instance and what :func:`measure` says, as they come."""
    if jobs == 1:
        for number, row in enumerate(rows):
            yield number, measure(folder, row, seconds, with_toulbar2)
        return
    prepare()  # compiled once, before the processes want the kernels all at the same time
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=prepare) as pool:
        calls = {pool.submit(measure, folder, row, seconds, with_toulbar2): k for k, row in enumerate(rows)}
        for call in as_completed(calls):
            yield calls[call], call.result()


def show(
    console: Console, seconds: float, found: dict[int, tuple[list[str], bool, bool]], n: int, with_toulbar2: bool
) -> None:
    """Print the rows that are there, in the order of the list, and how many optima were proved."""
    columns = ["instance", "best known", "combi s", "score", "bound", "verdict"]
    shown = table(f"{n} instances, {seconds:g} s each", *columns, "toulbar2 s", "score", "verdict")
    for number in sorted(found):
        shown.add_row(*found[number][0])
    console.print(shown)
    ours, theirs = (sum(row[k] for row in found.values()) for k in (1, 2))
    toulbar2 = f", toulbar2 {theirs}" if with_toulbar2 else " (toulbar2 is not installed)"
    console.print(f"proved optimal: combi {ours}{toulbar2} of {len(found)}; * proved before")


def main(seconds: float | None = None, only: Sequence[str] = (), jobs: int = 1, output: Path | None = None) -> None:
    """Show the table; see the head of this file."""
    data = os.environ.get("SSVM_DATA")
    if not data:
        CONSOLE.print("skipped: SSVM_DATA is not set")
        return
    limit = float(os.environ.get("SSVM_MAP_SECONDS", "60")) if seconds is None else seconds
    parts = only or [os.environ.get("SSVM_MAP_ONLY", "")]
    folder = Path(data) / "map" / "uai2014"
    listed = json.loads((folder / "optima.json").read_text())
    rows = [row for row in listed if any(part in row["file"] for part in parts)]
    with_toulbar2, found = has_toulbar2(), {}
    for number, row in measured(folder, rows, limit, with_toulbar2, jobs):
        found[number] = row
        if output is not None:
            with output.open("w") as file:
                show(Console(file=file, width=160), limit, found, len(rows), with_toulbar2)
    show(CONSOLE, limit, found, len(rows), with_toulbar2)


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description="MAP of the UAI-2014 instances")
    parser.add_argument("--seconds", type=float, help="limit for each instance and solver")
    parser.add_argument("--only", nargs="*", default=(), help="parts of names")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--output", type=Path, help="file for the table")
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(arguments()))
