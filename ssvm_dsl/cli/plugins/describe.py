"""Plug-ins as plain data, for JSON and for the tables of ``ssvm plugins``.  No plug-in's code is loaded."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import fields, is_dataclass
from enum import IntEnum
from math import isfinite
from typing import Any

from ssvm_dsl.errors import PluginError, meant
from ssvm_dsl.plugin_api.specs import BackendSpec, Option, OptionedSpec, RiskSpec, Spec, TrainerSpec
from ssvm_dsl.registry import KINDS, Registry, word


def all_specs(known: Registry) -> list[Spec]:
    """Return every spec of every kind."""
    return [spec for kind in KINDS.values() for spec in known.specs(kind)]


def describe(spec: Spec, known: Registry) -> dict[str, Any]:
    """Return everything there is to know about a spec."""
    owner, missing = known.owner(spec), spec.missing()
    facts: dict[str, Any] = {"name": spec.name, "kind": word(type(spec)), "summary": spec.summary}
    facts |= {"plugin": owner.name, "distribution": owner.distribution, "bundled": owner.bundled}
    facts |= {"usable": not missing, "missing": missing, "install_hint": spec.install_hint}
    facts |= {"factory": spec.factory, "api_version": spec.api_version, "requires": list(spec.requires)}
    if isinstance(spec, BackendSpec):
        facts |= {"auto": owner.allowed, "caps": plain(spec.caps)}
    if isinstance(spec, TrainerSpec):
        minimised = sorted(risk.name for risk in known.specs(RiskSpec) if spec.needs.minimises(risk))
        facts["auto"] = owner.allowed and bool(spec.rules)
        facts |= {"incremental": spec.incremental, "needs": plain(spec.needs) | {"risks": minimised}}
    if isinstance(spec, OptionedSpec):
        facts["options"] = [_option(option) for option in spec.options]
    own = {field.name for field in fields(spec)} - set(facts) - {"caps", "needs", "options"}
    return facts | {name: plain(getattr(spec, name)) for name in sorted(own)}


def _option(option: Option) -> dict[str, Any]:
    """Return an option, with a description of its values and the listed ones."""
    facts: dict[str, Any] = {name: plain(getattr(option, name)) for name in ("name", "default", "doc")}
    facts |= {"takes": option.words, "choices": plain(option.choices)}
    return facts | {name: plain(getattr(option, name)) for name in ("least", "above", "optional")}


def find_all(name: str, known: Registry) -> list[dict[str, Any]]:
    """Return the descriptions of all plug-ins of that name; one of each kind can have it.

    Raises
    ------
    PluginError
        There is none; names close ones, and lists what was left out.
    """
    specs = all_specs(known)
    descriptions = [describe(spec, known) for spec in specs if spec.name == name]
    if not descriptions:
        names = [spec.name for spec in specs]
        broken = "".join(f"\n  left out: {problem.plugin}: {problem.text}" for problem in known.problems)
        raise PluginError(f"there is no plug-in '{name}'{meant(name, names)}\n  known: {', '.join(names)}{broken}")
    return descriptions


def plain(value: Any) -> Any:
    """Return specs, sets and enums as what JSON can hold."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Set):
        return sorted(map(str, value))
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not isfinite(value):  # JSON has no such numbers
        return str(value)
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def status(facts: dict[str, Any]) -> str:
    """Return whether a described plug-in can be used, and what to do when it cannot."""
    if facts["usable"]:
        return "usable"
    hint = f"; {facts['install_hint']}" if facts["install_hint"] else ""
    return f"needs {', '.join(facts['missing'])}{hint}"


def origin(facts: dict[str, Any]) -> str:
    """Return where a described plug-in comes from."""
    return "bundled" if facts["bundled"] else str(facts["distribution"])
