"""Binary trees, whose symbols remember some of their siblings and parents."""

from __future__ import annotations

from collections.abc import Sequence

from ssvm_dsl.lang.grammars.parse_tree import ABOVE, PART, ParseTree

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
