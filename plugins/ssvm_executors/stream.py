"""``stream``: shards one after the other, in this process, for data larger than memory.

Only the newest shards stay open; a pass over the data reads all the others again, so that it costs what reading and
laying out the data costs, and memory is that of one shard whatever the number of examples is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from time import perf_counter
from typing import Any

from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.plugin_api import OpenShards, Shard, ShardFunction, time_left


class ShardStream:
    """One process that reads shards again and again.

    Parameters
    ----------
    shards : int
        Into how many shards a list of examples is cut.
    open : int
        Shards that stay open.
    """

    def __init__(self, shards: int = 8, open: int = 1) -> None:
        self.n_shards, self._open = shards, OpenShards(open)
        self._shards: Sequence[Shard] = ()
        self._took = 0.0  # seconds that opening a shard took, the longest

    def start(self, shards: Sequence[Shard]) -> None:
        """Take over shards."""
        self._open.forget([shard.key for shard in self._shards])
        self._shards = shards

    def run(self, function: ShardFunction, calls: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Return what a function finds on shards, in order.

        Those that are still open answer first: the newest of the last pass need not be read again.  None is read for
        which there is not as much time as the longest took so far.
        """
        answers: dict[int, Any] = {}
        is_open = {number: self._open.holds(self._shards[number].key) for number, _ in calls}
        try:
            for place in sorted(range(len(calls)), key=lambda at: not is_open[calls[at][0]]):
                number, given = calls[place]
                answers[place] = function(self._opened(self._shards[number]), *given)
        except OutOfTime as err:
            err.found = [answers.get(place) for place in range(len(calls))]
            raise
        return [answers[place] for place in range(len(calls))]

    def _opened(self, shard: Shard) -> Any:
        """Return an opened shard, if there is time to open it."""
        if self._open.holds(shard.key):
            return self._open.get(shard)
        left, begin = time_left(), perf_counter()
        if left <= self._took:
            raise OutOfTime("there was no time left to read the next shard")
        opened = self._open.get(shard)
        took = left - time_left() if left < inf else perf_counter() - begin  # clocks of limits leave out loading
        self._took = max(self._took, took)
        return opened

    def close(self) -> None:
        """Forget the shards."""
        self.start(())
