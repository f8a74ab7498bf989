"""The interface of solvers of linear programs over local polytopes, and HiGHS through SciPy; see also ``math_opt.py``.

All get ``max score . mu`` subject to ``matrix @ mu = right_side``, ``mu >= 0``, with scores between -1 and 0 and some
columns fixed at zero.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from time import thread_time
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, vstack

from ssvm_backends.programs.local_polytope import LocalPolytope
from ssvm_backends.programs.ortools_modules import import_ortools, ortools_version
from ssvm_backends.programs.session import Kept
from ssvm_dsl.ir import F64, Bools, Stop
from ssvm_dsl.plugin_api import Clock, call_in_process, call_in_thread, loading

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


# -- GLOP and PDLP through OR-Tools' MathOpt: by its public interface, and by the messages below it ------------------
#
# MathOpt takes the whole model as one message of flat arrays, which needs no Python loop; the constant part of the
# message is made once for each structure and copied.  A basis goes in and comes out with each call, so that answers
# depend on nothing else and a session may serve several threads.
#
# From scratch GLOP is told to use the dual simplex method (no score is above zero, so the duals zero are feasible right
# away): measured on a 30 x 30 grid of 5 states it is six times faster than the primal one.  The basis of an earlier
# answer remains feasible when scores change, so from there the primal method is used.
#
# Answers of the public interface are dictionaries with an object for each variable and each row.  Making them takes
# longer than to solve a small problem: :class:`MathOptCore` does without where OR-Tools allows it.

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
        """See :class:`Solver`."""
        import_ortools(*MODULES)
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
    for item, value in (values_of or {}).items():
        out[item.id] = value
    return out


def _in_order(status_of: dict[Any, Any]) -> list[Any]:
    """Return the statuses of all variables or rows in the order of their numbers."""
    return [status for _, status in sorted((item.id, status) for item, status in status_of.items())]


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


# -- The same by messages in place of objects ------------------------------------------------------------------------
#
# The public interface of MathOpt turns each answer into dictionaries of objects and each update back into messages.
# The compiled module below it takes and returns the messages themselves, and its solver continues from the scores
# alone. It is not part of the public interface, so it is used only where :func:`objection` finds nothing: OR-Tools is
# of a version that was tested, and a small problem is solved by it once in each process.
#
# What the public interface costs (processor time, times as long as this): a fit with ``risk="relaxed"`` of six scans of
# 150 points 2.0, its predictions 2.6; single calls from a basis 2.3 to 4.8 and from scratch 1.2 to 2.2 (14 variables
# each joined with each, grids of 4 x 4, 10 x 10 and 30 x 30). For PDLP it is 1.15, so that PDLP is asked in public.

#: ``SSVM_ORTOOLS=public`` asks for the public interface.
VARIABLE, PUBLIC = "SSVM_ORTOOLS", "public"

#: Versions of OR-Tools that were tested.
TESTED = ("9.15",)


def import_math_opt(solver: str) -> None:
    """Import what :func:`math_opt` needs; where ``"auto"`` may come to ask PDLP, that call does.

    Raises
    ------
    PluginError
        The OR-Tools that is installed cannot be used.
    """
    if solver == "pdlp" or _public():
        import_ortools(*MODULES)


def math_opt(name: str) -> MathOpt:
    """Return GLOP or PDLP by the interface that works with the OR-Tools that is installed."""
    return MathOpt(name) if name == "pdlp" or _public() else MathOptCore()


def _public() -> bool:
    """Return whether the public interface is used."""
    return os.environ.get(VARIABLE) == PUBLIC or bool(objection())


@cache
def objection() -> str:
    """Return why the module below the public interface is not used, ``""`` where it is."""
    version = ortools_version()
    if not any(version == one or version.startswith(f"{one}.") for one in TESTED):
        return f"OR-Tools {version} is installed, and OR-Tools {', '.join(TESTED)} is what was tested"
    try:
        with loading():
            _solve_twice()
    except Exception as err:  # whatever another version has changed
        return f"MathOpt is not as expected ({type(err).__name__}: {' '.join(str(err).split())[:200]})"
    return ""


def _solve_twice() -> None:
    """Solve ``max x`` for ``0 <= x <= 1``, then ``max -x`` from its basis on a solver that stays alive.

    Raises
    ------
    Exception
        Of whatever kind, if something is not as expected.
    """
    from ortools.math_opt import callback_pb2, model_parameters_pb2, model_pb2, parameters_pb2
    from ortools.math_opt.core.python import solver
    from ortools.util.python.solve_interrupter import SolveInterrupter

    model, kind = model_pb2.ModelProto(), parameters_pb2.SOLVER_TYPE_GLOP
    model.variables.ids.append(0)
    model.variables.lower_bounds.append(0.0)
    model.variables.upper_bounds.append(1.0)
    model.variables.integers.append(False)
    model.objective.maximize = True
    model.objective.linear_coefficients.ids.append(0)
    model.objective.linear_coefficients.values.append(1.0)
    start = model_parameters_pb2.ModelSolveParametersProto()
    parameters, initial = parameters_pb2.SolveParametersProto(), parameters_pb2.SolverInitializerProto()
    question = start, None, callback_pb2.CallbackRegistrationProto(), None, SolveInterrupter().pybind_interrupter
    first = solver.solve(model, kind, initial, parameters, *question).solutions[0]
    start.initial_basis.CopyFrom(first.basis)
    persistent = PersistentModel(model, kind, np.zeros(1, dtype=bool))
    persistent.price(np.array([-1.0]), np.zeros(1, dtype=bool))
    again = persistent.solver.solve(parameters, *question).solutions[0]
    values = [_dense(one.primal_solution.variable_values, 1)[0] for one in (first, again)]
    if values != [1.0, 0.0]:
        raise ValueError(f"the largest values of x and -x are at {values}")


class MathOptCore(MathOpt):
    """GLOP, asked by messages."""

    def __init__(self) -> None:
        from ortools.math_opt import parameters_pb2

        super().__init__("glop")
        self._type = parameters_pb2.SOLVER_TYPE_GLOP
        self._idle: Kept[LocalPolytope, deque[PersistentModel]] = Kept(lambda polytope: (deque(), polytope.n_columns))

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> LPOutcome:
        """See :class:`Solver`."""
        from ortools.math_opt import callback_pb2, parameters_pb2
        from ortools.math_opt.core.python import solver

        start, watched = self._start(warm), callback_pb2.CallbackRegistrationProto()
        interrupter = interrupter_for(polytope)
        stop = None if interrupter is None else interrupter.pybind_interrupter
        if start.HasField("initial_basis"):
            return self._go_on(polytope, score, closed, clock, (start, None, watched, None, stop), interrupter)
        model = priced_model(self._frame(polytope, clock), score, closed, polytope.side.most)
        parameters, initial = self._messages(clock, polytope), parameters_pb2.SolverInitializerProto()

        def call() -> Any:
            return solver.solve(model, self._type, initial, parameters, start, None, watched, None, stop)

        return self._finished(call, interrupter, polytope, clock)

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
            model = priced_model(self._frame(polytope, clock), score, closed, polytope.side.most)
            persistent = PersistentModel(model, self._type, closed)
        else:
            persistent.price(score, closed)
        parameters = self._messages(clock, polytope)
        parameters.lp_algorithm = parameters_pb2.LP_ALGORITHM_PRIMAL_SIMPLEX
        parameters.presolve = parameters_pb2.EMPHASIS_OFF
        outcome = self._finished(lambda: persistent.solver.solve(parameters, *question), interrupter, polytope, clock)
        idle.append(persistent)
        return outcome

    def _messages(self, clock: Clock, polytope: LocalPolytope) -> Any:
        from ortools.math_opt import parameters_pb2 as proto

        out = proto.SolveParametersProto()
        out.lp_algorithm = proto.LP_ALGORITHM_DUAL_SIMPLEX
        if clock.end < np.inf:
            out.time_limit.FromNanoseconds(int(1e9 * seconds_left(clock, polytope)))
        if clock.limits.iterations is not None:
            out.iteration_limit = clock.limits.iterations
        return out

    def _start(self, warm: Any) -> Any:
        """Return model parameters with the basis to start from, if it is this solver's."""
        from ortools.math_opt import model_parameters_pb2

        out = model_parameters_pb2.ModelSolveParametersProto()
        if isinstance(warm, tuple) and warm[0] == self.name:
            out.initial_basis.CopyFrom(warm[1])
        return out

    def _outcome(self, result: Any, polytope: LocalPolytope) -> LPOutcome:
        from ortools.math_opt import result_pb2

        reason, limit = result.termination.reason, result.termination.limit
        if reason in (result_pb2.TERMINATION_REASON_INFEASIBLE, result_pb2.TERMINATION_REASON_INFEASIBLE_OR_UNBOUNDED):
            return LPOutcome(infeasible=True)
        reached, stop = reason == result_pb2.TERMINATION_REASON_OPTIMAL, Stop.FINISHED
        if not reached:
            stop = Stop.ITERATIONS if limit == result_pb2.LIMIT_ITERATION else Stop.TIME
        if not result.solutions:
            return LPOutcome(stop=stop)
        solution = result.solutions[0]
        n_rows, n_columns = polytope.all_rows[0].shape
        mu = _dense(solution.primal_solution.variable_values, n_columns)[: polytope.n_columns]
        duals = _dense(solution.dual_solution.dual_values, n_rows)
        warm = (self.name, solution.basis) if solution.HasField("basis") else None
        return LPOutcome(mu if reached else None, duals, False, stop, warm, result.solve_stats.simplex_iterations)


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


def _dense(vector: Any, n: int) -> F64:
    values = np.array(vector.values, dtype=np.float64)
    if len(values) == n:  # ids are in order
        return values
    out = np.zeros(n)
    out[np.array(vector.ids, dtype=np.int64)] = values
    return out
