"""The solvers behind ``lp``: GLOP and PDLP through OR-Tools' MathOpt, HiGHS through SciPy.

All get ``max score . mu`` subject to ``matrix @ mu = right_side``, ``mu >= 0``, with scores between -1 and 0 and some
columns fixed at zero.  MathOpt takes the whole model as one message of flat arrays, which needs no Python loop; the
constant part of the message is made once for each structure and copied.  A basis goes in and comes out with
each call, so that warm starts need no solver that stays alive, and a session may serve several threads.

GLOP is told to use the dual simplex method (no score is above zero, so the duals zero are feasible right away):
measured on a 30 x 30 grid of 5 states it is six times faster than the primal one from scratch, and as fast as that
from the basis of an earlier answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ssvm_backends._graphs.by_example import Clock
from ssvm_backends._programs.local_polytope import F64, LocalPolytope
from ssvm_backends._programs.session import Kept, run_interruptibly
from ssvm_dsl.ir import Stop

Bools = NDArray[np.bool_]

#: Columns from which on a solve takes long enough for Ctrl-C to come in between (below: some milliseconds).
LONG_COLUMNS = 1000

#: Seconds for each column that it takes to read an answer and prove its bound; kept back from time limits.
AFTERWARDS = 1e-6


@dataclass(frozen=True)
class Outcome:
    """What a solver returned.

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


class Solver(Protocol):
    """Solves linear programs over local polytopes."""

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> Outcome:
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
            ``Outcome.warm`` of an earlier call with the same polytope.
        """


def _left(clock: Clock, n_columns: int) -> float:
    return max(0.0, clock.left - AFTERWARDS * n_columns)


class MathOpt:
    """GLOP or PDLP.

    Parameters
    ----------
    name : {"glop", "pdlp"}
    """

    def __init__(self, name: str) -> None:
        from ortools.math_opt import parameters_pb2

        self.name = name
        self._type = {"glop": parameters_pb2.SOLVER_TYPE_GLOP, "pdlp": parameters_pb2.SOLVER_TYPE_PDLP}[name]
        self._frame: Kept[LocalPolytope, Any] = Kept(lambda polytope: (_frame(polytope), polytope.n_columns))

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> Outcome:
        """See :class:`Solver`."""
        from ortools.math_opt import callback_pb2, parameters_pb2
        from ortools.math_opt.core.python import solver
        from ortools.util.python.solve_interrupter import SolveInterrupter

        model = _priced_model(self._frame(polytope), score, closed)
        start = self._start(warm)
        parameters, interrupter = self._parameters(clock, polytope.n_columns), SolveInterrupter()
        initial, watched = parameters_pb2.SolverInitializerProto(), callback_pb2.CallbackRegistrationProto()

        def call() -> Any:
            stop = interrupter.pybind_interrupter
            return solver.solve(model, self._type, initial, parameters, start, None, watched, None, stop)

        long = polytope.n_columns >= LONG_COLUMNS
        result, interrupted = run_interruptibly(call, interrupter.interrupt) if long else (call(), False)
        outcome = self._outcome(result, polytope)
        return replace(outcome, stop=Stop.INTERRUPTED) if interrupted else outcome

    def _parameters(self, clock: Clock, n_columns: int) -> Any:
        from ortools.math_opt import parameters_pb2 as proto

        out = proto.SolveParametersProto()
        if self.name == "glop":
            out.lp_algorithm = proto.LP_ALGORITHM_DUAL_SIMPLEX
        if clock.end < np.inf:
            out.time_limit.FromNanoseconds(int(1e9 * _left(clock, n_columns)))
        if clock.limits.iterations is not None:
            out.iteration_limit = clock.limits.iterations
        return out

    def _start(self, warm: Any) -> Any:
        """Return model parameters with the basis (GLOP) or the point (PDLP) to start from, if it is this solver's."""
        from ortools.math_opt import model_parameters_pb2

        out = model_parameters_pb2.ModelSolveParametersProto()
        if not (isinstance(warm, tuple) and warm[0] == self.name):
            return out
        if self.name == "glop":
            out.initial_basis.CopyFrom(warm[1])
        else:
            out.solution_hints.append(warm[1])
        return out

    def _outcome(self, result: Any, polytope: LocalPolytope) -> Outcome:
        from ortools.math_opt import model_parameters_pb2, result_pb2

        reason, limit = result.termination.reason, result.termination.limit
        if reason in (result_pb2.TERMINATION_REASON_INFEASIBLE, result_pb2.TERMINATION_REASON_INFEASIBLE_OR_UNBOUNDED):
            return Outcome(infeasible=True)
        reached, stop = reason == result_pb2.TERMINATION_REASON_OPTIMAL, Stop.FINISHED
        if not reached:
            stop = Stop.ITERATIONS if limit == result_pb2.LIMIT_ITERATION else Stop.TIME
        if not result.solutions:
            return Outcome(stop=stop)
        found, warm = result.solutions[0], None
        mu = _dense(found.primal_solution.variable_values, polytope.n_columns)
        duals = _dense(found.dual_solution.dual_values, polytope.matrix.shape[0])
        if self.name == "glop" and found.HasField("basis"):
            warm = found.basis
        elif self.name == "pdlp":
            warm = model_parameters_pb2.SolutionHintProto(
                variable_values=found.primal_solution.variable_values, dual_values=found.dual_solution.dual_values
            )
        steps = result.solve_stats.simplex_iterations + result.solve_stats.first_order_iterations
        return Outcome(mu if reached else None, duals, False, stop, None if warm is None else (self.name, warm), steps)


