"""GLOP and PDLP through the public interface of OR-Tools' MathOpt.

MathOpt takes the whole model as one message of flat arrays, which needs no Python loop; the constant part of the
message is made once for each structure and copied.  A basis goes in and comes out with each call, so that answers
depend on nothing else and a session may serve several threads.

From scratch GLOP is told to use the dual simplex method (no score is above zero, so the duals zero are feasible right
away): measured on a 30 x 30 grid of 5 states it is six times faster than the primal one.  The basis of an earlier
answer remains feasible when scores change, so from there the primal method is used.

Answers of the public interface are dictionaries with an object for each variable and each row.  Making them takes
longer than to solve a small problem: see :mod:`ssvm_backends.programs.math_opt_core`, which does without where OR-Tools
allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from time import thread_time
from typing import Any

import numpy as np

from ssvm_backends.programs.local_polytope import LocalPolytope
from ssvm_backends.programs.lp_solvers import LONG_COLUMNS, LPOutcome, seconds_left
from ssvm_backends.programs.session import Kept
from ssvm_dsl.ir import F64, Bools, Stop
from ssvm_dsl.plugin_api import Clock, call_in_thread

#: The modules of OR-Tools that take long to import.
MODULES = ("ortools.math_opt.python.mathopt", "ortools.util.python.solve_interrupter")

#: Seconds for each entry of the equations that it takes to write the constant part of the model.
FRAME_SECONDS = 700e-9


@dataclass(frozen=True, eq=False)
class SolverStart:
    """The start of a later call: the statuses of a basis (GLOP) or the values of a point (PDLP).

    Parameters
    ----------
    solver : str
    columns, rows : list
        For each variable, and for each row, in their order.
    """

    solver: str
    columns: list[Any]
    rows: list[Any]


class MathOpt:
    """GLOP or PDLP.

    Parameters
    ----------
    name : {"glop", "pdlp"}
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._frame: Kept[LocalPolytope, Any] = Kept(
            lambda polytope, clock: (model_frame(polytope, clock), polytope.n_columns)
        )

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> LPOutcome:
        """See :class:`~ssvm_backends.programs.lp_solvers.Solver`."""
        from ortools.math_opt.python import mathopt

        frame = self._frame(polytope, clock)
        model = mathopt.Model.from_model_proto(priced_model(frame, score, closed, polytope.side.most))
        start = warm if isinstance(warm, SolverStart) and warm.solver == self.name else None
        solver, details = mathopt.SolverType[self.name.upper()], _details(model, start)
        interrupter, parameters = interrupter_for(polytope), self._parameters(polytope, clock, start)

        def call() -> Any:
            return mathopt.solve(model, solver, params=parameters, model_params=details, interrupter=interrupter)

        return self._finished(call, interrupter, polytope, clock)

    def _parameters(self, polytope: LocalPolytope, clock: Clock, start: SolverStart | None) -> Any:
        from ortools.math_opt.python import mathopt

        out = mathopt.SolveParameters()
        if self.name == "glop" and start is None:
            out.lp_algorithm = mathopt.LPAlgorithm.DUAL_SIMPLEX
        elif self.name == "glop":
            out.lp_algorithm, out.presolve = mathopt.LPAlgorithm.PRIMAL_SIMPLEX, mathopt.Emphasis.OFF
        if clock.end < np.inf:
            out.time_limit = timedelta(seconds=seconds_left(clock, polytope))
        out.iteration_limit = clock.limits.iterations
        return out

    def _finished(
        self, call: Callable[[], Any], interrupter: Any, polytope: LocalPolytope, clock: Clock
    ) -> LPOutcome:
        """Make the call, interruptibly where there is an interrupter, and return its outcome."""

        def timed() -> tuple[Any, float]:
            begin = thread_time()  # in the thread that makes the call
            return call(), thread_time() - begin

        if interrupter is None:
            result, seconds = timed()
            return replace(self._outcome(result, polytope), seconds=seconds)
        ended = call_in_thread(timed, interrupter.interrupt, clock)
        if ended.value is None:
            return LPOutcome(stop=ended.stop)
        result, seconds = ended.value
        outcome = replace(self._outcome(result, polytope), seconds=seconds)
        return replace(outcome, stop=Stop.INTERRUPTED) if ended.stop is Stop.INTERRUPTED else outcome

    def _outcome(self, result: Any, polytope: LocalPolytope) -> LPOutcome:
        """Return the outcome of a result of MathOpt."""
        from ortools.math_opt.python import mathopt

        reason, limit = result.termination.reason, result.termination.limit
        if reason in (mathopt.TerminationReason.INFEASIBLE, mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED):
            return LPOutcome(infeasible=True)
        reached, stop = reason is mathopt.TerminationReason.OPTIMAL, Stop.FINISHED
        if not reached:
            stop = Stop.ITERATIONS if limit is mathopt.Limit.ITERATION else Stop.TIME
        if not result.solutions:
            return LPOutcome(stop=stop)
        solution, (n_rows, n_columns) = result.solutions[0], polytope.all_rows[0].shape
        mu = _values(solution.primal_solution and solution.primal_solution.variable_values, n_columns)
        duals = _values(solution.dual_solution and solution.dual_solution.dual_values, n_rows)
        warm = None
        if self.name == "glop" and solution.basis is not None:
            warm = SolverStart(
                self.name, _in_order(solution.basis.variable_status), _in_order(solution.basis.constraint_status)
            )
        elif self.name == "pdlp":
            warm = SolverStart(self.name, mu.tolist(), duals.tolist())
        steps = result.solve_stats.simplex_iterations + result.solve_stats.first_order_iterations
        return LPOutcome(mu[: polytope.n_columns] if reached else None, duals, False, stop, warm, steps)


