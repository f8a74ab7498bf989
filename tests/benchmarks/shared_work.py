"""Processor time of training, apart: what threads share, and what one thread does while the others wait.

A wall clock says nothing on a busy machine; processor seconds do.  The *serial share* is the processor time of training
outside of the parts that threads share, over all of it (Amdahl's law).  The *path* through a fit with p threads is the
serial time and, for each round of parts, the time of the busiest of p threads that take one part after the other:
what the fit would last on p idle processors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.learning.estimators.fitting import training


@dataclass(eq=False)
class SharedWork:
    """Processor seconds of one fit.

    Parameters
    ----------
    training : float
        All threads, without what comes before and after training.
    rounds : list of list of float
        Those of the parts that threads shared, by round.
    """

    training: float = 0.0
    rounds: list[list[float]] = field(default_factory=list)

    @property
    def serial(self) -> float:
        """Processor seconds outside of shared parts."""
        return max(self.training - sum(map(sum, self.rounds)), 0.0)

    def path(self, n_threads: int) -> float:
        """Return the seconds of training on so many idle processors."""
        return self.serial + sum(_busiest(parts, n_threads) for parts in self.rounds)


def _busiest(parts: Sequence[float], n_threads: int) -> float:
    """Return when the last of some threads is done, which take the next part when they have none."""
    done = np.zeros(n_threads)
    for seconds in parts:
        done[done.argmin()] += seconds
    return float(done.max())


@contextmanager
def measured() -> Iterator[SharedWork]:
    """Measure the fits made meanwhile."""
    work, shared, train = SharedWork(), Threads._shared, training.train
    inside = [False]

    def timed_shared(self: Threads, function: Any, parts: Sequence[Any], own: int) -> list[Any]:
        if not inside[0] or len(parts) < 2:
            return shared(self, function, parts, own)
        seconds = [0.0] * len(parts)

        def timed(k: int) -> Any:
            begin = time.thread_time()
            try:
                return function(parts[k])
            finally:
                seconds[k] = time.thread_time() - begin

        found = shared(self, timed, range(len(parts)), own)
        work.rounds.append(seconds)
        return found

    def timed_train(*args: Any, **named: Any) -> Any:
        begin, inside[0] = time.process_time(), True
        try:
            return train(*args, **named)
        finally:
            inside[0] = False
            work.training += time.process_time() - begin

    Threads._shared, training.train = timed_shared, timed_train
    try:
        yield work
    finally:
        Threads._shared, training.train = shared, train
