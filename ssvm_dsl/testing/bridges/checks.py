"""The checks of the conformance kit for bridges; each looks at one problem whose constraints the bridge rewrites.

Answers of exact elimination behind the bridge are compared with those of trying every labelling of the problem itself.
Log partitions and lists of the k best tell a labelling with two completions from one.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np

from ssvm_dsl.inference.bridging.bridge_match import BridgeMatch
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question, Solution, Task
from ssvm_dsl.plugin_api import BackendSpec, BridgeSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.testing.backends.judge import Complaint
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.problems import Problem

#: Labellings in lists of the best.
BEST = 6

#: Who answers behind the bridge, and where it leaves constraints of other kinds.
EXACT, ANY = "junction-tree", "brute-force"


def behind(bridge: BridgeSpec, problem: Problem, question: Question, plugins: Registry) -> Solution:
    """Return a verified answer through a bridge."""
    left = BridgeMatch.of(bridge, problem.program, plugins).lowered().program.constraints
    backend = plugins.find(BackendSpec, ANY if left else EXACT)
    plan = Plan(backend.name, "", "", options=backend.resolve(None), bridges=(bridge.name,))
    return open_plan(plan, problem.program, plugins).solve(question)


def optimum(bridge: BridgeSpec, problem: Problem, plugins: Registry) -> None:
    """Ask for best labellings: the best scores, none where there is none, bounds that say so."""
    question = Question(problem.theta)
    found, best = behind(bridge, problem, question, plugins), BruteForceSession(problem.program).solve(question)
    _agree(problem, "the best scores", found.score, best.score)
    if (found.optimal() != (best.score > -np.inf)).any():
        raise Complaint("what exact elimination finds behind it is not proved")


def kbest(bridge: BridgeSpec, problem: Problem, plugins: Registry) -> None:
    """Ask for the k best labellings: the same scores, none of them twice."""
    question = Question(problem.theta, None, Task.KBEST, k=BEST)
    found, best = behind(bridge, problem, question, plugins), BruteForceSession(problem.program).solve(question)
    for k in range(BEST):
        _agree(problem, f"the scores of rank {k + 1}", found.score[k], best.score[k])


def marginals(bridge: BridgeSpec, problem: Problem, plugins: Registry) -> None:
    """Ask for marginals and log partitions."""
    question = Question(problem.theta, None, Task.MARGINALS)
    found, best = behind(bridge, problem, question, plugins), BruteForceSession(problem.program).solve(question)
    assert found.log_partition is not None
    assert best.log_partition is not None
    _agree(problem, "log partitions", found.log_partition, best.log_partition)
    mine, others = found.needed_marginals(), best.needed_marginals()
    for one, other in zip((mine.node, *mine.tables), (others.node, *others.tables), strict=True):
        if not np.allclose(one, other, atol=1e-7):
            raise Complaint(f"marginals {one.tolist()!r:.200} behind it, {other.tolist()!r:.200} by all labellings")


def clamps(bridge: BridgeSpec, problem: Problem, plugins: Registry) -> None:
    """Fix the states of some variables."""
    rng, program = np.random.default_rng(problem.program.n_variables), problem.program
    clamp = np.where(rng.random(program.n_variables) < 0.4, rng.integers(0, program.card), -1).astype(np.int32)
    question = Question(problem.theta, None, Task.MAP_CLAMPED, clamp=clamp)
    found, best = behind(bridge, problem, question, plugins), BruteForceSession(program).solve(question)
    _agree(problem, "the best scores with some states fixed", found.score, best.score)


def selections(bridge: BridgeSpec, problem: Problem, plugins: Registry) -> None:
    """Ask about some examples, in another order."""
    ids = np.arange(problem.program.n_examples, dtype=np.int64)[::-2].copy()
    question = Question(problem.theta, ids)
    found, best = behind(bridge, problem, question, plugins), BruteForceSession(problem.program).solve(question)
    _agree(problem, "the best scores of some examples", found.score, best.score)


def constancy(bridge: BridgeSpec, problem: Problem, plugins: Registry) -> None:
    """Rewrite twice: the same program, and nothing written to what is given."""
    given = deepcopy([group.arrays() for group in problem.program.constraints])
    first, second = (BridgeMatch.of(bridge, problem.program, plugins).lowered() for _ in range(2))
    if first.program.content_hash != second.program.content_hash:
        raise Complaint("it makes something else of the same constraints when it is asked again")
    if not all(np.array_equal(one, other) for one, other in zip(first.tables, second.tables, strict=True)):
        raise Complaint("its tables are others when it is asked again")
    for before, group in zip(given, problem.program.constraints, strict=True):
        if not all(np.array_equal(one, other) for one, other in zip(before, group.arrays(), strict=True)):
            raise Complaint("it wrote to the constraints")


def masks(bridge: BridgeSpec, problem: Problem, plugins: Registry) -> None:
    """Rule some states out by a mask, and others by their scores."""
    program, rng = problem.program, np.random.default_rng(problem.program.n_states)
    allowed = rng.random(program.n_states) < 0.8
    theta = problem.theta.copy()
    theta.node[rng.random(program.n_states) < 0.1] = -np.inf
    for table in theta.tables:
        table[rng.random(table.shape) < 0.1] = -np.inf
    allowed &= True if program.allowed is None else program.allowed
    masked = Problem(f"{problem.name}, masked", replace(program, allowed=allowed), theta)
    optimum(bridge, masked, plugins)
    marginals(bridge, masked, plugins)


def _agree(problem: Problem, what: str, found: np.ndarray, best: np.ndarray) -> None:
    if not problem.agree(found, best):
        raise Complaint(f"{what} are {found.tolist()} behind it, {best.tolist()} by all labellings")
