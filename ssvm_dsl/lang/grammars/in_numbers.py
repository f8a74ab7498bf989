"""A grammar as arrays of numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.grammars.parse_tree import is_part


@lru_cache(maxsize=8)
def grammar_numbers(grammar: Grammar) -> dict[str, NDArray[Any]]:
    """Return the fields of a :class:`~ssvm_dsl.ir.GrammarArrays`, by name; not to be written to."""
    place = {one: k for k, one in enumerate(grammar.symbols)}
    rules = np.array([(place[b], place[c], place[a]) for a, b, c in grammar.numbered_rules], np.int32).reshape(-1, 3)
    by_left, n = np.argsort(rules[:, 2], kind="stable"), len(place)
    chains = np.array([(place[one[0]], place[one[-1]]) for one in grammar.chains], np.int32).reshape(-1, 2)
    number, tag = ({one: k for k, one in enumerate(all_)} for all_ in (grammar.chains, grammar.tags))
    pairs = [(number[chain], tag[one]) for chain, one in grammar.chains_above_tags]
    above = np.array(pairs, np.int32).reshape(-1, 2)
    return {
        "first_ptr": np.searchsorted(rules[:, 0], np.arange(n + 1)).astype(np.int64),
        "first": rules[:, 0].copy(), "second": rules[:, 1].copy(), "left": rules[:, 2].copy(),
        "left_ptr": np.searchsorted(rules[by_left, 2], np.arange(n + 1)).astype(np.int64),
        "by_left": by_left.astype(np.int32),
        "chain_top": chains[:, 0].copy(), "chain_bottom": chains[:, 1].copy(),
        "pair_chain": above[:, 0].copy(), "pair_tag": above[:, 1].copy(),
        "tag_symbol": np.array([place[one] for one in grammar.tags], np.int32),
        "is_part": np.array([is_part(one) for one in grammar.symbols]),
        "is_start": np.array([one in grammar.start for one in grammar.symbols]),
    }  # fmt: skip
