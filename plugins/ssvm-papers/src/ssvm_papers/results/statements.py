"""Statements of papers, the distance within which our numbers agree with them, and the verdicts of a run.

A statement is declared with its experiment, as data, before the experiment runs: what is published, and a rule with a
lower and an upper limit.  A run answers statements by numbers; the verdict follows from rule and numbers alone.  No
rule looks at seconds: a faster machine changes no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Value


class Judgement(StrEnum):
    """Whether a published statement was found again."""

    AGREES = "agrees"
    MISSES = "misses"
    #: There is a published number, and a reason why ours cannot be set against it.
    NOT_COMPARABLE = "not comparable"
    #: The run ended before that could be told.
    TOO_SHORT = "too short to judge"
    #: The stored run is older than the rule that is declared now.
    EARLIER = "older rule"
    #: There is no published number.
    OURS = "ours"


class AgreementRule(Protocol):
    """Which numbers agree with a published statement."""

    def agrees(self, numbers: Sequence[float]) -> bool:
        """Return whether the numbers that were measured agree."""

    def __str__(self) -> str:
        """Return the rule as it stands on the page."""


@dataclass(frozen=True)
class Near:
    """The mean of all numbers is within a distance of the published one."""

    number: float
    within: float

    def agrees(self, numbers: Sequence[float]) -> bool:
        """See :class:`AgreementRule`."""
        return abs(float(np.mean(numbers)) - self.number) <= self.within

    def __str__(self) -> str:
        return f"+- {self.within:g}"


@dataclass(frozen=True)
class EachNear:
    """Each number is within a distance of the published one at its place; there are as many."""

    numbers: tuple[float, ...]
    within: tuple[float, ...]

    def agrees(self, numbers: Sequence[float]) -> bool:
        """See :class:`AgreementRule`."""
        rows = zip(numbers, self.numbers, self.within, strict=True)
        return all(abs(one - published) <= within for one, published, within in rows)

    def __str__(self) -> str:
        return f"each +- {', '.join(f'{one:g}' for one in self.within)}"


@dataclass(frozen=True)
class OneOfDraws:
    """The published number is that of one draw: within some standard deviations of the mean over our draws."""

    number: float
    deviations: float = 2.0

    def agrees(self, numbers: Sequence[float]) -> bool:
        """See :class:`AgreementRule`."""
        return abs(float(np.mean(numbers)) - self.number) <= self.deviations * float(np.std(numbers, ddof=1))

    def __str__(self) -> str:
        return f"within {self.deviations:g} sd of the draws"


@dataclass(frozen=True)
class Between:
    """Every number lies between two limits; ``unit`` is written behind them.

    ``high`` is infinite only where the paper has no number that could set an upper limit.
    """

    low: float
    high: float
    unit: str = ""

    def agrees(self, numbers: Sequence[float]) -> bool:
        """See :class:`AgreementRule`."""
        return all(self.low <= one <= self.high for one in numbers)

    def __str__(self) -> str:
        if self.high == np.inf:
            return f"{self.low:g}{self.unit} or more"
        return f"{self.low:g} to {self.high:g}{self.unit}"


@dataclass(frozen=True)
class Rising:
    """Each number is above the one before; by less than ``slack`` it may be below."""

    slack: float = 0.0

    def agrees(self, numbers: Sequence[float]) -> bool:
        """See :class:`AgreementRule`."""
        steps = np.diff(numbers)
        return bool((steps > -self.slack).all() and numbers[-1] > numbers[0])

    def __str__(self) -> str:
        return f"the order, but for {self.slack:g}" if self.slack else "the order"


def factor_two(published: float) -> Between:
    """Return the rule that ours is between half and twice the published number."""
    return Between(published / 2.0, 2.0 * published)


@dataclass(frozen=True)
class Statement:
    """A statement of a paper, or a number of ours.

    Parameters
    ----------
    key : str
        Names it within its experiment: what pages quote it by.
    what : str
        E.g. ``"letter error, 1 fold trains"``.
    published : str
        ``"-"`` where there is no number.
    rule : Rule, optional
        What counts as agreement; nothing is compared without one.
    form : str
        How its numbers are written.
    why : str
        Why a published number cannot be compared; for statements without a rule.
    """

    key: str
    what: str
    published: str = "-"
    rule: AgreementRule | None = None
    form: str = "{:.3f}"
    why: str = ""

    @property
    def tolerance(self) -> str:
        """The rule as text, empty without one."""
        return "" if self.rule is None else str(self.rule)

    def verdict(self, numbers: Sequence[float], at_least: bool) -> Judgement:
        """Return the verdict on some numbers, none of them: there was no time to find one.

        Parameters
        ----------
        numbers : sequence of float
        at_least : bool
            The numbers are lower bounds of those that were to be measured: they cannot agree with an upper limit.
        """
        if self.rule is None:
            return Judgement.NOT_COMPARABLE if self.why else Judgement.OURS
        if not len(numbers):
            return Judgement.TOO_SHORT
        if at_least:
            limits = self.rule if isinstance(self.rule, Between) else Between(-np.inf, np.inf)
            if any(one > limits.high for one in numbers):
                return Judgement.MISSES
            enough = np.isfinite(limits.low) and limits.high == np.inf and limits.agrees(numbers)
            return Judgement.AGREES if enough else Judgement.TOO_SHORT
        return Judgement.AGREES if self.rule.agrees(numbers) else Judgement.MISSES


def near(key: str, what: str, published: float, within: float, form: str = "{:.3f}") -> Statement:
    """Return the statement of a published number that the mean of ours is to be near."""
    return Statement(key, what, form.format(published), Near(published, within), form)


@dataclass(frozen=True, eq=False)
class Row(Value):
    """One statement with the measured number.

    Parameters
    ----------
    key, what, published : str
        As declared.
    ours : str
    tolerance : str
        The rule; empty where nothing is compared.
    verdict : Verdict
    numbers : tuple of float
        What was measured, as pages quote it: of several repetitions their mean and their standard deviation come
        first.
    why : str
        Why ours cannot be compared.
    """

    key: str
    what: str
    published: str
    ours: str
    tolerance: str
    verdict: Judgement
    numbers: tuple[float, ...] = ()
    why: str = ""


class Answers:
    """The rows of an experiment, in the order in which its statements are declared.

    Parameters
    ----------
    statements : sequence of Statement
    """

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._declared = {one.key: one for one in statements}
        self._rows: dict[str, Row] = {}

    def draws(self, key: str, values: Sequence[float] | F64 | float) -> None:
        """Answer by the mean of several repetitions, or by one number; the standard deviation is shown."""
        one, numbers = self._declared[key], np.atleast_1d(np.asarray(values, dtype=np.float64)).tolist()
        summary = [float(np.mean(numbers)), *([float(np.std(numbers))] if len(numbers) > 1 else [])]
        self._add(one, with_spread(numbers, one.form), one.verdict(numbers, False), summary)

    def numbers(self, key: str, *values: float, text: str = "", at_least: bool = False) -> None:
        """Answer by numbers, all of which the rule looks at.

        Parameters
        ----------
        key : str
        *values : float
            None: what was to be measured did not happen in this run.
        text : str
            What is shown; the numbers by default.
        at_least : bool
            They are lower bounds of what was to be measured.
        """
        one = self._declared[key]
        shown = text or ("> " if at_least else "") + ", ".join(one.form.format(value) for value in values)
        self._add(one, shown, one.verdict(values, at_least), values)

    def text(self, key: str, text: str, *quoted: float) -> None:
        """Answer a statement that has no rule; ``quoted`` are the numbers of the text that pages may quote."""
        one = self._declared[key]
        if one.rule is not None:
            raise ValueError(f"'{key}' has a rule, and no numbers are given")
        self._add(one, text, one.verdict((), False), quoted)

    def _add(self, one: Statement, text: str, verdict: Judgement, numbers: Sequence[float]) -> None:
        kept = tuple(float(value) for value in numbers if np.isfinite(value))
        self._rows[one.key] = Row(one.key, one.what, one.published, text, one.tolerance, verdict, kept, one.why)

    @property
    def rows(self) -> list[Row]:
        """The rows so far."""
        return [self._rows[key] for key in self._declared if key in self._rows]


def with_spread(values: Sequence[float] | F64 | float, form: str = "{:.3f}") -> str:
    """Return e.g. ``"0.204 (sd 0.006)"``: the mean and, of several numbers, their standard deviation."""
    several = np.size(values) > 1
    return form.format(np.mean(values)) + (f" (sd {form.format(np.std(values))})" if several else "")
