"""``equivalence``, ``linear-order``, ``transitive``, ``acyclic``: what the true pairs of items of one set form."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np

from ssvm_constraints.explaining import listed
from ssvm_constraints.relations import cycles, starts
from ssvm_constraints.row_builder import RowBuilder
from ssvm_constraints.small_problems import Drawn, chosen_places, structure_problem
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Theta, owners
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows


class RelationKind:
    """What the relations have in common; a literal says that item ``first`` is related to item ``second``.

    Pairs may be missing, also of an item with itself: the true and false literals are to be those of some relation
    between all items.
    """

    number: ClassVar[int]
    name: ClassVar[str]

    #: Whether triangles describe the relation where all pairs are there, and how many pairs of n items these are.
    by_triangles: ClassVar[bool] = True
    ordered_pairs: ClassVar[bool] = False

    def __init__(self) -> None:
        self._last: tuple[ConstraintGroup, int, tuple[int, I64, I64]] | None = None

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        first, second = (group.literal_meta[name].astype(np.int64) for name in ("first", "second"))
        return cycles.broken_relations(self.number, group.meta["n_items"], group.literal_ptr, first, second, true)

    def violated_rows(self, group: ConstraintGroup, k: int, values: F64, least: float) -> LinearRows:
        """Return rows that a point violates (see :class:`~ssvm_dsl.plugin_api.SeparableKind`)."""
        n, first, second = self._pairs(group, k)
        arcs = cycles.arcs_of(self.number, first, second, values)
        closings = cycles.closings_of(self.number, first, second, values)
        ptr, term = np.zeros(1, np.int64), np.zeros(0, np.int64)
        if n <= cycles.MOST_DENSE:
            ptr, term, _ = cycles.triangles(self.number, n, arcs, closings, least)
        if len(ptr) == 1 and not (self.by_triangles and self._complete(n, first, second)):
            ptr, term, _ = cycles.shortest_rows(self.number, n, arcs, closings, least)
        true = term % 2 == 1
        lower = np.asarray(1.0 - np.bincount(owners(ptr), ~true, len(ptr) - 1), dtype=np.float64)
        column, sign = (term // 2).astype(np.int32), np.where(true, 1.0, -1.0)
        return LinearRows(ptr, column, sign, lower, np.full(len(ptr) - 1, np.inf))

    def n_row_entries(self, group: ConstraintGroup, k: int) -> float:
        """Return about how many entries the rows have (see :class:`~ssvm_dsl.plugin_api.SizedKind`)."""
        n, first, _ = self._pairs(group, k)
        return 3.0 * float(n) ** 3 + len(first)

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return which pairs contradict each other (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        part = group.literals(k)
        first, second = (group.literal_meta[name][part] for name in ("first", "second"))
        rows = self.violated_rows(group, k, true.astype(np.float64), 0.5)
        complaints = []
        for row in range(rows.n_rows):
            literals = rows.column[rows.ptr[row] : rows.ptr[row + 1]]
            said = [self.in_words(int(first[l]), int(second[l]), bool(true[l])) for l in literals.tolist()]
            complaints.append(", ".join(said[:-1]) + (" but " if len(said) > 1 else "") + said[-1])
        return listed(complaints)

    def in_words(self, one: int, other: int, true: bool) -> str:
        """Return in words what a literal says."""
        return f"{one} is {'' if true else 'not '}related to {other}"

    def _pairs(self, group: ConstraintGroup, k: int) -> tuple[int, I64, I64]:
        """Return the number of items that occur in a constraint's literals, and the literals' items among them."""
        last = self._last  # searches ask about one constraint many times
        if last is not None and last[0] is group and last[1] == k:
            return last[2]
        part = group.literals(k)
        given = (group.literal_meta[name][part].astype(np.int64) for name in ("first", "second"))
        ends = np.array([0, part.stop - part.start], dtype=np.int64)
        counts, first, second = starts.items_of(group.meta["n_items"][k : k + 1], ends, *given)
        pairs = int(counts[0]), first, second
        self._last = group, k, pairs
        return pairs

    def _complete(self, n: int, first: I64, second: I64) -> bool:
        """Whether there are literals of all pairs of different items."""
        if len(first) < n * (n - 1) // (1 if self.ordered_pairs else 2):
            return False
        there = np.zeros((n, n), dtype=bool)
        there[first, second] = True
        if not self.ordered_pairs:
            there |= there.T
        np.fill_diagonal(there, True)
        return bool(there.all())

    def _described(self, group: ConstraintGroup, k: int, ordered: bool) -> tuple[RowBuilder, I64, I64, I64, I64]:
        """Return (a builder, the column of each pair of items, n x n, and the literals): missing pairs get columns.

        Without ``ordered`` the columns are those of pairs (a, b), a < b, and -1 elsewhere.  Each column of a pair with
        literals is that of the first of them.
        """
        n, first, second = self._pairs(group, k)
        builder, column = RowBuilder(len(first)), np.full((n, n), -1, dtype=np.int64)
        a, b = (first, second) if ordered else (np.minimum(first, second), np.maximum(first, second))
        column[a[::-1], b[::-1]] = np.arange(len(first))[::-1]
        missing = (column < 0) & ~np.eye(n, dtype=bool)
        if not ordered:
            missing &= np.triu(np.ones((n, n), dtype=bool))
        column[missing] = builder.add_columns(int(missing.sum()), 1.0)
        return builder, column, first, second, column[a, b]

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return up to five items, some or all of whose pairs are there, in either order, or in both."""

        def draw() -> Drawn:
            n = int(rng.choice([0, 1, 2, 2, 3, 3, 3, 4, 5]))
            pairs = list(itertools.combinations(range(n), 2))
            way = rng.random()
            if way < 0.3:
                pairs += [(b, a) for a, b in pairs] + [(a, a) for a in range(n)]
            elif way < 0.6:
                pairs = [pair if rng.random() < 0.5 else pair[::-1] for pair in pairs]
            return Drawn(chosen_places(rng, pairs), (n,))

        return structure_problem(rng, self.name, draw, ("first", "second"), {"n_items": np.int64})


