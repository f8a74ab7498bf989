"""Give hard constraints the rules of their kinds, which then are part of the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.program import Program
from ssvm_dsl.plugin_api.constraints import ConstraintKind
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.hosting.rules import OPTIONAL, CustomRules, contained_class
from ssvm_dsl.plugin_api.specs import ConstraintSpec, Option
from ssvm_dsl.registry import Registry

#: The methods of a :class:`~ssvm_dsl.plugin_api.ConstraintKind`.
METHODS = ("violated", "rows", "problem")


def with_rules(program: Program, plugins: Registry) -> Program:
    """Return the program with the rules of its constraints; the same one where there is nothing to fill in.

    Raises
    ------
    PluginError
        There is no such kind, or it cannot be loaded.
    OptionError
        A constraint has other parameters than its kind.
    """
    if not program.constraints or all(group.rules is not None for group in program.constraints):
        return program
    return replace(program, constraints=tuple(_ruled(group, plugins) for group in program.constraints))


def _ruled(group: ConstraintGroup, plugins: Registry) -> ConstraintGroup:
    if group.rules is not None:
        return group
    if group.oracle is not None:
        return replace(group, rules=CustomRules(group.oracle))
    spec = plugins.find(ConstraintSpec, group.kind)
    what = f"constraint '{group.name}' of the kind '{spec.name}'"
    meta = _numbers(group.meta, spec.parameters, group.n_constraints, f"{what}: its parameters for each constraint")
    literal_meta = _numbers(
        group.literal_meta, spec.literal_parameters, len(group.variable), f"{what}: its parameters for each literal"
    )
    owner_name = plugins.describe_owner(spec)
    with contained(owner_name):
        rules = plugins.load(spec)()
    if not isinstance(rules, ConstraintKind):
        lacking = " and ".join(f"{name}()" for name in METHODS if not hasattr(rules, name))
        raise PluginError(f"{owner_name}: {spec.factory} makes no constraint kind: it lacks {lacking}")
    if not plugins.owner(spec).bundled:
        optional = tuple(contained for kind, contained in OPTIONAL.items() if isinstance(rules, kind))
        rules = contained_class(optional)(rules, owner_name)
    return replace(group, rules=rules, meta=meta, literal_meta=literal_meta)


def _numbers(
    given: Mapping[str, NDArray[Any]], declared: tuple[str | Option, ...], n: int, what: str
) -> dict[str, NDArray[Any]]:
    """Return the numbers of a kind's parameters, with defaults filled in; refuse missing, unknown and other ones."""
    known = {one.name if isinstance(one, Option) else one: one for one in declared}
    out = dict(given)
    for name, one in known.items():
        if isinstance(one, Option) and name not in out and one.default is not None:
            out[name] = np.full(n, one.default)
    if set(out) != set(known):
        found = ", ".join(sorted(given)) or "none"
        raise OptionError(f"{what} are {', '.join(known) or 'none'}, got {found}")
    for name, one in known.items():
        if not isinstance(one, Option):
            continue
        if one.kind is int and out[name].dtype.kind == "f" and (out[name] == np.rint(out[name])).all():
            out[name] = out[name].astype(np.int64)  # numbers of an input
        wrong = {expected: value for value in np.unique(out[name]).tolist() if (expected := one.expected(value))}
        for expected, value in wrong.items():
            raise OptionError(f"{what}: {name} must be {expected}, got {value!r} ({one.doc})")
    return out
