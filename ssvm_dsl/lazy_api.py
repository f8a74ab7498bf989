"""Names of a package that are imported on first use, so that importing the package costs nothing (PEP 562).

The table of names is the block that type checkers and editors read anyway; to read it takes 60 microseconds, and no
stub file, nor a package such as ``lazy_loader``, has to say it again.

An import of a name that is not there asks here as an attribute does.  Python 3.11 replaces the text of an
``AttributeError`` by one without the nearest name, which is why the byte code of the caller is looked at; Python 3.12
finds that name by itself, so that this goes when 3.11 does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from difflib import get_close_matches
from dis import opname
from importlib import import_module
from typing import Any

#: An import for type checkers, of a name that is imported on first use.
_LISTED = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


def _unknown(package: str, name: str, names: Collection[str]) -> Exception:
    """Return the error for a name that is not there, with a close one; an import statement fails as such."""
    close = get_close_matches(name, [] if name.startswith("_") else sorted(names), n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    caller = sys._getframe(2)
    if opname[caller.f_code.co_code[caller.f_lasti]] == "IMPORT_FROM":
        return ImportError(f"cannot import name '{name}' from '{package}'{meant}", name=package)
    return AttributeError(f"module '{package}' has no attribute '{name}'{meant}")


def lazy_names(package: str, *others: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package whose names are imported on first use.

    The names, and the modules that they are in, are those of the lines ``from a.b import c as c`` by which its source
    imports them for type checkers, within ``if TYPE_CHECKING:``.

    Parameters
    ----------
    package : str
        The package that is being imported.
    *others : str
        Names that it has besides.
    """
    module = sys.modules[package]
    with open(str(module.__file__), encoding="utf-8") as source:
        home_of = {name: home for home, name in _LISTED.findall(source.read())}
    names = sorted([*home_of, *others])

    def find(name: str) -> Any:
        if name not in home_of:
            raise _unknown(package, name, home_of)
        value = getattr(import_module(home_of[name]), name)
        setattr(module, name, value)
        return value

    return names, find, lambda: names
