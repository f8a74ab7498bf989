"""MAP of the UAI-2014 instances: ``combi`` beside toulbar2 (where ``pytoulbar2`` is installed), one run, one thread.

``SSVM_MAP_SECONDS`` is the limit for each instance and solver (60), ``SSVM_MAP_ONLY`` a part of the names.  On the
command line: ``python map_instances.py [seconds [part of names]]``.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ocr_speed import CONSOLE, table

from ssvm_backends.combi import Combi
from ssvm_dsl.inference.verify import Verifier
from ssvm_dsl.io.read_problem import read_problem
from ssvm_dsl.ir import Limits, Task
from ssvm_dsl.ir.solution import score_labels
from ssvm_dsl.plugin_api import BackendSpec
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
        solution = session.solve(theta, task=Task.MAP_CLAMPED, clamp=self.clamp, limits=Limits(time=seconds))
        took = time.perf_counter() - start
        solution = Verifier(program, "combi", spec.caps)(theta, solution, None, Task.MAP_CLAMPED, self.clamp)
        return took, float(solution.score[0]), float(solution.bound[0]), bool(solution.optimal(1e-7)[0])

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


def main(seconds: float | None = None, only: str | None = None) -> None:
    """Show the table."""
    data = os.environ.get("SSVM_DATA")
    if not data:
        CONSOLE.print("skipped: SSVM_DATA is not set")
        return
    limit = float(os.environ.get("SSVM_MAP_SECONDS", "60")) if seconds is None else seconds
    part = os.environ.get("SSVM_MAP_ONLY", "") if only is None else only
    folder = Path(data) / "map" / "uai2014"
    rows = [row for row in json.loads((folder / "optima.json").read_text()) if part in row["file"]]
    with_toulbar2 = has_toulbar2()
    columns = ["instance", "best known", "combi s", "score", "bound", "verdict"]
    shown = table(f"{len(rows)} instances, {limit:g} s each", *columns, "toulbar2 s", "score", "verdict")
    counts = {"combi": 0, "toulbar2": 0}
    for row in rows:
        instance = Instance(folder, row)
        took, score, bound, proved = instance.combi(limit)
        counts["combi"] += proved
        cells = [f"{took:.2f}", f"{score:.4f}", f"{bound:.4f}", verdict(instance, score, proved)]
        if with_toulbar2:
            took, theirs, claimed = instance.toulbar2(limit)
            said = verdict(instance, theirs, claimed, found=score)
            counts["toulbar2"] += said == "proved"
            cells += [f"{took:.2f}", f"{theirs:.4f}", said]
        shown.add_row(instance.name, f"{instance.best:.4f}{'*' if instance.proved else ''}", *cells)
    CONSOLE.print(shown)
    toulbar2 = f", toulbar2 {counts['toulbar2']}" if with_toulbar2 else " (toulbar2 is not installed)"
    CONSOLE.print(f"proved optimal: combi {counts['combi']}{toulbar2} of {len(rows)}; * proved before")


if __name__ == "__main__":
    main(*[float(sys.argv[1])] if len(sys.argv) > 1 else [], *sys.argv[2:3])
