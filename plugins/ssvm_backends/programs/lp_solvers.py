"""The interface of solvers of linear programs over local polytopes, and HiGHS through SciPy; see also ``math_opt.py``.

All get ``max score . mu`` subject to ``matrix @ mu = right_side``, ``mu >= 0``, with scores between -1 and 0 and some
columns fixed at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, vstack

from ssvm_backends.programs.local_polytope import LocalPolytope
from ssvm_dsl.ir import F64, Bools, Stop
from ssvm_dsl.plugin_api import Clock, call_in_process

#: Seconds for each entry that a solver takes to load and to reduce a model, in which it does not check the clock.
START_SECONDS = 1.5e-6

#: Seconds for each entry that it takes to read an answer and prove its bound; kept back from time limits.
AFTERWARDS = 500e-9


#: Columns from which on a solve takes long enough for Ctrl-C to come in between (below: some milliseconds).
LONG_COLUMNS = 1000


@dataclass(frozen=True, eq=False)
class LPOutcome:
    """The result of a solver.

    Parameters
    ----------
    mu, duals : ndarray of float64, optional
    infeasible : bool
        Proved that no mu is feasible.
    stop : Stop
    warm : object
    iterations : int
    """

    mu: F64 | None = None
    duals: F64 | None = None
    infeasible: bool = False
    stop: Stop = Stop.FINISHED
    warm: Any = None
    iterations: int = 0
    seconds: float = 0.0


class Solver(Protocol):
    """Solves linear programs over local polytopes."""

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> LPOutcome:
        """Maximise.

        Parameters
        ----------
        polytope : LocalPolytope
        score : ndarray of float64, shape (n_columns,)
            Zero where closed.
        closed : ndarray of bool, shape (n_columns,)
            Columns fixed at zero.
        clock : Clock
        warm : object
            ``LPOutcome.warm`` of an earlier call with the same polytope.
        """


def seconds_left(clock: Clock, polytope: LocalPolytope) -> float:
    """Return the seconds for a solver; raise ``OutOfTime`` where none are left."""
    afterwards = AFTERWARDS * polytope.nnz
    clock.afford(START_SECONDS * polytope.nnz + afterwards)
    return max(0.0, clock.left - afterwards)  # time goes on between two looks at the clock


class Highs:
    """HiGHS's choice of simplex and interior point methods, always from scratch.

    It cannot be asked to stop: programs of more than :data:`LONG_COLUMNS` columns are solved by another process, which
    the limit or Ctrl-C ends.
    """

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> LPOutcome:
        """See :class:`Solver`."""
        options: dict[str, Any] = {}
        if clock.end < np.inf:
            options["time_limit"] = seconds_left(clock, polytope)
        if clock.limits.iterations is not None:
            options["maxiter"] = clock.limits.iterations
        side, n = polytope.side, polytope.n_columns
        least, most = np.zeros(n), np.where(closed, 0.0, np.inf)
        bounds = np.stack([np.concatenate([least, side.least]), np.concatenate([most, side.most])], axis=1)
        equal = csr_array(polytope.all_rows[0][: polytope.matrix.shape[0]])
        over, under = (np.flatnonzero(np.isfinite(one)) for one in (side.upper, side.lower))
        unequal: dict[str, Any] = {}
        if len(over) + len(under):
            unequal["A_ub"] = vstack([side.matrix[over], -side.matrix[under]])
            unequal["b_ub"] = np.concatenate([side.upper[over], -side.lower[under]])
        cost = np.concatenate([-score, np.zeros(side.n_auxiliary)])
        program = {"A_eq": equal, "b_eq": polytope.right_side, "bounds": bounds, "options": options, **unequal}
        if n < LONG_COLUMNS:
            result, seconds = timed_linprog(cost, program)
        else:
            ended = call_in_process(timed_linprog, (cost, program), clock=clock)
            if ended.value is None:
                return LPOutcome(stop=ended.stop)
            result, seconds = ended.value
        if result.status == 2:
            return LPOutcome(infeasible=True)
        duals = None if result.eqlin.marginals is None else -np.asarray(result.eqlin.marginals, dtype=np.float64)
        if duals is not None:
            of_side, limits = np.zeros(side.n_rows), -np.asarray(result.ineqlin.marginals, dtype=np.float64)
            np.add.at(of_side, over, limits[: len(over)])
            np.add.at(of_side, under, -limits[len(over) :])
            duals = np.concatenate([duals, of_side])
        if result.status == 0:
            return LPOutcome(np.asarray(result.x)[:n], duals, iterations=int(result.nit), seconds=seconds)
        return LPOutcome(duals=duals, stop=Stop.TIME, iterations=int(result.nit), seconds=seconds)


def timed_linprog(cost: F64, program: dict[str, Any]) -> tuple[Any, float]:
    """Return HiGHS's answer, and the seconds of processor time that it took."""
    from scipy.optimize import linprog

    begin = thread_time()
    result = linprog(cost, method="highs", **program)
    return result, thread_time() - begin