def interrupter_for(polytope: LocalPolytope) -> Any:
    """Return what interrupts a solve, ``None`` where it is over within milliseconds."""
    from ortools.util.python.solve_interrupter import SolveInterrupter

    return SolveInterrupter() if polytope.n_columns >= LONG_COLUMNS else None


def _details(model: Any, start: SolverStart | None) -> Any:
    """Return parameters with the start, if there is one; answers omit reduced costs, and values that are zero."""
    from ortools.math_opt.python import mathopt

    out = mathopt.ModelSolveParameters(
        variable_values_filter=mathopt.VariableFilter(skip_zero_values=True),
        dual_values_filter=mathopt.LinearConstraintFilter(skip_zero_values=True),
        reduced_costs_filter=mathopt.VariableFilter(filtered_items=()),
    )
    if start is None:
        return out
    columns = dict(zip(model.variables(), start.columns, strict=True))
    rows = dict(zip(model.linear_constraints(), start.rows, strict=True))
    if start.solver == "glop":
        out.initial_basis = mathopt.Basis(variable_status=columns, constraint_status=rows)
    else:
        out.solution_hints = [mathopt.SolutionHint(variable_values=columns, dual_values=rows)]
    return out


def _values(values_of: dict[Any, float] | None, n: int) -> F64:
    """Return the values of variables or rows by their numbers."""
    out = np.zeros(n)
    for one, value in (values_of or {}).items():
        out[one.id] = value
    return out


def _in_order(status_of: dict[Any, Any]) -> list[Any]:
    """Return the statuses of all variables or rows in the order of their numbers."""
    return [status for _, status in sorted((one.id, status) for one, status in status_of.items())]


def model_frame(polytope: LocalPolytope, clock: Clock) -> Any:
    """Return the model without its scores.

    Raises
    ------
    OutOfTime
    """
    from ortools.math_opt import model_pb2

    clock.afford(FRAME_SECONDS * polytope.nnz)
    model, (matrix, lower, upper) = model_pb2.ModelProto(), polytope.all_rows
    n_rows, n = matrix.shape
    model.variables.ids.extend(range(n))
    model.variables.lower_bounds.extend([0.0] * polytope.n_columns + polytope.side.least.tolist())
    model.variables.integers.extend([False] * n)
    model.linear_constraints.ids.extend(range(n_rows))
    model.linear_constraints.lower_bounds.extend(lower.tolist())
    model.linear_constraints.upper_bounds.extend(upper.tolist())
    rows = np.repeat(np.arange(n_rows), np.diff(matrix.indptr))
    model.linear_constraint_matrix.row_ids.extend(rows.tolist())
    model.linear_constraint_matrix.column_ids.extend(matrix.indices.tolist())
    model.linear_constraint_matrix.coefficients.extend(matrix.data.tolist())
    model.objective.maximize = True
    return model


def priced_model(frame: Any, score: F64, closed: Bools, most: F64) -> Any:
    """Return a model with scores; ``most`` are the upper bounds of the auxiliary columns."""
    model = type(frame)()
    model.CopyFrom(frame)
    model.variables.upper_bounds.extend(np.where(closed, 0.0, np.inf).tolist() + most.tolist())
    used = np.flatnonzero(score)
    model.objective.linear_coefficients.ids.extend(used.tolist())
    model.objective.linear_coefficients.values.extend(score[used].tolist())
    return model
