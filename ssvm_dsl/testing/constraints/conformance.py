"""Runs the conformance checks on a kind of constraints; what goes wrong ends up in the report."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from ssvm_dsl.plugin_api import ConstraintSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.testing.backends.conformance import MAX_FAILURES, TROUBLE, crash
from ssvm_dsl.testing.constraints import checks
from ssvm_dsl.testing.constraints.problems import kind_problem
from ssvm_dsl.testing.examination import chosen, examine
from ssvm_dsl.testing.problems import Problem
from ssvm_dsl.testing.report import Check, ConformanceReport, Failure

#: The checks that look at each problem, by name.
CHECKS: dict[str, Callable[[Problem], None]] = {
    "violated": checks.judgements,
    "rows": checks.rows,
    "answers": checks.answers,
    "start": checks.starts,
    "explain": checks.explanations,
}

#: What problems of a kind have to have among them.
COVERED: dict[str, Callable[[Problem], bool]] = {
    "feasible examples": lambda problem: max(checks.best_scores(problem), default=-np.inf) > -np.inf,
    "infeasible examples": lambda problem: min(checks.best_scores(problem), default=0.0) == -np.inf,
    "examples without constraints": lambda problem: any((one.counts == 0).any() for one in problem.program.constraints),
}


def check_constraint(
    kind: str | ConstraintSpec,
    registry: Registry | None = None,
    *,
    n_problems: int = 20,
    seed: int = 0,
    only: Collection[str] = (),
    progress: Callable[[str], None] | None = None,
) -> ConformanceReport:
    """Check a kind of constraints: that what it calls broken is what its rows rule out, for all small labellings.

    Parameters
    ----------
    kind : str or ConstraintSpec
        A registered name, or the description that is registered under it.
    registry : Registry, optional
        Where to look the name up; the installed plug-ins by default.
    n_problems : int
        How many problems the kind is asked for.
    seed : int
        The same seed gives the same problems.
    only : collection of str, optional
        Names of checks, to run some only; all by default.
    progress : callable, optional
        Told the name of each check before it runs.

    Returns
    -------
    ConformanceReport

    Raises
    ------
    PluginError, OptionError
        Unknown kind; unknown check.  (What is wrong with the kind is in the report.)
    """
    names = chosen([*CHECKS, *COVERED], only)
    known = installed() if registry is None else registry
    spec = known.find(ConstraintSpec, kind if isinstance(kind, str) else kind.name)
    run = _Examination(spec, known, ConformanceReport(spec.name, seed, n_problems, kind="constraint"))
    run.make()
    for name in names:
        if progress is not None:
            progress(name)
        run.report.checks.append(examine(name, run.problems, CHECKS.get(name) or COVERED[name]))
    return run.report


@dataclass(eq=False)
class _Examination:
    """One kind on its way through the checks."""

    spec: ConstraintSpec
    plugins: Registry
    report: ConformanceReport
    problems: list[Problem] = field(default_factory=list)

    def make(self) -> None:
        """Ask for the problems."""
        check = Check("problems")
        self.report.checks.append(check)
        for number in range(self.report.n_problems):
            seed = 1000 * self.report.seed + number
            check.cases += 1
            try:
                self.problems.append(kind_problem(self.spec.name, seed, self.plugins))
            except TROUBLE as err:
                check.failures.append(Failure(f"seed {seed}", crash(err)))
                if len(check.failures) >= MAX_FAILURES:
                    return
