"""A rule as the target of a factor: the variables of its table, or the one that says whether it is true."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.lang.dims import Dim, Index
from ssvm_dsl.lang.forms import FULL, Form
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.patterns.join import symbols_of
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.patterns.references import LabelAt, LiteralAt
from ssvm_dsl.lang.rules.circuits import Gate, RuleCircuit, axes_of
from ssvm_dsl.lang.rules.formulas import (
    Formula,
    free_indices,
    has_tables,
    inputs_read,
    instance_condition,
    is_fixed,
    is_small,
    labels_of,
    numbers_of,
    references_of,
    truth_table,
)
from ssvm_dsl.lang.symbols import Symbol


def has_table(rule: Any) -> bool:
    """Whether one table over the variables of a rule says it all."""
    return bool(rule.mistakes) or (is_fixed(rule) and is_small(rule))


class RuleTarget(Pattern):
    """A rule as a target.

    Parameters
    ----------
    rule : Formula
        A literal alone is "all of this one".
    """

    rule: Any

    def _rule(self, rule: Any, references: tuple[LabelAt, ...]) -> None:
        nothing = LabelAt(Label(1), ())
        self._make(references or (nothing,), instance_condition(rule), None, [*rule.mistakes])
        object.__setattr__(self, "rule", rule)
        object.__setattr__(self, "line", rule.line)

    def narrowed(self, where: Any) -> RuleTarget:
        """Return the target with one more condition."""
        return rule_target(self.rule, where)

    @property
    def form(self) -> Form:
        """The form of its table: 1 where the rule is true."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs whose content decides what there is."""
        return (*inputs_read(self.rule), *self.also_read)

    @property
    def written(self) -> Any:
        """The rule, without its condition."""
        one = self.rule
        if _is_bare(one):
            return one.given[0]
        return Formula(one.op, one.given, one.bound, one.over, None, one.outside, one.most)

    @property
    def written_options(self) -> dict[str, Any]:
        """The condition."""
        return {} if self.rule.condition is None else {"where": self.rule.condition}

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return rule and condition."""
        return (self.written,), self.written_options

    def __repr__(self) -> str:
        return repr(self.rule.given[0] if _is_bare(self.rule) and self.rule.condition is None else self.rule)


def _is_bare(rule: Formula) -> bool:
    """Whether it stands for a literal alone."""
    alone = rule.op == "AllOf" and len(rule.given) == 1 and not rule.over and rule.outside
    return alone and isinstance(rule.given[0], LiteralAt)


class RulePattern(RuleTarget):
    """The variables of a rule that has a table: equal to the pattern of these variables."""

    def __init__(self, rule: Formula) -> None:
        self._rule(rule, () if rule.mistakes else references_of(rule))

    @property
    def form(self) -> Form:
        """The form of its table: 1 where the rule is true."""
        values = truth_table(self.rule, self.references)
        return Form("truth", tuple(values.ravel().astype(float).tolist()), values.shape)


class FoundRule(RuleTarget):
    """A rule whose instances are found before it is known what they join."""

    @property
    def free(self) -> tuple[Index, ...]:
        """The index variables of the rule."""
        return free_indices(self.rule)

    @property
    def count_reads_inputs(self) -> bool:
        """Its factors are found, not counted."""
        return True

    @property
    def is_box(self) -> bool:
        """Its factors are in a row."""
        return False

    @property
    def all_labels(self) -> tuple[Label, ...]:
        """The labels of the rule."""
        return labels_of(self.rule)

    @property
    def all_axes(self) -> tuple[Dim, ...]:
        """Axes whose sizes decide how many factors there are."""
        return axes_of(self.rule)

    def symbols(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols that it refers to beside its labels, with what each is to it."""
        for number in numbers_of(self.rule):
            yield from symbols_of(number)

    def _content(self) -> tuple[Any, ...]:
        return "rule", self.rule, self.also_read


class VariedRule(FoundRule):
    """The variables of a rule that has tables, which differ from instance to instance.

    Literals are about states from data, or false at positions that do not exist; their variables may be fewer there.
    """

    def __init__(self, rule: Formula) -> None:
        self._rule(rule, references_of(rule))

    @property
    def form(self) -> Form:
        """The form of a table: entries are 1 where the rule is true, which depends on the instance."""
        return Form("truth", (1.0,) * prod(self.cards), self.cards)


class RuleTruth(FoundRule):
    """The auxiliary variable that says whether a rule is true, or how many literals of a count are."""

    circuit: RuleCircuit

    def __init__(self, rule: Formula) -> None:
        circuit = RuleCircuit(rule, hard=False)
        top = circuit.top.node
        assert isinstance(top, Gate)
        assert top.aux is not None
        self._rule(rule, (LabelAt(top.aux, ()),))
        object.__setattr__(self, "circuit", circuit)

    @property
    def form(self) -> Form:
        """Where the auxiliary variable says that the rule is true; a weight for each number of a count."""
        top = self.circuit.top
        assert isinstance(top.node, Gate)
        if top.node.op == "number":
            return FULL
        true = (np.arange(top.node.n_states) == top.node.true_state) != top.negated
        return Form("truth", tuple(true.astype(float).tolist()), true.shape)

    @property
    def laid_labels(self) -> tuple[Label, ...]:
        """The labels whose variables the factors follow from: those of the rule, and the auxiliary ones."""
        return self.circuit.laid_labels


def rule_target(rule: Any, where: Any = None) -> RuleTarget:
    """Return a rule as a target.

    Parameters
    ----------
    rule : LiteralAt or Formula
    where : condition, optional
        One more, beside those of the rule.
    """
    formula = Formula("AllOf", (rule,)) if isinstance(rule, LiteralAt) else rule
    if where is not None:
        formula = formula.narrowed(where)
    if has_table(formula):
        return RulePattern(formula)
    return VariedRule(formula) if has_tables(formula) else RuleTruth(formula)
