"""What users get, outside of fits and predictions: a backend's answers, the problem of a fit, a trainer by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler import Grounded, ground
from ssvm_dsl.errors import OptionError, meant
from ssvm_dsl.inference.planning.planner import AUTO, accepted_guarantee, need_of, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.ir import I32, I64, Ability, Guarantee, Limits, Program, Question, Solution, Task, Theta
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.objective import RegularizedRisk, regularized_risk
from ssvm_dsl.learning.risks.kinds import Problem as TrainingProblem
from ssvm_dsl.learning.risks.kinds import Risk, find_risk
from ssvm_dsl.plugin_api import Session, Trainer, TrainerNeeds, TrainerSpec
from ssvm_dsl.registry import Registry, loss_function, registry
from ssvm_dsl.requirements.programs import program_need
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.testing.problems import Problem

# -- a backend's answer to a problem, as users get it: planned, verified, bounds rounded outwards ------------------


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


#: Makes, from a session, the session that answers in its place.
Around = Callable[[Session], Session]


def training_problem(
    model: type[Model],
    X: Any,
    Y: Sequence[Any],
    *,
    risk: str = "margin",
    backend: str = AUTO,
    trainer: str | None = None,
    lam: float = 1.0,
    regularization: Mapping[Any, float] | None = None,
    power: float = 1.0,
    sample_weight: ArrayLike | None = None,
    backend_options: dict[str, Any] | None = None,
    n_threads: int = 1,
    around: Around | None = None,
) -> TrainingProblem:
    """Return the problem that ``fit`` gives to a trainer, without limits of time.

    Parameters
    ----------
    model : class
    X, Y : sequences
        As for ``fit``.
    risk, backend : str
        A backend that is named may be less than exact.
    trainer : str, optional
        The trainer whose needs (messages, marginals) the backend has to meet.
    lam : float
        Weight of ``1/2 |w|^2`` against the mean risk.
    regularization, power, sample_weight, backend_options, n_threads
        As for the estimator and ``fit``.
    around : callable, optional
        Makes, from the session of the backend, the one that answers in its place, such as one that counts calls.

    Raises
    ------
    PluginError
        There is no such risk, backend or trainer.
    NoBackendError
        The backend does not answer the questions of trainer and risk.
    """
    needs = registry().find(TrainerSpec, trainer).needs if trainer is not None else TrainerNeeds()
    grounded = ground(model, X, Y, custom_losses=loss_function)

    def objective(parameters: ParameterMap) -> RegularizedRisk:
        weight = np.ones(grounded.n_examples) if sample_weight is None else np.asarray(sample_weight, float)
        return regularized_risk(parameters, lam, weight, regularization, power)

    return problem_of(grounded, find_risk(risk), needs, objective, backend, n_threads, around, backend_options)


def problem_of(
    grounded: Grounded,
    risk: Risk,
    needs: TrainerNeeds,
    objective: Callable[[ParameterMap], RegularizedRisk],
    backend: str = AUTO,
    n_threads: int = 1,
    around: Around | None = None,
    options: dict[str, Any] | None = None,
) -> TrainingProblem:
    """Return the problem of a risk on grounded data as a fit makes it.

    Parameters
    ----------
    grounded : Grounded
    risk : Risk
    needs : TrainerNeeds
        Requirements of the trainer on the backend.
    objective : callable
        Given the parameters, returns the objective over them.
    backend : str
    n_threads : int
    around : callable, optional
        As for :func:`training_problem`.
    options : dict, optional
        The backend's options.
    """
    loss = grounded.loss
    assert loss is not None
    parameters = risk.asked_about(grounded.parameters, loss)
    tasks, abilities, enough, _ = risk.asks(loss, needs)
    weakest = accepted_guarantee(backend, Guarantee.BOUND if risk.relaxed else Guarantee.EXACT, enough)
    need = need_of(parameters, tasks, weakest, abilities, priced=risk.loss(loss).factors)
    plan = plan_program(parameters.program, need, backend, options)
    session: Any = open_plan(plan, parameters.program, outwards=False)
    session = session if around is None else around(session)
    return risk.problem(parameters, loss, objective(parameters), session, Threads(n_threads), needs)


def make_trainer(name: str, options: dict[str, Any] | None = None, random_state: int = 0) -> Trainer:
    """Return an installed trainer; options that are not given have their defaults.

    Raises
    ------
    PluginError
        There is none of that name, or it cannot be loaded.
    OptionError
        An option is unknown, or its value is not allowed.
    """
    spec = registry().find(TrainerSpec, name)
    trainer: Trainer = spec.load()(**spec.resolve(options), random_state=random_state)
    return trainer
