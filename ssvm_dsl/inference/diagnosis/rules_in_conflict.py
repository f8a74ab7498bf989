"""Which declared rules leave an example without a labelling, whatever form they have inside.

Rules become constraints, tables or masks, and a mask or known labels rule out states as well.  What was declared is
left out, one after the other, as long as there is still no labelling, as in
:mod:`ssvm_dsl.inference.diagnosis.conflicts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.variable_names import variable_name
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import InfeasibleError, SsvmError
from ssvm_dsl.inference.diagnosis.conflicts import Filter, broken_together, proved_infeasible
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.constraints.implied import implied_constraints
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.rules.formulas import Formula, has_tables
from ssvm_dsl.lang.rules.rule_patterns import has_table
from ssvm_dsl.lang.rules.structures import RuleOfKind
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
        of_positions = isinstance(self.symbol, Formula) and not has_table(self.symbol) and not has_tables(self.symbol)
        return of_positions or isinstance(self.symbol, Constraint | RuleOfKind)


#: What may be left out of a declaration, so that there is a labelling.
RULES = Forbid | Constraint | Formula | RuleOfKind


#: As many places are named.
NAMED = 3

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
    listed, where = " and ".join(rule.text for rule in core), search.places(core)
    if len(core) == 1:
        return f"no labelling keeps {listed}{where}"
    rest = "" if search.going else " (there may be fewer; the search was ended)"
    return f"{listed} cannot be kept together{where}{rest}; loosen one of them"


def _rules(declaration: Declaration, inputs: Mapping[str, Any], given: Any) -> list[DeclaredRule]:
    """Return everything that may rule labellings out."""
    symbols: list[Symbol] = [one for one in declaration.symbols if isinstance(one, RULES)]
    rules = [DeclaredRule(f"'{one.name}' ({one.constructor})", symbol=one) for one in symbols]
    for label in declaration.labels:
        if label.allowed is not None and label.allowed.name in inputs:
            text = f"the mask '{label.allowed.name}' of label '{label.name}'"
            rules.append(DeclaredRule(text, mask=label.allowed.name))
    for one in declaration.given:
        source = one.features
        if isinstance(source, Input) and source.name in inputs and _lowest(inputs[source.name]) == -np.inf:
            rules.append(DeclaredRule(f"the scores of -inf in '{one.name}'", scores=source.name))
    return rules if given is None else [*rules, KNOWN]


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
        self.grounded: tuple[Grounded, Theta] | None = None
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
        symbols = tuple(one for one in every if not isinstance(one, RULES) or id(one) in kept)
        declaration = Declaration(self.declaration.name, symbols, self.declaration.compact)
        self.grounded = None
        try:
            grounded = self.ground(declaration, inputs, self.given if KNOWN in items else None)
            theta = grounded.parameters.scores(np.zeros(grounded.parameters.dim))
        except InfeasibleError:
            return True
        except SsvmError:  # why there is no labelling is nice to know, and nothing more
            return False
        node, *tables = (np.where(np.isneginf(one), -np.inf, 0.0) for one in (theta.node, *theta.tables))
        theta = Theta.of(grounded.program, node, tables)
        self.grounded = grounded, theta
        return proved_infeasible(grounded.program, theta, self.until)

    def places(self, items: list[DeclaredRule]) -> str:
        """Return where some rules that cannot be kept together fail, in words; empty where that is not known."""
        if not self.infeasible(items) or self.grounded is None:
            return ""
        grounded, theta = self.grounded
        found = [*_factors_without_states(grounded, theta), *broken_together(grounded.program, theta, self.until)]
        return f" ({', '.join(found[:NAMED])}{', ...' if len(found) > NAMED else ''})" if found else ""


def _factors_without_states(grounded: Grounded, theta: Theta) -> Iterator[str]:
    """Yield the factors of rules that leave no joint state, whatever else is done."""
    program, one = grounded.program, np.array([0], dtype=np.int64)
    allowed = np.ones(program.n_states, dtype=bool) if program.allowed is None else program.allowed
    allowed &= theta.node > -np.inf
    for group, table in zip(program.groups, theta.tables, strict=True):
        scope, rows = group.shapes.variables(one), group.table_rows(one)
        if group.kind != "table" or not (table == -np.inf).any():
            continue
        left = table[rows].reshape(len(rows), *group.cards) > -np.inf
        for k, card in enumerate(group.cards):
            of_state = allowed[program.state_ptr[scope[:, k]][:, None] + np.arange(card)]
            left &= of_state.reshape(len(rows), *(card if axis == k else 1 for axis in range(len(group.cards))))
        for f in np.flatnonzero(~left.reshape(len(rows), -1).any(axis=1)).tolist():
            names = ", ".join(variable_name(grounded.layout, v) for v in scope[f].tolist())
            yield f"'{group.name}' of {names}"
