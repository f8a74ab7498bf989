"""Finds plug-ins and keeps broken ones out: discovery, quarantine, conflicts.

Plug-ins are entry points of the group ``ssvm``.  The bundled ones come from this distribution and are loaded
the same way, first, so that no stranger can take their names.  Anything wrong with a plug-in (import error,
old contract, unknown hook, duplicate name) is noted in ``Registry.problems`` and the plug-in (or the one spec)
is left out; it never takes the host down.

``SSVM_DISABLE_PLUGIN_AUTOLOAD=1`` loads bundled plug-ins only.  ``SSVM_PLUGINS=a,b`` loads, of the foreign
ones, only those named (by entry point or distribution) and lets ``auto`` choose them.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

import pluggy

from ssvm_dsl.errors import PluginError
from ssvm_dsl.plugin_api import hookspecs
from ssvm_dsl.plugin_api.specs import (
    API_VERSION,
    BackendSpec,
    BridgeSpec,
    ConstraintSpec,
    ExecutorSpec,
    LossSpec,
    Spec,
    TrainerSpec,
)
from ssvm_dsl.plugin_api.training import TrainingEvent

GROUP = "ssvm"
DISTRIBUTION = "ssvm-dsl"

#: Hook name -> kind of spec it returns.
KINDS: dict[str, type[Spec]] = {
    "ssvm_backends": BackendSpec,
    "ssvm_trainers": TrainerSpec,
    "ssvm_executors": ExecutorSpec,
    "ssvm_constraints": ConstraintSpec,
    "ssvm_bridges": BridgeSpec,
    "ssvm_losses": LossSpec,
}

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True)
class PluginInfo:
    """A plug-in that was found.

    Parameters
    ----------
    name : str
        Name of the entry point (or the one given at registration).
    distribution : str
        The package it comes with, and its version.
    bundled : bool
        Part of this distribution.
    allowed : bool
        Whether ``auto`` may choose its backends.
    """

    name: str
    distribution: str
    bundled: bool
    allowed: bool

    @property
    def key(self) -> str:
        """Unique name: two distributions may use the same entry-point name."""
        return f"{self.distribution}/{self.name}"


@dataclass(frozen=True)
class Problem:
    """Something wrong with a plug-in, and what was left out because of it."""

    plugin: str
    text: str


@dataclass
class Registry:
    """All usable plug-ins, and what is wrong with the others."""

    manager: pluggy.PluginManager
    plugins: list[PluginInfo] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _specs: dict[type[Spec], dict[str, tuple[Spec, PluginInfo]]] = field(default_factory=dict)

    # -- looking things up -----------------------------------------------------------------------------

    def specs(self, kind: type[S]) -> list[S]:
        """Return all specs of a kind, bundled first."""
        return [spec for spec, _ in self._specs.get(kind, {}).values() if isinstance(spec, kind)]

    def owner(self, spec: Spec) -> PluginInfo:
        """Return the plug-in a spec came from."""
        return self._specs[type(spec)][spec.name][1]

    def find(self, kind: type[S], name: str, advice: str = "") -> S:
        """Return the spec of that name.

        Parameters
        ----------
        kind : type
        name : str
        advice : str
            What to write instead, if it is not there; by default a close match.

        Raises
        ------
        PluginError
            Unknown name; lists the known ones, close matches first, and why a plug-in may be missing.
        """
        found = self._specs.get(kind, {}).get(name)
        if found is not None and isinstance(found[0], kind):
            return found[0]
        word = kind.__name__.removesuffix("Spec").lower()
        known = [spec.name for spec in self.specs(kind)]
        close = difflib.get_close_matches(str(name), known, n=1)
        meant = f"; write {advice}" if advice else f"; did you mean '{close[0]}'?" if close else ""
        text = f"there is no {word} '{name}'{meant}\n  known: {', '.join(known) or 'none'}"
        broken = [f"\n  {problem.plugin}: {problem.text}" for problem in self.problems]
        raise PluginError(text + "".join(broken))

    def training_event(self, event: TrainingEvent) -> bool:
        """Tell every plug-in about an iteration; return whether one asks to stop."""
        return any(self.manager.hook.ssvm_training_event(event=event))

    @property
    def listens(self) -> bool:
        """Whether any plug-in wants training events."""
        return bool(self.manager.hook.ssvm_training_event.get_hookimpls())

    # -- registering -----------------------------------------------------------------------------------

    def register(self, plugin: object, info: PluginInfo) -> bool:
        """Register a plug-in object; return whether it was accepted, noting a problem otherwise."""
        if self.manager.is_registered(plugin):
            return self._reject(info, f"the same plug-in is already registered as '{self.manager.get_name(plugin)}'")
        try:
            self.manager.register(plugin, info.key)
        except (ValueError, pluggy.PluginValidationError) as err:
            return self._reject(info, f"its hooks do not fit: {err}", plugin)
        callers = self.manager.get_hookcallers(plugin) or ()
        if not callers:
            text = f"it has none of the hooks ({', '.join([*KINDS, 'ssvm_training_event'])})"
            return self._reject(info, f"{text}; write one as a function marked with @hookimpl", plugin)
        unknown = [c.name for c in callers if not c.has_spec()]
        if unknown:
            close = difflib.get_close_matches(unknown[0], [*KINDS, "ssvm_training_event"], n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            return self._reject(info, f"there is no hook {unknown[0]}{meant}", plugin)
        self.plugins.append(info)
        for hook in KINDS:
            self._collect(plugin, hook, info)
        return True

    def forget(self, info: PluginInfo) -> None:
        """Take a plug-in out again, with its specs; nothing happens when it is not there."""
        if info not in self.plugins:
            return
        self.manager.unregister(name=info.key)
        self.plugins.remove(info)
        for kind, taken in self._specs.items():
            self._specs[kind] = {name: pair for name, pair in taken.items() if pair[1] != info}

    def _reject(self, info: PluginInfo, text: str, plugin: object | None = None) -> bool:
        if plugin is not None and self.manager.is_registered(plugin):
            self.manager.unregister(plugin)
        self.problems.append(Problem(info.name, text))
        return False

    def _collect(self, plugin: object, hook: str, info: PluginInfo) -> None:
        """Take the specs one plug-in returns from one hook."""
        implementation: Callable[[], Iterable[Spec]] | None = next(
            (i.function for i in getattr(self.manager.hook, hook).get_hookimpls() if i.plugin is plugin), None
        )
        if implementation is None:
            return
        try:
            specs = list(implementation())
        except Exception as err:
            self.problems.append(Problem(info.name, f"{hook} failed: {type(err).__name__}: {err}"))
            return
        for spec in specs:
            self._take(spec, KINDS[hook], info)

    def _take(self, spec: Spec, kind: type[Spec], info: PluginInfo) -> None:
        word = kind.__name__.removesuffix("Spec").lower()
        taken = self._specs.setdefault(kind, {})
        if not isinstance(spec, kind):
            self.problems.append(Problem(info.name, f"expected a {kind.__name__}, got {type(spec).__name__}"))
        elif spec.api_version != API_VERSION:
            text = f"{word} '{spec.name}' is made for contract version {spec.api_version}, this is {API_VERSION}"
            self.problems.append(Problem(info.name, text))
        elif spec.name in taken:
            text = f"{word} '{spec.name}' is already registered by '{taken[spec.name][1].name}'; the second is left out"
            self.problems.append(Problem(info.name, text))
        else:
            taken[spec.name] = (spec, info)

    def copy(self) -> Registry:
        """Return a registry with the same plug-ins, to add to without touching this one."""
        made = _empty()
        for info in self.plugins:
            made.register(self.manager.get_plugin(info.key), info)
        made.problems = list(self.problems)
        return made


def _empty() -> Registry:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return Registry(manager)


@lru_cache(maxsize=1)
def registry() -> Registry:
    """Return the registry of installed plug-ins (made once).

    Raises
    ------
    PluginError
        The bundled plug-ins are not installed.
    """
    made = _empty()
    for point, info in _discover():
        try:
            plugin = point.load()
        except (Exception, SystemExit) as err:  # a module may call sys.exit() when its library is missing
            made.problems.append(Problem(info.name, f"cannot be imported: {type(err).__name__}: {err}"))
            continue
        made.register(plugin, info)
    if not any(info.bundled for info in made.plugins):
        broken = "".join(f"\n  {problem.plugin}: {problem.text}" for problem in made.problems)
        raise PluginError(f"the bundled plug-ins are not registered; install the package: pip install .{broken}")
    return made


def register(plugin: Any, name: str) -> None:
    """Register a plug-in object for this process, e.g. from a notebook or a test.

    Its backends are chosen by name only; ``auto`` does not take them.  What was registered under the same name before
    is replaced, so that a cell of a notebook can be run again.

    Parameters
    ----------
    plugin : object
        A module, or an object with methods, that has hooks: functions marked with ``@hookimpl``.
    name : str
        What to call it in messages.

    Raises
    ------
    PluginError
        The plug-in is not accepted, or one of its specs is left out.
    """
    known = registry()
    before = len(known.problems)
    info = PluginInfo(name, "registered in this process", bundled=False, allowed=False)
    known.forget(info)
    known.register(plugin, info)
    if len(known.problems) > before:
        raise PluginError(f"plug-in '{name}': " + "; ".join(problem.text for problem in known.problems[before:]))


def _discover() -> Iterator[tuple[EntryPoint, PluginInfo]]:
    """Yield the entry points to load, bundled first."""
    allow = {name.strip() for name in os.environ.get("SSVM_PLUGINS", "").split(",") if name.strip()}
    bundled_only = os.environ.get("SSVM_DISABLE_PLUGIN_AUTOLOAD", "") not in ("", "0")
    found = []
    for point in entry_points(group=GROUP):
        distribution = point.dist.name if point.dist is not None else "unknown"
        bundled = distribution.lower().replace("_", "-") == DISTRIBUTION
        named = bool({point.name, distribution} & allow)
        if not bundled and (bundled_only or (allow and not named)):
            continue
        version = point.dist.version if point.dist is not None else ""
        found.append((point, PluginInfo(point.name, f"{distribution} {version}".strip(), bundled, bundled or named)))
    found.sort(key=lambda pair: (not pair[1].bundled, pair[1].distribution, pair[1].name))
    seen: set[tuple[str, str]] = set()
    for point, info in found:
        if (point.name, point.value) not in seen:  # an editable install can be listed twice
            seen.add((point.name, point.value))
            yield point, info
