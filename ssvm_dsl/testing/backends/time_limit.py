"""Whether a backend honours ``Limits.time``: a batch that takes long without a limit must end early with one.

Problems for brute force are too small to be timed, so they are repeated until the backend takes long enough, however
quick it and the machine are.  Other work on the machine makes any answer late, so lateness alone is
not yet a fault; calling all examples finished long after the limit is one.  Where most examples have
no answer, their search was left out: the time went into reading the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ssvm_dsl.ir import Caps, Limits, Question, Solution, Stop, Task, Theta
from ssvm_dsl.plugin_api import Backend, BackendSpec
from ssvm_dsl.testing.contract import opened, verdict_on
from ssvm_dsl.testing.problems import Problem, Recipe, random_problem
from ssvm_dsl.testing.report import Complaint

#: Different examples of the batch, and how often they are repeated at most.
N_EXAMPLES, MOST_COPIES = 40, 1024

#: Seconds that the batch must take without a limit to be timed, and the share of them that is then allowed.
LEAST, SHARE = 0.1, 0.1

#: Share of the time without a limit that an answer may take: work under way, and other programs.
LATE = 0.7

#: The same for an answer that calls all examples finished: the limit, unless the time without one was misjudged.
FINISHED_LATE = 2 * SHARE

#: Share of the examples without any answer that shows that the search has ended early.
LEFT_OUT = 0.5

#: Repetitions of the batch whose cost is compared, and by which factor expected times may be off.
COST_COPIES, OFF = 2, 1e4

#: A late answer may have been unlucky; after this many in a row more examples are tried.
TRIES = 3


def check_time_limit(backend: Backend, caps: Caps, options: Mapping[str, Any], task: Task) -> bool:
    """Ask with and without a limit; return whether the backend takes the batch at all.

    Backends that are too quick on the largest batch pass.

    Parameters
    ----------
    backend : Backend
    caps : Caps
    options : mapping
    task : Task

    Raises
    ------
    Complaint
        It takes as long with a limit as without, or claims to have finished long after the limit.
    """
    copies, late = 1, None
    while True:
        batch = _Batch.open(backend, caps, options, task, copies)
        if batch is None:
            return copies > 1
        whole = batch.seconds()
        if whole >= LEAST:
            late, sure = batch.lateness(whole)
            if late is None:
                return True
            if sure or copies == MOST_COPIES:
                raise Complaint(late)
        elif copies == MOST_COPIES:
            return True
        copies = min(MOST_COPIES, copies * min(64, max(4, ceil(2 * LEAST / whole))))


def check_cost(backend: Backend, spec: BackendSpec, options: Mapping[str, Any], task: Task) -> bool:
    """Compare the time that a verdict lets plans expect with processor time; return whether the backend is asked.

    Raises
    ------
    Complaint
        They differ by more than the factor ``OFF``.
    """
    batch = _Batch.open(backend, spec.caps, options, task, COST_COPIES)
    if batch is None:
        return False
    took = min(batch.ask(Limits(), process_time)[1] for _ in range(2))
    expected = batch.cost / spec.speed
    if expected > OFF * max(took, 1e-4) or expected * OFF < took:
        text = f"check() gives {batch.n_examples} examples the cost {batch.cost:g}, at BackendSpec.speed={spec.speed:g}"
        raise Complaint(f"{text} that is {expected:.2g} s; they take {took:.2g} s of the processor")
    return True


class _Batch:
    """Some examples, repeated, and a session on them."""

    def __init__(
        self, backend: Backend, problem: Problem, options: Mapping[str, Any], task: Task, cost: float
    ) -> None:  # fmt: skip
        self.cost = cost
        self.n_examples = problem.program.n_examples
        self.session = opened(backend, problem.program, options)
        clamp = np.full(problem.program.n_variables, -1, dtype=np.int32) if task is Task.MAP_CLAMPED else None
        self.question = Question(problem.theta, task=task, clamp=clamp)

    @classmethod
    def open(cls, backend: Backend, caps: Caps, options: Mapping[str, Any], task: Task, copies: int) -> _Batch | None:
        """Return a batch that the capabilities cover, or ``None`` if the backend refuses it."""
        problem = _repeated(_examples(caps), copies)
        verdict = verdict_on(backend, caps, problem, task, options)
        return None if verdict is None else cls(backend, problem, options, task, verdict.cost)

    def ask(self, limits: Limits, clock: Callable[[], float] | None = None) -> tuple[Solution, float]:
        """Return an answer and the seconds it took."""
        clock = perf_counter if clock is None else clock
        start = clock()
        return self.session.solve(self.question.replace(limits=limits)), clock() - start

    def seconds(self) -> float:
        """Return the seconds without a limit; one-time preparation and compilation do not count."""
        return min(self.ask(Limits())[1] for _ in range(3))

    def lateness(self, whole: float) -> tuple[str | None, bool]:
        """Return the fault of the answers within a limit, and whether it is certain."""
        for _ in range(TRIES):
            limit = SHARE * whole
            solution, took = self.ask(Limits(time=limit))
            stopped = solution.stop == Stop.TIME
            left_out = stopped & (solution.score == -np.inf) & np.isnan(solution.bound)
            if took <= (LATE if stopped.any() else FINISHED_LATE) * whole or left_out.mean() > LEFT_OUT:
                return None, True
            whole = min(whole, self.ask(Limits())[1])  # it may have been the unlucky one
        text = f"{self.n_examples} examples take {whole:.3g} s, and {took:.3g} s with Limits(time={limit:.3g})"
        text += "" if stopped.any() else ", none of them with Stop.TIME"
        return f"{text}; look at the clock between examples, or more often", not stopped.any()


def _examples(caps: Caps) -> Problem:
    """Return examples that the capabilities cover."""
    recipe = Recipe(
        topology=caps.topology,
        max_arity=min(caps.max_arity, 2),
        n_examples=N_EXAMPLES,
        max_variables=8,
        max_card=2 if "binary" in caps.requires else 3,
        regular=bool(caps.requires & {"submodular", "metric", "semimetric"}),
    )
    return random_problem(np.random.default_rng(0), recipe)


def _repeated(problem: Problem, copies: int) -> Problem:
    """Return the examples repeated."""
    program, theta = problem.program, problem.theta
    examples = np.tile(np.arange(program.n_examples), copies)
    node, const = np.tile(theta.node, copies), np.tile(theta.const, copies)
    return Problem(
        f"{problem.name}, {copies} times", program.take(examples), Theta(node, theta.pool, theta.tables, const)
    )
