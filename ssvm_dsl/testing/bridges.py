"""The conformance kit of bridges: compares answers behind them with those of trying every labelling.

Answers of exact elimination behind the bridge are compared with those of trying every labelling of the problem itself.
Log partitions and lists of the k best tell a labelling with two completions from one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Unpack

import numpy as np

from ssvm_dsl.inference.bridging.bridges import BridgeMatch
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Group, Program, Question, Solution, Task, Theta
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.plugin_api import BackendSpec, BridgeSpec, ConstraintSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.constraints import best_scores
from ssvm_dsl.testing.kind_problems import kind_problem
from ssvm_dsl.testing.kit import Complaint, ConformanceReport, HowToRun, MakingKit, NotForThisCase, Rule, some_case
from ssvm_dsl.testing.problems import Problem


def bridge_problem(kind: str, seed: int, plugins: Registry) -> Problem:
    """Return the problem that a kind makes of a seed; every second one also has random tables of two variables."""
    problem = kind_problem(kind, seed, plugins)
    return problem if seed % 2 == 0 else linked(problem, np.random.default_rng(seed))


def linked(problem: Problem, rng: np.random.Generator) -> Problem:
    """Return a problem with tables of random pairs of variables: trees, cycles and unconnected graphs."""
    program = problem.program
    pairs: dict[tuple[int, ...], list[tuple[int, int, int]]] = {}
    for i in range(program.n_examples):
        first, n = int(program.var_ptr[i]), int(program.var_ptr[i + 1] - program.var_ptr[i])
        for _ in range(rng.integers(0, n + 1) if n > 1 else 0):
            u, v = (first + rng.choice(n, 2, replace=False)).tolist()
            pairs.setdefault((int(program.card[u]), int(program.card[v])), []).append((i, u, v))
    groups, tables = list(program.groups), list(problem.theta.tables)
    for cards, pairs_of_cards in pairs.items():
        counts = np.bincount([i for i, _, _ in pairs_of_cards], minlength=program.n_examples)
        scope = np.array([(u, v) for _, u, v in pairs_of_cards], dtype=np.int32)
        rows = np.arange(len(pairs_of_cards), dtype=np.int32)
        name = f"pairs {cards[0]} {cards[1]}"
        groups.append(Group.of(name, cards, scope, pointers(counts), rows, len(pairs_of_cards), program.var_ptr))
        tables.append(rng.integers(-3, 4, (len(pairs_of_cards), cards[0] * cards[1])).astype(float))
    made: Program = replace(program, groups=tuple(groups)).validate()
    return Problem(f"linked {problem.name}", made, Theta.of(made, problem.theta.node, tables, problem.theta.const))


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


#: The checks, then the properties that some problem of a bridge must have.
RULES: tuple[Rule[BridgeSpec, BridgeTrial], ...] = (
    Rule("optimum", optimum),
    Rule("kbest", kbest),
    Rule("marginals", marginals),
    Rule("masks", masks),
    Rule("clamps", clamps),
    Rule("selected examples", selections),
    Rule("constancy", constancy),
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

    kind, rules, making = "bridge", RULES, "rewritten"
    methods: ClassVar = {"check": ("example",), "lower": ("example",)}

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
