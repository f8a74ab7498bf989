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
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from threading import RLock
from typing import Any, TypeVar

import pluggy

from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.plugin_api import hookspecs
from ssvm_dsl.plugin_api.check_spec import mistakes
from ssvm_dsl.plugin_api.contained import contained, words
from ssvm_dsl.plugin_api.specs import (
    API_VERSION,
    BackendSpec,
    BridgeSpec,
    CommandSpec,
    ConstraintSpec,
    LossSpec,
    NamedSpec,
    RiskSpec,
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
    "ssvm_risks": RiskSpec,
    "ssvm_losses": LossSpec,
    "ssvm_constraints": ConstraintSpec,
    "ssvm_bridges": BridgeSpec,
    "ssvm_commands": CommandSpec,
}

#: Kinds whose names are settings of estimators.
NAMED: tuple[type[NamedSpec], ...] = (RiskSpec, TrainerSpec, BackendSpec)

S = TypeVar("S", bound=Spec)

#: More descriptions than this from one hook are a generator without end.
MAX_SPECS = 1000


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

    def __str__(self) -> str:
        return f"plug-in '{self.name}', {self.distribution}"

    def describe_owner(self, spec: Spec) -> str:
        """Return what errors call one of its specs: ``"backend 'x' (plug-in 'y', z 1.0)"``."""
        return f"{word(type(spec))} '{spec.name}'" + ("" if self.bundled else f" ({self})")


@dataclass(frozen=True)
class Problem:
    """Something wrong with a plug-in, and what was left out because of it."""

    plugin: str
    text: str


def word(kind: type[Spec]) -> str:
    """Return what a kind of spec describes, in one word: ``"backend"``, ``"trainer"`` ..."""
    return kind.__name__.removesuffix("Spec").lower()


