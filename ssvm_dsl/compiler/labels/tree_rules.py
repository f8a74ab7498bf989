"""The rules of the constraint that a label of trees has: its labels are a tree of the grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, Bools
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir.constraints import ConstraintGroup, LinearRows
from ssvm_dsl.ir.grammar_arrays import GrammarArrays
from ssvm_dsl.lang.grammars.grammar import LEFT, Grammar, grammar_numbers
from ssvm_dsl.lang.grammars.parse_tree import PART, plain_label

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api.constraints import ConstraintScores

#: Looks at rules, and where they divide, that some tree of a sentence is searched for with, at most.
MOST_LOOKS = 2**26


def shared_arrays(grammar: Grammar) -> dict[str, NDArray[Any]]:
    """Return what all constraints of a grammar share: its arrays, the number of digits and the side of parts."""
    own = {"n_digits": np.array([grammar.n_digits]), "from_left": np.array([grammar.folded[0] == LEFT])}
    return grammar_numbers(grammar) | own


class TreeRules:
    """Judges tags, phrases and rules (:class:`~ssvm_dsl.ir.LabelRules`).

    Parameters
    ----------
    shared : mapping of str to ndarray
        As of :func:`shared_arrays`.
    symbols : sequence of str
        The names of the grammar's symbols.
    """

    def __init__(self, shared: Mapping[str, NDArray[Any]], symbols: Sequence[str]) -> None:
        self.symbols = symbols
        self.grammar = GrammarArrays(**{name: shared[name] for name in GrammarArrays._fields})
        self.n_digits, self.from_left = int(shared["n_digits"][0]), bool(shared["from_left"][0])

    def judged(self, group: ConstraintGroup, labels: I32) -> Bools:
        """Return which labels are no trees.

        Parameters
        ----------
        group : ConstraintGroup
        labels : ndarray of int32, shape (l,)
            Of the variables that the literals name.
        """
        from ssvm_dsl.kernels.derivable import is_parse

        out = np.zeros(group.n_constraints, dtype=bool)
        for k, n in enumerate(group.meta["n"].tolist()):
            mine = labels[group.literals(k)]
            code = mine[-2 * n : -n].astype(np.int64) * self.n_digits + mine[-n:] if n else mine.astype(np.int64)
            span = np.ascontiguousarray(mine[n : n + n * n]).reshape(n, n)
            out[k] = not is_parse(self.grammar, np.ascontiguousarray(mine[:n]), span, code, self.from_left)
        return out

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return some tree of as many words, with the best tags (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        from ssvm_dsl.kernels.derivable import parse_lengths, write_parse

        n, labels = int(group.meta["n"][k]), np.zeros(scores.n_variables, dtype=np.int32)
        if n == 0:
            return labels if not len(scores.place) else None
        first = scores.ptr[scores.place]
        spans = first[n : n + n * n : n + 1]
        tag = scores.score[first[:n, None] + np.arange(len(self.grammar.tag_symbol))]
        word = scores.score[spans[:, None] + np.arange(len(self.grammar.chain_top) + 1)]
        mine = np.zeros(len(first), dtype=np.int32)
        known = parse_lengths(self.grammar, n, MOST_LOOKS)
        if not write_parse(self.grammar, known, tag, word, mine, self.n_digits):
            return None
        labels[scores.place] = mine
        return labels

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Raise: the truth of the literals does not tell."""
        raise PluginError(f"constraint '{group.name}': trees are judged by labels")

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Raise: trees of a grammar have no linear description here."""
        raise PluginError(f"constraint '{group.name}': trees of a grammar have no linear rows")

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return what is expected (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        return "a rule or a chain of symbols of the tree is none of the grammar"

    def why_unmet(
        self, group: ConstraintGroup, k: int, scores: ConstraintScores, labels: I32 | None = None
    ) -> str:
        """Return the longest span that is derived (see :class:`~ssvm_dsl.plugin_api.UnmetKind`)."""
        from ssvm_dsl.kernels.derivable import derived_spans

        n, first = int(group.meta["n"][k]), scores.ptr[scores.place]
        if n == 0:
            return "a sentence without words has no tree"
        tag = scores.score[first[:n, None] + np.arange(len(self.grammar.tag_symbol))] > -np.inf
        if labels is not None:
            tag &= np.arange(tag.shape[1]) == labels[:n, None]
        span = scores.score[first[n : n + n * n, None] + np.arange(len(self.grammar.chain_top) + 1)] > -np.inf
        span = without_crossing(span.reshape(n, n, -1))
        these = "" if labels is None else "with these tags "
        there = derived_spans(self.grammar, tag, span)
        if there[0, n - 1, self.grammar.is_start].any():
            return ""
        start, last, symbol = furthest(there, self.grammar.is_part)
        if symbol < 0:
            return f"{these}no word is derived"
        name = plain_label(self.symbols[symbol]).partition(PART)[0]
        if last - start == n - 1:
            return f"{these}the grammar derives all of its words as {name} only, with which no tree begins"
        part = "the beginning of " if self.grammar.is_part[symbol] else ""
        return f"the longest span that the grammar derives {these}is words {start}:{last + 1} of {n} ({part}{name})"


def without_crossing(span: Bools) -> Bools:
    """Return which chains spans may be, none where they cross a span that has to be a phrase.

    Parameters
    ----------
    span : ndarray of bool, shape (T, T, K + 1)
        As of :func:`~ssvm_dsl.kernels.derivable.derived_spans`.
    """
    out, (first, last) = span.copy(), np.indices(span.shape[:2])
    for i, j in np.argwhere(~span[:, :, 0] & (first <= last)).tolist():
        before, after = (first < i) & (i <= last) & (last < j), (i < first) & (first <= j) & (j < last)
        out[before | after] = False
    return out


def furthest(there: Bools, is_part: Bools) -> tuple[int, int, int]:
    """Return (first word, last word, symbol) of the longest span that is derived, the first of several.

    Its symbol is the first that is no part of a phrase, if there is one; -1 where nothing is derived.

    Parameters
    ----------
    there : ndarray of bool, shape (T, T, S)
        As of :func:`~ssvm_dsl.kernels.derivable.derived_spans`.
    is_part : ndarray of bool, shape (S,)
    """
    starts, ends = np.nonzero(there.any(axis=2))
    if not len(starts):
        return 0, -1, -1
    best = int(np.argmax(ends - starts))
    i, j = int(starts[best]), int(ends[best])
    symbols = np.flatnonzero(there[i, j])
    return i, j, int(symbols[np.argmin(is_part[symbols])])
