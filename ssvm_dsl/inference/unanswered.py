"""Refuse answers that are not there: a labelling that nobody found is never shown as one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import InfeasibleError, NoLabellingError
from ssvm_dsl.inference.plans import Plan
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.solution import Primal, Solution, Stop

#: Examples that an error names at most.
NAMED = 5


def require_answers(
    plan: Plan, solution: Solution, task: Task, first: int = 0, why: Callable[[int], str] = lambda example: ""
) -> None:
    """Raise where an example has no answer.

    Parameters
    ----------
    plan : Plan
        Of the backend that answered, for the message.
    solution : Solution
        A verified one, for the tasks ``map``, ``kbest`` or ``marginals``.
    task : Task
    first : int
        Number of the first example.
    why : callable
        Says why an answer, counted from 0, does not exist, in words; empty where it does not know.

    Raises
    ------
    InfeasibleError
        An example has no labelling that masks and constraints allow.
    NoLabellingError
        The backend found none, or a fractional solution only.
    """
    missing = np.flatnonzero(_missing(solution, task))
    if not len(missing):
        return
    bad = np.flatnonzero(solution.primal == Primal.INFEASIBLE)
    if len(bad):
        text = f"example {first + int(bad[0])} has no labelling that its masks and constraints allow"
        reason = why(int(bad[0]))
        raise InfeasibleError(f"{text}: {reason}" if reason else text)
    n = len(solution.primal)
    among = f"the examples {first} to {first + n - 1}" if first else f"{n} examples"
    whole = f"{len(missing)} of {among} ({_listed(first + missing)})"
    fractional = bool((solution.primal[missing] == Primal.FRACTIONAL).any())
    what = "marginals" if task is Task.MARGINALS else "labelling"
    late = bool((solution.stop[missing] == Stop.TIME).any())
    cause = "its search ended before it found one" + (" because time was up" if late else "")
    cause = "its solutions are fractional" if fractional else cause
    hint = ("raise time_limit, or " if late else "") + _hint(plan)
    raise NoLabellingError(f"backend '{plan.title}' has no {what} for {whole}: {cause}\n  hint: {hint}")


def _missing(solution: Solution, task: Task) -> NDArray[np.bool_]:
    """Return which examples have no answer; marginals come without labels, but with log Z where they are done."""
    none = np.asarray(solution.primal != Primal.FEASIBLE)
    if task is Task.MARGINALS and solution.log_partition is not None:
        none = np.isnan(solution.log_partition) | (solution.primal == Primal.INFEASIBLE)
    return none


def _listed(numbers: NDArray[np.int64]) -> str:
    """Return the first few numbers in words."""
    text = ", ".join(str(n) for n in numbers[:NAMED].tolist())
    return f"{'number' if len(numbers) == 1 else 'numbers'} {text}{', ...' if len(numbers) > NAMED else ''}"


def _hint(plan: Plan) -> str:
    """Return what to do."""
    off = [f"{name}='none'" for one in (plan, *plan.parts) for name, value in one.options.items() if value == "none"]
    options = f"leave out the option {', '.join(off)}, or " if off else ""
    return f"{options}take a backend that always finds a labelling: backend='auto' takes exact ones"