def _frame(polytope: LocalPolytope) -> Any:
    """Return the model without its scores."""
    from ortools.math_opt import model_pb2

    model, matrix = model_pb2.ModelProto(), polytope.matrix
    n_rows, n = matrix.shape
    model.variables.ids.extend(range(n))
    model.variables.lower_bounds.extend([0.0] * n)
    model.variables.integers.extend([False] * n)
    model.linear_constraints.ids.extend(range(n_rows))
    right = polytope.right_side.tolist()
    model.linear_constraints.lower_bounds.extend(right)
    model.linear_constraints.upper_bounds.extend(right)
    rows = np.repeat(np.arange(n_rows), np.diff(matrix.indptr))
    model.linear_constraint_matrix.row_ids.extend(rows.tolist())
    model.linear_constraint_matrix.column_ids.extend(matrix.indices.tolist())
    model.linear_constraint_matrix.coefficients.extend(matrix.data.tolist())
    model.objective.maximize = True
    return model


def _priced_model(frame: Any, score: F64, closed: Bools) -> Any:
    model = type(frame)()
    model.CopyFrom(frame)
    model.variables.upper_bounds.extend(np.where(closed, 0.0, np.inf).tolist())
    used = np.flatnonzero(score)
    model.objective.linear_coefficients.ids.extend(used.tolist())
    model.objective.linear_coefficients.values.extend(score[used].tolist())
    return model


def _dense(vector: Any, n: int) -> F64:
    out = np.zeros(n)
    out[np.array(vector.ids, dtype=np.int64)] = vector.values
    return out


class Highs:
    """HiGHS's choice of simplex and interior point methods; always from scratch, and not interruptible."""

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> Outcome:
        """See :class:`Solver`."""
        from scipy.optimize import linprog

        options: dict[str, Any] = {}
        if clock.end < np.inf:
            options["time_limit"] = _left(clock, polytope.n_columns)
        if clock.limits.iterations is not None:
            options["maxiter"] = clock.limits.iterations
        bounds = np.stack([np.zeros(len(score)), np.where(closed, 0.0, np.inf)], axis=1)
        found = linprog(
            -score, A_eq=polytope.matrix, b_eq=polytope.right_side, bounds=bounds, method="highs", options=options
        )
        if found.status == 2:
            return Outcome(infeasible=True)
        duals = None if found.eqlin.marginals is None else -np.asarray(found.eqlin.marginals, dtype=np.float64)
        if found.status == 0:
            return Outcome(np.asarray(found.x, dtype=np.float64), duals, iterations=int(found.nit))
        stop = Stop.TIME if clock.limits.iterations is None or clock.over else Stop.ITERATIONS
        return Outcome(duals=duals, stop=stop, iterations=int(found.nit))
