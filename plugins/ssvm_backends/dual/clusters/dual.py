"""``ClusterDual``: the dual of one example's local polytope with clusters of three edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ssvm_backends.dual.clusters.kernels import (
    ClusterGraph,
    ClusterState,
    cycle_gains,
    dual_bound,
    refresh,
    sweep,
)  # fmt: skip
from ssvm_backends.dual.clusters.search import frustrated_cycles, fundamental_cycles, short_cycles
from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_backends.graphs.graph import make_graph
from ssvm_backends.graphs.states import top_states
from ssvm_backends.local.search import improve_within, score_of
from ssvm_dsl.ir import F64, I32, I64, pointers
from ssvm_dsl.plugin_api import Clock, PlainExample

#: Seconds for each edge that it takes to lay the dual out, and after how many edges the clock is looked at.
EDGE_SECONDS, LOOK_EVERY = 3e-5, 1024

#: Entries of edges and clusters that sweeps look at between two checks of the clock, and steps around cycles.
CALL, CHUNK = 1e7, 2_000_000


@dataclass(eq=False)
class ClusterDual:
    """The dual of one example: edges with first variable below the second, clusters of three edges.

    Parameters
    ----------
    open : list of ndarray
        The states of each variable that are not ruled out.
    card : ndarray of int64, shape (n,)
        Their numbers.
    node : ndarray of float64
        Their scores.
    tables : dict of (int, int) to ndarray
        Scores of each edge.
    moved : dict of (int, int) to ndarray
        Initial messages: the amounts that each edge has added to the scores of its two variables.
    size : float
        Of the scores, for tolerances.
    """

    open: list[I64]
    card: I64
    node: F64
    tables: dict[tuple[int, int], F64]
    moved: dict[tuple[int, int], F64]
    size: float

    def __post_init__(self) -> None:
        self.clusters: list[tuple[int, int, int]] = []
        self.number: dict[tuple[int, int], int] = {}
        none, nothing, triples = np.zeros(1, np.int64), np.zeros(0), np.zeros((0, 3), np.int64)
        self.graph = ClusterGraph(
            np.zeros((0, 2), np.int64), self.card, pointers(self.card), none, none, triples, triples
        )
        work = np.zeros(4 * int(self.card.max(initial=1)) ** 2)
        self.score, self.state = nothing, ClusterState(self.node, nothing, nothing, nothing, work)
        self.n_given = len(self.tables)
        self._add_edges(list(self.tables))

    @classmethod
    def of(
        cls, example: PlainExample, messages: F64 | None = None, clock: Clock = UNLIMITED
    ) -> ClusterDual | None:
        """Return the dual of an example; ``None`` where there is no labelling.

        Joint states that are ruled out score so little that no labelling with one is best, if there is another: the
        bound stays one.

        Parameters
        ----------
        example : PlainExample
            Its factors have two variables.
        messages : ndarray of float64, optional
            Those of each factor to its first and to its second variable, a number for each state.
        clock : Clock

        Raises
        ------
        OutOfTime
        """
        clock.afford(EDGE_SECONDS * len(example.factors))
        states = [np.flatnonzero(scores > -np.inf) for scores in example.node]
        if any(not len(one) for one in states):
            return None
        node = [scores[one] for scores, one in zip(example.node, states, strict=True)]
        tables: dict[tuple[int, int], F64] = {}
        moved: dict[tuple[int, int], F64] = {}
        at = 0
        for number, (scope, table) in enumerate(example.factors):
            if number % LOOK_EVERY == 0:
                clock.afford(0.0)
            i, j = int(scope[0]), int(scope[1])
            part, mine = table[np.ix_(states[i], states[j])], []
            for k, n in zip((i, j), table.shape, strict=True):
                mine.append(np.zeros(len(states[k])) if messages is None else messages[at : at + n][states[k]])
                at += n
            if i > j:
                i, j, part, mine = j, i, part.T, mine[::-1]
            tables[i, j] = tables[i, j] + part if (i, j) in tables else np.array(part)
            moved[i, j] = np.concatenate(mine) + moved.get((i, j), 0.0)
        if any(not np.isfinite(table).any() for table in tables.values()):
            return None
        blocks = [*node, *(table[np.isfinite(table)] for table in tables.values())]
        span = sum(float(np.ptp(block)) for block in blocks)
        size = max(1.0, max((float(np.abs(block).max()) for block in blocks), default=0.0))
        for table in tables.values():
            table[~np.isfinite(table)] = table[np.isfinite(table)].max() - 2.0 * span - size
        card = np.array([len(one) for one in states], dtype=np.int64)
        return cls(states, card, np.concatenate([np.zeros(0), *node]), tables, moved, size)

    def states(self, labels: I32) -> I32:
        """Return labels among open states as states of the variables."""
        return np.array([one[k] for one, k in zip(self.open, labels.tolist(), strict=True)], dtype=np.int32)

    def labels(self) -> I32:
        """Return the best states by reparametrised score, improved one variable at a time."""
        labels = top_states(self.state.node, self.card).astype(np.int32)
        improve_within(self.plain, self.node, self.score, 0, labels, UNLIMITED, pairs=False)
        return labels

    def score_of(self, labels: I32) -> float:
        """Return the score of labels; where one is ruled out, less than any that is not."""
        return float(score_of(self.plain, self.node, self.score, 0, labels))

    def bound(self) -> float:
        """Return the bound of the messages, from recomputed scores: rounding errors do not add up."""
        refresh(self.graph, self.node, self.score, self.state)
        return float(dual_bound(self.graph, self.state))

    def sweep(self, n: int, clock: Clock = UNLIMITED) -> None:
        """Update all edges and clusters n times; less often where time is up."""
        entries = len(self.state.edge) + len(self.state.share) * int(self.card.max(initial=1))
        at_a_time = 2 * max(1, int(CALL / (2.0 * max(entries, 1))))  # each call begins forwards: an even number
        while n > 0 and not clock.over:
            sweep(self.graph, self.state, min(n, at_a_time))
            n -= at_a_time

    def cycles(self, least: float, clock: Clock = UNLIMITED) -> tuple[list[tuple[int, ...]], F64]:
        """Return cycles that may lower the bound by more than ``least``, and the certain fall by a cluster of each.

        Those that are found by the time that the clock is over.
        """
        cycles = short_cycles(list(self.number), len(self.card), set(self.clusters), clock)
        cycles += frustrated_cycles(self.graph.ends, self.card, self.graph.edge_at, self.state.edge, least, clock)
        if (self.card > 2).any() and not clock.over:
            root = len(self.clusters) % len(self.card)
            trees = fundamental_cycles(self.graph.ends[: self.n_given], len(self.card), root, clock)
            cycles = list(dict.fromkeys(cycles + trees))
        gains: list[F64] = [np.zeros(0)]
        for part in self._chunks(cycles):
            if clock.over:
                break
            gains.append(self._gains(part))
        known = np.concatenate(gains)
        return cycles[: len(known)], known

    def _chunks(self, cycles: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
        """Yield cycles, so many at a time that their gains take some milliseconds."""
        sizes = np.array([len(cycle) for cycle in cycles], dtype=np.int64) * int(self.card.max(initial=1)) ** 3
        number = np.cumsum(sizes) // CHUNK
        cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(cycles)]
        return (cycles[lo:hi] for lo, hi in pairwise(cuts) if lo < hi)

    def _gains(self, cycles: list[tuple[int, ...]]) -> F64:
        """Return the certain fall of the bound by a cluster of each cycle."""
        ptr = pointers(np.array([len(cycle) for cycle in cycles], dtype=np.int64))
        along = [self.number[min(u, v), max(u, v)] for c in cycles for u, v in pairwise([*c, c[0]])]
        path = np.array([v for cycle in cycles for v in cycle], dtype=np.int64)
        edges = np.array(along, dtype=np.int64)
        return cycle_gains(ptr, path, edges, self.graph, self.state)

    def add(self, most: int, least: float, clock: Clock = UNLIMITED) -> bool:
        """Add clusters of cycles that lower the bound by more than ``least``, best first; return whether any did.

        A cycle of more than three variables is as many triangles as it takes, all with its first one; chords score 0.
        """
        cycles, gains = self.cycles(least, clock)
        each = gains / np.array([len(cycle) - 2.0 for cycle in cycles])
        known = set(self.clusters)
        new: dict[tuple[int, int, int], None] = {}
        for k in np.argsort(-each, kind="stable").tolist():
            if len(new) >= most:
                break
            if gains[k] <= least:
                continue
            first, *others = cycles[k]
            for u, v in pairwise(others):
                a, b, c = sorted((first, u, v))
                if (a, b, c) not in known:
                    new[a, b, c] = None
        chords = {pair for a, b, c in new for pair in ((a, b), (a, c), (b, c)) if pair not in self.number}
        for i, j in chords:
            self.tables[i, j] = np.zeros((self.card[i], self.card[j]))
            self.moved[i, j] = np.zeros(self.card[i] + self.card[j])
        self._add_edges(sorted(chords))
        self._add_clusters(list(new))
        return bool(new)

    def _add_edges(self, pairs: list[tuple[int, int]]) -> None:
        for pair in pairs:
            self.number[pair] = len(self.number)
        ends = np.concatenate([self.graph.ends, np.array(pairs, dtype=np.int64).reshape(-1, 2)])
        sizes = self.card[ends]
        edge_at, lam_at = pointers(sizes[:, 0] * sizes[:, 1]), pointers(sizes.sum(axis=1))
        self.graph = self.graph._replace(ends=ends, edge_at=edge_at, lam_at=lam_at)
        self.score = np.concatenate([self.score, *(self.tables[pair].ravel() for pair in pairs)])
        lam = np.concatenate([self.state.lam, *(self.moved[pair] for pair in pairs)])
        self.state = self.state._replace(node=self.node.copy(), edge=self.score.copy(), lam=lam)
        whole, slots = np.array([0, len(self.card)]), 2 * np.arange(len(ends) + 1)
        scope, card = ends.ravel().astype(np.int32), self.card.astype(np.int32)
        self.plain = make_graph(whole, card, np.array([0, len(ends)]), slots, scope)
        self.bound()

    def _add_clusters(self, new: list[tuple[int, int, int]]) -> None:
        self.clusters += new
        edges = [(self.number[a, b], self.number[a, c], self.number[b, c]) for a, b, c in self.clusters]
        of_clusters = np.array(edges, dtype=np.int64).reshape(-1, 3)
        at = pointers(np.diff(self.graph.edge_at)[of_clusters].ravel())
        self.graph = self.graph._replace(edges=of_clusters, share_at=at[:-1].reshape(-1, 3))
        share = np.concatenate([self.state.share, np.zeros(int(at[-1]) - len(self.state.share))])
        self.state = self.state._replace(share=share)
