"""``matching`` and ``transport``: how many literals of each row and of each column are true."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ssvm_constraints.explaining import sides_of, unmet_sides
from ssvm_constraints.row_builder import RowBuilder
from ssvm_constraints.small_problems import Drawn, any_of, chosen_places, node_sums, structure_problem
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Theta, matching_limits
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows, loading

NUMBERS = ("n_rows", "n_cols", "row_least", "row_most", "col_least", "col_most")


class MatchingKind:
    """A literal stands at (row, col); each row has ``row_least..row_most`` true ones, each column likewise."""

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        broken = np.zeros(group.n_constraints, dtype=bool)
        for side in ("row", "col"):
            sizes, (_, least, most) = group.meta[f"n_{side}s"], matching_limits(group, side)
            total = node_sums(group, true, side, sizes)
            broken |= any_of((total < least) | (total > most), sizes)
        return broken

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return a sum for each row and column; the matrix is totally unimodular."""
        part = group.literals(k)
        builder, constraint = RowBuilder(part.stop - part.start), group.only(np.array([k]))
        for side in ("row", "col"):
            _, least, most = matching_limits(constraint, side)
            builder.add_sums(least.astype(float), most.astype(float), constraint.literal_meta[side])
        return builder.finish()

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the rows (see :class:`~ssvm_dsl.plugin_api.IntegralKind`)."""
        return self.rows(group, k)

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return a greedy matching, or one that fills all limits (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        return matched(group, k, scores)

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return which rows and columns break their limits (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        return sides_of(group, k, true)

    def why_unmet(
        self, group: ConstraintGroup, k: int, scores: ConstraintScores, labels: I32 | None = None
    ) -> str:
        """Return whether supply is below demand (see :class:`~ssvm_dsl.plugin_api.UnmetKind`)."""
        return unmet_sides(group, k, scores.gain)

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return small matrices with holes: perfect, with empty rows, with limits above one, impossible ones."""

        def draw() -> Drawn:
            n_rows, n_cols = (int(n) for n in rng.integers(0, 4, 2))
            least, most = rng.integers(0, 2, 2), rng.integers(1, 3, 2)
            if rng.random() < 0.5:
                most[:] = 1
            if rng.random() < 0.2:
                least[1], most[1] = 0, MOST
            places = chosen_places(rng, list(itertools.product(range(n_rows), range(n_cols))))
            return Drawn(places, (n_rows, n_cols, least[0], most[0], least[1], most[1]))

        return structure_problem(rng, "matching", draw, ("row", "col"), dict.fromkeys(NUMBERS, np.int64))


class TransportKind(MatchingKind):
    """A literal stands at (row, col); each row has between its own least and most true ones, each column likewise.

    The limits are numbers of literals, the same ones of all literals of a row (``row_least``, ``row_most``), and of a
    column: a row without literals has none.
    """

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return small matrices with holes, whose rows and columns have limits of their own; impossible ones."""

        def draw() -> Drawn:
            n_rows, n_cols = (int(n) for n in rng.integers(0, 4, 2))
            places = chosen_places(rng, list(itertools.product(range(n_rows), range(n_cols))))
            columns = [places]
            for side, size in ((0, n_rows), (1, n_cols)):
                least = (rng.random(size) < 0.2).astype(np.int32)
                most = np.maximum(least, rng.integers(0, 4, size)).astype(np.int32)
                most[rng.random(size) < 0.2] = MOST
                columns += [one[places[:, side]][:, None] for one in (least, most)]
            return Drawn(np.concatenate(columns, axis=1).astype(np.int32), (n_rows, n_cols))

        return structure_problem(
            rng, "transport", draw, ("row", "col", *NUMBERS[2:]), dict.fromkeys(NUMBERS[:2], np.int64)
        )


#: No limit, in problems of the kit.
MOST = 99


# -- A matching within limits: greedy, by assignment where all are to be matched, else a flow ------------------------

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
    def from_group(cls, group: ConstraintGroup, k: int, scores: ConstraintScores) -> Places:
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
    places = Places.from_group(group, k, scores)
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
