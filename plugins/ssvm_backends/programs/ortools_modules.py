"""The import of OR-Tools: a version that lacks something disables the backend that needs it, with the reason."""

from __future__ import annotations

import importlib
from importlib import metadata

from ssvm_dsl.errors import PluginError
from ssvm_dsl.plugin_api import loading


def import_ortools(*modules: str) -> None:
    """Import modules of OR-Tools, which takes long.

    Parameters
    ----------
    *modules : str

    Raises
    ------
    PluginError
        The OR-Tools that is installed cannot be used; says its version and why.
    """
    try:
        with loading():
            for module in modules:
                importlib.import_module(module)
    except Exception as err:  # a library that is missing, a name that has moved, another version of protobuf
        why = " ".join(str(err).split())[:300]
        raise PluginError(
            f"OR-Tools {ortools_version()} cannot be used: {type(err).__name__}: {why}\n"
            "  hint: pip install --force-reinstall 'ortools>=9.15', or name another backend"
        ) from err


def ortools_version() -> str:
    """Return the version that is installed."""
    try:
        return metadata.version("ortools")
    except metadata.PackageNotFoundError:
        return "of no known version"
