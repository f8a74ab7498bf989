"""Read and check a plug-in before anything relies on it: its hooks, and the specs that they return.

Nothing that is in use is touched: a plug-in that is not accepted leaves no trace.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any

import pluggy

from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.plugin_api import hookspecs
from ssvm_dsl.plugin_api.hosting.check_spec import mistakes
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.specs import API_VERSION, Spec
from ssvm_dsl.registry.records import KINDS, PluginInfo, word

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
        meant = f"; did you mean {close[0]}?" if close else ""
        raise PluginError(f"there is no hook {unknown[0]}{meant}")
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
