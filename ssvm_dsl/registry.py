"""Finds plug-ins and keeps broken ones out.

Plug-ins are entry points of the group ``ssvm``.  Anything wrong with a plug-in (import error, old contract, unknown
hook, duplicate name) is noted in ``Registry.problems``, and the plug-in (or the one spec) is left out; it never takes
the host down.

In this order: what is known of a plug-in, how one is read and checked, names and aliases, training events, the
plug-ins in use (``Registry``), which are installed, and the registry of this process (``registry()``), with its readers
of files and loss functions.
"""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from itertools import islice, pairwise
from threading import RLock
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import pluggy

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import PluginError, SsvmError, meant
from ssvm_dsl.plugin_api import hookspecs
from ssvm_dsl.plugin_api.hosting.check_spec import mistakes
from ssvm_dsl.plugin_api.hosting.contained import contained, words
from ssvm_dsl.plugin_api.specs import (
    API_VERSION,
    BackendSpec,
    BridgeSpec,
    CommandSpec,
    ConstraintSpec,
    ExecutorSpec,
    FileContent,
    LossSpec,
    NamedSpec,
    ReaderSpec,
    RiskSpec,
    Spec,
    TrainerSpec,
)
from ssvm_dsl.plugin_api.training import TrainingEvent
from ssvm_dsl.version import __version__

# -- records -------------------------------------------------------------------------------------------------------

#: Hook name -> kind of spec it returns.
KINDS: dict[str, type[Spec]] = {
    "ssvm_backends": BackendSpec,
    "ssvm_trainers": TrainerSpec,
    "ssvm_risks": RiskSpec,
    "ssvm_losses": LossSpec,
    "ssvm_constraints": ConstraintSpec,
    "ssvm_bridges": BridgeSpec,
    "ssvm_executors": ExecutorSpec,
    "ssvm_commands": CommandSpec,
    "ssvm_readers": ReaderSpec,
}


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
class PluginProblem:
    """Something wrong with a plug-in, and what was left out because of it."""

    plugin: str
    text: str

    @classmethod
    def of(cls, info: PluginInfo, text: str) -> PluginProblem:
        """Return a problem whose text is one line."""
        return cls(info.name, " ".join(text.split()))


def word(kind: type[Spec]) -> str:
    """Return the name of a kind of spec: ``"backend"``, ``"trainer"`` ..."""
    return kind.__name__.removesuffix("Spec").lower()


# -- reading and checking a plug-in --------------------------------------------------------------------------------

#: The hook that returns no specs.
EVENTS = "ssvm_training_event"

#: More descriptions than this from one hook are a generator without end.
MAX_SPECS = 1000


