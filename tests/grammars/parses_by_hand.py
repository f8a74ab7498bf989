"""All parses of a sentence, by trying every rule on every division: small and slow."""

from __future__ import annotations

from itertools import product

import numpy as np

from ssvm_dsl.ir import GrammarArrays
from ssvm_dsl.lang.grammars.grammar import Grammar, grammar_numbers
from ssvm_dsl.lang.grammars.parse_tree import is_part


def parses(grammar: Grammar, n: int, i: int = 0, j: int | None = None, symbol: str | None = None, above=()):
    """Yield the parses of the words i..j under a symbol, each as a list of its parts.

    Parts are ("tag", t, tag), ("rule", k, (A, B, C)) and ("span", i, j, chain), chains from top to bottom.
    """
    j = n - 1 if j is None else j
    if symbol is None:
        for start in grammar.start:
            yield from parses(grammar, n, i, j, start)
        return
    chain = (*above, symbol)
    span = [] if is_part(symbol) else [("span", i, j, chain)]
    if i == j and symbol in grammar.tags:
        yield [("tag", i, symbol)] + ([("span", i, i, tuple(above))] if above else [])
    for left, right in grammar.rules:
        if left != symbol:
            continue
        if len(right) == 1 and right[0] not in chain:
            yield from parses(grammar, n, i, j, right[0], chain)
        for k in range(i + 1, j + 1) if len(right) == 2 else ():
            for one, other in product(
                list(parses(grammar, n, i, k - 1, right[0])), list(parses(grammar, n, k, j, right[1]))
            ):
                yield [("rule", k, (left, *right)), *span, *one, *other]


def worth(grammar: Grammar, parse: list, tag, span, rule) -> float:
    """The score of a parse, part by part."""
    numbers = GrammarArrays(**grammar_numbers(grammar))
    names = [(grammar.symbols[a], grammar.symbols[b], grammar.symbols[c])
             for a, b, c in zip(numbers.left, numbers.first, numbers.second, strict=True)]  # fmt: skip
    chosen = np.zeros(span.shape[:2], dtype=int)
    total = 0.0
    for kind, *what in parse:
        if kind == "tag":
            total += tag[what[0], grammar.tags.index(what[1])]
        elif kind == "rule":
            total += rule[what[0], names.index(what[1])]
        else:
            chosen[what[0], what[1]] = grammar.chains.index(what[2]) + 1
    return total + sum(span[i, j, chosen[i, j]] for i, j in np.ndindex(chosen.shape))
