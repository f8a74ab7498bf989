"""Twenty kills of a worker at random moments: no fit hangs, and all weights are those of an undisturbed one, exactly.

    python plugins/ssvm-dask/benchmarks/kills.py                  some minutes, Dask
    python plugins/ssvm-dask/benchmarks/kills.py processes        the same of the bundled executor
    python plugins/ssvm-dask/benchmarks/kills.py dask --kills 5

A thread kills (SIGKILL) one of the workers after a random time, at most four times a fit, and the same fit is made
until there were enough kills.  A fit that takes ten minutes counts as hanging.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster
from rich.console import Console
from tagging import model_of, part_of

from ssvm_dsl import PartitionedDataset, StructuredSVM

#: Seconds between two kills, at least and at most; after the last one of a fit, workers are left alone.
BETWEEN = 0.2, 2.0

#: Seconds after which a fit counts as hanging.
HANGS = 600.0


#: What is in the command lines of workers, and seconds after which one of Dask may be killed: a nanny gives up whose
#: worker dies while it starts.
DASK, LOKY, GROWN = b"spawn_main", b"popen_loky", 4.0


def slow_part(what: tuple[int, int, int]) -> tuple[list, list]:
    """Return the examples of a part after a moment."""
    time.sleep(0.2)
    return part_of(what)


def workers_here(named: bytes) -> list[int]:
    """Return the processes below this one whose command line has something in it."""
    found, waiting = [], [os.getpid()]
    while waiting:
        threads = Path(f"/proc/{waiting.pop()}/task")  # each thread has children of its own
        try:
            below = [int(one) for thread in threads.iterdir() for one in (thread / "children").read_text().split()]
            found += [one for one in below if named in Path(f"/proc/{one}/cmdline").read_bytes()]
        except OSError:
            continue
        waiting += below
    return found


def age(pid: int) -> float:
    """Return how long a process has been there, in seconds; -1 where it is gone."""
    try:
        return time.time() - Path(f"/proc/{pid}").stat().st_ctime
    except OSError:
        return -1.0


class Killer(threading.Thread):
    """Kills workers at random moments until it is told to stop."""

    def __init__(self, named: bytes, seed: int, most: int) -> None:
        super().__init__(daemon=True)
        self.named, self.random, self.most = named, np.random.default_rng(seed), most
        self.grown = GROWN if named == DASK else 0.0
        self.over, self.n = threading.Event(), 0

    def run(self) -> None:
        """Kill."""
        while self.n < self.most and not self.over.wait(float(self.random.uniform(*BETWEEN))):
            pids = [pid for pid in workers_here(self.named) if age(pid) > self.grown]
            if pids:
                os.kill(int(self.random.choice(pids)), signal.SIGKILL)
                self.n += 1


def fitted(executor: str) -> np.ndarray:
    """Return the weights of a fit of about a hundred calls."""
    data = PartitionedDataset([(seed, 300, 40) for seed in range(4)], slow_part)
    options = {"stream": {"open": 4}, "processes": {"workers": 2}, "dask": {}}[executor]
    asked = {"risk": "log", "trainer": "lbfgs", "lam": 1e-4, "tol": 1e-9}
    return StructuredSVM(model_of(40), **asked, executor=executor, executor_options=options).fit(data).coef_


def main() -> None:
    """Fit until there were enough kills; print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("executor", nargs="?", choices=("dask", "processes"), default="dask")
    parser.add_argument("--kills", type=int, default=20)
    asked, console = parser.parse_args(), Console()
    with ExitStack() as cluster:
        if asked.executor == "dask":  # it is up before anything is killed: Dask itself does not start without a worker
            made = cluster.enter_context(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))
            cluster.enter_context(Client(made))
        _kill_and_compare(asked, console)


def _kill_and_compare(asked: argparse.Namespace, console: Console) -> None:
    """Fit until there were enough kills; exit with 1 where weights differ."""
    named = DASK if asked.executor == "dask" else LOKY
    wanted, kills, fits = fitted("stream"), 0, 0
    while kills < asked.kills:
        killer = Killer(named, fits, min(4, asked.kills - kills))
        faulthandler.dump_traceback_later(HANGS, exit=True)
        begin = time.perf_counter()
        killer.start()
        found = fitted(asked.executor)
        killer.over.set()
        killer.join()
        faulthandler.cancel_dump_traceback_later()
        kills, fits = kills + killer.n, fits + 1
        same = np.array_equal(found, wanted)
        console.print(f"fit {fits}: {killer.n} kills, {time.perf_counter() - begin:.1f} s, the same weights: {same}")
        if not same:
            sys.exit(1)
    console.print(f"{kills} kills in {fits} fits: none hung, all weights the same to the last bit")


if __name__ == "__main__":
    main()