@dataclass
class Offer:
    """The specs of a plug-in that are valid by themselves, and the mistakes of the others."""

    specs: list[Spec] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def new_manager() -> pluggy.PluginManager:
    """Return a manager that knows the hooks and no plug-in."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def read_offer(plugin: object, info: PluginInfo) -> Offer:
    """Return the specs of a plug-in.

    Raises
    ------
    PluginError
        It is not accepted: its hooks do not fit, or it has none.
    """
    manager = new_manager()
    try:
        with contained("looking for its hooks"):
            manager.register(plugin, info.key)
            callers = manager.get_hookcallers(plugin) or ()
    except SsvmError as err:
        raise PluginError(f"its hooks do not fit: {err.__cause__ or err}") from err
    if not callers:
        text = f"it has none of the hooks ({', '.join([*KINDS, EVENTS])})"
        raise PluginError(f"{text}; write one as a function marked with @hookimpl")
    implementations = [implementation for caller in callers for implementation in caller.get_hookimpls()]
    if any(one.hookwrapper or one.wrapper for one in implementations):
        raise PluginError("it wraps the hooks of other plug-ins, which is not supported")
    unknown = [caller.name for caller in callers if not caller.has_spec()]
    if unknown:
        close = difflib.get_close_matches(unknown[0], [*KINDS, EVENTS], n=1)
        suggestion = f"; did you mean {close[0]}?" if close else ""
        raise PluginError(f"there is no hook {unknown[0]}{suggestion}")
    offer = Offer()
    functions: dict[str, Callable[..., Any]] = {one.name: one.get_hookimpls()[0].function for one in callers}
    for hook in KINDS:
        if hook in functions:
            _read_specs(functions[hook], hook, info, offer)
    return offer


def _read_specs(function: Callable[[], Iterable[Any]], hook: str, info: PluginInfo, offer: Offer) -> None:
    """Add the specs that one hook returns, and what is wrong with others."""
    kind = KINDS[hook]
    try:
        with contained(f"{hook} of {info}", lambda text: PluginError(f"{hook}{text.removeprefix('it')}")):
            specs = [_plain(spec, kind) for spec in islice(function(), MAX_SPECS + 1)]
    except SsvmError as err:
        offer.problems.append(str(err))
        return
    if len(specs) > MAX_SPECS:
        offer.problems.append(f"{hook} returned more than {MAX_SPECS} descriptions; all are left out")
        return
    for spec in specs:
        problem = _problem(spec, kind)
        if problem:
            offer.problems.append(problem)
        else:
            offer.specs.append(spec)


def _problem(spec: Any, kind: type[Spec]) -> str:
    """Return the mistakes of a spec by itself; empty if there are none."""
    if not isinstance(spec, kind):
        return f"expected a {kind.__name__}, got {type(spec).__name__}"
    wrong = mistakes(spec)
    if wrong:
        called = f" '{spec.name}'" if isinstance(spec.name, str) and spec.name.isprintable() else ""
        return f"{word(kind)}{called} is left out: {'; '.join(wrong)}"
    if spec.api_version != API_VERSION:
        return f"{word(kind)} '{spec.name}' is made for contract version {spec.api_version}, this is {API_VERSION}"
    return ""


def _plain(spec: Any, kind: type[Spec]) -> Any:
    """Return a spec of exactly its kind: what a subclass overrides, such as the property ``name``, is read once."""
    if type(spec) is kind or not isinstance(spec, kind):
        return spec
    return kind(**{one.name: getattr(spec, one.name) for one in fields(kind)})


# -- names that users write ----------------------------------------------------------------------------------------

#: What stands for backends of other packages that are not there, by the name without case and punctuation.
ELSEWHERE = {
    "unary": "a model without factors of several variables: each variable is then answered by itself",
    "ogm": "backend='combi', which is exact, 'trws' for bounds, or 'icm' for a fast search",
    "opengm": "backend='combi', which is exact, 'trws' for bounds, or 'icm' for a fast search",
}


def unknown_name(
    kind: type[Spec], name: object, known: Sequence[str], advice: str, problems: Iterable[PluginProblem]
) -> PluginError:
    """Return the error for a name that there is not.

    It says what to write for one that is used elsewhere, else a close match, and lists the known ones and why a plug-in
    may be missing.

    Parameters
    ----------
    kind : class
    name : object
        The user's value.
    known : sequence of str
        Names of that kind.
    advice : str
        The name to write instead; may be empty.
    problems : iterable of Problem
    """
    advice = advice or (ELSEWHERE.get(_bare(name), "") if kind is BackendSpec else "")
    hint = f"; write {advice}" if advice else meant(name, known)
    text = f"there is no {word(kind)} '{name}'{hint}\n  known: {', '.join(known) or 'none'}"
    return PluginError(text + "".join(f"\n  {problem.plugin}: {problem.text}" for problem in problems))


def advice_on(name: object, specs: Sequence[NamedSpec]) -> str:
    """Return the names for an alias or another spelling: ``"risk='log', trainer='lbfgs'"``, else ``""``."""
    for spec in specs:
        settings = {_bare(alias.name): alias.settings for alias in spec.aliases}.get(_bare(name))
        if settings is not None:
            return _settings(spec, settings)
    return next((_settings(spec, {}) for spec in specs if _bare(spec.name) == _bare(name)), "")


def _bare(name: object) -> str:
    """Return a name without case and punctuation."""
    return "".join(filter(str.isalnum, str(name))).lower()


def _settings(spec: NamedSpec, more: Mapping[str, Any]) -> str:
    """Return the settings of an estimator that select a spec, as text."""
    if isinstance(spec, RiskSpec) and spec.values:
        return "StructuredRegressor"
    return ", ".join(f"{name}={value!r}" for name, value in {word(type(spec)): spec.name, **more}.items())


# -- training events -----------------------------------------------------------------------------------------------


class Listener:
    """A plug-in's ``ssvm_training_event`` during one fit; one that fails is not called again, and the fit continues.

    Parameters
    ----------
    function : callable
    names : tuple of str
        The arguments that it takes.
    owner : str
        The plug-in, for messages.
    """

    def __init__(self, function: Callable[..., Any], names: tuple[str, ...], owner: str) -> None:
        self.function, self.names, self.owner, self.alive = function, names, owner, True

    def __call__(self, event: TrainingEvent) -> bool:
        """Return whether the plug-in asks to stop; it gets a copy of what can be changed."""
        if not self.alive:
            return False
        given = {"event": replace(event, extra=dict(event.extra))}
        try:
            with contained(f"ssvm_training_event of {self.owner}"):
                return bool(self.function(*(given[name] for name in self.names)))
        except SsvmError as err:
            self.alive = False
            warn_caller(f"{err}; this fit continues without calling it again", RuntimeWarning)
            return False


# -- the plug-ins in use -------------------------------------------------------------------------------------------

#: Kinds whose names are settings of estimators.
NAMED: tuple[type[NamedSpec], ...] = (RiskSpec, TrainerSpec, BackendSpec)

S = TypeVar("S", bound=Spec)


@dataclass
class Registry:
    """All usable plug-ins, and the mistakes of the unusable ones.

    ``plans`` holds what the planner found for needs met before; it is emptied whenever a plug-in comes or goes, which
    ``generation`` counts.
    """

    manager: pluggy.PluginManager = field(default_factory=new_manager)
    plugins: list[PluginInfo] = field(default_factory=list)
    problems: list[PluginProblem] = field(default_factory=list)
    plans: dict[Any, Any] = field(default_factory=dict, repr=False)
    generation: int = 0
    _specs: dict[type[Spec], dict[str, tuple[Spec, PluginInfo]]] = field(default_factory=dict)
    _locks: defaultdict[str, Any] = field(default_factory=lambda: defaultdict(RLock))

    # -- looking things up -----------------------------------------------------------------------------

    def specs(self, kind: type[S]) -> list[S]:
        """Return all specs of a kind, bundled first."""
        return cast("list[S]", [spec for spec, _ in self._specs.get(kind, {}).values()])

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
        entry = self._specs.get(kind, {}).get(name) if isinstance(name, str) else None
        if entry is not None and isinstance(entry[0], kind):
            return entry[0]
        raise unknown_name(kind, name, [one.name for one in self.specs(kind)], self.advice(name), self.problems)

    def advice(self, name: object) -> str:
        """Return the names for an alias or another spelling: ``"risk='log', trainer='lbfgs'"``, else ``""``."""
        return advice_on(name, [spec for kind in NAMED for spec in self.specs(kind)])

    def describe_owner(self, spec: Spec) -> str:
        """Return what errors call a spec, with the plug-in it came from."""
        return self.owner(spec).describe_owner(spec)

    def load(self, spec: Spec) -> Any:
        """Return the object of a spec's factory.

        Raises
        ------
        PluginError
            It cannot be imported; names the plug-in, says why and what to install.
        """
        return spec.load("" if (info := self.owner(spec)).bundled else info.describe_owner(spec))

    def call_lock(self, spec: Spec) -> Any:
        """Return the lock of a backend that takes one call at a time."""
        return self._locks[spec.name]

    def listeners(self) -> list[Callable[[TrainingEvent], bool]]:
        """Return the callbacks for each iteration of a fit: one for each listening plug-in."""
        hooks = self.manager.hook.ssvm_training_event.get_hookimpls()
        infos = {info.key: info for info in self.plugins}
        return [Listener(one.function, one.argnames, str(infos[one.plugin_name])) for one in reversed(hooks)]

    # -- registering -----------------------------------------------------------------------------------

    def register(self, plugin: object, info: PluginInfo) -> bool:
        """Register a plug-in object; return whether it was accepted.

        What is wrong with it, or with some of its specs, is noted in ``problems``.
        """
        try:
            offer = self._offer(plugin, info)
        except PluginError as err:
            self.problems.append(PluginProblem.of(info, str(err)))
            return False
        self.problems += [PluginProblem.of(info, text) for text in [*offer.problems, *self._conflicts(offer, info)]]
        self._take(plugin, info, offer)
        return True

    def replace(self, plugin: object, info: PluginInfo) -> list[str]:
        """Register a plug-in in the place of the one with the same info; return what is wrong with it.

        If anything is, nothing is changed.
        """
        try:
            offer = self._offer(plugin, info, instead=True)
        except PluginError as err:
            return [str(err)]
        problems = [*offer.problems, *self._conflicts(offer, info, instead=True)]
        if not problems:
            self.forget(info)
            self._take(plugin, info, offer)
        return problems

    def forget(self, info: PluginInfo) -> None:
        """Take a plug-in out again, with its specs; nothing happens when it is not there."""
        if info not in self.plugins:
            return
        self.manager.unregister(name=info.key)
        self.plugins.remove(info)
        self._changed()
        for kind, taken in self._specs.items():
            self._specs[kind] = {name: pair for name, pair in taken.items() if pair[1] != info}

    def copy(self) -> Registry:
        """Return a registry with the same plug-ins, to add to without touching this one."""
        made = Registry()
        for info in self.plugins:
            made.register(self.manager.get_plugin(info.key), info)
        made.problems = list(self.problems)
        return made

    def _changed(self) -> None:
        """Forget what was planned with other plug-ins."""
        self.plans.clear()
        self.generation += 1

    def _offer(self, plugin: object, info: PluginInfo, instead: bool = False) -> Offer:
        """Return the specs of a plug-in, without registering them.

        Raises
        ------
        PluginError
            It is not accepted, or registered already; with ``instead`` it may be the one that it replaces.
        """
        offer = read_offer(plugin, info)
        names = {info.key} if instead else set()
        name = self.manager.get_name(plugin)
        if name is not None and name not in names:
            raise PluginError(f"the same plug-in is already registered as '{name}'")
        if self.manager.has_plugin(info.key) and not instead:
            raise PluginError(f"another plug-in is already registered as '{info.key}'")
        return offer

    def _conflicts(self, offer: Offer, info: PluginInfo, instead: bool = False) -> list[str]:
        """Return which specs of an offer have names that are taken; with ``instead`` those of the plug-in are free."""
        conflicts, mine = [], set[tuple[type[Spec], str]]()
        for spec in offer.specs:
            kind = type(spec)
            _, other = self._specs.get(kind, {}).get(spec.name, (spec, info))
            if (kind, spec.name) in mine or (other != info) or (spec.name in self._specs.get(kind, {}) and not instead):
                text = f"{word(kind)} '{spec.name}' is already registered by '{other.name}'; the second is left out"
                conflicts.append(text)
            mine.add((kind, spec.name))
        return conflicts

    def _take(self, plugin: object, info: PluginInfo, offer: Offer) -> None:
        """Put a plug-in into use; of specs of one name the first stays."""
        self.manager.register(plugin, info.key)
        self.plugins.append(info)
        self._changed()
        for spec in offer.specs:
            self._specs.setdefault(type(spec), {}).setdefault(spec.name, (spec, info))


# -- installed plug-ins --------------------------------------------------------------------------------------------

GROUP = "ssvm"
DISTRIBUTION = "ssvm-dsl"

#: The formats of files that the package itself reads: there however it was installed.
OWN_FORMATS = (
    EntryPoint("formats", "ssvm_dsl.own_formats", GROUP),
    PluginInfo("formats", f"{DISTRIBUTION} {__version__}", bundled=True, allowed=True),
)


def discover() -> Iterator[tuple[EntryPoint, PluginInfo]]:
    """Yield the entry points to load, bundled first."""
    allow = {name.strip() for name in os.environ.get("SSVM_PLUGINS", "").split(",") if name.strip()}
    bundled_only = os.environ.get("SSVM_DISABLE_PLUGIN_AUTOLOAD", "") not in ("", "0")
    points = []
    for point in entry_points(group=GROUP):
        distribution, version = _distribution(point)
        bundled = distribution.lower().replace("_", "-") == DISTRIBUTION
        named = bool({point.name, distribution} & allow)
        if not bundled and (bundled_only or (allow and not named)):
            continue
        points.append((point, PluginInfo(point.name, f"{distribution} {version}".strip(), bundled, bundled or named)))
    points.sort(key=lambda pair: (not pair[1].bundled, pair[1].distribution, pair[1].name))
    seen: set[tuple[str, str]] = set()
    for point, info in points:
        if (point.name, point.value) not in seen:  # an editable install can be listed twice
            seen.add((point.name, point.value))
            yield point, info


def _distribution(point: EntryPoint) -> tuple[str, str]:
    """Return (name, version) of the distribution of an entry point, as far as its metadata can be read."""
    try:
        return (str(point.dist.name), str(point.dist.version)) if point.dist is not None else ("unknown", "")
    except Exception:  # METADATA is missing or has no name
        return "unknown", ""


# -- the registry of this process ----------------------------------------------------------------------------------


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


class PackedLoss(Protocol):
    """A loss of many examples: (true states, number of states, first variable of each example, options) -> prices."""

    def __call__(self, truth: I32, n_states: int, ptr: I64, **options: Any) -> Any:
        """Return the price of each state of each variable, ``shape (ptr[-1], n_states)``."""


def packed_loss(spec: LossSpec, function: Callable[..., Any]) -> PackedLoss:
    """Return the function of a loss for many examples; one that is written for one example is called for each.

    Parameters
    ----------
    spec : LossSpec
    function : callable
        What its factory names.
    """
    if spec.packed:
        return function

    def prices(truth: I32, n_states: int, ptr: I64, **options: Any) -> Any:
        out = np.zeros((len(truth), n_states))
        for i, (lo, hi) in enumerate(pairwise(ptr.tolist())):
            found = function(truth[lo:hi], n_states, **options)
            array = np.asarray(found)
            if array.shape != (hi - lo, n_states) or array.dtype.kind not in "biuf":
                what = f"loss '{spec.name}' of {hi - lo} variables (example {i}): expected an array of real numbers"
                got = f"{array.dtype} of shape {array.shape}" if array.dtype.kind != "O" else type(found).__name__
                raise PluginError(f"{what}, shape {(hi - lo, n_states)}, got {got}")
            out[lo:hi] = array
        return out

    return prices


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
    for spec in readers(content):
        if suffix in spec.suffixes if name is None else spec.name == name:
            return spec
    return None


def describe_reader(spec: ReaderSpec) -> str:
    """Return what errors call a reader, with the plug-in it came from."""
    return registry().describe_owner(spec)


def reader_method(spec: ReaderSpec, method: str = "read") -> Any:
    """Return a method of a reader, ``None`` if it has none; exceptions of a stranger's name the plug-in.

    Raises
    ------
    PluginError
        It cannot be imported, or is no reader: it cannot read.
    """
    known = registry()
    loaded = known.load(spec)
    if isinstance(loaded, type):
        with contained(known.describe_owner(spec)):
            loaded = loaded()
    function: Any = getattr(loaded, method, loaded if method == "read" else None)
    if not callable(function):
        if method == "read":
            text = "is no reader: its factory must name a function, or a class with the method read"
            raise PluginError(f"{describe_reader(spec)} {text}")
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
