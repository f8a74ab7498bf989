"""Checks that an author's class has the methods of the contract, with the arguments that the host passes.

Without these checks an author would see Python's message about a call deep in the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from pathlib import Path
from types import MethodType
from typing import Any

from ssvm_dsl.ir import Ability, Caps, Guarantee, Program, Task
from ssvm_dsl.plugin_api import Backend, ExampleSession, Session, Verdict
from ssvm_dsl.requirements.programs import program_need
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing.problems import Problem
from ssvm_dsl.testing.report import Complaint

#: Methods by name, with the arguments that the host calls them with.
BACKEND = {"check": ("need",), "open": ("program", "options")}
SESSION = {"solve": ("question",)}
EXAMPLE_SESSION = {"answer": ("example", "clock", "warm")}
TRAINER = {"steps": ("problem", "stop", "start")}
EXECUTOR = {"start": ("shards",), "run": ("function", "calls"), "close": ()}
CONSTRAINT = {"violated": ("group", "true"), "rows": ("group", "k"), "problem": ("rng",)}
BRIDGE = {"check": ("example",), "lower": ("example",)}

_PACKAGE = str(Path(__file__).parents[1])


def require_methods(made: object, methods: Mapping[str, Sequence[str]]) -> None:
    """Refuse an object that lacks a method, or whose method takes other arguments.

    Raises
    ------
    Complaint
        Names the class, the method and its arguments.
    """
    owner = type(made).__name__
    for name, arguments in methods.items():
        method = getattr(made, name, None)
        call = f"{name}({', '.join(arguments)})"
        if not callable(method):
            raise Complaint(f"{owner} has no method {call}")
        if (form := _misfit(method, *arguments)) is not None:
            raise Complaint(f"{owner}.{name} is called as {call}, but its arguments are {form}")


def require_call(
    function: Callable[..., Any], options: Mapping[str, Any], arguments: Sequence[str] = (), how: str = "made by"
) -> None:
    """Refuse a class or function that cannot be called with some arguments, and with its options by name.

    Raises
    ------
    Complaint
        Names the call that fails.
    """
    if (form := _misfit(function, *arguments, **options)) is not None:
        name = getattr(function, "__name__", repr(function))
        call = f"{name}({', '.join([*arguments, *(f'{key}=...' for key in options)])})"
        raise Complaint(f"it is {how} {call}, but its arguments are {form}")


def _misfit(function: Callable[..., Any], *args: Any, **named: Any) -> str | None:
    """Return the signature of a function that refuses these arguments; ``None`` if it takes them or has none."""
    if isinstance(function, MethodType) and _takes(function.__func__, (function.__self__, *args), named):
        return None
    try:
        form = signature(function)
    except (TypeError, ValueError):
        return None
    try:
        form.bind(*args, **named)
    except TypeError:
        return str(form)
    return None


def _takes(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a function certainly takes arguments; its signature is found once, for objects of a class in turn."""
    try:
        _signature(function).bind(*args, **named)
    except (TypeError, ValueError):
        return False
    return True


_signature = lru_cache(maxsize=256)(signature)


def opened(backend: Backend, program: Program, options: Mapping[str, Any]) -> Session:
    """Open a backend; refuse an object that is no session.

    Raises
    ------
    Complaint
        ``open`` or ``solve`` is missing, or takes other arguments.
    """
    require_methods(backend, {"open": BACKEND["open"]})
    session = backend.open(program, dict(options))
    if session is None:
        raise Complaint("open(program, options) returned None, expected a session with the method solve(question)")
    require_methods(session, SESSION)
    if isinstance(session, ExampleSession):
        require_methods(session, EXAMPLE_SESSION)
    return session


def verdict_on(
    backend: Backend, caps: Caps, problem: Problem, task: Task, options: Mapping[str, Any], *abilities: Ability
) -> Verdict | None:
    """Return what a backend says to a problem and a task; ``None`` where its ``Caps`` refuse them, or it does."""
    known = table_properties(problem.program, problem.theta)
    need = program_need(problem.program, frozenset({task}), Guarantee.HEURISTIC, frozenset(abilities), known)
    if caps.refusals(need):
        return None
    verdict = backend.check(replace(need, options=dict(options)))
    return verdict if verdict.ok else None


def authors_line(err: BaseException) -> str:
    """Return where in the author's program an exception comes from, ``" (file.py:12, in solve)"``; may be empty."""
    trace, line, file, ours = err.__traceback__, "", "", True
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            ours = True
        elif (ours and "importlib" not in code.co_filename) or code.co_filename == file:  # not in NumPy, say
            file, ours = code.co_filename, False
            line = f" ({Path(file).name}:{trace.tb_lineno}, in {code.co_name})"
        trace = trace.tb_next
    return line
