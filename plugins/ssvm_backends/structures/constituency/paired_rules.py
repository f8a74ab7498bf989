"""The pairs of children that the rules of a grammar have: what divisions of spans look at, in place of all rules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import I32, I64, GrammarArrays


class PairedRules(NamedTuple):
    """The pairs of children that rules have, by first child: P pairs in Q rows.

    Parameters
    ----------
    first : ndarray of int32, shape (Q,)
        The first child of each row.
    ptr : ndarray of int64, shape (Q + 1,)
        Pairs ``ptr[q]:ptr[q + 1]`` are in row q.
    second : ndarray of int32, shape (P,)
        The second child of each pair.
    block : ndarray of int64, shape (5,)
        Where the rows of four sorts begin, and their end: of two symbols that can have several words below, of one word
        before such a symbol, after it, and of two words.
    place : ndarray of int64, shape (R,)
        The pair of the rule ``by_left[k]``.
    """

    first: I32
    ptr: I64
    second: I32
    block: I64
    place: I64


def paired_rules(grammar: GrammarArrays) -> PairedRules:
    """Return the pairs of a grammar's rules."""
    wide = grammar.is_part.copy()
    wide[grammar.chain_top] = True
    sort = 2 * ~wide[grammar.second] + ~wide[grammar.first]
    keys = np.stack([sort, grammar.first, grammar.second], axis=1).astype(np.int64)
    pairs, place = np.unique(keys, axis=0, return_inverse=True)
    rows, ptr = np.unique(pairs[:, :2], axis=0, return_index=True)
    block = np.searchsorted(rows[:, 0], np.arange(5))
    first, second = rows[:, 1].astype(np.int32), np.ascontiguousarray(pairs[:, 2], dtype=np.int32)
    return PairedRules(first, np.append(ptr, len(pairs)), second, block, place.reshape(-1)[grammar.by_left])
