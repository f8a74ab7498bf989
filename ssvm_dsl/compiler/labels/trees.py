"""Parse trees as users write them, and as programs have them: tags, phrases, codes of rules; what judges these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, Bools
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir.constraints import ConstraintGroup, LinearRows
from ssvm_dsl.ir.grammar_arrays import GrammarArrays
from ssvm_dsl.lang.grammars.grammar import LEFT, Grammar, chain_down, grammar_numbers
from ssvm_dsl.lang.grammars.parse_tree import PART, plain_label

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api.constraints import ConstraintScores
from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar, NamedTuple

from ssvm_dsl.array_types import I64
from ssvm_dsl.compiler.labels.label_structure import LabelPlaces, LabelStructure
from ssvm_dsl.compiler.labels.unknown_labels import UnseenClasses
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.constraints import LabelRules
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.grammars.parse_tree import ParseTree, PartialTree, is_part
from ssvm_dsl.lang.outputs.labels import Label


class TreeStates(NamedTuple):
    """States of the variables of a label of trees, packed over the examples, and which examples have no tree.

    Parameters
    ----------
    tags, phrases, first, second : ndarray of int32
        Of each word its tag; of each pair of words 0, or 1 and the number of a chain; of each word the digits of a
        rule's code.
    hidden : ndarray of bool, shape (n,)
        Examples whose tree is not known, or not all of it.
    barred : list of (int, int, ndarray of int64)
        What is known of such trees: a part (0 for tags, 1 for phrases), the number of one of its variables, and the
        states that it does not have.
    """

    tags: I32
    phrases: I32
    first: I32
    second: I32
    hidden: Bools
    barred: list[tuple[int, int, I64]]


class GrammarPlaces:
    """The numbers of the tags, chains and rules of a grammar.

    Parameters
    ----------
    grammar : Grammar
    """

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.tag = {one: k for k, one in enumerate(grammar.tags)}
        self.chain = {one: k + 1 for k, one in enumerate(grammar.chains)}
        self.rule = {one: k + 1 for k, one in enumerate(grammar.numbered_rules)}
        phrases = dict(zip(grammar.chains, grammar.phrase_chains, strict=True))
        self.over_word = {(phrases[one], tag): self.chain[one] for one, tag in grammar.chains_above_tags}


def read_parse_trees(label: Label, values: Sequence[Any], sizes: I64, partial: bool = False) -> TreeStates:
    """Return the states that trees are.  What the grammar lacks has state 0, so that it is no tree of the grammar.

    Parameters
    ----------
    label : Label
        A label of trees.
    values : sequence
        For each example what :meth:`ParseTree.of` reads, binarised or not; ``None`` where the tree is not known.
    sizes : ndarray of int64, shape (n,)
        Words of each example.
    partial : bool
        Whether some may be a :class:`PartialTree`.

    Raises
    ------
    DataError
        Something else, or a tree of another number of words, or with a tag that the grammar lacks.
    """
    assert label.grammar is not None
    places, what = GrammarPlaces(label.grammar), f"label '{label.name}'"
    parts: list[tuple[I32, I32, I64]] = []
    barred: list[tuple[int, int, I64]] = []
    word, pair = pointers(sizes).tolist(), pointers(sizes**2).tolist()
    for i, (value, n) in enumerate(zip(values, sizes.tolist(), strict=True)):
        tags, phrases, codes = np.zeros(n, np.int32), np.zeros((n, n), np.int32), np.zeros(n, np.int64)
        parts.append((tags, phrases, codes))
        if value is None:
            continue
        if isinstance(value, PartialTree):
            if not partial:
                text = "a whole tree, or None (given= of predictions takes a PartialTree)"
                raise DataError(what, example=i, expected=text, found="a PartialTree")
            try:
                barred += _barred(value, label.grammar, n, word[i], pair[i])
            except DataError as err:
                raise DataError(what, example=i, expected="a part of a tree of the grammar", found=str(err)) from err
            continue
        try:
            tree = ParseTree.of(value)
        except DataError as err:
            raise DataError(what, example=i, expected="a parse tree", found=str(err)) from err
        if len(tree.words) != n:
            expected = f"a tree of {n} words ({label.dims[0].name}={n})"
            raise DataError(what, example=i, expected=expected, found=f"{len(tree.words)} words")
        lacking = next((tag for tag in tree.tags if tag not in places.tag), None)
        if lacking is not None:
            hint = "the grammar has the tags of the trees it is made from; add a tree with this one"
            raise DataError(what, example=i, expected="tags of the grammar", found=repr(lacking), hint=hint)
        tags[:] = [places.tag[tag] for tag in tree.tags]
        _write(label.grammar.fold(tree.un_binarized()), 0, places, phrases, codes)
    packed = [np.concatenate([np.zeros(0, np.int64), *(one[k].ravel() for one in parts)]) for k in range(3)]
    first, second = np.divmod(packed[2], label.grammar.n_digits)
    hidden = np.array([value is None or isinstance(value, PartialTree) for value in values], dtype=bool)
    tags, phrases, first, second = (one.astype(np.int32) for one in (*packed[:2], first, second))
    return TreeStates(tags, phrases, first, second, hidden, barred)


def _barred(known: PartialTree, grammar: Grammar, n: int, word: int, pair: int) -> Iterator[tuple[int, int, I64]]:
    """Yield the states that variables of an example do not have; its words and pairs of words begin there."""
    for t, tag in known.tags_of(grammar.tags, n):
        yield 0, word + t, np.delete(np.arange(len(grammar.tags)), tag)
    for i, j, chains in known.chains_of(grammar.phrase_chains, n):
        yield 1, pair + i * n + j, np.delete(np.arange(len(grammar.chains) + 1), np.array(chains) + 1)


def _write(tree: ParseTree, start: int, places: GrammarPlaces, phrases: I32, codes: I64) -> int:
    """Write the phrases and rules of a binarised tree that begins at a word; return where it ends."""
    chain, bottom = chain_down(tree)
    if bottom.is_tag:
        end = start + 1
    else:
        one, other = bottom.trees
        middle = _write(one, start, places, phrases, codes)
        end = _write(other, middle, places, phrases, codes)
        codes[middle] = places.rule.get((bottom.label, one.label, other.label), 0)
    if chain and not is_part(chain[0]):
        known = places.chain.get(chain, 0)
        phrases[start, end - 1] = places.over_word.get((chain, bottom.label), known) if bottom.is_tag else known
    return end


def parse_trees(label: Label, tags: I32, phrases: I32, sizes: I64) -> list[ParseTree | None]:
    """Return the tree of each example, un-binarised; words are their positions, ``None`` for no words.

    Parameters
    ----------
    label : Label
    tags, phrases : ndarray of int32
        As of :class:`TreeStates`.
    sizes : ndarray of int64, shape (n,)
        Words of each example.
    """
    assert label.grammar is not None
    out: list[ParseTree | None] = []
    word, pair = pointers(sizes), pointers(sizes**2)
    for (lo, hi), first, n in zip(pairwise(word.tolist()), pair.tolist(), sizes.tolist(), strict=False):
        cells = phrases[first : first + n * n].reshape(n, n)
        out.append(_tree(label.grammar, tags[lo:hi], cells) if n else None)
    return out


def _tree(grammar: Grammar, tags: I32, cells: I32) -> ParseTree:
    """Return the tree of phrases: each goes below the shortest one that it is inside."""
    built = [ParseTree(grammar.tags[tag], (str(t),)) for t, tag in enumerate(tags.tolist())]
    level: dict[int, tuple[int, ParseTree]] = {t: (t + 1, tree) for t, tree in enumerate(built)}
    cells_by_length = sorted(zip(*np.nonzero(cells), strict=True), key=lambda at: (at[1] - at[0], at[0]))
    for start, last in cells_by_length:
        children, at = [], int(start)
        while at <= last:
            end, tree = level.pop(at)
            children.append(tree)
            at = end
        chain = grammar.phrase_chains[cells[start, last] - 1]
        tree = ParseTree(chain[-1], tuple(children))
        for symbol in reversed(chain[:-1]):
            tree = ParseTree(symbol, (tree,))
        level[int(start)] = (int(last) + 1, tree)
    return level[0][1].un_binarized()


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


class TreeLabels(LabelStructure):
    """Labels whose values are parse trees."""

    has_classes: ClassVar[bool] = False

    def words(self, label: Label) -> str:
        """Return what plans and reports call such a label."""
        assert label.grammar is not None
        return f"parse trees of {len(label.grammar.rules)} rules"

    def judged(self, label: Label, parts_alone: bool) -> tuple[Label, ...]:
        """Return the tags; a loss of phrases has them as its label."""
        return (label,)

    def rules(self, label: Label) -> tuple[dict[str, NDArray[Any]], LabelRules | None]:
        """Return the grammar in numbers, and what judges trees."""
        assert label.grammar is not None
        shared = shared_arrays(label.grammar)
        return shared, TreeRules(shared, label.grammar.symbols)

    def encode(
        self, places: LabelPlaces, label: Label, values: Sequence[Any], out: tuple[I32, Bools], partial: bool,
        unseen: UnseenClasses | None = None,
    ) -> list[I64]:  # fmt: skip
        """Write tags, phrases and codes of rules, and which trees are not known; return states that these lack."""
        states, ignored = out
        read = read_parse_trees(label, values, places.count(label), partial)
        for part, found in zip((label, *label.parts), read[:4], strict=True):
            states[places.variables(part)] = found
            ignored[places.variables(part)] = np.repeat(read.hidden, places.count(part))
        numbers, start = np.arange(len(states)), pointers(places.card)
        at = [numbers[places.variables(part)] for part in (label, label.parts[0])] if read.barred else []
        return [start[at[part][number]] + lacking for part, number, lacking in read.barred]

    def decode(self, places: LabelPlaces, label: Label, states: I32) -> list[Any]:
        """Return the parse tree of each example, from the states of its span variables."""
        tags, phrases = (states[places.variables(part)] for part in (label, label.parts[0]))
        return list(parse_trees(label, tags, phrases, places.count(label)))
