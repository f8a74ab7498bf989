"""The k best labellings of models with latent variables: each labelling of the outputs once.

Backends rank the joint states of outputs y and latent variables h, so that one y comes several times, beside different
h.  In that order the first time that y comes has its best h: ``max_h s(y, h)``.  The best k' joint states that hold k
different y therefore hold the k best of these, each with its score.  k' grows until they do, or none are left.

Latent variables that many states suit are beside each y so many times that k' would grow without end.  Then each y is
a question of its own: the best joint state among those whose outputs differ from all that were found
(:mod:`ssvm_dsl.plugin_api.lawler`, where latent variables are never fixed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import NoLabellingError, OutOfTime, TimeLimitWarning
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.session import refuse_interrupted
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import TIME, Solution, Stop
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.answers import PredictionRequest
from ssvm_dsl.plugin_api.lawler import Subspace, SubspaceSolver, k_best_of

#: Labellings and their scores, best first.
Listed = list[tuple[Any, float]]

#: Joint states of one example at most, times those asked for, before each labelling is asked for by itself; or as many
#: as there are outputs, for each of which that asks a question.
MOST = 4

#: By how much longer the next list is.
GROWTH = 4


def distinct_ranked(grounded: Grounded, solution: Solution) -> list[tuple[Listed, int]]:
    """Return for each example its different labellings with their scores, and how many outputs may yet be others.

    That is 0 where no joint states are left, else the number of outputs.
    """
    layout, n_ranks = grounded.layout, len(solution.labels)
    own = ~(layout.latent | layout.auxiliary)
    ranked = [layout.decode(np.maximum(labels, 0)) for labels in solution.labels]
    listed = []
    for i in range(grounded.n_examples):
        mine = slice(int(layout.var_ptr[i]), int(layout.var_ptr[i + 1]))
        seen: dict[bytes, tuple[Any, float]] = {}
        there = solution.score[:, i] > -np.inf
        for r in np.flatnonzero(there).tolist():
            key = solution.labels[r, mine][own[mine]].tobytes()
            seen.setdefault(key, (ranked[r][i], float(solution.score[r, i])))
        listed.append((list(seen.values()), int(own[mine].sum()) if int(there.sum()) == n_ranks else 0))
    return listed


def distinct_labellings(
    examples: Sequence[Any], known: Sequence[Any] | None, request: PredictionRequest,
    ask: Callable[[Sequence[Any], PredictionRequest], list[Any]],
    by_outputs: Callable[[int, Deadline], tuple[Listed, bool]],
) -> list[Listed | None]:  # fmt: skip
    """Return the k best labellings of each example, all different; ``None`` for an example without any.

    Parameters
    ----------
    examples : sequence
    known : sequence or None
        Labels that are given, for each example.
    request : PredictionRequest
        For ``k`` labellings.
    ask : callable
        Returns what :func:`distinct_ranked` does for some examples.
    by_outputs : callable
        Returns what :func:`outputs_ranked` does for an example by its number.
    """
    k, limit = request.k, request.time_limit
    deadline = Deadline.of(limit)
    listed_of: list[Listed | None] = [None] * len(examples)
    more, joint, over = list(range(len(examples))), k, False
    while more and not over:  # the best joint states of the examples that have more labellings than were found
        part = examples if len(more) == len(examples) else [examples[i] for i in more]
        fixed = None if known is None else [known[i] for i in more]
        left = None if limit is None else max(deadline.left, 1e-3)
        try:
            asked = replace(request, k=joint, given=fixed, time_limit=left)
            answers = ask(part, asked)
        except NoLabellingError as err:
            err.found = [one if one is None else one[0] for one in err.found]
            raise
        unfinished, n_outputs = [], 0
        for i, one in zip(more, answers, strict=True):
            if one is None:
                continue
            listed_of[i] = one[0][:k]
            if len(one[0]) < k and one[1]:
                unfinished.append(i)
                n_outputs = max(n_outputs, one[1])
        more, joint = unfinished, GROWTH * joint
        over = deadline.over or joint > max(MOST * k, n_outputs)
    n_late = 0
    for place, i in enumerate(more):
        listed, late = by_outputs(i, deadline.share(1.0 / (len(more) - place)))
        listed_of[i], n_late = max(listed_of[i] or [], listed, key=len), n_late + late
    if n_late:
        which = f"the {k} best labellings of {n_late} of {len(listed_of)} examples"
        text = f"time ended the search before {which} were found"
        warn_caller(f"{text}; raise time_limit, or ask for fewer", TimeLimitWarning)
    return listed_of


def outputs_ranked(
    grounded: Grounded, session: PlannedSession, theta: Theta, k: int, deadline: Deadline
) -> tuple[Listed, bool]:
    """Return the k best labellings of the one example of some data, and whether time ended the search for more."""
    solver = _Outputs(grounded, session, theta, deadline)
    ranked = k_best_of(solver, solver.whole, k)
    if ranked.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    scores = [solver.scores[labels.tobytes()] for labels in ranked.labels]
    named = [grounded.layout.decode(labels)[0] for labels in ranked.labels]
    return list(zip(named, scores, strict=True)), ranked.stop is Stop.TIME


class _Outputs(SubspaceSolver):
    """Asks for the best joint state of each subspace of the outputs."""

    def __init__(self, grounded: Grounded, session: PlannedSession, theta: Theta, deadline: Deadline) -> None:
        program, layout = grounded.program, grounded.layout
        super().__init__(program.state_ptr)
        self.session, self.theta, self.deadline = session, theta, deadline
        self.allowed = np.ones(program.n_states, dtype=bool) if program.allowed is None else program.allowed
        self.own: Bools = ~(layout.latent | layout.auxiliary)
        self.scores: dict[bytes, float] = {}

    def whole(self) -> Subspace:
        """Return the set of all labellings."""
        return Subspace.of_all(self.allowed, len(self.own))

    def solve(self, space: Subspace, floor: Callable[[], float]) -> Subspace | None:
        """Return a subspace with its best joint state, ``None`` where it has none."""
        if self.deadline.over:
            raise OutOfTime("the time limit is over")
        theta = self.theta
        node: F64 = np.where(space.states(self.ptr), theta.node, -np.inf)
        asked = Question(Theta(node, theta.pool, theta.tables, theta.const))
        with within(self.deadline):
            solution = refuse_interrupted(self.session.solve(asked))
        score = float(solution.best[0])
        if solution.stop[0] == TIME and not solution.bound[0] <= score:
            raise OutOfTime("the time limit is over")
        if score == -np.inf:
            return None
        labels: I32 = solution.labels
        self.scores[labels.tobytes()] = score
        return space.with_best(labels, score)

    def order(self, labels: I32, free: I64) -> I64:
        """Return the outputs with a choice."""
        return free[self.own[free]]
