"""A named backend's answer to a problem, as users get it: planned, verified, bounds rounded outwards."""

from __future__ import annotations

from typing import Any

from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Guarantee, Question, Solution, Task
from ssvm_dsl.needs.program_needs import program_need
from ssvm_dsl.needs.properties import table_properties
from ssvm_dsl.testing.problems import Problem


def answer(backend: str, problem: Problem, options: dict[str, Any] | None = None, **question: Any) -> Solution:
    """Return what an installed backend answers.

    Parameters
    ----------
    backend : str
        Its name.
    problem : Problem
        Properties of its tables (submodular, say) are computed from its scores.
    options : dict, optional
        The backend's options.
    question
        Fields of a :class:`~ssvm_dsl.ir.Question` other than the scores: ``task``, ``clamp``, ``limits`` ...

    Raises
    ------
    NoBackendError
        The backend does not take this problem.
    BackendFault
        It crashed, or its answer breaks the contract.
    """
    program, task = problem.program, question.get("task", Task.MAP)
    properties = table_properties(program, problem.theta)
    need = program_need(program, frozenset({task}), Guarantee.HEURISTIC, properties=properties)
    return open_plan(plan(need, backend, options), program).solve(Question(problem.theta, **question))
