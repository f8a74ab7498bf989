"""Runs the conformance checks on a kind of constraints, on problems that the kind makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Unpack

import numpy as np

from ssvm_dsl.plugin_api import ConstraintSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.testing.constraints import checks
from ssvm_dsl.testing.constraints.problems import kind_problem
from ssvm_dsl.testing.contract import CONSTRAINT
from ssvm_dsl.testing.kit import HowToRun, MakingKit, Rule, some_case
from ssvm_dsl.testing.problems import Problem
from ssvm_dsl.testing.report import ConformanceReport

#: The checks, then the properties that some problem of a kind must have.
RULES: tuple[Rule[ConstraintSpec, Problem], ...] = (
    Rule("violated", checks.judgements),
    Rule("rows", checks.rows),
    Rule("violated rows", checks.separations),
    Rule("hull", checks.hulls, optional=True),
    Rule("answers", checks.answers),
    Rule("propagation", checks.propagations, optional=True),
    Rule("best states", checks.maximisers, optional=True),
    Rule("mixtures", checks.mixtures, optional=True),
    Rule("start", checks.starts),
    Rule("explain", checks.explanations),
    some_case("feasible examples", lambda problem: max(checks.best_scores(problem), default=-np.inf) > -np.inf),
    some_case("infeasible examples", lambda problem: min(checks.best_scores(problem), default=0.0) == -np.inf),
    some_case(
        "examples without constraints",
        lambda problem: any((one.counts == 0).any() for one in problem.program.constraints),
        lambda spec: spec.any_literals,
    ),
)


def check_constraint(
    kind: str | ConstraintSpec,
    registry: Registry | None = None,
    *,
    n_problems: int = 20,
    seed: int = 0,
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check a kind of constraints: ``violated`` must agree with its rows on all small labellings.

    Parameters
    ----------
    kind : str or ConstraintSpec
        A registered name, or the description that is registered under it.
    registry : Registry, optional
        Where to look the name up; the installed plug-ins by default.
    n_problems : int
        Number of problems that the kind makes.
    seed : int
        The same seed gives the same problems.
    **how
        Which checks run, and how: :class:`~ssvm_dsl.testing.kit.HowToRun`.

    Returns
    -------
    ConformanceReport

    Raises
    ------
    PluginError, OptionError
        Unknown kind; unknown check.  (Faults of the kind are in the report.)
    """
    known = installed() if registry is None else registry
    spec = known.find(ConstraintSpec, kind if isinstance(kind, str) else kind.name)
    return ConstraintKit(spec, known, seed=seed, n_problems=n_problems).run(**how)


class ConstraintKit(MakingKit[ConstraintSpec, Rule[ConstraintSpec, Problem], Problem]):
    """The kit of kinds of constraints; a case is a problem that the kind makes."""

    kind, methods, rules, making = "constraint", CONSTRAINT, RULES, "problems"

    def makers(self, seed: int) -> Iterator[tuple[str, Callable[[], Problem]]]:
        """Yield the problem that the kind makes of a seed."""
        yield f"seed {seed}", partial(kind_problem, self.spec.name, seed, self.plugins)
