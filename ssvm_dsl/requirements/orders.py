"""Greedy elimination orders of many graphs at once, by compiled kernels.

Graphs of up to ``MAX_MIN_FILL`` variables are ordered by two or three rules
(:mod:`ssvm_dsl.kernels.elimination_orders`), larger
ones by the size of the next table alone (:mod:`ssvm_dsl.kernels.elimination_orders`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.deadline import pause
from ssvm_dsl.ir.ragged import owners, pointers

if TYPE_CHECKING:
    from ssvm_dsl.kernels.elimination_orders import Structures

#: Base-2 logarithm of the table size at which a search for an order gives up.
GIVE_UP = 40.0

#: More variables than this are ordered by table size alone, which needs less memory and time.
MAX_MIN_FILL = 5000

#: Between two looks at the clock: neighbours in a large graph, and words of bits of others (some 10 to 50 ms).
_AT_A_TIME, _WORDS_AT_A_TIME = 10_000_000, 10_000_000

#: Seconds that it takes to find the neighbours of all variables, for each slot of a factor.
_ADJACENCY = 150e-9

#: Base-2 logarithm of the table size from which on the order from end to end is tried as well.
_HARD = 14.0


@dataclass(frozen=True, eq=False)
class Elimination:
    """An order in which to eliminate the variables of one example, and what that costs.

    Parameters
    ----------
    order : ndarray of int32, shape (n,)
        Variables (numbers within the example), first to be eliminated first.
    width : int
        Variables of the largest table minus one (the width of the order, at least the treewidth).
    log2_largest : float
        Base-2 logarithm of the number of entries of the largest table.
    log2_total : float
        The same for all tables together.
    complete : bool
        False when the search gave up; the sizes are then those of the tables met so far.
    """

    order: I32
    width: int
    log2_largest: float
    log2_total: float
    complete: bool

    @property
    def cost(self) -> tuple[bool, float]:
        """The criterion: time depends on all tables, memory on the largest."""
        return not self.complete, self.log2_total + self.log2_largest


def structure_parts(key: bytes) -> tuple[I32, I64, I32]:
    """Return (states, slots of each factor, scopes) of the graph that a key describes."""
    numbers = np.frombuffer(key, dtype=np.int32)
    n, m = int(numbers[0]), int(numbers[1])
    return numbers[2 : 2 + n], pointers(numbers[2 + n : 2 + n + m]), numbers[2 + n + m :]


def find_orders(keys: Sequence[bytes]) -> list[Elimination]:
    """Return the better of the greedy eliminations of each graph.

    Parameters
    ----------
    keys : sequence of bytes
        See :func:`~ssvm_dsl.requirements.treewidth.structure_keys`.
    """
    from ssvm_dsl.kernels.elimination_orders import BY_RANK, MIN_FILL, MIN_WEIGHT, Structures

    sizes = [np.frombuffer(key, dtype=np.int32, count=1)[0] for key in keys]
    small = [k for k, n in enumerate(sizes) if n <= MAX_MIN_FILL]
    found = {k: _lightest_first(*structure_parts(keys[k])) for k, n in enumerate(sizes) if n > MAX_MIN_FILL}
    numbers = np.frombuffer(b"".join(keys[k] for k in small), dtype=np.int32)
    at = pointers(np.array([len(keys[k]) // 4 for k in small], dtype=np.int64))[:-1]
    first = pointers(numbers[at])
    rank = np.zeros(0)
    for rule in (MIN_FILL, MIN_WEIGHT, BY_RANK):
        tried = [i for i, k in enumerate(small) if _worth_trying(rule, found.get(k))]
        if not tried:
            break
        if rule == BY_RANK:
            rank = np.zeros(int(first[-1]))
            for i in tried:
                rank[first[i] : first[i + 1]] = _end_to_end(*structure_parts(keys[small[i]]))
        those = Structures(numbers, at[tried], first[tried])
        for i, one in zip(tried, _greedy(those, rule, rank), strict=True):
            known = found.get(small[i])
            found[small[i]] = one if known is None or one.cost < known.cost else known
    return [found[k] for k in range(len(keys))]


def _worth_trying(rule: int, best: Elimination | None) -> bool:
    """Return whether a rule may improve on what the rules before it have found."""
    from ssvm_dsl.kernels.elimination_orders import BY_RANK

    if best is None:
        return True
    return best.log2_largest > _HARD if rule == BY_RANK else best.width > 1


def _greedy(structures: Structures, rule: int, rank: F64) -> list[Elimination]:
    """Return the elimination of each graph by one rule."""
    from ssvm_dsl.kernels.elimination_orders import GRAPH, OrderRule, Orders, Space, order_graphs

    n = structures.numbers[structures.at].astype(np.int64)
    most, words = int(n.max(initial=0)), int((n.max(initial=0) + 63) >> 6)
    ints, floats = np.empty((3, most), dtype=np.int64), np.empty((3, most))
    sets = np.empty((2, words), dtype=np.int64)
    space = Space(np.empty(most * words, dtype=np.int64), *sets, *floats, *ints)
    counts, sizes = np.zeros((2, len(n)), dtype=np.int64), np.zeros((2, len(n)))
    end = int((structures.first + n).max(initial=0))
    found = Orders(np.empty(end, dtype=np.int32), *counts, *sizes)
    cursor, how = np.zeros(3, dtype=np.int64), OrderRule(rule, rank, GIVE_UP)
    while cursor[GRAPH] < len(n):
        pause()
        order_graphs(structures, how, space, found, cursor, _WORDS_AT_A_TIME)
    each = (a.tolist() for a in (structures.first, n, found.done, found.width, found.largest, found.total))
    return [
        elimination(found.order[at : at + done].copy(), size, width, largest, total)
        for at, size, done, width, largest, total in zip(*each, strict=True)
    ]


def elimination(order: I32, n: int, width: int, largest: float, total: float) -> Elimination:
    """Return the elimination of a graph of n variables.

    Parameters
    ----------
    order : ndarray of int32
    n, width : int
    largest : float
        Base-2 logarithm of the entries of the largest table.
    total : float
        Entries of all tables.
    """
    complete = len(order) == n and largest <= GIVE_UP
    return Elimination(order, width, largest, math.log2(total) if total else 0.0, complete)


def _end_to_end(card: I32, slot_ptr: I64, scope: I32) -> F64:
    """Return the place of each variable when the graph is walked through from one end (Cuthill and McKee 1969)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    n = len(card)
    rows = csr_array((np.ones(len(scope)), scope, slot_ptr), shape=(len(slot_ptr) - 1, n))
    rank = np.empty(n)
    rank[reverse_cuthill_mckee((rows.T @ rows).tocsr(), symmetric_mode=True)] = np.arange(n)
    return rank


