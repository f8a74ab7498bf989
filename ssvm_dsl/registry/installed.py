"""The registry of this process: the installed plug-ins, and those that are registered by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.plugin_api.hosting.contained import contained, words
from ssvm_dsl.plugin_api.hosting.packed_loss import PackedLoss, packed_loss
from ssvm_dsl.plugin_api.specs import FileContent, LossSpec, ReaderSpec
from ssvm_dsl.registry.discovery import OWN_FORMATS, discover
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
    for point, info in (OWN_FORMATS, *discover()):
        try:
            with contained(f"the import of {info} (leave it out with --no-plugins or SSVM_PLUGINS)", PluginError):
                plugin = point.load()
        except SsvmError as err:  # a module may call sys.exit() when its library is missing
            made.problems.append(PluginProblem.of(info, f"cannot be imported: {words(err.__cause__ or err)}"))
            continue
        made.register(plugin, info)
    if not any(info.bundled and info != OWN_FORMATS[1] for info in made.plugins):
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


def readers(content: FileContent) -> list[ReaderSpec]:
    """Return the formats of files with this content, those of the package first."""
    return [spec for spec in registry().specs(ReaderSpec) if spec.content is content]


def reader_of(content: FileContent, name: str | None, suffix: str) -> ReaderSpec | None:
    """Return the format of a name, or without one the first that claims a suffix; ``None`` if there is none."""
    fitting = (one for one in readers(content) if (suffix in one.suffixes if name is None else one.name == name))
    return next(fitting, None)


def describe_reader(spec: ReaderSpec) -> str:
    """Return what errors call a reader, with the plug-in it came from."""
    return registry().describe_owner(spec)


def open_reader(spec: ReaderSpec) -> Callable[..., Any]:
    """Return the function of a reader.

    Raises
    ------
    PluginError
        It cannot be imported, or is no reader.
    """
    function = reader_method(spec, "read")
    if function is None:
        text = "is no reader: its factory must name a function, or a class with the method read"
        raise PluginError(f"{describe_reader(spec)} {text}")
    return function


def reader_method(spec: ReaderSpec, method: str) -> Callable[..., Any] | None:
    """Return a method of a reader, ``None`` if it has none; exceptions of a stranger's name the plug-in."""
    known = registry()
    loaded = known.load(spec)
    if isinstance(loaded, type):
        with contained(known.describe_owner(spec)):
            loaded = loaded()
    function: Any = getattr(loaded, method, loaded if method == "read" else None)
    if not callable(function):
        return None
    if known.owner(spec).bundled:
        return cast(Callable[..., Any], function)

    def call(*given: Any) -> Any:
        with contained(known.describe_owner(spec)):
            return function(*given)

    return call


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
