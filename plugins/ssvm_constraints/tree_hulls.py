"""Linear descriptions of spanning trees that are exact: their points are mixtures of trees."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.row_builder import RowBuilder
from ssvm_dsl.ir import I64, ConstraintGroup
from ssvm_dsl.plugin_api import LinearRows

#: Auxiliary columns at most: about 45 tokens of an arborescence with all arcs, and 50 of a projective tree.
MOST_COLUMNS = 100_000


def arborescence_hull(group: ConstraintGroup, k: int) -> LinearRows | None:
    """Return one head for each token, and for each token a unit of flow from the root, along arcs up to their value.

    ``None`` for more than ``MOST_COLUMNS`` flows.

    Notes
    -----
    Cuts between the root and each token hold at least 1, which together with the heads describes arborescences without
    gaps (Edmonds 1967; as flows: Wong 1984).  All have a dependent of the root: those with one are a face.
    """
    head, dependent, n = _arcs(group, k)
    real = (head != dependent) & (dependent > 0)
    arcs, never = np.flatnonzero(real), np.flatnonzero(~real)
    m = len(arcs)
    if n * m > MOST_COLUMNS:
        return None
    builder = RowBuilder(len(head))
    flow = builder.add_columns(n * m, 1.0).reshape(n, m)
    if len(never):
        builder.add(0.0, 0.0, (never, 1.0))
    builder.add_rows(np.ones(n), np.ones(n), dependent[arcs] - 1, arcs, 1.0)
    if group.meta["single_root"][k] and n:
        builder.add(1.0, 1.0, (np.flatnonzero((head == 0) & (dependent > 0)), 1.0))
    each = np.arange(n * m)
    builder.add_rows(
        np.full(n * m, -np.inf), np.zeros(n * m), np.repeat(each, 2),
        np.stack([flow.ravel(), np.tile(arcs, n)], axis=1).ravel(), np.tile([1.0, -1.0], n * m),
    )  # fmt: skip
    # what a token keeps of the flow to each: 1 of its own, 0 of another's
    right, first = np.eye(n).ravel(), n * np.repeat(np.arange(n), m)
    leaves = np.flatnonzero(np.tile(head[arcs], n) > 0)
    row = np.concatenate([first + np.tile(dependent[arcs], n) - 1, (first + np.tile(head[arcs], n) - 1)[leaves]])
    column = np.concatenate([flow.ravel(), flow.ravel()[leaves]])
    builder.add_rows(right, right, row, column, np.repeat([1.0, -1.0], [n * m, len(leaves)]))
    return builder.finish()


def projective_hull(group: ConstraintGroup, k: int) -> LinearRows | None:
    """Return the derivations of Eisner's parser: each item that is used is made once, and the whole sentence is used.

    ``None`` for more than ``MOST_COLUMNS`` steps of derivations.

    Notes
    -----
    A step makes an item (a span, whose head is at its left or right end, with all dependents on that side or still
    without those beyond an arc) of two.  Their parts never overlap, so that the rows describe mixtures of derivations
    without gaps (Martin, Rardin and Campbell 1990).
    """
    head, dependent, n = _arcs(group, k)
    single = bool(group.meta["single_root"][k])
    if 2 * n * (n + 1) * (n + 2) // 3 > MOST_COLUMNS:
        return None
    start, stop, split = (
        one.ravel().astype(np.int64) for one in np.meshgrid(*3 * [np.arange(n + 1)], indexing="ij")
    )
    inner = np.flatnonzero((start <= split) & (split < stop))
    start, stop, split = start[inner], stop[inner], split[inner]
    size, alone = n + 1, start == split
    arc = np.zeros((size, size), dtype=bool)
    arc[head, dependent] = True
    # items: (kind, start, stop), kinds: complete to the right, to the left, with an arc to the right, to the left
    c_right, c_left, i_right, i_left = range(4)
    last = single & (start == 0)
    joined = [(c_right, start, split), (c_left, split + 1, stop)]
    steps = [
        (i_right, arc[start, stop] & (~last | alone), joined),
        (i_left, arc[stop, start] & (start > 0), joined),
        (c_right, ~last | (stop == n), [(i_right, start, split + 1), (c_right, split + 1, stop)]),
        (c_left, start > 0, [(c_left, start, split), (i_left, split, stop)]),
    ]
    builder, makes, uses, counts = RowBuilder(len(head)), [], [], []
    first = len(head)
    for kind, allowed, parts in steps:
        which = np.flatnonzero(allowed)
        column = first + np.arange(len(which))
        first += len(which)
        made = _item(size, kind, start[which], stop[which])
        makes.append((made, column))
        counts.append((kind, start[which], stop[which], column))
        uses += [(_item(size, part, lo[which], hi[which]), column) for part, lo, hi in parts]
    builder.add_columns(first - len(head), 1.0)
    made_item, made_column = (np.concatenate(part) for part in zip(*makes, strict=True))
    used_item, used_column = (np.concatenate(part) for part in zip(*uses, strict=True))
    axiom = (used_item // size % size == used_item % size) & (used_item // size**2 < 2)
    used_item, used_column = used_item[~axiom], used_column[~axiom]
    goal = _item(size, c_right, np.zeros(1, np.int64), np.full(1, n))
    items = np.unique(np.concatenate([made_item, used_item, goal[: int(n > 0)]]))
    right = np.where(items == goal[0], 1.0, 0.0)
    row = np.searchsorted(items, np.concatenate([made_item, used_item]))
    value = np.repeat([1.0, -1.0], [len(made_item), len(used_item)])
    builder.add_rows(right, right, row, np.concatenate([made_column, used_column]), value)
    # an arc is true as often as its item is made
    place, mine = np.zeros((size, size), dtype=np.int64), np.flatnonzero((head != dependent) & (dependent > 0))
    pairs, number = np.unique(head[mine] * size + dependent[mine], return_inverse=True)
    place[pairs // size, pairs % size] = np.arange(len(pairs))
    of_pair, arcs_of = [number.reshape(-1)], [mine]
    for kind, lo, hi, columns in counts:
        if kind >= i_right:
            of_pair.append(place[lo, hi] if kind == i_right else place[hi, lo])
            arcs_of.append(columns)
    value = np.repeat([1.0, -1.0], [len(mine), sum(map(len, of_pair)) - len(mine)])
    none = np.zeros(len(pairs))
    builder.add_rows(none, none, np.concatenate(of_pair), np.concatenate(arcs_of), value)
    never = np.flatnonzero((head == dependent) | (dependent == 0))
    if len(never):
        builder.add(0.0, 0.0, (never, 1.0))
    return builder.finish()


def _arcs(group: ConstraintGroup, k: int) -> tuple[I64, I64, int]:
    """Return head and dependent of each literal, and the number of tokens."""
    part = group.literals(k)
    head, dependent = (group.literal_meta[name][part].astype(np.int64) for name in ("head", "dependent"))
    return head, dependent, int(group.meta["n"][k])


def _item(size: int, kind: int, start: I64, stop: I64) -> I64:
    """Return the number of an item."""
    return (kind * size + start) * size + stop
