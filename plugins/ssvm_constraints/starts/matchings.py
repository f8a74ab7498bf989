"""A matching within the limits of rows and columns: greedy, by assignment where all are to be matched, else a flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, matching_limits
from ssvm_dsl.plugin_api import ConstraintScores, loading

#: Literals that are looked at, the best first, before those that no row or column has a place for are dropped.
AT_A_TIME = 5000

#: Entries of the matrix of an assignment at most.
MOST_ENTRIES = 1500 * 1500


@dataclass(frozen=True, eq=False)
class Places:
    """The literals of one matching.

    Parameters
    ----------
    row, col : ndarray of int64, shape (l,)
    gain : ndarray of float64, shape (l,)
        ``inf`` for literals that must be true, ``-inf`` for those that cannot be.
    least, most : tuple of ndarray of int64
        How many of each row, and of each column, are true.
    """

    row: I64
    col: I64
    gain: F64
    least: tuple[I64, I64]
    most: tuple[I64, I64]

    @classmethod
    def of(cls, group: ConstraintGroup, k: int, scores: ConstraintScores) -> Places:
        """Return those of constraint k."""
        part = group.literals(k)
        row, col = (group.literal_meta[name][part].astype(np.int64) for name in ("row", "col"))
        (row_ptr, *rows), (col_ptr, *cols) = (matching_limits(group, side) for side in ("row", "col"))
        rows, cols = ([one[ptr[k] : ptr[k + 1]] for one in side] for ptr, side in ((row_ptr, rows), (col_ptr, cols)))
        return cls(row, col, scores.gain, (rows[0], cols[0]), (rows[1], cols[1]))

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.most[0]), len(self.most[1])

    def keeps(self, true: Bools) -> bool:
        """Whether true literals keep the limits."""
        counts = (np.bincount(one[true], minlength=n) for one, n in zip((self.row, self.col), self.sizes, strict=True))
        return all(
            bool(((count >= least) & (count <= most)).all())
            for count, least, most in zip(counts, self.least, self.most, strict=True)
        )


def matched(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
    """Return states that keep the matching k, of high scores; ``None`` where there are none."""
    places = Places.of(group, k, scores)
    for method in (_greedy, _assigned, _by_flow):
        true = method(places)
        if true is not None and places.keeps(true) and (states := scores.labels(true)) is not None:
            return states
    return None


def _greedy(places: Places) -> Bools:
    """Take literals that gain something, the best first, within the upper limits."""
    true = np.zeros(len(places.gain), dtype=bool)
    worth = np.flatnonzero(places.gain > 0.0)
    rows, cols = (most.tolist() for most in places.most)
    while len(worth):
        best, worth = _best_and_rest(worth, places.gain[worth])
        for l, r, c in zip(best.tolist(), places.row[best].tolist(), places.col[best].tolist(), strict=True):
            if rows[r] > 0 and cols[c] > 0:
                rows[r] -= 1
                cols[c] -= 1
                true[l] = True
        worth = worth[(np.array(rows)[places.row[worth]] > 0) & (np.array(cols)[places.col[worth]] > 0)]
    return true


def _best_and_rest(literals: I64, gain: F64) -> tuple[I64, I64]:
    """Return (some of the best literals, in order; the others, as given); of equal ones the first are best."""
    if len(literals) <= AT_A_TIME:
        return literals[np.argsort(-gain, kind="stable")], literals[:0]
    least = np.partition(gain, len(gain) - AT_A_TIME)[-AT_A_TIME]
    able = np.flatnonzero(gain >= least)
    best = able[np.argsort(-gain[able], kind="stable")[:AT_A_TIME]]
    rest = np.ones(len(literals), dtype=bool)
    rest[best] = False
    return literals[best], literals[rest]


def _assigned(places: Places) -> Bools | None:
    """Match as many as there can be, of limits of one, with the largest total gain."""
    n_rows, n_cols = places.sizes
    if not 0 < n_rows * n_cols <= MOST_ENTRIES or any((one != 1).any() for one in places.most):
        return None
    with loading():
        from scipy.optimize import linear_sum_assignment

    known = places.gain[np.isfinite(places.gain)]
    large = 2.0 * float(np.abs(known).max(initial=1.0)) * (min(n_rows, n_cols) + 1)
    matrix = np.full((n_rows, n_cols), -large)
    np.maximum.at(matrix, (places.row, places.col), np.clip(places.gain, -large, large))
    row, col = linear_sum_assignment(matrix, maximize=True)
    number = np.full((n_rows, n_cols), -1, dtype=np.int64)
    order = np.argsort(places.gain, kind="stable")  # of several literals at one place the best is written last
    number[places.row[order], places.col[order]] = order
    chosen = number[row, col]
    chosen = chosen[chosen >= 0]
    needed = places.gain[chosen] > (-np.inf if any(one.any() for one in places.least) else 0.0)
    true = np.zeros(len(places.gain), dtype=bool)
    true[chosen[needed]] = True
    return true


def _by_flow(places: Places) -> Bools | None:
    """Return literals that keep all limits, by a flow with lower bounds from rows to columns; ``None`` if none do.

    The bounds become demands of the ends of arcs, which a new source and a new sink meet (Ahuja, Magnanti and Orlin
    1993, section 6.7): there is a flow within the bounds where all arcs out of that source are full.
    """
    with loading():
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

    n_rows, n_cols = places.sizes
    n = n_rows + n_cols
    source, sink, supply, demand = n, n + 1, n + 2, n + 3
    able = np.flatnonzero(places.gain > -np.inf)
    able = able[np.argsort(-places.gain[able], kind="stable")]
    row, col, must = places.row[able], n_rows + places.col[able], (places.gain[able] == np.inf).astype(np.int64)
    rows, cols = np.arange(n_rows), n_rows + np.arange(n_cols)
    most = [np.minimum(one, len(places.gain)) for one in places.most]
    tail = np.concatenate([row, np.full(n_rows, source), cols, [sink]])
    head = np.concatenate([col, rows, np.full(n_cols, sink), [source]])
    lower = np.concatenate([must, *places.least, [0]])
    upper = np.concatenate([np.ones(len(able)), *most, [len(able)]])
    if (lower > upper).any():
        return None
    excess = np.bincount(head, lower, n + 2) - np.bincount(tail, lower, n + 2)
    short, over = np.flatnonzero(excess < 0), np.flatnonzero(excess > 0)
    tail = np.concatenate([tail, np.full(len(over), supply), short])
    head = np.concatenate([head, over, np.full(len(short), demand)])
    capacity = np.concatenate([upper - lower, excess[over], -excess[short]])
    graph = csr_array((capacity, (tail, head)), shape=(n + 4, n + 4)).astype(np.int32)  # parallel arcs add up
    result = maximum_flow(graph, supply, demand)
    if result.flow_value < int(excess[over].sum()):
        return None
    flow = np.asarray(result.flow[row, col]).ravel() if len(able) else np.zeros(0)
    true = np.zeros(len(places.gain), dtype=bool)
    true[able[must == 1]] = True
    free = np.flatnonzero(must == 0)
    place = row[free] * (n + 4) + col[free]  # of several literals at one place the best are taken first
    rank = np.zeros(len(free), dtype=np.int64)
    order = np.argsort(place, kind="stable")
    begins = np.flatnonzero(np.diff(place[order], prepend=-1))
    rank[order] = np.arange(len(free)) - np.repeat(begins, np.diff(np.append(begins, len(free))))
    true[able[free[rank < flow[free]]]] = True
    return true
