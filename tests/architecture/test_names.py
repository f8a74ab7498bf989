"""A class name means one thing in the whole product; packages ``ssvm-*`` are apart."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

from sources import ROOT, nodes_of, product_files, tree_of


@cache
def classes() -> dict[str, list[str]]:
    """The places of each class."""
    found = defaultdict(list)
    for path in product_files():
        for node in nodes_of(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_class_names_are_unique():
    several = {name: places for name, places in classes().items() if len(places) > 1}
    assert not several, "\n".join(f"{name}: {', '.join(places)}" for name, places in several.items())


def test_there_are_classes_to_check():
    assert len(classes()) > 700


#: Words that say nothing to a newcomer: definitions, parameters and attributes have the field's names instead.
RIDDLES = frozenset(
    {"ways", "whose", "told", "room", "held", "living", "laid", "lay", "look_around", "arm", "subject", "aim", "blur"}
    | {"remarks", "shortfall", "stretches", "stretch", "outlook", "runaway", "gaveup", "riskworld", "oneeach", "but"}
    | {"ownstructure", "twin", "settle", "parts_within", "open_node", "tells_apart", "axes_told"}
)

#: Where such a word is what it says: a limit of memory, an argument of a plot.
ALLOWED = {("terrains.py", "blur"), ("custom.py", "whose")}


def test_names_are_those_of_the_field():
    found = set()
    for path in product_files():
        for node in nodes_of(tree_of(path)):
            names = [getattr(node, "name", None) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None]
            names += [node.arg] if isinstance(node, ast.arg) else []
            names += [node.attr] if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) else []
            names += [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []
            found |= {(path.name, name) for name in names if name and name.strip("_").lower() in RIDDLES}
    assert not found - ALLOWED


def test_lazy_names_are_not_those_of_modules():
    """A module that something else imports first would stand for the name: ``from a import b`` gives the module."""
    for path in (ROOT / "ssvm_dsl").rglob("__init__.py"):
        names = set(re.findall(r"^    from \S+ import \S+ as (\S+)$", path.read_text(), re.MULTILINE))
        assert not names & {one.stem for one in path.parent.iterdir()}, path