def _lightest_first(card: I32, slot_ptr: I64, scope: I32) -> Elimination:
    """Eliminate the variable of the smallest table again and again: min-weight for large sparse graphs."""
    from ssvm_dsl.kernels.elimination_orders import (
        DONE,
        LARGEST,
        LEFT,
        TOP,
        TOTAL,
        WIDTH,
        Adjacency,
        EliminatedSoFar,
        LightestHeap,
        build_heap,
        eliminate_lightest,
    )

    n, bits = len(card), np.log2(np.maximum(card, 1))
    ptr, pool = _adjacency(card, slot_ptr, scope)
    start, length = ptr[:-1].copy(), np.diff(ptr)
    weight: F64 = bits + np.bincount(np.repeat(np.arange(n), length), bits[pool], n)
    heap, place = np.arange(n, dtype=np.int64), np.arange(n, dtype=np.int64)
    build_heap(heap, place, weight)
    counts, sizes, order = np.zeros(5, dtype=np.int64), np.zeros(2), np.empty(n, dtype=np.int32)
    counts[LEFT], counts[TOP] = n, len(pool)
    graph = Adjacency(bits, start, length, length.copy(), np.full(n, -1, dtype=np.int64))
    lightest, eliminated = LightestHeap(heap, place, weight), EliminatedSoFar(order, counts, sizes)
    while counts[LEFT]:
        pause()
        pool = eliminate_lightest(graph, pool, lightest, eliminated, GIVE_UP, _AT_A_TIME)
    done = int(counts[DONE])
    return elimination(order[:done].copy(), n, int(counts[WIDTH]), float(sizes[LARGEST]), float(sizes[TOTAL]))


def _adjacency(card: I32, slot_ptr: I64, scope: I32) -> tuple[I64, I32]:
    """Return (pointers, the neighbours of each variable); variables of one state have none."""
    from scipy.sparse import csr_array

    pause(_ADJACENCY * len(scope))
    owner = np.repeat(np.arange(len(slot_ptr) - 1), np.diff(slot_ptr))
    free = card[scope] > 1
    shape = len(slot_ptr) - 1, len(card)
    rows = csr_array((np.ones(int(free.sum()), dtype=np.int32), (owner[free], scope[free])), shape=shape)
    pairs = (rows.T @ rows).tocsr()
    pairs.sort_indices()
    one = owners(pairs.indptr)
    apart = pairs.indices != one
    return pointers(np.bincount(one[apart], minlength=len(card))), pairs.indices[apart].astype(np.int32)
