"""What shards say besides their answers: the warnings of their workers, and which worker has them.

Workers warn on the standard error of another process or machine.  Here their warnings travel with the answers, and the
driver repeats each once, with the number of its part.
"""

from __future__ import annotations

import os
import platform
import threading
import warnings
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.learning.shards.parts import DataPart
from ssvm_dsl.plugin_api.executors import ShardExecutor, ShardFunction


class Warned(NamedTuple):
    """A warning."""

    category: type[Warning]
    text: str


class Said(NamedTuple):
    """What a shard found, what was warned of meanwhile, and, with its first answer, who has it and took how long."""

    found: Any
    warned: tuple[Warned, ...]
    worker: str = ""
    seconds: float = 0.0


@dataclass(eq=False)
class Opened:
    """A shard that is open.

    Parameters
    ----------
    warned : list of Warned, or None
        What opening it has warned of, until somebody asks.
    seconds : float
        That it took.
    """

    warned: list[Warned] | None = field(default=None, kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)


_LOCK, _MINE = threading.Lock(), threading.local()
_n_listening, _before = 0, warnings.showwarning


def _hear(message: Any, category: type[Warning], *more: Any, **named: Any) -> None:
    """Keep a warning of a thread that listens; show that of another."""
    heard: list[Warned] | None = getattr(_MINE, "heard", None)
    if heard is None:
        _before(message, category, *more, **named)
    else:
        heard.append(Warned(category, str(message)))


@contextmanager
def listening() -> Generator[list[Warned], None, None]:
    """Collect what this thread warns of; ``warnings.catch_warnings`` would be one for all threads of a worker."""
    global _n_listening, _before
    with _LOCK:
        if _n_listening == 0:
            _before, warnings.showwarning = warnings.showwarning, _hear
        _n_listening += 1
    outer, _MINE.heard = getattr(_MINE, "heard", None), []
    try:
        yield _MINE.heard
    finally:
        _MINE.heard = outer
        with _LOCK:
            _n_listening -= 1
            if _n_listening == 0 and warnings.showwarning is _hear:
                warnings.showwarning = _before


@contextmanager
def opening() -> Generator[dict[str, Any], None, None]:
    """Note what opening a shard warns of, and how long it takes: arguments of :class:`Opened`."""
    begin, noted = perf_counter(), dict[str, Any]()
    with listening() as noted["warned"]:
        yield noted
    noted["seconds"] = perf_counter() - begin


def saying(shard: Any, function: ShardFunction, given: tuple[Any, ...]) -> Said:
    """Return what a function finds on a shard, with what was warned of."""
    with listening() as heard:
        found = function(shard, *given)
    if not isinstance(shard, Opened) or shard.warned is None:
        return Said(found, _once(heard))
    early, shard.warned = shard.warned, None
    return Said(found, _once([*early, *heard]), f"process {os.getpid()} on {platform.node()}", shard.seconds)


def _once(heard: Iterable[Warned]) -> tuple[Warned, ...]:
    return tuple(dict.fromkeys(heard))


class ShardMessages:
    """Runs calls on shards, and tells the user once what they say.

    Parameters
    ----------
    executor : ShardExecutor
    parts : list of DataPart

    Attributes
    ----------
    workers : dict
        By part: who has it, and the seconds that opening it took.
    """

    def __init__(self, executor: ShardExecutor, parts: Sequence[DataPart] = ()) -> None:
        self.executor, self.parts = executor, parts
        self.workers: dict[int, tuple[str, float]] = {}
        self._shown: set[str] = set()
        self._asked: Sequence[int] | None = None

    def ask_only(self, numbers: Sequence[int]) -> None:
        """From now on, take the parts of these numbers for all there are: shard k is the k-th of them."""
        self._asked = numbers

    def run(self, function: ShardFunction, calls: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Return the results of a function on shards, in order; as ``executor.run``."""
        if self._asked is not None:
            calls = [(self._asked[shard], given) for shard, given in calls]
        asked = [(number, (function, given)) for number, given in calls]
        try:
            said = self.executor.run(saying, asked)
        except OutOfTime as err:
            if len(err.found) == len(calls):
                err.found = self._heard(calls, err.found)
            raise
        return self._heard(calls, said)

    def _heard(self, calls: Sequence[tuple[int, Any]], said: Sequence[Said | None]) -> list[Any]:
        """Return the answers; warn of what is new."""
        new: dict[Warned, list[int]] = {}
        for (number, _), one in zip(calls, said, strict=True):
            if one is None:
                continue
            if one.worker:
                self.workers[number] = one.worker, one.seconds
            for warned in one.warned:
                if warned.text not in self._shown:
                    new.setdefault(warned, []).append(number)
        for warned, numbers in new.items():
            self._shown.add(warned.text)
            others = f" (and {len(numbers) - 1} other parts)" if len(numbers) > 1 else ""
            warn_caller(f"{self._name(numbers[0])}{others}: {warned.text}", warned.category)
        return [None if one is None else one.found for one in said]

    def _name(self, number: int) -> str:
        """Return the name of a part."""
        return self.parts[number].name if number < len(self.parts) else f"part {number}"

    def lines(self, sizes: Sequence[int]) -> list[str]:
        """Return a line for each worker: its parts, their examples, and the seconds of reading them.

        Parameters
        ----------
        sizes : sequence of int
            Number of examples of each shard that is asked.
        """
        by_worker: dict[str, list[int]] = {}
        asked = range(len(sizes)) if self._asked is None else self._asked
        n_examples = dict(zip(asked, sizes, strict=True))
        for number in sorted(self.workers.keys() & n_examples.keys()):
            by_worker.setdefault(self.workers[number][0], []).append(number)
        lines = []
        for worker, numbers in by_worker.items():
            n, seconds = sum(n_examples[k] for k in numbers), sum(self.workers[k][1] for k in numbers)
            named = ", ".join(map(str, numbers)) if len(numbers) <= 8 else f"{numbers[0]} to {numbers[-1]}"
            lines.append(f"{worker}: part{'s' if numbers[1:] else ''} {named}, {n} examples, read in {seconds:.1f} s")
        return lines
