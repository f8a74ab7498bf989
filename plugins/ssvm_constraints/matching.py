"""``matching`` and ``transport``: how many literals of each row and of each column are true."""

from __future__ import annotations

import itertools

import numpy as np

from ssvm_constraints.explaining import sides_of, unmet_sides
from ssvm_constraints.row_builder import RowBuilder
from ssvm_constraints.small_structure import Drawn, any_of, chosen_places, node_sums, structure_problem
from ssvm_constraints.starts.matchings import matched
from ssvm_dsl.ir import I32, Bools, ConstraintGroup, Program, Theta, matching_limits
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows

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
        builder, one = RowBuilder(part.stop - part.start), group.only(np.array([k]))
        for side in ("row", "col"):
            _, least, most = matching_limits(one, side)
            builder.add_sums(least.astype(float), most.astype(float), one.literal_meta[side])
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
