"""``segment-begins``: where segments begin, none of them too long."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.row_builder import RowBuilder
from ssvm_constraints.segment_problem import compact_problem
from ssvm_constraints.small_structure import any_of
from ssvm_dsl.ir import I32, Bools, ConstraintGroup, Program, Theta, pointers, runs
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows


class SegmentBeginsKind:
    """Of n positions, the first begins a segment, and of any ``longest`` successive ones at least one does.

    The first n literals say where the classes of the positions are, and are no condition; the last n say that a
    segment begins at a position.  ``n_classes`` bounds the classes, and says nothing more.
    """

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        n, longest = (group.meta[name].astype(np.int64) for name in ("n", "longest"))
        begins = runs(group.literal_ptr[:-1] + n, n)
        last = np.maximum.accumulate(np.where(true[begins], np.arange(len(begins)), -1))
        first = np.repeat(pointers(n)[:-1], n)
        begun = np.arange(len(begins)) - last  # how far the last beginning is back, of this constraint or before
        wrong = (last < first) | (begun >= np.repeat(longest, n))
        return np.asarray(any_of(wrong, n))

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return that the first position begins a segment, and some one of any ``longest`` successive ones."""
        n, longest = int(group.meta["n"][k]), int(group.meta["longest"][k])
        builder = RowBuilder(2 * n)
        if n:
            builder.add(1.0, 1.0, (np.array([n]), 1.0))
        for first in range(1, n - longest + 1):
            builder.add(1.0, float(longest), (np.arange(n + first, n + first + longest), 1.0))
        return builder.finish()

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the rows, whose columns have consecutive ones (see :class:`~ssvm_dsl.plugin_api.IntegralKind`)."""
        return self.rows(group, k)

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return that segments begin wherever they may, each of its best class.

        See :class:`~ssvm_dsl.plugin_api.StartingKind`.
        """
        n, longest, c = int(group.meta["n"][k]), int(group.meta["longest"][k]), int(group.meta["n_classes"][k])
        begins = np.flatnonzero(scores.gain[n:] > -np.inf)
        ends = np.append(begins[1:], n)
        if n == 0 or not len(begins) or begins[0] > 0 or (ends - begins > longest).any():
            return np.zeros(scores.n_variables, dtype=np.int32) if n == 0 else None
        worth = scores.score[scores.ptr[scores.place[:n]][:, None] + np.arange(c)]
        best = np.add.reduceat(worth, begins, axis=0).argmax(axis=1)
        states = np.zeros(scores.n_variables, dtype=np.int32)
        states[scores.place[:n]] = np.repeat(best, ends - begins)
        states[scores.place[n + begins]] = 1
        return states

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return few positions, with factors over classes, beginnings and lengths."""
        return compact_problem(rng)
