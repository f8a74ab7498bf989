"""Problems with hard constraints, made by the kinds themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.constraint_rules import with_rules
from ssvm_dsl.ir import Caps
from ssvm_dsl.plugin_api import ConstraintSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.testing.problems import Problem


def constraint_problems(caps: Caps, plugins: Registry, n: int, seed: int) -> Iterator[Problem]:
    """Yield n problems of every kind of constraint that a backend claims to handle, as far as the kind is known.

    Raises
    ------
    PluginError
        A kind cannot be loaded.
    """
    for spec in plugins.specs(ConstraintSpec):
        if caps.every_constraint or spec.name in caps.constraint_kinds:
            kind = plugins.load(spec)()
            for number in range(n):
                program, theta = kind.problem(np.random.default_rng([seed, number]))
                name = f"problem {number} of the constraint '{spec.name}', seed {seed}"
                if program.n_examples == 0 or not all(group.kind == spec.name for group in program.constraints):
                    raise PluginError(f"constraint '{spec.name}': problem() returns examples with constraints of it")
                yield Problem(name, with_rules(program, plugins), theta)
