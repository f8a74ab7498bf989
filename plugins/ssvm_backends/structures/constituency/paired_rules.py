"""The pairs of children that the rules of a grammar have: what divisions of spans look at, in place of all rules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import I32, I64, GrammarArrays

#: What the first and the second child of a pair can have below them: a symbol that is only ever a tag has one word.
SEVERAL_SEVERAL, WORD_SEVERAL, SEVERAL_WORD, WORD_WORD = range(4)


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
        Rows ``block[sort]:block[sort + 1]`` are those of each sort: ``SEVERAL_SEVERAL``, ``WORD_SEVERAL``,
        ``SEVERAL_WORD`` and ``WORD_WORD``.
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
    has_several = grammar.is_part.copy()
    has_several[grammar.chain_top] = True
    sort = WORD_SEVERAL * ~has_several[grammar.first] + SEVERAL_WORD * ~has_several[grammar.second]
    keys = np.stack([sort, grammar.first, grammar.second], axis=1).astype(np.int64)
    pairs, place = np.unique(keys, axis=0, return_inverse=True)
    rows, ptr = np.unique(pairs[:, :2], axis=0, return_index=True)
    block = np.searchsorted(rows[:, 0], np.arange(5))
    first, second = rows[:, 1].astype(np.int32), np.ascontiguousarray(pairs[:, 2], dtype=np.int32)
    return PairedRules(first, np.append(ptr, len(pairs)), second, block, place.reshape(-1)[grammar.by_left])
