"""``ParseTree``: a sentence divided into nested phrases, each with a symbol; ``PartialTree``: what is known of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from ssvm_dsl.calls import checked_class
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.arrays import describe

#: The deepest tree that is read: what walks it calls itself once for each level.
MOST_DEPTH = 300

#: Pixels of a letter, between neighbouring words, and of a level.
LETTER, GAP, LEVEL = 8.0, 14.0, 40.0

_TOKEN = re.compile(r"[()]|[^ \t\r\n()]+")

#: What begins the name of a symbol that binarising made, after the symbol that it is a part of, and the symbol above.
PART, ABOVE = "|<", "^<"


class Bracket(NamedTuple):
    """A phrase: the words ``start:end`` and its symbol."""

    start: int
    end: int
    label: str


@checked_class
@dataclass(frozen=True, repr=False)
class ParseTree:
    """A symbol over its children: trees, or one word; immutable, compared by content.

    Parameters
    ----------
    label : str
    children : tuple of ParseTree or str
        At least one; a word stands alone under its part of speech.

    Examples
    --------
    >>> tree = ParseTree.of("(S (NP (D the) (N dog)) (VP (V barks)))")
    >>> tree.words
    ('the', 'dog', 'barks')
    >>> tree.brackets()[1]
    Bracket(start=0, end=2, label='NP')
    """

    label: str
    children: tuple[ParseTree | str, ...]

    def __post_init__(self) -> None:
        whole = isinstance(self.label, str) and isinstance(self.children, tuple) and bool(self.children)
        words = whole and sum(isinstance(child, str) for child in self.children)
        if not whole or not (words == 1 == len(self.children) or all(isinstance(c, ParseTree) for c in self.children)):
            expected = "a symbol and a tuple of trees, or of one word"
            raise DataError("ParseTree", expected=expected, found=repr(self.label))

    @classmethod
    def of(cls, value: Any) -> ParseTree:
        """Return a tree from a tree, from text in brackets, from nested lists or from an ``nltk.Tree``.

        Lists hold the symbol first: ``["S", ["NP", "Mary"], ["VP", "runs"]]``.

        Raises
        ------
        DataError
            It is none of these; says where.
        """
        if isinstance(value, ParseTree):
            return value
        if isinstance(value, str):
            trees = list(nested_lists(value, "tree"))
            if len(trees) != 1:
                expected = "one tree in brackets, such as (S (NP Mary) (VP runs))"
                raise DataError("tree", expected=expected, found=f"{len(trees)} trees in {value[:40]!r}")
            value = trees[0]
        return _from_nested(value, 1)

    @property
    def is_tag(self) -> bool:
        """Whether it is a part of speech over a word."""
        return isinstance(self.children[0], str)

    @property
    def trees(self) -> tuple[ParseTree, ...]:
        """The children that are trees."""
        return tuple(child for child in self.children if isinstance(child, ParseTree))

    @property
    def words(self) -> tuple[str, ...]:
        """The words, from left to right."""
        return tuple(str(leaf.children[0]) for leaf in self.leaves())

    @property
    def tags(self) -> tuple[str, ...]:
        """The part of speech of each word."""
        return tuple(leaf.label for leaf in self.leaves())

    @property
    def depth(self) -> int:
        """Number of symbols from here to the deepest word."""
        return 1 + max((child.depth for child in self.trees), default=0)

    def leaves(self) -> Iterator[ParseTree]:
        """Yield the subtrees of one word, from left to right."""
        waiting = [self]
        while waiting:
            tree = waiting.pop()
            if tree.is_tag:
                yield tree
            else:
                waiting += reversed(tree.trees)

    def subtrees(self) -> Iterator[ParseTree]:
        """Yield the tree and all trees inside, those above before those below."""
        yield self
        for child in self.trees:
            yield from child.subtrees()

    def brackets(self) -> list[Bracket]:
        """Return all phrases, those above before those below; parts of speech are none."""
        out: list[Bracket] = []
        _collect(self, 0, out)
        return out

    def un_binarized(self) -> ParseTree:
        """Return the tree without the symbols that binarising made, and without notes of the symbol above."""
        return self if self.is_tag else ParseTree(plain_label(self.label), tuple(_flat(self)))

    def without_cycles(self) -> ParseTree:
        """Return the tree without symbols that stand once more above the same words."""
        return _acyclic(self, frozenset())

    def with_words(self, words: Sequence[str]) -> ParseTree:
        """Return the tree over other words, from left to right.

        Raises
        ------
        DataError
            They are more or fewer.
        """
        if len(words) != len(self.words):
            raise DataError("words", expected=f"{len(self.words)}", found=f"{len(words)}")
        return _over(self, iter(words))

    def map_labels(self, rename: Callable[[str], str]) -> ParseTree:
        """Return the tree with other symbols, parts of speech included."""
        children = tuple(c if isinstance(c, str) else c.map_labels(rename) for c in self.children)
        return ParseTree(rename(self.label), children)

    def to_lists(self) -> list[Any]:
        """Return nested lists, the symbol first."""
        return [self.label, *(c if isinstance(c, str) else c.to_lists() for c in self.children)]

    def to_nltk(self) -> Any:
        """Return an ``nltk.Tree``; NLTK has to be installed."""
        from nltk import Tree

        return Tree(self.label, [c if isinstance(c, str) else c.to_nltk() for c in self.children])

    def draw(self) -> str:
        """Return the tree as text, a line for each symbol."""
        return "\n".join(_lines(self))

    def svg(self) -> str:
        """Return the tree as a drawing, words at the bottom, for web pages."""
        parts: list[str] = []
        _, right = _place(self, 0.0, 0, parts)
        width, height = right, LEVEL * (self.depth + 1)
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        style = 'font-family="sans-serif" font-size="13" text-anchor="middle"'
        return f'{head} height="{height:.0f}" {style}>{"".join(parts)}</svg>'

    def _repr_svg_(self) -> str:
        """Return what notebooks show."""
        return self.svg()

    def __str__(self) -> str:
        return f"({self.label} {' '.join(map(_written, self.children))})"

    def __repr__(self) -> str:
        return f"ParseTree.of({str(self)!r})"


def _acyclic(tree: ParseTree, above: frozenset[str]) -> ParseTree:
    """Return a tree below symbols of the same words."""
    while not tree.is_tag and len(tree.children) == 1 and tree.trees[0].label in above | {tree.label}:
        below = tree.trees[0]
        tree = ParseTree(tree.label, below.children)
    if tree.is_tag:
        return tree
    seen = above | {tree.label} if len(tree.children) == 1 else frozenset()
    return ParseTree(tree.label, tuple(_acyclic(child, seen) for child in tree.trees))


def _over(tree: ParseTree, words: Iterator[str]) -> ParseTree:
    if tree.is_tag:
        return ParseTree(tree.label, (next(words),))
    return ParseTree(tree.label, tuple(_over(child, words) for child in tree.trees))


def plain_label(label: str) -> str:
    """Return a symbol without what vertical markovisation noted."""
    return label.partition(ABOVE)[0]


def is_part(label: str) -> bool:
    """Whether binarising made a symbol."""
    return PART in label


def _flat(tree: ParseTree) -> Iterator[ParseTree | str]:
    for child in tree.children:
        if isinstance(child, ParseTree) and is_part(child.label):
            yield from _flat(child)
        else:
            yield child if isinstance(child, str) else child.un_binarized()


def _collect(tree: ParseTree, start: int, out: list[Bracket]) -> int:
    """Append the phrases of a tree that begins at a word; return where it ends."""
    if tree.is_tag:
        return start + 1
    place, end = len(out), start
    out.append(Bracket(start, start, tree.label))
    for child in tree.trees:
        end = _collect(child, end, out)
    out[place] = Bracket(start, end, tree.label)
    return end


def _written(child: ParseTree | str) -> str:
    """Return a child as text; round brackets in words are written as the Penn Treebank writes them."""
    return child.replace("(", "-LRB-").replace(")", "-RRB-") if isinstance(child, str) else str(child)


def _from_nested(value: Any, depth: int) -> ParseTree:
    """Return the tree of nested lists, or of an ``nltk.Tree``, which is a list with a method ``label``."""
    if depth > MOST_DEPTH:
        raise DataError("tree", expected=f"at most {MOST_DEPTH} symbols above each other", found="more")
    if isinstance(value, ParseTree):
        return value
    label = getattr(value, "label", None)
    parts = [label(), *value] if callable(label) and isinstance(value, list) else value
    if not isinstance(parts, list | tuple) or len(parts) < 2 or not isinstance(parts[0], str):
        raise DataError("tree", expected="[symbol, child, ...], the children trees or one word", found=describe(value))
    name, *children = parts
    alone = len(children) == 1 and isinstance(children[0], str)
    if not alone and any(isinstance(child, str) for child in children):
        raise DataError("tree", expected="a word alone under its part of speech", found=repr(children)[:60])
    made = tuple(str(child) if alone else _from_nested(child, depth + 1) for child in children)
    return ParseTree(str(name), made)


# -- drawings ---------------------------------------------------------------------------------------------------------


def _lines(tree: ParseTree) -> Iterator[str]:
    if tree.is_tag:
        yield f"{tree.label} {tree.children[0]}"
        return
    yield tree.label
    *others, last = tree.trees
    for child in others:
        first, *rest = _lines(child)
        yield f"├─ {first}"
        yield from (f"│  {line}" for line in rest)
    first, *rest = _lines(last)
    yield f"└─ {first}"
    yield from (f"   {line}" for line in rest)


def _place(tree: ParseTree, left: float, level: int, parts: list[str]) -> tuple[float, float]:
    """Draw a tree from ``left`` on; return the middle of its symbol and where it ends."""
    y = LEVEL * (level + 0.5)
    if tree.is_tag:
        word = str(tree.children[0])
        right = left + LETTER * max(len(word), len(tree.label)) + GAP
        middle = (left + right) / 2
        parts.append(_stroke(middle, y, middle, y + LEVEL) + _text(middle, y + LEVEL, word, ' font-style="italic"'))
    else:
        middles, right = [], left
        for child in tree.trees:
            middle, right = _place(child, right, level + 1, parts)
            middles.append(middle)
        right = max(right, left + LETTER * len(tree.label) + GAP)
        middle = (middles[0] + middles[-1]) / 2
        parts += [_stroke(middle, y, below, y + LEVEL) for below in middles]
    parts.append(_text(middle, y, tree.label, ""))
    return middle, right


def _stroke(x: float, y: float, x2: float, y2: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y + 6:.1f}" x2="{x2:.1f}" y2="{y2 - 14:.1f}" stroke="#888"/>'


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}>{escape(text)}</text>'


# -- trees read from text ---------------------------------------------------------------------------------------------


def nested_lists(text: str, where: str) -> Iterator[list[Any]]:
    """Yield the trees of a text, each as a list ``[symbol, child, ...]``; brackets without a symbol are left out.

    Raises
    ------
    DataError
        Brackets do not match, a symbol has no children, or words and phrases are siblings; the message says where.
    """
    stack: list[list[Any]] = []
    begin = left = 0  # where the tree begins, and the last one at the left edge
    opened = False  # a bracket whose symbol, if any, comes next
    for match in _TOKEN.finditer(text):
        token, at = match[0], match.start()
        if token == "(":
            if not stack:
                begin = at
                left = at if text[at - 1 : at] in ("", "\n") else left
            stack.append([""])
            if len(stack) > MOST_DEPTH:
                raise _unclosed(where, text, begin, f"at most {MOST_DEPTH} brackets inside each other", at)
        elif not stack:
            before = f" (the tree before begins at line {_line(text, left)})" if left < at else ""
            raise _wrong(where, text, at, f"'(' at the beginning of a tree{before}")
        elif token != ")":
            if opened:
                stack[-1][0] = token
            else:
                stack[-1].append(token)
        else:
            tree = stack.pop()
            if expected := _mistake(tree):
                raise _wrong(where, text, at, f"{expected} (in the tree that begins at line {_line(text, begin)})")
            tree = tree if tree[0] else tree[1]
            if stack:
                stack[-1].append(tree)
            else:
                yield tree
        opened = token == "("
    if stack:
        raise _unclosed(where, text, begin, f"{len(stack)} more ')' for it", len(text))


def _mistake(tree: list[Any]) -> str:
    """Return the rule that a finished tree breaks, ``""`` if it breaks none."""
    label, *children = tree
    if not children or (not label and (len(children) > 1 or isinstance(children[0], str))):
        return "a symbol and its children in each pair of brackets"
    if len(children) > 1 and any(isinstance(child, str) for child in children):
        return "a word alone in the brackets of its part of speech"
    return ""


def _unclosed(where: str, text: str, begin: int, expected: str, at: int) -> DataError:
    """Return the error for a tree that is not closed: all trees before it are, so a bracket of it is missing."""
    line = _line(text, begin)
    found = f"the tree that begins at line {line}, {text[begin : begin + 40]!r}, still open at line {_line(text, at)}"
    after = re.compile(r"^\(", re.MULTILINE).search(text, begin + 1, at)
    hint = "a bracket is missing in it"
    if after is not None:
        hint = f"line {_line(text, after.start())} begins the next tree; a bracket is missing before it"
    return DataError(where, expected=expected, found=found, hint=hint)


def _wrong(where: str, text: str, at: int, expected: str) -> DataError:
    found = f"line {_line(text, at)}: {text[max(0, at - 20) : at + 20]!r}"
    return DataError(where, expected=expected, found=found)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


# -- what is known of a tree ---------------------------------------------------------------------------------------

#: First word, end, and symbol of a phrase; any symbol where it is ``None``.
Known = tuple[int, int, str | None]


@checked_class
@dataclass(frozen=True, init=False)
class PartialTree:
    """Known tags and phrases of a sentence, for ``given=`` of predictions.

    Parameters
    ----------
    tags : sequence of str or None, optional
        The tag of each word, ``None`` where it is not known.
    brackets : iterable of (start, end, symbol)
        Phrases that the tree has, over the words ``start:end``; ``None`` as symbol for any.  A phrase of one word
        stands above its tag.

    Examples
    --------
    >>> svm.predict([x], given=[PartialTree(tags=["D", None, "V"], brackets=[(0, 2, "NP")])])
    """

    tags: tuple[str | None, ...] | None
    brackets: tuple[Known, ...]

    def __init__(self, tags: Sequence[str | None] | None = None, brackets: Iterable[Any] = ()) -> None:
        try:
            names = None if tags is None else tuple(None if one is None else str(one) for one in tags)
            found = tuple(
                (int(start), int(end), None if symbol is None else str(symbol)) for start, end, symbol in brackets
            )
        except (TypeError, ValueError) as err:
            expected = "tags as a list of str or None, brackets as (start, end, symbol)"
            raise DataError("PartialTree", expected=expected, found=str(err)) from err
        wrong = [one for one in found if not 0 <= one[0] < one[1]]
        if wrong:
            raise DataError("PartialTree", expected="brackets with 0 <= start < end", found=describe(wrong[0]))
        if both := crossing(found):
            expected = "brackets that lie side by side or inside each other"
            text = " and ".join(str(one) for one in both)
            raise DataError("PartialTree", expected=expected, found=f"{text}, which cross")
        object.__setattr__(self, "tags", names)
        object.__setattr__(self, "brackets", found)

    def tags_of(self, known: Sequence[str], n: int) -> list[tuple[int, int]]:
        """Return (word, number of its tag) of the words of n whose tag is known.

        Raises
        ------
        DataError
            There are not n tags, or one is not among those of the grammar.
        """
        if self.tags is None:
            return []
        if len(self.tags) != n:
            raise DataError("PartialTree", expected=f"{n} tags, one for each word", found=f"{len(self.tags)}")
        lacking = [one for one in self.tags if one is not None and one not in known]
        if lacking:
            raise DataError("PartialTree", expected="tags of the grammar", found=repr(lacking[0]))
        return [(t, list(known).index(one)) for t, one in enumerate(self.tags) if one is not None]

    def chains_of(self, known: Sequence[tuple[str, ...]], n: int) -> list[tuple[int, int, list[int]]]:
        """Return (first word, last word, numbers of the chains that have the symbol) of each bracket.

        Raises
        ------
        DataError
            A bracket is longer than the sentence, or its symbol in no chain of the grammar.
        """
        out, names = [], [{*chain, *map(plain_label, chain)} for chain in known] if self.brackets else []
        for start, end, symbol in self.brackets:
            if end > n:
                raise DataError("PartialTree", expected=f"brackets inside {n} words", found=f"({start}, {end})")
            chains = [c for c, mine in enumerate(names) if symbol is None or symbol in mine]
            if not chains:
                raise DataError("PartialTree", expected="symbols of phrases of the grammar", found=repr(symbol))
            out.append((start, end - 1, chains))
        return out


def crossing(brackets: Iterable[Known]) -> tuple[Known, Known] | None:
    """Return two brackets that cross, which no tree has; ``None`` where there are none."""
    around: list[Known] = []
    for one in sorted(brackets, key=lambda known: (known[0], -known[1])):
        while around and around[-1][1] <= one[0]:
            around.pop()
        if around and around[-1][1] < one[1]:
            return around[-1], one
        around.append(one)
    return None
