"""``segmentation``: true literals describe a division of a sequence into segments with classes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_constraints.row_builder import RowBuilder
from ssvm_constraints.small_problems import Drawn, any_of, chosen_places, structure_problem
from ssvm_dsl.ir import F64, I32, I64, ONE_SPAN, SPANS, Bools, ConstraintGroup, Group, Program, Theta, pointers, runs
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


# -- ``segment-begins``: where segments begin, none of them too long -------------------------------------------------


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


# -- Small random segmentations for the conformance kit --------------------------------------------------------------

#: Positions, classes and most positions of a segment of models in the kit: few labellings, all of which are tried.
SIZES = ((1, 2, 2), (2, 1, 2), (2, 2, 1), (2, 2, 2), (2, 3, 1), (3, 1, 1), (3, 1, 2))

#: Examples of a problem.
N_EXAMPLES = 3

NUMBERS = ("n", "n_classes", "longest")


def segment_problem(rng: np.random.Generator) -> tuple[Program, Theta]:
    """Return segmentations as models have them, with tables, or over literals of all forms, some left out."""
    return model_problem(rng) if rng.random() < 0.7 else _scattered(rng)


def _scattered(rng: np.random.Generator) -> tuple[Program, Theta]:
    def draw() -> Drawn:
        n, k, longest = (int(rng.integers(low, high)) for low, high in ((0, 4), (1, 3), (1, 3)))
        spans = [(s, s + l, b) for s in range(n) for l in range(1, longest + 1) for b in range(k)]
        points = [(t, t, b) for t in range(n) for b in range(-1, k)]
        some = rng.permutation(len(points))[: rng.integers(0, 4)]
        return Drawn(chosen_places(rng, [*spans, *(points[i] for i in some)], 3), (n, k, longest))

    names = dict.fromkeys(NUMBERS, np.int64)
    return structure_problem(rng, "segmentation", draw, ("start", "stop", "class"), names)


def model_problem(
    rng: np.random.Generator, sizes: list[tuple[int, int]] | None = None, k: int | None = None
) -> tuple[Program, Theta]:
    """Return segmentations as a label of segments has them.

    Parameters
    ----------
    rng : Generator
    sizes : list of (int, int), optional
        Positions, and most positions of a segment, of each example; small random ones by default.
    k : int, optional
        Classes; random by default.
    """
    if sizes is None or k is None:
        k = int(rng.integers(1, 4))
        fitting = [(n, longest) for n, classes, longest in SIZES if classes == k]
        sizes = [fitting[rng.integers(len(fitting))] if rng.random() < 0.9 else (0, 1) for _ in range(N_EXAMPLES)]
    spare = rng.integers(0, 2 if rng.random() < 0.3 else 1, len(sizes))  # variables in no constraint
    n, longest = (np.array([one[at] for one in sizes], dtype=np.int64) for at in (0, 1))
    there = rng.random(len(sizes)) < 0.95
    size = np.where(there, 2 * n + n * longest, 0)
    var_ptr = pointers(size + spare)
    first = var_ptr[:-1] + spare * rng.integers(0, 2, len(sizes))
    card = np.full(int(var_ptr[-1]), 3, dtype=np.int32)
    for i in np.flatnonzero(there):
        at = int(first[i])
        card[at : at + n[i]], card[at + n[i] : at + 2 * n[i]] = k, 2
        card[at + 2 * n[i] : at + size[i]] = k + 1
    starts = (first - var_ptr[:-1])[there]
    group = _constraints(n[there], k, longest[there], starts, there)
    allowed = rng.random(int(card.sum())) < 0.95 if rng.random() < 0.3 else None
    groups = _factors(rng, np.where(there, n, 0), k, first, var_ptr)
    program = Program(var_ptr, card, groups, (group,), allowed=allowed).validate()
    whole = rng.random() < 0.5

    def scores(*shape: int) -> NDArray[np.float64]:
        return rng.integers(-2, 3, shape).astype(float) if whole else rng.normal(size=shape)

    tables = [scores(one.n_tables, one.n_configs) for one in program.groups]
    for table in tables:
        table[rng.random(table.shape) < 0.05] = -np.inf
    return program, Theta.of(program, scores(program.n_states), tables, scores(len(sizes)))


def compact_problem(
    rng: np.random.Generator, sizes: list[tuple[int, int]] | None = None, k: int | None = None
) -> tuple[Program, Theta]:
    """Return segmentations as a label of segments has them whose spans are no variables; else as above."""
    if sizes is None or k is None:
        k = int(rng.integers(1, 4))
        sizes = [(int(rng.integers(0, 5 if k < 3 else 4)), 0) for _ in range(N_EXAMPLES)]
    n, most = np.array([one[0] for one in sizes], dtype=np.int64), int(rng.integers(1, 4))
    longest = np.full(len(n), max([most, *(one[1] for one in sizes)]), dtype=np.int64)
    var_ptr = pointers(2 * n)
    first = var_ptr[:-1]
    begins = np.arange(2 * n.sum()) - np.repeat(first, 2 * n) >= np.repeat(n, 2 * n)
    group = ConstraintGroup(
        "segment-begins", "segmentation of the kit", np.arange(len(n) + 1), pointers(2 * n),
        (np.arange(2 * n.sum()) - np.repeat(first, 2 * n)).astype(np.int32), begins.astype(np.int32),
        np.zeros(len(begins), dtype=bool), {"n": n, "n_classes": np.full(len(n), k), "longest": longest},
    )  # fmt: skip
    card = np.where(begins, 2, k).astype(np.int32)
    groups = [_keeping(n, k, first, var_ptr), *_factors(rng, n, k, first, var_ptr)]
    if rng.random() < 0.7:
        groups.append(_lengths(n, k, int(longest[0]), first, var_ptr))
    if rng.random() < 0.7:
        groups.append(_some_spans(rng, n, k, int(longest[0]), first, var_ptr))
    allowed = rng.random(int(card.sum())) < 0.95 if rng.random() < 0.3 else None
    program = Program(var_ptr, card, tuple(groups), (group,), allowed=allowed).validate()
    whole = rng.random() < 0.5
    tables = [
        rng.integers(-2, 3, (one.n_tables, one.n_configs)).astype(float) if whole
        else rng.normal(size=(one.n_tables, one.n_configs)) for one in program.groups
    ]  # fmt: skip
    tables[0][...] = np.where(np.arange(2 * k * k) % 2 | np.repeat(np.eye(k, dtype=bool), 2), 0.0, -np.inf)
    node = rng.integers(-2, 3, program.n_states).astype(float) if whole else rng.normal(size=program.n_states)
    return program, Theta.of(program, node, tables, np.zeros(len(n)) if whole else rng.normal(size=len(n)))


def _keeping(n: I64, k: int, first: I64, var_ptr: I64) -> Group:
    """Return the group that says that classes change where segments begin only."""
    after = [np.arange(1, size) + at for size, at in zip(n.tolist(), first.tolist(), strict=True)]
    scopes = [np.stack([t - 1, t, t + size], axis=1) for t, size in zip(after, n.tolist(), strict=True)]
    ptr = pointers(np.array([len(one) for one in scopes], dtype=np.int64))
    scope = np.concatenate(scopes).astype(np.int32)
    return Group.of("keep", (k, k, 2), scope, ptr, np.zeros(len(scope), np.int32), 1, var_ptr)


def _lengths(n: I64, k: int, longest: int, first: I64, var_ptr: I64) -> Group:
    """Return factors of lengths."""
    every = [np.arange(size) + at for size, at in zip(n.tolist(), first.tolist(), strict=True)]
    scopes = [
        np.stack([t, t + len(t), np.minimum(t + 1, t[-1:].max(initial=0)) + len(t)], axis=1) for t in every
    ]  # fmt: skip
    scope, ptr = np.concatenate(scopes).astype(np.int32), pointers(n)
    return Group.of("lengths", (k, longest), scope, ptr, np.zeros(len(scope), np.int32), 1, var_ptr, SPANS)


def _some_spans(rng: np.random.Generator, n: I64, k: int, longest: int, first: I64, var_ptr: I64) -> Group:
    """Return factors of some spans, in any order, with tables of their own or one for all."""
    scopes, counts = [np.zeros((0, 4), np.int32)], []
    for size, at in zip(n.tolist(), first.tolist(), strict=True):
        spans = [(s, e) for s in range(size) for e in range(s + 1, min(size, s + longest) + 1)]
        chosen = [spans[one] for one in rng.permutation(len(spans))[: int(rng.integers(len(spans) + 1))]]
        rows = [(at + s, at + size + s, at + size + e - 1, at + size + (e if e < size else s)) for s, e in chosen]
        scopes.append(np.array(rows, dtype=np.int32).reshape(-1, 4))
        counts.append(len(rows))
    scope, ptr = np.concatenate(scopes), pointers(np.array(counts, dtype=np.int64))
    shared = rng.random() < 0.3
    table = np.zeros(len(scope), np.int32) if shared else np.arange(len(scope), dtype=np.int32)
    return Group.of("some spans", (k,), scope, ptr, table, 1 if shared else len(scope), var_ptr, ONE_SPAN)


def _constraints(n: I64, k: int, longest: I64, first: I64, there: NDArray[np.bool_]) -> ConstraintGroup:
    """Return a segmentation for each example that has one."""
    literals = [_literals(*one, k) for one in zip(n.tolist(), longest.tolist(), first.tolist(), strict=True)]
    columns = np.concatenate([np.zeros((0, 5), np.int32), *literals])
    names = ("start", "stop", "class")
    return ConstraintGroup(
        "segmentation", "segmentation of the kit", pointers(there.astype(np.int64)),
        pointers(np.array([len(one) for one in literals], dtype=np.int64)),
        np.ascontiguousarray(columns[:, 0]), np.ascontiguousarray(columns[:, 1]), np.zeros(len(columns), dtype=bool),
        {"n": n, "n_classes": np.full(len(n), k), "longest": longest},
        {name: np.ascontiguousarray(columns[:, 2 + at]) for at, name in enumerate(names)},
    )  # fmt: skip


def _literals(n: int, longest: int, first: int, k: int) -> NDArray[np.int32]:
    """Return (variable, state, start, stop, class) of the literals of one segmentation."""
    out: list[tuple[int, ...]] = [(first + t, b, t, t, b) for b in range(k) for t in range(n)]
    out += [(first + n + t, 1, t, t, -1) for t in range(n)]
    spans = list(itertools.product(range(n), range(longest)))
    out += [(first + 2 * n + s * longest + l, b + 1, s, s + l + 1, b) for b in range(k) for s, l in spans]
    return np.array(out, dtype=np.int32).reshape(-1, 5)


def _factors(rng: np.random.Generator, n: I64, k: int, first: I64, var_ptr: I64) -> tuple[Group, ...]:
    """Return factors over classes of neighbours, of successive segments, and of starts: some of them, or none."""
    after = [np.arange(1, size) + at for size, at in zip(n.tolist(), first.tolist(), strict=True)]
    every = [np.arange(size) + at for size, at in zip(n.tolist(), first.tolist(), strict=True)]
    begins = [at + size for at, size in zip(every, n.tolist(), strict=True)]
    forms: dict[str, tuple[tuple[int, ...], list[Any]]] = {
        "neighbours": ((k, k), [np.stack([t - 1, t], axis=1) for t in after]),
        "successive": ((k, k, 2), [np.stack([t - 1, t, b[1:]], axis=1) for t, b in zip(after, begins, strict=True)]),
        "starts": ((k, 2), [np.stack([t, b], axis=1) for t, b in zip(every, begins, strict=True)]),
    }
    out = []
    for name, (cards, scopes) in forms.items():
        if rng.random() < 0.4:
            continue
        ptr = pointers(np.array([len(one) for one in scopes], dtype=np.int64))
        m, shared = int(ptr[-1]), rng.random() < 0.5
        table = np.zeros(m, np.int32) if shared else np.arange(m, dtype=np.int32)
        scope = np.concatenate(scopes).astype(np.int32)
        out.append(Group.of(name, cards, scope, ptr, table, 1 if shared else m, var_ptr))
    return tuple(out)