@dataclass
class Registry:
    """All usable plug-ins, and what is wrong with the others.

    ``plans`` holds what the planner found for needs met before; it is emptied whenever a plug-in comes or goes.
    """

    manager: pluggy.PluginManager
    plugins: list[PluginInfo] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _specs: dict[type[Spec], dict[str, tuple[Spec, PluginInfo]]] = field(default_factory=dict)
    plans: dict[Any, Any] = field(default_factory=dict, repr=False)
    _turns: defaultdict[str, Any] = field(default_factory=lambda: defaultdict(RLock))

    # -- looking things up -----------------------------------------------------------------------------

    def specs(self, kind: type[S]) -> list[S]:
        """Return all specs of a kind, bundled first."""
        return [spec for spec, _ in self._specs.get(kind, {}).values() if isinstance(spec, kind)]

    def owner(self, spec: Spec) -> PluginInfo:
        """Return the plug-in a spec came from."""
        return self._specs[type(spec)][spec.name][1]

    def find(self, kind: type[S], name: str) -> S:
        """Return the spec of that name.

        Raises
        ------
        PluginError
            Unknown name; says what to write for one that is used elsewhere, else a close match, and lists the known
            ones and why a plug-in may be missing.
        """
        found = self._specs.get(kind, {}).get(name) if isinstance(name, str) else None
        if found is not None and isinstance(found[0], kind):
            return found[0]
        known = [spec.name for spec in self.specs(kind)]
        close = difflib.get_close_matches(str(name), known, n=1)
        advice = self.advice(name)
        meant = f"; write {advice}" if advice else f"; did you mean '{close[0]}'?" if close else ""
        text = f"there is no {word(kind)} '{name}'{meant}\n  known: {', '.join(known) or 'none'}"
        broken = [f"\n  {problem.plugin}: {problem.text}" for problem in self.problems]
        raise PluginError(text + "".join(broken))

    def advice(self, name: object) -> str:
        """Return what to write for an alias or another spelling: ``"risk='log', trainer='lbfgs'"``; else empty."""
        for spec in (spec for kind in NAMED for spec in self.specs(kind)):
            settings = {_bare(alias.name): alias.settings for alias in spec.aliases}.get(_bare(name))
            if settings is not None:
                return _settings(spec, settings)
        spelt = (spec for kind in NAMED for spec in self.specs(kind) if _bare(spec.name) == _bare(name))
        return next((_settings(spec, {}) for spec in spelt), "")

    def describe_owner(self, spec: Spec) -> str:
        """Return what errors call a spec, with the plug-in it came from."""
        return self.owner(spec).describe_owner(spec)

    def load(self, spec: Spec) -> Any:
        """Return what a spec's factory names.

        Raises
        ------
        PluginError
            It cannot be imported; names the plug-in, says why and what to install.
        """
        return spec.load(self.describe_owner(spec))

    def call_lock(self, spec: Spec) -> Any:
        """Return the lock of a backend that takes one call at a time."""
        return self._turns[spec.name]

    def listeners(self) -> list[Callable[[TrainingEvent], bool]]:
        """Return what to call after each iteration of a fit: one for each plug-in that listens."""
        found = self.manager.hook.ssvm_training_event.get_hookimpls()
        infos = {info.key: info for info in self.plugins}
        return [_Listener(one.function, one.argnames, str(infos[one.plugin_name])) for one in reversed(found)]

    # -- registering -----------------------------------------------------------------------------------

    def register(self, plugin: object, info: PluginInfo) -> bool:
        """Register a plug-in object; return whether it was accepted, noting a problem otherwise."""
        try:
            with contained("looking for its hooks"):
                if self.manager.is_registered(plugin):
                    name = self.manager.get_name(plugin)
                    return self._reject(info, f"the same plug-in is already registered as '{name}'")
                self.manager.register(plugin, info.key)
        except SsvmError as err:
            return self._reject(info, f"its hooks do not fit: {err.__cause__ or err}", info.key)
        callers = self.manager.get_hookcallers(plugin) or ()
        if not callers:
            text = f"it has none of the hooks ({', '.join([*KINDS, 'ssvm_training_event'])})"
            return self._reject(info, f"{text}; write one as a function marked with @hookimpl", info.key)
        if any(i.hookwrapper or i.wrapper for c in callers for i in c.get_hookimpls() if i.plugin is plugin):
            return self._reject(info, "it wraps the hooks of other plug-ins, which is not supported", info.key)
        unknown = [c.name for c in callers if not c.has_spec()]
        if unknown:
            close = difflib.get_close_matches(unknown[0], [*KINDS, "ssvm_training_event"], n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            return self._reject(info, f"there is no hook {unknown[0]}{meant}", info.key)
        self.plugins.append(info)
        self.plans.clear()
        for hook in KINDS:
            self._collect(plugin, hook, info)
        return True

    def forget(self, info: PluginInfo) -> None:
        """Take a plug-in out again, with its specs; nothing happens when it is not there."""
        if info not in self.plugins:
            return
        self.manager.unregister(name=info.key)
        self.plugins.remove(info)
        self.plans.clear()
        for kind, taken in self._specs.items():
            self._specs[kind] = {name: pair for name, pair in taken.items() if pair[1] != info}

    def _reject(self, info: PluginInfo, text: str, key: str | None = None) -> bool:
        if key is not None and self.manager.has_plugin(key):
            self.manager.unregister(name=key)
        self._note(info, text)
        return False

    def _collect(self, plugin: object, hook: str, info: PluginInfo) -> None:
        """Take the specs one plug-in returns from one hook."""
        implementation: Callable[[], Iterable[Spec]] | None = next(
            (i.function for i in getattr(self.manager.hook, hook).get_hookimpls() if i.plugin is plugin), None
        )
        if implementation is None:
            return
        try:
            with contained(f"{hook} of {info}", lambda text: PluginError(f"{hook}{text.removeprefix('it')}")):
                specs = [_plain(spec, KINDS[hook]) for spec in islice(implementation(), MAX_SPECS + 1)]
        except SsvmError as err:
            self._note(info, str(err))
            return
        if len(specs) > MAX_SPECS:
            self._note(info, f"{hook} returned more than {MAX_SPECS} descriptions; all are left out")
            return
        for spec in specs:
            self._take(spec, KINDS[hook], info)

    def _note(self, info: PluginInfo, text: str) -> None:
        self.problems.append(Problem(info.name, " ".join(text.split())))

    def _take(self, spec: Spec, kind: type[Spec], info: PluginInfo) -> None:
        taken = self._specs.setdefault(kind, {})
        if not isinstance(spec, kind):
            self._note(info, f"expected a {kind.__name__}, got {type(spec).__name__}")
            return
        wrong = mistakes(spec)
        if wrong:
            called = f" '{spec.name}'" if isinstance(spec.name, str) and spec.name.isprintable() else ""
            self._note(info, f"{word(kind)}{called} is left out: {'; '.join(wrong)}")
        elif spec.api_version != API_VERSION:
            text = f"{word(kind)} '{spec.name}' is made for contract version {spec.api_version}, this is {API_VERSION}"
            self._note(info, text)
        elif spec.name in taken:
            other = taken[spec.name][1].name
            self._note(info, f"{word(kind)} '{spec.name}' is already registered by '{other}'; the second is left out")
        else:
            taken[spec.name] = (spec, info)

    def copy(self) -> Registry:
        """Return a registry with the same plug-ins, to add to without touching this one."""
        made = _empty()
        for info in self.plugins:
            made.register(self.manager.get_plugin(info.key), info)
        made.problems = list(self.problems)
        return made


class _Listener:
    """A plug-in's ``ssvm_training_event`` during one fit; one that fails is not called again, and the fit goes on."""

    def __init__(self, function: Callable[..., Any], names: tuple[str, ...], whose: str) -> None:
        self.function, self.names, self.whose, self.alive = function, names, whose, True

    def __call__(self, event: TrainingEvent) -> bool:
        """Return whether the plug-in asks to stop; it gets a copy of what can be changed."""
        if not self.alive:
            return False
        given = {"event": replace(event, extra=dict(event.extra))}
        try:
            with contained(f"ssvm_training_event of {self.whose}"):
                return bool(self.function(*(given[name] for name in self.names)))
        except SsvmError as err:
            self.alive = False
            warnings.warn(f"{err}; it is not called again in this fit, which goes on", RuntimeWarning, stacklevel=2)
            return False


def _bare(name: object) -> str:
    """Return a name without case and punctuation."""
    return "".join(filter(str.isalnum, str(name))).lower()


def _settings(spec: NamedSpec, more: Mapping[str, Any]) -> str:
    """Return the settings of an estimator that name a spec, in words."""
    if isinstance(spec, RiskSpec) and spec.values:
        return "StructuredRegressor"
    return ", ".join(f"{name}={value!r}" for name, value in {word(type(spec)): spec.name, **more}.items())


def _plain(spec: Any, kind: type[Spec]) -> Any:
    """Return a spec of exactly its kind: what a subclass overrides, such as the property ``name``, is read once."""
    if type(spec) is kind or not isinstance(spec, kind):
        return spec
    return kind(**{one.name: getattr(spec, one.name) for one in fields(kind)})


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
            with contained(f"the import of {info} (leave it out with --no-plugins or SSVM_PLUGINS)", PluginError):
                plugin = point.load()
        except SsvmError as err:  # a module may call sys.exit() when its library is missing
            made.problems.append(Problem(info.name, f"cannot be imported: {words(err.__cause__ or err)}"))
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


def _distribution(point: EntryPoint) -> tuple[str, str]:
    """Return (name, version) of the distribution of an entry point, as far as its metadata can be read."""
    try:
        return (str(point.dist.name), str(point.dist.version)) if point.dist is not None else ("unknown", "")
    except Exception:  # METADATA is missing or has no name
        return "unknown", ""


def _discover() -> Iterator[tuple[EntryPoint, PluginInfo]]:
    """Yield the entry points to load, bundled first."""
    allow = {name.strip() for name in os.environ.get("SSVM_PLUGINS", "").split(",") if name.strip()}
    bundled_only = os.environ.get("SSVM_DISABLE_PLUGIN_AUTOLOAD", "") not in ("", "0")
    found = []
    for point in entry_points(group=GROUP):
        distribution, version = _distribution(point)
        bundled = distribution.lower().replace("_", "-") == DISTRIBUTION
        named = bool({point.name, distribution} & allow)
        if not bundled and (bundled_only or (allow and not named)):
            continue
        found.append((point, PluginInfo(point.name, f"{distribution} {version}".strip(), bundled, bundled or named)))
    found.sort(key=lambda pair: (not pair[1].bundled, pair[1].distribution, pair[1].name))
    seen: set[tuple[str, str]] = set()
    for point, info in found:
        if (point.name, point.value) not in seen:  # an editable install can be listed twice
            seen.add((point.name, point.value))
            yield point, info
