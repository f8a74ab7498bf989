"""``dask``: shards on the workers of a Dask cluster.

Each shard has its worker, which opens it once and keeps it.  In an iteration the weights go to the workers, and sums
come back from them directly, not through the scheduler.  Shards are recipes, so that nothing of the data passes through
the driver where they are read from files.

Tasks are bound to their workers.  The scheduler keeps a task whose worker is gone until a worker of that name comes,
which it never does; so the driver looks which workers there are while it waits, and gives the shards of those that are
lost to others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api import NotOpen, Shard, ShardFunction, answer, answer_if_open, forget, pause

#: Seconds between two looks at the workers while waiting.
LOOK = 0.5

#: How often the shards of one call are given to other workers.
ATTEMPTS = 5

Call = tuple[int, tuple[Any, ...]]


class DaskExecutor:
    """Workers of a cluster.

    Parameters
    ----------
    address : str, optional
        Of a scheduler; by default the client of this process, else a cluster on this machine.
    workers : int, optional
        Processes of that cluster.
    shards : int, optional
        Into how many shards a list of examples is cut; by default one for each worker.
    patience : float
        Seconds to wait for the first worker.

    Raises
    ------
    OptionError
        There is no such scheduler, or it has no worker.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, shards: int | None = None, patience: float = 30.0
    ) -> None:
        self._client, self._closes = _client(address, workers, patience)
        self._names = _workers(self._client, patience)
        self.n_shards = shards or len(self._names)
        self._shards: Sequence[Shard] = ()
        self._home: dict[int, str] = {}

    def start(self, shards: Sequence[Shard]) -> None:
        """Take over shards."""
        keys = [shard.key for shard in self._shards]
        if keys:
            self._client.run(forget, keys, on_error="ignore")
        self._shards, self._home = shards, {}

    def run(self, function: ShardFunction, calls: Sequence[Call]) -> list[Any]:
        """Return what a function finds on shards, in order."""
        found: list[Any] = [None] * len(calls)
        waiting = list(range(len(calls)))
        for _ in range(ATTEMPTS):
            self._place([calls[place][0] for place in waiting])
            lost, missing = self._ask(answer_if_open, function, calls, waiting, found)
            waiting = sorted([*lost, *self._ask(answer, function, calls, missing, found)[0]])
            if not waiting:
                return found
        number = calls[waiting[0]][0]
        raise OptionError(
            f"the worker of shard {number} was lost {ATTEMPTS} times in a row: most often there is too little memory; "
            "cut the data into more shards, or give workers more memory"
        )

    def close(self) -> None:
        """Forget the shards; end what was started here."""
        try:
            self.start(())
        finally:
            for one in self._closes:
                one.close()

    def _place(self, numbers: Sequence[int]) -> None:
        """Give shards without a worker, or whose worker is gone, to those that there are."""
        self._names = _workers(self._client, LOOK)
        for number in numbers:
            if self._home.get(number) not in self._names:
                self._home[number] = self._names[number % len(self._names)]

    def _ask(
        self, how: Any, function: ShardFunction, calls: Sequence[Call], which: Sequence[int], found: list[Any]
    ) -> tuple[list[int], list[int]]:
        """Ask about some calls; return those whose worker was lost, and those whose shard is not open there."""
        asked = {}
        for place in which:
            number, given = calls[place]
            shard = self._shards[number].key if how is answer_if_open else self._shards[number]
            asked[place] = self._client.submit(
                how, shard, function, given, workers=[self._home[number]], allow_other_workers=False, pure=False,
                retries=0,
            )  # fmt: skip
        lost, missing = [], []
        for place, future in asked.items():
            if not self._wait(future, self._home[calls[place][0]]):
                lost.append(place)
                continue
            answered = self._client.gather(future, direct=True)
            if isinstance(answered, NotOpen):
                missing.append(place)
            else:
                found[place] = answered
        return lost, missing

    def _wait(self, future: Any, worker: str) -> bool:
        """Wait for an answer; return whether it came, and raise what it raised."""
        from distributed import CancelledError, KilledWorker, TimeoutError

        while True:
            pause()
            try:
                error = future.exception(timeout=LOOK)
            except TimeoutError:
                if worker not in self._client.scheduler_info(n_workers=-1)["workers"]:
                    future.cancel(force=True)
                    return False
                continue
            except CancelledError:
                return False
            if isinstance(error, KilledWorker):
                return False
            if error is not None:
                raise error
            return worker in self._client.scheduler_info(n_workers=-1)["workers"]


def _client(address: str | None, workers: int | None, patience: float) -> tuple[Any, list[Any]]:
    """Return a client, and what is to be closed at the end, in this order."""
    from distributed import Client, LocalCluster, default_client

    if address is None:
        try:
            return default_client(), []
        except ValueError:  # this process has no client: start a cluster of its own
            pass
        n = workers or len(os.sched_getaffinity(0))
        cluster = LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None, memory_limit=0)
        client = Client(cluster, direct_to_workers=True)
        return client, [client, cluster]
    try:
        client = Client(address, timeout=patience, direct_to_workers=True, set_as_default=False)
    except (OSError, ValueError) as err:
        raise OptionError(f"dask: no scheduler answers at {address!r} ({err}); start one: dask scheduler") from err
    return client, [client]


def _workers(client: Any, patience: float) -> list[str]:
    """Return the addresses of the workers, sorted.

    Raises
    ------
    OptionError
        There are none.
    """
    from distributed import TimeoutError

    names = sorted(client.scheduler_info(n_workers=-1)["workers"])
    if not names:
        try:
            client.wait_for_workers(1, timeout=max(patience, 30.0))
        except TimeoutError as err:
            text = "the cluster has no workers; start one: dask worker SCHEDULER"
            raise OptionError(f"dask: {text}") from err
        names = sorted(client.scheduler_info(n_workers=-1)["workers"])
    return names
