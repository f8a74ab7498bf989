"""One check over many problems: failures end up in the report, and after a few of them the rest is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ssvm_dsl.testing.backends.conformance import MAX_FAILURES, TROUBLE, crash
from ssvm_dsl.testing.problems import Problem
from ssvm_dsl.testing.report import Check, Failure


def examine(name: str, problems: Iterable[Problem], look: Callable[[Problem], bool | None]) -> Check:
    """Return a check: ``look`` raises where something is wrong, and returns False of what is no case of it."""
    check = Check(name)
    for problem in problems:
        if len(check.failures) >= MAX_FAILURES:
            break
        try:
            check.cases += look(problem) is not False
        except TROUBLE as err:
            check.cases += 1
            check.failures.append(Failure(problem.name, crash(err)))
    return check
