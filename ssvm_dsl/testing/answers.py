"""A backend's answer to a problem, as users get it: planned, verified, bounds rounded outwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import OptionError, meant
from ssvm_dsl.inference.planning.planner import accepted_guarantee, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import I32, I64, Ability, Guarantee, Limits, Program, Question, Solution, Task, Theta
from ssvm_dsl.plugin_api import Session
from ssvm_dsl.registry import Registry
from ssvm_dsl.requirements.programs import program_need
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing.problems import Problem


@checked_call
def solve(
    program: Program,
    theta: Theta,
    backend: str = "auto",
    task: Task = Task.MAP,
    *,
    options: dict[str, Any] | None = None,
    plugins: Registry | None = None,
    examples: I64 | None = None,
    clamp: I32 | None = None,
    k: int = 1,
    limits: Limits | None = None,
    warm: Any = None,
    tables: bool = True,
) -> Solution:
    """Return what a backend answers about a program.

    Parameters
    ----------
    program : Program
    theta : Theta
        Its scores; properties of its tables (submodular, say) are computed from them.
    backend : str
        A backend's name, or ``"auto"``: the cheapest one that is exact.
    task : Task
        What is asked: the best labelling by default.
    options : dict, optional
        The backend's options.
    plugins : Registry, optional
        The installed plug-ins by default.
    examples, clamp, k, limits, warm, tables
        As of :class:`~ssvm_dsl.ir.Question`.

    Returns
    -------
    Solution

    Raises
    ------
    OptionError
        A parameter is of another kind, or not one of a question.
    NoBackendError
        The backend does not take this problem.
    BackendFault
        It crashed, or its answer breaks the contract.

    Examples
    --------
    >>> from ssvm_dsl.ir import Task
    >>> from ssvm_dsl.testing import Recipe, seeded, solve
    >>> problem = seeded(Recipe(), 0)
    >>> best = solve(problem.program, problem.theta, "brute-force").score
    >>> bool((solve(problem.program, problem.theta, "lp", Task.RELAXED).bound >= best - 1e-6).all())
    True
    """
    if not isinstance(theta, Theta):
        raise OptionError(f"solve: theta must be a Theta, the scores of the program, got {type(theta).__name__}")
    if task not in list(Task):
        raise OptionError(f"solve: there is no task {task!r}{meant(task, Task)}\n  known: {', '.join(Task)}")
    session = open_session(program, backend, (Task(task),), theta=theta, options=options, plugins=plugins)
    return session.solve(Question(theta, examples, Task(task), clamp, warm, limits or Limits(), k, tables))


def open_session(
    program: Program,
    backend: str = "auto",
    tasks: Iterable[Task] = (Task.MAP,),
    *,
    theta: Theta | None = None,
    abilities: Iterable[Ability] = (),
    options: dict[str, Any] | None = None,
    plugins: Registry | None = None,
) -> Session:
    """Return a session of a backend as users get it, to ask several times.

    Parameters
    ----------
    program : Program
    backend : str
        A backend's name, or ``"auto"``: the cheapest one that is exact.
    tasks : iterable of Task
        What will be asked: best labellings by default.
    theta : Theta, optional
        Scores whose properties (submodular, say) all that are asked about will have.
    abilities : iterable of Ability
        What the session must offer beside ``solve``.
    options : dict, optional
        The backend's options.
    plugins : Registry, optional
        The installed plug-ins by default.

    Returns
    -------
    Session

    Raises
    ------
    NoBackendError
        The backend does not take this program.
    """
    need = program_need(
        program,
        frozenset(tasks),
        accepted_guarantee(backend, Guarantee.EXACT),
        frozenset(abilities),
        properties=frozenset() if theta is None else table_properties(program, theta),
    )
    return open_plan(plan_program(program, need, backend, options, plugins), program, plugins)


def answer(backend: str, problem: Problem, options: dict[str, Any] | None = None, **question: Any) -> Solution:
    """Return what a backend answers to a :class:`Problem`; other parameters are those of :func:`solve`."""
    return solve(problem.program, problem.theta, backend, options=options, **question)
