"""Maximum spanning arborescences: Chu and Liu (1965), Edmonds (1967), on dense matrices in O(n^2).

A path of best incoming arcs is grown from a token backwards (Tarjan 1977, with the correction of Camerini, Fratta and
Maffioli 1979).  It reaches the root's tree and is done, or it closes a cycle, which becomes one node: ``k`` rows and
columns of the matrix become one, at cost O(k n), so that all contractions together cost O(n^2).

A single dependent of the root is exact, too, without a large penalty: arcs are compared by pairs (how many more
arcs from the root, score), first by the former.  Pairs add and subtract as numbers do, so the algorithm is the same; it
finds the tree of the best score among those with the fewest arcs from the root.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import njit

# -- Arcs of directed trees as matrices: literals in, heads out ------------------------------------------------------
#
# Token d (1..n) has one head h (0 is the artificial root); ``matrix[h, d]`` is the gain of the best literal for the
# arc, ``-inf`` where there is none.  An arc that has to be there rules out all other arcs to its dependent.


@njit(cache=True, nogil=True)
def arc_matrix(n: int, head: I32, dependent: I32, gain: F64, soft: bool, matrix: F64, literal: I32) -> bool:
    """Write the gains of arcs; return whether the literals that have to be true leave room for a tree.

    Parameters
    ----------
    n : int
        Number of tokens.
    head, dependent : ndarray of int32
        The arc of each literal.  Literals with an arc from a token to itself, or to the root, are never true.
    gain : ndarray of float64
        See :mod:`ssvm_backends.structures.literals`; changed: required literals get 0, excluded ones -inf.
    soft : bool
        Whether the gains of several literals for one arc are summed as exponentials (else the best one stands).
    matrix : ndarray of float64, shape (at least (n + 1)^2,)
        Written, row by head.
    literal : ndarray of int32, shape (at least (n + 1)^2,)
        Written: the literal of each arc (the best one), -1 without.
    """
    m = n + 1
    matrix[: m * m] = -np.inf
    literal[: m * m] = -1
    forced = np.full(m, -1, dtype=np.int32)
    for l in range(len(head)):
        if np.isnan(gain[l]):
            return False
        if gain[l] == np.inf:
            if dependent[l] == 0 or head[l] == dependent[l] or forced[dependent[l]] >= 0:
                return False
            forced[dependent[l]] = l
    for l in range(len(head)):
        d = dependent[l]
        if d == 0 or head[l] == d or (forced[d] >= 0 and forced[d] != l):
            gain[l] = -np.inf
            continue
        if forced[d] == l:
            gain[l] = 0.0
        at = head[l] * m + d
        if gain[l] > matrix[at]:
            literal[at] = l
        if soft:
            matrix[at] = np.logaddexp(matrix[at], gain[l])
        else:
            matrix[at] = max(matrix[at], gain[l])
    return True


@njit(cache=True, nogil=True)
def choose_arcs(n: int, heads: I32, literal: I32, chosen: Bools) -> None:
    """Write which literals are true in a tree.

    Parameters
    ----------
    n : int
        Number of tokens.
    heads : ndarray of int32, shape (at least n + 1,)
        The head of every token; entry 0 has no meaning.
    literal : ndarray of int32
        As written by :func:`arc_matrix`.
    chosen : ndarray of bool
        Written, one for each literal.
    """
    chosen[:] = False
    for d in range(1, n + 1):
        chosen[literal[heads[d] * (n + 1) + d]] = True


@njit(cache=True, nogil=True)
def better(extra: int, score: float, best_extra: int, best: float) -> bool:
    """Whether (extra, score) is better than another pair: fewer arcs from the root, then a higher score."""
    return score > -np.inf and (best == -np.inf or extra < best_extra or (extra == best_extra and score > best))


@njit(cache=True, nogil=True)
def contract(m: int, cycle: I64, matrix: F64, extra: I32, arc: I32, alive: I64, taken: F64, taken_extra: I32) -> None:
    """Make the nodes of a cycle one: its row and column are those of ``cycle[0]``.

    An arc to a node of the cycle replaces the one that the node has, whose score is taken off.

    Parameters
    ----------
    m : int
        Number of rows of the matrices.
    cycle : ndarray of int64
        The nodes.
    matrix : ndarray of float64, shape (m * m,)
        Scores of arcs between nodes, row by head; changed in place.
    extra : ndarray of int32, shape (m * m,)
        Arcs from the root that each of them adds; changed alike.
    arc : ndarray of int32, shape (m * m,)
        Which arc between tokens it is, ``h m + d``; changed alike.
    alive : ndarray of int64, shape (m,)
        1 for nodes; those of the cycle but the first one become 0.
    taken, taken_extra : ndarray, shape (m,)
        Score and count of the best incoming arc of each node of the cycle.
    """
    for c in cycle:
        alive[c] = 0
    r = cycle[0]
    for v in range(m):
        if alive[v] == 0:
            continue
        best, best_extra, from_arc = -np.inf, 0, -1
        out, out_extra, out_arc = -np.inf, 0, -1
        for c in cycle:
            score, more = matrix[v * m + c] - taken[c], extra[v * m + c] - taken_extra[c]
            if better(more, score, best_extra, best):
                best, best_extra, from_arc = score, more, arc[v * m + c]
            if better(extra[c * m + v], matrix[c * m + v], out_extra, out):
                out, out_extra, out_arc = matrix[c * m + v], extra[c * m + v], arc[c * m + v]
        matrix[v * m + r], extra[v * m + r], arc[v * m + r] = best, best_extra, from_arc
        matrix[r * m + v], extra[r * m + v], arc[r * m + v] = out, out_extra, out_arc
    alive[r] = 1


@njit(cache=True, nogil=True)
def best_arborescence(n: int, single: bool, matrix: F64, heads: I32) -> bool:
    """Write the heads of the best arborescence; return whether there is one.

    Parameters
    ----------
    n : int
        Number of tokens.
    single : bool
        Whether the root has a single dependent.
    matrix : ndarray of float64, shape (at least (n + 1)^2,)
        Scores of arcs, row by head, ``-inf`` where there is none; destroyed.
    heads : ndarray of int32, shape (at least n + 1,)
        Written.
    """
    m = n + 1
    extra, arc = np.zeros(m * m, dtype=np.int32), np.arange(m * m).astype(np.int32)
    if single:
        extra[:m] = 1
    alive, done, number = np.ones(m, dtype=np.int64), np.zeros(m, dtype=np.int64), np.arange(m)
    taken, taken_extra, place = np.zeros(m), np.zeros(m, dtype=np.int32), np.full(m, -1)
    above, incoming = np.full(2 * m, -1), np.full(2 * m, -1)  # the forest of contractions, and each node's arc
    path, n_nodes = np.empty(m, dtype=np.int64), m
    done[0] = 1
    for start in range(1, m):
        if alive[start] == 0 or done[start] == 1:
            continue
        length, v = 1, start
        path[0], place[v] = v, 0
        while True:
            best, best_extra, u = -np.inf, 0, -1
            for w in range(m):
                if alive[w] == 1 and w != v and better(extra[w * m + v], matrix[w * m + v], best_extra, best):
                    best, best_extra, u = matrix[w * m + v], extra[w * m + v], w
            if u < 0:
                return False
            incoming[number[v]], taken[v], taken_extra[v] = arc[u * m + v], best, best_extra
            if done[u] == 1:
                break
            if place[u] < 0:
                path[length], place[u] = u, length
                length, v = length + 1, u
                continue
            cycle = path[place[u] : length]
            for c in cycle:
                above[number[c]] = n_nodes
            contract(m, cycle, matrix, extra, arc, alive, taken, taken_extra)
            length, v, number[u] = place[u] + 1, u, n_nodes
            n_nodes += 1
        for k in range(length):
            done[path[k]] = 1
    expand(m, n_nodes, above, incoming, heads)
    return not single or n == 0 or (heads[1:m] == 0).sum() == 1


@njit(cache=True, nogil=True)
def expand(m: int, n_nodes: int, above: I64, incoming: I64, heads: I32) -> None:
    """Undo the contractions, the last one first: the arc of a node goes to the one of its parts that it leads to.

    Parameters
    ----------
    m : int
        Number of tokens and the root.
    n_nodes : int
        Number of nodes, contracted ones included.
    above : ndarray of int64
        The node that each was contracted into, -1 for none.
    incoming : ndarray of int64
        The arc that each node chose, ``h m + d``; changed.
    heads : ndarray of int32, shape (at least m,)
        Written.
    """
    for node in range(n_nodes - 1, m - 1, -1):
        part = incoming[node] % m
        while above[part] != node:
            part = above[part]
        incoming[part] = incoming[node]
    heads[0] = -1
    for d in range(1, m):
        heads[d] = incoming[d] // m
