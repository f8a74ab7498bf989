"""Whether a change made something slower: this checkout beside another one, in turn, on one machine.

``make bench ARGS=against SSVM_BENCH_AGAINST=FOLDER`` wants a checkout with its own ``.venv``
(``make bench ARGS=none`` there makes one).  Two processes, one of each, run each workload in turn, so that both meet
the same moods of the machine; processor seconds are compared, by the shortest run and by the median ratio of
neighbours.
``SSVM_BENCH_ROUNDS`` (default 11) says how often.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from ocr_speed import CONSOLE, table

HERE = Path(__file__).resolve().parent


def started(checkout: Path) -> Any:
    """Return a process of a checkout that runs workloads."""
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        sys.exit(f"SSVM_BENCH_AGAINST={checkout}: no {python}; make bench ARGS=none makes one there")
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([str(python), str(HERE / "workloads.py")], cwd=checkout, **pipes)


def seconds(process: Any, name: str) -> float:
    """Return the processor seconds of one run."""
    to: IO[str] = process.stdin
    to.write(name + "\n")
    to.flush()
    return float(process.stdout.readline())


def main() -> None:
    """Compare."""
    other = os.environ.get("SSVM_BENCH_AGAINST")
    if not other:
        print("skipped: SSVM_BENCH_AGAINST names no other checkout")
        return
    from workloads import WORKLOADS

    rounds, pair = int(os.environ.get("SSVM_BENCH_ROUNDS", "11")), [started(Path(other)), started(HERE.parents[1])]
    shown = table(f"{rounds} runs of each in turn, one thread", "workload", "other, ms", "this, ms", "ratio", "median")
    try:
        for name in WORKLOADS:
            for process in pair:
                seconds(process, name)  # compiles, loads
            both = []
            for number in range(rounds):
                order = pair if number % 2 == 0 else pair[::-1]
                took = [seconds(process, name) for process in order]
                both.append(took if number % 2 == 0 else took[::-1])
            best = [1e3 * min(one[side] for one in both) for side in (0, 1)]
            median = statistics.median(mine / theirs for theirs, mine in both)
            shown.add_row(name, f"{best[0]:.1f}", f"{best[1]:.1f}", f"{best[1] / best[0]:.3f}", f"{median:.3f}")
            print(name, f"{best[1] / best[0]:.3f} {median:.3f}", file=sys.stderr, flush=True)
    finally:
        for process in pair:
            process.kill()
    CONSOLE.print(shown)
