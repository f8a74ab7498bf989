"""Bytes that an iteration moves between driver, scheduler and two workers, beside the weights that must travel.

    python plugins/ssvm-dask/benchmarks/traffic.py                 about twenty seconds
    python plugins/ssvm-dask/benchmarks/traffic.py --width 1000 --workers 4

Scheduler and workers are processes of their own, as on a cluster.  Each counts the messages that it sends, by whom they
go to (bytes of messages, without headers of TCP).  An iteration is one ``gradient`` of the training problem; opening
shards is not counted, and what Dask sends anyway (heartbeats) is measured in a pause and subtracted.  What must travel
are the weights to each worker and a vector of the same length back: ``2 x workers x 8 x weights`` bytes, at the driver.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client
from rich.console import Console
from rich.table import Table
from tagging import model_of, part_of

from ssvm_dsl import PartitionedDataset, StructuredSVM
from ssvm_dsl.learning.estimators.fitting.over_shards import worker_of

#: Iterations that are counted, and seconds of the pause.
ITERATIONS, PAUSE = 20, 5.0


def count() -> None:
    """Count what this process sends from now on."""
    from distributed.comm import tcp

    if hasattr(tcp, "sent_to"):
        return
    tcp.sent_to, write = {}, tcp.TCP.write

    async def counted(comm: Any, *args: Any, **named: Any) -> int:
        n = await write(comm, *args, **named)
        ends = comm.local_address, comm.peer_address
        tcp.sent_to[ends] = tcp.sent_to.get(ends, 0) + n
        return n

    tcp.TCP.write = counted


def sent() -> dict[tuple[str, str], int]:
    """Return the bytes that this process has sent, by the two ends of a connection."""
    from distributed.comm import tcp

    return dict(tcp.sent_to)


def totals(client: Client) -> np.ndarray:
    """Return the bytes sent so far: by the driver, to the driver, and between scheduler and workers."""
    here = sent()
    mine = {own for own, _ in here}
    others = [client.run_on_scheduler(sent), *client.run(sent).values()]
    received = sum(n for one in others for (_, peer), n in one.items() if peer in mine)
    every = sum(n for one in others for n in one.values())
    return np.array([sum(here.values()), received, every - received], dtype=float)


def measured(client: Client, width: int, n: int, n_workers: int) -> tuple[int, np.ndarray]:
    """Return the number of weights, and the bytes of one iteration as :func:`totals` tells them apart."""
    from ssvm_dsl.learning.shards.fit import Strength, open_executor, shard_problem

    model = model_of(width)
    data = PartitionedDataset([(seed, n, width) for seed in range(n_workers)], part_of)
    parts = [data.part(number) for number in range(n_workers)]
    svm = StructuredSVM(model, risk="log", trainer="lbfgs", lam=0.05)
    executor = open_executor("dask", {})
    problem, _ = shard_problem(executor, parts, worker_of(svm), model.declaration, Strength(1.0, 0.05, None))
    random = np.random.default_rng(0)
    problem.gradient(np.zeros(problem.dim))
    first, begin = totals(client), time.perf_counter()
    for _ in range(ITERATIONS):
        problem.gradient(0.01 * random.normal(size=problem.dim))
    second, took = totals(client), time.perf_counter() - begin
    time.sleep(PAUSE)
    third = totals(client)
    executor.close()
    return problem.dim, (second - first - (third - second) * min(took / PAUSE, 1.0)) / ITERATIONS


def main() -> None:
    """Start a cluster, count, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--width", type=int, default=1000, help="features of a word; there are 4 times as many weights")
    asked = parser.parse_args()
    table = Table(title="bytes an iteration", box=None)
    for name in ("examples", "weights", "driver sends", "driver receives", "of what must", "scheduler and workers"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        dask = [sys.executable, "-m", "distributed.cli"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": Path(__file__).parent}
        to = ["--scheduler-file", str(file), "--no-dashboard"]
        started = [subprocess.Popen([*dask[:2], f"{dask[2]}.dask_scheduler", "--port", "0", *to], **quiet)]
        worker = [*dask[:2], f"{dask[2]}.dask_worker", "--nthreads", "1", "--no-nanny", *to]
        started += [subprocess.Popen(worker, **quiet) for _ in range(asked.workers)]
        try:
            while not file.exists():
                time.sleep(0.1)
            with Client(scheduler_file=str(file), direct_to_workers=True) as client:
                client.wait_for_workers(asked.workers, timeout=60)
                count()
                client.run_on_scheduler(count)
                client.run(count)
                for n in (20, 200):
                    dim, (sends, receives, relayed) = measured(client, asked.width, n, asked.workers)
                    share = f"{(sends + receives) / (2.0 * asked.workers * 8.0 * dim):.2f} x"
                    row = (n * asked.workers, dim, round(sends), round(receives), share, round(relayed))
                    table.add_row(*map(str, row))
        finally:
            for one in reversed(started):
                one.terminate()
                one.wait()
    Console().print(table)


if __name__ == "__main__":
    main()
