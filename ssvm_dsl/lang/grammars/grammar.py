"""``Grammar``: the rules that parse trees are made by, each with two children or one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np

from ssvm_dsl.array_types import Bools
from ssvm_dsl.calls import checked_class
from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.grammars.binarizing import LEFT, RIGHT, binarized, part_name
from ssvm_dsl.lang.grammars.counting import count_parses
from ssvm_dsl.lang.grammars.parse_tree import ParseTree, is_part
from ssvm_dsl.lang.grammars.reading import Chain, Rule, chains_of, read_cfg, rules_of

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
