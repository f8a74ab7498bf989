"""Programs in rounds: constraints with too many rows to list get those that the last answer violates.

Each round is a relaxation, so that its bound holds for the whole.  The first one has the rows that dual ascent finds
for the unary scores alone (:mod:`ssvm_backends.structures.relations.relaxation`), which are most of what the last one
needs.  Labellings that keep everything come from the kinds (``start``), for the scores and for fractional answers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ssvm_backends.programs.local_polytope import Priced
from ssvm_backends.structures.relations.relaxation import ascent
from ssvm_backends.structures.session import constraint_scores
from ssvm_dsl.ir import F64, I32, Bools, ConstraintGroup, LinearRows, pointers
from ssvm_dsl.plugin_api import Clock, SeparableKind, StartingKind

#: Rounds of the ascent that finds the first rows.
FIRST_ROUNDS = 60


class Rounds:
    """The program of one call, which grows by the rows that answers violate.

    Parameters
    ----------
    priced : Priced
        The whole, whose side has separable constraints.
    clock : Clock

    Attributes
    ----------
    now : Priced
        The same scores over the polytope of this round.
    """

    def __init__(self, priced: Priced, clock: Clock) -> None:
        self.priced = priced
        side = priced.polytope.side.without_separable(priced.polytope.state_ptr)
        self.now = replace(priced, polytope=replace(priced.polytope, side=side, passing=True))
        self._known: set[bytes] = set()
        self._grow(_first_rows(priced, clock))

    def add_violated(self, point: F64, least: float) -> bool:
        """Add the rows that a point violates by at least so much; return whether there are any that are new."""
        polytope = self.priced.polytope
        return self._grow(polytope.side.violated(point, polytope.state_ptr, least))

    def _grow(self, more_rows: list[tuple[ConstraintGroup, int, LinearRows]]) -> bool:
        """Add rows, each once."""
        fresh = []
        for group, k, rows in more_rows:
            kept = np.zeros(rows.n_rows, dtype=bool)
            for row in range(rows.n_rows):
                part = slice(int(rows.ptr[row]), int(rows.ptr[row + 1]))
                order = np.argsort(rows.column[part])
                entries = rows.column[part][order].tobytes(), rows.coefficient[part][order].tobytes()
                key = f"{self.priced.polytope.side.separable.index(group)} {k} ".encode() + b"".join(entries)
                kept[row] = key not in self._known
                self._known.add(key)
            if kept.any():
                fresh.append((group, k, some_rows(rows, kept)))
        if fresh:
            polytope = self.now.polytope
            self.now = replace(self.now, polytope=replace(polytope, side=polytope.side.with_rows(fresh)))
        return bool(fresh)


def some_rows(rows: LinearRows, kept: Bools) -> LinearRows:
    """Return some of the rows; they have no auxiliary columns."""
    length = np.diff(rows.ptr)
    entries = np.repeat(kept, length)
    return LinearRows(
        pointers(length[kept]), rows.column[entries], rows.coefficient[entries], rows.lower[kept], rows.upper[kept]
    )


def _first_rows(priced: Priced, clock: Clock) -> list[tuple[ConstraintGroup, int, LinearRows]]:
    """Return the rows with a dual where only the unary scores of each separable constraint count."""
    first_rows, ptr = list[tuple[ConstraintGroup, int, LinearRows]](), priced.polytope.state_ptr
    for group in priced.polytope.side.separable:
        rules = group.rules
        assert isinstance(rules, SeparableKind)
        for k in range(group.n_constraints):
            _, scores = constraint_scores(group, k, ptr, priced.score[: ptr[-1]])
            gain = scores.gain
            worth = np.where(np.isfinite(gain), gain, 0.0)
            low, high = np.where(gain == np.inf, 1.0, 0.0), np.where(gain == -np.inf, 0.0, 1.0)

            separate = partial(rules.violated_rows, group, k)
            rows = ascent(separate, worth, low, high, -np.inf, clock, rounds=FIRST_ROUNDS).pool.rows()
            if rows.n_rows:
                first_rows.append((group, k, rows))
    return first_rows


def proposed(priced: Priced, labels: I32, states: F64) -> I32:
    """Return labels with those of separable constraints replaced by what their kinds start from.

    Parameters
    ----------
    priced : Priced
    labels : ndarray of int32, shape (n,)
        Of all variables.
    states : ndarray of float64
        A score of each state; ``-inf`` where it is ruled out.
    """
    out, ptr = labels.copy(), priced.polytope.state_ptr
    for group in priced.polytope.side.separable:
        rules = group.rules
        if not isinstance(rules, StartingKind):
            continue
        for k in range(group.n_constraints):
            variables, scores = constraint_scores(group, k, ptr, states)
            if (states_kept := rules.start(group, k, scores)) is not None:
                out[variables] = states_kept
    return out
