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
looked at once.  The different graphs of a batch are ordered together (:mod:`ssvm_dsl.requirements.orders`).
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.ir.bounded_cache import BoundedCache
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import owners, pointers, runs
from ssvm_dsl.requirements.orders import Elimination, find_orders

#: Bytes of the orders that are remembered, and what an order takes besides its arrays, about.
_REMEMBERED, _OVERHEAD = 2**25, 500


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
    return width_orders([keys[e] for e in chosen])


def _factors(program: Program) -> tuple[I64, I64, I32]:
    """Return (factors of each example, slots of each factor, scopes), factors sorted by example."""
    groups = [group for group in program.graph_groups if group.n_factors]
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
    known = {key: one for key in set(keys) if (one := _remembered.get(key)) is not None}
    new = [key for key in dict.fromkeys(keys) if key not in known]
    for key, found in zip(new, find_orders(new), strict=True):
        _remembered.put(key, found, len(key) + found.order.nbytes + _OVERHEAD)
        known[key] = found
    return [known[key] for key in keys]


_remembered: BoundedCache[bytes, Elimination] = BoundedCache(_REMEMBERED)
