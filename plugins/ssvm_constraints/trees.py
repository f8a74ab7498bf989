"""``arborescence`` and ``projective-tree``: literals are arcs, the true ones form a directed tree."""

from __future__ import annotations

import itertools

import numpy as np

from ssvm_constraints.explaining import crossing_arcs, tree_faults
from ssvm_constraints.row_builder import RowBuilder, add_capacities
from ssvm_constraints.small_structure import Drawn, any_of, chosen_places, ends_of, node_sums, structure_problem
from ssvm_constraints.starts import trees
from ssvm_dsl.ir import I32, I64, Bools, ConstraintGroup, Program, Theta, pointers, runs
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows

MOST_TOKENS = 4


class ArborescenceKind:
    """Every token 1..n has one head, heads lead to the root 0 (of one dependent, if ``single_root``).

    Literals for arcs from a token to itself, or to the root, are never true.
    """

    kind = "arborescence"

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        sizes = group.meta["n"] + 1
        first = pointers(sizes)[:-1]
        n_heads = node_sums(group, true, "dependent", sizes)
        wanted = np.ones(len(n_heads), dtype=np.int64)
        wanted[first] = 0
        follow = heads_of(group, true, first, len(n_heads))
        astray = ends_of(follow, int(sizes.max(initial=1))) != first.repeat(sizes)
        broken = any_of(astray | (n_heads != wanted), sizes)
        roots = np.bincount(group.constraint_of[true & (group.literal_meta["head"] == 0)], minlength=len(sizes))
        return np.asarray(broken | (group.meta["single_root"] & (group.meta["n"] > 0) & (roots != 1)))

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return one head for each token, and a flow from the root along true arcs that leaves 1 at every token."""
        return self._builder(group, k).finish()

    def _builder(self, group: ConstraintGroup, k: int) -> RowBuilder:
        part, n = group.literals(k), int(group.meta["n"][k])
        head, dependent = (group.literal_meta[name][part].astype(np.int64) for name in ("head", "dependent"))
        builder, every = RowBuilder(len(head)), np.arange(len(head))
        flow = builder.add_columns(len(head), n)
        add_capacities(builder, flow, n)
        never = np.flatnonzero((head == dependent) | (dependent == 0))
        if len(never):
            builder.add(0.0, 0.0, (never, 1.0))
        # two rows for each token: one head, and one unit of flow more into it than out of it
        into, through = dependent > 0, head != dependent
        leaves, enters = (head > 0) & through, into & through
        row = np.concatenate([2 * dependent[into] - 2, 2 * dependent[enters] - 1, 2 * head[leaves] - 1])
        column = np.concatenate([every[into], flow[enters], flow[leaves]])
        value = np.repeat([1.0, 1.0, -1.0], [int(into.sum()), int(enters.sum()), int(leaves.sum())])
        builder.add_rows(np.ones(2 * n), np.ones(2 * n), row, column, value)
        if group.meta["single_root"][k] and n:
            builder.add(1.0, 1.0, (np.flatnonzero(head == 0), 1.0))
        return builder

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return a tree grown from the root (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        return trees.tree(group, k, scores)

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return what is no tree (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        return tree_faults(group, k, true)

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows | None:
        """Return a flow to each token (see :class:`~ssvm_dsl.plugin_api.IntegralKind`)."""
        return arborescence_hull(group, k)

    def n_row_entries(self, group: ConstraintGroup, k: int) -> float:
        """Return about how many entries the rows have (see :class:`~ssvm_dsl.plugin_api.SizedKind`)."""
        return 5.0 * len(range(*group.literals(k).indices(len(group.variable))))

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return sentences of up to four tokens that lack arcs; some have no tree."""

        def draw() -> Drawn:
            n = int(rng.integers(0, MOST_TOKENS + 1))
            pairs = itertools.product(range(n + 1), repeat=2)
            arcs = [(h, d) for h, d in pairs if (h != d and d) or rng.random() < 0.1]
            return Drawn(chosen_places(rng, arcs), (n, rng.random() < 0.5))

        return structure_problem(rng, self.kind, draw, ("head", "dependent"), {"n": np.int64, "single_root": np.bool_})


class ProjectiveTreeKind(ArborescenceKind):
    """An arborescence none of whose arcs cross, the root at position 0."""

    kind = "projective-tree"

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        broken = super().violated(group, true)
        for k in np.flatnonzero(~broken).tolist():
            part = group.literals(k)
            ends = np.stack([group.literal_meta[name][part][true[part]] for name in ("head", "dependent")])
            broken[k] = crossing(ends.min(axis=0), ends.max(axis=0))
        return broken

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return what is no tree, or which arcs cross (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        return tree_faults(group, k, true) or crossing_arcs(group, k, true)

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the rows of the arborescence, and for each arc: tokens below it have their heads below it.

        Arcs do not cross where that holds and heads lead to the root (Martins, Smith and Xing 2009, section 3.2).
        """
        builder, part = self._builder(group, k), group.literals(k)
        head, dependent = (group.literal_meta[name][part].astype(np.int64) for name in ("head", "dependent"))
        low, high = np.minimum(head, dependent), np.maximum(head, dependent)
        inside = np.maximum(high - low - 1, 0)
        arc, inner = np.repeat(np.arange(len(head)), inside), runs(low + 1, inside)
        # the arcs to a token stand in one range by head: those of heads between two tokens are a part of it
        size, order = int(group.meta["n"][k]) + 1, np.lexsort((head, dependent))
        places = (dependent * size + head)[order]
        begin = np.searchsorted(places, inner * size + low[arc])
        n_below = np.searchsorted(places, inner * size + high[arc], side="right") - begin
        row = np.concatenate([np.arange(len(arc)), np.repeat(np.arange(len(arc)), n_below)])
        value = np.repeat([1.0, -1.0], [len(arc), int(n_below.sum())])
        column = np.concatenate([arc, order[runs(begin, n_below)]])
        builder.add_rows(np.full(len(arc), -np.inf), np.zeros(len(arc)), row, column, value)
        return builder.finish()

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows | None:
        """Return the flow through Eisner's items (see :class:`~ssvm_dsl.plugin_api.IntegralKind`)."""
        return projective_hull(group, k)

    def n_row_entries(self, group: ConstraintGroup, k: int) -> float:
        """Return about how many entries the rows have (see :class:`~ssvm_dsl.plugin_api.SizedKind`)."""
        part, n = group.literals(k), float(group.meta["n"][k])
        head, dependent = (group.literal_meta[name][part].astype(np.float64) for name in ("head", "dependent"))
        across = np.abs(head - dependent)
        filled = min(1.0, len(head) / max(n * n, 1.0))  # share of the arcs that there are
        return super().n_row_entries(group, k) + float((across * (1.0 + filled * across)).sum())

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return a star, or the best tree of few tokens (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        return trees.projective_tree(group, k, scores)


def heads_of(group: ConstraintGroup, true: Bools, first: I64, n_nodes: int) -> I64:
    """Return the head of each node, packed over the constraints; nodes without one are their own."""
    follow, base = np.arange(n_nodes), first[group.constraint_of[true]]
    follow[base + group.literal_meta["dependent"][true]] = base + group.literal_meta["head"][true]
    follow[first] = first
    return follow


def crossing(low: I64, high: I64) -> bool:
    """Return whether two of the arcs ``low..high`` cross."""
    one, other = (low[:, None], high[:, None]), (low[None, :], high[None, :])
    return bool(((one[0] < other[0]) & (other[0] < one[1]) & (one[1] < other[1])).any())


# -- Linear descriptions of spanning trees that are exact: their points are mixtures of trees ------------------------

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
