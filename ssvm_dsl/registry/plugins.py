"""``Registry``: the plug-ins in use, their specs by name, and the mistakes of unusable plug-ins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, TypeVar

import pluggy

from ssvm_dsl.errors import PluginError
from ssvm_dsl.plugin_api.specs import BackendSpec, NamedSpec, RiskSpec, Spec, TrainerSpec
from ssvm_dsl.plugin_api.training import TrainingEvent
from ssvm_dsl.registry.listeners import Listener
from ssvm_dsl.registry.lookup import advice_on, unknown_name
from ssvm_dsl.registry.reading import Offer, new_manager, read_offer
from ssvm_dsl.registry.records import PluginInfo, PluginProblem, word

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
        return spec.load(self.describe_owner(spec))

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
