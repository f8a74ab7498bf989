"""A class name means one thing in the whole product; packages ``ssvm-*`` are apart."""

from __future__ import annotations

import ast
from collections import defaultdict

from sources import ROOT, product_files, tree_of


def classes() -> dict[str, list[str]]:
    """The places of each class."""
    found = defaultdict(list)
    for path in product_files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_class_names_are_unique():
    several = {name: places for name, places in classes().items() if len(places) > 1}
    assert not several, "\n".join(f"{name}: {', '.join(places)}" for name, places in several.items())


def test_there_are_classes_to_check():
    assert len(classes()) > 700
