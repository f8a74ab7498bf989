"""The registry of this process: the installed plug-ins, and those that are registered by hand."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.plugin_api.hosting.contained import contained, words
from ssvm_dsl.plugin_api.hosting.packed_loss import PackedLoss, packed_loss
from ssvm_dsl.plugin_api.specs import LossSpec
from ssvm_dsl.registry.discovery import discover
from ssvm_dsl.registry.plugins import Registry
from ssvm_dsl.registry.records import PluginInfo, PluginProblem


@lru_cache(maxsize=1)
def registry() -> Registry:
    """Return the registry of installed plug-ins (made once).

    Raises
    ------
    PluginError
        The bundled plug-ins are not installed.
    """
    made = Registry()
    for point, info in discover():
        try:
            with contained(f"the import of {info} (leave it out with --no-plugins or SSVM_PLUGINS)", PluginError):
                plugin = point.load()
        except SsvmError as err:  # a module may call sys.exit() when its library is missing
            made.problems.append(PluginProblem.of(info, f"cannot be imported: {words(err.__cause__ or err)}"))
            continue
        made.register(plugin, info)
    if not any(info.bundled for info in made.plugins):
        broken = "".join(f"\n  {problem.plugin}: {problem.text}" for problem in made.problems)
        raise PluginError(f"the bundled plug-ins are not registered; install the package: pip install .{broken}")
    return made


def loss_function(kind: str) -> PackedLoss:
    """Return the function of a plug-in's loss, for many examples at once; its exceptions name the plug-in."""
    known = registry()
    spec = known.find(LossSpec, kind)
    function, owner_name = packed_loss(spec, known.load(spec)), known.describe_owner(spec)

    def prices(truth: I32, n_states: int, ptr: I64, **options: Any) -> Any:
        with contained(owner_name):
            return function(truth, n_states, ptr, **options)

    return prices


@checked_call
def register(plugin: Any, name: str) -> None:
    """Register a plug-in object for this process, e.g. from a notebook or a test.

    Its backends are chosen by name only; ``auto`` does not take them.  What was registered under the same name before
    is replaced, so that a cell of a notebook can be run again.  If anything is wrong, nothing is changed.

    Parameters
    ----------
    plugin : object
        A module, or an object with methods, that has hooks: functions marked with ``@hookimpl``.
    name : str
        Its name in messages.

    Raises
    ------
    PluginError
        The plug-in is not accepted, or one of its specs cannot be taken.
    """
    if not isinstance(name, str) or not name:
        raise PluginError(f"register: the name of a plug-in must be a str, got {name!r}")
    info = PluginInfo(name, "registered in this process", bundled=False, allowed=False)
    problems = registry().replace(plugin, info)
    if problems:
        raise PluginError(f"plug-in '{name}': " + "; ".join(" ".join(text.split()) for text in problems))
