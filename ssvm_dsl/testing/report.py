"""The findings of a conformance kit, as text and as plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any

from ssvm_dsl.units import seconds_text


class Complaint(Exception):
    """A mistake of a plug-in, in words for its author."""


@dataclass(frozen=True)
class Failure:
    """One problem on which a check failed.

    Parameters
    ----------
    problem : str
        The Python expression that reproduces the problem.
    text : str
        The question, the expected and the found answer.
    """

    problem: str
    text: str


@dataclass(eq=False)
class Check:
    """One kind of check over all problems it applies to.

    Parameters
    ----------
    name : str
    cases : int
        Problems tried.
    failures : list of Failure
    seconds : float
        How long it took.
    """

    name: str
    cases: int = 0
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> int:
        """Number of cases without failure."""
        return max(self.cases - len(self.failures), 0)

    @property
    def ok(self) -> bool:
        """Whether there were cases and all passed."""
        return self.cases > 0 and not self.failures

    def summary(self) -> dict[str, Any]:
        """Return plain data."""
        failures = [{"problem": failure.problem, "text": failure.text} for failure in self.failures]
        return {
            "name": self.name,
            "ok": self.ok,
            "cases": self.cases,
            "passed": self.passed,
            "failures": failures,
            "seconds": round(self.seconds, 3),
        }

    def line(self, timed: bool = False) -> str:
        """Return the line of the check in the report, without its failures."""
        took = f", {seconds_text(self.seconds)}" if timed else ""
        if self.ok:
            return f"ok    {self.name}: {self.cases} case{'s' if self.cases > 1 else ''}{took}"
        if not self.failures:
            return f"FAIL  {self.name}: claimed, but no problem could test it; that is not a pass"
        return f"FAIL  {self.name}: {self.passed} of {self.cases} cases passed{took}"


@dataclass
class ConformanceReport:
    """All checks of one plug-in.

    Parameters
    ----------
    name : str
    seed, n_problems : int
        Arguments that reproduce the problems.
    checks : list of Check
    not_claimed : list of str
        Checks that do not apply, because the plug-in does not make the tested claim.
    refusals : dict of str to int
        Reasons for refusing problems that the description of the plug-in covers, with their counts.
    kind : str
        ``"backend"``, ``"trainer"``, ``"constraint"``, ``"bridge"``, ``"loss"`` or ``"executor"``.
    """

    name: str
    seed: int
    n_problems: int
    checks: list[Check] = field(default_factory=list)
    not_claimed: list[str] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    kind: str = "backend"

    @property
    def ok(self) -> bool:
        """Whether there were checks and all passed."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed."""
        return [check.name for check in self.checks if not check.ok]

    def summary(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "ok": self.ok,
            "seed": self.seed,
            "n_problems": self.n_problems,
            "checks": [check.summary() for check in self.checks],
            "not_claimed": list(self.not_claimed),
            "refusals": dict(self.refusals),
        }

    def __str__(self) -> str:
        return self.text()

    def text(self, timed: bool = False) -> str:
        """Return the report as text; equal failures of several checks are shown once.

        Parameters
        ----------
        timed : bool
            Whether each check has its seconds.
        """
        count = f"{len(self.failed)} of {len(self.checks)} checks failed"
        what = "training problems" if self.kind == "trainer" else "random problems"
        verdict = f"all {len(self.checks)} checks passed" if self.ok else count
        lines = [f"{self.kind} '{self.name}': {verdict} (seed {self.seed}, {self.n_problems} {what})"]
        same: dict[str, list[Check]] = {}
        for check in self.checks:
            for failure in check.failures[:1]:
                same.setdefault(_bare(failure.text), []).append(check)
        for check in self.checks:
            line, first = f"  {check.line(timed)}", next(iter(check.failures), None)
            if first is None:
                lines.append(line)
                continue
            alike = same[_bare(first.text)]
            if check is not alike[0]:
                lines.append(f"{line}: as in '{alike[0].name}'")
                continue
            lines.append(f"{line}; the same in {len(alike)} checks" if len(alike) > 1 else line)
            message = f"on {first.problem}:\n{indent(first.text, '  ')}" if first.problem else first.text
            lines.append(indent(message, " " * 10))
        if self.not_claimed:
            lines.append(f"  not claimed: {', '.join(self.not_claimed)}")
        lines += [f"  refused {count} times: {reason}" for reason, count in self.refusals.items()]
        return "\n".join(lines)


def _bare(text: str) -> str:
    """Return a failure without what differs from check to check: the question, and addresses in memory."""
    return re.sub(r"\Atask .*\n|0x[0-9a-f]+", "", text)
