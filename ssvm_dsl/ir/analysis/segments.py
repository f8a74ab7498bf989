"""Where the variables of segmentations are, in programs that have them as models with ``Label(segments=)`` do.

A constraint of the kind ``segmentation`` over n positions, K classes and segments of up to L positions then has three
runs of variables: n of K states (the class of each position), n of 2 states (whether a segment begins there) and n L of
K + 1 states (0, or 1 and the class of the segment from s that is l + 1 long, at ``s L + l``).  Dynamic programming over
segments reads scores from there without looking at literals.

Programs whose spans are no variables have the first two runs alone, one after the other, under a constraint of the kind
``segment-begins``: segments are at most L positions long, and the first one begins at once.  That classes change only
where segments begin is said by tables over (class, class, whether a segment begins), ``-inf`` for two classes and 0.
Groups of the kind ``"spans"`` score segments by class and length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import I64, Bools
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.program import ONE_SPAN, Program
from ssvm_dsl.ir.ragged import runs
from ssvm_dsl.ir.shapes import first_of_each

#: The kinds of constraints: with spans as variables, and without.
SEGMENTATION, BEGINS = KINDS = ("segmentation", "segment-begins")

#: What a factor may join: classes of two neighbours; these, and whether a segment begins at the second; the class of a
#: position, and whether a segment begins there; or it scores a segment by class and length; or one span by its class.
NEIGHBOURS, SUCCESSIVE, STARTS, LENGTHS, SPAN = 0, 1, 2, 3, 4


@dataclass(frozen=True, eq=False)
class SegmentVariables:
    """The variables of the constraints of a group.

    Parameters
    ----------
    n, n_classes, longest : ndarray of int64, shape (m,)
        n, K and L of each constraint.
    first : ndarray of int64, shape (m, 3)
        The first variable of each run, counted from the first one of the example; -1 for spans that are no variables.
    """

    n: I64
    n_classes: I64
    longest: I64
    first: I64


def segment_variables(program: Program, group: ConstraintGroup) -> SegmentVariables | None:
    """Return where the variables of a group of segmentations are; ``None`` where they do not stand in these runs."""
    names = ("n", "n_classes", "longest")
    if group.kind == BEGINS:
        return _compact_variables(program, group)
    if not set(names) <= set(group.meta) or not {"start", "stop", "class"} <= set(group.literal_meta):
        return None
    sizes = np.stack([group.meta[name].astype(np.int64) for name in names], axis=1)
    first = np.zeros((group.n_constraints, 3), dtype=np.int64)
    of, chosen = first_of_each(map(bytes, np.ascontiguousarray(sizes)))
    lengths = np.diff(group.literal_ptr)
    for kind, example in enumerate(chosen):
        n, k, longest = sizes[example].tolist()
        mine = np.flatnonzero(of == kind)
        if n < 0 or k < 1 or longest < 1 or (lengths[mine] != n * (k + 1 + k * longest)).any():
            return None
        at = group.literal_ptr[mine][:, None] + np.arange(lengths[mine[0]])
        expected = _literals(n, k, longest)
        given = (group.literal_meta["start"], group.literal_meta["stop"], group.literal_meta["class"], group.state)
        if group.negated[at].any() or any((a[at] != b).any() for a, b in zip(given, expected[:4], strict=True)):
            return None
        if n == 0:
            continue
        first[mine] = group.variable[at[:, [0, n * k, n * (k + 1)]]]
        if (group.variable[at] - first[mine][:, expected[4]] != expected[5]).any():
            return None
        card = np.array([k, 2, k + 1])[expected[4]]
        base = program.var_ptr[group.example_of[mine]][:, None]
        if (program.card[base + group.variable[at]] != card).any():
            return None
    return SegmentVariables(sizes[:, 0], sizes[:, 1], sizes[:, 2], first)


def _compact_variables(program: Program, group: ConstraintGroup) -> SegmentVariables | None:
    """Return where the variables are of segmentations whose spans are none."""
    n, k, longest = (group.meta[name].astype(np.int64) for name in ("n", "n_classes", "longest"))
    first = np.full((group.n_constraints, 3), -1, dtype=np.int64)
    if (np.diff(group.literal_ptr) != 2 * n).any() or (n < 0).any() or (k < 1).any() or (longest < 1).any():
        return None
    owner, at = np.repeat(np.arange(len(n)), 2 * n), runs(np.zeros(len(n), dtype=np.int64), 2 * n)
    filled = np.flatnonzero(n)
    first[filled, 0] = group.variable[group.literal_ptr[filled]]
    first[filled, 1] = first[filled, 0] + n[filled]
    begin = at >= n[owner]
    card = program.card[program.var_ptr[group.example_of[owner]] + group.variable]
    right = (group.variable == first[owner, 0] + at) & (card == np.where(begin, 2, k[owner]))
    right &= (group.state == begin) & ~group.negated
    return SegmentVariables(n, k, longest, first) if right.all() else None


def _literals(n: int, k: int, longest: int) -> tuple[I64, ...]:
    """Return (start, stop, class, state, run, place in it) of the literals of one constraint, in order."""
    t, spans = np.arange(n), np.arange(n * longest)
    start, length = spans // longest, spans % longest + 1
    label = np.arange(k)
    columns = (
        (np.tile(t, k), np.tile(t, k), np.repeat(label, n), np.repeat(label, n), 0, np.tile(t, k)),
        (t, t, np.full(n, -1), np.ones(n, dtype=np.int64), 1, t),
        (
            np.tile(start, k), np.tile(start + length, k), np.repeat(label, n * longest),
            np.repeat(label, n * longest) + 1, 2, np.tile(spans, k),
        ),
    )  # fmt: skip
    parts = [[np.broadcast_to(value, len(one[0])) for value in one] for one in columns]
    return tuple(np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True))


def segment_links(program: Program, groups: list[tuple[ConstraintGroup, SegmentVariables]]) -> list[I64] | None:
    """Return what the factors of each group of a program join: for those of its shapes (kind, last position, size).

    Parameters
    ----------
    program : Program
    groups : list of (ConstraintGroup, SegmentVariables)
        Its segmentations.

    Returns
    -------
    list of ndarray of int64, shape (m, 3)
        For each group of factors: one of ``NEIGHBOURS``, ``SUCCESSIVE``, ``STARTS``, ``LENGTHS``, ``SPAN``; the
        variable of the class of the (second, last) position; and of spans how many positions they have, else 0.
        ``None`` where a factor joins anything else.
    """
    runs_of = [np.zeros((0, 4), dtype=np.int64)]  # example, n, first class variable, first begin variable
    runs_of += [np.column_stack([group.example_of, at.n, at.first[:, :2]]) for group, at in groups]
    table = np.concatenate(runs_of)
    out = []
    for group in program.groups:
        shapes = group.shapes
        links = np.zeros((len(shapes.scope), 3), dtype=np.int64)
        whole = SPAN if group.kind == ONE_SPAN else LENGTHS
        kind = whole if group.of_spans else {2: NEIGHBOURS, 3: SUCCESSIVE}.get(group.arity)
        if kind is None:
            return None
        keys = np.column_stack([shapes.of[table[:, 0]], table[:, 1:]])
        present = np.bincount(keys[:, 0], minlength=shapes.n_shapes)
        per_shape = np.unique(keys, axis=0)
        n_with = np.bincount(shapes.of, minlength=shapes.n_shapes)
        for shape in range(shapes.n_shapes):
            part = slice(int(shapes.start[shape]), int(shapes.start[shape + 1]))
            if part.start == part.stop or not n_with[shape]:
                continue
            mine = per_shape[per_shape[:, 0] == shape]
            if present[shape] != len(mine) * n_with[shape]:  # examples of one shape divide different variables
                return None
            linked = _joined(shapes.scope[part].astype(np.int64), mine[:, 1:], kind)
            if linked is None:
                return None
            links[part] = linked
        out.append(links)
    return out


def _joined(scope: I64, divided: I64, kind: int) -> I64 | None:
    """Return the links of the factors of one shape; ``divided`` are (n, first class variable, first begin variable)."""
    out = np.full((len(scope), 3), -1, dtype=np.int64)
    for n, label, begin in divided.tolist():
        if kind == LENGTHS:
            at = scope[:, 0] - label
            mine = (at >= 0) & (at < n) & (scope[:, 1] == begin + at)
            mine &= scope[:, 2] == begin + np.minimum(at + 1, n - 1)
            _link(out, mine, kind, scope[:, 0])
            if mine.sum() != n:
                return None
            continue
        if kind == SPAN:
            start, last = scope[:, 0] - label, scope[:, 2] - begin
            mine = (start >= 0) & (start <= last) & (last < n) & (scope[:, 1] == begin + start)
            mine &= scope[:, 3] == begin + np.where(last + 1 < n, last + 1, start)
            _link(out, mine, kind, label + last, last - start + 1)
            continue
        at = scope[:, 1] - label
        second = (scope[:, 0] == scope[:, 1] - 1) & (at >= 1) & (at < n)
        if kind == SUCCESSIVE:
            second &= scope[:, 2] == begin + at
        _link(out, second, kind, scope[:, 1])
        if kind == NEIGHBOURS:
            at = scope[:, 0] - label
            _link(out, (at >= 0) & (at < n) & (scope[:, 1] == begin + at), STARTS, scope[:, 0])
    return None if (out < 0).any() else out


def _link(out: I64, mine: Bools, kind: int, variable: I64, size: I64 | int = 0) -> None:
    """Write the links of some factors of a kind."""
    out[mine] = np.column_stack(np.broadcast_arrays(kind, variable, size))[mine]


def are_segmented(program: Program) -> bool:
    """Return whether all constraints of a program are segmentations in runs, which its factors keep to."""
    if any(group.kind not in KINDS for group in program.constraints):
        return False
    asked = [(group, segment_variables(program, group)) for group in program.constraints]
    known = [(group, at) for group, at in asked if at is not None]
    if len(known) < len(asked) or _shared(program, known):
        return False
    return segment_links(program, known) is not None


def _shared(program: Program, groups: list[tuple[ConstraintGroup, SegmentVariables]]) -> bool:
    """Return whether a variable is in two runs."""
    uses = np.zeros(program.n_variables, dtype=np.int64)
    for group, at in groups:
        base = program.var_ptr[group.example_of]
        spans = at.n * at.longest * (at.first[:, 2] >= 0)
        for run, sizes in enumerate((at.n, at.n, spans)):
            uses += np.bincount(runs(base + at.first[:, run], sizes), minlength=program.n_variables)
    return bool((uses > 1).any())
