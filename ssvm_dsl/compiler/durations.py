"""Durations of segments: which lengths they rule out, by class, and which true segments and sequences break them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.labels.ruled_out import ruled_out_error
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.ir.program import ONE_SPAN, Group
from ssvm_dsl.ir.ragged import owners, pointers, runs
from ssvm_dsl.lang.constraints.durations import SegmentDuration
from ssvm_dsl.lang.declaration import Declaration


def length_table(rule: SegmentDuration) -> F64:
    """Return what lengths score anywhere: 0, or ``-inf`` if ruled out; ``shape (1, n_classes * segments)``."""
    left = rule.short_enough() if rule.cut else rule.short_enough() & rule.long_enough()
    return np.where(left, 0.0, -np.inf).reshape(1, -1)


def inner_spans(rule: SegmentDuration, layout: Layout) -> tuple[Group, F64]:
    """Return the factors of short spans that no end of their sequence cuts, and a row of tables for each length."""
    label, shorter = rule.target.label, max(rule.least) - 1
    sizes, label_first, begin_first = layout.count(label), layout.start(label), layout.start(label.begins)
    start = runs(np.ones(layout.n, dtype=np.int64), np.maximum(sizes - 2, 0))  # neither first nor last
    owner = np.repeat(np.arange(layout.n), np.maximum(sizes - 2, 0))
    counts = np.clip(sizes[owner] - 1 - start, 0, shorter)
    start, owner = np.repeat(start, counts), np.repeat(owner, counts)
    length = runs(np.ones(len(counts), dtype=np.int64), counts)
    columns = [label_first[owner] + start] + [begin_first[owner] + start + at for at in (0, length - 1, length)]
    scope = np.stack(columns, axis=1).astype(np.int32).reshape(-1, 4)
    ptr = pointers(np.bincount(owner, minlength=layout.n))
    rows, cards = (length - 1).astype(np.int32), (label.n_states,)
    group = Group.of(rule.name, cards, scope, ptr, rows, shorter, layout.var_ptr, ONE_SPAN)
    return group, np.where(rule.long_enough().T[:shorter], 0.0, -np.inf)


def ruled_out_spans(rule: SegmentDuration, layout: Layout) -> Iterator[tuple[I64, I64]]:
    """Yield (variables, state) of spans that are variables and are ruled out, class by class."""
    label, longest = rule.target.label, rule.target.label.segments or 1
    sizes = layout.count(label)
    start, length = np.repeat(runs(np.zeros(layout.n, np.int64), sizes), longest), np.arange(longest)
    length, n = np.tile(length, int(sizes.sum())), np.repeat(sizes, sizes * longest)
    variable = runs(layout.start(label.spans), sizes * longest)
    at_end = (start == 0) | (start + length + 1 >= n)
    for k in range(label.n_states):
        out = ~rule.short_enough()[k, length]
        out |= ~rule.long_enough()[k, length] & ~(at_end if rule.cut else np.zeros(len(start), dtype=bool))
        yield variable[out], np.full(int(out.sum()), k + 1, dtype=np.int64)


def refuse_durations(rule: SegmentDuration, layout: Layout, truth: I32) -> None:
    """Refuse true segments that are too short or too long; those of unknown classes or ends may be of any length.

    Raises
    ------
    DataError
        Counts the examples, describes the first ones.
    """
    label = rule.target.label
    classes, begins = truth[layout.variables(label)], truth[layout.variables(label.begins)]
    sizes = layout.count(label)
    owner, last = owners(pointers(sizes)), np.zeros(len(begins), dtype=bool)
    last[(np.cumsum(sizes) - 1)[sizes > 0]] = True
    first = np.flatnonzero(begins == 1)
    if not len(first):
        return
    length = np.diff(first, append=len(begins))
    unknown = np.add.reduceat((begins < 0) | (classes < 0), first) > 0
    k, start = np.maximum(classes[first], 0), first - pointers(sizes)[owner[first]]
    long_enough = length >= np.array(rule.least)[k]
    if rule.cut:
        long_enough |= (start == 0) | last[first + length - 1]
    wrong: Bools = ~unknown & ~(long_enough & (length <= np.array(rule.most)[k]))
    if not wrong.any():
        return
    at, names = np.flatnonzero(wrong), label.classes or range(label.n_states)

    def words(example: int) -> str:
        one = int(at[int(np.argmax(owner[first[at]] == example))])
        state, size = int(k[one]), int(length[one])
        bound = f"at least {rule.least[state]}" if size < rule.least[state] else f"at most {rule.most[state]}"
        segment = f"({start[one]}, {start[one] + size}, {names[state]!r})"
        return f"the segment {segment} of {size} position{'s' * (size > 1)}, {bound}"

    expected = f"segments that {rule.name} = {rule!r} does not rule out"
    raise ruled_out_error(np.unique(owner[first[at]]).tolist(), layout.n, expected, words)


def why_indivisible(declaration: Declaration, layout: Layout, example: int) -> str:
    """Return why a sequence cannot be divided into segments that durations leave; empty if it can."""
    for rule in declaration.rules:
        if not isinstance(rule, SegmentDuration):
            continue
        n = int(layout.count(rule.target.label)[example])
        whole = (rule.short_enough() & rule.long_enough()).any(axis=0)
        ends = rule.short_enough().any(axis=0) if rule.cut else whole
        if not _divisible(n, np.flatnonzero(whole) + 1, np.flatnonzero(ends) + 1)[n]:
            words = f"its {n} positions cannot be divided into segments that {rule.name} = {rule!r} leaves"
            return f"{words}; {_cure(rule)}"
    return ""


def _cure(rule: SegmentDuration) -> str:
    cut = "" if rule.cut else ", or set cut=True: then the first and the last segment may be shorter"
    return f"pass longer sequences, or allow other lengths{cut}"


def _divisible(most: int, inner: I64, ends: I64) -> Bools:
    """Return which sizes up to ``most`` are 0, one length of an end, or two of them with inner lengths between."""
    after = np.zeros(most + 1, dtype=bool)  # an end, and any number of inner lengths after it
    after[ends[ends <= most]] = True
    _extend(after, after, inner)
    possible = np.zeros(most + 1, dtype=bool)
    possible[0] = True
    possible[ends[ends <= most]] = True
    _extend(possible, after, ends)
    return possible


def _extend(possible: Bools, before: Bools, lengths: I64) -> None:
    """Make sizes possible that one of these lengths leads to from a size in ``before``."""
    run, enough = 0, int(lengths[0]) if len(lengths) else 1
    for size in range(1, len(possible)):
        possible[size] |= bool(before[size - lengths[lengths < size]].any())
        run = run + 1 if possible[size] and before[size] else 0
        if run >= enough:  # all larger ones are the shortest length more than one of these
            possible[size + 1 :] = True
            return
