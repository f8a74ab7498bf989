"""Names of variables and states in the users' words: ``y[3]``, ``y[2] -> 5``, ``N``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I32
from ssvm_dsl.compiler.features.weight_names import weight_names
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.rules import instance_words
from ssvm_dsl.compiler.variable_names import label_of, variable_name, variables_behind
from ssvm_dsl.insight.terms import NO_FEATURE, TemplateTerms
from ssvm_dsl.lang.outputs.agreements import Agreement, Auxiliary
from ssvm_dsl.lang.outputs.labels import BeginsOf, Label, SpansOf
from ssvm_dsl.lang.rules.circuits import RuleAux


class ExampleNames:
    """Names of what an example consists of.

    Parameters
    ----------
    grounded : Grounded
        Its first example is named.
    """

    def __init__(self, grounded: Grounded) -> None:
        self.grounded = grounded
        self._features: dict[str, Sequence[str] | None] = {}

    def _label(self, variable: int) -> Label:
        return label_of(self.grounded.layout, variable)[0]

    def variable(self, variable: int) -> str:
        """Return the name of a variable."""
        return variable_name(self.grounded.layout, variable)

    def position(self, variable: int) -> str:
        """Return the position of the users' label that a variable is about."""
        label, example, number = label_of(self.grounded.layout, variable)
        if isinstance(label, Auxiliary):
            return self.variable(variable)
        declared, place = label.declared, self.grounded.layout.place(label, example, number)
        kept = place[: len(declared.dims) - declared.pointer]
        return f"{declared.name}[{', '.join(map(str, kept))}]" if kept else declared.name

    def state(self, variable: int, state: int) -> Any:
        """Return the name of a state of a variable."""
        label = self._label(variable)
        if isinstance(label, RuleAux):
            return label.said(state)
        if isinstance(label, SpansOf) and not isinstance(label.classes, tuple):
            return "no segment" if not state else _class(label.of, state - 1)
        if isinstance(label, BeginsOf):
            return ("goes on", "begins")[state]
        if isinstance(label, Agreement):
            named = label.named[state]
            return "not all alike" if named is None else f"all {_class(label.of.label, named)}"
        return ("no", "yes")[state] if label.pointer else _class(label, state)

    def about(self, template: TemplateTerms, factor: int) -> list[int]:
        """Return the variables that a factor is about: of a segment the first, of a rule those it speaks of."""
        scope = template.scope[factor].tolist()[: 1 if template.of_spans else None]
        return [one for v in scope for one in variables_behind(self.grounded.layout, v)]

    def places(self, template: TemplateTerms, factor: int) -> tuple[str, ...]:
        """Return the names of the variables that a factor is about."""
        return tuple(map(self.variable, self.about(template, factor)))

    def at(self, template: TemplateTerms, factor: int) -> str:
        """Return the values of the index variables of a factor, ``"i = 0, j = 2"``; empty where it has none."""
        return "" if template.found is None else instance_words(template.indices, template.found, factor)

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
        variables = [v for v in changed if not isinstance(self._label(v), Auxiliary)]
        return [(self.variable(v), self.state(v, int(one[v])), self.state(v, int(other[v]))) for v in variables]

    @cached_property
    def template_factors(self) -> dict[str, str]:
        """The factor of the declaration that each template belongs to."""
        return {part.name: factor.name for factor in self.grounded.declaration.factors for part in factor.parts}


def _class(label: Label, state: int) -> Any:
    return state if label.classes is None else label.classes[state]
