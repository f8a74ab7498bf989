"""How far a graph is from a tree: elimination orders and the tables that exact elimination needs.

Eliminating a variable joins its neighbours to a clique and costs a table over the variable and those neighbours.
The order decides how large the largest table becomes; the best order is hard to find (Arnborg et al. 1987), greedy
ones are good in practice: *min-fill* takes the variable whose neighbours lack the fewest edges among them,
*min-weight* the one with the smallest table (Koller and Friedman 2009, section 9.4.3).  Both are tried here, and
for hard graphs the order that walks from one end to the other (right for long narrow grids); the one with the
smallest tables is kept.  What is reported is an upper bound that the order given attains.

networkx has both greedy rules, for graphs without numbers of states and without the order from end to end.  Measured
against it (CPU seconds, width): a grid of 40 x 40 takes 0.44 s, width 40, here and 3.5 s, width 58, there; a random
3-regular graph of 200 nodes 0.03 s against 0.05 s, width 33 both; a tree of 2000 nodes 0.08 s against 0.42 s.

Sizes are logarithms to base 2 of numbers of table entries.  A search stops as soon as a table of more than
``2**GIVE_UP`` entries is met: nobody can hold it, and large dense graphs are refused at once.

Only the structure of an example matters, so orders are remembered by structure: a batch of identical graphs is
looked at once.  Neighbourhoods are bit sets in Python integers, which makes counting missing edges a few operations
on whole machine words; graphs of more than ``MAX_MIN_FILL`` variables are ordered by min-weight alone, compiled
(:mod:`ssvm_dsl.kernels.min_weight`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import owners, pointers, runs
from ssvm_dsl.pausing import pause

#: Base-2 logarithm of the table size at which a search for an order gives up.
GIVE_UP = 40.0

#: More variables than this are ordered by table size alone, which needs less memory and time.
MAX_MIN_FILL = 5000

#: Sets of more members than ``_MANY`` are listed by numpy; priorities may lag by one neighbour in ``_PATIENCE``.
_MANY, _PATIENCE = 64, 16

#: Variables of a large graph that are eliminated between two looks at the clock.
_AT_A_TIME = 10_000

#: Base-2 logarithm of the table size from which on the order from end to end is tried as well.
_HARD = 14.0

#: Orders for structures are remembered, the latest so many.
_REMEMBERED = 256


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


def largest_table(program: Program, examples: I64 | None = None) -> float:
    """Return the base-2 logarithm of the largest table that exact elimination needs for any of the examples.

    0 without examples; at least :data:`GIVE_UP` means that the search gave up there.  The answer for the
    whole program is remembered with the program.

    Parameters
    ----------
    program : Program
        Variables with a single allowed state count as known.
    examples : ndarray of int64, optional
        All by default.
    """
    if examples is None:
        if program not in _known:
            _known[program] = max((one.log2_largest for one in eliminations(program)), default=0.0)
        return _known[program]
    return max((one.log2_largest for one in eliminations(program, examples)), default=0.0)


_known: WeakKeyDictionary[Program, float] = WeakKeyDictionary()


def eliminations(program: Program, examples: I64 | None = None) -> list[Elimination]:
    """Return the elimination of each example (of all for ``None``); identical graphs share one object."""
    few = program.representatives
    if program.allowed is None and few is not program:
        known = eliminations(few)
        return [known[k] for k in (program.shape if examples is None else program.shape[examples]).tolist()]
    card = program.card
    if program.allowed is not None:
        open_states = np.add.reduceat(program.allowed, program.state_ptr[:-1]) if len(card) else card
        card = np.maximum(open_states, 1).astype(np.int32)
    keys = structure_keys(program.var_ptr, card, *_factors(program))
    chosen = range(program.n_examples) if examples is None else examples.tolist()
    return [width_order(keys[e]) for e in chosen]


def _factors(program: Program) -> tuple[I64, I64, I32]:
    """Return (factors of each example, slots of each factor, scopes), factors sorted by example."""
    groups = [group for group in program.groups if group.n_factors]
    if not groups:
        return np.zeros(program.n_examples + 1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32)
    owner = np.concatenate([owners(group.ptr) for group in groups])
    arity = np.concatenate([np.full(group.n_factors, group.arity, dtype=np.int64) for group in groups])
    flat = np.concatenate([group.shapes.variables().ravel() for group in groups])
    by_example = np.argsort(owner, kind="stable")
    slots = runs(pointers(arity)[:-1][by_example], arity[by_example])
    factor_ptr = pointers(np.bincount(owner, minlength=program.n_examples))
    return factor_ptr, pointers(arity[by_example]), flat[slots].astype(np.int32)


def structure_keys(var_ptr: I64, card: I32, factor_ptr: I64, slot_ptr: I64, scope: I32) -> list[bytes]:
    """Return for each example a key that says everything about its graph; equal keys, equal graphs.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (B + 1,)
        Variables of each example.
    card : ndarray of int32, shape (V,)
    factor_ptr : ndarray of int64, shape (B + 1,)
        Factors of each example.
    slot_ptr : ndarray of int64, shape (F + 1,)
        Slots of each factor.
    scope : ndarray of int32, shape (K,)
        The variable of each slot (global number).
    """
    n_examples = len(var_ptr) - 1
    arity = np.diff(slot_ptr).astype(np.int32)
    example_slots = slot_ptr[factor_ptr]
    local = (scope - np.repeat(var_ptr[:-1], np.diff(example_slots))).astype(np.int32)
    keys = []
    for e in range(n_examples):
        cards = card[var_ptr[e] : var_ptr[e + 1]]
        arities = arity[factor_ptr[e] : factor_ptr[e + 1]]
        head = np.array([len(cards), len(arities)], dtype=np.int32)
        scopes = local[example_slots[e] : example_slots[e + 1]]
        keys.append(b"".join([head.tobytes(), cards.tobytes(), arities.tobytes(), scopes.tobytes()]))
    return keys


@lru_cache(maxsize=_REMEMBERED)
def width_order(key: bytes) -> Elimination:
    """Return a good elimination of the graph that a key of :func:`structure_keys` describes (remembered)."""
    numbers = np.frombuffer(key, dtype=np.int32)
    n, m = int(numbers[0]), int(numbers[1])
    card, arity, flat = numbers[2 : 2 + n], numbers[2 + n : 2 + n + m], numbers[2 + n + m :]
    return eliminate(card, pointers(arity), flat)


def eliminate(card: I32, slot_ptr: I64, scope: I32) -> Elimination:
    """Return the better of the greedy eliminations of one graph.

    Parameters
    ----------
    card : ndarray of int32, shape (n,)
        Number of states of each variable; those with one state take no part.
    slot_ptr : ndarray of int64, shape (m + 1,)
    scope : ndarray of int32
        The variables ``scope[slot_ptr[f]:slot_ptr[f + 1]]`` of factor f share an edge each.
    """
    if len(card) > MAX_MIN_FILL:
        return _lightest_first(card, slot_ptr, scope)
    bits = np.log2(np.maximum(card, 1)).tolist()
    neighbours = _neighbours(card, slot_ptr, scope)
    found = [_greedy(neighbours, bits, _min_fill)]
    if found[0].width > 1:
        found.append(_greedy(neighbours, bits, _min_weight))
    if min(one.log2_largest for one in found) > _HARD:
        rank = _end_to_end(slot_ptr, scope, len(card))
        found.append(_greedy(neighbours, bits, lambda around, bits, v: (rank[v], 0.0)))
    # time goes with all tables, memory with the largest
    return min(found, key=lambda one: (not one.complete, one.log2_total + one.log2_largest))


def _end_to_end(slot_ptr: I64, scope: I32, n: int) -> list[float]:
    """Return the place of each variable when the graph is walked through from one end (Cuthill and McKee 1969)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    rows = csr_array((np.ones(len(scope)), scope, slot_ptr), shape=(len(slot_ptr) - 1, n))
    order = reverse_cuthill_mckee((rows.T @ rows).tocsr(), symmetric_mode=True)
    rank = np.empty(n)
    rank[order] = np.arange(n)
    return rank.tolist()


