"""How far a graph is from a tree: elimination orders and the tables that exact elimination needs.

Eliminating a variable joins its neighbours to a clique and costs a table over the variable and those neighbours.
The order decides how large the largest table becomes; the best order is hard to find (Arnborg et al. 1987), greedy
ones are good in practice: *min-fill* takes the variable whose neighbours lack the fewest edges among them,
*min-weight* the one with the smallest table (Koller and Friedman 2009, section 9.4.3).  Both are tried here, and
for hard graphs the order that walks from one end to the other (right for long narrow grids); the one with the
smallest tables is kept.  The reported width is an upper bound that the given order attains.

networkx has both greedy rules, for graphs without numbers of states and without the order from end to end.  Measured
against it (CPU seconds, width): a grid of 40 x 40 takes 0.006 s, width 40, here and 3.5 s, width 58, there.

Sizes are logarithms to base 2 of numbers of table entries.  A search stops as soon as a table of more than
``2**GIVE_UP`` entries is met: nobody can hold it, and large dense graphs are refused at once.

Only the structure of an example matters, so orders are remembered by structure: a batch of identical graphs is
looked at once.  The different graphs of a batch are ordered together, by compiled kernels
(:mod:`ssvm_dsl.kernels.elimination_orders`): graphs of up to ``MAX_MIN_FILL`` variables by two or three rules, larger
ones by the size of the next table alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.deadline import pause
from ssvm_dsl.ir.bounded_cache import BoundedCache
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import owners, pointers, runs

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

#: Bytes of the orders that are remembered, and what an order takes besides its arrays, about.
_REMEMBERED, _OVERHEAD = 2**25, 500


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


def eliminations(program: Program, examples: I64 | None = None) -> list[Elimination]:
    """Return the elimination of each example (of all for ``None``); identical graphs share one object.

    Variables with a single allowed state count as known.
    """
    few = program.representatives
    if program.allowed is None and few is not program:
        known = eliminations(few)
        return [known[k] for k in (program.shape if examples is None else program.shape[examples]).tolist()]
    card = program.card
    if program.allowed is not None:
        open_states = np.add.reduceat(program.allowed, program.state_ptr[:-1]) if len(card) else card
        card = np.maximum(open_states, 1).astype(np.int32)
    owners_of, arities, scopes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for group in program.graph_groups:
        owners_of.append(owners(group.ptr))
        arities.append(np.full(group.n_factors, group.arity, dtype=np.int64))
        scopes.append(group.shapes.variables().ravel())
    owner, arity = np.concatenate(owners_of), np.concatenate(arities)
    factors = np.argsort(owner, kind="stable")  # those of an example together
    scope = np.concatenate(scopes)[runs(pointers(arity)[:-1][factors], arity[factors])]
    factor_ptr = pointers(np.bincount(owner, minlength=program.n_examples))
    keys = structure_keys(program.var_ptr, card, factor_ptr, pointers(arity[factors]), scope)
    return width_orders(keys if examples is None else [keys[e] for e in examples.tolist()])


def structure_keys(var_ptr: I64, card: I32, factor_ptr: I64, slot_ptr: I64, scope: I32) -> list[bytes]:
    """Return for each example a key that determines its graph; equal keys, equal graphs.

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


def width_order(key: bytes) -> Elimination:
    """Return a good elimination of the graph that a key of :func:`structure_keys` describes (remembered)."""
    return width_orders([key])[0]


def width_orders(keys: Sequence[bytes]) -> list[Elimination]:
    """Return a good elimination of each graph; those that are not remembered are ordered together.

    Parameters
    ----------
    keys : sequence of bytes
        See :func:`structure_keys`.
    """
    orders: dict[bytes, Elimination] = {}
    new = []
    for key in dict.fromkeys(keys):
        remembered = _remembered.get(key)
        if remembered is None:
            new.append(key)
        else:
            orders[key] = remembered
    if new:
        for key, order in zip(new, find_orders(new), strict=True):
            _remembered.put(key, order, len(key) + order.order.nbytes + _OVERHEAD)
            orders[key] = order
    return [orders[key] for key in keys]


_remembered: BoundedCache[bytes, Elimination] = BoundedCache(_REMEMBERED)


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
        See :func:`structure_keys`.
    """
    from ssvm_dsl.kernels.elimination_orders import BY_RANK, MIN_FILL, MIN_WEIGHT, Structures

    best: dict[int, Elimination] = {}
    small = []
    for k, key in enumerate(keys):
        if np.frombuffer(key, dtype=np.int32, count=1)[0] <= MAX_MIN_FILL:
            small.append(k)
        else:
            best[k] = _lightest_first(*structure_parts(key))
    numbers = np.frombuffer(b"".join(keys[k] for k in small), dtype=np.int32)
    at = pointers(np.array([len(keys[k]) // 4 for k in small], dtype=np.int64))[:-1]
    first = pointers(numbers[at])
    rank = np.zeros(int(first[-1]))
    tried = list(range(len(small)))
    for rule in (MIN_FILL, MIN_WEIGHT, BY_RANK):
        if rule == MIN_WEIGHT:
            tried = [i for i in tried if best[small[i]].width > 1]
        elif rule == BY_RANK:
            tried = [i for i in tried if best[small[i]].log2_largest > _HARD]
            for i in tried:
                rank[first[i] : first[i + 1]] = _end_to_end(*structure_parts(keys[small[i]]))
        if tried:
            for i, found in zip(tried, _greedy(Structures(numbers, at[tried], first[tried]), rule, rank), strict=True):
                known = best.get(small[i])
                best[small[i]] = found if known is None or found.cost < known.cost else known
    return [best[k] for k in range(len(keys))]


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
    orders = Orders(np.empty(end, dtype=np.int32), *counts, *sizes)
    cursor, how = np.zeros(3, dtype=np.int64), OrderRule(rule, rank, GIVE_UP)
    while cursor[GRAPH] < len(n):
        pause()
        order_graphs(structures, how, space, orders, cursor, _WORDS_AT_A_TIME)
    each = (a.tolist() for a in (structures.first, n, orders.done, orders.width, orders.largest, orders.total))
    return [
        elimination(orders.order[at : at + done].copy(), size, width, largest, total)
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
    variable = owners(pairs.indptr)
    apart = pairs.indices != variable
    return pointers(np.bincount(variable[apart], minlength=len(card))), pairs.indices[apart].astype(np.int32)
