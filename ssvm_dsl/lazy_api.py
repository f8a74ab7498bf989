"""Names of a package that are imported on first use, so that importing the package costs nothing (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from dis import opname
from importlib import import_module
from typing import Any


def _unknown(package: str, name: str, names: Collection[str]) -> Exception:
    """Return the error for a name that is not there, with a close one; an import statement fails as such."""
    close = get_close_matches(name, [] if name.startswith("_") else sorted(names), n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    caller = sys._getframe(2)
    if opname[caller.f_code.co_code[caller.f_lasti]] == "IMPORT_FROM":
        return ImportError(f"cannot import name '{name}' from '{package}'{meant}", name=package)
    return AttributeError(f"module '{package}' has no attribute '{name}'{meant}")


def lazy_names(package: str, homes: Mapping[str, Collection[str]]) -> tuple[list[str], Callable[[str], Any]]:
    """Return ``__all__`` and ``__getattr__`` of a package.

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping of str to collection of str
        Modules, and the names in them.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise _unknown(package, name, home_of)
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return sorted(home_of), find
