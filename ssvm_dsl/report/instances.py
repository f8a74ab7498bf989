"""Which factors a pattern has on an example, and what was left out and why."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.inputs import read_examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import ground_scopes
from ssvm_dsl.compiler.variable_names import variable_name
from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.declaration import Declaration, declaration_of
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.about_target import AboutTarget
from ssvm_dsl.lang.patterns.join import World, find_instances
from ssvm_dsl.lang.patterns.pattern import Pattern

#: As many instances are printed.
SHOWN = 12

#: Why assignments of index variables are no instances.
NOT_TRUE = "the condition is not true"
NO_POSITION = "a position does not exist"
ONE_VARIABLE = "two references are the same variable"
NO_UNIT = "per= reads no position"
NO_VARIABLE = "the label has no variable there"


@dataclass(frozen=True, eq=False)
class PatternInstances:
    """The instances of a pattern on an example.

    Parameters
    ----------
    name : str
        Of the factor.
    pattern : str
    indices : tuple of str
        The index variables, in the order of their declaration.
    positions : ndarray of int64, shape (n, len(indices))
        The value of each index in each instance.
    variables : list of tuple of str
        The variables of each instance, as ``y[3]``.
    left_out : dict of str to int
        Number of assignments that are no instances, by the reason.
    """

    name: str
    pattern: str
    indices: tuple[str, ...]
    positions: np.ndarray[Any, np.dtype[np.int64]]
    variables: list[tuple[str, ...]]
    left_out: dict[str, int]

    def __len__(self) -> int:
        return len(self.variables)

    def __str__(self) -> str:
        lines = [f"{self.name} = {self.pattern}: {len(self)} instances"]
        for row, scope in list(zip(self.positions.tolist(), self.variables, strict=True))[:SHOWN]:
            at = ", ".join(f"{name} = {value}" for name, value in zip(self.indices, row, strict=True))
            lines.append(f"  {at}: {', '.join(scope)}" if at else f"  {', '.join(scope)}")
        lines += [f"  ... {len(self) - SHOWN} more"] if len(self) > SHOWN else []
        lines += [f"  left out: {n} where {reason}" for reason, n in self.left_out.items() if n]
        return "\n".join(lines)


@checked_call
def instances(model: type[Model] | Declaration, name: str, example: Any) -> PatternInstances:
    """Return the factors that a pattern has on an example, and how many assignments of indices have none, and why.

    Parameters
    ----------
    model : Model class
    name : str
        A factor, rule or given scores of the model.
    example : dict of arrays, or an array
        As an entry of X.

    Raises
    ------
    OptionError
        The model has no such symbol, or it is about no pattern.

    Examples
    --------
    >>> print(instances(Tagger, "skip", x))
    """
    declaration = declaration_of(model, "instances")
    symbol = declaration.find(name)
    target = symbol.target if isinstance(symbol, AboutTarget) else None
    if not isinstance(target, Pattern):
        about = [one for one in declaration.symbols if isinstance(one, AboutTarget)]
        known = ", ".join(one.name for one in about if isinstance(one.target, Pattern)) or "none"
        raise OptionError(f"instances: {name!r} is no factor or rule with a pattern; these are {known}")
    examples = read_examples(declaration, [example], judged=False)
    layout = Layout.of(declaration, examples)
    scopes = ground_scopes(target, layout, examples)
    rows = scopes.shapes.scope.tolist()
    names = [tuple(variable_name(layout, variable) for variable in scope) for scope in rows]
    free = target.parts[0].free if not target.is_union else ()
    found = scopes.found
    columns = [] if found is None else [found.columns[id(index)] for index in free]
    positions = np.stack(columns, axis=1) if columns else np.zeros((len(names), 0), dtype=np.int64)
    shown = tuple(repr(index) for index in free) if columns else ()
    pattern = repr(target.pattern) if target.word is not None else repr(target)
    left = _left_out(target, World(examples.sizes, dict(examples.raw), 1), len(names))
    return PatternInstances(name, pattern, shown, positions, names, left)


def _left_out(target: Pattern, world: World, n: int) -> dict[str, int]:
    """Return the numbers of assignments that are no instances; each stage takes some away from the one before."""
    total = true = there = apart = weighed = 0
    for part in target.parts:
        total += prod(int(world.size(index.dim)[0]) for index in part.free)
        true += len(find_instances(part.free, part.condition, (), world, part))
        there += len(find_instances(part.free, part.condition, part.places, world, part))
        weighed += len(found := part.instances(world))
        apart += len(Pattern(part.references, part.condition).instances(world)) if part.units else len(found)
    counts = (total, true, there, apart, weighed, n)
    reasons = (NOT_TRUE, NO_POSITION, ONE_VARIABLE, NO_UNIT, NO_VARIABLE)
    left = {why: more - less for why, more, less in zip(reasons, counts, counts[1:], strict=False)}
    return {why: count for why, count in left.items() if count or why != NO_UNIT}
