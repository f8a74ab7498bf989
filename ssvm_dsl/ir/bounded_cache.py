"""A cache of limited size in bytes: the entries used last stay."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A dictionary that forgets the entry that was not used for longest when the entries take too many bytes.

    A limit on the number of entries would hold too little where there are many small graphs, which a pass over the
    examples then prepares again and again, and too much where there are large ones.

    Parameters
    ----------
    max_bytes : int
        Bytes of all entries together; a larger entry is kept alone.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.n_bytes = max_bytes, 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the entry of a key, ``None`` where there is none."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V, n_bytes: int) -> None:
        """Keep an entry of a size in bytes."""
        with self._lock:
            if key in self._entries:
                self.n_bytes -= self._entries.pop(key)[1]
            self._entries[key] = value, n_bytes
            self.n_bytes += n_bytes
            while self.n_bytes > self.max_bytes and len(self._entries) > 1:
                self.n_bytes -= self._entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget all entries."""
        with self._lock:
            self._entries.clear()
            self.n_bytes = 0
