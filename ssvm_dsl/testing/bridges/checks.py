"""The checks of the conformance kit for bridges; each tries one problem whose constraints the bridge rewrites.

Answers of exact elimination behind the bridge are compared with those of trying every labelling of the problem itself.
Log partitions and lists of the k best tell a labelling with two completions from one.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.inference.bridging.bridge_match import BridgeMatch
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question, Solution, Task
from ssvm_dsl.plugin_api import BackendSpec, BridgeSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.problems import Problem
from ssvm_dsl.testing.report import Complaint

#: Labellings in lists of the best.
BEST = 6

#: The backends that answer behind the bridge: without, and with, constraints of other kinds left.
EXACT, ANY = "junction-tree", "brute-force"


@dataclass(frozen=True, eq=False)
class BridgeTrial:
    """One bridge on one problem.

    Parameters
    ----------
    spec : BridgeSpec
    problem : Problem
    plugins : Registry
    """

    spec: BridgeSpec
    problem: Problem
    plugins: Registry

    @property
    def name(self) -> str:
        """The problem's name."""
        return self.problem.name

    def match(self) -> BridgeMatch:
        """Return which constraints the bridge takes."""
        return BridgeMatch.of(self.spec, self.problem.program, self.plugins)

    def both(self, question: Question) -> tuple[Solution, Solution]:
        """Return a verified answer through the bridge, and the answer of trying every labelling."""
        backend = self.plugins.find(BackendSpec, ANY if self.match().lowered().program.constraints else EXACT)
        plan = Plan(backend.name, "", "", options=backend.resolve(None), bridges=(self.spec.name,))
        bridged = open_plan(plan, self.problem.program, self.plugins).solve(question)
        return bridged, BruteForceSession(self.problem.program).solve(question)


def optimum(trial: BridgeTrial) -> None:
    """Ask for best labellings: the best scores, none where there is none, bounds that say so."""
    bridged, best = trial.both(Question(trial.problem.theta))
    _agree(trial, "the best scores", bridged.score, best.score)
    if (bridged.optimal() != (best.score > -np.inf)).any():
        raise Complaint("answers of exact elimination behind it are not proved optimal")


def kbest(trial: BridgeTrial) -> None:
    """Ask for the k best labellings: the same scores, none of them twice."""
    bridged, best = trial.both(Question(trial.problem.theta, None, Task.KBEST, k=BEST))
    for k in range(BEST):
        _agree(trial, f"the scores of rank {k + 1}", bridged.score[k], best.score[k])


def marginals(trial: BridgeTrial) -> None:
    """Ask for marginals and log partitions."""
    bridged, best = trial.both(Question(trial.problem.theta, None, Task.MARGINALS))
    assert bridged.log_partition is not None
    assert best.log_partition is not None
    _agree(trial, "log partitions", bridged.log_partition, best.log_partition)
    mine, others = bridged.needed_marginals(), best.needed_marginals()
    for one, other in zip((mine.node, *mine.tables), (others.node, *others.tables), strict=True):
        if not np.allclose(one, other, atol=1e-7):
            raise Complaint(f"marginals {one.tolist()!r:.200} behind it, {other.tolist()!r:.200} by all labellings")


def clamps(trial: BridgeTrial) -> None:
    """Fix the states of some variables."""
    program = trial.problem.program
    rng = np.random.default_rng(program.n_variables)
    clamp = np.where(rng.random(program.n_variables) < 0.4, rng.integers(0, program.card), -1).astype(np.int32)
    bridged, best = trial.both(Question(trial.problem.theta, None, Task.MAP_CLAMPED, clamp=clamp))
    _agree(trial, "the best scores with some states fixed", bridged.score, best.score)


def selections(trial: BridgeTrial) -> None:
    """Ask about some examples, in another order."""
    ids = np.arange(trial.problem.program.n_examples, dtype=np.int64)[::-2].copy()
    bridged, best = trial.both(Question(trial.problem.theta, ids))
    _agree(trial, "the best scores of some examples", bridged.score, best.score)


def constancy(trial: BridgeTrial) -> None:
    """Rewrite twice: the programs are equal, and the given one is unchanged."""
    constraints = trial.problem.program.constraints
    given = deepcopy([group.arrays() for group in constraints])
    first, second = (trial.match().lowered() for _ in range(2))
    if first.program.content_hash != second.program.content_hash:
        raise Complaint("a second call rewrites the same constraints in another way")
    if not all(np.array_equal(one, other) for one, other in zip(first.tables, second.tables, strict=True)):
        raise Complaint("a second call makes other tables")
    for before, group in zip(given, constraints, strict=True):
        if not all(np.array_equal(one, other) for one, other in zip(before, group.arrays(), strict=True)):
            raise Complaint("it wrote to the constraints")


def masks(trial: BridgeTrial) -> None:
    """Exclude some states by a mask, and others by their scores."""
    problem = trial.problem
    program, rng = problem.program, np.random.default_rng(problem.program.n_states)
    allowed = rng.random(program.n_states) < 0.8
    theta = problem.theta.copy()
    theta.node[rng.random(program.n_states) < 0.1] = -np.inf
    for table in theta.tables:
        table[rng.random(table.shape) < 0.1] = -np.inf
    allowed &= True if program.allowed is None else program.allowed
    masked = Problem(f"{problem.name}, masked", replace(program, allowed=allowed), theta)
    optimum(replace(trial, problem=masked))
    marginals(replace(trial, problem=masked))


def _agree(trial: BridgeTrial, what: str, bridged: np.ndarray, best: np.ndarray) -> None:
    if not trial.problem.agree(bridged, best):
        raise Complaint(f"{what} are {bridged.tolist()} behind it, {best.tolist()} by all labellings")
