"""How long backends take beside what their ``check`` expects: what the speeds in the bundled specs are set by.

Questions about a few examples of the structures of ``regret``; ``SSVM_BENCH_REGRET=chain,grid`` takes those whose names
hold one of these.  A factor of 2 in the table says that the speed in the spec is twice too high.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict

import numpy as np
from regret import CONSOLE, Problem, answered, apart, backends, planned, warm
from regret_problems import STRUCTURES
from rich.table import Table

#: Examples of a question, and the seconds that it may take.
N, MOST = 5, 1.5

#: Seconds that a session and a question take in Python, whatever the problem.
OVERHEAD = 4e-4


def main() -> None:
    """Print, for each backend, measured over expected time: smallest, mean, largest, and where these are."""
    wanted = os.environ.get("SSVM_BENCH_REGRET", "").split(",")
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for structure in STRUCTURES:
        if not any(part in structure.name for part in wanted):
            continue
        warm(structure)
        for size in structure.sizes[1:]:
            grounded, theta = Problem.of(structure, size, N).question()
            for spec in backends():
                plan = planned(grounded, spec.name)
                if plan is None or plan.seconds > 50.0:
                    continue
                run = apart(answered(grounded, theta, plan), MOST)
                seconds = run.seconds if np.isfinite(run.seconds) else np.inf
                where = f"{structure.name} {size}"
                shown = (plan.title, where, f"{plan.seconds:.3g}", f"{seconds:.3g}", str(run.done))
                print(*shown, sep="\t", file=sys.stderr, flush=True)
                if np.isfinite(seconds):
                    found[spec.name].append((max(seconds - OVERHEAD, 1e-5) / max(plan.seconds, 1e-9), where))
    table = Table("backend", "questions", "least", "where", "mean", "most", "where")
    for name, factors in sorted(found.items()):
        least, most = min(factors), max(factors)
        mean = float(np.exp(np.mean([np.log(one) for one, _ in factors])))
        table.add_row(name, str(len(factors)), f"{least[0]:.2g}", least[1], f"{mean:.2g}", f"{most[0]:.2g}", most[1])
    CONSOLE.print(table)
