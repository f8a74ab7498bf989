"""Best clusterings by branch and bound: two items are together, or apart.

Each part of the tree joins items that are together to one, and has a bound by semidefinite matrices and rows
(both below): triangles, and sets of items against one where triangles are
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

from ssvm_backends.structures.relations.relaxation import LEAST, AscentRows, Relaxed, RowPool, Separate, ascent, sweep
from ssvm_backends.structures.session import constraint_scores
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, LinearRows, Stop, pointers, runs
from ssvm_dsl.kernels import assign, njit
from ssvm_dsl.plugin_api import Clock, SeparableKind, StartingKind

# -- Rows of clusterings that are stronger than triangles: an item against a set of items ----------------------------
#
# Let T be a set of items without i.  Those that are together with i are together with each other, so that ``x(i, T) -
# x(T) <= 1``, where ``x(i, T)`` sums the pairs of i with T and ``x(T)`` those within T.  These are 2-partition
# inequalities (Groetschel and Wakabayashi, Mathematical Programming 47, 1990), and triangles where T has two items.
# Where noise outweighs clusters, they close most of the gap that triangles leave.  A violated one is not found for
# certain: bounds may use them, but not relaxations that are to be the same from call to call.

#: Items that a set has at most, and pairs that a search looks at, about.
LARGEST, LOOKS = 20, 20_000_000

#: Sets begin with items that are together with i by more than this, and by less than the rest.
UNDECIDED = 0.05

#: Rows that are returned at most, for each item.
MOST = 5


def partition_rows(n: int, point: F64, least: float) -> LinearRows:
    """Return rows that a point violates, of those found the ones that it violates most.

    Parameters
    ----------
    n : int
        Number of items.
    point : ndarray of float64, shape (n (n - 1) / 2,)
        Of all pairs a < b, in the order of ``np.triu_indices(n, 1)``.
    least : float
        Rows that are violated by less are left out.
    """
    value, number = np.zeros((n, n)), np.zeros((n, n), dtype=np.int32)
    above = np.triu_indices(n, 1)
    value[above], number[above] = point, np.arange(len(point))
    ptr, column, violation = found_rows(value + value.T, number + number.T, least)
    most = np.argsort(-violation, kind="stable")[: MOST * n]
    length = np.diff(ptr)[most]
    kept = column[runs(ptr[:-1][most], length)]
    sign = np.where(kept < 0, -1.0, 1.0)
    lower = np.full(len(most), -1.0)
    return LinearRows(pointers(length), np.where(kept < 0, ~kept, kept), sign, lower, np.full(len(most), np.inf))


@njit(cache=True, nogil=True)
def found_rows(value: F64, number: I32, least: float) -> tuple[I64, I32, F64]:
    """Return violated rows, found by adding to a set whatever raises the violation most.

    Parameters
    ----------
    value : ndarray of float64, shape (n, n)
        How much two items are together, symmetric.
    number : ndarray of int32, shape (n, n)
        The number of each pair, symmetric.
    least : float

    Returns
    -------
    ptr : ndarray of int64
    column : ndarray of int32
        Pairs within the set, and ``~pair`` for those with the single item.
    violation : ndarray of float64
    """
    n, looks, used, made = len(value), 0, 0, 0
    ptr, violation, column = np.zeros(n * n + 1, np.int64), np.empty(n * n), np.empty(4 * LARGEST * LARGEST, np.int32)
    raised, members = np.empty(n), np.empty(LARGEST, np.int64)
    for i in range(n):
        for start in range(n):
            if start == i or not UNDECIDED < value[i, start] < 1.0 - UNDECIDED:
                continue
            if looks > LOOKS:
                return ptr[: made + 1], column[:used], violation[:made]
            for j in range(n):
                raised[j] = value[i, j] - value[start, j]
            raised[start] = raised[i] = -np.inf
            members[0], size, smallest, total = start, 1, start, value[i, start] - 1.0
            while size < LARGEST:
                best = int(np.argmax(raised))
                if raised[best] <= UNDECIDED * least:
                    break
                total += raised[best]
                members[size], size, smallest = best, size + 1, min(smallest, best)
                for j in range(n):
                    raised[j] -= value[best, j]
                raised[best] = -np.inf
            looks += (size + 1) * n
            if size < 3 or total < least or smallest < start:  # it is found from its first item, too
                continue
            if used + LARGEST * LARGEST > len(column):
                longer = np.empty(2 * len(column), np.int32)
                assign(longer[:used], column)
                column = longer
            for p in range(size):
                column[used], used = ~number[i, members[p]], used + 1
                for q in range(p):
                    column[used], used = number[members[p], members[q]], used + 1
            violation[made], made = total, made + 1
            ptr[made] = used
    return ptr[: made + 1], column[:used], violation[:made]


# -- Upper bounds of clusterings by a semidefinite relaxation: alternating directions over matrices of pairs ---------
#
# The matrix X of a clustering, 1 where two items are together and 0 elsewhere, is positive semidefinite with ones on
# its diagonal.  Where many clusters are hidden in noise this says far more than triangles do: of 200 items in ten
# planted clusters with a fifth of wrong signs the bound by triangles is 16 % too high, that by semidefinite matrices
# with entries of at least 0 is the optimum (as theory says of planted partitions: Ames, Mathematical Programming 147,
# 2014).  Rows that X violates are added, as in the relaxation by rows alone; both together are tighter than each.
#
# The dual is improved by alternating directions (Wen, Goldfarb and Yin, Mathematical Programming Computation 2,
# 2010): the multipliers of the diagonal, then those of entries and rows, by sweeps as in
# :mod:`~ssvm_backends.structures.relations.relaxation`, then the semidefinite slack, by eigenvectors.  Any
# multipliers prove a bound, whatever the slack: its least eigenvalue, where it is below zero, is paid for by the
# trace of X, which is known.

#: Iterations at most, how often the bound is computed, how often rows are added, and sweeps over them in an iteration.
ITERATIONS, CHECK_EVERY, ROWS_EVERY, SWEEPS = 3000, 10, 30, 3

#: Steps are longer than alternating directions say by this factor.
OVER = 1.6

#: The weight of the residuals is moved by this factor where one of them is so many times the other.
FACTOR, APART = 1.3, 1.5

#: Relative residuals at which there is nothing left to gain.
CONVERGED = 1e-6

#: The search ends when so many checks have not lowered the bound by this share of its distance from what is asked for.
PATIENCE, PROGRESS = 12, 0.02

#: Seconds of an iteration over n items: by this factor of the cube of n.
CUBE_SECONDS = 5e-10

#: Rounding of one addition in float64.
_EPS = 2.0**-52


def pair_bound(separate: Separate, n: int, gain: F64, high: F64, floor: float, clock: Clock) -> Relaxed:
    """Return an upper bound on what the pairs of a clustering of n items gain.

    Parameters
    ----------
    separate : callable
        Returns rows that a point violates: numbers of all pairs a < b, in the order of ``np.triu_indices(n, 1)``.
    n : int
    gain : ndarray of float64, shape (n (n - 1) / 2,)
    high : ndarray of float64, shape (n (n - 1) / 2,)
        0 for pairs that are apart, else 1.
    floor : float
        A bound as low as this is low enough.
    clock : Clock
        The search ends with it.

    Returns
    -------
    Relaxed
        With bound and reduced gains of the best multipliers, and the last point.
    """
    a, b = np.triu_indices(n, 1)
    low, pool, m = np.zeros(len(gain)), RowPool(), len(gain)
    best = Relaxed(float(np.maximum(gain * high, 0.0).sum()), gain, np.where(gain > 0.0, high, 0.0), pool)
    scale = float(np.abs(gain[high > 0.0]).mean()) if (high > 0.0).any() else 0.0
    if scale == 0.0:
        return best
    pairs = a, b
    cost = _matrix(n, pairs, -0.5 * gain / scale)
    size = 1.0 + float(np.linalg.norm(cost))
    X, slack, weight, stalled, before = np.eye(n), np.zeros((n, n)), 1.0, 0, best.bound
    for number in range(1, ITERATIONS + 1):
        if best.bound <= floor or clock.left < 2.0 * CUBE_SECONDS * n**3:
            break
        # the multipliers of the diagonal, then of entries and rows
        diagonal = np.diag(cost - slack) - weight * (np.diag(X) - 1.0)
        open_part = (cost - slack - weight * X)[a, b]
        reduced = pool.gains_of_duals(m) - 2.0 * open_part - weight
        rows = AscentRows(pool.ptr, pool.column, pool.coefficient, pool.lower)
        for _ in range(SWEEPS if len(pool.lower) else 0):
            sweep(rows, low, high, 2.0 * weight, pool.dual, reduced)
        point = high * np.clip(reduced / (2.0 * weight) + 0.5, 0.0, 1.0)
        paid = open_part + weight * point
        # the slack is the positive part of what is left, X the negative one
        left = cost - _matrix(n, pairs, paid)
        left[np.arange(n), np.arange(n)] -= diagonal
        moved = left - weight * X
        value, vector = np.linalg.eigh(moved)
        k = int(np.searchsorted(value, 0.0))
        negative = -(vector[:, :k] * value[:k]) @ vector[:, :k].T
        slack, following = moved + negative, negative / weight
        dual_residual = weight * float(np.linalg.norm(following - X)) / size
        outside = np.linalg.norm(np.diag(following) - 1.0) + np.sqrt(2.0) * np.linalg.norm(following[a, b] - point)
        primal_residual = float(outside / max(np.linalg.norm(X), 1.0))
        X = X + OVER * (following - X)
        if number % CHECK_EVERY:
            continue
        proved, by_pairs = _certified(scale, left, diagonal, paid, high, pool)
        if proved < best.bound:
            best = Relaxed(proved, by_pairs, point, best.pool)
        stalled += 1
        if best.bound < before - PROGRESS * max(before - floor, 0.0) or not np.isfinite(floor):
            stalled, before = 0, best.bound
        residual = max(primal_residual, dual_residual)
        if primal_residual < dual_residual / APART:
            weight /= FACTOR
        elif primal_residual > dual_residual * APART:
            weight *= FACTOR
        if residual < CONVERGED or stalled >= PATIENCE:
            break
        if number % ROWS_EVERY == 0:
            pool = pool.take(pool.dual > 0.0)
            pool.add(separate(np.clip(following[a, b], 0.0, high), LEAST))
    best.point = np.clip(X[a, b], 0.0, high)
    return best


def _certified(scale: float, left: F64, diagonal: F64, paid: F64, high: F64, pool: RowPool) -> tuple[float, F64]:
    """Return (the upper bound that multipliers prove, rounding included; the reduced gains of pairs)."""
    n = len(diagonal)
    value = np.linalg.eigvalsh(left)
    moved = pool.gains_of_duals(len(paid)) - 2.0 * paid
    rounding = 64.0 * n * _EPS * (n * float(np.abs(value).max()) + float(np.abs(diagonal).sum() + np.abs(moved).sum()))
    rounding += 64.0 * _EPS * float(pool.dual @ (np.abs(pool.lower) + np.diff(pool.absolute)))
    trace = float(diagonal.sum()) + n * min(0.0, float(value[0]))
    bound = float(np.maximum(moved * high, 0.0).sum()) - trace - float(pool.dual @ pool.lower)
    return scale * (bound + rounding), scale * moved


def _matrix(n: int, pairs: tuple[I64, I64], entries: F64) -> F64:
    """Return the symmetric matrix of numbers of pairs, with zeros on its diagonal."""
    out = np.zeros((n, n))
    out[pairs] = entries
    return np.asarray(out + out.T)


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
        relaxed = pair_bound(separate, m, gain, high, floor, self.clock)
        bound = min(part.bound, self.lowered(inside + relaxed.bound))
        self._look(group, part, gain, apart, relaxed, WEIGHTS if len(self.parts) == 0 else WEIGHTS[:1])
        gap = inside + relaxed.bound - self.value
        if bound > self.value + self.tolerance and np.isfinite(gap):
            apart |= relaxed.reduced < -gap - self.tolerance
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
        doubt = np.where(apart, -1.0, np.minimum(relaxed.point, 1.0 - relaxed.point))
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
        number, part_of_root = np.unique(root, return_inverse=True)
        apart = np.zeros((len(number), len(number)), dtype=bool)
        p, q = np.nonzero(part.apart)
        apart[part_of_root[p], part_of_root[q]] = True
        return None if apart.diagonal().any() else _Branch(part_of_root[part.of], apart, part.bound)

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
        rows = group.rules.violated_rows(group, 0, point, least)
        if rows.n_rows >= m:
            return rows
        pool = RowPool()
        pool.add(rows)
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
