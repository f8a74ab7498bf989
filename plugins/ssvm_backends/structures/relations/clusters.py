"""Best clusterings by branch and bound: two items are together, or apart.

Each part of the tree joins items that are together to one, and has a bound by semidefinite matrices and rows
(:mod:`~ssvm_backends.structures.relations.semidefinite`): triangles, and sets of items against one where triangles are
few.  Pairs that would lose more than the gap if they were together are apart in this part; what is left is often so
simple that rows alone prove it.  The part of the highest bound is divided next, at a pair about which the relaxation is
undecided, so that there is a bound at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count

import numpy as np

from ssvm_backends.structures.relations.partitions import partition_rows
from ssvm_backends.structures.relations.relaxation import Relaxed, RowPool, ascent
from ssvm_backends.structures.relations.semidefinite import CUBE_SECONDS, pair_bound
from ssvm_backends.structures.session import constraint_scores
from ssvm_dsl.ir import F64, I64, Bools, ConstraintGroup, LinearRows, Stop
from ssvm_dsl.plugin_api import Clock, SeparableKind, StartingKind

#: Local search starts with the point of the relaxation as part of the scores, with these weights.
WEIGHTS = (2.0, 0.5, 8.0)

#: A gap below this share of the sum of all gains is left to rows alone.
SMALL = 1e-3

#: Clusterings of at most this many items are found faster by integer programs.
FEW_ITEMS = 12

#: Most items, and iterations of the bound that there must be time for: else others bound the clustering sooner.
MOST_ITEMS, LEAST_ITERATIONS = 1000, 30


@dataclass(eq=False)
class _Branch:
    """A part of all clusterings.

    Parameters
    ----------
    of : ndarray of int64, shape (n,)
        The joined item that each item belongs to.
    apart : ndarray of bool, shape (m, m)
        Which of the m joined items are apart.
    bound : float
    """

    of: I64
    apart: Bools
    bound: float


def has_time(n: int, clock: Clock) -> bool:
    """Whether there is time for a bound of the clusterings of n items."""
    return FEW_ITEMS < n <= MOST_ITEMS and clock.left > LEAST_ITERATIONS * CUBE_SECONDS * n**3


class ClusterSearch:
    """The best clustering of n items.

    Parameters
    ----------
    group : ConstraintGroup
        Of the kind, whose rules start searches and find violated rows.
    n : int
    first, second : ndarray of int64, shape (l,)
        The items of each literal, below n.
    gain : ndarray of float64, shape (l,)
    low, high : ndarray of float64, shape (l,)
        1 in ``low`` for pairs that are together, 0 in ``high`` for those that are apart.
    tolerance : float
        Smaller gains count as none.
    lowered : callable
        Rounds a bound down where gains are whole numbers.
    clock : Clock
    """

    def __init__(
        self, group: ConstraintGroup, n: int, first: I64, second: I64, gain: F64, low: F64, high: F64,
        tolerance: float, lowered: Callable[[float], float], clock: Clock,
    ) -> None:  # fmt: skip
        self.group, self.n, self.first, self.second, self.gain = group, n, first, second, gain
        self.tolerance, self.lowered, self.clock = tolerance, lowered, clock
        self.weight = np.bincount(first * n + second, gain, n * n).reshape(n, n)
        self.weight = self.weight + self.weight.T  # twice the gains of an item with itself
        self.true: Bools | None = None
        self.value, self.numbers = -np.inf, count()
        self.parts: list[tuple[float, int, _Branch]] = []
        apart = np.zeros((n, n), dtype=bool)
        apart[first[high == 0.0], second[high == 0.0]] = True
        must = low == 1.0
        self.start = self._joined(_Branch(np.arange(n), apart | apart.T, np.inf), first[must], second[must])

    def run(self, true: Bools | None, value: float, bound: float, most: int | None) -> tuple[Bools | None, float, Stop]:
        """Return the best truth found, an upper bound, and why the search ended.

        Parameters
        ----------
        true : ndarray of bool, optional
            The best truth so far, of this ``value``.
        value, bound : float
            The bound of all clusterings so far.
        most : int, optional
            Parts beside the whole at most.
        """
        self.true, self.value = true, value
        if self.start is None:
            return None, -np.inf, Stop.FINISHED
        self._add(replace(self.start, bound=bound))
        for number in count():
            highest = -self.parts[0][0] if self.parts else self.value
            if highest <= self.value + self.tolerance:
                return self.true, max(self.value, highest), Stop.FINISHED
            if self.clock.over or (most is not None and number > most):
                return self.true, highest, Stop.TIME if self.clock.over else Stop.ITERATIONS
            self._divide(heappop(self.parts)[2])
        raise AssertionError

    def _add(self, part: _Branch | None) -> None:
        """Keep a part that may hold something better."""
        if part is not None and part.bound > self.value + self.tolerance:
            heappush(self.parts, (-part.bound, next(self.numbers), part))

    def _divide(self, part: _Branch) -> None:
        """Bound a part, and divide it where that leaves something and there is time."""
        m = len(part.apart)
        a, b = np.triu_indices(m, 1)
        sums = np.zeros((m, m))
        np.add.at(sums, (part.of[:, None], part.of[None, :]), self.weight)
        inside, gain, apart = 0.5 * float(np.trace(sums)), sums[a, b], part.apart[a, b]
        group, high = self._complete(m), np.where(apart, 0.0, 1.0)
        separate, floor = partial(self._separate, group, m), self.value + self.tolerance - inside
        found = pair_bound(separate, m, gain, high, floor, self.clock)
        bound = min(part.bound, self.lowered(inside + found.bound))
        self._look(group, part, gain, apart, found, WEIGHTS if len(self.parts) == 0 else WEIGHTS[:1])
        gap = inside + found.bound - self.value
        if bound > self.value + self.tolerance and np.isfinite(gap):
            apart |= found.reduced < -gap - self.tolerance
            if gap <= SMALL * float(np.abs(self.gain).sum()):
                floor, high = self.value + self.tolerance - inside, np.where(apart, 0.0, 1.0)
                by_rows = ascent(separate, gain, np.zeros(len(gain)), high, floor, self.clock)
                bound = max(min(bound, self.lowered(inside + by_rows.bound)), self.value)
        if apart.all():  # nothing else can be better
            self._keep(part.of)
            return
        if self.clock.over:
            self._add(replace(part, bound=bound))
            return
        part.apart[a, b] = part.apart[b, a] = apart
        doubt = np.where(apart, -1.0, np.minimum(found.point, 1.0 - found.point))
        at = int(np.lexsort((np.abs(gain), np.round(doubt, 2)))[-1])
        p, q = int(a[at]), int(b[at])
        ends = (np.flatnonzero(part.of == one)[:1] for one in (p, q))
        self._add(self._joined(replace(part, bound=bound), *ends))
        divided = part.apart.copy()
        divided[p, q] = divided[q, p] = True
        self._add(_Branch(part.of, divided, bound))

    def _joined(self, part: _Branch, first: I64, second: I64) -> _Branch | None:
        """Return a part in which some items are together; ``None`` where they are apart."""
        m = len(part.apart)
        root = np.arange(m)
        for p, q in zip(part.of[first].tolist(), part.of[second].tolist(), strict=True):
            if root[p] != root[q]:
                root[root == root[q]] = root[p]
        number, of = np.unique(root, return_inverse=True)
        apart = np.zeros((len(number), len(number)), dtype=bool)
        p, q = np.nonzero(part.apart)
        apart[of[p], of[q]] = True
        return None if apart.diagonal().any() else _Branch(of[part.of], apart, part.bound)

    def _complete(self, m: int) -> ConstraintGroup:
        """Return the constraint over all pairs of m items."""
        first, second = (one.astype(np.int32) for one in np.triu_indices(m, 1))
        l = len(first)
        return ConstraintGroup(
            self.group.kind, self.group.name, np.array([0, 1]), np.array([0, l]), np.arange(l, dtype=np.int32),
            np.ones(l, np.int32), np.zeros(l, dtype=bool), {"n_items": np.array([m])},
            {"first": first, "second": second}, self.group.rules,
        )  # fmt: skip

    def _separate(self, group: ConstraintGroup, m: int, point: F64, least: float) -> LinearRows:
        """Return rows that a point of all pairs of m items violates."""
        assert isinstance(group.rules, SeparableKind)
        found = group.rules.violated_rows(group, 0, point, least)
        if found.n_rows >= m:
            return found
        pool = RowPool()
        pool.add(found)
        pool.add(partition_rows(m, point, least))
        return pool.rows()

    def _look(
        self, group: ConstraintGroup, part: _Branch, gain: F64, apart: Bools, found: Relaxed, weights: tuple[float, ...]
    ) -> None:
        """Search locally near the point of a relaxation, and keep what is better."""
        if not isinstance(group.rules, StartingKind):
            return
        m, size = len(part.apart), float(np.abs(gain).mean()) if len(gain) else 0.0
        for weight in weights:
            score = np.zeros((len(gain), 2))
            score[:, 1] = np.where(apart, -np.inf, gain + weight * size * (2.0 * found.point - 1.0))
            ptr = 2 * np.arange(len(gain) + 1)
            states = group.rules.start(group, 0, constraint_scores(group, 0, ptr, score.ravel())[1])
            if states is None:
                continue
            related = np.eye(m, dtype=bool)
            related[np.triu_indices(m, 1)] = states == 1
            self._keep((related | related.T).argmax(axis=1)[part.of])

    def _keep(self, cluster: I64) -> None:
        """Keep a clustering if it is better than the best so far."""
        true = np.asarray(cluster[self.first] == cluster[self.second])
        value = float(self.gain @ true)
        if value > self.value:
            self.true, self.value = true, value
