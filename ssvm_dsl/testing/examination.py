"""One check over many problems: failures end up in the report, and after a few of them the rest is left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ssvm_dsl.errors import OptionError
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


def chosen(names: Collection[str], only: Collection[str]) -> list[str]:
    """Return the names of the checks to run: those in ``only``, all where it is empty.

    Raises
    ------
    OptionError
        There is no check of such a name.
    """
    unknown = set(only) - set(names)
    if unknown:
        raise OptionError(f"there is no check '{min(unknown)}'; the checks are: {', '.join(names)}")
    return [name for name in names if not only or name in only]
