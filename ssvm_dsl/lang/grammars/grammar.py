"""``Grammar``: the rules that parse trees are made by, read off trees, counted, and as arrays of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import isqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import Bools
from ssvm_dsl.calls import checked_class
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.files.text_lines import BLANKS, columns_of, lines_in
from ssvm_dsl.lang.grammars.parse_tree import ABOVE, PART, ParseTree, is_part

# -- what grammars are read from: text with rules, and the rules and chains that trees use -------------------------

#: A left side and its right side: two symbols, or one.
Rule = tuple[str, tuple[str, ...]]

#: Several symbols over the same words, from top to bottom: each is above the next by a rule of one child.
Chain = tuple[str, ...]

_SYMBOL = re.compile(r"\"[^\"]*\"|'[^']*'|[^ \t|\"']+|\|")


def read_cfg(text: str) -> tuple[str, list[Rule], list[tuple[str, str]]]:
    """Return (start, rules, lexicon) of a text with rules ``A -> B C | "word"``.

    Raises
    ------
    OptionError
        A line is no rule, or there is none.
    """
    start, rules, lexicon = "", list[Rule](), list[tuple[str, str]]()
    for number, line in enumerate((line.strip(BLANKS) for line in lines_in(text)), 1):
        if line.startswith("%start"):
            start = line.removeprefix("%start").strip(BLANKS)
        elif line and not line.startswith("#"):
            left, arrow, right = (part.strip(BLANKS) for part in line.partition("->"))
            if not arrow or not left or len(columns_of(left)) > 1:
                raise OptionError(f"Grammar: line {number}: expected 'A -> B C | \"word\"', got {line[:60]!r}")
            for side in _sides(right):
                _add(left, side, rules, lexicon, number)
            start = start or left
    if not rules and not lexicon:
        raise OptionError("Grammar: the text has no rules")
    return start, rules, lexicon


def _sides(right: str) -> Iterator[list[str]]:
    """Yield the right sides between vertical bars, quotes kept."""
    side: list[str] = []
    for match in _SYMBOL.finditer(right):
        if match[0] == "|":
            yield side
            side = []
        else:
            side.append(match[0])
    yield side


def _add(left: str, side: list[str], rules: list[Rule], lexicon: list[tuple[str, str]], number: int) -> None:
    """Add a right side to the rules, or to the lexicon where it is a word."""
    if not side:
        raise OptionError(f"Grammar: line {number}: a right side of {left} is empty; every symbol has a word below it")
    if len(side) == 1 and side[0][0] in "\"'":
        lexicon.append((left, side[0][1:-1]))
        return
    for one in side:
        if one[0] in "\"'":
            lexicon.append((one, one[1:-1]))
    rules.append((left, tuple(side)))


def rules_of(tree: ParseTree) -> Iterator[Rule]:
    """Yield the rules of a tree, above parts of speech."""
    for one in tree.subtrees():
        if not one.is_tag:
            yield one.label, tuple(child.label for child in one.trees)


def chains_of(tree: ParseTree) -> Iterator[Chain]:
    """Yield the chains of a binarised tree.

    Raises
    ------
    OptionError
        A symbol stands above itself, with no other words.
    """
    stack = [tree]
    while stack:
        names, bottom = chain_down(stack.pop())
        if names and not is_part(names[0]):
            if len(set(names)) < len(names):
                text = f"with the same words: {' > '.join(names)}; tree.without_cycles() leaves one of them out"
                raise OptionError(f"Grammar: a symbol stands above itself {text}")
            yield names
        stack += bottom.trees


def chain_down(tree: ParseTree) -> tuple[Chain, ParseTree]:
    """Return the symbols from the top of a tree to where it divides or reaches a tag, and the tree there."""
    names: list[str] = []
    while not tree.is_tag:
        names.append(tree.label)
        if len(tree.children) > 1:
            break
        tree = tree.trees[0]
    return tuple(names), tree


# -- binary trees, whose symbols remember some of their siblings and parents ---------------------------------------

#: The side on which what is left of a phrase goes on.
RIGHT, LEFT = "right", "left"


def binarized(tree: ParseTree, side: str = RIGHT, horizontal: int | None = None, vertical: int = 1) -> ParseTree:
    """Return a tree whose symbols have one or two children; ``un_binarized`` undoes it.

    A phrase of n > 2 children becomes n - 1 nested ones.  Those inside are called ``A|<B-C>``: the rest of an A that
    goes on with B and C (with ``side="left"``: that ends with them).

    Parameters
    ----------
    tree : ParseTree
    side : {"right", "left"}
        Where the rest is.
    horizontal : int, optional
        How many of the following children the name has; all by default.
    vertical : int
        1, or 2 where phrases also note the symbol above them: ``NP^<S>``.
    """
    return _binarized(tree, side, horizontal, "" if vertical < 2 else "ROOT", vertical > 1)


def part_name(label: str, rest: Sequence[str], side: str, horizontal: int | None) -> str:
    """Return the name of the rest of a phrase."""
    most = len(rest) if horizontal is None else horizontal
    kept = rest[:most] if side == RIGHT else rest[max(0, len(rest) - most) :]
    return f"{label}{PART}{'-'.join(kept)}>"


def _binarized(tree: ParseTree, side: str, horizontal: int | None, above: str, noting: bool) -> ParseTree:
    if tree.is_tag:
        return tree
    label = f"{tree.label}{ABOVE}{above}>" if noting else tree.label
    children = [_binarized(child, side, horizontal, tree.label, noting) for child in tree.trees]
    names = [child.label for child in tree.trees]
    while len(children) > 2:  # the innermost pair first
        inner = len(children) - 2
        at = slice(inner, None) if side == RIGHT else slice(None, 2)
        rest = names[inner:] if side == RIGHT else names[: len(names) - inner]
        made = ParseTree(part_name(label, rest, side, horizontal), tuple(children[at]))
        children[at] = [made]
    return ParseTree(label, tuple(children))


# -- the number of trees of a sentence, in whole numbers of any size -----------------------------------------------

#: How many trees the words of a span have below each symbol.
Counts = dict[str, int]


class Derivation(Protocol):
    """What derives trees: a :class:`~ssvm_dsl.Grammar`."""

    @property
    def start(self) -> tuple[str, ...]:
        """The symbols of whole sentences."""

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chains of symbols over the same words."""

    @property
    def binary(self) -> tuple[tuple[str, str, str], ...]:
        """The rules of two children."""

    @property
    def chains_above_tags(self) -> tuple[tuple[Chain, str], ...]:
        """Which chains may stand above which tags."""

    def allowed_tags(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the tags that each word may have."""


def count_parses(grammar: Derivation, words: Sequence[str], tags: Sequence[str] | None = None) -> int:
    """Return how many trees a sentence has; see :meth:`Grammar.n_parses`."""
    chart = chart_of(grammar, words, tags)
    whole = chart.get((0, len(words)), {})
    return sum(whole.get(one, 0) for one in grammar.start)


def chart_of(
    grammar: Derivation, words: Sequence[str], tags: Sequence[str] | None = None
) -> dict[tuple[int, int], Counts]:
    """Return for each span how many trees it has below each symbol (CKY, O(T^3 rules)).

    Raises
    ------
    DataError
        Tags and words are not equally many.
    """
    if tags is not None and len(tags) != len(words):
        raise DataError("tags", expected=f"one for each of {len(words)} words", found=f"{len(tags)}")
    by_first: dict[str, list[tuple[str, str]]] = {}
    for left, first, second in grammar.binary:
        by_first.setdefault(first, []).append((second, left))
    lifts, above = _lifts(grammar), _above_tags(grammar)
    chart: dict[tuple[int, int], Counts] = {}
    for t, allowed in enumerate(grammar.allowed_tags(words)):
        cell = {tag: 1 for tag in allowed if tags is None or tags[t] == tag}
        chart[t, t + 1] = cell | _lifted(cell, above, keep=True)
    for length in range(2, len(words) + 1):
        for start in range(len(words) - length + 1):
            cell = _divided(chart, by_first, start, start + length)
            chart[start, start + length] = _lifted(cell, lifts, keep=False)
    return chart


def _divided(
    chart: dict[tuple[int, int], Counts], by_first: dict[str, list[tuple[str, str]]], start: int, end: int
) -> Counts:
    """Return how many trees a span has below each symbol that divides it."""
    out: Counts = {}
    for middle in range(start + 1, end):
        right = chart[middle, end]
        for first, n in chart[start, middle].items() if right else ():
            for second, left in by_first.get(first, ()):
                if second in right:
                    out[left] = out.get(left, 0) + n * right[second]
    return out


def _lifts(grammar: Derivation) -> dict[str, list[str]]:
    """Return for each bottom of a chain the tops."""
    out: dict[str, list[str]] = {}
    divided = {left for left, _, _ in grammar.binary}
    for chain in grammar.chains:
        if chain[-1] in divided:
            out.setdefault(chain[-1], []).append(chain[0])
    return out


def _above_tags(grammar: Derivation) -> dict[str, list[str]]:
    """Return for each tag the tops of the chains above it."""
    out: dict[str, list[str]] = {}
    for chain, tag in grammar.chains_above_tags:
        out.setdefault(tag, []).append(chain[0])
    return out


def _lifted(cell: Counts, lifts: dict[str, list[str]], keep: bool) -> Counts:
    """Return the counts at the tops of chains; parts of phrases, or all symbols if ``keep``, are tops themselves."""
    out = {one: n for one, n in cell.items() if keep or is_part(one)}
    for bottom, n in cell.items():
        for top in lifts.get(bottom, ()):
            out[top] = out.get(top, 0) + n
    return out


#: At most so many chains, and symbols in one, unless trees show longer ones.
MOST_CHAINS, LONGEST_CHAIN = 100_000, 8


@checked_class
@dataclass(frozen=True, init=False, repr=False)
class Grammar:
    """A context-free grammar in which every phrase has two children, or one; immutable, compared by content.

    Symbols that stand directly above a word are parts of speech (*tags*).  Rules of one child are followed as *chains*:
    several symbols over the same words, none of them twice.  A chain is one choice.

    Parameters
    ----------
    rules : iterable of (str, sequence of str)
        Left and right sides.  Right sides of more than two symbols are binarised to the right, with names that remember
        all of the rest.
    start : str or sequence of str
        Symbols that a whole sentence may have.
    tags : iterable of str, optional
        Parts of speech; by default the symbols that stand on right sides only.
    lexicon : iterable of (str, str)
        (tag, word): a word in it has these tags only.  Without a lexicon every word may have every tag.
    chains : iterable of sequence of str, optional
        The chains that may be used; by default all of up to eight symbols.
    folded : tuple, optional
        How :meth:`from_trees` binarised, for :meth:`fold`.

    Examples
    --------
    >>> g = Grammar([("S", ["NP", "VP"]), ("VP", ["V", "NP"])], start="S")
    >>> g.tags
    ('NP', 'V')
    """

    start: tuple[str, ...]
    rules: tuple[Rule, ...]
    tags: tuple[str, ...]
    lexicon: tuple[tuple[str, str], ...]
    chains: tuple[Chain, ...]
    folded: tuple[str, int | None, int]

    def __init__(
        self,
        rules: Iterable[tuple[str, Sequence[str]]],
        start: str | Sequence[str],
        tags: Iterable[str] | None = None,
        lexicon: Iterable[tuple[str, str]] = (),
        chains: Iterable[Sequence[str]] | None = None,
        folded: tuple[str, int | None, int] = (RIGHT, None, 1),
    ) -> None:
        try:
            made = tuple(sorted({small for left, right in rules for small in _binary(left, tuple(right))}))
            words = tuple(sorted((str(tag), str(word)) for tag, word in set(lexicon)))
            roots = (start,) if isinstance(start, str) else tuple(map(str, start))
            given_tags = None if tags is None else set(map(str, tags))
            given_chains = None if chains is None else {tuple(map(str, one)) for one in chains}
            side, horizontal, vertical = folded
        except (TypeError, ValueError) as err:
            text = "rules are (symbol, symbols), start symbols, tags symbols, the lexicon (tag, word), chains symbols"
            raise OptionError(f"Grammar: {text}: {err}") from err
        lefts = {left for left, _ in made}
        tags = given_tags
        if tags is None:
            tags = {one for _, right in made for one in right if one not in lefts} | {tag for tag, _ in words}
        given: dict[str, Any] = {
            "start": roots,
            "rules": made,
            "tags": tuple(sorted(set(tags))),
            "lexicon": words,
            "folded": (side, horizontal, vertical),
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self._check()
        closure = _closure(made, set(self.tags)) if given_chains is None else given_chains
        for chain in closure:
            steps = all(pair in self.unary for pair in pairwise(chain))
            if not chain or not set(chain) <= set(self.symbols) or not steps or any(map(is_part, chain)):
                text = "is not a chain: each symbol derives the next by a rule with one child"
                raise OptionError(f"Grammar: the chain {' > '.join(chain)!r} {text}")
        object.__setattr__(self, "chains", tuple(sorted(closure)))

    def _check(self) -> None:
        known = set(self.symbols)
        if not self.start or not set(self.start) <= known:
            lacking = ", ".join(sorted(set(self.start) - known)) or "none"
            raise OptionError(f"Grammar: start: expected symbols that have a rule, or tags; got {lacking}")
        lefts = {left for left, _ in self.rules} | set(self.tags)
        place = 1 if self.folded[0] == LEFT else 0
        if any(is_part(rule[1][place]) for rule in self.rules if len(rule[1]) == 2):
            raise OptionError("Grammar: parts of phrases, symbols with '|<', are all first or all second children")
        ends = {one for _, right in self.rules for one in right} - lefts
        if ends:
            text = f"{', '.join(sorted(ends)[:5])} {'derive' if len(ends) > 1 else 'derives'} nothing"
            raise OptionError(f"Grammar: {text}: list what stands above a word in tags=")

    @classmethod
    def from_cfg(cls, text: str) -> Grammar:
        """Return the grammar of a text with rules ``A -> B C | "word"``.

        The first left side is the start, unless a line ``%start A`` names it.  Words stand in quotes; a word beside
        other symbols gets a tag of its own, the word in quotes.  Lines that begin with ``#`` are left out.

        Raises
        ------
        OptionError
            A line is no rule; names it.
        """
        start, rules, lexicon = read_cfg(text)
        return cls(rules, start, lexicon=lexicon)

    @classmethod
    def from_trees(
        cls,
        trees: Iterable[Any],
        binarize: str = RIGHT,
        horizontal: int | None = 2,
        vertical: int = 1,
        start: str | Sequence[str] | None = None,
        above_tags: bool = False,
    ) -> Grammar:
        """Return the grammar of the rules and chains that trees use; words may have any tag.

        Parameters
        ----------
        trees : iterable
            What :meth:`ParseTree.of` reads.
        binarize : {"right", "left"}
            Phrases of more than two children are binarised; the names of the parts remember what follows
            (``"left"``: what precedes).
        horizontal : int, optional
            How many of those children; ``None`` for all.
        vertical : {1, 2}
            2 where symbols also note the symbol above them.
        start : str or sequence of str, optional
            By default the symbols that whole trees have.
        above_tags : bool
            Whether chains go on to the tag of a single word, so that ``NP > N`` and ``NP > D`` are two choices.  By
            default they end above it.

        Raises
        ------
        OptionError
            There are no trees, a tree has symbols above themselves, or a setting is none of these.
        """
        if binarize not in (RIGHT, LEFT) or vertical not in (1, 2) or (horizontal is not None and horizontal < 0):
            text = "binarize is 'right' or 'left', horizontal at least 0 or None, vertical 1 or 2"
            raise OptionError(f"Grammar: {text}, got {binarize!r}, {horizontal!r}, {vertical!r}")
        folded = [binarized(ParseTree.of(tree), binarize, horizontal, vertical) for tree in trees]
        if not folded:
            raise OptionError("Grammar: from_trees needs at least one tree")
        tags = {leaf.label for tree in folded for leaf in tree.leaves()}
        chains = {chain for tree in folded for chain in chains_of(tree)}
        roots = sorted({tree.label for tree in folded}) if start is None else start
        rules = {rule for tree in folded for rule in rules_of(tree)}
        made = cls(rules, roots, tags, (), chains, (binarize, horizontal, vertical))
        if not above_tags:
            return made
        if both := set(made.tags) & {left for left, _ in rules}:
            raise OptionError(f"Grammar: above_tags=True needs tags that are no phrases; {min(both)!r} is both")
        divided = {left for left, _, _ in made.binary}
        longer = [(*chain, tag) for chain, tag in made.chains_above_tags]
        kept = [one for one in made.chains if one[-1] in divided]
        return cls(rules, roots, tags, (), [*longer, *kept], made.folded)

    def arguments(self) -> tuple[Any, ...]:
        """Return the constructor's arguments."""
        return self.rules, self.start, self.tags, self.lexicon, self.chains, self.folded

    def fold(self, tree: Any) -> ParseTree:
        """Return a tree binarised as the trees of the grammar are."""
        return binarized(ParseTree.of(tree), *self.folded)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """All symbols, those that binarising made included."""
        used = {one for left, right in self.rules for one in (left, *right)}
        return tuple(sorted(used | set(self.tags)))

    @cached_property
    def binary(self) -> tuple[tuple[str, str, str], ...]:
        """The rules of two children: (left side, first, second)."""
        return tuple((left, right[0], right[1]) for left, right in self.rules if len(right) == 2)

    @cached_property
    def numbered_rules(self) -> tuple[tuple[str, str, str], ...]:
        """The rules of two children in the order of their numbers; rule r has the code ``r + 1``."""
        return tuple(sorted(self.binary, key=lambda rule: (rule[1], rule[2], rule[0])))

    @property
    def n_digits(self) -> int:
        """How many digits there are for codes of rules, which have two: the first is ``code // n_digits``."""
        return isqrt(len(self.binary)) + 1

    @cached_property
    def unary(self) -> frozenset[tuple[str, str]]:
        """The rules of one child: (left side, child)."""
        return frozenset((left, right[0]) for left, right in self.rules if len(right) == 1)

    @cached_property
    def chains_above_tags(self) -> tuple[tuple[Chain, str], ...]:
        """Which chains may stand above which tags of one word."""
        below: dict[str, list[str]] = {}
        for left, child in sorted(self.unary):
            if child in self.tags:
                below.setdefault(left, []).append(child)
        ends = {left for left, _ in self.rules}
        own = [(one, one[-1]) for one in self.chains if one[-1] in self.tags and one[-1] not in ends]
        pairs = [(one, tag) for one in self.chains for tag in below.get(one[-1], ()) if tag not in one]
        longer = {chain for chain, _ in own}
        return (*own, *(pair for pair in pairs if (*pair[0], pair[1]) not in longer))

    @cached_property
    def phrase_chains(self) -> tuple[Chain, ...]:
        """The chains without the tags that some go on to."""
        ends = {left for left, _ in self.rules}
        return tuple(one[:-1] if one[-1] in self.tags and one[-1] not in ends else one for one in self.chains)

    @cached_property
    def tags_of_words(self) -> dict[str, tuple[str, ...]]:
        """The tags of each word of the lexicon."""
        out: dict[str, list[str]] = {}
        for tag, word in self.lexicon:
            out.setdefault(word, []).append(tag)
        return {word: tuple(tags) for word, tags in out.items()}

    def allowed_tags(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the tags that each word may have: all without a lexicon, none for words that it lacks."""
        if not self.lexicon:
            return [self.tags for _ in words]
        return [self.tags_of_words.get(word, ()) for word in words]

    def tag_mask(self, words: Sequence[str]) -> Bools:
        """Return which tags each word may have, for ``Label(T, grammar=G, allowed=mask)``; ``shape (T, tags)``."""
        rows = [[tag in may for tag in self.tags] for may in self.allowed_tags(words)]
        return np.array(rows, dtype=bool).reshape(len(words), len(self.tags))

    def n_parses(self, words: Sequence[str], tags: Sequence[str] | None = None) -> int:
        """Return how many trees a sentence has: a whole number, of any size, counted exactly.

        Parameters
        ----------
        words : sequence of str
        tags : sequence of str, optional
            Known parts of speech.
        """
        return count_parses(self, words, tags)

    def __repr__(self) -> str:
        sizes = f"{len(self.symbols)} symbols, {len(self.rules)} rules, {len(self.chains)} chains"
        return f"<Grammar of {', '.join(self.start)}: {sizes}, {len(self.lexicon)} words with tags>"


def _binary(left: str, right: tuple[str, ...]) -> list[Rule]:
    """Return the rules of at most two children that a rule becomes."""
    if not right or not all(isinstance(one, str) for one in (left, *right)):
        raise OptionError(f"Grammar: a rule is (symbol, [symbols]), with at least one on the right; got {left, right}")
    if len(right) < 3:
        return [(left, right)]
    names = [left, *(part_name(left, right[k:], RIGHT, None) for k in range(1, len(right) - 1))]
    made = [(name, (first, rest)) for name, first, rest in zip(names, right, names[1:], strict=False)]
    return [*made, (names[-1], right[-2:])]


def _closure(rules: Iterable[Rule], tags: set[str]) -> set[Chain]:
    """Return all chains of at most eight symbols, none twice, that end above two children or above a tag."""
    below: dict[str, list[str]] = {}
    divided, above_tags = set(), set()
    for left, right in rules:
        if len(right) == 2:
            divided.add(left)
        else:
            below.setdefault(left, []).append(right[0])
            above_tags |= {left} & {left if right[0] in tags else ""}
    chains: set[Chain] = set()
    stack: list[Chain] = [(one,) for one in {left for left, _ in rules} if not is_part(one)]
    while stack:
        chain = stack.pop()
        if chain[-1] in divided or chain[-1] in above_tags:
            chains.add(chain)
        if len(chains) > MOST_CHAINS:
            raise OptionError(f"Grammar: more than {MOST_CHAINS} chains of rules of one child; name those with chains=")
        if len(chain) < LONGEST_CHAIN:
            stack += [(*chain, one) for one in below.get(chain[-1], ()) if one not in chain]
    return chains


# -- a grammar as arrays of numbers --------------------------------------------------------------------------------


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
