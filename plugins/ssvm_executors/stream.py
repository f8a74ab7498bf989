"""``stream``: shards one after the other, in this process, for data larger than memory.

Only the newest shards stay open; a pass over the data reads all the others again, so that it costs what reading and
laying out the data costs, and memory is that of one shard whatever the number of examples is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssvm_dsl.plugin_api import OpenShards, Shard, ShardFunction, pause


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

    def start(self, shards: Sequence[Shard]) -> None:
        """Take over shards."""
        self._open.forget([shard.key for shard in self._shards])
        self._shards = shards

    def run(self, function: ShardFunction, calls: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Return what a function finds on shards, in order.

        Those that are still open answer first: the newest of the last pass need not be read again.
        """
        found: dict[int, Any] = {}
        is_open = {number: self._open.holds(self._shards[number].key) for number, _ in calls}
        for place in sorted(range(len(calls)), key=lambda at: not is_open[calls[at][0]]):
            number, given = calls[place]
            pause()
            found[place] = function(self._open.get(self._shards[number]), *given)
        return [found[place] for place in range(len(calls))]

    def close(self) -> None:
        """Forget the shards."""
        self.start(())
