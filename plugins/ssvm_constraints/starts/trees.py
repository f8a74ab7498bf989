"""Directed trees from the root, grown arc by arc; projective ones as stars, or by dynamic programming."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, ConstraintGroup
from ssvm_dsl.plugin_api import ConstraintScores, loading

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


def tree(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
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
    count, of = connected_components(inner, connection="strong")
    tail, head = inner.nonzero()
    entered = np.zeros(count, dtype=bool)
    entered[of[head[of[tail] != of[head]]]] = True
    sources = np.flatnonzero(~entered)
    if len(sources) != 1:
        return []
    able = 1 + np.flatnonzero((of == sources[0]) & (gain[0, 1:] > -np.inf))
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


def projective_tree(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
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
