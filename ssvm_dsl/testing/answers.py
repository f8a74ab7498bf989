"""A backend's answer to a problem, as users get it: planned, verified, bounds rounded outwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ssvm_dsl.inference.planning.planner import accepted_guarantee, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Ability, Guarantee, Program, Question, Solution, Task, Theta
from ssvm_dsl.needs.program_needs import program_need
from ssvm_dsl.needs.properties import table_properties
from ssvm_dsl.plugin_api import Session
from ssvm_dsl.registry import Registry
from ssvm_dsl.testing.problems import Problem


def solve(
    program: Program,
    theta: Theta,
    backend: str = "auto",
    task: Task = Task.MAP,
    *,
    options: dict[str, Any] | None = None,
    plugins: Registry | None = None,
    **question: Any,
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
    **question
        Other fields of a :class:`~ssvm_dsl.ir.Question`: ``examples``, ``clamp``, ``k``, ``limits``, ``warm``.

    Returns
    -------
    Solution

    Raises
    ------
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
    session = open_session(program, backend, (task,), theta=theta, options=options, plugins=plugins)
    return session.solve(Question(theta, task=task, **question))


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
    """Return what a backend answers to a :class:`Problem`; parameters are those of :func:`solve`."""
    return solve(problem.program, problem.theta, backend, options=options, **question)
