"""A rule as the target of a factor: the variables that it speaks of, and the form of its table."""

from __future__ import annotations

from math import prod
from typing import Any

from ssvm_dsl.lang.dims import conjunction, conjuncts
from ssvm_dsl.lang.forms import Form
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.patterns.references import LabelAt, LiteralAt
from ssvm_dsl.lang.rules.formulas import (
    Formula,
    instance_condition,
    is_fixed,
    is_small,
    references_of,
    truth_table,
)


class RulePattern(Pattern):
    """The variables of a rule that has a table: equal to the pattern of these variables.

    Parameters
    ----------
    rule : LiteralAt or Formula
    where : condition, optional
        One more, beside those of the rule.
    """

    rule: Any

    def __init__(self, rule: Any, where: Any = None) -> None:
        rule = rule.narrowed(where) if isinstance(rule, Formula) and where is not None else rule
        condition = where if isinstance(rule, LiteralAt) else instance_condition(rule)
        references: tuple[LabelAt, ...] = () if rule.mistakes else references_of(rule)
        self._make(references or (LabelAt(Label(1), ()),), condition, None, [*rule.mistakes])
        object.__setattr__(self, "rule", rule)

    def narrowed(self, where: Any) -> RulePattern:
        """Return the pattern with one more condition."""
        if isinstance(self.rule, Formula):
            return RulePattern(self.rule, where)
        return RulePattern(self.rule, conjunction((*conjuncts(self.condition), where)))

    @property
    def form(self) -> Form:
        """The form of its table: 1 where the rule is true."""
        values = truth_table(self.rule, self.references)
        return Form("truth", tuple(values.ravel().astype(float).tolist()), values.shape)

    @property
    def written(self) -> Any:
        """The rule, without its condition."""
        if isinstance(self.rule, LiteralAt) or self.rule.condition is None:
            return self.rule
        one = self.rule
        return Formula(one.op, one.given, one.bound, one.over, None, one.outside, one.most)

    @property
    def written_options(self) -> dict[str, Any]:
        """The condition."""
        condition = self.condition if isinstance(self.rule, LiteralAt) else self.rule.condition
        return {} if condition is None else {"where": condition}

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return rule and condition."""
        return (self.written,), self.written_options

    def __repr__(self) -> str:
        return repr(self.rule)


def has_table(rule: Any) -> bool:
    """Whether one table over the variables of a rule says it all."""
    return bool(rule.mistakes) or (is_fixed(rule) and is_small(rule))


def n_table(rule: Any) -> int:
    """Return the number of joint states of the variables of a rule."""
    return prod(one.label.n_states for one in references_of(rule))
