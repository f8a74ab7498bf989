"""``runs``: stretches of successive true literals are neither too short nor too long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_constraints.explaining import bounds_words, listed
from ssvm_constraints.row_builder import RowBuilder
from ssvm_constraints.run_problem import run_problem
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Theta
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows


class TrueRuns(NamedTuple):
    """The runs of true literals of some constraints.

    Parameters
    ----------
    owner : ndarray of int64, shape (r,)
        Which constraint each is of.
    first : ndarray of int64, shape (r,)
        A literal at its start.
    length : ndarray of int64, shape (r,)
    at_end : ndarray of bool, shape (r,)
        Whether it reaches the first position, or the last one.
    """

    owner: I64
    first: I64
    length: I64
    at_end: Bools


class RunsKind:
    """A literal stands at a position, of 0 to n - 1, and has a class: true ones of a class form runs.

    A run is a stretch of successive positions whose literals of one class are true, as long as it can be.  It has
    ``least..most`` positions, numbers that all literals of a class repeat.  With ``cut``, runs at the first and the
    last position may be shorter.  Positions without a literal of a class count as false, and none has two of a class.
    """

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        broken = np.zeros(group.n_constraints, dtype=bool)
        runs = _runs(group, true)
        broken[runs.owner[_wrong(group, runs)]] = True
        return broken

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return that of ``most + 1`` successive literals one is false, and that a run goes on once it begins.

        With x of a class: ``x[t] - x[t - 1] <= x[t + j]`` for j below ``least``, where what is not there is 0.
        """
        part, n, cut = group.literals(k), int(group.meta["n"][k]), bool(group.meta["cut"][k])
        names = ("position", "class", "least", "most")
        position, kind, least, most = (group.literal_meta[name][part].astype(np.int64) for name in names)
        builder = RowBuilder(part.stop - part.start)
        for one in np.unique(kind):
            mine = np.flatnonzero(kind == one)
            column = np.full(n + 1, -1, dtype=np.int64)  # of each position; the last one is before the first
            column[position[mine]] = mine
            low, high = int(least[mine[0]]), int(most[mine[0]])
            for t in np.sort(position[mine]).tolist():
                window = column[t : t + high + 1] if high < n else column[:0]
                if len(window) == high + 1 and t + high < n and (window >= 0).all():
                    builder.add(0.0, float(high), (window, 1.0))
                if low <= 1 or (cut and t == 0):
                    continue
                before, here = column[t - 1] if t else -1, np.array([column[t]])
                begins = [(here, 1.0)] + ([(np.array([before]), -1.0)] if before >= 0 else [])
                ahead = column[t + 1 : min(t + low, n)]
                if (ahead < 0).any() or (t + low > n and not cut):
                    builder.add(-1.0, 0.0, *begins)
                    continue
                for other in ahead.tolist():
                    builder.add(-2.0, 0.0, *begins, (np.array([other]), -1.0))
        return builder.finish()

    def n_row_entries(self, group: ConstraintGroup, k: int) -> float:
        """Return about how many entries the rows have (see :class:`~ssvm_dsl.plugin_api.SizedKind`)."""
        part, n = group.literals(k), float(group.meta["n"][k])
        least, most = (np.minimum(group.literal_meta[name][part], n) for name in ("least", "most"))
        return float((3.0 * (least - 1.0) + np.where(most < n, most + 1.0, 0.0)).sum())

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return which runs break their bounds (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        one = group.only(np.array([k]))
        runs = _runs(one, true)
        names = ("position", "class", "least", "most")
        position, kind, least, most = (one.literal_meta[name][runs.first] for name in names)
        return listed(
            f"state {kind[r]} lasts from position {position[r]} for {runs.length[r]}, {bounds_words(least[r], most[r])}"
            for r in np.flatnonzero(_wrong(one, runs)).tolist()
        )

    def why_unmet(
        self, group: ConstraintGroup, k: int, scores: ConstraintScores, labels: I32 | None = None
    ) -> str:
        """Return that a sequence is shorter than all runs (see :class:`~ssvm_dsl.plugin_api.UnmetKind`)."""
        part, n = group.literals(k), int(group.meta["n"][k])
        if labels is not None or group.meta["cut"][k] or not part.stop - part.start:
            return ""
        least = int(group.literal_meta["least"][part].min())
        bounded = len(np.unique(group.literal_meta["class"][part])) == np.diff(scores.ptr).max(initial=0)
        return f"its {n} positions are fewer than the {least} that every state lasts" if bounded and least > n else ""

    def best_truth(self, group: ConstraintGroup, k: int, gain: F64) -> Bools | None:
        """Return the best runs, class by class (see :class:`~ssvm_dsl.plugin_api.MixtureKind`)."""
        from ssvm_constraints.best_runs import best_runs

        part = group.literals(k)
        names = ("position", "class", "least", "most")
        position, kind, least, most = (group.literal_meta[name][part].astype(np.int64) for name in names)
        true = np.zeros(len(gain), dtype=bool)
        n, cut = int(group.meta["n"][k]), bool(group.meta["cut"][k])
        return true if best_runs(gain, position, kind, least, most, n, cut, true) else None

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return short chains whose states have bounds, and literals over separate variables."""
        return run_problem(rng)


def _runs(group: ConstraintGroup, true: Bools) -> TrueRuns:
    """Return the runs of true literals, constraint by constraint and class by class."""
    mine = np.flatnonzero(true)
    owner, kind, position = group.constraint_of, group.literal_meta["class"], group.literal_meta["position"]
    mine = mine[np.lexsort((position[mine], kind[mine], owner[mine]))]
    owner, kind, position = owner[mine], kind[mine], position[mine].astype(np.int64)
    begins = np.ones(len(mine), dtype=bool)
    begins[1:] = (np.diff(owner) != 0) | (np.diff(kind) != 0) | (np.diff(position) != 1)
    first = np.flatnonzero(begins)
    length = np.diff(first, append=len(mine))
    start, n = position[first], group.meta["n"][owner[first]]
    return TrueRuns(owner[first], mine[first], length, (start == 0) | (start + length == n))


def _wrong(group: ConstraintGroup, runs: TrueRuns) -> Bools:
    """Return which runs are too short or too long."""
    least, most = (group.literal_meta[name][runs.first] for name in ("least", "most"))
    short = (runs.length < least) & ~(runs.at_end & group.meta["cut"][runs.owner].astype(bool))
    return np.asarray(short | (runs.length > most))
