"""The best segmentation by the scores of segments and positions, each for itself."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, ConstraintGroup
from ssvm_dsl.plugin_api import ConstraintScores


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
    place = {int(one): c for c, one in enumerate(classes)}
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
