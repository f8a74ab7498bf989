"""``arborescence`` and ``projective-tree``: literals are arcs, the true ones form a directed tree."""

from __future__ import annotations

import itertools

import numpy as np

from ssvm_constraints.explaining import crossing_arcs, tree_faults
from ssvm_constraints.row_builder import RowBuilder, add_capacities
from ssvm_constraints.small_problems import Drawn, any_of, chosen_places, ends_of, node_sums, structure_problem
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Theta, pointers, runs
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows, loading

#: Tokens of the sentences that the conformance kit draws, at most.
SMALL_TOKENS = 4


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
        return start_tree(group, k, scores)

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
            n = int(rng.integers(0, SMALL_TOKENS + 1))
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
        return start_projective_tree(group, k, scores)


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


# -- Directed trees from the root, grown arc by arc; projective ones as stars, or by dynamic programming -------------

#: Up to so many tokens the best projective tree is found, for more a star is taken where there is one.
FEW_TOKENS = 60

#: Up to so many tokens it is looked for where there is no star: its tables take 64 bytes for each pair of tokens.
MOST_TOKENS = 1000


class Arcs:
    """The arcs of one tree as matrices (head, dependent) over the tokens 0..n.

    Parameters
    ----------
    group : ConstraintGroup
    k : int
    scores : ConstraintScores

    Attributes
    ----------
    gain : ndarray of float64, shape (n + 1, n + 1)
        ``-inf`` where there is no arc, or none may be.
    literal : ndarray of int64, shape (n + 1, n + 1)
        The literal of each arc, -1 without one.
    """

    def __init__(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> None:
        part, self.n = group.literals(k), int(group.meta["n"][k])
        self.single, self.scores, gain = bool(group.meta["single_root"][k]), scores, scores.gain
        head, dependent = (group.literal_meta[name][part].astype(np.int64) for name in ("head", "dependent"))
        order = np.argsort(gain, kind="stable")  # of several literals of one arc the best is written last
        size = self.n + 1
        self.gain, self.literal = np.full((size, size), -np.inf), np.full((size, size), -1, dtype=np.int64)
        self.gain[head[order], dependent[order]], self.literal[head[order], dependent[order]] = gain[order], order
        np.fill_diagonal(self.gain, -np.inf)
        self.gain[:, 0] = -np.inf
        must = self.gain == np.inf
        self.gain[:, must.any(axis=0)] = -np.inf
        self.gain[must] = 0.0
        if self.single and must[0].any():
            self.gain[0, ~must[0]] = -np.inf

    def states(self, heads: I64 | None) -> I32 | None:
        """Return the states for a head of each token 1..n (the entry 0 means nothing)."""
        if heads is None:
            return None
        true = np.zeros(len(self.scores.place), dtype=bool)
        true[self.literal[heads[1:], np.arange(1, self.n + 1)]] = True
        return self.scores.labels(true)


def start_tree(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
    """Return states of a directed tree; ``None`` where there is none."""
    arcs = Arcs(group, k, scores)
    if not arcs.n:
        return scores.labels(np.zeros(len(scores.place), dtype=bool))
    best = arcs.gain.argmax(axis=0)
    if _is_tree(best, arcs.gain, arcs.single):
        return arcs.states(best)
    if not arcs.single:
        return arcs.states(_grown(arcs.gain, 0))
    for root in _roots(arcs.gain):
        heads = _grown(np.where(np.arange(arcs.n + 1)[:, None] == 0, -np.inf, arcs.gain), root)
        if heads is not None:
            heads[root] = 0
            return arcs.states(heads)
    return None


def _is_tree(heads: I64, gain: F64, single: bool) -> bool:
    """Whether heads lead to the root, along arcs that there are."""
    n = len(heads)
    if (gain[heads[1:], np.arange(1, n)] == -np.inf).any() or (single and (heads[1:] == 0).sum() != 1):
        return False
    ends, steps = heads.copy(), 1
    ends[0] = 0
    while steps < n:
        ends, steps = ends[ends], 2 * steps
    return not ends.any()


def _roots(gain: F64) -> list[int]:
    """Return a token that the root may have as its only dependent: one from which all others are reached.

    These are those of the one strong component that no arc enters.
    """
    with loading():
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

    inner = csr_array(gain[1:, 1:] > -np.inf)
    count, component = connected_components(inner, connection="strong")
    tail, head = inner.nonzero()
    entered = np.zeros(count, dtype=bool)
    entered[component[head[component[tail] != component[head]]]] = True
    sources = np.flatnonzero(~entered)
    if len(sources) != 1:
        return []
    able = 1 + np.flatnonzero((component == sources[0]) & (gain[0, 1:] > -np.inf))
    return able[np.argsort(-gain[0, able], kind="stable")][:1].tolist()


def _grown(gain: F64, root: int) -> I64 | None:
    """Return heads of the tree that grows from a root by the best arc to a new token each time; ``None`` if stuck."""
    n = len(gain)
    best, heads = gain[root].copy(), np.full(n, root, dtype=np.int64)
    best[root] = best[0] = -np.inf
    reached = np.zeros(n, dtype=bool)
    reached[root] = reached[0] = True
    for _ in range(n - int(reached.sum())):
        token = int(best.argmax())
        if best[token] == -np.inf:
            return None
        reached[token], best[token] = True, -np.inf
        better = ~reached & (gain[token] > best)
        best[better], heads[better] = gain[token][better], token
    return heads


def start_projective_tree(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
    """Return states of a projective tree; ``None`` where there is none."""
    arcs = Arcs(group, k, scores)
    if not arcs.n:
        return scores.labels(np.zeros(len(scores.place), dtype=bool))
    heads = _star(arcs) if arcs.n > FEW_TOKENS else None
    if heads is None and arcs.n > MOST_TOKENS:
        return None
    return arcs.states(_best_projective(arcs.gain, arcs.single) if heads is None else heads)


def _star(arcs: Arcs) -> I64 | None:
    """Return heads of the best star: all tokens hang on the root, or on its only dependent."""
    gain, n = arcs.gain, arcs.n
    if not arcs.single and (gain[0, 1:] > -np.inf).all():
        return np.zeros(n + 1, dtype=np.int64)
    inner = gain[1:, 1:].copy()
    np.fill_diagonal(inner, 0.0)
    total = inner.sum(axis=1) + gain[0, 1:]
    centre = 1 + int(total.argmax())
    if total[centre - 1] == -np.inf:
        return None
    heads = np.full(n + 1, centre, dtype=np.int64)
    heads[centre] = 0
    return heads


def _best_projective(gain: F64, single: bool) -> I64 | None:
    """Return heads of the best projective tree (Eisner, COLING 1996); ``None`` where there is none.

    Spans of one length are filled together.  ``part[d, whole, i, j]`` is the best score of the span i..j whose head is
    at its left (d = 1) or right end, with all dependents of the other end or with the arc between both alone.
    """
    size = len(gain)
    part = np.full((2, 2, size, size), -np.inf)
    split = np.zeros((2, 2, size, size), dtype=np.int64)
    part[:, 1, np.arange(size), np.arange(size)] = 0.0
    inner = gain.copy()
    if single:
        inner[0] = -np.inf  # its arc is added at the end
    for length in range(1, size):
        i = np.arange(size - length)
        j, middle = i + length, i[:, None] + np.arange(length)
        joined = part[1, 1, i[:, None], middle] + part[0, 1, middle + 1, j[:, None]]
        at = joined.argmax(axis=1)
        for d, arc in ((0, inner[j, i]), (1, inner[i, j])):
            part[d, 0, i, j], split[d, 0, i, j] = joined[i, at] + arc, i + at
        left = part[0, 1, i[:, None], middle] + part[0, 0, middle, j[:, None]]
        at = left.argmax(axis=1)
        part[0, 1, i, j], split[0, 1, i, j] = left[i, at], i + at
        right = part[1, 0, i[:, None], middle + 1] + part[1, 1, middle + 1, j[:, None]]
        at = right.argmax(axis=1)
        part[1, 1, i, j], split[1, 1, i, j] = right[i, at], i + 1 + at
    heads, last = np.zeros(size, dtype=np.int64), size - 1
    if not single:
        if part[1, 1, 0, last] == -np.inf:
            return None
        _read(heads, split, [(1, 1, 0, last)])
        return heads
    centre = np.arange(1, size)
    total = part[0, 1, 1, centre] + part[1, 1, centre, last] + gain[0, centre]
    best = 1 + int(total.argmax())
    if total[best - 1] == -np.inf:
        return None
    _read(heads, split, [(0, 1, 1, best), (1, 1, best, last)])
    return heads


def _read(heads: I64, split: I64, todo: list[tuple[int, int, int, int]]) -> None:
    """Write the heads of the tokens in spans."""
    while todo:
        d, whole, i, j = todo.pop()
        if i == j:
            continue
        at = int(split[d, whole, i, j])
        if not whole:
            heads[i if d == 0 else j] = j if d == 0 else i
            todo += [(1, 1, i, at), (0, 1, at + 1, j)]
        elif d == 0:
            todo += [(0, 1, i, at), (0, 0, at, j)]
        else:
            todo += [(1, 0, i, at), (1, 1, at, j)]
