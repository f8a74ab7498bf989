"""GLOP and PDLP as :mod:`ssvm_backends.programs.math_opt` has them, by messages in place of objects.

The public interface of MathOpt turns each answer into dictionaries of objects and each update back into messages.  The
compiled module below it takes and returns the messages themselves, and its solver continues from the scores alone.  It
is not part of the public interface, so it is used only where :func:`objection` finds nothing: OR-Tools is of a version
that was tested, and a small problem is solved by it once in each process.  Measured on a loaded machine (processor time
from a basis, public interface against this): grids of 4 x 4 variables of 3 states 4.0 against 1.0 ms, of 10 x 10
variables of 5 states 50 against 13 ms.  From scratch the public interface takes 1.7 to 2 times as long.
"""

from __future__ import annotations

import os
from collections import deque
from functools import cache
from typing import Any

import numpy as np

from ssvm_backends.programs.local_polytope import LocalPolytope
from ssvm_backends.programs.lp_solvers import LPOutcome, seconds_left
from ssvm_backends.programs.math_opt import MODULES, MathOpt, interrupter_for, priced_model
from ssvm_backends.programs.ortools_modules import import_ortools, ortools_version
from ssvm_backends.programs.session import Kept
from ssvm_dsl.ir import F64, Bools, Stop
from ssvm_dsl.plugin_api import Clock, loading

#: ``SSVM_ORTOOLS=public`` asks for the public interface.
VARIABLE, PUBLIC = "SSVM_ORTOOLS", "public"

#: Versions of OR-Tools that were tested.
TESTED = ("9.15",)


def import_math_opt() -> None:
    """Import what :func:`math_opt` needs.

    Raises
    ------
    PluginError
        The OR-Tools that is installed cannot be used.
    """
    if _public():
        import_ortools(*MODULES)


def math_opt(name: str) -> MathOpt:
    """Return GLOP or PDLP by the interface that works with the OR-Tools that is installed."""
    return MathOpt(name) if _public() else MathOptCore(name)


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
    """GLOP or PDLP, asked by messages.

    Parameters
    ----------
    name : {"glop", "pdlp"}
    """

    def __init__(self, name: str) -> None:
        from ortools.math_opt import parameters_pb2

        super().__init__(name)
        self._type = {"glop": parameters_pb2.SOLVER_TYPE_GLOP, "pdlp": parameters_pb2.SOLVER_TYPE_PDLP}[name]
        self._idle: Kept[LocalPolytope, deque[PersistentModel]] = Kept(lambda polytope: (deque(), polytope.n_columns))

    def __call__(self, polytope: LocalPolytope, score: F64, closed: Bools, clock: Clock, warm: Any) -> LPOutcome:
        """See :class:`~ssvm_backends.programs.lp_solvers.Solver`."""
        from ortools.math_opt import callback_pb2, parameters_pb2
        from ortools.math_opt.core.python import solver

        start, watched = self._start(warm), callback_pb2.CallbackRegistrationProto()
        interrupter = interrupter_for(polytope)
        stop = None if interrupter is None else interrupter.pybind_interrupter
        if self.name == "glop" and start.HasField("initial_basis"):
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
        if self.name == "glop":
            out.lp_algorithm = proto.LP_ALGORITHM_DUAL_SIMPLEX
        if clock.end < np.inf:
            out.time_limit.FromNanoseconds(int(1e9 * seconds_left(clock, polytope)))
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
        solution, warm = result.solutions[0], None
        n_rows, n_columns = polytope.all_rows[0].shape
        mu = _dense(solution.primal_solution.variable_values, n_columns)[: polytope.n_columns]
        duals = _dense(solution.dual_solution.dual_values, n_rows)
        if self.name == "glop" and solution.HasField("basis"):
            warm = solution.basis
        elif self.name == "pdlp":
            warm = model_parameters_pb2.SolutionHintProto(
                variable_values=solution.primal_solution.variable_values, dual_values=solution.dual_solution.dual_values
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


def _dense(vector: Any, n: int) -> F64:
    values = np.array(vector.values, dtype=np.float64)
    if len(values) == n:  # ids are in order
        return values
    out = np.zeros(n)
    out[np.array(vector.ids, dtype=np.int64)] = values
    return out
