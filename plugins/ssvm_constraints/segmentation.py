"""``segmentation``: true literals describe a division of a sequence into segments with classes."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.row_builder import RowBuilder
from ssvm_constraints.segment_problem import segment_problem
from ssvm_constraints.small_structure import any_of
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Theta, pointers, runs
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows

#: The class of literals that say "a segment begins at this position", and one that no literal has.
BEGINS, NOTHING = -1, -(2**31)


class SegmentationKind:
    """The n positions are divided into segments, each with a class.

    A literal with ``start < stop`` says "the positions from ``start`` to before ``stop`` are a segment of this class";
    only such segments may be used.  One with ``stop == start`` says that the position ``start`` has the class, or, of
    the class -1, that a segment begins there.  ``n_classes`` and ``longest`` bound the classes, and the lengths, that
    literals have; they say nothing more.
    """

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        n, of, m = group.meta["n"], group.constraint_of, group.n_constraints
        start, stop, kind = (group.literal_meta[name] for name in ("start", "stop", "class"))
        spans, first = start < stop, pointers(n)[:-1]
        used, points = np.flatnonzero(spans & true), np.flatnonzero(~spans)
        outside = (start[used] < 0) | (stop[used] > n[of[used]])
        broken = np.bincount(of[used[outside]], minlength=m) > 0
        used = used[~outside]
        length = (stop[used] - start[used]).astype(np.int64)
        begin = first[of[used]] + start[used]
        at = runs(begin, length)
        broken |= any_of(np.bincount(at, minlength=int(n.sum())) != 1, n)
        # what is true of each position, where there is a position; a place more for literals of none
        classes, begins = np.full(int(n.sum()) + 1, NOTHING), np.zeros(int(n.sum()) + 1, dtype=bool)
        classes[at], begins[begin] = np.repeat(kind[used], length), True
        owner = of[points]
        there = (start[points] >= 0) & (start[points] < n[owner])
        place = np.where(there, first[owner] + start[points], len(classes) - 1)
        right = np.where(kind[points] == BEGINS, begins[place], classes[place] == kind[points])
        broken |= np.bincount(owner[right != true[points]], minlength=m) > 0
        return np.asarray(broken)

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return that each position is covered once, and what each literal of a position is the sum of.

        The columns of spans have consecutive ones in the rows of positions: such a matrix is totally unimodular.
        """
        part, n = group.literals(k), int(group.meta["n"][k])
        start, stop, kind = (group.literal_meta[name][part].astype(np.int64) for name in ("start", "stop", "class"))
        spans = start < stop
        inside = spans & (start >= 0) & (stop <= n)
        builder, used = RowBuilder(len(start)), np.flatnonzero(inside)
        length = (stop - start)[used]
        builder.add_rows(np.ones(n), np.ones(n), runs(start[used], length), np.repeat(used, length), 1.0)
        for l in np.flatnonzero(spans & ~inside):
            builder.add(0.0, 0.0, (np.array([l]), 1.0))
        for point in np.flatnonzero(~spans):
            sources = _sources(start, stop, kind, inside, int(point))
            builder.add(0.0, 0.0, (np.array([point]), 1.0), (sources, -1.0))
        return builder.finish()

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the rows (see :class:`~ssvm_dsl.plugin_api.IntegralKind`)."""
        return self.rows(group, k)

    def n_row_entries(self, group: ConstraintGroup, k: int) -> float:
        """Return about how many entries the rows have (see :class:`~ssvm_dsl.plugin_api.SizedKind`).

        The literals of positions are looked for one by one, which takes as long as a hundredth of an entry for each
        literal.
        """
        part = group.literals(k)
        length = (group.literal_meta["stop"][part] - group.literal_meta["start"][part]).astype(np.int64)
        points = int((length <= 0).sum())
        return 3.0 * float(np.maximum(length, 0).sum()) + points * (1.0 + 0.01 * len(length))

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return the best segmentation by single scores (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        return segmented(group, k, scores, BEGINS)

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return few positions: as models of segments have them, or over literals of all forms, some left out."""
        return segment_problem(rng)


def _sources(start: I64, stop: I64, kind: I64, inside: Bools, l: int) -> I64:
    """Return the spans that make the literal l of a position true."""
    if kind[l] == BEGINS:
        return np.flatnonzero(inside & (start == start[l]))
    return np.flatnonzero(inside & (start <= start[l]) & (start[l] < stop) & (kind == kind[l]))


# -- The best segmentation by the scores of segments and positions, each for itself ----------------------------------


