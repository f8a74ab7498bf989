"""``dask``: shards on the workers of a Dask cluster.

Each shard has its worker, which opens it once and keeps it.  In an iteration the weights go to the workers, and sums
come back from them directly, not through the scheduler.  Shards are recipes, so that nothing of the data passes through
the driver where they are read from files.

Tasks are bound to their workers.  The scheduler keeps a task whose worker is gone until a worker of that name comes,
which it never does; so the driver looks which workers there are while it waits, and gives the shards of those that are
lost to others.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Thread
from time import monotonic, sleep
from typing import Any

from ssvm_dsl.errors import OptionError, OutOfTime
from ssvm_dsl.plugin_api import (
    LoadingElsewhere,
    NotOpen,
    Shard,
    ShardFunction,
    answer,
    answer_if_open,
    forget,
    loading,
    loading_seconds,
    pause,
    ready,
    time_left,
    travelling,
)

#: Seconds between two looks at the workers while waiting.
POLL_SECONDS = 0.5

#: Seconds between two looks while there are no workers.
WORKER_POLL_SECONDS = 0.05

#: Seconds after the end of a call in which workers, which know of it too, may still answer.
GRACE = 0.05

#: Seconds in which workers must say how long they have been loading.
TELL = 0.2

#: Seconds between two attempts to start workers again that a cluster of this process has given up.
RESTORE = 2.0

#: The status of nannies that start no worker any more.
GONE = {"failed", "closed"}

#: So many times as long as for any worker is one waited for whose process there is.
STARTING = 10.0

#: What Dask is not to keep, in a cluster that is started here: what each process does every 10 ms, for 1000 s (some
#: 250 KB a second, more than a shard where memory is short), and a thousand messages, recipes with examples among them.
FORGETFUL = {"distributed.worker.profile.enabled": False, "distributed.admin.low-level-log-length": 16}

#: How often the shards of one call are given to other workers.
ATTEMPTS = 5

#: Stands for an answer whose worker is gone.
_LOST = object()

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
        Seconds to wait for the scheduler, and for a worker where there is none; ten times that where a local cluster
        has a process that is to become one.
    open : int, optional
        Shards that a worker keeps open; by default 64.

    Raises
    ------
    OptionError
        There is no such scheduler, it has no worker, or a worker has another version of ssvm-dsl.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, shards: int | None = None, patience: float = 30.0,
        open: int | None = None,
    ) -> None:  # fmt: skip
        self._most = open
        with loading():  # the start of a cluster, like that of processes, is counted by no limit
            self._client, self._closes = _client(address, workers, patience)
        self._patience, self._known = patience, set[str]()
        self._loading = LoadingElsewhere(self._loading_seconds)
        try:
            self._names = self._checked_workers()
        except BaseException:
            _close(self._closes)
            raise
        self.n_shards = shards or len(self._names)
        self._shards: Sequence[Shard] = ()
        self._home: dict[int, str] = {}

    @property
    def n_workers(self) -> int:
        """How many workers there are."""
        return len(self._names)

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
            if missing:
                self._loading.count()
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
            if not any(_nannies(one) for one in self._closes):  # workers that live on
                self.start(())
        finally:
            _close(self._closes)

    def _place(self, numbers: Sequence[int]) -> None:
        """Give shards without a worker, or whose worker is gone, to those that there are."""
        if any(self._home.get(number) not in (None, *self._names) for number in numbers):
            _restore(self._client)
        self._names = self._checked_workers()
        for number in numbers:
            if self._home.get(number) not in self._names:
                self._home[number] = self._names[number % len(self._names)]

    def _checked_workers(self) -> list[str]:
        """Return the addresses of the workers; new ones load what shards need, which limits of time do not count."""
        names = _workers(self._client, self._patience)
        new = sorted(set(names) - self._known)
        if new:
            with loading():
                _check_versions(self._client.run(_version_there(), workers=new, on_error="return"))
                self._client.run(ready, self._most, workers=new, on_error="ignore")
                self._loading.begin()
            self._known.update(new)
        return names

    def _ask(
        self, how: Any, function: ShardFunction, calls: Sequence[Call], which: Sequence[int], found: list[Any]
    ) -> tuple[list[int], list[int]]:
        """Ask about some calls; return those whose worker was lost, and those whose shard is not open there."""
        asked = {}
        for place in which:
            number, given = calls[place]
            shard = self._shards[number].key if how is answer_if_open else _travelling(self._shards[number])
            asked[place] = self._client.submit(
                how, shard, function, given, workers=[self._home[number]], allow_other_workers=False, pure=False,
                retries=0,
            )  # fmt: skip
        lost, missing = [], []
        for place, future in asked.items():
            try:
                there = self._wait(future, self._home[calls[place][0]])
            except OutOfTime as err:
                self._take_the_rest(asked, found)
                err.found = found
                raise
            answered = self._fetched(future, self._home[calls[place][0]]) if there else _LOST
            if answered is _LOST:
                lost.append(place)
                continue
            if isinstance(answered, NotOpen):
                missing.append(place)
            else:
                found[place] = answered
        return lost, missing

    def _fetched(self, future: Any, worker: str) -> Any:
        """Return an answer from its worker; ``_LOST`` where that is gone meanwhile.

        Dask asks for a result whose worker is gone again, on that worker, and waits for ever.
        """
        fetching = self._fetching(future)
        while True:
            try:
                return fetching.result(POLL_SECONDS)
            except CancelledError:  # the scheduler has given the result up, as its worker does not send it
                return _LOST
            except TimeoutError:
                if not self._is_there(worker):
                    fetching.cancel()
                    future.cancel(force=True)
                    return _LOST

    def _fetching(self, future: Any) -> Any:
        """Begin to fetch an answer from its worker."""
        coroutine = self._client.gather(future, direct=True, asynchronous=True)
        return asyncio.run_coroutine_threadsafe(coroutine, self._client.loop.asyncio_loop)

    def _loading_seconds(self) -> Mapping[str, float]:
        """Return the seconds of loading by worker; nothing where they do not answer."""
        seconds: dict[str, float] = {}

        def ask() -> None:
            seconds.update(self._client.run(loading_seconds, on_error="ignore"))

        asking = Thread(target=ask, daemon=True)
        asking.start()
        asking.join(TELL)
        return dict(seconds)

    def _is_there(self, worker: str) -> bool:
        """Whether the scheduler has a worker."""
        return worker in self._client.scheduler_info(n_workers=-1)["workers"]

    def _take_the_rest(self, asked: dict[int, Any], found: list[Any]) -> None:
        """Take the answers that are there, and ask for no more."""
        done = {place: one for place, one in asked.items() if found[place] is None and one.status == "finished"}
        for place, future in done.items():
            fetching = self._fetching(future)
            try:
                answered = fetching.result(GRACE)
            except Exception:  # late, or lost meanwhile: that time is up is what is told
                fetching.cancel()
                continue
            found[place] = None if isinstance(answered, NotOpen) else answered
        self._client.cancel([one for place, one in asked.items() if place not in done], force=True)

    def _wait(self, future: Any, worker: str) -> bool:
        """Wait for an answer; return whether it came, and raise what it raised."""
        from distributed import CancelledError, KilledWorker, TimeoutError

        while True:
            try:
                error = future.exception(timeout=min(POLL_SECONDS, self._loading.patience(time_left(), GRACE)))
            except TimeoutError:
                if time_left() > 0.0 or not self._loading.count():
                    pause()
                if not self._is_there(worker):
                    future.cancel(force=True)
                    return False
                continue
            except CancelledError:
                return False
            if isinstance(error, KilledWorker):
                return False
            if error is not None:
                raise error
            return self._is_there(worker)


def _travelling(shard: Shard) -> Any:
    """Return a recipe as Dask pickles it."""
    from distributed.protocol.pickle import dumps, loads

    return travelling(shard, dumps, loads)


def _client(address: str | None, workers: int | None, patience: float) -> tuple[Any, list[Any]]:
    """Return a client, and what is to be closed at the end, in this order."""
    from dask import config
    from distributed import Client, LocalCluster, default_client

    if address is None:
        try:
            return default_client(), []
        except ValueError:  # this process has no client: start a cluster of its own
            pass
        n = workers or len(os.sched_getaffinity(0))
        with config.set(FORGETFUL):
            cluster = LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None, memory_limit=0)
            client = Client(cluster, direct_to_workers=True)
        return client, [client, cluster]
    try:
        client = Client(address, timeout=patience, direct_to_workers=True, set_as_default=False)
    except (OSError, ValueError) as err:
        raise OptionError(f"dask: no scheduler answers at {address!r} ({err}); start one: dask scheduler") from err
    return client, [client]


def _nannies(cluster: Any) -> list[Any]:
    """Return what starts the workers of a local cluster; nothing for a client."""
    return list(getattr(cluster, "workers", {}).values())


def _close(what: list[Any]) -> None:
    """Close a client, and a cluster that was started here.

    Its workers are killed: they have nothing to save, and one that computes would be waited for, up to 4 s.
    """
    for one in what:
        for nanny in _nannies(one):
            nanny.auto_restart = False
            if nanny.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(nanny.pid, signal.SIGKILL)
        one.close()


def _workers(client: Any, patience: float) -> list[str]:
    """Return the addresses of the workers, sorted.

    Raises
    ------
    OptionError
        There are none.
    """
    begin, restored = monotonic(), 0.0
    while not (names := sorted(client.scheduler_info(n_workers=-1)["workers"])):
        if monotonic() > restored + RESTORE and _restore(client):
            restored = monotonic()
        if monotonic() > begin + patience * (STARTING if _is_starting(client) else 1.0):
            text = f"the cluster has no workers after {patience:g} s; start one: dask worker SCHEDULER"
            raise OptionError(f"dask: {text} (executor_options={{'patience': ...}} waits longer)")
        pause()
        sleep(WORKER_POLL_SECONDS)
    return names


def _restore(client: Any) -> bool:
    """Start workers again that a cluster of this process has given up; return whether there were any.

    A nanny closes for ever where its worker is lost while it starts, and ``LocalCluster`` closes one that takes more
    than ``distributed.deploy.lost-worker-timeout`` (15 s) to start another; neither looks for others in their place
    before the next call of ``scale``.  That goes by names: a nanny that never started keeps its own for ever.
    """
    cluster = getattr(client, "cluster", None)
    wanted, there = getattr(cluster, "worker_spec", ()), getattr(cluster, "workers", {})
    for name, nanny in list(there.items()):
        if getattr(getattr(nanny, "status", None), "name", "") in GONE:
            there.pop(name, None)
    if cluster is None or len(there) >= len(wanted):
        return False
    cluster.scale(len(wanted))
    return True


def _is_starting(client: Any) -> bool:
    """Whether a cluster of this process has a process that is to become a worker: a busy machine may take long."""
    nannies = getattr(getattr(client, "cluster", None), "workers", {})
    return any(getattr(one, "pid", None) is not None for one in nannies.values())


def _version_there() -> Any:
    """Return a function that tells a worker's version of ssvm-dsl; it travels as code, to workers that have none."""

    def version() -> str:
        from importlib import import_module

        try:
            return str(import_module("ssvm_dsl.version").__version__)
        except ImportError:
            return ""

    return version


def _check_versions(found: dict[str, Any]) -> None:
    """Refuse workers that have another version of ssvm-dsl than this process, or none.

    Raises
    ------
    OptionError
        Names the first of them.
    """
    here = ready()
    for worker, version in sorted(found.items()):
        if isinstance(version, Exception) or version == here:
            continue  # one that was lost meanwhile is replaced when it is asked
        has = f"has ssvm-dsl {version}" if version else "has no ssvm-dsl"
        text = f"worker {worker} {has}, and this process has {here}; shards need the same version everywhere"
        raise OptionError(f"dask: {text}: install ssvm-dsl=={here} there, and start the worker again")
