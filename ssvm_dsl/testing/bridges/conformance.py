"""Runs the conformance checks on a bridge, on problems of the kinds of constraints that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Unpack

import numpy as np

from ssvm_dsl.inference.bridging.bridge_match import BridgeMatch
from ssvm_dsl.plugin_api import BridgeSpec, ConstraintSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.testing.bridges import checks
from ssvm_dsl.testing.bridges.checks import BridgeTrial
from ssvm_dsl.testing.bridges.problems import bridge_problem
from ssvm_dsl.testing.constraints.checks import best_scores
from ssvm_dsl.testing.contract import BRIDGE
from ssvm_dsl.testing.kit import HowToRun, MakingKit, NotForThisCase, Rule, some_case
from ssvm_dsl.testing.report import ConformanceReport

#: The checks, then the properties that some problem of a bridge must have.
RULES: tuple[Rule[BridgeSpec, BridgeTrial], ...] = (
    Rule("optimum", checks.optimum),
    Rule("kbest", checks.kbest),
    Rule("marginals", checks.marginals),
    Rule("masks", checks.masks),
    Rule("clamps", checks.clamps),
    Rule("selected examples", checks.selections),
    Rule("constancy", checks.constancy),
    some_case("feasible examples", lambda trial: max(best_scores(trial.problem), default=-np.inf) > -np.inf),
    some_case("infeasible examples", lambda trial: min(best_scores(trial.problem), default=0.0) == -np.inf),
)


def check_bridge(
    bridge: str | BridgeSpec,
    registry: Registry | None = None,
    *,
    n_problems: int = 20,
    seed: int = 0,
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check a bridge: labellings, scores, sums and lists of the best are the same behind it.

    Parameters
    ----------
    bridge : str or BridgeSpec
        A registered name, or the description that is registered under it.
    registry : Registry, optional
        Where to look the name up; the installed plug-ins by default.
    n_problems : int
        Number of problems of each kind of constraints that the bridge takes.
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
        Unknown bridge; unknown check.  (Faults of the bridge are in the report.)
    """
    known = installed() if registry is None else registry
    spec = known.find(BridgeSpec, bridge if isinstance(bridge, str) else bridge.name)
    return BridgeKit(spec, known, seed=seed, n_problems=n_problems).run(**how)


class BridgeKit(MakingKit[BridgeSpec, Rule[BridgeSpec, BridgeTrial], BridgeTrial]):
    """The kit of bridges; a case is a problem whose constraints the bridge rewrites."""

    kind, methods, rules, making = "bridge", BRIDGE, RULES, "rewritten"

    def makers(self, seed: int) -> Iterator[tuple[str, Callable[[], BridgeTrial]]]:
        """Yield the problems that kinds make of a seed whose constraints the bridge may take."""
        every = [one.name for one in self.plugins.specs(ConstraintSpec)]
        for kind in every if self.spec.every_constraint else sorted(self.spec.kinds):
            yield f"kind '{kind}', seed {seed}", partial(self._rewritten, kind, seed)

    def _rewritten(self, kind: str, seed: int) -> BridgeTrial:
        """Return a problem whose constraints the bridge takes; count the reasons for which it refuses others."""
        problem, refusals = bridge_problem(kind, seed, self.plugins), self.report.refusals
        match = BridgeMatch.of(self.spec, problem.program, self.plugins)
        for reason in match.reasons:
            refusals[f"{kind}: {reason}"] = refusals.get(f"{kind}: {reason}", 0) + 1
        if not match.taken or any(group.of_spans for group in problem.program.groups):
            raise NotForThisCase  # no backend behind a bridge takes factors of whole segments
        match.lowered()
        return BridgeTrial(self.spec, problem, self.plugins)