def segmented(group: ConstraintGroup, k: int, scores: ConstraintScores, begins: int) -> I32 | None:
    """Return states that keep the segmentation k; ``None`` where there are none.

    Parameters
    ----------
    group : ConstraintGroup
    k : int
    scores : ConstraintScores
    begins : int
        The class of literals that say "a segment begins here".
    """
    part, n = group.literals(k), int(group.meta["n"][k])
    start, stop, kind = (group.literal_meta[name][part].astype(np.int64) for name in ("start", "stop", "class"))
    gain = scores.gain
    spans = np.flatnonzero((start < stop) & (start >= 0) & (stop <= n) & (gain > -np.inf))
    classes, kind_of = np.unique(kind[spans], return_inverse=True)
    points = np.flatnonzero((start == stop) & (start >= 0) & (start < n))
    worth = _worth(n, start, kind, gain, points, classes, begins)
    chosen = _best(n, start, stop, spans, kind_of.reshape(-1), worth, gain)
    if chosen is None:
        return None
    true = np.zeros(len(start), dtype=bool)
    true[chosen] = True
    class_at, begin_at = np.full(n, begins - 1), np.zeros(n, dtype=bool)
    for l in chosen.tolist():
        class_at[start[l] : stop[l]], begin_at[start[l]] = kind[l], True
    at = start[points]
    true[points] = np.where(kind[points] == begins, begin_at[at], class_at[at] == kind[points])
    return scores.labels(true)


def _worth(
    n: int, start: I64, kind: I64, gain: F64, points: I64, classes: I64, begins: int
) -> tuple[F64, F64, F64]:
    """Return (what positions before t gain in each class; what a segment gains that begins at t, and that goes on).

    ``shape (n_classes, n + 1)`` and ``(n + 1,)`` twice; running sums but for the second.
    """
    of_class = np.zeros((len(classes), n))
    place = {int(class_number): c for c, class_number in enumerate(classes)}
    begin, on = np.zeros(n + 1), np.zeros(n + 1)
    for l in points.tolist():
        t, mine, worth = int(start[l]), int(kind[l]), float(gain[l])
        if mine == begins:
            begin[t] += 0.0 if worth == np.inf else worth
            on[t + 1] = -np.inf if worth == np.inf else on[t + 1]
            continue
        if worth == np.inf:  # no other class may be here
            others = np.arange(len(classes)) != place.get(mine, -1)
            of_class[others, t] = -np.inf
        elif mine in place:
            of_class[place[mine], t] += worth
    return of_class, begin, on


def _best(
    n: int, start: I64, stop: I64, spans: I64, kind: I64, worth: tuple[F64, F64, F64], gain: F64
) -> I64 | None:
    """Return the segments of the best segmentation, as literals; ``None`` where there is none."""
    of_class, begin, on = worth
    total = _ranges(of_class, kind, start[spans], stop[spans])
    total += _ranges(on[None, 1:], np.zeros(len(spans), np.int64), start[spans] + 1, stop[spans])
    total += begin[start[spans]]
    must = gain[spans] == np.inf
    large = 1.0 + 2.0 * float(np.abs(total[np.isfinite(total)]).sum())  # must be there: they outweigh all others
    total += np.where(must, large, np.where(must, 0.0, np.where(np.isinf(gain[spans]), 0.0, gain[spans])))
    order = np.argsort(stop[spans], kind="stable")
    ends = np.searchsorted(stop[spans][order], np.arange(n + 2))
    best, through = np.full(n + 1, -np.inf), np.full(n + 1, -1, dtype=np.int64)
    best[0] = 0.0
    for t in range(1, n + 1):
        mine = order[ends[t] : ends[t + 1]]
        if not len(mine):
            continue
        score = best[start[spans[mine]]] + total[mine]
        at = int(score.argmax())
        best[t], through[t] = score[at], spans[mine[at]]
    if best[n] == -np.inf:
        return None
    chosen, t = [], n
    while t > 0:
        chosen.append(int(through[t]))
        t = int(start[through[t]])
    return np.array(chosen, dtype=np.int64)


def _ranges(values: F64, row: I64, lo: I64, hi: I64) -> F64:
    """Return the sums of ``values[row, lo:hi]``, which may hold ``-inf``."""
    finite = np.where(np.isneginf(values), 0.0, values)
    zero = np.zeros((len(values), 1))
    sums = np.concatenate([zero, np.cumsum(finite, axis=1)], axis=1)
    barred = np.concatenate([zero, np.cumsum(np.isneginf(values), axis=1)], axis=1)
    hi = np.maximum(lo, hi)
    return np.where(barred[row, hi] > barred[row, lo], -np.inf, sums[row, hi] - sums[row, lo])
