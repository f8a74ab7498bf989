"""Best parse trees as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.constituency.paired_rules import PairedRules
from ssvm_backends.structures.constituency.sentence import SentenceArrays, best_labels
from ssvm_backends.structures.literals import best_states
from ssvm_backends.structures.packing import places_in
from ssvm_dsl.ir import I64, GrammarArrays
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_flags, packed_longs, packed_record

#: Where the arrays of sentences, and of grammars, begin; how many arrays a grammar is, and with its pairs.
SENTENCES, GRAMMARS, OF_GRAMMAR = 3, 9, len(GrammarArrays._fields)
OF_RULES = OF_GRAMMAR + len(PairedRules._fields)


@njit
def sentences_in(longs: I64) -> SentenceArrays:
    """Return the places of all sentences."""
    return SentenceArrays(
        packed_longs(longs, SENTENCES),
        packed_longs(longs, SENTENCES + 1).reshape((-1, 6)),
        packed_longs(longs, SENTENCES + 2).reshape((-1, 4)),
        packed_longs(longs, SENTENCES + 3).reshape((-1, 4)),
        packed_longs(longs, SENTENCES + 4),
        packed_longs(longs, SENTENCES + 5),
    )


#: How a grammar, and its pairs, are read.
grammar_in, pairs_in = packed_record(GrammarArrays), packed_record(PairedRules)


@cfunc(SIGNATURE)
def cky_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    ints, longs, pool, node, labels = borrow(ints), borrow(longs), borrow(pool), borrow(node), borrow(labels)
    ids, ptr, feasible = np.full(1, example), np.zeros(1, np.int64), np.ones(1, dtype=np.bool_)
    places, free = places_in(ints, longs, 0), packed_flags(ints, longs, 2)
    lo, hi, state_ptr = places.var_ptr[example], places.var_ptr[example + 1], places.state_ptr
    labels[: hi - lo] = 0
    best_states(places, free, node, ids, ptr, labels, feasible)
    total, arrays = 0.0 if feasible[0] else -np.inf, sentences_in(longs)
    for v in range(lo, hi):
        if free[v]:
            total += node[state_ptr[v] + labels[v - lo]]
    if arrays.grammar[example] >= 0:
        first = GRAMMARS + OF_RULES * arrays.grammar[example]
        grammar, paired = grammar_in(ints, longs, first), pairs_in(ints, longs, first + OF_GRAMMAR)
        total += best_labels(grammar, paired, arrays, example, node, pool, labels)
    return total
