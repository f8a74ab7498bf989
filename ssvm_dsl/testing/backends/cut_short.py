"""Whether what a backend says is true at whatever moment its search ends: scores, bounds, log partitions.

Large problems with known optima (:mod:`~ssvm_dsl.testing.backends.planted`) are asked about with ever more iterations,
then with ever more time.  An answer may come late here (the check of time limits is another one), but it must be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import Caps, Guarantee, Limits, Question, Solution, Stop, Task
from ssvm_dsl.needs.program_needs import program_need
from ssvm_dsl.needs.properties import table_properties
from ssvm_dsl.plugin_api import Backend, Session
from ssvm_dsl.testing.backends.judge import MARGINAL_ATOL, naming_the_question
from ssvm_dsl.testing.backends.planted import PlantedJudge, dense, planted, planted_chain
from ssvm_dsl.testing.contract import opened
from ssvm_dsl.testing.report import Complaint

#: Variables of the chain, and of the examples that have cycles where the backend takes any.
LENGTH, SIZES = 10000, (64, 900)

#: Where searches are cut: after iterations (or the last of the seconds), then after seconds.
ITERATIONS, SECONDS = (1, 2, 5, 20), (0.0, 1e-3, 8e-3, 0.05, 0.2)


def check_cut_short(backend: Backend, caps: Caps, options: Mapping[str, Any], task: Task) -> bool:
    """Ask with growing limits; return whether the backend takes any of the problems.

    Raises
    ------
    Complaint
        An answer is wrong: a score that its labelling does not have, a bound or log partition below the optimum, an
        answer called finished that is not the best.
    """
    taken = False
    for problem in (planted_chain(caps, LENGTH), dense(caps), *(planted(caps, n) for n in SIZES)):
        judge = PlantedJudge(problem, caps)
        program, theta = judge.program, judge.problem.theta
        known = table_properties(program, theta)
        need = program_need(program, frozenset({task}), Guarantee.HEURISTIC, properties=known)
        if caps.refusals(need) or not backend.check(need).ok:
            continue
        session, taken = opened(backend, program, options), True
        clamp = np.full(program.n_variables, -1, np.int32) if task is Task.MAP_CLAMPED else None
        limits = [*(Limits(SECONDS[-1], one) for one in ITERATIONS), *map(Limits, SECONDS)]
        while limits:
            question = Question(theta, None, task, clamp, None, limits.pop(0), 1)
            with naming_the_question(question, judge.problem.name):
                stop = _asked(judge, session, question)
            if stop == Stop.FINISHED:  # more would not change it
                limits = [one for one in limits if one.iterations is None][: question.limits.iterations is not None]
    return taken


def _asked(judge: PlantedJudge, session: Session, question: Question) -> int:
    """Ask, check the answer and what was said on the way to it, and return why the search stopped."""
    best, slack, said = judge.planted.best, judge.slack(0), list[tuple[float, float]]()

    def progress(score: float, bound: float) -> None:
        said.append((score, bound))

    limits = Limits(question.limits.time, question.limits.iterations, progress)
    try:
        solution = session.solve(question.replace(limits=limits))
    except (OutOfTime, TooLargeError):
        return Stop.TIME
    for score, bound in said:
        if (score > best + slack and question.task is not Task.RELAXED) or bound < best - slack:
            raise Complaint(f"progress({score!r}, {bound!r}) was called; the best score is {best!r}")
    _true(judge, question, solution)
    return int(solution.stop[0])


def _true(judge: PlantedJudge, question: Question, solution: Solution) -> None:
    """Check an answer."""
    best, slack, known = judge.planted.best, judge.slack(0), judge.planted.log_partition
    if question.task is not Task.MARGINALS:
        if question.task is not Task.RELAXED:
            judge.everything(question, solution)
        judge.bound(question, solution)
        return
    judge.form(question, solution)
    if solution.log_partition is None:
        raise Complaint("no log_partition")
    log_partition, atol = float(solution.log_partition[0]), MARGINAL_ATOL * abs(known) + slack
    if log_partition < best - slack:
        raise Complaint(f"log-partition {log_partition!r} is below the best score {best!r}")
    exact = judge.caps.guarantee is Guarantee.EXACT and solution.stop[0] == Stop.FINISHED
    if exact and abs(log_partition - known) > atol:
        raise Complaint(f"log-partition {log_partition!r}, expected {known!r}")