def _scopes(card: I32, slot_ptr: I64, scope: I32) -> Iterator[list[int]]:
    """Yield the distinct variables of each factor, without those of one state."""
    free = (card > 1).tolist()
    flat, ptr = scope.tolist(), slot_ptr.tolist()
    for f in range(len(ptr) - 1):
        pause()
        yield [v for v in flat[ptr[f] : ptr[f + 1]] if free[v]]


def _neighbours(card: I32, slot_ptr: I64, scope: I32) -> list[int]:
    """Return the neighbours of each variable as a bit set."""
    sets = [0] * len(card)
    for members in _scopes(card, slot_ptr, scope):
        together = 0
        for v in members:
            together |= 1 << v
        for v in members:
            sets[v] |= together
    return [one & ~(1 << v) for v, one in enumerate(sets)]


def _members(bitset: int) -> list[int]:
    """Return the numbers in a bit set, ascending."""
    if bitset.bit_count() > _MANY:
        octets = np.frombuffer(bitset.to_bytes(bitset.bit_length() // 8 + 1, "little"), dtype=np.uint8)
        return np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist()
    out = []
    while bitset:
        low = bitset & -bitset
        out.append(low.bit_length() - 1)
        bitset ^= low
    return out


Priority = Callable[[list[int], list[float], int], tuple[float, float]]


def _min_fill(neighbours: list[int], bits: list[float], v: int) -> tuple[float, float]:
    """Return (edges that eliminating v adds, its table size in bits)."""
    mine = neighbours[v]
    around = _members(mine)
    missing = sum((mine & ~neighbours[u]).bit_count() - 1 for u in around)
    return missing / 2, bits[v] + sum(bits[u] for u in around)


def _min_weight(neighbours: list[int], bits: list[float], v: int) -> tuple[float, float]:
    """Return (its table size in bits, 0)."""
    return bits[v] + sum(bits[u] for u in _members(neighbours[v])), 0.0


class _Tally:
    """What an elimination costs so far."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.width, self.largest, self.total = 0, 0.0, 0.0

    def add(self, v: int, n_around: int, size: float) -> bool:
        """Count one variable; return whether to go on."""
        pause()
        self.order.append(v)
        self.width, self.largest = max(self.width, n_around), max(self.largest, size)
        self.total += 2.0 ** min(size, 512.0)
        return self.largest <= GIVE_UP

    def result(self, n: int) -> Elimination:
        """Return the elimination of a graph of n variables."""
        order = np.array(self.order, dtype=np.int32)
        log2_total = math.log2(self.total) if self.total else 0.0
        return Elimination(order, self.width, self.largest, log2_total, len(order) == n and self.largest <= GIVE_UP)


def _greedy(neighbours: list[int], bits: list[float], priority: Priority) -> Elimination:
    """Eliminate the variable of least priority again and again; ties go to the smaller number.

    A heap holds (priority, variable); entries that are out of date are recognised by their priority.  The
    priority of a variable with many neighbours is computed anew only when many of them changed.
    """
    around, n, tally = list(neighbours), len(neighbours), _Tally()
    now = [_first_priority(priority, around, bits, v) for v in range(n)]
    heap = [(now[v], v) for v in range(n)]
    heapq.heapify(heap)
    gone, changes = [False] * n, [0] * n
    while heap:
        at, v = heapq.heappop(heap)
        if gone[v] or at != now[v]:
            continue
        if changes[v]:
            changes[v], now[v] = 0, priority(around, bits, v)
            heapq.heappush(heap, (now[v], v))
            continue
        gone[v] = True
        members = _members(around[v])
        if not tally.add(v, len(members), bits[v] + sum(bits[u] for u in members)):
            break
        for u in _members(_connect(around, v, members, priority is _min_fill)):
            changes[u] += 1
            if changes[u] * _PATIENCE > around[u].bit_count():
                changes[u], fresh = 0, priority(around, bits, u)
                if fresh != now[u]:
                    now[u] = fresh
                    heapq.heappush(heap, (fresh, u))
    return tally.result(n)


def _first_priority(priority: Priority, around: list[int], bits: list[float], v: int) -> tuple[float, float]:
    pause()
    return priority(around, bits, v)


def _connect(around: list[int], v: int, members: list[int], by_fill: bool) -> int:
    """Take v out and join its neighbours; return the bit set of variables whose priority may have changed."""
    clique, me = around[v], 1 << v
    changed = clique
    for u in members:
        mine = around[u] & ~me
        added = clique & ~mine & ~(1 << u)
        if added and by_fill:  # who sees both ends of a new edge lacks one edge less
            for w in _members(added):
                changed |= mine & around[w]
        around[u] = mine | added
    return changed & ~me


def _lightest_first(card: I32, slot_ptr: I64, scope: I32) -> Elimination:
    """Eliminate the variable of the smallest table again and again: min-weight for large sparse graphs."""
    from ssvm_dsl.kernels.min_weight import DONE, LARGEST, LEFT, TOP, TOTAL, WIDTH, build_heap, eliminate_lightest

    n, bits = len(card), np.log2(np.maximum(card, 1))
    ptr, pool = _adjacency(card, slot_ptr, scope)
    start, length = ptr[:-1].copy(), np.diff(ptr)
    weight = bits + np.bincount(np.repeat(np.arange(n), length), bits[pool], n)
    heap, place = np.arange(n, dtype=np.int64), np.arange(n, dtype=np.int64)
    build_heap(heap, place, weight)
    counts, sizes, room = np.zeros(5, dtype=np.int64), np.zeros(2), length.copy()
    counts[LEFT], counts[TOP] = n, len(pool)
    order, mark = np.empty(n, dtype=np.int32), np.full(n, -1, dtype=np.int64)
    while counts[LEFT]:
        pause()
        pool = eliminate_lightest(
            bits, start, length, room, pool, weight, heap, place, mark, order, counts, sizes, GIVE_UP, _AT_A_TIME
        )
    largest, total = float(sizes[LARGEST]), float(sizes[TOTAL])
    done = int(counts[DONE])
    complete = done == n and largest <= GIVE_UP
    return Elimination(order[:done], int(counts[WIDTH]), largest, math.log2(total) if total else 0.0, complete)


def _adjacency(card: I32, slot_ptr: I64, scope: I32) -> tuple[I64, I32]:
    """Return (pointers, the neighbours of each variable); variables of one state have none."""
    from scipy.sparse import csr_array

    owner = np.repeat(np.arange(len(slot_ptr) - 1), np.diff(slot_ptr))
    free = card[scope] > 1
    shape = len(slot_ptr) - 1, len(card)
    rows = csr_array((np.ones(int(free.sum()), dtype=np.int32), (owner[free], scope[free])), shape=shape)
    pairs = (rows.T @ rows).tocoo()
    apart = pairs.coords[0] != pairs.coords[1]
    ends = pairs.coords[0][apart], pairs.coords[1][apart]
    graph = csr_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(len(card), len(card)))
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int32)
