"""``shortest-path``: best paths from a source to a target, by the order of nodes in O(arcs) on acyclic graphs.

Graphs with cycles are refused: a best path that meets no node twice is a hard problem there (``ilp`` takes it), unless
no cycle scores more than 0.  With ``cycles="improve"`` they are taken, and solved by the rounds of Bellman and Ford,
O(nodes arcs); an example whose scores have a cycle of positive score is refused when it is met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ssvm_backends.structures.literals import Batch, Literals, set_literals, write_gains
from ssvm_backends.structures.packing import (
    CALL,
    OF_LITERALS,
    begin_call,
    end_call,
    group_arrays,
    literals_in,
    structure_oracle,
)
from ssvm_backends.structures.session import StructureSession, verdict
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir import F64, I32, I64, Bools, Need, Program, pointers
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_record
from ssvm_dsl.plugin_api import CompiledOracle, Verdict

#: Operations for each arc.
ARC = 64.0

#: Results of an example: solved, no path, a cycle of positive score, cycles and required arcs.
SOLVED, NO_PATH, POSITIVE_CYCLE, FORCED_ON_CYCLES = 0, 1, 2, 3

#: Why an example is refused.
REASONS = {
    POSITIVE_CYCLE: "a cycle of positive score can be reached from the source",
    FORCED_ON_CYCLES: "arcs have to be on the path, and the graph has cycles",
}


class ShortestPath:
    """Best paths from a source to a target: O(arcs) on acyclic graphs, O(nodes arcs) on others (Bellman 1958)."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables, on acyclic graphs unless cycles are allowed."""
        if need.cyclic and need.options["cycles"] == "refuse":
            text = "takes graphs without cycles; with cycles=improve, those that have no cycle of positive score"
            return Verdict(False, reasons=(text,))
        return verdict(need, 1e3 + 20.0 * need.max_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> ShortestPathSession:
        """Return a session."""
        return ShortestPathSession(program)


class ShortestPathSession(StructureSession):
    """Paths of one program."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.paths = []
        for group, literals in zip(self.groups, self.literals, strict=True):
            tail, head = (group.literal_meta[name].astype(np.int32) for name in ("tail", "head"))
            n_nodes, source, target = (group.meta[name].astype(np.int64) for name in ("n_nodes", "source", "target"))
            first = pointers(n_nodes)
            rank = np.full(int(first[-1]), -1, dtype=np.int32)
            self.paths.append(Paths(tail, head, n_nodes, source, target, rank, first))
            all_ranks(literals, self.paths[-1])

    def choose(self, group: int, batch: Batch, excess: F64) -> None:
        """Write the best paths; see :class:`~ssvm_backends.structures.session.StructureSession`.

        Raises
        ------
        OptionError
            An example has a cycle of positive score.
        """
        state = np.zeros(len(batch.ids), dtype=np.int64)
        best_paths(self.literals[group], self.paths[group], batch, state)
        refused = np.flatnonzero(state >= POSITIVE_CYCLE)
        if len(refused):
            why, example = REASONS[int(state[refused[0]])], int(batch.ids[refused[0]])
            raise OptionError(f"shortest-path: example {example}: {why}; backend='ilp' takes such graphs")
        batch.feasible[:] &= state == SOLVED

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        arcs = sum(float(len(literals.variable)) for literals in self.literals)
        return structure_oracle(path_oracle, self, self.paths, CALL + ARC * arcs / max(self.program.n_examples, 1))


# --------------------------------------------------------------------------------------------------------------------
# Best paths: in topological order where there is no cycle, else by rounds over the arcs (Bellman and Ford).
#
# Scores of arcs are maximised.  On acyclic graphs a best path is found in one pass over nodes in topological order.  A
# literal that has to be true cuts the order in two: other arcs from before its head to behind its tail are out.
#
# On other graphs the best walks of at most n - 1 arcs are found by n - 1 rounds over the arcs (Bellman 1958; Ford
# 1956). Where a further round improves something, a cycle of positive score can be reached from the source, and best
# paths that meet no node twice are another, hard problem; the example is refused.  So is one with cycles and literals
# that have to be true.


class Paths(NamedTuple):
    """A group of constraints of the kind ``path``.

    Parameters
    ----------
    tail, head : ndarray of int32, shape (l,)
        The arc of each literal.
    n_nodes, source, target : ndarray of int64, shape (m,)
        Of each constraint.
    rank : ndarray of int32
        Place of each node in a topological order, -1 where there is none; packed over the constraints.
    first : ndarray of int64, shape (m + 1,)
        Where the nodes of each start.
    """

    tail: I32
    head: I32
    n_nodes: I64
    source: I64
    target: I64
    rank: I32
    first: I64


#: How kernels of others read the packed arrays of a :class:`Paths`, and how many there are.
paths_in, N_ARRAYS = packed_record(Paths), len(Paths._fields)


@njit(cache=True, nogil=True)
def topological_rank(n: int, tail: I32, head: I32, rank: I32) -> bool:
    """Write the place of each node in a topological order (loops aside); return whether there is one (Kahn 1962).

    Parameters
    ----------
    n : int
        Number of nodes.
    tail, head : ndarray of int32
        Arcs.
    rank : ndarray of int32, shape (n,)
        Written; -1 everywhere where there is a cycle.
    """
    degree, queue = np.zeros(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    start, out = np.zeros(n + 1, dtype=np.int64), np.empty(len(tail), dtype=np.int64)
    for l in range(len(tail)):
        if tail[l] != head[l]:
            degree[head[l]] += 1
        start[tail[l] + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    place = start.copy()
    for l in range(len(tail)):
        out[place[tail[l]]] = l
        place[tail[l]] += 1
    done, n_queued = 0, 0
    for v in range(n):
        if degree[v] == 0:
            queue[n_queued] = v
            n_queued += 1
    while done < n_queued:
        v = queue[done]
        rank[v] = done
        done += 1
        for k in range(start[v], start[v + 1]):
            w = head[out[k]]
            if w != v:
                degree[w] -= 1
                if degree[w] == 0:
                    queue[n_queued] = w
                    n_queued += 1
    if done < n:
        rank[:] = -1
    return done == n


@njit(cache=True, nogil=True)
def all_ranks(literals: Literals, paths: Paths) -> None:
    """Write the topological ranks of all constraints."""
    for k in range(len(paths.n_nodes)):
        lo, hi = literals.literal_ptr[k], literals.literal_ptr[k + 1]
        rank = paths.rank[paths.first[k] : paths.first[k + 1]]
        topological_rank(paths.n_nodes[k], paths.tail[lo:hi], paths.head[lo:hi], rank)


@njit(cache=True, nogil=True)
def rule_out(tail: I32, head: I32, rank: I32, gain: F64) -> int:
    """Rule out loops, and arcs that contradict required literals; return the result of the example.

    Parameters
    ----------
    tail, head : ndarray of int32
        The arc of each literal.
    rank : ndarray of int32
        Topological ranks of the nodes.
    gain : ndarray of float64
        See :mod:`ssvm_backends.structures.literals`; changed: required literals get gain 0.
    """
    for l in range(len(gain)):
        if np.isnan(gain[l]) or (gain[l] == np.inf and tail[l] == head[l]):
            return NO_PATH
        if gain[l] == np.inf and rank[tail[l]] < 0:
            return FORCED_ON_CYCLES
        if tail[l] == head[l]:
            gain[l] = -np.inf
    for l in range(len(gain)):
        if gain[l] == np.inf:
            low, high = rank[tail[l]], rank[head[l]]
            for k in range(len(gain)):
                if k != l and rank[head[k]] > low and rank[tail[k]] < high:
                    if gain[k] == np.inf:
                        return NO_PATH
                    gain[k] = -np.inf
    for l in range(len(gain)):
        if gain[l] == np.inf:
            gain[l] = 0.0
    return SOLVED


@njit(cache=True, nogil=True)
def best_path(paths: Paths, k: int, arcs: tuple[int, int], gain: F64, best: F64, last: I32, chosen: Bools) -> int:
    """Write the arcs of the best path of a constraint; return the result of the example.

    Parameters
    ----------
    paths : Paths
        Read only.
    k : int
        The constraint, of n nodes.
    arcs : (int, int)
        Its first literal, and the one after its last: l of them.
    gain : ndarray of float64, shape (l,)
        See :mod:`ssvm_backends.structures.literals`; changed.
    best : ndarray of float64, shape (n,)
        Work space: the best score of a path to each node.
    last : ndarray of int32, shape (n,)
        Work space: its last arc.
    chosen : ndarray of bool, shape (l,)
        Written.
    """
    tail, head = paths.tail[arcs[0] : arcs[1]], paths.head[arcs[0] : arcs[1]]
    rank, source, target = paths.rank[paths.first[k] : paths.first[k + 1]], paths.source[k], paths.target[k]
    n, acyclic = len(rank), rank[source] >= 0
    forced = gain == np.inf
    chosen[:] = False
    state = rule_out(tail, head, rank, gain)
    if state != SOLVED:
        return state
    if source == target:  # no arc
        return SOLVED if not forced.any() else NO_PATH
    best[:] = -np.inf
    last[:] = -1
    best[source] = 0.0
    order = np.argsort(rank[tail], kind="mergesort") if acyclic else np.arange(len(tail))
    for number in range(1 if acyclic else n):
        changed = False
        for l in order:
            score = best[tail[l]] + gain[l]
            # nothing leaves the target, nothing enters the source: a path meets them once
            if score > best[head[l]] and head[l] != source and tail[l] != target:
                best[head[l]], last[head[l]], changed = score, l, True
        if not changed:
            break
        if not acyclic and number == n - 1:
            return POSITIVE_CYCLE
    if best[target] == -np.inf:
        return NO_PATH
    v = target
    while v != source:
        chosen[last[v]] = True
        v = tail[last[v]]
    for l in range(len(forced)):  # the path may begin behind an arc, or end before it
        if forced[l] and not chosen[l]:
            return NO_PATH
    return SOLVED


@njit(cache=True, nogil=True)
def best_paths(literals: Literals, paths: Paths, batch: Batch, state: I64) -> None:
    """Write the labels of the best path of every constraint of some examples.

    Parameters
    ----------
    literals, paths
        Read only.
    batch : Batch
        ``feasible`` is left as it is.
    state : ndarray of int64, shape (n,)
        Written: the result of each example (the worst of its constraints).
    """
    literals, paths = borrow(literals), borrow(paths)
    node, ids, ptr, labels, _ = borrow(batch)
    for e in range(len(ids)):
        lo, state[e] = literals.var_ptr[ids[e]], SOLVED
        for k in range(literals.ptr[ids[e]], literals.ptr[ids[e] + 1]):
            first, stop, n = literals.literal_ptr[k], literals.literal_ptr[k + 1], paths.n_nodes[k]
            gain, chosen = np.empty(stop - first), np.empty(stop - first, dtype=np.bool_)
            write_gains(literals, node, lo, k, False, gain)
            last = np.empty(n, dtype=np.int32)
            outcome = best_path(paths, k, (first, stop), gain, np.empty(n), last, chosen)
            state[e] = max(state[e], outcome)
            if outcome == SOLVED:
                set_literals(literals, node, lo, k, chosen, labels[ptr[e] :])


@cfunc(SIGNATURE)
def path_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, ``nan`` where a cycle of positive score can be reached.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    state = np.zeros(1, np.int64)
    for first in group_arrays(longs, N_ARRAYS):
        paths = paths_in(call.ints, call.longs, first + OF_LITERALS)
        literals = literals_in(call.ints, call.longs, first)
        best_paths(literals, paths, call.batch, state)
        if state[0] >= POSITIVE_CYCLE:
            return np.nan
        call.batch.feasible[0] = call.batch.feasible[0] and state[0] == SOLVED
    return end_call(call)
