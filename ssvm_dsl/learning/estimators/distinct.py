"""The k best labellings of models with latent variables: each labelling of the outputs once.

Backends rank the joint states of outputs y and latent variables h, so that one y comes several times, beside different
h.  In that order the first time that y comes has its best h: ``max_h s(y, h)``.  The best k' joint states that hold k
different y therefore hold the k best of these, each with its score.  k' grows until they do, or none are left.

Latent variables that many states suit are beside each y so many times that k' would grow without end.  Then each y is
a question of its own: the best joint state among those whose outputs differ from all that were found
(:mod:`ssvm_dsl.plugin_api.lawler`, where latent variables are never fixed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.session import refuse_interrupted
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import TIME, Solution, Stop
from ssvm_dsl.ir.theta import Theta
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
    ask: Callable[[list[int], int], list[tuple[Listed, int] | None]], n: int, k: int, over: Callable[[], bool]
) -> tuple[list[Listed | None], list[int]]:
    """Return the k best labellings of each example, all different, and the examples that have more than were found.

    Parameters
    ----------
    ask : callable
        ``(examples, k')`` returns what :func:`distinct_ranked` does for the k' best joint states of some examples.
    n : int
    k : int
    over : callable
        Whether time is up: then those that were found are all.

    Returns
    -------
    lists
        ``None`` for an example without any.
    open
    """
    out: list[Listed | None] = [None] * n
    open_examples, joint = list(range(n)), k
    while open_examples:
        answers = ask(open_examples, joint)
        left, n_outputs = [], 0
        for i, answer in zip(open_examples, answers, strict=True):
            if answer is None:
                continue
            out[i] = answer[0][:k]
            if len(answer[0]) < k and answer[1]:
                left.append(i)
                n_outputs = max(n_outputs, answer[1])
        open_examples, joint = left, GROWTH * joint
        if over() or joint > max(MOST * k, n_outputs):
            break
    return out, open_examples


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
