"""Checks of a plug-in's description: types, ranges and names, before anything relies on it.

The types of the dataclass fields are the contract; they are read from the classes, so that a new field is checked
without a line here.  The thirty lines that compare values with types stay in place of a library: pydantic, beartype and
typeguard take 75, 97 and 84 ms of every first call to be imported, the check of all 45 bundled backends and trainers
here takes 8 ms; and the last two look at one item of a tuple, so that ``("a", 1)`` may pass for a tuple of str.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import inf, isfinite
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ssvm_dsl.ir.need import Caps
from ssvm_dsl.plugin_api.specs import (
    KINDS,
    BridgeSpec,
    CommandSpec,
    ConstraintSpec,
    NamedSpec,
    Option,
    OptionedSpec,
    ReaderSpec,
    RiskSpec,
    Spec,
)

#: What users type: one word, also on a command line and in a table.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")

SUFFIX = re.compile(r"\.[a-z0-9][a-z0-9._+-]*")

MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
FACTORY = re.compile(rf"{MODULE.pattern}:{MODULE.pattern}")

#: Names that mean something else where users type a plug-in's.
RESERVED = ("auto",)

#: Subcommands of ``ssvm`` that the core brings.
CORE_COMMANDS = (
    *("train", "predict", "evaluate", "convert", "info", "report"),
    *("demo", "explain", "tune", "solve", "warm", "weights", "plugins"),
)


def mistakes(spec: Spec) -> list[str]:
    """Return the mistakes in a description as text; empty if there are none."""
    wrong = list(_badly_typed(spec, ""))
    return wrong or list(_unfit(spec))


def _badly_typed(value: Any, path: str) -> Iterator[str]:
    """Yield the fields of a dataclass that hold something of another type."""
    kind: Any = type(value)
    hints = _hints(kind)
    for field in fields(value):
        found, name = getattr(value, field.name), f"{path}{field.name}"
        if not _fits(found, hints[field.name]):
            yield f"{name} must be {_named(hints[field.name])}, got {_short(found)}"
        else:
            for number, part in enumerate(found if isinstance(found, tuple) else (found,)):
                if is_dataclass(part) and not isinstance(part, type):
                    yield from _badly_typed(part, f"{name}[{number}]." if isinstance(found, tuple) else f"{name}.")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type: a class, a union, ``tuple[T, ...]`` or ``frozenset[T]``."""
    if hint is Any:
        return True
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) in (tuple, frozenset):
        return isinstance(value, get_origin(hint)) and all(_fits(one, get_args(hint)[0]) for one in value)
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(_fits(one, get_args(hint)[0]) for one in value)
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, hint)


def _named(hint: Any) -> str:
    """Return the name of a type."""
    parts = [part for part in get_args(hint) if part is not Ellipsis]
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_named, parts))
    if get_origin(hint) in (tuple, frozenset):
        return f"a {get_origin(hint).__name__} of {_named(parts[0]).split()[-1]}"
    if get_origin(hint) is Mapping:
        return "a mapping by names"
    return "None" if hint is type(None) else f"{'an' if hint.__name__[0] in 'aeiou' else 'a'} {hint.__name__}"


def _unfit(spec: Spec) -> Iterator[str]:
    """Yield mistakes in the content of a description whose types are right."""
    if not NAME.fullmatch(spec.name):
        yield f"name is one word of letters, digits and . _ + -, got {_short(spec.name)}"
    elif spec.name in RESERVED:
        yield f"the name '{spec.name}' is reserved: it means the choice among all"
    elif isinstance(spec, CommandSpec) and spec.name in CORE_COMMANDS:
        yield f"the name '{spec.name}' is taken: it is a command of ssvm itself"
    if not FACTORY.fullmatch(spec.factory):
        yield f"factory is 'package.module:Class', got {_short(spec.factory)}"
    for module in spec.requires:
        if not MODULE.fullmatch(module):
            yield f"requires lists names of modules, got {_short(module)}"
    for what in ("summary", "install_hint"):
        if not getattr(spec, what).isprintable():
            yield f"{what} is one line of text, got {_short(getattr(spec, what))}"
    if isinstance(spec, OptionedSpec):
        yield from _unfit_options(spec.options)
    for alias in spec.aliases if isinstance(spec, NamedSpec) else ():
        if not any(map(str.isalnum, alias.name)):
            yield f"an alias has letters or digits, got {_short(alias.name)}"
    if isinstance(spec, ConstraintSpec):
        given = [*spec.parameters, *spec.literal_parameters]
        names = [one.name if isinstance(one, Option) else one for one in given]
        yield from _unfit_options(tuple(one for one in given if isinstance(one, Option)), required=True)
        for name in names:
            if not name.isidentifier():
                yield f"the name of a parameter must be an identifier, got {_short(name)}"
        if len(set(names)) < len(names):
            yield "the names of the parameters are all different"
    if isinstance(spec, BridgeSpec):
        if not spec.kinds and not spec.every_constraint:
            yield "it takes no kind of constraints: list them in kinds, or set every_constraint"
        yield from (f"kinds lists names of kinds, got {_short(one)}" for one in spec.kinds if not NAME.fullmatch(one))
    for suffix in spec.suffixes if isinstance(spec, ReaderSpec) else ():
        if not SUFFIX.fullmatch(suffix):
            yield f"suffixes are like '.xyz', in small letters, got {_short(suffix)}"
    if isinstance(spec, RiskSpec):
        for name in ("mixtures", "dual_losses"):
            if (value := getattr(spec, name)) and not FACTORY.fullmatch(value):
                yield f"{name} is 'package.module:Class' or empty, got {_short(value)}"
        if not all(1.0 <= power < inf for power in spec.powers):
            yield f"powers are numbers of at least 1, got {_short(sorted(spec.powers))}"
    caps = getattr(spec, "caps", None)
    if isinstance(caps, Caps):
        if not (isfinite(caps.score_atol) and caps.score_atol >= 0.0):
            yield f"caps.score_atol must be a number of at least 0, got {caps.score_atol!r}"
        if caps.max_arity < 1:
            yield f"caps.max_arity is at least 1, got {caps.max_arity}"


def _unfit_options(options: tuple[Option, ...], required: bool = False) -> Iterator[str]:
    """Yield mistakes in options; without a default they may be required."""
    seen = set()
    for option in options:
        if not option.name.isidentifier():
            yield f"the name of an option must be an identifier, got {_short(option.name)}"
        if option.name in seen:
            yield f"there are two options '{option.name}'"
        seen.add(option.name)
        unknown = [one for one in option.alternatives if isinstance(one, type) and one not in KINDS]
        if unknown or not option.alternatives:
            kinds = "an int, float, str, bool or FunctionType, or one of listed values"
            yield f"option '{option.name}' must be {kinds}, not {option.kind!r}"
            continue
        expected = option.expected(option.default)
        if expected and not (required and option.default is None):
            yield f"option '{option.name}' must be {expected}, but its default is {_short(option.default)}"


def _short(value: Any) -> str:
    """Return what a value looks like, in one short line."""
    try:
        text = repr(value)
    except BaseException:
        text = f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= 60 else f"{text[:57]}..."
