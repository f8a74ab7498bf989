"""Files with examples and labels: one module for each format, and what finds them among those of plug-ins."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a module of this package, as descriptions of readers name them."""
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        raise AttributeError(name) from None
