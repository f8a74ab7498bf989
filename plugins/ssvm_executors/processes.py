"""``processes``: shards in processes of this machine.

Each shard has its process, which opens it once and keeps it; in an iteration the weights go there and sums come back.
A process that is lost, killed for memory or by hand, is started again, and its shards are opened again; a shard whose
process is lost each time it is opened ends the fit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loky import ProcessPoolExecutor
from loky.backend.reduction import dumps, loads

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
    loading_file,
    ready,
    tell_loading,
    time_left,
    told_seconds,
    travelling,
)

#: How often a lost process is started again for one call.
ATTEMPTS = 5

#: Seconds after the end of a call in which processes, which know of it too, may still answer, all of them together.
GRACE = 0.05

#: The surroundings of a process: one thread for each library, as parallelism is over shards; and shards are no leak:
#: where psutil is installed, loky begins a process again that has grown by 300 MB, and what it has is read again.
SURROUNDINGS = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18",
}  # fmt: skip

Call = tuple[int, tuple[Any, ...]]


class WorkerProcesses:
    """A process for each worker.

    Parameters
    ----------
    workers : int, optional
        By default the processors this process may use.
    shards : int, optional
        Into how many shards a list of examples is cut; by default one for each worker.
    open : int, optional
        Shards that a worker keeps open; by default 64.
    """

    def __init__(self, workers: int | None = None, shards: int | None = None, open: int | None = None) -> None:
        self._most = open
        self.n_workers = workers or _processors()
        self.n_shards = shards or self.n_workers
        self._workers: list[ProcessPoolExecutor | None] = [None] * self.n_workers
        self._shards: Sequence[Shard] = ()
        self._folder = TemporaryDirectory(prefix="ssvm-", ignore_cleanup_errors=True)
        self._file = Path(self._folder.name) / "loading"
        cells = loading_file(self._file, self.n_workers)
        self._loading = LoadingElsewhere(lambda: told_seconds(cells))

    def start(self, shards: Sequence[Shard]) -> None:
        """Take over shards; processes are started when they are first asked."""
        keys = [shard.key for shard in self._shards]
        for worker in self._workers:
            if worker is not None and keys:
                worker.submit(forget, keys)
        self._shards = shards

    def run(self, function: ShardFunction, calls: Sequence[Call]) -> list[Any]:
        """Return what a function finds on shards, in order; all processes work at the same time."""
        answers: list[Any] = [None] * len(calls)
        waiting = list(range(len(calls)))
        for _ in range(ATTEMPTS):
            self._begin([calls[place][0] for place in waiting])
            self._loading.begin()
            try:
                waiting = self._round(function, calls, waiting, answers)
            finally:
                self._loading.count()
            if not waiting:
                return answers
        number = calls[waiting[0]][0]
        raise OptionError(
            f"the process of shard {number} was lost {ATTEMPTS} times in a row: most often there is too little memory; "
            "cut the data into more shards and use fewer workers: executor_options={'shards': ..., 'workers': ...}"
        )

    def close(self) -> None:
        """Stop the processes."""
        for number, worker in enumerate(self._workers):
            if worker is not None:
                worker.shutdown(wait=False, kill_workers=True)
                self._workers[number] = None
        self._folder.cleanup()

    def _round(self, function: ShardFunction, calls: Sequence[Call], which: list[int], answers: list[Any]) -> list[int]:
        """Ask about some calls; return those whose process was lost.

        Shards that a process does not have (any more) travel there with the call.
        """
        asked = []
        for place in which:
            number, given = calls[place]
            asked.append((place, self._submit(number, answer_if_open, (self._shards[number].key, function, given))))
        lost, missing = self._collect(calls, asked, answers)
        opened = []
        for place in missing:
            number, given = calls[place]
            shard = travelling(self._shards[number], _dumps, loads)
            opened.append((place, self._submit(number, answer, (shard, function, given))))
        return sorted([*lost, *self._collect(calls, opened, answers)[0]])

    def _collect(
        self, calls: Sequence[Call], asked: Sequence[tuple[int, Future[Any] | None]], answers: list[Any]
    ) -> tuple[list[int], list[int]]:
        """Take the answers; return the calls whose process was lost, and those whose shard is not open there."""
        lost, missing = [], []
        for place, future in asked:
            try:
                if future is None:
                    raise BrokenProcessPool
                answered = self._awaited(future)
            except BrokenProcessPool:
                self._replace(calls[place][0])
                lost.append(place)
                continue
            except OutOfTime as err:
                _take_the_rest(asked, answers)
                err.found = answers
                raise
            if isinstance(answered, NotOpen):
                missing.append(place)
            else:
                answers[place] = answered
        return lost, missing

    def _submit(self, number: int, function: Any, given: tuple[Any, ...]) -> Future[Any] | None:
        """Start a call in the process of a shard; ``None`` where that is lost already."""
        worker = self._workers[number % self.n_workers]
        if worker is None:
            return None
        try:
            made: Future[Any] = worker.submit(function, *given)
        except BrokenProcessPool:
            return None
        return made

    def _begin(self, numbers: Sequence[int]) -> None:
        """Start the processes of shards that have none; like all loading of code, limits of time do not count it."""
        new = sorted({number % self.n_workers for number in numbers if self._workers[number % self.n_workers] is None})
        if not new:
            return
        with loading():
            for at in new:
                self._workers[at] = ProcessPoolExecutor(
                    max_workers=1, initializer=_prepare, initargs=(self._file, at), env=SURROUNDINGS
                )
            for future in [self._submit(at, ready, (self._most,)) for at in new]:
                try:
                    if future is not None:
                        _check_version(future.result())
                except BrokenProcessPool:
                    pass  # whoever asks this process meets it again

    def _replace(self, number: int) -> None:
        """Give up the process of a shard; the next call starts another one."""
        at = number % self.n_workers
        worker = self._workers[at]
        if worker is not None:
            worker.shutdown(wait=False, kill_workers=True)
            self._workers[at] = None

    def _awaited(self, future: Future[Any]) -> Any:
        """Return an answer, or raise what it raised.

        Raises
        ------
        OutOfTime
            The call at hand must end.
        """
        while True:
            left = time_left()
            try:
                return future.result(None if left == inf else self._loading.patience(left, GRACE))
            except TimeoutError:
                if future.done():  # it is the answer that raised this
                    raise
                if time_left() <= 0.0 and not self._loading.count():
                    raise OutOfTime("the time limit came before the answers of all processes") from None


def _check_version(there: str) -> None:
    """Refuse a process that has imported another version of ssvm-dsl: an upgrade came after this process began.

    Raises
    ------
    OptionError
    """
    here = ready()
    if there != here:
        text = f"worker processes have ssvm-dsl {there}, and this process has {here}"
        raise OptionError(f"processes: {text}; start this process again (an upgrade takes effect then)")


def _take_the_rest(asked: Sequence[tuple[int, Future[Any] | None]], answers: list[Any]) -> None:
    """Take the answers that are there, and ask for no more."""
    for place, future in asked:
        if future is None or answers[place] is not None or not future.done():
            if future is not None:
                future.cancel()
            continue
        try:
            answered = future.result()
        except Exception:
            continue  # that time is up is what is told
        if not isinstance(answered, NotOpen):
            answers[place] = answered


def _dumps(given: Any) -> bytes:
    """Return an object as loky pickles it."""
    return bytes(dumps(given))


def _prepare(file: Path, row: int) -> None:
    """Leave Ctrl-C to the process that asks: it ends the fit, and this process with it.  Tell it what is loaded."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tell_loading(file, row)


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
