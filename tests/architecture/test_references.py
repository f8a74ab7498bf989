"""Names that docstrings and pages refer to exist: moved code takes its references along."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

from sources import ROOT, product_files

PACKAGES = "ssvm_dsl|ssvm_backends|ssvm_trainers|ssvm_bridges|ssvm_executors|ssvm_constraints|ssvm_papers"

#: A whole name in code marks, after a role of Sphinx or without one.
REFERENCE = re.compile(rf"`~?((?:{PACKAGES})(?:\.\w+)+)(?:\(\))?`")


@cache
def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute or a field of something in one."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[n:]:
            if attribute in getattr(found, "__annotations__", {}):
                return True
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


def test_names_that_are_referred_to_exist():
    docs, built = ROOT / "docs", ("_", "gallery", "reference/api")  # by ``make docs``
    pages = [one for one in sorted(docs.rglob("*.md")) if not one.relative_to(docs).as_posix().startswith(built)]
    gone = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in [*product_files(), ROOT / "README.md", *pages]
        for name in REFERENCE.findall(path.read_text())
        if not exists(name)
    ]
    assert not gone, "\n".join(gone)