class EquivalenceKind(RelationKind):
    """Pairs are true within the clusters of some clustering of all items, and false between them."""

    number, name = cycles.EQUIVALENCE, "equivalence"

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return three rows for each triangle; other literals of a pair are equal to its first."""
        builder, column, first, second, own = self._described(group, k, ordered=False)
        loops = np.flatnonzero(first == second)
        builder.add_rows(np.ones(len(loops)), np.ones(len(loops)), np.arange(len(loops)), loops, 1.0)
        _tie(builder, np.flatnonzero((first != second) & (own != np.arange(len(first)))), own, np.zeros(0, np.int64))
        a, b, c = _triples(len(column))
        sides = column[a, b], column[b, c], column[a, c]
        for closing in range(3):
            _add_triangles(builder, sides[closing - 2], sides[closing - 1], sides[closing], -np.inf, 1.0)
        return builder.finish()

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return states of a good clustering (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        true = starts.best_clusters(*self._pairs(group, k), scores.gain)
        return None if true is None else scores.labels(true)

    def in_words(self, one: int, other: int, true: bool) -> str:
        """Return in words what a literal says."""
        return f"{one} and {other} are {'together' if true else 'apart'}"


class LinearOrderKind(RelationKind):
    """A pair is true where its first item comes before its second one in some linear order of all items."""

    number, name = cycles.LINEAR_ORDER, "linear-order"

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return two rows for each triangle, one for each direction of its circle."""
        builder, column, first, second, own = self._described(group, k, ordered=False)
        loops = np.flatnonzero(first == second)
        builder.add_rows(np.zeros(len(loops)), np.zeros(len(loops)), np.arange(len(loops)), loops, 1.0)
        others = np.flatnonzero((first != second) & (own != np.arange(len(first))))
        reverse = (first < second) != (first[own] < second[own])
        _tie(builder, others[~reverse[others]], own, others[reverse[others]])
        # a column that is a literal (b, a) says the opposite of "a before b"
        opposite = np.zeros(column.shape, dtype=bool)
        mine = own == np.arange(len(first))
        opposite[second[mine], first[mine]] = (first > second)[mine]
        a, b, c = _triples(len(column))
        turned = [np.where(opposite[p, q], -1.0, 1.0) for p, q in ((a, b), (b, c), (a, c))]
        sides = [column[a, b], column[b, c], column[a, c]]
        signs = turned[0], turned[1], -turned[2]
        one, next_, closing = ((sign < 0).astype(np.float64) for sign in turned)
        moved: F64 = one + next_ - closing
        row = np.repeat(np.arange(len(a)), 3)
        builder.add_rows(0.0 - moved, 1.0 - moved, row, np.stack(sides, 1).ravel(), np.stack(signs, 1).ravel())
        return builder.finish()

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return states of a good order (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        true = starts.best_precedence(*self._pairs(group, k), scores.gain, total=True)
        return None if true is None else scores.labels(true)

    def in_words(self, one: int, other: int, true: bool) -> str:
        """Return in words what a literal says."""
        return f"{one} is {'' if true else 'not '}before {other}"


class TransitiveKind(RelationKind):
    """Where true pairs lead from one item to another, their pair is true, if it is there."""

    number, name, ordered_pairs = cycles.TRANSITIVE, "transitive", True

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return a row for each step after another; other literals of a pair are equal to its first."""
        builder, column, first, _, own = self._described(group, k, ordered=True)
        n = len(column)
        _tie(builder, np.flatnonzero(own != np.arange(len(first))), own, np.zeros(0, np.int64))
        a, b, c = (one.ravel() for one in np.indices((n, n, n)))
        kept = (a != b) & (b != c) & (column[a, c] >= 0)
        a, b, c = a[kept], b[kept], c[kept]
        _add_triangles(builder, column[a, b], column[b, c], column[a, c], -np.inf, 1.0)
        return builder.finish()

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return states of a good relation (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        true = starts.best_closure(*self._pairs(group, k), scores.gain)
        return None if true is None else scores.labels(true)


class AcyclicKind(RelationKind):
    """True pairs do not lead in a circle."""

    number, name, by_triangles, ordered_pairs = cycles.ACYCLIC, "acyclic", False, True

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the rows of a linear order in further columns, which every true pair follows."""
        n, first, second = self._pairs(group, k)
        builder, column = RowBuilder(len(first)), np.full((n, n), -1, dtype=np.int64)
        above = np.triu_indices(n, 1)
        column[above] = builder.add_columns(len(above[0]), 1.0)
        loops = np.flatnonzero(first == second)
        builder.add_rows(np.zeros(len(loops)), np.zeros(len(loops)), np.arange(len(loops)), loops, 1.0)
        for lower, sign, bound in ((first < second, -1.0, 0.0), (first > second, 1.0, 1.0)):
            mine = np.flatnonzero(lower)
            order = column[np.minimum(first, second)[mine], np.maximum(first, second)[mine]]
            row = np.repeat(np.arange(len(mine)), 2)
            builder.add_rows(np.full(len(mine), -np.inf), np.full(len(mine), bound), row,
                             np.stack([mine, order], 1).ravel(), np.tile([1.0, sign], len(mine)))  # fmt: skip
        a, b, c = _triples(n)
        _add_triangles(builder, column[a, b], column[b, c], column[a, c], 0.0, 1.0)
        return builder.finish()

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return states of a good relation (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        true = starts.best_precedence(*self._pairs(group, k), scores.gain, total=False)
        return None if true is None else scores.labels(true)

    def in_words(self, one: int, other: int, true: bool) -> str:
        """Return in words what a literal says."""
        return f"{one} {'leads' if true else 'does not lead'} to {other}"


def _triples(n: int) -> tuple[I64, I64, I64]:
    """Return all a < b < c below n."""
    a, b, c = (one.ravel() for one in np.indices((n, n, n)))
    kept = (a < b) & (b < c)
    return a[kept], b[kept], c[kept]


def _add_triangles(builder: RowBuilder, one: I64, next_: I64, closing: I64, lower: float, upper: float) -> None:
    """Add rows ``lower <= x_one + x_next - x_closing <= upper``."""
    n = len(one)
    row, column = np.repeat(np.arange(n), 3), np.stack([one, next_, closing], axis=1).ravel()
    builder.add_rows(np.full(n, lower), np.full(n, upper), row, column, np.tile([1.0, 1.0, -1.0], n))


def _tie(builder: RowBuilder, equal: I64, own: I64, opposite: I64) -> None:
    """Add that literals are equal, or opposite, to the one whose number is their ``own``."""
    for mine, sign, value in ((equal, -1.0, 0.0), (opposite, 1.0, 1.0)):
        bound, row = np.full(len(mine), value), np.repeat(np.arange(len(mine)), 2)
        builder.add_rows(bound, bound, row, np.stack([mine, own[mine]], 1).ravel(), np.tile([1.0, sign], len(mine)))
