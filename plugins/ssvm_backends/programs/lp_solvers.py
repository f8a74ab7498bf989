"""The solvers behind ``lp``: GLOP and PDLP through OR-Tools' MathOpt, HiGHS through SciPy.

All get ``max score . mu`` subject to ``matrix @ mu = right_side``, ``mu >= 0``, with scores between -1 and 0 and some
columns fixed at zero.  MathOpt takes the whole model as one message of flat arrays, which needs no Python loop; the
constant part of the message is made once for each structure and copied.  A basis goes in and comes out with
each call, so that answers depend on nothing else and a session may serve several threads.

From scratch GLOP is told to use the dual simplex method (no score is above zero, so the duals zero are feasible right
away): measured on a 30 x 30 grid of 5 states it is six times faster than the primal one.  The basis of an earlier
answer remains feasible when scores change, so from there the primal method goes on, on a solver that stays alive: it
is told the new scores only.  On small problems most of a warm call is the library's own work around the simplex
method; building the model anew would double it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import thread_time
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, vstack

from ssvm_backends.programs.local_polytope import LocalPolytope
from ssvm_backends.programs.session import Kept, run_interruptibly
from ssvm_dsl.ir import F64, Bools, Stop
from ssvm_dsl.plugin_api import Clock

#: The modules of OR-Tools that take long to import.
MATH_OPT = ("ortools.math_opt.core.python.solver", "ortools.util.python.solve_interrupter")

#: Columns from which on a solve takes long enough for Ctrl-C to come in between (below: some milliseconds).
LONG_COLUMNS = 1000

#: Seconds for each entry of the equations that it takes to write the constant part of the model.
FRAME_SECONDS = 700e-9

#: Seconds for each entry that a solver takes to load and to reduce a model, in which it does not look at the clock.
START_SECONDS = 1.5e-6

#: Seconds for each entry that it takes to read an answer and prove its bound; kept back from time limits.
AFTERWARDS = 500e-9


@dataclass(frozen=True, eq=False)
class LPOutcome:
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


def _left(clock: Clock, polytope: LocalPolytope) -> float:
    """Return the seconds for a solver; raise ``OutOfTime`` where none are left."""
    afterwards = AFTERWARDS * polytope.nnz
    clock.afford(START_SECONDS * polytope.nnz + afterwards)
    return clock.left - afterwards


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
        self._frame: Kept[LocalPolytope, Any] = Kept(
            lambda polytope, clock: (_frame(polytope, clock), polytope.n_columns)
        )
        self._idle: Kept[LocalPolytope, deque[PersistentModel]] = Kept(lambda polytope: (deque(), polytope.n_columns))

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> LPOutcome:
        """See :class:`Solver`."""
        from ortools.math_opt import callback_pb2, parameters_pb2
        from ortools.math_opt.core.python import solver
        from ortools.util.python.solve_interrupter import SolveInterrupter

        start, watched = self._start(warm), callback_pb2.CallbackRegistrationProto()
        interrupter = SolveInterrupter() if polytope.n_columns >= LONG_COLUMNS else None
        stop = None if interrupter is None else interrupter.pybind_interrupter
        if self.name == "glop" and start.HasField("initial_basis"):
            return self._go_on(polytope, score, closed, clock, (start, None, watched, None, stop), interrupter)
        model = _priced_model(self._frame(polytope, clock), score, closed, polytope.side.most)
        parameters, initial = self._parameters(clock, polytope), parameters_pb2.SolverInitializerProto()

        def call() -> Any:
            return solver.solve(model, self._type, initial, parameters, start, None, watched, None, stop)

        return self._finished(call, interrupter, polytope)

    def _go_on(
        self,
        polytope: LocalPolytope,
        score: F64,
        closed: Bools,
        clock: Clock,
        question: tuple[Any, ...],
        interrupter: Any,
    ) -> LPOutcome:
        """Solve from a basis, on a solver that no other thread is using."""
        from ortools.math_opt import parameters_pb2

        idle = self._idle(polytope)
        try:
            persistent = idle.pop()
        except IndexError:
            model = _priced_model(self._frame(polytope, clock), score, closed, polytope.side.most)
            persistent = PersistentModel(model, self._type, closed)
        else:
            persistent.price(score, closed)
        parameters = self._parameters(clock, polytope)
        parameters.lp_algorithm = parameters_pb2.LP_ALGORITHM_PRIMAL_SIMPLEX
        parameters.presolve = parameters_pb2.EMPHASIS_OFF
        outcome = self._finished(lambda: persistent.solver.solve(parameters, *question), interrupter, polytope)
        idle.append(persistent)
        return outcome

    def _finished(self, call: Callable[[], Any], interrupter: Any, polytope: LocalPolytope) -> LPOutcome:
        """Make the call, interruptibly where there is an interrupter, and return its outcome."""

        def timed() -> tuple[Any, float]:
            begin = thread_time()  # in the thread that makes the call
            return call(), thread_time() - begin

        if interrupter is None:
            result, seconds = timed()
            return replace(self._outcome(result, polytope), seconds=seconds)
        (result, seconds), interrupted = run_interruptibly(timed, interrupter.interrupt)
        outcome = replace(self._outcome(result, polytope), seconds=seconds)
        return replace(outcome, stop=Stop.INTERRUPTED) if interrupted else outcome

    def _parameters(self, clock: Clock, polytope: LocalPolytope) -> Any:
        from ortools.math_opt import parameters_pb2 as proto

        out = proto.SolveParametersProto()
        if self.name == "glop":
            out.lp_algorithm = proto.LP_ALGORITHM_DUAL_SIMPLEX
        if clock.end < np.inf:
            out.time_limit.FromNanoseconds(int(1e9 * _left(clock, polytope)))
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

    def _outcome(self, result: Any, polytope: LocalPolytope) -> LPOutcome:
        from ortools.math_opt import model_parameters_pb2, result_pb2

        reason, limit = result.termination.reason, result.termination.limit
        if reason in (result_pb2.TERMINATION_REASON_INFEASIBLE, result_pb2.TERMINATION_REASON_INFEASIBLE_OR_UNBOUNDED):
            return LPOutcome(infeasible=True)
        reached, stop = reason == result_pb2.TERMINATION_REASON_OPTIMAL, Stop.FINISHED
        if not reached:
            stop = Stop.ITERATIONS if limit == result_pb2.LIMIT_ITERATION else Stop.TIME
        if not result.solutions:
            return LPOutcome(stop=stop)
        found, warm = result.solutions[0], None
        n_rows, n_columns = polytope.all_rows[0].shape
        mu = _dense(found.primal_solution.variable_values, n_columns)[: polytope.n_columns]
        duals = _dense(found.dual_solution.dual_values, n_rows)
        if self.name == "glop" and found.HasField("basis"):
            warm = found.basis
        elif self.name == "pdlp":
            warm = model_parameters_pb2.SolutionHintProto(
                variable_values=found.primal_solution.variable_values, dual_values=found.dual_solution.dual_values
            )
        steps = result.solve_stats.simplex_iterations + result.solve_stats.first_order_iterations
        return LPOutcome(
            mu if reached else None, duals, False, stop, None if warm is None else (self.name, warm), steps
        )


class PersistentModel:
    """A GLOP solver that stays alive with the structure of one polytope.

    Parameters
    ----------
    model : ModelProto
    kind : SolverTypeProto
    closed : ndarray of bool, shape (n_columns,)
        Columns that the model fixes at zero.
    """

    def __init__(self, model: Any, kind: Any, closed: Bools) -> None:
        from ortools.math_opt import parameters_pb2
        from ortools.math_opt.core.python import solver

        self.solver, self._closed = solver.new(kind, model, parameters_pb2.SolverInitializerProto()), closed
        self._columns = list(range(len(closed)))

    def price(self, score: F64, closed: Bools) -> None:
        """Tell the solver other scores, and which columns are closed if these are others."""
        from ortools.math_opt import model_update_pb2

        update = model_update_pb2.ModelUpdateProto()
        changes = update.objective_updates.linear_coefficients
        changes.ids.extend(self._columns)
        changes.values.extend(score.tolist())
        if not np.array_equal(closed, self._closed):
            changes = update.variable_updates.upper_bounds
            changes.ids.extend(self._columns)
            changes.values.extend(np.where(closed, 0.0, np.inf).tolist())
            self._closed = closed
        self.solver.update(update)


def _frame(polytope: LocalPolytope, clock: Clock) -> Any:
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


def _priced_model(frame: Any, score: F64, closed: Bools, most: F64) -> Any:
    """Return a model with scores; ``most`` are the upper bounds of the auxiliary columns."""
    model = type(frame)()
    model.CopyFrom(frame)
    model.variables.upper_bounds.extend(np.where(closed, 0.0, np.inf).tolist() + most.tolist())
    used = np.flatnonzero(score)
    model.objective.linear_coefficients.ids.extend(used.tolist())
    model.objective.linear_coefficients.values.extend(score[used].tolist())
    return model


def _dense(vector: Any, n: int) -> F64:
    values = np.array(vector.values, dtype=np.float64)
    if len(values) == n:  # ids are in order
        return values
    out = np.zeros(n)
    out[np.array(vector.ids, dtype=np.int64)] = values
    return out


class Highs:
    """HiGHS's choice of simplex and interior point methods; always from scratch, and not interruptible."""

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> LPOutcome:
        """See :class:`Solver`."""
        from scipy.optimize import linprog

        options: dict[str, Any] = {}
        if clock.end < np.inf:
            options["time_limit"] = _left(clock, polytope)
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
        begin = thread_time()
        found = linprog(
            cost, A_eq=equal, b_eq=polytope.right_side, bounds=bounds, method="highs", options=options, **unequal
        )
        seconds = thread_time() - begin
        if found.status == 2:
            return LPOutcome(infeasible=True)
        duals = None if found.eqlin.marginals is None else -np.asarray(found.eqlin.marginals, dtype=np.float64)
        if duals is not None:
            of_side, limits = np.zeros(side.n_rows), -np.asarray(found.ineqlin.marginals, dtype=np.float64)
            np.add.at(of_side, over, limits[: len(over)])
            np.add.at(of_side, under, -limits[len(over) :])
            duals = np.concatenate([duals, of_side])
        if found.status == 0:
            return LPOutcome(np.asarray(found.x)[:n], duals, iterations=int(found.nit), seconds=seconds)
        stop = Stop.TIME if clock.limits.iterations is None or clock.over else Stop.ITERATIONS
        return LPOutcome(duals=duals, stop=stop, iterations=int(found.nit), seconds=seconds)
