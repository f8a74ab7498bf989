"""Names of variables and states in the users' words: ``y[3]``, ``y[2] -> 5``, ``N``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I32
from ssvm_dsl.compiler.features.weight_names import weight_names
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.insight.terms import NO_FEATURE, TemplateTerms
from ssvm_dsl.ir.ragged import owner_of
from ssvm_dsl.lang.outputs.agreements import Agreement, Auxiliary
from ssvm_dsl.lang.outputs.labels import BeginsOf, Label, SpansOf


class ExampleNames:
    """Names of what an example consists of.

    Parameters
    ----------
    grounded : Grounded
        Its first example is named.
    """

    def __init__(self, grounded: Grounded) -> None:
        self.grounded = grounded
        self.labels = grounded.declaration.labels
        counts = [int(grounded.layout.count(label)[0]) for label in self.labels]
        self._ends = np.array([0, *accumulate(counts)])
        self._features: dict[str, Sequence[str] | None] = {}

    def _at(self, variable: int) -> tuple[Label, tuple[int, ...]]:
        """Return the label that a variable belongs to, and its position on the label's axes."""
        k = owner_of(self._ends, variable)
        label = self.labels[k]
        return label, self.grounded.layout.place(label, 0, variable - int(self._ends[k]))

    def variable(self, variable: int) -> str:
        """Return the name of a variable."""
        label, place = self._at(variable)
        if isinstance(label, Agreement):
            return f"{label.name.rpartition(': all ')[0]}, set {place[0]}"
        if label.pointer:
            return f"{label.name}[{place[0]}] -> {place[1]}"
        return f"{label.name}[{', '.join(map(str, place))}]" if place else label.name

    def position(self, variable: int) -> str:
        """Return the position of the users' label that a variable is about."""
        label, place = self._at(variable)
        if isinstance(label, Agreement):
            return self.variable(variable)
        declared = label.declared
        kept = place[: 1 if declared.pointer else len(declared.dims)]
        return f"{declared.name}[{', '.join(map(str, kept))}]" if kept else declared.name

    def state(self, variable: int, state: int) -> Any:
        """Return the name of a state of a variable."""
        label, _ = self._at(variable)
        if isinstance(label, SpansOf) and not isinstance(label.classes, tuple):
            return "no segment" if not state else _class(label.of, state - 1)
        if isinstance(label, BeginsOf):
            return ("goes on", "begins")[state]
        if isinstance(label, Agreement):
            named = label.named[state]
            return "not all alike" if named is None else f"all {_class(label.of.label, named)}"
        return ("no", "yes")[state] if label.pointer else _class(label, state)

    def places(self, template: TemplateTerms, factor: int) -> tuple[str, ...]:
        """Return the names of the variables of a factor; of a segment that of its first position."""
        scope = template.scope[factor].tolist()
        return tuple(self.variable(v) for v in (scope[:1] if template.of_spans else scope))

    def states(self, template: TemplateTerms, factor: int, config: int) -> tuple[Any, ...]:
        """Return the names of the states of the variables of a factor; of a segment its class and length."""
        if config < 0:
            return ("no segment",)
        states = [int(one) for one in np.unravel_index(config, template.cards)]
        scope = template.scope[factor].tolist()
        if template.of_spans:
            length = states[1] + 1 if len(states) > 1 else scope[2] - scope[1] + 1
            return self.state(scope[0], states[0]), f"length {length}"
        return tuple(self.state(v, s) for v, s in zip(scope, states, strict=True))

    def feature(self, template: str, number: int) -> str | None:
        """Return the name of a feature of a factor template."""
        if number == NO_FEATURE:
            return None
        if template not in self._features:
            grounded = self.grounded
            (factor,) = {f for f in grounded.declaration.factors for p in f.parts if p.name == template}
            self._features[template] = weight_names(factor, grounded.declaration, grounded.fitted).features
        names = self._features[template]
        return None if names is None else names[number]

    def differences(self, one: I32, other: I32) -> list[tuple[str, Any, Any]]:
        """Return (variable, its state in one labelling, in the other) of users' variables that differ."""
        changed = np.flatnonzero(one != other).tolist()
        found = [v for v in changed if not isinstance(self._at(v)[0], Auxiliary)]
        return [(self.variable(v), self.state(v, int(one[v])), self.state(v, int(other[v]))) for v in found]

    @cached_property
    def template_factors(self) -> dict[str, str]:
        """The factor of the declaration that each template belongs to."""
        return {part.name: factor.name for factor in self.grounded.declaration.factors for part in factor.parts}


def _class(label: Label, state: int) -> Any:
    return state if label.classes is None else label.classes[state]
