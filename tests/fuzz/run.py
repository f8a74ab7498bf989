"""``make fuzz``: attack the promises of the package with random input, for minutes or hours.

    make fuzz                                   every fuzzer, a minute each
    make fuzz ARGS="files numbers --hours 2"    some of them, two hours each
    make fuzz ARGS="files --seed 3 --trial 17"  one trial again, in this process, with its traceback
    make fuzz ARGS=mutants                      every bug that the conformance kits must find, once
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import harness
import mutants
from rich.console import Console
from rich.live import Live
from rich.table import Table


def table(runners: dict[str, list[harness.Runner]]) -> Table:
    """Return what was tried so far."""
    out = Table("fuzzer", "trials", "tried", "", "failures", "attacks", box=None, title_justify="left")
    for name, mine in runners.items():
        module = harness.load(name)
        trials, tried = sum(r.trials for r in mine), sum(r.tried for r in mine)
        failures = sum(len(r.failures) for r in mine)
        what = (module.__doc__ or "").split("\n")[0]
        out.add_row(name, f"{trials}", f"{tried}", module.UNIT, f"{failures}", what)
    return out


def run(names: list[str], seed: int, seconds: float, trials: int | None, jobs: int) -> int:
    """Run fuzzers one after the other, each in ``jobs`` processes, and print a table; return the number of failures."""
    console, runners = Console(), dict[str, list[harness.Runner]]()
    shown: set[harness.Failure] = set()
    with Live(console=console, refresh_per_second=1, redirect_stdout=False) as live:
        for name in names:
            most = [None if trials is None else len(range(j, trials, jobs)) for j in range(jobs)]
            runners[name] = mine = [harness.Runner(name, seed, j, jobs, most[j]) for j in range(jobs)]
            end = time.monotonic() + seconds
            while time.monotonic() < end and not all(r.finished for r in mine):
                for runner in mine:
                    runner.poll(0.1)
                    for failure in set(runner.failures) - shown:
                        shown.add(failure)
                        console.print(str(failure), highlight=False, markup=False, soft_wrap=True)
                live.update(table(runners))
            for runner in mine:
                runner.stop()
        live.update(table(runners))
    return len(shown)


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help=f"fuzzers; there are: {', '.join(harness.names())}")
    parser.add_argument("--hours", type=float, help="for each fuzzer (default: a minute)")
    parser.add_argument("--trials", type=int, help="for each fuzzer, in place of a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int, help="only this trial, with its traceback")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    given = parser.parse_args()
    if given.names == ["mutants"]:
        return min(mutants.main(), 1)
    unknown = set(given.names) - set(harness.names())
    if unknown:
        parser.error(f"unknown fuzzer {min(unknown)!r}; there are: {', '.join(harness.names())}")
    names = given.names or harness.names()
    if given.trial is not None:
        for name in names:
            print(f"{name}: tried {harness.one(name, given.seed, given.trial)} {harness.load(name).UNIT}")
        return 0
    seconds = 3600.0 * given.hours if given.hours else 60.0 if given.trials is None else float("inf")
    return 1 if run(names, given.seed, seconds, given.trials, given.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
