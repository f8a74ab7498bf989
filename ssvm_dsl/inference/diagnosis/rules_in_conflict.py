"""Which declared rules leave an example without a labelling, whatever form they have inside.

Rules become constraints, tables or masks, and a mask or known labels rule out states as well.  What was declared is
left out, one after the other, as long as there is still no labelling, as in
:mod:`ssvm_dsl.inference.diagnosis.conflicts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.compiler import Grounded
from ssvm_dsl.errors import InfeasibleError, SsvmError
from ssvm_dsl.inference.deadline import Deadline
from ssvm_dsl.inference.diagnosis.conflicts import Filter, proved_infeasible
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.constraints.implied import implied_constraints
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.symbols import Symbol

#: Lays a declaration over an example with known labels, or ``None``.
Ground = Callable[[Declaration, Any, Any], Grounded]


@dataclass(frozen=True)
class DeclaredRule:
    """Something declared, or given, that rules labellings out.

    Parameters
    ----------
    text : str
        What messages call it.
    symbol : Symbol, optional
        A rule or a constraint, which can be left out of the declaration.
    mask, scores : str
        Name of the input whose zeros, or whose -inf, rule states out.
    """

    text: str
    symbol: Symbol | None = None
    mask: str = ""
    scores: str = ""

    @property
    def is_constraint(self) -> bool:
        """Whether backends know it as a constraint."""
        return isinstance(self.symbol, Constraint)


#: The labels that are known.
KNOWN = DeclaredRule("the given labels")


def rules_in_conflict(
    declaration: Declaration, example: Any, given: Any, ground: Ground, until: Deadline | None = None
) -> str:
    """Return which rules of an example cannot be kept together, in words.

    Empty where that stays unknown, or where they are constraints alone, which
    :func:`~ssvm_dsl.inference.diagnosis.conflicts.conflict` tells apart one by one.

    Parameters
    ----------
    declaration : Declaration
    example : example
        One without a labelling.
    given : labels or None
        Its labels that are known.
    ground : callable
    until : Deadline, optional
        When to end.
    """
    inputs = _by_name(declaration, example)
    search = _RuleSearch(declaration, inputs, given, ground, until or Deadline())
    every = _rules(declaration, inputs, given)
    if not every or not search.going or not search.infeasible(every):
        return ""
    core = search.irreducible(every)
    if all(rule.is_constraint for rule in core):
        return ""
    if core == [KNOWN] and any(True for _ in implied_constraints((), declaration.labels)):  # the label's own structure
        return ""
    listed = " and ".join(rule.text for rule in core)
    if len(core) == 1:
        return f"no labelling keeps {listed}"
    rest = "" if search.going else " (there may be fewer; the search was ended)"
    return f"{listed} cannot be kept together{rest}; loosen one of them"


def _rules(declaration: Declaration, inputs: Mapping[str, Any], given: Any) -> list[DeclaredRule]:
    """Return everything that may rule labellings out."""
    symbols: list[Symbol] = [one for one in declaration.symbols if isinstance(one, Forbid | Constraint)]
    found = [DeclaredRule(f"'{one.name}' ({type(one).__name__})", symbol=one) for one in symbols]
    for label in declaration.labels:
        if label.allowed is not None and label.allowed.name in inputs:
            text = f"the mask '{label.allowed.name}' of label '{label.name}'"
            found.append(DeclaredRule(text, mask=label.allowed.name))
    for one in declaration.given:
        source = one.features
        if isinstance(source, Input) and source.name in inputs and _lowest(inputs[source.name]) == -np.inf:
            found.append(DeclaredRule(f"the scores of -inf in '{one.name}'", scores=source.name))
    return found if given is None else [*found, KNOWN]


def _by_name(declaration: Declaration, example: Any) -> dict[str, Any]:
    """Return the inputs of an example by name."""
    names = [one.name for one in declaration.inputs]
    return dict(example) if isinstance(example, Mapping) and set(example) <= set(names) else {names[0]: example}


def _lowest(values: Any) -> float:
    """Return the smallest of some numbers; 0 where they are none."""
    try:
        return float(np.min(np.asarray(values, dtype=np.float64), initial=0.0))
    except (TypeError, ValueError):
        return 0.0


class _RuleSearch(Filter[DeclaredRule]):
    """Looks whether there is a labelling under some of the rules."""

    def __init__(
        self, declaration: Declaration, inputs: dict[str, Any], given: Any, ground: Ground, until: Deadline
    ) -> None:
        super().__init__(until)
        self.declaration, self.inputs, self.given, self.ground = declaration, inputs, given, ground

    def infeasible(self, items: list[DeclaredRule]) -> bool:
        """Whether it is proved that no labelling keeps these rules."""
        self.trials += 1
        inputs, kept = dict(self.inputs), {id(rule.symbol) for rule in items}
        left = {rule.mask or rule.scores for rule in items}
        for rule in _rules(self.declaration, self.inputs, None):
            if rule.mask and rule.mask not in left:
                inputs[rule.mask] = np.ones_like(np.asarray(inputs[rule.mask]))
            if rule.scores and rule.scores not in left:
                values = np.asarray(inputs[rule.scores], dtype=np.float64)
                inputs[rule.scores] = np.where(np.isneginf(values), 0.0, values)
        every = self.declaration.symbols
        symbols = tuple(one for one in every if not isinstance(one, Forbid | Constraint) or id(one) in kept)
        declaration = Declaration(self.declaration.name, symbols, self.declaration.compact)
        try:
            grounded = self.ground(declaration, inputs, self.given if KNOWN in items else None)
            theta = grounded.parameters.scores(np.zeros(grounded.parameters.dim))
        except InfeasibleError:
            return True
        except SsvmError:  # why there is no labelling is nice to know, and nothing more
            return False
        node, *tables = (np.where(np.isneginf(one), -np.inf, 0.0) for one in (theta.node, *theta.tables))
        return proved_infeasible(grounded.program, Theta.of(grounded.program, node, tables), self.until)
