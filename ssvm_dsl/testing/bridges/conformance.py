"""Runs the conformance checks on a bridge; what goes wrong ends up in the report."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from ssvm_dsl.inference.bridging.bridge_match import BridgeMatch
from ssvm_dsl.plugin_api import BridgeSpec, ConstraintSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.testing.backends.conformance import TROUBLE, crash
from ssvm_dsl.testing.bridges import checks
from ssvm_dsl.testing.bridges.problems import bridge_problem
from ssvm_dsl.testing.constraints.checks import best_scores
from ssvm_dsl.testing.examination import chosen, examine
from ssvm_dsl.testing.problems import Problem
from ssvm_dsl.testing.report import Check, ConformanceReport, Failure

#: The checks that look at each problem, by name.
CHECKS: dict[str, Callable[[BridgeSpec, Problem, Registry], None]] = {
    "optimum": checks.optimum,
    "kbest": checks.kbest,
    "marginals": checks.marginals,
    "masks": checks.masks,
    "clamps": checks.clamps,
    "selected examples": checks.selections,
    "constancy": checks.constancy,
}

#: What problems of a bridge have to have among them.
COVERED: dict[str, Callable[[Problem], bool]] = {
    "feasible examples": lambda problem: max(best_scores(problem), default=-np.inf) > -np.inf,
    "infeasible examples": lambda problem: min(best_scores(problem), default=0.0) == -np.inf,
}


def check_bridge(
    bridge: str | BridgeSpec,
    registry: Registry | None = None,
    *,
    n_problems: int = 20,
    seed: int = 0,
    only: Collection[str] = (),
    progress: Callable[[str], None] | None = None,
) -> ConformanceReport:
    """Check a bridge: that behind it there are the same labellings, scores, sums and lists of the best.

    Parameters
    ----------
    bridge : str or BridgeSpec
        A registered name, or the description that is registered under it.
    registry : Registry, optional
        Where to look the name up; the installed plug-ins by default.
    n_problems : int
        How many problems each kind of constraints that the bridge takes is asked for.
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
        Unknown bridge; unknown check.  (What is wrong with the bridge is in the report.)
    """
    names = chosen([*CHECKS, *COVERED], only)
    known = installed() if registry is None else registry
    spec = known.find(BridgeSpec, bridge if isinstance(bridge, str) else bridge.name)
    report = ConformanceReport(spec.name, seed, n_problems, kind="bridge")
    kinds = [one.name for one in known.specs(ConstraintSpec)] if spec.every_constraint else sorted(spec.kinds)
    problems = _problems(spec, kinds, report, known)
    for name in names:
        if progress is not None:
            progress(name)
        report.checks.append(examine(name, problems, _look(name, spec, known)))
    return report


def _look(name: str, spec: BridgeSpec, known: Registry) -> Callable[[Problem], bool | None]:
    if name in COVERED:
        return COVERED[name]
    return lambda problem: CHECKS[name](spec, problem, known)


def _problems(spec: BridgeSpec, kinds: list[str], report: ConformanceReport, known: Registry) -> list[Problem]:
    """Return the problems whose constraints the bridge takes; those it refuses are counted in the report."""
    check, found = Check("rewritten"), []
    report.checks.append(check)
    for kind in kinds:
        for number in range(report.n_problems):
            seed = 1000 * report.seed + number
            try:
                problem = bridge_problem(kind, seed, known)
                asked = BridgeMatch.of(spec, problem.program, known)
                if asked.taken:
                    asked.lowered()
                    found.append(problem)
                    check.cases += 1
                for reason in asked.reasons:
                    report.refusals[f"{kind}: {reason}"] = report.refusals.get(f"{kind}: {reason}", 0) + 1
            except TROUBLE as err:
                check.cases += 1
                check.failures.append(Failure(f"kind '{kind}', seed {seed}", crash(err)))
                if len(check.failures) >= 3:
                    return found
    return found
