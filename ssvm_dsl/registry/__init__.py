"""Finds plug-ins and keeps broken ones out.

Plug-ins are entry points of the group ``ssvm``.  Anything wrong with a plug-in (import error, old contract, unknown
hook, duplicate name) is noted in ``Registry.problems``, and the plug-in (or the one spec) is left out; it never takes
the host down.

A module each: what is known of a plug-in (``records``), how one is read and checked (``reading``), which are installed
(``discovery``), the plug-ins in use (``plugins``), names and aliases (``lookup``), training events (``listeners``), and
the registry of this process (``installed``).
"""

from ssvm_dsl.registry.installed import (
    describe_reader,
    loss_function,
    open_reader,
    reader_method,
    reader_of,
    readers,
    register,
    registry,
)
from ssvm_dsl.registry.plugins import Registry
from ssvm_dsl.registry.records import KINDS, PluginInfo, PluginProblem, word

__all__ = [
    "KINDS",
    "PluginInfo",
    "PluginProblem",
    "Registry",
    "describe_reader",
    "loss_function",
    "open_reader",
    "reader_method",
    "reader_of",
    "readers",
    "register",
    "registry",
    "word",
]
