"""``runs``: stretches of successive true literals are neither too short nor too long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_constraints.explaining import bounds_words, listed
from ssvm_constraints.row_builder import RowBuilder
from ssvm_constraints.small_problems import Drawn, chosen_places, structure_problem
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Group, Program, Theta, pointers
from ssvm_dsl.kernels import njit
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
        for kind_of_run in np.unique(kind):
            mine = np.flatnonzero(kind == kind_of_run)
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
        constraint = group.only(np.array([k]))
        runs = _runs(constraint, true)
        names = ("position", "class", "least", "most")
        position, kind, least, most = (constraint.literal_meta[name][runs.first] for name in names)
        return listed(
            f"state {kind[r]} lasts from position {position[r]} for {runs.length[r]}, {bounds_words(least[r], most[r])}"
            for r in np.flatnonzero(_wrong(constraint, runs)).tolist()
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


# -- Small random problems of runs for the conformance kit -----------------------------------------------------------

#: No bound.
MOST = 99

#: Positions and classes of a chain: few labellings.
SIZES = ((0, 2), (1, 3), (2, 3), (3, 3), (4, 2), (4, 3), (5, 2), (5, 3))

NAMES = ("position", "class", "least", "most")


def run_problem(rng: np.random.Generator) -> tuple[Program, Theta]:
    """Return chains as models with ``Duration(y)`` have them, or literals of all forms over separate variables."""
    return chain_problem(rng) if rng.random() < 0.7 else _scattered(rng)


def _scattered(rng: np.random.Generator) -> tuple[Program, Theta]:
    def draw() -> Drawn:
        n, k = int(rng.integers(0, 6)), int(rng.integers(1, 3))
        bounds = [_bounds(rng) for _ in range(k)]
        places = chosen_places(rng, [(t, b, *bounds[b]) for b in range(k) for t in range(n)], 4)
        return Drawn(np.unique(places, axis=0), (n, bool(rng.random() < 0.3)))

    return structure_problem(rng, "runs", draw, NAMES, {"n": np.int64, "cut": np.bool_})


def _bounds(rng: np.random.Generator) -> tuple[int, int]:
    """Return (least, most) positions of runs."""
    least = int(rng.integers(1, 4))
    return least, MOST if rng.random() < 0.5 else int(rng.integers(least, 5))


def chain_problem(rng: np.random.Generator, sizes: tuple[tuple[int, int], ...] = SIZES) -> tuple[Program, Theta]:
    """Return chains of labels whose classes, or some of them, last so long.

    Parameters
    ----------
    rng : Generator
    sizes : tuple of (int, int)
        Positions and classes to choose from.
    """
    k = int(rng.integers(2, 4))
    fitting = [n for n, classes in sizes if classes == k]
    n = rng.choice(fitting, 3).astype(np.int64)
    var_ptr = pointers(n)
    bounded = rng.permutation(k)[: int(rng.integers(1, k + 1))]
    bounds, cut = np.array([_bounds(rng) for _ in bounded]), rng.random(3) < 0.3
    if rng.random() < 0.2:  # too long for short chains
        bounded, bounds, cut = np.arange(k), np.tile([4, MOST], (k, 1)), np.zeros(3, dtype=bool)
    group = _constraints(n, bounded, bounds, cut, rng.permutation(3)[: int(rng.integers(2, 4))])
    allowed = rng.random(int(n.sum()) * k) < 0.95 if rng.random() < 0.3 else None
    card = np.full(int(n.sum()), k, dtype=np.int32)
    groups: tuple[Group, ...] = ()
    if rng.random() < 0.7:
        pairs = [np.arange(1, size) + at for size, at in zip(n.tolist(), var_ptr.tolist(), strict=False)]
        scope = np.concatenate([np.stack([t - 1, t], axis=1) for t in pairs]).astype(np.int32)
        ptr, rows = pointers(np.maximum(n - 1, 0)), np.zeros(len(scope), dtype=np.int32)
        groups = (Group.of("neighbours", (k, k), scope, ptr, rows, 1, var_ptr),)
    program = Program(var_ptr, card, groups, (group,), allowed=allowed).validate()
    whole = rng.random() < 0.5

    def draw(*shape: int) -> F64:
        return rng.integers(-2, 3, shape).astype(float) if whole else rng.normal(size=shape)

    tables = [draw(one.n_tables, one.n_configs) for one in program.groups]
    return program, Theta.of(program, draw(program.n_states), tables, draw(3))


def _constraints(n: I64, bounded: I64, bounds: I64, cut: Bools, there: I64) -> ConstraintGroup:
    """Return the constraint of each of the examples ``there``."""
    there = np.sort(there)
    counts, m = n[there] * len(bounded), len(there)
    position = np.concatenate([np.zeros(0, np.int64), *(np.tile(np.arange(size), len(bounded)) for size in n[there])])
    kind = np.concatenate([np.zeros(0, np.int64), *(np.repeat(np.arange(len(bounded)), size) for size in n[there])])
    numbers = (position, bounded[kind], bounds[kind, 0], bounds[kind, 1])
    return ConstraintGroup(
        "runs", "runs of the kit", pointers(np.isin(np.arange(len(n)), there).astype(np.int64)), pointers(counts),
        position.astype(np.int32), bounded[kind].astype(np.int32), np.zeros(len(kind), dtype=bool),
        {"n": n[there], "cut": cut[:m]},
        {name: value.astype(np.int32) for name, value in zip(NAMES, numbers, strict=True)},
    )  # fmt: skip


# -- The runs that gain most, by dynamic programming over where runs end ---------------------------------------------


@njit(cache=True, nogil=True)
def best_runs(
    gain: F64, position: I64, kind: I64, least: I64, most: I64, n: int, cut: bool, true: Bools
) -> bool:  # fmt: skip
    """Write which literals are true in the best runs; return whether any runs respect the fixed literals.

    Parameters
    ----------
    gain : ndarray of float64, shape (l,)
        ``inf`` where a literal must be true, ``-inf`` where it must be false.
    position, kind, least, most : ndarray of int64, shape (l,)
        Of each literal: its position, its class, and the bounds of the runs of its class.
    n : int
        Number of positions.
    cut : bool
        Whether runs at the ends may be shorter than ``least``.
    true : ndarray of bool, shape (l,)
        False; written.
    """
    at, best = np.full(n, -1), np.empty(n + 2)
    total, length = np.empty(n + 1), np.empty(n + 2, np.int64)
    for first in range(len(gain)):  # of each class, its first literal
        if (kind[:first] == kind[first]).any():
            continue
        at[:] = -1
        for literal in range(first, len(gain)):
            if kind[literal] == kind[first]:
                at[position[literal]] = literal
        total[0], best[0] = 0.0, 0.0
        for t in range(n):
            total[t + 1] = total[t] + (gain[at[t]] if at[t] >= 0 and abs(gain[at[t]]) < np.inf else 0.0)
        # best[t + 1] is that of the first t positions if position t is false, after a run of length[t + 1]
        for t in range(n + 1):
            best[t + 1], length[t + 1] = -np.inf, 0
            if t < n and at[t] >= 0 and gain[at[t]] == np.inf:
                continue
            for run in range(min(t, most[first]) + 1):
                start = t - run
                if run and (at[start] < 0 or gain[at[start]] == -np.inf):
                    break
                if 0 < run < least[first] and not (cut and (start == 0 or t == n)):
                    continue
                value = best[start] + total[t] - total[start]
                if value > best[t + 1]:
                    best[t + 1], length[t + 1] = value, run
        if best[n + 1] == -np.inf:
            return False
        t = n
        while t >= 0:
            for place in range(t - length[t + 1], t):
                true[at[place]] = True
            t -= length[t + 1] + 1
    return True
