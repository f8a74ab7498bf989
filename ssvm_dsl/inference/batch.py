"""Solve a whole batch: scores and answers in parts of examples, spread over an executor.

The parts depend on the program only, so that answers do not depend on the number of threads.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, OutOfTime
from ssvm_dsl.inference.diagnosis.conflicts import conflict
from ssvm_dsl.inference.diagnosis.missing_answers import MissingAnswers
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.session import refuse_interrupted
from ssvm_dsl.inference.starting.labelling import unanswered
from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import TIME, Solution, join_solutions
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.scores.parameter_map import ParameterMap

#: States (unary scores) in one part of a batch: enough work to hide Python, few enough to share among threads.
PART_STATES = 131072


def split_examples(state_ptr: I64, ids: I64) -> list[I64]:
    """Return the examples in parts of about ``PART_STATES`` states each.

    Parameters
    ----------
    state_ptr : ndarray of int64, shape (B + 1,)
        First state of each example.
    ids : ndarray of int64
    """
    states = (state_ptr[1:][ids] - state_ptr[ids]).cumsum()
    if len(ids) == 0 or states[-1] <= PART_STATES:
        return [ids]
    part = (states - 1) // PART_STATES
    return np.split(ids, np.flatnonzero(np.diff(part)) + 1)


def solve_batch(
    parameters: ParameterMap,
    session: PlannedSession,
    executor: Executor,
    w: F64,
    task: Task = Task.MAP,
    k: int = 1,
    first: int = 0,
    deadline: Deadline | None = None,
    missing: MissingAnswers | None = None,
) -> Solution:
    """Return the answers for all examples of a program under weights w; marginals are those of variables.

    ``first`` is the number of the first example in messages.  Answers that the deadline cut short are what was found
    by then; each example has its share of the time.  Examples without an answer are noted in ``missing``; where that
    is left out, they are an error.

    Raises
    ------
    DataError
        Scores are no numbers.
    InfeasibleError
        An example has no labelling that masks and constraints allow.
    NoLabellingError
        The backend has none to show for an example, maybe because time was up.
    KeyboardInterrupt
        Ctrl-C came, even if the backend caught it.
    """
    program = parameters.program
    theta = Theta.zeros(program)
    parameters.fill_shared(w, theta)

    def part(ids: I64 | None) -> Solution:
        try:
            parameters.fill_examples(w, theta, ids)
        except DataError as err:
            raise err.shifted(first) from err.__cause__
        question = Question(theta, ids, task, k=k, tables=task is not Task.MARGINALS)
        try:
            if deadline is None or deadline.limit == np.inf:
                solution = session.solve(question)
            else:
                mine = deadline if ids is None else deadline.share(len(ids) / (program.n_examples - int(ids[0])))
                with within(mine):
                    solution = session.solve(question)
        except OutOfTime:
            if task is not Task.MARGINALS:
                raise
            return unanswered(program, question)
        return solution if solution.complete else refuse_interrupted(solution)

    if program.n_states <= PART_STATES:
        solution = part(None)
    else:
        ids = np.arange(program.n_examples, dtype=np.int64)
        solution = join_solutions(executor.map(part, split_examples(program.state_ptr[program.var_ptr], ids)))
    if solution.complete:
        return solution
    noted = MissingAnswers(task) if missing is None else missing
    why = partial(conflict, session.program, theta, until=deadline)
    noted.add(session.plan, session.guarantee, solution, first, why)
    if missing is None:
        noted.check()
    if np.logical_or.reduce(solution.stop == TIME):  # whoever is told so will ask what is proved all the same
        solution.terms = Terms.of(program, theta)
    return solution
