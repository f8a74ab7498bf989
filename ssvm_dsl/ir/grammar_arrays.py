"""``GrammarArrays``: the rules of a grammar in numbers, as kernels read them."""

from __future__ import annotations

from typing import NamedTuple

from ssvm_dsl.array_types import I32, I64, Bools


class GrammarArrays(NamedTuple):
    """S symbols, L tags among them, R rules of two children, K chains, P pairs of a chain and a tag below it.

    A *chain* is several symbols over the same words.  A *tag* stands directly above a word.

    Parameters
    ----------
    first_ptr : ndarray of int64, shape (S + 1,)
        Rules ``first_ptr[s]:first_ptr[s + 1]`` have the first child s.
    first, second, left : ndarray of int32, shape (R,)
        Both children and the left side of each rule.
    left_ptr : ndarray of int64, shape (S + 1,)
        Entries ``left_ptr[s]:left_ptr[s + 1]`` of ``by_left`` have the left side s.
    by_left : ndarray of int32, shape (R,)
        Rules by left side.
    chain_top, chain_bottom : ndarray of int32, shape (K,)
        The highest and the lowest symbol of each chain.
    pair_chain, pair_tag : ndarray of int32, shape (P,)
        A chain, and a tag (its number among the L) that its lowest symbol may have below.
    tag_symbol : ndarray of int32, shape (L,)
        The symbol that each tag is.
    is_part : ndarray of bool, shape (S,)
        Symbols of parts of a phrase, which binarising made: they are in no chain.
    is_start : ndarray of bool, shape (S,)
        Symbols of whole sentences.
    """

    first_ptr: I64
    first: I32
    second: I32
    left: I32
    left_ptr: I64
    by_left: I32
    chain_top: I32
    chain_bottom: I32
    pair_chain: I32
    pair_tag: I32
    tag_symbol: I32
    is_part: Bools
    is_start: Bools
