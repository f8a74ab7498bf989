"""Problems that kinds of constraints make of themselves, with their rules filled in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.constraint_rules import with_rules
from ssvm_dsl.plugin_api import ConstraintKind, ConstraintSpec
from ssvm_dsl.registry import Registry, registry
from ssvm_dsl.testing.problems import Problem

#: Labellings of an example at most: all of them are tried.
MOST_LABELLINGS = 2**12


def kind_problem(kind: str, seed: int, plugins: Registry | None = None) -> Problem:
    """Return the problem that a kind of constraints makes of a seed; the installed plug-ins know the kind by default.

    Raises
    ------
    PluginError
        It is malformed, has no constraint of the kind, or is too large.
    """
    known = registry() if plugins is None else plugins
    made: ConstraintKind = known.load(known.find(ConstraintSpec, kind))()
    program, theta = made.problem(np.random.default_rng(seed))
    name = f"kind_problem({kind!r}, {seed})"
    if not any(group.kind == kind for group in program.constraints):
        raise PluginError(f"{name} has no group of this kind")
    for example in range(program.n_examples):
        if program.n_labellings(example) > MOST_LABELLINGS:
            raise PluginError(f"{name}, example {example}, has more than {MOST_LABELLINGS} labellings")
    return Problem(name, with_rules(program.validate(), known), theta)


def kind_problems(kind: str, n: int, seed: int = 0, plugins: Registry | None = None) -> Iterator[Problem]:
    """Yield n problems of a kind."""
    for number in range(n):
        yield kind_problem(kind, 1000 * seed + number, plugins)
